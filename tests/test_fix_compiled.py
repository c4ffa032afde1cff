"""``fix`` of programs that torch.compile compiles: its changes, and those that it
keeps on real torch."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from conftest import FIXTURES, Run
from running import write

from fusiondoc import parse
from fusiondoc.captures.request import RunRequest, parse_target
from fusiondoc.changes.any_size import calls_compile, compiled_for_any_size
from fusiondoc.changes.branch_on_value import without_branches
from fusiondoc.changes.edits import changed_text
from fusiondoc.changes.layouts import with_copies, without_copies
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.changes_to_try.at_compilation import propose
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
from fusiondoc.fusers.inductor.kinds import AccessDifference, ApartCause
from fusiondoc.model.boundaries import WRITTEN_AND_READ, Boundary, BoundaryEnd
from fusiondoc.model.change_plan import ChangeKind, Version
from fusiondoc.model.compiled import CompiledReport, GraphBreakRow, RecompileRow
from fusiondoc.model.reasons.of_inductor import SharedAccess, StayedApart
from fusiondoc.model.reasons.reason import Reason


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "model = torch.compile(block)",
            "model = torch.compile(block, dynamic=True)",
        ),
        (
            "model = torch.compile(block,)",
            "model = torch.compile(block,dynamic=True)",
        ),
        (
            "model = torch.compile(block, mode='default')",
            "model = torch.compile(block, mode='default', dynamic=True)",
        ),
        ("model = torch.compile(  # a, b\n    (block)  # b, c\n)", None),
        (
            "@torch.compile\ndef f(x): return x",
            "@torch.compile(dynamic=True)\ndef f(x): return x",
        ),
        (
            "@torch.compile()\ndef f(x): return x",
            "@torch.compile(dynamic=True)\ndef f(x): return x",
        ),
        ("model = torch.compile(block, dynamic=False)", ""),
        ("model = torch.compile(block, **options)", ""),
        ("model = mine.compile(block)", ""),
    ],
)
def test_a_call_of_compile_gets_the_option_once(
    line: str, wanted: str | None
) -> None:
    text = f"import torch\nimport mine\n{line}\n"
    file = parsed_text(text, "m.py")
    assert file is not None
    edits = [edit for _, edit in compiled_for_any_size(file)]
    changed = changed_text(text, edits)
    assert len(edits) == (0 if wanted == "" else 1)
    assert calls_compile(file) is ("torch.compile" in line)
    if wanted:
        assert changed == f"import torch\nimport mine\n{wanted}\n"
    calls = [
        node for node in ast.walk(ast.parse(changed)) if isinstance(node, ast.Call)
    ]
    with_option = [
        call
        for call in calls
        if [given for given in call.keywords if given.arg == "dynamic"]
    ]
    assert len(with_option) == (0 if wanted == "" and "dynamic" not in line else 1)


PROGRAM = """
    import torch

    def model(x):
        y = torch.tanh(x) * 2
        print(y.shape)
        z = y.sin()
        print(z.shape)
        return z + 1

    model = torch.compile(model)
    inputs = (torch.randn(4, 4),)
    """


def program(
    folder: Path,
    breaks: tuple[int, ...],
    guards: tuple[str, ...],
    text: str = PROGRAM,
) -> UserProgram:
    """A program whose run broke its graph at these lines, and compiled it again for
    these guards."""
    path = write(folder, "prog.py", text)
    report = parse(FIXTURES / "inductor" / "2.13" / "norm")
    group = report.groups[0]
    nodes = tuple(
        replace(group.nodes[0], user_source=f"{path}:{line}") for line in (5, 7, 9)
    )
    compiled = CompiledReport(
        graphs=(),
        breaks=tuple(
            GraphBreakRow(f"{path}:{line}", "model", "GB0059", "print", (), 1)
            for line in breaks
        ),
        recompiles=(RecompileRow("model", f"{path}:4", guards, 1, False),)
        if guards
        else (),
        computed_again=(),
    )
    report = replace(
        report, groups=[replace(group, nodes=nodes)], compiled=compiled, unfused=[]
    )
    request = RunRequest(
        target=parse_target("prog.py", folder), python=path, cwd=folder
    )
    return UserProgram(
        report,
        request.target,
        request.options(),
        folder,
        training=None,
        is_module=False,
    )


def test_a_print_moves_only_where_the_graph_broke(tmp_path: Path) -> None:
    assert list(propose(program(tmp_path, (), ()))) == []
    # Behind the first print a name is bound that the second one reads: only the
    # second one can move.
    assert list(propose(program(tmp_path, (6,), ()))) == []
    (change,) = propose(program(tmp_path, (6, 8), ()))
    assert change.kind is ChangeKind.SPLIT and change.where[0].endswith("prog.py:8")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "if y.sum() > 0:\n    y = y * 2\nelse:\n    y = torch.relu(y)",
            "y = torch.where(y.sum() > 0, y * 2, torch.relu(y))",
        ),
        (
            "if (y > 1).any():\n    y = y.clamp(max=1)",
            "y = torch.where((y > 1).any(), y.clamp(max=1), y)",
        ),
        (
            "if y.mean() < 0:\n    return -y\nreturn y",
            "return torch.where(y.mean() < 0, -y, y)",
        ),
        (
            "if y.sum() > 0:\n    return y\nelse:\n    return y + 1",
            "return torch.where(y.sum() > 0, y, y + 1)",
        ),
        (
            "if y.sum() > 0:\n    y = torch.nn.functional.dropout(y)",
            None,
        ),  # draws numbers
        ("if y.sum() > 0:\n    y = y.add_(1)", None),
        ("if y.sum() > 0:\n    y = torch.add(y, 1, out=x)", None),
        ("if y.sum() > 0:\n    y = note(y)", None),
        ("if y.sum() > 0:\n    y = y + 1\n    print(y)", None),
        ("if y.sum() > 0:  # why\n    y = y + 1", None),
        ("if y.sum() > 0:\n    y = 1\nelse:\n    y = 2", None),
        ("if y.sum() > 0:\n    y = y + 1\nelse:\n    x = y + 1", None),
        ("if y.sum() > 0 and y.max() < 1:\n    y = y + 1", None),
        ("if y.sum():\n    y = y + 1", None),
    ],
)
def test_a_branch_on_a_value_becomes_a_choice_where_both_sides_only_compute(
    body: str, wanted: str | None
) -> None:
    text = (
        f"import torch\n\ndef model(x, y):\n{indent(body, '    ')}\n    return y\n"
    )
    file = parsed_text(text, "m.py")
    assert file is not None
    found = list(without_branches(file))
    assert len(found) == (wanted is not None)
    if wanted is not None:
        changed = changed_text(text, found[0][1].edits)
        assert (
            changed
            == f"import torch\n\ndef model(x, y):\n    {wanted}\n    return y\n"
        )
        torch = pytest.importorskip("torch")
        for sign in (1, -1):  # as before, whichever side is taken
            y = sign * torch.linspace(-1, 2, 6)
            assert torch.equal(run_text(changed, y), run_text(text, y))


def run_text(text: str, y: Any) -> Any:
    names: dict[str, Any] = {}
    exec(text, names)
    return names["model"](y.clone(), y.clone())


def test_a_branch_is_written_otherwise_where_it_broke_the_graph(
    tmp_path: Path,
) -> None:
    branch = "if x.sum() > 0:\n            y = y + 1\n        print(y.shape)"
    made = program(tmp_path, (6,), (), PROGRAM.replace("print(y.shape)", branch, 1))
    (change,) = propose(made)
    assert change.kind is ChangeKind.BRANCH and change.where[0].endswith(
        "prog.py:6"
    )


def test_a_recompile_proposes_one_compilation_for_any_size(tmp_path: Path) -> None:
    made = program(tmp_path, (), ("L['x'].size()[0] == 4",))
    (change,) = propose(made)
    assert change.kind is ChangeKind.DYNAMIC_SHAPES and change.where[0].endswith(
        "prog.py:11"
    )
    (file,) = made.files
    assert "torch.compile(model, dynamic=True)" in changed_text(
        file.source.text, change.edits
    )


def test_fewer_breaks_or_recompiles_are_better_with_no_more_launches() -> None:
    one = Version(2, 9, 3, 0, graph_breaks=1)
    assert Version(2, 9, 3, 0).better_than(one) and not one.better_than(
        Version(2, 9, 3, 0)
    )
    assert not Version(2, 9, 4, 0).better_than(one)
    assert not Version(1, 9, 2, 0, graph_breaks=1, recompiles=1).better_than(one)


def test_fewer_bytes_are_better_with_as_many_launches() -> None:
    one = Version(2, 9, 3, 0, bytes_moved=100)
    assert Version(2, 9, 3, 0, bytes_moved=99).better_than(one, fewer=True)
    assert not Version(2, 9, 3, 0, bytes_moved=100).better_than(one, fewer=True)
    assert not Version(2, 9, 4, 0, bytes_moved=10).better_than(one)
    assert not Version(2, 9, 3, 0, bytes_moved=99).better_than(
        Version(2, 9, 3, 0), fewer=True
    )


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("y = x.t().contiguous()", "y = x.t()"),
        ("y = (x + 1).contiguous()", "y = (x + 1)"),
        ("y = x.t().contiguous().view(2, 8)", "y = x.t().reshape(2, 8)"),
        ("y = x.contiguous(memory_format=torch.channels_last)", "y = x"),
        ("y = x.to(memory_format=torch.channels_last) + 1", "y = x + 1"),
        ("y = x.to(torch.float64, memory_format=torch.channels_last)", None),
        ("y = x.t().contiguous()\n    y += 1", None),
        ("y = x.t().contiguous()\n    y[0] = 1", None),
        ("y = x.t().contiguous().relu_()", None),
        ("y = torch.relu(x)", None),
    ],
)
def test_a_copy_to_another_layout_is_left_out_where_nothing_changes_in_place(
    line: str, wanted: str | None
) -> None:
    text = f"import torch\n\ndef model(x):\n    {line}\n    return y\n"
    file = parsed_text(text, "m.py")
    assert file is not None
    found = list(without_copies(file, 4))
    assert len(found) == (wanted is not None)
    if wanted is not None:
        changed = changed_text(text, found[0].edits)
        assert (
            changed
            == f"import torch\n\ndef model(x):\n    {wanted}\n    return y\n"
        )


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("y = x.transpose(0, 1)", "y = x.transpose(0, 1).contiguous()"),
        (
            "y = torch.permute(x, (1, 0))",
            "y = torch.permute(x, (1, 0)).contiguous()",
        ),
        ("y = x.t().contiguous()", None),
        ("y = x.t() + 1", None),
        ("y = mine.t(x)", None),
        ("y = x.t()\n    y += 1", None),
    ],
)
def test_a_view_that_gets_a_name_becomes_a_copy(
    line: str, wanted: str | None
) -> None:
    text = f"import torch\nimport mine\n\ndef model(x):\n    {line}\n    return y\n"
    file = parsed_text(text, "m.py")
    assert file is not None
    found = [changed_text(text, one.edits) for one in with_copies(file, 5)]
    assert found == ([text.replace(line, wanted)] if wanted is not None else [])


def test_a_copy_is_left_out_where_a_kernel_only_copies_or_two_use_two_layouts(
    tmp_path: Path,
) -> None:
    text = PROGRAM.replace("z = y.sin()", "z = y.t().contiguous()")
    made = program(tmp_path, (), (), text)
    (group,) = (one for one in made.report.groups if one.nodes[0].user_source)
    assert list(propose(made)) == []  # no group copies
    clone = replace(group.nodes[0], op="aten::clone")
    assert clone.user_source is not None and clone.user_source.endswith(":5")
    at_copy = replace(clone, user_source=clone.user_source.replace(":5", ":7"))
    made.report = replace(made.report, groups=[replace(group, nodes=(at_copy,))])
    (change,) = propose(made)
    assert change.kind is ChangeKind.LAYOUT and change.where[0].endswith(
        "prog.py:7"
    )
    # In a kernel that computes too, where that shares a tensor with another by
    # another order.
    computes = replace(group, nodes=(replace(at_copy, op="aten::sin"), at_copy))
    made.report = replace(made.report, groups=[computes], boundaries=())
    assert list(propose(made)) == []
    end = BoundaryEnd(group.id, None, group.kind)
    accesses = (SharedAccess("buf0", AccessDifference.ORDER),)
    cause = Reason.of(
        "FD262",
        StayedApart(cause=ApartCause.ACCESS, source="pair", accesses=accesses),
        True,
    )
    apart = Boundary(end, end, "f32[4, 4]", 64, WRITTEN_AND_READ, cause, ())
    made.report = replace(made.report, boundaries=(apart,))
    assert {one.title for one in propose(made)} == {
        change.title
    }  # once for each end


def test_an_operator_that_falls_back_is_written_with_others_at_its_line(
    tmp_path: Path,
) -> None:
    text = PROGRAM.replace("z = y.sin()", "z = torch.topk(y, 1)[0]")
    made = program(tmp_path, (), (), text)
    fallback = next(
        row
        for row in parse(FIXTURES / "inductor" / "2.13" / "fallback").unfused
        if row.op == "aten::abs"
    )
    line = made.report.groups[0].nodes[1].user_source
    assert line is not None and line.endswith(":7")
    made.report = replace(
        made.report, unfused=[replace(fallback, op="aten::topk", user_source=line)]
    )
    (change,) = propose(made)
    assert (
        change.kind is ChangeKind.COMPOSITION
        and change.after == "torch.max(y, -1, True)"
    )
    made.report = replace(
        made.report, unfused=[replace(fallback, op="lab::twice", user_source=line)]
    )
    made.__dict__.pop("rows", None)
    made.__dict__.pop("sites", None)
    assert list(propose(made)) == []


def test_the_plan_of_a_log_has_the_same_change(
    fusiondoc: Run, tmp_path: Path
) -> None:
    text = (
        "import torch\n\n\ndef model(x):\n"
        + "    # ...\n" * 78
        + "    return torch.fft.rfft(x).abs()\n"
    )
    write(tmp_path, "models/cases.py", text)
    log = FIXTURES / "inductor" / "2.13" / "fallback"
    done = fusiondoc("parse", log, "--source-root", tmp_path, "--format", "json")
    assert done.returncode == 0, done.stderr
    planned = [
        one
        for one in json.loads(done.stdout)["plan"]
        if one["kind"] == "composition"
    ]
    assert [one["where"] for one in planned] == ["models/cases.py:83"]
    assert planned[0]["after"].startswith(
        "return torch.linalg.vector_norm(torch.view_as_real(torch.fft"
    )
    assert [edit["line"] for edit in planned[0]["edits"]] == [83]


BLOCK = """
    import torch


    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, x):
            y = torch.tanh(x) * 2
            print("shape", y.shape)
            return self.inner(y.sin() + x)


    model = Block()
    inputs = (torch.randn(4, 8),)
    """


@pytest.mark.torch
@pytest.mark.nightly  # compiles twice; which changes are tried is held above
def test_a_print_between_two_kernels_goes_behind_them(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "block.py", BLOCK)
    options = (
        "--fuser",
        "inductor",
        "--runs",
        "1",
        "--no-time",
        "--format",
        "json",
    )
    done = fusiondoc("fix", "block.py", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["outcome"] for one in found["tried"]] == ["kept"]
    # The print still ends a graph, which is the last one now.
    assert (
        found["unchanged"]["graph_breaks"] == found["together"]["graph_breaks"] == 1
    )
    assert (found["unchanged"]["groups"], found["together"]["groups"]) == (2, 1)
    moved = [
        line[1:].strip()
        for line in found["diff"].splitlines()
        if line[:1] in "+-" and "print" in line
    ]
    assert moved == ['print("shape", y.shape)'] * 2


COPIES = """
    import torch


    def model(q, freqs, x, w):
        q_ = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        turned = torch.view_as_real(q_ * freqs).flatten(2).type_as(q)
        return turned, x.t().contiguous() @ w


    freqs = torch.polar(torch.ones(8, 4), torch.arange(32.0).reshape(8, 4))
    inputs = (torch.randn(4, 8, 8, dtype=torch.bfloat16), freqs, torch.randn(24, 16), torch.randn(24, 8))
    """


@pytest.mark.torch
@pytest.mark.nightly  # compiles three times; what is written, and what is better, is held above
def test_a_copy_and_a_call_go_where_that_is_proved(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "copies.py", COPIES)
    options = (
        "--fuser",
        "inductor",
        "--runs",
        "1",
        "--no-time",
        "--format",
        "json",
    )
    done = fusiondoc("fix", "copies.py", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(one["kind"], one["outcome"]) for one in found["tried"]] == [
        ("composition", "kept"),
        ("layout", "kept"),
    ]
    before, after = found["unchanged"], found["together"]
    assert (before["launches"], after["launches"]) == (5, 3)
    assert before["bytes_moved"] > after["bytes_moved"]
