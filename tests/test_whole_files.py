"""Files are written whole or not at all; captures that are needed stay."""

from __future__ import annotations

import lzma
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import FIXTURES, Run

from fusiondoc import whole_files
from fusiondoc.captures import KEPT
from fusiondoc.captures.store import WRITING, CaptureStore, while_writing
from fusiondoc.cli import main
from fusiondoc.whole_files import alone, read_within, refuse_endless, write_whole


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, b"new")
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_at_a_write_leaves_the_old_file_and_no_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process still dies of the signal; who sent it looks at that."""
    log, report = tmp_path / "a.log", tmp_path / "report.json"
    log.write_text("x\n")
    report.write_text("old")
    number = signal.Signals[name]
    sent: list[object] = []
    monkeypatch.setattr(os, "fsync", lambda handle: signal.raise_signal(number))
    monkeypatch.setattr(
        os, "kill", lambda process, how: sent.append((process, how))
    )
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(BaseException, match=str(int(number))):
            main(["parse", str(log), "--output", str(report)])
    finally:
        signal.signal(number, before)
    assert sent == [(os.getpid(), number)]
    assert report.read_text() == "old" and len(list(tmp_path.iterdir())) == 2


def test_files_of_others_are_read_within_a_bound(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    assert read_within(file, 5) == b"12345"
    with pytest.raises(OSError, match="larger"):
        read_within(file, 4)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        for other in (tmp_path / "pipe", Path("/dev/zero")):
            with pytest.raises(OSError, match="not a regular file"):
                read_within(other)


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be locked")
def test_what_several_write_side_by_side_stays(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"")

    def add() -> None:
        for _ in range(10):
            with alone(file):
                write_whole(file, file.read_bytes() + b"x")

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.read_bytes() == b"x" * 40
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_it_keeps_permissions_and_follows_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_it_writes_to_a_pipe(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from fusiondoc.whole_files import write_whole;"
    code += "write_whole(Path('/dev/stdout'), b'told')"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True
    )
    assert done.stdout == b"told"


def finished(store: CaptureStore) -> Path:
    path = store.new("x")
    with while_writing(path):
        pass
    store.done(path)
    return path


def test_the_oldest_capture_makes_room(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    first = finished(store)
    for _ in range(KEPT):
        finished(store)
    assert not first.exists()
    assert len(store.paths()) == KEPT


def test_one_that_is_being_written_or_kept_by_name_stays(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    named, writing, dead = finished(store), store.new("y"), store.new("z")
    store.keep(named.name)
    other = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
    )
    try:
        (writing / WRITING).write_text(str(other.pid))
        (dead / WRITING).write_text("²")
        for _ in range(KEPT + 1):
            finished(store)
        assert named.exists() and writing.exists() and not dead.exists()
    finally:
        other.communicate(b"\n")
    for _ in range(KEPT + 1):
        finished(store)
    assert named.exists() and not writing.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes of POSIX")
def test_a_pipe_that_nobody_opens_is_not_waited_on_for_ever(
    fusiondoc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_files, "MOST_WAIT", 0.05)
    for name in ("pipe", "pipe.gz"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "a.log").write_bytes(
        lzma.decompress(
            (FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz").read_bytes()
        )
    )
    for arguments, said in (
        (["parse", "pipe"], "nobody opened the other end"),
        (["compare", "a.log", "pipe"], "nobody opened the other end"),
        (["parse", "pipe.gz"], "it is no file"),
        (["parse", "a.log", "--output", "pipe"], "nobody opened the other end"),
    ):
        told = fusiondoc(*arguments, cwd=tmp_path)
        assert (
            told.returncode == 2 and said in told.stderr and "next: " in told.stderr
        ), told.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes of POSIX")
def test_a_pipe_with_a_writer_is_read_to_its_end(
    fusiondoc: Run, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("hello\n"))
    writer.start()
    told = fusiondoc("parse", "pipe", cwd=tmp_path)
    writer.join(10)
    assert told.returncode == 0 and "1 line (6 B):" in told.stdout


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="files of Linux")
def test_files_without_an_end_are_refused(fusiondoc: Run, tmp_path: Path) -> None:
    """``/proc/kmsg`` waits for more for ever; this one stands for it, as only root
    may open that."""
    (tmp_path / "a.log").symlink_to("/proc/self/stat")
    for arguments in (["parse", "a.log"], ["compare", "/proc/self/stat", "a.log"]):
        told = fusiondoc(*arguments, cwd=tmp_path)
        assert told.returncode == 2 and "may never end" in told.stderr, told.stderr
    with (
        Path("/dev/zero").open("rb") as endless,
        pytest.raises(OSError, match="a device"),
    ):
        refuse_endless(endless.fileno(), Path("/dev/stdin"))
    with Path(os.devnull).open("rb") as empty:
        refuse_endless(empty.fileno(), Path("/dev/stdin"))
