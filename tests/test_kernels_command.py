"""``fusiondoc kernels`` on real logs: table, dumps, sorting, choosing, wrong usage,
terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES, ROOT, Run
from valid_json import validate

from fusiondoc.model.report import Dump, Report, Segment
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs

LOG = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz"
NNC = FIXTURES / "kernels" / "nnc-2.13-loop-nests.log.xz"


def report_of(path: Path) -> Report:
    return read_logs([LogInput(path.name, path)])[0]


def sources(log: bytes) -> dict[str, str]:
    """Kernel -> its CUDA code, by a plain search."""
    frame = rb"======= Codegen output for kernel: (\S+) =======\n\n(.*?)\n={38}\n"
    return {
        name.decode(): code.decode().strip("\n")
        for name, code in re.findall(frame, log, re.S)
    }


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits_and_has_every_figure(width: int, fusiondoc: Run) -> None:
    done = fusiondoc("kernels", LOG, env={"COLUMNS": str(width)})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert max(map(len, done.stdout.split("\n"))) <= width
    assert "\x1b" not in done.stdout
    for kernel in report_of(LOG).kernels:
        row = next(
            line
            for line in done.stdout.split("\n")
            if line.startswith(f"{kernel.id} ")
        )
        assert kernel.ms and kernel.gb_per_s and kernel.grid and kernel.block
        figures = {
            f"{kernel.ms.median * 1000:.1f}",
            f"{kernel.gb_per_s.median:,.0f}",
        }
        assert figures <= set(row.split()), row
        # Under the table: what it has no room for.
        below = done.stdout.partition(f"\n{kernel.id} {kernel.name}\n")[
            2
        ].partition("\n\n")[0]
        assert (
            str(kernel.grid[0]) in re.split(r"[ x]+", row)
            or f"grid {kernel.grid[0]}" in below
        )
    assert (
        "models/c16_encoder_layer.py:" in done.stdout
        and "backward: " in done.stdout
    )


def test_the_dump_is_printed_as_it_stands_in_the_log(fusiondoc: Run) -> None:
    done = fusiondoc("kernels", LOG, "--dump", "cuda_kernel")
    assert done.returncode == 0, done.stderr
    codes = sources(raw_log.read(LOG))
    assert len(codes) > 5
    for code in codes.values():
        assert code in done.stdout
    lines = raw_log.read(LOG).split(b"\n")
    places = re.findall(
        r"(?m)^── (K\d+) (\w+), cuda_kernel \(.*?:(\d+)\) ──", done.stdout
    )
    assert len(places) == len(codes)
    for _, name, line in places:
        assert lines[int(line) - 1].endswith(f"kernel: {name} =======".encode())


def test_one_kernel_by_id_by_name_and_by_group(fusiondoc: Run) -> None:
    codes = sources(raw_log.read(LOG))
    for chosen in ("K4", "k4", "kernel4"):
        done = fusiondoc(
            "kernels", LOG, "--dump", "cuda_kernel", "--kernel", chosen
        )
        assert codes["kernel4"] in done.stdout
        assert not any(
            code in done.stdout for name, code in codes.items() if name != "kernel4"
        )
    report = report_of(LOG)
    group = next(group for group in report.groups if len(group.kernels) > 1)
    done = fusiondoc("kernels", LOG, "--group", group.id)
    shown = re.findall(
        r"(?m)^(K\d+) ", done.stdout
    )  # in the table, and with what is below it
    assert shown == list(group.kernels) * 2


@pytest.mark.parametrize(
    ("column", "largest"),
    [("time", True), ("bandwidth", False), ("launches", True), ("smem", True)],
)
def test_the_worst_come_first(column: str, largest: bool, fusiondoc: Run) -> None:
    done = fusiondoc(
        "kernels", LOG, "--sort", column, "--top", 4, "--format", "json"
    )
    figures = {
        "time": lambda k: k["ms"]["median"],
        "bandwidth": lambda k: k["gb_per_s"]["median"],
        "launches": lambda k: k["launches"],
        "smem": lambda k: k["smem_bytes"],
    }[column]
    every = json.loads(fusiondoc("parse", LOG, "--format", "json").stdout)[
        "kernels"
    ]
    shown = [figures(kernel) for kernel in json.loads(done.stdout)["kernels"]]
    assert shown == sorted(map(figures, every), reverse=largest)[:4]


def test_json_is_the_report_with_only_what_was_chosen(
    fusiondoc: Run, tmp_path: Path
) -> None:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    done = fusiondoc("kernels", LOG, "-k", "K2", "--output", "out.json")
    assert done.returncode == 0 and done.stdout == ""
    report = json.loads((tmp_path / "out.json").read_text())
    validate(report, schema)
    assert [(k["id"], k["code"], k["dumps"]) for k in report["kernels"]] == [
        ("K2", None, [])
    ]
    assert {k for group in report["groups"] for k in group["kernels"]} == {"K2"}
    done = fusiondoc(
        "kernels", LOG, "-k", "K2", "--dump", "cuda_kernel", "--format", "json"
    )
    report = json.loads(done.stdout)
    validate(report, schema)
    assert report["kernels"][0]["code"] == sources(raw_log.read(LOG))["kernel2"]
    done = fusiondoc("kernels", NNC, "--dump", "nnc_stages", "--format", "json")
    report = json.loads(done.stdout)
    validate(report, schema)
    assert all(k["code"] is None for k in report["kernels"])
    assert {dump["option"] for k in report["kernels"] for dump in k["dumps"]} == {
        "nnc_stages"
    }


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--dump", "cuda_kernl"], 2, "Did you mean 'cuda_kernel'"),
        (["--dump", "nnc_irr"], 2, "Did you mean 'nnc_ir'"),
        (
            ["--dump", "kernel_ir,halo"],
            2,
            "PYTORCH_NVFUSER_DUMP=cuda_kernel,kernel_ir,halo",
        ),
        (["--dump", "nnc_ir"], 2, "PYTORCH_JIT_LOG_LEVEL='>>kernel'"),
        (["--kernel", "kernel44"], 2, "Did you mean 'kernel4'"),
        (["--kernel", "K99"], 2, "no kernel 'K99'"),
        (["--group", "G99"], 2, "no group 'G99'"),
        (["--fuser", "nnc"], 2, "--fuser is for running a TARGET"),
        (["--input", "float32[2]"], 2, "--input is for running a TARGET"),
        (["--sort", "speed"], 2, "speed"),
        (["--top", "0"], 2, "0"),
    ],
)
def test_wrong_usage_is_told_with_the_next_step(
    arguments: list[str], status: int, said: str, fusiondoc: Run
) -> None:
    done = fusiondoc("kernels", LOG, *arguments)
    assert done.returncode == status
    assert said in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_log_of_a_dump_that_names_no_kernel(fusiondoc: Run) -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-control-flow.log.xz"
    done = fusiondoc("kernels", log, "--dump", "scheduler_params")
    assert done.returncode == 2 and "names no kernel" in done.stderr
    assert "PYTORCH_NVFUSER_DUMP=cuda_kernel,scheduler_params" in done.stderr


def test_a_log_that_holds_some_of_the_dumps_shows_them(fusiondoc: Run) -> None:
    done = fusiondoc(
        "kernels", LOG, "--dump", "cuda_kernel,kernel_ir,launch_param", "--top", "1"
    )
    assert done.returncode == 0
    assert "__global__" in done.stdout
    assert (
        done.stderr.count("kernel_ir") == 3 and "holds no kernel_ir" in done.stderr
    )


def test_a_log_without_kernels_says_what_prints_them(fusiondoc: Run) -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-control-flow.log.xz"
    done = fusiondoc("kernels", log)
    assert done.returncode == 0 and ": 0 kernels" in done.stdout
    assert "--dump cuda_kernel" in done.stderr


def test_nothing_to_look_at(fusiondoc: Run) -> None:
    done = fusiondoc("kernels")
    assert done.returncode == 2 and "diagnose" in done.stderr
    done = fusiondoc("kernels", "nothing.log")
    assert done.returncode == 2 and "nothing.log" in done.stderr
    done = fusiondoc("kernels", "nothing.py")
    assert done.returncode == 2 and "nothing.py" in done.stderr


def test_cuda_full_and_cuda_kernel_are_told_apart(
    recordings: Path, fusiondoc: Run
) -> None:
    full = recordings / "torch-2.1.2" / "dumps" / "c02_ln_block.cuda_full.log"
    done = fusiondoc("kernels", full, "--dump", "cuda_full", "-k", "K1")
    assert done.returncode == 0 and done.stdout.count("\n") > 1000
    assert "namespace CudaCodeGen {" in done.stdout
    assert fusiondoc("kernels", full, "--dump", "cuda_kernel").returncode == 2


def test_registers_and_spills_from_ptxas(fusiondoc: Run) -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-ptxas-verbose.log.xz"
    used = re.findall(rb"Used (\d+) registers", raw_log.read(log))
    done = fusiondoc("kernels", log, "--dump", "ptxas_verbose")
    assert done.returncode == 0
    assert re.search(r"(?m)^kernel .* regs( |$)", done.stdout)
    assert re.findall(r"(?m)^K\d+ .* (\d+)[ -]*$", done.stdout) == [
        one.decode() for one in used
    ]
    assert done.stdout.count("no spills") == len(used)


def on_terminal(*arguments: object, columns: int = 80, **variables: str) -> bytes:
    """What the command writes when its stdout is a terminal."""
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment.update(
        {
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm",
            "COLUMNS": str(columns),
            **variables,
        }
    )
    main, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "fusiondoc", *map(str, arguments)],
        stdout=child,
        env=environment,
    ) as process:
        os.close(child)
        parts = []
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        assert process.wait() == 0
    os.close(main)
    return b"".join(parts).replace(b"\r\n", b"\n")


def test_colours_are_for_terminals_alone(fusiondoc: Run) -> None:
    arguments = ("kernels", NNC, "--dump", "nnc_ir", "-k", "K1")
    shown = on_terminal(*arguments)
    assert re.search(rb"\x1b\[3\dmfor\x1b\[", shown), (
        "a keyword of the loop nest has a colour"
    )
    piped = fusiondoc(*arguments).stdout
    assert "\x1b" not in piped
    # The same text: colours change nothing else.
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", shown).decode()
    assert plain == piped
    assert on_terminal(*arguments, NO_COLOR="1").decode() == piped
    assert b"\x1b" not in on_terminal(*arguments, TERM="dumb")


def test_control_characters_of_a_log_do_not_reach_the_terminal() -> None:
    from fusiondoc.reports.kernel_text import render

    report = report_of(LOG)
    dirty = replace(
        report.kernels[0],
        dumps=(Dump("kernel_ir", "a\x1b[2Jb\x07\n\tc\x9b0m", ()),),
    )
    text = render(report, [dirty], ["kernel_ir"])
    assert "a\\x1b[2Jb\\x07\n\tc\\x9b0m" in text
    named = replace(report.kernels[0], name="x\x1b[2J", scheduler="y\x07")
    for width in (80, 120):
        text = render(report, [named], (), width=width)
        assert "\x1b" not in text and "\x07" not in text and "x\\x1b[2J" in text


def test_what_other_parsers_fill_in_is_shown() -> None:
    """Scheduler, occupancy, first launch, several dumps: put into a kernel of a
    real log."""
    from fusiondoc.reports.kernel_text import render

    report = report_of(LOG)
    dumps = (
        Dump("kernel_ir", "%kernel {\n}", ()),
        Dump("scheduler_params", "=== Stats", ()),
    )
    kernel = replace(
        report.kernels[0],
        dumps=dumps,
        scheduler="persistent",
        occupancy=0.5,
        first_ms=0.0123,
        spill_bytes=24,
        registers=255,
        compiles=3,
        bound="launch",
        peak_fraction=0.07,
    )
    text = render(report, [kernel], ["scheduler_params", "kernel_ir"], width=40)
    words = " ".join(text.split())
    for part in (
        "persistent scheduler",
        "255 registers",
        "24 bytes spilled",
        "50% occupancy",
        "first launch 12.3 us",
        "compiled 3 times",
        " 7% launch",
    ):
        assert part in words
    assert text.index("scheduler_params ──") < text.index("kernel_ir ──")
    group = next(group for group in report.groups if group.id in kernel.groups)
    segments = (
        Segment(0, "persistent", (), ("aten::add", "aten::mul"), (kernel.id,)),
        Segment(1, "reduction", (("pointwise", "a reduction"),), (), ("K9",)),
    )
    cut = replace(report, groups=(replace(group, segments=segments),))
    assert "segment 0 of 2: add, mul" in render(cut, [kernel], ())
    assert "segment" not in text
    wide = render(report, [kernel], (), width=160)
    assert re.search(r"regs +spills +warps", wide) and re.search(
        r"255 +24 +50%", wide
    )


def test_a_kernel_of_several_groups_names_them_all(fusiondoc: Run) -> None:
    done = fusiondoc("kernels", LOG)
    shared = [kernel for kernel in report_of(LOG).kernels if len(kernel.groups) > 1]
    assert shared
    for kernel in shared:
        assert f"the same graph: {', '.join(kernel.groups[1:])}" in done.stdout


@pytest.mark.parametrize("argument", ["-", "folder"])
def test_logs_from_stdin_and_folders(
    argument: str, fusiondoc: Run, tmp_path: Path
) -> None:
    log = raw_log.read(NNC)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.log").write_bytes(log)
    given = {"input": log.decode()} if argument == "-" else {}
    done = fusiondoc("kernels", argument, "--dump", "nnc_ir", **given)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(", nnc_ir (") == 4
