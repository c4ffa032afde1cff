"""Which changes over several lines a plan has: prints behind what is computed,
numbers that stay tensors."""

from __future__ import annotations

import ast
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import Run
from plan_lines import plan_lines
from plans_made import with_plan
from test_plan_changes import Made, planned

from fusiondoc.captures.request import KeptRequest, KeptTarget
from fusiondoc.changes.line_edits import line_edits
from fusiondoc.changes.printed_later import prints_between
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.rules import Context
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.report import OpNode, Report
from fusiondoc.model.source import Options
from fusiondoc.parsers.observed import Observed
from fusiondoc.reports import sarif

HEAD = "import torch\nimport warnings\n\n\n"


def written(lines: list[str], head: str = "def f(self, x, y):") -> str:
    return HEAD + head + "\n    " + "\n    ".join(lines) + "\n"


def applied(text: str, edits: tuple[Edit, ...]) -> str:
    """The text with the edits made; lines that go leave none behind."""
    lines: list[str | None] = list(text.split("\n"))
    for edit in edits:
        assert lines[edit.line - 1] == edit.before
        lines[edit.line - 1] = edit.after or None
    return "\n".join(line for line in lines if line is not None)


class Printed(NamedTuple):
    edits: tuple[Edit, ...]
    pairs: frozenset[int]


def printed_later(text: str, pairs: list[tuple[int, int]]) -> list[Printed]:
    file = parsed_text(text, "m.py")
    assert file is not None
    found = prints_between(file, pairs)
    return [
        Printed(line_edits(file, "m.py", one.edits), one.pairs) for one in found
    ]


def number_kept(text: str, line: int, gradients: bool = False) -> tuple[Edit, ...]:
    return plan_lines(
        ChangeKind.NUMBER, text, line, op="aten::div", gradients=gradients
    )


FIRST, SECOND = "a = torch.relu(x * 2)", "b = torch.tanh(a + x)"


@pytest.mark.parametrize(
    ("lines", "pair", "after"),
    [
        (
            [FIRST, "print(a.size(0))  # why", "return torch.tanh(a + x)"],
            (6, 8),
            [
                FIRST,
                "result = torch.tanh(a + x)",
                "print(a.size(0))  # why",
                "return result",
            ],
        ),
        (
            [FIRST, "warnings.warn('slow')", SECOND, "return b"],
            (6, 8),
            [FIRST, SECOND, "warnings.warn('slow')", "return b"],
        ),
        (
            [FIRST, "print('one')", SECOND, "print('two')", "self.last = b * 2"],
            (6, 8),
            [FIRST, SECOND, "self.last = b * 2", "print('one')", "print('two')"],
        ),
        (
            [FIRST, "print('one')", "return torch.tanh(", "    a + x)"],
            (6, 8),
            [
                FIRST,
                "result = torch.tanh(",
                "    a + x)",
                "print('one')",
                "return result",
            ],
        ),
    ],
)
def test_what_is_printed_between_goes_behind(
    lines: list[str], pair: tuple[int, int], after: list[str]
) -> None:
    (found,) = printed_later(written(lines), [pair])
    assert applied(written(lines), found.edits) == written(after)
    assert found.pairs == {0}


@pytest.mark.parametrize(
    "lines",
    [
        [FIRST, "print(a)", "a = a * 2", "return a"],  # another a would be printed
        [FIRST, "print(a)", "a += x", "return a"],
        [FIRST, "print(a)", "b = a.relu_()", "return b"],
        [FIRST, "print(a)", "a[0] = 1", "return a"],
        [
            FIRST,
            "print(a)",
            "b = self.act(a)",
            "return b",
        ],  # which may work in place
        [FIRST, "print(self.last)", "self.last = a * 2"],
        [
            FIRST,
            "print(torch.rand(2))",
            SECOND,
            "return b",
        ],  # random numbers in another order
        [FIRST, "print(a.zero_())", SECOND, "return b"],
        [FIRST, "log(a)", SECOND, "return b"],  # who knows what it does
        [FIRST, "a2 = a; print(a)", SECOND, "return b"],
        [FIRST, "b = a", SECOND, "return b"],  # nothing is printed
    ],
)
def test_what_would_print_something_else_stays(lines: list[str]) -> None:
    assert list(printed_later(written(lines), [(6, 8)])) == []


def test_what_a_loop_or_a_branch_prints_stays() -> None:
    lines = [
        "for _ in range(3):",
        "    x = x * 2",
        "    print('here')",
        "    x = torch.tanh(x)",
        "return x",
    ]
    assert list(printed_later(written(lines), [(7, 9)])) == []


