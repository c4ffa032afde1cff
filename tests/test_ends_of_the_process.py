"""How the process of the command line ends: signals, streams that are closed or
full, no memory."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from command_line import ROOT, Run
from conftest import FIXTURES
from thorough import every

from fusiondoc.captures.capture import Capture
from fusiondoc.cli import main
from fusiondoc.workflows.archives import unpack

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="signals and descriptors of POSIX"
)

LOG = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
SMALL = FIXTURES / "logs" / "nvfuser-2.1.2-negative-dim.log.xz"
COMMAND = (sys.executable, "-m", "fusiondoc")


def run_shell(
    text: str, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A command line of the shell, in which ``fusiondoc`` is this one."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.run(
        ["bash", "-c", text.replace("fusiondoc ", " ".join(COMMAND) + " ", 1)],
        cwd=str(folder),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


ENDS = (
    (f"parse {SMALL} -q", 0),
    (f"parse --follow {SMALL} --idle 0.2 -q", 2),
    (f"parse {SMALL} -q --fail-on note", 1),
    ("parse none.log", 2),
    ("parse --nonsense", 2),
)
TAKES_NOTHING = ("2>/dev/full", "2>&-", "2> >(exec 0<&-)")


@pytest.mark.parametrize(
    ("command", "status", "stderr"),
    every(
        2,
        [
            (command, status, stderr)
            for command, status in ENDS
            for stderr in TAKES_NOTHING
        ],
    ),
)
def test_a_stderr_that_takes_nothing_changes_no_status_and_no_result(
    command: str, status: int, stderr: str, fusiondoc: Run, tmp_path: Path
) -> None:
    expected = fusiondoc(*command.split())
    assert expected.returncode == status, expected.stderr
    done = run_shell(f"fusiondoc {command} {stderr}", tmp_path)
    assert (done.returncode, done.stdout) == (status, expected.stdout)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_a_fault_with_a_full_stderr_is_still_a_fault(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import fusiondoc.workflows.load as load\n"
        "def fail(*args, **options): raise RuntimeError('not foreseen')\n"
        "load.read_logs = fail\n"
    )
    path = f"{tmp_path}:{ROOT}"
    done = run_shell(
        f"fusiondoc parse {LOG} 2>/dev/full",
        tmp_path,
        PYTHONPATH=path,
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 70


@pytest.mark.parametrize(
    "command",
    [
        f"parse {SMALL}",
        f"parse {SMALL} --format json",
        "--help",
        "--version",
        pytest.param("knobs", marks=pytest.mark.nightly),
        "explain FD201",
    ],
)
def test_a_closed_stdout_is_an_error_where_something_was_to_be_printed(
    command: str, tmp_path: Path
) -> None:
    done = run_shell(f"fusiondoc {command} >&-", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: the standard output is closed, so the result cannot be printed\n"
    )
    assert "\nnext: Name a file with --output" in done.stderr
    assert done.stderr.count("\n") == 2


def test_a_closed_stdout_is_none_where_a_file_takes_the_result(
    tmp_path: Path,
) -> None:
    done = run_shell(f"fusiondoc parse {LOG} --output out.json >&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "wrote out.json\n")
    assert (tmp_path / "out.json").stat().st_size > 1000


def test_all_streams_are_closed(tmp_path: Path) -> None:
    assert (
        run_shell(f"fusiondoc parse {LOG} <&- >&- 2>&-", tmp_path).returncode == 2
    )
    assert (
        run_shell(
            f"fusiondoc parse {LOG} -o out.txt <&- >&- 2>&-", tmp_path
        ).returncode
        == 0
    )
    assert "Fused" in (tmp_path / "out.txt").read_text()


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")]
)
def test_no_memory_is_no_fault_of_fusiondoc(
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.delenv("FUSIONDOC_DEBUG", raising=False)
    monkeypatch.setattr("fusiondoc.workflows.load.read_logs", fail)
    with pytest.raises(SystemExit) as ended:
        main(["parse", str(LOG)])
    assert ended.value.code == 4
    told = capsys.readouterr().err
    assert told.startswith(
        "error: there is not enough memory for this.\nnext: Raise the limit"
    )
    assert "report it" not in told


def test_a_limit_of_memory_is_named(tmp_path: Path) -> None:
    """A real process, that a limit as of a container's ends."""
    line = "  %{n} : Float(8, strides=[1]) = aten::mul(%a, %b), scope: Net::/Block::b{n} # m.py:{n}:1\n"
    with (tmp_path / "train.log").open("w") as log:
        log.write(
            "graph(%a : Float(8, strides=[1]), %b : Float(8, strides=[1])):\n"
        )
        log.writelines(line.format(n=number) for number in range(300_000))
        log.write("  return (%1)\n")
    for limit in every(
        5, (199_500, 214_500, 222_000, 238_500, 250_000)
    ):  # where Python ends depends on it
        done = run_shell(
            f"ulimit -v {limit}; exec fusiondoc parse train.log", tmp_path
        )
        assert done.returncode == 4, done.stderr
        assert done.stderr.startswith("error: there is not enough memory")


