"""`gdelphi config`: the settings in force. The stage is `common/settings.py`."""

from rich.table import Table
from rich.text import Text

from gdelphi.app.console import out, print_json
from gdelphi.app.options import ConfigOption, JsonOption, StoreOption, settings_from
from gdelphi.common.settings import Loaded, description_of, shown_value


def command(
    json: JsonOption = False, store: StoreOption = None, config: ConfigOption = None
) -> None:
    """Print the settings in force and where each value came from.

    Settings come from gdelphi.toml, then from GDELPHI_... variables, then from flags.
    """
    loaded = settings_from(config, store=store)
    if json:
        rows = loaded.rows()
        print_json(
            {key: {"value": shown_value(key, it), "from": source} for key, it, source in rows}
        )
    else:
        show_settings(loaded)


def show_settings(loaded: Loaded) -> None:
    """Print all settings, their values and where those came from."""
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "from", "meaning"):
        table.add_column(heading, style="dim" if heading == "meaning" else None)
    for key, value, source in loaded.rows():
        table.add_row(key, Text(str(shown_value(key, value))), Text(source), description_of(key))
    out.print(table)
