"""A web server on this machine that serves a folder and fails on demand.

What happens to a path is a script of faults, one for each request; when it is used up the path is
healthy. A fault is a function that answers a request in place of the healthy answer. Every request
is recorded, so that a test can show what was asked for and not only what came of it.
"""

import contextlib
import functools
import gzip
import re
import socket
import ssl
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

PAGE = b"<!DOCTYPE html>\n<html><body>Please sign in to use this network.</body></html>\n"
ENDLESS = 8 << 20  # bytes; what an endless answer sends at most, so that a test comes to an end


# Clients read all certificate authorities at their start, a third of these tests' time.
_context = functools.cache(ssl.create_default_context)


def prepare_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients on this machine go past any proxy, and share what they know of certificates."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(ssl, "create_default_context", _context)


class Asked(NamedTuple):
    """A request that came in."""

    name: str  # the path without its leading slash
    range: str | None


class FaultyServer:
    """Serves `folder` at `url` while it is open as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[Asked] = []
        self._scripts: dict[str, deque[Fault]] = defaultdict(deque)
        self._always: dict[str, Fault] = {}
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> Self:
        # The interval is that at which the server looks whether it shall end.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()  # waits for the threads of all requests
        if error is None:
            assert not self._server.errors, f"the server itself failed: {self._server.errors}"

    def script(self, name: str, *faults: "Fault") -> None:
        """What happens to the next requests for a path, in turn; after that it is healthy."""
        with self._lock:
            self._scripts[name].extend(faults)

    def always(self, name: str, fault: "Fault") -> None:
        """What happens to all requests for a path, after its script; `*` is every path."""
        with self._lock:
            self._always[name] = fault

    def heal(self) -> None:
        """Forget all faults and all that was asked."""
        with self._lock:
            self._scripts.clear()
            self._always.clear()
            self.asked.clear()

    def names(self) -> list[str]:
        """The paths asked for, in order of arrival."""
        with self._lock:
            return [asked.name for asked in self.asked]

    def ranges(self, name: str) -> list[str | None]:
        """The Range headers of the requests for a path."""
        with self._lock:
            return [asked.range for asked in self.asked if asked.name == name]

    def take(self, asked: Asked) -> "Fault":
        """Record a request and say how to answer it."""
        with self._lock:
            self.asked.append(asked)
            if self._scripts[asked.name]:
                return self._scripts[asked.name].popleft()
            return self._always.get(asked.name) or self._always.get("*") or healthy


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # with block_on_close: no thread outlives the server
    request_queue_size = 64

    def __init__(self, owner: FaultyServer) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.owner = owner
        self.errors: list[BaseException] = []
        self.open_connections: set[socket.socket] = set()
        self.lock = threading.Lock()

    def hang_up(self) -> None:
        """End all connections: whoever stalls on one wakes up."""
        with self.lock:
            for connection in self.open_connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        assert error is not None
        if not isinstance(error, ConnectionError):  # the client may go away at any time
            self.errors.append(error)


class Answer(BaseHTTPRequestHandler):
    """One request and the means to answer it, rightly or wrongly."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.open_connections.add(self.connection)

    def finish(self) -> None:
        with self.server.lock:
            self.server.open_connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing goes to the error stream."""

    def do_GET(self) -> None:
        self.close_connection = True
        asked = Asked(self.path.lstrip("/"), self.headers.get("Range"))
        self.server.owner.take(asked)(self)

    def content(self) -> bytes | None:
        """The file that was asked for, or None where there is none."""
        path = self.server.owner.folder / self.path.lstrip("/")
        return path.read_bytes() if path.is_file() else None

    def start(self, status: int, length: int | None, **headers: str) -> None:
        """Status line and headers; underscores in header names stand for hyphens."""
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Connection", "close")
        self.end_headers()

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.start(status, len(body), **headers)
        self.wfile.write(body)

    def start_file(self) -> bytes | None:
        """Headers for what was asked for, with regard to Range; returns the bytes that are due."""
        content = self.content()
        if content is None:
            self.send(404, b"not found\n")
            return None
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if asked is None:
            self.start(200, len(content))
            return content
        first = int(asked[1])
        last = min(int(asked[2]) if asked[2] else len(content), len(content) - 1)
        if first >= len(content):
            self.send(416, b"", Content_Range=f"bytes */{len(content)}")
            return None
        due = content[first : last + 1]
        self.start(206, len(due), Content_Range=f"bytes {first}-{last}/{len(content)}")
        return due


Fault = Callable[[Answer], None]


def healthy(answer: Answer) -> None:
    """The file or a part of it (206), 404 or 416."""
    due = answer.start_file()
    if due is not None:
        answer.wfile.write(due)


def truncate(after: int) -> Fault:
    """The connection ends after some bytes of what the headers promised."""

    def fault(answer: Answer) -> None:
        due = answer.start_file()
        if due is not None:
            answer.wfile.write(due[:after])

    return fault


def stall(after: int) -> Fault:
    """Some bytes come, then nothing, until the client goes away or the server closes."""

    def fault(answer: Answer) -> None:
        due = answer.start_file()
        if due is not None:
            answer.wfile.write(due[:after])
            answer.rfile.read(1)

    return fault


def trickle(pause: threading.Event, seconds: float) -> Fault:
    """A byte at a time, each in good time for a timeout: only the rate tells that it stalls."""

    def fault(answer: Answer) -> None:
        due = answer.start_file() or b""
        for code in due:
            answer.wfile.write(bytes([code]))
            if pause.wait(seconds):
                return

    return fault


def hang_up(answer: Answer) -> None:
    """The connection ends without an answer."""


def status(code: int, *, retry_after: str | None = None) -> Fault:
    """An answer of this status."""

    def fault(answer: Answer) -> None:
        headers = {} if retry_after is None else {"Retry_After": retry_after}
        answer.send(code, HTTPStatus(code).phrase.encode(), **headers)

    return fault


def redirect(answer: Answer) -> None:
    """A redirection to where the client already is."""
    answer.send(302, b"", Location=answer.path)


def other_bytes(answer: Answer) -> None:
    """The right number of bytes, all of them wrong."""
    due = answer.start_file()
    if due is not None:
        answer.wfile.write(bytes(code ^ 0xFF for code in due))


def other_length(change: int) -> Fault:
    """The whole file with bytes added or taken away at its end, and a length that fits."""

    def fault(answer: Answer) -> None:
        content = answer.content() or b""
        answer.send(200, content[:change] if change < 0 else content + b"x" * change)

    return fault


def endless(answer: Answer) -> None:
    """Far more bytes than the file has, without a length."""
    answer.start(200, None)
    for _ in range(ENDLESS >> 16):
        answer.wfile.write(bytes(1 << 16))


def page(answer: Answer) -> None:
    """A web page with status 200: what a captive portal answers to everything."""
    answer.send(200, PAGE, Content_Type="text/html")


def whole(answer: Answer) -> None:
    """The whole file, whatever part was asked for."""
    answer.send(200, answer.content() or b"")


def misplaced(answer: Answer) -> None:
    """A part of the file (206), but not the one that was asked for."""
    content = answer.content() or b""
    place = f"bytes 1-{len(content) - 1}/{len(content)}"
    answer.send(206, content[1:], Content_Range=place)


def compressed(answer: Answer) -> None:
    """The whole file, compressed on the way if the client says that it can read that."""
    content = answer.content() or b""
    if "gzip" in answer.headers.get("Accept-Encoding", ""):
        answer.send(200, gzip.compress(content), Content_Encoding="gzip")
    else:
        answer.send(200, content)
