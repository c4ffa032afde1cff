"""Machine formats against what publishes them: SARIF's schema, the XSD of JUnit,
the escapes of GitHub's runner."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import json
import lzma
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from conftest import FIXTURES, ROOT, Run
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import every, examples

from fusiondoc.comparison.compare_reports import compare
from fusiondoc.model.change_plan import ChangeKind, Edit, PlannedChange
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.runs import Expectation, Suppressed
from fusiondoc.model.source import Target
from fusiondoc.rendering.printable import visible
from fusiondoc.reports import (
    REPORT_FORMATS,
    code_annotations,
    junit,
    render_comparison,
    render_report,
    sarif,
)
from fusiondoc.reports.json_format import as_dict
from fusiondoc.reports.text.expectations import expectation_text
from fusiondoc.views.formatting import NearPaths
from fusiondoc.workflows.load import report_from

SCHEMAS = FIXTURES / "schemas"
SARIF = jsonschema.Draft4Validator(
    json.loads(lzma.decompress((SCHEMAS / "sarif-2.1.0.json.xz").read_bytes()))
)
LOGS = sorted((FIXTURES / "logs").glob("*.xz"))
REJECTS = FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"


def check_xml(text: str) -> ElementTree.Element:
    """Against the XSD of Jenkins' xunit plugin where a validator is at hand, else
    its outline."""
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("name")
        cases = list(suite)
        assert cases and all(
            c.tag == "testcase" and c.get("name") and c.get("classname")
            for c in cases
        )
        assert int(suite.get("tests")) == len(cases)
        for name in ("failure", "skipped"):
            count = sum(c.find(name) is not None for c in cases)
            assert int(suite.get({"failure": "failures"}.get(name, name))) == count
    return root


@pytest.mark.parametrize("log", every(3, LOGS), ids=lambda p: p.name)
def test_every_log_in_every_format(log: Path) -> None:
    report = report_from([str(log)])
    data = json.loads(sarif.render(report))
    SARIF.validate(data)
    results = data["runs"][0]["results"]
    planned = [r for r in results if r["ruleId"] == "plan"]
    assert results[: len(planned)] == planned and len(planned) == len(
        code_annotations.planned(report)
    )
    results = results[len(planned) :]
    findings = [f for f in report.findings if not f.in_header]
    assert [r["ruleId"] for r in results] == [f.code for f in findings]
    rules = data["runs"][0]["tool"]["driver"]["rules"]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in results)
    for finding, result in zip(findings, results):
        if not finding.source:  # of the file as a whole: never of its first line
            assert all(
                "region" not in one["physicalLocation"]
                for one in result["locations"]
            )
        else:
            place = result["locations"][0]["physicalLocation"]
            shown = (
                f"{place['artifactLocation']['uri']}:{place['region']['startLine']}"
            )
            assert finding.source.endswith(shown) and not shown.startswith("/")
    issues = json.loads(code_annotations.gitlab(report))
    in_lines = [f for f in findings if f.source]
    without = len(findings) > len(in_lines)
    assert len({one["fingerprint"] for one in issues}) == len(issues)
    assert len(issues) == len(planned) + len(in_lines) + without
    assert {one["severity"] for one in issues} <= {
        "info",
        "minor",
        "major",
        "critical",
        "blocker",
    }
    root = check_xml(junit.render(report))
    assert len(root.findall(".//testcase")) == max(1, len(report.findings))
    errors = sum(f.severity == "error" for f in report.findings)
    assert len(root.findall(".//failure")) == errors
    lines = code_annotations.github(report).splitlines()
    assert all(
        re.match(r"::(error|warning|notice) [^:]*title=[^:]*::.", line)
        for line in lines
    )
    assert len(lines) <= 30
    # What has no line is said once, on no line.
    assert sum("line=" not in line for line in lines) <= without + (
        "which GitHub would not" in "".join(lines[-1:])
    )


def test_the_xsd_and_the_reader_that_others_use(tmp_path: Path) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    junitparser = pytest.importorskip("junitparser")
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz")]
    )
    report = replace(
        report,
        expectations=(Expectation("s", False, "a", "b", "c", "f.yaml", 1, 1),),
    )
    schema = xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd"))
    text = junit.render(report)
    schema.validate(text)
    for log in every(6, LOGS):
        schema.validate(junit.render(report_from([str(log)])))
    (tmp_path / "a.xml").write_text(text, encoding="utf-8")
    suites = list(junitparser.JUnitXml.fromfile(str(tmp_path / "a.xml")))
    assert [suite.name for suite in suites] == ["expectations", "findings"]
    assert suites[0].failures == 1 and suites[1].tests == len(report.findings)


def test_the_schema_refuses_what_is_no_sarif() -> None:
    data = json.loads(sarif.render(report_from([str(REJECTS)])))
    data["runs"][0]["results"][0]["level"] = "bad"
    with pytest.raises(jsonschema.ValidationError):
        SARIF.validate(data)


def unescaped(line: str) -> tuple[str, dict, str]:
    """A workflow command as the runner reads it (actions/runner,
    ActionCommand.TryParseV2)."""
    head, _, data = line[2:].partition("::")
    command, _, rest = head.partition(" ")

    def back(text: str, more: bool) -> str:
        for escape, real in [
            ("%0D", "\r"),
            ("%0A", "\n"),
            *([("%3A", ":"), ("%2C", ",")] if more else []),
            ("%25", "%"),
        ]:
            text = text.replace(escape, real)
        return text

    properties = dict(one.split("=", 1) for one in rest.split(",") if one)
    return (
        command,
        {k: back(v, True) for k, v in properties.items()},
        back(data, False),
    )


REPORT = report_from([str(REJECTS)])
NASTY = st.text(
    st.sampled_from("a%:,\r\n=]\x00\x1b&<|`*\u2028é\ud83d 0"), max_size=12
)


@settings(max_examples=examples(150), deadline=None)
@given(message=NASTY.filter(bool), advice=NASTY, file=NASTY)
def test_no_text_breaks_a_format(message: str, advice: str, file: str) -> None:
    report = replace(
        REPORT,
        plan=(),
        findings=(Finding("FD201", "error", message, f"m{file}.py:3", (), advice),),
        suppressed=(
            Suppressed(
                "FD202", "note", message, f"m{file}.py:4", f"config: {file}"
            ),
        ),
        expectations=(
            Expectation(file, False, message, advice, file, "f.yaml", 2, 1),
        ),
    )
    lines = code_annotations.github(report).split("\n")
    assert len(lines) == 3 and lines[-1] == ""
    command, properties, text = unescaped(lines[1])
    assert (command, properties["line"], properties["title"]) == (
        "error",
        "3",
        "fusiondoc FD201",
    )
    said = message + (f"\n{advice}" if advice else "")
    assert text == visible(said.replace("\r\n", "\n"))
    SARIF.validate(json.loads(sarif.render(report)))
    json.loads(code_annotations.gitlab(report))
    check_xml(junit.render(report).encode("utf-8", "backslashreplace").decode())
    rows = [
        line
        for line in code_annotations.github_summary(report).splitlines()
        if line.startswith("| error")
    ]
    assert len(rows) == 2 and all(
        len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows
    )


def test_suppressed_findings_and_expectations_in_sarif() -> None:
    report = replace(report_from([str(REJECTS)]), plan=())
    report = replace(
        report,
        suppressed=(Suppressed("FD202", "note", "x", "a b.py:4", "comment: a b.py:4"),),
        expectations=(Expectation("s", False, "a", "b", "c", "f.yaml", 7, 3), Expectation("s", True, "a", "b", None, "f.yaml", 8, 3)),
    )  # fmt: skip
    results = json.loads(sarif.render(report))["runs"][0]["results"]
    assert (results[0]["ruleId"], results[0]["level"]) == ("expectation", "error")
    assert (
        results[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 7
    )
    assert results[-1]["suppressions"] == [
        {"kind": "inSource", "justification": "comment: a b.py:4"}
    ]
    assert (
        results[-1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        == "a%20b.py"
    )
    assert len(results) == len(report.findings) + 2


def test_fingerprints_outlive_moved_lines() -> None:
    report = report_from([str(REJECTS)])
    moved = replace(
        report, findings=tuple(replace(f, source=re.sub(r"\d+$", "99", f.source or "") or None) for f in report.findings)
    )  # fmt: skip
    before, after = (
        [r["partialFingerprints"] for r in json.loads(sarif.render(one))["runs"][0]["results"]] for one in (report, moved)
    )  # fmt: skip
    assert before == after and len({json.dumps(one) for one in before}) == len(
        before
    )


@pytest.mark.parametrize(
    ("ending", "start"),
    [("sarif", '{\n  "$schema"'), ("xml", "<?xml"), ("json", '{\n  "schema"')],
)
def test_the_ending_gives_the_format(
    ending: str, start: str, fusiondoc: Run, tmp_path: Path
) -> None:
    done = fusiondoc("parse", REJECTS, "-o", f"out.{ending}")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / f"out.{ending}").read_text().startswith(start)


def test_github_actions_switches_annotations_on(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "summary.md").write_text("before\n")
    env = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    done = fusiondoc("parse", REJECTS, "--format", "json", env=env)
    assert (
        len(json.loads(done.stdout)["findings"]) >= 5
    )  # stdout holds JSON and nothing else
    assert (
        "::notice file=models/c10_rejects.py,line=4,title=fusiondoc FD201::aten::cumsum is not fused"
        in done.stderr
    )
    summary = (tmp_path / "summary.md").read_text()
    assert (
        summary.startswith("before\n### fusiondoc: ")
        and "| note | FD201 |" in summary
    )
    quiet = fusiondoc("parse", REJECTS, "--format", "json")
    assert quiet.stderr == ""
    once = fusiondoc("parse", REJECTS, "--format", "github", env=env)
    assert once.stdout.count("FD227") == 1 and once.stderr == ""


def test_paths_are_from_the_top_of_the_repository(
    fusiondoc: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    env = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
    done = fusiondoc("parse", REJECTS, "--format", "json", env=env, cwd=folder)
    assert "file=sub/models/c10_rejects.py,line=4" in done.stderr


@pytest.mark.torch
def test_a_real_run_names_the_users_line(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\ndef model(x: torch.Tensor):\n    y = torch.relu(x + 1.0)\n    return torch.cumsum(y, 0)\n"
        "inputs = (torch.rand(4, 8),)\n"
    )
    done = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "sarif")
    SARIF.validate(json.loads(done.stdout))
    places = [
        (r["ruleId"], r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
         r["locations"][0]["physicalLocation"]["region"]["startLine"])
        for r in json.loads(done.stdout)["runs"][0]["results"]
    ]  # fmt: skip
    assert ("FD211", "model.py", 4) in places


def with_a_plan(after: str = "        y = y + x") -> Report:
    edits = (
        Edit("model.py", 23, "        y += x", after),
        Edit("model.py", 40, "    é = x.relu_()", "    é = x.relu()"),
        Edit("other.py", 2, "x += 1", "x = x + 1"),
    )
    change = PlannedChange(
        "Write x = x + y instead of x += y", ChangeKind.OUT_OF_PLACE, "model.py:23", "y += x", "y = y + x",
        "8 groups of add+relu", None, 1000, "fusiondoc diagnose model.py", 16, ops=("aten::add_",),
        codes=("FD230",), edits=edits,
    )  # fmt: skip
    return replace(REPORT, findings=(), plan=(change,))


def test_sarif_holds_the_lines_of_the_plan_as_fixes(tmp_path: Path) -> None:
    data = json.loads(sarif.render(with_a_plan()))
    SARIF.validate(data)
    (result,) = data["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("plan", "note")
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 23
    (fix,) = result["fixes"]
    files = {
        one["artifactLocation"]["uri"]: one["replacements"]
        for one in fix["artifactChanges"]
    }
    assert list(files) == ["model.py", "other.py"]
    # Applied as a tool applies them, they make the lines of the plan.
    lines = {23: "        y += x", 40: "    é = x.relu_()"}
    for one in files["model.py"]:
        region, text = one["deletedRegion"], one["insertedContent"]["text"]
        line = lines[region["startLine"]]
        lines[region["startLine"]] = (
            line[: region["startColumn"] - 1]
            + text
            + line[region["endColumn"] - 1 :]
        )
    assert lines == {23: "        y = y + x", 40: "    é = x.relu()"}


def test_the_plan_is_in_annotations_and_in_the_job_summary() -> None:
    command, properties, text = unescaped(
        code_annotations.github(with_a_plan()).splitlines()[0]
    )
    assert (command, properties["file"], properties["line"]) == (
        "notice",
        "model.py",
        "23",
    )
    assert text.startswith(
        "Do this first (1 of 1): Write x = x + y instead of x += y\nunlocks 8 groups of add+relu"
    )
    summary = code_annotations.github_summary(with_a_plan())
    assert (
        "**Do this first**" in summary
        and "   - y += x\n   + y = y + x\n" in summary
    )


@pytest.mark.parametrize("after", ["```\n::error::x", "a\u202eb", "</code> @user"])
def test_a_line_of_code_ends_no_fence_and_is_no_command(after: str) -> None:
    report = with_a_plan()
    report = replace(
        report, plan=(replace(report.plan[0], after=after, change=after),)
    )
    summary = code_annotations.github_summary(report)
    assert summary.count("```") == 2 and not re.search(
        "^::|\u202e", summary, flags=re.M
    )


def test_the_environment_is_no_problem_of_a_pull_request() -> None:
    note = Finding(
        "FD001",
        "note",
        "nvFuser is not in TorchScript of torch 2.13",
        None,
        (),
        None,
    )
    error = replace(note, severity="error")
    assert code_annotations.github(replace(REPORT, plan=(), findings=(note,))) == ""
    assert "FD001" in code_annotations.github(
        replace(REPORT, plan=(), findings=(error,))
    )


def test_what_has_no_line_is_said_once_and_on_no_line() -> None:
    findings = tuple(
        Finding("FD402", "note", f"m{i}", None, (), None) for i in range(5)
    )
    report = replace(
        REPORT, plan=(), findings=findings, target=Target("m.py", capture="c")
    )
    (line,) = code_annotations.github(report).splitlines()
    assert line.startswith(
        "::notice title=fusiondoc summary::5 findings that are of no line"
    )
    assert "line=" not in line and all(f"m{i}" in line for i in range(5))
    (issue,) = json.loads(code_annotations.gitlab(report))
    assert issue["check_name"] == "summary" and issue["location"]["path"] == "m.py"


def test_two_operators_of_one_line_are_one_annotation() -> None:
    """They differ by the column alone, which no annotation says; GitHub shows ten
    of a kind."""
    one = Finding("FD226", "note", "aten::slice is not fused", "m.py:3:4", (), None)
    report = replace(
        REPORT,
        plan=(),
        findings=(
            one,
            replace(one, source="m.py:3:20"),
            replace(one, code="FD227"),
        ),
    )
    assert [
        line.split("::")[1] for line in code_annotations.github(report).splitlines()
    ] == [
        "notice file=m.py,line=3,title=fusiondoc FD226",
        "notice file=m.py,line=3,title=fusiondoc FD227",
    ]


# Paths of the machine that a program was run on


def captured_in(folder: Path, name: str) -> Path:
    """A capture of nvFuser as it would be of a run in this folder, with the program
    there."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(
        FIXTURES / "captures" / "why-not-nvfuser-2.1.2.tar.xz"
    ) as tar:
        for member in (
            one
            for one in tar.getmembers()
            if one.name.startswith(f"{name}/") and one.isfile()
        ):
            read = tar.extractfile(member)
            assert read is not None
            text = read.read().decode("utf-8")
            if member.name.endswith("request.json"):
                text = text.replace('"cwd": "."', f'"cwd": "{folder}"')
            else:
                text = text.replace(
                    "examples/why_not/", f"{folder}/examples/why_not/"
                )
            file = folder / ".fusiondoc" / f"20260102-030405-{member.name}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    program = folder / "examples" / "why_not" / f"{name}.py"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_bytes((ROOT / "examples" / "why_not" / f"{name}.py").read_bytes())
    return folder / ".fusiondoc" / f"20260102-030405-{name}"


