"""What each kind of change of ``fusiondoc fix`` makes of a line, and where it must
not be offered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fix_sites import HEAD, MadeProgram, in_plans, parsed, site

from fusiondoc.changes import by_recipe as changes_by_recipe
from fusiondoc.changes import literal_numbers, masked_fill, reductions, type_as
from fusiondoc.changes import out_of_place as rewrite
from fusiondoc.changes.change import Change
from fusiondoc.changes.edits import TextEdit, changed_text
from fusiondoc.changes.model_position import ModelPosition, position_of_model
from fusiondoc.changes.recipes import RECIPES, may_be_tried
from fusiondoc.changes.rewrite import Line, Rewritten, Shown
from fusiondoc.diagnosis.changes_to_try import at_lines, at_model, settings
from fusiondoc.diagnosis.changes_to_try.at_model import _in_place_off
from fusiondoc.diagnosis.changes_to_try.user_program import UnfusedSite
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import (
    Condition,
    ControlFlow,
    Detail,
    NotConstant,
    WrongType,
)
from fusiondoc.workflows import fix_bundles


def out_of_place(body: str, op: str, line: int = 2) -> str:
    """The body of a function after the change at one of its lines."""
    text = HEAD + body
    edits = rewrite.out_of_place(
        parsed(text), HEAD.count("\n") + line, f"aten::{op}"
    )
    return changed_text(text, edits)[len(HEAD) :]


@pytest.mark.parametrize(
    ("line", "op", "after"),
    [
        ("x += y  # sum", "add_", "x = x + y  # sum"),
        ("x -= y - 1", "sub_", "x = x - (y - 1)"),
        ("x *= (y - 1)", "mul_", "x = x * (y - 1)"),
        ("x += y * 2", "add_", "x = x + y * 2"),
        ("x /= -y", "div_", "x = x / -y"),
        ("x +=(  y )", "add_", "x = x +(  y )"),
        ("x.add_(y, alpha=2)", "add_", "x = x.add(y, alpha=2)"),
        ("x.mul_(y).sub_(1.0)", "sub_", "x = x.mul(y).sub(1.0)"),
        ("return (x * 2).add_(1)", "add_", "return (x * 2).add(1)"),
        ("x = x.relu_()", "relu_", "x = x.relu()"),
        ("x = F.relu(x, inplace=True)", "relu_", "x = F.relu(x, inplace=False)"),
        ("x = F.relu(x, True)", "relu_", "x = F.relu(x, False)"),
        (
            "F.dropout(x, 0.1, True, True)",
            "dropout_",
            "x = F.dropout(x, 0.1, True, False)",
        ),
        ("torch.relu_(x); x += 1", "relu_", "x = torch.relu(x); x += 1"),
        ("x &= y", "__iand__", "x = x & y"),
        ("x **= 2", "pow_", "x = x ** 2"),
        ("x.zero_()", "zero_", "x = torch.zeros_like(x)"),
        ("x.fill_(0.5)", "fill_", "x = torch.full_like(x, 0.5)"),
    ],
)
def test_an_operator_in_place_is_written_out_of_place(
    line: str, op: str, after: str
) -> None:
    body = "def f(x, y):\n\t{}\n\treturn x\n"
    assert out_of_place(body.format(line), op) == body.format(after)


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("self.state += y", "add_"),  # state that outlives the call
        ("self.state.add_(y)", "add_"),
        ("x[0] += y", "add_"),  # a part of a tensor
        ("x[0].add_(y)", "add_"),
        ("z = x.add_(y)", "add_"),  # x is read below, and would lack the sum
        ("x = torch.relu(x)", "relu_"),
        ("x += y", "mul_"),  # another operator
        ("x = x + y", "add_"),
        ("x = F.relu(x, inplace=False)", "relu_"),
        ("x = self.relu(x)", "relu_"),
        ("global x; x += y", "add_"),
        ("x.copy_(y)", "copy_"),  # there is no x.copy
        ("y = x.fill_(1)", "fill_"),
        ("x.uniform_(0, 1)", "uniform_"),
    ],
)
def test_what_others_may_see_is_left_alone(line: str, op: str) -> None:
    body = f"def f(self, x, y):\n    {line}\n    return x\n"
    assert out_of_place(body, op) == body


def test_a_name_read_again_in_a_loop_is_left_alone() -> None:
    body = "def f(x):\n    for _ in range(3):\n        y = x * 2\n        z = x.add_(1)\n    return y + z\n"
    assert out_of_place(body, "add_", 4) == body


def test_flags_of_constructors() -> None:
    text = HEAD + (
        "from functools import partial\n"
        "a = nn.ReLU(inplace=True)\nb = nn.ReLU(True)\nc = torch.nn.Dropout(0.1, True)\n"
        "d = partial(nn.SiLU, inplace=True)\ne = nn.ReLU(inplace=False)\nf = nn.Linear(True, True)\n"
        "g = mine.ReLU(inplace=True)\nh = nn.ReLU()\n"
    )
    program = MadeProgram(
        files=[parsed(text)], rows=[SimpleNamespace(op="aten::relu_")]
    )
    found = list(at_lines.modules_in_place(program))
    after = changed_text(text, [edit for one in found for edit in one.edits])
    changed = [
        new for old, new in zip(text.split("\n"), after.split("\n")) if old != new
    ]
    assert changed == [
        "a = nn.ReLU(inplace=False)",
        "b = nn.ReLU(False)",
        "c = torch.nn.Dropout(0.1, False)",
        "d = partial(nn.SiLU, inplace=False)",
    ]


def by_recipe(
    line: str, op: str, types: Sequence[str] = ()
) -> tuple[str, Rewritten] | None:
    """The file, and what a recipe makes of its last line; ``types`` are those of
    the operator's inputs."""
    text = HEAD + f"\ndef f(x, y, z):\n    {line}\n"
    at = site(text, f"aten::{op}", text.count("\n"))
    line_of = MadeProgram(report=in_plans(types)).line_of(at)
    for recipe in RECIPES:
        if f"aten::{op}" in recipe.replaces and may_be_tried(recipe):
            found = changes_by_recipe.by_recipe(line_of, recipe)
            if found is not None:
                return text, found
    return None


