"""The first real error, from the words of real failures."""

from __future__ import annotations

import pytest

from fusiondoc.errors import ModelFailed
from fusiondoc.fusers.fuser_errors import TOOLCHAIN
from fusiondoc.parsers.lines.error_texts import FuserError, fuser_error, read_error

INTERPRETER = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
"""

STRIDE = (
    "stride == cur_contig_stride || size == 1 || (still_rightmost && stride == 1) || (!still_rightmost && "
    'stride % word_size == 0) INTERNAL ASSERT FAILED at "../third_party/nvfuser/csrc/executor_utils.cpp":621,'
    " please report a bug to PyTorch. Vectorization of T0_g[ iS63{( ceilDiv(1, 128) )}, iS62{1}, iS60{2} ]"
    " with word size 2 not possible due to invalid stride. Domain: iS60{2}, stride: 42"
)

NVRTC_1_12 = (
    INTERPRETER
    + 'RuntimeError: false INTERNAL ASSERT FAILED at "/opt/torch/csrc/jit/codegen/cuda/executor_utils.cpp"'
    ":1068, please report a bug to PyTorch. namespace CudaCodeGen {\n\ntypedef unsigned char uint8_t;\n"
    "__global__ void kernel1(Tensor<float, 1> T0) {\n  nosuch = 1;\n}\n}\n\n"
    'CUDA NVRTC compile error: __tmp_kernel1.cu(9234): error: identifier "nosuch" is undefined\n'
)

NVRTC_ARCH = (
    INTERPRETER
    + "RuntimeError: namespace CudaCodeGen {\ntypedef int nvfuser_index_t;\n}\n"
    "CUDA NVRTC compile error: nvrtc: error: invalid value for --gpu-architecture (-arch)\n"
)

SEGMENTS = """Traceback (most recent call last):
  File "/usr/lib/python3.10/site-packages/nvfuser/__init__.py", line 181, in execute
    results = self._execute(
RuntimeError:  INTERNAL ASSERT FAILED at "/workspace/Fuser/csrc/runtime/fusion_kernel_runtime.cpp":358, \
please report a bug with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues. Detected \
exception while compiling fusion segments in parallel. Error messages from all threads are printed below.

Error from segmentation group 8:  INTERNAL ASSERT FAILED at "/workspace/Fuser/csrc/transform_iter.cpp":546, \
please report a bug with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues. Error during \
replay, a transformation was called that conflicts with an rfactor call.
Exception raised from BestEffortReplay at /workspace/Fuser/csrc/transform_iter.cpp:546
Error from segmentation group 9:  INTERNAL ASSERT FAILED at "/workspace/Fuser/csrc/index_compute.cpp":1965, \
please report a bug with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues. Couldn't find \
allocation mapping
"""

NNC_ARCH = """RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)

nvrtc compilation failed:

