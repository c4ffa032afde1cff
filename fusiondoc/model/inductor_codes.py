"""The finding codes of Inductor and torch.compile: graph breaks, calls, boundaries,
failures, gaps of a log.

``model/codes.py`` makes ``Code`` objects of these rows. FD251 to FD259 are on
calls, in the order of ``CallKind``; FD261 to FD279 on the causes of boundaries, in
the order of ``ApartCause``.
"""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.model.remedies import Remedy, nothing

_REWRITES: Mapping[str, str] = {
    "FD252": "with operators that Inductor compiles, or register a decomposition;",
    "FD253": "with other operators, if its neighbours move much memory;",
    "FD254": "with torch's own operators, or as a Triton kernel through torch.library.triton_op;",
}


def rewrite_of(code: str, op: str = "it") -> str | None:
    """Return the instruction to rewrite an operator (``op``) that is a call; None
    if the code has another remedy."""
    if code in _REWRITES:
        return f"Write {op} {_REWRITES[code]}"
    return None


def _rewrite(code: str, more: str) -> Remedy:
    return Remedy(rewrite_of(code) or "", more)


OF_RUNS: tuple[tuple[str, str, str, Remedy | None], ...] = (
    ("FD121", "warning", "torch.compile broke the graph", None),
    ("FD122", "warning", "torch.compile compiled a function again", None),
)

OF_CALLS: tuple[tuple[str, str, str, Remedy], ...] = (
    (
        "FD251",
        "note",
        "A library computes it, not a kernel of Inductor",
        Remedy(
            'Try mode="max-autotune": a template takes in what comes right before and after the product;',
            "it is kept only where it is faster than the library.",
        ),
    ),
    (
        "FD252",
        "warning",
        "Inductor has no lowering of the operator",
        _rewrite(
            "FD252", "FFT, complex numbers, sort and linalg have no lowering."
        ),
    ),
    (
        "FD253",
        "note",
        "Inductor leaves the operator to eager code on purpose",
        _rewrite("FD253", "else accept the call."),
    ),
    (
        "FD254",
        "warning",
        "A custom operator, which is opaque to Inductor",
        _rewrite("FD254", "Inductor fuses nothing into a custom operator."),
    ),
    (
        "FD255",
        "note",
        "A Triton kernel of the program",
        Remedy(
            "Compute the operators next to it inside the kernel;",
            "from torch 2.13 on, epilogue_fusion_user_defined_triton_kernel lets it take in the operators"
            " after it.",
        ),
    ),
    (
        "FD256",
        "note",
        "An exchange between processes",
        nothing("Nothing: no fuser takes an exchange between processes."),
    ),
    (
        "FD257",
        "note",
        "A copy that no kernel makes",
        Remedy(
            "Let the operator that makes the tensor write it in that layout, or drop the copy."
        ),
    ),
    (
        "FD258",
        "note",
        "The sum of a reduction's workspace runs in eager code",
        nothing(
            "Nothing in the program: it belongs to a reduction over two dimensions in one kernel.",
            "triton.mix_order_reduction=False makes separate kernels of it.",
        ),
    ),
    (
        "FD259",
        "note",
        "A call that moves next to nothing",
        nothing("Nothing: seeds and views cost almost nothing."),
    ),
)

