"""The path of least effort from one cloud to another.

    W2^2(mu, nu) = min over paths of the integral of |v_t|^2 dmu_t dt,  d mu/dt + div(mu v) = 0

(Benamou and Brenier 2000.) The minimum is reached by moving each unit of mass of an optimal plan
along its own geodesic at constant speed (McCann 1997), so the path needs no partial differential
equation: a plan, and great circles on the sphere or straight lines in flat space. Then
W2(mu_s, mu_t) = |t - s| W2(mu, nu).
"""

from typing import NamedTuple

import numpy as np

from gdelphi.common.errors import TransportError
from gdelphi.common.types import FloatArray, Measure
from gdelphi.ot.references import exact_plan

NEAR = 1e-9  # a sine below which great circles are lines


class Geodesic(NamedTuple):
    """A path of measures, at time 0 the source and at time 1 the target."""

    starts: FloatArray
    """of the units of mass, [k, dim]"""
    ends: FloatArray
    """[k, dim]"""
    masses: FloatArray
    """[k], summing to 1"""
    sphere: bool

    @property
    def lengths(self) -> FloatArray:
        """How far each unit goes, [k]."""
        if not self.sphere:
            lines: FloatArray = np.linalg.norm(self.ends - self.starts, axis=1)
            return lines
        return _angles(self.starts, self.ends)

    @property
    def length(self) -> float:
        """W2 of source and target, which is the speed of the path."""
        return float(np.sqrt(self.masses @ self.lengths**2))

    def points(self, time: float) -> FloatArray:
        """Where the units of mass are at a time between 0 and 1, [k, dim]."""
        if not 0 <= time <= 1:
            raise TransportError(f"time {time:g} of a geodesic: it runs from 0 to 1")
        if not self.sphere:
            return self.starts + time * (self.ends - self.starts)
        angle = self.lengths[:, None]
        sine = np.sin(angle)
        line = self.starts + time * (self.ends - self.starts)
        with np.errstate(divide="ignore", invalid="ignore"):
            turned = np.sin((1 - time) * angle) * self.starts + np.sin(time * angle) * self.ends
            there = np.where(sine > NEAR, turned / sine, line)
        # Opposite points are joined by many great circles; one of them is taken.
        opposite = (np.pi - angle[:, 0]) < 1e-6
        if opposite.any():
            aside = _aside(self.starts[opposite])
            way = time * angle[opposite]
            there[opposite] = np.cos(way) * self.starts[opposite] + np.sin(way) * aside
        unit: FloatArray = there / np.linalg.norm(there, axis=1, keepdims=True)
        return unit

    def at(self, time: float) -> Measure:
        """The measure at a time."""
        return Measure(self.points(time), self.masses)  # type: ignore[arg-type]


def geodesic(source: Measure, target: Measure, *, sphere: bool = True) -> Geodesic:
    """The path of least effort by an exact plan; for clouds of up to a few thousand points."""
    if not len(source.weights) or not len(target.weights):
        raise TransportError("an empty measure has no mass to transport: leave such days out")
    plan = exact_plan(source, target, "half squared angle" if sphere else "flat")
    row, column = np.nonzero(plan)
    masses = plan[row, column]
    return Geodesic(
        source.points.astype(np.float64)[row],
        target.points.astype(np.float64)[column],
        masses / masses.sum(),
        sphere,
    )


def _angles(one: FloatArray, two: FloatArray) -> FloatArray:
    """By the chord and its complement: exact for near points and for nearly opposite ones."""
    chord = np.linalg.norm(one - two, axis=1)
    angles: FloatArray = 2 * np.arctan2(chord, np.linalg.norm(one + two, axis=1))
    return angles


def _aside(points: FloatArray) -> FloatArray:
    """A direction at right angles to each point."""
    axis = np.eye(points.shape[1])[np.abs(points).argmin(axis=1)]
    aside = axis - (axis * points).sum(axis=1, keepdims=True) * points
    unit: FloatArray = aside / np.linalg.norm(aside, axis=1, keepdims=True)
    return unit
