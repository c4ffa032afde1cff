"""``check --update``: writes the file and shows what changed."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Sequence

import click

from fusiondoc.errors import UsageError
from fusiondoc.expectations.load import read_text
from fusiondoc.expectations.update import updated
from fusiondoc.model import Report

_BOM = b"\xef\xbb\xbf"


def update_file(file: Path, report: Report, only: Sequence[str], diff_to_stdout: bool) -> None:
    """Bring the file in line with the report; the difference goes to stdout, or to stderr beside a report."""
    before = read_text(file) if file.exists() else ""
    after = updated(before, str(file), report, only)
    if after == before:
        click.echo(f"{file} is up to date", err=True)
        return
    mark = _BOM if file.exists() and file.read_bytes().startswith(_BOM) else b""
    try:
        file.write_bytes(mark + after.encode("utf-8"))
    except OSError as error:
        raise UsageError(
            f"Cannot write {file}: {error.strerror}", "Choose another place with --expect."
        ) from None
    difference = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{file} (before)", f"{file} (now)", lineterm=""
    )
    for line in difference:
        click.echo(line, file=sys.stdout if diff_to_stdout else sys.stderr)
    click.echo(f"wrote {file}", err=True)
