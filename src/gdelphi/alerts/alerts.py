"""Alerts as the daily run sends them, and what they would have been over a past time.

`alerts/state.json` beside the store keeps which cells are above their thresholds, up to which
origin forecasts were looked at, what is still to be sent, and what was sent in the last months. A
run looks at the forecasts that have come since; the first one at the newest alone. What cannot be
sent, or not now, is kept and tried again by the next run.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from gdelphi.alerts.messages import alert_text, rest_text, summary_text
from gdelphi.alerts.watch import Alert, WatchState, cells_of, watch
from gdelphi.common.errors import ConfigError
from gdelphi.common.files import alone, write_text_atomically
from gdelphi.common.sections import AlertRule
from gdelphi.common.settings import Settings
from gdelphi.forecast.archive import ForecastManifest
from gdelphi.questions.questions import Questions

FOLDER: Final = "alerts"
STATE: Final = "state.json"
KEPT_DAYS: Final = 120  # of what was sent
WEEK: Final = timedelta(days=7)
DEFAULT_DAYS: Final = 30  # that a dry run looks back
Send = Callable[[str], list[str]]
"""sends a text; returns what went wrong"""


@dataclass
class AlertsRun:
    """What a run did."""

    found: list[Alert] = field(default_factory=list)
    sent: int = 0
    """messages"""
    held: int = 0
    """alerts that are kept for later"""
    summary: bool = False
    """the week was summed up"""
    problems: list[str] = field(default_factory=list)


@dataclass
class _State:
    until: date | None = None
    on: WatchState = field(default_factory=WatchState)
    pending: list[Alert] = field(default_factory=list)
    sent: list[Alert] = field(default_factory=list)
    summed_up: date | None = None


# --- a run ----------------------------------------------------------------------------------------


def send_alerts(settings: Settings, send: Send, *, now: datetime | None = None) -> AlertsRun:
    """Look at new forecasts, and send what their rules find."""
    now = now or datetime.now(UTC)
    run, rules = AlertsRun(), settings.alerts.rules
    if not rules:
        return run
    folder = settings.store.parent / FOLDER
    with alone(folder):
        questions, state = Questions(settings), _read_state(folder / STATE)
        for manifest in _new(questions, state):
            cells = cells_of(rules, questions.forecasts, manifest)
            run.found += watch(iter(cells), manifest, state.on)
            state.until = manifest.recipe.origin
        state.pending += run.found
        _forget_gone(state, rules)
        if not is_quiet(settings.alerts.quiet_hours, now):
            _send_pending(questions, state, send, run)
            _send_summary(questions, state, send, run, now.date())
        run.held = len(state.pending)
        oldest = (state.until or now.date()) - KEPT_DAYS * DAY  # of a store that may be an old one
        state.sent = [one for one in state.sent if one.origin >= oldest]
        _write_state(folder / STATE, state)
    return run


DAY: Final = timedelta(days=1)


def _new(questions: Questions, state: _State) -> list[ForecastManifest]:
    published = questions.forecasts.published()
    if state.until is None:
        return published[-1:]
    return [one for one in published if one.recipe.origin > state.until]


def _forget_gone(state: _State, rules: Iterable[AlertRule]) -> None:
    """What belongs to rules that are no longer there."""
    names = {rule.name for rule in rules}
    state.on.on = {key: day for key, day in state.on.on.items() if key.split("|")[0] in names}
    state.pending = [alert for alert in state.pending if alert.rule in names]


def is_quiet(hours: str, now: datetime) -> bool:
    """Whether a time lies in the quiet hours, as 22-07: from 22:00 on, up to 07:00."""
    if not hours:
        return False
    begin, end = (int(hour) for hour in hours.split("-"))
    hour = now.astimezone(UTC).hour
    return begin <= hour < end if begin <= end else hour >= begin or hour < end


def _send_pending(questions: Questions, state: _State, send: Send, run: AlertsRun) -> None:
    """The first ones with their reasons, the others in one list."""
    rules = {rule.name: rule for rule in questions.settings.alerts.rules}
    most = questions.settings.alerts.most
    first, rest = state.pending[:most], state.pending[most:]
    for alert in first:
        problems = send(alert_text(questions, rules[alert.rule], alert))
        if problems:  # nobody was told: the next run tries again
            run.problems += problems
            return
        run.sent += 1
        state.sent.append(alert)
        state.pending.remove(alert)
    if rest:
        problems = send(rest_text(rest))
        run.problems += problems
        if not problems:
            run.sent += 1
            state.sent += rest
            state.pending.clear()


def _send_summary(
    questions: Questions, state: _State, send: Send, run: AlertsRun, today: date
) -> None:
    wanted = questions.settings.alerts.summary
    if not wanted or f"{today:%A}".lower() != wanted or state.summed_up == today:
        return
    newest = state.until or today
    alerts = [one for one in state.sent if newest - 2 * WEEK < one.origin <= newest]
    came = outcomes_of(questions, alerts)
    since = newest - 2 * WEEK + DAY
    problems = send(summary_text(since, newest, alerts, came, len(state.on.on)))
    run.problems += problems
    if not problems:
        run.sent, run.summary, state.summed_up = run.sent + 1, True, today


def outcomes_of(questions: Questions, alerts: Iterable[Alert]) -> dict[Alert, bool]:
    """What came of alerts; those that are not known yet are left out."""
    by_origin: dict[date, Any] = {}
    came = {}
    for alert in alerts:
        if alert.origin not in by_origin:
            by_origin[alert.origin] = _came(questions, alert.origin)
        key = _key(alert)
        if key in by_origin[alert.origin]:
            came[alert] = by_origin[alert.origin][key]
    return came


def _came(questions: Questions, origin: date) -> Any:
    manifests = [one for one in questions.forecasts.published() if one.recipe.origin == origin]
    return questions.judged.outcomes(manifests[0]) if manifests else {}


def _key(alert: Alert) -> tuple[str, str, str, str, int]:
    cell = alert.cell
    return cell.stream, cell.level, cell.code, cell.target, cell.horizon


# --- the state on disk ----------------------------------------------------------------------------


def _read_state(path: Path) -> _State:
    if not path.exists():
        return _State()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _State(
            until=date.fromisoformat(content["until"]) if content["until"] else None,
            on=WatchState({key: date.fromisoformat(day) for key, day in content["on"].items()}),
            pending=[Alert.model_validate(one) for one in content["pending"]],
            sent=[Alert.model_validate(one) for one in content["sent"]],
            summed_up=date.fromisoformat(content["summed_up"]) if content["summed_up"] else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} cannot be read ({type(error).__name__}): delete it; the next run begins with "
            "the newest forecast"
        ) from None


def _write_state(path: Path, state: _State) -> None:
    content = {
        "until": state.until.isoformat() if state.until else None,
        "on": {key: day.isoformat() for key, day in sorted(state.on.on.items())},
        "pending": [one.model_dump(mode="json") for one in state.pending],
        "sent": [one.model_dump(mode="json") for one in state.sent],
        "summed_up": state.summed_up.isoformat() if state.summed_up else None,
    }
    write_text_atomically(path, json.dumps(content, indent=1) + "\n")


# --- over a past time -----------------------------------------------------------------------------


@dataclass(frozen=True)
class RuleRecord:
    """How a rule has done."""

    rule: str
    alerts: int
    known: int
    """whose time is over"""
    came: int
    false_per_week: float | None
    rate: float | None
    """how often any cell that the rule watches came true, whatever was said of it"""

    @property
    def precision(self) -> float | None:
        """How often such an alert came true."""
        return self.came / self.known if self.known else None


@dataclass(frozen=True)
class DryRun:
    """What would have been sent."""

    since: date
    until: date
    origins: int
    alerts: list[Alert]
    came: dict[Alert, bool]
    rules: list[RuleRecord]


def dry_run(settings: Settings, *, since: date | None = None) -> DryRun:
    """What the rules would have sent since an origin, and what came of it; nothing is sent, and no
    state is read or kept."""
    if not settings.alerts.rules:
        raise ConfigError(
            "there are no rules: [[alerts.rules]] in gdelphi.toml, see docs/alerts.md"
        )
    questions, state = Questions(settings), WatchState()
    published = questions.forecasts.published()
    if not published:
        raise ConfigError("there is no forecast yet: `gdelphi forecast` makes one")
    last = published[-1].recipe.origin
    begin = since or last - DEFAULT_DAYS * DAY
    chosen = [one for one in published if one.recipe.origin >= begin]
    alerts: list[Alert] = []
    came: dict[Alert, bool] = {}
    days: Counter[str] = Counter()  # judged forecasts of each rule
    watched: dict[str, list[bool]] = {rule.name: [] for rule in settings.alerts.rules}
    for manifest in chosen:
        cells = cells_of(settings.alerts.rules, questions.forecasts, manifest)
        found = watch(iter(cells), manifest, state)
        outcomes = questions.judged.outcomes(manifest)
        came |= {one: outcomes[_key(one)] for one in found if _key(one) in outcomes}
        judged = set()
        for cell in cells:
            row = cell.row
            key = (row.stream, row.level, row.code, row.target, row.horizon)
            if key in outcomes:
                watched[cell.rule.name].append(outcomes[key])
                judged.add(cell.rule.name)
        days.update(judged)
        alerts += found
    records = [
        _record(rule.name, alerts, came, watched[rule.name], days[rule.name] / 7)
        for rule in settings.alerts.rules
    ]
    first = chosen[0].recipe.origin if chosen else begin
    return DryRun(first, last, len(chosen), alerts, came, records)


def _record(
    name: str, alerts: list[Alert], came: dict[Alert, bool], watched: list[bool], weeks: float
) -> RuleRecord:
    own = [alert for alert in alerts if alert.rule == name]
    known = [came[alert] for alert in own if alert in came]
    return RuleRecord(
        rule=name,
        alerts=len(own),
        known=len(known),
        came=sum(known),
        false_per_week=known.count(False) / weeks if weeks else None,
        rate=sum(watched) / len(watched) if watched else None,
    )
