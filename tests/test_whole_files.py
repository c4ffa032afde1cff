"""Files are written whole or not at all; captures that are needed stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fusiondoc.captures.store import KEPT, WRITING, CaptureStore, while_writing
from fusiondoc.cli.main import main
from fusiondoc.whole_files import read_within, write_whole


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(os, "kill", lambda process, how: sent.append((process, how)))
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
            with pytest.raises(OSError, match="no regular file"):
                read_within(other)


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
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"told"


def finished(store: CaptureStore) -> Path:
    path = store.new("x")
    with while_writing(path):
        pass
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
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
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
