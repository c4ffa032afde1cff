"""Files are written whole or not at all; captures that are needed stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusiondoc.captures.store import KEPT, WRITING, CaptureStore, while_writing
from fusiondoc.whole_files import write_whole


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