def started(arguments: Sequence[object], folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=str(folder),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(holds: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def large_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose log takes seconds to be read."""
    folder = tmp_path_factory.mktemp("bundle")
    source = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
    log = Capture(source).log_path.read_bytes()
    path = folder / "large.tar.xz"
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=0) as tar:
        for file in sorted(source.iterdir()):
            if not file.is_file():
                continue
            data = file.read_bytes()
            if file.name == "log":
                data = b"".join(
                    log.replace(b"%", b"%%%d_" % number)
                    for number in range(1 + (40 << 20) // len(log))
                )
            entry = tarfile.TarInfo(f"large/{file.name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_an_archive_is_read_leaves_nothing(
    number: signal.Signals, large_archive: Path, tmp_path: Path
) -> None:
    process = started(["parse", large_archive], tmp_path)
    # It is unpacked when the folder has the name that it has in the archive.
    wait_until(lambda: any(tmp_path.glob("fusiondoc-*/large/log")))
    time.sleep(0.3)
    assert process.poll() is None, "it was read before the signal came"
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert list(tmp_path.glob("fusiondoc-*")) == []
    assert "Traceback" not in told


def test_what_was_unpacked_goes_with_the_command(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """And stays for who asked for it in Python."""
    assert (
        fusiondoc(
            "bundle",
            FIXTURES / "captures" / "nvfuser-2.1.2-composite",
            "-o",
            "b.zip",
        ).returncode
        == 0
    )
    kept = unpack(tmp_path / "b.zip")
    assert (kept.path / "log").exists()
    folder = kept.path
    del kept
    assert not folder.exists()


_IN_AN_IMPORT = re.compile(
    r"Exception ignored in: <function _get_module_lock\..*\n"
    r"Traceback .*\n"
    r'  File "<frozen importlib\._bootstrap>", line \d+, in cb\n'
    r"KeyboardInterrupt: *\n+"
)
"""Python's own words where a signal comes while it forgets the lock of a module
that was imported."""


@pytest.mark.parametrize(
    "milliseconds", every(2, [0, 20, 40, 60, 80, 100, 130, 160, 200, 250, 300])
)
def test_early_interruptions_show_no_traceback(
    milliseconds: int, tmp_path: Path
) -> None:
    """Two of them: the second comes while the first one is told."""
    log = tmp_path / "train.log"
    log.write_text("x\n")
    # Before Python has run a line of fusiondoc's there is nothing that could handle
    # them.
    program = (
        "import fusiondoc, sys\nprint('here', flush=True)\n"
        "sys.argv = ['fusiondoc', 'parse', '--follow', 'train.log']\n"
        "from fusiondoc.__main__ import main\nmain()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    time.sleep(0.02 + milliseconds / 1e3)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    _, told = process.communicate(timeout=60)
    told = _IN_AN_IMPORT.sub("", told)
    assert "Traceback" not in told and "KeyboardInterrupt" not in told, told
    assert process.returncode in (0, 130)


@pytest.mark.parametrize(
    "where", ["import click", "import fusiondoc.cli.output", "class LazyGroup"]
)
def test_an_interruption_of_an_import_shows_no_traceback(
    where: str, tmp_path: Path
) -> None:
    """At a place where it would: the interruption is sent by what is imported."""
    module = where.split()[-1]
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r} or ({module!r} == 'LazyGroup' and name == 'fusiondoc.errors'):\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    done = run_shell(
        f"fusiondoc parse {LOG}", tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}"
    )
    assert (done.returncode, done.stderr.strip(), done.stdout) == (
        130,
        "interrupted",
        "",
    )


def test_a_second_interruption_while_the_first_is_told(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\n"
        "import fusiondoc.workflows.load as load\n"
        "def fail(*args, **options):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    raise KeyboardInterrupt\n"
        "load.read_logs = fail\n"
        "import atexit\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    )
    done = run_shell(
        f"fusiondoc parse {LOG}", tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}"
    )
    assert (done.returncode, done.stderr.strip()) == (130, "interrupted")
