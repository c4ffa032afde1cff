"""Logs as they come out of terminals, CI systems and launchers: the report is that
of the clean log."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES

from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

CLEAN = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
NNC = FIXTURES / "logs" / "nnc-2.11-rejects.log.xz"


def parse(*paths: Path) -> Report:
    return read_logs(find_logs([str(p) for p in paths]))[0]


def gist(report: Report) -> tuple:
    """All but line numbers and file names."""
    return (
        [
            (g.id, g.kind, g.phase, g.nodes, g.inputs, g.outputs, g.runs, g.kernels)
            for g in report.groups
        ],
        [
            (u.op, u.source, u.phase, u.count, u.reason, len(u.evidence))
            for u in report.unfused
        ],
        [
            (
                k.id,
                k.name,
                k.groups,
                k.launches,
                k.block,
                k.grid,
                k.ms,
                k.gb_per_s,
                k.code,
            )
            for k in report.kernels
        ],
        [(f.stage, f.group, f.count, f.count_exact) for f in report.fallbacks],
    )


def each_line(change: Callable[[int, bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda log: b"".join(
        change(i, line) for i, line in enumerate(log.splitlines(keepends=True))
    )


def crlf(log: bytes) -> bytes:
    return log.replace(b"\n", b"\r\n")


def colours(i: int, line: bytes) -> bytes:
    return b"\x1b[36m" + line[:-1] + b"\x1b[0m\n"


def timestamps(i: int, line: bytes) -> bytes:
    return (
        b"2022-06-%02dT12:%02d:%02d.%03dZ " % (1 + i % 9, i % 60, i % 60, i % 1000)
        + line
    )


def syslog(i: int, line: bytes) -> bytes:
    return b"Jun 01 12:00:%02d node17 train[%d]: " % (i % 60, 4711) + line


def srun(i: int, line: bytes) -> bytes:
    return b"0: " + line


def progress(i: int, line: bytes) -> bytes:
    return (
        b"\r 40%|####  | 4/10 [00:01<00:01]\r" + line
        if i % 7 == 0 and line.strip()
        else line
    )


def junk_between(i: int, line: bytes) -> bytes:
    return (
        line + b"loss \xff\xfe\x80 = 0.3\n"
        if line.startswith(b"[") and i % 11 == 0
        else line
    )


def warnings_inside_graphs(i: int, line: bytes) -> bytes:
    warning = (
        b"train.py:17: UserWarning: lr_scheduler.step() called before optimizer.step()\n"
        b"  warnings.warn('see the documentation')\n"
    )
    return line + warning if b"= prim::Constant" in line and i % 3 == 0 else line


MESSES = {
    "crlf": crlf,
    "colours": each_line(colours),
    "timestamps": each_line(timestamps),
    "syslog": each_line(syslog),
    "srun": each_line(srun),
    "progress": each_line(progress),
    "junk": each_line(junk_between),
    "warnings": each_line(warnings_inside_graphs),
    "colours in timestamps": lambda log: each_line(timestamps)(
        each_line(colours)(log)
    ),
    "utf-16": lambda log: log.decode("latin-1").encode("utf-16"),
    "utf-16 without a mark": lambda log: log.decode("latin-1").encode("utf-16-le"),
    "utf-16, big end first": lambda log: log.decode("latin-1").encode("utf-16-be"),
    "no last line end": lambda log: log.rstrip(b"\n"),
}


@pytest.mark.parametrize("log", [CLEAN, NNC], ids=lambda p: p.name)
@pytest.mark.parametrize("mess", MESSES)
def test_the_same_report(mess: str, log: Path, tmp_path: Path) -> None:
    messy = tmp_path / "messy.log"
    messy.write_bytes(MESSES[mess](raw_log.read(log)))
    report = parse(messy)
    assert gist(report)[0] == gist(parse(log))[0]
    assert gist(report) == gist(parse(log))
    assert report.parse.unrecognised == 0


def test_evidence_points_at_the_lines_of_the_messy_file(tmp_path: Path) -> None:
    messy = tmp_path / "messy.log"
    messy.write_bytes(each_line(timestamps)(raw_log.read(NNC)))
    lines = messy.read_bytes().split(b"\n")
    rows = [row for row in parse(messy).unfused if row.reason.stated]
    assert rows
    for row in rows:
        for evidence in row.evidence:
            assert evidence.file == str(messy)
            assert b"Failed cond" in lines[evidence.line - 1]


def test_evidence_of_interleaved_ranks_points_at_lines_of_the_rank(
    tmp_path: Path,
) -> None:
    """Lines of other ranks stand between those of one plan."""
    log = raw_log.read(
        FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz"
    ).splitlines(keepends=True)
    woven, done, choose = [], [0] * 4, random.Random(1)
    while any(at < len(log) for at in done):
        rank = choose.choice([r for r in range(4) if done[r] < len(log)])
        end = done[rank] + choose.randint(1, 5)
        woven += [
            b"[1,%d]<stderr>:" % rank + line for line in log[done[rank] : end]
        ]
        done[rank] = end
    path = tmp_path / "ranks.log"
    path.write_bytes(b"".join(woven))
    groups = parse(path).groups
    assert {group.rank for group in groups} == {0, 1, 2, 3}
    for group in groups:
        for evidence in group.evidence:
            line = woven[evidence.line - 1]
            assert (
                line.startswith(b"[1,%d]" % group.rank)
                and b"prim::CudaFusionGroup" in line
            )


def test_two_ranks_in_one_log_are_told_apart_by_their_prefix(
    tmp_path: Path,
) -> None:
    one = raw_log.read(CLEAN).splitlines(keepends=True)
    other = raw_log.read(
        FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz"
    ).splitlines(keepends=True)
    woven, choose = [], random.Random(7)
    while one or other:
        rank = choose.randrange(2) if one and other else int(not one)
        lines = other if rank else one
        for _ in range(min(len(lines), choose.randrange(1, 9))):
            woven.append(b"[rank%d]:" % rank + lines.pop(0))
    log = tmp_path / "ranks.log"
    log.write_bytes(b"".join(woven))
    report = parse(log)
    assert {g.rank for g in report.groups} == {0, 1}
    clean = parse(CLEAN)
    first = [g for g in report.groups if g.rank == 0]
    assert [(g.nodes, g.inputs, g.runs, len(g.kernels)) for g in first] == [
        (g.nodes, g.inputs, g.runs, len(g.kernels)) for g in clean.groups
    ]
    assert [f.rank for f in report.fallbacks] == [1]


TAGS = {
    "Kubernetes": [b"worker-%d train " % i for i in range(4)],
    "compose": [b"trainer_%d  | " % i for i in range(4)],
    "names": [b"alpha | ", b"beta  | ", b"gamma | ", b"delta | "],
    "two numbers": [b"[node%d gpu%d] " % (i // 2, i) for i in range(4)],
    "number that tells nothing": [
        b"v2 %s: " % name for name in (b"a", b"b", b"c", b"d")
    ],
}


@pytest.mark.parametrize("timed", [False, True], ids=["bare", "with times"])
@pytest.mark.parametrize("kind", TAGS)
def test_tags_of_unknown_form_tell_processes_apart(
    kind: str, timed: bool, tmp_path: Path
) -> None:
    log = raw_log.read(
        FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz"
    ).splitlines(keepends=True)
    alone = parse(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz")
    woven, done, choose = [], [0] * 4, random.Random(3)
    while any(at < len(log) for at in done):
        who = choose.choice([r for r in range(4) if done[r] < len(log)])
        end = done[who] + choose.randint(1, 5)
        for line in log[done[who] : end]:
            time = (
                b"2024-05-01T10:00:%02d.%06dZ " % divmod(len(woven), 60)
                if timed
                else b""
            )
            woven.append(time + TAGS[kind][who] + line)
        done[who] = end
    path = tmp_path / "ranks.log"
    path.write_bytes(b"".join(woven))
    report = parse(path)
    assert {group.rank for group in report.groups} == {0, 1, 2, 3}
    for rank in range(4):
        mine = [
            (g.nodes, g.inputs, g.runs) for g in report.groups if g.rank == rank
        ]
        assert mine == [(g.nodes, g.inputs, g.runs) for g in alone.groups] and mine
        for group in (g for g in report.groups if g.rank == rank):
            lines = {woven[e.line - 1].split(b"[")[0] for e in group.evidence}
            assert len(group.evidence) and (
                kind == "two numbers" or timed or len(lines) == 1
            )
    assert sorted(f.rank for f in report.fallbacks if f.rank is not None) == [
        0,
        1,
        2,
        3,
    ]
    assert report.parse.truncated == 0 and report.parse.unrecognised == 0


@pytest.mark.parametrize(
    "prefix",
    [
        lambda i: b"job-7 | ",
        lambda i: b"%06d| " % i,
        lambda i: b"[+%d.%03ds] " % (i // 1000, i % 1000),
    ],
    ids=["one tag", "line numbers", "seconds"],
)
def test_a_prefix_that_tags_no_process_is_no_rank(
    prefix: Callable[[int], bytes], tmp_path: Path
) -> None:
    lines = raw_log.read(CLEAN).splitlines(keepends=True)
    path = tmp_path / "one.log"
    path.write_bytes(b"".join(prefix(i) + line for i, line in enumerate(lines)))
    assert gist(parse(path)) == gist(parse(CLEAN))
    assert {group.rank for group in parse(path).groups} == {None}


@pytest.mark.parametrize("seed", range(20))
def test_a_log_cut_off_at_either_end_keeps_what_is_whole(
    seed: int, tmp_path: Path
) -> None:
    log = raw_log.read(CLEAN)
    choose = random.Random(seed)
    start = choose.randrange(0, len(log) // 2)
    end = choose.randrange(len(log) // 2, len(log))
    cut = tmp_path / "cut.log"
    cut.write_bytes(log[start:end])
    report = parse(cut)
    whole = parse(CLEAN)
    known = {(g.nodes, g.inputs) for g in whole.groups}
    expected = set(raw_log.plan_groups(log[start:end]))
    for group in report.groups:
        assert (group.nodes, group.inputs) in known or report.parse.truncated
    assert len(report.groups) <= len(whole.groups)
    assert len(report.groups) >= sum(
        1
        for ops, types, _ in expected
        if (ops, types)
        in {
            (tuple((n.op, n.source) for n in nodes), inputs)
            for nodes, inputs in known
        }
    )
    stats = report.parse
    assert stats.recognised + stats.user_output + stats.unrecognised == stats.lines


def bare_graphs(path: Path) -> bytes:
    """The plans of a log as `print(fn.graph_for(x))` shows them: no prefix."""
    return b"\n".join(raw_log._plan_dumps(raw_log.read(path)))


def test_graphs_without_a_prefix(tmp_path: Path) -> None:
    log = tmp_path / "printed.txt"
    log.write_bytes(
        b"step 1 loss 0.3\n" + bare_graphs(CLEAN) + b"\nstep 2 loss 0.2\n"
    )
    report, whole = parse(log), parse(CLEAN)
    assert [(g.nodes, g.inputs, g.outputs, g.phase) for g in report.groups] == [
        (g.nodes, g.inputs, g.outputs, g.phase) for g in whole.groups
    ]
    assert report.parse.user_output >= 2
    assert report.parse.truncated == 0


def test_a_warning_splits_a_graph_without_a_prefix(tmp_path: Path) -> None:
    log = tmp_path / "printed.txt"
    log.write_bytes(each_line(warnings_inside_graphs)(bare_graphs(CLEAN)))
    assert [(g.nodes, g.inputs) for g in parse(log).groups] == [
        (g.nodes, g.inputs) for g in parse(CLEAN).groups
    ]


def test_output_without_a_line_end_before_a_marker(tmp_path: Path) -> None:
    log = tmp_path / "glued.log"
    glued = raw_log.read(CLEAN).replace(
        b"\nkernel1 run in", b"\nloss: 0.3 kernel1 run in"
    )
    log.write_bytes(
        glued.replace(b"\n[DEBUG kernel_cache", b"\nstep 3 [DEBUG kernel_cache")
    )
    assert gist(parse(log)) == gist(parse(CLEAN))


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2", ".zst"])
def test_compressed(ending: str, tmp_path: Path) -> None:
    data = raw_log.read(CLEAN)
    path = tmp_path / f"train.log{ending}"
    if ending == ".zst":
        zstandard = pytest.importorskip("zstandard")
        path.write_bytes(zstandard.ZstdCompressor().compress(data))
    else:
        path.write_bytes(
            {".gz": gzip, ".xz": lzma, ".bz2": bz2}[ending].compress(data)
        )
    assert gist(parse(path)) == gist(parse(CLEAN))


def test_a_folder_and_several_files_are_parts_of_one_run(tmp_path: Path) -> None:
    log = raw_log.read(CLEAN).splitlines(keepends=True)
    half = next(
        i for i, line in enumerate(log) if b"Before Fusion" in line and i > 100
    )
    (tmp_path / "a.log").write_bytes(b"".join(log[:half]))
    (tmp_path / "b.log").write_bytes(b"".join(log[half:]))
    (tmp_path / "notes.md").write_text("not a log")
    assert gist(parse(tmp_path)) == gist(parse(CLEAN))
    assert gist(parse(tmp_path / "a.log", tmp_path / "b.log")) == gist(parse(CLEAN))


def test_a_log_that_repeats_gives_the_same_rows(tmp_path: Path) -> None:
    log = tmp_path / "twice.log"
    log.write_bytes(raw_log.read(NNC) * 3)
    report, once = parse(log), parse(NNC)
    assert [(g.id, g.nodes, g.inputs, g.count) for g in report.groups] == [
        (g.id, g.nodes, g.inputs, g.count) for g in once.groups
    ]
    assert [(u.op, u.source, u.count, u.reason) for u in report.unfused] == [
        (u.op, u.source, u.count, u.reason) for u in once.unfused
    ]
    assert [3 * len(u.evidence) for u in once.unfused] == [
        len(u.evidence) for u in report.unfused
    ]


def test_renamed_values_change_nothing(tmp_path: Path) -> None:
    import re

    log = raw_log.read(CLEAN)
    renamed = re.sub(rb"%([A-Za-z0-9_.]+)", rb"%\1.r", log)
    both = tmp_path / "renamed.log"
    both.write_bytes(log + renamed)
    assert gist(parse(both))[0] == [
        (*g[:6], 2 * g[6], g[7]) for g in gist(parse(CLEAN))[0]
    ]


def test_indented_messages_of_onednn_are_no_cut_off_graphs(tmp_path: Path) -> None:
    said = [
        "405] Constructing LLGA graph",
        "409] Trying to add aten::linear",
        "413]   Added node aten::linear",
    ]
    said += [
        "426] Get Partitions",
        "436]   Got #partitions: 1",
        "504] Creating FusionGroup_0 for aten::linear",
    ]
    log = tmp_path / "run.log"
    log.write_text("".join(f"[DEBUG graph_helper.cpp:{one}\n" for one in said))
    stats = parse(log).parse
    assert (stats.recognised, stats.unrecognised, stats.truncated) == (6, 0, 0)
