"""Partitions of oneDNN Graph against plain searches of what ONEDNN_VERBOSE
printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

import pytest
import raw_log
from conftest import FIXTURES, Run

from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs

LOG = FIXTURES / "kernels" / "onednn-2.13-verbose.log.xz"


def report_of(path: Path) -> Report:
    return read_logs([LogInput(path.name, path)])[0]


def runs(log: str) -> dict[str, list[float]]:
    """Partition -> milliseconds of its runs, by a plain search."""
    found: dict[str, list[float]] = {}
    for line in log.split("\n"):
        fields = line.split(",")
        if fields[:4] == ["onednn_verbose", "v1", "graph", "exec"]:
            found.setdefault(fields[5], []).append(float(fields[-1]))
    return found


def test_every_partition_that_ran_is_a_kernel_with_its_times_and_group() -> None:
    report = report_of(LOG)
    expected = runs(raw_log.read(LOG).decode())
    assert len(expected) == 4
    assert [k.launches for k in report.kernels] == [
        len(times) for times in expected.values()
    ]
    for kernel, times in zip(report.kernels, expected.values()):
        assert kernel.ms is not None
        assert (kernel.ms.min, kernel.ms.median, kernel.ms.max) == (
            min(times),
            median(times),
            max(times),
        )
        assert kernel.compiles == 1
    assert [k.groups for k in report.kernels] == [
        ("G1",),
        ("G2",),
        ("G3",),
        ("G4",),
    ]
    for kernel in report.kernels:
        group = next(
            group for group in report.groups if group.id == kernel.groups[0]
        )
        assert ";".join(group.ops) in (kernel.code or "")


def test_what_is_dumped_are_the_lines_without_their_times() -> None:
    log = raw_log.read(LOG).decode()
    for kernel in report_of(LOG).kernels:
        for line in (kernel.code or "").split("\n"):
            assert re.search("(?m)^" + re.escape(line) + r",[\d.e-]+$", log)


def test_lines_count_as_recognised() -> None:
    report = report_of(LOG)
    log = raw_log.read(LOG)
    assert report.parse.user_output == 0 and report.parse.unrecognised == 0
    assert log.count(b"onednn_verbose,") > 100


def test_alike_partitions_stay_untied_where_one_is_missing(tmp_path: Path) -> None:
    """Two linear layers are alike: if only one ran, which one it was is not to be
    told."""
    log = raw_log.read(LOG).decode()
    last = list(runs(log))[-1]
    path = tmp_path / "less.log"
    path.write_text(
        "".join(line for line in log.splitlines(True) if f",{last}," not in line)
    )
    kernels = report_of(path).kernels
    assert [k.groups for k in kernels] == [("G1",), ("G2",), ()]


@pytest.mark.parametrize(
    "line",
    [
        # oneDNN 3.3, from its developer guide
        "onednn_verbose,graph,exec,cpu,100006,convolution_post_ops,CONV_0;ELTWISE_1,data:NCX; filter:OIX;;,"
        "in0_f32:0:strided:undef:2x32x112x112:401408s12544s112s1 "
        "in1_f32:1:strided:constant:64x32x1x1:32s1s1s1 "
        "out0_f32:4:strided:undef:2x64x112x112:802816s12544s112s1,fpm:strict,dnnl_backend,5.44092",
        # with ONEDNN_VERBOSE_TIMESTAMP=1
        "onednn_verbose,v1,1693533460193.346924,graph,exec,cpu,100006,convolution_post_ops,CONV_0;ELTWISE_1,,"
        "out0_f32:4:strided:undef:2x64x112x112:802816s12544s112s1,fpm:strict,dnnl_backend,5.44092",
        # oneDNN Graph before it was a part of oneDNN
        "onednn_graph_verbose,exec,cpu,100006,convolution_post_ops,CONV_0;ELTWISE_1,,"
        "out0_f32:4:strided:undef:2x64x112x112:802816s12544s112s1,fpm:strict,dnnl_backend,5.44092",
    ],
)
def test_other_versions_of_the_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "other.log"
    path.write_text(line + "\n" + line + "\n")
    (kernel,) = report_of(path).kernels
    assert kernel.name == "convolution_post_ops" and kernel.launches == 2
    assert kernel.ms is not None and kernel.ms.median == 5.44092
    assert kernel.groups == ()


@pytest.mark.parametrize(
    "line",
    [
        "onednn_verbose,",
        "onednn_verbose,v1,graph,exec",
        "onednn_verbose,v1,graph,exec,cpu,x,y,z,,,,",
        "onednn_verbose,v1,graph,exec,cpu,1,kind,op,,in0_f32:0:strided:undef:99999999999999999999x2:1,f,nan",
        "onednn_verbose,v1,primitive,exec,cpu,matmul,brg,undef,src,attr,,2x16:16x32,0.1",
    ],
)
def test_damaged_lines_are_no_harm(line: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.log"
    path.write_text(line + "\n")
    report = report_of(path)
    assert all(kernel.ms is None for kernel in report.kernels)


MODEL = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(16, 16)
    def forward(self, x):
        return torch.relu(self.inner(x))
model = Model().eval()
inputs = (torch.randn(4, 16),)
"""


