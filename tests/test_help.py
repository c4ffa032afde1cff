"""``--help`` shows the options that most people use, ``--help-all`` each one that
the command takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from conftest import Run

import fusiondoc
from fusiondoc.cli import command_of
from fusiondoc.cli.help import SECTIONS

_NAMES = ("Parquet ", "A and B ")
_COMMANDS = ("fusiondoc ", "pip install ", "with fusiondoc.capture")
_WITH_A_NEXT_STEP = {"UsageError", "NotFound", "ModelFailed", "CannotRun"}
_PARTS_OF_ERRORS = {"UnknownWord", "Refused", "UserError"}


def _first_words(argument: ast.expr) -> str:
    """The text that an argument begins with; empty where that is a value."""
    if isinstance(argument, ast.Constant):
        return str(argument.value or "")
    if isinstance(argument, ast.JoinedStr):
        return _first_words(argument.values[0])
    return _first_words(argument.left) if isinstance(argument, ast.BinOp) else ""


def _written_errors() -> Iterator[tuple[str, str]]:
    words = re.compile("|".join(_WITH_A_NEXT_STEP | _PARTS_OF_ERRORS))
    for file in Path(fusiondoc.__file__).parent.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if words.search(text) else ():
            func = node.func if isinstance(node, ast.Call) else None
            made = (
                func.attr
                if isinstance(func, ast.Attribute)
                else getattr(func, "id", "")
            )
            if (
                isinstance(node, ast.Call)
                and made in _WITH_A_NEXT_STEP | _PARTS_OF_ERRORS
                and node.args
            ):
                hint = (
                    node.args[1]
                    if made in _WITH_A_NEXT_STEP and len(node.args) > 1
                    else None
                )
                yield _first_words(node.args[0]), _first_words(hint) if hint else ""


def flags_of(command: click.Command) -> set[str]:
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {option.opts[-1] for option in options} | {"--help", "--help-all"}


@pytest.mark.parametrize("name", SECTIONS)
def test_help_is_short_and_names_the_rest(name: str, fusiondoc: Run) -> None:
    short = fusiondoc(name, "--help").stdout
    first_words = [
        line.split() for line in short.splitlines() if line.startswith("  -")
    ]
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
        found = [
            row
            for row in rows
            if flag in re.findall(r"-[\w-]+", row.strip().split("  ")[0])
        ]
        assert len(found) == 1, (flag, found)


def test_a_bad_configuration_does_not_keep_help_from_being_shown(
    fusiondoc: Run, tmp_path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.fusiondoc]\nnonsense = 1\n")
    assert fusiondoc("diagnose", "--help-all", cwd=tmp_path).returncode == 0
    assert fusiondoc("diagnose", "model.py", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("words", "error", "command"),
    [
        (
            ["parse", "--nothing"],
            "no such option '--nothing'",
            "fusiondoc parse --help",
        ),
        (
            ["diagnose", "--runs"],
            "option '--runs' requires an argument",
            "fusiondoc diagnose --help",
        ),
        (
            ["check", "--runs", "x", "a.py"],
            "invalid value for '--runs': 'x' is not",
            "fusiondoc check --help",
        ),
        (
            ["dianose"],
            "no such command 'dianose'. Did you mean 'diagnose'?",
            "fusiondoc --help",
        ),
    ],
)
def test_wrong_options_end_as_other_errors_do(
    words: list[str], error: str, command: str, fusiondoc: Run
) -> None:
    done = fusiondoc(*words)
    first, second = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert first.startswith(f"error: {error}") and second == f"next: {command}"


def test_errors_begin_small_and_next_steps_with_a_capital_or_a_command() -> None:
    """One rule for each ``error:`` and each ``next:`` of the source that begins
    with words of its own."""
    written = list(_written_errors())
    assert len(written) > 300
    assert [
        text
        for text, _ in written
        if re.match(r"[A-Z][a-z]|A ", text) and not text.startswith(_NAMES)
    ] == []
    hints = [hint for _, hint in written if hint]
    assert [
        hint
        for hint in hints
        if re.match(r"[a-z]", hint) and not hint.startswith(_COMMANDS)
    ] == []
