"""The result of ``fusiondoc fix`` as JSON (schema ``fusiondoc.fix/1``) and as Markdown for a pull request."""

from __future__ import annotations

import json

from fusiondoc.model.change_plan import Fixes
from fusiondoc.rendering import markdown_documents
from fusiondoc.rendering.printable import in_json
from fusiondoc.reports.json_format import plain
from fusiondoc.views.fix_sections import fix_document


def as_json(fixes: Fixes) -> str:
    """Keys in the order of the schema; what is not known is null."""
    data = plain(fixes)
    assert isinstance(data, dict)
    first = {"schema": data.pop("schema")}
    return in_json(json.dumps({**first, **data}, indent=2, ensure_ascii=False)) + "\n"


def as_markdown(fixes: Fixes, shown: str = "") -> str:
    """What was kept as a table, what was left out as a list, and the diff.

    Args:
        shown: the folder to which paths are made relative, as text with a separator at its end.
    """
    return markdown_documents.render(fix_document(fixes, shown))
