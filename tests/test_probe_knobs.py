"""Knobs on a live torch: what the probe says against what torch's own functions
say."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from running import python_apart

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("probe knobs")]

ROOT = Path(__file__).resolve().parent.parent


def _child(code: str) -> subprocess.CompletedProcess[str]:
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith("PYTORCH_")
    }
    strict = 'import warnings; warnings.simplefilter("error", ResourceWarning)\n'
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), environment.get("PYTHONPATH", "")]
    )
    return python_apart(
        code=f"{strict}import json, os, torch\n{code}", cwd=ROOT, env=environment
    )


_READ = """
C = torch._C
def state():
    names = [
        "_jit_can_fuse_on_cpu",
        "_jit_can_fuse_on_gpu",
        "_jit_texpr_fuser_enabled",
        "_jit_llga_enabled",
        "_jit_texpr_dynamic_shape_enabled",
        "_jit_texpr_reductions_enabled",
        "_jit_texpr_fallback_allowed",
        "_jit_get_te_must_use_llvm_cpu",
        "_debug_get_fusion_group_inlining",
        "_jit_get_num_profiled_runs",
        "_get_graph_executor_optimize",
        "_jit_get_logging_option",
        "_jit_get_te_cuda_pointwise_block_size",
    ]
    strategy = C._jit_set_fusion_strategy([("STATIC", 7)])
    C._jit_set_fusion_strategy(strategy)
    return [getattr(C, name)() for name in names] + [strategy, C._jit_set_profiling_executor(True)]
from fusiondoc.probe import knobs
"""


@pytest.fixture(scope="module")
def tried() -> tuple[dict[str, dict[str, object]], str]:
    done = _child(
        _READ
        + "before = state(); rows = knobs.try_all(torch); assert state() == before, state()\n"
        "print(json.dumps(rows)); print(torch.__version__)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    rows, version = done.stdout.splitlines()
    return {row["name"]: row for row in json.loads(rows)}, version


def test_trying_all_leaves_everything_as_it_was_and_stderr_clean(tried):
    rows, _ = tried
    assert all(
        row["record"] == "knob" and row["requested"] is None
        for row in rows.values()
    )
    assert rows["fusion_strategy"]["effective"] == "STATIC:2,DYNAMIC:10"
    assert rows["profiled_runs"] == {
        "record": "knob",
        "name": "profiled_runs",
        "requested": None,
        "effective": "1",
        "live": True,
        "why": None,
    }


def test_nvfuser_knobs_that_are_no_ops_are_not_live_though_they_exist(tried):
    rows, version = tried
    if tuple(map(int, version.split(".")[:2])) < (2, 2):
        pytest.skip("this torch still has nvFuser")
    for name in (
        "nvfuser",
        "single_node",
        "horizontal",
        "guard",
        "skip_node_kind",
        "comparison_callback",
    ):
        assert rows[name]["live"] is False, name
        assert rows[name]["effective"] is None, name
        assert "no-op" in str(rows[name]["why"]), name


def test_autodiff_inlining_is_seen_at_work_although_nothing_reads_it(tried):
    rows, _ = tried
    assert (
        rows["autodiff_inlining"]["effective"],
        rows["autodiff_inlining"]["live"],
    ) == ("on", True)


def test_live_and_default_agree_with_the_catalogue(tried):
    from fusiondoc.fuser_knobs import catalogue, exists_in, parse_version

    rows, version = tried
    for knob in catalogue.knobs():
        live = rows[knob.name]["live"]
        if (
            live is not None and knob.name != "fuse_on_gpu"
        ):  # It needs a build with CUDA.
            assert live == exists_in(knob.live, parse_version(version)), knob.name
        if rows[knob.name]["effective"] and not knob.default.startswith(
            ("on ", "off ", "empty")
        ):
            assert rows[knob.name]["effective"] == knob.default, knob.name


_APPLIED = (
    ("nnc_dynamic_shapes", "on", "C._jit_texpr_dynamic_shape_enabled()", True),
    (
        "nnc_cuda_block_size",
        "128",
        "C._jit_get_te_cuda_pointwise_block_size()",
        128,
    ),
    ("profiled_runs", "3", "C._jit_get_num_profiled_runs()", 3),
    (
        "fusion_strategy",
        "dynamic:1,STATIC:4",
        "C._jit_set_fusion_strategy([])",
        [["DYNAMIC", 1], ["STATIC", 4]],
    ),
    ("bailout_depth", "6", "C._jit_set_fusion_strategy([])", [["STATIC", 6]]),
    ("profiling_executor", "off", "C._jit_set_profiling_executor(True)", False),
    ("log_level", ">>inliner", "C._jit_get_logging_option()", ">>inliner"),
    ("max_fusion_size", "256", "seen('max_fusion_size')", [256, 256]),
    ("min_overlap_ratio", "0.1", "seen('min_overlap_ratio')", [0.1, 0.1]),
    (
        "triton.prefer_nd_tiling",
        "on",
        "seen('triton', 'prefer_nd_tiling')",
        [True, True],
    ),
)


_SEEN = """
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
def seen(*names):
    read = lambda: reduce(getattr, names, torch._inductor.config)
    return [read(), ThreadPoolExecutor(1).submit(read).result()]
"""
"""A value of Inductor's configuration in this thread and in another: autograd has
its own."""


def test_apply_sets_what_torch_itself_reads_back():
    calls = ",".join(
        f"(knobs.apply(torch, {name!r}, {value!r}), {read})"
        for name, value, read, _ in _APPLIED
    )
    done = _child(
        f"{_SEEN}\nfrom fusiondoc.probe import knobs\nC = torch._C\nprint(json.dumps([{calls}]))"
    )
    assert done.returncode == 0, done.stderr
    for (name, _, _, expected), (row, seen) in zip(
        _APPLIED, json.loads(done.stdout)
    ):
        assert seen == expected, name
        assert row["live"] is True and "error" not in row, row


_REFUSED = (
    ("fusion_strategy", "STATIC:2,DYN:1", "'DYN' is neither STATIC nor DYNAMIC"),
    ("profiled_runs", "two", "'two' is not a whole number"),
    ("comparison_callback", "f", "it takes a Python function"),
    ("nope", "1", "there is no knob 'nope'"),
)


def test_a_value_that_cannot_be_set_gives_an_error_record():
    calls = ",".join(
        f"knobs.apply(torch, {name!r}, {value!r})" for name, value, _ in _REFUSED
    )
    done = _child(
        f"from fusiondoc.probe import knobs\nprint(json.dumps([{calls}]))"
    )
    assert done.returncode == 0, done.stderr
    for (_, _, error), row in zip(_REFUSED, json.loads(done.stdout)):
        assert row["error"].startswith(error)
        assert (row["effective"], row["live"]) == (None, False)
