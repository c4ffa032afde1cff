"""Decisions on reasons at their limits: plans of a few nodes, whose answer is
known."""

from __future__ import annotations

import pytest
from test_barriers import kept, node

from fusiondoc.diagnosis.of_fusers.nnc_conditions import CONDITIONS
from fusiondoc.diagnosis.of_fusers.nvfuser_rules import refused_because
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.graph import graph_of_flow
from fusiondoc.model.reasons import (
    AloneInRegion,
    Detour,
    EndedInPlace,
    NewerNeighbour,
    NewerRule,
    NotConstant,
    RegionDetour,
    Stated,
)
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.reasons.stated_words import STATED
from fusiondoc.parsers.ir.parse import parse_dump
from fusiondoc.parsers.jit.flow import Flow
from fusiondoc.parsers.jit.plan import LooseNode
from fusiondoc.parsers.jit.plan_walk import summarise
from fusiondoc.parsers.rows.unfused_rows import Outside

CUDA = "Float(4, 8, strides=[8, 1], requires_grad=0, device=cuda:0)"
CPU = CUDA.replace("cuda:0", "cpu")
HALF = CUDA.replace("Float", "Half")
GRADIENT = CUDA.replace("requires_grad=0", "requires_grad=1")


def flow_of(*lines: str, inputs: str = f"%x : {CUDA}, %y : {CUDA}") -> Flow:
    text = (
        f"graph({inputs}):\n"
        + "".join(f"  {line}\n" for line in lines)
        + "  return (%x)\n"
    )
    flow = summarise(parse_dump(text.encode().split(b"\n"))).flows.outer
    assert flow is not None
    return flow


def outside(flow: Flow, index: int, fuser: str | None, **more: object) -> Outside:
    node = flow.nodes[index]
    loose = LooseNode(node.op, node.source, "", 1, node.outputs, index)
    return Outside(loose, flow, fuser, {}, False, False)._replace(**more)


def reason(
    flow: Flow,
    index: int,
    fuser: str | None = "nvfuser",
    torch: str | None = "2.1.2",
    **more: object,
) -> Reason:
    found = Reasons(fuser, torch)(outside(flow, index, fuser, **more))
    assert found is not None
    return found


def refined(stated: Reason, flow: Flow, index: int, fuser: str) -> Reason:
    return Reasons(fuser, "2.1.2").refine(outside(flow, index, fuser), stated)


def stated(code: str, condition: str | None = None) -> Reason:
    return Reason(
        code, "it says so", True, Stated(condition) if condition else None
    )


# -- an operator and its types -------------------------------------------------------------------------------


def test_tensors_on_two_devices() -> None:
    flow = flow_of(
        f"%z : {CUDA} = aten::mul(%x, %y) # m.py:1:0",
        inputs=f"%x : {CUDA}, %y : {CPU}",
    )
    assert reason(flow, 0).code == "FD221"


@pytest.mark.parametrize(("dimensions", "code"), [(8, "FD225"), (9, "FD224")])
def test_nvfuser_takes_tensors_of_eight_dimensions(
    dimensions: int, code: str
) -> None:
    type_ = (
        f"Float({', '.join(['2'] * dimensions)}, requires_grad=0, device=cuda:0)"
    )
    flow = flow_of(
        f"%z : {type_} = aten::tanh(%x) # m.py:1:0", inputs=f"%x : {type_}"
    )
    assert reason(flow, 0).code == code


@pytest.mark.parametrize(("inputs", "full"), [(125, False), (126, True)])
def test_a_group_is_full_with_128_arguments(inputs: int, full: bool) -> None:
    """With 125 inputs and its result it has 126; the operator has two more."""
    names = [f"%a{number}" for number in range(inputs)]
    flow = flow_of(
        f"%g : {CUDA} = prim::CudaFusionGroup_0({', '.join(names)})",
        f"%z : {CUDA} = aten::tanh(%g) # m.py:1:0",
        "%s : int = prim::Constant[value=1]()",
        f"%q : {CUDA} = aten::sort(%z) # m.py:2:0",
        inputs=", ".join(f"{name} : {CUDA}" for name in ["%x", *names]),
    )
    found = Reasons("nvfuser", "2.1.2")(outside(flow, 1, "nvfuser"))
    assert (found is not None and found.code == "FD234") is full


