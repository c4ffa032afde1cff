"""The printed graph of a group: from its evidence in the report back to the log.

The report keeps where a group was printed, not the graph. This reads the log once more and gives whole
prints back: a graph with its ``with`` sections, taken out of the other lines that may stand between its
own, with the log's own line numbers.
"""

from __future__ import annotations

import ast
from typing import Iterator, Sequence

from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.model.report import Group, OpNode
from fusiondoc.parsers.ir.graph import Dump, Graph, Node, Section
from fusiondoc.parsers.ir.parse import parse_dump
from fusiondoc.parsers.jit.message_runs import PREFIX
from fusiondoc.parsers.jit.plan import PlanGroup, summarise, summarise_group
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.tagged_lines import Tag, tagged_lines
from fusiondoc.repro.permitted import is_literal

_FOREIGN = 40
"""Lines of something else after which a graph without a prefix is over."""
_CONTINUES = (b" ", b"with ", b"-> (", b"[ ")


@dataclass
class GraphPrint:
    """``lines`` of one graph and its sections; ``first`` and ``last`` are its lines in the log. ``header`` is
    the text of the message before it, '' for a bare print."""

    header: str
    first: int
    last: int = 0
    lines: list[bytes] = field(default_factory=list)
    foreign: int = 0


def graph_prints(log: LogInput) -> Iterator[GraphPrint]:
    """Every graph print of a log, in the order in which they end."""
    opened: dict[tuple[Tag, bytes], GraphPrint] = {}
    headers: dict[tuple[Tag, bytes], str] = {}
    for number, tag, line in tagged_lines(log):
        found = PREFIX.match(line)
        prefix = found.group() if found is not None else b""
        key = (tag, prefix)
        text = line[len(prefix) + 1 :] if prefix else line
        current = opened.get(key)
        at = text.find(b"graph(")
        starts = at == 0 or (prefix and at > 0 and not text.startswith(_CONTINUES))
        if starts:
            if current is not None:
                yield opened.pop(key)
            header = text[:at].decode("utf-8", "replace").strip() or headers.pop(key, "")
            opened[key] = GraphPrint(header, number, number, [text[at:]])
        elif current is None:
            if prefix and text.strip() and not text.startswith(_CONTINUES):
                headers[key] = text.decode("utf-8", "replace").strip()
        elif text.startswith(_CONTINUES):
            current.lines.append(text)
            current.last = number
            current.foreign = 0
        elif prefix and text.strip():
            headers[key] = text.decode("utf-8", "replace").strip()
            yield opened.pop(key)
        elif not prefix:
            current.foreign += 1
            if current.foreign > _FOREIGN or current.lines[-1].startswith(b"  return ("):
                yield opened.pop(key)
    yield from opened.values()


CACHE_HEADER = "GraphCache created for graph"
"""Header of kernel_cache.cpp (torch 1.12 to 2.1): the graph is the body of a group itself."""


@dataclass(frozen=True)
class Found:
    """The body of a group as the log prints it, with the dump around it."""

    group: Group
    dump: Dump
    graph: Graph
    section: Section | None
    file: str
    line: int
    """The line of the log with the body's ``graph(``, if no other line stands inside the print."""
    text: str
    """The body as printed."""

    def constant(self, number: int) -> object:
        """The value of the body's input ``number`` where the graph around it has it as a constant.

        Raises LookupError if the log does not tell.
        """
        section, name = self.section, None
        while section is not None and section.node is not None and section.parent is not None:
            if number >= len(section.node.inputs):
                break
            name = section.node.inputs[number]
            names = [value.name for value in section.parent.params]
            if name not in names:
                for node in section.parent.walk():
                    if node.kind == "prim::Constant" and [one.name for one in node.outputs] == [name]:
                        return python_value(node)
                break
            number = names.index(name)
            section = next((s for s in self.dump.sections if s.graph is section.parent), None)
        raise LookupError(name)


def python_value(node: Node) -> object:
    """What a ``prim::Constant`` of numbers, strings or lists of them holds; LookupError for anything else."""
    kind = node.outputs[0].type
    if not node.attributes:
        return None
    text = node.attributes.get("value", "<none>")
    if not is_literal(kind, text):
        raise LookupError(text)
    if text.startswith("annotate("):
        return []
    value: object = float(text) if text.lstrip("-") in ("inf", "nan") else ast.literal_eval(text)
    if kind == "bool":
        return bool(value)
    if kind == "bool[]":
        return [bool(one) for one in value] if isinstance(value, list) else value
    return value


def find_group(group: Group, logs: Sequence[LogInput]) -> Found | None:
    """The first whole print of a group among the logs; a print that is cut off if there is no other."""
    cut_off: Found | None = None
    for log in logs:
        lines = sorted(e.line for e in group.evidence if e.file == log.name)
        if not lines:
            continue
        for shown in graph_prints(log):
            near = [line for line in lines if shown.first <= line <= shown.last]
            if near:
                found = _in_print(group, shown, near[0], log.name)
                if found is not None and found.graph.complete:
                    return found
                cut_off = cut_off or found
    return cut_off


def _in_print(group: Group, shown: GraphPrint, line: int, file: str) -> Found | None:
    dump = parse_dump(shown.lines)
    plan = summarise(dump)
    inner = [one for diff in plan.diff_graphs for one in diff.groups]
    body = tuple((node.op, node.source) for node in group.nodes)
    same = [one for one in (*plan.groups, *inner) if one.body == body and one.inputs == group.inputs]
    if not same:
        return None
    nearest = min(same, key=lambda one: abs(shown.first + one.line - line))
    section = next((s for s in dump.sections if s.graph.line == nearest.line), None)
    if section is None:
        return None
    return Found(
        group, dump, section.graph, section, file, shown.first + nearest.line, _text(shown, section.graph)
    )


def _text(shown: GraphPrint, graph: Graph) -> str:
    lines: list[str] = []
    for line in shown.lines[graph.line :]:
        text = line.decode("utf-8", "backslashreplace")
        lines.append(text[text.find("graph(") :] if not lines else text)
        if text.startswith("  return ("):
            break
    return "\n".join(lines)


def cached_graphs(logs: Sequence[LogInput]) -> list[Found]:
    """The groups of a log that prints only nvFuser's GraphCaches: each distinct graph, named as a report
    would name it."""
    found: list[Found] = []
    seen: set[bytes] = set()
    for log in logs:
        for shown, dump, plan in _cache_prints(log):
            if plan.canonical in seen or not plan.body:
                continue
            seen.add(plan.canonical)
            group = _cache_group(f"G{len(found) + 1}", plan)
            found.append(
                Found(group, dump, dump.graph, None, log.name, shown.first, _text(shown, dump.graph))
            )
    return found


def _cache_prints(log: LogInput) -> Iterator[tuple[GraphPrint, Dump, PlanGroup]]:
    for shown in graph_prints(log):
        if shown.header == CACHE_HEADER:
            dump = parse_dump(shown.lines)
            yield shown, dump, summarise_group(dump)


def _cache_group(name: str, plan: PlanGroup) -> Group:
    return Group(
        id=name,
        kind=plan.kind,
        name=f"prim::{plan.kind}",
        phase=None,
        specialisation=1,
        respecialises=None,
        nodes=tuple(OpNode(op, source, None) for op, source in plan.body),
        inputs=plan.inputs,
        outputs=plan.outputs,
        runs=None,
        kernels=(),
        bytes_in=None,
        bytes_out=None,
        fallback=False,
        rank=None,
    )
