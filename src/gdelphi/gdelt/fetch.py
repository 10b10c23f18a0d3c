"""Fetching files from a site: resumed, retried with pauses, verified.

A file is written to `name.part` and takes its name only when its size and checksum are right, so a
killed run leaves nothing that looks whole. What the server says decides about trying again: 429 and
5xx and broken connections do, 404 does not. Bytes that do not match the archive's list are fetched
afresh once; if they are wrong again the file is put aside and reported.
"""

import email.utils
import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import httpx
import tenacity

from gdelphi.common.errors import (
    ArchiveError,
    FetchFailed,
    FileMissing,
    FileRefused,
)
from gdelphi.common.files import text_digest
from gdelphi.common.sections import IngestSettings
from gdelphi.gdelt.faults import raise_if_exhausted
from gdelphi.gdelt.file_names import SourceFile

LONGEST_PAUSE = 300.0  # seconds; a server that asks for more is left for the next run
SLOWEST_RATE = 1000.0  # bytes a second; below it a connection counts as stalled
IDENTITY = {"Accept-Encoding": "identity"}  # bytes as they are: sizes and ranges count them

T = TypeVar("T")


@dataclass(frozen=True)
class Fetched:
    """A file on this machine whose bytes are those that the archive promised."""

    path: Path
    md5: str
    size: int


class _TryAgain(Exception):
    """A try failed in a way that another try may mend."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class _WrongBytes(_TryAgain):
    """The file came whole but is not the one that was listed."""


def verify(path: Path, file: SourceFile) -> Fetched:
    """Compare a file with what the archive's list says about it."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise FileRefused(f"{file.name} has {size:,} bytes where the list says {file.size:,}")
    with path.open("rb") as stream:
        md5 = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if file.md5 is not None and md5 != file.md5:
        raise FileRefused(f"{file.name} has md5 {md5} where the list says {file.md5}")
    return Fetched(path, md5, size)


