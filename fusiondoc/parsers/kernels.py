"""Kernels and fallbacks of a run as the report has them."""

from __future__ import annotations

from statistics import median
from typing import Sequence

from fusiondoc.model import Fallback, Kernel, Spread
from fusiondoc.parsers.evidence import PackedEvidence
from fusiondoc.parsers.facts import Facts, FallbackSeen, KernelUse
from fusiondoc.parsers.groups import GroupRow, GroupTable


def spread(values: Sequence[float]) -> Spread | None:
    """Minimum, median and maximum; None for no values."""
    if not values:
        return None
    return Spread(min(values), float(median(values)), max(values))


def kernels_of(facts: Facts, groups: GroupTable, first_id: int, files: list[str]) -> list[Kernel]:
    """The kernels of one stream, in order of compilation. Fills ``kernels`` of the group rows."""
    kernels = []
    for number, use in enumerate(facts.kernels, first_id):
        rows = _rows_of(use, groups)
        for row in rows:
            row.kernels.append(f"K{number}")
        kernels.append(
            Kernel(
                id=f"K{number}",
                name=use.name,
                groups=tuple(row.id for row in rows),
                launches=use.launches if use.launches or use.ms else None,
                block=use.block,
                grid=use.grid,
                smem_bytes=use.smem,
                ms=spread(use.ms),
                gb_per_s=spread(use.gb_per_s),
                peak_fraction=None,
                registers=use.registers,
                spill_bytes=use.spill,
                code=use.code,
                compiles=use.compiles or None,
                evidence=PackedEvidence(use.lines, files),
                rank=facts.rank,
            )
        )
    return kernels


def _rows_of(use: KernelUse, groups: GroupTable) -> list[GroupRow]:
    if use.disputed or use.owner is None:
        return []
    return groups.of_cache(use.owner)


def fallbacks_of(facts: Facts, groups: GroupTable, files: list[str]) -> list[Fallback]:
    """One row for (stage, group). Marks the rows of the groups."""
    rows: dict[tuple[str | None, str | None], list[FallbackSeen]] = {}
    for seen in facts.fallbacks:
        owners = groups.of_graph(seen.graph) or groups.of_cache(seen.owner)
        for row in owners:
            row.fallback = True
        rows.setdefault((seen.stage, owners[0].id if owners else None), []).append(seen)
    error = facts.errors[0][0] if facts.errors and any(_of_fuser(text) for text, _ in facts.errors) else None
    return [
        Fallback(
            stage=stage if stage is not None else "run",
            group=group,
            count=len(seen),
            count_exact=all(s.exact for s in seen),
            error=error,
            evidence=PackedEvidence([line for s in seen for line in s.lines], files),
            rank=facts.rank,
        )
        for (stage, group), seen in rows.items()
    ]


def _of_fuser(text: str) -> bool:
    return "codegen/cuda" in text or "nvfuser" in text or "NVRTC" in text or "CUDA driver error" in text
