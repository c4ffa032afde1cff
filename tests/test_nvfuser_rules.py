"""nvFuser's parse rules against what the libraries of torch 1.12.1, 1.13.1 and
2.1.2 answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusiondoc.diagnosis.of_fusers.nvfuser_rules import refused_because
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.fuser_knobs import parse_version
from fusiondoc.fusers.nvfuser.takes import FUSED_VIEWS_SINCE, TAKES
from fusiondoc.parsers.ir.parse import parse_dump
from fusiondoc.parsers.jit.plan_walk import summarise
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
VERSIONS = ("1.12.1", "1.13.1", "2.1.2")

_ON = "requires_grad=0, device=cuda:0)"
_TENSORS = {
    "T": f"Float(4, 8, strides=[8, 1], {_ON}",
    "E": f"Float(4, 0, strides=[8, 1], {_ON}",
    "Z": f"Float({_ON}",
    "H": f"Half(4, 8, strides=[8, 1], {_ON}",
    "B": f"Bool(4, 8, strides=[8, 1], {_ON}",
    "L": f"Long(4, 8, strides=[8, 1], {_ON}",
    "U": "Tensor",
    "Q": f"Float(2, 4, 8, 8, strides=[256, 64, 8, 1], {_ON}",
    "V": f"Float(4, strides=[1], {_ON}",
    "N": f"Float(8, strides=[1], {_ON}",
}


def answers() -> list[tuple[str, list[str]]]:
    lines = (FIXTURES / "nvfuser-rules.txt").read_text().splitlines()
    split = (line.split(" | ") for line in lines if not line.startswith("#"))
    return [(node, told.split()) for node, told in split]


def constant(text: str) -> tuple[str, str]:
    if text == "None":
        return "NoneType", ""
    if text in ("True", "False"):
        return "bool", f"[value={int(text == 'True')}]"
    if text.startswith("'"):
        return "str", f'[value="{text[1:-1]}"]'
    if text.startswith("cuda"):
        return "Device", f'[value="{text}"]'
    if text.startswith("["):
        return "bool[]" if "True" in text else "int[]", f"[value={text}]"
    return "float" if "." in text else "int", f"[value={text}]"


def graph(node: str) -> tuple[str, str]:
    """The operator of a line of the fixture, and a graph of it."""
    op, *arguments = node.split()
    op, _, results = op.rstrip(")").partition("(")
    op = op if "::" in op else f"aten::{op}"
    head, body = [], []
    for place, text in enumerate(arguments):
        if text in _TENSORS:
            head.append(f"%a{place} : {_TENSORS[text]}")
        elif text.startswith("?"):
            head.append(f"%a{place} : {text[1:]}")
        else:
            kind, value = constant(text)
            body.append(f"  %a{place} : {kind} = prim::Constant{value}()")
    made = ", ".join(
        f"%o{place} : {'int' if letter == 'i' else _TENSORS['T']}"
        for place, letter in enumerate(results or "t")
    )
    names = ", ".join(f"%a{place}" for place in range(len(arguments)))
    body.append(f"  {made} = {op}({names})")
    lines = "\n".join(body)
    return op, f"graph({', '.join(head)}):\n{lines}\n  return (%o0)\n"


@pytest.mark.parametrize("place, torch", list(enumerate(VERSIONS)))
def test_what_nvfuser_takes_is_what_its_rules_answer(place: int, torch: str):
    wrong = []
    for node, told in answers():
        op, text = graph(node)
        flow = summarise(parse_dump(text.encode().split(b"\n"))).flows.outer
        assert flow is not None
        (found,) = [one for one in flow.nodes if one.op == op]
        view = (
            "aten::" + op[len("prim::") : -len("_copy")]
            if op.endswith("_copy")
            else op
        )
        rule = TAKES.get(op)
        since = FUSED_VIEWS_SINCE.get(
            view, rule.since if rule is not None else None
        )
        name = view if view in FUSED_VIEWS_SINCE else op
        takes = since is not None and since <= parse_version(torch)
        takes = takes and refused_because(found, name, torch) is None
        if told[place] != "-" and takes != (told[place] == "yes"):
            wrong.append((node, told[place], refused_because(found, name, torch)))
    assert not wrong
    assert len(answers()) > 250


# The lines that 1.12.1, 1.13.1 and 2.x name of themselves: the first two messages
# of a pass.
PASSES = {"1.12": (2352, 2432), "1.13": (2420, 2504), "2.0": (2419, 2503)}


def pass_of(lines: tuple[int, int], body: str) -> bytes:
    start, end = lines
    head = f"graph(%x : {_TENSORS['T']}, %z : Tensor):"
    text = [head, *body.splitlines(), "  return (%o)"]
    return "\n".join(
        [
            f"[DUMP graph_fuser.cpp:{start:03d}] {line}"
            for line in ("Before Fusion: ", *text)
        ]
        + [
            f"[DUMP graph_fuser.cpp:{end:03d}] {line}"
            for line in ("Before Compilation: ", *text)
        ]
        + [
            f"[DUMP profiling_graph_executor_impl.cpp:676] {line}"
            for line in ("Optimized Graph: ", *text)
        ]
    ).encode()


SLOPE = f"""\
  %s : float = prim::Constant[value=0.01]()
  %a : {_TENSORS["T"]} = aten::leaky_relu(%x, %s) # m.py:1:0
  %o : {_TENSORS["T"]} = aten::tanh(%a) # m.py:2:0"""


