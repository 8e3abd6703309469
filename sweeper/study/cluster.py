"""Whether a Ray cluster answers, asked without Ray.

Ray itself tries for many minutes to join a cluster that is not there. Its head speaks gRPC, so
whoever greets as HTTP/2 does is taken for one.
"""

from __future__ import annotations

import os
import socket

from sweeper.core.errors import InputError

TIMEOUT_SECONDS = 5.0
_SETTINGS = b"\0\0\0\4\0\0\0\0\0"
"""An HTTP/2 frame: length 0 (3 bytes), type 4, no flags, stream 0. (RFC 9113, 3.4 and 4.1)"""
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS


def find_cluster(address: str) -> str | None:
    """The cluster that `ray.address` means; None when a local Ray is to be started.

    `auto` is the environment variable RAY_ADDRESS, or local where it is not set. Raises
    InputError when no cluster answers there.
    """
    named = address
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or "local"
        named = f"RAY_ADDRESS={address}"
    if address == "local":
        return None
    reason = _why_silent(address.removeprefix("ray://"))
    if reason:
        raise InputError(
            f"no Ray cluster answers at {named}: {reason}; `local` starts one on this machine"
        )
    return address


def _why_silent(host_and_port: str) -> str | None:
    host, _, port = host_and_port.rpartition(":")
    if not host or not port.isdecimal():
        return "it is not host:port"
    encrypted = os.environ.get("RAY_USE_TLS", "0") in ("1", "true")
    try:
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS) as connection:
            if encrypted:  # the greeting would need Ray's certificates
                return None
            connection.sendall(_GREETING)
            answer = connection.recv(len(_SETTINGS), socket.MSG_WAITALL)
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__
    is_settings = len(answer) == len(_SETTINGS) and answer[3] == _SETTINGS[3]
    return None if is_settings else "what listens there is not Ray"
