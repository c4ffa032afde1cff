"""Which outputs of a graph depend on random numbers: those differ from run to run by design."""

from __future__ import annotations

from typing import Any

_NAMES = """
dropout alpha_dropout feature_dropout feature_alpha_dropout native_dropout bernoulli binomial multinomial
normal normal_functional uniform exponential geometric log_normal cauchy random poisson rrelu rrelu_with_noise
rand rand_like randn randn_like randint randint_like randperm _standard_gamma _sample_dirichlet _fused_dropout
scaled_dot_product_attention lstm gru rnn_tanh rnn_relu miopen_rnn rrelu_with_noise_functional
"""
"""Operators that draw random numbers, some only with a dropout above 0 (tagged ``nondeterministic_seeded`` in
aten/src/ATen/native/native_functions.yaml of torch 2.13, and their in-place forms)."""

RANDOM = frozenset("aten::" + name for name in _NAMES.split())


class RandomFlow:
    """What depends on random operators in a TorchScript graph.

    ``ops``: their names, in order of the graph, each once. ``outputs``: for each tensor or other value that
    the graph returns whether it depends on one; None where the graph returns a list or a dictionary, whose
    elements it does not name.
    """

    def __init__(self, graph: Any) -> None:
        self.ops: list[str] = []
        self._tainted: set[str] = set()
        before = -1
        # In-place operators taint what was there before them: go round until nothing new is found.
        while before != len(self._tainted):
            before = len(self._tainted)
            self._block(graph)
        self.outputs = self._outputs(graph)

    def _block(self, block: Any) -> bool:
        """Whether a random operator stands in the block."""
        found = False
        for node in block.nodes():
            kind = str(node.kind())
            plain = kind[:-1] if kind.endswith("_") else kind
            own = plain in RANDOM
            if own and plain not in self.ops:
                self.ops.append(plain)
            for inner in node.blocks():
                if self._block(inner):
                    own = True
            inputs = list(node.inputs())
            if not own and not any(value.debugName() in self._tainted for value in inputs):
                continue
            found = True
            self._tainted.update(value.debugName() for value in node.outputs())
            if kind.endswith("_") and inputs:
                self._tainted.add(inputs[0].debugName())
        return found

    def _outputs(self, graph: Any) -> list[bool] | None:
        values = list(graph.outputs())
        while len(values) == 1 and values[0].node().kind() == "prim::TupleConstruct":
            values = list(values[0].node().inputs())
        if any(value.type().kind() in ("ListType", "DictType", "TupleType") for value in values):
            return None
        return [value.debugName() in self._tainted for value in values if _is_tensor(value)]


def _is_tensor(value: Any) -> bool:
    kind = str(value.type().kind())
    return kind == "TensorType" or (kind == "OptionalType" and "Tensor" in str(value.type()))


def random_flow(torch: Any, scripted: Any) -> RandomFlow | None:
    """Of a scripted model; None if this torch cannot show its graph."""
    try:
        graph = scripted.inlined_graph.copy()
        # Branches that constant arguments decide go: dropout(inplace=False) holds an in-place one.
        torch._C._jit_pass_constant_propagation(graph)
        return RandomFlow(graph)
    except (AttributeError, RuntimeError):
        return None
