"""The dashboard: pages and their JSON twins over a results database that is only read."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from sweeper import __version__
from sweeper.core.errors import DatabaseError, InputError
from sweeper.store.queries import open_reader
from sweeper.web import plotly_js
from sweeper.web.api import api_routes
from sweeper.web.figure_api import figure_routes
from sweeper.web.guard import Guard
from sweeper.web.pages import page_routes, render
from sweeper.web.records import NotFoundError
from sweeper.web.results import Results

STATIC = Path(__file__).parent / "static"


def create_app(db_url: str, *, token: str | None = None, host: str = "127.0.0.1") -> FastAPI:
    """The dashboard of one database, as an ASGI application.

    token: demanded of every visitor when given. host: the address that the server listens
    on; its name is answered to besides the loopback names.
    Raises DatabaseError for a database that cannot be read.
    """
    results = Results(open_reader(db_url))
    threading.Thread(target=results.warm, daemon=True).start()
    app = FastAPI(
        title="sweeper", version=__version__, openapi_url="/api", docs_url=None, redoc_url=None
    )
    # The longer addresses come first: a study's name may contain a slash.
    app.include_router(figure_routes(results))
    app.include_router(api_routes(results))
    app.add_api_route("/static/plotly.min.js", _plotly, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.include_router(page_routes(results))
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_middleware(Guard, host=host, token=token)
    return app


def serve(
    db_url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8321,
    token: str | None = None,
    announce: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve until interrupted. Raises InputError where the port cannot be had.

    announce: called with the port (`port` 0 is any free one) once visitors can connect.
    """
    app = create_app(db_url, token=token, host=host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen()
        except OSError as error:
            raise InputError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
            ) from error
        config = uvicorn.Config(
            app,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            # Streams of changes never end by themselves.
            timeout_graceful_shutdown=1,
        )
        announce(listener.getsockname()[1])
        uvicorn.Server(config).run(sockets=[listener])


def _plotly() -> FileResponse:
    # Its address carries the version (see `base.html`), so it may be kept for ever.
    return FileResponse(
        plotly_js.PATH,
        media_type="text/javascript",
        headers={"cache-control": "private, max-age=31536000, immutable"},
    )


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = "There is no such page." if error.status_code == 404 else str(error.detail)
    return _say(request, error.status_code, words)


def _input_error(request: Request, error: Exception) -> Response:
    if isinstance(error, DatabaseError):
        return _say(request, 503, str(error))
    return _say(request, 404 if isinstance(error, NotFoundError) else 400, str(error))


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = first["loc"][1] if len(first["loc"]) > 1 else first["loc"][0]
    return _say(request, 422, f"{name}: {first['msg'].removeprefix('Value error, ')}")


def _say(request: Request, status: int, words: str) -> Response:
    """An error in words: a page for a reader, JSON for a program."""
    if request.url.path.startswith("/api"):
        return JSONResponse({"detail": words}, status)
    return render("message.html", status=status, title=f"{status}", words=words)
