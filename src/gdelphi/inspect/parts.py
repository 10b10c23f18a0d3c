"""The parts of an inspection, in the order of the page. A new part is one line here."""

from collections.abc import Callable
from typing import Final, NamedTuple

from gdelphi.inspect.clustering import inspect_clustering
from gdelphi.inspect.context import inspect_context
from gdelphi.inspect.contraction import inspect_contraction
from gdelphi.inspect.depth import inspect_depth
from gdelphi.inspect.information import inspect_information
from gdelphi.inspect.path import inspect_path
from gdelphi.inspect.result import PartResult
from gdelphi.inspect.robustness import inspect_robustness
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.inspect.subsampling import inspect_subsampling
from gdelphi.inspect.variants import inspect_variants


class Part(NamedTuple):
    """A part of the page."""

    number: int
    title: str
    look: Callable[[Subject, OnPartStep], PartResult]
    """raises NotApplicable, with the reason, where it has nothing to say"""


PARTS: Final = (
    Part(1, "Lipschitz constants and contraction", inspect_contraction),
    Part(2, "Subsampling", inspect_subsampling),
    Part(3, "Missing and wrong reports", inspect_robustness),
    Part(4, "Clustering", inspect_clustering),
    Part(5, "Information", inspect_information),
    Part(6, "Attention variants", inspect_variants),
    Part(7, "Depth as time", inspect_depth),
    Part(8, "The path to the expected day", inspect_path),
    Part(9, "Reading a law in context", inspect_context),
)
