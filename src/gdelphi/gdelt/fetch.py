"""Fetching files from a site: resumed, retried with pauses, verified.

A file is written to `name.part` and takes its name only when its size and checksum are right, so a
killed run leaves nothing that looks whole. What the server says decides about trying again: 429 and
5xx and broken connections do, 404 does not. Bytes that do not match the archive's list are fetched
afresh once; if they are wrong again the file is put aside and reported.

Several processes may fetch the same files: each has a folder of its own, named by its number, and
what one has left there by being killed is taken over by the next. Nothing is fetched without end:
a file has its listed size, or at most `ingest.max_download_gigabytes`.
"""

import contextlib
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
from gdelphi.common.files import is_alive, text_digest
from gdelphi.common.sections import IngestSettings
from gdelphi.gdelt.addresses import file_address, hide_secrets, may_lead_to, public_address
from gdelphi.gdelt.faults import raise_if_exhausted
from gdelphi.gdelt.file_names import SourceFile

LONGEST_PAUSE = 300.0  # seconds; a server that asks for more is left for the next run
SLOWEST_RATE = 1000.0  # bytes a second; below it a connection counts as stalled
LARGEST_LIST = 1 << 29  # bytes; GDELT's longest has a quarter of that after eleven years
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
        self.site = public_address(base_url)
        place = text_digest(base_url)[:12]
        self.folder = settings.downloads / place
        self.spoiled = settings.downloads / "spoiled"
        self.most = int(settings.max_download_gigabytes * (1 << 30))
        self._own = self.folder / str(os.getpid())
        self.client = open_client(settings)

    def close(self) -> None:
        self.stop.set()
        self.client.close()
        with contextlib.suppress(OSError):
            self._own.rmdir()  # unless files are in it that are not loaded yet

    def fetch(self, file: SourceFile, on_bytes: Callable[[int], None]) -> Fetched:
        """Bring one file here, or raise FileMissing, FetchFailed or FileRefused."""
        if file.size is not None and file.size > self.most:
            raise FileRefused(
                f"{file.name} has {file.size:,} bytes by the list: more than "
                f"ingest.max_download_gigabytes allows ({self.most:,})"
            )
        self._take_over()
        kept = self.folder / file.name
        target = kept if self.settings.keep_downloads else self._own / file.name
        if target != kept:
            _claim(kept, target)
        if target.is_file():  # kept from an earlier run
            try:
                return verify(target, file)
            except FileRefused:
                target.unlink(missing_ok=True)
        part, left = self._own / f"{file.name}.part", self.folder / f"{file.name}.part"
        _claim(left, part)
        try:
            return self._fetch(file, part, target, on_bytes)
        finally:
            _claim(part, left)  # what has come serves the next try

    def _take_over(self) -> None:
        """Make our own folder, and lay out what killed processes have left in theirs."""
        if self._own.is_dir():
            return
        self._own.mkdir(parents=True, exist_ok=True)
        for folder in list(self.folder.iterdir()):
            if folder.name.isdecimal() and not is_alive(int(folder.name)):
                with contextlib.suppress(OSError):  # another process may do the same
                    for path in list(folder.iterdir()):
                        _claim(path, self.folder / path.name)
                    folder.rmdir()

    def _fetch(
        self, file: SourceFile, part: Path, target: Path, on_bytes: Callable[[int], None]
    ) -> Fetched:
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
            part.replace(target)
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
                self._download(name, part, None, lambda _: None, most=LARGEST_LIST)
                part.rename(copy)
            return copy.read_text(encoding="utf-8", errors="replace")

        try:
            return self._with_retries(attempt, name)
        except FileMissing:
            return None
        except FileRefused as error:
            part.unlink(missing_ok=True)
            raise ArchiveError(f"the list {name} of {self.site} cannot be read: {error}") from None
        except FetchFailed as error:
            raise ArchiveError(
                f"{self.site} is out of reach ({error}). Without the internet, give a mirror "
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
        self,
        name: str,
        part: Path,
        size: int | None,
        on_bytes: Callable[[int], None],
        *,
        most: int | None = None,
    ) -> None:
        """One try: fetch the rest of `part`; TryAgain where it did not come to its end."""
        most = self.most if most is None else most
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
            address = file_address(self.base_url, name)
            with self.client.stream("GET", address, headers=headers) as response:
                self._check(response, name, part)
                resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
                if resumed and not response.headers.get("Content-Range", "").startswith(
                    f"bytes {have}-"
                ):
                    part.unlink(missing_ok=True)
                    raise _TryAgain("the server resumed at another place")
                mode = "ab" if resumed else "wb"
                self._receive(response, part, mode, size, on_bytes, most=most)
                if "Content-Length" in response.headers:
                    return  # it is all that the server has: `verify` judges it
        except httpx.RequestError as error:
            raise_if_exhausted(error, name)
            raise _TryAgain(self._describe(error)) from None
        if size is not None and part.stat().st_size < size:
            raise _TryAgain(f"broke off after {part.stat().st_size:,} of {size:,} bytes")

    def _check(self, response: httpx.Response, name: str, part: Path) -> None:
        status, address = response.status_code, self.site + name
        if status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
            raise FileMissing(f"{address} is not there (HTTP {status})")
        if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
            raise _TryAgain("the partial file does not fit the server's (HTTP 416)")
        if status in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.REQUEST_TIMEOUT) or status >= 500:
            after = _retry_after(response.headers.get("Retry-After"))
            if after is not None and after > LONGEST_PAUSE:
                raise FetchFailed(f"{address} asks to wait {after:.0f} s (HTTP {status})")
            raise _TryAgain(f"HTTP {status}", after=after)
        if status not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            raise FetchFailed(f"{address} answers HTTP {status}")

    def _receive(
        self,
        response: httpx.Response,
        part: Path,
        mode: str,
        size: int | None,
        on_bytes: Callable[[int], None],
        *,
        most: int,
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
                if stream.tell() > most:
                    part.unlink()
                    raise FileRefused(
                        f"{part.name.removesuffix('.part')} is without end: more than {most:,} "
                        "bytes have come (ingest.max_download_gigabytes is the cap of files)"
                    )
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
        content = bytearray()
        try:
            address = file_address(self.base_url, name)
            with self.client.stream("GET", address, headers=headers) as response:
                if response.status_code != httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                    self._check(response, name, copy)
                if response.status_code != httpx.codes.PARTIAL_CONTENT:
                    return False
                for chunk in response.iter_raw():
                    content += chunk
                    if have + len(content) > LARGEST_LIST:
                        raise FileRefused(f"it has more than {LARGEST_LIST:,} bytes")
        except httpx.RequestError as error:
            raise _TryAgain(self._describe(error)) from None
        with copy.open("r+b") as stream:
            stream.seek(have - overlap)
            if not content.startswith(stream.read(overlap)):
                return False
            stream.seek(have)
            stream.write(content[overlap:])
        return True

    def _describe(self, error: httpx.RequestError) -> str:
        if isinstance(error, httpx.TimeoutException):
            return "no answer in time"
        words = str(error) or type(error).__name__
        return f"connection failed ({hide_secrets(words, self.base_url)})"


def open_client(settings: IngestSettings) -> httpx.Client:
    """A client for an archive's site, which follows the site to no other."""
    return httpx.Client(
        timeout=settings.timeout_seconds,
        limits=httpx.Limits(max_connections=settings.jobs + 1),
        follow_redirects=True,
        event_hooks={"response": [_stay_on_site]},
    )


def _stay_on_site(response: httpx.Response) -> None:
    if response.has_redirect_location:
        target = str(response.url.join(response.headers["Location"]))
        if not may_lead_to(str(response.url), target):
            raise FetchFailed(
                f"{public_address(str(response.url))} sends us on to another site, "
                f"{public_address(target)}, which is not followed: set ingest.archive to it if it "
                "is the right one"
            )


def _claim(source: Path, target: Path) -> bool:
    """Move a file, if it is there; of several processes that try, one succeeds."""
    try:
        source.replace(target)
    except FileNotFoundError:
        return False
    return True


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
