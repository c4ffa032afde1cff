"""pyproject.toml and fusiondoc.yaml: defaults that the command line overrides,
errors, suppressed findings."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import runs_in_this_process
from conftest import FIXTURES, ROOT, Run
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from fusiondoc.errors import UsageError

REJECTS = FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"
FALLBACK = FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz"


def pyproject(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "x"\n\n[tool.fusiondoc]\n' + text, encoding="utf-8"
    )


@pytest.mark.parametrize("kind", ["toml", "yaml"])
def test_defaults_that_the_command_line_overrides(
    kind: str, fusiondoc: Run, tmp_path: Path
) -> None:
    if kind == "toml":
        pyproject(
            tmp_path,
            'fail-on = ["note"]\n[tool.fusiondoc.parse]\nformat = "json"\n',
        )
    else:
        (tmp_path / "fusiondoc.yaml").write_text(
            "fail-on: [note]\nparse:\n  format: json\n"
        )
    done = fusiondoc("parse", REJECTS)
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"]
    override = fusiondoc("parse", REJECTS, "--format", "text", "--fail-on", "error")
    assert override.returncode == 0 and override.stdout.startswith("Target")


@pytest.mark.torch
def test_options_of_a_run(fusiondoc: Run, tmp_path: Path) -> None:
    pyproject(
        tmp_path,
        'fuser = "nnc"\nruns = 3\nknob = {nnc_reductions = true}\n[tool.fusiondoc.diagnose]\nbackward = true\n',
    )
    (tmp_path / "m.py").write_text(
        "import torch\n\n\ndef model(x):\n    return torch.relu(x * 2)\n\n\n"
        "inputs = (torch.ones(4, requires_grad=True),)\n"
    )
    done = fusiondoc("diagnose", "m.py", "-f", "json")
    options = json.loads(done.stdout)["target"]["options"]
    assert (options["fuser"], options["runs"], options["backward"]) == (
        "nnc",
        3,
        True,
    )
    assert options["knobs"] == {"nnc_reductions": "on"}
    fewer = fusiondoc("diagnose", "m.py", "-f", "json", "--runs", "2")
    assert json.loads(fewer.stdout)["target"]["options"]["runs"] == 2


def test_the_nearest_one_above_counts_and_its_paths_are_its_own(
    fusiondoc: Run, tmp_path: Path
) -> None:
    pyproject(tmp_path, 'expect = "ci/fusions.yaml"\n')
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "fusions.yaml").write_text("number_of_groups: 4\n")
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    done = fusiondoc("check", REJECTS, cwd=folder)
    assert (
        done.returncode == 1
        and "../../ci/fusions.yaml:1: expected 4 groups; found 5"
        in done.stdout.replace("\n         ", " ")
    )
    (folder / ".git").mkdir()
    assert "check needs --expect" in fusiondoc("check", REJECTS, cwd=folder).stderr


def test_its_own_file_comes_before_the_shared_one(
    fusiondoc: Run, tmp_path: Path
) -> None:
    pyproject(tmp_path, 'format = "json"\n')
    (tmp_path / "fusiondoc.yaml").write_text("format: github\n")
    assert fusiondoc("parse", REJECTS).stdout.startswith("::")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('fial-on = ["error"]', "pyproject.toml:5:1: unknown key 'fial-on' in [tool.fusiondoc]. Did you mean 'fail-on'"),
        ("runs = 0", "pyproject.toml:5:1: runs: 0 is not in the range x>=1."),
        ('runs = "many"', "pyproject.toml:5:1: runs: 'many' is not a valid integer"),
        ('backward = "yes"', "pyproject.toml:5:1: backward must be true or false, not 'yes'"),
        ('format = "jsn"', "pyproject.toml:5:1: format: 'jsn' is not one of"),
        ("fuser = [1]", "pyproject.toml:5:1: fuser takes one value, not a list"),
        ("timeout = true", "pyproject.toml:5:1: timeout must be text or a number, not true"),
        ('\n  ignore = ["FD2O1"]', "pyproject.toml:6:3: ignore: 'FD2O1' is not a finding code. Did you mean 'FD2"),
        ("[tool.fusiondoc.diagnos]\nruns = 3", "pyproject.toml:5:1: unknown key 'diagnos' in [tool.fusiondoc]. Did you mean 'diagnose'"),
        ("[tool.fusiondoc.parse]\nruns = 3", "pyproject.toml:6:1: unknown key 'runs' in [tool.fusiondoc], parse."),
        ("runs = ", "pyproject.toml: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(
    text: str, said: str, fusiondoc: Run, tmp_path: Path
) -> None:
    pyproject(tmp_path, text + "\n")
    done = fusiondoc("parse", REJECTS)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and "next: " in done.stderr, done.stderr
    # Help is to be had whatever the configuration says.
    assert fusiondoc("parse", "--help").returncode == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "fuser: nnc\nrunz: 3\n",
            "fusiondoc.yaml:2:1: unknown key 'runz' in fusiondoc.yaml. Did you mean 'runs'",
        ),
        (
            "diagnose:\n  backwards: true\n",
            "fusiondoc.yaml:2:3: unknown key 'backwards'",
        ),
        ("- a\n", "fusiondoc.yaml:1:1: it must be a mapping"),
        ("a: [\n", "fusiondoc.yaml:2:1: "),
        ("ignore: 5\n", "fusiondoc.yaml:1:1: ignore: '5' is not a finding code"),
        (
            "fail-on: {a: b}\n",
            "fusiondoc.yaml:1:1: fail-on takes a value or a list, not a table",
        ),
        (
            "ignore: [FD201, {a: b}]\n",
            "fusiondoc.yaml:1:1: ignore: '{'a': 'b'}' is not a finding code",
        ),
        ("ignore: &a [*a]\n", "fusiondoc.yaml: its aliases expand"),
        ("runs:\n", "fusiondoc.yaml:1:1: runs must be text or a number"),
    ],
)
def test_what_is_wrong_in_yaml(
    text: str, said: str, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "fusiondoc.yaml").write_text(text)
    done = fusiondoc("parse", REJECTS)
    assert (
        done.returncode == 2
        and said in done.stderr
        and "Traceback" not in done.stderr
    ), done.stderr


def test_a_pyproject_of_others_is_never_parsed(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff\nbroken =")
    assert fusiondoc("parse", REJECTS).returncode == 0
    (tmp_path / "pyproject.toml").write_text(
        '[tool.other]\ndepends = "fusiondoc"\n'
    )
    assert fusiondoc("parse", REJECTS).returncode == 0


def test_help_and_version_read_no_configuration(tmp_path: Path) -> None:
    import os

    pyproject(tmp_path, "runs = 3\n")
    for args in (["--help"], ["--version"], ["parse", "--help"]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "fusiondoc", *args], cwd=str(tmp_path), text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True,
        )  # fmt: skip
        modules = {
            line.rpartition("|")[2].strip() for line in done.stderr.splitlines()
        }
        assert not modules & {
            "tomllib",
            "tomli",
            "yaml",
            "fusiondoc.cli.config",
            "fusiondoc.expectations",
        }


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        (["FD201"], ["FD227"]), (["fd227"], ["FD201"] * 4), (["FD201:c10_rejects.py"], ["FD227"]),
        (["FD201:models/c10_rejects.py:4"], ["FD201", "FD227", "FD201", "FD201"]),
        (["FD201:rejects.py"], ["FD201", "FD227", "FD201", "FD201", "FD201"]),
        (["FD201", "FD227:c10_rejects.py:10"], []),
    ],
)  # fmt: skip
def test_findings_ignored_in_the_configuration(
    ignore: list, left: list, fusiondoc: Run, tmp_path: Path
) -> None:
    pyproject(tmp_path, f"ignore = {json.dumps(ignore)}\n")
    codes = [
        option for code in ("FD201", "FD227") for option in ("--fail-on", code)
    ]
    done = fusiondoc("parse", REJECTS, "-f", "json", *codes)
    report = json.loads(done.stdout)
    assert [
        f["code"] for f in report["findings"] if f["code"].startswith("FD2")
    ] == left
    assert len(report["suppressed"]) == 5 - len(left)
    assert all(one["by"].startswith("config: ") for one in report["suppressed"])
    assert done.returncode == (1 if left else 0)
    if len(left) < 5:
        assert (
            f"Suppressed  {5 - len(left)} finding"
            in fusiondoc("parse", REJECTS).stdout
        )


MODEL = """\
import torch

