"""Which changes a plan has: views and branches between groups, milliseconds,
Transformer Engine."""

from __future__ import annotations

import ast
import json
import lzma
import re
import tarfile
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import FIXTURES
from plans_made import advice_on, with_plan
from test_te_command import capture

from fusiondoc.captures.capture import RECORDS
from fusiondoc.captures.request import KeptRequest, KeptTarget
from fusiondoc.changes.change import Change
from fusiondoc.changes.recipes import RECIPES
from fusiondoc.cli.explain import PAGES
from fusiondoc.diagnosis.changes_of_operators import change_of
from fusiondoc.diagnosis.commands import to_keep
from fusiondoc.diagnosis.lines_of_changes import ALL_OUT_OF_PLACE
from fusiondoc.diagnosis.planned_changes import in_their_names
from fusiondoc.diagnosis.recipe_pages import recipe_page
from fusiondoc.diagnosis.rules import Context, run_facts
from fusiondoc.diagnosis.unlocked import Plans
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.model.change_plan import ChangeKind, Edit, Try
from fusiondoc.model.reasons import Condition, ControlFlow
from fusiondoc.model.reasons import Detail as ReasonDetail
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import Setting
from fusiondoc.model.report import (
    Evidence,
    Finding,
    OpNode,
    Program,
    ProgramNode,
    Report,
    Unfused,
)
from fusiondoc.model.runs import KnobState, Steps
from fusiondoc.model.source import Options
from fusiondoc.parsers.observed import Observed
from fusiondoc.rendering.drawing import Detail
from fusiondoc.reports import render_report
from fusiondoc.reports.text.screen import render
from fusiondoc.runner.own_launcher import knob_lines
from fusiondoc.views.formatting import with_short_positions
from fusiondoc.views.plan_words import gain
from fusiondoc.views.report_heading import shortened
from fusiondoc.workflows.load import report_from

