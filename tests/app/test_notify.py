"""Who is told of a failure, and that telling never makes things worse."""

import json
import logging
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gdelphi.app import notify as notifying
from gdelphi.app.notify import LONGEST, notify
from gdelphi.common.sections import FlowSettings


class Hook:
    """A webhook that answers as it is told, and keeps what it gets."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[dict[str, Any]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append(json.loads(body))
                self.send_response(hook.answers.pop(0) if hook.answers else 200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook/secret"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setattr(notifying, "FIRST_PAUSE", 0.01)
    made = Hook()
    yield made
    made.close()


def test_a_webhook_gets_the_text_as_json(hook: Hook) -> None:
    assert notify(FlowSettings(notify_url=hook.url), "it failed") == []
    assert hook.got == [{"text": "it failed"}]


def test_a_webhook_that_stumbles_is_asked_again(hook: Hook) -> None:
    hook.answers = [503, 429]
    assert notify(FlowSettings(notify_url=hook.url), "it failed") == []
    assert len(hook.got) == 3


def test_a_webhook_that_refuses_is_not_asked_again(
    hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    hook.answers = [404]
    with caplog.at_level(logging.ERROR):
        problems = notify(FlowSettings(notify_url=hook.url), "it failed")
    assert len(hook.got) == 1 and "answers 404" in problems[0]
    assert "it failed" in caplog.text, "what could not be sent stands in the log"
    assert "secret" not in caplog.text, "whoever knows the address may post there"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "ftp://host/x", "no address", "http://["])
def test_a_webhook_out_of_reach_raises_nothing(hook: Hook, url: str) -> None:
    problems = notify(FlowSettings(notify_url=url), "it failed")
    assert len(problems) == 1 and "cannot be reached" in problems[0]


def test_a_command_gets_the_text_as_its_input(tmp_path: Path) -> None:
    wrote = tmp_path / "a file"
    script = f"import sys; open({str(wrote)!r}, 'w').write(sys.stdin.read())"
    command = f'{sys.executable} -c "{script}"'
    assert notify(FlowSettings(notify_command=command), "zürnt; rm -rf $HOME") == []
    assert wrote.read_text() == "zürnt; rm -rf $HOME"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (f"{sys.executable} -c \"import sys; sys.exit('no mail')\"", "exits with 1: no mail"),
        ("no-such-command-here", "cannot be run"),
        ("'not closed", "cannot be run"),
    ],
)
def test_a_command_that_fails_is_told_of_and_raises_nothing(command: str, problem: str) -> None:
    problems = notify(FlowSettings(notify_command=command), "it failed")
    assert len(problems) == 1 and problem in problems[0]


def test_both_ways_are_tried_and_long_texts_are_cut(hook: Hook) -> None:
    settings = FlowSettings(notify_url=hook.url, notify_command="no-such-command-here")
    assert len(notify(settings, "x" * 10_000)) == 1
    assert hook.got[0]["text"] == "x" * (LONGEST - 3) + "..."
    assert notify(FlowSettings(), "nobody is told") == []
