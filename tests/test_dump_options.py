"""Every dump option on a real log of it: the texts kept are the lines of the log,
figures those printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import raw_dumps
import raw_log
from conftest import FIXTURES
from thorough import THOROUGH, every

from fusiondoc.model.report import Kernel, Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

DUMPS = FIXTURES / "dumps"
PREFIX = "nvfuser-2.1.2-segmented."
OPTIONS = [*raw_dumps.ONCE_A_COMPILE, *raw_dumps.NAMED]
KEPT = 4
"""Different texts of one option that are kept of a kernel."""


def parse(path: Path) -> Report:
    return read_logs(find_logs([str(path)]))[0]


def texts(kernel: Kernel, option: str) -> list[str]:
    if option == "cuda_full":
        return [kernel.code] if kernel.code is not None else []
    option = "cuda_to_file" if option == "debug_info" else option
    return [dump.text for dump in kernel.dumps if dump.option == option]


def check(path: Path, option: str) -> int:
    expected: dict[str, list[str]] = {}
    for number, text in raw_dumps.dumps(raw_log.read(path), option):
        kept = expected.setdefault(f"kernel{number}", [])
        if text not in kept and len(kept) < KEPT:
            kept.append(text)
    report = parse(path)
    assert expected
    assert {k.name: texts(k, option) for k in report.kernels} == expected
    lines = re.sub(rb"\x1b\[[0-9;]*m", b"", raw_log.read(path)).decode().split("\n")
    for kernel in report.kernels:
        for dump in kernel.dumps:
            for evidence in dump.evidence:
                assert lines[evidence.line - 1] == dump.text.split("\n")[0]
    assert not report.parse.user_output
    assert not report.parse.unrecognised
    return len(expected)


@pytest.mark.parametrize("option", OPTIONS)
def test_texts_are_those_of_the_log(option: str) -> None:
    assert check(DUMPS / f"{PREFIX}{option}.log.xz", option) == 3


@pytest.mark.parametrize("option", OPTIONS)
def test_texts_of_a_forward_and_a_backward_group(
    option: str, recordings: Path
) -> None:
    assert (
        check(recordings / f"torch-2.1.2/dumps/c02_ln_block.{option}.log", option)
        == 4
    )


def test_ptxas_figures() -> None:
    path = DUMPS / f"{PREFIX}ptxas_verbose.log.xz"
    log = raw_log.read(path)
    registers = [int(n) for n in re.findall(rb"Used (\d+) registers", log)]
    spills = [
        int(a) + int(b)
        for a, b in re.findall(rb"(\d+) bytes spill stores, (\d+) bytes", log)
    ]
    kernels = parse(path).kernels
    assert [k.registers for k in kernels] == registers
    assert [k.spill_bytes for k in kernels] == spills
    assert [k.compiles for k in kernels] == [1, 1, 1]


def test_perf_debug_verbose_figures() -> None:
    path = DUMPS / f"{PREFIX}perf_debug_verbose.log.xz"
    log = raw_log.read(path)
    for kernel in parse(path).kernels:
        found = re.findall(
            rb"^%s (\d+) bytes/ (\S+) ms (\S+) GB/s$" % kernel.name.encode(),
            log,
            flags=re.M,
        )
        assert kernel.bytes_moved == int(found[0][0])
        assert kernel.launches == len(found)
        assert kernel.first_ms == float(found[0][1])
        assert kernel.ms is not None and kernel.gb_per_s is not None
        assert kernel.ms.max == max(float(ms) for _, ms, _ in found[1:])
        assert kernel.gb_per_s.min == min(float(gb) for _, _, gb in found[1:])
        block = log[: log.index(kernel.name.encode() + b" " + found[0][0])]
        x, y, grid, smem = re.findall(
            rb"With arguments: Launch Parameters: BlockDim.x = (\d+), BlockDim.y = (-?\d+), .*?"
            rb"GridDim.x = (\d+), .*Smem Size = (\d+)",
            block,
        )[-1]
        assert kernel.block == (int(x), max(1, int(y)), 1)
        assert kernel.grid == (int(grid), 1, 1)
        assert kernel.smem_bytes == int(smem)
        assert kernel.registers == int(
            re.findall(rb"Used (\d+) registers", block)[-1]
        )
        persistent = (
            b"Persistent Kernel" in block[block.rindex(b"Reduction Parameters") :]
        )
        assert kernel.scheduler == ("persistent" if persistent else "reduction")


@pytest.mark.parametrize(
    "option", ["fusion_args", "scheduler_params", "perf_debug_verbose"]
)
def test_constraints_are_no_launches(option: str) -> None:
    """Their ``Launch Parameters:`` line is what a scheduler asks for."""
    path = DUMPS / f"{PREFIX}{option}.log.xz"
    launches = raw_log.read(path).count(b"With arguments: Launch Parameters: ")
    assert sum(k.launches or 0 for k in parse(path).kernels) == launches


@pytest.mark.parametrize("name", ["c02_ln_block", "c18_segmented"])
def test_every_line_of_every_dump_is_recognised(
    name: str, recordings: Path
) -> None:
    """But those of runs that print nothing else, where an unknown option made all
    fall back."""
    for path in sorted(
        (recordings / "torch-2.1.2" / "dumps").glob(f"{name}.*.log")
    ):
        stats = parse(path).parse
        assert (stats.user_output, stats.unrecognised, stats.truncated) == (
            0,
            0,
            0,
        ), path


USER = (
    b"loss: 0.25",
    b"Inputs:",
    b"Outputs:",
    b"0.5",
    b"  indented by the program",
    b"T1 is a name",
    b"epoch 3  step 4",
    b"After training:",
    b"END.",
    b"= done =",
    b"g{a}",
)


_ENDING = [
    *OPTIONS,
    "segmented_fusion",
    "segmenter_logging",
    "transform_propagator",
    "scheduler_params",
]


@pytest.mark.parametrize("blank", [b"\n", b""])
@pytest.mark.parametrize("option", _ENDING)
def test_output_of_the_program_behind_a_dump_is_not_swallowed(
    option: str, blank: bytes, tmp_path: Path
) -> None:
    """Right behind the last line of a dump, and after the empty line that many end
    with. At a push each dump has a third of the lines."""
    log = raw_log.read(DUMPS / f"{PREFIX}{option}.log.xz")
    dumped = log[: log.index(b"models/common.py")].rstrip(b"\n") + b"\n" + blank
    first = 0 if THOROUGH else (_ENDING.index(option) + len(blank)) % 3
    for line in every(3, USER[first:]):
        path = tmp_path / "run.log"
        path.write_bytes(dumped + line + b"\nall done\n")
        stats = parse(path).parse
        assert stats.user_output == 2, (option, line)
        path.write_bytes(line + b"\n" + dumped)
        assert parse(path).parse.user_output == 1, (option, line)
