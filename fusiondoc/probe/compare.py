"""Two tensors that should be the same: fused and eager.

Which outputs of a graph depend on random numbers: those differ from run to run by design.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple

RELATIVE = {"float64": 1e-8, "complex128": 1e-8, "float32": 1e-4, "complex64": 1e-4, "float16": 1e-2}
"""How far a value may be off, by dtype. Fused kernels add in another order and keep intermediates in float32,
so these are some hundred roundings of the type; whole numbers and booleans must be equal."""

_BFLOAT16 = 4e-2
_FLOOR = 1e-3
"""Values below this count as being this large: roundings of the intermediates they are the difference of."""

_MEAN, _STD, _ZEROS = "mean", "std", "zeros"
_SIGMAS = 6.0


def relative(torch: Any, dtype: Any) -> float:
    """The tolerance of a dtype; 0 for whole numbers and booleans."""
    name = str(dtype).replace("torch.", "")
    return _BFLOAT16 if name == "bfloat16" else RELATIVE.get(name, 0.0)


def compare_values(torch: Any, fused: Any, eager: Any, tolerance: float, largest: float) -> dict[str, Any]:
    """The result for a tensor, by value.

    A value is the same if the difference is at most ``tolerance`` times the largest of: the eager value, a
    tenth of the largest one in the tensor, a hundredth of ``largest`` (of all outputs, or of all gradients),
    and 1e-3. ``max_rel`` is the largest difference over that.
    """
    row = compare_kind(fused, eager)
    if fused is None or eager is None or fused.shape != eager.shape:
        return row
    f, e = _plain(torch, fused), _plain(torch, eager)
    if not tolerance:
        row["tolerance"] = 0.0
        different = int((f != e).sum()) if f.numel() else 0
        row["same"] = different == 0
        if different:
            row["max_abs"] = _number((f.double() - e.double()).abs().max())
            row["detail"].append("%d of %d elements differ" % (different, f.numel()))
        else:
            row["max_abs"] = row["max_rel"] = 0.0
        return row
    row["tolerance"] = tolerance
    f, e = f.double(), e.double()
    pattern = _pattern(torch, f, e)
    if pattern:
        row["same"] = False
        row["detail"].append(pattern)
    finite = torch.isfinite(f) & torch.isfinite(e)
    f, e = f[finite], e[finite]
    if not f.numel():
        row["max_abs"] = row["max_rel"] = 0.0
        return row
    off = (f - e).abs()
    size = e.abs()
    least = max(0.1 * float(size.max()), 0.01 * largest, _FLOOR)
    row["max_abs"] = _number(off.max())
    row["max_rel"] = _number((off / size.clamp(min=least)).max())
    if row["max_rel"] > tolerance:
        row["same"] = False
    return row


Named = Tuple[str, str, Any]
"""Phase, name and tensor (or None) of a result."""


def compare_rows(
    torch: Any,
    ours: Sequence[Named],
    theirs: Sequence[Named],
    tolerance: float,
    second: Callable[[str, Any, Any, dict[str, Any]], dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """A row for each result of either side, by value; what only they have comes last.

    Args:
        tolerance: the least that holds for results of any floating-point type.
        second: asked with name, both tensors and row where values differ, for another row.
    """
    left = {what: tensor for _, what, tensor in theirs}
    largest = {
        phase: largest_of(torch, [one for p, _, one in theirs if p == phase])
        for phase in ("forward", "backward")
    }
    rows = []
    for phase, what, tensor in ours:
        other = left.pop(what, None)
        own = relative(torch, other.dtype) if other is not None else 0.0
        row = compare_values(torch, tensor, other, max(own, tolerance) if own else 0.0, largest[phase])
        if second is not None and not row["same"] and tensor is not None and other is not None:
            row = second(what, tensor, other, row)
        rows.append(_named_row(phase, what, row))
    rows += [_named_row(p, what, compare_kind(None, one)) for p, what, one in theirs if what in left]
    return rows


def _named_row(phase: str, what: str, row: dict[str, Any]) -> dict[str, Any]:
    return dict(row, phase=phase, what=what, detail="; ".join(row["detail"]) or None)


def compare_kind(fused: Any, eager: Any) -> dict[str, Any]:
    """A row on what can be said without looking at values: shape, dtype, strides."""
    row: dict[str, Any] = {
        "same": True,
        "max_abs": None,
        "max_rel": None,
        "tolerance": None,
        "dtype_same": True,
        "strides_same": True,
        "by": "value",
        "detail": [],
    }
    if fused is None or eager is None:
        row["same"] = fused is eager
        if not row["same"]:
            row["detail"].append("missing in the %s run" % ("fused" if fused is None else "eager"))
        return row
    if fused.dtype != eager.dtype:
        row["dtype_same"] = False
        row["detail"].append("%s, eager %s" % (_name(fused.dtype), _name(eager.dtype)))
    if fused.shape != eager.shape:
        row["same"] = False
        row["detail"].append("shape %s, eager %s" % (list(fused.shape), list(eager.shape)))
    elif _strides(fused) != _strides(eager):
        row["strides_same"] = False
        row["detail"].append("strides %s, eager %s" % (list(fused.stride()), list(eager.stride())))
    return row


def statistics(torch: Any, tensor: Any) -> dict[str, float]:
    """Mean, standard deviation and share of zeros; of finite values."""
    values = _plain(torch, tensor).double().flatten()
    values = values[torch.isfinite(values)]
    if not values.numel():
        return {_MEAN: 0.0, _STD: 0.0, _ZEROS: 0.0}
    return {
        _MEAN: float(values.mean()),
        _STD: float(values.std(unbiased=False)),
        _ZEROS: float((values == 0).double().mean()),
    }


def compare_statistics(
    torch: Any, fused: Any, eager: Any, draws: Sequence[dict[str, float]] = ()
) -> dict[str, Any]:
    """The result for a tensor that depends on random numbers.

    The statistics may be apart by six standard errors and a tenth, or by three times the spread that
    ``draws``, of eager runs with other random numbers, show: elements that share a random number are fewer
    independent ones than they seem.
    """
    row = compare_kind(fused, eager)
    row["by"] = "statistics"
    if fused is None or eager is None or fused.shape != eager.shape:
        return row
    f, e = statistics(torch, fused), statistics(torch, eager)
    error = _SIGMAS / max(1, fused.numel()) ** 0.5
    deviation = max(f[_STD], e[_STD])
    allowed = {
        _MEAN: deviation * (1.5 * error + 0.1),
        _STD: deviation * (1.5 * error + 0.1),
        _ZEROS: 0.75 * error + 0.05,
    }
    off = {name: abs(f[name] - e[name]) for name in f}
    for name in allowed:
        seen = [e[name]] + [draw[name] for draw in draws]
        allowed[name] = max(allowed[name] + 1e-6, 3 * (max(seen) - min(seen)) if draws else 0.0)
    new_nan = bool(torch.isnan(_plain(torch, fused)).any()) and not bool(
        torch.isnan(_plain(torch, eager)).any()
    )
    row["same"] = not new_nan and all(off[name] <= allowed[name] for name in off)
    row["max_abs"] = max(off.values())
    row["detail"].append(
        ", ".join("%s %.4g, eager %.4g" % (name, f[name], e[name]) for name in (_MEAN, _STD, _ZEROS))
        + (", NaN in the fused run only" if new_nan else "")
    )
    return row


def largest_of(torch: Any, tensors: Sequence[Any]) -> float:
    """The largest finite magnitude in any of the tensors."""
    largest = 0.0
    for tensor in tensors:
        if tensor is None or not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
            continue
        values = _plain(torch, tensor)
        values = values[torch.isfinite(values)]
        if values.numel():
            largest = max(largest, float(values.abs().max()))
    return largest


def _plain(torch: Any, tensor: Any) -> Any:
    """The values as a dense tensor of real numbers."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _pattern(torch: Any, fused: Any, eager: Any) -> str | None:
    """Where NaN and infinities are in one and not in the other."""
    for name, where in (
        ("NaN", torch.isnan),
        ("inf", lambda t: t == float("inf")),
        ("-inf", lambda t: t == float("-inf")),
    ):
        in_fused, in_eager = where(fused), where(eager)
        if not torch.equal(in_fused, in_eager):
            return "%s in %d elements, eager %d" % (name, int(in_fused.sum()), int(in_eager.sum()))
    return None


def _strides(tensor: Any) -> Any:
    """The strides that mean something: of dimensions with more than one element."""
    if str(tensor.layout) != "torch.strided" or not tensor.numel():
        return None
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1]


def _name(dtype: Any) -> str:
    return str(dtype).replace("torch.", "")


def _number(tensor: Any) -> float:
    return float(tensor)


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
