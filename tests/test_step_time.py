"""Where the time of a step goes: recorded traces of torch's profiler, and made-up
ones of a GPU."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import Profiled
from fusiondoc.diagnosis.diagnose import diagnose
from fusiondoc.diagnosis.profile_ties import nnc_name
from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.step_time import NO_DEVICE_TIMES, parts_of, with_step_times
from fusiondoc.expectations.match import check
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.update import updated
from fusiondoc.model.bench import Bench, BenchPhase, BenchVariant, Measured
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Time
from fusiondoc.parsers import profiler_trace
from fusiondoc.parsers.profiler_trace import read_events, read_origins, read_trace
from fusiondoc.probe import benchmark, step_profile
from fusiondoc.reports import render_report
from fusiondoc.reports.text.screen import render
from fusiondoc.runner import bench_child
from fusiondoc.views import bench_words as wordings
from fusiondoc.workflows import bench_turns, speed
from fusiondoc.workflows.bench_turns import parts_of_trace
from fusiondoc.workflows.load import parse_capture, report_from, report_of

PROFILES = ROOT / "fixtures" / "profiles"


@pytest.fixture(scope="module", params=["between", "training"])
def capture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return unpacked(request.param, tmp_path_factory.mktemp("profiles"))


def unpacked(name: str, folder: Path, run: str = "nnc-2.13") -> Path:
    with tarfile.open(PROFILES / f"{run}-{name}.tar.xz") as archive:
        archive.extractall(folder)
    return folder / name


def of_kind(events: list[Any], wanted: str) -> float:
    """Milliseconds of the outermost events whose name has ``wanted``: a plain
    search of the trace."""
    return (
        sum(
            e["dur"]
            for e in events
            if e.get("cat") == "cpu_op" and wanted in e["name"]
        )
        / 1e3
    )


def test_the_probe_and_the_reader_agree_on_names() -> None:
    assert step_profile.STEP == profiler_trace.STEP
    assert benchmark.TRACE == bench_turns.TRACE
    assert (step_profile.TRACE, step_profile.PLACES) == (speed.TRACE, speed.PLACES)


def test_parts_are_the_step_and_every_group_has_its_time(capture: Path) -> None:
    report = report_of(Capture(capture))
    steps = report.steps
    assert steps is not None and steps.steps > 2
    assert sum(part.ms for part in steps.parts) == pytest.approx(steps.ms, rel=1e-4)
    assert sum(part.share for part in steps.parts) == pytest.approx(1, rel=1e-4)
    events = read_events(capture / "profile" / "trace.json.gz")
    groups = of_kind(events, "fused_") / steps.steps
    assert steps.share("groups") == pytest.approx(groups / steps.ms, rel=1e-3)
    assert all(group.time is not None for group in report.groups)
    assert sum(
        group.time.ms for group in report.groups if group.time
    ) == pytest.approx(groups, rel=1e-3)
    whole = [e for e in events if e["name"] == "fusiondoc step"]
    begin, end = min(e["ts"] for e in whole), max(e["ts"] + e["dur"] for e in whole)
    assert steps.ms == pytest.approx((end - begin) / 1e3 / steps.steps, rel=1e-4)


def test_the_operator_between_two_groups(tmp_path: Path) -> None:
    folder = unpacked("between", tmp_path)
    report = report_of(Capture(folder))
    (row,) = [row for row in report.unfused if row.op == "aten::layer_norm"]
    taken = (
        of_kind(
            read_events(folder / "profile" / "trace.json.gz"), "aten::layer_norm"
        )
        / 4
    )
    assert row.time is not None and row.time.ms == pytest.approx(taken, rel=1e-3)
    assert report.steps is not None
    # The program sleeps 50 ms before each pass.
    assert 50 <= report.steps.share("outside operators") * report.steps.ms < 60
    assert report.steps.share("unfused operators that could fuse") == pytest.approx(
        row.time.share, rel=1e-3
    )
    # It reads and writes 1 KB: nothing against its time.
    assert row.time.could_save_ms == pytest.approx(row.time.ms, rel=0.01)
    assert report.steps.could_save_ms == row.time.could_save_ms
    text = render(report)
    assert "ms a step: outside operators 51 %, groups 33 %" in " ".join(
        text.split()
    )
    assert "would save at most 16.1 ms a step (16 %)" in " ".join(text.split())


def test_lines_and_modules_of_a_training_step(tmp_path: Path) -> None:
    folder = unpacked("training", tmp_path)
    places = read_origins(read_events(folder / "profile" / "places.json.gz"))
    assert [places["forward", "aten::linear", n].layer for n in (0, 1)] == [
        "a.lin",
        "b.lin",
    ]
    assert places["forward", "aten::cumsum", 1].frames[0] == ("models/../net.py", 8)
    # What torch deals out behind nodes of autograd is moved: the gradient graph's
    # operators have its lines.
    assert places["backward", "aten::matmul", 0].frames == (("<string>", 76),)
    assert places["backward", "AccumulateGrad", 0].frames == ()
    report = report_of(Capture(folder))
    timed = {row.op for row in report.unfused if row.time is not None}
    assert timed >= {
        "aten::linear",
        "aten::cumsum",
        "aten::matmul",
        "aten::reshape",
        "aten::t",
    }
    assert (
        report.steps is not None
        and (report.steps.unmatched_ms or 0) < 0.01 * report.steps.ms
    )
    layers = {part.what for part in report.steps.layers}
    assert layers >= {"a", "b", "a.lin", "b.lin"}


def test_without_a_trace_with_stacks_rows_are_told_apart_by_turn(
    tmp_path: Path,
) -> None:
    folder = unpacked("training", tmp_path)
    known = report_of(Capture(folder))
    (folder / "profile" / "places.json.gz").unlink()
    report = report_of(Capture(folder))
    assert [group.time for group in report.groups] == [
        group.time for group in known.groups
    ]
    (row,) = [row for row in report.unfused if row.op == "aten::linear"]
    assert row.time == next(
        one.time for one in known.unfused if one.op == "aten::linear"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON, or is cut off"),
        (b"\x1f\x8b\x08rubbish", "cannot be read"),
        (b"[1]", "no events"),
        (
            b'{"traceEvents": [{"ph": "X", "name": 7}, 3, null]}',
            "shows no operator",
        ),
        (gzip.compress(b'{"traceEvents": [')[:-8], "cannot be read"),
    ],
    ids=["empty", "no archive", "a list", "no operator", "cut off"],
)
def test_a_damaged_trace_costs_the_profile_alone(
    content: bytes, said: str, tmp_path: Path
) -> None:
    folder = unpacked("between", tmp_path)
    (folder / "profile" / "trace.json.gz").write_bytes(content)
    report = report_of(Capture(folder))
    assert report.steps is None and report.groups
    assert report.steps_note is not None and said in report.steps_note
    assert "no profile" in render(report)


def test_fields_of_other_types_are_left_out(tmp_path: Path) -> None:
    events = read_events(
        unpacked("between", tmp_path) / "profile" / "trace.json.gz"
    )
    for number, event in enumerate(events):
        event["args"] = [None, 3, {"External id": "x", "correlation": []}][
            number % 3
        ]
    assert read_trace(events).steps == 4


# -- an H100, torch 2.1.2, nvFuser: real captures -----------------------------------------------------------


def test_an_add_between_two_groups_on_a_gpu(tmp_path: Path) -> None:
    """The known answer: one add that nvFuser was told to leave out, and a host that
    sleeps 2 ms a step."""
    capture = Capture(unpacked("between", tmp_path, "nvfuser-2.1"))
    report, told = (
        report_of(capture),
        Capture(capture.path / "profile").records.profiled,
    )
    steps = report.steps
    assert (
        steps is not None
        and told is not None
        and not steps.disturbed
        and report.steps_note is None
    )
    # Busy and idle are the step, and that is what two events around the steps tell.
    assert steps.device_ms is not None and told.ms is not None
    assert steps.device_ms + steps.share("device idle") * steps.ms == pytest.approx(
        told.ms, rel=0.03
    )
    assert steps.share("device idle") * steps.ms > 2
    # 64 x 128 x 1024 floats, 33.6 MB each: the add moves three of them, at the
    # H100's 3,007 GB/s 33.5 us.
    (add,) = [row for row in report.unfused if row.op == "aten::add"]
    assert add.time is not None and add.time.ms == pytest.approx(0.0335, rel=0.1)
    assert steps.share("unfused operators that could fuse") == pytest.approx(
        add.time.share, rel=1e-3
    )
    groups = [group.time.ms for group in report.groups if group.time is not None]
    assert len(groups) == 2 and sum(groups) == pytest.approx(
        steps.share("groups") * steps.ms, rel=1e-3
    )
    assert (
        add.time.could_save_ms is not None
        and 0 < add.time.could_save_ms < add.time.ms
    )


def test_a_bench_reads_a_trace_as_a_report_does(tmp_path: Path) -> None:
    """The parts of a bench are those of a report; on a GPU the host counts as it is
    without the profiler."""
    capture = Capture(unpacked("between", tmp_path, "nvfuser-2.1"))
    steps, file = (
        report_of(capture).steps,
        capture.path / "profile" / "trace.json.gz",
    )
    assert steps is not None and steps.device_ms is not None
    alone = parts_of(read_trace(read_events(file)), "cuda")
    assert alone is not None and alone.parts == steps.parts
    told = bench_child.ProfiledStep(0, device="cuda", traced=steps.steps)
    found = parts_of_trace(file, told, 2 * steps.ms)
    assert found is not None and sum(
        part.ms for part in found.parts
    ) == pytest.approx(2 * steps.ms, rel=1e-4)
    parts = {part.what: part.ms for part in found.parts}
    assert parts["device idle"] == pytest.approx(
        2 * steps.ms - steps.device_ms, rel=1e-4
    )
    assert parts["groups"] == pytest.approx(
        steps.share("groups") * steps.ms, rel=1e-3
    )
    # A step is at least as long as the GPU is busy.
    known = parts_of_trace(file, told, steps.device_ms / 2)
    busy = known.parts if known is not None else ()
    assert sum(part.ms for part in busy) == pytest.approx(steps.device_ms, rel=1e-4)
    assert "device idle" not in {part.what for part in busy}


def test_a_bench_without_device_times_has_no_parts(tmp_path: Path) -> None:
    told, file = (
        bench_child.ProfiledStep(0, device="cuda", traced=1),
        tmp_path / "trace.json",
    )
    file.write_text(json.dumps({"traceEvents": gpu_step(0.5)}))
    assert parts_of_trace(file, told, 1.0) is not None
    assert parts_of_trace(file, replace(told, traced=None), 1.0) is None
    events = [
        one for one in gpu_step(0.5) if one["cat"] not in ("kernel", "gpu_memcpy")
    ]
    file.write_text(json.dumps({"traceEvents": events}))
    assert parts_of_trace(file, told, 1.0) is None
    file.write_text("cut off")
    assert parts_of_trace(file, told, 1.0) is None


def test_groups_of_several_kernels_and_a_disturbed_step(tmp_path: Path) -> None:
    capture = Capture(unpacked("layer-norm", tmp_path, "nvfuser-2.1"))
    report, told = (
        report_of(capture),
        Capture(capture.path / "profile").records.profiled,
    )
    steps = report.steps
    assert (
        steps is not None
        and told is not None
        and told.ms is not None
        and steps.unmatched_ms == 0
    )
    assert steps.ms == pytest.approx(told.ms, rel=0.03)
    assert steps.disturbed and "idle less than shown" in str(report.steps_note)
    events = read_events(capture.path / "profile" / "trace.json.gz")
    own = [
        e["dur"]
        for e in events
        if e["cat"] == "kernel" and "CudaCodeGen::kernel" in e["name"]
    ]
    others = [
        e["dur"]
        for e in events
        if e["cat"] in ("kernel", "gpu_memset", "gpu_memcpy")
    ]
    # A plain search, half a microsecond added for what is cut off; fills of
    # workspaces are the groups' too.
    fused = (sum(own) + len(own) / 2) / 1e3 / steps.steps
    assert fused <= steps.share("groups") * steps.ms * 1.001 < fused * 1.1
    assert steps.device_ms == pytest.approx(
        (sum(others) + len(others) / 2) / 1e3 / steps.steps, rel=0.02
    )
    by_phase = {
        group.phase: len(group.kernels)
        for group in report.groups
        if group.time is not None
    }
    assert by_phase == {"forward": 1, "backward": 3}


# -- a GPU: the layer norm block of torch 2.1.2, as its capture has it, and a trace made by hand ------------


def event(
    cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any
) -> dict[str, Any]:
    names = {key.replace("_", " "): value for key, value in args.items()}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": names,
    }


def gpu_step(begin: float) -> list[dict[str, Any]]:
    """A step of 1000 us: a matrix product of 400 us, a group of 100 us, an add of
    50 us launched in the backward thread, and a copy of 20 us beside the product on
    another stream."""
    number = int(begin)
    return [
        event("user_annotation", "fusiondoc step", begin, 1000.5),
        event("cpu_op", "forward", begin + 1.25, 300),
        event("cpu_op", "aten::linear", begin + 2, 40),
        event("cpu_op", "aten::addmm", begin + 3, 30),
        event(
            "cuda_runtime", "cudaLaunchKernel", begin + 4, 5, correlation=number + 1
        ),
        event(
            "kernel",
            "sm80_xmma_gemm_f32f32_f32f32_f32",
            begin + 20,
            400,
            7,
            correlation=number + 1,
        ),
        event("cpu_op", "<forward op>", begin + 50, 100),
        event("cpu_op", "run_fused_kernel", begin + 60, 50),
        event(
            "cuda_driver", "cuLaunchKernel", begin + 70, 5, correlation=number + 2
        ),
        event(
            "kernel",
            "CudaCodeGen::kernel1(CudaCodeGen::Tensor<float, 3>)",
            begin + 420,
            100,
            7,
            correlation=number + 2,
        ),
        event("cpu_op", "aten::copy_", begin + 160, 20),
        event(
            "cuda_runtime",
            "cudaMemcpyAsync",
            begin + 165,
            5,
            correlation=number + 4,
        ),
        event(
            "gpu_memcpy", "Memcpy DtoD", begin + 200, 20, 8, correlation=number + 4
        ),
        event(
            "cpu_op",
            "autograd::engine::evaluate_function: AddBackward0",
            begin + 400,
            50,
            2,
        ),
        event("cpu_op", "AddBackward0", begin + 401, 48, 2),
        event("cpu_op", "aten::add", begin + 402, 30, 2),
        event(
            "cuda_runtime",
            "cudaLaunchKernel",
            begin + 403,
            5,
            2,
            correlation=number + 3,
        ),
        event(
            "kernel",
            "vectorized_elementwise_kernel",
            begin + 600,
            50,
            7,
            correlation=number + 3,
        ),
    ]


CUDA = Profiled(3, 1.0, 1.0, False, "cuda", 2000.0, "highest", False)


@cache
def layer_norm() -> Report:
    report = report_from(
        [str(ROOT / "fixtures" / "captures" / "nvfuser-2.1.2-composite")]
    )
    return replace(report, environment={**report.environment, "capability": "9.0"})


def test_the_time_of_a_gpu_is_that_of_its_kernels() -> None:
    events = [one for n in range(3) for one in gpu_step(n * 2000.5)]
    trace = read_trace(events)
    assert trace.steps == 3 and trace.ms == pytest.approx(5.0015)
    # 400 + 100 + 50 a step: the copy runs beside the product.
    assert trace.busy_ms == pytest.approx(1.65)
    report = with_step_times(layer_norm(), trace, CUDA)
    steps = report.steps
    assert steps is not None and steps.device_ms == pytest.approx(0.55)
    assert steps.busy == pytest.approx(0.33, abs=0.01)
    found = {part.what: part.ms for part in steps.parts}
    assert sum(found.values()) == pytest.approx(steps.ms)
    assert found["device idle"] == pytest.approx(steps.ms - 0.55, rel=1e-3)
    assert found["matmul"] == pytest.approx(0.4 * 550 / 570, rel=1e-3)
    assert found["groups"] == pytest.approx(0.1 * 550 / 570, rel=1e-3)
    timed = {group.id for group in report.groups if group.time is not None}
    kernel = next(kernel for kernel in report.kernels if kernel.name == "kernel1")
    assert timed == set(kernel.groups)
    backward = [unit for unit in trace.units if unit.phase == "backward"]
    assert {(unit.name, unit.node) for unit in backward} == {
        ("aten::add", "AddBackward0")
    }


def test_another_launch_is_not_the_kernel_of_that_number() -> None:
    trace = read_trace([one for n in range(3) for one in gpu_step(n * 2000.5)])
    report = layer_norm()
    kernel = next(kernel for kernel in report.kernels if kernel.name == "kernel1")
    assert kernel.block is not None

    def launched_with(block: tuple[int, ...]) -> Report:
        units = tuple(
            replace(
                unit,
                launched=tuple(replace(one, block=block) for one in unit.launched),
            )
            for unit in trace.units
        )
        return with_step_times(report, replace(trace, units=units), CUDA)

    assert any(group.time for group in launched_with(kernel.block).groups)
    other = launched_with((kernel.block[0] + 1, 1, 1))
    assert not any(group.time for group in other.groups)
    assert other.steps is not None and other.steps.unmatched_ms


def test_float32_products_without_tf32_are_told() -> None:
    trace = read_trace([one for n in range(3) for one in gpu_step(n * 1000.5)])

    def hint(profiled: Profiled) -> str | None:
        return (
            with_step_times(layer_norm(), trace, profiled).steps or pytest.fail()
        ).hint

    told = hint(CUDA)
    assert (
        told is not None
        and "allow_tf32" in told
        and "set_float32_matmul_precision" in told
    )
    assert hint(replace(CUDA, allow_tf32=True)) is None
    name = "sm90_xmma_gemm_f16f16_f16f32"
    units = [
        replace(
            unit, launched=tuple(replace(one, name=name) for one in unit.launched)
        )
        for unit in trace.units
    ]
    half = replace(trace, units=tuple(units))
    assert (
        with_step_times(layer_norm(), half, CUDA).steps or pytest.fail()
    ).hint is None


def test_a_bench_tells_of_float32_products_once(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": gpu_step(0.5)}))
    told = bench_child.ProfiledStep(
        0, device="cuda", traced=1, allow_tf32=False, capability="9.0"
    )
    found = parts_of_trace(file, told, 0.01)
    assert (
        found is not None
        and found.hint is not None
        and "float32 matrix products" in found.hint
    )
    for other in (replace(told, allow_tf32=True), replace(told, capability="7.0")):
        known = parts_of_trace(file, other, 0.01)
        assert known is not None and known.hint is None
    slow = [
        BenchPhase(
            phase,
            Measured(1, 1, 1),
            1,
            None,
            None,
            None,
            6,
            9,
            hint=f"{found.hint} {phase}",
        )
        for phase in ("forward", "forward+backward")
    ]
    rows = [
        BenchVariant(name, "torch 2.1", True, None, tuple(slow))
        for name in ("eager", "nvfuser")
    ]
    said = [
        line
        for line in wordings.remarks(Bench({}, "m.py", (), tuple(rows)))
        if "float32" in line
    ]
    assert (
        len(said) == 1
        and said[0].startswith("eager, forward+backward: ")
        and said[0].endswith("backward")
    )


def test_without_device_times_nothing_is_guessed() -> None:
    events = [
        one for one in gpu_step(0.5) if one["cat"] not in ("kernel", "gpu_memcpy")
    ]
    report = with_step_times(layer_norm(), read_trace(events), CUDA)
    assert report.steps is None and report.steps_note == NO_DEVICE_TIMES
    assert "CUPTI" in render(report)


def test_a_disturbed_step_is_told() -> None:
    trace = read_trace(gpu_step(0.5))
    disturbed = with_step_times(
        layer_norm(), trace, replace(CUDA, unprofiled_ms=0.8)
    )
    assert disturbed.steps is not None and disturbed.steps.disturbed
    assert (
        disturbed.steps_note is not None
        and "idle less than shown" in disturbed.steps_note
    )
    same = with_step_times(layer_norm(), trace, replace(CUDA, unprofiled_ms=0.95))
    assert (
        same.steps is not None
        and not same.steps.disturbed
        and same.steps_note is None
    )


def test_whole_microseconds_lose_half_of_one_each() -> None:
    whole = [
        {**one, "ts": int(one["ts"]), "dur": int(one["dur"])} for one in gpu_step(0)
    ]
    trace = read_trace(whole)
    assert {unit.name: round(unit.device_ms, 6) for unit in trace.units} == {
        "aten::linear": 0.4005,
        "run_fused_kernel": 0.1005,
        "aten::copy_": 0.0205,
        "aten::add": 0.0505,
    }


def test_an_operator_that_begins_where_another_ends_is_not_inside_it() -> None:
    events = [
        event("cpu_op", "aten::mul", 10, 8),
        event("cpu_op", "aten::add", 18, 7),
        event("cuda_runtime", "cudaLaunchKernel", 20, 3, correlation=1),
        event("kernel", "k", 30, 4, 7, correlation=1),
    ]
    assert {unit.name: unit.device_ms for unit in read_trace(events).units} == {
        "aten::mul": 0,
        "aten::add": 0.0045,
    }


def test_steps_of_a_script_are_those_of_its_optimizer() -> None:
    events = []
    for number in range(10):
        begin = number * 100.5
        events += [
            event("cpu_op", "aten::mul", begin, 20),
            event("user_annotation", "Optimizer.step#SGD.step", begin + 50, 10),
            event("cpu_op", "aten::add_", begin + 51, 5),
        ]
    trace = read_trace(events)
    # Ends of the last six steps bound five; those before warm up.
    assert trace.steps == 5 and trace.ms == pytest.approx(5 * 0.1005)
    assert {(unit.name, unit.node) for unit in trace.units} == {
        ("aten::mul", None),
        ("aten::add_", "optimizer"),
    }


def test_names_of_nnc_are_those_of_its_groups(tmp_path: Path) -> None:
    report = report_of(Capture(unpacked("training", tmp_path)))
    trace = read_trace(
        read_events(tmp_path / "training" / "profile" / "trace.json.gz")
    )
    names = {nnc_name(group) for group in report.groups}
    cut = {unit.name for unit in trace.units if unit.group} - names
    assert len(cut) == 1 and len(cut.pop()) == 40


def test_the_trace_names_the_groups(tmp_path: Path) -> None:
    folder = unpacked("training", tmp_path)
    capture = Capture(folder)
    report = report_of(capture)
    data = speed.named_trace_of(capture, report, packed=True)
    before = read_events(folder / "profile" / "trace.json.gz")
    after = json.loads(gzip.decompress(data))["traceEvents"]
    assert data == speed.named_trace_of(capture, report, packed=True)
    assert [(e["ts"], e["dur"]) for e in after] == [
        (e["ts"], e["dur"]) for e in before
    ]
    named = [
        (e["name"], f["name"])
        for e, f in zip(before, after)
        if e["name"] != f["name"]
    ]
    assert len(named) == sum(e["name"].startswith("fused_") for e in before)
    assert ("fused_mul_add_relu", "G1: mul, add, relu") in named
    event = next(f for f in after if f["name"].startswith("G1: "))
    assert (
        event["args"]["layers"] == ["a", "b"]
        and event["args"]["kernel"] == "fused_mul_add_relu"
    )


def test_the_page_has_a_bar_and_every_row_its_time(tmp_path: Path) -> None:
    page = render_report(report_of(Capture(unpacked("between", tmp_path))), "html")
    assert "103 ms a step: outside operators 51 %" in page
    bar = page[page.index('<svg class="stackplot"') :].split("</svg>")[0]
    assert "a step: outside operators" in bar and ", 51 %" in bar
    widths = [
        float(found) for found in re.findall(r'width="([0-9.]+)" height="24"', bar)
    ]
    assert len(widths) == 3 and sum(widths) == pytest.approx(100, abs=0.02)
    assert page.count("16.1 ms (16 %)") >= 2  # the operator's row, and its finding


def test_findings_are_ranked_by_what_fusing_could_save(tmp_path: Path) -> None:
    report = report_of(Capture(unpacked("between", tmp_path)))
    (row,) = report.unfused
    rows = [
        replace(row, time=Time(ms, 0.1, saved))
        for ms, saved in ((20.0, 1.0), (5.0, None), (9.0, 8.0))
    ]
    context = Context(parse_capture(Capture(tmp_path / "between")).observed)
    found = diagnose(replace(report, unfused=(*rows, row)), context)
    ranked = [
        one.time.could_save_ms for one in found.findings if one.time is not None
    ]
    assert row.time is not None and ranked == [
        row.time.could_save_ms,
        8.0,
        1.0,
        None,
    ]


def test_check_holds_a_step_against_limits(tmp_path: Path) -> None:
    report = report_of(Capture(unpacked("between", tmp_path)))

    def outcomes(text: str, of: Report = report) -> dict[str, bool]:
        section = loads(text, "expected.yaml").sections[0]
        return {str(one.path[-1]): one.holds for one in check(section, of)}

    # A step of 103 ms: groups 33 %, what could fuse 16 %, of which fusing saves
    # almost all.
    holds = "max_step_ms: 104\nmin_groups_share: 32%\nmax_unfused_share: 0.16\nmax_could_save: 16%\n"
    broken = "max_step_ms: 103\nmin_groups_share: 34%\nmax_unfused_share: 0.15\nmax_could_save: 15%\n"
    assert set(outcomes(holds).values()) == {True} and set(
        outcomes(broken).values()
    ) == {False}
    assert (
        loads(holds, "x").need_profile
        and not loads("max_fallbacks: 0", "x").need_profile
    )
    (one, *_) = check(loads(broken, "x").sections[0], report)
    assert (
        "at most 103 ms; found 103.1 ms: a step is outside operators 51" in one.text
    )
    after = updated(broken, "expected.yaml", report)
    assert (
        set(outcomes(after).values()) == {True}
        and "min_groups_share: 0.329" in after
    )
    # Without a profile nothing is known, and --update takes the limits out.
    bare = replace(report, steps=None, steps_note=None)
    assert set(outcomes(holds, bare).values()) == {False}
    assert "no profile" in check(loads(holds, "x").sections[0], bare)[0].text
    assert "max_step_ms" not in updated(
        holds + "max_fallbacks: 0\n", "expected.yaml", bare
    )


def test_a_saved_report_has_its_times(tmp_path: Path) -> None:
    report = report_of(Capture(unpacked("between", tmp_path)))
    file = tmp_path / "r.json"
    file.write_text(render_report(report, "json"))
    again = report_from([str(file)])
    assert again.steps == report.steps
    assert [group.time for group in again.groups] == [
        group.time for group in report.groups
    ]
    document = json.loads(file.read_text())
    assert set(document["steps"]) >= {"ms", "device_ms", "busy", "parts"}
    assert set(document["groups"][0]["time"]) == {"ms", "share", "could_save_ms"}
