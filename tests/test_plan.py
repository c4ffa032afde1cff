"""What to do now: lines that are changed for real, what a change is said to unlock,
and where it is said."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT, Run
from plan_lines import by_recipe, out_of_place

from fusiondoc.captures.request import KeptRequest, KeptTarget
from fusiondoc.changes.change import Change
from fusiondoc.changes.recipes import recipe_for
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis import lines_of_changes
from fusiondoc.diagnosis.commands import can_run_again, compare_logs, run_again
from fusiondoc.diagnosis.gains import best
from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.shown_operators import ShownOperators
from fusiondoc.diagnosis.unlocked import Plans
from fusiondoc.model.change_plan import ChangeKind, Edit, PlannedChange
from fusiondoc.model.remedies import Setting
from fusiondoc.model.report import Program, ProgramNode, Report
from fusiondoc.model.source import Options, Target
from fusiondoc.parsers.observed import Observed
from fusiondoc.rendering.drawing import Detail, can_link, prose
from fusiondoc.reports.text.screen import render
from fusiondoc.workflows.load import report_from

FOREIGN = FIXTURES / "foreign"


def foreign(name: str) -> Report:
    return report_from([str(FOREIGN / f"{name}.log.xz")])


# Lines


@pytest.mark.parametrize(
    ("before", "op", "after"),
    [
        (
            "    y += x  # the shortcut",
            "aten::add_",
            "    y = y + x  # the shortcut",
        ),
        ("    y -= a - b", "aten::sub_", "    y = y - (a - b)"),
        ("    y -= a * b", "aten::sub_", "    y = y - a * b"),
        ("    y *= a + b", "aten::mul_", "    y = y * (a + b)"),
        ("    y /= n if n else m", "aten::div_", "    y = y / (n if n else m)"),
        ("    self.h /= n", "aten::div_", None),
        ("    y //= x - z", "aten::floor_divide_", "    y = y // (x - z)"),
        ("    y %= x", "aten::remainder_", "    y = y % x"),
        (
            "    y %= x",
            "aten::fmod_",
            None,
        ),  # of a script; x % y is another function
        ("    x.relu_()", "aten::relu_", "    x = x.relu()"),
        ("    torch.relu_(x)", "aten::relu_", "    x = torch.relu(x)"),
        (
            "    return self.conv(x).relu_()",
            "aten::relu_",
            "    return self.conv(x).relu()",
        ),
        (
            "    x = F.relu(x, inplace=True)",
            "aten::relu_",
            "    x = F.relu(x, inplace=False)",
        ),
        (
            "    x = F.relu(é(x), True)",
            "aten::relu_",
            "    x = F.relu(é(x), False)",
        ),
        (
            "    x[0] += y",
            "aten::add_",
            "    x = torch.cat([(x[0] + y).unsqueeze(0), x[1:]], 0)",
        ),
        ("    x += y; z += 1", "aten::mul_", None),
        ("    f(x).add_(y)", "aten::add_", None),
        (
            "    k = g(x).add_(y).floor_()",
            "aten::floor_",
            "    k = g(x).add(y).floor()",
        ),
        (
            "    k = g(x).fill_(1).floor_()",
            "aten::floor_",
            "    k = g(x).fill_(1).floor()",
        ),
        (
            "    k = g(x).exponential_().floor_()",
            "aten::floor_",
            "    k = g(x).exponential_().floor()",
        ),
        ("    x = F.relu(x, inplace=flag)", "aten::relu_", None),
        ("    self.make().x += y", "aten::add_", None),  # it would be made twice
        ("    self.make().x.relu_()", "aten::relu_", None),
        (
            "    self.x.relu_()",
            "aten::relu_",
            None,
        ),  # other names may have the tensor of an attribute
        ("    k = x.mul_(y).add_(y)", "aten::mul_", None),  # x is read again,
    ],
)
def test_a_line_is_written_out_of_place(
    before: str, op: str, after: str | None
) -> None:
    head = "import torch\nimport torch.nn.functional as F\n"
    edits = out_of_place(
        f"{head}def f(x, y, z, é):\n{before}\n    return x\n", 4, op
    )
    assert [edit.after for edit in edits] == ([after] if after is not None else [])
    assert [(edit.before, edit.line) for edit in edits] == [(before, 4)] * len(
        edits
    )


@pytest.mark.parametrize(
    ("before", "op", "rank", "after"),
    [
        ("    return F.hardswish(x)", "hardswish", None, "    return x * (torch.clamp(x + 3, 0, 6) / 6)"),
        ("    return -F.hardswish(x)", "hardswish", None, "    return -(x * (torch.clamp(x + 3, 0, 6) / 6))"),
        ("    return F.hardswish(x + 1) * 2", "hardswish", None,
         "    h = x + 1\n    return (h * (torch.clamp(h + 3, 0, 6) / 6)) * 2"),
        ("    return torch.square(x)", "square", None, "    return x * x"),
        ("    return x.square() + y.square()", "square", None, "    return (x * x) + (y * y)"),
        ("    return x.mean()", "mean", 3, "    return x.mean([0, 1, 2])"),
        ("    return x.mean()", "mean", None, None),
        ("    return x.mean([1])", "mean", 2, None),
        ("    return torch.clamp_min(x, 0.5)", "clamp_min", None, "    return torch.clamp(x, min=0.5)"),
        ("    return torch.clamp_min(x, 0.25)", "clamp_min", None, "    return torch.clamp(x, min=0.25)"),
        ("    return [F.hardswish(x + i) for i in y]", "hardswish", None,
         "    return [fusible_hardswish(x + i) for i in y]"),
        ("    if F.hardswish(x + 1).sum() > 0: return y", "hardswish", None,
         "    if fusible_hardswish(x + 1).sum() > 0: return y"),
        ("    if y: return F.hardswish(x + 1)", "hardswish", None,
         "    if y: return fusible_hardswish(x + 1)"),
        ("    x = y; return F.hardswish(x + 1)", "hardswish", None,
         "    x = y; return fusible_hardswish(x + 1)"),
        ("    return {F.hardswish(x + i) for i in y}", "hardswish", None,
         "    return {fusible_hardswish(x + i) for i in y}"),
        ("    return {i: F.hardswish(x + i) for i in y}", "hardswish", None,
         "    return {i: fusible_hardswish(x + i) for i in y}"),
        ("    return lambda y: F.hardswish(x + y)", "hardswish", None,
         "    return lambda y: fusible_hardswish(x + y)"),
        ("    return 0 < y < F.hardswish(x + 1)", "hardswish", None,
         "    return 0 < y < fusible_hardswish(x + 1)"),
        ("    return x.add_(1) * F.hardswish(x + 1)", "hardswish", None,
         "    return x.add_(1) * fusible_hardswish(x + 1)"),
        ("    return (x := y) * F.hardswish(x + 1)", "hardswish", None,
         "    return (x := y) * fusible_hardswish(x + 1)"),
        ("    return F.hardswish(x + 1) * x.add_(1)", "hardswish", None,
         "    h = x + 1\n    return (h * (torch.clamp(h + 3, 0, 6) / 6)) * x.add_(1)"),
        ("    return F.mse_loss(x, y)", "mse_loss", 3, "    return ((x - y) * (x - y)).mean([0, 1, 2])"),
        ("    return F.mse_loss(x, y)", "mse_loss", None, None),
        ("    return F.elu(x)", "elu", None,
         "    return torch.where(x > 0, x, 1.0 * torch.expm1(torch.clamp(x, max=0)))"),
    ],
)  # fmt: skip
def test_a_line_is_written_by_a_recipe(
    before: str, op: str, rank: int | None, after: str | None
) -> None:
    text = f"import torch\nimport torch.nn.functional as F\ndef f(x, y):\n{before}\n    return x\n"
    recipe = recipe_for(f"aten::{op}", "nvfuser")
    assert recipe is not None
    edits = by_recipe(text, 4, recipe, rank=rank)
    assert [edit.after for edit in edits[:1]] == (
        [after] if after is not None else []
    )
    # The function that a line calls is defined behind the imports.
    more = [edit.after for edit in edits[1:]]
    body = "    return x * (torch.clamp(x + 3, 0, 6) / 6)"
    function = f"import torch.nn.functional as F\n\n\ndef fusible_hardswish(x):\n{body}\n\n"
    assert more == (
        [function] if after is not None and "fusible_hardswish" in after else []
    )
    # torch is called by the name that it has in the file.
    renamed = by_recipe(
        text.replace("import torch\n", "import torch as t\n"), 4, recipe, rank=rank
    )
    assert all(
        "torch." not in row
        for edit in renamed
        for row in edit.after.split("\n")[1:]
    )


NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.act, self.other = nn.ReLU(inplace=True), nn.ReLU()
        self.swish = nn.Hardswish()

    def forward(self, x):
        return self.swish(self.act(x))
"""


