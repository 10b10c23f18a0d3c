"""Part 8: the way from the last day's cloud to the day that is expected."""

from typing import Final

import numpy as np

from gdelphi.common.types import Measure
from gdelphi.forecast.expected_day import expected_day
from gdelphi.forecast.predictor import Predictor
from gdelphi.gdelt.countries import stream_name
from gdelphi.inspect.result import (
    Chart,
    ChartSeries,
    NotApplicable,
    PartResult,
    ResultTable,
    series,
    short,
)
from gdelphi.inspect.subject import OnPartStep, Subject
from gdelphi.ot.geodesic import Geodesic, geodesic

STREAMS: Final = 4
POINTS: Final = 512
TIMES: Final = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)


def inspect_path(subject: Subject, on_step: OnPartStep) -> PartResult:
    """Geodesics of transport between clouds of the last validation day and what is expected."""
    predictor = subject.predictor
    end = int(subject.validation_ends[-1])
    paths: dict[str, Geodesic] = {}
    for place in range(len(predictor.streams)):
        slots, weights = predictor.pack.cloud(end, place)
        if len(weights) < 2 or len(paths) == STREAMS:
            continue
        expected = expected_at(predictor, end, place)
        if expected is None:
            continue
        kept = np.asarray(weights[:POINTS], np.float64)
        points = predictor.pack.points(slots[:POINTS], predictor.space)
        path = geodesic(Measure(points, kept / kept.sum()), expected)
        paths[predictor.streams[place]] = path
        on_step(len(paths), STREAMS)
    if not paths:
        raise NotApplicable("no stream has reports on the last day of validation B")
    on_step(STREAMS, STREAMS)
    lengths = {stream: path.length for stream, path in paths.items()}
    farthest = max(lengths, key=lambda stream: lengths[stream])
    speeds = {stream: even_speed(path) for stream, path in paths.items()}
    return PartResult(
        verdict=(
            f"The expected day lies {short(min(lengths.values()))} to "
            f"{short(max(lengths.values()))} from the last one (W2 on the sphere, where opposite "
            f"points are 3.14 apart); farthest in {stream_name(farthest)}"
        ),
        words=(
            "The path of least effort moves each unit of a day's mass along a great circle at "
            "constant speed to where the optimal plan sends it (Benamou and Brenier). Its length "
            "is W2. A short one says that tomorrow is expected to be like today; how its mass is "
            "spread says whether everything moves a little or a few reports move far."
        ),
        charts=(
            Chart(
                "how far the units of mass go",
                "share of the mass",
                "angle",
                tuple(spread(stream, path) for stream, path in paths.items()),
            ),
        ),
        tables=(
            ResultTable(
                "paths",
                ("stream", "W2", "half of the mass goes at most", "a tenth goes at least",
                 "departure from constant speed"),
                tuple(
                    (stream_name(stream), short(lengths[stream]),
                     *(short(quantile(path, share)) for share in (0.5, 0.9)),
                     short(speeds[stream]))
                    for stream, path in paths.items()
                ),
            ),
        ),
        figures=tuple((f"w2_{stream}", length) for stream, length in lengths.items()),
    )  # fmt: skip


def expected_at(predictor: Predictor, end: int, place: int) -> Measure | None:
    """What is expected of a stream's day after `end`: by the decoder, else the mean of futures."""
    if predictor.decoder is not None:
        day = predictor.decoder.at(end)[place]
        return None if day is None else day.decoded
    at_origin = predictor.forecasts_at(predictor.sequences.day(end), ("root",))
    found = expected_day(at_origin.futures(place), predictor.settings.measures)
    return None if found is None else found.measure


def even_speed(path: Geodesic) -> float:
    """Largest departure of a unit's way from the time passed, relative to the whole way."""
    starts, lengths = path.points(0.0), path.lengths
    moving = lengths > 1e-6
    worst = 0.0
    for time in TIMES[1:-1]:
        chord = np.linalg.norm(path.points(time) - starts, axis=1)
        angle = 2 * np.arcsin(np.clip(chord / 2, 0, 1))
        parts = angle[moving] / lengths[moving]
        worst = max(worst, float(np.abs(parts - time).max(initial=0.0)))
    return worst


def quantile(path: Geodesic, share: float) -> float:
    """How far so large a share of the mass goes at most."""
    order = np.argsort(path.lengths)
    at = int(np.searchsorted(np.cumsum(path.masses[order]), share))
    return float(path.lengths[order][min(at, len(order) - 1)])


def spread(stream: str, path: Geodesic) -> ChartSeries:
    """Ways of the units of mass, the shortest first, against the mass up to them."""
    shares = np.linspace(0.02, 0.98, 33)
    return series(stream_name(stream), shares.tolist(), [quantile(path, one) for one in shares])