def written(line: str, op: str, types: Sequence[str] = ()) -> str | None:
    made = by_recipe(line, op, types)
    return (
        None
        if made is None
        else changed_text(made[0], made[1].edits)[len(HEAD) :].lstrip("\n")
    )


@pytest.mark.parametrize(
    ("line", "op", "after"),
    [
        (
            "return F.hardswish(x) * 2",
            "hardswish",
            "return (x * (torch.clamp(x + 3, 0, 6) / 6)) * 2",
        ),
        (
            "x = F.hardswish(x, inplace=True)",
            "hardswish",
            "x = x * (torch.clamp(x + 3, 0, 6) / 6)",
        ),
        (
            "x = F.leaky_relu(x, 0.2)",
            "leaky_relu",
            "x = torch.where(x > 0, x, 0.2 * x)",
        ),
        (
            "x = F.leaky_relu(x)",
            "leaky_relu",
            "x = torch.where(x > 0, x, 0.01 * x)",
        ),
        (
            "x = F.leaky_relu(x, negative_slope=0.3)",
            "leaky_relu",
            "x = torch.where(x > 0, x, 0.3 * x)",
        ),
        ("x = x.square() + 1", "square", "x = (x * x) + 1"),
        ("x = 3 - x", "rsub", "x = -(x - 3)"),
        ("x = y.clamp_max(2) + 1", "clamp_max", "x = torch.clamp(y, max=2) + 1"),
        ("x = torch.addcmul(x, y, z, value=0.3)", "addcmul", "x = x + 0.3 * y * z"),
        ("x = F.hardtanh(x, -2, 2.5)", "hardtanh", "x = torch.clamp(x, -2, 2.5)"),
    ],
)
def test_a_recipe_at_a_line(line: str, op: str, after: str) -> None:
    assert written(line, op) == f"def f(x, y, z):\n    {after}\n"


def test_what_a_recipe_reads_twice_is_computed_once() -> None:
    """In a line before the statement, or in a function where the statement does not
    always compute it."""
    after = written("return F.hardswish(x + y)", "hardswish")
    line = "    h = x + y\n    return h * (torch.clamp(h + 3, 0, 6) / 6)\n"
    assert after == f"def f(x, y, z):\n{line}"
    after = written("return F.hardswish(x + y) if z else x", "hardswish")
    assert after is not None
    assert (
        "def fusible_hardswish(x):\n    return x * (torch.clamp(x + 3, 0, 6) / 6)\n"
        in after
    )
    assert after.endswith("    return fusible_hardswish(x + y) if z else x\n")


def test_two_lines_before_one_statement_have_two_names() -> None:
    """Each is a change of its own; with both of them, one name would be computed
    over by the other."""
    line = "return F.hardswish(x + y) * F.elu(y + z)"
    first, second = by_recipe(line, "hardswish"), by_recipe(line, "elu")
    assert first is not None and second is not None
    both = changed_text(first[0], [*first[1].edits, *second[1].edits])
    assert "    h = x + y\n    hidden = y + z\n    return (h * " in both


def test_the_title_of_what_is_computed_once_has_it_once() -> None:
    made = by_recipe("return F.elu(self.u(torch.cat([x, y], 1)))", "elu")
    assert made is not None and made[1].title == (
        "F.elu(self.u(torch.cat([x, y], 1))) -> "
        "torch.where(h > 0, h, 1.0 * torch.expm1(torch.clamp(h, max=0))),"
        " where h = self.u(torch.cat([x, y], 1))"
    )
    made = by_recipe(
        "return F.elu(self.u(torch.cat([x, y], 1))) if z else x", "elu"
    )
    assert made is not None and made[1].title == (
        "F.elu(self.u(torch.cat([x, y], 1))) -> fusible_elu(self.u(torch.cat([x, y], 1))), which returns"
        " torch.where(x > 0, x, 1.0 * torch.expm1(torch.clamp(x, max=0)))"
    )


def test_lines_with_other_numbers_call_other_functions() -> None:
    """Both would be the last one that is defined."""
    names = ["fusible_elu", "fusible_elu_0_25", "fusible_elu_minus_2"]
    for arguments, name in zip(("", ", 0.25", ", alpha=-2"), names):
        after = written(f"return F.elu(x + y{arguments}) if z else x", "elu")
        assert (
            after is not None
            and f"def {name}(x):" in after
            and f"return {name}(x + y)" in after
        )


def test_a_loss_is_the_mean_over_all_dimensions() -> None:
    three = ["Float(4, 8, 2, strides=[16, 2, 1])"]
    after = written("x = F.mse_loss(x, y)", "mse_loss", three)
    assert after is not None and after.endswith(
        "x = ((x - y) * (x - y)).mean([0, 1, 2])\n"
    )
    assert written("x = F.mse_loss(x, y)", "mse_loss") is None


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("x = F.softplus(x, 2.0)", "softplus"),  # the recipe is for beta=1
        ("x = mine.hardswish(x)", "square"),
        ("x = torch.pow(x, y)", "pow"),  # needs x > 0
        ("x = torch.relu(x)", "hardswish"),
        ("x = F.gelu(x, approximate='none')", "square"),
    ],
)
def test_a_recipe_that_does_not_fit_is_not_offered(line: str, op: str) -> None:
    assert written(line, op) is None


# -- the place where a model is made ------------------------------------------------------------------------


