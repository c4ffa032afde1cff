"""oneDNN Graph's knob, environment variables and dump."""

from __future__ import annotations

from fusiondoc.fusers.fuser_switches import FuserSwitches
from fusiondoc.fusers.knob_rows import (
    FROM_12,
    FuserCatalogue,
    FuserDump,
    Knob,
    knob,
    span,
)

KNOBS: tuple[Knob, ...] = (
    knob(
        "onednn",
        "onednn",
        "_jit_set_llga_enabled _jit_llga_enabled",
        kind="switch",
        default="off",
        does="Fuses operators on the CPU with oneDNN Graph.",
        effect="prim::oneDNNFusionGroup nodes appear. Made for traced, frozen modules; the public name is "
        "torch.jit.enable_onednn_fusion.",
        source="torch/csrc/jit/codegen/onednn/interface.cpp",
        live=FROM_12,
    ),
)

DUMPS: tuple[FuserDump, ...] = (
    FuserDump(
        "onednn_verbose",
        "onednn",
        "Each partition of oneDNN Graph that ran: implementation, tensors, time.",
        (span("1.12-2.13"),),
        (("ONEDNN_VERBOSE", "1"), ("ONEDNN_GRAPH_VERBOSE", "1")),
    ),
)

SWITCHES = FuserSwitches(
    # graph_helper prints the operators that it does not take ("Making aten::tanh a
    # wildcard").
    log_level="profiling_graph_executor_impl:>>graph_helper",
    variables_set=("ONEDNN_VERBOSE", "ONEDNN_GRAPH_VERBOSE", "DNNL_VERBOSE"),
)

CATALOGUE = FuserCatalogue(
    printing_variables=("ONEDNN_VERBOSE", "DNNL_VERBOSE"),
    knobs=KNOBS,
    dumps=DUMPS,
    usual_dumps=("onednn_verbose",),
    log_files={
        "graph_helper": "What oneDNN Graph makes of each operator.",
        "interface": "Graphs around oneDNN Graph's passes.",
    },
)
