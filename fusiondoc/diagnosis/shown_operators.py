"""What a run shows of its operators outside groups, as the rewrites of their lines need it: for the plan and
for ``fix`` alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fusiondoc.changes.recipes import Recipe
from fusiondoc.changes.rewrite import Shown
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.parsers.ir.types import TensorType, parse_type


class ShownOperators:
    """The types that operators outside groups take in the plans of a report."""

    def __init__(self, report: Report) -> None:
        self._types: dict[int | None, list[Sequence[str]]] = {}
        """Row (``Unfused.index``) -> the types of the tensors that it takes, for each of its nodes."""
        for program in report.programs:
            for node in program.nodes:
                if node.kind == "operator" and node.inputs:
                    for row in node.rows:
                        self._types.setdefault(row, []).append(node.inputs)
        self._of_groups = [text for group in report.groups for text in (*group.inputs, *group.outputs)]

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

        Args:
            recipes: those that may be written for it, best first.
            rank: dimensions of its first tensor, ``known_rank`` or ``likely_rank``.
            gradients: what replaces it needs a gradient formula.
            lines_that_ran: lines of its file with operators that ran, where they are known.
        """
        of_nodes = self._types.get(row.index, ())
        return Shown(
            op=row.op,
            code=row.reason.code,
            detail=row.reason.detail,
            types=of_nodes[0] if of_nodes else (),
            rank=rank,
            layer=row.layers[0].rpartition(".")[2] if row.layers else None,
            recipes=recipes,
            fuser=fuser,
            torch=torch,
            gradients=gradients,
            lines_that_ran=lines_that_ran,
        )

    def known_rank(self, row: Unfused) -> int | None:
        """How many dimensions the operator's first tensor has, where it is the same in all nodes."""
        ranks = set(map(dimensions_of, self._first_types(row)))
        return ranks.pop() if len(ranks) == 1 else None

    def likely_rank(self, row: Unfused) -> int | None:
        """The dimensions that the operator's first tensor has most often, else most tensors of the run's
        groups: a wrong guess fails, or computes something else, in the run that tries it."""
        for types in (self._first_types(row), self._of_groups):
            ranks = [rank for rank in map(dimensions_of, types) if rank]
            if ranks:
                return max(sorted(set(ranks)), key=ranks.count)
        return None

    def _first_types(self, row: Unfused) -> list[str]:
        return [types[0] for types in self._types.get(row.index, ())]


def dimensions_of(text: str) -> int | None:
    """Of a type such as ``Float(4, 8, strides=[8, 1], device=cpu)``, where they are known."""
    tensor = parse_type(text)
    sizes = tensor.sizes if isinstance(tensor, TensorType) else None
    return len(sizes) if sizes is not None else None


def column_of(row: Unfused, line: int) -> int | None:
    """The column of the operator on a line of the user's, from 0; None where the log has another line."""
    source = Source.parse(row.source)
    return source.column if source is not None and source.line == line else None
