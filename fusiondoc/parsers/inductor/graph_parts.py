"""The texts about each compiled graph in one source. They come one after the other,
and are assigned to graphs by compile id and order."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import Any

from fusiondoc.fusers.inductor.compilation import (
    FinalNode,
    GraphBreak,
    Line,
    Recompile,
)
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.inductor.fusion_log import Decisions, FusionLog
from fusiondoc.parsers.inductor.fx_graph import ReadGraph, graph_of
from fusiondoc.parsers.inductor.generated_code import (
    GeneratedModule,
    generated_module,
)
from fusiondoc.parsers.inductor.post_fusion_ir import final_nodes
from fusiondoc.parsers.inductor.provenance import Provenance, object_of
from fusiondoc.parsers.inductor.text_lines import TextLines

OUTPUT_CODE, POST_FUSION_IR = "output_code", "ir_post_fusion"
"""Artifacts about a whole graph."""

_RETURN = re.compile(r"^\s+return\b", re.MULTILINE)
"""The end of a graph, and of the function that calls the kernels: text after it is
not read."""
_BYTES = re.compile(r"'num_bytes_accessed': (\d{1,19})")
_NODE = re.compile(r"\((\w+)\((?:name='|nodes=)(\w+)'?\), ")


@dataclass
class GraphParts:
    """The texts about a compiled graph in one source."""

    compile_id: str | None
    rank: int | None = None
    line: Line | None = None
    graph: ReadGraph | None = None
    decisions: Decisions | None = None
    ir: list[FinalNode] = field(default_factory=list)
    """Final nodes from the IR after fusion."""
    module: GeneratedModule | None = None
    module_lines: TextLines | None = None
    provenance: Provenance = field(default_factory=Provenance)
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Configuration of each kernel, from the record ``triton_kernel_info``."""
    classes: dict[str, str] = field(default_factory=dict)
    """Name -> class of the final nodes in the order of their code, from the
    artifact ``inductor_metrics``."""
    bytes_accessed: int | None = None
    from_cache: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    failed: str | None = None
    failed_at: str | None = None
    """``CompiledGraph.failed_at``."""
    texts: dict[str, bytes] = field(default_factory=dict)
    """``CompiledGraph.texts``."""
    cut: int = 0
    """Number of truncated texts."""

    def take_module(self, text: str, lines: TextLines) -> None:
        """Read the generated module."""
        self.module, self.module_lines = generated_module(text), lines
        call = text.find("def call(")
        self.cut += call < 0 or _RETURN.search(text, call) is None
        self.texts[OUTPUT_CODE] = zlib.compress(text.encode("utf-8"), 1)

    def take_ir(self, text: str, lines: TextLines) -> None:
        """Read the loop IR after fusion."""
        self.ir = final_nodes(text, lines)
        self.texts[POST_FUSION_IR] = zlib.compress(text.encode("utf-8"), 1)


