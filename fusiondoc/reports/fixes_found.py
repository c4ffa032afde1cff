"""The result of ``fusiondoc fix`` as Markdown for a pull request."""

from __future__ import annotations

from fusiondoc.model.change_plan import Fixes
from fusiondoc.rendering import markdown_documents
from fusiondoc.views.fix_sections import fix_document


def as_markdown(fixes: Fixes, shown: str = "") -> str:
    """What was kept as a table, what was left out as a list, and the diff.

    Args: shown: the folder to which paths are made relative, as text with a
        separator at its end.
    """
    return markdown_documents.render(fix_document(fixes, shown))
