"""Watches Inductor in the user's process: each graph that it compiles, the nodes
that its scheduler ends with, the pairs that it refused to fuse, and the kernels
that it generates; and where Dynamo ends graphs.

Methods of torch/_inductor/scheduler.py are replaced once that module is imported.
They are private: each is looked for, and one that a version does not have costs its
facts alone. A hook never raises into Inductor, which would make it a failed
compilation; the first failure of each hook is a record.

Looked at: torch 2.6.0, 2.9.1, 2.11.0 and 2.13.0.
``set_kernel_post_grad_provenance_tracing`` (debug.py) is called for each kernel
with the nodes in it: from 2.11 on always, in 2.9 only where provenance is tracked,
and 2.6 does not have it. ``define_kernel`` of the back ends is called with the same
nodes, and returns the name; its kernels are used where the other hook saw none.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any, Callable

from . import first_line
from .inductor_crossings import OUTPUT_CODE, Crossings
from .inductor_facts import (
    Operators,
    buffers_of,
    called_operators,
    final_node,
    or_none,
    why_not_shared,
)
from .inductor_kernels import Kernels
from .log_and_records import Records
from .replaced import AfterImport, Replaced

SCHEDULER = "torch._inductor.scheduler"
"""The module at whose import the watch begins."""
_LOWERING = "torch._inductor.lowering"
_GRAPH = "torch._inductor.graph"
_CONFIG = "torch._inductor.config"

_KERNEL_HOOK = "set_kernel_post_grad_provenance_tracing"
_IMPORTS_KERNEL_HOOK = (
    "torch._inductor.debug",
    "torch._inductor.codegen.triton",
    "torch._inductor.codegen.cpp",
)
"""Modules that have imported the kernel hook under a name of their own."""

_BACK_ENDS = ("CppScheduling", "TritonScheduling")
"""Classes in these modules that define kernels."""

MOST_REFUSALS = 4_000
"""Most pairs that are recorded of a graph: pairs of final nodes first."""
_MOST_SHARED = 200
"""Most pairs of a graph for which the accesses to common buffers are compared."""
_MOST_BREAKS = 1_000
_NO_SHARED_DATA = "no shared data"


class _Graph:
    """Facts recorded of the graph that is being compiled."""

    def __init__(self, lowering: Any) -> None:
        self.lowering = lowering
        self.operators: list[dict[str, Any]] = []
        self.refused: dict[tuple[str, str], tuple[str | None, int]] = {}
        """Pair of names -> torch's text of the last attempt (None: it gave none)
        and its round."""
        self.round = 0
        self.texts = 0
        """Number of refusals with a text so far."""
        self.called = Kernels()
        self.defined = Kernels()
        self.final: list[dict[str, Any]] = []
        self.shared: dict[tuple[str, str], dict[str, str]] = {}
        self.buffers: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}
        self.written = False


class InductorWatch:
    """One watch for each process."""

    def __init__(self, torch: Any, records: Records) -> None:
        self._torch = torch
        self._records = records
        self._replaced = Replaced()
        self._operators = Operators(torch)
        self._crossings = Crossings(torch, records)
        self._graph: _Graph | None = None
        self._orders: dict[str | None, int] = {}
        self._failed_hooks: set[str] = set()
        self._explicit: frozenset[Any] = frozenset()
        self._wanted: dict[str, Callable[[Any], object]] = {
            SCHEDULER: self._put_hooks,
            _LOWERING: self._keep_fallbacks,
            _GRAPH: self._put_graph_hook,
            OUTPUT_CODE: self._put_call_hooks,
            _CONFIG: self._leave_caches_out,
            **dict.fromkeys(_IMPORTS_KERNEL_HOOK, self._put_kernel_hook),
        }
        self._finder = AfterImport(self._wanted)
        self._config: tuple[Any, bool] | None = None
        """``torch._inductor.config``, and whether caches were off before; its
        ``vars`` contain none of its attributes, as ``Replaced`` would need."""
        self._lowered = 0
        """Number of graphs being lowered, one inside another."""
        self.graphs = 0
        """Number of graphs compiled so far, or failed."""
        self.own_seconds = 0.0
        """Seconds spent in the hooks."""

    def start(self) -> None:
        """Watch from the import of Inductor's scheduler on, which may have happened
        already."""
        for name, imported in self._wanted.items():
            if name in sys.modules:
                imported(sys.modules[name])
        sys.meta_path.insert(0, self._finder)

    def stop(self) -> None:
        """Restore Inductor."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._replaced.take_back()
        if self._config is not None:
            config, before = self._config
            config.force_disable_caches = before
            self._config = None

    def forget(self) -> None:
        """In a fork: forget the graphs of the parent process, which records them
        itself."""
        self._graph = None
        self.graphs = 0

    def finish(self) -> None:
        """Write the records of the end of a run."""
        self._guarded("breaks", self._write_breaks)
        if self.graphs:
            self._guarded("totals", self._write_totals)

    # -- hooks -----------------------------------------------------------------------------------------------

    def _put_hooks(self, scheduler: Any) -> None:
        kind = getattr(scheduler, "Scheduler", None)
        self._around(kind, "__init__", self._scheduling)
        self._around(kind, "fuse_nodes_once", self._in_round)
        self._around(kind, "can_fuse", self._deciding)
        self._around(kind, "codegen", self._generating)
        self._around(
            getattr(scheduler, "WhyNoFuse", None), "__call__", self._refusing
        )

    def _put_graph_hook(self, graph: Any) -> None:
        self._around(getattr(graph, "GraphLowering", None), "run", self._lower)

    def _put_call_hooks(self, output_code: Any) -> None:
        kind = getattr(output_code, "CompiledFxGraph", None)
        self._around(kind, "__init__", self._compiling)
        self._around(kind, "__call__", self._calling)

    def _compiling(self, original: Any) -> Any:
        def init(compiled: Any, *args: Any, **kwargs: Any) -> None:
            original(compiled, *args, **kwargs)
            values = (*args, *kwargs.values())
            self._guarded(
                "compiled", lambda: self._crossings.compiled(compiled, values)
            )

        return init

    def _calling(self, original: Any) -> Any:
        def call(compiled: Any, inputs: Any) -> Any:
            graph = self._crossings.graph_of(compiled)
            if graph is None:
                return original(compiled, inputs)
            self._guarded("call", lambda: self._crossings.take(graph, inputs))
            outputs = original(compiled, inputs)
            self._guarded("call", lambda: self._crossings.give(graph, outputs))
            return outputs

        return call

    def _keep_fallbacks(self, lowering: Any) -> None:
        """Keep the operators that lowering.py knows before any compilation, some of
        which go to eager code for some arguments. While graphs are compiled,
        ``make_fallback`` adds operators without a lowering."""
        self._explicit = frozenset(
            (
                *getattr(lowering, "fallbacks", ()),
                *getattr(lowering, "lowerings", ()),
            )
        )

    def _leave_caches_out(self, config: Any) -> None:
        """Disable reading and writing of the FX graph cache and of AOTAutograd's
        cache: a graph whose code comes from a cache is not lowered, and shows
        nothing."""
        if hasattr(config, "force_disable_caches"):
            self._config = (config, config.force_disable_caches)
            config.force_disable_caches = True

    def _around(self, owner: Any, name: str, made: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            self._records.write(
                "inductor_hook", hook=name, error="this torch has no such method"
            )
            return
        self._replaced.put(owner, name, functools.wraps(original)(made(original)))

    def _put_kernel_hook(self, module: Any) -> None:
        self._put_definition_hook(module)
        original = getattr(module, _KERNEL_HOOK, None)
        if original is None or hasattr(original, "__wrapped__"):
            return  # not in this torch, or it imported the replaced function from debug.py
        watch = self

        @functools.wraps(original)
        def kernel(schedule: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            graph = watch._graph
            if graph is not None:
                watch._guarded("kernel", lambda: graph.called.take(schedule, name))
            return original(schedule, name, *args, **kwargs)

        self._replaced.put(module, _KERNEL_HOOK, kernel)

    def _put_definition_hook(self, module: Any) -> None:
        for name in _BACK_ENDS:
            owner = getattr(module, name, None)
            if owner is not None and "define_kernel" in vars(owner):
                self._around(owner, "define_kernel", self._defining)

    def _defining(self, original: Any) -> Any:
        def define_kernel(
            scheduling: Any, code: Any, nodes: Any, *args: Any, **kwargs: Any
        ) -> Any:
            name = original(scheduling, code, nodes, *args, **kwargs)
            graph = self._graph
            if graph is not None:
                self._guarded("kernel", lambda: graph.defined.take(nodes, name))
            return name

        return define_kernel

    def _guarded(self, hook: str, work: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            work()
        except Exception as error:
            if hook not in self._failed_hooks:
                self._failed_hooks.add(hook)
                text = "%s: %s" % (type(error).__name__, first_line(error))
                self._records.write("inductor_hook", hook=hook, error=text)
        self.own_seconds += time.perf_counter() - began

    def _lower(self, original: Any) -> Any:
        """Wrap the lowering: the scheduler never sees a graph with an operator that
        cannot be lowered."""

        def run(lowering: Any, *args: Any, **kwargs: Any) -> Any:
            self._lowered += 1
            try:
                return original(lowering, *args, **kwargs)
            except Exception as error:
                if (
                    self._lowered == 1
                ):  # else a graph inside another, which fails with it
                    graph = _Graph(lowering)
                    self._guarded("operators", lambda: self._read_operators(graph))
                    self._write_failure(graph, error)
                raise
            finally:
                self._lowered -= 1

        return run

    def _scheduling(self, original: Any) -> Any:
        def init(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            self._guarded("begin", self._begin)
            graph, began = self._graph, time.perf_counter()
            try:
                return original(scheduler, *args, **kwargs)
            except Exception as error:
                self._write_failure(graph, error)
                raise
            finally:
                if graph is not None:
                    graph.seconds["schedule"] = time.perf_counter() - began

        return init

    def _in_round(self, original: Any) -> Any:
        def fuse_nodes_once(*args: Any, **kwargs: Any) -> Any:
            if self._graph is not None:
                self._graph.round += 1
            return original(*args, **kwargs)

        return fuse_nodes_once

    def _deciding(self, original: Any) -> Any:
        def can_fuse(
            scheduler: Any, first: Any, second: Any, *args: Any, **kwargs: Any
        ) -> Any:
            graph = self._graph
            texts = graph.texts if graph is not None else 0
            decided = original(scheduler, first, second, *args, **kwargs)
            if graph is not None and not decided and graph.texts == texts:
                self._guarded(
                    "can_fuse",
                    lambda: self._refuse(first.get_name(), second.get_name(), None),
                )
            return decided

        return can_fuse

    def _refusing(self, original: Any) -> Any:
        def call(why: Any, reason: str, *args: Any) -> Any:
            if self._graph is not None:
                self._guarded(
                    "WhyNoFuse", lambda: self._refuse_with_text(why, reason, args)
                )
            return original(why, reason, *args)

        return call

    def _generating(self, original: Any) -> Any:
        def codegen(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            graph, began = self._graph, time.perf_counter()
            self._guarded("final", lambda: self._read_final(scheduler))
            try:
                made = original(scheduler, *args, **kwargs)
            except Exception as error:
                self._write_failure(graph, error)
                raise
            if graph is not None:
                graph.seconds["codegen"] = time.perf_counter() - began
                self._guarded("graph", lambda: self._write(graph))
            self._graph = None
            return made

        return codegen

    # -- records made by the hooks ---------------------------------------------------------------------------

    def _begin(self) -> None:
        lowering = sys.modules["torch._inductor.virtualized"].V.graph
        self._graph = _Graph(lowering)
        self._read_operators(self._graph)

    def _read_operators(self, graph: _Graph) -> None:
        graph.operators = self._operators.of_graph(graph.lowering.module.graph)

    def _refuse_with_text(
        self, why: Any, reason: str, args: tuple[Any, ...]
    ) -> None:
        assert self._graph is not None
        self._graph.texts += 1
        # Names of nodes, and before 2.11 the nodes themselves.
        first = why.name1 if hasattr(why, "name1") else why.node1.get_name()
        second = why.name2 if hasattr(why, "name2") else why.node2.get_name()
        self._refuse(first, second, str(reason % args if args else reason))

    def _refuse(self, first: str, second: str, text: str | None) -> None:
        assert self._graph is not None
        self._graph.refused[first, second] = (text, self._graph.round)

    def _read_final(self, scheduler: Any) -> None:
        graph = self._graph
        if graph is None:
            return
        called = called_operators(scheduler.nodes)
        graph.final = [
            final_node(node, called, self._explicit, graph.lowering)
            for node in scheduler.nodes
        ]
        by_name = {node.get_name(): node for node in scheduler.nodes}
        for (first, second), (text, _) in graph.refused.items():
            without_shared = text is not None and text.startswith(_NO_SHARED_DATA)
            both_final = first in by_name and second in by_name
            if without_shared and both_final and len(graph.shared) < _MOST_SHARED:
                shared = why_not_shared(scheduler, by_name[first], by_name[second])
                graph.shared[first, second] = shared
        names: dict[str, None] = {}
        for node in graph.final:
            for access in (*node["reads"], *node["writes"]):
                names[access["buffer"]] = None
        graph.buffers = buffers_of(graph.lowering, names)

    # -- records ---------------------------------------------------------------------------------------------

    def _write_failure(self, graph: _Graph | None, error: Exception) -> None:
        if graph is not None and not graph.written:
            self._guarded("failed", lambda: self._write(graph, first_line(error)))
        self._graph = None

    def _write(self, graph: _Graph, failed: str | None = None) -> None:
        graph.written = True
        self.graphs += 1
        compile_id, lowering = self._compile_id(), graph.lowering
        order = self._orders.get(compile_id, 0)
        self._orders[compile_id] = order + 1
        kernels = graph.called or graph.defined
        for node in graph.final:
            node["kernel"] = kernels.first_with(node["members"])
        refusals, left_out = self._refusals(graph)
        if not getattr(lowering, "is_backward", False):
            self._crossings.name(lowering, compile_id, order)
        self._records.write(
            "inductor_graph",
            compile_id=compile_id,
            order=order,
            graph_number=getattr(lowering, "graph_id", None),
            backward=bool(getattr(lowering, "is_backward", False)),
            inference=bool(getattr(lowering, "is_inference", False)),
            operators=graph.operators,
            final=graph.final,
            kernels=kernels.records(),
            buffers=graph.buffers,
            refusals=refusals,
            refusals_left_out=left_out,
            outputs=or_none(lambda: list(lowering.get_output_names())) or [],
            failed=failed,
            seconds={
                stage: round(seconds, 6) for stage, seconds in graph.seconds.items()
            },
        )

    def _refusals(self, graph: _Graph) -> tuple[list[dict[str, Any]], int]:
        """The records of refused pairs, and the number of pairs left out. Pairs
        within one final node are left out, as they were fused in the end."""
        node_of = {}
        for node in graph.final:
            for member in node["members"]:
                node_of[member] = node["name"]
        names = {node["name"] for node in graph.final}
        of_final, of_members = [], []
        for (first, second), (text, number) in graph.refused.items():
            record = {
                "first": first,
                "second": second,
                "text": text,
                "round": number,
                "last_round": number == graph.round,
                "why_not_shared": sorted(
                    graph.shared.get((first, second), {}).items()
                ),
            }
            if first in names and second in names:
                of_final.append(record)
            elif not graph.final or _apart(first, second, node_of):
                of_members.append(record)
        every = of_final + of_members
        return every[:MOST_REFUSALS], max(0, len(every) - MOST_REFUSALS)

    def _compile_id(self) -> str | None:
        """Return ``0/0``, or ``0/0_1`` after a restart of the analysis, as in
        torch's log (torch/_guards.py)."""
        context = sys.modules["torch._guards"].CompileContext
        found = or_none(context.current_trace_id)
        if found is None:
            return None
        return str(found)

    def _write_breaks(self) -> None:
        """Write records of graph breaks (``graph_break_reasons`` of
        torch/_dynamo/utils.py)."""
        utils = sys.modules.get("torch._dynamo.utils")
        reasons = list(getattr(utils, "graph_break_reasons", ()))[:_MOST_BREAKS]
        for reason in reasons:
            stack = list(getattr(reason, "user_stack", None) or ())
            frame = stack[-1] if stack else None
            if frame is None:
                source = None
            else:
                source = "%s:%s" % (frame.filename, frame.lineno)
            self._records.write(
                "inductor_break",
                text=str(reason.reason),
                source=source,
                function=None if frame is None else frame.name,
            )

    def _write_totals(self) -> None:
        """Write torch's own counters, and the time spent in the hooks."""
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
        kept = {}
        for name in ("inductor", "stats", "frames"):
            if name in counters:
                kept[name] = dict(counters[name])
        self._records.write(
            "inductor_totals",
            torch=str(self._torch.__version__),
            graphs=self.graphs,
            hook_seconds=round(self.own_seconds, 6),
            counters={
                name: {str(key): value for key, value in of.items()}
                for name, of in kept.items()
            },
        )


def _apart(first: str, second: str, node_of: dict[str, str]) -> bool:
    """True if members of two nodes of an earlier round are in different final
    nodes."""
    return node_of.get(first.split("_")[0], first) != node_of.get(
        second.split("_")[0], second
    )
