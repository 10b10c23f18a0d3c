"""The desk: everything that forecasts are made from, loaded once, and the making of them.

    model + days up to the origin -> members -> what is published -> futures that agree with it

A desk answers for the streams that its model was trained with. All that it says about an origin is
a function of the days up to it, the model's folder and the seed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart
from gdelphi.common.types import (
    LEVELS,
    FloatArray,
    Forecast,
    Forecaster,
    IntArray,
    Level,
)
from gdelphi.forecast.expected_day import brief_of
from gdelphi.forecast.future_weights import reweight
from gdelphi.forecast.members import members
from gdelphi.forecast.naming import NameBook
from gdelphi.forecast.prediction import (
    Phrase,
    Prediction,
    StreamFutures,
)
from gdelphi.forecast.publisher import (
    Levels,
    Publisher,
    coherent,
    combination_of,
    fit_lessons,
    fit_publisher,
)
from gdelphi.forecast.stack import StackExample, default_stack
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.pack import Pack
from gdelphi.measures.pack_arrays import read_pack_arrays
from gdelphi.measures.packing import OnPacked, pack_days
from gdelphi.measures.profiles import (
    Profiles,
    occurs_of,
    read_profiles,
    shares_of,
)
from gdelphi.measures.sequences import Sequences
from gdelphi.measures.space import load_space
from gdelphi.model.checkpoint import load_checkpoint
from gdelphi.model.sampler import (
    FURTHEST,
    Sampled,
    Sampler,
)
from gdelphi.text.forecaster import TextForecaster, text_forecaster

FINE_DAYS: Final = 730  # of bases and codes that are looked back on: 290 codes are many numbers
FINE_TUNING: Final = 60  # days of validation B that their combination is fitted on, at most
BEFORE: Final = 365  # days before validation B that the stack learns from, the last ones
ROUGH_FUTURES: Final = 16  # with which combinations beyond tomorrow are fitted,
ROUGH_EVERY: Final = 3  # on each third day of validation B
ROUGH_KEPT: Final = 256


class CalibrationDays(NamedTuple):
    """Target days that what is published is fitted on."""

    before: list[date]
    """from which the stack learns too"""
    tuning: list[date]


class Predictor:
    """A model at work on a store."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        *,
        number: int = 100,
        seed: int = 0,
        on_packed: OnPacked | None = None,
        text: Path | None = None,
        namer: Path | None = None,
    ) -> None:
        """With the folder of a text forecaster, that is one more member; with that of a namer, it
        names futures, whatever names.json of the model says."""
        self.folder = folder.resolve()  # a link may be set elsewhere while this is at work
        self._checkpoint = load_checkpoint(folder)
        self.training = self._checkpoint.training
        streams = tuple(self.training["origin"]["pack"]["streams"])
        self.settings = settings.model_copy(
            update={"sequences": settings.sequences.model_copy(update={"only": streams})}
        )
        self.space = space = load_space(measures_folder(settings) / "space")
        packed = pack_days(self.settings, space, on_day=on_packed)
        self.pack = Pack(packed.folder)
        self.sequences = Sequences(self.pack, self.settings)
        self.sampler = Sampler(
            self._checkpoint, read_pack_arrays(self.pack), number=number, seed=seed
        )
        self.text = (
            None if text is None else text_forecaster(text, self.pack, number=number, seed=seed)
        )
        self.names = NameBook(self.folder, self.pack, space, namer=namer)
        self._histories: dict[Level, Profiles] = {}
        self._publishers: dict[Path, Publisher] = {}

    @property
    def streams(self) -> tuple[str, ...]:
        return self.pack.facts.streams

    # What forecasts are made with.

    def history(self, level: Level, since: date | None = None) -> Profiles:
        """The days of a level since a day, or all of them."""
        since = max(since or self.pack.first_day, self.pack.first_day)
        known = self._histories.get(level)
        if known is None or known.days[0] > since:
            last = self.sampler.last_day
            known = read_profiles(self.settings, level, self.streams, since=since, until=last)
            self._histories[level] = known
        return known

    def known_at(self, level: Level, origin: date) -> Profiles:
        """The days of a level that a forecast at an origin looks back on: all of the roots', the
        last FINE_DAYS of bases and codes. It ends with the origin."""
        since = self.pack.first_day
        if level != "root":
            since = max(since, origin - timedelta(days=FINE_DAYS - 1))
        history = self.history(level, since)
        return history if level == "root" else _cut(history, since, origin)

    def target_days(self, part: SplitPart) -> list[date]:
        """The days of a part of the split that can be targets."""
        return [self.sequences.day(int(number)) for number in self.sequences.targets(part)]

    def publisher(self, level: Level, horizon: int = 1, path: Path | None = None) -> Publisher:
        """What is published at a level; `calibrate` makes it, or `fit` in another file."""
        path = path or self.path(level, horizon)
        if path not in self._publishers:
            readings = self._readings(self.sampler, level, horizon)
            self._publishers[path] = Publisher.load(path, readings, self._fitted_to(horizon))
        return self._publishers[path]

    @cached_property
    def weights(self) -> str:
        """Digest of the model's weights: what was fitted to others does not fit."""
        return hashlib.sha256((self.folder / "model.safetensors").read_bytes()).hexdigest()[:16]

    def _fitted_to(self, horizon: int) -> str:
        """The same with the text forecaster, where it speaks."""
        text = self._text_at(horizon)
        return f"{self.weights}-{text.model.weights}" if text else self.weights

    def _text_at(self, horizon: int) -> TextForecaster | None:
        """The text forecaster, if there is one: it speaks of tomorrow only."""
        return self.text if horizon == 1 else None

    def path(self, level: Level, horizon: int = 1) -> Path:
        """Where what is published at a level is kept; with a text forecaster beside the other, for
        each of them apart."""
        further = f"-{horizon}" if horizon > 1 else ""
        text = self._text_at(horizon)
        with_text = f"-text-{text.model.weights[:8]}" if text else ""
        return self.folder / f"published-{level}{further}{with_text}.json"

    def _readings(self, sampler: Sampler, level: Level, horizon: int) -> list[Forecaster]:
        """The members beside the baselines."""
        found, text = members(sampler, self.streams, level), self._text_at(horizon)
        return [*found, text] if text else found

    def calibrated(self, horizon: int = 1) -> bool:
        """Whether what is published has been fitted."""
        return all(self.path(level, horizon).exists() for level in LEVELS)

    @cached_property
    def _rough(self) -> Sampler:
        """Fewer futures, for fitting beyond tomorrow: many origins, each with its roll-out."""
        return Sampler(
            self._checkpoint, self.sampler.outlook, number=ROUGH_FUTURES, furthest=FURTHEST,
            kept=ROUGH_KEPT,
        )  # fmt: skip

    def calibrate(self, level: Level, horizon: int = 1) -> Publisher:
        """Fit what is published at a level on validation B, and keep it beside the model."""
        days = self.calibration_days(level)
        before, tuning = days
        if horizon > 1:
            before = before[-FINE_TUNING:]
            if len(tuning) >= FINE_TUNING:
                tuning = tuning[::ROUGH_EVERY]
        sampler = self.sampler if horizon == 1 else self._rough
        readings = self._readings(sampler, level, horizon)
        fitted = fit_publisher(
            level, self._learned(level, before), readings, before=before, tuning=tuning,
            horizon=horizon,
        )  # fmt: skip
        return self._keep(fitted, self.path(level, horizon), level, horizon)

    def calibration_days(
        self, level: Level, *, until: date | None = None, known: Sequence[date] = ()
    ) -> CalibrationDays:
        """Target days that what is published is fitted on. With `until`, also those of the known
        days that lie behind validation B and before it."""
        tuning = self.target_days("validation_b")
        before = [day for part in ("train", "validation_a") for day in self.target_days(part)]
        before = before[-BEFORE:]
        if until is not None:
            last = self.sequences.splits.validation_b[1]
            tuning += [day for day in known if last < day < until]
        if level != "root":
            tuning = tuning[-FINE_TUNING:]
            before = before[-FINE_TUNING:]
        if not before or not tuning:
            raise ForecastError(
                "no days to fit what is published on: training, validation A and B need known "
                "days (split.*)"
            )
        return CalibrationDays(before, tuning)

    def _learned(self, level: Level, before: Sequence[date]) -> Profiles:
        """The days that fitting a level looks at."""
        since = None if level == "root" else before[0] - timedelta(days=FINE_DAYS)
        return self.history(level, since)

    def earlier_lessons(self, level: Level, before: Sequence[date]) -> list[StackExample]:
        """Lessons of the stack, from days before validation B."""
        return default_stack().lessons(self._learned(level, before), before)

    def lesson(self, level: Level, day: date) -> StackExample | None:
        """What all members said of a target day, and what came; None if it is not present."""
        before = self.calibration_days(level).before
        readings = self._readings(self.sampler, level, 1)
        found = combination_of(readings).lessons(self._learned(level, before), [day])
        return found[0] if found else None

    def fit(
        self,
        level: Level,
        days: CalibrationDays,
        earlier: Sequence[StackExample],
        lessons: Sequence[StackExample],
        path: Path,
    ) -> Publisher:
        """Fit what is published tomorrow on lessons, and keep it in a file of its own."""
        fitted = fit_lessons(
            level, self._readings(self.sampler, level, 1), earlier=earlier, lessons=lessons,
            days=(days.before[0], days.tuning[-1]),
        )  # fmt: skip
        return self._keep(fitted, path, level, 1)

    def _keep(self, fitted: Publisher, path: Path, level: Level, horizon: int) -> Publisher:
        fitted.save(path, self._fitted_to(horizon))
        self._publishers.pop(path, None)
        return self.publisher(level, horizon, path)

    # Forecasts.

    def predict(
        self,
        origin: date,
        streams: Sequence[str] | None = None,
        *,
        horizon: int = 1,
        partial: bool = False,
    ) -> list[Prediction]:
        """What is published about a day after an origin, for some streams or all."""
        asked = tuple(streams) if streams else self.streams
        strange = [stream for stream in asked if stream not in self.streams]
        if strange:
            raise ForecastError(
                f"the model in {self.folder} does not know {', '.join(strange)}: it was trained "
                f"with {', '.join(self.streams)}"
            )
        made = _Made(self, origin, horizon)
        return [made.prediction(self.streams.index(each), partial=partial) for each in asked]


