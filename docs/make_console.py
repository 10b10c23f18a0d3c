"""Makes the console blocks of the documents: python docs/make_console.py [--folder F] [PAGE...]

A block that shows what a command prints has a comment on the line above it:

    <!-- console -->                                    made by this script
    <!-- console: in data/demo; first 12; last 3 -->    the same, in a folder, trimmed
    <!-- console of 2026-11-16: on what it was made --> kept as it was made that day

The script takes the lines of a block that begin with `$ `, runs them one after the other and puts
what they print below them. They run in a folder that holds data/demo, the world of `gdelphi demo`,
or, with `in` or after `cd`, in a folder below it. Each page begins with a fresh copy, so that
nothing depends on what an earlier page or run has left there. `first` and `last` say how many lines
of each command are kept; `...` stands for the others. Of the error stream only errors are shown
(`gdelphi: ...`): progress is what a terminal shows for a moment.

The demo is made once, in --folder (a temporary one if none is named), and used again where it is
there; what it printed is kept beside it and shown by blocks that call `make demo`.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
DEMO: Final = "data/demo"
PRINTED: Final = "data/demo.txt"
"""what the demo printed, beside the demo"""
WORLDS_DEMO: Final = ("make demo", "gdelphi demo")
BLOCK: Final = re.compile(
    r"^(?P<comment><!-- console(?P<given>.*?) -->\n)?```console\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)

Run = Callable[[str, str], str]
"""(command, folder that it runs in) -> what it prints"""


class Trim(NamedTuple):
    """How much of an output is shown; None: all of it."""

    first: int | None = None
    last: int | None = None

    def lines(self, text: str) -> list[str]:
        """The lines of an output that are shown."""
        lines = [line.rstrip() for line in text.strip("\n").splitlines()]
        if self.first is None and self.last is None:
            return lines
        first, last = self.first or 0, self.last or 0
        if len(lines) <= first + last:
            return lines
        return [*lines[:first], "...", *lines[len(lines) - last :]]


class Block(NamedTuple):
    """A console block of a page."""

    kept_since: str | None
    """the day on which it was made, if the script leaves it alone"""
    made: bool
    """whether the script makes it"""
    folder: str
    trim: Trim
    commands: tuple[str, ...]
    printed: tuple[str, ...]
    """the other lines"""


def block_of(match: re.Match[str]) -> Block:
    """What a match of BLOCK says."""
    given = match["given"] or ""
    dated = re.match(r" of (\d{4}-\d\d-\d\d): \S", given)
    lines = match["body"].splitlines()
    options = [] if dated else given.removeprefix(":").split(";")
    known = dict(option.split(maxsplit=1) for option in options if option)
    if unknown := set(known) - {"in", "first", "last"}:
        raise ValueError(f"console block with unknown options: {', '.join(sorted(unknown))}")
    return Block(
        kept_since=dated[1] if dated else None,
        made=match["comment"] is not None and not dated,
        folder=known.get("in", ".").strip(),
        trim=Trim(*(int(known[name]) if name in known else None for name in ("first", "last"))),
        commands=tuple(line.removeprefix("$ ") for line in lines if line.startswith("$ ")),
        printed=tuple(line for line in lines if not line.startswith("$ ")),
    )


def blocks(page: str) -> Iterator[Block]:
    """The console blocks of a page."""
    return map(block_of, BLOCK.finditer(page))


def made_anew(page: str, run: Run) -> str:
    """A page with the blocks that the script makes as they are now."""

    def again(match: re.Match[str]) -> str:
        block = block_of(match)
        if not block.made:
            return match[0]
        lines: list[str] = []
        folder = Path(block.folder)
        for command in block.commands:
            if lines and not lines[-1].startswith("$ "):
                lines.append("")
            lines.append(f"$ {command}")
            if command.startswith("cd "):
                folder /= command.removeprefix("cd ")
            else:
                lines += block.trim.lines(run(command, str(folder)))
        return f"{match['comment']}```console\n" + "\n".join(lines) + "\n```"

    return BLOCK.sub(again, page)


def make_demo(folder: Path) -> None:
    """A demo in a folder, where none is there, and what it printed."""
    if not (folder / PRINTED).exists():
        folder.mkdir(parents=True, exist_ok=True)
        printed = shell(f"gdelphi demo --out {DEMO}", folder)
        (folder / PRINTED).write_text(printed, encoding="utf-8")


def shell(command: str, folder: Path) -> str:
    """What a command prints in a folder; of the error stream errors alone."""
    path = f"PATH={shlex.quote(str(ROOT / '.venv' / 'bin'))}:$PATH; "
    done = subprocess.run(  # noqa: S603, the documents' own commands
        ["/bin/bash", "-c", path + command], cwd=folder, capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("gdelphi: ")]
    sys.stdout.write(f"  {command}: exit code {done.returncode}\n")
    return done.stdout + "\n".join(errors)


def make_page(page: Path, folder: Path) -> None:
    """Write a page again, with the outputs of its commands on a copy of the demo."""
    text = page.read_text(encoding="utf-8")
    if not any(block.made for block in blocks(text)):
        return
    sys.stdout.write(f"{page.name}\n")
    with TemporaryDirectory() as work:
        shutil.copytree(folder / DEMO, Path(work) / DEMO, symlinks=True)

        def run(command: str, where: str) -> str:
            if command.startswith(WORLDS_DEMO):
                return (folder / PRINTED).read_text(encoding="utf-8")
            return shell(command, Path(work) / where).replace(f"{work}/", "")

        page.write_text(made_anew(text, run), encoding="utf-8")


def main() -> None:
    """Make pages anew: those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--folder", type=Path, help="where the demo is, or is made")
    given = parser.parse_args()
    pages = given.pages or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    with TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        make_demo(folder)
        for page in pages:
            make_page(page, folder)


if __name__ == "__main__":
    main()
