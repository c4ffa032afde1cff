"""Recipes: operators that a fuser does not take, written with operators that it
takes.

Each is tried in ``tests/test_recipes.py``: outputs and gradients against eager in
several dtypes, the operators of ``after`` against those in its scripted graph, and
a real fuser on the CPU. ``benchmarks/recipes.py`` tries them on a GPU too.
``fusiondoc/fusers`` has the operators that each fuser takes. The definitions come
from the documentation of torch.nn.functional and of ATen/native (Activation.cpp,
ReduceOps.cpp, RNN.cpp, group_norm.cpp; 1.12 to 2.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from fusiondoc.fusers import EVERYWHERE, facts_of, fuser_title, knob_for, taken_by
from fusiondoc.fusers.fuser_words import GivenOverload
from fusiondoc.model import dataclass
from fusiondoc.model.reasons import Detail, Overload, WrongDevice, WrongType
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.operators import WITH_FORMULA

ROUNDING = "rounding"
EXACT = "exact"


@dataclass(frozen=True)
class Recipe:
    """Another way to write an operator."""

    of: str
    """The operators that it replaces, without ``aten::``."""
    before: str
    after: str
    """TorchScript expressions, before and after."""
    inputs: str
    """The inputs of the expressions, in the notation of ``fusiondoc diagnose
    --input``: ``x=float32[4,8]``."""
    ops: str
    """The tensor operators of ``after`` that must fuse, with their names in its
    graph; views are left out."""
    left: str = ""
    """Operators of ``after`` that stay outside the group: at its edge, or with a
    library kernel."""
    needs: str | None = None
    """A condition for the recipe."""
    needs_are_seen: bool = False
    """True if ``needs`` holds where the expression matches, or the first pass shows
    that it does not."""
    difference: str = ROUNDING
    """EXACT, ROUNDING (the last digits), or another difference in words."""
    module: str | None = None
    """The module of torch.nn that calls the operator, and that can be replaced from
    outside a package."""
    helper: str = ""
    """Definitions that ``after`` calls."""
    arguments: bool = False
    """True if the fuser has a rule for the operator, and the recipe gives the
    required form of its arguments."""
    answers: GivenOverload | None = None
    """The recipe applies only if the operator was refused for this overload; None:
    for any. Another argument may have been the reason."""
    follows: bool = False
    """It moves the operators behind this one to before it; useless for an operator
    at the end of a graph."""
    caution: str | None = None
    shown: str = ""
    """The instruction in words, where the expressions are only an example."""
    kinks: str = ""
    """Single points at which the gradient is not eager's (measured on torch 2.13):
    ``x = -3 and x = 3``."""
    half: str = ""
    """The error in float16 where eager computes in float32 (measured on torch
    2.13)."""
    edge: bool = False
    """Its result usually goes to a library kernel, and into no sum
    (``breaks_in_training``)."""
    same: str = ""
    """A condition on ``child``, of the type ``module``, under which the recipe
    computes the same as the module."""

    numbers_too: bool = False
    """For a fuser that takes numbers as tensors
    (``FuserLimits.numbers_for_tensors``): a number may be passed for the tensor
    that ``needs`` requires, if no gradients are recorded: torch has no gradient
    formula for that overload."""

    @property
    def replaces(self) -> frozenset[str]:
        replaces = set()
        for name in self.of.split():
            replaces.add(name if "::" in name else f"aten::{name}")
        return frozenset(replaces)

    @property
    def operators(self) -> frozenset[str]:
        operators = set()
        for name in self.ops.split():
            operators.add(name if "::" in name else f"aten::{name}")
        return frozenset(operators)

    @property
    def at_kinks(self) -> str | None:
        """A clause on the gradient, for training."""
        if self.kinks:
            return f"in training, at exactly {self.kinks} the gradient differs from eager"
        return None

    @property
    def words(self) -> str:
        """``x * x instead of torch.square(x)``"""
        return self.shown or f"{self.after} instead of {self.before}"

    def helps(
        self, fuser: str, torch_version: str | None, gradients: bool | None
    ) -> bool:
        """True if the fuser takes every operator of the recipe's replacement.

        Args:
            gradients: True if they are recorded: then torch must have a gradient
                formula for each of these operators too. None: not known.
        """
        if not all(taken_by(op, fuser, torch_version) for op in self.operators):
            return False
        if gradients is False:
            return True
        breaks = not self.edge and any(
            breaks_in_training(op, fuser, gradients) for op in self.operators
        )
        return self.operators <= WITH_FORMULA and not breaks

    def over_all(self, rank: int) -> str:
        """``after`` for tensors of this rank, if it reduces over all dimensions."""
        return self.after.replace(ALL_DIMENSIONS, str(list(range(rank))))


def breaks_in_training(op: str, fuser: str | None, gradients: bool | None) -> bool:
    """True if a reduction with constant dimensions may end the run with an error
    once the fuser takes it.

    A fuser that computes their sizes alone breaks in training where the result of
    such a reduction is added to or subtracted from a tensor (FD307): all 24 such
    programs with ``mean`` or ``var`` that were tried on an H200 under torch 2.1.2
    failed, and 9 others ran.
    """
    return op in facts_of(fuser).operators.sized_reductions and bool(gradients)


ALL_DIMENSIONS = (
    "[0, 1]"  # in ``after``: all dimensions of the tensors of ``inputs``
)
_OVER_ALL: GivenOverload = "all_dimensions"
_X = "x=float32[4,8]"
_XY = "x=float32[4,8] y=float32[4,8]"
_XYZ = f"{_XY} z=float32[4,8]"
_CELL = "x=float32[4,8] h=float32[4,16] c=float32[4,16] w_ih=float32[64,8] w_hh=float32[64,16] b_ih=float32[64]"
_GATES = "x=float32[4,8] h=float32[4,16] w_ih=float32[48,8] w_hh=float32[48,16] b_ih=float32[48]"

_ELU = "torch.where(x > 0, x, {0} * torch.expm1(torch.clamp(x, max=0){1}))"

_SQUARES = "in float16 squares of more than 255 overflow; compute them in float32"

_LSTM_CELL = """\
def lstm_cell(x, h, c, w_ih, w_hh, b_ih, b_hh):
    i, f, g, o = (F.linear(x, w_ih, b_ih) + F.linear(h, w_hh, b_hh)).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c
