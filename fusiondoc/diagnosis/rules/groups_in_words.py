"""A group in the sentences of findings: in a few words, and its line in the user's
program."""

from __future__ import annotations

from fusiondoc.model.report import Group


def describe(group: Group) -> str:
    """Return a group in a few words: its id, its first operators and its line."""
    names = [op.split("::")[-1] for op in group.ops]
    shown = ", ".join(names[:4]) + (
        f", ... {len(names):,} operators" if len(names) > 4 else ""
    )
    line = group.first_line
    return f"{group.id} ({shown}{', ' + line if line else ''})"


def first_user_source(group: Group | None) -> str | None:
    """Return the user's line of the first operator of a group that has one."""
    for node in group.nodes if group is not None else ():
        if node.user_source:
            return node.user_source
    return None
