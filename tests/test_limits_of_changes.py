"""Decisions on changes at their limits: which are found, what they gain, when one
is better than another."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest
from test_plan_changes import TENSOR, Made, planned

from fusiondoc.changes.change import Change
from fusiondoc.changes.moved_views import moved_over_lines
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis import next_steps
from fusiondoc.diagnosis.changes_of_operators import change_of
from fusiondoc.diagnosis.gains import Gain, Rated, best
from fusiondoc.diagnosis.joined_changes import joined
from fusiondoc.diagnosis.planned_changes import SuggestedChange, planned_step
from fusiondoc.diagnosis.rules import Context, RunFacts, run_facts
from fusiondoc.diagnosis.shown_operators import ShownOperators
from fusiondoc.diagnosis.unlocked import Plans, WouldBeGroup
from fusiondoc.graph.shared_memory import hands_on
from fusiondoc.model.change_plan import (
    ChangeKind,
    Edit,
    PlannedChange,
    Try,
    Version,
)
from fusiondoc.model.reasons import Condition, ControlFlow
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Unfused
from fusiondoc.parsers.observed import Observed

RUN = RunFacts(
    "nnc",
    None,
    False,
    False,
    False,
    None,
    frozenset(["Float"]),
    frozenset(["cpu"]),
    True,
    None,
)


def outside(op: str, code: str, phase: str = "forward", **more: object) -> Unfused:
    row = Unfused(
        op, "/m.py:5:8", "/m.py:5", phase, 1, Reason(code, "why", False), ()
    )
    return replace(row, **more)  # type: ignore[arg-type]


def kind_of(row: Unfused, run: RunFacts) -> ChangeKind | None:
    found = change_of(row, run)
    return found.kind if found is not None else None


# -- which change an operator suggests -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "kind"),
    [("aten::flip", ChangeKind.MOVE), ("aten::permute", ChangeKind.MOVE_VIEW)],
)
def test_what_a_gradient_formula_moves_is_not_on_a_line_of_the_program(
    op: str, kind: ChangeKind
) -> None:
    assert kind_of(outside(op, "FD226"), RUN) is kind
    assert kind_of(outside(op, "FD226", "backward"), RUN) is not kind


@pytest.mark.parametrize("code", ["FD216", "FD230", "FD231"])
def test_in_place_is_written_out_of_place_whatever_stopped_there(code: str) -> None:
    assert kind_of(outside("aten::mul_", code), RUN) is ChangeKind.OUT_OF_PLACE


def test_in_place_without_a_gradient_formula_is_left_alone_in_the_forward_pass() -> (
    None
):
    training = replace(RUN, gradients=True)
    assert (
        kind_of(outside("aten::mish_", "FD231"), training)
        is not ChangeKind.OUT_OF_PLACE
    )
    assert (
        kind_of(outside("aten::mish_", "FD231", "backward"), training)
        is ChangeKind.OUT_OF_PLACE
    )
    assert kind_of(outside("aten::mish_", "FD231"), RUN) is ChangeKind.OUT_OF_PLACE


def test_no_grad_and_freezing_are_for_inference() -> None:
    row = outside("aten::add", "FD231")
    assert kind_of(row, replace(RUN, gradients=True)) is ChangeKind.NO_GRAD
    assert kind_of(row, replace(RUN, gradients=True, backward=True)) is None
    assert kind_of(row, RUN) is None
    branch = Reason(
        "FD229",
        "why",
        False,
        ControlFlow(Condition("attribute", "self.flag"), in_formula=False),
    )
    row = replace(outside("prim::If", "FD229"), reason=branch)
    assert kind_of(row, RUN) is ChangeKind.FREEZE
    assert kind_of(row, replace(RUN, backward=True)) is None
    assert kind_of(row, replace(RUN, frozen=True)) is None


def test_a_view_is_written_otherwise_where_it_keeps_others_out() -> None:
    assert (
        kind_of(outside("aten::split", "FD226", keeps_out=2), RUN)
        is ChangeKind.RECIPE
    )
    assert kind_of(outside("aten::split", "FD226"), RUN) is None


# -- what changes gain ---------------------------------------------------------------------------------------

IN_PLACE = (
    "mul_",
    "sub_",
    "div_",
    "sigmoid_",
    "tanh_",
    "exp_",
    "log_",
    "sqrt_",
    "abs_",
    "neg_",
    "floor_",
)


@pytest.mark.parametrize(("before", "is_found"), [(11, True), (12, False)])
def test_the_gain_of_the_twelve_changes_of_most_operators_is_worked_out(
    before: int, is_found: bool
) -> None:
    made = Made()
    for op in (*IN_PLACE, "round_")[:before]:
        made.node(
            f"aten::{op}", "FD230", count=2
        )  # beside nothing, so that it gains nothing
    first = made.node("aten::add_", "FD230")
    made.node("aten::tanh", "FD227")
    plan = planned(made.report((first, first + 1), groups=())).plan
    assert [one.ops for one in plan] == ([("aten::add_",)] if is_found else [])


def test_a_gain_counts_the_groups_that_go() -> None:
    group = WouldBeGroup(
        frozenset([1]), frozenset([1]), ("aten::mul",), ("G1", "G2", "G3"), 3, 8
    )
    assert Gain.of([group]) == Gain(1, 8, 2)
    assert Gain.of([replace(group, joined=1)]).joined == 0


def test_what_the_user_has_to_check_counts_without_the_changes_beside_it() -> None:
    made = Made()
    made.node("aten::relu", "FD227")
    view = made.node("aten::permute", "FD226")
    add = made.node("aten::add_", "FD230")
    made.node("aten::tanh", "FD227")
    report = made.report((0, 1), (1, 2), (2, 3), groups=())
    run = run_facts(report, Context(Observed()))
    changes = [
        Change(ChangeKind.MOVE_VIEW, "move it", rows=(view,)),
        Change(ChangeKind.OUT_OF_PLACE, "out of place", rows=(add,)),
    ]
    found = best(
        changes,
        lambda _: Plans(report, run.fuser, run.torch, run.gradients),
        report,
    )
    assert [one.change.kind for one in found] == [ChangeKind.OUT_OF_PLACE]


def test_a_plan_has_three_changes_of_which_what_may_not_hold_counts_half() -> None:
    made = Made()
    edges = []
    for op in ("aten::add_", "aten::mul_", "aten::sub_", "aten::div_"):
        first = made.node("aten::relu", "FD227", types="Tensor")
        (
            made.node(op, "FD230", types="Tensor"),
            made.node("aten::tanh", "FD227", types="Tensor"),
        )
        edges += [(first, first + 1), (first + 1, first + 2)]
    last = made.node("aten::exp", "FD227", types="Tensor")
    report = made.report(*edges, (last - 2, last), groups=())
    plan = planned(report).plan
    assert len(plan) == 3 and plan[0].ops == ("aten::div_",)  # of four operators
    rows = [row for row, one in enumerate(report.unfused) if one.op.endswith("_")]
    changes = [
        Change(ChangeKind.OUT_OF_PLACE, str(row), rows=(row,)) for row in rows
    ]
    changes[-1] = replace(changes[-1], conditional=True)
    found = best(changes, lambda _: Plans(report, "nnc", None), report)
    assert rows[-1] not in [one.change.rows[0] for one in found]


def test_what_an_inner_branch_holds_goes_with_the_outer_one_that_never_ran_it() -> (
    None
):
    made = Made()
    add, outer = made.node("aten::add", "FD229"), made.node("prim::If", "FD229")
    inner = made.node("prim::If", "FD232", inside=outer)
    never = made.node("aten::relu", "FD232", inside=inner)
    mul = made.node("aten::mul", "FD229")
    report = made.report((add, never), (add, mul), groups=())
    (group,) = Plans(report, "nnc", None).with_changes({outer, add, mul})
    assert group.ops == ("aten::add", "aten::mul")


@pytest.mark.parametrize("is_given", [True, False])
def test_what_reads_given_memory_is_not_moved_past_what_changes_it(
    is_given: bool,
) -> None:
    """``for p in params: p.add_(1.0); total += p.square()``: elements of a list may
    be one tensor."""
    made = Made()
    for _ in range(2):
        made.node("aten::zeros" if not is_given else "aten::add_", "FD230")
        made.node("aten::square", "FD233")
    last = made.node("aten::add", "FD227")
    (group,) = Plans(
        made.report((1, last), (3, last), groups=()), "nnc", None
    ).with_changes({1, 3})
    assert group.ops == (
        "aten::square",
        *["aten::square"] * (not is_given),
        "aten::add",
    )


@pytest.mark.parametrize(("fuser", "op", "is_sure"), [
    ("nvfuser", "aten::sum", False), ("nvfuser", "aten::sign", True), ("nnc", "aten::sum", True),
])  # fmt: skip
def test_a_reduction_that_makes_two_groups_one_is_not_promised_where_readers_are_joined(
    fuser: str, op: str, is_sure: bool
) -> None:
    made = Made()
    made.node("group"), made.node(op, "FD201"), made.node("group")
    (group,) = Plans(made.report((0, 1), (1, 2)), fuser, "2.1.2").with_changes({0})
    assert (group.joined, group.sure) == (2, is_sure)


def test_no_promise_counts_on_a_change_that_is_not_shown() -> None:
    """``sub`` and ``masked_fill`` would be one group; ``sub`` is the fourth of the
    plan."""
    made = Made()
    sub, fill = (
        made.node("aten::sub_", "FD230"),
        made.node("aten::masked_fill", "FD201"),
    )
    kept, add = (
        made.node("aten::masked_fill", "FD201"),
        made.node("aten::add", "FD225"),
    )
    made.node("group"), made.node("aten::abs_", "FD230"), made.node("group")
    report = made.report((sub, fill), (kept, add), (4, 5), (5, 6))
    changes = [
        Change(ChangeKind.RECIPE, "where", rows=(1, 2)),
        Change(ChangeKind.OUT_OF_PLACE, "sub", rows=(0,), conditional=True),
        Change(ChangeKind.OUT_OF_PLACE, "abs", rows=(4,)),
    ]
    plans = Plans(report, "nnc", None)
    everything = best(changes, lambda _: plans, report)
    assert {one.change.title: one.gain.operators for one in everything} == {
        "where": 4,
        "sub": 2,
        "abs": 1,
    }
    further = Rated(
        Change(ChangeKind.KNOB, "on"), Gain(9, 10**9), everything[0].groups
    )
    shown = best(changes, lambda _: plans, report, [further])
    assert {one.change.title: one.gain.operators for one in shown} == {
        "on": 9,
        "where": 2,
        "abs": 1,
    }


def test_what_has_no_lines_is_no_part_of_a_change_that_has_some() -> None:
    """Of two sums one can be written, and nothing is promised of the other
    there."""
    made = Made()
    made.node("aten::sum", "FD211"), made.node("aten::sum", "FD211")
    report = made.report(groups=())
    one = Change(ChangeKind.DIMENSIONS, "name dimensions", rows=(0,))
    lines = (Edit("/m.py", 5, "    s = x.sum()", "    s = x.sum([0, 1])"),)
    for first, expected in (
        (replace(one, lines=lines), [(0,), (1,)]),
        (one, [(0, 1)]),
    ):
        found = joined([first, replace(one, rows=(1,))], report, RUN)
        assert [change.rows for change in found] == expected


def test_the_dimensions_of_what_a_group_makes_are_those_of_its_results() -> None:
    made = Made()
    group = made.node("group")
    total = made.node("aten::sum", "FD211", types="Tensor")
    report = made.report((group, total))
    (plan,) = report.programs
    report = replace(
        report,
        programs=(
            replace(plan, nodes=(plan.nodes[0], replace(plan.nodes[1], first=0))),
        ),
    )
    for outputs, rank in (
        ((TENSOR,), 2),
        ((TENSOR, "Float(4, device=cpu)"), None),
        ((), None),
    ):
        groups = tuple(replace(one, outputs=outputs) for one in report.groups)
        assert (
            ShownOperators(replace(report, groups=groups)).known_rank(
                report.unfused[0]
            )
            == rank
        )


def advised(change: str, *codes: str) -> SuggestedChange:
    return SuggestedChange(
        Change(ChangeKind.FUSER, change, codes=codes), "an effect"
    )


def as_planned(*steps: SuggestedChange) -> list[PlannedChange]:
    report = Made().report(groups=())
    return [planned_step(one, report, Context(Observed())) for one in steps]


def test_a_plan_has_a_change_of_each_frontend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three changes of TorchScript alone; where Transformer Engine has one, its
    place is kept."""
    made = Made()
    edges = []
    for op in ("aten::add_", "aten::mul_", "aten::sub_", "aten::div_"):
        first = made.node("aten::relu", "FD227", types="Tensor")
        (
            made.node(op, "FD230", types="Tensor"),
            made.node("aten::tanh", "FD227", types="Tensor"),
        )
        edges += [(first, first + 1), (first + 1, first + 2)]
    report = made.report(*edges, groups=())
    assert len(planned(report).plan) == 3
    other = advised("Build the operations with te.ops.Sequential")
    monkeypatch.setattr(next_steps, "te_changes", lambda report, context: [other])
    plan = planned(replace(report, te=report.te or object())).plan
    assert len(plan) == 3 and [plan[-1]] == as_planned(other)