@pytest.mark.parametrize(("bare", "exception"), [(1, True), (2, True), (3, False)])
def test_without_a_type_where_most_have_one(bare: int, exception: bool) -> None:
    """Two of the other nodes have a profiled type; what has none is an exception
    while it is one of few."""
    flow = flow_of(
        *(f"%b{number} : Tensor = aten::tanh(%n)" for number in range(bare)),
        f"%p : {CUDA} = aten::tanh(%x)",
        f"%q : {CUDA} = aten::exp(%y)",
        inputs=f"%x : {CUDA}, %y : {CUDA}, %n : Tensor",
    )
    assert (reason(flow, 0).code == "FD232") is exception


def test_half_is_refused_by_nnc_on_the_cpu_alone() -> None:
    line = "%z : {0} = aten::mul(%x, %x) # m.py:1:0"
    on_gpu = flow_of(line.format(HALF), inputs=f"%x : {HALF}")
    half = HALF.replace("cuda:0", "cpu")
    on_cpu = flow_of(line.format(half), inputs=f"%x : {half}")
    types = stated("FD219", "types")
    assert refined(types, on_gpu, 0, "nnc") == types
    assert "on the CPU" in refined(types, on_cpu, 0, "nnc").text


def test_a_rounding_mode_is_the_overload_that_nnc_lacks() -> None:
    flow = flow_of(
        '%m : str = prim::Constant[value="floor"]()',
        f"%z : {CUDA} = aten::div(%x, %y, %m) # m.py:1:0",
    )
    assert "with a rounding mode" in refined(stated("FD211"), flow, 0, "nnc").text


@pytest.mark.parametrize("code", ["FD201", "FD211", "FD212", "FD214"])
def test_what_a_fuser_states_of_everything_gives_way_to_a_better_word(
    code: str,
) -> None:
    flow = flow_of(f"%z : {CUDA} = aten::mul_(%x, %y) # m.py:1:0")
    assert refined(stated(code), flow, 0, "nnc").code == "FD230"


@pytest.mark.parametrize(
    ("outputs", "runs"), [(CUDA, "differ"), ("Tensor", "not_profiled")]
)
def test_an_argument_that_runs_give_otherwise_or_no_run_gave(
    outputs: str, runs: str
) -> None:
    """``dim`` of a sum is profiled: in the pass it is a constant if the runs
    agree."""
    flow = flow_of(
        "%k : bool = prim::Constant[value=0]()",
        "%none : NoneType = prim::Constant()",
        f"%z : {outputs} = aten::sum(%x, %dim, %k, %none) # m.py:1:0",
        inputs=f"%x : {CUDA}, %dim : int[]",
    )
    found = refused_because(flow.nodes[0], "aten::sum")
    assert isinstance(found, NotConstant) and found.runs == runs


def test_a_list_and_the_operands_of_a_cat_have_the_same_advice() -> None:
    assert (
        {"list_shared", "cat_shared", "list_elsewhere", "cat_elsewhere"}
        <= set(CONDITIONS)
        <= set(STATED)
    )
    assert "PYTORCH_JIT_OPT_LIMIT" in str(CONDITIONS["pass_stopped"])
    assert (
        CONDITIONS["list_shared"]
        == CONDITIONS["cat_shared"]
        != CONDITIONS["list_elsewhere"]
    )
    assert (
        CONDITIONS["list_elsewhere"]
        == CONDITIONS["list_given"]
        == CONDITIONS["cat_elsewhere"]
    )


# -- what stands around it -----------------------------------------------------------------------------------


