"""The pages on the finding codes, and the glossary: Markdown files, part of every installation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fusiondoc.diagnosis.recipe_pages import recipe_page
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.codes import CODES

PAGES = Path(__file__).resolve().parent / "pages"


def page(code: str) -> str:
    """The Markdown page of a code, or of the recipes for an operator, written in any case.

    Raises UsageError for what is neither.
    """
    name = code.strip().upper()
    if name not in CODES:
        recipe = recipe_page(code)
        if recipe is not None:
            return recipe
        raise UsageError(
            f"There is no finding code '{code}'. {_nearest(name)}", "fusiondoc explain lists all codes."
        )
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def glossary(terms: Sequence[str] = ()) -> str:
    """The glossary as Markdown, or the entries of ``terms`` alone, written in any case.

    Raises UsageError for a term that the glossary does not have.
    """
    text = (PAGES / "glossary.md").read_text(encoding="utf-8")
    if not terms:
        return text
    entries = {entry.split("\n", 1)[0].lower(): f"## {entry.strip()}" for entry in text.split("\n## ")[1:]}
    for term in terms:
        if term.strip().lower() not in entries:
            raise UsageError(
                f"The glossary has no entry '{term}'. {did_you_mean(term.strip().lower(), entries)}",
                "fusiondoc explain --glossary prints all of it.",
            )
    return "\n\n".join(entries[term.strip().lower()] for term in terms) + "\n"


def _nearest(name: str) -> str:
    digits = name[2:] if name.startswith("FD") else name
    if digits.isdigit() and f"FD{int(digits):03d}" in CODES:
        return f"Did you mean 'FD{int(digits):03d}'?"
    return did_you_mean(name, CODES)
