"""Sentences on operators that a group lacks."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.expectations.missing import Missing
from fusiondoc.expectations.source_lines import shown
from fusiondoc.model.report import Unfused

_MOST_NAMED = 3


def without_namespace(op: str) -> str:
    """``add`` for ``aten::add``; other namespaces stay."""
    return op[len("aten::") :] if op.startswith("aten::") else op


def reason_of(row: Unfused) -> str:
    """``no rule for it (FD201), model.py:7``."""
    position = shown(row)
    return f"{row.reason.text} ({row.reason.code})" + (f", {position}" if position else "")


def sentences(missing: Sequence[Missing]) -> list[str]:
    """The sentences on missing operators: ``mul is not fused: no rule for it (FD201), model.py:31``.
    Those at one source position share a sentence, and a reason is given once."""
    together: dict[object, list[Missing]] = {}
    for one in missing:
        if one.row is not None:
            here = _not_fused(one.row, one.layer)
        else:
            here = one.group.id if one.group is not None else _absent(one)
        together.setdefault((here, one.layer, one.stands_as, tuple(map(id, one.between))), []).append(one)
    explained = [one.row for one in missing if one.row is not None]
    sentences = []
    for these in together.values():
        names = list(dict.fromkeys(without_namespace(one.op) for one in these))
        first = these[0]
        if first.row is not None:
            where = _not_fused(first.row, first.layer)
        elif first.group is not None:
            where = _in_group(these, explained)
            explained += first.between[:1]
        else:
            where = _absent(first)
        if first.stands_as is not None:
            sentences.append(f"{names[0]} is there as {without_namespace(first.stands_as)}, which is {where}")
        else:
            sentences.append(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {where}")
    return sentences


def _absent(one: Missing) -> str:
    graphs = f"{one.phase} graphs" if one.phase == "backward" else "graphs"
    return f"nowhere{' else' if one.of_others else ''} in the {graphs} of the log"


def _not_fused(row: Unfused, layer: str) -> str:
    return f"not fused{f' in {layer}' if layer else ''}: {reason_of(row)}"


def _in_group(these: Sequence[Missing], explained: Sequence[Unfused]) -> str:
    """``in G2 (model.py:9), split off by cumsum, which is not fused: ...``."""
    one = these[0]
    assert one.group is not None
    positions = list(dict.fromkeys(shown(m.node) for m in these if m.node is not None and shown(m.node)))
    text = f"in {one.group.id}" + (f" in {one.layer}" if one.layer else "")
    if positions:
        text += f" ({', '.join(positions[:_MOST_NAMED])}{', ...' if len(positions) > _MOST_NAMED else ''})"
    if one.between:
        first = one.between[0]
        names = list(dict.fromkeys(without_namespace(row.op) for row in one.between))
        text += f", split off by {' and '.join(names[:_MOST_NAMED])}"
        if not any(first is row for row in explained):
            which = "which" if len(names) == 1 else f"of which {without_namespace(first.op)}"
            text += f", {which} is not fused: {reason_of(first)}"
    return text
