"""A group that nvFuser cut into three kernels: its segments, and the dumps of each
kernel.

The recordings hold one dump option each. Here their lines are put together in the
order in which nvFuser prints them (executor.cpp and kernel_cache.cpp of torch 2.0):
every line is real, only the order is ours.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import raw_dumps
import raw_log
from conftest import FIXTURES, ROOT, Run
from valid_json import validate

from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

DUMPS = FIXTURES / "dumps"
RUNS = b"[DEBUG kernel_cache.cpp:818] running GraphCache: "
BEFORE = ("fusion_ir", "ca_map", "halo", "kernel_ir", "bank_conflict")
ALL = (
    "segmented_fusion",
    "segmenter_logging",
    "scheduler_params",
    *BEFORE,
    "figures",
    "ptxas_verbose",
)


def log_of(option: str) -> bytes:
    return raw_log.read(DUMPS / f"nvfuser-2.1.2-segmented.{option}.log.xz")


def printed(option: str) -> bytes:
    """What was printed before the first kernel ran."""
    log = log_of(option)
    return log[: log.index(b"models/common.py")]


def compiled(option: str, number: int) -> bytes:
    return dict(raw_dumps.dumps(log_of(option), option))[number].encode() + b"\n\n"


def splice(*options: str) -> bytes:
    """The JIT log, with dumps where nvFuser prints them."""
    jit = log_of("jit")
    at = jit.index(b"\n", jit.index(RUNS)) + 1
    parts = [jit[:at]]
    segmenter = (
        printed("segmenter_logging") if "segmenter_logging" in options else b""
    )
    first = segmenter.find(b"\n**Segmenter**")
    segmented = (
        printed("segmented_fusion") if "segmented_fusion" in options else b""
    )
    whole = segmented.find(b"Segmented_Fusion Dump")
    parts += [
        segmenter[:first],
        segmented[:whole],
        segmenter[first:],
        segmented[whole:],
    ]
    if "scheduler_params" in options:
        parts.append(printed("scheduler_params"))
    frames = re.split(rb"(?=\n======= Codegen)", log_of("figures"))
    for number in (1, 2, 3):
        parts += [
            compiled(option, number) for option in BEFORE if option in options
        ]
        frame, _, launch = frames[number].partition(b"\nLaunch Parameters")
        launch = b"Launch Parameters" + launch.partition(b"models/")[0]
        if "figures" in options:
            parts.append(frame + b"\n")
        if "ptxas_verbose" in options:
            parts.append(compiled("ptxas_verbose", number))
        if "figures" in options:
            parts.append(launch)
    again = re.findall(rb"Launch Parameters.*\nkernel.*\n", frames[3])[1:]
    for line in jit[at:].splitlines(keepends=True):
        parts.append(line)
        if line.startswith(RUNS) and "figures" in options:
            parts += again[:3]
            del again[:3]
    assert not again or "figures" not in options
    return b"".join(parts)


def parse(log: bytes, tmp_path: Path) -> Report:
    path = tmp_path / "spliced.log"
    path.write_bytes(log)
    report = read_logs(find_logs([str(path)]))[0]
    assert report.parse.user_output == 0
    assert report.parse.unrecognised == 0
    return report


def refusals(expression: str) -> tuple[tuple[str, str], ...]:
    """Those of the last accepted fusion that starts with this line."""
    blocks = (
        printed("segmenter_logging")
        .decode()
        .split("**Segmenter** Considering fusion:\n")
    )
    block = [
        b for b in blocks if b.startswith(expression) and "***Accepted***" in b
    ][-1]
    return tuple(
        re.findall(
            r"^Scheduler _(\S+)_ \*\*\*rejected\*\*\* because : (.*)$",
            block,
            flags=re.M,
        )
    )


def check(report: Report, kernels: bool, ops: bool, refused: bool) -> None:
    (group,) = report.groups
    assert [s.scheduler for s in group.segments] == [
        "persistent",
        "reduction",
        "persistent",
    ]
    assert [s.kernels for s in group.segments] == [
        (f"K{n}",) if kernels else () for n in (1, 2, 3)
    ]
    if ops:
        assert [s.ops for s in group.segments] == [
            ("aten::sum", "aten::sub"),
            ("aten::exp", "aten::sum"),
            ("aten::div", "aten::sum", "aten::mul", "aten::relu"),
        ]
    else:
        assert all(s.ops == () for s in group.segments)
    expected = [
        refusals(start) if refused else () for start in ("T1_l", "T4_g", "T6_g")
    ]
    assert [s.refused for s in group.segments] == expected
    for kernel, segment in zip(report.kernels, group.segments):
        if kernels:
            assert kernel.groups == (group.id,)
            assert kernel.scheduler == segment.scheduler


def test_everything_at_once(tmp_path: Path) -> None:
    report = parse(splice(*ALL), tmp_path)
    check(report, kernels=True, ops=True, refused=True)
    for number, kernel in enumerate(report.kernels, 1):
        by_option = {dump.option: dump.text for dump in kernel.dumps}
        for option in (*BEFORE, "ptxas_verbose"):
            assert by_option[option] == compiled(option, number).decode().strip(
                "\n"
            )
        assert by_option["segmented_fusion"].endswith("//Segmented_Fusion")
        assert "Accepted" in by_option["segmenter_logging"]
        assert by_option["scheduler_params"].startswith("===== Reduction Stats")
        parameters = [
            d.text for d in kernel.dumps if d.option == "scheduler_params"
        ]
        assert all(
            ("Persistent Kernel" in text) == (number != 2) for text in parameters
        )
        figures = re.findall(
            rb"^kernel%d run in (\S+) ms" % number, log_of("figures"), flags=re.M
        )
        assert kernel.launches == len(figures)
        assert kernel.first_ms == float(figures[0])
        assert kernel.ms is not None and kernel.ms.max == max(
            map(float, figures[1:])
        )


@pytest.mark.parametrize("name", ["figures", "ptxas_verbose"])
def test_segments_and_names_alone(name: str, tmp_path: Path) -> None:
    check(
        parse(splice("segmented_fusion", name), tmp_path),
        kernels=True,
        ops=True,
        refused=False,
    )


def test_segments_without_kernels(tmp_path: Path) -> None:
    report = parse(splice("segmented_fusion", "segmenter_logging"), tmp_path)
    check(report, kernels=False, ops=True, refused=True)
    assert report.kernels == ()


def test_the_segmenter_and_the_source_tell_the_segments(tmp_path: Path) -> None:
    check(
        parse(splice("segmenter_logging", "figures"), tmp_path),
        kernels=True,
        ops=False,
        refused=True,
    )


def test_the_segmenter_alone_does_not_tell_the_segments(tmp_path: Path) -> None:
    (group,) = parse(splice("segmenter_logging", "ptxas_verbose"), tmp_path).groups
    assert group.segments == ()


def test_dumps_without_names_are_numbered_as_nvfuser_does(tmp_path: Path) -> None:
    report = parse(splice("halo", "kernel_ir"), tmp_path)
    assert [k.name for k in report.kernels] == ["kernel1", "kernel2", "kernel3"]
    for number, kernel in enumerate(report.kernels, 1):
        assert kernel.groups == ("G1",)
        assert [d.text for d in kernel.dumps] == [
            compiled(option, number).decode().strip("\n")
            for option in ("halo", "kernel_ir")
        ]


def test_a_second_compile_of_a_kernel_is_a_recompile(tmp_path: Path) -> None:
    """nvFuser prints the source again, under the same name, when a launch needs a
    larger block."""
    log = splice("figures")
    frame = (
        re.split(rb"(?=\n======= Codegen)", log_of("figures"))[2].partition(
            b"\nLaunch"
        )[0]
        + b"\n"
    )
    at = log.rindex(b"\nLaunch Parameters: BlockDim.x = 256") + 1
    report = parse(log[:at] + frame + log[at:], tmp_path)
    times = re.findall(rb"^kernel2 run in (\S+) ms", log_of("figures"), flags=re.M)
    assert [k.compiles for k in report.kernels] == [1, 2, 1]
    kernel = report.kernels[1]
    assert kernel.launches == len(times)
    assert kernel.first_ms == pytest.approx(
        (float(times[0]) + float(times[-1])) / 2
    )
    assert kernel.ms is not None and kernel.ms.max == max(map(float, times[1:-1]))


def test_only_first_launches(tmp_path: Path) -> None:
    log = splice("figures")
    once = log[: log.index(b"models/common.py", log.index(b"kernel3 run in"))]
    for kernel in parse(once, tmp_path).kernels:
        assert kernel.launches == 1
        assert kernel.ms is not None and kernel.gb_per_s is not None
        assert kernel.first_ms == kernel.ms.median


def test_a_group_of_one_kernel_and_one_of_three(
    recordings: Path, tmp_path: Path
) -> None:
    """Forward (not cut) and backward (cut) of a layer norm block."""
    folder = recordings / "torch-2.1.2"
    jit = (folder / "c02_ln_block.seed.log").read_bytes()
    dumps = {
        option: (folder / f"dumps/c02_ln_block.{option}.log").read_bytes()
        for option in ("segmenter_logging", "segmented_fusion")
    }
    forward = b"".join(
        log[: log.index(b"models/common.py")] for log in dumps.values()
    )
    backward = b"".join(
        log[log.index(b"  out = m(*args)\n") + 17 :] for log in dumps.values()
    )
    pointers = re.findall(rb"GraphCache constructor: (\S+)", jit)
    assert len(pointers) == 2
    for pointer, printed_of in zip(pointers, (forward, backward)):
        at = jit.index(b"\n", jit.index(RUNS + pointer)) + 1
        jit = jit[:at] + printed_of + jit[at:]
    path = tmp_path / "spliced.log"
    path.write_bytes(jit)
    groups = [g for g in read_logs(find_logs([str(path)]))[0].groups if g.segments]
    one, other = groups[0], groups[-1]
    assert (one.phase, other.phase) == ("forward", "backward")
    (segment,) = one.segments
    assert segment.scheduler == "persistent"
    assert segment.ops == one.ops
    text = dumps["segmenter_logging"].decode()
    asked = text[: text.index("***Accepted***")]
    assert segment.refused == tuple(
        re.findall(r"Scheduler _(\S+)_ \*\*\*rejected\*\*\* because : (.*)", asked)
    )
    assert [s.scheduler for s in other.segments] == re.findall(
        r"^g\{\((\S+)\)$", dumps["segmented_fusion"].decode(), flags=re.M
    )[1:]
    assert [s.scheduler for s in other.segments] == [
        "reduction",
        "persistent",
        "reduction",
    ]


def test_the_report_with_segments_and_dumps_fits_its_schema(
    tmp_path: Path, fusiondoc: Run
) -> None:
    path = tmp_path / "spliced.log"
    path.write_bytes(splice(*ALL))
    done = fusiondoc("parse", path, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    validate(report, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    assert [s["kernels"] for s in report["groups"][0]["segments"]] == [
        ["K1"],
        ["K2"],
        ["K3"],
    ]
    assert {d["option"] for d in report["kernels"][0]["dumps"]} >= {
        "halo",
        "kernel_ir",
        "ptxas_verbose",
    }


def test_a_log_out_of_order_tells_no_scheduler(tmp_path: Path) -> None:
    """scheduler_params goes to stderr, the source to stdout: a line of the JIT log
    inside a frame shows that the two were not in order."""
    log = splice("scheduler_params", "segmented_fusion", "figures")
    at = log.index(b"\n", log.index(b"__global__ void kernel2")) + 1
    path = tmp_path / "disordered.log"
    path.write_bytes(
        log[:at]
        + b"[DEBUG kernel_cache.cpp:818] running GraphCache: 0x1\n"
        + log[at:]
    )
    report, observed = read_logs(find_logs([str(path)]))
    assert observed.disordered
    of_code = read_logs(
        find_logs(
            [str(FIXTURES / "dumps" / "nvfuser-2.1.2-segmented.figures.log.xz")]
        )
    )[0]
    assert [k.scheduler for k in report.kernels] == [
        k.scheduler for k in of_code.kernels
    ]
    assert all(
        d.option != "scheduler_params" for k in report.kernels for d in k.dumps
    )
    assert all(g.segments == () for g in report.groups)


def test_propagation_is_of_the_kernel_that_is_lowered_next(tmp_path: Path) -> None:
    steps = re.split(
        rb"(?m)^(?=TransformPropagator)", printed("transform_propagator")
    )[1:]
    parts = [
        steps[0],
        steps[1],
        compiled("halo", 1),
        steps[2],
        compiled("halo", 2),
        compiled("halo", 3),
    ]
    path = tmp_path / "propagation.log"
    path.write_bytes(b"".join(parts))
    kernels = read_logs(find_logs([str(path)]))[0].kernels
    texts = [
        [d.text for d in k.dumps if d.option == "transform_propagator"]
        for k in kernels
    ]
    assert texts == [
        [(steps[0] + steps[1]).decode().strip("\n")],
        [steps[2].decode().strip("\n")],
        [],
    ]
