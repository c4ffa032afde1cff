"""The files that nvFuser writes beside a model end up in the capture, with their
kernels."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES, Run

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.trust import collect


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A real capture of nvFuser as a run with the ptx and cuda_to_file options
    leaves it: with the lines and files of each kernel (the lines are those of a
    recorded run with debug_info, which writes files too)."""
    folder = tmp_path / ".fusiondoc" / "20260101-000000-composite"
    shutil.copytree(FIXTURES / "captures" / "nvfuser-2.1.2-composite", folder)
    request = json.loads((folder / "request.json").read_text())
    request["cwd"] = str(tmp_path)
    request["options"]["dumps"] = ["cuda_to_file", "ptx"]
    request["environment_set"]["PYTORCH_NVFUSER_DUMP"] += ",cuda_to_file,ptx"
    (folder / "request.json").write_text(json.dumps(request))
    log = raw_log.read(folder / "log")
    names = re.findall(rb"Codegen output for kernel: (\w+) ", log)
    with (folder / "log").open("ab") as file:
        for name in names:
            for ending in (b".cu", b".ptx"):
                file.write(b"PRINTING: __tmp_" + name + ending + b"\n")
                (tmp_path / f"__tmp_{name.decode()}{ending.decode()}").write_bytes(
                    b"// " + name + ending
                )
    return folder


def test_files_of_the_run_are_moved_and_others_are_not(
    capture: Path, tmp_path: Path
) -> None:
    (tmp_path / "__tmp_kernel99.cu").write_text("of another run")
    os.utime(tmp_path / "__tmp_kernel4.ptx", (1, 1))
    moved = collect(Capture(capture))
    assert {path.name for path in moved} == {
        f"__tmp_kernel{n}.{ending}"
        for n in (1, 2, 3, 4)
        for ending in ("cu", "ptx")
    } - {"__tmp_kernel4.ptx"}
    left = {path.name for path in tmp_path.glob("__tmp_*")}
    assert left == {"__tmp_kernel99.cu", "__tmp_kernel4.ptx"}


def test_nothing_is_moved_for_a_run_that_did_not_ask(
    capture: Path, tmp_path: Path
) -> None:
    request = json.loads((capture / "request.json").read_text())
    request["options"]["dumps"] = []
    (capture / "request.json").write_text(json.dumps(request))
    assert collect(Capture(capture)) == []
    assert len(list(tmp_path.glob("__tmp_*"))) == 8


def test_they_are_shown_and_saved_with_their_kernel(
    capture: Path, fusiondoc: Run, tmp_path: Path
) -> None:
    collect(Capture(capture))
    done = fusiondoc(
        "kernels", capture, "--dump", "ptx,cuda_to_file", "--kernel", "K2"
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"(?m)^// (.*)$", done.stdout) == [
        "kernel2.ptx",
        "kernel2.cu",
    ]
    assert (
        fusiondoc("kernels", capture, "--dump", "ptx", "--save", "code").returncode
        == 0
    )
    assert {path.name for path in (tmp_path / "code").glob("*.ptx")} == {
        f"K{n}-kernel{n}.ptx" for n in (1, 2, 3, 4)
    }


def test_binary_files_are_not_shown(
    capture: Path, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "__tmp_kernel1.ptx").write_bytes(b"\x7fELF\0\0\1\2")
    collect(Capture(capture))
    done = fusiondoc("kernels", capture, "--dump", "ptx", "--kernel", "K1")
    assert done.returncode == 0 and "ELF" not in done.stdout


def test_drawings_of_the_run_are_moved_though_no_line_names_them(
    capture: Path, tmp_path: Path
) -> None:
    request = json.loads((capture / "request.json").read_text())
    request["options"]["dumps"] = ["draw_segmented_fusion"]
    (capture / "request.json").write_text(json.dumps(request))
    for name in ("segmented_fusion0.dot", "segmented_fusion1.dot"):
        (tmp_path / name).write_text("digraph {}")
    os.utime(tmp_path / "segmented_fusion0.dot", (1, 1))
    assert [path.name for path in collect(Capture(capture))] == [
        "segmented_fusion1.dot"
    ]
    assert (tmp_path / "segmented_fusion0.dot").exists()
    assert not (tmp_path / "segmented_fusion1.dot").exists()