ITEM = "limit = a.max().item()"


@pytest.mark.parametrize(
    ("lines", "line", "after"),
    [
        ([FIRST, ITEM, "return torch.tanh(a / limit)"], 8,
         [FIRST, "limit = a.max()", "return torch.tanh(a / limit)"]),
        ([FIRST, ITEM, "print('limit', limit)", "return x - limit * y"], 9,
         [FIRST, "limit = a.max()", "print('limit', limit.item())", "return x - limit * y"]),
        ([FIRST, "return torch.tanh(a / torch.max(a).item())"], 7,
         [FIRST, "return torch.tanh(a / torch.max(a))"]),
    ],
)  # fmt: skip
def test_a_number_stays_the_tensor(
    lines: list[str], line: int, after: list[str]
) -> None:
    assert applied(written(lines), number_kept(written(lines), line)) == written(
        after
    )


def test_a_number_takes_no_part_in_gradients() -> None:
    (edit,) = number_kept(
        written([FIRST, ITEM, "return a / limit"]), 8, gradients=True
    )
    assert edit.after == "    limit = a.max().detach()"


@pytest.mark.parametrize(
    "lines",
    [
        [FIRST, ITEM, "return a / limit, limit"],  # the caller gets a number
        [FIRST, ITEM, "return a / limit if limit > 0 else a"],
        [FIRST, ITEM, "return torch.full([2], limit) + a / limit"],
        [FIRST, ITEM, "return a / (limit * 2)"],  # a number of its own
        [FIRST, ITEM, "return a ** limit"],
        [
            FIRST,
            "limit = a.item()",
            "return x / limit",
        ],  # of one dimension, perhaps
        [FIRST, "limit = a.max(0).values.item()", "return x / limit"],
        [FIRST, "limit: float = a.max().item()", "return x / limit"],
        [FIRST, ITEM, "return x / limit", "limit = 2.0"],
    ],
)
def test_a_number_that_is_needed_as_one_stays(lines: list[str]) -> None:
    assert number_kept(written(lines), 8) == ()


def test_a_number_of_arguments_that_may_be_numbers_stays() -> None:
    for head in ("def f(x, y: float):", "def f(x, y=2.0):"):
        text = written([FIRST, ITEM, "return a * (y / limit)"], head)
        assert number_kept(text, 8) == ()


GATE = """import torch


@torch.jit.script
def model(x, y):
    a = torch.relu(x * 2.0 + y)
    limit = a.max().item()
    b = torch.sigmoid(a / limit) * y
    print("gate")
    c = torch.tanh(b * 0.5 + x)
    return c * 3.0 - 1.0


inputs = (torch.randn(4, 4), torch.randn(4, 4))
"""


@pytest.mark.torch
def test_both_make_the_groups_that_the_plan_promises(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """On the real NNC: three groups and a division outside become two groups with
    it."""

    def run() -> dict[str, object]:
        return json.loads(
            fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "json").stdout
        )  # type: ignore[no-any-return]

    (tmp_path / "model.py").write_text(GATE, encoding="utf-8")
    before = run()
    plan = {one["kind"]: one for one in before["plan"]}  # type: ignore[attr-defined]
    assert set(plan) == {"number", "split"} and len(before["groups"]) == 3  # type: ignore[arg-type]
    assert plan["number"]["unlocks"] == "div joins 1 group of this run"
    assert plan["split"]["unlocks"] == "2 groups of this run become one"
    assert plan["split"]["where"].endswith("model.py:9")
    assert {one["command"] for one in plan.values()} == {
        "fusiondoc fix model.py --fuser nnc"
    }
    edits = tuple(Edit(**edit) for one in plan.values() for edit in one["edits"])
    (tmp_path / "model.py").write_text(applied(GATE, edits), encoding="utf-8")
    after = run()
    assert len(after["groups"]) == 2 and after["plan"] == []  # type: ignore[arg-type]
    assert not [row for row in after["unfused"] if row["op"] == "aten::div"]  # type: ignore[attr-defined]


class Files:
    """The user's only file."""

    def source(self, file: str) -> str:
        return written([FIRST, "print('here')", SECOND, "return b"])


