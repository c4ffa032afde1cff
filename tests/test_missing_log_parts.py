"""FD906: a log that lacks a part of what torch can say is told so, with the
variables that bring it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES, Run

FULL = raw_log.read(FIXTURES / "foreign" / "blocks1.script.train.nvfuser.log.xz")
REJECTS = raw_log.read(FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz")


def without(log: bytes, *words: bytes) -> bytes:
    return b"".join(
        line + b"\n"
        for line in log.split(b"\n")
        if not any(word in line for word in words)
    )


def only_dumps(log: bytes) -> bytes:
    return b"".join(
        line + b"\n"
        for line in log.split(b"\n")
        if not line.startswith((b"[DUMP", b"[UPDATE", b"[DEBUG"))
    )


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (
            without(REJECTS, b"partition.cpp"),
            "(>partition); nor which kernels ran and how fast",
        ),
        (
            without(FULL, b"kernel_cache.cpp"),
            "to which group each kernel belongs (>>kernel_cache)",
        ),
        (
            without(FULL, b"profiling_graph_executor_impl.cpp"),
            "around its differentiable graphs, and so how much is fused (profiling_graph_executor_impl",
        ),
        (only_dumps(FULL), "which operators the kernels compute (graph_fuser)"),
        (without(FULL, b"GB/s", b"Launch Parameters", b"kernel1"), None),
    ],
    ids=["no rejections", "no caches", "no outer plan", "dumps alone", "no speed"],
)
def test_what_is_missing_is_named(
    log: bytes, says: str | None, fusiondoc: Run, tmp_path: Path
) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(log)
    done = fusiondoc("parse", str(path), "--format", "json")
    assert done.returncode == 0, done.stderr
    found = [f for f in json.loads(done.stdout)["findings"] if f["code"] == "FD906"]
    if says is None:
        assert not found
        return
    assert len(found) == 1 and found[0]["severity"] == "note"
    assert says in found[0]["message"]
    assert ">partition:graph_fuser:>>kernel_cache" in found[0]["advice"]
    assert (
        "PYTORCH_NVFUSER_DUMP=cuda_kernel,launch_param,dump_eff_bandwidth"
        in found[0]["advice"]
    )


def test_a_full_log_lacks_nothing(fusiondoc: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(FULL)
    report = json.loads(fusiondoc("parse", str(path), "--format", "json").stdout)
    assert not [f for f in report["findings"] if f["code"] == "FD906"]


@pytest.mark.parametrize("columns", ["40", "80"])
def test_variables_to_copy_are_whole_words_at_every_width(
    columns: str, fusiondoc: Run, tmp_path: Path
) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(without(REJECTS, b"partition.cpp"))
    lines = fusiondoc(
        "parse", str(path), env={"COLUMNS": columns}
    ).stdout.splitlines()
    alone = [line.strip() for line in lines if "PYTORCH_" in line and "=" in line]
    level = "profiling_graph_executor_impl:>partition:graph_fuser:>>kernel_cache:manager"
    assert f"PYTORCH_JIT_LOG_LEVEL='{level}'" in alone
    assert (
        "PYTORCH_NVFUSER_DUMP=cuda_kernel,launch_param,dump_eff_bandwidth,ptxas_verbose"
        in alone
    )