def test_a_finding_is_in_a_plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (
        advised("Run it five times", "FD101"),
        advised("Run it longer", "FD101", "FD302"),
    )
    later = advised("Set the strategy", "FD302")
    monkeypatch.setattr(
        next_steps, "blocking_steps", lambda report, context: [first]
    )
    monkeypatch.setattr(
        next_steps, "later_steps", lambda report, context, changes: [again, later]
    )
    plan = planned(Made().report(groups=())).plan
    assert list(plan) == as_planned(first, later)


def test_two_operators_of_a_plan_are_no_group_where_one_is_a_view() -> None:
    made = Made()
    (
        made.node("aten::permute", "FD226"),
        made.node("aten::add_", "FD230", types=TENSOR),
    )
    report = made.report((0, 1), groups=())
    assert Plans(report, "nnc", None).with_changes({1}) == []


# -- lines that move -----------------------------------------------------------------------------------------


def moved(*lines: str) -> int:
    """How many ways there are to move the view of the first line."""
    text = "import torch\ndef f(x, y):\n" + "".join(
        f"    {line}\n" for line in lines
    )
    file = parsed_text(text, "m.py")
    assert file is not None
    return len(list(moved_over_lines(file, 3)))


@pytest.mark.parametrize(
    ("lines", "ways"),
    [
        (["h = x.view(4, -1)", "g = torch.tanh(h)", "return g.sum()"], 1),
        (["h = x.view(4, -1)", "g = torch.tanh(h)", "return g.sum() + h"], 0),
        (
            [
                "h = x.view(4, -1)",
                "h = torch.tanh(h)",
                "g = torch.exp(h)",
                "return g.sum()",
            ],
            1,
        ),
        (["h = x.view(4, -1)", "return torch.tanh(h)"], 1),
        (["h = x.view(4, -1)", "g = torch.tanh(h) * y", "return g + h"], 0),
    ],
)
def test_a_view_moves_unless_its_result_is_read_later(
    lines: list[str], ways: int
) -> None:
    assert moved(*lines) == ways


