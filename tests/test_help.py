"""``--help`` shows the options that most people use, ``--help-all`` each one that the command takes."""

from __future__ import annotations

import re

import click
import pytest
from conftest import Run

from fusiondoc.cli import command_of
from fusiondoc.cli.help import SECTIONS


def flags_of(command: click.Command) -> set[str]:
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {option.opts[-1] for option in options} | {"--help", "--help-all"}


@pytest.mark.parametrize("name", SECTIONS)
def test_help_is_short_and_names_the_rest(name: str, fusiondoc: Run) -> None:
    short = fusiondoc(name, "--help").stdout
    first_words = [line.split() for line in short.splitlines() if line.startswith("  -")]
    assert len(first_words) <= 18
    assert "--help-all" in short and "Example" in short
    for _, flags in SECTIONS[name]:
        for flag in flags:
            assert any(flag in words for words in first_words), flag


@pytest.mark.parametrize("name", SECTIONS)
def test_help_all_has_every_option_once(name: str, fusiondoc: Run) -> None:
    shown = fusiondoc(name, "--help-all").stdout
    rows = [line for line in shown.splitlines() if line.startswith("  -")]
    for flag in flags_of(command_of(name)):
        found = [row for row in rows if flag in re.findall(r"-[\w-]+", row.strip().split("  ")[0])]
        assert len(found) == 1, (flag, found)


def test_a_bad_configuration_does_not_keep_help_from_being_shown(fusiondoc: Run, tmp_path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.fusiondoc]\nnonsense = 1\n")
    assert fusiondoc("diagnose", "--help-all", cwd=tmp_path).returncode == 0
    assert fusiondoc("diagnose", "model.py", cwd=tmp_path).returncode == 2
