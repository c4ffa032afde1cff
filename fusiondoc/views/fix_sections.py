"""The result of ``fix`` as sections: the changes that help, the other changes and
why they do not, and how results were compared."""

from __future__ import annotations

from collections.abc import Iterator

from fusiondoc.model.change_plan import ChangeOutcome, Fixes, TriedFix
from fusiondoc.rendering.blocks import (
    Column,
    Diff,
    Document,
    Remarks,
    Row,
    Section,
    Table,
)
from fusiondoc.rendering.values import Cell, Text
from fusiondoc.views import fix_words as words

_COLUMNS = (
    Column("change"),
    Column("where"),
    Column("groups", number=True),
    Column("operators fused", number=True),
    Column("kernels and operators", number=True),
    Column("speed", number=True),
)


def fix_document(fixes: Fixes, shown: str = "") -> Document:
    """Return the document of all tried changes, and the diff.

    Args: shown: the folder to which paths are made relative, as text with a
        separator at its end.
    """
    left_out = []
    for one in fixes.tried:
        if one.outcome is not ChangeOutcome.KEPT:
            left_out.append(one)
    notes: list[str] = []
    for one in fixes.kept:
        notes.extend(one.notes)
    sections = (
        Section(
            "kept",
            "Changes that help",
            blocks=(_kept(fixes, shown), _remarks(notes)),
        ),
        Section(
            "left-out",
            "Tried without success",
            blocks=(
                _remarks(
                    [f"{one.change}: {words.why_not(one)}" for one in left_out]
                ),
            ),
        ),
        Section(
            "described",
            "Not changed here",
            blocks=(_remarks(list(fixes.described)),),
        ),
        Section(
            "compared",
            "How results were compared",
            blocks=(_remarks(list(words.how_compared(fixes))),),
        ),
        Section("diff", "The changes", blocks=(Diff(fixes.diff),)),
    )
    name = f"fusiondoc fix {fixes.target}"
    return Document(
        "fix", name, words.verdict(fixes), "", (("Target", fixes.target),), sections
    )


def _remarks(texts: list[str]) -> Remarks:
    return Remarks(tuple(dict.fromkeys(texts)))


def _kept(fixes: Fixes, shown: str) -> Table:
    return Table(
        _COLUMNS, tuple(Row(tuple(_cells(one, shown))) for one in fixes.kept)
    )


def _cells(one: TriedFix, shown: str) -> Iterator[Cell]:
    before, after = one.before, one.after
    yield Text(one.change)
    yield Text(", ".join(words.near_folder(where, shown) for where in one.where))
    yield Text(f"{before.groups} → {after.groups}")
    yield Text(f"{before.ops_fused} → {after.ops_fused}")
    yield Text(f"{before.launches} → {after.launches}")
    yield Text(words.in_speed(one.speed) if one.speed is not None else "")