def texts_of(report: Report) -> dict[str, str]:
    """What others are given: every format but JSON, which holds what the log
    says."""
    made = {
        name: render_report(report, name)
        for name in REPORT_FORMATS
        if name != "json"
    }
    broken = Expectation(
        "",
        False,
        "add, relu",
        "none",
        report.findings[0].message,
        "fusions.yaml",
        3,
        1,
        (),
    )
    checked = replace(report, expectations=(broken,))
    return {
        **made,
        "summary": code_annotations.github_summary(checked),
        "check": expectation_text(checked),
        "check annotations": code_annotations.github(checked),
    }


NAMES_PACKAGES = "lone_operator"


@pytest.mark.parametrize("name", [NAMES_PACKAGES, "many_shapes", "in_place"])
@pytest.mark.parametrize("read_in", ["project", "elsewhere"])
def test_no_format_names_the_folders_of_the_machine(
    name: str, read_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "home-of-somebody" / "project"
    capture = captured_in(project, name)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(project if read_in == "project" else tmp_path / "elsewhere")
    report = report_from([str(capture)])
    assert str(project) in json.dumps(
        as_dict(report)
    )  # which it could not find its files without
    if (
        read_in == "elsewhere"
    ):  # the reader's own place of the capture is theirs to name, as they did
        report = replace(
            report, target=replace(report.target, capture="download/capture")
        )
    for format_, text in texts_of(report).items():
        text = text.replace("<wbr>", "")
        own = text.replace(str(capture), "") if read_in == "elsewhere" else text
        assert "home-of-somebody" not in own, (
            format_,
            own[own.index("home-of-somebody") - 200 :][:400],
        )
        assert "dist-packages" not in own, format_
    assert f"examples/why_not/{name}.py" in render_report(report, "html")
    places = [
        place["physicalLocation"]["artifactLocation"]
        for result in json.loads(render_report(report, "sarif"))["runs"][0][
            "results"
        ]
        for place in result["locations"]
    ]
    assert {
        "uri": f"examples/why_not/{name}.py",
        "uriBaseId": "%SRCROOT%",
    } in places
    assert not [
        place
        for place in places
        if "torch" in place["uri"] or place["uri"].startswith("file:")
    ]


def test_no_comparison_names_the_folders_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "home-of-somebody" / "project"
    captures = [
        captured_in(project, name) for name in (NAMES_PACKAGES, "many_shapes")
    ]
    monkeypatch.chdir(project)
    comparison = compare(*(report_from([str(one)]) for one in captures))
    for format_ in ("text", "markdown", "html"):
        text = render_comparison(comparison, format_)
        assert "home-of-somebody" not in text and "dist-packages" not in text, (
            format_
        )


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("at /home/me/project/model.py:3:4", "at model.py:3:4"),
        ("/home/me/project/a b/model.py:3", "a b/model.py:3"),
        ("(/home/me/project/model.py:3) and /home/me/projects/x.py", "(model.py:3) and /home/me/projects/x.py"),
        ("%1 : Tensor = aten::add(%2) # /e/lib/python3/site-packages/torch/x.py:1:2", "%1 : Tensor = aten::add(%2) # torch/x.py:1:2"),
        ("/home/me/project/.venv/lib/python3.11/site-packages/a/b.py:1", "a/b.py:1"),
        ("C:\\me\\Lib\\site-packages\\torch\\x.py:1", "torch\\x.py:1"),
        ("/home/me/project", "/home/me/project"),
        ("not/home/me/project/x", "not/home/me/project/x"),
    ],
)  # fmt: skip
def test_a_path_in_a_text_is_as_short_as_it_is_read(text: str, near: str) -> None:
    short = NearPaths(["/home/me/project"])
    assert short(text) == near
    if text.endswith("a b/model.py:3"):
        assert short.before("a b/model.py") == "/home/me/project/a b/model.py"