TENSOR = "Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)"
LOG = str(FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz")


class Made:
    """A report of one plan, node by node; groups are those of the log's first
    group."""

    def __init__(self) -> None:
        self.nodes: list[ProgramNode] = []
        self.rows: list[Unfused] = []

    def node(self, op: str, code: str | None = None, detail: ReasonDetail | None = None,
             inside: int | None = None, types: str = TENSOR, **more: Any) -> int:  # fmt: skip
        place = len(self.nodes)
        kind = (
            "group"
            if op == "group"
            else "control"
            if op.startswith("prim::")
            else "operator"
        )
        source = f"/m.py:{place + 1}:0"
        name = "prim::TensorExprGroup" if op == "group" else op
        made = ProgramNode(kind, name, source, None, (types,), (types,),
                           "G1" if op == "group" else None, code, inside, None, None, (), "why",
                           rows=() if code is None else (len(self.rows),))  # fmt: skip
        self.nodes.append(made)
        if code is not None:
            why = Reason(code, "why", False, detail)
            row = Unfused(
                op,
                source,
                source.rpartition(":")[0],
                "forward",
                1,
                why,
                (Evidence("m.log", 1),),
            )
            self.rows.append(replace(row, index=len(self.rows), **more))
        return place

    def report(self, *edges: tuple[int, int], **more: Any) -> Report:
        program = Program("P1", "forward", 1, None, (), tuple(self.nodes), edges)
        base = report_from([LOG])
        return replace(
            base,
            programs=(program,),
            unfused=tuple(self.rows),
            plan=(),
            findings=(),
            **more,
        )


def planned(report: Report) -> Report:
    return with_plan(report, Context(Observed()))


def test_a_view_between_two_groups_goes_to_the_edge() -> None:
    made = Made()
    made.node("group"), made.node("aten::view", "FD226"), made.node("group")
    (change,) = planned(made.report((0, 1), (1, 2))).plan
    assert (change.kind, change.where) == (ChangeKind.MOVE_VIEW, "/m.py:2")
    assert change.unlocks == "2 groups of this run become one"
    assert (
        change.gain_bytes == 2 * 4 * 8 * 4
    )  # written by one group and read by the other


@pytest.mark.parametrize("op", ["aten::linear", "aten::cumsum"])
def test_a_view_beside_what_never_fuses_stays(op: str) -> None:
    made = Made()
    (
        made.node(op, "FD201"),
        made.node("aten::view", "FD226"),
        made.node("group"),
        made.node("group"),
    )
    report = planned(made.report((0, 1), (1, 2), (1, 3)))
    assert ChangeKind.MOVE_VIEW not in [one.kind for one in report.plan]


def test_a_view_between_reductions_stays() -> None:
    made = Made()
    made.node("group"), made.node("aten::view", "FD226"), made.node("group")
    report = made.report((0, 1), (1, 2))
    summed = replace(
        report.groups[0],
        nodes=(*report.groups[0].nodes, OpNode("aten::sum", None, None)),
    )
    assert planned(replace(report, groups=(summed,))).plan == ()


def branch(on: Literal["tensor_value", "argument"]) -> Report:
    """group -> if: sub, else: add (which never ran) -> group."""
    made = Made()
    made.node("group")
    made.node("prim::If", "FD229", ControlFlow(Condition(on), in_formula=False))
    made.node("aten::sub", "FD228", inside=1)
    made.node("aten::add", "FD232", inside=1)
    made.node("group")
    return made.report((0, 2), (0, 3), (2, 1), (3, 1), (1, 4))


def test_a_branch_on_a_value_becomes_where() -> None:
    (change,) = planned(branch("tensor_value")).plan
    assert (change.kind, change.where) == (ChangeKind.BRANCH, "/m.py:2")
    assert change.unlocks == "joins 2 groups of this run with sub into 1"
    assert "torch.where" in change.change and change.after is None


def test_a_flag_becomes_a_constant() -> None:
    (change,) = planned(branch("argument")).plan
    assert change.kind is ChangeKind.CONSTANT


def test_what_a_block_makes_comes_before_what_takes_it() -> None:
    """The group behind the branch waits for what stands in it, though the plan
    prints the branch before."""
    made = Made()
    made.node("aten::mul_", "FD230")
    made.node("prim::If", "FD229")
    made.node("aten::cumsum", "FD201", inside=1)
    made.node("aten::add_", "FD230")
    report = made.report((0, 2), (2, 1), (1, 3), (0, 3))
    assert Plans(report, "nvfuser", None).with_changes({0, 3}) == []


def test_two_groups_around_a_change_become_one_with_it() -> None:
    """One feeds the other also past the operator: that they are two is for it
    alone."""
    made = Made()
    made.node("group"), made.node("aten::add_", "FD230"), made.node("group")
    report = made.report((0, 1), (1, 2), (0, 2))
    (group,) = Plans(report, "nnc", None).with_changes({0})
    assert group.joined == 2 and group.ops == ("aten::add_",)
    # Without it nothing tells why they are two: a print may be between them.
    apart = Made()
    apart.node("group"), apart.node("group"), apart.node("aten::add_", "FD230")
    (group,) = Plans(apart.report((0, 1), (1, 2)), "nnc", None).with_changes({0})
    assert group.joined == 1


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A training step under torch's profiler, NNC on a CPU."""
    folder = tmp_path_factory.mktemp("profiled")
    with tarfile.open(
        FIXTURES / "profiles" / "nnc-2.13-training.tar.xz"
    ) as archive:
        archive.extractall(folder)
    return report_from([str(folder / "training")])


def test_milliseconds_come_before_bytes_and_operators(profiled: Report) -> None:
    """With the bandwidth and the times of a real profile: what is known to save
    time comes first, and the more it saves, the sooner."""
    timed = next(row.time for row in profiled.unfused if row.time is not None)
    assert profiled.steps is not None and profiled.steps.gb_per_s
    made = Made()
    small, unknown = (
        "Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu)",
        "Tensor",
    )
    for op, types, ms in (("aten::mul_", small, None), ("aten::add_", TENSOR, None),
                          ("aten::sub_", unknown, 10_000.0)):  # fmt: skip
        time = replace(timed, could_save_ms=ms) if ms is not None else None
        (
            made.node("aten::relu", "FD227", types=types),
            made.node(op, "FD230", types=types, time=time),
        )
        made.node("aten::tanh", "FD227", types=types)
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (6, 7), (7, 8)]
    plan = planned(made.report(*edges, steps=profiled.steps, groups=())).plan
    assert [one.ops for one in plan] == [
        ("aten::sub_",),
        ("aten::add_",),
        ("aten::mul_",),
    ]
    assert plan[1].gain_ms == round(
        (plan[1].gain_bytes or 0) / (profiled.steps.gb_per_s * 1e6), 6
    )
    # Not profiled, bytes count, and what is not known comes last.
    plan = planned(made.report(*edges, groups=())).plan
    assert [one.ops for one in plan] == [
        ("aten::add_",),
        ("aten::mul_",),
        ("aten::sub_",),
    ]


