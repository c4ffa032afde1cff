"""Dumps of which no recording exists: the lines follow the sources of nvFuser
(executor.cpp, inlining.cpp, kernel_cache.cpp, fusion_segmenter.cpp,
lower2device.cpp and fusion_definition.cpp of torch 1.11 to 2.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

FRAME = """
======= Codegen output for kernel: kernel1 =======

__global__ void kernel1(Tensor<float, 2> T0, Tensor<float, 2> T3) {
}

======================================

"""

BEFORE = {
    "bank_conflict": """======= Bank confliction =======
Expr: T3_s[ iS1{32}, ithreadIdx.x2{32} ]
   = T0_g[ iS3{32}, ithreadIdx.x4{32} ];

input conflict: 32 way, output conflict: 2 way
================================
""",
    "inline_propagator": """InlinePropagator::propagateC2P
  from: T2_l[ iS0{i0} ] @ 1
  to: T1_l[ iS1{i0} ]
  max producer position: 1
""",
    "fusion_ir_presched": """Inputs:
  T0_g[ iS0{i0}, iS1{i2} ], float
Outputs:
  T3_g[ iS6{i0}, iS7{i2} ], float

%kernel_math {
T3_g[ iS6{i0}, iS7{i2} ]
   = relu(T0_g[ iS0{i0}, iS1{i2} ]);
}

""",
    "lower_verbose": """After LoopNestGenerator:
FOR blockIdx.x in iblockIdx.x1{8}:
  T3_g[ iS6{i0} ]
     = relu(T0_g[ iS0{i0} ]);
""",
    "draw_segmented_fusion": """segmentation phases {
combine reductions
final merging

}
""",
}

AFTER = {
    "cubin": "PRINTING: __tmp_kernel1.cubin\n",
    "ptx": "PRINTING: __tmp_kernel1.ptx\n",
    "print_args": """Arguments for kernel1:
Inputs:
  Float [2, 3]
  0.5
Outputs:
  Float [2, 3]
Reduction and semaphore buffers:
""",
    "kernel_args": """Arguments for kernel1:
Inputs:
  Float [2, 3] (strides = [3, 1])
  3
  input type: PhiloxCudaState
Outputs:
  Float [2, 3] (strides = [3, 1])
Reduction and semaphore buffers:
  Float [8] is_zero_initialized: 0
""",
    "fusion_args": """Arguments for fusion1:
Inputs:
  tensor dtype: float sizes: (2, 3, ) stride: (3, 1, ) pointer: 0x7f0000000000
Outputs:
Launch Parameters: BlockDim.x = 128, BlockDim.y = -1, BlockDim.z = -1, GridDim.x = 4, GridDim.y = -1, \
GridDim.z = -1, Smem Size = 0
maxrregcount= 255
""",
}

LOOSE = {
    "python_definition": """
def nvfuser_fusion_id0(fd : FusionDefinition) -> None :
    T0 = fd.define_tensor(symbolic_sizes=[-1], contiguous=[True], dtype=DataType.Float)
    T1 = fd.ops.relu(T0)
    fd.add_output(T1)

""",
    "python_frontend_debug": "\nFusionDefinition: Terminal Node found!\n",
}


def parse(text: str, tmp_path: Path) -> Report:
    path = tmp_path / "run.log"
    path.write_text(text + "done\n")
    report = read_logs(find_logs([str(path)]))[0]
    assert report.parse.user_output == 1
    assert report.parse.unrecognised == 0
    return report


@pytest.mark.parametrize("option", BEFORE)
def test_before_the_source(option: str, tmp_path: Path) -> None:
    (kernel,) = parse(BEFORE[option] + FRAME, tmp_path).kernels
    assert [(d.option, d.text) for d in kernel.dumps] == [
        (option, BEFORE[option].strip("\n"))
    ]


@pytest.mark.parametrize("option", AFTER)
def test_after_the_source(option: str, tmp_path: Path) -> None:
    (kernel,) = parse(FRAME + AFTER[option], tmp_path).kernels
    assert [(d.option, d.text) for d in kernel.dumps] == [
        (option, AFTER[option].strip("\n"))
    ]
    assert kernel.launches is None
    assert kernel.block is None


@pytest.mark.parametrize("option", LOOSE)
def test_of_no_kernel(option: str, tmp_path: Path) -> None:
    assert not parse(LOOSE[option], tmp_path).kernels


def test_words_of_the_program_that_look_like_headers(tmp_path: Path) -> None:
    """The first line alone does not make a dump of these."""
    text = "Inputs:\nx = 3\nAfter training:\nloss 0.5\nOutputs:\nInputs:\n"
    path = tmp_path / "run.log"
    path.write_text(text)
    stats = read_logs(find_logs([str(path)]))[0].parse
    assert (stats.user_output, stats.recognised, stats.lines) == (6, 0, 6)


def test_the_arguments_tell_whose_a_launch_is(tmp_path: Path) -> None:
    launch = (
        AFTER["fusion_args"]
        .split("\n")[4]
        .replace("GridDim.x = 4", "GridDim.x = 8")
    )
    second = FRAME.replace("kernel1", "kernel2")
    arguments = AFTER["kernel_args"].replace("\n  3\n", "\n")
    text = FRAME + second
    for _ in range(3):
        text += launch + "\n" + arguments
    kernels = parse(text, tmp_path).kernels
    assert [(k.name, k.launches) for k in kernels] == [
        ("kernel1", 3),
        ("kernel2", None),
    ]
    assert kernels[0].grid == (8, 1, 1)
