"""Logs of the stand-alone nvFuser: kernel names with a scheduler, NVFUSER_DUMP, the
NVFUSER_PROF table.

No recording of it exists. The lines follow the formats of NVIDIA/Fuser
(csrc/executor_utils.cpp, csrc/fusion_profiler.cpp: names and widths of the
columns); the figures in them are ours.
"""

from __future__ import annotations

from pathlib import Path

from fusiondoc import parse as api_parse
from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

POINTWISE = "nvfuser_pointwise_f0_c1_r0_g0"
NORM = "nvfuser_inner_outer_persistent_f1_c1_r0_g0"
REDUCTION = "nvfuser_reduction_f1_c1_r0_g1"

HEADER = (
    "Fus#  NSegs CuEvtTm(ms) HstTm(ms) CmpTm(ms) KerTm(ms) EffBw(GB/s) %PkBw   S-Seg# S-KerTm(ms)"
    " S-EffBw(GB/s) S-%PkBw S-In(MB) S-Out(MB) S-Smem[Dyn,Stat] S-Regs S-Grid           S-Block          "
    "S-KerName           "
)
TABLE = f"""
{HEADER}
    0     1      41.350    41.311    40.817     0.006    1395.866   41.45      0       0.006      1395.866   41.45    4.194     4.194           [0, 0]     18      [512, 1, 1]      [128, 1, 1] {POINTWISE}
    1     2     886.349   886.311   822.817     0.069    3395.866   41.45      0       0.058      3465.017   42.30  134.353    67.117        [512, 16]     96      [1, 740, 1]       [2, 64, 1] {NORM}
    -     -           -         -         -         -           -       -      1       0.011       465.500    5.70    5.120     0.001          [1024, 0]    32      [16, 64, 1]      [16, 16, 1] {REDUCTION}
loss 0.25
    1     2       0.349     0.311     0.000     0.065    3495.866   42.45      0       0.055      3565.017   43.30  134.353    67.117        [512, 16]     96      [1, 740, 1]       [2, 64, 1] {NORM}
    -     -           -         -         -         -           -       -      1       0.010       515.500    6.20    5.120     0.001          [1024, 0]    32      [16, 64, 1]      [16, 16, 1] {REDUCTION}
"""  # noqa: E501

KERNEL = f"""
======= Codegen output for kernel: {POINTWISE} =======

__global__ void {POINTWISE}(Tensor<float, 2, 2> T0, Tensor<float, 2, 2> T1) {{
}}

======================================

PRINTING: __tmp_{POINTWISE}.cu
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN3nvf29{POINTWISE}ENS_6TensorIfLi2ELi2EEES1_' for 'sm_90'
ptxas info    : Function properties for _ZN3nvf29{POINTWISE}ENS_6TensorIfLi2ELi2EEES1_
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers

num_sms=132, blocks_per_sm=16, warps_per_sm=64, occupancy=100.00%
Arguments for fusion 0 group 0:
Inputs:
  Tensor dtype: float sizes: (1024, 1024, ) strides: (1024, 1, )
Outputs:
  Tensor dtype: float sizes: (1024, 1024, ) strides: (1024, 1, )
Intermediate global buffers:
Launch Parameters: BlockDim.x = 128, BlockDim.y = -1, BlockDim.z = -1, GridDim.x = 2048, GridDim.y = -1, GridDim.z = -1, Smem Size = 0
{POINTWISE} run in 0.0061 ms, achieved: 1375.2 GB/s
"""  # noqa: E501


def parse(text: str, tmp_path: Path) -> Report:
    path = tmp_path / "nvfuser.log"
    path.write_text(text)
    return read_logs(find_logs([str(path)]))[0]


def test_profile_table(tmp_path: Path) -> None:
    report = parse(TABLE, tmp_path)
    assert report.parse.user_output == 1
    assert report.parse.unrecognised == 0
    one, norm, reduction = report.kernels
    assert [k.name for k in report.kernels] == [POINTWISE, NORM, REDUCTION]
    assert (one.launches, norm.launches, reduction.launches) == (1, 2, 2)
    assert (
        one.first_ms == 0.006 and one.registers == 18 and one.block == (128, 1, 1)
    )
    assert (norm.grid, norm.block, norm.smem_bytes, norm.registers) == (
        (1, 740, 1),
        (2, 64, 1),
        512,
        96,
    )
    assert norm.first_ms == 0.058 and norm.ms is not None and norm.ms.max == 0.055
    assert reduction.gb_per_s is not None and reduction.gb_per_s.median == 515.5