def test_a_rule_of_a_later_nvfuser_where_no_version_is_known() -> None:
    flow = flow_of(
        "%s : float = prim::Constant[value=0.1]()",
        f"%g : {CUDA} = prim::CudaFusionGroup_0(%x)",
        f"%z : {CUDA} = aten::leaky_relu(%g, %s) # m.py:1:0",
    )
    found = reason(flow, 1, torch=None)
    assert (found.code, found.detail) == (
        "FD233",
        NewerRule("1.13", torch_known=False, fuser="nvfuser"),
    )
    assert reason(flow, 1, torch="1.12.1").code == "FD233"


def test_a_number_of_its_own_result_is_waited_for() -> None:
    flow = flow_of(
        f"%a : {CUDA} = aten::sigmoid(%x) # m.py:1:0",
        "%n : Scalar = aten::item(%a) # m.py:2:0",
        f"%z : {CUDA} = aten::mul(%a, %n) # m.py:3:0",
    )
    found = reason(flow, 0)
    assert isinstance(found.detail, Detour) and found.detail.by == "number"


@pytest.mark.parametrize(("views", "all_seen"), [(100, True), (101, False)])
def test_all_neighbours_have_a_newer_rule_only_where_all_were_reached(
    views: int, all_seen: bool
) -> None:
    """leaky_relu has a rule from torch 1.13 on; behind further views another
    partner may be."""
    chain = [
        f"%v{number + 1} : {CUDA} = aten::t(%v{number})" for number in range(views)
    ]
    flow = flow_of(
        "%s : float = prim::Constant[value=0.1]()",
        f"%v0 : {CUDA} = aten::sort(%x)",
        *chain,
        f"%a : {CUDA} = aten::tanh(%v{views}) # m.py:1:0",
        f"%z : {CUDA} = aten::leaky_relu(%a, %s) # m.py:2:0",
    )
    found = Reasons("nvfuser", None)(outside(flow, views + 1, "nvfuser"))
    newer = found is not None and isinstance(found.detail, NewerNeighbour)
    assert newer is all_seen


def test_an_operator_that_never_ran_is_no_partner() -> None:
    flow = flow_of(
        f"%a : {CUDA} = aten::tanh(%x) # m.py:1:0",
        f"%z : {CUDA} = aten::exp(%a) # m.py:2:0",
    )
    assert Reasons("nvfuser", "2.1.2")(outside(flow, 0, "nvfuser")) is None
    flow.nodes[1].ran = False
    assert reason(flow, 0).code == "FD225"


@pytest.mark.parametrize(("views", "seen"), [(100, True), (101, False)])
def test_a_search_goes_through_a_hundred_views(views: int, seen: bool) -> None:
    chain = [
        f"%v{number + 1} : {CUDA} = aten::view(%v{number})"
        for number in range(views)
    ]
    flow = flow_of(
        f"%v0 : {CUDA} = aten::tanh(%x)",
        *chain,
        f"%z : {CUDA} = aten::exp(%v{views})",
    )
    found = graph_of_flow(flow).reach(
        [0], "after", lambda index: flow.nodes[index].op == "aten::view"
    )
    assert found.whole is seen and len(found.passed) == 100
    assert [end for end, _ in found.ends] == ([views + 1] if seen else [])


@pytest.mark.parametrize(
    ("writer", "ends"), [("add_", True), ("erfinv_", False), ("elu_", False)]
)
def test_what_takes_a_region_in_place_could_stand_in_it(
    writer: str, ends: bool
) -> None:
    """Out of place it needs a rule of the fuser and a gradient formula; ``elu`` has
    the rule alone in NNC."""
    inner = flow_of(f"%z : {CUDA} = aten::tanh(%x) # m.py:1:0")
    around = flow_of(f"%z : {CUDA} = aten::{writer}(%x, %y) # m.py:2:0")
    found = reason(inner, 0, "nnc", region_end=around.nodes[0])
    assert isinstance(found.detail, EndedInPlace) is ends


# -- what keeps others out -----------------------------------------------------------------------------------


