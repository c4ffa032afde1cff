"""From a group of the report to a recipe: its printed graph found in the log, each
node in a form that every torch reads back and runs.

The report has the position at which a group was printed, not the graph. This module
reads the log once more and returns whole prints: a graph with its ``with``
sections, taken out of the other lines that may come between its own, with the log's
own line numbers.

``torch._C.parse_ir`` refuses some forms that torch prints, and some operators exist
only inside a fusion pass. An operator that cannot be rebuilt is reported, and its
outputs become inputs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fusiondoc.fusers import FUSER_OF_KIND, stand_ins
from fusiondoc.model import dataclass, field
from fusiondoc.model.report import Group, OpNode
from fusiondoc.parsers.ir import Graph, IrDump, Node, SubgraphSection, Value
from fusiondoc.parsers.ir.parse import parse_dump
from fusiondoc.parsers.ir.types import (
    TensorType,
    holds_tensor,
    is_tensor,
    parse_type,
)
from fusiondoc.parsers.jit.message_runs import PREFIX
from fusiondoc.parsers.jit.plan import PlanGroup
from fusiondoc.parsers.jit.plan_walk import summarise, summarise_group
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.tagged_lines import Tag, tagged_lines
from fusiondoc.repro import (
    DEFINED,
    Input,
    ReproRecipe,
    ReproStep,
    ScalarSpec,
    scalar_input,
    tensor_constant,
    tensor_input,
)
from fusiondoc.repro.permitted import is_literal, permit

_FOREIGN = 40
"""Lines of other content after which a graph without a prefix counts as ended."""
_CONTINUES = (b" ", b"with ", b"-> (", b"[ ")


@dataclass
class _GraphPrint:
    """``lines`` of one graph and its sections; ``first`` and ``last`` are its lines
    in the log. ``header`` is the text of the message before it, '' for a bare
    print."""

    header: str
    first: int
    last: int = 0
    lines: list[bytes] = field(default_factory=list)
    foreign: int = 0


def _graph_prints(log: LogInput) -> Iterator[_GraphPrint]:
    """Every graph print of a log, in the order in which they end."""
    prints: dict[tuple[Tag, bytes], _PrintsOfPrefix] = {}
    for number, tag, line in tagged_lines(log):
        found = PREFIX.match(line)
        prefix = found.group() if found is not None else b""
        own = prints.get((tag, prefix))
        if own is None:
            own = prints[tag, prefix] = _PrintsOfPrefix(bool(prefix))
        ended = own.take(number, line[len(prefix) + 1 :] if prefix else line)
        if ended is not None:
            yield ended
    still_open = [own.current for own in prints.values() if own.current is not None]
    yield from sorted(still_open, key=lambda line: line.first)


class _PrintsOfPrefix:
    """The graph prints of one prefix of one process, line by line."""

    def __init__(self, is_prefixed: bool) -> None:
        self.current: _GraphPrint | None = None
        self._is_prefixed = is_prefixed
        self._header = ""
        """The message before the next graph."""

    def take(self, number: int, text: bytes) -> _GraphPrint | None:
        """The print that ends with this line."""
        at = text.find(b"graph(")
        is_message = self._is_prefixed and not text.startswith(_CONTINUES)
        if at == 0 or (at > 0 and is_message):
            ended = self.current
            header = _text_of(text[:at])
            if not header:
                header, self._header = self._header, ""
            self.current = _GraphPrint(header, number, number, [text[at:]])
            return ended
        if is_message and text.strip():
            self._header = _text_of(text)
            return self._end()
        if self.current is None:
            return None
        if text.startswith(_CONTINUES):
            self.current.lines.append(text)
            self.current.last = number
            self.current.foreign = 0
        elif not self._is_prefixed:
            self.current.foreign += 1
            if self.current.foreign > _FOREIGN or self.current.lines[-1].startswith(
                b"  return ("
            ):
                return self._end()
        return None

    def _end(self) -> _GraphPrint | None:
        ended, self.current = self.current, None
        return ended


def _text_of(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


_CACHE_HEADER = "GraphCache created for graph"
"""Header of kernel_cache.cpp (torch 1.12 to 2.1): the graph is the body of a group
itself."""


@dataclass(frozen=True)
class PrintedGroup:
    """The body of a group as the log prints it, with the dump around it."""

    group: Group
    dump: IrDump
    graph: Graph
    section: SubgraphSection | None
    file: str
    line: int
    """The line of the log with the body's ``graph(``, if no other line is inside
    the print."""
    text: str
    """The body as printed."""

    def constant(self, number: int) -> object:
        """The value of the body's input ``number`` if it is a constant in the graph
        around it.

        Raises LookupError if the log does not hold it.
        """
        section, name = self.section, None
        while (
            section is not None
            and section.node is not None
            and section.parent is not None
        ):
            if number >= len(section.node.inputs):
                break
            name = section.node.inputs[number]
            names = [value.name for value in section.parent.params]
            if name not in names:
                for node in section.parent.walk():
                    if node.kind == "prim::Constant" and [
                        output.name for output in node.outputs
                    ] == [name]:
                        return _python_value(node)
                break
            number = names.index(name)
            section = next(
                (s for s in self.dump.sections if s.graph is section.parent), None
            )
        raise LookupError(name)


def _python_value(node: Node) -> object:
    """The value of a ``prim::Constant`` of numbers, strings or lists of them;
    LookupError for anything else."""
    kind = node.outputs[0].type
    if not node.attributes:
        return None
    text = node.attributes.get("value", "<none>")
    if not is_literal(kind, text):
        raise LookupError(text)
    if text.startswith("annotate("):
        return []
    if text.lstrip("-") in ("inf", "nan"):
        value: object = float(text)
    else:
        value = ast.literal_eval(text)
    if kind == "bool":
        return bool(value)
    if kind == "bool[]" and isinstance(value, list):
        return [bool(item) for item in value]
    return value


def find_group(group: Group, logs: Sequence[LogInput]) -> PrintedGroup | None:
    """The first whole print of a group among the logs; an incomplete print if there
    is no other."""
    cut_off: PrintedGroup | None = None
    for log in logs:
        lines = []
        for e in group.evidence:
            if e.file == log.name:
                lines.append(e.line)
        lines.sort()
        if not lines:
            continue
        for shown in _graph_prints(log):
            near = [line for line in lines if shown.first <= line <= shown.last]
            if near:
                found = _in_print(group, shown, near[0], log.name)
                if found is not None and found.graph.complete:
                    return found
                cut_off = cut_off or found
    return cut_off


def _in_print(
    group: Group, shown: _GraphPrint, line: int, file: str
) -> PrintedGroup | None:
    dump = parse_dump(shown.lines)
    plan = summarise(dump).plan
    body = tuple((node.op, node.source) for node in group.nodes)
    same = []
    for printed in plan.every_group():
        if printed.body == body and printed.inputs == group.inputs:
            same.append(printed)
    if not same:
        return None
    nearest = min(same, key=lambda printed: abs(shown.first + printed.line - line))
    section = next((s for s in dump.sections if s.graph.line == nearest.line), None)
    if section is None:
        return None
    return PrintedGroup(
        group,
        dump,
        section.graph,
        section,
        file,
        shown.first + nearest.line,
        _text(shown, section.graph),
    )


def _text(shown: _GraphPrint, graph: Graph) -> str:
    lines: list[str] = []
    for line in shown.lines[graph.line :]:
        text = line.decode("utf-8", "backslashreplace")
        lines.append(text[text.find("graph(") :] if not lines else text)
        if text.startswith("  return ("):
            break
    return "\n".join(lines)


def cached_graphs(logs: Sequence[LogInput]) -> list[PrintedGroup]:
    """The groups of a log that has only prints of GraphCaches: each distinct graph,
    with the name it would have in a report."""
    found: list[PrintedGroup] = []
    seen: set[bytes] = set()
    for log in logs:
        for shown, dump, plan in _cache_prints(log):
            if plan.canonical in seen or not plan.body:
                continue
            seen.add(plan.canonical)
            group = _cache_group(f"G{len(found) + 1}", plan)
            found.append(
                PrintedGroup(
                    group,
                    dump,
                    dump.graph,
                    None,
                    log.name,
                    shown.first,
                    _text(shown, dump.graph),
                )
            )
    return found


def _cache_prints(log: LogInput) -> Iterator[tuple[_GraphPrint, IrDump, PlanGroup]]:
    for shown in _graph_prints(log):
        if shown.header == _CACHE_HEADER:
            dump = parse_dump(shown.lines)
            yield shown, dump, summarise_group(dump)


def _cache_group(name: str, plan: PlanGroup) -> Group:
    nodes = [OpNode(op, source, None) for op, source in plan.body]
    return replace(
        Group.of_operators(name, None, nodes),
        kind=plan.kind,
        name=f"prim::{plan.kind}",
        inputs=plan.inputs,
        outputs=plan.outputs,
    )


_INFERRED = ("prim::infer_unsqueeze_size", "prim::infer_squeeze_size")
"""Sizes for prim::view_copy that the fusion pass computes (same file)."""

_TAKES_SIZES = ("prim::view_copy", "prim::reshape_copy", "prim::expand_copy")
_SAME = (
    "prim::profile",
    "prim::profile_ivalue",
    "prim::unchecked_cast",
    "prim::unchecked_unwrap_optional",
)
"""Nodes that return their input."""


class _Rebuild:
    def __init__(self) -> None:
        self.steps: list[ReproStep] = []
        self.constants: list[Input] = []
        self.lost: list[Value] = []
        self.problems: list[str] = []
        self.same: dict[str, str] = {}
        self.nothing: set[str] = set()
        self.inferred: set[str] = set()
        self.masks: dict[str, list[str]] = {}
        self.undefined: set[str] = set()
        self.defined: dict[str, str] = {}
        self._made = 0

    def fresh(self) -> str:
        self._made += 1
        return f"made.{self._made}"

    def give_up(self, node: Node, why: str) -> None:
        names = ", ".join("%" + value.name for value in node.outputs)
        where = f" of {node.source}" if node.source else ""
        self.problems.append(f"{node.kind}{where} ({names}) is not rebuilt: {why}")
        self.lost.extend(node.outputs)

    def node(self, node: Node) -> None:
        permit(node)
        kind = node.kind
        inputs = tuple(self.same.get(name, name) for name in node.inputs)
        if kind == "prim::Constant":
            self.constant(node)
        elif kind in _SAME and len(inputs) == 1 and len(node.outputs) == 1:
            self.same[node.outputs[0].name] = inputs[0]
        elif kind == "prim::add_optional" and len(inputs) == 2:
            self.add_optional(node, inputs)
        elif kind in _INFERRED:
            self.inferred.update(value.name for value in node.outputs)
        elif (
            kind in _TAKES_SIZES and len(inputs) > 1 and inputs[1] in self.inferred
        ):
            self.sized(node, inputs)
        else:
            parts = []
            for name, text in node.attributes.items():
                parts.append(f"{name}={text}")
            attributes = ", ".join(parts)
            self.step(node, stand_ins().get(kind, kind), attributes, inputs)

    def step(
        self, node: Node, kind: str, attributes: str, inputs: Sequence[str]
    ) -> None:
        outputs = tuple((value.name, value.type) for value in node.outputs)
        self.steps.append(
            ReproStep(outputs, kind, attributes, tuple(inputs), node.source)
        )
        masks = []
        if "_backward" in kind:
            masks = [self.masks[name] for name in inputs if name in self.masks]
        if masks and len(masks[0]) == len(outputs):
            # output_mask of native_layer_norm_backward and its like: no such
            # gradient is computed.
            requested = zip(outputs, masks[0])
            for (name, _), value in requested:
                if value in ("False", "0"):
                    self.undefined.add(name)

    def output(self, name: str) -> str:
        """The value that the file returns for an output of the group."""
        name = self.same.get(name, name)
        if name not in self.undefined:
            return name
        if name not in self.defined:
            self.defined[name] = self.fresh()
            self.steps.append(
                ReproStep(((self.defined[name], "bool"),), DEFINED, "", (name,))
            )
        return self.defined[name]

    def value(self, type_: str, text: str) -> str:
        """Return a constant that the print does not have."""
        name = self.fresh()
        self.steps.append(
            ReproStep(((name, type_),), "prim::Constant", f"value={text}", ())
        )
        return name

    def add_optional(self, node: Node, inputs: Sequence[str]) -> None:
        """``input + bias``, or ``input`` if the bias is None."""
        if inputs[1] in self.nothing:
            self.same[node.outputs[0].name] = inputs[0]
        else:
            self.step(node, "aten::add", "", (*inputs, self.value("int", "1")))

    def sized(self, node: Node, inputs: Sequence[str]) -> None:
        tensor = parse_type(node.outputs[0].type)
        sizes = tensor.sizes if isinstance(tensor, TensorType) else None
        if sizes is None or None in sizes:
            self.give_up(
                node,
                "its sizes are worked out at run time, and its type does not contain them",
            )
        else:
            if sizes:
                text = f"[{', '.join(map(str, sizes))}]"
            else:
                text = "annotate(List[int], [])"
            given = (inputs[0], self.value("int[]", text), *inputs[2:])
            self.step(node, stand_ins()[node.kind], "", given)

    def constant(self, node: Node) -> None:
        value = node.outputs[0]
        if not node.attributes:
            self.nothing.add(value.name)
            self.step(node, node.kind, "", ())
            return
        text = node.attributes.get("value")
        if text is None or len(node.attributes) > 1:
            self.give_up(node, "it is no value that a log prints")
        elif is_tensor(value.type):
            made = tensor_constant(value.name, value.type, text)
            if made is None:
                self.give_up(
                    node, "it is a tensor whose sizes the log does not print"
                )
            else:
                self.constants.append(made)
        elif value.type.endswith("[]"):
            self.list_constant(node, value, text)
        elif text in ("-inf", "-nan"):
            # parse_ir of torch 1.12 accepts no sign there.
            self.step(node, "aten::neg", "", (self.value("float", text[1:]),))
        elif text.startswith(("{", "(", "<", "[")):
            self.give_up(node, "parse_ir does not take such a constant")
        else:
            self.step(node, node.kind, f"value={_truth(text)}", ())

    def list_constant(self, node: Node, value: Value, text: str) -> None:
        element = value.type[:-2]
        if text.startswith("annotate(") or text == "[]":
            self.step(node, node.kind, f"value=annotate(List[{element}], [])", ())
        elif not text.startswith("[") or "<" in text or "{" in text or "(" in text:
            self.give_up(node, "parse_ir does not take such a constant")
        elif element == "bool" or "inf" in text or "nan" in text:
            # parse_ir reads a list of bools as a list of numbers, which no operator
            # accepts, and torch 1.12 reads neither True nor inf in it. The executor
            # folds this back into a constant.
            self.masks[value.name] = _items(text)
            self.step(
                node,
                "prim::ListConstruct",
                "",
                [self.item(element, item) for item in _items(text)],
            )
        else:
            self.step(node, node.kind, f"value={text}", ())

    def item(self, element: str, text: str) -> str:
        name = self.value(
            element,
            _truth(text.lstrip("-")) if element == "float" else _truth(text),
        )
        if element != "float" or not text.startswith("-"):
            return name
        negative = self.fresh()
        self.steps.append(
            ReproStep(((negative, element),), "aten::neg", "", (name,))
        )
        return negative


def _items(text: str) -> list[str]:
    return text[1:-1].split(", ")


def _truth(text: str) -> str:
    return {"True": "1", "False": "0"}.get(text, text)


def rebuild(
    found: PrintedGroup, hints: Sequence[str] = (), fuser: str | None = None
) -> ReproRecipe:
    """The recipe of a printed group.

    ``hints``: types of the same inputs from another print of the same operators,
    for sizes that this one does not have.

    Raises:
        UsageError: the graph holds a node that no fusion group can hold.
    """
    work = _Rebuild()
    if not found.graph.complete:
        work.problems.append(
            "the log breaks off inside the graph, or lines of it are mangled"
        )
    for node in found.graph.nodes:
        work.node(node)
    outputs = [work.output(name) for name in found.graph.outputs] or _untaken(
        work.steps
    )
    for name in _missing(found, work, outputs):
        work.problems.append(
            f"%{name} is defined in a part of the graph that is missing"
        )
        work.lost.append(Value(name, "Tensor"))
    recipe = ReproRecipe(
        fuser=fuser or FUSER_OF_KIND[found.group.kind].name,
        inputs=(*_inputs(found, work, hints), *work.constants),
        steps=tuple(work.steps),
        outputs=tuple(outputs),
        dynamic=any(
            "*" in value.type or "SS(" in value.type for value in found.graph.params
        ),
        problems=tuple(work.problems),
    )
    return recipe.pruned()


def _untaken(steps: Sequence[ReproStep]) -> list[str]:
    """The results of operators that no step uses."""
    taken: set[str] = set()
    for step in steps:
        taken.update(step.inputs)
    results = []
    for step in steps:
        if step.operator:
            for name, _ in step.outputs:
                results.append(name)
    return [name for name in results if name not in taken]


def _missing(
    found: PrintedGroup, work: _Rebuild, outputs: Sequence[str]
) -> list[str]:
    """Values that steps use or that are outputs, and that nothing in the print
    defines."""
    defined = {value.name for value in (*found.graph.params, *work.lost)}
    defined.update(constant.name for constant in work.constants)
    for step in work.steps:
        defined.update(name for name, _ in step.outputs)
    taken: list[str] = []
    for step in work.steps:
        taken.extend(step.inputs)
    missing = []
    for name in dict.fromkeys([*taken, *outputs]):
        if name not in defined:
            missing.append(name)
    return missing


def _inputs(
    found: PrintedGroup, work: _Rebuild, hints: Sequence[str]
) -> list[Input]:
    types = {}
    for step in work.steps:
        for name, type_ in step.outputs:
            types[name] = type_
    largest = _largest(found)
    made = []
    params = found.graph.params
    for number, value in enumerate((*params, *dict.fromkeys(work.lost))):
        input_: Input | None
        if holds_tensor(value.type) and is_tensor(value.type):
            hint = _hint(hints, number) if number < len(params) else None
            input_ = tensor_input(
                value.name, value.type, work.steps, hint or largest
            )
        else:
            try:
                if number >= len(params):
                    raise LookupError
                input_ = Input(
                    value.name, value.type, ScalarSpec(found.constant(number))
                )
            except LookupError:
                input_ = scalar_input(value.name, value.type, work.steps, types)
        if input_ is None:
            work.problems.append(
                f"no value of type {value.type} can be made for %{value.name}: the file takes None for it"
            )
            input_ = Input(
                value.name,
                value.type,
                ScalarSpec(None),
                "no such value can be made",
            )
        made.append(input_)
    return made


def _hint(hints: Sequence[str], number: int) -> tuple[int | None, ...] | None:
    tensor = parse_type(hints[number]) if number < len(hints) else None
    if isinstance(tensor, TensorType):
        return tensor.sizes
    return None


def _largest(found: PrintedGroup) -> tuple[int | None, ...] | None:
    """The sizes of the largest result of the node around the body: operators
    broadcast to them."""
    best: tuple[int | None, ...] | None = None
    node = found.section.node if found.section is not None else None
    for value in node.outputs if node is not None else ():
        tensor = parse_type(value.type)
        if (
            isinstance(tensor, TensorType)
            and tensor.sizes
            and len(tensor.sizes) > len(best or ())
        ):
            best = tensor.sizes
    return best
