"""Logs followed while they grow: the report at their end is the one of the whole
log, however it came."""

from __future__ import annotations

import errno
import io
import json
import lzma
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from command_line import ROOT, Run

from fusiondoc.cli import COMMANDS, command_of
from fusiondoc.cli.options import Amount
from fusiondoc.model.report import Report
from fusiondoc.model.runs import ParseStats
from fusiondoc.parsers.lines.growing_logs import Go
from fusiondoc.reports.json_format import render
from fusiondoc.workflows.follow import Follower, LiveView
from fusiondoc.workflows.load import report_from

LOGS = [
    "logs/nvfuser-2.1.2-ordered-dynamic-shapes.log.xz",
    "logs/nvfuser-2.1.2-fallback-run.log.xz",
    "logs/nvfuser-2.1.2-two-ranks.log.xz",
    "logs/nvfuser-1.12.1-crash.log.xz",
    "logs/nvfuser-1.13.1-primitive-layer-norm.log.xz",
    "logs/nvfuser-2.1.2-unknown-dump-option.log.xz",
]


def text_of(name: str) -> bytes:
    return lzma.decompress((ROOT / "fixtures" / name).read_bytes())


class Writer:
    """Is asked how to go on between two looks, and does the next step of what
    writes the log: so nothing depends on time."""

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps = steps

    def __call__(self) -> Go:
        return Go.ON if next(self._steps, True) is None else Go.FINISH


