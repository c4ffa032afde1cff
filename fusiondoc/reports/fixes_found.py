"""The result of ``fusiondoc fix`` as Markdown for a pull request."""

from __future__ import annotations

from fusiondoc.model.change_plan import Fixes
from fusiondoc.rendering import markdown_documents
from fusiondoc.views.fix_sections import fix_document


def as_markdown(fixes: Fixes, shown: str = "") -> str:
    """Return the kept changes as a table, the others as a list, and the diff.

    Args: shown: the folder to which paths are made relative, as text with a
        separator at its end.
    """
    return markdown_documents.render(fix_document(fixes, shown))
