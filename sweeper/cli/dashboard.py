"""`sweeper dashboard`: serve the pages until interrupted."""

from __future__ import annotations

import ipaddress
import secrets

from sweeper.core.errors import InputError
from sweeper.web.app import serve

MIN_TOKEN = 16
"""Characters of a token that is given."""


def serve_dashboard(db: str, *, host: str, port: int, given: str | None) -> None:
    """Loopback is open to its own machine; any other address demands a token: the `given` one,
    else a new one, shown once. Raises InputError for one that can be guessed."""
    if given is not None and len(given) < MIN_TOKEN:
        raise InputError(f"SWEEPER_TOKEN must have at least {MIN_TOKEN} characters")
    token = given or (None if _is_loopback(host) else secrets.token_urlsafe(24))

    def announce(port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        if given is not None:  # logs are no place for it
            query = "?token=$SWEEPER_TOKEN"
        else:
            query = "" if token is None else f"?token={token}"
        print(f"dashboard: http://{shown}:{port}/{query}   (Ctrl-C ends it)", flush=True)

    serve(db, host=host, port=port, token=token, announce=announce)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
