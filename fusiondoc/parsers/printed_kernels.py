"""Kernels of NNC and partitions of oneDNN Graph as the report has them."""

from __future__ import annotations

from typing import Tuple

from fusiondoc.model import Dump, Kernel
from fusiondoc.parsers.evidence import PackedEvidence
from fusiondoc.parsers.facts import Facts
from fusiondoc.parsers.groups import GroupRow, GroupTable
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.kernels import spread


def printed_kernels_of(facts: Facts, groups: GroupTable, first_id: int, files: list[str]) -> list[Kernel]:
    """The kernels of one stream, in the order in which they were first printed. Fills ``kernels`` of the
    group rows."""
    kernels = []
    owners = _owners(facts, groups)
    for number, (made, rows) in enumerate(zip(facts.printed_kernels, owners), first_id):
        for row in rows:
            row.kernels.append(f"K{number}")
        evidence = PackedEvidence(made.lines, files)
        kernels.append(
            Kernel(
                id=f"K{number}",
                name=made.name,
                groups=tuple(row.id for row in rows),
                launches=made.launches or None,
                block=made.block,
                grid=made.grid,
                smem_bytes=None,
                ms=spread(made.ms),
                gb_per_s=None,
                peak_fraction=None,
                registers=None,
                spill_bytes=None,
                code=made.text(made.main) if made.main is not None and made.main in made.texts else None,
                compiles=made.compiles or None,
                evidence=evidence,
                rank=facts.rank,
                dumps=tuple(Dump(option, made.text(option), evidence) for option in made.texts),
            )
        )
    return kernels


def _owners(facts: Facts, groups: GroupTable) -> list[list[GroupRow]]:
    """The groups of each kernel. NNC prints the graph. oneDNN Graph prints operators and sizes: partitions
    that agree in them belong to the groups that agree in them one by one, in order, if there are as many and
    none stands in a branch."""
    found = [groups.of_graph(kernel.graph) for kernel in facts.printed_kernels]
    alike: dict[_Shape, list[int]] = {}
    for place, kernel in enumerate(facts.printed_kernels):
        if kernel.operators:
            alike.setdefault((kernel.operators, kernel.tensors[1]), []).append(place)
    if not alike:
        return found
    rows: dict[_Shape, list[GroupRow]] = {}
    for row in groups.rows:
        if row.group.kind == "oneDNNFusionGroup":
            rows.setdefault(_shape_of(row), []).append(row)
    for shape, places in alike.items():
        fitting = rows.get(shape, [])
        branches = any(row.group.conditional for row in fitting)
        if len(fitting) == len(places) and (len(places) == 1 or not branches):
            for place, row in zip(places, fitting):
                found[place] = [row]
    return found


_Shape = Tuple[Tuple[str, ...], Tuple[Tuple[int, ...], ...]]
"""(operators, sizes of the outputs)."""


def _shape_of(row: GroupRow) -> _Shape:
    return tuple(op for op, _ in row.group.body), tuple(_sizes(text) for text in row.group.outputs)


def _sizes(text: str) -> tuple[int, ...]:
    tensor = parse_type(text)
    if not isinstance(tensor, TensorType) or tensor.sizes is None or None in tensor.sizes:
        return (-1,)
    return tuple(size for size in tensor.sizes if size is not None)
