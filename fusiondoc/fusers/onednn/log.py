"""oneDNN Graph in logs: the guards of its groups (torch/csrc/jit/codegen/onednn/guard_shape.cpp)."""

STDOUT_MARKS = (b"onednn_verbose,", b"onednn_graph_verbose,", b"dnnl_verbose,", b"dnnl_graph_verbose,")
"""How the lines begin that the library prints where ONEDNN_VERBOSE is set."""

IN_A_PROFILE = "LlgaPartition_"
"""How the name of a group in a profile begins (``LlgaKernel``, torch/csrc/jit/codegen/onednn/kernel.cpp)."""

GUARDS = frozenset(("prim::oneDNNFusionGuard",))

INDENTED = (b"  Added node ", b"  Got #partitions: ")
"""Messages of torch/csrc/jit/codegen/onednn/graph_helper.cpp that begin like the lines of a graph."""
