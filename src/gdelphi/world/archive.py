"""A simulated world as a GDELT archive: files, lists, and the truth beside them.

The folder is what a mirror of GDELT would be, so the ingester needs to know nothing of simulation.
What only a simulation has, its constants and hidden regimes, lies in the sub-folder `truth`, which
the ingester does not look into.

Days are written one by one as they happen, into a folder beside the one asked for that takes its
name at the end: a killed run leaves no half archive. Times inside zips are fixed and nothing of
the machine enters, so that the same configuration and version give the same bytes.
"""

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gdelphi import __version__
from gdelphi.common.errors import ArchiveError
from gdelphi.world.config import WorldConfig
from gdelphi.world.law import Ints, Law
from gdelphi.world.rows import (
    QUARTERS,
    ArchiveForm,
    RowMaker,
    moment_of,
)
from gdelphi.world.simulate import SimulatedDay, simulate

FIRST_ID = 1_000_000_000
SITE = "http://data.gdeltproject.org/gdeltv2"
TRUTH, WORLD_FILE, REGIMES_FILE = "truth", "world.json", "regimes.parquet"
COMPRESSION = 4  # as small as the usual 6 within 6%, in two thirds of the time
ZIP_TIME = (2013, 4, 1, 6, 0, 0)


@dataclass(frozen=True)
class Created:
    """What was written."""

    folder: Path
    days: int  # of the world, the missing ones included
    rows: int
    files: int  # event files, without lists
    missing_days: tuple[date, ...]


def create_world(
    config: WorldConfig,
    out: Path,
    form: ArchiveForm = "v1",
    on_day: Callable[[SimulatedDay], None] | None = None,
) -> Created:
    """Simulate a world and write its archive: dailies (v1) or 15-minute files (v2)."""
    out = out.expanduser().resolve()
    _refuse_if_used(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
    try:
        created = _write_world(Law(config), partial, out, form, on_day)
        _refuse_if_used(out)
        if out.exists():
            out.rmdir()
        partial.rename(out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return created


def load_world(folder: Path) -> tuple[WorldConfig, Ints, NDArray[np.bool_]]:
    """The truth of a simulated archive: its constants, regimes [S, D], missing days [D]."""
    truth = folder / TRUTH
    try:
        text = (truth / WORLD_FILE).read_text(encoding="utf-8")
        table = pq.read_table(truth / REGIMES_FILE)
    except FileNotFoundError as error:
        raise ArchiveError(
            f"{folder} is no simulated archive: {error.filename} is not there"
        ) from error
    try:
        config = WorldConfig.model_validate(json.loads(text)["config"])
    except (KeyError, ValueError) as error:
        raise ArchiveError(
            f"{truth / WORLD_FILE} is not what this version of gdelphi writes: create the world "
            f"again ({error})"
        ) from error
    shape = (config.days, config.streams)
    if table.num_rows != config.days * config.streams:
        raise ArchiveError(
            f"{truth} has {table.num_rows} regimes where {config.days} days of {config.streams} "
            "streams need as many as their product: create the world again"
        )
    regimes = table["regime"].to_numpy().reshape(shape).T.astype(np.int64)
    return config, regimes, table["missing"].to_numpy().reshape(shape)[:, 0]


def _refuse_if_used(out: Path) -> None:
    if out.exists() and not (out.is_dir() and next(out.iterdir(), None) is None):
        raise ArchiveError(f"{out} is not empty: name a new folder for the simulated world")


def _write_world(
    law: Law,
    folder: Path,
    out: Path,
    form: ArchiveForm,
    on_day: Callable[[SimulatedDay], None] | None,
) -> Created:
    folder.mkdir()
    maker, files, regimes = RowMaker(law, form), _Files(folder), []
    rows, missing = 0, []
    for day in simulate(law):
        regimes.append(day.regime.astype(np.int8))
        if day.missing:
            missing.append(day.day)
        else:
            lines, quarters = maker.lines(day, FIRST_ID + rows)
            rows += len(lines)
            for stem, text in _texts_of(day.day, lines, quarters, form):
                files.add(f"{stem}.export.CSV", text)
        if on_day is not None:
            on_day(day)
    files.write_lists(form)
    _write_truth(law, folder / TRUTH, form, regimes, missing)
    return Created(out, law.config.days, rows, len(files.listed), tuple(missing))


def _texts_of(
    day: date, lines: list[str], quarters: Ints, form: ArchiveForm
) -> Iterator[tuple[str, str]]:
    """The files of a day: beginning of the name, text."""
    if form == "v1":
        yield f"{day:%Y%m%d}", "".join(f"{line}\n" for line in lines)
        return
    ends = np.searchsorted(quarters, np.arange(QUARTERS), side="right").tolist()
    for quarter, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        text = "".join(f"{line}\n" for line in lines[begin:end])
        yield f"{moment_of(day, quarter):%Y%m%d%H%M%S}", text


class _Files:
    """Event files of a folder, and what its lists say of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listed: list[tuple[str, int, str]] = []  # name, size, md5

    def add(self, member: str, text: str) -> None:
        info = zipfile.ZipInfo(member, ZIP_TIME)
        info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
        with io.BytesIO() as buffer:
            with zipfile.ZipFile(buffer, "w") as archive:
                archive.writestr(info, text.encode(), compresslevel=COMPRESSION)
            content = buffer.getvalue()
        (self.folder / f"{member}.zip").write_bytes(content)
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        self.listed.append((f"{member}.zip", len(content), md5))

    def write_lists(self, form: ArchiveForm) -> None:
        if form == "v1":
            self._write("md5sums", [f"{md5}  {name}\n" for name, _, md5 in self.listed])
            self._write("filesizes", [f"{size} {name}\n" for name, size, _ in self.listed])
        else:
            lines = [f"{size} {md5} {SITE}/{name}\n" for name, size, md5 in self.listed]
            self._write("masterfilelist.txt", lines)
            self._write("lastupdate.txt", lines[-1:])

    def _write(self, name: str, lines: list[str]) -> None:
        (self.folder / name).write_bytes("".join(lines).encode())


def _write_truth(
    law: Law, folder: Path, form: ArchiveForm, regimes: list[NDArray[np.int8]], missing: list[date]
) -> None:
    """The constants and what was hidden, day by day and stream by stream."""
    folder.mkdir()
    streams, days = law.map.streams, [law.day(index) for index in range(law.config.days)]
    world = {
        "gdelphi": __version__,
        "form": form,
        "streams": list(streams),
        "config": law.config.model_dump(mode="json"),
    }
    text = json.dumps(world, indent=2, ensure_ascii=False) + "\n"
    (folder / WORLD_FILE).write_bytes(text.encode())
    lost = set(missing)
    table = {
        "day": pa.array([day for day in days for _ in streams], pa.date32()),
        "stream": pa.array(list(streams) * len(days), pa.string()),
        "regime": pa.array(np.concatenate(regimes)),
        "missing": pa.array([day in lost for day in days for _ in streams], pa.bool_()),
    }
    pq.write_table(pa.table(table), folder / REGIMES_FILE)
