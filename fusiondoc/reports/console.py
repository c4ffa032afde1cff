"""Where rich draws the reports of a terminal: into a text of a given width."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def drawn(content: RenderableType, width: int, colour: bool) -> str:
    """``content`` as text of at most ``width`` columns, with ANSI colours if ``colour``."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    console.print(content)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))
