"""What people paste into issues and forums: graphs and errors without the log
around them, in the forms of terminals, launchers and containers. The forms are
those of public threads that are named at each; values and operators are our own,
the text between is torch's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import FIXTURES

from fusiondoc.api import parse
from fusiondoc.model.report import Finding, Report
from fusiondoc.views.formatting import verdict

GRAPH = """graph(%x.1 : Tensor,
      %y.1 : Tensor):
  %12 : bool = prim::CudaFusionGuard[types=[TYPE]](%x.1)
  %11 : Tensor = prim::If(%12)
    block0():
      %o.8 : Tensor = prim::CudaFusionGroup_0[cache_id=0](%x.1)
      -> (%o.8)
    block1():
      %18 : Function = prim::Constant[name="fallback_function", fallback=1]()
      %19 : (Tensor) = prim::CallFunction(%18, %x.1)
      %20 : Tensor = prim::TupleUnpack(%19)
      -> (%20)
  %21 : Tensor = aten::cumsum(%11, %y.1) # net.py:8:8
  return (%21)
"""
BODY = """with prim::CudaFusionGroup_0 = graph(%2 : TYPE):
  %4 : int = prim::Constant[value=1]()
  %3 : float = prim::Constant[value=1.]() # net.py:6:12
  %o.1 : TYPE = aten::sub(%2, %3, %4) # net.py:6:8
  %o.5 : TYPE = aten::tanh(%o.1) # net.py:7:8
  return (%o.5)
