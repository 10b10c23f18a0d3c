"""`gdelphi api`: questions over HTTP. The application is `api/server.py`."""

from typing import Annotated

import typer

from gdelphi.app.options import ConfigOption, StoreOption, WaitOption, settings_from
from gdelphi.common.errors import GdelphiError


def command(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on [127.0.0.1]; others want a token.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port [8420].")] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=0, help="That one address may send [600]; 0: any number.")
    ] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    wait: WaitOption = None,
) -> None:
    """Answer questions over HTTP, in JSON, and serve the reports.

    Read only: stored forecasts, scores, futures, explanations, events, status. The first page shows
    the newest forecast. Anything but this machine wants the token in GDELPHI_API_TOKEN.
    """
    settings = settings_from(
        config, store=store, store_wait_seconds=wait, api__host=host, api__port=port,
        api__requests_per_minute=requests_per_minute,
    ).settings  # fmt: skip
    try:
        from gdelphi.api.server import serve_api, token_for
    except ModuleNotFoundError as error:
        raise GdelphiError(
            f'the API is not installed ({error}): pip install "gdelphi[api]"'
        ) from None
    token = token_for(settings.api.host)
    serve_api(settings, token, lambda where: typer.echo(f"gdelphi: {where} (Ctrl-C stops it)"))
