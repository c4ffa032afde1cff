"""What ``fusiondoc bench`` shows of torch.compile beside times: groups, calls,
breaks, bytes."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import ROOT, Run
from running import write
from valid_json import validate

from fusiondoc.model.bench import (
    TRAINING,
    Bench,
    BenchPhase,
    BenchVariant,
    ByPhase,
    Measured,
    Ratio,
)
from fusiondoc.reports.bench_documents import as_csv, as_markdown, as_page, as_text
from fusiondoc.reports.json_format import as_json, read_bench
from fusiondoc.runner.bench_child import BenchChild

SCHEMA = json.loads((ROOT / "docs" / "bench.schema.json").read_text())


def timed(name: str, phase: str) -> BenchVariant:
    """One that was timed in one phase."""
    row = BenchPhase(
        phase, Measured(1.0, 0.9, 1.1), 1e3, Ratio(1.0, 0.9, 1.1), None, None, 15, 9
    )
    return BenchVariant(
        name, "Python 3.11, torch 2.13.0", True, None, (row,), 1.0, 0.9
    )


def bench_of(phase: str) -> Bench:
    compiled = replace(
        timed("inductor", phase),
        groups=ByPhase(3, 4),
        calls=ByPhase(2, 5),
        bytes_moved=ByPhase(1_000_000, 2_000_000),
        graph_breaks=1,
    )
    return Bench({}, "model.py", (), (timed("eager", phase), compiled))


def cells(text: str, columns: str) -> list[str]:
    """The row of torch.compile below the first heading with that column."""
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if columns in line)
    return next(
        line for line in lines[head:] if line.lstrip(" |").startswith("inductor")
    ).split()


def test_groups_calls_breaks_and_bytes_are_in_every_format() -> None:
    bench = bench_of(TRAINING)
    text = as_text(bench, width=80)
    assert " ".join(cells(text, "groups")).endswith("3 + 4")
    assert " ".join(cells(text, "breaks")).endswith("2 + 5 1 3 MB -")
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert "| 2 + 5 | 1 | 3 MB |" in as_markdown(bench) and "2 + 5" in as_page(
        bench
    )
    row = list(csv.DictReader(io.StringIO(as_csv(bench))))[1]
    assert [
        row[name] for name in ("groups_forward", "groups_backward", "calls_forward")
    ] == ["3", "4", "2"]
    assert [row["calls_backward"], row["graph_breaks"], row["bytes_backward"]] == [
        "5",
        "1",
        "2000000",
    ]
    data = json.loads(as_json(bench))
    validate(data, SCHEMA)
    assert read_bench(json.dumps(data).encode(), "b.json") == bench


def test_of_a_forward_pass_the_figures_are_those_of_its_graphs() -> None:
    text = as_text(bench_of("forward"), width=80)
    assert cells(text, "groups")[-1] == "3" and cells(text, "breaks")[-5:] == [
        "2",
        "1",
        "1",
        "MB",
        "-",
    ]


def test_without_records_the_reason_stands_there_and_no_figure() -> None:
    unknown = replace(
        timed("inductor", TRAINING), why_no_groups="torch.compile compiled no graph"
    )
    text = as_text(
        Bench({}, "model.py", (), (timed("eager", TRAINING), unknown)), width=80
    )
    assert (
        "→ inductor: its groups are not known: torch.compile compiled no graph"
        in text
    )
    assert "calls" not in text and "breaks" not in text and "moves" not in text


MODEL = """
import os
import torch
import torch._inductor.scheduler as scheduler

hooks = open("hooks-%d" % os.getpid(), "a", buffering=1)

def model(x, w):
    h = torch.sin(x) * 2
    print("", end="")
    return torch.relu(h @ w) + 1

def inputs():
    # Called before each step, outside what is compiled.
    hooks.write("%d" % hasattr(scheduler.Scheduler.codegen, "__wrapped__"))
    return torch.ones(8, 8), torch.ones(8, 8)
"""


@pytest.mark.torch
@pytest.mark.nightly
def test_a_compiled_variant_has_the_figures_of_diagnose_and_timed_steps_have_no_hook(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "model.py", MODEL)
    rounds = ("--rounds", 6, "--processes", 2)
    done = fusiondoc(
        "bench",
        "model.py",
        "--variant",
        "inductor",
        *rounds,
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    validate(data, SCHEMA)
    found = data["variants"][1]
    steps = [path.read_text() for path in tmp_path.glob("hooks-*")]
    recorded = [text for text in steps if "1" in text]
    assert len(recorded) == 1 and len(steps) > 1, (
        "the first process of that variant"
    )
    before, after = re.fullmatch("(0*1{5,30})(0+)", recorded[0]).groups()
    assert len(before) < 40 and len(after) > 100, "no step after the warm-up"
    run = ("--fuser", "inductor", "--no-run", "--format", "json")
    report = json.loads(
        fusiondoc("diagnose", "model.py", *run, cwd=tmp_path).stdout
    )
    graphs = report["compiled"]["graphs"]
    assert found["groups"]["forward"] == len(report["groups"]) == 2
    assert (
        found["calls"]["forward"]
        == sum(row["count"] for row in report["unfused"])
        == 1
    )
    assert (
        found["bytes_moved"]["forward"]
        == sum(graph["bytes_accessed"] for graph in graphs)
        > 0
    )
    assert found["graph_breaks"] == len(report["compiled"]["breaks"]) == 1


ERRORS = {
    "InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')": """

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace.
""",
    "RuntimeError when making fake tensor call": """
  Explanation: Dynamo failed to run FX node with fake tensors: call_function lab.boom
  Hint: Make sure that the function can be traced.

from user code:
   File "/home/user/model.py", line 5, in model
    def model(x): return boom(x * 2) + 1

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace.
""",
}
"""First line of a message of torch 2.13 -> the rest of it."""


@pytest.mark.parametrize(("first", "rest"), ERRORS.items())
def test_a_variant_that_torch_cannot_compile_has_the_error_and_not_the_advice(
    first: str, rest: str, tmp_path: Path
) -> None:
    (tmp_path / "records.jsonl").write_text(
        json.dumps(
            {
                "record": "error",
                "stage": "run",
                "type": "InductorError",
                "message": first + rest,
            }
        )
        + "\n"
    )
    child = BenchChild(Path(sys.executable), {}, {}, tmp_path, tmp_path, 1.0)
    assert child.why() == f"InductorError: {first}"