def test_a_table_of_the_program_is_its_own(tmp_path: Path) -> None:
    report = parse(
        "epoch step loss\n    0     1   0.25\n    1     2   0.125 [ok] model1\n",
        tmp_path,
    )
    assert report.parse.user_output == 3
    assert not report.kernels


def test_names_frames_and_dumps(tmp_path: Path) -> None:
    report = parse(KERNEL, tmp_path)
    assert report.parse.unrecognised == 0
    (kernel,) = report.kernels
    assert kernel.name == POINTWISE
    assert kernel.code is not None and kernel.code.startswith("__global__")
    assert kernel.registers == 18
    assert kernel.occupancy == 1.0
    assert kernel.compiles == 1
    assert (kernel.block, kernel.grid, kernel.launches) == (
        (128, 1, 1),
        (2048, 1, 1),
        1,
    )
    assert [d.option for d in kernel.dumps] == [
        "cuda_to_file",
        "ptxas_verbose",
        "occupancy",
        "kernel_args",
    ]


THUNDER = """\
*** after nvFusion ***
# Constructed by Fusion (took 1 milliseconds)
import torch
from thunder.executors.torchex import no_autocast

@torch.no_grad()
@no_autocast
def computation(a, b):
  # a: "cuda:0 f32[5, 5]"
  # b: "tuple"
  [t0] = nvFusion0(a, b)
    # t0 = prims.slice_prim(a, [1, 2], [3, 4], [1, 1])  # t0: "cuda:0 f32[2, 2]"
  return t0
*** and what the program prints ***
"""
"""A trace, from https://github.com/Lightning-AI/lightning-thunder/issues/482."""

DEFINITION = """\
def nvfuser_fusion_id0(fd : FusionDefinition) -> None :
    T0 = fd.define_tensor(shape=[1, 1, 576], contiguity=[None, None, True], dtype=DataType.BFloat16)
    T5 = fd.ops.reshape(T0, new_shape=[1, 576])
    fd.add_output(T5)

with FusionDefinition() as fd:
    nvfuser_fusion_id0(fd)
$$$ out = []
"""
"""A definition, from https://github.com/NVIDIA/Fuser/issues/3833, shortened."""

SEGMENTS = """\
%kernel_math {
T4_g[ rS12{i0}, rS13{i1}, iS14{i2} ]
   = reduction( T0_g[ iS0{i0}, iS1{i1}, iS2{i2} ], op = add, initial value = float(0), allreduce = false )
}

Segmented_Fusion Dump: -- fusion segments:
Segmented_Fusion{
groups:
g{2}

edges:

group details:
g{(reduction)
inputs:
T0_g[ iS0{i0}, iS1{i1}, iS2{i2} ] float
outputs:
T4_g[ rS12{i0}, rS13{i1}, iS14{i2} ] float
"""
"""NVFUSER_DUMP=segmented_fusion, from https://github.com/NVIDIA/Fuser/issues/785,
shortened."""


