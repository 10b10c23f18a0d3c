"""Telling somebody that a run has failed: a webhook, a command, or both.

A notification never hides what it tells of: whatever goes wrong with it is logged and returned, and
nothing is raised. A webhook gets JSON with one field, `text`, which Slack, Mattermost and most
others take as it is; everything else (mail, a pager) is a command that reads its standard input.
"""

import logging
import shlex
import subprocess
from typing import Final

import httpx
from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
)

from gdelphi.common.sections import FlowSettings

ATTEMPTS: Final = 4
FIRST_PAUSE: Final = 1.0  # seconds; it doubles
TIMEOUT: Final = 20.0  # seconds for a webhook's answer
COMMAND_TIMEOUT: Final = 120.0
LONGEST: Final = 3000  # characters; most webhooks refuse more than 4,000
TOO_MANY_REQUESTS, SERVER_ERROR = 429, 500  # HTTP statuses from which trying again may help

log = logging.getLogger(__name__)


def notify(settings: FlowSettings, text: str) -> list[str]:
    """Send a message wherever the settings say; returns what went wrong with it."""
    text = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    problems = []
    if settings.notify_url:
        problems += _post(settings.notify_url, text)
    if settings.notify_command:
        problems += _run(settings.notify_command, text)
    for problem in problems:
        log.error("the notification was not sent: %s; it says: %s", problem, text)
    return problems


def _post(url: str, text: str) -> list[str]:
    """Post a text; returns what went wrong, without the URL: whoever knows it may post there."""
    tries = Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(FIRST_PAUSE),
        retry=retry_if_exception(_may_pass),
        reraise=True,
    )
    try:
        tries(lambda: httpx.post(url, json={"text": text}, timeout=TIMEOUT).raise_for_status())
    except httpx.HTTPStatusError as error:
        return [f"the webhook (flows.notify_url) answers {error.response.status_code}"]
    except (httpx.HTTPError, httpx.InvalidURL, RetryError) as error:
        return [f"the webhook (flows.notify_url) cannot be reached ({type(error).__name__})"]
    return []


def _may_pass(error: BaseException) -> bool:
    """Whether trying again may help."""
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return status == TOO_MANY_REQUESTS or status >= SERVER_ERROR
    return isinstance(error, httpx.TransportError) and not isinstance(
        error, httpx.UnsupportedProtocol
    )


def _run(command: str, text: str) -> list[str]:
    """Run a command with the text as its input; without a shell, so no text can be a command."""
    if not command.strip():
        return ["flows.notify_command is blank: name a command, or leave it out"]
    try:
        subprocess.run(  # noqa: S603 - the operator's own command
            shlex.split(command), input=text.encode(), check=True, timeout=COMMAND_TIMEOUT,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return [f"{command!r} exits with {error.returncode}{f': {lines[-1]}' if lines else ''}"]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [f"{command!r} cannot be run ({error})"]
    return []