def printed_between(
    middle: str | None = None, fuser: str = "nnc", file: str = "m.py"
) -> Report:
    """Two groups, of the lines before and after a print; something may be between
    them too."""
    made = Made()
    first = made.node("group")
    between = made.node(middle, "FD201") if middle is not None else None
    second = made.node("group")
    made.nodes[second] = replace(made.nodes[second], group="G2")
    edges = [(first, second)]
    if between is not None:
        edges += [(first, between), (between, second)]
    report = made.report(*edges, texts=Files())
    group = report.groups[0]
    each = [
        replace(
            group, id=name, nodes=(OpNode("aten::tanh", None, f"{file}:{line}"),)
        )
        for name, line in (("G1", 6), ("G2", 8))
    ]
    state = replace(report.fuser, effective=fuser, requested=fuser)
    return replace(report, groups=tuple(each), fuser=state)


def test_groups_that_only_a_print_parts_become_one() -> None:
    (change,) = planned(printed_between()).plan
    assert (change.kind, change.where) == (ChangeKind.SPLIT, "m.py:7")
    assert (
        change.unlocks == "2 groups of this run become one"
        and change.gain_bytes == 2 * 4 * 8 * 4
    )
    assert change.before == "print('here')\nb = torch.tanh(a + x)\nreturn b"
    assert change.after == "b = torch.tanh(a + x)\nprint('here')\nreturn b"


def test_a_print_between_differentiable_graphs_is_found() -> None:
    """Where gradients are recorded, the plan has a graph of its own on either side,
    with a group in it."""
    report = printed_between()
    (plan,) = report.programs
    regions = tuple(
        replace(
            node,
            kind="region",
            op="prim::DifferentiableGraph",
            group=None,
            program=f"P{number}",
        )
        for number, node in enumerate(plan.nodes, 2)
    )
    inner = [
        replace(plan, id=f"P{n}", nodes=(node,), edges=())
        for n, node in enumerate(plan.nodes, 2)
    ]
    trained = replace(report, programs=(replace(plan, nodes=regions), *inner))
    (change,) = planned(trained).plan
    assert (change.kind, change.where) == (ChangeKind.SPLIT, "m.py:7")
    assert change.unlocks == "2 groups of this run become one"
    more = replace(
        trained,
        programs=(trained.programs[0], *(replace(one, cut=1) for one in inner)),
    )
    assert planned(more).plan == ()  # the log does not say what else is in them


@pytest.mark.parametrize(
    "report",
    [
        printed_between("aten::cumsum"),  # the second group waits for it
        printed_between(file="/usr/lib/python3.10/site-packages/timm/m.py"),
    ],
    ids=["waits", "package"],
)
def test_groups_that_more_than_a_print_parts_stay(report: Report) -> None:
    assert ChangeKind.SPLIT not in [one.kind for one in planned(report).plan]


def test_a_trace_holds_no_print() -> None:
    asked = KeptRequest(
        target=KeptTarget("m.py:net", "file"), options=Options(trace=True)
    )
    found = with_plan(printed_between(), Context(Observed(), request=asked))
    assert found.plan == ()


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ([FIRST, "h = a.view(4, 8)", "return torch.tanh(h * 0.5) * 3.0"],
         [FIRST, "return (torch.tanh(a * 0.5) * 3.0).view(4, 8)"]),
        ([FIRST, "a = a.view(4, 8)", "a = torch.tanh(a)", "return a + y"],
         [FIRST, "a = torch.tanh(a)", "a = a.view(4, 8)", "return a + y"]),
        ([FIRST, "h = a.view(4, 8).relu()", "return torch.tanh(h)"],
         [FIRST, "h = a.relu()", "return torch.tanh(h).view(4, 8)"]),
    ],
)  # fmt: skip
def test_a_view_goes_around_the_next_line(
    lines: list[str], after: list[str]
) -> None:
    edits = plan_lines(ChangeKind.MOVE_VIEW, written(lines), 7, op="aten::view")
    assert applied(written(lines), edits) == written(after)


def test_a_flip_goes_around_the_next_line() -> None:
    lines = ["h = torch.flip(x, [0])", "return h.tanh() + 1"]
    edits = plan_lines(ChangeKind.MOVE, written(lines), 6, op="aten::flip")
    assert applied(written(lines), edits) == written(
        ["return torch.flip(x.tanh() + 1, [0])"]
    )


