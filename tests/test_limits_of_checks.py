"""Decisions on expectations at their limits: what holds, and which cause is
named."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES
from test_limits import fusion, plan, read
from test_near_miss import REJECTS, group_of, made_report

from fusiondoc.expectations import RequiredCount, is_in_layer
from fusiondoc.expectations.applies import version_fits
from fusiondoc.expectations.assignment import specialised_once
from fusiondoc.expectations.gate import gate, hold
from fusiondoc.expectations.match import check
from fusiondoc.expectations.moved import one_more
from fusiondoc.expectations.outcome import ExpectationOutcome
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.renamed_modules import in_pattern, renamed_modules
from fusiondoc.model.operator_places import InLayer, operators_by_layer
from fusiondoc.model.report import Finding, Instance, Report
from fusiondoc.workflows.load import report_from

FLOAT = "Float(8, 64, strides=[64, 1], requires_grad=0, device=cuda:0)"
HALF = FLOAT.replace("Float", "Half")


def checked(text: str, report: Report) -> list[ExpectationOutcome]:
    return check(loads(text, "f.yaml").sections[0], report)


# -- which groups are expected -------------------------------------------------------------------------------


def test_a_set_is_all_operators_of_the_group() -> None:
    report = made_report(group_of("G1", "mul relu mul", "forward"))
    found = checked(
        "groups: [{set: [mul]}, {set: [relu, mul]}, {set: [relu, mul, add]}]",
        report,
    )
    assert [one.holds for one in found] == [False, True, False]


def test_every_type_of_the_inputs_has_to_be_expected() -> None:
    group = replace(group_of("G1", "mul relu", "forward"), inputs=(FLOAT, HALF))
    text = "groups: [{ops: [mul, relu], dtype: float32}, {ops: [mul, relu], dtype: [float32, float16]}]"
    assert [one.holds for one in checked(text, made_report(group))] == [False, True]


def test_a_group_that_must_not_be_there_claims_none() -> None:
    report = made_report(group_of("G1", "mul relu", "forward"))
    text = "groups: [{ops: [mul, relu], exactly: 0}, [mul, relu, sort]]"
    forbidden, lacking = checked(text, report)
    assert not forbidden.holds and lacking.found == "mul, relu (G1)"


def test_instances_that_are_not_listed_count_for_no_module() -> None:
    listed = (Instance("a.first", (), None),)
    group = replace(
        group_of("G1", "mul relu", "forward"),
        instances=listed,
        instances_left_out=4,
    )
    text = "groups: [{ops: [mul, relu], at_least: 5%s}]"
    assert checked(text % "", made_report(group))[0].holds
    assert not checked(text % ", layer: a.first", made_report(group))[0].holds


def test_bounds_are_part_of_what_they_bound() -> None:
    assert [RequiredCount(2, 3).holds(number) for number in (1, 2, 3, 4)] == [
        False,
        True,
        True,
        False,
    ]
    assert is_in_layer("layer.3", "layer.[0-3]") and not is_in_layer(
        "layer.4", "layer.[0-3]"
    )
    assert (
        version_fits("2.1", ">=2.1.0")
        and version_fits("2.1.0", "<=2.1")
        and not version_fits("2.1", ">2.1.0")
    )


# -- the whole -----------------------------------------------------------------------------------------------


def test_more_of_the_same_breaks_a_bare_number_where_others_came_too() -> None:
    two = group_of("G1", "mul relu", "forward")
    two = replace(two, instances=two.instances * 2)
    report = made_report(two, group_of("G2", "tanh add", "forward"))
    text = "groups: [[mul, relu], [tanh, add]]\nnumber_of_groups: %s\n"
    bare = checked(text % "2", report)[-1]
    assert bare.holds and bare.note is not None
    assert not checked(text % "{exactly: 2}", report)[-1].holds
    other = replace(
        report, groups=(*report.groups, group_of("G3", "exp neg", "forward"))
    )
    assert not checked(text % "2", other)[-1].holds


def test_limits_of_a_step_are_lower_and_upper_ones(tmp_path: Path) -> None:
    with tarfile.open(
        FIXTURES / "profiles" / "nnc-2.13-training.tar.xz"
    ) as archive:
        archive.extractall(tmp_path, filter="data") if hasattr(
            tarfile, "data_filter"
        ) else archive.extractall(tmp_path)
    report = report_from([str(tmp_path / "training")])
    assert report.steps is not None
    limits = (
        "min_groups_share: 0%",
        "min_groups_share: 100%",
        "max_step_ms: 0.001",
        "max_step_ms: 100000",
    )
    assert [checked(f"{limit}\n", report)[0].holds for limit in limits] == [
        True,
        False,
        False,
        True,
    ]


# -- which cause is named ------------------------------------------------------------------------------------


def test_what_has_few_of_the_operators_is_no_place_of_theirs() -> None:
    report = made_report(
        group_of("G1", "mul relu neg", "forward"),
        group_of("G2", "mul exp", "forward"),
    )
    _, lacking = checked(
        "groups: [[mul, relu, neg], [mul, relu, tanh, add, sort]]", report
    )
    assert lacking.found == "no other group with most of them"
    assert "mul, relu are nowhere else" in str(lacking.why)


@pytest.mark.parametrize(
    ("line", "named"), [(3, False), (4, True), (6, True), (7, False)]
)
def test_what_splits_two_groups_may_be_on_the_lines_of_both(
    line: int, named: bool
) -> None:
    row = report_from([str(REJECTS)]).unfused[0]
    split = replace(
        row,
        op="aten::cumsum",
        phase="forward",
        ran=True,
        user_source=f"model.py:{line}",
    )
    report = made_report(
        group_of("G1", "mul relu add", "forward", 4),
        group_of("G2", "tanh", "forward", 6),
        unfused=(split,),
    )
    (one,) = checked("groups: [[mul, relu, add, tanh]]", report)
    assert ("split off by cumsum" in str(one.why)) is named


def test_of_what_splits_two_groups_the_one_that_keeps_most_out_is_explained(
    tmp_path: Path,
) -> None:
    lines = plan(
        f"graph(%x : {FLOAT}):",
        f"  %y : {FLOAT} = prim::CudaFusionGroup_0(%x)",
        f"  %f : {FLOAT} = aten::cumprod(%y) # m.py:4:8",
        f"  %c : {FLOAT} = aten::cumsum(%f) # m.py:5:8",
        f"  %s : {FLOAT} = aten::sigmoid(%c) # m.py:6:8",
        f"  %z : {FLOAT} = prim::CudaFusionGroup_1(%c)",
        "  return (%z, %s)",
        *fusion(0, 2),
        *(
            line.replace("tanh", "exp").replace("mul", "add")
            for line in fusion(1, 30)
        ),
    )
    report = read(tmp_path, *lines)
    assert {row.op: row.keeps_out for row in report.unfused}["aten::cumsum"] == 1
    (one,) = checked("groups: [[mul, tanh, add, exp]]", report)
    assert "split off by cumsum and cumprod, of which cumsum is not fused" in str(
        one.why
    ), one.why


def test_where_no_operator_is_named_the_nearest_group_by_its_conditions_is_shown() -> (
    None
):
    report = made_report(group_of("G1", "mul relu", "forward"))
    (one,) = checked("groups: [{source: other.py}]", report)
    assert one.found == "mul, relu (G1)" and "not from other.py" in str(one.why)


# -- other names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("few", "many", "more"),
    [
        ("ab", "abab", "ab"),
        ("ab", "ababab", "ab"),
        ("abc", "abbbc", "b"),
        ("abc", "abcbc", "bc"),
        ("ab", "abcd", None),
        ("ab", "aab", "a"),
        ("xaby", "xababay", None),
    ],
)
def test_more_of_the_same_is_a_whole_number_of_times(
    few: str, many: str, more: str | None
) -> None:
    assert one_more(few, many) == (tuple(more) if more else None)


def test_a_run_without_a_plan_keeps_what_holds() -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-unknown-dump-option.log.xz"
    report = report_from([str(log)])
    section = loads("max_fallbacks: 0\n", "f.yaml").sections[0]
    assert [one.holds for one in hold(section, report)] == [False]


@pytest.mark.parametrize(
    ("more", "taken", "renamed"),
    [
        (-0.01, False, True),
        (0.0, False, True),
        (0.01, False, False),
        (-0.01, True, False),
    ],
)
def test_a_module_has_another_name_if_its_share_holds_and_no_pattern_has_it(
    more: float, taken: bool, renamed: bool
) -> None:
    report = report_from(
        [str(FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz")]
    )
    now, before = "encoder.layer.0.output", "stack.layer.0.output"
    share = sum(
        in_pattern(operators_by_layer(report), now).values(), InLayer()
    ).share
    assert share is not None and 0.1 < share < 0.9
    patterns = {before: share + more, **({now: 0.0} if taken else {})}
    modules = "".join(
        f"- {{layer: {layer}, coverage: {least}}}\n"
        for layer, least in patterns.items()
    )
    text = f"modules:\n{modules}number_of_groups: {specialised_once(report)}\n"
    section = loads(text, "f.yaml").sections[0]
    assert renamed_modules(section, report) == ({before: now} if renamed else {})


# -- gates ---------------------------------------------------------------------------------------------------


def test_a_switched_off_fuser_breaks_a_section_that_holds_without_a_plan() -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-unknown-dump-option.log.xz"
    off = Finding("FD104", "warning", "it is off", None, (), None)
    report = replace(
        report_from([str(log)]), groups=(), kernels=(), findings=(off,)
    )
    section = loads("findings: {forbid: [FD301]}\n", "f.yaml").sections[0]
    assert [(one.expected, one.holds) for one in hold(section, report)] == [
        ("the fuser to be on", False),
        ("no finding FD301", True),
    ]


def test_of_operators_outside_groups_the_one_that_keeps_most_out_breaks_the_section() -> (
    None
):
    one = report_from([str(REJECTS)]).unfused[0]
    rows = [
        replace(
            one,
            op=f"aten::{op}",
            ran=True,
            user_source=f"model.py:{line}",
            keeps_out=kept,
        )
        for op, line, kept in (("sort", 4, 0), ("cumsum", 5, 3), ("topk", 6, 1))
    ]
    report = made_report(group_of("G1", "mul relu", "forward"), unfused=tuple(rows))
    section = loads("not_fused: []\n", "f.yaml").sections[0]
    (row,) = gate(section, report, "f.yaml")
    assert row.source == "model.py:5"