def test_of_two_views_the_first_stays_where_more_reads_its_result() -> None:
    lines = ["a = x.view(4, -1)", "h = torch.flip(a, [0])", "g = torch.tanh(h)"]
    text = "import torch\ndef f(x):\n" + "".join(
        f"    {line}\n" for line in [*lines, "return g + a"]
    )
    file = parsed_text(text, "m.py")
    assert file is not None
    assert list(moved_over_lines(file, 3)) == []
    (alone,) = moved_over_lines(file, 4)
    assert len(alone.statements) == 1


@pytest.mark.parametrize(
    ("lines", "is_read"),
    [
        (["h = x * 2", "y = h.add_(1)", "return y"], False),
        (["h = x * 2", "y = h.add_(1)", "return y + h"], True),
        (["h = x * 2", "h = h.add_(1)", "return h"], False),
        (
            ["h = x * 2", "for _ in range(3):", "    y = h.add_(1)", "return y"],
            True,
        ),
        (
            [
                "y = x",
                "for _ in range(3):",
                "    h = y * 2",
                "    y = h.add_(1)",
                "return y",
            ],
            False,
        ),
        (
            [
                "h = y = w = x",
                "for _ in range(3):",
                "    w = w + h",
                "    h = y * 2",
                "    y = h.add_(1)",
                "return w",
            ],
            True,
        ),
        (
            ["h = x * 2", "if h.add_(1).sum() > 0:", "    return h", "return x"],
            True,
        ),
    ],
)
def test_a_name_is_read_after_an_update_where_torch_gives_another_result_out_of_place(
    lines: list[str], is_read: bool
) -> None:
    torch = pytest.importorskip("torch")
    text = "def f(x):\n" + "".join(f"    {line}\n" for line in lines)
    file = parsed_text(text, "m.py")
    assert file is not None
    calls = [node for node in file.nodes if isinstance(node, ast.Call)]
    (call,) = (
        one
        for one in calls
        if isinstance(one.func, ast.Attribute) and one.func.attr == "add_"
    )
    assert file.reads_after(call, "h") == is_read
    results = []
    for program in (text, text.replace("add_", "add")):
        names: dict[str, Any] = {}
        exec(program, names)
        results.append(names["f"](torch.ones(3)).tolist())
    assert (results[0] != results[1]) == is_read


