"""AOTAutograd in a report: graphs, what partitions save, TorchScript groups,
findings; on live programs."""

from __future__ import annotations

import importlib.util
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Run, runs_in_this_process

import fusiondoc as fusiondoc_package
from fusiondoc.captures.process_records import (
    RanInstead,
    ScriptedModel,
    ScriptRecords,
    read_aot_of_processes,
)
from fusiondoc.captures.raw_records import RawRecords
from fusiondoc.diagnosis.aot_functions import script_run

PROGRAMS = (
    *("gelu_bias", "dropout_add", "layer_norm", "rms_norm", "attention"),
    *("reshaped", "two_results", "swiglu", "long_chain", "normalised"),
)


def report_of(run: Run, *args: object, **options: Any) -> dict[str, Any]:
    done = run("diagnose", *args, "--format", "json", **options)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def partitions(
    cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report of ten programs, and what torch's own partition functions made of
    them."""
    folder = tmp_path_factory.mktemp("aot")
    out = folder / "oracle.json"
    run = runs_in_this_process(folder, cache)
    report = report_of(
        run, ROOT / "tests/live/aot_programs.py", env={"OUT": str(out)}
    )
    return report, json.loads(out.read_text("utf-8"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_partition_saves_and_computes_again_what_torch_says(
    name: str, partitions: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    report, oracle = partitions
    rows = {row["how"]: row for row in report["aot"] if row["name"] == name}
    for how, kind in (
        ("memory_efficient_fusion", "min-cut"),
        ("aot_function", "default"),
    ):
        row, expected = rows[how], oracle[f"{name} {kind}"]
        for found, wanted in (
            (row["partition"], expected["made"]),
            (row["default"], expected["default"]),
        ):
            assert sorted(one["name"] for one in found["saved"]) == wanted["saved"]
            assert (
                sorted(one["name"] for one in found["saved_inputs"])
                == wanted["inputs"]
            )
            assert (
                sorted(one["name"] for one in found["recomputed"])
                == wanted["recomputed"]
            )
            assert found["saved_bytes"] == wanted["bytes"]


def test_ten_programs_save_and_compute_again_at_all(
    partitions: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    _, oracle = partitions
    cut = [one["made"] for name, one in oracle.items() if name.endswith("min-cut")]
    assert len(cut) == 10
    assert sum(bool(one["recomputed"]) for one in cut) >= 4
    assert sum(one["bytes"] > 0 for one in cut) >= 4


def test_every_operator_has_the_users_line(
    partitions: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    report, _ = partitions
    lines = (ROOT / "tests/live/aot_programs.py").read_text("utf-8").splitlines()
    for row in report["aot"]:
        first = next(
            n
            for n, line in enumerate(lines, 1)
            if line.startswith(f"def {row['name']}(")
        )
        last = first + next(n for n, line in enumerate(lines[first:]) if not line)
        nodes = [
            node for graph in row["graphs"] for node in graph["nodes"] if node["op"]
        ]
        placed = [
            int(node["user_source"].rpartition(":")[2])
            for node in nodes
            if node["user_source"]
        ]
        assert all(first < line <= last for line in placed), row["name"]
        assert len(placed) >= 0.9 * len(nodes), row["name"]


@pytest.fixture(scope="module")
def told(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of functions that each do one thing that is a finding."""
    run = runs_in_this_process(tmp_path_factory.mktemp("findings"), cache)
    return report_of(run, ROOT / "tests/live/aot_findings.py")


def found(report: dict[str, Any], code: str) -> list[dict[str, Any]]:
    return [one for one in report["findings"] if one["code"] == code]


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        ("FD105", "anew", "in every call: 3 wrappers, 3 compilations, 3 calls"),
        (
            "FD106",
            "sized",
            "called with 2: float32[4,8]:grad; float32[8,8]:grad: sizes are written into view",
        ),
        ("FD107", "decided", "DataDependentOutputException"),
        ("FD237", "changed", "changes argument 2 in place"),
        ("FD237", "overlapping", "arguments 1 and 2 of overlapping share memory"),
        (
            "FD504",
            "greedy",
            "keeps 512 bytes of greedy for the backward pass, the default partition 384",
        ),
    ],
)
def test_each_finding_names_its_function_and_line(
    code: str, name: str, message: str, told: dict[str, Any]
) -> None:
    (one,) = [one for one in found(told, code) if name in one["message"]]
    assert message in one["message"] and one["advice"]
    lines = (ROOT / "tests/live/aot_findings.py").read_text("utf-8").splitlines()
    (row,) = [row for row in told["aot"] if row["name"] == name]
    assert one["source"] == row["user_source"]
    line = int(one["source"].rpartition(":")[2])
    assert f"({name}, " in lines[line - 1]


