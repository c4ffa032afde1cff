"""What a run shows of its operators outside groups, as the rewrites of their lines
need it: for the plan and for ``fix`` alike."""

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
"""Views that an index of numbers and slices makes."""


class ShownOperators:
    """The types that operators outside groups take in the plans of a report."""

    def __init__(self, report: Report) -> None:
        self._types: dict[int | None, list[Sequence[str]]] = {}
        """Row (``Unfused.index``) -> the types of the tensors that it takes, for
        each of its nodes."""
        self._ranks: dict[int | None, set[int | None]] = {}
        """Row -> how many dimensions the first tensor of each of its nodes has;
        None: not known."""
        self._assigned: dict[int | None, set[Assigned | None]] = {}
        """Row -> what each of its nodes assigns."""
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
        """Operator and line of the user's -> its rows there."""
        for one in report.unfused:
            for line in one.users_lines:
                self._of_line.setdefault((one.op, line), []).append(one)
        self._of_groups = [
            text
            for group in report.groups
            for text in (*group.inputs, *group.outputs)
        ]

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
        """What the run shows of an operator.

        Args: recipes: those that may be written for it, best first. rank:
            dimensions of its first tensor, ``known_rank`` or ``likely_rank``.
            gradients: what replaces it needs a gradient formula. lines_that_ran:
            lines of its file with operators that ran, where they are known.
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
        """What the run shows of an operator for sure."""
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
        """How many dimensions the operator's first tensor has, where it is the same
        in all nodes of its line: a change of the line is made in all its calls."""
        ranks = set(self._ranks.get(row.index, ()))
        for line in row.users_lines:
            for other in self._of_line.get((row.op, line), ()):
                ranks.update(self._ranks.get(other.index, ()))
        return ranks.pop() if len(ranks) == 1 else None

    def likely_rank(self, row: Unfused) -> int | None:
        """The dimensions that the operator's first tensor has most often, else most
        tensors of the run's groups: a wrong guess fails, or computes something
        else, in the run that tries it."""
        for types in (self._first_types(row), self._of_groups):
            ranks = [rank for rank in map(dimensions_of, types) if rank]
            if ranks:
                return max(sorted(set(ranks)), key=ranks.count)
        return None

    def _first_types(self, row: Unfused) -> list[str]:
        return [types[0] for types in self._types.get(row.index, ())]


_CONVOLVES = {f"aten::conv{number}d": number + 2 for number in (1, 2, 3)}
"""Convolution -> the dimensions of a batch that it takes."""
_KEEPS_RANK = NORMALISE.union(
    _CONVOLVES, (f"aten::{name}" for name in OF_EACH_ELEMENT)
)
_OF_CHANNELS = ("aten::prelu", "aten::_prelu_kernel")
_MOST_MAKERS = 8
"""Nodes that are looked at for the dimensions of a tensor whose type was not
profiled."""


def _rank(
    node: ProgramNode,
    nodes: Sequence[ProgramNode],
    made_by_groups: Mapping[str, Sequence[str]],
) -> int | None:
    """The dimensions of a node's first tensor; where no type of it was profiled,
    those of what it was made of by operators that keep them, or those of all
    results of the group that made it. Channels are dimension 1 for a PReLU, as for
    a convolution of a batch."""
    of_channels = node.op in _OF_CHANNELS
    for _ in range(_MOST_MAKERS):
        rank = dimensions_of(node.inputs[0]) if node.inputs else None
        if rank is not None or node.first is None:
            return rank
        node = nodes[node.first]
        if node.group is not None:
            ranks = set(map(dimensions_of, made_by_groups.get(node.group, ())))
            return ranks.pop() if len(ranks) == 1 else None
        if node.op not in _KEEPS_RANK:
            return None
        if of_channels and node.op in _CONVOLVES:
            return _CONVOLVES[node.op]
    return None


def _only(found: Collection[Assigned | None]) -> Assigned | None:
    return next(iter(found)) if len(found) == 1 else None


def _assigned(node: ProgramNode, nodes: Sequence[ProgramNode]) -> Assigned | None:
    """What an assignment to a part assigns: views make the part, the first of them
    of the whole tensor."""
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
    """Of a type of which both are known."""
    tensor = parse_type(text)
    return tensor.dtype_and_sizes if isinstance(tensor, TensorType) else None


def dimensions_of(text: str) -> int | None:
    """Of a type such as ``Float(4, 8, strides=[8, 1], device=cpu)``, where they are
    known."""
    tensor = parse_type(text)
    sizes = tensor.sizes if isinstance(tensor, TensorType) else None
    return len(sizes) if sizes is not None else None


def column_of(row: Unfused, line: int) -> int | None:
    """The column of the operator on a line of the user's, from 0; None where the
    log has another line."""
    source = Source.parse(row.source)
    return source.column if source is not None and source.line == line else None