@pytest.mark.parametrize(
    "lines",
    [
        ["h = x.view(4, 8)", "return torch.softmax(h, 1)"],
        [
            "h = x.view(4, 8)",
            "return torch.tanh(h) + y",
        ],  # y would need the view too
        ["h = x.view(4, 8)", "return torch.tanh(h) * h"],
        ["h = x.view(4, 8)", "z = torch.tanh(h)", "return z + h"],  # read later
        ["h = x.view(4, 8)", "return h"],
        ["h = x.view(4, 8)", "x = torch.tanh(h)", "z = h", "return x"],
    ],
)
def test_a_view_stays_where_more_is_read_of_it(lines: list[str]) -> None:
    assert (
        plan_lines(ChangeKind.MOVE_VIEW, written(lines), 6, op="aten::view") == ()
    )


# What a reader of SARIF applies


def fixed(text: str, report: Report) -> list[str]:
    """The file with each fix of the SARIF document applied alone, and with all of
    them, by their regions."""
    results = json.loads(sarif.render(report))["runs"][0]["results"]
    fixes = [
        one["fixes"][0]["artifactChanges"][0]["replacements"]
        for one in results
        if "fixes" in one
    ]
    starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def made(replacements: list[dict[str, dict[str, object]]]) -> str:
        pieces = []
        for one in replacements:
            region: dict[str, int] = one["deletedRegion"]  # type: ignore[assignment]
            start = starts[region["startLine"] - 1] + region["startColumn"] - 1
            end = starts[region["endLine"] - 1] + region["endColumn"] - 1
            pieces.append((start, end, str(one["insertedContent"]["text"])))
        pieces.sort(reverse=True)
        assert all(
            later[0] >= one[1] for later, one in itertools.pairwise(pieces)
        ), "they overlap"
        after = text
        for start, end, new in pieces:
            after = after[:start] + new + after[end:]
        ast.parse(after)
        return after

    return [*map(made, fixes), made([one for each in fixes for one in each])]


def with_changes(text: str, *changes: tuple[Edit, ...]) -> Report:
    base = planned(printed_between())
    plan = tuple(
        replace(base.plan[0], edits=edits, where=f"m.py:{edits[0].line}")
        for edits in changes
    )
    return replace(base, plan=plan, findings=(), texts=None)


PRINTS = [FIRST, ITEM, "b = torch.tanh(a / limit)", "print('limit', limit)"]


@pytest.mark.parametrize("number_first", [True, False])
@pytest.mark.parametrize(
    ("last", "after"),
    [
        (
            ["b = torch.relu(b)", "return b"],
            ["b = torch.relu(b)", "PRINT", "return b"],
        ),
        (
            ["return torch.relu(b)"],
            ["result = torch.relu(b)", "PRINT", "return result"],
        ),
        (["return b / limit"], ["result = b / limit", "PRINT", "return result"]),
    ],
)
def test_fixes_of_one_line_make_the_file_of_both(
    last: list[str], after: list[str], number_first: bool
) -> None:
    """The number is printed on the line that moves."""
    text = written([*PRINTS, *last])
    number = number_kept(text, 8)
    (moved,) = printed_later(text, [(8, 10)])
    both = (number, moved.edits) if number_first else (moved.edits, number)
    printed = [
        one.replace("PRINT", "print('limit', limit.item())") for one in after
    ]
    wanted = written([FIRST, "limit = a.max()", PRINTS[2], *printed])
    # One fix holds both: alone and together they make the same.
    assert fixed(text, with_changes(text, *both)) == [wanted, wanted]
    results = json.loads(sarif.render(with_changes(text, *both)))["runs"][0][
        "results"
    ]
    assert (
        "The fix of (1 of 2) changes these lines too."
        in results[1]["message"]["text"]
    )


def test_a_line_that_moves_leaves_no_empty_line() -> None:
    report = planned(printed_between())
    text = written([FIRST, "print('here')", SECOND, "return b"])
    after = written([FIRST, SECOND, "print('here')", "return b"])
    assert fixed(text, report) == [after, after]


def test_fixes_of_other_lines_stay_apart() -> None:
    text = written(["x += y", "y -= x", "return x"])
    one = Edit("m.py", 6, "    x += y", "    x = x + y")
    other = Edit("m.py", 7, "    y -= x", "    y = y - x")
    made = fixed(text, with_changes(text, (one,), (other,)))
    assert (
        made[2] == written(["x = x + y", "y = y - x", "return x"])
        and len(set(made)) == 3
    )


def test_of_fixes_that_cannot_both_be_the_first_stays() -> None:
    text = written(["x += y", "return x"])
    one = Edit("m.py", 6, "    x += y", "    x = x + y")
    other = Edit("m.py", 6, "    x += y", "    x = torch.add(x, y)")
    assert (
        fixed(text, with_changes(text, (one,), (other,)))
        == [written(["x = x + y", "return x"])] * 2
    )
