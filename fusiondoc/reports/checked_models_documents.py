"""The check of many models in every format; in JSON with the schema
``fusiondoc.check/1``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.checked_models import CheckedModels
from fusiondoc.rendering import markdown_documents, pages, terminal_documents
from fusiondoc.reports import (
    code_annotations,
    json_format,
    junit,
    openmetrics,
    sarif,
)
from fusiondoc.views.checked_models_sections import checked_document


def as_text(
    checked: CheckedModels,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
) -> str:
    """The check as text of at most ``width`` columns."""
    return terminal_documents.render(
        checked_document(checked), width=width, colour=colour, blocks=blocks
    )


def as_json(checked: CheckedModels) -> str:
    """Return the check as JSON, keys in the order of the schema; unknown values are
    null."""
    return json_format.as_json(checked, indent=1)


def as_markdown(checked: CheckedModels) -> str:
    """The check as GitHub-flavoured Markdown, below GitHub's limit for a
    comment."""
    return markdown_documents.render(checked_document(checked))


def as_page(checked: CheckedModels) -> str:
    """The check as one self-contained page."""
    return pages.render(checked_document(checked))


RENDERERS: Mapping[str, Callable[[CheckedModels], str]] = {
    "json": as_json,
    "html": as_page,
    "markdown": as_markdown,
    "sarif": sarif.of_models,
    "junit": junit.of_models,
    "gitlab": code_annotations.gitlab_of_models,
    "openmetrics": openmetrics.of_models,
}
FORMATS = ("text", *RENDERERS)


def render(
    checked: CheckedModels, format_: str, *, width: int = 80, colour: bool = False
) -> str:
    """Return the check in a format.

    Raises:
        UsageError: there is no such format of it.
    """
    if format_ == "text":
        return as_text(checked, width=width, colour=colour)
    if format_ not in RENDERERS:
        raise UsageError(
            f"there is no format '{format_}' of a check of many models",
            did_you_mean(format_, FORMATS),
        )
    return RENDERERS[format_](checked)
