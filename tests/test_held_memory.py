"""What reading holds while a log goes by, and what a report holds of it."""

from __future__ import annotations

import weakref

from fusiondoc.parsers.jit.statements import (
    BlockAgain,
    NodeStatement,
    NodeText,
    OfPass,
    Statements,
)


class _Lines(list):  # type: ignore[type-arg]
    """A list whose end can be watched."""


def test_what_a_pass_said_is_held_once_it_stood_again() -> None:
    into = Statements()

    def passes(block: BlockAgain, plan: int) -> None:
        of_pass = OfPass()
        of_pass.add(plan - 10, block)
        of_pass.belongs_to(into, plan, True)

    def block() -> BlockAgain:
        node = NodeText("aten::relu", "m.py:3", "x", True)
        return BlockAgain(_Lines([(2, NodeStatement(node, "FD203", "no scalar"))]))

    once, again = block(), block()
    gone, held = weakref.ref(once.lines), weakref.ref(again.lines)
    passes(once, 100)
    for plan in (200, 300, 400):
        passes(again, plan)
    del once, again
    assert gone() is None
    assert held() is not None  # its lines are put down when they are asked for
    into.settle()
    (stated,) = into["aten::relu", "m.py:3"]
    assert stated.code == "FD203"
    assert list(stated.lines) == [92, 192, 292, 392]
