"""The HTTP API: what it answers, what it refuses, and that nobody gets further than that."""

import base64
import json
import logging
import re
import runpy
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as hypothesis_settings
from schemathesis import GenerationMode
from starlette.websockets import WebSocketDisconnect

from gdelphi.api.guard import RateLimit, host_name
from gdelphi.api.pages import find_report_file
from gdelphi.api.server import make_app, serve_api, token_for
from gdelphi.common.errors import ConfigError, NothingStored, ServeError, StoreBusy
from gdelphi.common.settings import ENV_TOKEN, Settings, load_settings
from gdelphi.questions.questions import Questions
from helpers.measured_world import changed
from helpers.question_world import ORIGINS, PAGE, world

__all__ = ["world"]

ROOT = Path(__file__).parents[2]
HOST = "http://localhost"
TOKEN = "a token of some length"
LATEST = "/api/forecasts/latest"
ADDRESSES = (
    "/", "/live/live.js", "/live/live.css", "/reports/", "/reports/2014-01-03/index.html",
    "/api/openapi.json", "/api/status", "/api/streams", "/api/codes?level=root", "/api/scores",
    "/api/forecasts", LATEST, f"{LATEST}/probabilities?stream=kenya&event=conflict",
    f"{LATEST}/futures?stream=UP", f"{LATEST}/futures?stream=UP&horizon=week",
    f"{LATEST}/explanation?stream=KE&event=fight&horizon=week",
    "/api/forecasts/2014-01-01/outcomes", "/api/events?day=2014-01-01&stream=KE",
)  # fmt: skip


def client_of(settings: Settings, token: str | None = None, **api: Any) -> TestClient:
    app = make_app(changed(settings, "api", **{"requests_per_minute": 0, **api}), token=token)
    return TestClient(app, base_url=HOST, raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture(scope="module")
def client(world: Settings) -> TestClient:
    return client_of(world)


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_answer_has_a_tag_and_who_has_it_gets_nothing_more(
    client: TestClient, address: str
) -> None:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    tag = answer.headers["etag"]
    again = client.get(address, headers={"If-None-Match": f'"x", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")
    head = client.head(address)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)


def test_another_answer_has_another_tag(client: TestClient) -> None:
    pages = [client.get(f"{LATEST}/probabilities", params={"offset": at}) for at in (0, 1)]
    assert len({page.headers["etag"] for page in pages}) == 2


def test_answers_are_those_of_the_questions(client: TestClient, world: Settings) -> None:
    asked = {"stream": ["KE", "Ukraine"], "event": "19", "target": "surge", "horizon": "week"}
    answer = client.get(f"{LATEST}/probabilities", params=asked).json()
    same = Questions(world).probabilities(
        streams=["KE", "Ukraine"], event="19", target="surge", horizon="week"
    )
    assert answer == json.loads(same.model_dump_json()) and answer["total"] == 2
    assert answer["rows"][0]["code"] == "19", "codes are text"


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "status", "told"),
    [
        ("/api/nothing", 404, "no such address"),
        (f"{LATEST}/probabilities?stream=Kenia", 404, "KE (Kenya)"),
        (f"{LATEST}/probabilities?limit=100000", 422, "limit"),
        (f"{LATEST}/probabilities?colour=red", 422, "colour"),
        (f"{LATEST}/futures", 422, "stream"),
        ("/api/forecasts/2014-02-31", 404, "no day 2014-02-31"),
        ("/api/forecasts/1", 422, "origin"),
        ("/api/events?day=0&stream=KE", 422, "day"),
        ("/api/events?day=2014-02-31&stream=KE", 422, "day"),
        ("/live/server.py", 404, "no such page"),
        (f"/api/status?{'x' * 5000}", 414, "characters"),
    ],
)
def test_what_is_no_question_is_refused_in_one_line(
    client: TestClient, world: Settings, address: str, status: int, told: str
) -> None:
    answer = client.get(address)
    assert answer.status_code == status and told in answer.json()["message"]
    assert set(answer.json()) == {"error", "message"} and "\n" not in answer.json()["message"]
    assert str(world.store.parent) not in answer.text


