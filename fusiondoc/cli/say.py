"""Lines for the user: nothing of a log, a path or an error in them is a command to a terminal or to GitHub.

Every command prints through these two; reports go through ``output.write``, whose formats have done the same.
"""

from __future__ import annotations

import click

from fusiondoc.reports.printable import in_github_log, visible


def say(text: str, nl: bool = True) -> None:
    """Results, on stdout."""
    click.echo(in_github_log(visible(text)), nl=nl)


def tell(line: str) -> None:
    """A line on stderr, beside the results."""
    click.echo(in_github_log(visible(line)), err=True)
