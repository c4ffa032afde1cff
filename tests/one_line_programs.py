"""Small programs, each with the one line that the plan shows and ``fix`` writes for its operator."""

from __future__ import annotations

from typing import NamedTuple

HEAD = (
    "import torch\nimport torch.nn.functional as F\n\n\ndef f(self, x, y, z, w):\n"
)


class OneLine(NamedTuple):
    """The body of a function, with an operator that no fuser takes as it stands."""

    op: str
    body: str
    """Lines of the body; the operator is on the first that is indented like the others."""
    after: str | None
    """The body changed; None where nothing is written."""
    otherwise: str | None = None
    """Of a program that stays: the body as somebody may write it by hand, which computes something else."""
    line: int = 1
    """That of the operator, in the body."""
    has_gradient: bool = True
    """torch differentiates the operator."""
    definition: str = ""
    """Lines that come behind the imports."""

    def text(self, body: str | None = None) -> str:
        """The whole file."""
        lines = (self.body if body is None else body).split("\n")
        return HEAD + "".join(f"    {line}\n" for line in lines)

    @property
    def changed(self) -> str | None:
        """The whole file, changed."""
        if self.after is None:
            return None
        text = self.text(self.after)
        imports = "import torch.nn.functional as F\n"
        return (
            text.replace(imports, f"{imports}\n\n{self.definition}", 1)
            if self.definition
            else text
        )


_SWISH = "(torch.clamp({0} + 3, 0, 6) / 6)"
_SIGN = "(h > 0).type_as(h) - (h < 0).type_as(h)"

IN_PLACE = (
    OneLine("add_", "x += y\nreturn x", "x = x + y\nreturn x"),
    OneLine(
        "add_",
        "self.s += y\nreturn self.s",
        None,
        "self.s = self.s + y\nreturn self.s",
    ),
    OneLine("add_", "x[0] += y[0]\nreturn x", None, "x = x + y\nreturn x"),
    OneLine("mul_", "x *= y + z\nreturn x", "x = x * (y + z)\nreturn x"),
    OneLine(
        "sub_", "x -= y if w else z\nreturn x", "x = x - (y if w else z)\nreturn x"
    ),
    OneLine(
        "add_", "h = x.add_(y)\nreturn h + x", None, "h = x.add(y)\nreturn h + x"
    ),
    OneLine("add_", "h = x.add_(y)\nreturn h", "h = x.add(y)\nreturn h"),
    OneLine("add_", "x.mul_(y).add_(z)\nreturn x", "x = x.mul(y).add(z)\nreturn x"),
    OneLine("add_", "return x.mul_(y).add_(z)", "return x.mul(y).add(z)"),
    OneLine("relu_", "torch.relu_(x)\nreturn x", "x = torch.relu(x)\nreturn x"),
    OneLine("relu_", "return F.relu(x, True)", "return F.relu(x, False)"),
    OneLine("zero_", "x.zero_()\nreturn x", "x = torch.zeros_like(x)\nreturn x"),
    OneLine(
        "clamp_",
        "x.clamp_(\n    0, 1)\nreturn x",
        "x = x.clamp(\n    0, 1)\nreturn x",
    ),
    OneLine(
        "floor_divide_",
        "x //= y\nreturn x",
        "x = x // y\nreturn x",
        has_gradient=False,
    ),
    OneLine("matmul_", "x @= y\nreturn x", None),
    OneLine("add_", "if w: x += y\nreturn x", "if w: x = x + y\nreturn x"),
    OneLine("add_", "(x) .add_( y )\nreturn x", "x = (x) .add( y )\nreturn x"),
)

BY_RECIPE = (
    OneLine("hardswish", "return F.hardswish(x)", f"return x * {_SWISH.format('x')}"),
    OneLine("hardswish", "return F.hardswish(x + y)", f"h = x + y\nreturn h * {_SWISH.format('h')}"),
    OneLine("hardswish", "return F.hardswish(x + y) if w else x",
            "return fusible_hardswish(x + y) if w else x",
            definition=f"def fusible_hardswish(x):\n    return x * {_SWISH.format('x')}\n"),
    OneLine("silu", "return y * F.silu(x)", "return y * (x * torch.sigmoid(x))"),
    OneLine("silu", "return F.silu(y + 1) + F.silu(z)",
            "h = y + 1\nreturn (h * torch.sigmoid(h)) + (z * torch.sigmoid(z))"),
    OneLine("square", "return x.square()", "return x * x"),
    OneLine("square", "return torch.square(x * y)", "h = x * y\nreturn h * h"),
    OneLine("hardtanh", "return F.hardtanh(x)", "return torch.clamp(x, -1.0, 1.0)"),
    OneLine("hardtanh", "return F.hardtanh(x, min_val=-2.0, max_val=2.0)",
            "return torch.clamp(x, -2.0, 2.0)"),
    OneLine("elu", "return F.elu(x)",
            "return torch.where(x > 0, x, 1.0 * torch.expm1(torch.clamp(x, max=0)))"),
    OneLine("leaky_relu", "return F.leaky_relu(x, 0.2)", "return torch.where(x > 0, x, 0.2 * x)"),
    OneLine("leaky_relu", "return F.leaky_relu(x, negative_slope=0.2)",
            "return torch.where(x > 0, x, 0.2 * x)"),
    OneLine("silu", "return torch.nn.functional.silu(x)", "return x * torch.sigmoid(x)"),
    OneLine("silu", "return F.silu(input=x)", "return x * torch.sigmoid(x)"),
    OneLine("silu", "return F.silu(x, inplace=True)", "return x * torch.sigmoid(x)"),
    OneLine("gelu", "return F.gelu(x)", "return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))"),
    OneLine("rsub", "return 1.0 - x", "return -(x - 1.0)"),
    OneLine("maximum", "return x.maximum(y)", "return torch.max(x, y)"),
    OneLine("clamp_min", "return torch.clamp_min(x, 1)", "return torch.clamp(x, min=1)"),
    OneLine("clamp_min", "return x.clamp_min(1)", "return torch.clamp(x, min=1)"),
    OneLine("clamp", "return x.clamp(-y, y)", "return torch.min(torch.max(x, -y), y)"),
    OneLine("sign", "return torch.sign(x - 1)", f"h = x - 1\nreturn {_SIGN}"),
    OneLine("softplus", "return F.softplus(x)",
            "return torch.clamp(x, min=0) + torch.log1p(torch.exp(-torch.abs(x)))"),
    OneLine("addcmul", "return torch.addcmul(x, y, z)", "return x + 1 * y * z"),
    OneLine("maximum", "return torch.maximum(x.maximum(y), torch.maximum(y, z.maximum(x)))",
            "return torch.max(torch.max(x, y), torch.max(y, torch.max(z, x)))"),
    OneLine("rsub", "return 2.0 - (1.0 - x)", "return -((-(x - 1.0)) - 2.0)"),
    OneLine("square", "return torch.square(x + y.square())", "h = x + (y * y)\nreturn h * h"),
    OneLine("silu", "return F.silu(F.silu(x * y) + F.silu(z + 1))",
            "h = x * y\nhidden = z + 1\ninner = (h * torch.sigmoid(h)) + (hidden * torch.sigmoid(hidden))\n"
            "return inner * torch.sigmoid(inner)"),
)  # fmt: skip
