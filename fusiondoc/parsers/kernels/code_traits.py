"""Vector width, index type and reductions of a kernel, from its CUDA code.

They are found by templates of the fuser's runtime, torch 1.12 to 2.1:
``loadGeneric<float, 4>``, ``loadGlobalToLocal<float, 4>`` and ``Array<float, 4,
4>`` (tensor_memory.cu, array.cu); ``blockReduce``, ``warpReduceTIDX``,
``blockWelford``, ``gridReduce``, ``gridWelford`` and ``ParallelReduce``
(block_reduction.cu, warp.cu, welford.cu, grid_reduction.cu, fused_reduction.cu);
``blockBroadcast`` (broadcast.cu, grid_broadcast.cu).

The reduction scheduler accepts no fusion in which a reduced value is broadcast
(hasPostReductionBCast in scheduler/registry.cpp): a kernel with both was made by
the persistent scheduler. Code without any sum was made by the pointwise or the
transpose scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusiondoc.model.kernel_traits import KernelTraits

_ACCESS = re.compile(
    r"load(?<!\wload)(?:Generic|LocalToGlobal|GlobalToLocal\w*)<[^<>,]{1,40}, ?(\d{1,3})\b"
)
"""Each form begins with letters, so that a search can skip to them; the condition
on the character before them is a lookbehind after them."""
_VECTOR = re.compile(r"Array<(?<!\wArray<)[^<>,]{1,40}, ?(\d{1,3}), ?(\d{1,3})>")
_DEFINED_INDEX = re.compile(r"typedef (int|int64_t) nvfuser_index_t;")
_INDEX = re.compile(
    r"int(?<!\wint)(64_t)? (i\d{1,9});\s{1,200}\2 = [^;\n]{0,400}\b(?:blockIdx|threadIdx)\."
)
"""A variable with an index that is computed from the block or thread index."""
_BLOCK = ("blockReduce<", "warpReduce", "blockWelford<")
_GRID = ("gridReduce", "gridWelford", "ParallelReduce<")
_BROADCAST = ("blockBroadcast<", "grid_broadcast::broadcast<", "ParallelReduce<")
_SUM = re.compile(r"T(?<!\wT)(\d{1,9})\[[^\]\n]{0,400}\]\s{1,200}=\sT\1\[")
_WELFORD = "elfordCombine"
"""A thread adds to a value of its own: every reduction begins with that, and
nothing else does."""
_TILE = "extern __shared__ "
"""Kernels without a reduction use shared memory for a tile that they transpose."""


def code_traits(
    code: str | None, other_dumps: Iterable[str] = ()
) -> KernelTraits | None:
    """Return the traits that the code of a kernel shows; None without code.
    ``other_dumps``: dumps of the same kernel."""
    if code is None:
        return None
    widths = [int(width) for width in _ACCESS.findall(code)]
    widths += [int(aligned) for _, aligned in _VECTOR.findall(code)]
    forms = (("block", _BLOCK), ("grid", _GRID))
    reductions = []
    for name, words in forms:
        if any(word in code for word in words):
            reductions.append(name)
    return KernelTraits(
        vector_width=max(widths, default=1),
        index_type=next(filter(None, map(_index_type, (code, *other_dumps))), None),
        reductions=tuple(reductions),
        persistent=any(word in code for word in _BROADCAST) if reductions else None,
    )


def _index_type(code: str) -> str | None:
    """Return the defined index type, or the type of a variable with an index; None
    if neither is found."""
    defined = _DEFINED_INDEX.search(code)
    if defined is not None:
        return defined.group(1)
    declared = _INDEX.search(code)
    if declared is None:
        return None
    return f"int{declared.group(1) or ''}"


def scheduler_of_code(traits: KernelTraits | None, code: str | None) -> str | None:
    """Return the scheduler that made the code, by its name in the dumps; None if
    several may have made it, as for a sum that each thread computes alone."""
    if traits is None or code is None:
        return None
    if traits.reductions:
        if traits.persistent:
            return "persistent"
        return "reduction"
    if _WELFORD in code or _SUM.search(code) is not None:
        return None
    if _TILE in code:
        return "transpose"
    return "pointwise"