"""

_GRU_CELL = """\
def gru_cell(x, h, w_ih, w_hh, b_ih, b_hh):
    i_r, i_z, i_n = F.linear(x, w_ih, b_ih).chunk(3, 1)
    h_r, h_z, h_n = F.linear(h, w_hh, b_hh).chunk(3, 1)
    r, z = torch.sigmoid(i_r + h_r), torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return n + z * (h - n)
"""

_GLU = """\
def glu(x):
    a, b = x.chunk(2, -1)
    return a * torch.sigmoid(b)
"""

_GROUP_NORM = """\
def group_norm(x, groups: int, weight, bias, eps: float):
    y = x.reshape([x.size(0), groups, -1])
    y = y - y.mean([2], True)
    y = y * torch.rsqrt((y * y).mean([2], True) + eps)
    return y.reshape(x.shape) * weight.reshape([-1, 1, 1]) + bias.reshape([-1, 1, 1])
"""

_LAYER_NORM = """\
def layer_norm(x, weight, bias, eps: float):
    n = float(x.size(-1))
    y = x - x.sum([-1], True) / n
    return y * torch.rsqrt((y * y).sum([-1], True) / n + eps) * weight + bias
"""

_GATED = """\
def gated(x):
    a, b = x.chunk(2, 1)
    return torch.relu(a) * b
"""

_SMOOTH_L1_LOSS = """\
def smooth_l1_loss(x, y):
    d = torch.abs(x - y)
    return torch.where(d < 1.0, 0.5 * d * d, d - 0.5)
