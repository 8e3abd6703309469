"""Server-sent events: says when a study has changed, so that a page fetches itself anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

POLL_SECONDS = 1.0
HEARTBEAT_POLLS = 15


def change_stream(token: Callable[[], str]) -> StreamingResponse:
    """An endless stream of `change` events whose data is the study's change token.

    The first is sent at once: a page that was rendered from another token is out of date.
    The server cancels the stream when the reader goes away.
    """
    return StreamingResponse(_changes(token), media_type="text/event-stream")


async def _changes(token: Callable[[], str]) -> AsyncIterator[str]:
    last = None
    silent = 0
    while True:
        now = await run_in_threadpool(token)
        if now != last:
            last, silent = now, 0
            yield f"event: change\ndata: {now}\n\n"
        elif silent >= HEARTBEAT_POLLS:
            # A write is how a broken connection is noticed.
            silent = 0
            yield ": still here\n\n"
        silent += 1
        await asyncio.sleep(POLL_SECONDS)
