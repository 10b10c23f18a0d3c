"""The example report with bad input in every text field."""

from typing import Any

from gdelphi.report.content import Report
from helpers.report_example import STREAMS, example_report

HOSTILE = (
    '<script>window.hacked=1</script>"\'><img src=x onerror="window.hacked=2">'
    "</script><script>window.hacked=3</script>{{ 7*7 }}{% raw %}\u202egnp.exe\u2066\u2028`${1}`&lt;"
)
LONG = "N" * 10_000


def _poison(value: Any, key: str = "") -> Any:
    """The same data with every free text hostile, sources unsafe and names endless."""
    if isinstance(value, dict):
        return {(HOSTILE if key == "members" else k): _poison(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_poison(item, key) for item in value]
    if key == "source" and value is not None and value.startswith("http"):
        return "javascript:window.hacked=4"
    if key == "source" and value is not None:
        return "data:text/html,<script>window.hacked=5</script>"
    if key in ("name", "place", "title"):
        return LONG + HOSTILE
    if key in ("code", "root", "conflict_code", "change_code", "shown") and value is not None:
        return HOSTILE + value
    free = (
        "words", "value", "label", "banners", "note", "verdict", "why", "reasons", "sentences",
        "ranked_by",
    )  # fmt: skip
    provenance = ("forecast", "data", "model", "gdelphi")
    return HOSTILE if isinstance(value, str) and key in (*free, *provenance) else value


def hostile_report() -> Report:
    """The example with bad input in every text field, and one stream whose name is an attack."""
    data = example_report(streams=tuple(STREAMS[:6])).model_dump(mode="json")
    record = {**_poison(data["record"]), "source": "backtest"}
    poisoned = {**_poison(data), "record": record}
    poisoned["countries"][5]["stream"] = HOSTILE
    poisoned["countries"][5]["iso3"] = HOSTILE
    poisoned["countries"][4]["fan"]["landmarks"] = {HOSTILE: [0.1, 0.2]}
    return Report.model_validate(poisoned)
