"""Facts about an interpreter: right, found without importing torch, remembered
until something changes."""

from __future__ import annotations

import os
import platform
import stat
import sys
from pathlib import Path

import pytest
from conftest import Run
from test_run_child import wait_until_gone

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.runner import interpreter


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The actions that children were started for; the cache is a fresh one."""
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    started: list[str] = []
    original = interpreter.call_probe

    def counting(
        python: Path, spec: dict[str, object], timeout: float
    ) -> list[dict[str, object]]:
        started.append(str(spec["action"]))
        return original(python, spec, timeout)

    monkeypatch.setattr(interpreter, "call_probe", counting)
    return started


@pytest.fixture
def fake_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package ``torch`` that cannot be imported, only read."""
    folder = tmp_path / "packages" / "torch"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "raise RuntimeError('torch was imported')\n"
    )
    (folder / "version.py").write_text(
        "from typing import Optional\n__version__ = '2.1.2+cu121'\ncuda: Optional[str] = '12.1'\n"
        "hip: Optional[str] = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    return folder


def test_facts_are_read_without_importing_torch(
    calls: list[str], fake_torch: Path
) -> None:
    facts = interpreter.inspect(sys.executable)
    assert (facts.torch, facts.torch_cuda) == ("2.1.2+cu121", "12.1")
    assert facts.python == platform.python_version()


def test_the_second_look_starts_no_child(
    calls: list[str], fake_torch: Path
) -> None:
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
        (
            "#!/bin/sh\necho 'SyntaxError: nonsense' >&2; exit 1\n",
            "SyntaxError: nonsense",
        ),
        (
            "#!/no/such/program\n",
            r"cannot be run: what its first line \(#!\) names is not there",
        ),
        ("no program at all\n", "cannot be run: Exec format error"),
        (
            "#!/bin/sh\nyes garbage\n",
            "printed .* MB and did not answer as a Python",
        ),
        ("#!/bin/sh\nkill -9 $$\n", "cannot run the probe: died of SIGKILL"),
    ],
)
def test_what_is_no_python(
    tmp_path: Path, calls: list[str], content: str, message: str
) -> None:
    path = tmp_path / "python"
    path.write_text(content)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(UsageError, match=message):
        interpreter.inspect(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such-python", "there is no interpreter"),
        (".", "is a folder"),
        ("a/b", "no interpreter"),
    ],
)
def test_what_is_not_there(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        interpreter.inspect("./" if name == "." else name)


def interpreter_at(path: Path, more: str = "") -> Path:
    """A wrapper script around this interpreter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n{more}\nexec {sys.executable} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_wrapper_that_hangs_is_stopped_with_what_it_started(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``sleep`` keeps the pipe open when the shell has been stopped."""
    monkeypatch.setattr(interpreter, "ANSWER_SECONDS", 1)
    wrapper = interpreter_at(
        tmp_path / "python", f"sleep 61 & echo $! > {tmp_path / 'pid'}; wait"
    )
    with pytest.raises(CannotRun, match="did not answer in 1 s and was stopped"):
        interpreter.inspect(wrapper)
    assert wait_until_gone(int((tmp_path / "pid").read_text()))


def test_a_path_of_this_folder_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never the command of that name on the PATH, and links are kept: they select
    an environment."""
    here, other = (
        interpreter_at(tmp_path / "here" / "py"),
        interpreter_at(tmp_path / "other" / "py"),
    )
    (tmp_path / "here" / "link").symlink_to(other)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert interpreter.find_python("./py") == here
    assert interpreter.find_python(Path("./py")) == here
    assert interpreter.find_python("py") == other
    assert (
        interpreter.find_python("../other/py")
        == tmp_path / "here" / ".." / "other" / "py"
    )
    assert interpreter.find_python("./link") == tmp_path / "here" / "link"
    assert interpreter.find_python("~/other/py") == other


def test_a_python_that_looks_for_its_library_where_another_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a launcher of one environment starts fusiondoc, and --python names
    another."""
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    with pytest.raises(UsageError, match="cannot run the probe") as caught:
        interpreter.inspect(sys.executable)
    assert "PYTHONHOME is set" in str(caught.value.hint)


def test_the_command_line_keeps_the_path_that_was_given(
    tmp_path: Path, fusiondoc: Run
) -> None:
    """Two of one name: that of this folder tells which one was started."""
    interpreter_at(tmp_path / "py", "echo this one >&2; exit 1")
    environment = {
        "PATH": f"{interpreter_at(tmp_path / 'other' / 'py').parent}:{os.environ['PATH']}"
    }
    (tmp_path / "model.py").write_text("model = print")
    for command in (
        ["diagnose", "model.py"],
        ["env"],
        ["knobs"],
        ["env", "--export", "model.py"],
    ):
        done = fusiondoc(*command, "--python", "./py", env=environment)
        assert (
            done.returncode == 2
            and f"{tmp_path / 'py'} cannot run the probe: this one" in done.stderr
        )


def test_what_is_nearly_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter_at(tmp_path / "py")
    (tmp_path / "broken").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no interpreter 'py'") as caught:
        interpreter.find_python("py")
    assert "Did you mean ./py?" in str(caught.value.hint)
    with pytest.raises(
        UsageError, match="broken is a link to nowhere, which is not there"
    ):
        interpreter.find_python("./broken")
    (tmp_path / "py").chmod(0o644)
    if os.access(tmp_path / "py", os.X_OK):
        pytest.skip("this user may execute anything")
    with pytest.raises(UsageError, match="cannot be executed"):
        interpreter.find_python("./py")


@pytest.mark.torch
def test_trying_is_remembered_too(calls: list[str]) -> None:
    torch = pytest.importorskip("torch")
    tried = interpreter.try_everything(sys.executable)
    assert interpreter.try_everything(sys.executable) == tried
    assert calls.count("knobs") == 1
    assert tried.environment.torch == torch.__version__
    assert {row.fuser for row in tried.fusers} == {
        "nvfuser",
        "nnc",
        "onednn",
        "inductor",
        "none",
    }
    assert any(one.name == "fusion_strategy" and one.live for one in tried.knobs)
