"""The predictor: a trained model at work on a store, and the making of forecasts.

    model + days up to the origin -> members -> what is published -> futures that agree with it

A predictor answers for the streams that its model was trained with. What it forecasts at an origin
is a function of the days up to it, the model's folder and the seed.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gdelphi.common.errors import ForecastError
from gdelphi.common.files import DIGEST_LENGTH, file_digest, weights_digest
from gdelphi.common.settings import Settings
from gdelphi.common.splits import SplitPart
from gdelphi.common.types import (
    LEVELS,
    FloatArray,
    Forecast,
    Forecaster,
    Level,
)
from gdelphi.forecast.arguments import ArgumentHistory
from gdelphi.forecast.conflict_risk import read_conflict_fit
from gdelphi.forecast.decoded_day import day_decoder, name_decoded_day, read_expected_choice
from gdelphi.forecast.expected_day import expected_day_in_brief
from gdelphi.forecast.future_choice import read_future_choice
from gdelphi.forecast.make_futures import FutureMaker
from gdelphi.forecast.members import model_members
from gdelphi.forecast.naming import AtomNames
from gdelphi.forecast.prediction import (
    BriefAtom,
    Prediction,
    StreamFutures,
)
from gdelphi.forecast.publisher import (
    PUBLISHED,
    LevelForecasts,
    Publisher,
    combination_of,
    fit_examples,
    fit_publisher,
    make_coherent,
)
from gdelphi.forecast.week import OriginWeek, WeekPrediction, published_week, week_prediction
from gdelphi.measures.clouds import measures_folder
from gdelphi.measures.pack import Pack
from gdelphi.measures.pack_arrays import read_pack_arrays
from gdelphi.measures.packing import OnPacked, pack_days
from gdelphi.measures.phrases import lineage
from gdelphi.measures.profiles import Profiles, read_profiles
from gdelphi.measures.sequences import Sequences
from gdelphi.measures.space import load_space
from gdelphi.measures.targets import shares_of
from gdelphi.model.cell_fit import CELL_FOLDER, CellFit
from gdelphi.model.checkpoint import load_measure_model
from gdelphi.model.context_fit import CONTEXT_FOLDER, ContextFit
from gdelphi.model.direct_reading import DirectReading
from gdelphi.model.sampler import (
    Sampled,
    Sampler,
)
from gdelphi.stack.files import FOLDER as STACK_FOLDER
from gdelphi.stack.files import load_stack
from gdelphi.stack.fitted import CountForecasters, PooledStack
from gdelphi.stack.linear import (
    StackExample,
    ask,
    default_stack,
)
from gdelphi.stack.week import WeekStack
from gdelphi.text.forecaster import text_forecaster

FINE_DAYS: Final = 730  # of bases and codes that are looked back on: 290 codes are many numbers
FINE_EXAMPLES: Final = 60  # days of validation B that their combination is fitted on, at most
BEFORE: Final = 365  # days before validation B that the stack learns from, the last ones


class CalibrationDays(NamedTuple):
    """Target days that what is published is fitted on."""

    before: list[date]
    """from which the stack learns too"""
    validation_b: list[date]


class Predictor:
    """A trained model and the store that it forecasts from, opened once."""

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
        self._checkpoint = load_measure_model(folder)
        self.training = self._checkpoint.training
        streams = tuple(self.training["origin"]["pack"]["streams"])
        self.settings = settings.model_copy(
            update={"sequences": settings.sequences.model_copy(update={"only": streams})}
        )
        self.space = space = load_space(measures_folder(settings) / "space")
        packed = pack_days(self.settings, space, on_day=on_packed)
        self._read(Pack(packed.folder), number=number, seed=seed)
        self.text = (
            None if text is None else text_forecaster(text, self.pack, number=number, seed=seed)
        )
        self.names = AtomNames(self.folder, self.pack, space, namer=namer)
        choice = read_future_choice(self.folder)
        self.moves_atoms = choice is not None and choice.way == "moved"
        self.decoder = day_decoder(self.folder, self.pack, space)
        expected = read_expected_choice(self.folder)
        self.shows_decoder = expected is None or expected.shown == "decoder"
        conflict = read_conflict_fit(self.folder)
        self.conflict_theta = None if conflict is None else conflict.theta
        """how kinds of conflict are joined; None: as in past weeks"""
        self._histories: dict[Level, Profiles] = {}
        self._publishers: dict[Path, Publisher] = {}

    def _read(self, pack: Pack, *, number: int, seed: int) -> None:
        """Take the days of a pack."""
        self.pack = pack
        self.argument_history: ArgumentHistory | None = None
        """who did what to whom, once it has been read"""
        self.sequences = Sequences(self.pack, self.settings)
        self.pooled_stack = _pooled_stack(self.folder, self.pack)
        """what forecasts without a network; None: the simple stack alone"""
        self.week_stack = _week_stack(self.pooled_stack)
        """the same of the week ahead; None: the model knows nothing of it"""
        self._direct = self._direct_reading()
        self.sampler = Sampler(
            self._checkpoint, read_pack_arrays(self.pack), number=number, seed=seed,
            direct=self._direct.tomorrow if self._direct else None,
        )  # fmt: skip

    def with_pack(self, pack: Pack) -> "Predictor":
        """The same at work on other days of the same streams, for the roots alone: finer levels
        are read from the store, which has the days as they are."""
        other = copy(self)
        other._read(pack, number=self.sampler.number, seed=self.sampler.seed)
        other._histories, other._publishers = {}, {}
        return other

    def _stack_at(self, level: Level) -> PooledStack | None:
        """The pooled stack where it speaks: of the roots."""
        return self.pooled_stack if level == "root" else None

    @property
    def streams(self) -> tuple[str, ...]:
        """Codes of the streams that it forecasts, in the order of all arrays."""
        return self.pack.facts.streams

    # What forecasts are made from.

    def history(self, level: Level, since: date | None = None) -> Profiles:
        """The days of a level since a day, or all of them. Those of the roots are in the pack,
        those of finer levels are read from the store."""
        if level == "root":
            return self.pack.profiles
        since = max(since or self.pack.first_day, self.pack.first_day)
        history = self._histories.get(level)
        if history is None or history.days[0] > since:
            last = self.sampler.last_day
            history = read_profiles(self.settings, level, self.streams, since=since, until=last)
            self._histories[level] = history
        return history

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

    def _direct_reading(self) -> DirectReading | None:
        if self.pooled_stack is None:
            return None
        folder = self.folder / STACK_FOLDER
        cells, context = folder / CELL_FOLDER, folder / CONTEXT_FOLDER
        return DirectReading(
            self.pooled_stack,
            CellFit.load(cells) if cells.exists() else None,
            self.pack.profiles,
            self.week_stack,
            ContextFit.load(context) if context.exists() else None,
        )

    def direct_week(self, origin: date) -> FloatArray:
        """Logits of the week by stack and network, [target, horizon, stream, root]."""
        if self._direct is None:
            raise ForecastError(f"the model in {self.folder} speaks of tomorrow only")
        return self._direct.week(origin)

    # What is published: fitted by `calibrate`, kept beside the model.

    def publisher(self, level: Level, path: Path | None = None) -> Publisher:
        """What is published at a level; `calibrate` makes it, or `fit` in another file."""
        path = path or self.path(level)
        if path not in self._publishers:
            readings, pooled = self._readings(level), self._stack_at(level)
            self._publishers[path] = Publisher.load(path, readings, self._fitted_to, pooled)
        return self._publishers[path]

    @cached_property
    def weights(self) -> str:
        """Digest of the model's weights, of its stack and of its cell network: what was fitted to
        others does not fit."""
        files = [self.folder / name for name in stack_files(self.folder)]
        return "-".join(
            [weights_digest(self.folder), *(file_digest(file)[:DIGEST_LENGTH] for file in files)]
        )

    @property
    def _fitted_to(self) -> str:
        """The same with the text forecaster, where it speaks."""
        text = self.text
        return f"{self.weights}-{text.model.weights}" if text else self.weights

    def path(self, level: Level) -> Path:
        """Where what is published at a level is kept; with a text forecaster beside the other, for
        each of them apart."""
        text = self.text
        with_text = f"-text-{text.model.weights[:8]}" if text else ""
        return self.folder / f"published-{level}{with_text}.json"

    def _readings(self, level: Level) -> list[Forecaster]:
        """The members beside the baselines."""
        readings = model_members(self.sampler, self.streams, level)
        return [*readings, self.text] if self.text else readings

    def calibrated(self) -> bool:
        """Whether what is published has been fitted."""
        return all(self.path(level).exists() for level in LEVELS)

    def calibrate(self, level: Level) -> Publisher:
        """Fit what is published at a level on validation B, and keep it beside the model."""
        before, validation_b = self.calibration_days(level)
        fitted = fit_publisher(
            level,
            self._fitting_history(level, before),
            self._readings(level),
            before=before,
            validation_b=validation_b,
            pooled=self._stack_at(level),
        )
        return self._keep(fitted, self.path(level), level)

    def calibration_days(
        self, level: Level, *, until: date | None = None, known: Sequence[date] = ()
    ) -> CalibrationDays:
        """Target days that what is published is fitted on. With `until`, also those of the known
        days that lie behind validation B and before it."""
        validation_b = self.target_days("validation_b")
        before = [day for part in ("train", "validation_a") for day in self.target_days(part)]
        before = before[-BEFORE:]
        if until is not None:
            last = self.sequences.splits.validation_b[1]
            validation_b += [day for day in known if last < day < until]
        if level != "root":
            validation_b = validation_b[-FINE_EXAMPLES:]
            before = before[-FINE_EXAMPLES:]
        if not before or not validation_b:
            raise ForecastError(
                "no days to fit what is published on: training, validation A and B need known "
                "days (split.*)"
            )
        return CalibrationDays(before, validation_b)

    def _fitting_history(self, level: Level, before: Sequence[date]) -> Profiles:
        """The days that fitting a level looks at."""
        since = None if level == "root" else before[0] - timedelta(days=FINE_DAYS)
        return self.history(level, since)

    def stack_examples(self, level: Level, before: Sequence[date]) -> list[StackExample]:
        """Examples of the stack, from days before validation B; none if it is fitted already."""
        if self._stack_at(level):
            return []
        return default_stack().examples(self._fitting_history(level, before), before)

    def example(self, level: Level, day: date) -> StackExample | None:
        """The answers of all members about a target day, and its outcomes; None if the day is not
        present."""
        history = self._fitting_history(level, self.calibration_days(level).before)
        readings = self._readings(level)
        examples = combination_of(readings, self._stack_at(level)).examples(history, [day])
        return examples[0] if examples else None

    def fit(
        self,
        level: Level,
        days: CalibrationDays,
        earlier: Sequence[StackExample],
        examples: Sequence[StackExample],
        path: Path,
    ) -> Publisher:
        """Fit what is published tomorrow on examples, and keep it in a file of its own."""
        fitted = fit_examples(
            level,
            self._readings(level),
            earlier=earlier,
            examples=examples,
            days=(days.before[0], days.validation_b[-1]),
            pooled=self._stack_at(level),
        )
        return self._keep(fitted, path, level)

    def _keep(self, fitted: Publisher, path: Path, level: Level) -> Publisher:
        fitted.save(path, self._fitted_to)
        self._publishers.pop(path, None)
        return self.publisher(level, path)

    # Forecasts.

    def predict(
        self,
        origin: date,
        streams: Sequence[str] | None = None,
        *,
        partial: bool = False,
        week: bool = False,
    ) -> list[Prediction]:
        """What is published about the day after an origin, for some streams or all; with `week`
        also about all seven days, if the model speaks of them."""
        streams = tuple(streams) if streams else self.streams
        unknown = [stream for stream in streams if stream not in self.streams]
        if unknown:
            raise ForecastError(
                f"the model in {self.folder} does not know {', '.join(unknown)}: it was trained "
                f"with {', '.join(self.streams)}"
            )
        forecasts = self.forecasts_at(origin)
        return [
            forecasts.prediction(self.streams.index(stream), partial=partial, week=week)
            for stream in streams
        ]

    def make_futures(
        self,
        sampled: Sampled,
        place: int,
        history: Profiles,
        forecast: Forecast,
        *,
        moved: bool | None = None,
    ) -> StreamFutures:
        """The futures of the stream at a place, reweighted to the probabilities that the roots have
        by a forecast; the history is that of the roots. Moved or recombined: as asked for, else as
        was chosen for the model."""
        maker = FutureMaker(self.pack, self.sampler, self.names)
        if self.moves_atoms if moved is None else moved:
            return maker.moved(sampled, place, history, forecast.occurs)
        return maker.recombined(sampled, place, history, forecast)

    def forecasts_at(self, origin: date, levels: Sequence[Level] = LEVELS) -> "OriginForecasts":
        """All that is forecast at an origin, at some levels from the root down."""
        publishers = {level: self.publisher(level) for level in levels}
        return OriginForecasts(self, origin, publishers)


class OriginForecasts:
    """All that is forecast at one origin, for all streams of a model.

    The one place where published numbers are made: `gdelphi forecast` stores them, `explain` takes
    them apart, and `backtest` judges them. Every member is asked once for each level; combination,
    stack and what is published are computed from these answers.
    """

    def __init__(
        self,
        predictor: Predictor,
        origin: date,
        publishers: Mapping[Level, Publisher],
    ) -> None:
        """`publishers` are those of the levels that are asked for, from the root down."""
        self.predictor, self.origin = predictor, origin
        predictor.sampler.position(origin)  # there must be measures of it
        self.publishers = publishers
        self.histories = {level: predictor.known_at(level, origin) for level in publishers}
        self.answers = {
            level: ask([publisher], self.histories[level], origin)
            for level, publisher in publishers.items()
        }
        """level -> published, combined, stack or a member -> its forecasts of each stream"""
        self.sampled: Sampled = predictor.sampler.at(origin)

    def futures(self, place: int, *, moved: bool | None = None) -> StreamFutures:
        """The futures of the stream at a place, reweighted to the published roots. They are moved
        or recombined: as asked for, else as was chosen for the model."""
        forecast = self.answers["root"][PUBLISHED][place]
        history = self.histories["root"]
        return self.predictor.make_futures(self.sampled, place, history, forecast, moved=moved)

    def published(self, place: int, futures: StreamFutures | None) -> dict[Level, Forecast]:
        """What is published about the stream at a place: levels coherent, shares those of the days
        that its futures are made of, with the futures' weights. Without futures probabilities are
        the same, and shares those that all members were given."""
        answers = self.answers.items()
        if futures is None:
            return make_coherent({level: own[PUBLISHED][place] for level, own in answers})
        roots = self.histories["root"].codes
        forecasts = {}
        for level, history in self.histories.items():
            drawn, donors = (
                history.weights[place, [(day - history.days[0]).days for day in days]]
                for days in (futures.days, futures.donors)
            )
            lent = futures.lent[:, [roots.index(lineage(code).root) for code in history.codes]]
            forecasts[level] = replace(
                self.answers[level][PUBLISHED][place],
                share_samples=shares_of(np.where(lent, donors, drawn)),
                share_weights=futures.reweighted.weights,
            )
        return make_coherent(forecasts)

    @cached_property
    def week(self) -> OriginWeek | None:
        """The week after the origin; None where the model knows nothing of it."""
        predictor = self.predictor
        if predictor.week_stack is None:
            return None
        published = self.answers["root"][PUBLISHED]
        tomorrow = [make_coherent({"root": one})["root"] for one in published]
        return published_week(
            predictor.week_stack,
            predictor.direct_week,
            self.histories["root"],
            self.origin,
            tomorrow,
            predictor.conflict_theta,
        )

    def week_prediction(self, place: int) -> WeekPrediction | None:
        """The week of the stream at a place, with its possible weeks."""
        if self.week is None:
            return None
        sampler, history = self.predictor.sampler, self.histories["root"].until(self.origin)
        prior = self.sampled.day_probabilities[place][-len(history.days) :]
        return week_prediction(
            self.week, place, history, prior, number=sampler.number, seed=sampler.seed
        )

    def prediction(self, place: int, *, partial: bool, week: bool = False) -> Prediction:
        """The same with all that it rests on; of all three levels, and of the week if asked for."""
        futures = self.futures(place)
        levels = self.published(place, futures)
        return Prediction(
            stream=self.predictor.streams[place],
            origin=self.origin,
            horizon=1,
            partial=partial,
            levels=LevelForecasts(**levels),
            members={
                level: {
                    member.name: self.answers[level][member.name][place]
                    for member in publisher.all_members()
                }
                for level, publisher in self.publishers.items()
            },
            contributions={
                level: {
                    name: {target: values[place] for target, values in of_targets.items()}
                    for name, of_targets in by_name.items()
                }
                for level, by_name in self._contributions.items()
            },
            published={
                level: {target: choice.published for target, choice in publisher.choices.items()}
                for level, publisher in self.publishers.items()
            },
            futures=futures,
            ranges={
                level: {target: choice.said for target, choice in publisher.choices.items()}
                for level, publisher in self.publishers.items()
            },
            brief=self.brief(place, futures, levels["root"]),
            week=self.week_prediction(place) if week else None,
        )

    def brief(self, place: int, futures: StreamFutures, roots: Forecast) -> tuple[BriefAtom, ...]:
        """The expected day of the stream at a place: by the decoder or its start, as was chosen,
        and without a decoder the mean of the futures. Phrases of a root sum to no more than the
        share that it is expected to have."""
        shares = dict(zip(roots.codes, roots.share_mean.tolist(), strict=True))
        decoder = self.predictor.decoder
        day = decoder.at(self.predictor.sampler.position(self.origin))[place] if decoder else None
        if day is None:
            return expected_day_in_brief(futures, self.predictor.settings.measures, shares)
        atoms = day.decoded if self.predictor.shows_decoder else day.start
        return name_decoded_day(atoms, day.recent, self.predictor.pack, shares)

    @cached_property
    def _contributions(self) -> dict[Level, dict[str, dict[str, FloatArray]]]:
        """By level, combined or stack, and target: what features add, [stream, code, feature]."""
        return {
            level: {
                stack.name: stack.contributions(self.histories[level], self.answers[level])
                for stack in (publisher.combined, publisher.stack)
            }
            for level, publisher in self.publishers.items()
        }


def _pooled_stack(folder: Path, pack: Pack) -> PooledStack | None:
    """The stack in a model's folder, over the days of a pack."""
    if not (folder / STACK_FOLDER).exists():
        return None
    return CountForecasters(load_stack(folder / STACK_FOLDER), pack.count_panel).stack


def _week_stack(stack: PooledStack | None) -> WeekStack | None:
    """The week ahead by the stack, where that has been fitted for it."""
    if stack is None or stack.counts.fit.week is None:
        return None
    return WeekStack(stack.counts, stack.counts.fit.week)


def stack_files(folder: Path) -> list[str]:
    """Files in a model's folder that tell its stack and the networks beside it from others."""
    networks = [f"{name}/model.safetensors" for name in (CELL_FOLDER, CONTEXT_FOLDER)]
    names = [f"{STACK_FOLDER}/{name}" for name in ("stack.json", *networks)]
    return [name for name in names if (folder / name).exists()]


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
