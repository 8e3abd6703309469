"""`sweeper dashboard`: serve the pages until interrupted."""

from __future__ import annotations

import ipaddress
import secrets

from sweeper.web.app import serve


def serve_dashboard(db: str, *, host: str, port: int) -> None:
    """Loopback is open to its own machine; any other address demands a token, shown once."""
    token = None if _is_loopback(host) else secrets.token_urlsafe(24)

    def announce(port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
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
