"""Logs in torch's own grammar of programs that nobody has: very large ones, and
ones with hostile names."""

from __future__ import annotations

from collections.abc import Iterable

_TYPE = "Float(64, 256, strides=[256, 1], requires_grad=0, device=cuda:0)"
_PASS = "[DUMP graph_fuser.cpp:2503] "
_REJECTED = (
    "[UPDATE partition.cpp:236] rejecting node from fusion (node not parsible): "
)
_REFUSED = ("matmul", "linear", "embedding", "sort", "index_select")


def large_log(
    groups: int, loose: int, ops: int = 5, source: str = "model.py"
) -> str:
    """One plan with so many groups of ``ops`` operators and ``loose`` operators
    outside, and a kernel for each group. Every third operator takes its input from
    further up."""
    graph = [f"graph(%x.0 : {_TYPE},", f"      %w : {_TYPE}):"]
    sections: list[str] = []
    rejected: list[str] = []
    every = max(1, loose // max(1, groups))
    made = 0
    for group in range(groups):
        for _ in range(
            every if group < groups - 1 else loose - every * (groups - 1)
        ):
            made += 1
            kind = _REFUSED[made % len(_REFUSED)]
            other = f"%x.{max(0, made - 7)}" if made % 3 == 0 else "%w"
            line = f"%x.{made} : {_TYPE} = aten::{kind}(%x.{made - 1}, {other}) # {source}:{made % 900 + 1}:8"
            rejected.append(_REJECTED + line)
            graph.append("  " + line)
        made += 1
        graph.append(
            f"  %x.{made} : {_TYPE} = prim::CudaFusionGroup_{group}(%x.{made - 1}, %w)"
        )
        sections += _group(group, ops, source)
    graph.append(f"  return (%x.{made})")
    lines = [
        *rejected,
        _PASS + "Before Compilation: ",
        *(_PASS + line for line in [*graph, *sections]),
    ]
    return "\n".join([*lines, *_kernels(groups)]) + "\n"


def _group(number: int, ops: int, source: str) -> Iterable[str]:
    yield f"with prim::CudaFusionGroup_{number} = graph(%a.0 : {_TYPE},"
    yield f"      %b : {_TYPE}):"
    yield "  %one : int = prim::Constant[value=1]()"
    for op in range(ops):
        place = f"# {source}:{number % 800 + op + 1}:12"
        yield f"  %a.{op + 1} : {_TYPE} = aten::{('mul', 'add', 'gelu')[op % 3]}(%a.{op}, %b) {place}"
    yield f"  return (%a.{ops})"


def _kernels(count: int) -> Iterable[str]:
    for number in range(1, count + 1):
        yield f"======= Codegen output for kernel: kernel{number} ======="
        yield ""
        yield f"__global__ void kernel{number}(Tensor<float, 2> T0, Tensor<float, 2> T1) {{"
        for line in range(120):
            yield f"  float T{line + 2}[4]; // {number}"
            yield f"  T{line + 2}[0] = T{line + 1}[0] * T0[(threadIdx.x * 4) + {line}];"
        yield "}"
        yield ""
        yield "=" * 38
        yield (
            "Launch Parameters: BlockDim.x = 128, BlockDim.y = -1, BlockDim.z = -1, GridDim.x = 512, "
            "GridDim.y = -1, GridDim.z = -1, Smem Size = 0"
        )
        yield f"kernel{number} run in 0.0{number % 9 + 1}4 ms, achieved: {800 + number * 7 % 1500}.5 GB/s"


HOSTILE_SOURCE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"`${alert(3)}&lt;.py"
HOSTILE_OP = (
    "^</script><script>window.ran=4</script><img/src=x/onerror=window.ran=4>"
)


def hostile_log() -> str:
    """Markup where a log can hold text: in source ranges, operators, attributes,
    kernels, its own output."""
    source = HOSTILE_SOURCE
    graph = [
        f"graph(%x.0 : {_TYPE}):",
        f"  %x.1 : {_TYPE} = aten::matmul(%x.0, %x.0) # {source}:3:4",
        f"  %x.2 : {_TYPE} = ^PythonOp<script>alert(5)</script>(1, '</script>')(%x.1) # {source}:4:4",
        f"  %x.3 : {_TYPE} = prim::CudaFusionGroup_0(%x.2)",
        f"  %x.4 : {_TYPE} = {HOSTILE_OP}(1)(%x.3) # {source}:5:4",
        "  return (%x.4)",
        f"with prim::CudaFusionGroup_0 = graph(%a.0 : {_TYPE}):",
        '  %s : str = prim::Constant[value="</script><script>alert(6)</script>"]()',
        f"  %a.1 : {_TYPE} = aten::mul(%a.0, %a.0) # {source}:6:4",
        f"  %a.2 : {_TYPE} = aten::add(%a.1, %a.0) # {source}:7:4",
        "  return (%a.2)",
    ]
    lines = [
        "<script>alert(7)</script>",
        f"{_REJECTED}%x.1 : {_TYPE} = aten::matmul(%x.0, %x.0) # {source}:3:4",
        *(_PASS + line for line in ("Before Compilation: ", *graph)),
        "======= Codegen output for kernel: kernel1</script><script>alert(8)</script> =======",
        "</code></pre><script>alert(9)</script>",
        "=" * 38,
        "======= Codegen output for kernel: kernel2 =======",
        "</code></pre><script>alert(10)</script> \u2028 <!-- <svg/onload=alert(11)>",
        "=" * 38,
        "[DUMP nonsense.cpp:1234] <iframe src=javascript:alert(12)>",
        "RuntimeError: <b onmouseover=alert(13)>",
    ]
    return "\n".join(lines) + "\n"
