"""A figure -> a file that needs nothing else: HTML that opens offline, or a PNG."""

from __future__ import annotations

import html
import os
import tempfile
from pathlib import Path

import plotly.graph_objects as go

from sweeper.core.errors import InputError
from sweeper.report.tables import Table
from sweeper.report.theme import FONT, PALETTES

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0 auto; padding: 1rem; max-width: 64rem; font: 15px/1.5 {font};
       color: {ink}; background: {paper}; font-variant-numeric: tabular-nums; }}
h1 {{ font-size: 1.25rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }}
.plot {{ height: min(34rem, 75vh); min-height: 22rem; }}
.table {{ overflow-x: auto; }}
table {{ border-collapse: collapse; white-space: nowrap; font-size: .9rem; }}
th, td {{ padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid {grid}; }}
th {{ color: {muted}; font-weight: 500; }}
</style>
</head>
<body>
<h1>{title}</h1>
{note}<div class="plot">{plot}</div>
{table}
</body>
</html>
"""


def write_html(
    figure: go.Figure, path: Path, *, title: str, note: str = "", table: Table | None = None
) -> None:
    """A self-contained page: plotly.js is inside it (about 5 MB); nothing is fetched. The note
    stands above the plot.

    The file appears whole or not at all. Raises InputError where `path` cannot be written.
    """
    palette = PALETTES["light"]
    plot = figure.to_html(
        full_html=False,
        include_plotlyjs=True,
        default_width="100%",
        default_height="100%",
        config={"responsive": True, "displaylogo": False},
    )
    page = _PAGE.format(
        title=html.escape(title),
        font=FONT,
        ink=palette.ink,
        paper=palette.paper,
        grid=palette.grid,
        muted=palette.muted,
        note=f"<p>{html.escape(note)}</p>\n" if note else "",
        plot=plot,
        table=_html_table(table) if table else "",
    )
    _replace(path, page.encode())


def write_png(
    figure: go.Figure, path: Path, *, width: int = 900, height: int = 560, scale: float = 2
) -> None:
    """An image of `width` x `height` CSS pixels times `scale`, drawn by an installed browser.

    Raises InputError where there is no Chrome or Chromium, or `path` cannot be written.
    """
    # Kaleido brings choreographer, which takes a third of a second to import.
    import kaleido  # type: ignore[import-untyped]  # noqa: PLC0415
    from choreographer.errors import (  # noqa: PLC0415
        BrowserClosedError,
        BrowserFailedError,
        ChromeNotFoundError,
    )

    try:
        image = kaleido.calc_fig_sync(
            figure,
            opts={"format": "png", "width": width, "height": height, "scale": scale},
            kopts={"mathjax": False},  # else it is fetched from a CDN
        )
    except ChromeNotFoundError:
        raise InputError(
            "a PNG is drawn by Chrome or Chromium, and none is installed: install one "
            "(`apt install chromium`, or `kaleido_get_chrome`), or write HTML instead"
        ) from None
    except (BrowserFailedError, BrowserClosedError) as error:
        raise InputError(f"the browser that draws the PNG did not start: {error}") from error
    _replace(path, image)


def _html_table(table: Table) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    head = row(table.head, "th")
    return (
        f'<div class="table"><table>\n<thead>{head}</thead>\n<tbody>{body}</tbody>\n</table></div>'
    )


def _replace(path: Path, content: bytes) -> None:
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            # mkstemp makes files private; a report is made to be shared.
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
