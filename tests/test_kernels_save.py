"""``fusiondoc kernels --save``: one file a kernel and dump, an index, and nobody
else's files touched."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES, Run

from fusiondoc.errors import UsageError
from fusiondoc.model.report import Dump
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs
from fusiondoc.workflows.kernels import save

LOG = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"
NNC = FIXTURES / "kernels" / "nnc-2.13-loop-nests.log.xz"


def test_one_file_for_each_kernel_and_an_index(
    fusiondoc: Run, tmp_path: Path
) -> None:
    done = fusiondoc("kernels", LOG, "--dump", "cuda_kernel", "--save", "code")
    assert done.returncode == 0, done.stderr
    assert "__global__" not in done.stdout and "K1 kernel1" in done.stdout
    log = raw_log.read(LOG)
    frame = rb"======= Codegen output for kernel: (\S+) =======\n\n(.*?)\n={38}\n"
    expected = {
        name.decode(): code.strip(b"\n") + b"\n"
        for name, code in re.findall(frame, log, re.S)
    }
    index = json.loads((tmp_path / "code" / "index.json").read_text())
    assert {row["name"] for row in index["files"]} == set(expected)
    for row in index["files"]:
        assert (tmp_path / "code" / row["file"]).read_bytes() == expected[
            row["name"]
        ]
        assert row["file"].endswith(".cu") and row["dump"] == "cuda_kernel"
        assert row["groups"] and row["sources"] and row["evidence"]
    written = {path.name for path in (tmp_path / "code").iterdir()}
    assert written == {row["file"] for row in index["files"]} | {
        "index.json",
        "index.txt",
    }
    table = (tmp_path / "code" / "index.txt").read_text()
    assert all(row["file"] in table for row in index["files"])
    assert {kernel["id"] for kernel in index["kernels"]} == {
        row["kernel"] for row in index["files"]
    }


def test_without_dump_all_that_the_log_holds_is_saved(
    fusiondoc: Run, tmp_path: Path
) -> None:
    done = fusiondoc("kernels", NNC, "--save", "code", "--kernel", "K2")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "code").iterdir()} == {
        "K2-fused_mul_tanh_sub.nnc_ir.txt",
        "K2-fused_mul_tanh_sub.nnc_stages.txt",
        "index.json",
        "index.txt",
    }


def test_saved_again_replaces_only_its_own_files(
    fusiondoc: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "code"
    assert fusiondoc("kernels", NNC, "--save", folder).returncode == 0
    assert len(list(folder.iterdir())) == 10
    (folder / "notes.md").write_text("mine")
    assert (
        fusiondoc(
            "kernels", NNC, "--save", folder, "-k", "K1", "--dump", "nnc_ir"
        ).returncode
        == 0
    )
    left = {path.name for path in folder.iterdir()}
    assert left == {
        "K1-fused_add_relu_mul_sigmoid.nnc_ir.txt",
        "index.json",
        "index.txt",
        "notes.md",
    }
    assert (folder / "notes.md").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["index.json", "index.txt", "K1-fused_add_relu_mul_sigmoid.nnc_ir.txt"]
)
def test_foreign_files_are_left_alone_and_nothing_is_written(
    name: str, fusiondoc: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / name).write_text('{"mine": 1}')
    done = fusiondoc("kernels", NNC, "--save", folder)
    assert done.returncode == 2
    assert name in done.stderr and "another folder" in done.stderr
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        name: '{"mine": 1}'
    }


def test_a_saved_file_that_was_changed_is_the_users_now(
    fusiondoc: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "code"
    assert fusiondoc("kernels", NNC, "--save", folder).returncode == 0
    changed = folder / "K2-fused_mul_tanh_sub.nnc_ir.txt"
    changed.write_text("// annotated\n")
    done = fusiondoc("kernels", NNC, "--save", folder)
    assert done.returncode == 2 and changed.name in done.stderr
    assert changed.read_text() == "// annotated\n"


def test_an_index_that_names_files_elsewhere_removes_nothing(
    fusiondoc: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "code"
    assert fusiondoc("kernels", NNC, "--save", folder).returncode == 0
    from hashlib import sha256

    other = tmp_path / "other.txt"
    other.write_text("keep me")
    index = json.loads((folder / "index.json").read_text())
    index["sha256"]["../other.txt"] = sha256(b"keep me").hexdigest()
    (folder / "index.json").write_text(json.dumps(index))
    assert fusiondoc("kernels", NNC, "--save", folder, "-k", "K1").returncode == 0
    assert other.read_text() == "keep me"


def test_a_folder_that_cannot_be_written(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = fusiondoc("kernels", NNC, "--save", tmp_path / "file" / "below")
    assert (
        done.returncode == 2
        and "--save" in done.stderr
        and "Traceback" not in done.stderr
    )


def test_names_of_kernels_are_made_plain_and_never_collide(tmp_path: Path) -> None:
    report = read_logs([LogInput(LOG.name, LOG)])[0]
    one = replace(
        report.kernels[0],
        name="../../etc/x y",
        dumps=(
            Dump("fusion_ir", "first", ()),
            Dump("fusion_ir", "second", ()),
            Dump("ptx", ".version 8", ()),
        ),
    )
    files = save(report, [one], ["fusion_ir", "ptx"], tmp_path / "out")
    assert [path.parent for path in files] == [tmp_path / "out"] * 5
    assert [path.name for path in files[:3]] == [
        "K1-_etc_x_y.fusion_ir.txt",
        "K1-_etc_x_y.fusion_ir.2.txt",
        "K1-_etc_x_y.ptx",
    ]


def test_no_kernel_to_save(fusiondoc: Run, tmp_path: Path) -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-control-flow.log.xz"
    done = fusiondoc("kernels", log, "--save", "code")
    assert done.returncode == 2 and not (tmp_path / "code").exists()
    with pytest.raises(UsageError):
        (tmp_path / "taken").write_text("")
        save(read_logs([LogInput(LOG.name, LOG)])[0], (), (), tmp_path / "taken")