def test_a_cast_to_its_own_type_may_hand_its_input_on_and_one_to_another_type_does_not() -> (
    None
):
    torch = pytest.importorskip("torch")
    x, made = torch.ones(4), Made()
    for wanted, printed in (
        (torch.float32, "Float(4)"),
        (torch.float64, "Double(4)"),
    ):
        node = made.nodes[made.node("aten::to")]
        shares = x.to(wanted).data_ptr() == x.data_ptr()
        assert (
            hands_on(replace(node, inputs=("Float(4)",), outputs=(printed,)))
            == shares
        )
        assert hands_on(replace(node, inputs=("Tensor",), outputs=(printed,)))


# -- better, and helps ---------------------------------------------------------------------------------------


def test_no_version_with_a_fallback_more_is_better() -> None:
    one, other = Version(2, 4, 5, 0), Version(1, 9, 2, 0)
    assert other.better_than(one)
    assert not replace(other, fallbacks=1).better_than(one)
    assert replace(other, fallbacks=1).better_than(replace(one, fallbacks=1))


def test_more_operators_in_groups_are_no_gain_where_one_was_replaced_by_several() -> (
    None
):
    one, other = Version(2, 4, 5, 0), Version(2, 6, 5, 0)
    assert other.better_than(one) and not other.better_than(one, fewer=True)
    assert Version(2, 6, 4, 0).better_than(one, fewer=True)


def test_a_try_helps_where_it_fuses_more_without_a_fallback_more() -> None:
    base = Try("as it is", (), 1, 2, 3, 0, None, None, 0)
    more = replace(base, ops_fused=4, unfused=1)
    assert more.helps(base)
    assert not replace(more, fallbacks=1).helps(base)
    assert replace(more, fallbacks=1).helps(replace(base, fallbacks=1))