def attributes_off(
    text: str, name: str | None = None, call: str | None = None
) -> str | None:
    place = position_of_model(parsed(text), name or "model", call is not None)
    return (
        None
        if place is None
        else changed_text(text, _in_place_off(place, frozenset()).edits)
    )


LOOP = """\
for module in {0}.modules():
    if getattr(module, "inplace", False):
        module.inplace = False
"""


def test_the_lines_come_after_the_model_is_made() -> None:
    text = (
        "from zoo import net\nmodel = net().eval()\nmodel.cuda()\ninputs = (1,)\n"
    )
    before, rest = text[: text.index("inputs")], "inputs = (1,)\n"
    assert attributes_off(text) == before + LOOP.format("model") + rest
    assert attributes_off(
        "from zoo import model"
    ) == "from zoo import model\n" + LOOP.format("model")


def test_the_lines_come_before_it_is_scripted() -> None:
    text = "import torch\nnet = N()\nmodel = torch.jit.script(net)\n"
    assert attributes_off(text) == text.replace(
        "model =", LOOP.format("net") + "model ="
    )
    text = "import torch\nmodel = torch.jit.script(N(3))\n"
    after = (
        "import torch\nnet = N(3)\n"
        + LOOP.format("net")
        + "model = torch.jit.script(net)\n"
    )
    assert attributes_off(text) == after


def test_in_a_function_that_returns_the_model_and_in_a_class() -> None:
    text = "def make(n):\r\n\treturn Net(n)  # new\r\n"
    after = attributes_off(text, "make", "(3)")
    assert after is not None and after.startswith(
        "def make(n):\r\n\tmodel = Net(n)\r\n\tfor module in model"
    )
    assert after.endswith(
        "\t\t\tmodule.inplace = False\r\n\treturn model  # new\r\n"
    )
    assert "\n" not in after.replace("\r\n", "")
    text = "class Net(M):\n  def __init__(self):\n    super().__init__()\n"
    after = attributes_off(text, "Net", "()")
    assert after is not None and after.startswith(
        text + "    for module in self.modules():\n      if "
    )


def test_no_line_of_the_users_makes_it() -> None:
    assert attributes_off("inputs = 1\n") is None
    assert (
        attributes_off(
            "def make(a):\n    if a:\n        return A()\n    return B()\n",
            "make",
            "(1)",
        )
        is None
    )


def test_the_place_keeps_the_style_of_the_file() -> None:
    file = parsed("if 1:\n\tx = 1\n")
    assert (
        ModelPosition(file, "m", 0).insert(["for a in b:", "    pass"]).text
        == "for a in b:\n\tpass\n"
    )


# -- constants, numbers, settings ---------------------------------------------------------------------------


NO_CONSTANT = NotConstant(("dim",), None)
BRANCH = ControlFlow(Condition("unknown"), in_formula=False)


def proposed(
    text: str, line: int, detail: Detail | None, op: str = "aten::softmax"
) -> str:
    """The text after everything that is proposed at a line."""
    at = site(text, op, line)
    at.row.reason.detail = detail
    program = MadeProgram(sites=[at], files=[at.file])
    return changed_text(
        text, [edit for one in at_lines.propose(program) for edit in one.edits]
    )


CLASS = """\
class Net(nn.Module):
    '''A net.'''
    def __init__(self, dim):
        self.dim = dim
        self.other = make()
    def forward(self, x):
        return torch.softmax(x, self.dim)
"""


def test_an_attribute_that_a_fuser_must_know_is_declared_constant() -> None:
    after = proposed(CLASS, 7, NO_CONSTANT)
    wanted = CLASS.replace(
        "net.'''\n", "net.'''\n    __constants__ = [\"dim\"]\n\n"
    )
    assert after == wanted
    listed = CLASS.replace("'''A net.'''", "__constants__ = ['eps']")
    assert proposed(listed, 7, NO_CONSTANT) == listed.replace(
        "['eps']", "['eps', \"dim\"]"
    )
    branch = CLASS.replace(
        "return torch", "if self.dim > 0: x = x + 1\n        return torch"
    )
    assert '__constants__ = ["dim"]' in proposed(branch, 7, BRANCH, "prim::If")


@pytest.mark.parametrize(
    "change",
    [
        ("A net.'''", "A net.'''\n    dim: Final[int]"),  # it is one
        ("'''A net.'''", "__constants__ = ('dim',)"),
        ("x, self.dim)", "x, 1)"),
        (
            "    def forward",
            "    def other(self): self.dim = 3\n    def forward",
        ),  # it changes
        ("self.dim = dim", "self.dim = make(dim)"),  # who knows what it is
    ],
)
def test_what_is_no_plain_value_or_changes_is_not_declared(
    change: tuple[str, str],
) -> None:
    text = CLASS.replace(*change)
    line = text[: text.index("torch.softmax")].count("\n") + 1
    assert proposed(text, line, NO_CONSTANT) == text


AXIS = "def f(x, y: int, dim: int = -1, n=2):  # dim\n    return g(x * n, dim=dim) + x.dim() ** dim\n"


def test_a_default_in_the_place_of_its_argument() -> None:
    after = (
        AXIS.replace(", dim: int = -1", "")
        .replace("dim=dim", "dim=-1")
        .replace("** dim", "** (-1)")
    )
    assert proposed(AXIS, 2, NO_CONSTANT) == after
    assert proposed(AXIS, 2, None) == AXIS
    flag = "def f(x, twice=True):\n    if twice: x = x * 2\n    return x\n"
    after = flag.replace(", twice=True", "").replace("if twice", "if True")
    assert proposed(flag, 2, BRANCH, "prim::If") == after


