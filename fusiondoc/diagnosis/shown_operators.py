"""The facts that a run shows about its operators outside groups, as the rewrites of
their lines need them; used by the plan and ``fix``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fusiondoc.changes.recipes import Recipe
from fusiondoc.changes.rewrite import Assigned, Shown, Sizes
from fusiondoc.diagnosis.recipes_of_rows import recipes_of
from fusiondoc.diagnosis.rules import RunFacts
from fusiondoc.model.report import ProgramNode, Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.operators import IN_PLACE_ASSIGNS, NORMALISE, OF_EACH_ELEMENT
from fusiondoc.parsers.ir.types import TensorType, parse_type

_PARTS = ("aten::slice", "aten::select")
"""Views made by an index of numbers and slices."""


class ShownOperators:
    """The types that operators outside groups take in the plans of a report."""

    def __init__(self, report: Report) -> None:
        self._types: dict[int | None, list[Sequence[str]]] = {}
        """Row (``Unfused.index``) -> the types of its input tensors, for each of
        its nodes."""
        self._ranks: dict[int | None, set[int | None]] = {}
        """Row -> the number of dimensions of the first tensor of each of its nodes;
        None: not known."""
        self._assigned: dict[int | None, set[Assigned | None]] = {}
        """Row -> the sizes that each of its nodes assigns and assigns to."""
        made_by_groups = {group.id: group.outputs for group in report.groups}
        for program in report.programs:
            for node in program.nodes:
                if node.kind != "operator" or not node.inputs:
                    continue
                for row in node.rows:
                    self._types.setdefault(row, []).append(node.inputs)
                    self._ranks.setdefault(row, set()).add(
                        _rank(node, program.nodes, made_by_groups)
                    )
                    if node.op in IN_PLACE_ASSIGNS:
                        self._assigned.setdefault(row, set()).add(
                            _assigned(node, program.nodes)
                        )
        self._of_line: dict[tuple[str, str], list[Unfused]] = {}
        """Operator and user's line -> the operator's rows there."""
        for one in report.unfused:
            for line in one.users_lines:
                self._of_line.setdefault((one.op, line), []).append(one)
        self._of_groups = []
        for group in report.groups:
            for text in (*group.inputs, *group.outputs):
                self._of_groups.append(text)

    def shown(
        self,
        row: Unfused,
        *,
        recipes: Sequence[Recipe],
        rank: int | None,
        fuser: str,
        torch: str | None,
        gradients: bool,
        lines_that_ran: Collection[int] | None = None,
    ) -> Shown:
        """Return the facts that the run shows about an operator.

        Args:
            recipes: those that may be written for it, best first.
            rank: dimensions of its first tensor, ``known_rank`` or ``likely_rank``.
            gradients: its replacement needs a gradient formula.
            lines_that_ran: lines of its file with operators that ran, if known.
        """
        of_nodes = self._types.get(row.index, ())
        return Shown(
            op=row.op,
            code=row.reason.code,
            detail=row.reason.detail,
            types=of_nodes[0] if of_nodes else (),
            assigned=_only(self._assigned.get(row.index, ())),
            rank=rank,
            layer=row.layers[0].rpartition(".")[2] if row.layers else None,
            recipes=recipes,
            fuser=fuser,
            torch=torch,
            gradients=gradients,
            lines_that_ran=lines_that_ran,
        )

    def known(
        self,
        row: Unfused,
        run: RunFacts,
        lines_that_ran: Collection[int] | None = None,
    ) -> Shown:
        """Return only the facts about an operator that are certain."""
        return self.shown(
            row,
            recipes=recipes_of(row, run),
            rank=self.known_rank(row),
            fuser=run.fuser or "none",
            torch=run.torch,
            gradients=run.gradients is not False,
            lines_that_ran=lines_that_ran,
        )

    def known_rank(self, row: Unfused) -> int | None:
        """Return the number of dimensions of the operator's first tensor, if it is
        the same in all nodes of its line: a change of the line affects all its
        calls."""
        ranks = set(self._ranks.get(row.index, ()))
        for line in row.users_lines:
            for other in self._of_line.get((row.op, line), ()):
                ranks.update(self._ranks.get(other.index, ()))
        if len(ranks) == 1:
            return ranks.pop()
        return None

    def likely_rank(self, row: Unfused) -> int | None:
        """Return the most frequent number of dimensions of the operator's first
        tensor, else of the tensors of the run's groups: a wrong guess fails, or
        computes something else, in the run that tries it."""
        for types in (self._first_types(row), self._of_groups):
            ranks = [rank for rank in map(dimensions_of, types) if rank]
            if ranks:
                return max(sorted(set(ranks)), key=ranks.count)
        return None

    def _first_types(self, row: Unfused) -> list[str]:
        return [types[0] for types in self._types.get(row.index, ())]


_CONVOLVES = {f"aten::conv{number}d": number + 2 for number in (1, 2, 3)}
"""Convolution -> the number of dimensions of its batched input."""
_KEEPS_RANK = NORMALISE.union(
    _CONVOLVES, (f"aten::{name}" for name in OF_EACH_ELEMENT)
)
_OF_CHANNELS = ("aten::prelu", "aten::_prelu_kernel")
_MOST_MAKERS = 8
"""Nodes that are followed for the dimensions of a tensor whose type was not
profiled."""


def _rank(
    node: ProgramNode,
    nodes: Sequence[ProgramNode],
    made_by_groups: Mapping[str, Sequence[str]],
) -> int | None:
    """Return the number of dimensions of a node's first tensor. If its type was not
    profiled, follow the operators that made it and keep the number, or take that of
    all results of the group that made it. A PReLU has its channels in dimension 1,
    as a convolution of a batch has."""
    of_channels = node.op in _OF_CHANNELS
    for _ in range(_MOST_MAKERS):
        rank = dimensions_of(node.inputs[0]) if node.inputs else None
        if rank is not None or node.first is None:
            return rank
        node = nodes[node.first]
        if node.group is not None:
            ranks = set(map(dimensions_of, made_by_groups.get(node.group, ())))
            if len(ranks) == 1:
                return ranks.pop()
            return None
        if node.op not in _KEEPS_RANK:
            return None
        if of_channels and node.op in _CONVOLVES:
            return _CONVOLVES[node.op]
    return None


def _only(found: Collection[Assigned | None]) -> Assigned | None:
    if len(found) == 1:
        return next(iter(found))
    return None


def _assigned(node: ProgramNode, nodes: Sequence[ProgramNode]) -> Assigned | None:
    """Return the sizes of an assignment to a part of a tensor: of the whole tensor,
    the input of the first of the views that make the part, and of the assigned
    tensor."""
    whole, maker = node.inputs[0], node.first
    while maker is not None and nodes[maker].op in _PARTS and nodes[maker].inputs:
        whole, maker = nodes[maker].inputs[0], nodes[maker].first
    known = [_dtype_and_sizes(text) for text in (whole, *node.inputs[1:2])]
    if (
        len(known) != 2
        or known[0] is None
        or known[1] is None
        or known[0][0] != known[1][0]
    ):
        return None
    return Assigned(known[0][1], known[1][1])


def _dtype_and_sizes(text: str) -> tuple[str, Sizes] | None:
    """Return the dtype and sizes of a type; None if one is not known."""
    tensor = parse_type(text)
    if isinstance(tensor, TensorType):
        return tensor.dtype_and_sizes
    return None


def dimensions_of(text: str) -> int | None:
    """Return the number of dimensions of a type such as ``Float(4, 8, strides=[8,
    1], device=cpu)``, if known."""
    tensor = parse_type(text)
    sizes = tensor.sizes if isinstance(tensor, TensorType) else None
    if sizes is None:
        return None
    return len(sizes)


def column_of(row: Unfused, line: int) -> int | None:
    """Return the column of the operator on a user's line, from 0; None if the log
    has another line."""
    source = Source.parse(row.source)
    if source is not None and source.line == line:
        return source.column
    return None
