"""Why a differentiable graph is missing: lines of plans of torch 2.1.2
(EfficientNet, DistilBERT and DenseNet in training), without what has no part in
it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fusiondoc.cli import cli
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

_TYPE = "Float(2, 16, 32, strides=[512, 32, 1], requires_grad=1, device=cuda:0)"

DROP_PATH = """graph(%x : Tensor, %w : Tensor, %m : Tensor):
  %one : int = prim::Constant[value=1]()
  %flag : bool = prim::Constant[value=1]()
  %eps : float = prim::Constant[value=0.1]()
  %none : NoneType = prim::Constant()
  %c : Tensor = aten::cumsum(%x, %one, %none) # model.py:1:0
  %y : Tensor = aten::batch_norm(%c, %w, %w, %m, %m, %flag, %eps, %eps, %flag) # model.py:2:0
  %size : int = aten::size(%y, %one) # model.py:3:0
  %sizes : int[] = prim::ListConstruct(%size, %one)
  %noise : Tensor = aten::empty(%sizes, %one, %none, %none, %flag, %none) # model.py:3:0
  %kept : Tensor = aten::bernoulli_(%noise, %eps, %none) # model.py:4:0
  %z : Tensor = aten::mul(%y, %kept) # model.py:5:0
  return (%z)"""

BORDER = f"""graph(%x : {_TYPE}, %w : {_TYPE}):
  %a : Tensor = prim::DifferentiableGraph_0(%x)
  %b : Tensor = aten::cumsum(%a) # model.py:1:0
  %c : {_TYPE} = aten::view(%b) # model.py:1:0
  %1 : int = prim::Constant[value=1]()
  %d : Tensor = aten::linear(%c, %w, %w) # model.py:2:0
  %e : Tensor = aten::add(%d, %a, %1) # model.py:3:0
  %f : str = prim::Constant[value="none"]()
  %g : Tensor = aten::gelu(%e, %f) # model.py:4:0
  return (%g)