@pytest.mark.parametrize(
    "change",
    [
        (", dim: int = -1, n=2", ", dim: int, n"),  # it has to be given
        ("    return", "    dim = 1\n    return"),  # it changes
        ("    return", "    h = lambda: dim\n    return"),
        ("# dim", "# dim\n    f(x, 1, dim=1)"),  # a call gives it
        ("x, y: int, dim", "dim"),  # nothing is before it
    ],
)
def test_an_argument_that_may_be_given_stays(change: tuple[str, str]) -> None:
    text = AXIS.replace(*change)
    line = text[: text.index("return")].count("\n") + 1
    assert proposed(text, line, NO_CONSTANT) == text


def test_a_number_stays_a_tensor() -> None:
    text = "def f(x, s):\n    y = x * s.item()\n    for _ in range(s.item()): y = y + 1\n    return y\n"
    text += "z = a * b.item()\n"
    text += "def g(x, s, n: int):\n    return x * float(s) + x * float(n)\n"
    file = parsed(text)
    program = MadeProgram(ran=lambda of, node: of.function_of(node) is not None)
    found = [
        edit for one in at_lines.numbers_read(program, file) for edit in one.edits
    ]
    assert changed_text(text, found) == text.replace(
        "x * s.item()", "x * s"
    ).replace("float(s)", "s")
    other = MadeProgram(
        ran=lambda of, node: False
    )  # a function that is no part of the run
    assert list(at_lines.numbers_read(other, file)) == []


def ordered(text: str, op: str, line: int) -> list[Change]:
    at = site(text, f"aten::{op}", line)
    ran = frozenset((Path("m.py"), n) for n in range(1, 40))
    program = MadeProgram(idle_sites=[at], files=[at.file], lines_that_ran=ran)
    return list(at_lines.propose(program))


@pytest.mark.parametrize(
    ("line", "op", "after"),
    [
        (
            "return torch.tanh(x.view(4, -1)) * 2",
            "view",
            "return (torch.tanh(x) * 2).view(4, -1)",
        ),
        (
            "y = F.relu((x + 1).permute(1, 0))",
            "permute",
            "y = F.relu(x + 1).permute(1, 0)",
        ),
        (
            "y = torch.exp(torch.cat([x, y * 2], 1))",
            "cat",
            "y = torch.cat([torch.exp(x), torch.exp(y * 2)], 1)",
        ),
    ],
)
def test_a_view_or_concatenation_moves_behind(
    line: str, op: str, after: str
) -> None:
    text = HEAD + f"def f(x, y):\n    {line}\n"
    (found,) = ordered(text, op, text.count("\n"))
    assert changed_text(text, found.edits) == text.replace(line, after)


@pytest.mark.parametrize(
    "line",
    [
        "y = torch.softmax(x.view(4, -1), 1)",  # not element by element
        "y = torch.tanh(torch.cat(parts, 1))",  # parts that are not written out
        "y = torch.add(x.view(4, -1), y)",
        "y = x.view(4, -1)",
    ],
)
def test_what_cannot_move_stays(line: str) -> None:
    text = HEAD + f"def f(x, y, parts):\n    {line}\n"
    assert ordered(text, "view", text.count("\n")) == []


@pytest.mark.parametrize(
    ("before", "after", "op"),
    [
        (
            [
                "h = (x * 2).view(4, -1)  # heads",
                "# more",
                "h = torch.tanh(h)",
                "return h.t()",
            ],
            [
                "h = (x * 2)  # heads",
                "# more",
                "h = torch.tanh(h)",
                "h = h.view(4, -1)",
                "return h.t()",
            ],
            "view",
        ),
        (
            [
                "x = x.view(4, -1)  # heads",
                "x = torch.tanh(x)",
                "return torch.exp(x * 2) + y",
            ],
            [
                "# heads",
                "x = torch.tanh(x)",
                "return torch.exp(x * 2).view(4, -1) + y",
            ],
            "view",
        ),
        (
            ["b = torch.flip(x, [0])", "return 2 - b"],
            ["return torch.flip(2 - x, [0])"],
            "flip",
        ),
        (["x = x.roll(1)", "x = -x"], ["x = -x", "x = x.roll(1)"], "roll"),
        (
            # One of the other; the lines between have nothing to do with it.
            [
                "b = x.flip([0])  # back",
                "c = b.view(4, -1)",
                "d = torch.tanh(c) * 2",
                "e = -y",
                "return d + 1, e",
            ],
            [
                "# back",
                "d = torch.tanh(x) * 2",
                "e = -y",
                "return (d + 1).flip([0]).view(4, -1), e",
            ],
            "flip",
        ),
        (
            [
                "b = x.flip([0])",
                "print('b')",
                "n = 3",
                "c = torch.tanh(b)",
                "return c * n",
            ],
            [
                "print('b')",
                "n = 3",
                "c = torch.tanh(x)",
                "c = c.flip([0])",
                "return c * n",
            ],
            "flip",
        ),
        (
            ["h = torch.exp(x).view(4, -1)", "h = h.t()", "return h * 3"],
            ["h = torch.exp(x)", "return (h * 3).view(4, -1).t()"],
            "view",
        ),
        (
            ["e = torch.relu(x.view(4, -1).t()) + 1", "return e * 2"],
            ["e = torch.relu(x) + 1", "return (e * 2).view(4, -1).t()"],
            "t",
        ),
    ],
)
def test_an_operator_moves_over_lines(
    before: list[str], after: list[str], op: str
) -> None:
    text, wanted = (
        "def f(x, y):\r\n\t" + "\r\n\t".join(lines) + "\r\n"
        for lines in (before, after)
    )
    head = HEAD.replace("\n", "\r\n")
    text, wanted = head + text, head + wanted
    found = ordered(text, op, HEAD.count("\n") + 2)[
        0
    ]  # the one that moves it farthest
    assert changed_text(text, found.edits) == wanted
    kind = ChangeKind.MOVE_VIEW if op in ("view", "t") else ChangeKind.MOVE
    assert found.kind is kind


