"""oneDNN Graph in logs: the guards of its groups
(torch/csrc/jit/codegen/onednn/guard_shape.cpp)."""

from fusiondoc.fusers.fuser_log import FuserLog

LOG = FuserLog(
    # Printed if ONEDNN_VERBOSE is set.
    stdout_marks=(
        b"onednn_verbose,",
        b"onednn_graph_verbose,",
        b"dnnl_verbose,",
        b"dnnl_graph_verbose,",
    ),
    # From torch/csrc/jit/codegen/onednn/graph_helper.cpp.
    indented=(b"  Added node ", b"  Got #partitions: "),
    profile_names=(
        "LlgaPartition_",
    ),  # ``LlgaKernel``, torch/csrc/jit/codegen/onednn/kernel.cpp
    writes_to_stdout=True,
    guards=frozenset(("prim::oneDNNFusionGuard",)),
)