@pytest.mark.parametrize("release", [*PASSES, None])
def test_a_log_tells_its_release_by_the_lines_of_its_messages(
    release: str | None, tmp_path: Path
):
    log = tmp_path / "run.log"
    log.write_bytes(pass_of(PASSES.get(release or "", (7, 8)), SLOPE))
    report, observed = read_logs(find_logs([str(log)]), work_out=Reasons())
    assert observed.release == release
    told = {row.op: row.reason.text for row in report.unfused}
    if release == "1.12":
        assert (
            told["aten::leaky_relu"] == "nvFuser has no rule for aten::leaky_relu"
        )
        assert (
            "leaky_relu after it" in told["aten::tanh"]
            or "leaky_relu before it" in told["aten::tanh"]
        )
    elif release is None:
        later = "nvFuser has a rule for it only since torch 1.13: the log does not show which ran"
        assert told == {
            "aten::leaky_relu": later,
            "aten::tanh": f"next to it is aten::leaky_relu, and {later}",
        }
        assert report.unfused[0].reason.code == "FD233"


@pytest.mark.parametrize(
    "log, release",
    [
        ("1.12.1-crash", "1.12"),
        ("1.13.1-primitive-layer-norm", "1.13"),
        ("2.1.2-control-flow", "2.0"),
    ],
)
def test_recorded_logs_tell_their_release(log: str, release: str):
    found = find_logs([str(FIXTURES / "logs" / f"nvfuser-{log}.log.xz")])
    assert read_logs(found)[1].release == release


def test_arguments_of_the_graph_are_told_where_no_pass_is_in_the_log(
    tmp_path: Path,
):
    """``dim`` of a mean is not profiled: what an optimised graph shows of it is
    what the rule saw."""
    tensor = _TENSORS["T"]
    text = [
        "Optimized Graph: ",
        f"graph(%x : {tensor}, %dim : int[], %keep : bool):",
        "  %none : NoneType = prim::Constant()",
        f"  %a : {tensor} = aten::tanh(%x) # m.py:1:0",
        f"  %b : {tensor} = aten::mean(%a, %dim, %keep, %none) # m.py:2:0",
        f"  %c : {tensor} = prim::CudaFusionGroup_0(%b)",
        "  return (%c)",
        f"with prim::CudaFusionGroup_0 = graph(%b : {tensor}):",
        f"  %d : {tensor} = aten::exp(%b) # m.py:3:0",
        f"  %e : {tensor} = aten::neg(%d) # m.py:3:0",
        "  return (%e)",
    ]
    log = tmp_path / "run.log"
    log.write_text(
        "".join(
            f"[DUMP profiling_graph_executor_impl.cpp:676] {line}\n"
            for line in text
        )
    )
    rows = read_logs(find_logs([str(log)]), work_out=Reasons())[0].unfused
    told = {row.op: (row.reason.code, row.reason.text) for row in rows}
    assert told["aten::mean"] == (
        "FD201",
        "its `dim` and `keepdim` are arguments of this graph, not constants",
    )


@pytest.mark.parametrize(
    "kind, left", [("Long(requires_grad=0, device=cpu)", 0), (_TENSORS["Z"], 1)]
)
def test_sizes_that_an_executor_computes_are_no_operators(kind: str, left: int):
    """A differentiable graph of a trace that only computes sizes has an executor of
    its own."""
    text = f"graph(%w : {kind}, %n : {kind}):\n  %o : Tensor = aten::remainder(%w, %n)\n  return (%o)\n"
    assert len(summarise(parse_dump(text.encode().split(b"\n"))).plan.loose) == left


def test_nor_are_they_where_the_executor_prints_once_more_what_its_pass_left(
    tmp_path: Path,
):
    """That print has no types: they are those of the graph that the pass began
    with."""
    made = "  %2 : int = prim::Constant[value=4]()\n"
    profile = "prim::profile[profiled_type=Long(requires_grad=0, device=cpu), seen_none=0]"
    began = f"{made}  %3 : Tensor = {profile}(%w)\n  %4 : Tensor = aten::remainder(%3, %2) # swin.py:1:0\n"
    left = f"{made}  %4 : Tensor = aten::remainder(%w, %2) # swin.py:1:0\n"
    lines = []
    for place, header, body in (
        ("graph_fuser.cpp:2419", "Before Fusion: ", began),
        ("graph_fuser.cpp:2503", "Before Compilation: ", left),
        ("profiling_graph_executor_impl.cpp:676", "Optimized Graph: ", left),
    ):
        text = f"{header}\ngraph(%w : Tensor):\n{body}  return (%4)\n"
        lines += [f"[DUMP {place}] {line}\n" for line in text.splitlines()]
    log = tmp_path / "run.log"
    log.write_text("".join(lines))
    assert not read_logs(find_logs([str(log)]), work_out=Reasons())[0].unfused
