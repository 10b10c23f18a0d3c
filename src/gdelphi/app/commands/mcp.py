"""`gdelphi mcp`: questions as tools for language models. The tools are `api/tools.py`."""

from gdelphi.app.options import ConfigOption, StoreOption, WaitOption, settings_from
from gdelphi.common.errors import GdelphiError


def command(
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Offer the questions as tools to a language model's client (MCP).

    Speaks the Model Context Protocol on standard input and output, so it is started by the client,
    not by hand. Read only, as `gdelphi api`.
    """
    settings = settings_from(config, store=store, store_wait_seconds=wait).settings
    try:
        from gdelphi.api.tools import make_tools
    except ModuleNotFoundError as error:
        raise GdelphiError(
            f'the tools are not installed ({error}): pip install "gdelphi[mcp]"'
        ) from None
    make_tools(settings).run("stdio")
