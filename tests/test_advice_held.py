"""What a report says of small programs and promises for them, held against the real
NNC."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from conftest import FIXTURES
from fix_sites import parsed
from plan_lines import out_of_place
from running import write

import fusiondoc
from fusiondoc.changes.changed_arguments import (
    changes_argument,
    changes_what_has_another_name,
    is_in_a_container,
)
from fusiondoc.diagnosis.promoted_types import is_promoted
from fusiondoc.workflows.load import report_from

PROGRAMS = """
    import warnings
    from enum import Enum
    from typing import List

    import torch
    from torch import Tensor, nn


    @torch.jit.ignore
    def log_stats(x: Tensor) -> None:
        pass


    @torch.jit.ignore
    def in_python(x: Tensor) -> Tensor:
        return x.sort(-1)[0]


    def half(h: Tensor, x: Tensor) -> Tensor:
        return (h.float() + x) * 2.0


    def summed(h: Tensor, x: Tensor) -> List[Tensor]:
        return [x.tanh() * 2.0, (x * x).sum()]


    def into(h: Tensor, x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        torch.mul(x, 2.0, out=out)
        return out.tanh()


    def python_between(h: Tensor, x: Tensor) -> Tensor:
        y = x * 2.0
        log_stats(y)
        return in_python(y.relu())


    def autocast(h: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2.0
        return y.relu()


    def newton(h: Tensor, x: Tensor) -> Tensor:
        y = (x * x + 1.0).tanh()
        if bool(y.max() > 100.0):
            y = y * 2.0
        return y.exp() + 1.0


    def through_a_view(h: Tensor, x: Tensor) -> Tensor:
        y = x.cumsum(0)
        y.clamp_(-1.0, 1.0)
        y.mul_(2.0)
        v = y.view(-1, 2)
        v[0, 0] = 7.0
        y.tanh_()
        return y * 2.0


    def before_a_with_block_ends(x: Tensor) -> Tensor:
        y = x.tanh() * 2.0
        with torch.no_grad():
            z = y.cumsum(0)
            z /= 3.0
            z = z + 1.0
        return z.exp() * y


    def around_a_warning_in_a_branch(x: Tensor) -> Tensor:
        y = x.cumsum(0)
        y /= 3.0
        if x.dim() > 7:
            warnings.warn("many dimensions")
        return y + 1.0


    class Box:
        def __init__(self, low: Tensor) -> None:
            self.low = low

        def twice(self) -> Tensor:
            return self.low * 2.0


    Box = torch.jit.script(Box)


    def boxes(h: Tensor, x: Tensor) -> Tensor:
        box = Box(torch.max(x, x))
        return box.twice().cumsum(0)


    def by_its_size(h: Tensor, x: Tensor) -> Tensor:
        y = x.tanh() * 2.0
        z = (y / y.size(0)).reshape(2, 2, 8)
        return (z * z.cumsum(0)).exp() * z


    class Convolutions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(torch.nn.functional.silu(self.first(x))).relu()


    convolutions = Convolutions().eval()


    def masked(x: Tensor) -> Tensor:
        y = (x.tanh() * 2.0).exp()
        y = y.masked_fill(x > 0.5, 0.25)
        return y.sigmoid() * 3.0


    def masked_by_where(x: Tensor) -> Tensor:
        y = (x.tanh() * 2.0).exp()
        y = torch.where(x > 0.5, torch.tensor(0.25), y)
        return y.sigmoid() * 3.0


    def gated(x: Tensor) -> Tensor:
        return (x * 2.0).sigmoid() * x


    def gated_by_rest(x: Tensor) -> Tensor:
        return (1.0 - x.tanh()).exp() * x


    def shortcut(h: Tensor, x: Tensor) -> Tensor:
        y = x.cumsum(0)
        y.add_(x.cumsum(1))
        return torch.nn.functional.leaky_relu_(y, 0.1)


    def beside_two_results(h: Tensor, x: Tensor) -> Tensor:
        y = x.tanh() * 2.0
        z = (y + 1.0).clamp_(0.0, 1.0)
        return z * y


    def raised(y: Tensor) -> Tensor:
        return y + 1.0


    def beside_a_call(h: Tensor, x: Tensor) -> Tensor:
        y = x.tanh() * 2.0
        z = raised(y).clamp_(0.0, 1.0)
        return z * y


    class Mode(Enum):
        SUM = 1
        MEAN = 2


    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mode = Mode.SUM
            self.name = "sum"
            self.steps = 3

        def forward(self, h: Tensor, x: Tensor) -> Tensor:
            y = x.tanh() * 2.0
            if self.name == "sum":
                y = y.exp() + 1.0
            if self.steps > 2:
                y = y.sigmoid() * 3.0
            if self.mode == Mode.SUM:
                y = y.relu() + 1.0
            return y


    chosen = Chosen()


    class OfParts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p, self.a, self.b = 0.2, 3, 2

        def forward(self, h: Tensor, x: Tensor) -> Tensor:
            y = x.tanh() * 2.0
            if self.p == 0.0 or not self.training:
                y = y + 1.0
            y = y.exp()
            if self.a > 0 and self.b > 0:
                y = y * 3.0
            y = y.sigmoid() + 1.0
            if self.a > 1:
                y = y.relu()
            return y * 2.0


    of_parts = OfParts()
    inputs = (torch.randn(4, 8).half(), torch.randn(4, 8))
"""


@pytest.fixture
def diagnosed(fusiondoc: Run, tmp_path: Path) -> Any:
    write(tmp_path, "net.py", PROGRAMS)

    def of(name: str, *options: str) -> dict[str, Any]:
        done = fusiondoc(
            "diagnose",
            f"net.py:{name}",
            "--fuser",
            "nnc",
            "-f",
            "json",
            *options,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    return of


def reasons(report: dict[str, Any], op: str) -> list[str]:
    return [
        f"{row['reason']['code']} {row['reason']['text']}"
        for row in report["unfused"]
        if row["op"] == op
    ]


@pytest.mark.torch
def test_a_type_that_was_refused_is_in_no_plan(diagnosed: Any) -> None:
    report = diagnosed("half")
    assert reasons(report, "aten::to") == [
        "FD215 NNC does not fuse Half tensors on the CPU"
    ]
    assert report["plan"] == []  # type_as takes no Half either


@pytest.mark.torch
def test_a_sum_that_is_returned_is_off_and_not_unknown(diagnosed: Any) -> None:
    report = diagnosed("summed")
    assert reasons(report, "aten::sum") == [
        "FD211 reductions are off (`nnc_reductions`)"
    ]
    (change,) = report["plan"]
    assert "nnc_reductions=on" in change["command"]
    after = diagnosed("summed", "--knob", "nnc_reductions=on")
    assert after["unfused"] == [] and len(after["groups"]) == 1


@pytest.mark.torch
def test_a_result_that_is_written_into_out(diagnosed: Any) -> None:
    report = diagnosed("into")
    assert reasons(report, "aten::mul") == [
        "FD230 it writes its result into the tensor given as `out`"
    ]


@pytest.mark.torch
def test_nothing_is_moved_past_python_and_the_end_of_a_with_block(
    diagnosed: Any,
) -> None:
    report = diagnosed("python_between")
    (text,) = reasons(report, "aten::mul")
    assert (
        "a call of a Python function" in text
        and "stands between it and aten::relu" in text
    )
    assert reasons(report, "^in_python") == [
        "FD211 it calls a Python function, which is opaque to every fuser"
    ]
    report = diagnosed("autocast")
    assert (
        "the end of a with block stands between it and aten::relu"
        in reasons(report, "aten::mul")[0]
    )


@pytest.mark.torch
def test_no_operator_is_promised_to_a_group_past_the_end_of_a_with_block(
    diagnosed: Any,
) -> None:
    (change,) = diagnosed("before_a_with_block_ends", "--input", "float32[4,8]")[
        "plan"
    ]
    assert (change["change"], change["unlocks"]) == (
        "Write z = z / 3.0 instead of z /= 3.0",
        "1 group of div+add",
    )


@pytest.mark.torch
def test_where_does_not_join_a_group_with_what_its_condition_waits_for(
    diagnosed: Any,
) -> None:
    """Two groups stay two: the maximum is of the first, and the second waits for
    it."""
    report = diagnosed("newton")
    assert len(report["groups"]) == 2
    assert not any("become one" in change["unlocks"] for change in report["plan"])
    assert not any(
        "max before or after" in change["change"] for change in report["plan"]
    )


@pytest.mark.torch
def test_a_group_does_not_reach_past_a_change_through_a_view(
    diagnosed: Any,
) -> None:
    unlocks = sorted(
        change["unlocks"] for change in diagnosed("through_a_view")["plan"]
    )
    assert [text.partition(" (")[0] for text in unlocks] == [
        "1 group of clamp+mul",
        "1 group of clamp+mul",
        "1 group of tanh+mul",
    ]


@pytest.mark.torch
def test_what_reads_a_tensor_behind_its_change_takes_the_change(
    diagnosed: Any,
) -> None:
    plan = diagnosed("shortcut")["plan"]
    assert [one["unlocks"].partition(" (")[0] for one in plan] == [
        "1 group of add+leaky_relu"
    ] * 2


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "conditional"),
    [("beside_two_results", False), ("beside_a_call", True)],
)
def test_no_condition_where_the_text_shows_that_nothing_has_the_tensor(
    diagnosed: Any, name: str, conditional: bool
) -> None:
    """One group makes ``y``, which is read later, and what is clamped: the plan
    does not tell them apart."""
    (change,) = diagnosed(name)["plan"]
    assert change["change"] == "Write clamp() instead of clamp_()"
    assert ("only if" in (change["note"] or "")) is conditional


@pytest.mark.torch
def test_an_attribute_is_a_constant_of_its_type_and_no_enum(diagnosed: Any) -> None:
    plan = diagnosed("chosen")["plan"]
    together = [one for one in plan if one["kind"] == "annotation"]
    declared = {" ".join(one["change"].split()[3:5]) for one in together}
    assert declared == {"name torch.jit.Final[str],", "steps torch.jit.Final[int],"}
    assert all(
        one["unlocks"].startswith("3 groups of this run become one")
        for one in together
    )


@pytest.mark.torch
def test_one_attribute_of_a_condition_with_more_parts_takes_no_branch_away(
    diagnosed: Any,
) -> None:
    """``self.p == 0.0 or not self.training``, ``self.a > 0 and self.b > 0``: with
    one of them a constant NNC made the same groups. ``self.a > 1`` has one part."""
    plan = diagnosed("of_parts")["plan"]
    (declared,) = [one for one in plan if one["kind"] == "annotation"]
    assert declared["change"].startswith(
        "Declare the attribute a torch.jit.Final[int]"
    )
    assert declared["unlocks"] == "relu+mul joins 1 group of this run"
    (edit,) = declared["edits"]
    assert edit["after"].split("\n")[1] == "    a: torch.jit.Final[int]"


@pytest.mark.torch
def test_what_goes_into_an_object_is_not_without_takers(diagnosed: Any) -> None:
    assert (
        "stored in an attribute of an object"
        in reasons(diagnosed("boxes"), "aten::max")[0]
    )


@pytest.mark.torch
def test_a_number_of_its_own_group_keeps_an_operator_out(diagnosed: Any) -> None:
    """The reshape is not what keeps the division out: computed of x, the number
    lets it in."""
    report = diagnosed("by_its_size")
    assert "a number that this operator takes" in reasons(report, "aten::div")[0]
    assert not any("div" in change["unlocks"] for change in report["plan"])


@pytest.mark.torch
def test_two_convolutions_stay_two_partitions(diagnosed: Any) -> None:
    options = ("--fuser", "onednn", "--input", "float32[2,3,4,4]")
    plan = diagnosed("convolutions", *options)["plan"]
    assert [one["unlocks"] for one in plan if "silu" in one["change"]] == [
        "silu joins 1 group of this run"
    ]


@pytest.mark.torch
def test_a_recipe_between_differentiable_graphs_joins_their_groups(
    diagnosed: Any,
) -> None:
    options = ("--backward", "--input", "float32[4,8]:grad")
    (change,) = diagnosed("masked", *options)["plan"]
    assert (
        change["unlocks"] == "joins 2 groups of this run with gt+masked_fill into 1"
    )
    after = diagnosed("masked_by_where", *options)
    assert [
        len(one["ops"]) for one in after["groups"] if one["phase"] == "forward"
    ] == [7]


@pytest.mark.torch
def test_what_is_of_a_gradient_is_in_no_line(diagnosed: Any) -> None:
    """AOTAutograd writes 1 - sigmoid for ``x.sigmoid()``, and computes what stands
    in the line again."""
    options = ("--frontend", "aot", "--backward", "--input", "float32[4,8]:grad")
    report = diagnosed("gated", *options)
    assert [
        row["phase"] for row in report["unfused"] if row["op"] == "aten::rsub"
    ] == ["backward"]
    assert not any("rsub" in change["change"] for change in report["plan"])
    (advice,) = [
        one["advice"]
        for one in report["findings"]
        if one["message"].startswith("aten::rsub")
    ]
    assert advice.startswith("Nothing: it belongs to the gradient")
    written = diagnosed("gated_by_rest", *options)
    assert any("rsub" in change["change"] for change in written["plan"])


@pytest.mark.parametrize(
    ("line", "op", "after"),
    [
        (
            "self.avg.mul_(0.9).add_(y, alpha=0.1)",
            "aten::mul_",
            None,
        ),  # other names may have that tensor
        ("y = torch.relu_(x)", "aten::relu_", None),  # x is returned
        ("x = torch.relu_(x)", "aten::relu_", "x = torch.relu(x)"),
        ("y = torch.nn.functional.relu(x, inplace=True)", "aten::relu_", None),
        ("y = x.view(-1).relu_()", "aten::relu_", None),
        ("y = y.view(-1).relu_()", "aten::relu_", "y = y.view(-1).relu()"),
        ("x.sub_(y).mul_(2)", "aten::mul_", "x = x.sub(y).mul(2)"),
        ("x.mul_(2).view(-1).add_(1)", "aten::mul_", None),
        ("self.log(x.mul_(2))", "aten::mul_", None),
        ("return self.avg.mul_(0.9)", "aten::mul_", None),
        ("self.avg = self.avg.mul_(0.9)", "aten::mul_", None),
        (
            "return self.act.conv(x).relu_()",
            "aten::relu_",
            "return self.act.conv(x).relu()",
        ),
    ],
)
def test_what_holds_a_tensor_keeps_what_was_changed_in_it(
    line: str, op: str, after: str | None
) -> None:
    edits = out_of_place(
        f"import torch\ndef f(self, x, y):\n    {line}\n    return x\n", 3, op
    )
    assert [edit.after.strip() for edit in edits] == (
        [after] if after is not None else []
    )


def test_what_a_function_was_called_with_is_its_callers() -> None:
    text = "def f(x, cache):\n    cache.mul_(2)\n    x = x + 1\n    x += cache\n    cache += x\n    return x\n"
    assert [changes_argument(parsed(text), line) for line in (2, 4, 5)] == [
        True,
        False,
        True,
    ]


OTHER_NAMES = """
    import torch

    def f(self, x, state, params, grads):
        a, b = state[0], torch.zeros_like(x)
        a.mul_(2)  # the caller's
        b.mul_(2)
        for p, g in zip(params, grads):
            p.add_(g)  # the caller's
            h = g * 2
            h.add_(1)
        self.m.mul_(0.9).add_(x)  # the caller's
        v = self.w.view(-1)
        v[0] = 1  # the caller's
        if self.training:
            state = [one.clone() for one in state]
        state[0].add_(1)  # the caller's
        x = x.float()
        x += 1  # the caller's
        y = other(x)
        y += 1  # the caller's, if other returns x
        y = self.other(x)  # the caller's, if it works in place
        y += 1
        z = x if self.training else y
        z += 1  # the caller's, in training
        torch.relu_(state[1].t())  # the caller's
        x = x + 1
        x += 1
"""

CHOSEN_BY_TENSORS = """
    import torch
    from torch import Tensor

    def f(self, x: Tensor, ids: Tensor, state: list[Tensor], n: int):
        a = self.table[ids]
        a += 1
        b = self.table[0, ids[n]]
        b += 1
        c = x[ids > 0]
        c += 1
        d = self.table[n]
        d += 1  # the caller's
        x[ids] += 1  # the caller's
        e = state[n]
        e += 1  # the caller's

    def g(self, ids: Tensor, n: int):
        ids = n
        a = self.table[ids]
        a += 1  # the caller's
"""


def test_elements_chosen_by_a_tensor_are_a_new_tensor() -> None:
    text = textwrap.dedent(CHOSEN_BY_TENSORS)
    for number, line in enumerate(text.splitlines(), 1):
        if "+=" in line:
            assert changes_argument(parsed(text), number) == (
                "the caller's" in line
            ), line


def test_elements_views_and_attributes_are_the_callers_under_any_name() -> None:
    text = textwrap.dedent(OTHER_NAMES)
    expected = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if "the caller's" in line
    ]
    assert [
        n
        for n in range(1, text.count("\n") + 1)
        if changes_argument(parsed(text), n)
    ] == expected


KEPT = """
    import torch

    def f(self, x, y):
        h = x * 2
        skip = h
        h += y  # skip
        a = x * 3
        a += y
        z = a.view(-1)
        a.mul_(2)  # z
        p, q = (x + y).chunk(2, 1)
        p.mul_(q)
        t = p.t()
        t.add_(1)  # p
        w = x.relu()
        w += y
        v = torch.cat([w, y])
        w += 1
        self.kept = w
        w += 1  # self.kept
        states = []
        for _ in range(3):
            states.append(h)
            h += x  # skip, states
            u = x * h
            u += 1
            states.append(u)
        pair = (a, u)
        u += 1  # pair
        unread = u.t()
        u += 1  # pair
        return skip, z, p, pair, w
"""


def test_names_and_containers_that_hold_what_a_line_changes() -> None:
    text = textwrap.dedent(KEPT)
    lines = dict(enumerate(text.splitlines(), 1))
    numbers = [n for n, line in lines.items() if ("+=" in line or "_(" in line)]
    named = [n for n in numbers if changes_what_has_another_name(parsed(text), n)]
    assert [lines[n].strip() for n in named if "#" not in lines[n]] == []
    assert [lines[n].partition("# ")[2] for n in named if "#" in lines[n]] == [
        "skip", "z", "p", "self.kept", "skip, states", "pair", "pair",
    ]  # fmt: skip
    held = [n for n in numbers if is_in_a_container(parsed(text), n)]
    assert [lines[n].partition("# ")[2] for n in held] == [
        "skip, states",
        "pair",
        "pair",
    ]


CALLED = """
    import torch.nn.functional as F

    def f(self, x, xs):
        h = x * 2
        skip = h
        xs.append(x)
        y = F.relu(h, inplace=True)  # skip
        z = F.relu(h, inplace=self.flag)  # skip
        v = F.relu(self.norm(x), True)
        w = self.relu(self.norm(x))
        return y + z + v + w + skip
"""


def test_of_a_line_the_operator_in_place_counts_and_no_other_call() -> None:
    """The module that makes what it changes is given a tensor of the caller's,
    which stands in a list."""
    lines = dict(enumerate(textwrap.dedent(CALLED).splitlines(), 1))
    file = parsed(textwrap.dedent(CALLED))
    numbers = [n for n, line in lines.items() if "relu(" in line]
    for number in numbers:
        is_named = changes_what_has_another_name(file, number, op="aten::relu_")
        assert is_named == ("# skip" in lines[number]), lines[number]
        assert not is_in_a_container(file, number, op="aten::relu_")
        assert not changes_argument(
            file, number, through_calls=False, op="aten::relu_"
        )
    assert is_in_a_container(
        file, numbers[-1]
    )  # any module of the line may work in place


OTHER_MEMORY = """
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn


    class Maybe(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                return x
            return x * 2.0


    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act, self.same, self.maybe = nn.Hardtanh(inplace=True), nn.Identity(), Maybe()
            self.layers = nn.ModuleList([nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 8))])

        def forward(self, x: Tensor) -> Tensor:
            a = b = x.cumsum(0)
            a += 1.0
            c = x.cumsum(1)
            d = self.same(c)
            d += 1.0
            e = x.cumsum(0)
            f = self.maybe(e)
            f += 1.0
            g = self.act(e * 1.0 if x.dim() > 7 else x.cumsum(1))
            h = x.cumsum(0)
            i = self.act(h) + 1.0
            outs = [x]
            k = x.cumsum(1)
            for layer in self.layers:
                outs.append(k)
                k = layer(k)
            free = x.cumsum(0)
            free += 1.0
            y = torch.tanh(a) * b + torch.tanh(d) * c + torch.tanh(f) * e + torch.tanh(i) * h
            return y + outs[1] * k + torch.tanh(free) * g


    model = Model()
    inputs = (torch.randn(4, 8),)
"""


@pytest.mark.torch
def test_an_update_is_seen_under_a_name_that_modules_and_branches_give(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Each of these but the last changed the result once it was written out of
    place."""
    write(tmp_path, "net.py", OTHER_MEMORY)
    done = fusiondoc(
        "diagnose", "net.py", "--fuser", "nnc", "-f", "json", cwd=tmp_path
    )
    edits = [
        edit
        for change in json.loads(done.stdout)["plan"]
        for edit in change["edits"]
    ]
    assert [edit["after"].strip() for edit in edits] == ["free = free + 1.0"]


UNKNOWN_OPERATORS = """
    import torch

    def model(x, y, c: bool):
        a = x * 2.0
        held = torch.atleast_2d(a)
        a += y
        b = x * 3.0
        spread = torch.broadcast_tensors(b, y)[0]
        b += y
        d = x * 4.0
        chosen = x if c else d
        d += y
        e = x * 5.0
        copied = torch.atleast_2d(e)
        copied += y
        g = x * 6.0
        sums = g.cumsum(0)
        g += y
        kept = torch.tanh(a) * held + torch.tanh(b) * spread + torch.tanh(d) * chosen
        return kept + torch.tanh(e) * copied + torch.tanh(g) * sums

    inputs = (torch.randn(4, 4), torch.randn(4, 4), False)
"""


@pytest.mark.torch
def test_an_operator_without_a_row_and_a_branch_may_hand_a_tensor_on(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """The text shows that ``cumsum`` gives no name to ``g``."""
    write(tmp_path, "net.py", UNKNOWN_OPERATORS)
    done = fusiondoc(
        "diagnose", "net.py", "--fuser", "nnc", "-f", "json", cwd=tmp_path
    )
    edits = [
        edit
        for change in json.loads(done.stdout)["plan"]
        for edit in change["edits"]
    ]
    assert [edit["after"].strip() for edit in edits] == ["g = g + y"]


@pytest.mark.torch
@pytest.mark.nightly
def test_no_update_is_advised_that_another_name_sees(tmp_path: Path) -> None:
    """Programs that change in place what an argument, a list, a view or another
    name holds too; each advised change is applied, and the results are compared."""
    root = Path(__file__).parents[1]
    command = [
        sys.executable,
        "benchmarks/promises.py",
        "benchmarks/promise_programs_8",
    ]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False
    )
    assert "0 broken, 0 on a wrong line" in done.stdout.splitlines()[-1], (
        done.stdout[-2000:]
    )


@pytest.mark.torch
@pytest.mark.parametrize("sizes", [(2, 2), ()], ids=["matrix", "number"])
def test_types_are_promoted_as_by_torch(sizes: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    names = (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    )
    printed = (
        "Bool",
        "Byte",
        "Char",
        "Short",
        "Int",
        "Long",
        "Half",
        "BFloat16",
        "Float",
        "Double",
    )
    shown = "2, 2, strides=[2, 1], " if sizes else ""
    for (name, text), (other, its) in product(zip(names, printed), repeat=2):
        first = torch.ones((2, 2), dtype=getattr(torch, name))
        promoted = (
            torch.result_type(first, torch.ones(sizes, dtype=getattr(torch, other)))
            != first.dtype
        )
        types = [
            f"{text}(2, 2, strides=[2, 1], device=cpu)",
            f"{its}({shown}requires_grad=0, device=cpu)",
        ]
        assert is_promoted(types) == promoted, types


@pytest.mark.torch
def test_an_update_that_keeps_its_element_type_stays_in_place(
    tmp_path: Path,
) -> None:
    """A plan shows the type of what a group takes, here of ``y``."""
    write(
        tmp_path,
        "net.py",
        """
        import torch

        def model(x, y):
            z = x * 2.0
            z += y
            return torch.tanh(z), torch.relu(y) * 2.0

        inputs = (torch.randn(4, 4), torch.randn(4, 4, dtype=torch.float64))
        """,
    )
    report = fusiondoc.diagnose(str(tmp_path / "net.py"), fuser="nnc", runs=3)
    assert not [change for change in report.plan if change.edits]
    (found,) = (one for one in report.findings if "aten::add_" in one.ops)
    assert "element type" in str(found.advice)


def test_no_update_is_advised_that_would_make_nvfuser_fail(tmp_path: Path) -> None:
    """A mean, masked in place: with ``error = error * mask`` this program ended in
    FD307 on an H200."""
    capture = FIXTURES / "captures" / "sized-reduction-nvfuser-2.1.2.tar.xz"
    with tarfile.open(capture) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "sized-reduction-nvfuser-2.1.2"
    report = report_from([str(folder)])
    (found,) = (one for one in report.findings if "aten::mul_" in one.ops)
    assert found.nothing_to_do and "FD307" in str(found.advice)
    assert not [change for change in report.plan if change.edits]
    # The masked tensor is another one: nothing keeps its update in place.
    source = folder / "sources" / "0.py"
    source.write_text(
        source.read_text().replace("error *= mask", "mask *= error"), "utf-8"
    )
    (found,) = (
        one
        for one in report_from([str(folder)]).findings
        if "aten::mul_" in one.ops
    )
    assert "FD307" not in str(found.advice)