def test_a_graph_break_is_told_and_both_graphs_are_shown(
    told: dict[str, Any],
) -> None:
    (one,) = found(told, "FD108")
    assert (
        "cut the program 1 time, into 3 graphs" in one["message"]
    )  # one of them is that of plain
    rows = [row for row in told["aot"] if row["how"] == "torch.compile"]
    assert [
        [n["op"] for n in row["graphs"][1]["nodes"] if n["op"]] for row in rows
    ] == [
        ["aten::mul"],
        ["aten::sin", "aten::add"],
    ]


def test_a_graph_that_a_backend_traces_as_it_is_has_the_users_lines(
    told: dict[str, Any],
) -> None:
    """Without AOTAutograd; the log names <eval_with_key>.N:LINE."""
    lines = (ROOT / "tests/live/aot_findings.py").read_text("utf-8").splitlines()
    (group,) = told["groups"]
    placed = [
        lines[int(node["user_source"].rpartition(":")[2]) - 1]
        for node in group["nodes"]
    ]
    assert group["phase"] == "forward" and len(placed) == 4
    assert "x.sigmoid() * x" in placed[0] and "y.tanh() + 1" in placed[-1]


def test_what_has_no_fault_has_no_finding(told: dict[str, Any]) -> None:
    codes = {one["code"] for one in told["findings"] if "free" in one["message"]}
    assert not codes  # called with two shapes, and no size is in its graphs
    assert not found(told, "FD109")


@pytest.mark.parametrize("everywhere", ["", "1"])
def test_modules_that_fuse_themselves_are_recognised(
    everywhere: str, fusiondoc: Run
) -> None:
    target = ROOT / "tests/live/nvfused.py"
    report = report_of(
        fusiondoc, target, "--backward", "--runs", 2, env={"EVERYWHERE": everywhere}
    )
    assert report["frontend"] == "aot"
    rows = {row["kind"]: row for row in report["fused_modules"]}
    assert set(rows) == {"NVFusedBiasActivationDropout", "NVFusedBiasDropoutRes"}
    for row, layer in zip(rows.values(), ("act", "add")):
        assert row["layers"] == [layer] and row["calls"] == 2
        if everywhere:
            assert (row["fused"], row["wraps"], row["eager"]) == (2, 2, [])
        else:
            assert (row["fused"], row["wraps"], row["eager"]) == (
                0,
                0,
                ["its tensor is not on a GPU"],
            )
    assert len(found(report, "FD105")) == (2 if everywhere else 0)
    assert len(found(report, "FD109")) == (0 if everywhere else 2)
    assert not found(report, "FD101")  # more runs would change nothing


MEASURED = """
import torch
import torch.nn.functional as F

def model(x, b):
    y = x + b
    return F.gelu(y) * 2

inputs = (torch.randn(8, 16, requires_grad=True), torch.randn(16))
"""