def test_nothing_can_be_written(client: TestClient) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = client.request(method, "/api/status")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert client.request("GET", "/api/status", content=b"x").status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        "../s.duckdb", "..%2fs.duckdb", "%2e%2e/s.duckdb", "..%252fs.duckdb", "2014-01-03/../../s",
        "2014-01-03/%00", "/etc/passwd", "2014-01-03/index.html%00.json", ".reports.json",
        "2014-01-03/link.html", "2014-01-03/checksums.txt", "x" * 3000, "a/b/c/d/e",
        "2014-01-03\\index.html", "2014-01-03/index.html/x",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_reports(client: TestClient, world: Settings, path: str) -> None:
    folder = world.store.parent / "reports" / "2014-01-03"
    link = folder / "link.html"
    if not link.is_symlink():
        link.symlink_to(world.store)
        (folder / "checksums.txt").write_text("not for others")
    answer = client.get(f"/reports/{path}")
    assert answer.status_code == 404 and set(answer.json()) == {"error", "message"}
    with pytest.raises(NothingStored):
        find_report_file(world.store.parent / "reports", path)


def test_reports_are_served_with_their_links(client: TestClient) -> None:
    assert client.get("/reports/2014-01-03/").text == PAGE
    sent_on = client.get("/reports/2014-01-03")
    assert (sent_on.status_code, sent_on.headers["location"]) == (307, "/reports/2014-01-03/")
    assert client.get("/reports/2014-01-03/report.json").headers["content-type"] == (
        "application/json"
    )


def test_a_chart_is_a_picture_too_made_when_it_is_asked_for(
    client: TestClient, world: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    charts = world.store.parent / "reports" / "2014-01-03" / "charts"
    charts.mkdir()
    drawn = '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="2"><path d="M0 0h2z"/></svg>'
    (charts / "KE-week.svg").write_text(drawn)
    address = "/reports/2014-01-03/charts/KE-week"
    assert client.get(f"{address}.svg").text == drawn
    picture = client.get(f"{address}.png")
    assert picture.headers["content-type"] == "image/png"
    assert picture.content.startswith(b"\x89PNG")
    assert client.get("/reports/2014-01-03/charts/UP-week.png").status_code == 404
    (charts / "KE-week.png").write_bytes(b"as it lies there")
    assert client.get(f"{address}.png").content == b"as it lies there"
    (charts / "KE-week.png").unlink()
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    refused = client.get(f"{address}.png")
    assert refused.status_code == 404 and "gdelphi[png]" in refused.json()["message"]


def test_a_store_that_is_taken_is_busy_and_no_traceback(
    world: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of(world)

    def taken(*_: Any) -> None:
        raise StoreBusy(f"{world.store} is held by process 1")

    def broken(*_: Any) -> None:
        raise RuntimeError(f"{world.store} is strange")

    monkeypatch.setattr("gdelphi.questions.news.StoreNews.status", taken)
    monkeypatch.setattr("gdelphi.questions.judged.StoredScores.scores", broken)
    with caplog.at_level(logging.ERROR):
        busy, failed = client.get("/api/status"), client.get("/api/scores")
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "30")
    assert (failed.status_code, failed.json()["error"]) == (500, "internal")
    assert str(world.store) not in busy.text + failed.text and str(world.store) in caplog.text


# --- who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.x", "", "a:b"]
)
def test_another_name_for_this_machine_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/status", headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]) == (421, "host")


def test_our_own_names_are_known(world: Settings) -> None:
    client = client_of(world, hosts=("News.Example",))
    for host in ("127.0.0.1:8420", "[::1]:80", "LOCALHOST", "news.example:443", "10.0.0.7"):
        assert client.get("/live/live.js", headers={"Host": host}).status_code == 200
    assert host_name(["[::1"]) is None and host_name(["a", "b"]) is None and host_name([]) is None


