"""Who may ask, and what a browser may do with the answer.

A dashboard on loopback is reachable by every page that the user's browser has open: a hostile
site can point a name of its own at 127.0.0.1 (DNS rebinding). So the Host header is checked,
requests that other sites cause are refused, and only reads exist.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
COOKIE = "sweeper_token"

HEADERS = {
    # No inline script or style, nothing from elsewhere. `data:` and `blob:` images are how
    # plotly.js saves a plot as PNG.
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guard:
    """ASGI middleware: host check, token, read-only methods, security headers.

    `host` is the address that the server listens on. On loopback only loopback names are
    answered. Elsewhere a machine may have names that it does not know, and the token, which a
    rebinding site cannot have, does the work.
    """

    def __init__(self, app: ASGIApp, *, host: str, token: str | None) -> None:
        self.app = app
        self.token = token
        self.hosts = LOOPBACK | {host.lower()} if token is None or host in LOOPBACK else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer for the application, or let it answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-cache")
            await send(message)

        answer = self._refusal(Request(scope)) or self.app
        await answer(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("This dashboard only reads.\n", 405, {"allow": "GET, HEAD"})
        host = _host_name(request.headers)
        if self.hosts is not None and host not in self.hosts:
            return PlainTextResponse(
                f"This dashboard does not answer to the name {host!r}. Open it as "
                "http://localhost, or start it with that name as --host.\n",
                400,
            )
        if (
            request.headers.get("sec-fetch-site") == "cross-site"
            and request.headers.get("sec-fetch-mode") != "navigate"
        ):
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        return self._ask_for_token(request) if self.token is not None else None

    def _ask_for_token(self, request: Request) -> Response | None:
        assert self.token is not None
        given = request.query_params.get("token")
        if given is not None and _same(given, self.token):
            # Out of the address bar and the history, into a cookie that no script can read.
            rest = [(k, v) for k, v in parse_qsl(request.url.query) if k != "token"]
            path = request.url.path + (f"?{urlencode(rest)}" if rest else "")
            # A path of `//host` would lead elsewhere.
            response = RedirectResponse("/" + path.lstrip("/"), 303)
            response.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
            return response
        if _same(request.cookies.get(COOKIE, ""), self.token):
            return None
        return PlainTextResponse(
            "This dashboard asks for a token: open the address with ?token=... that "
            "`sweeper dashboard` printed when it started.\n",
            401,
            {"www-authenticate": "Bearer"},
        )


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _host_name(headers: Headers) -> str:
    """The Host header in lower case, without its port."""
    host = headers.get("host", "").lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