with prim::DifferentiableGraph_0 = graph(%x : Tensor):
  %a : Tensor = aten::sigmoid(%x) # model.py:0:0
  %b : Tensor = aten::tanh(%a) # model.py:0:0
  return (%b)"""

NEVER = (
    BORDER.replace(f"%c : {_TYPE} = aten::view(%b)", "%c : Tensor = aten::view(%b)")
    .replace("(%d, %a, %1)", "(%d, %c, %1)")
    .replace(f"%w : {_TYPE}", "%w : Tensor")
)

COUNTER = """graph(%x : Tensor, %w : Tensor, %m : Tensor):
  %one : int = prim::Constant[value=1]()
  %flag : bool = prim::Constant[value=1]()
  %eps : float = prim::Constant[value=0.1]()
  %c : Tensor = aten::mul(%x, %w) # model.py:1:0
  %n : Tensor = aten::add_(%m, %one, %one) # model.py:2:0
  %y : Tensor = aten::batch_norm(%c, %w, %w, %m, %m, %flag, %eps, %eps, %flag) # model.py:3:0
  %z : Tensor = aten::cumsum(%y, %one) # model.py:4:0
  return (%z)"""

LISTS = """graph(%x : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %c : Tensor = aten::mul(%x, %w) # model.py:1:0
  %l : Tensor[] = prim::ListConstruct(%c, %w)
  %y : Tensor = aten::cat(%l, %one) # model.py:2:0
  %z : Tensor = aten::cumsum(%y, %one) # model.py:3:0
  return (%z)"""


def reason(plan: str, op: str, folder: Path) -> str:
    log = folder / "plan.log"
    tag = "[DUMP profiling_graph_executor_impl.cpp:676] "
    log.write_text(
        "".join(
            f"{tag}{line}\n" for line in ["Optimized Graph: ", *plan.split("\n")]
        )
    )
    report, _ = read_logs(find_logs([str(log)]), work_out=Reasons("nvfuser"))
    (row,) = [row for row in report.unfused if row.op == op]
    assert row.reason.code == "FD231"
    return row.reason.text


@pytest.mark.parametrize(
    ("plan", "op", "said"),
    [
        (
            DROP_PATH,
            "aten::mul",
            "aten::empty (model.py:3:0) takes the size of the result of aten::batch_norm",
        ),
        (
            DROP_PATH,
            "aten::batch_norm",
            "aten::empty (model.py:3:0) takes the size of its result and leads to",
        ),
        (
            BORDER,
            "aten::gelu",
            "a result of the differentiable graph before it that aten::add (model.py:3:0)",
        ),
        (NEVER, "aten::gelu", "no tensor that enters it has a profiled type"),
        (
            COUNTER,
            "aten::mul",
            "aten::add_ (model.py:2:0) between it and aten::batch_norm changes an attribute",
        ),
        (
            LISTS,
            "aten::mul",
            "torch differentiates regions of at least two operators",
        ),
    ],
)
def test_the_one_cause_is_said(
    plan: str, op: str, said: str, tmp_path: Path
) -> None:
    assert said in reason(plan, op, tmp_path)


def test_a_dict_hides_what_was_put_in(tmp_path: Path) -> None:
    log = tmp_path / "plan.log"
    plan = """graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):
  %k : str = prim::Constant[value="a"]()
  %1 : int = prim::Constant[value=1]()
  %y : Tensor = aten::cumsum(%x, %1) # model.py:1:0
  %d : Dict(str, Tensor) = prim::DictConstruct(%k, %y)
  %a : Tensor = aten::__getitem__(%d, %k) # model.py:2:0
  %z : Tensor = aten::add(%a, %a, %1) # model.py:3:0
  return (%z)"""
    tag = "[DUMP profiling_graph_executor_impl.cpp:676] "
    log.write_text(
        "".join(
            f"{tag}{line}\n" for line in ["Optimized Graph: ", *plan.split("\n")]
        )
    )
    report, _ = read_logs(find_logs([str(log)]), work_out=Reasons("nnc"))
    (row,) = [row for row in report.unfused if row.op == "aten::add"]
    assert "from a dict or list" in row.reason.text


EMBEDDINGS = """  %1 : int = prim::Constant[value=1]()
  %0 : bool = prim::Constant[value=0]()
  %a : Tensor = aten::embedding(%w, %i, %1, %0, %0) # model.py:1:0
  %b : Tensor = aten::embedding(%v, %i, %1, %0, %0) # model.py:2:0
  %c : Tensor = aten::add(%a, %b, %1) # model.py:3:0
  return (%c, %i)"""
ARGUMENTS = "(%w : Tensor, %v : Tensor, %i : Tensor):"


def embeddings(after: str) -> str:
    """A plan with a differentiable graph and an operator behind it, and the plan of
    that graph's executor."""
    outer = f"""graph(%w : Float(9, 4, strides=[4, 1], requires_grad=1, device=cuda:0),
      %v : Float(9, 4, strides=[4, 1], requires_grad=1, device=cuda:0),
      %i : Long(2, strides=[1], requires_grad=0, device=cuda:0),
      %p : Float(2, 4, strides=[4, 1], requires_grad=1, device=cuda:0)):
  %1 : int = prim::Constant[value=1]()
  %d : Tensor = prim::DifferentiableGraph_0(%w, %v, %i)
  %e : Tensor = {after} # model.py:4:0
  return (%e)
with prim::DifferentiableGraph_0 = graph{ARGUMENTS}
{EMBEDDINGS}"""
    inner = f"graph{ARGUMENTS}\n{EMBEDDINGS}"
    executor, fuser = (
        "[DUMP profiling_graph_executor_impl.cpp:676] ",
        "[DUMP graph_fuser.cpp:2503] ",
    )
    dumps = [
        (executor, "Optimized Graph: ", outer),
        (fuser, "Before Compilation: ", inner),
    ]
    dumps.append((executor, "Optimized Graph: ", inner))
    return "".join(
        f"{tag}{line}\n"
        for tag, title, plan in dumps
        for line in (title, *plan.split("\n"))
    )


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (
            "aten::add_(%d, %p, %1)",
            "aten::add_ (model.py:4:0) after it changes its input in place, so its differentiable graph ends",
        ),
        (
            "aten::sigmoid_(%d)",
            "aten::sigmoid_ (model.py:4:0) after it changes its input in place, so",
        ),
        (
            "aten::cumsum(%d, %1)",
            "nothing next to it can be fused with it: aten::embedding before it",
        ),
        # Out of place it would have no gradient formula either, and end the graph
        # all the same.
        (
            "aten::copy_(%d, %p)",
            "nothing next to it can be fused with it: aten::embedding before it",
        ),
    ],
)
def test_an_operator_in_place_that_ends_its_graph_is_named(
    after: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "plan.log").write_text(embeddings(after))
    report, _ = read_logs(
        find_logs([str(tmp_path / "plan.log")]), work_out=Reasons("nvfuser")
    )
    (row,) = [row for row in report.unfused if row.op == "aten::add"]
    assert row.reason.code == "FD225" and row.reason.text.startswith(said)
    advice = (
        CliRunner().invoke(cli, ["parse", "-v", str(tmp_path / "plan.log")]).output
    )
    assert ("Write x = x + y instead of x += y after it" in advice) == (
        "add_" in after
    )
    assert ("Write aten::sigmoid_ without its underscore after it" in advice) == (
        "sigmoid_" in after
    )


NESTED = """graph(%a : Tensor):
  %b : Tensor = prim::DifferentiableGraph_0(%a)
  return (%b)
with prim::DifferentiableGraph_0 = graph(%a : Tensor):
  %c : Tensor = aten::relu(%a) # m.py:1:1
  %d : Tensor = aten::sin(%c) # m.py:2:1
  %e : Tensor = prim::DifferentiableGraph_1(%d)
  return (%e)
with prim::DifferentiableGraph_1 = graph(%d : Tensor):
  %f : Tensor = aten::tanh(%d) # m.py:3:1
  return (%f)"""


def test_a_differentiable_graph_in_another_has_no_node_in_the_plan(
    tmp_path: Path,
) -> None:
    """Its node is the third of the graph around it; that of the plan itself has
    one."""
    log = tmp_path / "train.log"
    prefix = "[DUMP profiling_graph_executor_impl.cpp:620] "
    log.write_text(
        "".join(
            f"{prefix}{line}\n"
            for line in ("Optimized Graph:", *NESTED.split("\n"))
        )
    )
    report, _ = read_logs(find_logs([str(log)]), work_out=Reasons())
    assert {row.op for row in report.unfused} == {
        "aten::relu",
        "aten::sin",
        "aten::tanh",
    }
    (program,) = report.programs
    operators = {node.op: node for node in program.nodes}
    region = operators["aten::tanh"].inside
    assert region is not None and program.nodes[region].kind == "region"
