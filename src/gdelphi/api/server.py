"""The HTTP API as an application, and the server that `gdelphi api` runs."""

import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from gdelphi import __version__
from gdelphi.api.guard import Guard, RateLimit
from gdelphi.api.pages import make_pages
from gdelphi.api.routes import make_router
from gdelphi.common.errors import (
    ConfigError,
    NothingStored,
    QuestionError,
    ServeError,
    StoreError,
    UnknownName,
)
from gdelphi.common.settings import ENV_TOKEN, Settings
from gdelphi.questions.questions import Questions
from gdelphi.report.report import reports_folder

SHORTEST_TOKEN: Final = 16
CONCURRENT: Final = 100  # requests at once; more are refused
HEADER_BYTES: Final = 16 * 1024
log = logging.getLogger(__name__)


def make_app(settings: Settings, *, token: str | None = None) -> FastAPI:
    """The API over a store, its forecasts and reports."""
    app = FastAPI(
        title="gdelphi",
        version=__version__,
        description="What is likely to happen next, and how good such forecasts have been. "
        "Read only.",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/openapi.json",
        separate_input_output_schemas=False,
    )
    app.include_router(make_router(Questions(settings)))
    app.include_router(make_pages(reports_folder(settings)))
    for kind, answer in ANSWERS.items():
        app.add_exception_handler(kind, answer)
    limit = RateLimit(settings.api.requests_per_minute)
    app.add_middleware(Guard, hosts=settings.api.hosts, token=token, limit=limit)
    return app


# --- errors: JSON, one line, no path and no traceback ---------------------------------------------


def _error(status: int, error: str, message: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": error, "message": message}, status, headers)


def _not_there(_: Request, error: Exception) -> JSONResponse:
    return _error(404, "not found", str(error))


def _not_a_question(_: Request, error: Exception) -> JSONResponse:
    return _error(422, "not a question", str(error))


def _invalid(_: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    told = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in problems]
    return _error(422, "not a question", "; ".join(told)[:500])


def _http(_: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "there is no such address", 405: "questions are asked with GET"}
    headers = getattr(error, "headers", None)
    return _error(status, "http", words.get(status, "the request is not understood"), headers)


def _busy(_: Request, error: Exception) -> JSONResponse:
    log.error("the store cannot be read: %s", error)
    message = "the store cannot be read now: `gdelphi status` tells why"
    return _error(503, "store", message, {"retry-after": "30"})


def _failed(request: Request, error: Exception) -> JSONResponse:
    log.error("%s failed", request.url.path, exc_info=error)
    return _error(500, "internal", "this should not have happened; the server's log tells more")


ANSWERS: Final[dict[Any, Any]] = {
    UnknownName: _not_there,
    NothingStored: _not_there,
    QuestionError: _not_a_question,
    StoreError: _busy,
    RequestValidationError: _invalid,
    HTTPException: _http,
    Exception: _failed,
}


# --- the server -----------------------------------------------------------------------------------


def token_for(host: str) -> str | None:
    """The token from the environment; without one only this machine is listened to."""
    token = os.environ.get(ENV_TOKEN)
    if token and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise ConfigError(f"{ENV_TOKEN} needs at least {SHORTEST_TOKEN} plain characters")
    if not token and not _is_this_machine(host):
        raise ConfigError(
            f"api.host {host} can be reached from elsewhere: set a token in {ENV_TOKEN}, or listen "
            "on 127.0.0.1"
        )
    return token or None


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve_api(settings: Settings, token: str | None, say: Callable[[str], None]) -> None:
    """Answer until a signal asks to stop; `say` is told where."""
    import uvicorn

    host = settings.api.host
    listening = _listen(host, settings.api.port)
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        make_app(settings, token=token), log_level="warning", access_log=False,
        server_header=False, proxy_headers=False, limit_concurrency=CONCURRENT, ws="none",
        h11_max_incomplete_event_size=HEADER_BYTES, timeout_graceful_shutdown=5,
    )  # fmt: skip
    say(f"http://{shown}:{listening.getsockname()[1]}/")
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ServeError(
            f"{host}, port {port} cannot be listened on ({error.strerror}): set another in "
            "api.host and api.port"
        ) from None
