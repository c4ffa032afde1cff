"""Completion in a shell: what Tab offers, and that it is offered at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Run


def offered(fusiondoc: Run, words: str, cwd: Path) -> list:
    """``kind,word`` of each item, as bash gets them; the last of ``words`` is being
    typed."""
    typed = words.split(" ")
    env = {
        "_FUSIONDOC_COMPLETE": "bash_complete",
        "COMP_WORDS": "fusiondoc " + words,
        "COMP_CWORD": str(len(typed)),
    }
    return fusiondoc(cwd=cwd, env=env).stdout.split()


@pytest.mark.parametrize(
    ("words", "item"),
    [
        ("expl", "plain,explain"),
        ("explain FD20", "plain,FD201"),
        ("explain fd20", "plain,FD201"),
        ("knobs sing", "plain,single_node"),
        ("knobs PYTORCH_NV", "plain,PYTORCH_NVFUSER_DUMP"),
        ("diagnose mod", "file,mod"),
        ("diagnose model.py --knob prof", "plain,profiled_runs="),
        (
            "diagnose model.py --dump cuda_kernel,launch",
            "plain,cuda_kernel,launch_param",
        ),
        ("diagnose model.py --fail-on w", "plain,warning"),
        ("parse tr", "file,tr"),
        ("parse --fail-on FD3", "plain,FD301"),
        ("captures show 2026", "plain,20260102-030405-model"),
        ("captures remove 2026", "plain,20260102-030405-model"),
    ],
)
def test_what_is_offered(
    fusiondoc: Run, tmp_path: Path, words: str, item: str
) -> None:
    (tmp_path / ".fusiondoc" / "20260102-030405-model").mkdir(parents=True)
    assert item in offered(fusiondoc, words, tmp_path)


def test_only_what_fits_is_offered(fusiondoc: Run, tmp_path: Path) -> None:
    assert set(offered(fusiondoc, "explain FD30", tmp_path)) >= {
        "plain,FD301",
        "plain,FD302",
    }
    assert all(
        item.startswith("plain,FD30")
        for item in offered(fusiondoc, "explain FD30", tmp_path)
    )
    assert offered(fusiondoc, "captures show 2026", tmp_path) == []


def test_the_line_of_the_readme_turns_it_on(tmp_path: Path) -> None:
    line = r'eval "$(_FUSIONDOC_COMPLETE=bash_source fusiondoc)"'
    assert line in (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "fusiondoc").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m fusiondoc "$@"\n'
    )
    (tmp_path / "fusiondoc").chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", line + "; complete -p fusiondoc"], stdout=subprocess.PIPE, text=True, check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert "_fusiondoc_completion" in done.stdout