class Seen:
    """A view that keeps what it was shown."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.words: list[str] = []

    def waits(self, path: Path) -> None:
        self.words.append(f"waits for {path.name}")

    def look(self, report: Report) -> None:
        self.reports.append(report)

    def interrupted(self, text: str) -> None:
        self.words.append(text)


def followed(log: Path, steps: Iterator[None]) -> tuple[Report, Seen]:
    seen = Seen()
    follower = Follower(log, seen, Writer(steps))
    follower.run()
    follower.show()
    return follower.report(), seen


def appended(
    log: Path, text: bytes, rng: random.Random, pieces: int = 12
) -> Iterator[None]:
    """Writes the text in pieces that end anywhere."""
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(pieces))
    for start, end in zip([0, *cuts], [*cuts, len(text)]):
        with log.open("ab") as file:
            file.write(text[start:end])
        yield None


def as_json(report: Report) -> dict[str, object]:
    """Without what depends on when and how fast it was read."""
    data = json.loads(
        render(replace(report, parse=replace(report.parse, seconds=0.0)))
    )
    data["target"] = None
    return data


@pytest.mark.parametrize("name", LOGS)
def test_a_followed_log_gives_the_report_of_the_whole_log(
    name: str, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    text = text_of(name)
    report, seen = followed(log, appended(log, text, random.Random(name)))
    assert log.read_bytes() == text
    assert as_json(report) == as_json(report_from([str(log)]))
    assert seen.words == ["waits for train.log"]
    last = seen.reports[-1]
    assert (last.fusion_groups, len(last.fallbacks)) == (
        report.fusion_groups,
        len(report.fallbacks),
    )


def test_groups_and_fallbacks_are_shown_before_the_log_ends(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    text = text_of("logs/nvfuser-2.1.2-fallback-run.log.xz")
    first = text.index(b"FALLBACK")
    first = text.index(b"\n", first) + 1
    follower = None

    def steps() -> Iterator[None]:
        log.write_bytes(text[:first])
        yield None
        yield None
        follower.show()  # the clock would do it after half a second
        with log.open("ab") as file:
            file.write(text[first:])
        yield None

    seen = Seen()
    follower = Follower(log, seen, Writer(steps()))
    follower.run()
    early = seen.reports[0]
    assert early.fallbacks
    assert early.groups
    assert early.parse.bytes == first


def test_what_is_shown_while_reading_changes_nothing_of_the_report(
    tmp_path: Path,
) -> None:
    text = text_of("logs/nvfuser-2.1.2-ordered-dynamic-shapes.log.xz")
    log = tmp_path / "train.log"

    def steps() -> Iterator[None]:
        for _ in appended(log, text, random.Random(5)):
            follower.show()
            yield None

    follower = Follower(log, Seen(), Writer(steps()))
    follower.run()
    assert as_json(follower.report()) == as_json(report_from([str(log)]))


def test_a_log_that_is_rotated_goes_on_in_the_file_that_takes_its_place(
    tmp_path: Path,
) -> None:
    log, old = tmp_path / "train.log", tmp_path / "train.log.1"
    text = text_of("logs/nvfuser-2.1.2-ordered-dynamic-shapes.log.xz")
    half = text.rindex(b"\n[DUMP ", 0, len(text) // 2) + 1

    def steps() -> Iterator[None]:
        yield from appended(log, text[: half - 400], random.Random(1))
        log.rename(old)
        yield None  # for a moment there is no file, and the old one is still written
        with old.open("ab") as file:
            file.write(text[half - 400 : half])
        yield from appended(log, text[half:], random.Random(2))
        yield None
        yield None

    report, seen = followed(log, steps())
    assert (old.read_bytes(), log.read_bytes()) == (text[:half], text[half:])
    assert as_json(report) == as_json(report_from([str(old), str(log)]))
    assert {one.file for group in report.groups for one in group.evidence} <= {
        str(old),
        str(log),
    }
    assert "was rotated" in seen.words[-1]


@pytest.mark.parametrize(
    "grown", [False, True], ids=["shorter", "grown past the place"]
)
def test_a_log_that_is_truncated_loses_nothing_that_was_read(
    grown: bool, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    text = text_of("logs/nvfuser-2.1.2-ordered-dynamic-shapes.log.xz")
    half = text.rindex(b"\n[DUMP ", 0, len(text) // 3) + 1
    assert len(text) - half > half

    def steps() -> Iterator[None]:
        log.write_bytes(text[:half])
        yield None
        yield None
        log.write_bytes(text[half:] if grown else text[half : half + half // 2])
        yield None
        if not grown:
            with log.open("ab") as file:
                file.write(text[half + half // 2 :])
        yield None
        yield None

    report, seen = followed(log, steps())
    before, after = tmp_path / "before.log", tmp_path / "after.log"
    before.write_bytes(text[:half])
    after.write_bytes(text[half:])
    both = report_from([str(before), str(after)])

    def groups(one: Report) -> list[tuple[object, ...]]:
        return [
            (row.kind, row.ops, row.count, len(row.evidence)) for row in one.groups
        ]

    assert groups(report) == groups(both)
    assert report.parse.lines == both.parse.lines
    assert "was truncated" in seen.words[-1]
    names = {one.file for group in report.groups for one in group.evidence}
    assert names <= {str(log), f"{log} before it was truncated"}


def test_a_pipe_is_followed_until_it_is_closed(fusiondoc_process: Run) -> None:
    name = "nnc-2.11-rejects.log.xz"
    text = text_of(f"logs/{name}").decode()
    done = fusiondoc_process(
        "parse", "--follow", "-", "--format", "json", input=text
    )
    assert done.returncode == 0, done.stderr
    whole = fusiondoc_process(
        "parse", ROOT / "fixtures/logs" / name, "--format", "json"
    )
    one, other = json.loads(done.stdout), json.loads(whole.stdout)
    assert [row["nodes"] for row in one["groups"]] == [
        row["nodes"] for row in other["groups"]
    ]
    assert one["coverage"] == other["coverage"]
    assert "group" in done.stderr


@pytest.mark.skipif(
    not hasattr(os, "mkfifo"), reason="pipes with names are of POSIX"
)
def test_a_pipe_with_a_name_is_followed_until_its_writer_closes_it(
    tmp_path: Path,
) -> None:
    """It is waited for, and what was read of it is never taken for truncated."""
    log, pipe = tmp_path / "whole.log", tmp_path / "pipe"
    log.write_bytes(text_of("logs/nnc-2.11-rejects.log.xz"))
    os.mkfifo(pipe)
    looked = threading.Semaphore(0)

    def write() -> None:
        text = log.read_bytes()
        for _ in range(
            3
        ):  # opened by its writer only after some looks, and quiet between two pieces
            assert looked.acquire(timeout=60)
        with pipe.open("wb", buffering=0) as file:
            for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
                file.write(piece)
                for _ in range(3):
                    assert looked.acquire(timeout=60)

    def go() -> Go:
        looked.release()
        return Go.ON

    writer = threading.Thread(target=write)
    writer.start()
    seen = Seen()
    follower = Follower(pipe, seen, go, idle=60.0)
    follower.run()
    writer.join()
    report, whole = follower.report(), report_from([str(log)])
    assert report.parse.bytes == whole.parse.bytes and not seen.words
    assert (
        [group.nodes for group in report.groups]
        == [group.nodes for group in whole.groups]
        != []
    )
    assert {one.file for group in report.groups for one in group.evidence} == {
        str(pipe)
    }


@pytest.mark.skipif(
    not hasattr(os, "mkfifo"), reason="pipes with names are of POSIX"
)
def test_a_pipe_that_nobody_opens_is_waited_for_until_told_to_stop(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pipe")
    follower = Follower(tmp_path / "pipe", Seen(), lambda: Go.ON, idle=0.3)
    follower.run()
    assert not follower.report().groups


def test_an_interruption_ends_the_following_and_gives_the_report(
    tmp_path: Path,
) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(text_of("logs/nnc-2.11-add-relu.log.xz"))
    process = subprocess.Popen(
        [sys.executable, "-m", "fusiondoc", "parse", "--follow", "train.log"],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    line = process.stderr.readline()  # the first group is told: it is following
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "add, relu" in line
    assert "2 operators" in out


def test_quiet_logs_end_after_the_time_given(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_bytes(text_of("logs/nnc-2.11-add-relu.log.xz"))
    done = fusiondoc("parse", "--follow", "train.log", "--idle", "0.2", "-q")
    assert done.returncode == 0
    assert "1 group" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--follow", "."], "is a folder"),
        (["--follow", "train.log.gz"], "is compressed"),
        (["--follow", "none/train.log"], "no such folder: none"),
        (["--follow", "a.log", "b.log"], "takes one LOG"),
        (["--follow"], "takes one LOG"),
        (["--idle", "3", "a.log"], "Add --follow"),
        (["--follow", "/dev/zero"], "is a device"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    arguments: list[str], said: str, fusiondoc: Run
) -> None:
    done = fusiondoc("parse", *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_live_run_tells_groups_while_it_goes_on(
    fusiondoc: Run, tmp_path: Path
) -> None:
    done = fusiondoc(
        "diagnose", ROOT / "examples/bias_gelu.py", "--live", "-q", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("  group  ") == 1
    assert "examples/bias_gelu.py:18" in done.stderr
    assert "1 group" in done.stdout


def report_with(**rows: object) -> Report:
    report = report_from(
        [str(ROOT / "fixtures/logs/nvfuser-2.1.2-fallback-run.log.xz")]
    )
    return replace(report, **rows)  # type: ignore[arg-type]


def test_a_view_tells_each_thing_once() -> None:
    lines: list[str] = []
    view = LiveView("train.log", lambda *parts: lines.append("  ".join(parts)))
    report = report_with()
    view.look(
        replace(
            report,
            groups=(),
            fallbacks=(),
            parse=ParseStats(1, 1, 0, 0, (), 0, 0.0, 1),
        )
    )
    assert lines == []
    view.look(report)
    kinds = [line.split()[1] for line in lines]
    assert kinds == ["fallback"] * len(report.fallbacks) + ["group"] * len(
        kinds[len(report.fallbacks) :]
    )
    assert kinds.count("group") == len(report.groups)
    told = len(lines)
    view.look(report)
    assert len(lines) == told
    view.look(replace(report, groups=report.groups[1:]))
    assert [line.split()[1] for line in lines[told:]] == ["gone"]


def test_a_fallback_on_each_pass_is_no_line_each() -> None:
    lines: list[str] = []
    view = LiveView("train.log", lambda *parts: lines.append("  ".join(parts)))
    report = report_with()
    one = report.fallbacks[0]
    for times in range(1, 101):
        view.look(
            replace(report, groups=(), fallbacks=(replace(one, count=times),))
        )
    assert len(lines) == 7  # at 1, 2, 4 ... 64


def test_lines_of_a_view_hold_no_command_to_a_terminal_and_no_secret() -> None:
    lines: list[str] = []
    view = LiveView("train.log", lambda *parts: lines.append("  ".join(parts)))
    report = report_with()
    error = "bad\x1b]0;title\x07 password=hunter2secret\nnext"
    view.look(
        replace(
            report,
            groups=(),
            fallbacks=(replace(report.fallbacks[0], error=error),),
        )
    )
    assert len(lines) == 1
    assert "\x1b" not in lines[0]
    assert "\n" not in lines[0]
    assert "hunter2secret" not in lines[0]


def test_many_groups_at_once_are_counted() -> None:
    lines: list[str] = []
    view = LiveView("train.log", lambda *parts: lines.append("  ".join(parts)))
    report = report_with()
    groups = tuple(replace(report.groups[0], rank=rank) for rank in range(50))
    view.look(replace(report, groups=groups, fallbacks=()))
    assert len(lines) == 13
    assert lines[-1].endswith("and 38 more")


def test_an_error_while_following_is_no_traceback(
    tmp_path: Path, fusiondoc: Run
) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"x\n")
    log.chmod(0)
    if os.access(log, os.R_OK):
        pytest.skip("this user may read everything")
    done = fusiondoc("parse", "--follow", "train.log", "--idle", "1")
    assert done.returncode == 2
    assert "Permission denied" in done.stderr


def a_folder(log: Path) -> None:
    log.mkdir()


def a_socket(log: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(log))


def a_device(log: Path) -> None:
    log.symlink_to("/dev/null")


def an_endless_device(log: Path) -> None:
    log.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "becomes, kind",
    [
        (a_folder, "folder"),
        (a_socket, "socket"),
        (a_device, "device"),
        (an_endless_device, "device"),
    ],
)
def test_a_log_that_becomes_something_else_ends_with_the_report_of_what_was_read(
    becomes: Callable[[Path], None],
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    log = Path("train.log")
    text = text_of("logs/nnc-2.11-add-relu.log.xz")
    (tmp_path / "whole.log").write_bytes(text)

    def steps() -> Iterator[None]:
        log.write_bytes(text)
        yield None
        yield None
        log.unlink()
        becomes(log)
        for _ in range(100):
            yield None

    report, seen = followed(log, steps())
    whole = report_from(["whole.log"])
    assert (
        [group.ops for group in report.groups]
        == [group.ops for group in whole.groups]
        != []
    )
    assert (report.parse.lines, report.coverage) == (
        whole.parse.lines,
        whole.coverage,
    )
    assert [one.code for one in report.findings] == [
        one.code for one in whole.findings
    ]
    assert seen.words[-1] == (
        f"train.log is a {kind}. Following ends here; the report is of what was read before."
    )


def test_the_command_prints_the_report_when_the_log_becomes_a_folder(
    tmp_path: Path,
) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(text_of("logs/nnc-2.11-add-relu.log.xz"))
    process = subprocess.Popen(
        [sys.executable, "-m", "fusiondoc", "parse", "--follow", "train.log"],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "add, relu" in process.stderr.readline()
    log.unlink()
    log.mkdir()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "2 operators" in out
    assert "train.log is a folder. Following ends here" in err


def test_a_log_whose_disk_fails_ends_with_the_report_of_what_was_read(
    tmp_path: Path,
) -> None:
    log = tmp_path / "train.log"
    text = text_of("logs/nnc-2.11-add-relu.log.xz")
    log.write_bytes(text)

    class Failing(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:  # type: ignore[override]
            data = super().read(size)
            if not data:
                raise OSError(errno.EIO, "Input/output error")
            return data

    seen = Seen()
    follower = Follower(log, seen, lambda: Go.ON)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fusiondoc.parsers.lines.growing_logs.open_given",
            lambda path: Failing(str(path)),
        )
        follower.run()
    assert follower.report().fusion_groups == 1
    assert seen.words == [
        f"{log} cannot be read any further: Input/output error. Following ends here; the report is of what"
        " was read before."
    ]


@pytest.mark.parametrize(
    "seconds", ["nan", "inf", "-inf", "-1", "0", "1e400", "1e12", "", "x", "\u0663"]
)
@pytest.mark.parametrize(
    "command",
    [
        ("parse", "a.log", "--follow", "--idle"),
        ("parse", "a.log", "--peak"),
        ("diagnose", "m.py", "--timeout"),
        ("bench", "m.py", "--timeout"),
        ("repro", "a.log", "--group", "G1", "--timeout"),
    ],
)
def test_no_option_takes_a_number_that_is_none(
    command: tuple[str, ...], seconds: str, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(text_of("logs/nnc-2.11-add-relu.log.xz"))
    (tmp_path / "m.py").write_text("x = 1\n")
    done = fusiondoc(*command, seconds)
    assert done.returncode == 2
    assert (
        done.stderr.startswith(f"error: {command[-1]} {seconds}: ")
        and "next: For example" in done.stderr
    )


def test_every_option_with_a_fraction_is_of_one_type() -> None:
    plain = {
        f"{name} {param.opts[0]}"
        for name in COMMANDS
        for param in command_of(name).params
        if isinstance(param.type, (click.FloatRange, click.types.FloatParamType))
        and not isinstance(param.type, Amount)
    }
    assert plain == set()


@pytest.mark.parametrize("place", ["tool.fusiondoc", "tool.fusiondoc.parse"])
def test_a_project_cannot_make_parse_wait(
    place: str, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(text_of("logs/nnc-2.11-add-relu.log.xz"))
    (tmp_path / "pyproject.toml").write_text(f"[{place}]\nfollow = true\n")
    done = fusiondoc("parse", "a.log")
    assert done.returncode == 2
    assert (
        "pyproject.toml:2:1: follow is taken from the command line only"
        in done.stderr
    )
    assert "next: Leave it out, and give --follow" in done.stderr


def test_a_project_may_say_how_long_a_log_is_followed(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(text_of("logs/nnc-2.11-add-relu.log.xz"))
    (tmp_path / "pyproject.toml").write_text("[tool.fusiondoc.parse]\nidle = 0.2\n")
    assert fusiondoc("parse", "a.log").returncode == 0
    assert fusiondoc("parse", "a.log", "--follow").returncode == 0
    (tmp_path / "pyproject.toml").write_text("[tool.fusiondoc.parse]\nidle = inf\n")
    done = fusiondoc("parse", "a.log")
    assert done.returncode == 2
    assert (
        "pyproject.toml:2:1: --idle inf: it must be more than 0 seconds"
        in done.stderr
    )
