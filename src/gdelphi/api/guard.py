"""What every request passes before it is answered, and every answer before it is sent.

Refused are requests by a host name that is not ours (a page of somebody else whose name was turned
to this machine: DNS rebinding), without the token where one is wanted, with a body, too long, or
too many. Answers carry an ETag, which is a checksum of their bytes: who has it gets 304 and nothing
else. No answer may be read by a page of another site: no header allows it.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_TARGET: Final = 4096  # characters of path and query
MINUTE: Final = 60.0
CLIENTS_KEPT: Final = 10_000
LOCAL_NAMES: Final = ("localhost",)
METHODS: Final = ("GET", "HEAD")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    error: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        """As JSON."""
        return json.dumps({"error": self.error, "message": self.message}).encode()


class RateLimit:
    """Requests that each client may still send: a bucket that fills up again over a minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._full, self._clock, self._lock = per_minute, clock, Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def seconds_to_wait(self, client: str) -> float:
        """0 if the client may ask now, which is counted."""
        if not self._full:
            return 0.0
        now, rate = self._clock(), self._full / MINUTE
        with self._lock:
            left, since = self._left.pop(client, (float(self._full), now))
            left = min(self._full, left + (now - since) * rate)
            self._left[client] = (left - 1 if left >= 1 else left), now
            while len(self._left) > CLIENTS_KEPT:  # those who have not asked for longest
                self._left.pop(next(iter(self._left)))
        return 0.0 if left >= 1 else (1 - left) / rate


class Guard:
    """The middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str] = (),
        token: str | None = None,
        limit: RateLimit | None = None,
    ) -> None:
        self._app, self._token = app, token
        self._hosts = {*LOCAL_NAMES, *(host.lower().rstrip(".") for host in hosts)}
        self._limit = limit or RateLimit(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal:
            await _send_refusal(refusal, send)
            return
        head = scope["method"] == "HEAD"
        answer = _Answer(headers.get("if-none-match", ""), send, without_body=head)
        await self._app({**scope, "method": "GET"} if head else scope, receive, answer.take)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        name = host_name(headers.getlist("host"))
        if name is None or not (name in self._hosts or _is_address(name)):
            return Refusal(
                421, "host", "this server is not known by that name: api.hosts lists its names"
            )
        client = scope["client"][0] if scope.get("client") else ""
        wait = self._limit.seconds_to_wait(client)
        if wait:
            after = {"retry-after": str(int(wait) + 1)}
            return Refusal(429, "rate", "too many requests: ask again later", after)
        if self._token and not _knows(self._token, headers.get("authorization", "")):
            asked = {"www-authenticate": 'Basic realm="gdelphi", charset="UTF-8"'}
            return Refusal(401, "token", "a token is wanted: Authorization: Bearer ...", asked)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_TARGET:
            return Refusal(414, "length", f"an address has up to {LONGEST_TARGET} characters")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return Refusal(413, "body", "questions have no body")
        return None


def host_name(values: Sequence[str]) -> str | None:
    """The host that a request names, without its port; None if it names none, or several."""
    if len(values) != 1:
        return None
    text = values[0].strip().lower()
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        return name if bracket and (not rest or rest[0] == ":") else None
    name, _, port = text.partition(":")
    return name.rstrip(".") if name and (not port or port.isdigit()) else None


def _is_address(name: str) -> bool:
    """An address is no name, so nobody can have turned it elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _knows(token: str, given: str) -> bool:
    """Whether a header has the token, as a bearer's or as the password of any user."""
    kind, _, value = given.partition(" ")
    value = value.strip()
    if kind.lower() == "basic":
        try:
            value = base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    elif kind.lower() != "bearer":
        return False
    return hmac.compare_digest(value.encode(), token.encode())


async def _send_refusal(refusal: Refusal, send: Send) -> None:
    body = refusal.body()
    headers = {
        **HEADERS, **refusal.headers,
        "content-type": "application/json", "content-length": str(len(body)),
    }  # fmt: skip
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


class _Answer:
    """Collects an answer, and sends it with what every answer has."""

    def __init__(self, known: str, send: Send, *, without_body: bool) -> None:
        self._known, self._send, self._without_body = known, send, without_body
        self._start: Message = {}
        self._body: list[bytes] = []

    async def take(self, message: Message) -> None:
        """A part of the answer."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._body.append(message.get("body", b""))
            if not message.get("more_body"):
                await self._finish(b"".join(self._body))

    async def _finish(self, body: bytes) -> None:
        headers = MutableHeaders(raw=self._start["headers"])
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        start: dict[str, Any] = {**self._start, "headers": headers.raw}
        if start["status"] == 200:
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            headers["etag"] = tag
            if _has(self._known, tag):
                start["status"], body = 304, b""
                for name in ("content-length", "content-type"):
                    del headers[name]
        if self._without_body:
            body = b""
        await self._send({**start, "headers": headers.raw})
        await self._send({"type": "http.response.body", "body": body})


def _has(known: str, tag: str) -> bool:
    """Whether an If-None-Match names a tag; the mark of a weak one changes nothing here."""
    tags = {one.strip().removeprefix("W/") for one in known.split(",")}
    return tag in tags or "*" in tags
