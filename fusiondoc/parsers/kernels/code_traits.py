"""Vector width, index type and reductions of a kernel, from its CUDA code.

Templates of its runtime, of torch 1.12 to 2.1: ``loadGeneric<float, 4>``, ``loadGlobalToLocal<float, 4>`` and
``Array<float, 4, 4>`` (tensor_memory.cu, array.cu); ``blockReduce``, ``warpReduceTIDX``, ``blockWelford``,
``gridReduce``, ``gridWelford`` and ``ParallelReduce`` (block_reduction.cu, warp.cu, welford.cu,
grid_reduction.cu, fused_reduction.cu); ``blockBroadcast`` (broadcast.cu, grid_broadcast.cu).

The reduction scheduler takes no fusion in which a reduced value is broadcast (hasPostReductionBCast in
scheduler/registry.cpp): a kernel with both was made by the persistent one. Code without any sum is of the
pointwise scheduler, or of that for transposes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusiondoc.model.kernel_traits import KernelTraits

_ACCESS = re.compile(r"\b(?:loadGeneric|loadLocalToGlobal|loadGlobalToLocal\w*)<[^<>,]{1,40}, ?(\d{1,3})\b")
_VECTOR = re.compile(r"\bArray<[^<>,]{1,40}, ?(\d{1,3}), ?(\d{1,3})>")
_INDEX = re.compile(
    r"\btypedef (?P<type>int|int64_t) nvfuser_index_t;"
    r"|\b(?P<declared>int|int64_t) (i\d{1,9});\s{1,200}\3 = [^;\n]{0,400}\b(?:blockIdx|threadIdx)\."
)
"""Its definition, or a variable that holds a place computed of a thread's."""
_BLOCK = re.compile(r"\b(?:blockReduce|warpReduce\w{0,20}|blockWelford)<")
_GRID = re.compile(r"\b(?:gridReduce|gridReduce[2-9]|gridReduceGroup|gridWelford\w{0,20}|ParallelReduce)<")
_BROADCAST = re.compile(r"\bblockBroadcast<|\bgrid_broadcast::broadcast<|\bParallelReduce<")


_SUMS = re.compile(r"\b(T\d{1,9})\[[^\]\n]{0,400}\]\s{1,200}=\s\1\[|\bwelfordCombine\b", re.IGNORECASE)
"""A thread adds to a value of its own: every reduction begins so, and nothing else does."""
_TILE = re.compile(r"\bextern __shared__ ")
"""Kernels without a reduction have shared memory for a tile that they transpose."""


def code_traits(code: str | None, other_dumps: Iterable[str] = ()) -> KernelTraits | None:
    """What the code of a kernel shows; None without code. ``other_dumps``: of the same kernel."""
    if code is None:
        return None
    widths = [int(width) for width in _ACCESS.findall(code)]
    widths += [int(aligned) for _, aligned in _VECTOR.findall(code)]
    index = next((found for text in (code, *other_dumps) if (found := _INDEX.search(text))), None)
    forms = (("block", _BLOCK), ("grid", _GRID))
    reductions = tuple(name for name, form in forms if form.search(code) is not None)
    return KernelTraits(
        vector_width=max(widths, default=1),
        index_type=index["type"] or index["declared"] if index is not None else None,
        reductions=reductions,
        persistent=_BROADCAST.search(code) is not None if reductions else None,
    )


def scheduler_of_code(traits: KernelTraits | None, code: str | None) -> str | None:
    """The scheduler that made the code, by its name in the dumps; None where several may have: of a sum that
    each thread computes alone."""
    if traits is None or code is None:
        return None
    if traits.reductions:
        return "persistent" if traits.persistent else "reduction"
    if _SUMS.search(code) is not None:
        return None
    return "transpose" if _TILE.search(code) is not None else "pointwise"