"""

_WITH_LOGITS = (
    "torch.clamp(x, min=0) - x * y + torch.log1p(torch.exp(-torch.abs(x)))"
)
_OTHER_REDUCTION = "all dimensions listed; without the mean for reduction='none', with the sum for 'sum'"

_KNOB = knob_for("aten::sum")

# fmt: off
RECIPES: tuple[Recipe, ...] = (
    # Activations
    Recipe("hardswish", "F.hardswish(x)", "x * (torch.clamp(x + 3, 0, 6) / 6)",
        _X, "add clamp mul div", module="torch.nn.Hardswish", kinks="x = -3 and x = 3"),
    Recipe("hardsigmoid", "F.hardsigmoid(x)", "torch.clamp(x + 3, 0, 6) / 6",
        _X, "add clamp div",
        difference="in float64 the gradient is 3e-8 off eager's, whose 1/6 is float32's (Activation.cpp)",
        module="torch.nn.Hardsigmoid", kinks="x = -3 and x = 3"),
    Recipe("hardtanh", "F.hardtanh(x, -1.0, 1.0)", "torch.clamp(x, -1.0, 1.0)",
        _X, "clamp", difference=EXACT, module="torch.nn.Hardtanh", kinks="both bounds",
        same="(child.min_val, child.max_val) == (-1.0, 1.0)"),
    Recipe("relu6 hardtanh", "F.relu6(x)", "torch.clamp(x, 0, 6)",
        _X, "clamp", difference=EXACT, module="torch.nn.ReLU6", kinks="x = 0 and x = 6"),
    Recipe("silu", "F.silu(x)", "x * torch.sigmoid(x)",
        _X, "sigmoid mul", module="torch.nn.SiLU"),
    Recipe("gelu", "F.gelu(x)", "0.5 * x * (1 + torch.erf(x * 0.7071067811865476))",
        _X, "mul erf add", module="torch.nn.GELU", same="child.approximate == 'none'"),
    Recipe("gelu", "F.gelu(x, approximate='tanh')",
        "0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))",
        _X, "mul tanh add", module="torch.nn.GELU", same="child.approximate == 'tanh'"),
    Recipe("mish", "F.mish(x)", "x * torch.tanh(F.softplus(x))",
        _X, "softplus tanh mul", module="torch.nn.Mish"),
    Recipe("softplus", "F.softplus(x)", "torch.clamp(x, min=0) + torch.log1p(torch.exp(-torch.abs(x)))",
        _X, "clamp abs neg exp log1p add", needs="beta=1", needs_are_seen=True,
        module="torch.nn.Softplus", kinks="x = 0", same="child.beta == 1"),
    Recipe("elu", "F.elu(x, 0.5)", _ELU.format("0.5", ""),
        _X, "gt clamp expm1 mul where", module="torch.nn.ELU", same="child.alpha == 0.5"),
    Recipe("selu", "F.selu(x)", f"1.0507009873554805 * {_ELU.format('1.6732632423543772', '')}",
        _X, "gt clamp expm1 mul where", module="torch.nn.SELU"),
    Recipe("celu", "F.celu(x, 0.5)", _ELU.format("0.5", " / 0.5"),
        _X, "gt clamp div expm1 mul where", module="torch.nn.CELU", same="child.alpha == 0.5"),
    Recipe("log_sigmoid log_sigmoid_forward", "F.logsigmoid(x)", "-F.softplus(-x)",
        _X, "neg softplus", module="torch.nn.LogSigmoid"),
    Recipe("leaky_relu", "F.leaky_relu(x, 0.01)", "torch.where(x > 0, x, 0.01 * x)",
        _X, "gt mul where", difference=EXACT, module="torch.nn.LeakyReLU",
        same="child.negative_slope == 0.01"),
    Recipe("prelu _prelu_kernel", "F.prelu(x, weight)", "torch.where(x > 0, x, weight * x)",
        _X + " weight=float32[1]", "gt mul where",
        needs="one weight, or weights reshaped to [C, 1, 1] for [N, C, H, W]", needs_are_seen=True,
        difference=EXACT, module="torch.nn.PReLU"),
    Recipe("hardshrink", "F.hardshrink(x, 0.5)", "torch.where(torch.abs(x) > 0.5, x, x * 0)",
        _X, "abs gt mul where", difference=EXACT, module="torch.nn.Hardshrink", same="child.lambd == 0.5"),
    Recipe("softshrink", "F.softshrink(x, 0.5)", "x - torch.clamp(x, -0.5, 0.5)",
        _X, "clamp sub", module="torch.nn.Softshrink", same="child.lambd == 0.5"),
    Recipe("glu", "F.glu(x, -1)", "glu(x)",
        _X, "sigmoid mul", left="prim::ConstantChunk",
        needs="the chunks are views; what follows fuses with the product", needs_are_seen=True,
        module="torch.nn.GLU", helper=_GLU, same="child.dim == -1"),
    # Arithmetic
    Recipe("square", "torch.square(x)", "x * x",
        _X, "mul"),
    Recipe("rsub", "1.0 - x", "-(x - 1.0)",
        _X, "sub neg", difference=EXACT),
    Recipe("exp2", "torch.exp2(x)", "torch.exp(x * 0.6931471805599453)",
        _X, "mul exp"),
    Recipe("logit", "torch.logit(x)", "-torch.log(1.0 / x - 1.0)",
        "x=probability[4,8]", "reciprocal mul sub log neg", needs="x between 0 and 1"),
    Recipe("pow", "torch.pow(x, y)", "torch.exp(y * torch.log(x))",
        "x=probability[4,8] y=float32[4,8]", "log mul exp", needs="x > 0"),
    Recipe("logaddexp", "torch.logaddexp(x, y)",
        "torch.max(x, y) + torch.log1p(torch.exp(-torch.abs(x - y)))",
        _XY, "max sub abs neg exp log1p add"),
    Recipe("sign sgn", "torch.sign(x)", "(x > 0).type_as(x) - (x < 0).type_as(x)",
        _X, "gt lt type_as sub", difference=EXACT),
    Recipe("clamp_min", "torch.clamp_min(x, 0.5)", "torch.clamp(x, min=0.5)",
        _X, "clamp", difference=EXACT),
    Recipe("clamp_max", "torch.clamp_max(x, 0.5)", "torch.clamp(x, max=0.5)",
        _X, "clamp", difference=EXACT),
    Recipe("clamp", "torch.clamp(x, y, z)", "torch.min(torch.max(x, y), z)",
        _XYZ, "max min", difference=EXACT, arguments=True, answers="tensor_limits", kinks="both bounds"),
    Recipe("maximum", "torch.maximum(x, y)", "torch.max(x, y)",
        _XY, "max", difference=EXACT),
    Recipe("minimum", "torch.minimum(x, y)", "torch.min(x, y)",
        _XY, "min", difference=EXACT),
    Recipe("logical_and", "torch.logical_and(x > 0, y > 0)", "(x > 0) & (y > 0)",
        _XY, "gt __and__", needs="bool tensors", needs_are_seen=True, difference=EXACT),
    Recipe("logical_or", "torch.logical_or(x > 0, y > 0)", "(x > 0) | (y > 0)",
        _XY, "gt __or__", needs="bool tensors", needs_are_seen=True, difference=EXACT),
    Recipe("logical_not", "torch.logical_not(x)", "x == 0",
        _X, "eq", difference=EXACT),
    Recipe("addcmul", "torch.addcmul(x, y, z, value=0.5)", "x + 0.5 * y * z",
        _XY + " z=float32[4,8]", "mul add"),
    Recipe("addcdiv", "torch.addcdiv(x, y, z)", "x + y / z",
        _XY + " z=probability[4,8]", "div add"),
    Recipe("addcdiv", "torch.addcdiv(x, y, z, value=0.5)", "x + 0.5 * y / z",
        _XY + " z=probability[4,8]", "mul div add"),
    Recipe("floor_divide", "torch.floor_divide(x, y)", "torch.floor(x / y)",
        _XY, "div floor", needs="floating-point tensors",
        difference="one more where the quotient rounds up to a whole number",
        caution="1.0 // 0.1 is 9, floor(1.0 / 0.1) is 10"),
    Recipe("masked_fill", "x.masked_fill(mask, value)", "torch.where(mask, value, x)",
        _X + " mask=bool[4,8] value=float32[]", "where",
        needs="value is a tensor without dimensions, made once; for x of a floating-point type also"
        " torch.full([], -1e4, device=mask.device)",
        difference=EXACT, numbers_too=True),
    Recipe("repeat tile", "x * m.repeat(4, 1)", "x * m",
        _X + " m=float32[1,8]", "mul", needs="only dimensions of size 1 are repeated: broadcasting does it",
        difference=EXACT),
    Recipe("to", "x.to(y) * y", "x.type_as(y) * y",
        _XY, "type_as mul", needs="both are on one device; or give only a dtype: x.to(torch.float32)",
        needs_are_seen=True, difference=EXACT, arguments=True),
    Recipe("item", "x * float(scale)", "x * scale",
        _X + " scale=float32[]", "mul", needs="scale is a tensor: its value is not copied to the host",
        difference="scale gets its gradient, which float() cuts off"),
    # Reductions and norms
    Recipe("mean", "x.mean()", "x.mean([0, 1])",
        _X, "mean", needs="constant dimensions: list all of them", arguments=True, answers=_OVER_ALL),
    Recipe("sum", "x.sum()", "x.sum([0, 1])",
        _X, "sum", needs="constant dimensions: list all of them", arguments=True, answers=_OVER_ALL),
    Recipe("max", "x.max()", "x.amax([0, 1])",
        _X, "amax", needs="constant dimensions: list all of them", difference=EXACT,
        arguments=True, answers="all_elements"),
    Recipe("min", "x.min()", "x.amin([0, 1])",
        _X, "amin", needs="constant dimensions: list all of them", difference=EXACT,
        arguments=True, answers="all_elements"),
    Recipe("var", "x.var()", "x.var([0, 1], unbiased=True)",
        _X, "var", needs="constant dimensions, all of them; unbiased, not correction", arguments=True,
        answers=_OVER_ALL),
    Recipe("var", "x.var([1], correction=0)", "x.var([1], unbiased=False)",
        _X, "var", needs="correction=1 is unbiased=True; others have no such overload", difference=EXACT,
        arguments=True, answers="correction"),
    Recipe("std", "x.std()", "x.std([0, 1], unbiased=True)",
        _X, "std", needs="constant dimensions, all of them; unbiased, not correction", arguments=True,
        answers=_OVER_ALL),
    Recipe("std", "x.std([1], correction=0)", "x.std([1], unbiased=False)",
        _X, "std", needs="correction=1 is unbiased=True; others have no such overload", difference=EXACT,
        arguments=True, answers="correction"),
    Recipe("var", "x.var([1], unbiased=False, keepdim=True)",
        "(x * x).mean([1], True) - x.mean([1], True) * x.mean([1], True)",
        _X, "mul mean sub",
        difference="loses digits where the mean is large beside the deviation; subtract the mean first then",
        half=_SQUARES),
    Recipe("norm linalg_vector_norm", "torch.linalg.vector_norm(x, dim=[1])",
        "torch.sqrt((x * x).mean([1]) * 8)",
        _X, "mul mean sqrt",
        needs="the size of the dimension in the place of 8; a small number added under the root for zeros",
        half=_SQUARES),
    Recipe("logsumexp", "torch.logsumexp(x, [1], True)",
        "torch.log(torch.exp(x - torch.amax(x, [1], True)).sum([1], True)) + torch.amax(x, [1], True)",
        _X, "amax sub exp sum log add", needs="finite inputs"),
    Recipe("adaptive_avg_pool2d", "F.adaptive_avg_pool2d(x, [1, 1])", "x.mean([2, 3], True)",
        "x=float32[2,4,6,6]", "mean", needs="the output size is 1", needs_are_seen=True,
        module="torch.nn.AdaptiveAvgPool2d(1)", edge=True, same="child.output_size in (1, (1, 1), [1, 1])"),
    Recipe("mse_loss", "F.mse_loss(x, y)", "((x - y) * (x - y)).mean([0, 1])",
        _XY, "sub mul mean", needs=_OTHER_REDUCTION, needs_are_seen=True, module="torch.nn.MSELoss"),
    Recipe("l1_loss", "F.l1_loss(x, y)", "torch.abs(x - y).mean([0, 1])",
        _XY, "sub abs mean", needs=_OTHER_REDUCTION, module="torch.nn.L1Loss"),
    Recipe("smooth_l1_loss", "F.smooth_l1_loss(x, y)", "smooth_l1_loss(x, y).mean([0, 1])",
        _XY, "sub abs lt mul where mean", needs=f"beta=1; {_OTHER_REDUCTION}", module="torch.nn.SmoothL1Loss",
        helper=_SMOOTH_L1_LOSS),
    Recipe("binary_cross_entropy_with_logits", "F.binary_cross_entropy_with_logits(x, y)",
        f"({_WITH_LOGITS}).mean([0, 1])",
        "x=float32[4,8] y=probability[4,8]", "clamp mul sub abs neg exp log1p add mean",
        needs=f"no weights; {_OTHER_REDUCTION}", module="torch.nn.BCEWithLogitsLoss", kinks="x = 0"),
    Recipe("binary_cross_entropy_with_logits", "F.binary_cross_entropy_with_logits(x, y, reduction='none')",
        _WITH_LOGITS,
        "x=float32[4,8] y=probability[4,8]", "clamp mul sub abs neg exp log1p add",
        needs="no weights and reduction='none'", module="torch.nn.BCEWithLogitsLoss", kinks="x = 0"),
    Recipe("group_norm native_group_norm", "F.group_norm(x, 2, weight, bias, 1e-5)",
        "group_norm(x, 2, weight, bias, 1e-5)",
        "x=float32[2,4,6,6] weight=float32[4] bias=float32[4]", "mean sub mul add rsqrt",
        module="torch.nn.GroupNorm", helper=_GROUP_NORM, half=_SQUARES),
    Recipe("layer_norm native_layer_norm", "F.layer_norm(x, [8], weight, bias, 1e-5)",
        "layer_norm(x, weight, bias, 1e-5)",
        "x=float32[4,8] weight=float32[8] bias=float32[8]", "sum div sub mul add rsqrt",
        needs=_KNOB, module="torch.nn.LayerNorm", helper=_LAYER_NORM,
        half=_SQUARES,
        caution="layer_norm has one fast kernel of its own: keep the change only if it is faster"),
    # Operators with a library kernel, and operators around them
    Recipe("cat", "torch.tanh(torch.cat([x, y], 1)) * 2.0",
        "torch.cat([torch.tanh(x) * 2.0, torch.tanh(y) * 2.0], 1)",
        _XY, "tanh mul", left="cat", needs="what follows is element-wise", difference=EXACT, follows=True,
        shown="torch.cat([f(x), f(y)], 1) instead of f(torch.cat([x, y], 1))"),
    Recipe("stack", "torch.tanh(torch.stack([x, y], 1)) * 2.0",
        "torch.stack([torch.tanh(x) * 2.0, torch.tanh(y) * 2.0], 1)",
        _XY, "tanh mul", left="stack", needs="what follows is element-wise", difference=EXACT, follows=True,
        shown="torch.stack([f(x), f(y)], 1) instead of f(torch.stack([x, y], 1))"),
    Recipe("split split_with_sizes", "torch.relu(torch.split(x, 4, 1)[0]) * torch.split(x, 4, 1)[1]",
        "gated(x)",
        _X, "relu mul", left="prim::ConstantChunk", difference=EXACT, helper=_GATED,
        needs="a constant number of parts of one size, unpacked where they are made",
        shown="a, b = x.chunk(2, 1) instead of a, b = x.split(4, 1)"),
    Recipe("baddbmm", "torch.baddbmm(m, a, b, beta=1.0, alpha=0.125)", "m + torch.bmm(a, b) * 0.125",
        "m=float32[2,4,4] a=float32[2,4,8] b=float32[2,8,4]", "mul add", left="bmm",
        needs="the scale and the sum fuse with what follows", needs_are_seen=True),
    Recipe("lstm_cell", "torch.lstm_cell(x, [h, c], w_ih, w_hh, b_ih, b_hh)",
        "lstm_cell(x, h, c, w_ih, w_hh, b_ih, b_hh)",
        _CELL + " b_hh=float32[64]", "add sigmoid tanh mul", left="linear prim::ConstantChunk",
        module="torch.nn.LSTMCell", helper=_LSTM_CELL),
    Recipe("gru_cell", "torch.gru_cell(x, h, w_ih, w_hh, b_ih, b_hh)",
        "gru_cell(x, h, w_ih, w_hh, b_ih, b_hh)",
        _GATES + " b_hh=float32[48]", "add sigmoid tanh mul sub", left="linear prim::ConstantChunk",
        module="torch.nn.GRUCell", helper=_GRU_CELL),
)
# fmt: on

CHUNKED = frozenset(
    op
    for one in RECIPES
    if one.left == "prim::ConstantChunk"
    for op in one.replaces
)
"""Operators whose recipe begins with a chunk of the input. With gradients, the
operators that make the input are not in one group with those behind the chunk (seen
on the CPU with torch 2.13)."""


_OF_EXTREMES = ("all_elements", "with_indices", "not_two_tensors")
_NO_INDICES = nothing(
    "Nothing: no fuser takes it with these arguments or returns indices;",
    "the operators after it are another group.",
)
_AMAX = Remedy(
    "If only values are used, write torch.amax (torch.amin) with a list of dimensions.",
    "No fuser returns indices.",
)
"""Advice for maxima and minima; few fusers have rules for these, and torch has no
gradient formula for them."""

_OTHER_TYPES: Mapping[str, str | Remedy] = {
    "gpu_only": nothing(
        "Nothing on the CPU: no recipe for it is known;",
        f"on the GPU {fuser_title(EVERYWHERE)} takes it.",
    ),
    "cpu_only": nothing("Nothing on the GPU: it has a kernel of a library there."),
    "floating": "Cast its input to float32 before it.",
    "integer": "Cast its input to int32 before it.",
    **dict.fromkeys(
        ("not_on_cpu", "some_on_cpu"),
        "Compute in float32 on the CPU, and cast outside the block.",
    ),
}
"""``WrongType.takes`` or ``WrongDevice.problem`` of an operator that the fuser
takes with some types or on some devices -> instruction."""


def for_other_types(detail: Detail | None) -> str | Remedy | None:
    """Return the instruction for a type or device that the fuser refuses for some
    operators only; None for other reasons."""
    if isinstance(detail, WrongDevice):
        return _OTHER_TYPES.get(detail.problem)
    if not isinstance(detail, WrongType):
        return None
    if detail.takes == "none" and detail.dtype == "Byte":
        return "Cast to int32, or to float32 where the values are used as such, before the block."
    return _OTHER_TYPES.get(detail.takes)


def on_extremes(
    op: str, detail: Detail | None, fuser: str | None, gradients: bool | None
) -> Remedy | None:
    """Return the instruction for a maximum or minimum with indices, or of all
    elements; None for other operators.

    Args:
        detail: why it is not fused.
        gradients: True if they are recorded; None: not known.
    """
    if op in ("aten::argmax", "aten::argmin"):
        return _NO_INDICES
    if not isinstance(detail, Overload) or detail.given not in _OF_EXTREMES:
        return None
    if taken_by("aten::amax", fuser or "") and gradients is False:
        return _AMAX
    return _NO_INDICES


def recipe_for(
    op: str,
    fuser: str,
    torch_version: str | None = None,
    gradients: bool | None = None,
) -> Recipe | None:
    """The first recipe that helps with an operator under a fuser; ``aten::relu6_``
    has that of ``aten::relu6``.

    An operator that the fuser has a rule for was refused for its arguments: then
    only recipes for these help.
    """
    return next(iter(helping(op, fuser, torch_version, gradients)), None)


def recipe_answering(
    detail: Detail | None,
    op: str,
    fuser: str,
    torch_version: str | None,
    gradients: bool | None,
) -> Recipe | None:
    """Return a recipe for an operator that was refused for the reason ``detail``.
    None if there is none; if the refused argument is not known, recipes for one
    overload are excluded."""
    given = detail.given if isinstance(detail, Overload) else None
    every = helping(op, fuser, torch_version, gradients)
    return next((one for one in every if one.answers in (None, given)), None)


@lru_cache(maxsize=1000)
def helping(
    op: str, fuser: str, torch_version: str | None, gradients: bool | None
) -> tuple[Recipe, ...]:
    """Recipes that help with an operator under a fuser. If the fuser has a rule for
    the operator, it was refused for its arguments or its position."""
    plain = op[:-1] if op.endswith("_") and not op.endswith("__") else op
    arguments = taken_by(plain, fuser, torch_version)
    recipes = []
    for one in RECIPES:
        fits = plain in one.replaces and one.arguments == arguments
        if fits and one.helps(fuser, torch_version, gradients):
            recipes.append(one)
    return tuple(recipes)


def may_be_tried(recipe: Recipe) -> bool:
    """True if no condition of a recipe is invisible in a run."""
    if recipe.needs_are_seen:
        return True
    return recipe.needs is None and recipe.caution is None