def model(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x + 1.0)
    z = torch.cumsum(y, 0){comment}
    return torch.tanh(z) * y

inputs = (torch.rand(4, 8),)
"""


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The folder of a model without a comment, and of the capture of its run."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "model.py").write_text(MODEL.replace("{comment}", ""))
    done = runs_in_this_process(folder, cache)(
        "diagnose", "model.py", "--fuser", "nnc"
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.torch
@pytest.mark.xdist_group("plain run")
@pytest.mark.parametrize(
    ("comment", "suppressed", "note"),
    [
        ("", 0, ""), ("  # fusiondoc: ignore[FD211]", 1, ""), ("  # why; fusiondoc:ignore [FD201, fd211]", 0, ""),
        ("  # Fusiondoc: Ignore[FD201, fd211]", 1, ""), ("  # fusiondoc: ignore", 1, ""),
        ("  # fusiondoc: ignore[FD201]", 0, ""), ("  # fusiondoc: ignored", 0, ""),
        ("  # fusiondoc: ignore[FD2ll]", 0, "model.py:5: there is no finding FD2LL to ignore. Did you mean 'FD"),
    ],
)  # fmt: skip
def test_a_comment_on_the_line(
    comment: str, suppressed: int, note: str, fusiondoc: Run, plain_run: Path
) -> None:
    """The comment counts where the report is made, and needs no run of its own."""
    (plain_run / "model.py").write_text(MODEL.replace("{comment}", comment))
    done = fusiondoc("parse", "-f", "json", "--fail-on", "FD211", cwd=plain_run)
    said(done, suppressed, note)


def said(
    done: subprocess.CompletedProcess[str], suppressed: int, note: str
) -> None:
    """Whether FD211 is suppressed by a comment on line 5, and what is noted about
    it."""
    report = json.loads(done.stdout)
    assert [one["code"] for one in report["suppressed"]] == ["FD211"] * suppressed
    assert done.returncode == (0 if suppressed else 1)
    if suppressed:
        assert report["suppressed"][0]["by"] == "comment: model.py:5"
        assert report["suppressed"][0]["source"].endswith("model.py:5")
    assert note in done.stderr and (note or "ignore" not in done.stderr)


@pytest.mark.torch
def test_a_comment_counts_in_the_run_itself(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        MODEL.replace("{comment}", "  # fusiondoc: ignore[FD211]")
    )
    done = fusiondoc(
        "diagnose", "model.py", "--fuser", "nnc", "-f", "json", "--fail-on", "FD211"
    )
    said(done, 1, "")


def test_tables_of_toml_in_other_spellings(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "tool.fusiondoc.parse.format = 'json'\n"
    )
    json.loads(fusiondoc("parse", REJECTS).stdout)
    (tmp_path / "pyproject.toml").write_text(
        "[tool]\nfusiondoc = {fail_on = 'error'}\n"
    )
    assert fusiondoc("parse", FALLBACK).returncode == 1


WORDS = ["fuser", "ignore", "fail-on", "runs", "knob", "parse", ": ", " = ", "[", "]", "{", "}", "\n", "  ", "- ", '"', "nnc",
         "5", "true", ",", "&a", "*a", "[tool.fusiondoc]", "[tool.fusiondoc.parse]", "#", "FD201", "'", "!!x", "\x00", "é"]  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(
    kind=st.sampled_from(["toml", "yaml"]),
    words=st.lists(st.sampled_from(WORDS), max_size=16),
)
def test_no_file_gives_more_than_an_error(kind: str, words: list) -> None:
    import tempfile

    import click

    from fusiondoc.cli import COMMANDS, cli
    from fusiondoc.cli.config import apply

    with tempfile.TemporaryDirectory() as folder:
        path = (
            Path(folder)
            / {"toml": "pyproject.toml", "yaml": "fusiondoc.yaml"}[kind]
        )
        path.write_text(
            ("[tool.fusiondoc]\n" if kind == "toml" else "") + "".join(words),
            encoding="utf-8",
        )
        try:
            apply(click.Context(cli), str(path), kind, COMMANDS)
        except UsageError as error:
            assert path.name in error.message and error.hint
