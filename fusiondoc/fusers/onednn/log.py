"""oneDNN Graph in logs: the guards of its groups (torch/csrc/jit/codegen/onednn/guard_shape.cpp)."""

GUARDS = frozenset(("prim::oneDNNFusionGuard",))