def test_faster_products_come_before_fusion(profiled: Report) -> None:
    steps: Steps = replace(profiled.steps, without_tf32=0.86)  # type: ignore[type-var]
    (change, *_) = planned(replace(profiled, steps=steps)).plan
    assert "set_float32_matmul_precision" in change.change
    assert change.unlocks == (
        "float32 matrix products without TF32 take 86% of the step, which no fusion changes"
    )
    asked = KeptRequest(
        target=KeptTarget("m.py:net", "file", path=__file__),
        options=Options(backward=True),
    )
    (change, *_) = with_plan(
        replace(profiled, steps=steps), Context(Observed(), request=asked)
    ).plan
    assert change.command == (  # the speed is compared with that of the run before
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 fusiondoc diagnose m.py:net --backward --time --verify"
        " && fusiondoc compare"
    )


def test_transformer_engine_has_a_plan_of_its_operators(tmp_path: Path) -> None:
    def of(program: str) -> Report:
        made = capture(tmp_path / program, "")
        data = lzma.decompress(
            (FIXTURES / "te" / f"h100-{program}.jsonl.xz").read_bytes()
        )
        (made / RECORDS).write_bytes(data)
        return report_from([str(made)])

    (dtype,) = of(
        "float32_mlp"
    ).plan  # it ran under recipes too, so none is proposed
    assert (dtype.kind, dtype.operators, dtype.where) == (
        ChangeKind.DTYPE,
        4,
        "te_programs.py:18",
    )
    (split,) = of("split").plan
    assert (split.before, split.after) == (
        "torch.nn.Dropout(...)",
        "te.ops.Dropout(...)",
    )


def test_further_specialisations_are_counted_apart() -> None:
    report = report_from([LOG])
    again = replace(report.groups[0], id="G2", specialisation=2, respecialises="G1")
    screen = render(replace(report, groups=(*report.groups, again)))
    assert "in 1 group (and 1 in further specialisations)" in screen


def test_of_many_groups_most_take_a_line() -> None:
    report = report_from([LOG])
    first = report.groups[0]

    def shown(number: int) -> str:
        nodes = [
            replace(first.nodes[0], user_source=f"m.py:{nth}")
            for nth in range(number)
        ]
        groups = tuple(
            replace(first, id=f"G{nth}", nodes=(node,))
            for nth, node in enumerate(nodes)
        )
        text = render(replace(report, groups=groups))
        return text[text.index("\nGroups\n") : text.index("\nFindings\n")]

    assert shown(30).count("\n") < shown(20).count("\n")
    assert " G29  1 operator: add  m.py:29\n" in shown(30)


def test_places_in_reasons_are_read_as_the_others() -> None:
    here = Path.cwd() / "m.py"
    assert with_short_positions(
        f"aten::sort ({here}:5:25), which it has no rule for"
    ) == ("aten::sort (m.py:5), which it has no rule for")
    assert (
        with_short_positions("prim::If (<string>:31:12), at (x)")
        == "prim::If (<string>:31:12), at (x)"
    )


def test_the_verdict_on_tries_is_on_the_first_screen() -> None:
    tried = Try("as asked", (), 1, 2, 0, 0, None, None, 0)
    report = replace(
        report_from([LOG]), tries=(tried, replace(tried, change="--trace"))
    )
    text = render(report, detail=Detail.SUMMARY)
    assert "Tried" in text and "No change helped: none of 1" in text


def test_a_permutation_goes_behind_a_group_of_its_result_alone() -> None:
    made = Made()
    made.node("group"), made.node("aten::flip", "FD211"), made.node("group")
    report = made.report((0, 1), (1, 2))
    alone = replace(report, groups=(replace(report.groups[0], inputs=(TENSOR,)),))
    (change,) = planned(alone).plan
    assert (change.kind, change.where) == (ChangeKind.MOVE, "/m.py:2")
    assert (
        change.unlocks == "2 groups of this run become one"
        and change.gain_bytes == 2 * 4 * 8 * 4
    )
    with_another = replace(
        report, groups=(replace(report.groups[0], inputs=(TENSOR, TENSOR)),)
    )
    assert "after the operators" not in "".join(
        one.change for one in planned(with_another).plan
    )
    of_rows = replace(alone.groups[0], nodes=(OpNode("aten::softmax", None, None),))
    assert "after the operators" not in "".join(
        one.change for one in planned(replace(alone, groups=(of_rows,))).plan
    )