def test_an_operator_stays_behind_what_changes_its_tensor() -> None:
    for line in ("x = y", "n = 4", "print(b)"):
        text = (
            HEAD
            + f"def f(x, y, n):\n    b = x.view(n, -1)\n    {line}\n    return torch.tanh(b)\n"
        )
        assert ChangeKind.MOVE_VIEW not in [
            one.kind for one in ordered(text, "view", 6)
        ]
    kinds = [
        one.kind for one in ordered(text.replace("print(b)", "print(y)"), "view", 6)
    ]
    assert kinds == [ChangeKind.MOVE_VIEW, ChangeKind.SPLIT]


@pytest.mark.parametrize(
    "lines",
    [
        [
            "h = x.view(4, -1)",
            "h = torch.softmax(h, 1)",
            "return h",
        ],  # over a dimension
        ["h = x.view(4, -1)", "return torch.tanh(h) + h"],  # read twice
        ["h = x.view(4, -1)", "y = torch.tanh(h)", "return y * h"],  # read later
        ["h = x.view(4, -1)", "h = h * y", "return h"],  # y has another shape
        ["h = x.view(4, -1); z = h", "return torch.tanh(h)"],
        ["for _ in range(2): x = x.view(4, -1)", "return torch.tanh(x)"],
    ],
)
def test_an_operator_stays_where_more_is_read_of_it(lines: list[str]) -> None:
    text = HEAD + "def f(x, y):\n    " + "\n    ".join(lines) + "\n"
    assert ordered(text, "view", HEAD.count("\n") + 2) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            ["y = x * 2", "print(y)  # why", "return torch.tanh(y)"],
            [
                "y = x * 2",
                "result = torch.tanh(y)",
                "print(y)  # why",
                "return result",
            ],
        ),
        (
            [
                "y = x * 2",
                "print(f'{y.shape}')",
                "z = self.act(y) + 1",
            ],  # no shape changes in place
            ["y = x * 2", "z = self.act(y) + 1", "print(f'{y.shape}')"],
        ),
        (
            [
                "y = x * 2",
                "print(",
                "    y)",
                "if y:",
                "    y + 1",
                "return (y +",
                " 1)",
            ],
            [
                "y = x * 2",
                "if y:",
                "    y + 1",
                "result = (y +",
                " 1)",
                "print(",
                "    y)",
                "return result",
            ],
        ),
        (
            ["y = x * 2", "print(y)", "z = y + 1", "return z"],
            ["y = x * 2", "z = y + 1", "print(y)", "return z"],
        ),
        (
            ["y = x * 2", "self.last = y", "z = y + 1"],
            ["y = x * 2", "z = y + 1", "self.last = y"],
        ),
    ],
)
def test_a_print_in_the_middle_goes_to_the_end(
    before: list[str], after: list[str]
) -> None:
    text, wanted = (
        HEAD + "def f(self, x):\n    " + "\n    ".join(o) + "\n\n"
        for o in (before, after)
    )
    (found,) = ordered(text, "mul", 1)
    assert (
        changed_text(text, found.edits) == wanted and found.kind is ChangeKind.SPLIT
    )


@pytest.mark.parametrize(
    "lines",
    [
        ["y = x * 2", "print(y)", "y = y + 1"],  # it would print another y
        ["y = x * 2", "print(y)", "y += 1"],
        ["y = x * 2", "self.last = y", "return self.last + 1"],
        ["print(x)", "y = x * 2"],  # nothing ran before it
        ["y = x * 2", "log(y)", "z = y + 1"],  # who knows what it does
        ["y = x * 2", "print(y)", "z = self.act(y)"],  # it may work in place
        [
            "y = x * 2",
            "print(1)",
            "if y:",
            "    return x",
            "z = y + 1",
        ],  # it would not be printed
        [
            "for _ in x:",
            "    y = x * 2",
            "    print(y)",
            "    z = y + 1",
            "    continue",
        ],
    ],
)
def test_a_statement_that_others_see_stays(lines: list[str]) -> None:
    text = "def f(self, x):\n    " + "\n    ".join(lines) + "\n"
    ran = frozenset(
        (Path("m.py"), n) for n in range(2, 9) if "print(x)" not in lines or n > 2
    )
    program = MadeProgram(files=[parsed(text)], lines_that_ran=ran)
    assert list(at_lines.prints(program)) == []


# -- operands -----------------------------------------------------------------------------------------------


BYTE_TENSORS = WrongType("nnc", "Byte", "none")


def cast(
    line: str, op: str, types: list[str], detail: Detail = BYTE_TENSORS
) -> str:
    source = f"import torch\ndef f(x, m, n):\n    {line}\n"
    why = SimpleNamespace(detail=detail, code="FD223")
    row: Any = SimpleNamespace(
        op=op, index=0, layers=(), reason=why, source="m.py:3:8"
    )
    program = MadeProgram(
        sites=[UnfusedSite(row, parsed(source), 3)], report=in_plans(types)
    )
    edits = [edit for one in at_lines.propose(program) for edit in one.edits]
    return changed_text(source, edits).split("\n")[2].strip()


BYTE, FLOAT, LONG = (
    "Byte(4, strides=[1])",
    "Float(4, strides=[1])",
    "Long(4, strides=[1])",
)


def test_an_operand_of_another_dtype_is_cast() -> None:
    assert cast("y = x * m", "aten::mul", [FLOAT, BYTE]) == "y = x * m.int()"
    assert (
        cast("y = (m + 1) * x", "aten::mul", [BYTE, FLOAT])
        == "y = ((m + 1).int()) * x"
    )
    assert cast("y = x > m[0]", "aten::gt", [FLOAT, BYTE]) == "y = x > m[0].int()"
    floats = WrongType("nnc", "Long", "floating")
    assert (
        cast("y = torch.fmod(n, 5) * x", "aten::fmod", [LONG], floats)
        == "y = torch.fmod(n.float(), 5) * x"
    )
    assert (
        cast("y = n.fmod(m)", "aten::fmod", [LONG, LONG], floats)
        == "y = n.float().fmod(m.float())"
    )


