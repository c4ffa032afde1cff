"""What a command says beside its report: no text of a log, path or error is a
command to a terminal."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from command_line import ROOT, Run

MAY_PRINT = {"output.py", "__init__.py"}
"""Where texts are made safe before they are printed."""

BAD = "a\x1b]0;title\x07\x9b31m\u202eb"


def test_commands_print_through_say_and_tell() -> None:
    found = []
    for path in (ROOT / "fusiondoc" / "cli").glob("*.py"):
        if path.name in MAY_PRINT:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name in (
                "click.echo",
                "click.secho",
                "print",
                "sys.stdout.write",
                "sys.stderr.write",
            ):
                found.append(f"{path.name}:{node.lineno}")
    assert found == []


def quiet(text: str) -> bool:
    return not any(one in text for one in "\x1b\x07\x9b\u202e")


@pytest.mark.parametrize(
    "arguments",
    [
        ("parse", BAD + ".log"),
        ("parse", "x.log", "--format", BAD),
        ("parse", "x.log", "--output", BAD + ".json"),
        ("parse", "x.log", "--fail-on", BAD),
        ("parse", "there" + BAD + ".log"),
        ("compare", BAD, "x.log"),
        ("kernels", BAD, "--dump", BAD),
        ("repro", "x.log", "--group", BAD),
        ("bundle", BAD),
        ("captures", "show", BAD),
        ("captures", "keep", BAD),
        ("explain", BAD),
        ("knobs", BAD),
        ("diagnose", BAD + ".py"),
        ("env", "--export", BAD),
        ("check", "x.log", "--expect", BAD + ".yaml"),
        (BAD,),
        ("parse", "--" + BAD),
    ],
)
def test_names_are_shown_as_text(
    fusiondoc: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "x.log").write_text("nothing\n")
    (tmp_path / ("there" + BAD + ".log")).write_text(BAD + "\n")
    done = fusiondoc(*arguments, cwd=tmp_path)
    assert quiet(done.stdout + done.stderr), (done.stdout, done.stderr)
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr


def test_captures_with_any_name_and_content(fusiondoc: Run, tmp_path: Path) -> None:
    folder = tmp_path / ".fusiondoc" / f"20260101-000000-{BAD}"
    folder.mkdir(parents=True)
    request = {
        "schema": "fusiondoc.capture/1",
        "target": {"text": BAD},
        "python": BAD,
        "command": [BAD],
    }
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "log").write_text(BAD)
    for line in (
        "captures",
        "captures show",
        "captures keep 2026",
        "parse",
        "bundle",
    ):
        done = fusiondoc(*line.split(), cwd=tmp_path)
        assert done.returncode == 0 and quiet(done.stdout + done.stderr), (
            line,
            done.stderr,
        )
    assert quiet(fusiondoc("captures", "remove", "--all", cwd=tmp_path).stdout)


def test_the_user_is_told_that_a_projects_file_names_the_interpreter(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.fusiondoc.diagnose]\npython = 'no-such-python'\n"
    )
    (tmp_path / "m.py").touch()
    said = "note: pyproject.toml:2:1 names the interpreter: no-such-python; --python PATH takes another\n"
    assert said in fusiondoc("diagnose", "m.py", cwd=tmp_path).stderr
    done = fusiondoc("diagnose", "m.py", "--python", "nor-this", cwd=tmp_path)
    assert "names the interpreter" not in done.stderr and done.returncode == 2
