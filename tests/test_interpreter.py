"""Facts about an interpreter: right, found without importing torch, remembered until something changes."""

from __future__ import annotations

import platform
import stat
import sys
from pathlib import Path

import pytest

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.runner import interpreter


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The actions that children were started for; the cache is a fresh one."""
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    started: list[str] = []
    original = interpreter.call_probe

    def counting(python: Path, spec: dict[str, object], timeout: float) -> list[dict[str, object]]:
        started.append(str(spec["action"]))
        return original(python, spec, timeout)

    monkeypatch.setattr(interpreter, "call_probe", counting)
    return started


@pytest.fixture
def fake_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package ``torch`` that cannot be imported, only read."""
    folder = tmp_path / "packages" / "torch"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('torch was imported')\n")
    (folder / "version.py").write_text(
        "from typing import Optional\n__version__ = '2.1.2+cu121'\ncuda: Optional[str] = '12.1'\n"
        "hip: Optional[str] = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    return folder


def test_facts_are_read_without_importing_torch(calls: list[str], fake_torch: Path) -> None:
    facts = interpreter.inspect(sys.executable)
    assert (facts.torch, facts.torch_cuda, facts.torch_hip) == ("2.1.2+cu121", "12.1", None)
    assert facts.python == platform.python_version()


def test_the_second_look_starts_no_child(calls: list[str], fake_torch: Path) -> None:
    first = interpreter.inspect(sys.executable)
    assert interpreter.inspect(sys.executable) == first
    assert calls == ["facts"]


def test_another_torch_is_noticed(calls: list[str], fake_torch: Path) -> None:
    interpreter.inspect(sys.executable)
    (fake_torch / "version.py").write_text("__version__ = '1.13.1'\ncuda = None\n")
    assert interpreter.inspect(sys.executable).torch == "1.13.1"
    assert calls == ["facts", "facts"]


def test_a_torch_that_was_not_there_is_looked_for_again(
    calls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "python"
    # Without site packages there is no torch, whatever this interpreter has.
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for _ in range(2):
        facts = interpreter.inspect(bare)
        assert facts.torch is None
    assert calls == ["facts", "facts"]
    with pytest.raises(CannotRun, match="has no torch"):
        facts.require_torch()


def test_a_cache_that_cannot_be_written_is_no_trouble(
    tmp_path: Path, fake_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSIONDOC_CACHE", "/dev/null/nowhere")
    assert interpreter.inspect(sys.executable).torch == "2.1.2+cu121"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("#!/bin/sh\necho hello\n", "did not answer as a Python interpreter"),
        ("#!/bin/sh\necho 'SyntaxError: nonsense' >&2; exit 1\n", "SyntaxError: nonsense"),
        ("#!/no/such/program\n", "cannot be run"),
    ],
)
def test_what_is_no_python(tmp_path: Path, calls: list[str], content: str, message: str) -> None:
    path = tmp_path / "python"
    path.write_text(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(UsageError, match=message):
        interpreter.inspect(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("no-such-python", "there is no interpreter"), (".", "is a folder"), ("a/b", "no interpreter")],
)
def test_what_is_not_there(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        interpreter.inspect("./" if name == "." else name)


@pytest.mark.torch
def test_trying_is_remembered_too(calls: list[str]) -> None:
    torch = pytest.importorskip("torch")
    tried = interpreter.try_everything(sys.executable)
    assert interpreter.try_everything(sys.executable) == tried
    assert calls.count("knobs") == 1
    assert tried.environment["torch"] == torch.__version__
    assert {row.fuser for row in tried.fusers} == {"nvfuser", "nnc", "onednn", "legacy", "none"}
    assert any(one["name"] == "fusion_strategy" and one["live"] for one in tried.knobs)
