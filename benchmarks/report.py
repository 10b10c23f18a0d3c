"""What a report of many countries weighs and takes: python benchmarks/report.py REPORT.json [N]

The countries of a report are repeated under other codes until there are N (200), and their time
lines until they have 60 judged days; then page, charts and the other files are made from it, as
`gdelphi report` does after it has read the store. CPU seconds of one core, the least of three.
"""

import sys
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from time import process_time

from gdelphi.gdelt.countries import countries
from gdelphi.report.charts import chart_files
from gdelphi.report.content import CountryReport, Report, Timeline
from gdelphi.report.markdown import markdown
from gdelphi.report.page import render
from gdelphi.report.tables import csv_files
from gdelphi.report.timeline import DAYS

COUNTRIES = 200
TURNS = 3


def longer(timeline: Timeline | None) -> Timeline | None:
    """The same days over and over, up to the number that is shown."""
    if timeline is None:
        return None
    lines = [
        line.model_copy(
            update={
                "published": list(islice(cycle(line.published), DAYS)),
                "came": list(islice(cycle(line.came), DAYS)),
            }
        )
        for line in timeline.lines
    ]
    days = list(islice(cycle(timeline.days), DAYS))
    return timeline.model_copy(update={"days": days, "lines": lines})


def enlarged(report: Report, number: int) -> Report:
    """A report of so many countries."""
    codes = sorted({country.fips for country in countries() if country.fips})
    made: list[CountryReport] = []
    for stream, country in zip(codes[:number], cycle(report.countries), strict=False):
        changed = {"stream": stream, "timeline": longer(country.timeline)}
        made.append(country.model_copy(update=changed))
    return report.model_copy(update={"countries": made})


def main(path: Path, number: int = COUNTRIES) -> None:
    """Print sizes and times."""
    report = enlarged(Report.model_validate_json(path.read_bytes()), number)
    parts: dict[str, Callable[[], dict[str, str]]] = {
        "page": lambda: {"index.html": render(report)},
        "charts": lambda: chart_files(report),
        "tables": lambda: csv_files(report),
        "document": lambda: {"report.md": markdown(report)},
    }
    print(f"{len(report.countries)} countries, {DAYS} judged days")
    for name, make in parts.items():
        taken = []
        for _ in range(TURNS):
            began = process_time()
            files = make()
            taken.append(process_time() - began)
        size = sum(len(text.encode()) for text in files.values()) / 1e6
        print(f"{name}: {len(files)} files, {size:.1f} MB, {min(taken):.2f} s")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