def test_without_a_formula_it_keeps_others_out_of_differentiable_graphs() -> None:
    body = node("a", "tanh", "x") + node("b", "exp", "a") + node("c", "roll", "b")
    # Two with formulas in a row are a region too small to stay; only what has none
    # is in the way.
    assert kept(body, {"a": "FD231", "b": "FD231", "c": "FD231"}) == {"c": ["b"]}


@pytest.mark.parametrize(
    ("code", "barriers"), [("FD227", {"b": ["a"]}), ("FD104", {})]
)
def test_an_operator_that_no_fuser_looked_at_is_kept_out_by_no_other(
    code: str, barriers: object
) -> None:
    body = node("a", "tanh", "x") + node("b", "sort", "a")
    assert kept(body, {"a": code, "b": "FD201"}) == barriers


# -- differentiable graphs -----------------------------------------------------------------------------------


def region_reason(*lines: str, inputs: str) -> Reason:
    return reason(
        flow_of(*lines, inputs=inputs), 0, "nvfuser", gradients=True, unseen=True
    )


@pytest.mark.parametrize(
    ("more", "small"), [(0, True), (1, True), (2, True), (3, False)]
)
def test_a_region_of_fewer_than_five_nodes_is_dissolved(
    more: int, small: bool
) -> None:
    """autodiffSubgraphInlineThreshold of torch is 5; the chain has two operators
    and one for each more."""
    chain = [
        f"%a{number + 1} : {GRADIENT} = aten::tanh(%a{number})"
        for number in range(more + 2)
    ]
    found = region_reason(*chain, inputs=f"%x : {GRADIENT}, %a0 : {GRADIENT}")
    assert type(found.detail).__name__ == (
        "SmallRegion" if small else "DissolvedRegion"
    )


def test_what_is_easiest_to_change_is_the_first_end_of_a_region() -> None:
    found = region_reason(
        f"%a : {GRADIENT} = aten::tanh(%l) # m.py:2:0",
        f"%b : {GRADIENT} = aten::conv_tbc(%a, %a) # m.py:3:0",
        f"%c : {GRADIENT} = aten::mul_(%a, %x) # m.py:4:0",
        inputs=f"%x : {GRADIENT}, %l : {GRADIENT}",
    )
    assert isinstance(found.detail, AloneInRegion)
    assert [end.operator.op for end in found.detail.ends] == [
        "aten::mul_",
        "aten::conv_tbc",
    ]


def test_between_two_regions_is_not_beside_one() -> None:
    def flow(taker: str) -> Flow:
        return flow_of(
            f"%r : {GRADIENT} = prim::DifferentiableGraph_0(%x)",
            f"%c : {GRADIENT} = aten::cumsum(%r, %d) # m.py:2:0",
            f"%z : {GRADIENT} = {taker}(%c)",
            inputs=f"%x : {GRADIENT}, %d : int",
        )

    between = reason(flow("prim::DifferentiableGraph_1"), 1, gradients=True)
    beside = reason(flow("aten::relu"), 1, gradients=True)
    assert between.code == "FD231" and between.detail.cuts is True  # type: ignore[union-attr]
    assert not getattr(beside.detail, "cuts", False)


@pytest.mark.parametrize(("second", "apart"), [("%x", True), ("%a", False)])
def test_a_write_to_an_argument_keeps_two_operators_apart_that_both_read_one(
    second: str, apart: bool
) -> None:
    """It may write to the memory that both read; a result of the first is no tensor
    of the module."""
    found = region_reason(
        f"%a : {GRADIENT} = aten::tanh(%l) # m.py:1:0",
        f"%w : {GRADIENT} = aten::add_(%x, %l) # m.py:2:0",
        f"%b : {GRADIENT} = aten::mul(%a, {second}) # m.py:3:0",
        inputs=f"%x : {GRADIENT}, %l : {GRADIENT}",
    )
    detour = getattr(found.detail, "detour", None)
    assert (isinstance(detour, RegionDetour) and detour.by == "write") is apart
