"""Sentences on operators that a group lacks."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.expectations.missing import Missing
from fusiondoc.expectations.source_lines import shown
from fusiondoc.model.report import Unfused

_MOST_NAMED = 3


def without_namespace(op: str) -> str:
    """``add`` for ``aten::add``; other namespaces are unchanged."""
    if op.startswith("aten::"):
        return op[len("aten::") :]
    return op


def reason_of(row: Unfused) -> str:
    """``no rule for it (FD201), model.py:7``."""
    position = shown(row)
    return f"{row.reason.text} ({row.reason.code})" + (
        f", {position}" if position else ""
    )


def sentences(operators: Sequence[Missing]) -> list[str]:
    """The sentences on missing operators: ``mul is not fused: no rule for it
    (FD201), model.py:31``. Operators at one source position share a sentence, and
    each reason is given once."""
    together: dict[object, list[Missing]] = {}
    for missing in operators:
        if missing.row is not None:
            here = _not_fused(missing.row, missing.layer)
        else:
            if missing.group is not None:
                here = missing.group.id
            else:
                here = _absent(missing)
        key = (
            here,
            missing.layer,
            missing.stands_as,
            tuple(map(id, missing.between)),
        )
        together.setdefault(key, []).append(missing)
    explained = []
    for missing in operators:
        if missing.row is not None:
            explained.append(missing.row)
    sentences = []
    for these in together.values():
        names = list(
            dict.fromkeys(without_namespace(missing.op) for missing in these)
        )
        first = these[0]
        if first.row is not None:
            where = _not_fused(first.row, first.layer)
        elif first.group is not None:
            where = _in_group(these, explained)
            explained += first.between[:1]
        else:
            where = _absent(first)
        if first.stands_as is not None:
            sentences.append(
                f"{names[0]} is there as {without_namespace(first.stands_as)}, which is {where}"
            )
        else:
            sentences.append(
                f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {where}"
            )
    return sentences


def _absent(missing: Missing) -> str:
    graphs = f"{missing.phase} graphs" if missing.phase == "backward" else "graphs"
    return (
        f"nowhere{' else' if missing.of_others else ''} in the {graphs} of the log"
    )


def _not_fused(row: Unfused, layer: str) -> str:
    return f"not fused{f' in {layer}' if layer else ''}: {reason_of(row)}"


def _in_group(these: Sequence[Missing], explained: Sequence[Unfused]) -> str:
    """``in G2 (model.py:9), split off by cumsum, which is not fused: ...``."""
    missing = these[0]
    assert missing.group is not None
    positions = list(
        dict.fromkeys(
            shown(m.node) for m in these if m.node is not None and shown(m.node)
        )
    )
    text = f"in {missing.group.id}" + (
        f" in {missing.layer}" if missing.layer else ""
    )
    if positions:
        text += f" ({', '.join(positions[:_MOST_NAMED])}{', ...' if len(positions) > _MOST_NAMED else ''})"
    if missing.between:
        first = missing.between[0]
        names = list(
            dict.fromkeys(without_namespace(row.op) for row in missing.between)
        )
        text += f", split off by {' and '.join(names[:_MOST_NAMED])}"
        if not any(first is row for row in explained):
            if len(names) == 1:
                which = "which"
            else:
                which = f"of which {without_namespace(first.op)}"
            text += f", {which} is not fused: {reason_of(first)}"
    return text