"""
TYPE = "Float(2, 32, strides=[32, 1], requires_grad=0, device=cuda:0)"
GRAPH, BODY = GRAPH.replace("TYPE", TYPE), BODY.replace("TYPE", TYPE)
PRINT = GRAPH + BODY
OPS = ("aten::sub", "aten::tanh")
LOG = "".join(
    f"[DUMP profiling_graph_executor_impl.cpp:679] {line}\n"
    for line in ["Optimized Graph: ", *PRINT.splitlines()]
)


def report_of(text: str, tmp_path: Path) -> Report:
    path = tmp_path / "pasted.txt"
    path.write_bytes(text.encode())
    report = parse(path)
    stats = report.parse
    assert stats.recognised + stats.user_output + stats.unrecognised == stats.lines
    return report


def each(change: Callable[[int, str], str], text: str) -> str:
    return "".join(
        change(i, line) + "\n" for i, line in enumerate(text.splitlines(), 1)
    )


def docker(i: int, line: str) -> str:
    return json.dumps(
        {
            "log": line + "\n",
            "stream": "stderr",
            "time": f"2024-05-01T10:00:{i % 60:02}.1Z",
        }
    )


def kubernetes(i: int, line: str) -> str:
    time = f"2024-05-01T10:00:{i % 60:02}.{i:09}Z"
    return f"{time} stderr F {line}" + (
        f"\n{time} stdout F loss 0.3" if i % 4 == 0 else ""
    )


FORMS: dict[str, Callable[[str], str]] = {
    "behind text": lambda text: "step 3, the plan: " + text,
    "below its title": lambda text: "Optimized Graph:\n" + text,
    "indented": lambda text: (
        "Optimized Graph:\n" + each(lambda _, line: "  " + line, text)
    ),
    "indented by tabs": lambda text: each(lambda _, line: "\t" + line, text),
    "without indentation": lambda text: each(lambda _, line: line.strip(), text),
    "spaces made tabs": lambda text: text.replace("  ", "\t"),
    "quoted": lambda text: each(lambda _, line: "> " + line, text),
    "commented": lambda text: each(lambda _, line: "#  " + line, text),
    "in a fence": lambda text: "### Output\n```\n" + text + "```\n",
    "line numbers": lambda text: each(lambda i, line: f"{i:4}: {line}", text),
    "grep -n": lambda text: each(lambda i, line: f"{i}: {line}", text),
    "times": lambda text: each(
        lambda i, line: f"2024-05-01T10:00:{i % 60:02}.4236118Z {line}", text
    ),
    "padded days": lambda text: each(
        lambda i, line: f"May {1 + i % 20:2} 10:00:{i % 60:02} n1 train: {line}",
        text,
    ),
    "docker": lambda text: each(docker, text),
    "a service's JSON": lambda text: each(
        lambda _, line: json.dumps({"level": "info", "msg": line}), text
    ),
    "kubernetes": lambda text: each(kubernetes, text),
    "colours": lambda text: each(lambda _, line: f"\x1b[32m{line}\x1b[0m", text),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "a logger": lambda text: each(lambda _, line: "INFO:root:" + line, text),
}


@pytest.mark.parametrize("text", [PRINT, LOG], ids=["print", "log"])
@pytest.mark.parametrize("form", FORMS)
def test_a_graph_is_read_in_every_form(
    form: str, text: str, tmp_path: Path
) -> None:
    if text is LOG and form in (
        "behind text",
        "without indentation",
        "spaces made tabs",
    ):
        pytest.skip("a log has its prefix in front")
    report = report_of(FORMS[form](text), tmp_path)
    assert [(group.ops, group.rank) for group in report.groups] == [(OPS, None)]
    assert [row.op for row in report.unfused] == ["aten::cumsum"]
    assert (report.parse.truncated, report.parse.unrecognised) == (0, 0)


def test_evidence_stands_on_the_line_of_the_node(tmp_path: Path) -> None:
    """Another line of the program stands in the graph, which is behind text and
    indented."""
    lines = ("plan: " + PRINT).splitlines()
    lines.insert(4, "loss 0.3")
    report = report_of("\n".join(["first", *lines]) + "\n", tmp_path)
    (group,) = report.groups
    assert [("first", *lines)[one.line - 1].strip() for one in group.evidence] == [
        next(
            line
            for line in lines
            if line.startswith("with prim::CudaFusionGroup_0")
        )
    ]
    assert report.parse.user_output == 2


@pytest.mark.parametrize(
    "kind", ["prim::CudaFusionGroup", "prim::TensorExprGroup", "tensorexpr::Group"]
)
def test_the_body_of_a_group_alone(kind: str, tmp_path: Path) -> None:
    """As in pytorch/torchdynamo's notes on nvFuser; tensorexpr::Group is NNC of
    torch 1.6."""
    body = BODY.replace("prim::CudaFusionGroup", kind)
    report = report_of(
        "these were fused:\n" + body + "\n" + body.replace("tanh", "relu"), tmp_path
    )
    assert [group.ops for group in report.groups] == [
        OPS,
        ("aten::sub", "aten::relu"),
    ]
    assert {group.kind for group in report.groups} == {
        "CudaFusionGroup" if "Cuda" in kind else "TensorExprGroup"
    }
    assert report.parse.user_output == 2 and not report.unfused


def test_groups_of_torch_1_6(tmp_path: Path) -> None:
    report = report_of(
        PRINT.replace("prim::CudaFusionGroup", "tensorexpr::Group"), tmp_path
    )
    assert [(group.kind, group.ops) for group in report.groups] == [
        ("TensorExprGroup", OPS)
    ]
    assert [row.op for row in report.unfused] == ["aten::cumsum"]


@pytest.mark.parametrize("end", ["=" * 38, "=" * 36, "=====*" + "=" * 31])
def test_kernels_as_torch_1_6_to_1_8_print_them(end: str, tmp_path: Path) -> None:
    """PYTORCH_CUDA_FUSER_DEBUG=1 (torch/csrc/jit/codegen/cuda/executor.cpp); the
    end mark changed twice."""
    frame = (
        "\n==== codegen output for kernel: kernel{0} ====\nnamespace CudaCodeGen {{\n"
        "__global__ void kernel{0}(Tensor<float, 1> T0, Tensor<float, 1> T1) {{\n  T1[0] = T0[0];\n}}\n}}\n\n"
    )
    text = "".join(frame.format(n) + end + f"\n\nloss 0.{n}\n" for n in (1, 2))
    report = report_of(text, tmp_path)
    assert [kernel.name for kernel in report.kernels] == ["kernel1", "kernel2"]
    assert all(
        kernel.code is not None and kernel.code.endswith("}")
        for kernel in report.kernels
    )
    assert (report.parse.user_output, report.parse.truncated) == (2, 0)


STRIDES = (
    "stride == cur_contig_stride || size == 1 || (still_rightmost && stride == 1) ||"
    " (!still_rightmost && stride % word_size == 0)"
)
PLACE = '"../third_party/nvfuser/csrc/executor_utils.cpp":621'
ASSERT = (
    f"{STRIDES} INTERNAL ASSERT FAILED at {PLACE}, please report a bug to PyTorch. "
)
DOMAIN = (
    "iS63{( ceilDiv(( ceilDiv(( T0.size[0] * ( T0.size[1] * T0.size[2] ) ), 2) ), 128) )}, "
    * 6
)
WORDS = (
    f"Vectorization of T0_g[ {DOMAIN}iS60{{2}}, iS64{{128}} ] with word size 2 not possible due to invalid"
    " stride. Domain: iS60{2}, stride: 42"
)
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f(x)\n'
WRAPPED = (
    "RuntimeError: The following operation failed in the TorchScript interpreter.\n"
    "Traceback of TorchScript (most recent call last):\nRuntimeError: "
)
VECTORISED: dict[str, str] = {
    "pytorch#85209, quoted": "> "
    + (WRAPPED + ASSERT + WORDS).replace("\n", "\n> ")
    + "\n",
    "pytorch#109488, a logger": "[ERROR] " + WRAPPED + ASSERT + WORDS + "\n\n",
    "with its traceback": TRACEBACK + WRAPPED + ASSERT + WORDS + "\n",
    "pytorch#79325, alone": "RuntimeError: " + ASSERT + WORDS + "\n",
    "text on the next line": TRACEBACK + "RuntimeError:\n" + ASSERT + WORDS + "\n",
    "csarofeen#1843, three lines": "RuntimeError: `"
    + ASSERT.replace(" INTERNAL", "` \nINTERNAL")
    + "\n"
    + WORDS
    + "\n",
    "pytest": "E   RuntimeError: " + ASSERT + WORDS + "\n",
}


def failures(text: str, tmp_path: Path) -> list[Finding]:
    report = report_of(text, tmp_path)
    assert not [one for one in report.findings if one.code == "FD905"]
    return [one for one in report.findings if one.code == "FD307"]


@pytest.mark.parametrize("form", VECTORISED)
def test_strides_that_cannot_be_vectorised_are_a_failure_of_nvfuser(
    form: str, tmp_path: Path
) -> None:
    (one,) = failures(VECTORISED[form], tmp_path)
    assert one.message == (
        "nvFuser failed, and the error ended the program: Vectorization of T0_g with word size 2 not possible"
        " due to invalid stride. Domain: iS60{2}, stride: 42 (executor_utils.cpp:621)"
    )
    assert one.advice is not None and ".contiguous()" in one.advice
    assert (
        "RuntimeError" in (VECTORISED[form]).split("\n")[one.evidence[0].line - 1]
    )


def test_an_error_of_nvfuser_names_the_group_that_it_ran(tmp_path: Path) -> None:
    """A real run up to the first launch; then the error."""
    from raw_log import read

    log = read(FIXTURES / "logs" / "nvfuser-1.12.1-crash.log.xz").decode()
    (one,) = failures(log + TRACEBACK + WRAPPED + ASSERT + WORDS + "\n", tmp_path)
    assert (
        "; group G1 (add, native_dropout, add" in one.message
        and one.source is not None
    )
    assert not [
        f
        for f in report_of(log + TRACEBACK + WRAPPED + ASSERT, tmp_path).findings
        if f.code == "FD303"
    ]


def test_what_nvrtc_says_of_a_kernel_of_nnc() -> None:
    """A traced BERT of transformers 4.35.2 under NNC on an H100, torch 2.1.2 (as in
    pytorch/serve#2728)."""
    report = parse(FIXTURES / "logs" / "nnc-2.1.2-nvrtc-error.log.xz")
    (one,) = [f for f in report.findings if f.code == "FD307"]
    assert one.message.startswith(
        "NNC failed, and the error ended the program: default_program(24): error: extra text after expected"
        " end of number; group G"
    )
    group = next(g for g in report.groups if f"group {g.id} " in one.message)
    assert group.ops == ("aten::mul", "aten::div", "aten::add")
    assert one.advice is not None and "torch.finfo" in one.advice
    assert not [f for f in report.findings if f.code == "FD905"]


def test_the_size_of_a_reduction_over_a_negative_dimension() -> None:
    """The end of a real training pass of torch 2.1.2 on an H100."""
    report = parse(FIXTURES / "logs" / "nvfuser-2.1.2-negative-dim.log.xz")
    (one,) = [f for f in report.findings if f.code == "FD307"]
    assert not [f for f in report.findings if f.code == "FD905"]
    # The size of std, which the group returns, is not computed.
    assert "before group G1 (std, add, mean, sub, ..." in one.message
    assert (
        "the size of the result of aten::mean (prim::ReductionSizes)" in one.message
    )
    assert one.source == "masks.py:116"
    assert one.advice is not None
    assert one.advice.startswith(
        "Give the dimension of aten::mean (masks.py:116) to the scripted function"
    )
    assert "skip_node_kind=aten::mean" in one.advice


def test_the_size_of_a_mean_that_its_group_has_yet_to_compute() -> None:
    """With the dimensions as an argument of the function the same program ran on
    the H200, with the gradients of eager; so it did with aten::mean left out of
    groups."""
    report = parse(FIXTURES / "logs" / "nvfuser-2.1.2-size-before-group.log.xz")
    (one,) = [f for f in report.findings if f.severity == "error"]
    assert one.code == "FD307" and one.source == "two_means.py:7"
    assert (
        "before group G1 (sub, mul, mean, sigmoid, ... 6 operators" in one.message
    )
    assert (
        "the size of the result of aten::mean (prim::ReductionSizes), from a tensor that the"
        in one.message
    )
    assert one.advice is not None and "f(x, dims: List[int])" in one.advice
    assert report.plan[0].change.startswith(
        "Give the dimensions of aten::mean (two_means.py:7)"
    )


def test_another_range_error_is_the_programs(tmp_path: Path) -> None:
    from raw_log import read

    log = read(FIXTURES / "logs" / "nvfuser-2.1.2-negative-dim.log.xz").decode()
    for number in (7, 2**64 - 2):
        other = log.replace(str(2**64 - 1), str(number))
        found = [f.code for f in report_of(other, tmp_path).findings]
        assert "FD905" in found and "FD307" not in found


def test_torch_takes_no_negative_dimension_there() -> None:
    torch = pytest.importorskip("torch")
    graph = torch._C.parse_ir(
        "graph(%size : int[], %dims : int[]):\n"
        "  %keep : bool = prim::Constant[value=1]()\n"
        "  %new : int[] = prim::ReductionSizes(%size, %dims, %keep)\n"
        "  return (%new)\n"
    )
    sizes = torch._C._create_function_from_graph("sizes", graph)
    assert sizes([4, 8, 32], [2]) == [4, 8, 1]
    with pytest.raises(RuntimeError, match=r"vector::_M_range_check|out of range"):
        sizes([4, 8, 32], [-1])


def test_an_error_of_the_program_stays_one(tmp_path: Path) -> None:
    text = (
        TRACEBACK
        + "ValueError: no such file\n"
        + "RuntimeError: printed by the program itself\n"
    )
    findings = report_of(text, tmp_path).findings
    assert [f.message for f in findings if f.code == "FD905"] == [
        "The log holds an error: ValueError: no such file"
    ]
    assert not [f for f in findings if f.code == "FD307"]


def test_an_unknown_option_is_suspected_only_where_options_were_set() -> None:
    log = FIXTURES / "logs" / "nvfuser-2.1.2-unknown-dump-option.log.xz"
    findings = parse(log).findings
    assert "FD003" not in {f.code for f in findings}
    assert "(FD003)" in (
        next(f for f in findings if f.code == "FD302").advice or ""
    )


@pytest.mark.parametrize(
    "line, asked",
    [
        ("+ PYTORCH_NVFUSER_DUMP=no_such_option python train.py", True),
        ("declare -x PYTORCH_NVFUSER_DISABLE=fallback", False),
    ],
)
def test_a_shell_that_prints_its_commands_says_so(
    line: str, asked: bool, tmp_path: Path
) -> None:
    from raw_log import read

    log = read(
        FIXTURES / "logs" / "nvfuser-2.1.2-unknown-dump-option.log.xz"
    ).decode()
    assert (
        "FD003" in {f.code for f in report_of(line + "\n" + log, tmp_path).findings}
    ) is asked


@pytest.mark.parametrize(
    "of_output",
    ["", " : Tensor", " : Float(SS(-2), 8, requires_grad=0, device=cuda:0)"],
)
def test_sizes_that_the_log_does_not_tell_are_not_zero(
    of_output: str, tmp_path: Path
) -> None:
    (group,) = report_of(PRINT.replace(" : " + TYPE, of_output), tmp_path).groups
    assert (group.bytes_in, group.bytes_out) == (None, None)


def test_a_group_without_its_outer_graph_says_nothing_of_what_is_outside(
    tmp_path: Path,
) -> None:
    report = report_of(BODY.replace("TYPE", TYPE), tmp_path)
    assert (
        report.coverage.unknown is not None
        and verdict(report) == "2 operators fused into 1 group"
    )


def test_a_step_is_said_once(tmp_path: Path) -> None:
    """An error ended the run, and the log has nothing else."""
    report = report_of(
        "RuntimeError:\nCUDA out of memory. Tried to allocate 2.00 GiB\n", tmp_path
    )
    codes = [code for step in report.plan for code in step.codes]
    assert "FD901" in codes and len(codes) == len(set(codes))


SERVE = "2023-10-21T17:05:08,418 [INFO ] W-9000-model_1.0-stdout MODEL_LOG - "


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        # pytorch/serve#2728: every line has the prefix of the worker's log.
        (
            f"{SERVE}RuntimeError: default_program(24): error: extra text after expected end of number\n"
            f"{SERVE}     aten_mul[(long long)(threadIdx.x)] = v * -3.402823466385289e+38.f;\n",
            "FD307",
            "NNC failed, and the error ended the program: default_program(24)",
        ),
        # gnn-tracking/gnn_tracking#312, quoted as far as the first line.
        (
            'RuntimeError: a >= 0 INTERNAL ASSERT FAILED at "/w/torch/csrc/jit/codegen/cuda/scheduler/'
            'pointwise.cpp":721, please report a bug\n',
            "FD307",
            "nvFuser failed, and the error ended the program: a >= 0 (pointwise.cpp:721)",
        ),
        # NVIDIA/Fuser#4459: an address stands in the middle of the sentence.
        (
            'RuntimeError:  INTERNAL ASSERT FAILED at "/opt/nvfuser/csrc/fusion_segmenter.cpp":2010, please'
            " report a bug with repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues."
            " It is no DAG.\n",
            "FD910",
            "an error of stand-alone nvFuser: It is no DAG. (fusion_segmenter.cpp:2010)",
        ),
        # JonasGeiping/breaching#24: the fence ends on the line of the error.
        (
            "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)```\n",
            "FD306",
            "invalid value for --gpu-architecture (-arch)",
        ),
    ],
    ids=["serve", "cut-assert", "address", "fence"],
)
def test_errors_are_read_as_people_quote_them(
    text: str, code: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "pasted.txt").write_text(text)
    (found,) = [
        one for one in parse(tmp_path / "pasted.txt").findings if one.code == code
    ]
    assert (
        said in found.message
        and "`" not in found.message
        and "github" not in found.message
    )