OF_BOUNDARIES: tuple[tuple[str, str, str, Remedy], ...] = (
    (
        "FD261",
        "note",
        "A tensor goes through memory to or from a call",
        Remedy(
            "See the row of the call: if Inductor compiles it as a loop, this boundary can go too."
        ),
    ),
    (
        "FD262",
        "warning",
        "Two kernels use one tensor in other orders or parts",
        Remedy(
            "Let both kernels use the tensor in one layout and as a whole: .contiguous() once before both,"
            " the same slice, or a split by hand."
        ),
    ),
    (
        "FD263",
        "warning",
        "Two kernels have loops of other sizes",
        Remedy(
            "Do the smaller part before broadcasting, or reduce over the same dimensions;",
            "sizes that are not known are unequal: torch._check(a == b) makes them equal.",
        ),
    ),
    (
        "FD264",
        "warning",
        "A kernel reads other elements than the previous one wrote",
        Remedy(
            "Index, flip or transpose before or after the chain of operators, not in the middle of it."
        ),
    ),
    (
        "FD265",
        "note",
        "A node that cannot join stands between two kernels",
        Remedy(
            "See the reason of the node between: without it these two can be one."
        ),
    ),
    (
        "FD266",
        "note",
        "A reduction runs in two stages",
        Remedy(
            "Try triton.cooperative_reductions=True, or a larger dimension that is kept;",
            "a reduction to few results is split so that all multiprocessors work.",
        ),
    ),
    (
        "FD267",
        "warning",
        "Two kernels reduce in other directions or over other sizes",
        Remedy("Reduce over the same dimensions, or pad to the same size."),
    ),
    (
        "FD268",
        "note",
        "Two kernels are tiled in other ways",
        Remedy(
            "Make the inputs contiguous in the same order;",
            "triton.tiling_prevents_pointwise_fusion=False lets them fuse.",
        ),
    ),
    (
        "FD269",
        "note",
        "A template does not take in its neighbour",
        Remedy(
            "Let one element-wise chain alone read the product, without changing a tensor in place;",
            "a template takes no reduction.",
        ),
    ),
    (
        "FD270",
        "note",
        "A Triton kernel of the program takes in nothing",
        Remedy("Compute the operators next to it inside the kernel."),
    ),
    (
        "FD271",
        "warning",
        "A change in place, or shared memory, keeps kernels apart",
        Remedy(
            "Make a new tensor, above all for inputs and views: x = x + y instead of x += y."
        ),
    ),
    (
        "FD272",
        "warning",
        "Two kernels run on other devices or streams",
        Remedy("Move the tensors to one device before the compiled part."),
    ),
    (
        "FD273",
        "note",
        "Together two kernels would be too large",
        Remedy(
            "Try --knob max_fusion_size=256 (64 nodes by default), and time it."
        ),
    ),
    (
        "FD274",
        "note",
        "By Inductor's estimate the fused kernel would need more memory",
        Remedy(
            "Move the two closer together in the program, or accept the memory traffic."
        ),
    ),
    (
        "FD275",
        "note",
        "Inductor measured the fused kernel, and it was slower",
        nothing(
            "Nothing: it was measured on this device.",
            "If both are close, noise can decide.",
        ),
    ),
    (
        "FD276",
        "note",
        "Foreach or grouped operators take no others",
        Remedy(
            "Give lists of equal length, and tensors of equal sizes, to the foreach operators."
        ),
    ),
    (
        "FD277",
        "warning",
        "Two kernels are in other graphs",
        Remedy(
            "Fix the graph break between them: torch.compile(fullgraph=True) shows each."
        ),
    ),
    (
        "FD278",
        "note",
        "Torch states a cause that fusiondoc does not know",
        Remedy(
            "Read torch's text in the reason, and upgrade fusiondoc if there is a newer version."
        ),
    ),
    (
        "FD279",
        "note",
        "Torch refused to fuse two kernels without a text",
        Remedy(
            "Compare the sizes and orders of the two kernels: most often these differ."
        ),
    ),
)

OF_FAILURES: tuple[tuple[str, str, str, Remedy | None], ...] = (
    (
        "FD311",
        "error",
        "torch.compile gave up on a function: the limit of recompiles",
        None,
    ),
    ("FD312", "error", "torch.compile failed", None),
)

OF_LOGS: tuple[tuple[str, str, str, Remedy | None], ...] = (
    ("FD921", "warning", "The code came from a cache: nothing was compiled", None),
    ("FD922", "warning", "The log lacks Inductor's decisions", None),
    ("FD923", "note", "The log lacks the operators of kernels", None),
    ("FD924", "note", "Texts of a newer torch", None),
)

DYNAMIC = "--dynamic"
_LARGER, _OTHER_PARTS, _ONE_NUMBER = (
    "max_fusion_size=256",
    "min_overlap_ratio=0.1",
    "score_fusion_memory_threshold=0",
)
_MORE_READERS = "cpp.max_horizontal_fusion_size=64"

TRIES: dict[str, tuple[str, ...]] = {
    "FD122": (DYNAMIC,),
    "FD262": (_OTHER_PARTS, _ONE_NUMBER),
    "FD266": ("triton.cooperative_reductions=on",),
    "FD268": (
        "triton.tiling_prevents_pointwise_fusion=off",
        "triton.tiling_prevents_reduction_fusion=off",
        "triton.prefer_nd_tiling=on",
    ),
    "FD269": ("epilogue_fusion=on", "prologue_fusion=on"),
    "FD270": ("epilogue_fusion_user_defined_triton_kernel=on",),
    "FD273": (_LARGER, _MORE_READERS),
    "FD279": (_MORE_READERS,),
}
"""Code -> the settings that ``diagnose --try`` makes for it."""

LOSE_NOTHING = frozenset(("FD256", "FD258", "FD259", "FD275"))
"""Codes of calls and boundaries that cost nothing."""