def test_groups_of_both_sides_have_their_phase_and_the_users_lines(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text(MEASURED, "utf-8")
    report = report_of(fusiondoc, "m.py", "--frontend", "aot", "--backward")
    assert {group["phase"] for group in report["groups"]} == {"forward", "backward"}
    sources = {
        node["user_source"] for group in report["groups"] for node in group["nodes"]
    }
    assert sources == {f"{tmp_path / 'm.py'}:{line}" for line in (6, 7)}
    (row,) = report["aot"]
    _, forward, backward = row["graphs"]
    assert forward["fused"] == forward["operators"] == 3
    assert set(forward["groups"]) == {
        g["id"] for g in report["groups"] if g["phase"] == "forward"
    }
    assert set(backward["groups"]) == {
        g["id"] for g in report["groups"] if g["phase"] == "backward"
    }
    # Every operator of a side is in a group, or has the reason that its row has.
    unfused = {(one["op"], one["reason"]["code"]) for one in report["unfused"]}
    for node in backward["nodes"]:
        if node["op"] and node["op"] != "aten::getitem":
            assert node["group"] or (node["op"], node["reason"]) in unfused
    text = fusiondoc("parse").stdout
    assert (
        "A1  model: memory_efficient_fusion" in text
        and "computes 1 result again (512 B)" in text
    )
    page = fusiondoc("parse", "--format", "html").stdout
    assert "Graphs of A1" in page and "Tensors of the partition of A1" in page


def test_what_aotautograd_cannot_take_is_refused(
    fusiondoc: Run, tmp_path: Path
) -> None:
    scripted = MEASURED.replace("\ndef model", "\n@torch.jit.script\ndef model")
    (tmp_path / "m.py").write_text(scripted, "utf-8")
    done = fusiondoc("diagnose", "m.py", "--frontend", "aot")
    assert done.returncode == 2 and "TorchScript already" in done.stderr


XFORMERS = """
import torch, xformers
xformers._is_functorch_available = {switch}
from xformers.components.feedforward import build_feedforward

config = {{"name": "MLP", "dim_model": 32, "dropout": 0.1, "activation": "relu"}}
model = build_feedforward({{**config, "hidden_layer_multiplier": 2, "bias": True}})
inputs = (torch.randn(4, 8, 32, requires_grad=True),)
"""


@pytest.mark.parametrize("switch", [True, False])
def test_the_real_modules_of_xformers_say_why_they_do_not_fuse(
    switch: bool, fusiondoc: Run, tmp_path: Path
) -> None:
    """Seen with the Python files of xformers 0.0.16 and nothing stubbed; later than
    0.0.21 has none."""
    if importlib.util.find_spec("xformers") is None:
        pytest.skip("needs xformers 0.0.13 to 0.0.21 (pip install --no-deps)")
    (tmp_path / "m.py").write_text(XFORMERS.format(switch=switch), "utf-8")
    report = report_of(fusiondoc, "m.py", "--runs", 2)
    (row,) = report["fused_modules"]
    if switch:
        assert row["kind"] == "NVFusedBiasActivationDropout" and row["layers"] == [
            "mlp.1",
            "mlp.3",
        ]
        assert (row["calls"], row["fused"], row["eager"]) == (
            4,
            0,
            ["its tensor is not on a GPU"],
        )
    else:
        assert (
            row["kind"] == "MLP"
            and "_is_functorch_available is False" in row["eager"][0]
        )
    assert len(found(report, "FD109")) == 1


GRAPH_API = (
    ["aten::add", "aten::native_dropout", "aten::add", "aten::native_layer_norm"],
    [
        "aten::native_layer_norm_backward",
        "aten::native_dropout_backward",
        "aten::sum",
    ],
)
"""What torch's ``findAllNodes`` found in both plans of examples/aot_block.py, on
the GPU of the capture."""


def test_nvfuser_groups_are_those_of_torchs_graph_api(tmp_path: Path) -> None:
    with tarfile.open(
        ROOT / "fixtures" / "captures" / "aot-block-nvfuser-2.1.2.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    report = fusiondoc_package.parse(tmp_path / "aot-block")
    assert [(group.kind, group.phase) for group in report.groups] == [
        ("CudaFusionGroup", "forward"),
        ("CudaFusionGroup", "backward"),
    ]
    assert tuple(list(group.ops) for group in report.groups) == GRAPH_API
    (row,) = report.aot
    assert [
        (graph.phase, graph.operators, graph.fused) for graph in row.graphs
    ] == [
        ("joint", 8, 0),
        ("forward", 4, 4),
        ("backward", 4, 3),
    ]
    assert all(
        node.user_source and "aot_block.py:" in node.user_source
        for g in report.groups
        for node in g.nodes
    )


@pytest.mark.parametrize(
    ("hasher", "phases"), [(None, ["backward"]), ("StaticShapeHasher", [])]
)
def test_a_backward_graph_that_is_compiled_late(
    hasher: str | None, phases: list[str]
) -> None:
    """As torch 1.13 and 2.0 do it (seen with 1.13.1 and 2.0.1): when the wrapped
    function has returned. functorch 0.2, whose default says so, keeps compilers for
    all places: none of them can know its own."""
    import torch

    from fusiondoc.probe.aot_records import Sources
    from fusiondoc.probe.aot_watch import Watch

    class Nowhere:
        def write(self, kind: str, **fields: object) -> None:
            pass

    watch = Watch(torch, Nowhere())  # type: ignore[arg-type]
    watch._sources = Sources(torch, watch.replaced.put)
    given, seen = {}, []

    def aot_function(
        fn, fw_compiler, bw_compiler=None, partition_fn=None, hasher_type=hasher
    ):
        given["backward"] = bw_compiler
        return lambda *args: fn(*args)

    def compiler(graph):
        seen.extend(phase for _, _, phase in watch._compiling)

    watch._aot_function(aot_function)(torch.relu, compiler)(torch.ones(2))
    given["backward"](torch.fx.symbolic_trace(torch.nn.ReLU()))
    watch.replaced.take_back()
    assert seen == phases


def test_processes_of_a_program_tell_one_place_once(tmp_path: Path) -> None:
    """Two spawned processes call ``act``, which each wraps in importing the
    program; one also ``norm``."""
    with tarfile.open(
        ROOT / "fixtures" / "captures" / "aot-spawned-nnc-2.13.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    report = fusiondoc_package.parse(tmp_path / "aot-spawned")
    act, norm = report.aot
    assert (act.name, act.processes, act.calls, act.compiles, act.wraps) == (
        "act",
        2,
        5,
        1,
        1,
    )
    assert (norm.name, norm.processes, norm.calls, norm.compiles, norm.wraps) == (
        "norm",
        1,
        5,
        1,
        1,
    )
    assert [
        (one.operators, one.fused) for one in (*act.graphs[1:], *norm.graphs[1:])
    ] == [
        *((3, 3), (15, 12)),
        *((4, 4), (15, 7)),
    ]
    # Groups of one function are not in the other, whose graphs were the same
    # numbers of another process.
    lines = {"act": "ddp.py:8", "norm": "ddp.py:12"}
    for one in report.aot:
        mine = {name for graph in one.graphs for name in graph.groups}
        placed = {
            node.user_source
            for g in report.groups
            if g.id in mine
            for node in g.nodes
        }
        assert {str(line).rpartition("/")[2] for line in placed} == {
            lines[one.name]
        }
    assert {group.phase for group in report.groups} == {"forward", "backward"}
    assert not any(group.specialisation > 1 for group in report.groups)
    assert report.script is not None and (
        report.script.steps,
        report.script.step_by,
    ) == (5, "SGD.step")
    told = ScriptRecords((ScriptedModel("loss_of"),), RanInstead())
    (model,) = script_run(told, report, True).models
    assert (
        model.groups == () and model.operators_outside == 0
    )  # all of them are of graphs of AOTAutograd


def test_a_name_of_two_codes_tells_nothing() -> None:
    """Where two processes gave one name to different graphs, no group is tied to
    either."""

    def of(process: int, line: int) -> list[dict[str, object]]:
        site = {"record": "aot_site", "site": 0, "process": process}
        code = {**site, "record": "aot_scripted", "number": 1}
        return [
            {
                **site,
                "name": f"f{line}",
                "how": "aot_function",
                "at": f"m.py:{line}",
            },
            {
                **code,
                "phase": "forward",
                "file": "<eval_with_key>.1",
                "lines": {"a": 5},
            },
            {
                **code,
                "phase": "backward",
                "file": f"<eval_with_key>.2{line}",
                "lines": {},
            },
        ]

    first, second = of(1, 3), of(2, 7)
    told = read_aot_of_processes(RawRecords([*first, *second]))
    assert [(one.site, one.file) for one in told.scripted] == [
        (0, "<eval_with_key>.23"),
        (1, "<eval_with_key>.27"),
    ]
    again = read_aot_of_processes(RawRecords([*first, *of(2, 3)]))
    assert len(again.sites) == 1 and len(again.scripted) == 2
