"""Python's search for garbage, less often.

torch, transformers and pandas are a million objects that never become garbage. Python looks through
all of them several times while they are imported, and once more at the end of the process: 1.8 of
the 6.3 seconds of processor time that `import gdelphi.forecast.predictor` takes.
"""

import atexit
import gc
from typing import Final

ALLOCATED: Final = 10_000  # objects more than before, after which new ones are looked through


def collect_rarely() -> None:
    """For a process that is ours, at its beginning."""
    gc.set_threshold(ALLOCATED)
    atexit.unregister(gc.freeze)  # once, however often this is called
    atexit.register(gc.freeze)  # what is frozen is not looked through at the end
