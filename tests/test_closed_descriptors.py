"""Programs that close or redirect descriptors: nothing of theirs is written over,
the log is kept whole where that can be, and else the report says what is
missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from running import log_of, run_target, write

from fusiondoc.captures.probe_records import read_records
from fusiondoc.captures.raw_records import lines_of
from fusiondoc.runner.child import Child
from fusiondoc.workflows.load import report_of

ROOT = Path(__file__).resolve().parent.parent

BESIDE_THE_PROBE = """
import os, sys
from fusiondoc.probe import log_and_records
from fusiondoc.probe.log_and_records import Records

records = Records("records.jsonl")
log_and_records.LOG.keep()
"""


def run(folder: Path, source: str) -> str:
    """The log of a program that uses pieces of the probe."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", BESIDE_THE_PROBE + source]
    ending = Child(command, environment, folder, folder / "log", 30).run()
    log = (folder / "log").read_text()
    assert ending.exit_status == 0, log
    return log


def test_records_go_on_after_every_descriptor_was_closed(tmp_path: Path) -> None:
    """And the program's file, which gets the number that the records had, holds
    nothing of them."""
    run(
        tmp_path,
        "records.write('first')\nos.closerange(3, 65536)\nmine = open('mine', 'w')\n"
        "os.chdir('/')\nrecords.write('second')\nmine.write('mine')",
    )
    kinds = [
        one["record"] for one in lines_of((tmp_path / "records.jsonl").read_bytes())
    ]
    assert kinds == ["first", "second"]
    assert (tmp_path / "mine").read_text() == "mine"


def test_records_that_cannot_be_written_are_told_at_the_end_of_the_log_too(
    tmp_path: Path,
) -> None:
    log = run(
        tmp_path,
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "records.write('first')\nprint('a long log')\nrecords.write('second')\nrecords.write('done')",
    )
    said = "fusiondoc: no more records can be written: [Errno 27] File too large"
    assert sorted(log.splitlines()) == ["a long log", said, said]


@pytest.mark.parametrize(
    ("how", "away"),
    [
        (
            "os.close(1); os.close(2)",
            "{'stdout': 'is closed', 'stderr': 'is closed'}",
        ),
        ("os.closerange(0, 256)", "{'stdout': 'is closed', 'stderr': 'is closed'}"),
        (
            "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)",
            "{'stderr': 'goes to /dev/null'}",
        ),
        (
            "os.close(1); os.open('mine', os.O_WRONLY | os.O_CREAT)",
            "{'stdout': 'goes elsewhere'}",
        ),
        ("sys.stdout.close()", "{}"),
        ("sys.stdout = sys.stderr = None", "{}"),
    ],
)
def test_passes_log_to_where_the_log_is(
    tmp_path: Path, how: str, away: str
) -> None:
    log = run(
        tmp_path,
        f"{how}\n"
        "def say(text):\n"
        "    for number in (1, 2):\n"
        "        try: os.write(number, text)\n"
        "        except OSError: pass\n"
        "before = log_and_records.LOG.away()\n"
        "log_and_records.mark('pass')\n"
        "with log_and_records.LOG.in_place(): say(b'inside\\n')\n"
        "assert log_and_records.LOG.away() == before, before\n"
        "say(b'outside\\n')\n"
        "open('away', 'w').write(str(before))\nos._exit(0)",
    )
    assert (tmp_path / "away").read_text() == away
    assert log.startswith("[fusiondoc] pass\ninside\ninside\n")
    assert log.count("outside") == 2 - away.count(":")
    mine = tmp_path / "mine"
    assert not mine.exists() or mine.read_text() == "outside\n"


MODEL = """
import os
import torch

def model(x):
    return torch.relu(x + 1) * 2

inputs = (torch.ones(8),)
{first}
"""

SCRIPT = """
import os, time
import torch

os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
os.close(1)
model = torch.jit.trace(lambda x: torch.relu(x + 1), torch.ones(8))
for _ in range(4):
    model(torch.ones(8))
{last}
"""


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (
            "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)",
            {"stderr": "went to /dev/null for a while"},
        ),
        ("os.close(1)", {"stdout": "was closed for a while"}),
        ("os.dup2(1, 2)", {}),
    ],
)
def test_descriptors_that_were_put_back_are_told(
    tmp_path: Path, how: str, told: dict[str, str]
) -> None:
    run(
        tmp_path,
        "usual = os.dup2\n"
        "with log_and_records.LOG.recorded_when_put_back(records.write):\n"
        f"    kept = [os.dup(1), os.dup(2)]\n    {how}\n"
        "    for one, number in zip(kept, (1, 2)): os.dup2(one, fd2=number)\n"
        "assert os.dup2 is usual\n",
    )
    raw = (tmp_path / "records.jsonl").read_bytes() if told else b""
    kinds = [one["record"] for one in lines_of(raw)]
    assert kinds == ["redirected"] * len(told)
    redirected = read_records(raw).redirected
    assert {name: getattr(redirected, name) for name in told} == told
    assert redirected.loses_of("nvfuser") == bool(told) and redirected.while_away


@pytest.mark.torch
def test_the_log_of_a_model_is_whole_though_its_file_redirects(
    tmp_path: Path,
) -> None:
    first = "os.closerange(3, 256); os.dup2(os.open(os.devnull, os.O_WRONLY), 2); os.close(1)"
    write(tmp_path, "user.py", MODEL.format(first=first))
    capture, error = run_target(tmp_path, "user.py")
    assert error is None
    report = report_of(capture)
    assert len(report.groups) == 1 and len(report.iterations) == 5
    assert not {"FD901", "FD907"} & {finding.code for finding in report.findings}
    (note,) = capture.records.notes
    assert note.text.startswith(
        "the program's stderr goes to /dev/null and stdout is closed; during the pass"
    )


@pytest.mark.torch
@pytest.mark.parametrize("last", ["", "time.sleep(0.5); os._exit(0)"])
def test_a_script_that_turns_the_log_away_did_not_run_nothing(
    tmp_path: Path, last: str
) -> None:
    write(tmp_path, "user.py", SCRIPT.format(last=last))
    capture, error = run_target(tmp_path, "user.py", script=True)
    assert error is None
    found = {
        finding.code: finding.message for finding in report_of(capture).findings
    }
    assert "FD901" not in found
    assert found["FD907"].startswith(
        "The program's stdout is closed and stderr goes to /dev/null: the output"
    )
    assert "[fusiondoc] end" in log_of(capture) or last


@pytest.mark.torch
def test_a_script_that_puts_the_log_back_is_told_what_is_missing(
    tmp_path: Path,
) -> None:
    """As a program does that keeps a library quiet, around all that it compiles."""
    first = "saved = os.dup(2)\nos.dup2(os.open(os.devnull, os.O_WRONLY), 2)"
    script = (
        SCRIPT.partition("os.dup2")[0] + first + SCRIPT.partition("os.close(1)")[2]
    )
    write(tmp_path, "user.py", script.format(last="os.dup2(saved, 2)"))
    capture, error = run_target(tmp_path, "user.py", script=True)
    assert error is None
    found = {
        finding.code: finding.message for finding in report_of(capture).findings
    }
    assert "FD901" not in found
    lost = "the output of the fusers meanwhile is not in the log"
    said = f"The program's stderr went to /dev/null for a while: {lost}"
    assert found["FD907"] == said
