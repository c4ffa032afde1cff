"""The table of rules of Transformer Engine's fuser against what six versions of it
planned themselves.

``fixtures/te/plans-*.jsonl.xz`` are plans of the real packages, recorded by
tests/te_cpu/record_plans.py (which says how) on a machine without a GPU: plans, not
runs. ``random-*.jsonl.xz`` are those of a hundred random sequences each, by
random_plans.py; at night other sequences are planned.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
import zipfile
from datetime import date
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import ROOT

from fusiondoc.captures.frontend_records import TeRecords, read_te
from fusiondoc.captures.raw_records import RawRecords
from fusiondoc.diagnosis.of_fusers.te_findings import disagreements
from fusiondoc.diagnosis.of_fusers.te_report import te_report
from fusiondoc.diagnosis.of_fusers.te_rules import Planner, version_of
from fusiondoc.diagnosis.planned_changes import can_be_fixed
from fusiondoc.fusers.te.records import BasicOperator, OperatorFacts, RecordedPlan
from fusiondoc.fusers.te.rules import RULES
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Coverage, FuserState, ParseStats

FILES = sorted((ROOT / "fixtures" / "te").glob("plans-*.jsonl.xz"))
VERSIONS = [path.name[len("plans-") : -len(".jsonl.xz")] for path in FILES]
EMPTY = Report(
    {},
    FuserState(None, None, None),
    (),
    (),
    (),
    (),
    (),
    (),
    Coverage(0, 0, None),
    ParseStats(0, 0, 0, 0, (), False, 0.0, 0),
)


@cache
def programs(version: str) -> dict[str, TeRecords]:
    """The records of each program that the version could build."""
    return programs_of(recorded(f"plans-{version}"))


def recorded(name: str) -> str:
    return lzma.decompress(
        (ROOT / "fixtures" / "te" / f"{name}.jsonl.xz").read_bytes()
    ).decode()


def programs_of(text: str) -> dict[str, TeRecords]:
    rows: dict[str, list[dict[str, Any]]] = {}
    name, package = "", []
    for record in map(json.loads, text.splitlines()):
        if record["record"] == "program":
            name = record["name"]
        elif record["record"] == "te_package":
            package = [record]
        rows.setdefault(name, []).append(record)
    left_out = {
        name
        for name, lines in rows.items()
        if any(one["record"] == "left_out" for one in lines)
    }
    found = {}
    for name, lines in rows.items():
        if name and name not in left_out:
            every = [*package, *lines]
            found[name] = read_te(RawRecords(every))
    return found


def report(version: str, program: str) -> Report:
    return te_report(EMPTY, programs(version)[program], "te")


def fused(version: str, program: str, phase: str) -> list[str]:
    """Classes of the fused operators in training, in order; ``"-"`` where the
    version cannot build it."""
    if program not in programs(version):
        return ["-"]
    found = report(version, program).te
    assert found is not None
    steps = [
        one for fuser in found.fusers for one in getattr(fuser.plans[0], phase)
    ]
    return [one.op for one in steps if one.fused]


def test_six_versions_were_recorded() -> None:
    assert [version_of(one) for one in VERSIONS] == [
        (1, 13),
        (2, 10),
        (2, 13),
        (2, 15),
        (2, 20),
        (2, 7),
    ]
    assert min(len(programs(version)) for version in VERSIONS) > 15
    assert len(programs("2.20.2")) == 34


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_makes_the_plans_of_every_version(version: str) -> None:
    for name, told in programs(version).items():
        assert told.plans, name
        assert not disagreements(told), name


def held_against_the_table(text: str) -> int:
    """How many programs there are, each with the plans and the reasons of the
    table."""
    found = programs_of(text)
    for name, told in found.items():
        assert told.plans and not disagreements(told), name
        unknown = [
            one
            for one in te_report(EMPTY, told, "te").unfused
            if one.reason.code in ("FD249", "FD299")
        ]
        assert not unknown, name
    return len(found)


@pytest.mark.parametrize("version", ["1.13.0", "2.7.0", "2.13.0", "2.20.2"])
def test_random_sequences_are_planned_as_the_table_says(version: str) -> None:
    assert held_against_the_table(recorded(f"random-{version}")) > 75


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("version", ["1.13.0", "2.7.0", "2.13.0", "newest"])
def test_random_sequences_of_today(version: str, tmp_path: Path) -> None:
    """By the planner of the package itself, without a GPU."""
    wanted = "transformer_engine" + ("" if version == "newest" else f"=={version}")
    get = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "-d",
        tmp_path,
        wanted,
    ]
    if subprocess.run(get, capture_output=True).returncode:
        pytest.skip(f"{wanted} cannot be downloaded")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "te")
    folders = [ROOT / "tests" / "te_cpu", tmp_path / "te", ROOT]
    program = [
        sys.executable,
        "-W",
        "ignore",
        folders[0] / "random_plans.py",
        str(date.today()),
        "300",
    ]
    path = os.pathsep.join(map(str, folders))
    done = subprocess.run(
        program,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert held_against_the_table(done.stdout) > 200


def test_a_neighbour_that_a_fusion_of_the_program_took_is_named() -> None:
    told = programs_of(recorded("random-2.13.0-own"))["3:197"]
    texts = {one.reason.text for one in te_report(EMPTY, told, "te").unfused}
    own = "a fusion that the program registered"
    assert (
        f"ForwardLinearBiasActivation: Bias next to it went into OwnFused, {own}"
        in texts
    )


def test_a_plan_that_another_version_made_disagrees() -> None:
    """The comparison can fail: a plan of 2.20 held against the rules of 1.13."""
    from dataclasses import replace

    told = programs("2.20.2")["scale and sum"]
    older = replace(told, package=replace(told.package, version="1.13.0"))
    found = disagreements(older)
    assert {one.phase for one in found} == {"forward", "backward"}
    assert (
        found[0].planned == "ForwardLinearScaleAdd(0, 1, 2)"
        and found[0].by_table == "nothing"
    )


BIAS, ADD, SCALE = (
    "ForwardLinearBiasActivation",
    "ForwardLinearBiasAdd",
    "ForwardLinearScaleAdd",
)


@pytest.mark.parametrize(
    "program, phase, by_version",
    [
        # 1.13, 2.7, 2.13, 2.20
        ("bias in bfloat16", "forward", [[BIAS, BIAS]] * 4),
        ("bias in float16", "forward", [[BIAS]] * 4),
        ("bias in float32", "forward", [[]] * 4),
        ("no bias", "forward", [[]] * 4),
        ("bias and sum", "forward", [[ADD]] * 4),
        ("sum without bias", "forward", [[ADD]] * 4),
        ("sum in float32", "forward", [[ADD]] * 4),
        ("sum not in place", "forward", [["-"], [BIAS], [BIAS], [BIAS]]),
        ("scale and sum", "forward", [["-"], [SCALE], [SCALE], [SCALE]]),
        ("scale and sum", "backward", [["-"], *[["BackwardLinearScale"]] * 3]),
        ("scale and sum not in place", "forward", [["-"], [], [], []]),
        (
            "bias between product and scale",
            "forward",
            [["-"], [BIAS], [BIAS], [BIAS]],
        ),
        ("extra output in place", "backward", [["BackwardLinearAdd"]] * 4),
        ("extra output not in place", "backward", [["-"], [], [], []]),
        (
            "extra output and RMSNorm",
            "backward",
            [["-"], [], ["BackwardAddRMSNorm"], ["BackwardAddRMSNorm"]],
        ),
        ("extra output in place and RMSNorm", "backward", [[]] * 4),
        ("extra output and LayerNorm", "backward", [["-"], [], [], []]),
        ("no recipe", "backward", [[]] * 4),
        ("delayed", "backward", [[], *[["BackwardActivationBias"]] * 3]),
        ("current", "backward", [["-"], *[["BackwardActivationBias"]] * 3]),
        ("block", "backward", [["-"], ["-"], ["-"], ["BackwardActivationBias"]]),
        ("SiLU", "backward", [["-"], ["-"], [], []]),
        ("no quantizer before the bias", "backward", [[]] * 4),
        ("bias first", "backward", [[]] * 4),
        ("backward override", "backward", [["-"], ["-"], ["-"], []]),
        ("row", "forward", [[]] * 4),
        ("column", "backward", [["-"], [], [], []]),
        ("userbuffers", "forward", [["UserbuffersForwardLinear"]] * 4),
        ("userbuffers", "backward", [["UserbuffersBackwardLinear"]] * 4),
        (
            "userbuffers, row and bias",
            "forward",
            [["UserbuffersForwardLinear"]] * 4,
        ),
        ("grouped MLP", "forward", [["-"], ["-"], [], []]),
        (
            "a fusion of its own",
            "forward",
            [["-"], ["-"], ["ScaledBias"], ["ScaledBias"]],
        ),
    ],
)
def test_what_each_version_fuses(
    program: str, phase: str, by_version: list[list[str]]
) -> None:
    for version, expected in zip(
        ("1.13.0", "2.7.0", "2.13.0", "2.20.2"), by_version
    ):
        assert fused(version, program, phase) == expected, version


def reasons(
    version: str, program: str, op: str, phase: str
) -> set[tuple[str, str]]:
    return {
        (row.reason.code, row.reason.text)
        for row in report(version, program).unfused
        if row.op == "te.ops." + op and row.phase == phase
    }


@pytest.mark.parametrize("version", ["2.7.0", "2.13.0", "2.20.2"])
@pytest.mark.parametrize(
    "program, op, phase, code, words",
    [
        (
            "bias in float32",
            "Bias",
            "forward",
            "FD241",
            "neither float16 nor bfloat16",
        ),
        (
            "sum not in place",
            "AddExtraInput",
            "forward",
            "FD242",
            "ForwardLinearBiasAdd: the sum is not in place",
        ),
        (
            "scale and sum not in place",
            "ConstantScale",
            "forward",
            "FD242",
            "ForwardLinearScaleAdd",
        ),
        (
            "extra output not in place",
            "BasicLinear",
            "backward",
            "FD242",
            "BackwardLinearAdd",
        ),
        ("row", "BasicLinear", "forward", "FD243", "row-parallel"),
        ("column", "BasicLinear", "backward", "FD243", "column-parallel"),
        ("no recipe", "GELU", "backward", "FD244", "there is no recipe"),
        (
            "no quantizer before the bias",
            "GELU",
            "backward",
            "FD244",
            "takes no quantized gradient",
        ),
        (
            "no bias",
            "BasicLinear",
            "forward",
            "FD245",
            "ForwardLinearBiasActivation needs Bias after it, where GELU is",
        ),
        (
            "bias between product and scale",
            "ConstantScale",
            "forward",
            "FD245",
            "needs BasicLinear before it, where Bias is",
        ),
        ("no bias", "GELU", "forward", "FD246", "no rule of Transformer Engine"),
        (
            "options without processes",
            "BasicLinear",
            "backward",
            "FD247",
            "torch.distributed does not run",
        ),
    ],
)
def test_why_an_operator_stays_basic(
    version: str, program: str, op: str, phase: str, code: str, words: str
) -> None:
    found = reasons(version, program, op, phase)
    assert any(one == code and words in text for one, text in found), found


def test_reasons_of_some_versions_only() -> None:
    assert (
        "FD246",
        "BackwardAddRMSNorm takes it from Transformer Engine 2.8 on",
    ) in reasons("2.7.0", "extra output and RMSNorm", "RMSNorm", "backward")
    ((code, text),) = reasons("2.20.2", "backward override", "GELU", "backward")
    assert code == "FD244" and "backward_override" in text
    for version in ("2.15.0", "2.20.2"):
        ((code, text),) = reasons(version, "grouped MLP", "ScaledSwiGLU", "forward")
        assert code == "FD248" and "compute capability 10" in text
    ((code, _),) = reasons(
        "2.20.2", "extra output in place and RMSNorm", "RMSNorm", "backward"
    )
    assert code == "FD242"


def test_every_rule_of_the_table_was_fused_by_some_version() -> None:
    made = {
        step.op
        for version in VERSIONS
        for name in programs(version)
        for fuser in (report(version, name).te or pytest.fail()).fusers
        for plan in fuser.plans
        for step in (*plan.forward, *plan.backward)
        if step.fused
    }
    never = {
        "GroupedMLP_CuTeGEMM",
        "BackwardBiasActivation",
    }  # another GPU; 2.6 alone
    assert {rule.fused for rule in RULES} - never == made - {"ScaledBias"}


def test_rows_count_operators_and_keep_the_lines_that_make_them() -> None:
    found = report("2.20.2", "bias in bfloat16")
    (group,) = found.groups
    assert (group.id, group.kind, group.phase, group.count) == (
        "G1",
        "te.ops.ForwardLinearBiasActivation",
        "forward",
        2,
    )
    assert group.ops == ("te.ops.BasicLinear", "te.ops.Bias")
    assert group.runs == 4  # two operators in training and inference
    assert (found.fuser.effective, found.fuser.live) == ("te", False)
    assert "a plan, not a run" in (found.fuser.why or "")
    assert (
        found.coverage.ops_fused == 4 and found.coverage.ops_total == 4 + 5
    )  # GELU's forward has no rule
    assert all(
        (node.user_source or "").split(":")[0].endswith("record_plans.py")
        for node in group.nodes
    )


def test_training_and_inference_are_plans_of_one_fuser() -> None:
    for version in ("2.7.0", "2.20.2"):
        (fuser,) = (report(version, "delayed").te or pytest.fail()).fusers
        training, inference = fuser.plans
        assert (training.training, inference.training) == (True, False)
        assert training.recipe == "DelayedScaling" and inference.backward == ()
        assert [one.op for one in training.backward] == [
            "BasicLinear",
            "BackwardActivationBias",
        ]


def planner(kinds: list[BasicOperator], **plan: Any) -> Planner:
    facts = OperatorFacts(dtype="bfloat16")
    return Planner(
        (2, 6),
        "forward",
        kinds,
        RecordedPlan(1, 1, operators=(facts,) * len(kinds), **plan),
    )


def test_a_class_of_the_program_is_what_it_is_derived_from_whatever_its_name() -> (
    None
):
    linear = BasicOperator("BasicLinear", bases=("BasicLinear",))
    mine, derived = (
        BasicOperator("Bias", own=True),
        BasicOperator("Shift", bases=("Bias",), own=True),
    )
    assert planner([linear, mine]).planned == []
    assert planner([linear, derived]).planned == [
        ("ForwardLinearBiasActivation", (0, 1))
    ]


def test_before_2_7_nothing_is_fused_in_an_operator_that_is_called_by_itself() -> (
    None
):
    """``OperationFuser([self], fuse_ops=False)``: te.ops.Linear(x) was held against
    the rules before."""
    pair = [BasicOperator("BasicLinear"), BasicOperator("Bias")]
    alone = planner(pair, asked=False)
    assert planner(pair).planned and not alone.planned
    assert "fuses inside a te.ops.Sequential only" in alone.why(0).text


def test_fix_is_not_offered_for_what_goes_through_transformer_engine() -> None:
    """It changes programs for TorchScript, and refuses these."""
    target, options = (
        SimpleNamespace(text="m.py", kind="file"),
        SimpleNamespace(script=False),
    )
    request = SimpleNamespace(
        bundled=False, masked=(), target=target, options=options
    )

    def offered(*plans: RecordedPlan) -> bool:
        context: Any = SimpleNamespace(
            request=request, own=True, te=TeRecords(plans=plans)
        )
        return can_be_fixed(context)

    assert offered() and not offered(RecordedPlan(1, 1))
