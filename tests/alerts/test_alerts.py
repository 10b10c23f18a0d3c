"""Alerts: when they are raised, that they are told once, and what came of them."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gdelphi.alerts.alerts import AlertsRun, dry_run, is_quiet, send_alerts
from gdelphi.alerts.watch import Alert
from gdelphi.app.cli import app
from gdelphi.app.doctor import _alerts
from gdelphi.common.errors import ConfigError, PipelineError
from gdelphi.common.sections import AlertRule, AlertSettings
from gdelphi.common.settings import Settings, load_settings
from gdelphi.forecast.archive import forecasts_folder
from helpers.measured_world import changed
from helpers.question_world import ORIGINS, STREAMS, said, world
from helpers.report_world import recipe_at, stored

__all__ = ["world"]

FIGHTS = AlertRule(name="fights", streams=("Kenya",), event="fight", horizon=1, threshold=0.65)
NOON = datetime(2014, 1, 8, 12, tzinfo=UTC)  # a Wednesday
LATER = ORIGINS[-1] + timedelta(days=1)


@pytest.fixture
def settings(world: Settings, tmp_path: Path) -> Settings:
    """A copy of the world, to which forecasts may be added; one rule, no summary."""
    folder = Path(shutil.copytree(world.store.parent, tmp_path / "world"))
    return with_rules(world.model_copy(update={"store": folder / world.store.name}), FIGHTS)


def with_rules(settings: Settings, *rules: AlertRule, **more: Any) -> Settings:
    alerts = AlertSettings(rules=rules, **{"summary": "", **more})
    return settings.model_copy(update={"alerts": alerts})


class Sent(list[str]):
    """Where messages go; `broken` is what goes wrong with the next ones."""

    broken: tuple[str, ...] = ()

    def __call__(self, text: str) -> list[str]:
        if not self.broken:
            self.append(text)
        return list(self.broken)


def run(settings: Settings, sent: Sent, now: datetime = NOON) -> AlertsRun:
    return send_alerts(settings, sent, now=now)


def add(settings: Settings, day: int, value: float) -> None:
    """A later forecast, with a number of its own for fights in Kenya."""
    usual = said(ORIGINS[-1])

    def published(stream: str, level: str, code: str, target: str) -> float | None:
        here = (stream, level, code) == ("KE", "root", "19")
        return value if here else usual(stream, level, code, target)

    origin = ORIGINS[-1] + timedelta(days=day)
    stored(forecasts_folder(settings), recipe_at(origin, STREAMS, week=True), published)


# --- when -----------------------------------------------------------------------------------------


def test_an_alert_has_its_reasons_and_a_link_and_is_told_once(settings: Settings) -> None:
    sent = Sent()
    found = run(settings, sent).found
    assert [(alert.cell.stream, alert.cell.code, alert.origin) for alert in found] == [
        ("KE", "19", ORIGINS[-1])
    ]
    (text,) = sent
    assert text.startswith("gdelphi alert 'fights': Kenya: Fight (19) as a headline tomorrow, 70%")
    for reason in ("It has reached 65%.", "4 of 4 possible days", "https://news.example/1"):
        assert reason in text
    assert text.endswith("/reports/2014-01-03/index.html#KE")
    assert run(settings, sent).found == [] and len(sent) == 1


def test_a_number_that_wavers_is_told_once_and_again_after_it_was_clearly_below(
    settings: Settings,
) -> None:
    sent = Sent()
    told = []
    for day, value in enumerate((0.7, 0.62, 0.66, 0.59, 0.64, 0.65)):
        if day:
            add(settings, day, value)
        told.append(len(run(settings, sent).found))
    assert told == [1, 0, 0, 0, 0, 1], "over below 0.60, and again from 0.65 on"


def test_nights_that_were_missed_are_made_up_for(settings: Settings) -> None:
    sent = Sent()
    run(settings, sent)
    add(settings, 1, 0.1)
    add(settings, 2, 0.9)
    assert [alert.origin for alert in run(settings, sent).found] == [LATER + timedelta(days=1)]


@pytest.mark.parametrize("against", ["usual", "last"])
def test_a_threshold_may_be_against_the_usual_or_the_last_forecast(
    settings: Settings, against: Any
) -> None:
    def found(threshold: float) -> list[Alert]:
        rule = AlertRule(
            name="x", streams=("KE",), event="19", target="occurs", horizon=1, against=against,
            threshold=threshold,
        )  # fmt: skip
        return dry_run(with_rules(settings, rule), since=ORIGINS[-1]).alerts

    (alert,) = found(0.001)
    than = alert.cell.usual if against == "usual" else alert.before
    assert than is not None and 0 < than < 0.6
    assert alert.value == pytest.approx(0.7 - than)
    assert len(found(alert.value - 0.01)) == 1 and found(alert.value + 0.01) == []


def test_a_rule_may_be_about_all_countries_and_a_class(settings: Settings) -> None:
    rule = AlertRule(name="all", event="conflict", target="occurs", horizon="week", threshold=0.3)
    found = run(with_rules(settings, rule), Sent()).found
    assert {alert.cell.stream for alert in found} == set(STREAMS)
    assert {alert.cell.code for alert in found} <= {"14", "15", "17", "18", "19", "20"}
    assert {alert.cell.horizon for alert in found} == {0}
    assert [alert.value for alert in found] == sorted((a.value for a in found), reverse=True)


# --- sending --------------------------------------------------------------------------------------


def test_what_cannot_be_sent_is_tried_again(settings: Settings) -> None:
    sent = Sent()
    sent.broken = ("the webhook answers 500",)
    failed = run(settings, sent)
    assert (failed.sent, failed.held, failed.problems) == (0, 1, ["the webhook answers 500"])
    sent.broken = ()
    again = run(settings, sent)
    assert (again.found, again.sent, again.held, len(sent)) == ([], 1, 0, 1)


def test_nothing_is_sent_in_quiet_hours_and_nothing_is_lost(settings: Settings) -> None:
    quiet = with_rules(settings, FIGHTS, quiet_hours="22-07")
    sent = Sent()
    night = NOON.replace(hour=23)
    assert (run(quiet, sent, night).held, sent) == (1, [])
    assert (run(quiet, sent, NOON.replace(hour=7)).sent, len(sent)) == (1, 1)


def test_quiet_hours_may_go_over_midnight() -> None:
    quiet = [hour for hour in range(24) if is_quiet("22-07", NOON.replace(hour=hour))]
    assert quiet == [0, 1, 2, 3, 4, 5, 6, 22, 23]
    assert [hour for hour in range(24) if is_quiet("09-11", NOON.replace(hour=hour))] == [9, 10]
    assert not is_quiet("", NOON)


def test_many_alerts_end_in_a_list(settings: Settings) -> None:
    rule = AlertRule(name="all", event="all", target="occurs", horizon=1, threshold=0.1)
    sent = Sent()
    done = run(with_rules(settings, rule, most=3), sent)
    assert len(done.found) == 40 and len(sent) == done.sent == 4
    assert sent[-1].startswith("gdelphi: 37 more alerts") and "22 others" in sent[-1]


def test_the_week_is_summed_up_on_its_day(settings: Settings) -> None:
    weekly = with_rules(settings, FIGHTS.model_copy(update={"threshold": 0.45}), summary="thursday")
    first, second = Sent(), Sent()
    assert not run(weekly, first).summary, "a Wednesday"
    thursday = NOON + timedelta(days=1)
    assert run(weekly, second, thursday).summary
    assert not run(weekly, second, thursday).summary, "once"
    assert len(second) == 1
    assert "alerts from 2013-12-21 to 2014-01-03: 1; of 0 whose time is over 0" in second[0]
    assert "1 cells are above their threshold now" in second[0]


def test_a_state_that_cannot_be_read_is_named(settings: Settings) -> None:
    run(settings, Sent())
    state = settings.store.parent / "alerts" / "state.json"
    state.write_text("{}")
    with pytest.raises(ConfigError, match=r"state\.json cannot be read .*: delete it"):
        run(settings, Sent())


# --- over a past time -----------------------------------------------------------------------------


def test_a_dry_run_tells_what_came_and_changes_nothing(settings: Settings) -> None:
    rules = (
        FIGHTS.model_copy(update={"threshold": 0.45}),
        AlertRule(name="protests", event="14", target="occurs", horizon=1, threshold=0.15),
    )
    tried = dry_run(with_rules(settings, *rules), since=ORIGINS[0])
    assert (tried.origins, tried.since, tried.until) == (3, ORIGINS[0], ORIGINS[-1])
    fights, protests = tried.rules
    assert (fights.alerts, fights.known, fights.came, fights.precision) == (1, 1, 1, 1.0)
    assert (protests.alerts, protests.came, protests.precision) == (2, 0, 0.0)
    assert protests.false_per_week == pytest.approx(2 / (2 / 7))
    assert (fights.rate, protests.rate) == (1.0, 0.0)
    assert not (settings.store.parent / "alerts").exists()


def config_of(settings: Settings, tmp_path: Path, rules: str) -> Path:
    path = tmp_path / "gdelphi.toml"
    path.write_text(f'store = "{settings.store}"\n[flows]\nnotify_command = "no-such"\n{rules}')
    return path


RULE = """
[[alerts.rules]]
name = "fights"
streams = ["KE"]
event = "fight"
horizon = 1
threshold = 0.65
"""


def test_the_command_shows_and_sends(settings: Settings, tmp_path: Path) -> None:
    config = config_of(settings, tmp_path, RULE)
    asked = ["alerts", "--dry-run", "--since", "2014-01-01", "--config", str(config)]
    shown = CliRunner().invoke(app, asked, env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and "3 forecasts from 2014-01-01" in shown.output
    assert "Kenya: Fight (19)" in shown.output and "not over" in shown.output
    as_json = CliRunner().invoke(app, [*asked, "--json"])
    assert '"precision": null' in as_json.output
    sent = CliRunner().invoke(app, ["alerts", "--config", str(config)])
    assert isinstance(sent.exception, PipelineError) and "no-such" in str(sent.exception)
    assert "1 kept for later" in sent.output


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("", "there are no rules"),
        (RULE.replace("fight", "figth"), "alerts.rules, 'figths': no event 'figth'.*Fight"),
        (RULE.replace('"KE"', '"Kenia"'), "nearest are KE"),
        (RULE.replace("0.65", "65"), "alerts.rules.0.threshold = 65"),
        (RULE + RULE, "two rules have the same name"),
        (RULE.replace('"fight"', '"190"').replace("horizon = 1", ""), "only roots are forecast"),
        (RULE.replace("horizon = 1", 'horizon = "month"'), "alerts.rules.0.horizon"),
        ('[alerts]\nquiet_hours = "night"', "alerts.quiet_hours = 'night'"),
        ("[alerts]\nrule = 1", "nearest known one is 'alerts.rules'"),
    ],
)
def test_rules_that_are_none_are_refused_by_name(
    settings: Settings, tmp_path: Path, rules: str, told: str
) -> None:
    config = config_of(settings, tmp_path, rules)
    with pytest.raises(ConfigError, match=told):
        dry_run(load_settings(config).settings)


def test_the_doctor_looks_at_rules_and_at_who_is_told(settings: Settings) -> None:
    def found(rule: AlertRule, **flows: Any) -> str:
        given = with_rules(changed(settings, "flows", **flows), rule)
        return _alerts(given).state

    assert found(FIGHTS) == "warning" and found(FIGHTS, notify_command="mail") == "ok"
    assert found(FIGHTS.model_copy(update={"event": "figth"})) == "failure"


def test_without_rules_nothing_is_done(settings: Settings) -> None:
    sent = Sent()
    assert run(with_rules(settings), sent) == AlertsRun() and sent == []