def test_an_operand_that_the_plan_does_not_tell_stays() -> None:
    for line, types in (
        ("y = x * m", [FLOAT]),
        ("y = x * m", [FLOAT, FLOAT]),
        ("y = x + m", [FLOAT, BYTE]),
    ):
        assert cast(line, "aten::mul", types) == line
    assert cast("y = x * m", "aten::mul", ["ComplexFloat(4)", FLOAT]) == "y = x * m"


def test_a_dtype_of_another_tensor_and_a_tensor_of_a_number() -> None:
    assert cast("y = x.to(m.dtype)", "aten::to", []) == "y = x.type_as(m)"
    assert cast("y = x.to(dtype=m.dtype)", "aten::to", []) == "y = x.type_as(m)"
    assert cast("y = x.to(m)", "aten::to", []) == "y = x.type_as(m)"
    assert cast("y = x.to(m)", "aten::to", [FLOAT, FLOAT]) == "y = x.type_as(m)"
    assert cast("y = x.to(m)", "aten::to", [FLOAT]) == "y = x.to(m)", "m is a dtype"
    for line in (
        "y = x.to(torch.half)",
        "y = x.to(m.device)",
        "y = x.to(m.dtype, True)",
    ):
        assert (
            list(
                type_as.REWRITE.write(
                    Line(parsed(HEAD + line), HEAD.count("\n") + 1, "aten::to")
                )
            )
            == []
        )
    text = HEAD + "y = x * torch.tensor(0.5, device=x.device)\n"
    (found,) = literal_numbers.REWRITE.write(
        Line(parsed(text), HEAD.count("\n") + 1)
    )
    assert changed_text(text, found.edits) == HEAD + "y = x * 0.5\n"
    for line in (
        "torch.tensor([0.5])",
        "torch.tensor(n)",
        "torch.tensor(0.5, requires_grad=True)",
    ):
        assert (
            list(
                literal_numbers.REWRITE.write(
                    Line(parsed(HEAD + line), HEAD.count("\n") + 1)
                )
            )
            == []
        )


# -- what is always given -----------------------------------------------------------------------------------


def optional(body: str, tested: str, ran: bool = True) -> list[str]:
    """The texts that the changes for a test for None lead to."""
    file = parsed(body)
    line = body[: body.index(tested)].count("\n") + 1
    detail = ControlFlow(Condition("test_for_none"), in_formula=False)
    why = SimpleNamespace(detail=detail, code="FD229")
    row: Any = SimpleNamespace(
        op="prim::If", index=0, layers=(), reason=why, source=None
    )
    lines = frozenset([(Path("m.py"), line + 1)] if ran else [])
    program = MadeProgram(
        sites=[UnfusedSite(row, file, line)], files=[file], lines_that_ran=lines
    )
    return [changed_text(body, one.edits) for one in at_lines.propose(program)]


MASKED = """\
def outer(x, {0}):
    return inner(x, mask)
def inner(x, {0}, n: int = 3):
    if mask is not None:
        x = x * mask
    return x
"""


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        ("mask: Optional[Tensor] = None", "mask: Tensor"),
        ("mask: typing.Optional[torch.Tensor]", "mask: torch.Tensor"),
        ("mask: 'Tensor | None' = None", "mask: 'Tensor'"),
    ],
)
def test_an_argument_that_is_always_given_is_no_optional(
    kind: str, plain: str
) -> None:
    assert optional(MASKED.format(kind), "if mask") == [MASKED.format(plain)]


def test_an_argument_that_is_never_given_is_none() -> None:
    text, plain = (
        MASKED.format("mask: Optional[Tensor] = None"),
        MASKED.format("mask: None = None"),
    )
    assert optional(text, "if mask", ran=False) == [plain]
    # TorchScript then refuses a call that gives it; it is not quietly left out.
    assert optional(MASKED.format("mask: int = 3"), "if mask", ran=False) == []


@pytest.mark.parametrize(
    "kind",
    [
        "mask: Tensor",
        "mask",
        "mask=None",
        "y: int = 1, mask: Optional[Tensor] = None",
    ],
)
def test_an_argument_that_cannot_change_stays(kind: str) -> None:
    assert optional(MASKED.format(kind), "if mask") == []


@pytest.mark.parametrize(
    ("before", "after", "alters"),
    [
        ("mask: Optional[int] = None", "mask: int", True),
        ("mask: Optional[int] = None", "", True),
        ("-> Tensor", "", True),
        ("[3]", "[4]", True),
        ("bias: Optional[int]", "bias: int", False),
        ("x + 1", "x + 2", False),
        ("lambda z: z", "lambda a: a", False),
    ],
)
def test_a_change_of_arguments_or_of_a_result_alters_a_signature(
    before: str, after: str, alters: bool
) -> None:
    text = (
        "class A:\n    bias: Optional[int]\n"
        "    def f(self, x, y=[3], *, mask: Optional[int] = None) -> Tensor:\n        g = lambda z: z\n"
        "        return x + 1\n"
    )
    file, at = parsed(text), text.index(before)
    program: Any = SimpleNamespace(files=[file])
    edit = TextEdit(file.source.path, at, at + len(before), after)
    inserted = TextEdit(
        file.source.path, text.index("return"), text.index("return"), "pass; "
    )
    one = Change(ChangeKind.ANNOTATION, "", (inserted, edit))
    assert fix_bundles.alters_signature(program, one) is alters


def test_an_attribute_is_what_it_holds() -> None:
    text = (
        "class A(M):\n    bias: Optional[Tensor]\n    n: int\n    def f(self, x):\n        bias = self.bias\n"
        "        if bias is not None:\n            x = x + bias\n        return x\n"
    )
    assert optional(text, "if bias") == [
        text.replace("    bias: Optional[Tensor]\n", "")
    ]
    assert optional(text.replace("Optional[Tensor]", "Tensor"), "if bias") == []
    assert (
        optional(text.replace("[Tensor]\n", "[Tensor] = None\n"), "if bias") == []
    )


