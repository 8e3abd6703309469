"""plotly.js as the plotly wheel ships it, served from here and never from a CDN."""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

PATH = Path(str(files("plotly") / "package_data" / "plotly.min.js"))
VERSION = version("plotly")
"""Part of its address, so that a browser may keep it for ever."""


def style_ids() -> list[str]:
    """Ids of the elements without which plotly.js writes a <style> as it loads.

    The content security policy forbids that <style>. It serves the map traces, which no page
    draws; a page that holds an element of that id already is left alone.
    """
    return re.findall(r'if\(!document\.getElementById\("([\w-]+)"\)\)', PATH.read_text("utf-8"))
