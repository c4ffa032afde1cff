"""What reading holds while a log goes by, and what a report holds of it."""

from __future__ import annotations

import io
import tracemalloc
import weakref

from fusiondoc.parsers.jit.statements import BlockAgain, NodeText, OfPass, Said, Statements
from fusiondoc.parsers.lines.pipes import received, send


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
        return BlockAgain(_Lines([(2, Said(node, "FD203", "no scalar"))]))

    once, again = block(), block()
    gone, held = weakref.ref(once.said), weakref.ref(again.said)
    passes(once, 100)
    for plan in (200, 300, 400):
        passes(again, plan)
    del once, again
    assert gone() is None
    assert held() is not None  # its lines are put down when they are asked for
    into.settle()
    assert list(into["aten::relu", "m.py:3"]["FD203"].lines) == [92, 192, 292, 392]


def test_one_message_of_the_second_process_is_held_at_a_time() -> None:
    size, number = 1_000_000, 3
    pipe = io.BytesIO()
    for _ in range(number):
        send(pipe, bytes(size))
    pipe.seek(0)
    messages = received(pipe)
    tracemalloc.start()
    try:
        for _ in range(number):
            assert len(next(messages)) == size
        assert tracemalloc.get_traced_memory()[1] < 1.5 * size
    finally:
        tracemalloc.stop()
