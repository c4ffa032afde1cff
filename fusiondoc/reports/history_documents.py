"""A history on the terminal, as Markdown for a comment, as a page with plots, and
as JSON (schema ``fusiondoc.history/1``)."""

from __future__ import annotations

from fusiondoc.model.history_answers import History
from fusiondoc.rendering import markdown_documents, pages, terminal_documents
from fusiondoc.views.history_sections import (
    MOST_NARROW,
    MOST_WIDE,
    history_document,
)

FORMATS = ("text", "markdown", "html", "json")
MOST_IN_A_COMMENT = 20
"""Most rows of a table."""


def as_text(
    history: History, *, width: int = 80, colour: bool = False, blocks: bool = True
) -> str:
    """The history as text of at most ``width`` columns."""
    document = history_document(history, MOST_NARROW)
    return terminal_documents.render(
        document, width=width, colour=colour, blocks=blocks
    )


def as_markdown(history: History) -> str:
    """Return the history for a comment on a pull request: only the models with
    changes."""
    return markdown_documents.render(history_document(history, MOST_IN_A_COMMENT))


def as_page(history: History) -> str:
    """The history as one self-contained page."""
    return pages.render(history_document(history, MOST_WIDE))
