"""What one operator keeps out of groups: on plans whose answer is known, and on
logs of foreign models."""

from __future__ import annotations

import pytest
from command_line import Run
from conftest import FIXTURES

from fusiondoc.diagnosis.kept_out import kept_out
from fusiondoc.model.report import Report
from fusiondoc.parsers.ir.parse import parse_dump
from fusiondoc.parsers.jit.plan_walk import summarise
from fusiondoc.workflows.load import report_from

T = "Float(4, 8, strides=[8, 1], requires_grad=0, device=cuda:0)"


def kept(
    body: str, reasons: dict[str, str], fuser: str = "nvfuser"
) -> dict[str, list[str]]:
    """Names of values: a barrier -> what it keeps out. ``reasons``: code by the
    name of the value."""
    text = f"graph(%x : {T}, %y : {T}):\n{body}  return (%x)\n"
    flow = summarise(parse_dump(text.encode().split(b"\n"))).flows.outer
    assert flow is not None
    names = [
        line.split()[0].strip("%") for line in body.split("\n") if " : " in line
    ]
    assert len(names) == len(flow.nodes)
    codes = {i: reasons[name] for i, name in enumerate(names) if name in reasons}
    found = kept_out(flow, fuser, codes)
    return {
        names[place]: sorted(names[i] for i in places)
        for place, places in found.items()
    }


def node(name: str, op: str, *inputs: str) -> str:
    return f"  %{name} : {T} = aten::{op}({', '.join('%' + i for i in inputs)}) # m.py:1:2\n"


def test_neighbours_are_counted_at_the_barrier_between_them():
    body = (
        node("a", "batch_norm", "x")
        + node("b", "hardswish", "a")
        + node("c", "mul", "b", "y")
    )
    reasons = {"a": "FD227", "b": "FD201", "c": "FD225"}
    assert kept(body, reasons) == {"b": ["a", "c"]}
    # NNC takes hardswish: it is no barrier there, but one of three that fuse.
    assert kept(body, {**reasons, "b": "FD225"}, "nnc") == {}


def test_views_are_seen_through_and_what_is_fused_elsewhere_is_not_counted():
    views = (
        node("a", "tanh", "x") + node("v", "reshape", "a") + node("b", "sort", "v")
    )
    assert kept(views, {"a": "FD227", "v": "FD226", "b": "FD201"}) == {"b": ["a"]}
    # Two that could fuse with each other are not kept apart by a third.
    pair = node("a", "tanh", "x") + node("c", "exp", "a") + node("b", "sort", "c")
    assert kept(pair, {"a": "FD299", "c": "FD299", "b": "FD201"}) == {}
    # One that the fuser has no rule for is not kept out by another.
    two = node("a", "cumsum", "x") + node("b", "sort", "a")
    assert kept(two, {"a": "FD201", "b": "FD201"}) == {}


def test_each_of_two_barriers_counts_what_is_between_them():
    body = (
        node("a", "relu_", "x")
        + node("b", "mul", "a", "y")
        + node("c", "sort", "b")
    )
    assert kept(body, {"a": "FD230", "b": "FD227", "c": "FD201"}) == {
        "a": ["b"],
        "c": ["b"],
    }


def test_what_reaches_a_barrier_on_another_way_too_stays_out_for_that():
    """In a group with ``c``, ``a`` would have to run both before and after
    ``b``."""
    body = (
        node("a", "tanh", "x")
        + node("b", "sort", "a")
        + node("c", "sort", "a", "b")
    )
    assert kept(body, {"a": "FD227", "b": "FD201", "c": "FD201"}) == {"b": ["a"]}
    # So do two that the fuser takes, with what stands between them on the other
    # way.
    body = (
        node("a", "tanh", "x") + node("b", "sort", "a") + node("c", "mul", "a", "b")
    )
    assert kept(body, {"a": "FD227", "b": "FD201", "c": "FD227"}) == {
        "b": ["a", "c"]
    }


def test_with_gradients_what_has_no_formula_keeps_others_out():
    body = (
        node("a", "tanh", "x") + node("b", "roll", "a") + node("c", "mul", "b", "y")
    )
    assert kept(body, {"a": "FD231", "b": "FD231", "c": "FD231"}) == {
        "b": ["a", "c"]
    }


def foreign(name: str) -> Report:
    return report_from([str(FIXTURES / "foreign" / f"{name}.log.xz")])


def test_the_first_finding_is_the_barrier_that_can_be_changed():
    """A MobileNet in training: 52 convolutions come before everything else in the
    log."""
    report = foreign("mobilenet_v3.trace.train.nvfuser")
    rows = {row.op: row for row in report.unfused if row.keeps_out}
    assert (
        {
            op: (row.keeps_out, row.count)
            for op, row in rows.items()
            if op != "aten::_convolution"
        }
        == {
            "aten::hardswish_": (18, 19),
            "aten::add_": (
                6,
                6,
            ),  # the sum of the block before goes through a convolution too: it stays out
            "aten::hardsigmoid": (9, 9),
            "aten::relu_": (5, 5),
        }
    )
    first = next(f for f in report.findings if f.code.startswith("FD2"))
    assert first is report.findings[0]
    assert first.message.startswith(
        "aten::hardswish_ (19 times) keeps 18 operators out of groups"
    )
    assert (
        first.recipe
        == "x * (torch.clamp(x + 3, 0, 6) / 6) instead of F.hardswish(x)"
    )
    assert first.advice is not None and "torch.nn.Hardswish" in first.advice


@pytest.mark.parametrize(
    "name", ["mobilenet_v3.trace.train.nvfuser", "bert.trace.eval.nvfuser"]
)
def test_what_cannot_be_changed_is_one_note_behind_the_rest(name: str):
    report = foreign(name)
    library = {
        "aten::_convolution",
        "aten::linear",
        "aten::matmul",
        "aten::embedding",
    }
    about = [f for f in report.findings if library & set(f.ops)]
    assert [(f.code, f.severity) for f in about] == [("FD236", "note")]
    ranks = [f.code == "FD236" for f in report.findings if f.severity == "note"]
    assert ranks == sorted(ranks)
    # The rows keep the reason that the log states.
    assert {row.reason.code for row in report.unfused if row.op in library} <= {
        "FD201",
        "FD233",
    }


def test_the_first_screen_says_what_to_change(fusiondoc: Run):
    log = FIXTURES / "foreign" / "mobilenet_v3.trace.train.nvfuser.log.xz"
    screen = fusiondoc("parse", log).stdout.split("Groups\n")[0]
    first = " ".join(screen[screen.index("Do this first") :].split())
    assert first.startswith(
        "Do this first 1. Write hardswish() with operators that fuse"
    ), first
    assert "_convolution" not in screen and "conv2d" not in screen
