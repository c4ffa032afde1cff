"""``with fusiondoc.capture()``: what it records, what stays visible, and that
nothing is left behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from running import python_apart

import fusiondoc
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import UsageError
from fusiondoc.probe import live_capture

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("live capture")]

LIVE = Path(__file__).parent / "live"


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The one process that leaves blocks in every way: what it printed, and what it
    saw."""
    folder = tmp_path_factory.mktemp("blocks")
    done = python_apart(LIVE / "capture_blocks.py", folder, cwd=folder)
    shown, _, seen = done.stdout.partition("JSON")
    assert seen, done.stderr
    return shown, done.stderr, json.loads(seen)


def test_groups_are_those_of_the_graphs(blocks: Any) -> None:
    _, _, seen = blocks
    assert len(seen["oracle"]) == 3
    assert sorted(seen["groups"]) == sorted(seen["oracle"])
    assert seen["again"], "fusiondoc.parse of the folder gives the same groups"


@pytest.mark.parametrize(
    "way",
    [
        "end",
        "aot leaves nothing",
        "level kept",
        "RuntimeError",
        "SystemExit",
        "KeyboardInterrupt",
        "nested",
        "fork",
    ],
)
def test_everything_is_as_before(blocks: Any, way: str) -> None:
    """Descriptors, their number, log level, environment, the streams of Python,
    functions of torch."""
    assert blocks[2][way]


def test_what_aotautograd_compiles_is_reported(blocks: Any) -> None:
    """Whether it was wrapped in the block or before."""
    told = blocks[2]["aot"]
    assert set(told) == {"scaled", "split"}
    how, line, calls, compiles, partition, *graphs = told["scaled"]
    assert how == "AOTAutograd, defined" and "capture_blocks.py:" in line
    assert (calls, compiles, partition) == (
        None,
        1,
        "min_cut_rematerialization_partition",
    )
    assert [one[0] for one in graphs] == [
        "joint",
        "forward",
        "backward",
    ] and graphs[1][1:] == [4, 4]
    how, line, calls, compiles, partition, *graphs = told["split"]
    assert (how, calls, compiles) == (
        "memory_efficient_fusion",
        3,
        1,
    ) and "capture_blocks.py:" in line
    assert graphs[1][2] and graphs[2][2]


def test_models_that_the_block_scripts_are_named(blocks: Any) -> None:
    assert blocks[2]["models"] == [["chain", "scripted"]]


def test_what_python_prints_is_shown_and_recorded_in_order(blocks: Any) -> None:
    shown, errors, seen = blocks
    assert shown.splitlines()[:3] == ["first line", "half a line", "last line"]
    assert "from logging" in errors
    assert "UserWarning: from warnings" in errors
    assert "[DUMP" not in shown + errors
    log = seen["log"]
    own = [
        line
        for line in log
        if line in {*shown.splitlines(), "from logging", "from a child"}
    ]
    assert own == [
        "first line",
        "half a line",
        "from logging",
        "from a child",
        "last line",
    ]
    graphs = [number for number, line in enumerate(log) if line.startswith("[DUMP")]
    assert log.index("first line") < min(graphs)
    assert max(graphs) < log.index("half a line")


def test_a_second_capture_is_refused(blocks: Any) -> None:
    message, hint = blocks[2]["refused"]
    assert "capture_blocks.py:" in message
    assert "leave that block first" in hint


def test_a_block_without_a_plan_says_why(blocks: Any) -> None:
    assert blocks[2]["notes"] == []
    (advice,) = blocks[2]["nothing"]
    assert "keeps its plan" in advice


class Shown:
    """A stream without a descriptor, as Jupyter's is; it writes to another stream
    as well."""

    def __init__(self, other: Any) -> None:
        self.texts: list[str] = []
        self.other = other

    def write(self, text: str) -> int:
        self.texts.append(text)
        self.other.write(text)
        return len(text)

    def flush(self) -> None:
        pass