def lines_of_modules(text: str, op: str) -> tuple[Edit, ...]:
    file = parsed_text(text, "m.py")
    assert file is not None
    return lines_of_changes.lines_of_modules(file, "m.py", op)


def test_a_module_is_changed_where_it_is_made() -> None:
    (edit,) = lines_of_modules(NET, "aten::relu_")
    assert edit.line == 7 and edit.after == edit.before.replace("True", "False")
    assert lines_of_modules(NET.replace("=True", "=False"), "aten::relu_") == ()
    assert lines_of_modules(NET, "aten::silu_") == ()


def test_a_call_of_a_module_is_written_where_its_module_is_known() -> None:
    recipe = recipe_for("aten::hardswish", "nvfuser")
    assert recipe is not None
    (edit,) = by_recipe(NET, 11, recipe, layer="swish")
    assert (
        edit.after.split("\n")[1].strip()
        == "return h * (torch.clamp(h + 3, 0, 6) / 6)"
    )
    assert (
        by_recipe(
            NET.replace("Hardswish()", "Hardswish(*a)"), 11, recipe, layer="swish"
        )
        == ()
    )


@pytest.mark.parametrize("text", ["def f(:\n  x += y", "x += y\0", "(" * 400, ""])
def test_what_is_no_python_is_left_alone(text: str) -> None:
    assert out_of_place(text, 2, "aten::add_") == ()