@pytest.mark.torch
def test_a_real_run(fusiondoc: Run, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch._C, "_jit_set_llga_enabled") or torch.cuda.is_available():
        pytest.skip("written for a CPU build with oneDNN Graph")
    (tmp_path / "user.py").write_text(MODEL)
    done = fusiondoc(
        "kernels",
        "user.py",
        "--fuser",
        "onednn",
        "--dump",
        "onednn_verbose",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    log = next((tmp_path / ".fusiondoc").glob("*/log")).read_text()
    ran = runs(log)
    assert ran and [k["launches"] for k in report["kernels"]] == [
        len(times) for times in ran.values()
    ]
    assert report["kernels"][0]["groups"] == ["G1"]
    assert "aten::linear;aten::relu" in report["kernels"][0]["code"]


def test_what_computes_each_partition() -> None:
    kernels = report_of(LOG).kernels
    assert [kernel.implementation for kernel in kernels] == [
        "brg_conv_fwd:avx512_core",
        "brg_matmul:avx512_core",
        "brg_matmul:avx512_core",
        "brg_matmul:avx512_core",
    ]
    # By a plain search: the last primitive that is no reorder before each line of
    # the partition.
    last, found = "", {}
    for line in raw_log.read(LOG).decode().split("\n"):
        fields = line.split(",")
        if fields[2:4] == ["primitive", "exec"] and fields[5] != "reorder":
            last = fields[6]
        elif fields[2:4] == ["graph", "exec"]:
            found.setdefault(fields[5], set()).add(last)
    assert [{kernel.implementation} for kernel in kernels] == list(found.values())


_GRAPH = (
    "{head}graph,exec,cpu,100006,matmul_post_ops,aten::linear;aten::relu,,"
    "in0_f32:0:strided:undef:2x32:32s1 out0_f32:4:strided:undef:2x64:64s1,fpm:strict,{own}dnnl_backend,0.05"
)
_MATMUL = (
    "exec,cpu,{kind},{name},undef,src:f32::blocked:ab::f0 wei_f32,"
    "attr-post-ops:eltwise_relu ,,2x32:32x64,{ms}"
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # Its own are those that fit into its time: an eager product before it is
        # not.
        (
            [
                "onednn_verbose,v1,primitive,"
                + _MATMUL.format(kind="matmul", name="gemm:jit", ms=7.5),
                "onednn_verbose,v1,primitive,"
                + _MATMUL.format(kind="reorder", name="jit:uni", ms=0.01),
                "onednn_verbose,v1,primitive,"
                + _MATMUL.format(kind="matmul", name="ref:any", ms=0.03),
                _GRAPH.format(head="onednn_verbose,v1,", own="matmul_t,"),
            ],
            "ref:any",
        ),
        # nor is another kind of operator, even if it would fit
        (
            [
                "onednn_verbose,primitive,"
                + _MATMUL.format(kind="convolution", name="jit:avx2", ms=0.001),
                "onednn_verbose,primitive,"
                + _MATMUL.format(kind="inner_product", name="brgemm:avx2", ms=0.03),
                "onednn_verbose,primitive,"
                + _MATMUL.format(kind="eltwise", name="jit:avx2", ms=0.01),
                _GRAPH.format(head="onednn_verbose,", own=""),
            ],
            "inner_product brgemm:avx2 + eltwise jit:avx2",
        ),
        # oneDNN 2 of torch 1.12 to 2.0: no component, and with
        # ONEDNN_VERBOSE_TIMESTAMP
        (
            [
                "dnnl_verbose,1654764777225.709961,"
                + _MATMUL.format(kind="matmul", name="brg:avx512_core", ms=0.04),
                _GRAPH.format(head="onednn_graph_verbose,", own="").replace(
                    "graph,exec", "exec", 1
                ),
            ],
            "brg:avx512_core",
        ),
        # a product that the graph names in another way
        (
            [
                "onednn_verbose,v1,primitive,"
                + _MATMUL.format(kind="matmul", name="brg:avx2", ms=0.04),
                _GRAPH.format(head="onednn_verbose,v1,", own="").replace(
                    "aten::linear", "aten::mm"
                ),
            ],
            "brg:avx2",
        ),
        # a later version of the format, without lines of primitives
        (
            [
                _GRAPH.format(
                    head="onednn_verbose,v2,1693533460193.3,", own="matmul_t,"
                )
            ],
            "matmul_t",
        ),
        ([_GRAPH.format(head="onednn_verbose,", own="")], None),
        # what no partition ran is nobody's
        (
            [
                "onednn_verbose,v1,primitive,"
                + _MATMUL.format(kind="matmul", name="ref", ms="1e")
            ],
            "none",
        ),
    ],
)
def test_which_primitives_are_a_partitions_own(
    lines: list[str], expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "other.log"
    path.write_text("\n".join(lines) + "\n")
    report = report_of(path)
    assert report.parse.unrecognised == 0 and report.parse.user_output == 0
    assert [kernel.implementation for kernel in report.kernels] == (
        [] if expected == "none" else [expected]
    )