def test_streams_without_a_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Shown(sys.stderr)
    monkeypatch.setattr(sys, "stdout", stream)
    problems: list[str] = []
    with live_capture.redirected(str(tmp_path / "log"), problems.append):
        print("once")
    print("after")
    assert stream.texts == ["once", "\n", "after", "\n"]
    assert "write" not in vars(stream)
    assert (tmp_path / "log").read_text() == "once\n"
    assert problems == []


class Slotted:
    __slots__ = ()

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


def test_a_stream_that_cannot_be_recorded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Slotted())
    problems: list[str] = []
    with live_capture.redirected(str(tmp_path / "log"), problems.append):
        print("lost")
    assert "Slotted" in problems[0]


class OldTorch:
    """A torch that cannot set the level at run time."""

    class _C:
        pass


def test_a_torch_that_reads_the_variable_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(live_capture.JIT_LOG, raising=False)
    switches = live_capture.LogSwitches(OldTorch)
    assert not switches.at_run_time
    with (
        pytest.raises(ZeroDivisionError),
        switches.on("graph_fuser", {"A_VARIABLE": "1"}),
    ):
        assert switches.level() == "graph_fuser"
        raise ZeroDivisionError
    assert switches.level() == ""


def test_a_report_is_there_after_the_block_only(tmp_path: Path) -> None:
    with fusiondoc.capture(tmp_path) as run:
        with pytest.raises(UsageError, match="before the block ends"):
            _ = run.report
        assert "running" in str(run)
    assert run.report.parse.lines == 0
    with pytest.raises(UsageError, match="has ended"), run:
        pass


def test_wrong_arguments_are_refused_before_the_block(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown fuser 'nvfuse'"):
        fusiondoc.capture(tmp_path, fuser="nvfuse")
    before = sys.stdout.write
    with (
        pytest.raises(UsageError, match="no_such_dump"),
        fusiondoc.capture(tmp_path, dumps=["no_such_dump"]),
    ):
        pass
    assert sys.stdout.write == before
    with fusiondoc.capture(tmp_path):  # and the next one is not refused as a second
        pass


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / ".fusiondoc").write_text("a file")
    with fusiondoc.capture(tmp_path) as run:
        pass
    assert run.path.is_dir()
    assert str(run.path) in run.notes[0]


def test_a_block_has_a_name_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSIONDOC_KEEP_LAST", "1")
    with fusiondoc.capture(tmp_path, name="before") as named:
        pass
    with fusiondoc.capture(tmp_path, keep=True) as kept:
        pass
    for _ in range(2):
        with fusiondoc.capture(tmp_path) as last:
            pass
    assert (
        CaptureStore(tmp_path).get("before").path == named.path
        and kept.path.is_dir()
    )
    assert any(
        "removed" in note and "the newest 1 stay" in note for note in last.notes
    )
    with fusiondoc.capture(tmp_path, name="before") as again:
        pass
    assert "a capture named before already exists" in again.notes[0]


NOT_SWITCHED_ON = """
import json, sys, torch, fusiondoc
f = torch.jit.script(torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Tanh()))
if len(sys.argv) > 1:
    exec(sys.argv[1])
with fusiondoc.capture() as run:
    for _ in range(4):
        f(torch.rand(4, 8))
own = run.report.fuser.by_itself
said = [note for note in run.notes if "by itself" in note]
print(json.dumps([len(run.report.groups), said, list(own.python) if own else None]))
"""


def test_nothing_fused_because_the_fuser_is_off_and_the_lines_switch_it_on(
    tmp_path: Path,
) -> None:
    done = python_apart(code=NOT_SWITCHED_ON, cwd=tmp_path)
    groups, (said,), lines = json.loads(done.stdout)
    assert groups == 0
    assert said.startswith(
        "the program by itself fuses nothing: NNC is off on the CPU until switched on: "
    )
    assert said.endswith("; ".join(lines)) and len(lines) == 2
    program = tmp_path / "program.py"
    program.write_text(NOT_SWITCHED_ON)
    done = python_apart(program, "; ".join(lines), cwd=tmp_path)
    assert json.loads(done.stdout) == [1, [], None], done.stderr
