"""Numbers as words and as small drawings, for the parts of the page that need no script.

Drawings are SVG with attributes and classes only: a page whose Content-Security-Policy forbids
inline styles can show them, and colours follow the light or dark scheme.
"""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from gdelphi.report.content import Bin, SkillLine

SEQUENTIAL: Final = (0.10, 0.15, 0.20, 0.30, 0.50)
DIVERGING: Final = (-0.20, -0.10, -0.03, 0.03, 0.10, 0.20)


def percent(value: float | None) -> str:
    """A probability as a reader wants it: whole per cent, and never a certainty."""
    if value is None:
        return "–"
    if value < 0.005:
        return "<1%"
    return ">99%" if value > 0.995 else f"{round(value * 100)}%"


def points(value: float | None) -> str:
    """A difference of probabilities in percentage points, with a sign."""
    if value is None:
        return "–"
    whole = round(value * 100)
    return "0" if whole == 0 else f"{'+' if whole > 0 else '−'}{abs(whole)}"


def way(value: float | None) -> str:
    """The class of a difference: more, less, or none that shows."""
    whole = round((value or 0) * 100)
    return "" if whole == 0 else "up" if whole > 0 else "down"


def signed_percent(value: float) -> str:
    """A skill, to a tenth of a per cent."""
    tenth = round(value * 100, 1)
    return "0.0%" if tenth == 0 else f"{'+' if tenth > 0 else '−'}{abs(tenth):.1f}%"


def step(value: float | None, bounds: Sequence[float], letter: str) -> str:
    """The class of a colour: a letter and the number of bounds that the value has passed."""
    if value is None:
        return "none"
    return f"{letter}{sum(value >= bound for bound in bounds)}"


def bar_of_change(published: float, before: float) -> Markup:
    """A line from what was to what is, on a scale from never to always."""
    was, now = (8 + 184 * min(max(value, 0.0), 1.0) for value in (before, published))
    way = "up" if now >= was else "down"
    return Markup(
        '<svg class="dumbbell" viewBox="0 0 200 16" aria-hidden="true">'
        '<line class="track" x1="8" x2="192" y1="8" y2="8"/>'
        '<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="8" y2="8"/>'
        '<circle class="before" cx="{:.1f}" cy="8" r="4"/>'
        '<circle class="now {}" cx="{:.1f}" cy="8" r="5.5"/></svg>'
    ).format(way, was, now, was, way, now)


def sparkline(values: Sequence[int | None]) -> Markup:
    """Reports a day as a line; a day without data is a gap, not a zero."""
    known = [value for value in values if value is not None]
    top, pieces, pen = max(known, default=0) or 1, [], "M"
    for number, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        x = 2 + 116 * number / max(len(values) - 1, 1)
        pieces.append(f"{pen}{x:.1f} {22 - 20 * value / top:.1f}")
        pen = "L"
    return Markup(
        '<svg class="spark" viewBox="0 0 120 24" aria-hidden="true"><path d="{}"/></svg>'
    ).format("".join(pieces))


def reach(lines: Sequence[SkillLine]) -> float:
    """Half the width of the scale that holds all intervals of a table."""
    return max([0.01, *(abs(value) for line in lines for value in (line.low, line.high))])


def interval(line: SkillLine, most: float) -> Markup:
    """A skill with its interval; the middle is the stack."""
    low, mid, high = (
        100 + 92 * max(-1.0, min(1.0, value / most)) for value in (line.low, line.skill, line.high)
    )
    sort = "better" if line.low > 0 else "worse" if line.high < 0 else "unclear"
    return Markup(
        '<svg class="interval {}" viewBox="0 0 200 16" aria-hidden="true">'
        '<line class="zero" x1="100" x2="100" y1="0" y2="16"/>'
        '<line class="range" x1="{:.1f}" x2="{:.1f}" y1="8" y2="8"/>'
        '<circle cx="{:.1f}" cy="8" r="4"/></svg>'
    ).format(sort, low, high, mid)


def calibration_plot(bins: Sequence[Bin]) -> Markup:
    """What was said against what came, with the band that chance alone would fill."""
    ordered = sorted(bins, key=lambda b: b.said)

    def spot(said: float, came: float) -> str:
        return f"{34 + 200 * said:.1f},{206 - 200 * came:.1f}"

    band = [spot(b.said, b.high) for b in ordered] + [spot(b.said, b.low) for b in ordered[::-1]]
    most = max((b.cells for b in ordered), default=1)
    dots = [
        Markup('<circle cx="{}" cy="{}" r="{:.1f}"><title>{}</title></circle>').format(
            *spot(b.said, b.came).split(","),
            2.5 + 3.5 * (b.cells / most) ** 0.5,
            f"said {percent(b.said)}, came {percent(b.came)} of {b.cells:,} times",
        )
        for b in ordered
    ]
    ticks = [
        Markup(
            '<line class="grid" x1="{0}" x2="{0}" y1="6" y2="206"/>'
            '<line class="grid" x1="34" x2="234" y1="{1}" y2="{1}"/>'
            '<text x="{0}" y="221" text-anchor="middle">{2}</text>'
            '<text x="29" y="{3}" text-anchor="end">{2}</text>'
        ).format(34 + 2 * part, 206 - 2 * part, f"{part}%", 210 - 2 * part)
        for part in (0, 25, 50, 75, 100)
    ]
    return Markup(
        '<svg class="calibration" viewBox="0 0 246 226" role="img" aria-label="{}">{}'
        '<polygon class="band" points="{}"/>'
        '<line class="diagonal" x1="34" y1="206" x2="234" y2="6"/>'
        '<polyline points="{}"/>{}</svg>'
    ).format(
        "; ".join(f"said {percent(b.said)}, came {percent(b.came)}" for b in ordered),
        Markup("").join(ticks),
        " ".join(band),
        " ".join(spot(b.said, b.came) for b in ordered),
        Markup("").join(dots),
    )