OLD = """graph(%x : Float(2, 2)
      %y : Float(2, 2)) {
  %k : int = prim::Constant[value=1]()
  %a : Float(2, 2) = aten::cumsum(%y, %k)
  %b : Float(2, 2) = prim::FusionGroup_0[device=-1](%a, %x)
  return (%b);
}
with prim::FusionGroup_0 = graph(%1 : Float(2, 2)
      %5 : Float(2, 2)) {
  %11 : int = prim::Constant[value=1]()
  %c : Float(2, 2) = aten::add(%1, %5, %11)
  %d : Float(2, 2) = aten::mul(%c, %5)
  return (%d);
}
"""


@pytest.mark.parametrize(
    "form",
    [
        str,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: f"```\n{text}```\n",
    ],
)
def test_graphs_of_2018_have_braces_and_no_commas(
    form: Callable[[str], str], tmp_path: Path
) -> None:
    """As in pytorch/pytorch#10466: without its body the group would not be seen at
    all."""
    (tmp_path / "pasted.txt").write_bytes(
        form(f"produced this:\n{OLD}any idea?\n").encode()
    )
    report = parse(tmp_path / "pasted.txt")
    (group,) = report.groups
    assert [node.op for node in group.nodes] == ["aten::add", "aten::mul"]
    assert [(row.op, row.count) for row in report.unfused] == [("aten::cumsum", 1)]
    assert not [one for one in report.findings if one.code == "FD902"]


