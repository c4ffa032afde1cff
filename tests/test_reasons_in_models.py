"""Reasons in logs of models that nobody here wrote, each judged against the printed
graph."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from conftest import FIXTURES
from test_compare_match import group
from test_compare_match import report as small_report

from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.diagnosis.rules.fd3_specialisations import fused_producer
from fusiondoc.fuser_knobs import parse_version
from fusiondoc.fusers import facts_of
from fusiondoc.graph.neighbours import feeding
from fusiondoc.model.report import Program, ProgramNode, Report, Unfused
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs
from fusiondoc.parsers.rows.guard_misses import guard_misses
from fusiondoc.workflows.load import report_from


@cache
def report(name: str) -> Report:
    path = FIXTURES / "foreign" / f"{name}.nvfuser.log.xz"
    return read_logs(find_logs([str(path)]), work_out=Reasons())[0]


def rows(name: str, op: str, code: str) -> list[Unfused]:
    return [
        row
        for row in report(name).unfused
        if row.op == op and row.reason.code == code
    ]


def test_each_node_has_the_reason_of_its_own_place() -> None:
    """23 batch norms of one line of torch/nn/functional.py: what stands after them
    is not the same."""
    found = rows("mobilenet_v3.trace.train", "aten::batch_norm", "FD231")
    first = {row.reason.text.split(": ")[1].split(" (")[0] for row in found}
    assert first == {
        "aten::hardswish_",
        "aten::relu_",
        "aten::_convolution",
        "aten::add_",
    }
    assert len({(row.source, row.phase) for row in found}) == 1
    counts = {
        row.reason.text.split(": ")[1].split(" (")[0]: row.count for row in found
    }
    assert counts == {
        "aten::hardswish_": 18,
        "aten::relu_": 5,
        "aten::_convolution": 1,
        "aten::add_": 10,
    }


def test_what_can_be_changed_is_named_before_what_cannot() -> None:
    for row in rows("mobilenet_v3.trace.train", "aten::batch_norm", "FD231"):
        if "hardswish_" in row.reason.text:
            changeable, fixed = row.reason.text.split("; ")
            assert "after it changes its input in place" in changeable
            assert "aten::_convolution" in fixed


@pytest.mark.parametrize(
    ("log", "op", "text"),
    [
        (
            "gpt2.trace.eval",
            "aten::to",
            "it names a device; nvFuser has a rule only for aten::to with a dtype alone",
        ),
        ("gpt2.trace.eval", "aten::matmul", "nvFuser has no parsing rule for it"),
    ],
)
def test_which_condition_of_its_rule_a_node_does_not_meet(
    log: str, op: str, text: str
) -> None:
    assert {row.reason.text for row in rows(log, op, "FD201")} == {text}


def test_the_view_that_nvfuser_leaves_out_is_the_barrier() -> None:
    """x @ w + b of a Conv1D is shaped back by a view, and behind that stands a
    group."""
    found = rows("gpt2.trace.eval", "aten::add", "FD227")
    assert sum(row.count for row in found) == 12
    for row in found:
        assert row.reason.text.startswith("aten::view (")
        assert "a view that nvFuser takes into no group" in row.reason.text


def test_a_chunk_between_an_add_and_its_group() -> None:
    (row,) = rows("lstm_cells.trace.eval", "aten::add", "FD227")
    assert row.reason.text.startswith("prim::ConstantChunk (")


def test_no_text_names_a_value_or_a_layer() -> None:
    """Equal layers give one row, whatever their values are called."""
    for name in (
        "bert.trace.eval",
        "vit.trace.eval",
        "mobilenet_v3.trace.train",
        "convnext.script.train",
    ):
        for row in report(name).unfused:
            assert "%" not in row.reason.text and "__module" not in row.reason.text


def test_the_reserve_of_a_batch_norm_is_no_reason() -> None:
    """Its Byte tensor is thrown away by nvFuser (partition.cpp,
    checkOutputTensorTypes)."""
    for name in ("mobilenet_v3.trace.train", "resnet18.trace.eval"):
        assert not rows(name, "aten::_batch_norm_impl_index", "FD223")
        assert not rows(name, "aten::_batch_norm_impl_index_backward", "FD223")


def test_the_counter_of_a_batch_norm_is_no_loss() -> None:
    texts = {
        row.reason.text
        for row in rows("resnet18.trace.eval", "aten::add_", "FD226")
    }
    assert texts <= {
        "it counts the batches that a batch norm has seen: one number, nothing to save"
    }
    assert not any(
        "batchnorm.py" in (row.source or "")
        for row in report("mobilenet_v3.trace.train").unfused
        if row.reason.code == "FD230"
    )


def of_text(folder: Path, text: str) -> Report:
    (folder / "some.log").write_text(text)
    return report_from([str(folder / "some.log")])


def plan(body: str, header: str = "Optimized Graph:") -> str:
    place = "[DUMP profiling_graph_executor_impl.cpp:676]"
    return (
        "\n".join(
            f"{place} {line}" for line in [header, *body.strip("\n").split("\n")]
        )
        + "\n"
    )


LOOP = """
graph(%x : Tensor, %n : int):
  %t : bool = prim::Constant[value=1]()
  %k : int = prim::Constant[value=8]()
  %r : int = aten::__round_to_zero_floordiv(%n, %k)
  %d : int = aten::mul(%r, %k)
  %m : int = aten::sub(%n, %d)
  %a : Tensor = prim::Loop(%r, %t, %x) # model.py:5:4
    block0(%i : int, %b : Tensor):
      %c : Tensor = aten::cumsum(%b, %i) # model.py:6:8
      -> (%t, %c)
  %e : Tensor = prim::Loop(%m, %t, %a) # model.py:5:4
    block0(%j : int, %f : Tensor):
      %g : Tensor = aten::cumsum(%f, %j) # model.py:6:8
      -> (%t, %g)
  %h : Tensor = prim::Loop(%n, %t, %e) # model.py:9:4
    block0(%l : int, %o : Tensor):
      %p : Tensor = aten::cumsum(%o, %l) # model.py:10:8
      -> (%t, %p)
  return (%h)
