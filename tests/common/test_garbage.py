"""Garbage is looked for less often, and not at the end of a process."""

import subprocess
import sys

from gdelphi.common.garbage import ALLOCATED

SCRIPT = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 0))  # the last thing done at the end
from gdelphi.common.garbage import collect_rarely
collect_rarely()
collect_rarely()
print(gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count())
class Circle:
    def __init__(self): self.self = self
    def __del__(self): gone.append(1)
gone = []
for _ in range(3 * gc.get_threshold()[0]): Circle()
print(len(gone) > 0)
"""


def test_circles_are_still_found_and_what_lives_is_left_alone_at_the_end() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", str(ALLOCATED), "0", "True", "True"]
