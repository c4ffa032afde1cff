"""``fusiondoc repro`` as a user meets it: lists, wrong input, logs that lack what
it needs."""

from __future__ import annotations

import lzma
from pathlib import Path

from conftest import FIXTURES, Run

LOG = FIXTURES / "logs" / "nvfuser-2.1.2-fallback-compile.log.xz"


def test_without_a_group_they_are_listed(fusiondoc: Run) -> None:
    done = fusiondoc("repro", LOG)
    assert done.returncode == 0
    lines = done.stdout.strip().split("\n")
    assert [line.split()[0] for line in lines] == ["G1", "G2", "G3"]
    assert "3 operators: sub, add, div" in lines[0]
    assert "FELL BACK" in lines[2] and "15 operators" in lines[2]


def test_an_unknown_group_lists_those_that_are_there(fusiondoc: Run) -> None:
    done = fusiondoc("repro", LOG, "--group", "G7")
    assert done.returncode == 2
    assert "there is no group 'G7'" in done.stderr
    assert "There are: G1, G2, G3\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_is_not_written_over(fusiondoc: Run, tmp_path: Path) -> None:
    there = tmp_path / "repro_G1.py"
    there.write_text("mine")
    done = fusiondoc("repro", LOG, "--group", "G1")
    assert done.returncode == 2 and "--force" in done.stderr
    assert there.read_text() == "mine"
    assert fusiondoc("repro", LOG, "--group", "G1", "--force").returncode == 0
    assert "torch._C.parse_ir" in there.read_text()


def test_a_log_without_graphs_says_what_to_set(
    fusiondoc: Run, tmp_path: Path
) -> None:
    log = tmp_path / "plain.log"
    log.write_text("epoch 1\nloss 0.5\n")
    done = fusiondoc("repro", log, "--group", "G1")
    assert done.returncode == 2
    assert "PYTORCH_JIT_LOG_LEVEL=" in done.stderr


def test_values_that_the_log_does_not_tell_are_named(
    fusiondoc: Run, tmp_path: Path
) -> None:
    done = fusiondoc("repro", LOG, "--group", "G3")
    assert done.returncode == 0
    assert "its value is not in the log: 2 was chosen" in done.stderr
    text = (tmp_path / "repro_G3.py").read_text()
    assert "In the log this group fell back" in text
    assert "stride=[0, 0]" in text and "device='cuda:0'" in text
    assert text.index("PYTORCH_NVFUSER_DISABLE_FALLBACK") < text.index(
        "import torch"
    )


def test_graph_caches_alone_give_groups(fusiondoc: Run, tmp_path: Path) -> None:
    lines = lzma.decompress(LOG.read_bytes()).split(b"\n")
    log = tmp_path / "caches.log"
    log.write_bytes(
        b"\n".join(line for line in lines if b" kernel_cache.cpp:" in line)
    )
    done = fusiondoc("repro", log)
    assert [line.split()[0] for line in done.stdout.strip().split("\n")] == [
        "G1",
        "G2",
        "G3",
    ]
    assert fusiondoc("repro", log, "--group", "G3").returncode == 0
    assert "aten::_grad_sum_to_size" in (tmp_path / "repro_G3.py").read_text()


def test_stdin(fusiondoc: Run, tmp_path: Path) -> None:
    text = lzma.decompress(LOG.read_bytes()).decode()
    done = fusiondoc("repro", "-", "--group", "G2", input=text)
    assert done.returncode == 0, done.stderr
    head = (tmp_path / "repro_G2.py").read_text()
    assert head.startswith(
        '"""Group G2 (CudaFusionGroup, backward, 3 operators) of <stdin>:'
    )


def test_lines_of_others_inside_a_graph(fusiondoc: Run, tmp_path: Path) -> None:
    """Another stream's lines stand between those of the print: the graph is the
    same."""
    lines = lzma.decompress(LOG.read_bytes()).decode().split("\n")
    log = tmp_path / "mixed.log"
    log.write_text(
        "".join(
            f"{line}\n" + ("step 3 of 9\n" if i % 5 == 0 else "")
            for i, line in enumerate(lines)
        )
    )
    paths = [tmp_path / "plain.py", tmp_path / "mixed.py"]
    for source, path in zip((LOG, log), paths):
        assert (
            fusiondoc("repro", source, "--group", "G3", "--output", path).returncode
            == 0
        )
    plain, mixed = (path.read_text().partition("\nFUSER")[2] for path in paths)
    assert plain == mixed


def test_a_graph_that_is_cut_off_gives_what_could_be(
    fusiondoc: Run, tmp_path: Path
) -> None:
    text = lzma.decompress(LOG.read_bytes()).decode()
    lines = text.split("\n")
    start = next(
        i
        for i, line in enumerate(lines)
        if "with prim::CudaFusionGroup_0 = graph(" in line
    )
    end = next(
        i for i, line in enumerate(lines[start:], start) if "return (" in line
    )
    log = tmp_path / "cut.log"
    log.write_text("\n".join(lines[: end - 1]) + "\n")
    listed = fusiondoc("repro", log)
    assert listed.stdout.startswith("G1"), listed.stderr
    done = fusiondoc("repro", log, "--group", "G1")
    assert done.returncode == 0, done.stderr
    assert "the log breaks off inside the graph" in done.stderr
    assert (
        "the log breaks off inside the graph"
        in (tmp_path / "repro_G1.py").read_text()
    )


def test_minimise_needs_a_group(fusiondoc: Run) -> None:
    done = fusiondoc("repro", LOG, "--minimise")
    assert done.returncode == 2 and "--group" in done.stderr
