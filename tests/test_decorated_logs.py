"""Logs as other tools leave them are read like the clean log: stamps, tags, colours and broken lines, each
alone and two of them in both orders."""

from __future__ import annotations

import itertools
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from thorough import every

from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

FIXTURES = Path(__file__).parents[1] / "fixtures"


def before_each_line(text: str) -> Callable[[bytes], bytes]:
    """``{minute}`` and ``{second}`` count on from line to line."""

    def change(log: bytes) -> bytes:
        lines = log.rstrip(b"\n").split(b"\n")
        stamps = (text.format(minute=n // 60 % 60, second=n % 60).encode() for n in range(len(lines)))
        return b"".join(stamp + line + b"\n" for stamp, line in zip(stamps, lines))

    return change


def coloured(log: bytes) -> bytes:
    return b"".join(b"\x1b[33m" + line + b"\x1b[0m\n" for line in log.rstrip(b"\n").split(b"\n"))


def broken_at(width: int) -> Callable[[bytes], bytes]:
    def change(log: bytes) -> bytes:
        rows = []
        for line in log.rstrip(b"\n").split(b"\n"):
            rows += [line[at : at + width] for at in range(0, max(len(line), 1), width)]
        return b"".join(row + b"\n" for row in rows)

    return change


DECORATIONS = {
    "actions": before_each_line("2024-05-01T12:{minute:02}:{second:02}.1234567Z "),
    "gitlab": before_each_line("2024-05-01T12:{minute:02}:{second:02}.123456Z 01E "),
    "clock": before_each_line("[12:{minute:02}:{second:02}] "),
    "compose": before_each_line("app-1  | "),
    "compose in colours": before_each_line("\x1b[36mapp-1  | \x1b[0m"),
    "pod": before_each_line("[pod/trainer-0/main] "),
    "rank": before_each_line("[rank0]: "),
    "syslog": before_each_line("May  1 12:{minute:02}:{second:02} host trainer[123]: "),
    "colours": coloured,
    "rows of 120": broken_at(120),
    "rows of 80": broken_at(80),
    "crlf": lambda log: log.replace(b"\n", b"\r\n"),
}
ORDERS = [(name,) for name in DECORATIONS] + list(every(4, list(itertools.permutations(DECORATIONS, 2))))


def facts(report: Report) -> tuple:
    groups = sorted((g.kind, g.phase or "", g.ops, g.inputs, len(g.instances)) for g in report.groups)
    outside = sorted((u.op, u.source or "", u.reason.code, u.count) for u in report.unfused)
    return groups, outside, sorted(kernel.name for kernel in report.kernels)


def read(log: Path) -> Report:
    return read_logs(find_logs([str(log)]))[0]


LOGS = (
    "compare/before",
    "ir/nvfuser-2.1.2-rejects",
    "foreign/shapes.script.train.nvfuser",
    "foreign/lstm_cells.trace.eval.nvfuser",
    "logs/nnc-2.11-add-relu",
)
OF_DUMPS = tuple(
    f"dumps/nvfuser-2.1.2-segmented.{option}"
    for option in ("kernel_args", "sync_map", "bank_conflict", "kernel_ir", "ptxas_verbose")
)
"""They have no line of the JIT log: how wide their rows are cannot be known."""


@pytest.mark.parametrize("name", (*LOGS, *OF_DUMPS))
def test_a_decorated_log_is_read_like_the_clean_one(name: str, tmp_path: Path) -> None:
    clean = lzma.decompress((FIXTURES / f"{name}.log.xz").read_bytes())
    log = tmp_path / "run.log"
    log.write_bytes(clean)
    wanted = facts(read(log))
    assert any(wanted)
    differ = []
    for order in ORDERS:
        if name in OF_DUMPS and any(decoration.startswith("rows") for decoration in order):
            continue
        text = clean
        for decoration in order:
            text = DECORATIONS[decoration](text)
        log.write_bytes(text)
        if facts(read(log)) != wanted:
            differ.append(order)
    assert differ == []


def test_lines_keep_their_numbers_in_rows(tmp_path: Path) -> None:
    clean = lzma.decompress((FIXTURES / f"{LOGS[1]}.log.xz").read_bytes())
    log = tmp_path / "run.log"
    log.write_bytes(clean)
    lines = clean.split(b"\n")
    rows_before = [0, *itertools.accumulate(max(1, -(-len(line) // 80)) for line in lines)]
    wanted = {
        group.id: tuple(rows_before[int(place.line) - 1] + 1 for place in group.log_lines)
        for group in read(log).groups
    }
    log.write_bytes(broken_at(80)(clean))
    found = {group.id: tuple(place.line for place in group.log_lines) for group in read(log).groups}
    assert found == wanted