class PartsOfProcess:
    """Assigns the texts that one process writes to graphs."""

    def __init__(self, rank: int | None = None) -> None:
        self.rank = rank
        self.graphs: list[GraphParts] = []
        self.breaks: list[GraphBreak] = []
        self.recompiles: list[Recompile] = []
        self.fallbacks: dict[str, None] = {}
        self.torch: str | None = None
        self.torch_is_guessed = False
        self.unknown: dict[str, None] = {}
        """Texts of known artifacts in an unknown form; only the first ones."""
        self.cache_hits = 0
        self.cut_records = 0
        """Number of truncated records of a trace."""
        self._open: dict[str | None, GraphParts] = {}
        self._fusion = FusionLog()

    def fusion(self, compile_id: str | None, text: str, line: Line) -> bool:
        """Read a line of the artifact ``fusion``; return False if its form is not
        known."""
        known, begun = self._fusion.take(compile_id, text, line)
        if begun is not None:
            parts = self._current(compile_id, line)
            if parts.decisions is not None or parts.module is not None:
                parts = self._begin(compile_id, line)
            parts.decisions = begun
        if not known:
            self.not_known(text)
        return known

    def post_grad_graph(
        self, compile_id: str | None, text: str, lines: TextLines
    ) -> None:
        """Read a graph after the post-grad passes."""
        parts = self._current(compile_id, lines.begin)
        if (
            parts.graph is not None
            and parts.graph.digest == hash(text)
            and parts.module is None
        ):
            return  # 2.11 writes it under two names
        if (
            parts.graph is not None
            or parts.decisions is not None
            or parts.module is not None
        ):
            parts = self._begin(compile_id, lines.begin)
        parts.graph = graph_of(text, lines)
        parts.cut += _RETURN.search(text) is None

    def post_fusion_ir(
        self, compile_id: str | None, text: str, lines: TextLines
    ) -> None:
        """Read the loop IR after fusion."""
        self._current(compile_id, lines.begin).take_ir(text, lines)

    def output_code(
        self, compile_id: str | None, text: str, lines: TextLines
    ) -> None:
        """Read a generated module."""
        self._without_module(compile_id, lines.begin).take_module(text, lines)

    def _without_module(self, compile_id: str | None, line: Line) -> GraphParts:
        """Return the graph to which the next module belongs: graphs inside a graph
        have no module of their own, and are read after it."""
        for parts in reversed(self.graphs):
            if parts.compile_id == compile_id and parts.module is None:
                return parts
        return self._begin(compile_id, line)

    def cache_hit(self, compile_id: str | None) -> None:
        """Record that the last code came from the FX graph cache: the record of the
        hit follows the code."""
        self.cache_hits += 1
        parts = self.latest(compile_id)
        if parts is not None and parts.decisions is None:
            parts.from_cache = True

    def latest(self, compile_id: str | None) -> GraphParts | None:
        """Return the last graph of a compilation that was read."""
        return self._open.get(compile_id)

    def of_phase(self, compile_id: str | None, phase: str) -> GraphParts | None:
        """Return the last graph of a compilation with code of this phase; inference
        counts as forward."""
        is_backward = phase == "backward"
        for parts in reversed(self.graphs):
            module = parts.module
            if module is None or parts.compile_id != compile_id:
                continue
            if (module.phase == "backward") == is_backward:
                return parts
        return None

    def failed_compilation(
        self, compile_id: str | None, error: str, at: str | None, line: Line
    ) -> None:
        """Record the error of a compilation: it belongs to the last graph without
        code of that compilation; without such a graph a new one is added.

        Args: compile_id: None if the log does not state it: then the last graph of
        all is used. at: ``file:line`` of the function, if it is known.
        """
        same = (
            one
            for one in reversed(self.graphs)
            if compile_id in (None, one.compile_id)
        )
        parts = next(same, None)
        if parts is None or parts.module is not None or parts.failed is not None:
            parts = self._begin(compile_id, line)
        parts.failed, parts.failed_at = error, at

    def metrics(self, compile_id: str | None, text: str) -> bool:
        """Read a message of the artifact ``inductor_metrics``; return False if its
        form is not known."""
        found = _BYTES.search(text)
        parts = self.latest(compile_id)
        if found is None or parts is None:
            return found is not None
        parts.bytes_accessed = whole_number(found.group(1))
        elements = text.partition("'nodes_num_elem'")[2].partition(
            "'node_runtimes'"
        )[0]
        parts.classes = {name: kind for kind, name in _NODE.findall(elements)}
        return True

    def node_mappings(self, compile_id: str | None, text: str) -> None:
        """Read the provenance of kernels."""
        parts = self.latest(compile_id)
        if parts is not None:
            parts.provenance.take_mappings(text)

    def kernel_stacks(self, compile_id: str | None, text: str) -> None:
        """Read the stack traces of kernels."""
        parts = self.latest(compile_id)
        if parts is not None:
            parts.provenance.take_stacks(text)

    def kernel_info(self, compile_id: str | None, text: str) -> None:
        """Read the record ``triton_kernel_info``."""
        parts = self.latest(compile_id)
        info = object_of(text)
        if parts is not None:
            for name, of in info.items():
                if isinstance(of, dict):
                    parts.kernels[name] = of

    @property
    def cut(self) -> int:
        """The number of truncated records and texts."""
        begun = []
        for parts in self.graphs:
            if parts.decisions is not None:
                begun.append(parts.decisions)
        unfinished = sum(not decisions.complete for decisions in begun)
        return (
            self.cut_records + unfinished + sum(parts.cut for parts in self.graphs)
        )

    def not_known(self, text: str) -> None:
        """Record a text in an unknown form."""
        if len(self.unknown) < 20:
            self.unknown[text[:300]] = None

    def _current(self, compile_id: str | None, line: Line) -> GraphParts:
        parts = self._open.get(compile_id)
        if parts is None:
            return self._begin(compile_id, line)
        return parts

    def _begin(self, compile_id: str | None, line: Line) -> GraphParts:
        parts = GraphParts(compile_id, self.rank, line)
        self._open[compile_id] = parts
        self.graphs.append(parts)
        return parts
