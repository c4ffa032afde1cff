"""The README and its nearest pages, held against the program: commands run, output
is the program's, links lead on."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from conftest import ROOT, Run
from running import python_apart, uses_forks

README = (ROOT / "README.md").read_text(encoding="utf-8")
WITH_OUTPUT = ("README.md", "docs/commands/compare.md", "docs/commands/kernels.md")
"""Pages whose commands run here."""
PYTHON_PAGE = (ROOT / "docs" / "how-to" / "python.md").read_text(encoding="utf-8")
DOCS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)


def loosely(text: str) -> list:
    """Words without numbers and heights of bars: times, dates and counts differ
    from run to run, and with their width the line that a word is on."""
    text = re.sub(r"\d[\d,.]*\s+m?s\b", "0 ms", text)
    return re.sub("[▁-█]", "▁", re.sub(r"\d+", "0", text)).split()


def shown_outputs() -> list:
    shown = []
    for page in WITH_OUTPUT:
        text = (ROOT / page).read_text(encoding="utf-8")
        shown += re.findall(
            r"<!-- output: (.*?) -->\n```text\n(.*?)```", text, flags=re.S
        )
    return shown


@pytest.mark.parametrize(
    ("command", "shown"), shown_outputs(), ids=lambda v: v[:40]
)
def test_the_output_shown_is_the_programs(
    command: str, shown: str, fusiondoc: Run, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    for folder in ("examples", "fixtures"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    done = fusiondoc(*shlex.split(command)[1:], env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    assert loosely(done.stdout) == loosely(shown)


def test_there_is_output_to_compare() -> None:
    assert len(shown_outputs()) >= 3


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_every_command_is_in_the_table_and_has_a_page(fusiondoc: Run) -> None:
    from fusiondoc.cli import COMMANDS

    for name in COMMANDS:
        assert re.search(rf"^\| `{name}\b", README, flags=re.M), name
        assert (ROOT / "docs" / "commands" / f"{name}.md").is_file(), name


def test_every_command_has_help_with_an_example(fusiondoc: Run) -> None:
    from fusiondoc.cli import COMMANDS

    for name in COMMANDS:
        done = fusiondoc(name, "--help")
        assert done.returncode == 0, done.stderr
        assert "Example" in done.stdout and f"fusiondoc {name}" in done.stdout, name
        assert max(map(len, done.stdout.splitlines())) <= 80, name


def options_in(text: str) -> set:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def test_every_option_that_the_documents_name_exists(fusiondoc: Run) -> None:
    from fusiondoc.cli import COMMANDS
    from fusiondoc.cli.help import SECTIONS

    known = options_in(fusiondoc("--help").stdout) | {
        "--tee",
        "--tag-output",
        "--epochs",
        "--steps",  # of the script in docs/how-to/programs.md
        "--strict",
        "--gpu-architecture",
        "--check",
        "--show-config",
        "--fusion-fuser",
        "--fusion-keep",
        "--fusion-required",
        *(
            "--cov",
            "--cov-report",
            "--dist",
            "--durations",
            "--update-golden",
        ),  # of pytest, in CONTRIBUTING
        # Of fuzz/ and benchmarks/ (their results are in docs/evidence/), as their
        # parsers take them.
        *(
            option
            for script in (*ROOT.glob("fuzz/*.py"), *ROOT.glob("benchmarks/*.py"))
            for option in re.findall(
                r'add_argument\(\s*"(--[a-z-]+)"',
                script.read_text(encoding="utf-8"),
            )
        ),
        "--depth",  # of git fetch, in docs/ci.md
        *(
            "--try-eval",
            "--try-fixes",
            "--nothing",
        ),  # gone, and wrong, in docs/evidence/
        "--wheel",  # of python -m build, in docs/ci.md
        *("--rm", "--gpus"),  # of docker run, in docs/how-to/containers.md
        # Of torchrun, srun and mpirun, in docs/how-to/many-machines.md.
        *(
            "--redirects",
            "--log-dir",
            "--tee",
            "--standalone",
            "--label",
            "--output-filename",
        ),
    }
    for name in COMMANDS:
        known |= options_in(
            fusiondoc(name, "--help-all" if name in SECTIONS else "--help").stdout
        )
    for page in DOCS:
        text = page.read_text(encoding="utf-8")
        assert options_in(text) <= known, (page, options_in(text) - known)


def test_links_lead_somewhere() -> None:
    for page in DOCS:
        for target in re.findall(
            r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")
        ):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), (page, target)


@pytest.mark.torch
def test_the_python_shown_prints_what_is_shown(tmp_path: Path, cache: Path) -> None:
    found = re.search(
        r"```python\n(import torch.*?)```\n\n<!-- printed.*?-->\n```text\n(.*?)```",
        PYTHON_PAGE,
        flags=re.S,
    )
    assert found is not None
    (tmp_path / "shown.py").write_text(uses_forks() + found[1])
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FUSIONDOC_CACHE": str(cache),
    }
    done = python_apart("shown.py", cwd=tmp_path, env=environment)
    assert done.stdout == found[2], done.stderr