"""


def test_a_loop_that_is_unrolled_is_said_to_be(tmp_path: Path) -> None:
    texts = [
        row.reason.text
        for row in of_text(tmp_path, plan(LOOP)).unfused
        if row.op == "prim::Loop"
    ]
    assert [text.split("(")[1].split(")")[0] for text in texts] == [
        "a loop unrolled by 8",
        "the remainder of a loop unrolled by 8",
        "a loop with a number of steps that torch did not unroll",
    ]


def test_what_stands_in_torchs_own_formulas_is_folded_and_gets_no_advice(
    tmp_path: Path,
) -> None:
    path = FIXTURES / "foreign" / "functions.trace.train.nvfuser.log.xz"
    found = [
        f for f in report_from([str(path)]).findings if "aten::matmul" in f.ops
    ]
    assert [(f.code, f.severity, f.source) for f in found] == [
        ("FD236", "note", None)
    ]
    assert found[0].advice is not None and found[0].advice.startswith("Nothing")
    formula = LOOP.replace("model.py", "<string>")
    (flow,) = [
        f
        for f in of_text(tmp_path, plan(formula)).findings
        if "prim::Loop" in f.ops
    ]
    assert (flow.code, flow.message) == (
        "FD236",
        "aten::cumsum x3, prim::Loop x3: torch's own gradient formulas",
    )


NO_REGION = """
graph(%x : Tensor, %w : Tensor, %y : Tensor):
  %n : NoneType = prim::Constant()
  %l : int[] = prim::Constant[value=[1, 1]]()
  %o : int = prim::Constant[value=1]()
  %a : Tensor = aten::conv2d(%x, %w, %n, %l, %l, %l, %o) # model.py:5:4
  %b : Tensor = aten::sigmoid(%a) # model.py:6:4
  %c : Tensor = aten::relu_(%b) # model.py:7:4
  %d : Tensor = aten::add_(%c, %y, %o) # model.py:8:4
  return (%d)
