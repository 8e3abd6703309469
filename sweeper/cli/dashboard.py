"""`sweeper dashboard`: serve the pages until interrupted."""

from __future__ import annotations

import ipaddress
import secrets

import typer

from sweeper.store.queries import open_reader
from sweeper.web.app import serve


def serve_dashboard(db: str, *, host: str, port: int) -> None:
    """Loopback is open to its own machine; any other address demands a token, shown once."""
    open_reader(db).dispose()  # a bad database is said before an address is
    token = None if _is_loopback(host) else secrets.token_urlsafe(24)
    shown = f"[{host}]" if ":" in host else host
    query = "" if token is None else f"?token={token}"
    typer.echo(f"dashboard: http://{shown}:{port}/{query}   (Ctrl-C ends it)")
    serve(db, host=host, port=port, token=token)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