class Fetcher:
    """Fetches from one site; safe to use from several threads."""

    def __init__(self, base_url: str, settings: IngestSettings) -> None:
        self.base_url = base_url
        self.settings = settings
        self.stop = threading.Event()
        place = text_digest(base_url)[:12]
        self.folder = settings.downloads / place
        self.spoiled = settings.downloads / "spoiled"
        limits = httpx.Limits(max_connections=settings.jobs + 1)
        self.client = httpx.Client(
            timeout=settings.timeout_seconds, limits=limits, follow_redirects=True
        )

    def close(self) -> None:
        self.stop.set()
        self.client.close()

    def fetch(self, file: SourceFile, on_bytes: Callable[[int], None]) -> Fetched:
        """Bring one file here, or raise FileMissing, FetchFailed or FileRefused."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / file.name
        part = target.with_name(target.name + ".part")
        if target.is_file():  # kept from an earlier run
            try:
                return verify(target, file)
            except FileRefused:
                target.unlink()
        wrong = 0

        def attempt() -> Fetched:
            nonlocal wrong
            self._download(file.name, part, file.size, on_bytes)
            try:
                fetched = verify(part, file)
            except FileRefused as error:
                wrong += 1
                aside = self.discard(part, spoiled=True)
                if wrong > 1:
                    raise FileRefused(f"{error}, twice; kept as {aside}") from None
                raise _WrongBytes(str(error)) from None
            part.rename(target)
            return Fetched(target, fetched.md5, fetched.size)

        return self._with_retries(attempt, file.name)

    def fetch_list(self, name: str) -> str | None:
        """The text of a list, or None where the site has no such list.

        GDELT's master list is long and only grows, so a copy is kept and only its new end fetched.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        copy = self.folder / name
        part = copy.with_name(f"{name}.{os.getpid()}.part")  # another process may fetch it too
        part.unlink(missing_ok=True)

        def attempt() -> str:
            if not self._extend(name, copy):
                self._download(name, part, None, lambda _: None)
                part.rename(copy)
            return copy.read_text(encoding="utf-8", errors="replace")

        try:
            return self._with_retries(attempt, name)
        except FileMissing:
            return None
        except FetchFailed as error:
            raise ArchiveError(
                f"{self.base_url} is out of reach ({error}). Without the internet, give a mirror "
                "or a folder: --archive FOLDER"
            ) from None

    def discard(self, path: Path, *, spoiled: bool) -> Path:
        """Remove a file that has done its work, or put a spoiled one aside for a look."""
        if not spoiled:
            if not self.settings.keep_downloads:
                path.unlink(missing_ok=True)
            return path
        self.spoiled.mkdir(parents=True, exist_ok=True)
        return path.replace(self.spoiled / path.name.removesuffix(".part"))

    def _with_retries(self, attempt: Callable[[], T], name: str) -> T:
        """Try again as long as that may help; the error names the reason of the last try."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_TryAgain),
            stop=tenacity.stop_after_attempt(self.settings.attempts)
            | tenacity.stop_when_event_set(self.stop),
            wait=self._pause,
            sleep=tenacity.sleep_using_event(self.stop),
            reraise=True,
        )
        try:
            return retrying(attempt)
        except _WrongBytes as error:
            raise FileRefused(str(error)) from None
        except _TryAgain as error:
            tries = retrying.statistics.get("attempt_number", 1)
            times = "1 try" if tries == 1 else f"{tries} tries"
            raise FetchFailed(f"{name}: {error}, after {times}") from None

    def _pause(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        usual = tenacity.wait_random_exponential(self.settings.backoff_seconds, max=60)(state)
        return max(usual, getattr(error, "after", None) or 0.0)

    def _download(
        self, name: str, part: Path, size: int | None, on_bytes: Callable[[int], None]
    ) -> None:
        """One try: fetch the rest of `part`; TryAgain where it did not come to its end."""
        have = part.stat().st_size if part.is_file() else 0
        if size is not None and have > size:
            part.unlink()
            have = 0
        if size is not None and have == size and have > 0:
            return
        headers = IDENTITY | ({"Range": f"bytes={have}-"} if have else {})
        if self.stop.is_set():
            raise _TryAgain("stopped")
        try:
            with self.client.stream("GET", self.base_url + name, headers=headers) as response:
                self._check(response, part)
                resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
                if resumed and not response.headers.get("Content-Range", "").startswith(
                    f"bytes {have}-"
                ):
                    part.unlink(missing_ok=True)
                    raise _TryAgain("the server resumed at another place")
                self._receive(response, part, "ab" if resumed else "wb", size, on_bytes)
                if "Content-Length" in response.headers:
                    return  # it is all that the server has: `verify` judges it
        except httpx.RequestError as error:
            raise_if_exhausted(error, name)
            raise _TryAgain(_describe(error)) from None
        if size is not None and part.stat().st_size < size:
            raise _TryAgain(f"broke off after {part.stat().st_size:,} of {size:,} bytes")

    def _check(self, response: httpx.Response, part: Path) -> None:
        status = response.status_code
        if status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
            raise FileMissing(f"{response.url} is not there (HTTP {status})")
        if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
            raise _TryAgain("the partial file does not fit the server's (HTTP 416)")
        if status in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.REQUEST_TIMEOUT) or status >= 500:
            after = _retry_after(response.headers.get("Retry-After"))
            if after is not None and after > LONGEST_PAUSE:
                raise FetchFailed(f"{response.url} asks to wait {after:.0f} s (HTTP {status})")
            raise _TryAgain(f"HTTP {status}", after=after)
        if status not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            raise FetchFailed(f"{response.url} answers HTTP {status}")

    def _receive(
        self,
        response: httpx.Response,
        part: Path,
        mode: str,
        size: int | None,
        on_bytes: Callable[[int], None],
    ) -> None:
        """Write what comes at once: what a broken connection has brought is resumed later."""
        began, received = time.monotonic(), 0
        with part.open(mode) as stream:
            for chunk in response.iter_raw():
                stream.write(chunk)
                received += len(chunk)
                on_bytes(len(chunk))
                if size is not None and stream.tell() > size:
                    break  # too long already: the check of its size will say so
                elapsed = time.monotonic() - began
                if self.stop.is_set():
                    raise _TryAgain("stopped")
                if elapsed > self.settings.timeout_seconds and received / elapsed < SLOWEST_RATE:
                    raise _TryAgain(f"stalled: {received:,} bytes in {elapsed:.0f} s")

    def _extend(self, name: str, copy: Path) -> bool:
        """Fetch what a list has gained since the copy; False where the whole must be fetched.

        The last bytes of the copy are asked for again: if they differ, the list was rewritten.
        """
        have = copy.stat().st_size if copy.is_file() else 0
        overlap = min(have, 4096)
        if overlap == 0 or not name.startswith("masterfilelist"):
            return False
        headers = IDENTITY | {"Range": f"bytes={have - overlap}-"}
        try:
            response = self.client.get(self.base_url + name, headers=headers)
        except httpx.RequestError as error:
            raise _TryAgain(_describe(error)) from None
        if response.status_code != httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._check(response, copy)
        if response.status_code != httpx.codes.PARTIAL_CONTENT:
            return False
        with copy.open("r+b") as stream:
            stream.seek(have - overlap)
            if not response.content.startswith(stream.read(overlap)):
                return False
            stream.seek(have)
            stream.write(response.content[overlap:])
        return True


def _describe(error: httpx.RequestError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return f"connection failed ({str(error) or type(error).__name__})"


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait: the header gives either a number or a date."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