"""


def test_nothing_in_training_is_the_first_possible_cause_of_a_log_without_a_pass(
    tmp_path: Path,
) -> None:
    report = of_text(tmp_path, plan(NO_REGION))
    (found,) = [finding for finding in report.findings if finding.code == "FD102"]
    assert found.advice is not None
    first, second = found.advice.split("; 2) ")
    assert (
        "1) gradients were recorded" in first
        and "aten::relu_ (1 time), aten::add_ (1 time)" in first
    )
    assert second.startswith("no fuser was on")
    (sigmoid,) = [row for row in report.unfused if row.op == "aten::sigmoid"]
    assert sigmoid.reason.code == "FD231"
    assert sigmoid.reason.text.startswith(
        "no fusion pass looked at its graph; if gradients are recorded"
    )
    assert (
        "aten::relu_ (model.py:7:4) after it changes its input in place"
        in sigmoid.reason.text
    )


def test_a_graph_with_gradients_and_no_region_needs_no_fuser_turned_on(
    tmp_path: Path,
) -> None:
    typed = NO_REGION.replace(
        "%b : Tensor =", "%b : Float(2, 3, requires_grad=1, device=cuda:0) ="
    )
    report = of_text(tmp_path, plan(typed))
    (found,) = [finding for finding in report.findings if finding.code == "FD102"]
    assert (
        "gradients are recorded, and torch found no differentiable graph"
        in found.message
    )
    assert "aten::conv2d (1 time) have no gradient formula" in found.message
    assert "fuser1" not in (found.advice or "") and "no_grad" in (
        found.advice or ""
    )


def test_strides_that_a_fused_producer_changed_are_said_to_be_its_doing() -> None:
    """The profiled run handed on a permuted view; the group that took the permute
    in writes it in order."""
    path = FIXTURES / "foreign" / "convnext.script.train.nvfuser.log.xz"
    found = {
        f.message.split(" (")[0]: f
        for f in report_from([str(path)]).findings
        if f.code == "FD305"
    }
    producers = {
        name: f.message.split(" times: ")[1].split(" (")[0]
        for name, f in found.items()
    }
    assert {name: by for name, by in producers.items() if by.startswith("G")} == {
        "Group G4": "G1",
        "Group G9": "G6",
        "Group G12": "G5",
        "Group G14": "G3",
        "Group G17": "G2",
    }
    first = found["Group G9"]
    assert "writes input 1 with the strides [4096, 64, 8, 1]" in first.message
    assert "made it with [4096, 1, 512, 64]" in first.message
    assert (
        "write .contiguous() on what that group returns (after aten::permute)"
        in (first.advice or "")
    )


def test_of_several_such_producers_the_one_that_the_group_reads_is_named() -> None:
    out = "Float(2, 4, 8, strides=[32, 1, 4], requires_grad=0, device=cuda:0)"
    in_order = out.replace("[32, 1, 4]", "[32, 8, 1]")
    first = group(3, "mul add", inputs=(out,))
    views = [group(n, "permute_copy layer_norm", outputs=(out,)) for n in (1, 2)]
    node = ProgramNode(
        "group",
        "prim::CudaFusionGroup",
        None,
        None,
        (),
        (),
        None,
        None,
        None,
        None,
        None,
    )
    nodes = tuple(replace(node, group=name) for name in ("G1", "G2", "G3"))
    program = Program("P1", "forward", 1, None, (), nodes, ((0, 1), (1, 2)))
    assert feeding(first, [program]) == {"G2"}
    misses = tuple(guard_misses("G3", first.inputs, (in_order,)))
    again = replace(first, id="G4", inputs=(in_order,), guard_misses=misses)
    named = fused_producer(
        first, again, replace(small_report(*views, first), programs=(program,))
    )
    assert named is not None and named.group.id == "G2"


PERMUTED = """
graph(%0 : Tensor, %f : float):
  %n : bool = prim::AutogradAllNonZero(%0)
  %k : (Tensor) = prim::If(%n)
    block0():
      %g : bool = prim::CudaFusionGuard[types=[Float(2, 4, 4, 16, 8, strides=[2048, 512, 128, 1, 16], requires_grad=0, device=cuda:0)]](%0)
      %r : Tensor = prim::If(%g)
        block0():
          %s : Tensor = prim::CudaFusionGroup_0[cache_id=21](%0, %f)
          -> (%s)
        block1():
          %c : Function = prim::Constant[name="fallback_function", fallback=1]()
          %d : (Tensor) = prim::CallFunction(%c, %0, %f)
          %e : Tensor = prim::TupleUnpack(%d)
          -> (%e)
      %t : (Tensor) = prim::TupleConstruct(%r)
      -> (%t)
    block1():
      %h : Tensor = prim::AutogradZero()
      %i : (Tensor) = prim::TupleConstruct(%h)
      -> (%i)
  return (%k)
with prim::CudaFusionGroup_0 = graph(%4 : Float(2, 4, 4, 16, 8, strides=[2048, 512, 128, 1, 16], requires_grad=0, device=cuda:0),
      %5 : float):
  %1 : int[] = prim::Constant[value=[0, 1, 3, 2, 4]]()
  %6 : Float(2, 4, 4, 16, 8, strides=[2048, 512, 128, 1, 16], requires_grad=0, device=cuda:0) = aten::mul(%4, %5) # <string>:18:23
  %3 : Float(2, 4, 16, 4, 8, strides=[2048, 512, 1, 128, 16], requires_grad=0, device=cuda:0) = prim::permute_copy(%6, %1)
  return (%3)