#define NAN __int_as_float(0x7fffffff)
"""

CASES = [
    # pytorch#109488: run time, wrapped by the interpreter
    (
        INTERPRETER + "RuntimeError: " + STRIDE,
        "codegen",
        "Vectorization of T0_g with word size 2",
        "executor_utils.cpp:621",
    ),
    # the same at compile time, without the interpreter; torch 1.11 has no blank
    # before INTERNAL
    (
        "RuntimeError: false"
        'INTERNAL ASSERT FAILED at "../torch/csrc/jit/codegen/cuda/kernel_cache.cpp":88, please report a bug'
        " to PyTorch. No output found for this kernel, aborting.",
        "codegen",
        "No output found for this kernel",
        "kernel_cache.cpp:88",
    ),
    # an assert without a text: its condition says it (pytorch#108332)
    (
        "RuntimeError: dims.value().size() == self->getMaybeRFactorDomain().size() INTERNAL ASSERT FAILED at"
        ' "../third_party/nvfuser/csrc/parser.cpp":3430, please report a bug to PyTorch. ',
        "codegen",
        "dims.value().size() ==",
        "parser.cpp:3430",
    ),
    # pytorch#85209, on Windows
    (
        "RuntimeError: stride == 1 INTERNAL ASSERT FAILED at "
        '"C:\\\\work\\\\pytorch\\\\torch\\\\csrc\\\\jit\\\\codegen\\\\cuda\\\\executor_utils.cpp":625, please'
        " report a bug to PyTorch. Vectorization of T2_g[ iS125 ] with word size 2 not possible",
        "codegen",
        "Vectorization of T2_g",
        "executor_utils.cpp:625",
    ),
    # pytorch#80911: no place at all
    (
        INTERPRETER
        + "RuntimeError: Attempting to bind T0.size[1] to 64but it's already set to 512",
        "codegen",
        "Attempting to bind",
        None,
    ),
    (
        NVRTC_1_12,
        "kernel",
        '__tmp_kernel1.cu(9234): error: identifier "nosuch"',
        None,
    ),
    (NVRTC_ARCH, "architecture", "invalid value for --gpu-architecture", None),
    (NNC_ARCH, "architecture", "invalid value for --gpu-architecture", None),
    (SEGMENTS, "codegen", "Error during replay", "transform_iter.cpp:546"),
    (
        "RuntimeError: nvrtc: error: failed to open libnvrtc-builtins.so.11.1.\n  Make sure that"
        " libnvrtc-builtins.so.11.1 is installed correctly.\nnvrtc compilation failed:",
        "builtins",
        "libnvrtc-builtins.so.11.1",
        None,
    ),
    (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\nCUDA kernel"
        " errors might be asynchronously reported at some other API call",
        "no kernel",
        "no kernel image",
        None,
    ),
    (
        "RuntimeError: CUDA driver error: too many resources requested for launch",
        "driver",
        "too many",
        None,
    ),
    (
        "RuntimeError: CUDA error: misaligned address",
        "driver",
        "misaligned address",
        None,
    ),
    (
        "RuntimeError: Invalid debug dump option: 'print_args'\nAvailable options:\n\tfusion_ir, ...\n",
        "option",
        "print_args",
        None,
    ),
    # pytorch#82889: an eager error inside the fallback
    (
        INTERPRETER
        + '  File "model.py", line 12, in forward\n    return x + self.gru(x)\n           ~~~ <--- HERE\n'
        "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at dimension 1",
        "program",
        "The size of tensor a (3)",
        None,
    ),
    # an assert of another part of torch is none of nvFuser
    (
        'RuntimeError: 0 INTERNAL ASSERT FAILED at "../torch/csrc/jit/ir/alias_analysis.cpp":608, please'
        " report a bug to PyTorch. We don't have an op for aten::foo",
        "program",
        "We don't have an op",
        "alias_analysis.cpp:608",
    ),
]


@pytest.mark.parametrize(
    ("text", "kind", "starts", "where"), CASES, ids=lambda value: str(value)[:24]
)
def test_real_errors(text: str, kind: str, starts: str, where: str | None) -> None:
    error = read_error(text)
    assert error is not None
    assert (error.kind, error.where) == (kind, where)
    assert starts in error.text and "\n" not in error.text
    assert (error.kind in TOOLCHAIN) == (
        kind in ("architecture", "builtins", "no kernel")
    )


@pytest.mark.parametrize("text", [case[0] for case in CASES])
def test_the_first_error_counts_whatever_follows(text: str) -> None:
    first = read_error(text)
    later = "\n\nDuring handling of the above exception, another exception occurred:\n\nValueError: no loss\n"
    assert read_error(text + later + STRIDE) == first
    assert read_error("Traceback (most recent call last):\n" + text) == first


def test_no_error() -> None:
    for text in (
        "",
        "all is well\n",
        INTERPRETER,
        "RuntimeError:",
        "[DUMP x.cpp:1] graph(%x):\n",
        "\x00\ufffd",
    ):
        error = read_error(text)
        assert error is None or error.text, text
    assert read_error("loss 3.0\naccuracy 0.5\n") is None


def test_in_a_log_the_programs_own_errors_are_passed_over() -> None:
    log = f"ValueError: caught and printed\n{INTERPRETER}RuntimeError: {STRIDE}\n"
    found = fuser_error(log)
    assert found is not None and found.where == "executor_utils.cpp:621"
    assert fuser_error("ValueError: only this\n") is None


def test_how_it_is_shown() -> None:
    assert str(FuserError("codegen", "no", "a.cpp:1")) == "no (a.cpp:1)"
    assert len(str(read_error("RuntimeError: " + "x" * 5000))) < 500


SIZES = "The size of tensor a (4) must match the size of tensor b (32) at non-singleton dimension 1"
NNC_SOURCE = """default_program(22): error: identifier "erf_" is undefined

1 error detected in the compilation of "default_program".

nvrtc compilation failed:

#define NAN __int_as_float(0x7fffffff)
extern "C" __global__
void fused_gelu(float* aten_gelu) {
{
}
}
"""
FRAME = """  File "m.py", line 3, in model
def model(x):
    return (x + torch.ones(3)) * 2
            ~~~~~~~~~~~~~~~~ <--- HERE
"""
PYTHON = """Traceback (most recent call last):
  File "bert.py", line 20, in <module>
    model(*inputs)
RuntimeError: """


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (PYTHON + SIZES, f"RuntimeError: {SIZES}"),
        (
            PYTHON + INTERPRETER + FRAME + f"RuntimeError: {SIZES}\n",
            f"RuntimeError: {SIZES}",
        ),
        (
            PYTHON + NNC_SOURCE,
            'RuntimeError: default_program(22): error: identifier "erf_" is undefined',
        ),
        (
            PYTHON + INTERPRETER + "RuntimeError: " + NNC_SOURCE,
            'RuntimeError: default_program(22): error: identifier "erf_" is undefined',
        ),
        (
            PYTHON + NVRTC_1_12,
            'CUDA NVRTC compile error: __tmp_kernel1.cu(9234): error: identifier "nosuch" is undefined',
        ),
        (
            PYTHON + "no such axis\n  (dims: 3)\nsee the manual",
            "RuntimeError: no such axis",
        ),
        (PYTHON + "x" * 500, "RuntimeError: " + "x" * 186),
        ("RuntimeError: no\n  of this\nat all", "RuntimeError: no"),
        ("terminate called\nwhat(): no", "what(): no"),
        ("", "m.py failed in the forward pass"),
    ],
)
def test_in_one_line_an_error_says_what_failed(output: str, line: str) -> None:
    failed = ModelFailed("m.py failed in the forward pass", output=output)
    assert failed.in_one_line == line