def named_dimensions(line: str, op: str, types: list[str]) -> list[str]:
    text = HEAD + line + "\n"
    at = site(text, f"aten::{op}", text.count("\n"))
    found = reductions.NAME_DIMENSIONS.write(
        MadeProgram(report=in_plans(types)).line_of(at)
    )
    return [changed_text(text, one.edits)[len(HEAD) :].strip() for one in found]


def test_a_reduction_gets_its_dimensions() -> None:
    two = ["Float(4, 8, strides=[8, 1])"]
    assert named_dimensions("y = x.mean()", "mean", two) == ["y = x.mean([0, 1])"]
    assert named_dimensions("y = torch.sum(x)", "sum", two) == [
        "y = torch.sum(x, [0, 1])"
    ]
    assert named_dimensions("y = x.std()", "std", two) == [
        "y = x.std([0, 1], unbiased=True)"
    ]
    assert named_dimensions("y = x.std(unbiased=False)", "std", two) == [
        "y = x.std([0, 1], unbiased=False)"
    ]


@pytest.mark.parametrize(
    "line",
    ["y = x.mean(1)", "y = x.mean(dim=1)", "y = mine.mean(x, 1)", "y = x.sum()"],
)
def test_a_reduction_with_dimensions_or_of_another_name_stays(line: str) -> None:
    assert named_dimensions(line, "mean", ["Float(4, 8, strides=[8, 1])"]) == []
    assert (
        named_dimensions("y = x.mean()", "mean", ["Tensor"]) == []
    )  # nothing tells how many it has


# -- the run ------------------------------------------------------------------------------------------------

MADE = "import torch\nfrom zoo import Net\nmodel = Net()\ninputs = (torch.ones(2, requires_grad=True),)\n"


def of_a_run(text: str, **changed: Any) -> Any:
    options = SimpleNamespace(trace=False, knobs={}, script=False, eval=False)
    usual = {
        "rows": [], "fuser": "nnc", "torch": "2.13.0", "backward": False, "is_module": True,
        "training": False, "options": options, "target_file": parsed(text),
        "model_name": "model", "makes_model": False,
    }  # fmt: skip
    return SimpleNamespace(**{**usual, **changed})


def kinds(program: Any) -> list[ChangeKind]:
    place = position_of_model(
        program.target_file, program.model_name, program.makes_model
    )
    assert place is not None
    return [one.kind for one in at_model.of_model(program, place)]


def test_a_model_in_eval_mode_is_frozen_and_one_in_training_only_on_request() -> (
    None
):
    assert kinds(of_a_run(MADE)) == [ChangeKind.FREEZE]
    program = of_a_run(MADE, training=True)
    place = position_of_model(
        program.target_file, program.model_name, program.makes_model
    )
    assert place is not None
    found = list(at_model.of_model(program, place))
    assert [one.kind for one in found] == [ChangeKind.EVAL, ChangeKind.FREEZE]
    assert all(
        "--eval" in one.setting.flags for one in found
    )  # left out without --inference
    texts = [changed_text(MADE, one.edits).split("\n") for one in found]
    assert (
        "model.eval()" in texts[0]
        and "model = torch.jit.freeze(torch.jit.script(model))" in texts[1]
    )


SCRIPTED = (
    "import torch\nnet = torch.nn.ReLU().eval()\nmodel = torch.jit.script(net)\n"
)


def frozen_script(text: str, **changed: Any) -> str | None:
    """The text in which a module that it scripts is frozen; None where that is not
    proposed."""
    program = of_a_run(text, is_module=False, is_scripted=True, **changed)
    found = list(at_model.frozen_script(program, program.target_file))
    assert all("--freeze" in one.setting.flags for one in found)
    return changed_text(text, found[0].edits) if found else None


def test_a_module_that_is_scripted_is_frozen_where_it_is() -> None:
    wanted = SCRIPTED.replace(
        "torch.jit.script(net)", "torch.jit.freeze(torch.jit.script(net))"
    )
    assert frozen_script(SCRIPTED) == wanted
    in_training = frozen_script(SCRIPTED, training=True)
    assert in_training == wanted.replace("script(net))", "script(net).eval())")
    (asked,) = at_model.frozen_script(
        of_a_run(SCRIPTED, training=True), parsed(SCRIPTED)
    )
    assert "--eval" in asked.setting.flags  # left out without --inference
    function = "import torch\ndef make():\n    return torch.jit.script(torch.nn.ReLU().eval())\n"
    called = {"model_name": "make", "makes_model": True}
    assert "return torch.jit.freeze(torch.jit.script(" in (
        frozen_script(function, **called) or ""
    )
    twice = function.replace(
        "make():\n", "make():\n    if torch.rand(1) > 2: return torch.nn.ReLU()\n"
    )
    assert frozen_script(twice, **called) is None
    # What comes behind the line may need a module that is not frozen.
    assert frozen_script(f"{SCRIPTED}model.eval()\n") is None
    assert frozen_script("from models import model\n") is None


@pytest.mark.parametrize(
    "changed", [{"backward": True}, {"is_module": False}, {"training": None}]
)
def test_what_cannot_be_frozen_is_not(changed: dict[str, Any]) -> None:
    assert kinds(of_a_run(MADE, **changed)) == []
    traced = SimpleNamespace(trace=True)
    assert kinds(of_a_run(MADE, options=traced)) == []


def test_inputs_record_no_gradients_in_inference() -> None:
    (found,) = settings.without_gradients(parsed(MADE))
    assert (
        changed_text(MADE, found.edits) == MADE.replace("=True", "=False")
        and found.note is not None
    )
    assert (
        list(
            settings.without_gradients(parsed(MADE.replace("inputs =", "others =")))
        )
        == []
    )


