"""The pages on the finding codes: Markdown files beside this one, in every kind of installation."""

from __future__ import annotations

from pathlib import Path

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.codes import CODES

PAGES = Path(__file__).resolve().parent / "pages"


def page(code: str) -> str:
    """The Markdown page of a code, written in any case; UsageError for an unknown code."""
    name = code.strip().upper()
    if name not in CODES:
        raise UsageError(
            f"There is no finding code '{code}'. {_nearest(name)}", "fusiondoc explain lists all codes."
        )
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def _nearest(name: str) -> str:
    digits = name[2:] if name.startswith("FD") else name
    if digits.isdigit() and f"FD{int(digits):03d}" in CODES:
        return f"Did you mean 'FD{int(digits):03d}'?"
    return did_you_mean(name, CODES)
