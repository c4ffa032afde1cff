"""Logs of any size, each hard on reading in one way: many of one thing, or one
thing that is very large.

Every line has the form that torch prints (the recordings under ``fixtures/`` hold
such lines); only how many there are, and how long they are, no model is likely to
reach. ``CASES`` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

_T = "Float(64, 1024, strides=[1024, 1], requires_grad=0, device=cuda:0)"
_LAUNCH = (
    "Launch Parameters: BlockDim.x = 256, BlockDim.y = 1, BlockDim.z = -1, "
    "GridDim.x = %d, GridDim.y = -1, GridDim.z = -1, Smem Size = 0\n"
)
_PASS = "[DUMP graph_fuser.cpp:2503] "
_CACHE = "[DUMP kernel_cache.cpp:810] "
_MADE = "[DEBUG kernel_cache.cpp:809] GraphCache constructor: 0x%x\n"
_RUNS = "[DEBUG kernel_cache.cpp:818] running GraphCache: 0x%x\n"

Lines = Iterator[str]


def _prefixed(prefix: str, lines: Iterator[str]) -> str:
    return "".join(f"{prefix}{line}\n" for line in lines)


def _body(source: int, number: int = 1) -> Lines:
    """A group of two operators. To nvFuser's cache, groups of other numbers are
    others, those of other source lines are not."""
    yield f"graph(%0 : {_T},"
    yield f"      %1 : {_T}):"
    yield f"  %2 : int = prim::Constant[value={number}]()"
    yield f"  %3 : {_T} = aten::mul(%0, %1) # model.py:{source}:8"
    yield f"  %4 : {_T} = aten::add(%3, %1, %2) # model.py:{source}:15"
    yield "  return (%4)"


def _plan(groups: int, first: int = 0, equal: bool = False) -> Lines:
    """A plan whose groups follow each other; ``equal`` but for their source
    lines."""
    yield f"graph(%x.1 : {_T},"
    yield f"      %v0 : {_T}):"
    for i in range(groups):
        yield f"  %v{i + 1} : {_T} = prim::CudaFusionGroup_{i}(%v{i}, %x.1)"
    yield f"  return (%v{groups})"
    for i in range(groups):
        head, *rest = _body(first + i, 1 if equal else i)
        yield f"with prim::CudaFusionGroup_{i} = {head}"
        yield from rest


def _kernel(name: str, source: int, lines: int) -> Lines:
    yield f"\n======= Codegen output for kernel: {name} =======\n\n"
    yield f"__global__ void {name}(Tensor<float, 2> T0) {{\n"
    for line in range(lines):
        yield f"  T0[{line}] = T0[{line}] * {source}.f;\n"
    yield "}\n\n======================================\n\n"


def caches(size: int) -> Lines:
    """A model with ``size`` groups under nvFuser: each has a cache, which is made,
    run and compiles a kernel."""
    yield _PASS + "Before Compilation: \n"
    yield _prefixed(_PASS, _plan(size))
    for i in range(size):
        yield _MADE % (0x55A700000000 + i * 64)
        yield _CACHE + "GraphCache created for graph\n"
        yield _prefixed(_CACHE, _body(i, i))
        yield _RUNS % (0x55A700000000 + i * 64)
        yield from _kernel(f"kernel{i + 1}", i, 3)
        yield _LAUNCH % (i + 1)
        yield f"kernel{i + 1} run in 0.0{i % 90 + 10} ms, achieved: 1000.5 GB/s\n"


def plain_caches(size: int) -> Lines:
    """As ``caches``, without plans: the level that prints them was off."""
    for i in range(size):
        yield _MADE % (0x55A700000000 + i * 64)
        yield _RUNS % (0x55A700000000 + i * 64)
        yield from _kernel(f"kernel{i + 1}", i, 3)
        yield f"kernel{i + 1} run in 0.0{i % 90 + 10} ms, achieved: 1000.5 GB/s\n"


def equal_caches(size: int) -> Lines:
    """As ``caches``, but the groups differ in their source lines only: each kernel
    may be that of any of them."""
    yield _PASS + "Before Compilation: \n"
    yield _prefixed(_PASS, _plan(size, equal=True))
    for i in range(size):
        yield _MADE % (0x55A700000000 + i * 64)
        yield _CACHE + "GraphCache created for graph\n"
        yield _prefixed(_CACHE, _body(i))
        yield _RUNS % (0x55A700000000 + i * 64)
        yield from _kernel(f"kernel{i + 1}", i, 3)
        yield f"kernel{i + 1} run in 0.0{i % 90 + 10} ms, achieved: 1000.5 GB/s\n"


def one_group_many_caches(size: int) -> Lines:
    """As ``equal_caches``, of a single group."""
    yield _PASS + "Before Compilation: \n"
    yield _prefixed(_PASS, _plan(1))
    for i in range(size):
        yield _MADE % (0x55A700000000 + i * 64)
        yield _CACHE + "GraphCache created for graph\n"
        yield _prefixed(_CACHE, _body(0))
        yield _RUNS % (0x55A700000000 + i * 64)
        yield from _kernel(f"kernel{i + 1}", i, 3)
        yield f"kernel{i + 1} run in 0.0{i % 90 + 10} ms, achieved: 1000.5 GB/s\n"


def _ptxas(kernel: int, registers: int) -> Lines:
    name = f"_ZN11CudaCodeGen{6 + len(str(kernel))}kernel{kernel}ENS_6TensorIfLi1EEES1_"
    yield "ptxas info    : 307 bytes gmem\n"
    yield f"ptxas info    : Compiling entry function '{name}' for 'sm_90'\n"
    yield f"ptxas info    : Function properties for {name}\n"
    yield "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    yield f"ptxas info    : Used {registers} registers, 16 bytes smem\n"


def ptxas_one(size: int) -> Lines:
    """``size`` reports of ptxas, all of one kernel, one right behind another."""
    for i in range(size):
        yield from _ptxas(1, i % 200 + 16)


def ptxas_many(size: int) -> Lines:
    """Reports of ptxas of ``size`` kernels, one right behind another."""
    for i in range(size):
        yield from _ptxas(i + 1, i % 200 + 16)


def nested_sections(size: int) -> Lines:
    """Each ``with`` section holds the node of the next one."""
    yield _PASS + "Before Compilation: \n"

    def graphs() -> Lines:
        yield f"graph(%x : {_T}):"
        yield f"  %y : {_T} = prim::DifferentiableGraph_0(%x)"
        yield "  return (%y)"
        for _ in range(size):
            yield f"with prim::DifferentiableGraph_0 = graph(%x : {_T}):"
            yield f"  %y : {_T} = prim::DifferentiableGraph_0(%x)"
            yield "  return (%y)"

    yield _prefixed(_PASS, graphs())


def unfused(size: int) -> Lines:
    """A plan of ``size`` operators in no group, each of a source line of its
    own."""
    yield _PASS + "Before Compilation: \n"

    def graph() -> Lines:
        yield f"graph(%v0 : {_T}):"
        for i in range(size):
            yield f"  %v{i + 1} : {_T} = aten::erfinv(%v{i}) # model.py:{i + 1}:8"
        yield f"  return (%v{size})"

    yield _prefixed(_PASS, graph())


def never_profiled(size: int) -> Lines:
    """A plan of ``size`` operators, of which every third has no types: code that
    did not run."""
    yield _PASS + "Before Compilation: \n"

    def graph() -> Lines:
        yield f"graph(%v0 : {_T}, %w0 : Tensor):"
        for i in range(size):
            if i % 3:
                yield f"  %v{i + 1} : {_T} = aten::erfinv(%v0) # model.py:{i + 1}:8"
            else:
                yield f"  %v{i + 1} : Tensor = aten::relu(%w0) # model.py:{i + 1}:8"
        yield f"  return (%v{size})"

    yield _prefixed(_PASS, graph())


def with_gradients(size: int) -> Lines:
    """A plan of ``size`` operators that record gradients, in a row, of which torch
    made no differentiable graph: how large that would be is asked for each."""
    yield _PASS + "Before Compilation: \n"
    recorded = _T.replace("requires_grad=0", "requires_grad=1")

    def graph() -> Lines:
        yield f"graph(%v0 : {recorded}):"
        for i in range(size):
            yield f"  %v{i + 1} : {recorded} = aten::mul(%v{i}, %v{i}) # model.py:{i + 1}:8"
        yield f"  return (%v{size})"

    yield _prefixed(_PASS, graph())


_NNC = "[DEBUG tensorexpr_fuser.cpp:%d] "


def nnc_rejections(size: int) -> Lines:
    """NNC says of ``size`` nodes why it takes none of them."""
    for i in range(size):
        yield (
            _NNC % 650
            + f"Considering node:%v{i} : {_T} = aten::erfinv(%x) # model.py:{i + 1}:8\n"
        )
        yield _NNC % 1144 + "Failed cond tensorexpr::isSupported(node)\n"


def rejections(size: int) -> Lines:
    """nvFuser says of ``size`` different nodes why it takes none of them."""
    for i in range(size):
        yield (
            "[UPDATE partition.cpp:236] rejecting node from fusion (node not parsible): "
            f"%v{i} : {_T} = aten::erfinv(%x.{i}) # model.py:{i + 1}:8\n"
        )


def _one_node(megabytes: float, attribute: Callable[[int], str]) -> Lines:
    yield _PASS + "Before Compilation: \n"

    def graph() -> Lines:
        yield f"graph(%x : {_T}):"
        yield f"  %c : str = prim::Constant[value={attribute(int(megabytes * 1_000_000))}]()"
        yield f"  %y : {_T} = aten::erfinv(%x) # model.py:1:8"
        yield "  return (%y)"

    yield _prefixed(_PASS, graph())


def long_line(size: int) -> Lines:
    """One node with a line of ``size`` hundredths of a megabyte: as many outputs
    and inputs."""
    count = size * 10_000 // 60
    yield _PASS + "Before Compilation: \n"

    def graph() -> Lines:
        yield f"graph(%x : {_T}):"
        outputs = ", ".join(f"%o{i} : Tensor" for i in range(count))
        inputs = ", ".join("%x" for _ in range(count))
        yield f"  {outputs} = aten::chunk({inputs}) # model.py:1:8"
        yield f"  %y : {_T} = aten::erfinv(%x) # model.py:2:8"
        yield "  return (%y)"

    yield _prefixed(_PASS, graph())


def long_string(size: int) -> Lines:
    """A string attribute of ``size`` hundredths of a megabyte."""
    return _one_node(
        size / 100, lambda count: '"' + 'ab\\"c, d=' * (count // 9) + '"'
    )


def many_brackets(size: int) -> Lines:
    """Brackets in brackets, ``size`` hundredths of a megabyte of them."""
    return _one_node(
        size / 100, lambda count: "[" * (count // 2) + "]" * (count // 2)
    )


def big_graph(size: int) -> Lines:
    """A plan of ``size`` nodes, of which every second is a constant."""
    yield _PASS + "Before Compilation: \n"

    def graph() -> Lines:
        yield f"graph(%v0 : {_T}):"
        for i in range(size // 2):
            yield f"  %c{i} : int = prim::Constant[value={i}]()"
            yield f"  %v{i + 1} : {_T} = aten::erfinv(%v{i}, %c{i}) # model.py:{i + 1}:8"
        yield f"  return (%v{size // 2})"

    yield _prefixed(_PASS, graph())


def launches(size: int) -> Lines:
    """A kernel that runs ``size`` times, with its arguments, which differ every
    time."""
    yield from _kernel("kernel1", 1, 3)
    for i in range(size):
        yield "Arguments for kernel1:\nInputs:\n"
        yield f"tensor dtype: float sizes: ({i}, 1024, ) stride: (1024, 1, ) pointer: 0x7f{i:010x}\n"
        yield "Outputs:\n"
        yield f"tensor dtype: float sizes: ({i}, 1024, ) stride: (1024, 1, ) pointer: 0x7e{i:010x}\n"
        yield "Reduction and semaphore buffers:\n"
        yield _LAUNCH % (i + 1)
        yield f"kernel1 run in 0.0{i % 90 + 10} ms, achieved: 1000.5 GB/s\n"


def service(size: int) -> Lines:
    """``size`` lines of a service's own log, in which a plan stands every hundred
    thousand lines."""
    for i in range(size):
        if i % 100_000 == 0:
            yield from _plan(2)
        yield f"2026-11-23 15:{i % 60:02d}:00,{i % 997:03d} INFO worker: item {i} took 0.{i % 997:03d} s\n"


def many_ranks(size: int) -> Lines:
    """``size`` ranks that all run something of their own, line by line in turn."""
    graphs = [list(_plan(8, 1000 * rank)) for rank in range(size)]
    for place in range(-1, len(graphs[0])):
        for rank in range(size):
            text = graphs[rank][place] if place >= 0 else "Before Compilation: "
            yield f"[rank{rank}]:{_PASS}{text}\n"


def onednn(size: int) -> Lines:
    """``size`` partitions of oneDNN Graph, each compiled and run once."""
    for i in range(size):
        tensors = f"in0_f32:0:strided:undef:{i + 1}x32:32s1 out0_f32:1:strided:undef:{i + 1}x64:64s1"
        head = f"cpu,{100_000 + i},matmul_post_ops,aten::linear;aten::relu,,"
        tail = f"{head}{tensors},fpm:strict,matmul_t,dnnl_backend"
        yield f"onednn_verbose,v1,graph,compile,{tail},0.1\n"
        yield f"onednn_verbose,v1,graph,exec,{tail},0.0119629\n"


def model_of_groups(size: int) -> Lines:
    """A model of ``size`` groups and ten times as many nodes."""
    yield _PASS + "Before Compilation: \n"

    def graph() -> Lines:
        yield f"graph(%x.1 : {_T},"
        yield f"      %v0 : {_T}):"
        for i in range(size):
            yield f"  %v{i + 1} : {_T} = prim::CudaFusionGroup_{i}(%v{i}, %x.1)"
            for j in range(4):
                yield f"  %u{i}.{j} : {_T} = aten::erfinv(%v{i + 1}) # model.py:{10 * i + j}:8"
        yield f"  return (%v{size})"
        for i in range(size):
            yield f"with prim::CudaFusionGroup_{i} = graph(%0 : {_T},"
            yield f"      %1 : {_T}):"
            yield f"  %2 : {_T} = aten::mul(%0, %1) # model.py:{10 * i + 5}:8"
            yield f"  %3 : {_T} = aten::relu(%2) # model.py:{10 * i + 6}:8"
            yield f"  %4 : {_T} = aten::sigmoid(%3) # model.py:{10 * i + 7}:8"
            yield f"  %5 : {_T} = aten::mul(%4, %1) # model.py:{10 * i + 8}:8"
            yield f"  %6 : {_T} = aten::tanh(%5) # model.py:{10 * i + 9}:8"
            yield "  return (%6)"

    yield _prefixed(_PASS, graph())


def _chain(size: int, node: Callable[[int], Lines], grad: int = 0) -> Lines:
    """A plan of ``size`` parts, of which each takes ``%v`` and makes the next one,
    and a last group."""
    text = _T.replace("requires_grad=0", f"requires_grad={grad}")
    yield _PASS + "Before Compilation: \n"

    def graph() -> Lines:
        yield f"graph(%v0 : {text}, %b : bool):"
        for i in range(size):
            yield from node(i)
        yield f"  %r : {text} = prim::CudaFusionGroup_0(%v{size})"
        yield "  return (%r)"
        yield f"with prim::CudaFusionGroup_0 = graph(%a : {text}):"
        yield f"  %r : {text} = aten::relu(%a) # model.py:1:8"
        yield "  return (%r)"

    yield _prefixed(_PASS, graph())


def _calls(*names: str) -> Callable[[int], Lines]:
    """These operators in turn."""

    def node(i: int) -> Lines:
        yield f"  %v{i + 1} : {_T} = aten::{names[i % len(names)]}(%v{i}, %v{i}) # model.py:{i + 1}:8"

    return node


def branches(size: int) -> Lines:
    """``size`` branches in a row: the result of each is one of its own, or that of
    the one before."""

    def node(i: int) -> Lines:
        yield f"  %v{i + 1} : {_T} = prim::If(%b) # model.py:{i + 1}:8"
        yield "    block0():"
        yield f"      %y{i} : {_T} = aten::relu(%v{i}) # model.py:{i + 1}:8"
        yield f"      -> (%y{i})"
        yield "    block1():"
        yield f"      -> (%v{i})"

    return _chain(size, node)


def copies(size: int) -> Lines:
    """``size`` copies into another order, beside a group."""
    return _chain(size, _calls("contiguous"))


def views(size: int) -> Lines:
    """``size`` views of views."""
    return _chain(size, _calls("permute"))


def in_place(size: int) -> Lines:
    """``size`` operators in place, one after the other, with gradients."""

    def node(i: int) -> Lines:
        text = _T.replace("requires_grad=0", "requires_grad=1")
        yield f"  %v{i + 1} : {text} = aten::add_(%v{i}, %v{i}) # model.py:{i + 1}:8"

    return _chain(size, node, 1)


def in_place_between_others(size: int) -> Lines:
    """``size`` operators, every second one in place and every other one not known
    to any fuser."""
    return _chain(size, _calls("relu_", "erfinv"))


def views_between_operators(size: int) -> Lines:
    """``size`` operators, every third one a view."""
    return _chain(size, _calls("relu", "relu", "permute"))


def others_between_operators(size: int) -> Lines:
    """``size`` operators, every third one not known to any fuser."""
    return _chain(size, _calls("relu", "relu", "erfinv"))


def _of_nodes(nodes: Lines, recorded: bool = False) -> Lines:
    """A plan of these nodes, which may take ``%x``, an operator's result, and the
    flag ``%b``."""
    yield _PASS + "Before Compilation: \n"
    head = (
        f"graph(%v : {_T}, %b : bool):",
        f"  %x : {_T} = aten::sigmoid(%v) # model.py:1:8",
    )
    text = _prefixed(_PASS, chain(head, nodes, ("  return (%x)",)))
    yield text.replace("requires_grad=0", "requires_grad=1") if recorded else text


def _op(name: str, kind: str, inputs: str, text: str = _T) -> str:
    """A node on a source line of its own: the number in its name."""
    line = int("".join(filter(str.isdigit, name))) + 2
    return f"  %{name} : {text} = {kind}({inputs}) # model.py:{line}:{8 + ord(name[0])}"


def readers_of_a_list(size: int, recorded: bool = False) -> Lines:
    """``size`` operators that read one list of ``size`` tensors."""

    def nodes() -> Lines:
        yield from (_op(f"y{i}", "aten::relu", "%x") for i in range(size))
        yield _op(
            "l0",
            "prim::ListConstruct",
            ", ".join(f"%y{i}" for i in range(size)),
            "Tensor[]",
        )
        yield from (_op(f"z{i}", "aten::mul", "%l0") for i in range(size))

    return _of_nodes(nodes(), recorded)


def recorded_readers_of_a_list(size: int) -> Lines:
    """The same with gradients."""
    return readers_of_a_list(size, True)


def list_of_groups(size: int) -> Lines:
    """One list of the results of ``size`` groups."""

    def nodes() -> Lines:
        yield from (
            f"  %y{i} : {_T} = prim::CudaFusionGroup_{i}(%x)" for i in range(size)
        )
        yield _op(
            "l0",
            "prim::ListConstruct",
            ", ".join(f"%y{i}" for i in range(size)),
            "Tensor[]",
        )
        yield _op("z0", "aten::cat", "%l0")

    def groups() -> Lines:
        for i in range(size):
            yield f"with prim::CudaFusionGroup_{i} = graph(%a : {_T}):"
            yield f"  %r : {_T} = aten::relu(%a) # model.py:{i + 2}:8"
            yield "  return (%r)"

    yield from _of_nodes(nodes())
    yield _prefixed(_PASS, groups())


def lists_in_lists(size: int) -> Lines:
    """``size`` lists, each of the one before and a tensor, and as many operators
    that read one each."""

    def nodes() -> Lines:
        for i in range(size):
            yield _op(f"y{i}", "aten::relu", "%x")
            yield _op(
                f"l{i}",
                "prim::ListConstruct",
                f"%l{i - 1}, %y{i}" if i else "%y0",
                "Tensor[]",
            )
            yield _op(f"z{i}", "aten::cat", f"%l{i}")

    return _of_nodes(nodes())


def readers_of_a_value(size: int, recorded: bool = False) -> Lines:
    """``size`` operators that read one value; every other one is not known to any
    fuser."""
    kinds = ("aten::tanh", "aten::erfinv")
    return _of_nodes(
        (_op(f"y{i}", kinds[i % 2], "%x") for i in range(size)), recorded
    )


def recorded_readers_of_a_value(size: int) -> Lines:
    """The same with gradients."""
    return readers_of_a_value(size, True)


def prints_beside_readers(size: int) -> Lines:
    """``size`` operators that read one value, and a print behind each."""

    def nodes() -> Lines:
        for i in range(size):
            yield _op(f"y{i}", "aten::tanh", "%x")
            yield f"   = prim::Print(%y{i}) # model.py:{i + 2}:3"

    return _of_nodes(nodes())


def second_ways(size: int) -> Lines:
    """``size`` times an operator, one that reads it and is not fused, and one that
    reads it and one of those behind it."""

    def nodes() -> Lines:
        for i in range(size):
            yield _op(f"y{i}", "aten::relu", f"%z{i - 1}" if i else "%x")
            yield _op(f"e{i}", "aten::erfinv", f"%y{i}")
            yield _op(
                f"z{i}", "aten::mul", f"%y{i}, %{f'e{i - 2}' if i > 2 else 'x'}"
            )

    return _of_nodes(nodes())


def views_that_are_read(size: int) -> Lines:
    """``size`` views of views, each of which an operator reads."""

    def nodes() -> Lines:
        for i in range(size):
            yield _op(f"w{i}", "aten::permute", f"%w{i - 1}" if i else "%x")
            yield _op(f"y{i}", "aten::relu", f"%w{i}")

    return _of_nodes(nodes())


def branches_on_a_value(size: int) -> Lines:
    """``size`` branches in a row that read one value."""

    def nodes() -> Lines:
        for i in range(size):
            yield _op(f"r{i}", "prim::If", "%b")
            yield "    block0():"
            yield "    " + _op(f"y{i}", "aten::relu", "%x")
            yield from (f"      -> (%y{i})", "    block1():", "      -> (%x)")

    return _of_nodes(nodes())


@dataclass(frozen=True)
class Case:
    title: str
    make: Callable[[int], Lines]
    sizes: tuple[int, ...]
    """To measure."""
    small: int
    """For a count of operations, here and at twice this size."""
    goal: str = ""
    """What the largest size is meant to take, at rest."""
    compare: bool = False
    """The report is compared with that of a log whose every second line of source
    is another one."""

    @property
    def name(self) -> str:
        return self.make.__name__


CASES = (
    Case(
        "nvFuser caches of different groups",
        caches,
        (500, 1000, 10_000),
        24,
        "10 s",
    ),
    Case("the same without plans", plain_caches, (500, 1000, 10_000), 24, "10 s"),
    Case(
        "nvFuser caches of groups that share a graph",
        equal_caches,
        (500, 1000, 10_000),
        24,
        "10 s",
    ),
    Case(
        "nvFuser caches of one group",
        one_group_many_caches,
        (500, 1000, 10_000),
        24,
        "10 s",
    ),
    Case("reports of ptxas, one kernel", ptxas_one, (8000, 16_000), 60, "100 MB"),
    Case(
        "reports of ptxas, as many kernels", ptxas_many, (4000, 8000), 40, "100 MB"
    ),
    Case("sections nested in sections", nested_sections, (2000, 20_000), 100),
    Case("operators in no group", unfused, (8000, 16_000), 25),
    Case(
        "operators in no group, a third never profiled",
        never_profiled,
        (8000, 16_000),
        200,
    ),
    Case(
        "operators in no group that record gradients",
        with_gradients,
        (2000, 4000),
        50,
    ),
    Case("rejections of NNC", nnc_rejections, (20_000, 40_000), 25),
    Case(
        "compare, operators in no group", unfused, (8000, 16_000), 25, compare=True
    ),
    Case(
        "compare, rejections of NNC",
        nnc_rejections,
        (10_000, 20_000, 40_000),
        25,
        compare=True,
    ),
    Case(
        "compare, operators and views",
        views_between_operators,
        (2000, 4000),
        50,
        compare=True,
    ),
    Case(
        "compare, operators between others",
        others_between_operators,
        (2000, 4000),
        50,
        compare=True,
    ),
    Case(
        "compare, a list of the results of groups",
        list_of_groups,
        (2000, 4000),
        50,
        compare=True,
    ),
    Case(
        "compare, groups of a model",
        model_of_groups,
        (400, 800, 1600),
        10,
        compare=True,
    ),
    Case(
        "one node, hundredths of a megabyte",
        long_line,
        (50, 100, 1000),
        4,
        "150 MB, 5 s",
    ),
    Case(
        "nodes of one graph, half of them in no group",
        big_graph,
        (50_000, 100_000),
        50,
        "150 MB, 5 s",
    ),
    Case(
        "a string attribute, hundredths of a megabyte",
        long_string,
        (50, 100, 500),
        4,
        "150 MB",
    ),
    Case(
        "brackets in brackets, hundredths of a megabyte",
        many_brackets,
        (50, 100, 500),
        4,
        "150 MB",
    ),
    Case(
        "launches with arguments of their own",
        launches,
        (40_000, 80_000),
        100,
        "150 MB",
    ),
    Case("output of the program around plans", service, (500_000, 1_000_000), 2000),
    Case("ranks, all different", many_ranks, (128, 256, 512), 3, "150 MB"),
    Case("partitions of oneDNN Graph", onednn, (16_000, 32_000), 40, "150 MB"),
    Case(
        "different rejections of nvFuser",
        rejections,
        (125_000, 250_000, 500_000),
        30,
        "200 MB",
    ),
    Case("branches in a row", branches, (1500, 3000), 200),
    Case("copies beside a group", copies, (1500, 3000), 200),
    Case("views of views", views, (1500, 3000), 40),
    Case("operators in place", in_place, (1500, 3000), 160),
    Case(
        "operators in place between others",
        in_place_between_others,
        (1500, 3000),
        200,
    ),
    Case(
        "readers of one list of as many tensors",
        readers_of_a_list,
        (2000, 4000),
        50,
    ),
    Case("the same with gradients", recorded_readers_of_a_list, (2000, 4000), 50),
    Case("lists in lists", lists_in_lists, (1000, 2000, 4000), 50),
    Case("readers of one value", readers_of_a_value, (4000, 8000), 100),
    Case("the same with gradients", recorded_readers_of_a_value, (4000, 8000), 200),
    Case(
        "prints beside readers of one value",
        prints_beside_readers,
        (4000, 8000),
        100,
    ),
    Case("second ways around operators", second_ways, (2000, 4000), 100),
    Case(
        "views of views, each read by an operator",
        views_that_are_read,
        (2000, 4000),
        100,
    ),
    Case("branches on one value", branches_on_a_value, (2000, 4000), 60),
    Case(
        "groups of a model, ten times as many nodes",
        model_of_groups,
        (1000, 2000),
        5,
    ),
)
