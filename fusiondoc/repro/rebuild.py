"""From a printed graph to a recipe: each node in a form that every torch reads back and runs.

``torch._C.parse_ir`` refuses some of what torch prints, and some operators live only inside nvFuser's pass.
What cannot be rebuilt is said, and its outputs become inputs.
"""

from __future__ import annotations

from typing import Sequence

from fusiondoc.model.fusers import FUSER_OF_KIND
from fusiondoc.parsers.ir.graph import Node, Value
from fusiondoc.parsers.ir.types import TensorType, holds_tensor, is_tensor, parse_type
from fusiondoc.repro.locate import Found
from fusiondoc.repro.permitted import permit
from fusiondoc.repro.recipe import (
    DEFINED,
    Input,
    Recipe,
    ScalarSpec,
    Step,
    scalar_input,
    tensor_constant,
    tensor_input,
)

_COPIES = {
    f"prim::{name}_copy": f"aten::{name}"
    for name in (
        "view",
        "reshape",
        "flatten",
        "permute",
        "transpose",
        "t",
        "squeeze",
        "unsqueeze",
        "expand",
        "expand_as",
    )
}
"""nvFuser's stand-ins for operators that alias their input; they refuse to run outside its groups
(torch/csrc/jit/codegen/cuda/interface.cpp, 1.12 to 2.1). Its pass puts them in again."""

_INFERRED = ("prim::infer_unsqueeze_size", "prim::infer_squeeze_size")
"""Sizes for prim::view_copy that nvFuser's pass works out (same file)."""

_TAKES_SIZES = ("prim::view_copy", "prim::reshape_copy", "prim::expand_copy")
_SAME = ("prim::profile", "prim::profile_ivalue", "prim::unchecked_cast", "prim::unchecked_unwrap_optional")
"""Nodes that hand their input on."""


class _Rebuild:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.constants: list[Input] = []
        self.lost: list[Value] = []
        self.problems: list[str] = []
        self.same: dict[str, str] = {}
        self.nothing: set[str] = set()
        self.inferred: set[str] = set()
        self.masks: dict[str, list[str]] = {}
        self.undefined: set[str] = set()
        self.told: dict[str, str] = {}
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
        elif kind in _TAKES_SIZES and len(inputs) > 1 and inputs[1] in self.inferred:
            self.sized(node, inputs)
        else:
            attributes = ", ".join(f"{name}={text}" for name, text in node.attributes.items())
            self.step(node, _COPIES.get(kind, kind), attributes, inputs)

    def step(self, node: Node, kind: str, attributes: str, inputs: Sequence[str]) -> None:
        outputs = tuple((value.name, value.type) for value in node.outputs)
        self.steps.append(Step(outputs, kind, attributes, tuple(inputs), node.source))
        masks = [self.masks[name] for name in inputs if name in self.masks] if "_backward" in kind else []
        if masks and len(masks[0]) == len(outputs):
            # output_mask of native_layer_norm_backward and its like: no such gradient is asked for.
            asked = zip(outputs, masks[0])
            self.undefined.update(name for (name, _), one in asked if one in ("False", "0"))

    def output(self, name: str) -> str:
        """What the file gives back for an output of the group."""
        name = self.same.get(name, name)
        if name not in self.undefined:
            return name
        if name not in self.told:
            self.told[name] = self.fresh()
            self.steps.append(Step(((self.told[name], "bool"),), DEFINED, "", (name,)))
        return self.told[name]

    def value(self, type_: str, text: str) -> str:
        """A constant that the print does not have."""
        name = self.fresh()
        self.steps.append(Step(((name, type_),), "prim::Constant", f"value={text}", ()))
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
            self.give_up(node, "its sizes are worked out at run time, and its type does not contain them")
        else:
            text = f"[{', '.join(map(str, sizes))}]" if sizes else "annotate(List[int], [])"
            given = (inputs[0], self.value("int[]", text), *inputs[2:])
            self.step(node, _COPIES[node.kind], "", given)

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
                self.give_up(node, "it is a tensor whose sizes the log does not print")
            else:
                self.constants.append(made)
        elif value.type.endswith("[]"):
            self.list_constant(node, value, text)
        elif text in ("-inf", "-nan"):
            # parse_ir of torch 1.12 takes no sign there.
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
            # parse_ir makes a list of numbers of one of bools, which no operator takes, and torch 1.12 reads
            # neither True nor inf in it. The executor folds this back into a constant.
            self.masks[value.name] = _items(text)
            self.step(node, "prim::ListConstruct", "", [self.item(element, one) for one in _items(text)])
        else:
            self.step(node, node.kind, f"value={text}", ())

    def item(self, element: str, text: str) -> str:
        name = self.value(element, _truth(text.lstrip("-")) if element == "float" else _truth(text))
        if element != "float" or not text.startswith("-"):
            return name
        negative = self.fresh()
        self.steps.append(Step(((negative, element),), "aten::neg", "", (name,)))
        return negative