def test_a_permutation_that_others_read_stays() -> None:
    made = Made()
    (
        made.node("group"),
        made.node("aten::flip", "FD211"),
        made.node("group"),
        made.node("aten::mm", "FD236"),
    )
    report = made.report((0, 1), (1, 2), (1, 3))
    report = replace(report, groups=(replace(report.groups[0], inputs=(TENSOR,)),))
    assert "after the operators" not in "".join(
        one.change for one in planned(report).plan
    )


@pytest.mark.parametrize("more", [0, 1])
def test_a_view_between_differentiable_graphs_of_a_group_each(more: int) -> None:
    """In training torch ends a graph at a view; of a graph of more than its group
    nothing is said."""
    made = Made()
    made.node("region"), made.node("aten::view", "FD231"), made.node("region")
    inner = Made()
    inner.node("group")
    if more:
        inner.node("aten::cumsum", "FD201")
    report = made.report((0, 1), (1, 2))
    nodes = [
        replace(one, kind="region", program="P2") if one.op == "region" else one
        for one in made.nodes
    ]
    outer = replace(report.programs[0], nodes=tuple(nodes))
    plan = replace(outer, id="P2", nodes=tuple(inner.nodes), edges=())
    found = planned(replace(report, programs=(outer, plan))).plan
    said = ["2 groups of this run become one"] if not more else []
    assert [
        one.unlocks for one in found if one.kind is ChangeKind.MOVE_VIEW
    ] == said


def test_where_only_trying_tells_fix_is_named() -> None:
    made = Made()
    made.node("group"), made.node("aten::ceil_", "FD299"), made.node("group")
    rows = tuple(replace(row, user_source="m.py:2") for row in made.rows)
    report = replace(made.report(), unfused=rows)
    report = replace(
        report,
        coverage=replace(report.coverage, ops_fused=2, ops_total=3, fraction=0.66),
    )
    target = KeptTarget("m.py:net", "file")

    def found(**more: Any) -> Report:
        asked = KeptRequest(
            target=target, options=Options(script=more.pop("script", False))
        )
        return with_plan(report, Context(Observed(), request=asked, **more))

    assert found().plan_try == "fusiondoc fix m.py:net"
    assert found().plan_title == "Not known without trying"
    rows = [
        Try(name, (), 1, fused, 0, 0, None, None, 0)
        for name, fused in (("as asked", 2), ("fix: x", 3))
    ]
    tried = with_plan(replace(found(), tries=tuple(rows)), Context(Observed()))
    assert tried.plan_title == "What was tried helps (see Tried)"
    assert found(own=False).plan_try is None and found(script=True).plan_try is None
    of_log = planned(report)
    for other in (found(own=False), found(script=True), of_log):
        assert (
            other.plan_title == "Not known without trying"
            and other.plan_try is None
        )
        assert str(other.plan_note).endswith(
            "fusiondoc fix FILE.py tries on the program"
        )
    for format_ in ("text", "markdown", "html", "sarif", "json"):
        text = render_report(found(), format_)
        assert "fusiondoc fix m.py:net" in text and "Nothing to do" not in text, (
            format_
        )
    assert "Nothing to do" in render_report(
        replace(found(), plan_title=None), "text"
    )  # of an earlier version
    report = replace(
        report, coverage=replace(report.coverage, ops_fused=3, fraction=1.0)
    )
    whole = found()
    assert (
        str(whole.plan_note).startswith("All that NNC can take is fused")
        and whole.plan_try is None
    )
    assert whole.plan_title == "Nothing to do"
    launch = Finding("FD402", "note", "launch-bound", None, (), None)
    report = replace(report, findings=(launch,))
    assert found().plan_title == "Nothing to do about fusion"
    assert str(found().plan_note).endswith(
        "a larger batch or CUDA graphs help more than fusion"
    )


def test_where_the_fuser_takes_no_operator_there_is_nothing_to_try() -> None:
    made = Made()
    made.node("aten::sort", "FD233")
    report = made.report(groups=())
    report = replace(
        report,
        coverage=replace(report.coverage, ops_fused=0, ops_total=0, fraction=None),
    )
    found = planned(report)
    assert (found.plan, found.plan_title) == ((), "Nothing to do about fusion")
    assert str(found.plan_note).startswith(
        "NNC takes none of the 1 operator, and no known change"
    )