def test_who_does_not_know_the_token_learns_nothing(world: Settings) -> None:
    client = client_of(world, token=TOKEN)
    password = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    for given_ in (f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Basic {password}"):
        assert client.get("/api/codes", headers={"Authorization": given_}).status_code == 200
    wrong = base64.b64encode(b"anybody:wrong").decode()
    for given_ in ("", "Bearer", "Bearer x", f"Token {TOKEN}", f"Basic {wrong}", "Basic ?", TOKEN):
        for address in ("/api/codes", "/", "/reports/", "/api/openapi.json", "/nothing"):
            answer = client.get(address, headers={"Authorization": given_})
            assert answer.status_code == 401 and "www-authenticate" in answer.headers


def test_only_this_machine_is_listened_to_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert token_for("127.0.0.1") is token_for("::1") is token_for("localhost") is None
    for host in ("0.0.0.0", "10.0.0.7", "news.example", "::"):
        with pytest.raises(ConfigError, match=ENV_TOKEN):
            token_for(host)
    monkeypatch.setenv(ENV_TOKEN, TOKEN)
    assert token_for("0.0.0.0") == TOKEN
    assert load_settings().settings.api.port == 8420, "the variable is no unknown setting"
    monkeypatch.setenv(ENV_TOKEN, "short")
    with pytest.raises(ConfigError, match="at least 16"):
        token_for("127.0.0.1")


def test_each_client_has_its_own_number_of_requests() -> None:
    now = [0.0]
    limit = RateLimit(2, lambda: now[0])
    assert [limit.seconds_to_wait("a") for _ in range(3)] == [0.0, 0.0, 30.0]
    assert limit.seconds_to_wait("b") == 0.0
    now[0] = 30.0
    assert [limit.seconds_to_wait("a") for _ in range(2)] == [0.0, 30.0]
    now[0] = 1e6
    assert [limit.seconds_to_wait("a") for _ in range(3)] == [0.0, 0.0, 30.0], "no more than full"
    assert RateLimit(0).seconds_to_wait("a") == 0.0


def test_too_many_requests_are_told_when_to_come_again(world: Settings) -> None:
    client = client_of(world, requests_per_minute=3)
    answers = [client.get("/live/live.js") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_the_guard_lets_no_websocket_in(client: TestClient) -> None:
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        client.websocket_connect("ws://localhost/api/status"),
    ):
        pass
    assert refused.value.code == 1008


INTERRUPTIBLE = """
import signal
from gdelphi.app.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with
main()
"""


def test_the_command_listens_says_where_and_stops(world: Settings, tmp_path: Path) -> None:
    config = tmp_path / "gdelphi.toml"
    config.write_text(f'store = "{world.store}"\n')
    command = [sys.executable, "-u", "-c", INTERRUPTIBLE, "api", "--port", "0", "--config",
               str(config)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            told = server.stdout.readline()
            where = told.split()[1]
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", where)
            answer = httpx.get(f"{where}api/forecasts/latest", timeout=120)
            assert answer.json()["origin"] == str(ORIGINS[-1]) and "server" not in answer.headers
            port = int(where.rstrip("/").rpartition(":")[2])
            taken = changed(world, "api", port=port)
            with pytest.raises(ServeError, match=f"port {port} cannot be listened on"):
                serve_api(taken, None, print)
            server.send_signal(signal.SIGINT)
            assert server.wait(120) == 130
        finally:
            server.kill()


def test_the_schema_of_the_documents_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_openapi.py"))
    page = (ROOT / "docs" / "openapi.json").read_text(encoding="utf-8")
    assert made["schema"]() == page, "python docs/make_openapi.py"


# --- requests made up from the schema -------------------------------------------------------------

OPERATIONS = 11
EXAMPLES = 10
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


def test_requests_made_up_from_the_schema_are_answered_by_it(world: Settings) -> None:
    """A few hundred, good and bad; `benchmarks/api.py` sends ten thousand."""
    app = make_app(changed(world, "api", requests_per_minute=0))
    refused = {"negative_data_rejection": {"expected-statuses": ["4xx"]}}  # 414 is one, too
    config = schemathesis.Config.from_dict({"checks": refused})
    schema = schemathesis.openapi.from_dict(app.openapi(), config=config)
    schema.app = app
    schema.config.update(base_url=HOST)
    statuses: list[int] = []
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == OPERATIONS
    for operation in operations:
        for mode in MODES if operation.query else MODES[:1]:

            @seed(1)
            @hypothesis_settings(
                max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case: Any) -> None:
                answer = case.call_and_validate(headers={"Host": "localhost"})
                statuses.append(answer.status_code)

            check()
    assert len(statuses) > 150 and {200, 404, 422} <= set(statuses) <= {200, 404, 414, 422}


def test_the_report_of_an_origin_is_named_by_its_forecast(client: TestClient) -> None:
    newest = client.get(LATEST).json()
    assert newest["report"] == "/reports/2014-01-03/index.html"
    assert newest["target_day"] == str(ORIGINS[-1] + timedelta(days=1))
