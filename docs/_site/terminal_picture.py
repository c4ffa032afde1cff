"""Runs a command in a terminal of 80 columns and draws what that showed at some
moment, for pages of what changes while it runs.

    $ pip install pyte
    $ python docs/_site/terminal_picture.py PICTURE.svg MOMENT COMMAND...

``MOMENT`` is a text: the picture is the last screen that holds it.
"""

from __future__ import annotations

import io
import os
import pty
import sys

import pyte  # type: ignore[import-not-found]
from rich.console import Console
from rich.text import Text

COLUMNS, LINES = 80, 24


def screens(command: list[str]) -> list[list[list[tuple[str, str]]]]:
    """What stood on the screen after each piece of output: lines of characters with
    their styles."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    found = []
    child, terminal = pty.fork()
    if not child:
        os.environ.update(
            COLUMNS=str(COLUMNS), LINES=str(LINES), TERM="xterm-256color"
        )
        os.execvp(command[0], command)
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            data = b""
        if not data:
            os.waitpid(child, 0)
            return found
        stream.feed(data)
        found.append(
            [
                [
                    (
                        cell.data,
                        ("bold " if cell.bold else "")
                        + ("dim" if cell.fg == "brightblack" else ""),
                    )
                    for cell in (
                        screen.buffer[row][column] for column in range(COLUMNS)
                    )
                ]
                for row in range(LINES)
            ]
        )


def main(picture: str, moment: str, *command: str) -> None:
    """Draw the last screen that holds ``moment``."""
    shown = [one for one in screens(list(command)) if moment in _text(one)]
    if not shown:
        sys.exit(f"no screen held {moment!r}")
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    lines = shown[-1]
    while lines and not "".join(char for char, _ in lines[-1]).strip():
        lines.pop()
    for line in lines:
        console.print(Text.assemble(*line), no_wrap=True, crop=True, soft_wrap=True)
    console.save_svg(picture, title="$ " + " ".join(command))


def _text(screen: list[list[tuple[str, str]]]) -> str:
    return "\n".join("".join(char for char, _ in line) for line in screen)


if __name__ == "__main__":
    main(*sys.argv[1:])
