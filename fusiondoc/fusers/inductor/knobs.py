"""Inductor's knobs: the switches of ``torch._inductor.config`` that decide which
nodes become one kernel.

Names, defaults and meanings are those of torch/_inductor/config.py in 2.13; each
was tried live there.
"""

from __future__ import annotations

from fusiondoc.fusers.knob_rows import Knob, span

CONFIG = "torch._inductor.config"
_SOURCE = "torch/_inductor/config.py"
_GPU, _CPU = "cuda", "cpu"

_SWITCH, _COUNT, _RATIO = "switch", "count", "ratio"

_ROWS: tuple[tuple[str, str, str, str, str | None, str, str], ...] = (
    (
        "max_fusion_size",
        _COUNT,
        "64",
        "2.6-2.13",
        None,
        "How many nodes of the scheduler a kernel may hold.",
        "A higher number joins kernels of FD273. One node can hold many operators.",
    ),
    (
        "score_fusion_memory_threshold",
        _COUNT,
        "10",
        "2.6-2.13",
        None,
        "The bytes that two nodes must share before they are fused.",
        "With 0 kernels that share one number fuse too.",
    ),
    (
        "min_overlap_ratio",
        _RATIO,
        "1.1",
        "2.13",
        None,
        "The share of their reads that two nodes must have in common where they read other parts of it.",
        "Above 1 none fuse; 0.1 joins kernels that read slices of one tensor (FD262).",
    ),
    (
        "aggressive_fusion",
        _SWITCH,
        "off",
        "2.6-2.13",
        None,
        "Fuses element-wise nodes that share no memory access.",
        "Fewer launches, not fewer bytes.",
    ),
    (
        "loop_ordering_after_fusion",
        _SWITCH,
        "on",
        "2.6-2.13",
        None,
        "Changes the order of a node's loops if it fuses then.",
        "Off, kernels that read one tensor in two orders stay apart. Its default depends on the release.",
    ),
    (
        "realize_reads_threshold",
        _COUNT,
        "4",
        "2.6-2.13",
        None,
        "The reads above which a value with several readers is written to memory, not computed in each.",
        "A higher number writes fewer values, and computes more of them again.",
    ),
    (
        "split_reductions",
        _SWITCH,
        "on",
        "2.6-2.13",
        _GPU,
        "Splits a reduction to few results into two kernels, so that all multiprocessors work.",
        "Off, FD266 goes, and the reduction is often slower.",
    ),
    (
        "epilogue_fusion",
        _SWITCH,
        "on",
        "2.6-2.13",
        None,
        "Lets a template take in the element-wise operators after it.",
        "Off, every template ends with its own kernel (FD269).",
    ),
    (
        "prologue_fusion",
        _SWITCH,
        "on",
        "2.11-2.13",
        None,
        "Lets a template take in the element-wise operators before it.",
        "Off, its inputs are written to memory first (FD269).",
    ),
    (
        "max_autotune_gemm",
        _SWITCH,
        "off",
        "2.6-2.13",
        None,
        "Measures templates of products of matrices against the library.",
        "A template takes in its neighbours, a library call does not (FD251). Compiling takes much longer.",
    ),
    (
        "benchmark_fusion",
        _SWITCH,
        "off",
        "2.6-2.13",
        _GPU,
        "Measures two nodes apart and together before they are fused.",
        "A fusion that is slower is refused (FD275).",
    ),
    (
        "combo_kernels",
        _SWITCH,
        "off",
        "2.6-2.13",
        _GPU,
        "Puts kernels that share nothing into one launch.",
        "Fewer launches, not fewer bytes.",
    ),
    (
        "epilogue_fusion_user_defined_triton_kernel",
        _SWITCH,
        "off",
        "2.13",
        _GPU,
        "Lets a Triton kernel of the program take in the element-wise operators after it.",
        "On, FD270 can go.",
    ),
    (
        "cpp.max_horizontal_fusion_size",
        _COUNT,
        "16",
        "2.6-2.13",
        _CPU,
        "How many nodes that only read the same tensors a C++ loop nest may hold.",
        "Above it the C++ back end refuses without a text (FD279).",
    ),
    (
        "triton.cooperative_reductions",
        _SWITCH,
        "off",
        "2.6-2.13",
        _GPU,
        "Reduces to few results in one kernel whose blocks wait for each other.",
        "On, a reduction in two stages (FD266) becomes one kernel.",
    ),
    (
        "triton.prefer_nd_tiling",
        _SWITCH,
        "off",
        "2.6-2.13",
        _GPU,
        "Tiles loops in more than one dimension where it can.",
        "Kernels that were tiled in other ways (FD268) can agree.",
    ),
    (
        "triton.tiling_prevents_pointwise_fusion",
        _SWITCH,
        "on",
        "2.6-2.13",
        _GPU,
        "Keeps element-wise nodes apart whose best tilings differ.",
        "Off, they fuse (FD268), and one of them reads less evenly.",
    ),
    (
        "triton.tiling_prevents_reduction_fusion",
        _SWITCH,
        "on",
        "2.6-2.13",
        _GPU,
        "Keeps a reduction apart from element-wise nodes whose best tiling differs.",
        "Off, they fuse (FD268), and one of them reads less evenly.",
    ),
    (
        "triton.mix_order_reduction",
        _SWITCH,
        "on",
        "2.11-2.13",
        _GPU,
        "Reduces over two dimensions of one tensor in one kernel.",
        "Off, the eager sums after it go (FD258), and the tensor is read twice.",
    ),
)

KNOBS: tuple[Knob, ...] = tuple(
    Knob(
        name, "inductor", name, None, kind, default, does, effect, (span(live),), (span(live),), _SOURCE,
        owner=CONFIG, device=device,
    )
    for name, kind, default, live, device, does, effect in _ROWS
)  # fmt: skip
