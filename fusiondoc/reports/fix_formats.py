"""What ``fusiondoc fix`` tried as JSON (schema ``fusiondoc.fix/1``) and as Markdown for a pull request."""

from __future__ import annotations

import json
import re
from typing import Iterator

from fusiondoc.model.change_plan import Fixes, Outcome, TriedFix
from fusiondoc.reports.json_format import plain
from fusiondoc.reports.printable import in_json, markdown, visible
from fusiondoc.reports.text.fixes_found import how_compared, in_speed, verdict, why_not


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
    return "\n".join(_lines(fixes, shown)).rstrip() + "\n"


def _lines(fixes: Fixes, shown: str) -> Iterator[str]:
    yield from (f"### fusiondoc fix {markdown(fixes.target)}", "", f"**{markdown(verdict(fixes))}**", "")
    if fixes.kept:
        yield "| change | where | groups | operators fused | kernels and operators | speed |"
        yield "|---|---|--:|--:|--:|--:|"
        yield from (_row(one, shown) for one in fixes.kept)
        yield ""
        yield from _remarks([note for one in fixes.kept for note in one.notes])
    left_out = [one for one in fixes.tried if one.outcome is not Outcome.KEPT]
    if left_out:
        yield from ("Tried, and left out:", "")
        yield from (f"- {markdown(one.change)}: {markdown(why_not(one))}" for one in left_out)
        yield ""
    if fixes.described:
        yield from ("Not changed here:", "")
        yield from (f"- {markdown(text)}" for text in fixes.described)
        yield ""
    yield from _remarks([*how_compared(fixes)])
    if fixes.diff:
        diff = visible(fixes.diff)
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", diff)), default=0))
        yield from (f"{fence}diff", diff.rstrip("\n"), fence)


def _remarks(texts: list[str]) -> Iterator[str]:
    yield from (f"- {markdown(text)}" for text in dict.fromkeys(texts))
    if texts:
        yield ""


def _row(one: TriedFix, shown: str) -> str:
    places = [where[len(shown) :] if shown and where.startswith(shown) else where for where in one.where]
    before, after = one.before, one.after
    cells = (
        one.change,
        ", ".join(places),
        f"{before.groups} → {after.groups}",
        f"{before.ops_fused} → {after.ops_fused}",
        f"{before.launches} → {after.launches}",
        in_speed(one.speed) if one.speed is not None else "",
    )
    return "| " + " | ".join(map(markdown, cells)) + " |"