def findings(text: str, tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "other.log"
    path.write_text(text)
    return {one.code: one.message for one in api_parse(path).findings}


def test_a_trace_of_thunder(tmp_path: Path) -> None:
    report = parse(THUNDER, tmp_path)
    lines = THUNDER.splitlines()
    trace = [line for line in lines[1 : lines.index("  return t0") + 1] if line]
    outside = len(lines) - len(trace)
    assert (report.parse.recognised, report.parse.unrecognised) == (len(trace), 0)
    assert report.parse.user_output == outside
    said = findings(THUNDER, tmp_path)
    assert said["FD910"] == (
        "This is a log of Lightning Thunder, whose fusions are not TorchScript's: traces of Lightning Thunder"
        " read: 1; fusions named in it: 1 (nvFusion0)"
    )
    assert "FD901" not in said and "FD906" not in said


EXECUTED = """\
INFO:train:# Constructed by Delete Last Used (took 0 milliseconds)
import torch
import torch.nn.functional
from thunder.executors.torchex import no_autocast

@torch.no_grad()
@no_autocast
def computation(x, weight, b):
  # x: "cuda:0 f32[64, 784]"
  t3 = torch.nn.functional.linear(x, weight, None)  # t3: "cuda:0 f32[64, 2048]"
    # t3 = ltorch.linear(x, weight, None)  # t3: "cuda:0 f32[64, 2048]"
  del x
  [t4, t5] = nvFusion0(t3, b)
    # t4 = prims.gt(t3, 0.0)  # t4: "cuda:0 b8[64, 2048]"
  t6 = torch.cumsum(t5, 1)  # t6: "cuda:0 f32[64, 2048]"
  return (t4, t6)
"""
"""A trace as it is executed, in the form of
https://github.com/Lightning-AI/lightning-thunder/issues/482."""


def test_operators_beside_fusions_of_thunder(tmp_path: Path) -> None:
    """Behind a logger's text, behind times, and without the comment that names the
    pass."""
    first = EXECUTED.replace("nvFusion0(t3, b)", "ltorch.relu(t3)")
    stamps = (
        f"2024-05-01T12:00:{n % 60:02}.1234567Z {line}\n"
        for n, line in enumerate(EXECUTED.splitlines())
    )
    bare = EXECUTED[EXECUTED.index("import torch") :]
    for text in (EXECUTED, first + EXECUTED + first, "".join(stamps), bare):
        assert findings(text, tmp_path)["FD910"].endswith(
            "fusions named in it: 1 (nvFusion0); operators that its last trace with fusions calls beside"
            " them: torch.nn.functional.linear, torch.cumsum"
        )
    # A traceback that shows such a line, and a program of fusions of another kind,
    # are none.
    assert "FD910" not in findings(
        "  File 'a.py', line 1\n    from thunder.executors import x\n", tmp_path
    )


def test_a_definition_of_stand_alone_nvfuser(tmp_path: Path) -> None:
    report = parse(DEFINITION, tmp_path)
    assert report.parse.recognised == 5  # the definition is a dump of its kernel
    assert (report.parse.unrecognised, report.parse.user_output) == (0, 3)
    assert (
        "fusions named in it: 1 (nvfuser_fusion_id0)"
        in findings(DEFINITION, tmp_path)["FD910"]
    )


def test_kernels_with_names_of_stand_alone_nvfuser_say_so(tmp_path: Path) -> None:
    said = findings(KERNEL, tmp_path)
    assert said["FD910"].endswith(
        "not TorchScript's: kernels of stand-alone nvFuser read: 1"
    )
    assert "FD906" not in said  # its advice is for torch's log
    torchs = KERNEL.replace(POINTWISE, "kernel1")
    assert "FD910" not in findings(torchs, tmp_path)


def test_ir_that_is_not_read_is_not_the_programs_output(tmp_path: Path) -> None:
    parsed = parse(SEGMENTS, tmp_path).parse
    assert parsed.unrecognised >= 8 and parsed.user_output <= 3
    # The nvFuser in torch prints the same: nothing names it as the other one.
    assert "FD910" not in findings(SEGMENTS, tmp_path)
    # A program may print such words itself.
    own = parse("Inputs:\ngroups:\nimport nothing\n", tmp_path).parse
    assert (own.unrecognised, own.user_output) == (0, 3)


FAILED = """\
Traceback (most recent call last):
  File "/usr/lib/python3.10/site-packages/nvfuser/__init__.py", line 181, in execute
    result = self._execute(
RuntimeError: INTERNAL ASSERT FAILED at "/opt/Fuser/csrc/compiled_kernel.cpp":600, please report a bug with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues.
CUDA NVRTC compile error: __tmp_nvfuser_pointwise_f0_c1_r0_g0.cu(10203): error: no operator "+" matches these operands
            operand types are: __bfloat + float
"""  # noqa: E501
"""In the form of https://github.com/NVIDIA/Fuser/issues/3497."""


def test_an_error_of_stand_alone_nvfuser_is_its_own(tmp_path: Path) -> None:
    said = findings(FAILED, tmp_path)
    assert (
        "an error of stand-alone nvFuser: CUDA NVRTC compile error:"
        in said["FD910"]
    )
    assert not {"FD307", "FD901"} & set(
        said
    )  # their advice is for the nvFuser in torch
    torchs = FAILED.replace(
        "with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues",
        "to PyTorch",
    )
    assert {"FD307", "FD901"} <= set(findings(torchs, tmp_path))