class _Made:
    """Everything at one origin, for all streams."""

    def __init__(self, desk: Predictor, origin: date, horizon: int) -> None:
        self.desk, self.origin, self.horizon = desk, origin, horizon
        self.sampled: Sampled = desk.sampler.at(origin, horizon)
        self.histories = {level: desk.known_at(level, origin) for level in LEVELS}
        self.publishers = {level: desk.publisher(level, horizon) for level in LEVELS}
        self.published = {
            level: publisher.forecast(self.histories[level], origin, horizon)
            for level, publisher in self.publishers.items()
        }
        self.members = {
            level: {
                member.name: member.forecast(self.histories[level], origin, horizon)
                for member in [*publisher.combined.members, publisher.stack]
            }
            for level, publisher in self.publishers.items()
        }
        self.contributions = {
            level: publisher.combined.contributions(self.histories[level], origin, horizon)
            for level, publisher in self.publishers.items()
        }

    def prediction(self, place: int, *, partial: bool) -> Prediction:
        futures = self._futures(place, self.published["root"][place].occurs)
        weights = futures.tilted.weights
        levels = Levels(
            *(
                replace(
                    self.published[level][place],
                    share_samples=self._shares(level, place),
                    share_weights=weights,
                )
                for level in LEVELS
            )
        )
        return Prediction(
            stream=self.desk.streams[place],
            origin=self.origin,
            horizon=self.horizon,
            partial=partial,
            levels=coherent(levels),
            members={
                level: {name: said[place] for name, said in of_level.items()}
                for level, of_level in self.members.items()
            },
            contributions={
                level: {target: values[place] for target, values in of_level.items()}
                for level, of_level in self.contributions.items()
            },
            features={level: each.combined.features() for level, each in self.publishers.items()},
            published={
                level: {target: choice.published for target, choice in each.choices.items()}
                for level, each in self.publishers.items()
            },
            futures=futures,
            brief=brief_of(futures, self.desk.settings.measures),
        )

    def _drawn_days(self, place: int, level: Level) -> IntArray:
        """Positions in a level's history of the days that futures were drawn from, [K]."""
        first = (self.histories[level].days[0] - self.desk.pack.first_day).days
        found: IntArray = self.sampled.futures.days[place] - first
        return found

    def _shares(self, level: Level, place: int) -> FloatArray:
        """Of the days that futures were drawn from, [K, code]."""
        history = self.histories[level]
        return shares_of(history.weights[place, self._drawn_days(place, level)])

    def _futures(self, place: int, wanted: FloatArray) -> StreamFutures:
        return stream_futures(self.desk, self.sampled, place, self.histories["root"], wanted)


