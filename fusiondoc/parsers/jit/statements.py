"""The statements of a log about nodes that a fuser refused, by operator and source
line, and the choice of the statement that is the reason. If there are very many
nodes, only their hashes are kept, without the lines of each statement."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from fusiondoc.model.reasons import Stated
from fusiondoc.parsers.jit.plan import Op

MOST_NODES = 20_000
"""Number of nodes with statements of their own; a pass over the largest models
refuses a few thousand."""

MOST_NAMES = 1000
"""Number of names kept for one statement; further nodes are only counted."""

MOST_AGAIN = 50
"""Number of passes of one plan that are recognised when they are repeated."""

MOST_TELLING = (
    *("FD202", "FD203", "FD206", "FD205", "FD204", "FD201", "FD207"),
    *(
        "FD217",
        "FD215",
        "FD212",
        "FD213",
        "FD211",
        "FD214",
        "FD220",
        "FD218",
        "FD219",
        "FD216",
    ),
)
"""If a node has several statements, the first of these codes is its reason: codes
that rule the node out come before codes that rule out one merge."""


_ORDER = {code: nth for nth, code in enumerate(MOST_TELLING)}


class NodeText:
    """Kind, source, first output and whether it makes a tensor, from the one-line
    print of a node."""

    __slots__ = ("kind", "source", "tensor", "value")

    def __init__(
        self, kind: str, source: str | None, value: str, tensor: bool
    ) -> None:
        self.kind = kind
        self.source = source
        self.value = value
        self.tensor = tensor

    @property
    def key(self) -> Op:
        """The key of the node in ``Statements``."""
        return (
            self.kind,
            self.source if self.source is not None else "%" + self.value,
        )

    def alike(self, code: str, detail: Stated) -> Alike:
        """Return the fields that the node shares with other nodes of the same
        statement."""
        return Alike(self.kind, code, detail, self.tensor, self.source is not None)


class Statement:
    """The statement of a log about one node, under one reason code."""

    __slots__ = ("code", "detail", "lines", "nodes", "of_plan", "tensor", "values")

    def __init__(self, code: str, detail: Stated, tensor: bool) -> None:
        self.code = code
        self.detail = detail
        self.tensor = tensor
        self.lines = array("Q")
        self.values: set[str] | None = None
        """Names of the first output in the current pass, which distinguish nodes
        with equal (op, source)."""
        self.nodes = 0
        """The largest number of nodes in one pass, over the finished passes."""
        self.of_plan: tuple[str, ...] | None = None
        """Names of the first output in the plan that the pass left, if they are
        known: they distinguish several nodes of one source line."""

    @property
    def count(self) -> int:
        return max(self.nodes, len(self.values or ()), 1)

    def is_about(self, value: str) -> bool:
        """True if it is about the node with this first output, or if that is not
        known."""
        return self.of_plan is None or value in self.of_plan

    def pass_ends(self) -> None:
        """Keep only the number of names: the names mean nothing in the next
        pass."""
        self.nodes = self.count
        self.values = None


class Alike(NamedTuple):
    """The fields that statements about further nodes have in common."""

    op: str
    code: str
    detail: Stated
    tensor: bool
    sourced: bool
    """True if the nodes have a source."""


class Further:
    """Further nodes with the same statement."""

    __slots__ = ("nodes", "statement")

    def __init__(self, alike: Alike) -> None:
        self.statement = Statement(alike.code, alike.detail, alike.tensor)
        self.nodes: set[int] = set()
        """Hashes of operator and source."""

    def add(self, nodes: Iterable[int], lines: Iterable[int]) -> None:
        """Add nodes with the statement, and the lines that state it."""
        self.nodes.update(nodes)
        self.statement.lines.extend(lines)


class NodeStatement:
    """The statement of a line about a node, and the ``Statements`` that last
    received it."""

    __slots__ = ("code", "detail", "into", "node", "statement")

    def __init__(self, node: NodeText, code: str, detail: Stated) -> None:
        self.node = node
        self.code = code
        self.detail = detail
        self.into: Statements | None = None
        self.statement: Statement | None = None


Block = Sequence[tuple[int, NodeStatement]]
"""The statements of several lines, with the number of each line."""


class BlockAgain:
    """The statements of lines that a log repeats, identified by a number so that
    readers need not keep the lines."""

    __slots__ = ("lines", "number")

    def __init__(self, lines: Block) -> None:
        self.number = next(_NUMBERS)
        self.lines = lines


_NUMBERS = count()


class PassAgain(NamedTuple):
    """The statements of a pass whose lines are repeated in the log."""

    blocks: Sequence[tuple[int, Block]]
    """Each block with its offset from the line of the plan that the pass left."""
    of_plan: bool
    plans: array[int]
    """The positions where that plan is repeated."""


class Statements(dict[Op, tuple[Statement, ...]]):
    """(op, source) -> its statements, each with another reason code. A node without
    a source has its first output as "source" ("%name")."""

    __slots__ = ("_again", "further")

    def __init__(self) -> None:
        super().__init__()
        self.further: dict[Alike, Further] = {}
        """The statements about nodes beyond MOST_NODES."""
        self._again: dict[object, PassAgain | None] = {}
        """Passes that may be repeated; None for passes that occurred once, so that
        a log without repetitions holds nothing."""

    def passed_again(
        self, blocks: Sequence[tuple[int, BlockAgain]], plan: int, of_plan: bool
    ) -> bool:
        """Record that a pass left a plan at ``plan``, with the statements
        ``blocks`` and no others. Return True if the log had the same before: then
        the pass only adds lines, which ``settle`` adds together. If False, the
        caller must merge the statements."""
        known = of_plan, *((pos - plan, block.number) for pos, block in blocks)
        if known not in self._again:
            if len(self._again) >= MOST_AGAIN:
                self.settle()
                self._again.clear()
            self._again[known] = None
            return False
        again = self._again[known]
        if again is None:
            before = [(pos - plan, block.lines) for pos, block in blocks]
            again = self._again[known] = PassAgain(before, of_plan, array("Q"))
        again.plans.append(plan)
        return True

    def settle(self) -> None:
        """Add the lines of the repeated passes."""
        changed: dict[int, Statement] = {}
        for blocks, of_plan, plans in filter(None, self._again.values()):
            for before, block in blocks if plans else ():
                for offset, one in block:
                    statement = self._statement_of(one, of_plan)
                    if statement is not None:
                        at = before + offset
                        statement.lines.extend([plan + at for plan in plans])
                        changed[id(statement)] = statement
            del plans[:]
        for statement in changed.values():
            statement.lines = array("Q", sorted(statement.lines))

    def _statement_of(self, one: NodeStatement, of_plan: bool) -> Statement | None:
        """Return the statement to which the lines belong; None if it uses value
        names of another print (``with_source``)."""
        key = one.node.key
        if not of_plan and (key[1] or "").startswith("%"):
            return None
        statement = with_code(self.get(key, ()), one.code)
        if statement is None:
            statement = self.beyond(one.node.alike(one.code, one.detail)).statement
        return statement

    def of(self, node: Op) -> tuple[Statement, ...]:
        """Return the statements about a node."""
        found = self.get(node)
        if found is not None or not self.further:
            return found or ()
        digest = hash(node)
        return tuple(
            Statement(alike.code, alike.detail, alike.tensor)
            for alike, more in self.further.items()
            if alike.op == node[0] and digest in more.nodes
        )

    def beyond(self, alike: Alike) -> Further:
        """Return the entry for further nodes with these fields; make it if it is
        missing."""
        more = self.further.get(alike)
        if more is None:
            more = self.further[alike] = Further(alike)
        return more


def with_code(statements: Iterable[Statement], code: str) -> Statement | None:
    """Return the statement with this reason code; None without one."""
    for statement in statements:
        if statement.code == code:
            return statement
    return None


def state(
    into: Statements, node: NodeText, code: str, detail: Stated, pos: int
) -> Statement:
    """Record the statement ``code`` about ``node`` at ``pos``; return the statement
    object that holds it."""
    key = node.key
    known = into.get(key)
    if known is None:
        if len(into) >= MOST_NODES:
            more = into.beyond(node.alike(code, detail))
            more.nodes.add(hash(key))
            more.statement.lines.append(pos)
            return more.statement
        known = ()
    statement = with_code(known, code)
    if statement is None:
        statement = Statement(code, detail, node.tensor)
        into[key] = (*known, statement)
    statement.lines.append(pos)
    if statement.values is None:
        statement.values = {node.value}
    elif len(statement.values) < MOST_NAMES:
        statement.values.add(node.value)
    return statement


def state_all(into: Statements, pos: int, block: Block) -> None:
    """Record the statements of the lines from ``pos`` on."""
    for offset, one in block:
        if one.into is into and one.statement is not None:
            one.statement.lines.append(pos + offset)
        else:
            one.into = into
            one.statement = state(
                into, one.node, one.code, one.detail, pos + offset
            )


class OfPass:
    """The statements since the last plan: they belong to the next plan."""

    def __init__(self) -> None:
        self._statements = Statements()
        self._blocks: list[tuple[int, BlockAgain]] = []
        """Repeated stretches of lines that are not recorded in ``_statements``
        yet."""

    def __bool__(self) -> bool:
        return bool(self._blocks or self._statements)

    def add(self, pos: int, block: BlockAgain) -> None:
        """Add repeated lines from ``pos`` on; ``block`` is the same object for each
        repetition."""
        if block.lines:
            self._blocks.append((pos, block))

    @property
    def statements(self) -> Statements:
        """All statements; pending blocks are recorded first."""
        for pos, block in self._blocks:
            state_all(self._statements, pos, block.lines)
        self._blocks.clear()
        return self._statements

    def belongs_to(self, into: Statements, plan: int, of_plan: bool) -> None:
        """Assign the statements to the pass that left the plan printed at ``plan``.
        ``of_plan`` as for ``merge``."""
        if not self._statements and into.passed_again(self._blocks, plan, of_plan):
            return
        stated = self.statements
        merge(into, stated if of_plan else with_source(stated), of_plan)


def merge(into: Statements, more: Statements, of_plan: bool = False) -> None:
    """Add the statements of a finished pass to those of others.

    Args: of_plan: ``into`` belongs to the plan that the pass left, which has the
    same value names.
    """
    for key, statements in more.items():
        known = into.get(key)
        if known is None and len(into) >= MOST_NODES:
            _add_further(into, key, statements)
            continue
        for statement in statements:
            if of_plan and len(statement.values or ()) < MOST_NAMES:
                statement.of_plan = tuple(statement.values or ())
            statement.pass_ends()
        if known is None:
            into[key] = statements
        else:
            into[key] = _with_pass(known, statements, of_plan)
    for alike, further in more.further.items():
        into.beyond(alike).add(further.nodes, further.statement.lines)


def _add_further(
    into: Statements, key: Op, statements: Iterable[Statement]
) -> None:
    """Add a node beyond MOST_NODES."""
    sourced = not (key[1] or "").startswith("%")
    for statement in statements:
        alike = Alike(
            key[0], statement.code, statement.detail, statement.tensor, sourced
        )
        into.beyond(alike).add((hash(key),), statement.lines)


def _with_pass(
    known: tuple[Statement, ...], more: Iterable[Statement], of_plan: bool
) -> tuple[Statement, ...]:
    """Return the statements about a node, with those of another pass added."""
    made = known
    for statement in more:
        mine = with_code(known, statement.code)
        if mine is None:
            made = (*made, statement)
        else:
            _add_pass(mine, statement, of_plan)
    return made


def _add_pass(mine: Statement, more: Statement, of_plan: bool) -> None:
    """Add the same statement of another pass about the node."""
    mine.lines.extend(more.lines)
    mine.nodes = max(mine.nodes, more.nodes)
    if of_plan and mine.of_plan is not None and more.of_plan is not None:
        mine.of_plan = tuple(dict.fromkeys((*mine.of_plan, *more.of_plan)))
    elif of_plan:
        mine.of_plan = None


def with_source(statements: Statements) -> Statements:
    """Return the statements about nodes with a source: other nodes are known only
    by the names of one print."""
    kept = Statements()
    kept.update(
        (key, those)
        for key, those in statements.items()
        if not (key[1] or "").startswith("%")
    )
    kept.further.update(
        (alike, more) for alike, more in statements.further.items() if alike.sourced
    )
    return kept


def telling(code: str) -> int:
    """Return the index of a code in MOST_TELLING; the length of it for other
    codes."""
    return _ORDER.get(code, len(_ORDER))


def best_of(statements: Sequence[Statement]) -> Sequence[Statement]:
    """Return the statements whose reason code comes first in MOST_TELLING."""
    if len(statements) < 2:
        return statements
    best = min((statement.code for statement in statements), key=telling)
    return [statement for statement in statements if statement.code == best]