def broken_graph(width: int) -> str:
    lines = (GRAPH + BODY).split("\n")
    return "\n".join(
        line[at : at + width] for line in lines for at in range(0, len(line), width)
    )


def test_a_graph_that_a_terminal_broke_is_put_together(tmp_path: Path) -> None:
    report = report_of(broken_graph(80), tmp_path)
    assert [group.ops for group in report.groups] == [OPS]
    assert [row.op for row in report.unfused] == [
        "aten::cumsum"
    ] and report.parse.truncated == 0


@pytest.mark.parametrize(
    "row",
    [
        "-" * 80,
        "=== epoch {0} ".ljust(82, "="),
        "{0} of 9: " + "lr 0.5, loss 0.125, " * 3 + "time 0.5 s",
    ],
)
def test_rows_of_a_program_that_are_as_wide_as_a_terminal_are_whole(
    row: str, tmp_path: Path
) -> None:
    """Rules and tables: what stands behind them was taken for the rest of their
    line, and lost."""
    printed = "".join(
        f"{row.format(number):>80}\nstep {number}\n" for number in range(9)
    )
    graph = """graph(%x : Tensor,
      %y : Tensor):
  %2 : int = prim::Constant[value=1]()
  %3 : Tensor = aten::cumsum(%x, %2, %2)
  return (%3)
"""
    failed = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