def stream_futures(
    desk: Predictor, sampled: Sampled, place: int, history: Profiles, wanted: FloatArray
) -> StreamFutures:
    """The futures of the stream at a place, tilted to the wanted probabilities of the roots; the
    history is that of the roots."""
    drawn = sampled.futures
    first = (history.days[0] - desk.pack.first_day).days
    happens = occurs_of(history.counts[place, drawn.days[place] - first])
    number = len(happens)
    rows, named = np.unique(drawn.rows[place], return_inverse=True)
    called = desk.pack.phrases_at(rows)
    return StreamFutures(
        days=tuple(desk.sequences.day(int(day)) for day in drawn.days[place]),
        points=drawn.points[place],
        weights=drawn.weights[place],
        gates=drawn.gates[place],
        spare=drawn.spare[place],
        phrases=tuple(Phrase(*each) for each in zip(*called, strict=True)),
        named=named.reshape(drawn.rows[place].shape),
        happens=happens,
        tilted=reweight(happens, wanted, np.full(number, 1 / number)),
        seed=desk.sampler.seed,
        names=desk.names.at(place, desk.sampler.position(sampled.origin)),
    )


def _cut(history: Profiles, since: date, until: date) -> Profiles:
    """The days of a history from one to another."""
    first = (since - history.days[0]).days
    days = slice(first, (until - history.days[0]).days + 1)
    return replace(
        history,
        days=history.days[days],
        counts=history.counts[:, days],
        weights=history.weights[:, days],
        volume=history.volume[:, days],
        present=history.present[days],
    )


def forecast_of(predictions: Sequence[Prediction], level: Level) -> list[Forecast]:
    """The published forecasts of a level."""
    return [prediction.level(level) for prediction in predictions]
