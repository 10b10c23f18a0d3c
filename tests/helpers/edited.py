"""What a test changes in a folder on purpose, as if gdelphi had written it so."""

import json
from pathlib import Path

from gdelphi.common.checksums import CHECKSUMS


def edited(folder: Path) -> Path:
    """A folder without its checksums, as earlier versions have left them: edits are no damage."""
    for path in folder.rglob(CHECKSUMS):
        path.unlink()
    training = folder / "training.json"
    if training.exists():
        said = json.loads(training.read_text())
        said.pop("weights", None)
        training.write_text(json.dumps(said))
    return folder


def flip_bit(path: Path, place: int, bit: int = 0) -> None:
    """Change one bit of a file, as a failing disk does."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)