# What a change unlocks


def program(*ops: str, edges: list[tuple[int, int]]) -> Report:
    """A plan of operators of which those with an underscore are in place, in a
    report."""
    from fusiondoc.model.reasons.reason import Reason
    from fusiondoc.model.report import Unfused

    nodes, rows = [], []
    for number, op in enumerate(ops):
        code = (
            "FD230" if op.endswith("_") else "FD201" if op == "conv2d" else "FD227"
        )
        what = (f"aten::{op}", f"m.py:{number + 1}:0")
        tensor = "Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)"
        nodes.append(
            ProgramNode(
                "operator",
                *what,
                None,
                (tensor,),
                (tensor,),
                None,
                code,
                None,
                None,
                None,
                (),
                "why",
                rows=(number,),
            )
        )
        rows.append(
            Unfused(
                *what,
                None,
                "forward",
                1,
                Reason(code, "why", False),
                (),
                index=number,
            )
        )
    base = report_from([str(FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz")])
    made = Program("P1", "forward", 1, None, (), tuple(nodes), tuple(edges))
    return replace(base, programs=(made,), unfused=tuple(rows), groups=())


def test_a_change_joins_what_stands_around_it() -> None:
    report = program("mul", "add_", "relu", edges=[(0, 1), (1, 2)])
    (group,) = Plans(report, "nvfuser", None).with_changes({1})
    assert group.ops == ("aten::mul", "aten::add_", "aten::relu")
    # Each of the two tensors between them is no longer written and read: 4 * 8
    # floats.
    assert group.bytes_saved == 2 * 2 * 4 * 8 * 4


def test_no_group_waits_for_its_own_result() -> None:
    """relu -> convolution -> add, and relu -> add: a shortcut around the
    convolution."""
    report = program(
        "mul",
        "relu_",
        "conv2d",
        "add_",
        "tanh",
        edges=[(0, 1), (1, 2), (2, 3), (1, 3), (3, 4)],
    )
    groups = Plans(report, "nvfuser", None).with_changes({1, 3})
    assert [group.ops for group in groups] == [
        ("aten::mul", "aten::relu_"),
        ("aten::add_", "aten::tanh"),
    ]


def test_no_group_reads_the_dtype_of_what_it_makes() -> None:
    """``softmax(...).to(q.dtype)`` behind what makes ``q``, ``x.to(x.dtype)``
    behind ``x = x + attention``: nvFuser kept that addition out of the group
    although it takes it."""
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-rms-norm-dtype.log.xz")]
    )
    rows = {(row.op, row.source): index for index, row in enumerate(report.unfused)}
    plans = Plans(report, "nvfuser", "2.1.2")
    assert plans.with_changes({rows["aten::add", "llama.py:45:12"]}) == []
    (group,) = plans.with_changes({rows["aten::matmul", "llama.py:43:12"]})
    assert group.groups == ("G3",), "not G2, which makes q"


def test_what_a_recipe_leaves_outside_counts_against_it() -> None:
    """Of two calls on a line one joins a group; the other becomes two operators
    outside."""
    report = program(
        "mul", "add_", "conv2d", "add_", edges=[(0, 1), (1, 2), (2, 3)]
    )
    nodes = list(report.programs[0].nodes)
    nodes[3] = replace(nodes[3], rows=nodes[1].rows)
    rows = (
        report.unfused[0],
        replace(report.unfused[1], count=2),
        report.unfused[2],
    )
    report = replace(
        report,
        programs=(replace(report.programs[0], nodes=tuple(nodes)),),
        unfused=rows,
    )
    for parts, freed in ((1, 2), (2, 1)):
        change = Change(ChangeKind.RECIPE, "", rows=(1,), parts=parts)
        (rated,) = best(
            [change],
            lambda _, report=report: Plans(report, "nvfuser", None),
            report,
        )
        assert rated.gain.operators == freed


def test_no_batch_norm_is_moved_past_the_count_of_batches_of_another() -> None:
    """Each counts in place before it: of ``norm(x) + norm(y)`` an H200 joined one.
    Without counts both join, and one by itself does beside its own."""
    apart = (
        ("add_", "batch_norm", "add_", "batch_norm", "add_"),
        [(1, 4), (3, 4)],
        4,
        2,
    )
    free = (
        ("conv2d", "batch_norm", "conv2d", "batch_norm", "add_"),
        [(1, 4), (3, 4)],
        4,
        3,
    )
    own = (
        ("add_", "batch_norm", "relu_", "add_", "batch_norm", "relu_"),
        [(1, 2), (4, 5)],
        5,
        2,
    )
    for ops, edges, changed, expected in (apart, free, own):
        report = program(*ops, edges=edges)
        nodes = [
            replace(node, inputs=node.inputs * 5)
            if node.op == "aten::batch_norm"
            else node
            for node in report.programs[0].nodes
        ]
        plan = replace(report.programs[0], nodes=tuple(nodes))
        groups = Plans(
            replace(report, programs=(plan,)), "nvfuser", None
        ).with_changes({changed})
        assert sum(len(group.ops) for group in groups) == expected


def test_the_dimensions_of_a_prelu_are_those_of_its_convolution() -> None:
    """In training no type is profiled outside differentiable graphs."""
    report = program(
        "conv2d", "batch_norm", "prelu", "sum", edges=[(0, 1), (1, 2), (2, 3)]
    )
    nodes = [
        replace(node, inputs=("Tensor",), first=index - 1 if index else None)
        for index, node in enumerate(report.programs[0].nodes)
    ]
    report = replace(
        report, programs=(replace(report.programs[0], nodes=tuple(nodes)),)
    )
    ranks = [ShownOperators(report).known_rank(row) for row in report.unfused]
    assert ranks == [None, None, 4, None], (
        "a convolution takes a single picture too"
    )


def test_an_operator_without_a_neighbour_makes_no_group() -> None:
    report = program("conv2d", "relu_", "conv2d", edges=[(0, 1), (1, 2)])
    assert Plans(report, "nvfuser", None).with_changes({1}) == []


def test_residual_networks_get_a_group_for_every_block() -> None:
    """Nothing fuses in resnet18 as torchvision has it: its blocks add and rectify
    in place."""
    report = foreign("resnet18.script.eval.nnc")
    kinds = {change.kind: change for change in report.plan}
    assert set(kinds) == {ChangeKind.NOT_INPLACE, ChangeKind.OUT_OF_PLACE}
    assert (
        kinds[ChangeKind.OUT_OF_PLACE].where == "torchvision/models/resnet.py:102"
    )
    unlocks = str(kinds[ChangeKind.OUT_OF_PLACE].unlocks)
    counts = [
        int(number)
        for number in re.findall(r"(\d+) groups of [\w+]*add\+relu", unlocks)
    ]
    assert sum(counts) == 8, unlocks  # two in each of four layers
    assert all(change.gain_bytes and change.operators for change in report.plan)


def test_a_recipe_leads_where_it_gains_most() -> None:
    first = foreign("mobilenet_v3.trace.train.nvfuser").plan[0]
    assert (first.kind, first.ops) == (ChangeKind.RECIPE, ("aten::hardswish_",))
    assert (first.before, first.after) == (None, None)  # its files are not here
    general = (
        "in general x * (torch.clamp(x + 3, 0, 6) / 6) instead of F.hardswish(x)"
    )
    assert general in str(first.note) and "fusiondoc explain hardswish" in str(
        first.note
    )


@pytest.mark.parametrize(
    "log", sorted(FOREIGN.glob("*.xz")), ids=lambda path: path.name
)
def test_a_plan_is_short_and_whole_or_says_why_there_is_none(log: Path) -> None:
    report = report_from([str(log)])
    assert len(report.plan) <= 3 and (report.plan == ()) == (
        report.plan_note is not None
    )
    for change in report.plan:
        assert change.unlocks and shlex.split(change.command)[0] == "fusiondoc"
        assert (change.before is None) == (change.after is None)
        assert (change.gain_bytes or 1) > 0


def test_nothing_to_do_is_said_with_the_numbers() -> None:
    report = foreign("blocks4.script.train.nnc")
    assert report.plan == () and report.plan_note is not None
    assert report.plan_note.startswith(
        "All that NNC can take is fused: 48 operators in 8 groups"
    )
    note = foreign("bert.trace.eval.nvfuser").plan_note or ""
    assert (
        "43 of the 47" in note and "kernels of libraries (aten::linear x19" in note
    )


def test_operators_without_a_rule_are_named_beside_kernels_of_libraries() -> None:
    report = report_from([str(FIXTURES / "logs" / "nnc-2.13-split-blocks.log.xz")])
    assert report.plan_title == "Nothing to do"
    rest = "kernels of libraries (aten::linear x3) and operators without a rule (aten::cumsum), each a launch"
    assert rest in (report.plan_note or "")


def test_what_stands_alone_between_libraries_is_no_library(
    recordings: Path,
) -> None:
    """An MLP: nvFuser takes layer_norm and gelu, which have linear layers on both
    sides."""
    note = (
        report_from(
            [str(recordings / "torch-2.0.1" / "c07_mlp_fp16.optimized.log")]
        ).plan_note
        or ""
    )
    assert (
        "(aten::linear x2) and single operators between them (aten::layer_norm, aten::gelu)"
        in note
    )


def test_an_error_comes_first() -> None:
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-compile.log.xz")]
    )
    assert (report.plan[0].kind, report.plan[0].codes) == (
        ChangeKind.REPAIR,
        ("FD301",),
    )


# Commands


def request(text: str = "m.py:net", **options: object) -> KeptRequest:
    return KeptRequest(target=KeptTarget(text, "file"), options=Options(**options))  # type: ignore[arg-type]


def test_a_command_is_the_run_as_it_was_asked_for() -> None:
    asked = request(
        backward=True,
        runs=7,
        knobs={"single_node": "on"},
        inputs=("float32[8,16]:grad",),
    )
    assert run_again(asked, Setting(flags=("--verify",))) == (
        "fusiondoc diagnose m.py:net --runs 7 --backward --input 'float32[8,16]:grad' --knob single_node=on"
        " --verify"
    )
    more = run_again(asked, Setting(runs=14))
    assert "--runs 14" in more and "--runs 7" not in more
    off = run_again(asked, Setting(knobs={"single_node": "off"}))
    assert "--knob single_node=off" in off and "single_node=on" not in off


def test_a_command_of_a_program_runs_the_program() -> None:
    options = Options(
        script=True,
        script_args=("--lr", "1"),
        step_function="train_step",
        no_freeze=True,
    )
    module = KeptRequest(
        target=KeptTarget("package.train", "module"), options=options
    )
    assert run_again(module, Setting(flags=("--time",))) == (
        "fusiondoc diagnose -m package.train --no-freeze --step-function train_step --time -- --lr 1"
    )
    assert (
        run_again(request("train.py", script=True))
        == "fusiondoc diagnose train.py --script"
    )
    named = KeptRequest(
        target=KeptTarget("package.models:net", "module"),
        options=Options(recipes=("delayed",)),
    )
    assert (
        run_again(named) == "fusiondoc diagnose package.models:net --recipe delayed"
    )


@pytest.mark.parametrize(
    "name", ["$(touch x).py", "a b.py", "'; rm -rf ~ #.py", "`id`.py"]
)
def test_names_are_quoted(name: str) -> None:
    assert shlex.split(run_again(request(name)))[2] == name
    report = replace(foreign("blocks1.script.train.nvfuser"), target=Target(name))
    assert shlex.split(compare_logs(report)) == [
        "fusiondoc",
        "compare",
        name,
        "new.log",
    ]


def test_what_another_packed_is_never_run_again() -> None:
    own = Context(Observed(), request(), own=True)
    assert can_run_again(own)
    assert not can_run_again(replace(own, own=False))
    assert not can_run_again(replace(own, request=replace(request(), bundled=True)))
    assert not can_run_again(
        replace(own, request=replace(request(), masked=("script_args",)))
    )
    assert not can_run_again(replace(own, request=None))


# Where it is said


def with_command(command: str) -> Report:
    report = foreign("resnet18.script.eval.nnc")
    return replace(
        report, plan=(replace(report.plan[0], command=command), report.plan[1])
    )


def test_a_command_to_copy_is_on_one_line() -> None:
    command = "fusiondoc diagnose " + " ".join(
        f"--knob knob_{i}=on" for i in range(12)
    )
    lines = render(with_command(command), width=80).split("\n")
    assert f"    $ {command}" in lines
    for width in (40, 60, 80):
        text = render(
            report_from([str(FIXTURES / "captures" / "nvfuser-2.1.2-composite")]),
            width=width,
        )
    assert re.search(r"^ \$ fusiondoc parse \S+$", text, flags=re.M), text


def test_a_command_in_a_sentence_is_not_broken() -> None:
    text = "Write it otherwise, as the page says: fusiondoc explain hardswish, or try --knob single_node=on."
    for width in range(30, 90):
        from fusiondoc.rendering.drawing import drawn

        shown = drawn(prose(text), width, False)
        assert (
            "fusiondoc explain hardswish" in shown
            and "--knob single_node=on" in shown
        )
        assert " ".join(shown.split()) == text


def test_the_plan_comes_before_the_reasons_and_the_verdict_is_last() -> None:
    text = render(foreign("resnet18.script.eval.nnc"), width=100)
    assert (
        text.index("Do this first")
        < text.index("Not fused  ")
        < text.index("\nFindings\n")
    )
    last = " ".join(text.strip().split("\n\n")[-1].split())
    assert (
        last.startswith("Nothing fused: ")
        and "Do first: Set inplace=False on ReLU" in last
    )


def test_how_much_is_printed() -> None:
    report = foreign("mobilenet_v3.trace.train.nvfuser")
    sizes = {one: render(report, detail=one).count("\n") for one in Detail}
    assert (
        sizes[Detail.VERDICT]
        <= 4
        < sizes[Detail.SUMMARY]
        < sizes[Detail.USUAL]
        < sizes[Detail.ALL]
    )
    whole = render(report, detail=Detail.ALL)
    assert (
        "more: --format json has all" not in whole
        and "findings on operators above" not in whole
    )


def test_the_options_of_the_command_line(fusiondoc: Run) -> None:
    log = FOREIGN / "resnet18.script.eval.nnc.log.xz"
    quiet = fusiondoc("parse", log, "-q").stdout
    assert quiet.count("\n") <= 3 and quiet.startswith("Nothing fused: ")
    summary = fusiondoc("parse", log, "--summary").stdout
    assert "Do this first" in summary and "\nFindings\n" not in summary
    assert "\nFindings\n" in fusiondoc("parse", log, "-v").stdout


def test_a_comparison_in_one_line_and_in_a_few(fusiondoc: Run) -> None:
    sides = [
        FIXTURES / "compare" / f"{name}.log.xz" for name in ("before", "after")
    ]
    assert fusiondoc("compare", *sides, "-q").stdout == (
        "1 group (1 split); 1 operator newly unfused; 1 new finding\n"
    )
    summary = fusiondoc("compare", *sides, "--summary").stdout
    assert summary.startswith("A  ") and "\nGroups\n" not in summary
    whole = fusiondoc("compare", *sides).stdout
    first_block, last_line = summary.rsplit("\n\n", 1)
    assert whole.startswith(first_block) and whole.endswith(f"\n\n{last_line}")


def test_groups_that_differ_in_types_only_are_shown_once() -> None:
    report = foreign("mobilenet_v2.script.eval.nvfuser")
    text = render(report, width=120)
    assert "like it, for other types: G" in text
    heads = len(re.findall(r"^ G\d+", text, flags=re.M))
    assert heads < len(report.groups)
    named = sum(map(int, re.findall(r"and (\d+) groups? like it", text)))
    assert named + sum(
        g.count
        for g in report.groups
        if re.search(rf"^ {g.id}\b", text, flags=re.M)
    ) == sum(g.count for g in report.groups)
    assert len(
        re.findall(r"^ G\d+", render(report, detail=Detail.ALL), flags=re.M)
    ) == len(report.groups)


def test_codes_are_links_in_a_terminal_that_knows_them(fusiondoc: Run) -> None:
    report = foreign("resnet18.script.eval.nnc")
    linked = render(report, links=True)
    pages = re.findall(
        r"\x1b\]8;;file://(\S+?)\x1b\\\\?(FD\d{3})\x1b\]8;;\x1b", linked
    )
    assert pages and all(
        Path(page).name == f"{code}.md" and Path(page).exists()
        for page, code in pages
    )
    assert re.sub(r"\x1b\]8;;[^\x1b]*\x1b\\", "", linked) == render(report)
    piped = fusiondoc(
        "parse",
        FOREIGN / "resnet18.script.eval.nnc.log.xz",
        env={"FORCE_HYPERLINK": "1"},
    )
    assert "\x1b" not in piped.stdout
    assert can_link({"TERM_PROGRAM": "iTerm.app"}) and can_link(
        {"VTE_VERSION": "6800"}
    )
    assert not can_link({"TERM": "xterm-256color"}) and not can_link(
        {"VTE_VERSION": "4999"}
    )
    for off in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert not can_link({"FORCE_HYPERLINK": "1", **off})


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("none/report.html", "there is no folder none"),
        ("report.pdf", "no format has the ending .pdf"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [["diagnose", "gone.py"], ["parse", "gone.log"], ["compare", "a", "b"]],
)
def test_output_is_checked_before_anything_else(
    command: list[str], output: str, said: str, fusiondoc: Run, tmp_path: Path
) -> None:
    done = fusiondoc(*command, "-o", output)
    assert (
        done.returncode == 2 and said in done.stderr and "gone" not in done.stderr
    )
    assert not (tmp_path / ".fusiondoc").exists()


def test_another_ending_is_taken_with_a_format(
    fusiondoc: Run, tmp_path: Path
) -> None:
    log = FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz"
    assert (
        fusiondoc("parse", log, "-o", "r.pdf", "--format", "json").returncode == 0
    )
    assert json.loads((tmp_path / "r.pdf").read_text())["plan_note"].startswith(
        "All that NNC"
    )


def test_the_page_and_the_comment_begin_with_it() -> None:
    from fusiondoc.reports import html, markdown

    report = foreign("resnet18.script.eval.nnc")
    page = html.render(report)
    assert page.index("Do this first") < page.index('id="findings"')
    assert "Set inplace=False on ReLU" in page[: page.index('id="findings"')]
    comment = markdown.render(report)
    assert comment.index("**Do this first**") < comment.index("<details")


def test_no_text_of_a_plan_is_markup_or_a_command_to_the_terminal() -> None:
    from fusiondoc.reports import html, markdown

    nasty = "\x1b]0;x\x07<script>alert(1)</script> @user"
    change = PlannedChange(
        nasty,
        ChangeKind.MOVE,
        f"{nasty}:3",
        nasty,
        nasty,
        nasty,
        None,
        None,
        nasty,
        note=nasty,
    )
    report = replace(
        foreign("blocks1.script.train.nvfuser"), plan=(change,), plan_note=None
    )
    assert "\x1b" not in render(report) and "<script>alert" not in html.render(
        report
    )
    comment = markdown.render(report)
    assert "\x1b" not in comment and "<script>" not in re.sub(
        r"`[^`]*`|```.*?```", "", comment, flags=re.S
    )


@pytest.mark.torch
def test_the_edits_of_a_plan_make_the_groups_that_it_promises(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """On the real NNC: every line of the plan is changed as it says, and the groups
    are there."""
    text = (ROOT / "examples" / "residual_block.py").read_text(encoding="utf-8")
    (tmp_path / "model.py").write_text(text, encoding="utf-8")
    before = json.loads(
        fusiondoc(
            "diagnose", "model.py", "--backward", "--fuser", "nnc", "-f", "json"
        ).stdout
    )
    assert before["groups"] == [] and len(before["plan"]) == 2
    assert before["plan"][0]["unlocks"].startswith("2 groups of add+relu in [0-1]")
    lines = text.split("\n")
    for change in before["plan"]:
        for edit in change["edits"]:
            assert lines[edit["line"] - 1] == edit["before"]
            lines[edit["line"] - 1] = edit["after"]
    (tmp_path / "model.py").write_text("\n".join(lines), encoding="utf-8")
    after = json.loads(
        fusiondoc(
            "diagnose", "model.py", "--backward", "--fuser", "nnc", "-f", "json"
        ).stdout
    )
    forward = [group for group in after["groups"] if group["phase"] == "forward"]
    assert [(group["ops"], len(group["instances"])) for group in forward] == [
        (["aten::add", "aten::relu"], 2)
    ]
    assert after["plan"] == []


@pytest.mark.torch
def test_an_import_that_fails_is_said_once(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import no_such_module_here\nmodel = 1\ninputs = (1,)\n"
    )
    done = fusiondoc("diagnose", "model.py")
    assert (done.returncode, done.stdout) == (3, "")
    assert (done.stdout + done.stderr).count("ModuleNotFoundError") == 1
    report = json.loads(fusiondoc("diagnose", "model.py", "-f", "json").stdout)
    assert report["plan"][0]["codes"] == ["FD905"]


def test_an_interruption_is_no_failure_of_the_program() -> None:
    from fusiondoc.captures.ending import Result
    from fusiondoc.captures.probe_records import Failure
    from fusiondoc.diagnosis.diagnose import diagnose

    failure = Failure("forward", "KeyboardInterrupt", "", "Traceback", None)
    report = replace(foreign("blocks1.script.train.nvfuser"), groups=(), unfused=())
    context = Context(Observed(), result=Result(interrupted=True), error=failure)
    codes = {
        finding.code: finding.severity
        for finding in diagnose(report, context).findings
    }
    assert codes.get("FD902") == "note" and "FD905" not in codes


IN_PLACE = """
import torch

def plain(x, y):
    h = torch.sigmoid(x) * 2.0
    h += y
    return torch.tanh(h) * 2.0

def named_twice(x, y):
    h = torch.sigmoid(x) * 2.0
    skip = h
    h += y
    return torch.tanh(h) * skip

def number_between(x, y):
    h = torch.sigmoid(x) * y + 1.0
    most = float(h.abs().max())
    print("max", most)
    h = h / most
    return torch.tanh(h) * x + y

def of_a_view(x, y):
    h = torch.sigmoid(x) * 2.0
    h.view(-1).mul_(2.0)
    return torch.tanh(h) * y

inputs = (torch.randn(4, 8, requires_grad=True), torch.randn(4, 8))
without = tuple(one.detach() for one in inputs)
"""


@pytest.mark.torch
def test_what_is_changed_in_place_under_two_names_is_no_sure_change(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(IN_PLACE.replace(", requires_grad=True", ""))

    def plan_of(name: str, *options: str) -> dict[str, Any]:
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

    (change,) = plan_of("plain")["plan"]
    assert change["after"] == "h = h + y" and change["note"] is None
    assert plan_of("named_twice")["plan"] == []
    report = plan_of("of_a_view")
    assert report["coverage"]["fraction"] == 1.0 and report["plan"] == []
    assert (
        report["plan_title"] == "Not known without trying"
        and "FD230" in report["plan_note"]
    )
    assert (
        plan_of("number_between")["plan"] == []
    )  # a print that goes would join nothing: the number parts them
    (tmp_path / "net.py").write_text(IN_PLACE)
    (change,) = plan_of("plain", "--backward")[
        "plan"
    ]  # it ends a differentiable graph
    assert change["after"] == "h = h + y" and change["unlocks"].startswith(
        "joins 2 groups of this run"
    )