def _items(text: str) -> list[str]:
    return text[1:-1].split(", ")


def _truth(text: str) -> str:
    return {"True": "1", "False": "0"}.get(text, text)


def rebuild(found: Found, hints: Sequence[str] = (), fuser: str | None = None) -> Recipe:
    """The recipe of a printed group.

    ``hints``: types of the same inputs from another print of the same operators, for sizes that this one does
    not tell.

    Raises:
        UsageError: the graph holds a node that no fusion group does.
    """
    work = _Rebuild()
    if not found.graph.complete:
        work.problems.append("the log breaks off inside the graph, or lines of it are mangled")
    for node in found.graph.nodes:
        work.node(node)
    outputs = [work.output(name) for name in found.graph.outputs]
    defined = {name for step in work.steps for name, _ in step.outputs}
    defined.update(value.name for value in (*found.graph.params, *work.lost))
    defined.update(one.name for one in work.constants)
    if not outputs:
        taken = {name for step in work.steps for name in step.inputs}
        outputs = [n for s in work.steps if s.operator for n, _ in s.outputs if n not in taken]
    unknown = [Value(n, "Tensor") for s in work.steps for n in s.inputs if n not in defined]
    unknown += [Value(name, "Tensor") for name in outputs if name not in defined]
    for value in dict.fromkeys(unknown):
        work.problems.append(f"%{value.name} is defined in a part of the graph that is missing")
        work.lost.append(value)
    recipe = Recipe(
        fuser=fuser or FUSER_OF_KIND[found.group.kind].name,
        inputs=(*_inputs(found, work, hints), *work.constants),
        steps=tuple(work.steps),
        outputs=tuple(outputs),
        dynamic=any("*" in value.type or "SS(" in value.type for value in found.graph.params),
        problems=tuple(work.problems),
    )
    return recipe.pruned()


def _inputs(found: Found, work: _Rebuild, hints: Sequence[str]) -> list[Input]:
    types = {name: type_ for step in work.steps for name, type_ in step.outputs}
    largest = _largest(found)
    made = []
    params = found.graph.params
    for number, value in enumerate((*params, *dict.fromkeys(work.lost))):
        one: Input | None
        if holds_tensor(value.type) and is_tensor(value.type):
            hint = _hint(hints, number) if number < len(params) else None
            one = tensor_input(value.name, value.type, work.steps, hint or largest)
        else:
            try:
                if number >= len(params):
                    raise LookupError
                one = Input(value.name, value.type, ScalarSpec(found.constant(number)))
            except LookupError:
                one = scalar_input(value.name, value.type, work.steps, types)
        if one is None:
            work.problems.append(
                f"no value of type {value.type} can be made for %{value.name}: the file takes None for it"
            )
            one = Input(value.name, value.type, ScalarSpec(None), "no such value can be made")
        made.append(one)
    return made


def _hint(hints: Sequence[str], number: int) -> tuple[int | None, ...] | None:
    tensor = parse_type(hints[number]) if number < len(hints) else None
    return tensor.sizes if isinstance(tensor, TensorType) else None


def _largest(found: Found) -> tuple[int | None, ...] | None:
    """The sizes of the largest result that the node around the body has: operators broadcast to them."""
    best: tuple[int | None, ...] | None = None
    node = found.section.node if found.section is not None else None
    for value in node.outputs if node is not None else ():
        tensor = parse_type(value.type)
        if isinstance(tensor, TensorType) and tensor.sizes and len(tensor.sizes) > len(best or ()):
            best = tensor.sizes
    return best