"""  # noqa: E501

WRONG = (
    "Traceback (most recent call last):\n"
    '  File "model.py", line 196, in <module>\n'
    "    out.sum().backward()\n"
    "RuntimeError: Function torch::jit::(anonymous namespace)::DifferentiableGraphBackward returned an"
    " invalid gradient at index 0 - got [{}] but expected shape compatible with [2, 4, 16, 4, 8]\n"
)


def test_a_gradient_of_the_wrong_shape_is_laid_at_the_group_that_gave_it(
    tmp_path: Path,
) -> None:
    """The group and the error are those of a MaxViT in training under torch
    2.1.2."""
    report = of_text(tmp_path, plan(PERMUTED) + WRONG.format("2, 4, 8, 16, 4"))
    (found,) = [finding for finding in report.findings if finding.code == "FD308"]
    assert (
        "nvFuser's rule for aten::permute gave a gradient of [2, 4, 8, 16, 4]"
        in found.message
    )
    assert (
        "group G1 takes a tensor of [2, 4, 4, 16, 8] with the strides [2048, 512, 128, 1, 16]"
        in found.message
    )
    assert "skip_node_kind=prim::permute_copy" in (found.advice or "")


def test_a_gradient_of_another_wrong_shape_is_no_fault_of_the_permute(
    tmp_path: Path,
) -> None:
    report = of_text(tmp_path, plan(PERMUTED) + WRONG.format("2, 16, 8, 4, 4"))
    (found,) = [finding for finding in report.findings if finding.code == "FD308"]
    assert "The backward graph that torch made" in found.message
    assert "optimized_execution(False)" in (found.advice or "")


def test_what_is_said_of_one_node_is_not_said_of_the_others_on_its_line() -> None:
    """Scripted, all batch norms stand on one line. nvFuser refuses the 50 in
    branches that never ran, because their `training` was not profiled, and says
    nothing of the 42 that ran and found nothing to fuse with."""
    found = [
        row
        for row in report("mobilenet_v2.script.eval").unfused
        if row.op == "aten::batch_norm"
    ]
    assert {row.reason.code: row.count for row in found if row.ran is False} == {
        "FD232": 50
    }
    ran = [row for row in found if row.ran]
    assert sum(row.count for row in ran) == 42
    assert {row.reason.code for row in ran} == {"FD225", "FD227", "FD228"}
    # What is said of a kind of node holds for all of them: nvFuser has no rule for
    # hardtanh.
    tanh = [
        row
        for row in report("mobilenet_v2.script.eval").unfused
        if row.op == "aten::hardtanh"
    ]
    assert [(row.count, row.reason.code, row.reason.stated) for row in tanh] == [
        (35, "FD201", True)
    ]


@pytest.mark.parametrize(
    ("torch", "views"),
    [
        ("1.12.1", 0),
        ("1.13.1+cu117", 2),
        ("2.0.1", 5),
        ("2.1.2+cu121", 5),
        (None, 5),
    ],
)
def test_which_views_nvfuser_takes_depends_on_the_version(
    torch: str | None, views: int
) -> None:
    views_in = facts_of("nvfuser").operators.views_in
    assert views_in is not None
    assert (
        len(views_in(parse_version(torch) if torch is not None else None)) == views
    )


@pytest.mark.parametrize(
    ("torch", "taken"), [("1.12.1", False), ("1.13.1+cu117", True), (None, True)]
)
def test_which_operators_nvfuser_takes_depends_on_the_version(
    torch: str | None, taken: bool, tmp_path: Path
) -> None:
    log = tmp_path / "plan.log"
    tag = "[DUMP profiling_graph_executor_impl.cpp:676] "
    lines = [
        "Optimized Graph: ",
        "graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cuda:0)):",
    ]
    lines += [
        "  %y : Tensor = aten::leaky_relu(%x) # model.py:1:0",
        "  return (%y)",
    ]
    log.write_text("".join(f"{tag}{line}\n" for line in lines))
    (row,) = read_logs(find_logs([str(log)]), work_out=Reasons("nvfuser", torch))[
        0
    ].unfused
    assert (row.reason.code != "FD233") == taken
