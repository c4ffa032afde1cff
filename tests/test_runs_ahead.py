"""The versions of ``fix`` made side by side: the answer is that of one after the
other."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import pytest
from running import write

from fusiondoc.captures.request import RunRequest, parse_target
from fusiondoc.captures.store import CaptureStore
from fusiondoc.workflows.fix import FixesFound, fix_target
from fusiondoc.workflows.fix_versions import FOLDER
from fusiondoc.workflows.runs_ahead import RunsAhead

BLOCK = """
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU(inplace=True)

        def forward(self, x, y):
            z = x * 2.0 + 1.0
            z += y
            z = self.act(z) * 3.0
            w = torch.cumsum(z, 0)
            w += 1.0
            return torch.square(w * y) + x


    model = Block()
    inputs = (torch.randn(8, 16), torch.randn(8, 16))
"""


def found(folder: Path, beside: int) -> tuple[FixesFound, list[str], list[str]]:
    """What ``fix`` finds, what it says on the way, and the captures of versions
    that it leaves."""
    write(folder, "block.py", BLOCK)
    request = RunRequest(
        target=parse_target("block.py", folder),
        cwd=folder,
        fuser="nnc",
        device="cpu",
        runs=3,
        python=sys.executable,
    )
    lines: list[str] = []
    made = fix_target(
        request,
        CaptureStore(folder),
        timed=False,
        beside=beside,
        notify=lines.append,
    )
    captures = sorted(
        path.name.partition("-")[2]
        for path in folder.glob(f".fusiondoc/*/{FOLDER}/*")
    )
    return made, lines, captures


@pytest.mark.torch
@pytest.mark.nightly  # two searches; what begins and what is taken is held below
def test_runs_side_by_side_find_what_runs_one_after_the_other_find(
    tmp_path: Path,
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "several").mkdir()
    alone, said_alone, captures_alone = found(tmp_path / "one", 1)
    beside, said_beside, captures_beside = found(tmp_path / "several", 3)
    assert alone.fixes.diff and len(alone.fixes.tried) > 1
    assert beside.fixes.diff == alone.fixes.diff
    rows = [
        (one.change, one.outcome, one.before, one.after)
        for one in alone.fixes.tried
    ]
    assert [
        (one.change, one.outcome, one.before, one.after)
        for one in beside.fixes.tried
    ] == rows
    assert said_beside[:-1] == said_alone[:-1]  # the last is how long it took
    # What was begun and not wanted in the end has left nothing.
    assert captures_beside == captures_alone


def slow(file: Path) -> str:
    file.with_suffix(".begun").touch()
    time.sleep(60)
    file.touch()
    return "slow"


def made(number: int) -> int:
    return number * number


def failing() -> int:
    raise ValueError("as the run did")


def test_a_run_that_is_no_longer_expected_is_ended(tmp_path: Path) -> None:
    runs: RunsAhead[str, object] = RunsAhead(2)
    runs.begin(
        [
            ("slow", partial(slow, tmp_path / "slow")),
            ("two", partial(made, 2)),
            ("three", partial(made, 3)),
        ]
    )
    assert runs.take("three") is None  # no room
    assert runs.take("two") == 4
    while not (tmp_path / "slow.begun").exists():
        time.sleep(0.01)
    began = time.monotonic()
    runs.begin([("three", partial(made, 3))])
    assert runs.take("slow") is None and runs.take("three") == 9
    assert time.monotonic() - began < 30 and not (tmp_path / "slow").exists()
    runs.begin([("failing", failing)])
    with pytest.raises(ValueError, match="as the run did"):
        runs.take("failing")
    runs.begin([("slow", partial(slow, tmp_path / "again"))])
    runs.close()
    assert not (tmp_path / "again").exists()


def test_where_runs_are_made_one_after_the_other_none_begins() -> None:
    runs: RunsAhead[int, int] = RunsAhead(1)
    assert not runs.makes_any
    runs.begin([(2, partial(made, 2))])
    assert runs.take(2) is None
    runs.close()