def unfused(code: str) -> Any:
    return SimpleNamespace(
        op="aten::mul", reason=SimpleNamespace(code=code, detail=None)
    )


def test_plans_for_fixed_shapes_where_none_was_left() -> None:
    def found(program: Any) -> list[str]:
        made = settings.static_shapes(program, program.target_file)
        return [
            line
            for one in made
            for line in changed_text(MADE, one.edits).split("\n")
            if "STATIC" in line
        ]

    assert found(of_a_run(MADE, rows=[unfused("FD304")])) == [
        'torch.jit.set_fusion_strategy([("STATIC", 20)])'
    ]
    assert found(of_a_run(MADE, rows=[unfused("FD211")])) == []
    asked = SimpleNamespace(knobs={"fusion_strategy": "STATIC:20"})
    assert found(of_a_run(MADE, rows=[unfused("FD304")], options=asked)) == []


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("m = x.max(1)[0]", "m = x.amax(1)"),
        ("m = torch.min(x, 1).values + 1", "m = torch.amin(x, 1) + 1"),
        ("m = x.max(dim=1, keepdim=True)[0]", "m = x.amax(dim=1, keepdim=True)"),
        ("m = x.max(1)[1]", None),  # the indices
        ("m = x.max(1)", None),
        ("m = x.max()", None),
    ],
)
def test_the_values_of_an_extreme_alone(line: str, after: str | None) -> None:
    text = HEAD + line + "\n"
    at = site(text, "aten::min" if "min" in line else "aten::max", text.count("\n"))
    program = MadeProgram(torch="2.1.2")
    program.fuser = "nvfuser"
    found = []
    for one in reductions.LEAVE_INDICES_OUT.write(program.line_of(at)):
        found.append(changed_text(text, one.edits))
    assert found == ([] if after is None else [HEAD + after + "\n"])
    assert reductions.takes_values_alone(program.line_of(at))
    program.backward = True  # there is no gradient formula
    assert not reductions.takes_values_alone(program.line_of(at))


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (
            "y = x.masked_fill(m == 0, -1e9) * 2",
            "y = torch.where(m == 0, -1e9, x) * 2",
        ),
        (
            "y = (x * 2).masked_fill(~m, value=float('-inf'))",
            "y = torch.where(~m, float('-inf'), x * 2)",
        ),
        ("y = torch.masked_fill(x, m, 0)", "y = torch.where(m, 0, x)"),
        ("y = x.masked_fill(*m)", None),
        ("y = x.masked_scatter(m, x)", None),
        ("y = F.masked_fill(x, m, 0)", None),
    ],
)
def test_a_masked_fill_chooses(line: str, after: str | None) -> None:
    text = HEAD + line + "\n"
    at = site(text, "aten::masked_fill", text.count("\n"))
    found = masked_fill.REWRITE.write(Line(at.file, at.line))
    texts = [changed_text(text, one.edits) for one in found]
    assert texts == ([] if after is None else [HEAD + after + "\n"])


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("y = x.masked_fill(m, low)", "y = torch.where(m, low, x)"),
        (
            "y = x.masked_fill(m, -1e4)",
            "y = torch.where(m, torch.full([], -1e4, device=m.device), x)",
        ),
        (
            "y = x.masked_fill(m, float('-inf'))",
            "y = torch.where(m, torch.full([], float('-inf'), device=m.device), x)",
        ),
        (
            "y = x.masked_fill(m == 0, -1e4)",
            "y = torch.where(m == 0, torch.full([], -1e4, device=m.device), x)",
        ),
        (
            "y = x.masked_fill(m == n, -1e4)",
            None,
        ),  # which of both has the mask's device does not show
    ],
)
def test_in_training_and_under_nvfuser_a_masked_fill_takes_a_tensor(
    line: str, after: str | None
) -> None:
    head = HEAD + "def f(x, m, n, low):\n    "
    at = site(head + line + "\n", "aten::masked_fill", head.count("\n") + 1)
    found = masked_fill.REWRITE.write(
        Line(at.file, at.line, shown=Shown(gradients=True))
    )
    texts = [changed_text(at.file.source.text, one.edits) for one in found]
    assert texts == ([] if after is None else [head + after + "\n"])


def described(
    ops: Sequence[str], fuser: str = "nvfuser", backward: bool = False
) -> list[str]:
    rows = [
        (f"zoo/net.py:{line}", SimpleNamespace(op=op, count=2))
        for line, op in enumerate(ops, 1)
    ]
    program: Any = SimpleNamespace(
        in_packages=rows, fuser=fuser, torch="2.1.2", backward=backward, unread={}
    )
    return fix_bundles.described(program)


def test_what_works_in_place_in_a_package_is_told_where_the_fuser_takes_it_otherwise() -> (
    None
):
    ops = [
        "aten::add_",
        "aten::fill_",
        "aten::copy_",
        "aten::relu_",
        "aten::uniform_",
        "mine::scale_",
    ]
    last = "files of packages stay as they are: change a copy, or the class from outside"
    add = "zoo/net.py:1: aten::add_ (2 times) works in place; with x = x + y instead of x += y, it could fuse"
    relu = "zoo/net.py:4: aten::relu_ (2 times) works in place; with relu instead, it could fuse"
    drawn = "zoo/net.py:5: aten::uniform_ (2 times) works in place; with torch.rand_like(x) instead, it could"
    drawn += " fuse"
    assert described(ops) == [add, relu, drawn, last]
    assert described(ops, fuser="nnc") == [add, relu, last]
    assert (
        described(["aten::uniform_"], backward=True) == []
    )  # rand_like has no gradient formula of torch's
    assert described(["aten::add", "aten::fill_", "aten::copy_"]) == []
