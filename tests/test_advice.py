"""Advice fits the run: it contradicts nothing that is known of it, and assumes
nothing that is not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from conftest import FIXTURES
from plans_made import advice_on

import fusiondoc
from fusiondoc.diagnosis.advice import of_torch
from fusiondoc.diagnosis.changes_of_operators import change_of
from fusiondoc.diagnosis.rules import Context, Owner, RunFacts, run_facts
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import (
    AloneInRegion,
    Argument,
    Barrier,
    Condition,
    ControlFlow,
    Detail,
    DissolvedRegion,
    FormulaGap,
    NotConstant,
    NothingToGain,
    OperatorAt,
    Overload,
    RegionEnd,
    Stated,
)
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Unfused
from fusiondoc.parsers.observed import Observed
from fusiondoc.workflows.load import report_from

UNKNOWN = RunFacts(
    fuser="nvfuser",
    torch=None,
    gradients=None,
    backward=False,
    frozen=None,
    traced=None,
    dtypes=frozenset(),
    devices=frozenset(),
    live=False,
    project=None,
)
TORCH = "/site/torch/nn/functional.py:2114:15"
PACKAGE = "/usr/lib/python3/dist-packages/vision/net.py:7:3"
USER = "model.py:3:8"


def refused(
    code: str, op: str, detail: Detail | None = None, **more: object
) -> Unfused:
    found = Unfused(op, USER, None, None, 1, Reason(code, "", True, detail), ())
    return replace(found, **more)  # type: ignore[arg-type]


def branch_on(what: str) -> ControlFlow:
    return ControlFlow(Condition(what), in_formula=False)


def said(
    code: str,
    op: str,
    run: RunFacts,
    source: str = USER,
    detail: Detail | None = None,
    **more: object,
) -> str:
    found = Unfused(op, source, None, None, 1, Reason(code, "", True, detail), ())
    remedy = advice_on(replace(found, **more), run).remedy  # type: ignore[arg-type]
    return remedy.text if remedy is not None else ""


def test_gradients_are_only_advised_on_as_far_as_they_are_known():
    assert said("FD231", "aten::roll", UNKNOWN).startswith(
        "If this is inference, run it under torch.no_grad()"
    )
    trained = replace(UNKNOWN, gradients=True, backward=True)
    assert "no_grad" not in said("FD231", "aten::roll", trained)
    # A knob is an option of fusiondoc: only for a run that it made.
    assert "--knob" not in said("FD231", "aten::roll", trained)
    assert "--knob" in said("FD231", "aten::roll", replace(trained, live=True))


def test_what_fills_a_tensor_has_no_version_without_the_underscore():
    assert said("FD230", "aten::fill_", UNKNOWN).startswith(
        "Make a filled tensor, x = torch.full_like(x, value)"
    )
    assert "x.fill(" not in said("FD230", "aten::fill_", UNKNOWN)
    assert said("FD230", "aten::exp_", UNKNOWN).startswith(
        "Write the version without the underscore: x = x.exp("
    )


@pytest.mark.parametrize(
    ("gradients", "frozen"),
    [(False, None), (False, True), (None, None), (True, None)],
)
def test_dropout_is_taken_out_by_freezing_only_in_inference(
    gradients: bool | None, frozen: bool | None
):
    run = replace(UNKNOWN, fuser="nnc", gradients=gradients, frozen=frozen)
    freezes = "torch.jit.freeze" in said("FD211", "aten::dropout", run, TORCH)
    assert freezes == (gradients is False and not frozen)


def test_a_branch_on_a_flag_is_made_constant_as_the_run_allows():
    flag = ControlFlow(Condition("training"), in_formula=False)
    assert "for inference, freeze" in said(
        "FD229", "prim::If", UNKNOWN, detail=flag
    )
    assert "for inference" not in said(
        "FD229", "prim::If", replace(UNKNOWN, gradients=False), detail=flag
    )
    assert "freeze" not in said(
        "FD229", "prim::If", replace(UNKNOWN, frozen=True), detail=flag
    )
    traced = said("FD229", "prim::If", replace(UNKNOWN, traced=True), detail=flag)
    assert "instead of scripting" not in traced and "torch.jit.script" not in traced
    attribute = ControlFlow(
        Condition("attribute", "residual", "bool"), in_formula=False
    )
    assert "torch.jit.Final" in said("FD229", "prim::If", UNKNOWN, detail=attribute)
    assert "torch.jit.Final" not in said(
        "FD229", "prim::If", UNKNOWN, PACKAGE, detail=attribute
    )


def test_no_dtype_is_advised_that_the_run_has():
    assert "another type" in said(
        "FD215", "aten::elu", replace(UNKNOWN, fuser="nnc")
    )
    half = replace(UNKNOWN, fuser="nnc", dtypes=frozenset({"Half"}))
    assert "another type" not in said("FD215", "aten::elu", half)
    assert "float16" not in said(
        "FD223",
        "aten::elu",
        replace(half, dtypes=frozenset({"Half", "ComplexFloat"})),
    )


def test_another_fuser_is_advised_only_if_it_takes_the_operator_and_can_run():
    norm = replace(
        UNKNOWN,
        fuser="nnc",
        torch="2.1.2",
        devices=frozenset({"cuda"}),
        live=True,
        gradients=True,
    )
    assert "--fuser nvfuser" in said("FD233", "aten::instance_norm", norm)
    for other in (
        replace(norm, torch="2.2.0"),  # nvFuser is not in it
        replace(norm, torch=None),
        replace(norm, devices=frozenset({"cpu"})),
    ):
        assert "--fuser" not in said("FD233", "aten::instance_norm", other)
    assert "--fuser" not in said("FD233", "aten::cumsum", norm)  # no fuser takes it


def test_what_is_in_a_package_is_changed_from_outside():
    run = replace(UNKNOWN, torch="2.1.2")
    assert said("FD201", "aten::hardswish", run) == (
        "Write x * (torch.clamp(x + 3, 0, 6) / 6) instead of F.hardswish(x)."
    )
    for source in (TORCH, PACKAGE):
        assert said("FD201", "aten::hardswish", run, source).startswith(
            "Replace torch.nn.Hardswish by a module"
        )
    assert "m.inplace = False" in said("FD230", "aten::relu_", run, TORCH)
    assert said("FD230", "aten::add_", run) == "Write x = x + y instead of x += y."
    assert "package" in said("FD230", "aten::add_", run, PACKAGE)


def test_in_place_operators_of_a_training_run_are_written_out_of_place():
    trained = replace(UNKNOWN, gradients=True, backward=True)
    assert "m.inplace = False" in said("FD231", "aten::relu_", trained, TORCH)
    assert (
        said("FD231", "aten::add_", trained) == "Write x = x + y instead of x += y."
    )


def test_out_of_place_gains_nothing_where_the_fuser_does_not_take_that_either() -> (
    None
):
    """Live, ``nn.Dropout(0.1, inplace=False)`` leaves the same groups under NNC,
    forward and backward."""
    run = replace(UNKNOWN, fuser="nnc", gradients=True, backward=True)
    for code in ("FD230", "FD231"):
        assert (
            said(code, "aten::dropout_", run, TORCH)
            == "Nothing: NNC does not take aten::dropout either."
        )
        assert "m.inplace = False" in said(code, "aten::relu_", run, TORCH)
    nvfuser = replace(run, fuser="nvfuser")
    assert "m.inplace = False" in said("FD230", "aten::dropout_", nvfuser, TORCH)


def test_only_a_sure_change_makes_a_warning():
    run = replace(UNKNOWN, fuser="nnc", torch="2.1.2", gradients=False)

    def sure(op: str) -> bool:
        return advice_on(
            Unfused(op, TORCH, None, None, 1, Reason("FD211", "", True), ()), run
        ).sure

    assert sure("aten::dropout") and sure("aten::selu")
    # No recipe; and a recipe that costs more kernels than it saves.
    assert not sure("aten::cumsum") and not sure("aten::layer_norm")


def test_whose_line_it_is(tmp_path):
    def owner(
        source: str | None, project: bool = False, user: str | None = None
    ) -> Owner:
        row = Unfused(
            "aten::add", source, user, None, 1, Reason("FD201", "", True), ()
        )
        return replace(UNKNOWN, project=tmp_path if project else None).owner(row)

    assert owner(TORCH) is Owner.TORCH
    assert owner(TORCH, user=USER) is Owner.USER
    assert owner(PACKAGE) is Owner.PACKAGE
    assert owner("/opt/x/site/torchvision/ops/misc.py:260:3") is Owner.PACKAGE
    assert owner("<string>:3:4") is Owner.FORMULA
    assert owner(None) is Owner.UNKNOWN
    assert owner(f"{tmp_path}/net.py:3:4", project=True) is Owner.USER
    assert owner("/elsewhere/net.py:3:4", project=True) is Owner.PACKAGE


@pytest.mark.parametrize(
    ("name", "gradients", "backward"),
    [
        ("mobilenet_v3.trace.train.nvfuser", True, True),
        ("bert.trace.eval.nvfuser", False, False),
        ("shapes.script.train.nvfuser", True, True),
    ],
)
def test_what_a_log_tells_of_its_run(name: str, gradients: bool, backward: bool):
    report = report_from([str(FIXTURES / "foreign" / f"{name}.log.xz")])
    run = run_facts(report, Context(Observed()))
    assert (run.gradients, run.backward, run.live, run.torch) == (
        gradients,
        backward,
        False,
        None,
    )
    assert run.devices == {"cuda"} and "Float" in run.dtypes
    for one in report.findings:
        if one.code.startswith("FD2") and one.advice:
            assert "no_grad" not in one.advice or not backward
            assert "--knob" not in one.advice and "--fuser" not in one.advice


def test_torch_s_own_formulas_get_no_advice():
    report = report_from([str(FIXTURES / "kernels" / "nnc-2.1-cuda.log.xz")])
    own = {row.op for row in report.unfused if (row.source or "").startswith("<")}
    notes = [
        f
        for f in report.findings
        if f.code == "FD236" and "torch's own gradient formulas" in f.message
    ]
    assert own and len(notes) == 1 and "aten::_grad_sum_to_size" in notes[0].ops


def test_advice_on_what_cannot_be_written_otherwise_is_none():
    assert "x.copy(" not in said("FD230", "aten::copy_", UNKNOWN)
    assert "torch.where" in said("FD230", "aten::index_put_", UNKNOWN)
    conv2d = RegionEnd(
        OperatorAt("aten::conv2d", "model.py:1:2"),
        "before",
        FormulaGap("no_formula"),
    )
    alone = AloneInRegion(True, (conv2d,))
    assert said("FD231", "aten::relu", UNKNOWN, detail=alone).startswith("Nothing")
    alone = AloneInRegion(True, (in_place_after("relu_"), conv2d))
    assert "change aten::relu_, which works in place" in said(
        "FD231", "aten::relu", UNKNOWN, detail=alone
    )


def in_place_after(name: str) -> RegionEnd:
    return RegionEnd(
        OperatorAt(f"aten::{name}", "model.py:1:2"), "after", FormulaGap("in_place")
    )


def test_a_flag_of_batch_norm_is_frozen_and_a_copy_is_no_view():
    assert "freeze" in said(
        "FD219", "aten::batch_norm", UNKNOWN, detail=Stated("training_not_constant")
    )
    copied = NothingToGain("copies", "nvfuser")
    assert "moves no data" not in said(
        "FD226", "aten::reshape", UNKNOWN, detail=copied
    )


@pytest.mark.parametrize("traced", [True, False, None])
def test_a_model_is_frozen_as_it_was_made(traced: bool | None):
    run = replace(UNKNOWN, gradients=False, traced=traced)
    text = said("FD211", "aten::dropout", run, TORCH)
    assert ("torch.jit.trace(model.eval(), inputs)" in text) == (traced is True)
    assert ("torch.jit.script(" in text) == (traced is False)


def test_scopes_tell_a_trace_and_control_flow_a_script():
    report = fusiondoc.parse(
        FIXTURES / "foreign" / "gpt2.trace.eval.nvfuser.log.xz"
    )
    said = {
        one.advice
        for one in report.findings
        if one.advice and "freez" in one.advice
    }
    assert said and all(
        "torch.jit.freeze(torch.jit.trace(model.eval(), inputs))" in text
        for text in said
    )
    looped = fusiondoc.parse(FIXTURES / "logs" / "nnc-2.13-refused-numbers.log.xz")
    assert run_facts(looped, Context(Observed())).traced is False


def test_an_operator_in_place_that_has_no_rule_out_of_place_is_written_otherwise():
    trained = replace(UNKNOWN, gradients=True, backward=True)

    def beside(name: str) -> str:
        alone = AloneInRegion(True, (in_place_after(name),))
        return said("FD231", "aten::batch_norm", trained, detail=alone)

    assert "x * (torch.clamp(x + 3, 0, 6) / 6)" in beside("hardswish_")
    assert "to aten::relu." in beside("relu_")


def test_what_torch_lost_itself_is_not_to_be_moved():
    trained = replace(UNKNOWN, gradients=True, backward=True)
    lost = DissolvedRegion(
        True, 7, "lost_at_border", OperatorAt("aten::gelu", "model.py:1:2")
    )
    assert said("FD231", "aten::gelu", trained, detail=lost).startswith(
        "Nothing in training"
    )


@pytest.mark.parametrize("gradients", [True, False])
def test_a_list_that_is_written_out_can_be_cut_off_in_training(gradients: bool):
    run = replace(UNKNOWN, fuser="nnc", gradients=gradients)
    text = said("FD219", "aten::cat", run, detail=Stated("cat_elsewhere"))
    assert text.startswith("Write the list where it is joined")
    assert ("differentiable graph" in text) == gradients


def test_indices_are_given_by_no_fuser_and_values_by_nvfuser():
    """In fixtures/logs/extremes.py a maximum gives indices too, one is of all
    elements; NNC says neither."""
    report = fusiondoc.parse(FIXTURES / "logs" / "nnc-2.13-extremes.log.xz")
    told = {row.reason.text for row in report.unfused if row.op == "aten::max"}
    assert told == {
        "it gives indices too, and NNC takes aten::max of two tensors only",
        "it reduces over all dimensions, and NNC takes aten::max of two tensors only",
    }
    advice = {
        one.advice for one in report.findings if one.code in ("FD211", "FD233")
    }
    assert all("constants" not in (text or "") for text in advice)
    both = Overload("aten::max", "nvfuser", "with_indices")
    for gradients, amax in ((False, True), (True, False), (None, False)):
        text = said(
            "FD201", "aten::max", replace(UNKNOWN, gradients=gradients), detail=both
        )
        assert ("torch.amax" in text) == amax and re.search(
            "[Nn]o fuser .*returns indices", text
        )
    assert "no fuser" in said(
        "FD211", "aten::argmin", replace(UNKNOWN, fuser="nnc")
    )
    assert "--fuser" not in said(
        "FD211", "aten::max", replace(UNKNOWN, fuser="nnc", live=True), detail=both
    )
    plan = " ".join(change.change for change in report.plan)
    assert "Write torch.floor(x / y) instead of torch.floor_divide(x, y)" in plan
    assert "1.0 // 0.1 is 9, floor(1.0 / 0.1) is 10" in " ".join(
        one.note or "" for one in report.plan
    )


@pytest.mark.parametrize(
    ("op", "detail", "advice"),
    [
        (
            "mean",
            NotConstant(("dim", "keepdim"), ""),
            "Give mean() constants for `dim` and `keepdim`",
        ),
        ("sum", Argument("not_floating", "dtype"), "Reduce in a"),
        (
            "mean",
            Overload("aten::mean", "nvfuser", "all_dimensions"),
            "Write x.mean([0, 1])",
        ),
        (
            "std",
            Overload("aten::std", "nvfuser", "correction"),
            "Write x.std([1], unbiased=False)",
        ),
    ],
)
def test_dimensions_are_listed_only_where_none_were_given(
    op: str, detail: Detail, advice: str
):
    run = replace(UNKNOWN, torch="2.1.2", fuser="nvfuser")
    assert said("FD201", f"aten::{op}", run, detail=detail).startswith(advice)
    at = OperatorAt(f"aten::{op}", "m.py:3")
    barrier = Barrier(at, "no_rule", "nvfuser", "prim::CudaFusionGroup", alone=True)
    assert "[0, 1]" not in said("FD227", "aten::exp", run, detail=barrier)


def test_a_convolution_between_has_one_advice_whoever_names_it():
    """The log's "order or shared memory" is a relu before the convolution of a
    squeeze-and-excite block."""
    run = replace(UNKNOWN, torch="2.13.0", fuser="nnc")
    at = OperatorAt("aten::conv2d", "torch/nn/modules/conv.py:560")
    barrier = Barrier(at, "refused", "nnc", "prim::TensorExprGroup", alone=True)
    stated, found = (
        said(code, "aten::relu", run, detail=barrier) for code in ("FD216", "FD227")
    )
    assert stated == found and "Reorder" not in stated
    written = replace(
        barrier, operator=OperatorAt("aten::square", "m.py:3"), why="no_rule"
    )
    assert said("FD216", "aten::relu", run, detail=written).startswith(
        "Change aten::square"
    )


def test_a_maximum_of_all_elements_has_a_rule_of_nvfuser_by_another_name():
    all_elements = Overload("aten::max", "nvfuser", "all_elements")
    run = replace(UNKNOWN, torch="2.1.2", fuser="nvfuser", gradients=False)
    written = said("FD201", "aten::max", run, detail=all_elements)
    assert written.startswith("Write x.amax([0, 1]) instead of x.max()")
    trained = said(
        "FD201", "aten::max", replace(run, gradients=True), detail=all_elements
    )
    assert "amax" not in trained  # it has no gradient formula


@pytest.mark.parametrize(("code", "nothing"), [("FD103", False), ("FD201", True)])
def test_what_has_no_plan_yet_is_not_left_to_torch(code: str, nothing: bool):
    """A dropout of the user's is a line of a formula; FD103 says to run the model
    once more."""
    why = Reason(code, "why", False)
    row = Unfused(
        "aten::native_dropout", "<string>:47:23", None, "forward", 1, why, ()
    )
    assert of_torch(row, UNKNOWN) is nothing


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (
            refused("FD229", "prim::If", branch_on("tensor_value")),
            ChangeKind.BRANCH,
        ),
        (refused("FD229", "prim::If", branch_on("argument")), ChangeKind.CONSTANT),
        (refused("FD226", "aten::permute", keeps_out=2), ChangeKind.MOVE_VIEW),
        (refused("FD211", "aten::softmax"), ChangeKind.KNOB),
        (refused("FD219", "aten::softmax"), ChangeKind.KNOB),
        (refused("FD216", "aten::add_"), ChangeKind.OUT_OF_PLACE),
        (refused("FD231", "aten::mul_"), ChangeKind.OUT_OF_PLACE),
    ],
)
def test_the_advice_is_the_change_that_the_plan_has(
    row: Unfused, kind: ChangeKind
) -> None:
    run = replace(UNKNOWN, fuser="nnc", torch="2.13.0")
    change, remedy = change_of(row, run), advice_on(row, run).remedy
    assert change is not None and change.kind is kind
    assert remedy is not None and remedy.step == f"{change.title}."


def test_a_view_that_keeps_nothing_out_stays() -> None:
    row = refused("FD226", "aten::permute")
    remedy = advice_on(row, replace(UNKNOWN, fuser="nnc", torch="2.13.0")).remedy
    assert remedy is not None and remedy.nothing is not None


def test_a_branch_of_a_package_is_for_its_author() -> None:
    row = replace(
        refused("FD229", "prim::If", branch_on("tensor_value")), source=PACKAGE
    )
    remedy = advice_on(row, replace(UNKNOWN, fuser="nnc", torch="2.13.0")).remedy
    assert remedy is not None and remedy.text.startswith(
        "The branch is in a package"
    )