def test_what_it_unlocks_is_said_once() -> None:
    change = planned(branch("tensor_value")).plan[0]
    one = replace(change, gain_bytes=None, gain_ms=None, operators=3)
    assert (
        gain(
            replace(one, unlocks="3 operators that aten::sort keeps out of groups")
        )
        == ""
    )
    assert gain(replace(one, unlocks="2 groups of add+mul")) == "3 operators"


def test_what_to_do_after_a_log_without_a_plan_is_not_nothing() -> None:
    report = replace(Made().report(), groups=(), unfused=(), programs=())
    assert planned(report).plan_title == "No change can be named"


def test_code_that_is_offered_is_python() -> None:
    """What plans, recipes and pages offer to copy compiles; the loop on ``inplace``
    is several lines."""
    offered = [ALL_OUT_OF_PLACE]
    for file in sorted((FIXTURES / "golden").glob("*.json")):
        for change in json.loads(file.read_text(encoding="utf-8"))["plan"]:
            offered += [
                change[name]
                for name in ("before", "after", "python")
                if change[name] is not None
            ]
    for recipe in RECIPES:
        offered += [recipe.before, recipe.after, recipe.helper]
        page = recipe_page(recipe.of.split()[0]) or ""
        offered += [
            textwrap.dedent(part)
            for part in re.findall(r"(?:^    .*\n|^\n)+", page, re.MULTILINE)
        ]
    for file in sorted(PAGES.glob("*.md")):
        offered += re.findall(
            r"^```python\n(.*?)^```", file.read_text(encoding="utf-8"), re.M | re.S
        )
    assert len(offered) > 100
    for text in offered:
        ast.parse(text)
    made = Made()
    made.node("aten::relu_", "FD230")
    row = replace(made.rows[0], source="torch/nn/functional.py:1457:0")
    advice = advice_on(
        row, run_facts(made.report(), Context(Observed()))
    ).remedy.text
    ast.parse(advice.rpartition("torch.jit.script: ")[2])


def test_the_loop_sets_every_flag_and_a_scripted_module_refuses_it() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(
        torch.nn.ReLU(inplace=True), torch.nn.Sequential(torch.nn.ELU(1.0, True))
    )
    scripted = torch.jit.script(model)
    with pytest.raises(RuntimeError, match="set constant"):
        exec(ALL_OUT_OF_PLACE, {"model": scripted})
    exec(ALL_OUT_OF_PLACE, {"model": model})
    assert [one.inplace for one in model.modules() if hasattr(one, "inplace")] == [
        False,
        False,
    ]


def test_a_knob_has_its_line_for_production() -> None:
    values = {
        "switch": "off",
        "count": "3",
        "integer": "-2",
        "text": "a",
        "stream": "stderr",
    }
    for knob in catalogue.knobs():
        if knob.kind in values:
            value = values[knob.kind]
            assert [catalogue.knob_line(knob.name, value)] == knob_lines(
                {knob.name: value}
            )
    assert to_keep(Setting(knobs={"fusion_strategy": "dynamic:10"})) == (
        '# to keep it, before the first call:\ntorch.jit.set_fusion_strategy([("DYNAMIC", 10)])'
    )
    line = "torch._C._jit_set_texpr_reductions_enabled(True)"
    assert line in str(
        to_keep(Setting(knobs={"nnc_reductions": "on"}, flags=("--verify",)))
    )
    assert to_keep(Setting(flags=("--freeze",))) is None


def test_a_run_says_which_knobs_were_set() -> None:
    report = replace(
        report_from([LOG]), knobs=(KnobState("nnc_reductions", "on", "on", True),)
    )
    assert re.search(
        r"^Knobs +nnc_reductions=on$",
        render(report, detail=Detail.SUMMARY),
        re.MULTILINE,
    )
    assert "Knobs" not in render(replace(report, knobs=()), detail=Detail.SUMMARY)


