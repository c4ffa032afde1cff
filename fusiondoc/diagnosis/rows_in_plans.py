"""The rows of operators outside groups, asked for what stands around them in the plans of the run."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.diagnosis.changed_memory import Around
from fusiondoc.diagnosis.operators import OF_MANY_ELEMENTS
from fusiondoc.model.report import Report, Unfused


class RowsInPlans:
    """The nodes of plans that operators outside groups are, and the nodes around them."""

    def __init__(self, report: Report) -> None:
        self._nodes: dict[int | None, list[tuple[Around, int]]] = {}
        """Row -> its nodes: plan and node index."""
        for program in report.programs:
            around = Around(program)
            for index, node in enumerate(program.nodes):
                for row in node.rows:
                    self._nodes.setdefault(row, []).append((around, index))
        self._groups = {group.id: group for group in report.groups}
        self._of_each_element: dict[str, bool] = {}
        """Group -> whether all its operators work on each element by itself."""

    def _nodes_of(self, row: Unfused) -> Sequence[tuple[Around, int]]:
        return self._nodes.get(row.index, ())

    def before_one_tensor(self, row: Unfused) -> bool:
        """Whether nothing takes the operator's result but a group of this one tensor that works on each
        element by itself: another tensor there would have to be placed anew too."""
        return all(self._into_such_a_group(*node) for node in self._nodes_of(row))

    def _into_such_a_group(self, around: Around, place: int) -> bool:
        after = around.after.get(place, ())
        group = self._groups.get(around.nodes[after[0]].group or "") if len(after) == 1 else None
        if group is None or len(group.inputs) != 1:
            return False
        if group.id not in self._of_each_element:
            many = any(OF_MANY_ELEMENTS.search(one.op) for one in group.nodes)
            self._of_each_element[group.id] = not many
        return self._of_each_element[group.id]

    def behind_convolutions(self, row: Unfused) -> int:
        """How many of a row's operators take the result of a convolution that nothing else takes: freezing
        makes a batch norm there part of it (torch/csrc/jit/passes/frozen_conv_folding.cpp)."""
        nodes = self._nodes_of(row)
        behind = sum(_after_its_own_convolution(*one) for one in nodes)
        return round(row.count * behind / len(nodes)) if behind else 0

    def may_come_from_outside(self, row: Unfused) -> bool:
        """Whether a tensor that the operator takes may be an input of its plan."""
        return any(
            len(around.before.get(place, ())) < len(around.nodes[place].inputs)
            for around, place in self._nodes_of(row)
        )

    def may_be_read_as_it_was(self, row: Unfused) -> bool:
        """Whether what an operator changes in place may be read under another name: a view of it was made
        before, it is a view itself, or what made it is read again behind the operator (``skip = h`` before
        ``h += y``).

        Edges are of nodes, not of values: a group of several results that made it counts as if it were read.
        """
        return any(around.may_read_as_it_was(place) for around, place in self._nodes_of(row))


_CONVOLUTIONS = frozenset(["aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution"])
"""Those that batch norms are folded into (``supportedConvNode``,
torch/csrc/jit/passes/frozen_conv_folding.cpp; seen of torch 2.13)."""


def _after_its_own_convolution(around: Around, place: int) -> bool:
    return any(
        around.nodes[one].op in _CONVOLUTIONS and len(around.after.get(one, ())) == 1
        for one in around.before.get(place, ())
    )
