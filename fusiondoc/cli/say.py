"""Lines for the user: nothing of a log, a path or an error in them is a command to a terminal or to GitHub.

Every command prints through these two; reports go through ``output.write``, whose formats have done the same.
``--help`` of every command imports this: what only a line needs is imported where it is printed.
"""

from __future__ import annotations

import click


def say(text: str, nl: bool = True) -> None:
    """Results, on stdout."""
    click.echo(_safe(text), nl=nl)


def tell(line: str) -> None:
    """A line on stderr, beside the results."""
    click.echo(_safe(line), err=True)


def _safe(text: str) -> str:
    from fusiondoc.reports.printable import in_github_log, visible

    return in_github_log(visible(text))