def test_freezing_comes_before_what_it_makes_smaller() -> None:
    """mobilenet: batch_norm is folded into convolutions, and the groups promised
    have none then."""
    made = Made()
    (
        made.node("aten::batch_norm", "FD227"),
        made.node("aten::hardswish", "FD201", keeps_out=1),
    )
    attribute = Condition("attribute", "use_res_connect", "bool")
    made.node(
        "prim::If", "FD229", ControlFlow(attribute, in_formula=False), keeps_out=1
    )
    made.rows[2] = replace(
        made.rows[2],
        source="torchvision/models/mobilenetv3.py:9:0",
        user_source=None,
    )
    base = made.report((0, 1), (1, 2))
    base = replace(
        base, fuser=replace(base.fuser, requested="nvfuser", effective="nvfuser")
    )
    freeze, recipe = planned(base).plan
    assert (freeze.kind, recipe.kind) == (ChangeKind.FREEZE, ChangeKind.RECIPE)
    assert freeze.unlocks == "worth a try: prim::If keeps others out of groups"
    assert (freeze.operators, freeze.groups) == (
        0,
        None,
    )  # the plan without the branch has no new group
    assert str(recipe.unlocks).startswith("1 group of batch_norm+hardswish")
    assert "counted before 1, which folds batch_norm" in str(recipe.note)


def test_titles_have_the_names_of_the_line() -> None:
    one = Change(ChangeKind.OUT_OF_PLACE, "Write x = x + y instead of x += y")
    short = Edit("m.py", 3, "    out += x  # skip", "    out = out + x  # skip")
    long = replace(short, before="    " + "out" * 9 + " += x")
    assert (
        in_their_names(replace(one, lines=(short,)))
        == "Write out = out + x instead of out += x"
    )
    assert in_their_names(replace(one, lines=(long,))) == one.title
    assert in_their_names(replace(one, lines=(short, long))) == one.title


def test_a_reason_is_cut_between_clauses() -> None:
    clauses = "gradients are recorded, and it would be alone in its graph, and torch makes one of two"
    assert shortened(clauses) == clauses
    more = f"{clauses} operators or more"
    assert (
        shortened(f"{more}, of which each one has a formula of its own, of torch")
        == f"{more} …"
    )
    assert shortened("word " * 40) == ("word " * 28).rstrip() + " …"


def test_a_mean_over_an_argument_is_not_one_over_all_dimensions() -> None:
    """``x.mean(axis, keepdim=keep)`` keeps its axis: what was refused is that it is
    no constant. In training a constant would end the run (FD307), so the plan
    offers it for inference alone."""
    path = FIXTURES / "logs" / "nvfuser-1.13.1-primitive-layer-norm.log.xz"
    report = report_from([str(path)])
    assert not report.plan
    (advice,) = {one.advice for one in report.findings if "aten::mean" in one.ops}
    assert (
        advice is not None
        and advice.startswith("Nothing in training")
        and "FD307" in advice
    )
    context = Context(Observed())
    run = replace(run_facts(report, context), gradients=False)
    found = [
        change_of(row, run) for row in report.unfused if row.op == "aten::mean"
    ]
    change = found[0]
    assert change is not None and change.kind is ChangeKind.CONSTANT
    assert change.title == "Give mean() constants for `dim` and `keepdim`"


@pytest.mark.parametrize(("dtype", "device", "fuses"), [
    ("Float", "cpu", True), ("BFloat16", "cpu", False), ("Half", "cpu", False), ("BFloat16", "cuda:0", True),
])  # fmt: skip
def test_nnc_is_promised_no_operator_of_half_types_on_the_cpu(
    dtype: str, device: str, fuses: bool
) -> None:
    """Live, torch 2.13 makes no group of ``x.type_as(y) * y`` with a bfloat16 or
    float16 ``x`` on the CPU."""
    made = Made()
    made.node(
        "aten::to", "FD211", types=f"{dtype}(4, 8, strides=[8, 1], device={device})"
    )
    made.node("group")
    found = Plans(made.report((0, 1)), "nnc", None).with_changes({0})
    assert bool(found) == fuses


@pytest.mark.parametrize(("types", "fuses"), [
    ("Float(4, 8, strides=[8, 1], device=cpu)", True), ("Tensor", True), ("Float(device=cpu)", True),
    ("Float(*, *, requires_grad=0, device=cpu)", False), ("FloatTensor(requires_grad=0, device=cpu)", False),
])  # fmt: skip
def test_nnc_is_promised_no_operator_whose_sizes_were_not_always_equal(
    types: str, fuses: bool
) -> None:
    """Live, torch 2.13 makes no group of ``update /= denom`` in a loop over
    parameters of several sizes, out of place either."""
    made = Made()
    made.node("aten::div_", "FD230", types=types)
    made.node("group")
    report = made.report((0, 1))
    assert bool(Plans(report, "nnc", None).with_changes({0})) == fuses
    assert Plans(report, "nvfuser", None).with_changes(
        {0}
    )  # which takes sizes that it does not know