RuntimeError: no such batch
"""
    report = report_of(
        printed
        + row.format(9).rjust(80)
        + "\n"
        + graph
        + row.format(9).rjust(80)
        + "\n"
        + failed,
        tmp_path,
    )
    assert [one.op for one in report.unfused] == ["aten::cumsum"]
    assert [
        one.message for one in report.findings if "no such batch" in one.message
    ]


def test_a_graph_whose_lines_a_page_broke_is_said_to_be_cut(tmp_path: Path) -> None:
    """Broken at 75 columns, as no terminal does, its operators are lost: nothing
    must look as if all of it were read."""
    (tmp_path / "pasted.txt").write_text(broken_graph(75))
    report = parse(tmp_path / "pasted.txt")
    assert [one.code for one in report.findings if one.code == "FD902"] == ["FD902"]
    assert report.parse.truncated == 1


def test_sizes_with_their_strides_beside_them_are_sizes(tmp_path: Path) -> None:
    """As torch 1.6 and 1.7 print them (pytorch/pytorch#37728): no "0 B" for
    them."""
    body = BODY.replace(TYPE, "Float(3:20, 20:1, requires_grad=0, device=cuda:0)")
    (tmp_path / "pasted.txt").write_text(
        GRAPH.replace(TYPE, "Float(3:20, 20:1)") + body
    )
    (group,) = parse(tmp_path / "pasted.txt").groups
    assert (group.bytes_in, group.bytes_out) == (240, 240)
