"""The parts of a log that may reach a written file, which is a program that
somebody runs.

Anybody can have written a log. So an operator has to be one that a fuser takes into
a group, and a constant, a type, a device and the name of a value have to match a
grammar; everything else is refused by name. :func:`check` stands before every file.
Free text (names of files, messages, the print of the graph) reaches comments only,
through :func:`one_line`.
"""

from __future__ import annotations

import re

from fusiondoc.errors import UsageError
from fusiondoc.fusers import at_work, taken_by_any, views_of_any
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.ir import Node
from fusiondoc.repro import (
    DEFINED,
    DTYPES,
    Input,
    ReproRecipe,
    ReproStep,
    TensorSpec,
    ir_type,
)

_WITH_THEM = frozenset(
    [
        f"prim::{name}"
        for name in ("Constant", "ListConstruct", "ConstantChunk", "FusedConcat")
    ]
    + [f"prim::{name}" for name in ("BroadcastSizes", "dtype", "device", "is_cuda")]
    + [
        f"aten::{name}"
        for name in (
            "size",
            "dim",
            "numel",
            "_size_if_not_equal",
            "broadcast_tensors",
        )
    ]
)
"""Other operators of a group: values and sizes for its operators
(torch/csrc/jit/passes/graph_fuser.cpp and the passes of other fusers)."""

_REPLACED = frozenset(
    f"prim::{name}"
    for name in (
        "profile",
        "profile_ivalue",
        "unchecked_cast",
        "unchecked_unwrap_optional",
        "infer_unsqueeze_size",
        "infer_squeeze_size",
    )
)
"""Operators that a printed group may hold, that are not in the catalogue, and that
a file replaces."""

PRINTED = taken_by_any() | views_of_any() | _WITH_THEM | _REPLACED
"""The operators that a printed group may hold."""

WRITTEN = frozenset(
    kind
    for kind in (PRINTED - _REPLACED) | {DEFINED}
    if kind != "prim::add_optional"
    and not (kind.startswith("prim::") and kind.endswith("_copy"))
)
"""The operators that a file may hold: those of programs, not the operators that
replace them in groups."""

_ATTRIBUTES = {
    "prim::Constant": {"value"},
    "prim::ConstantChunk": {"chunks", "dim"},
    "prim::FusedConcat": {"dim"},
}
"""The attributes that an operator of a group has; the others have none."""

_INT = r"-?(?:0|[1-9][0-9]{0,18})"
_FLOAT = r"-?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?(?:e[+-]?[0-9]{1,3})?|inf|nan)"
_WORD = r'"[A-Za-z0-9_.:-]{0,64}"'
_ELEMENTS = {
    "int": _INT,
    "float": _FLOAT,
    "bool": "[01]|True|False",
    "str": _WORD,
    "Device": _WORD,
    "Scalar": _FLOAT,
    "number": _FLOAT,
}
_LISTS = {
    f"{name}[]": rf"\[(?:(?:{element})(?:, (?:{element}))*)?\]|annotate\(List\[{name}\], \[\]\)"
    for name, element in _ELEMENTS.items()
}
_LITERALS = {
    name: re.compile(pattern)
    for name, pattern in (*_ELEMENTS.items(), *_LISTS.items())
}
"""torch's printed form of a constant of each type (torch/csrc/jit/ir/ir.cpp,
printAttribute)."""

_TYPE = re.compile(
    r"(?:Tensor|int|float|bool|str|Device|Scalar|number|complex|NoneType)(?:\[[0-9]?\]|\?){0,4}"
)
_NAME = re.compile(r"[A-Za-z0-9_.]{1,200}")
_DEVICE = re.compile(r"[a-z]{1,20}(?::[0-9]{1,4})?")
_PLAIN_WORD = re.compile(_WORD[1:-1])
_FILLS = ("normal", "mask", "integers", "positive")
_LARGEST = 2**63 - 1
_SHOWN = 80


def one_line(text: str) -> str:
    """The text as one line that cannot end the comment or the string it is in:
    every character that is not printed (ends of lines, control and bidirectional
    characters, lone surrogates) as its escape."""
    parts = []
    for c in text:
        if c.isprintable():
            parts.append(c)
        else:
            parts.append(c.encode("unicode_escape").decode("ascii"))
    return "".join(parts)


def permit(node: Node) -> None:
    """Raise UsageError for a printed node that no fusion group can hold."""
    where = f" of {_short(node.source)}" if node.source else ""
    if node.kind.startswith("^"):
        raise _refused(f"it holds the Python function {_short(node.kind)}{where}")
    if node.kind not in PRINTED:
        raise _refused(
            f"it holds {_short(node.kind)}{where}, which no fuser takes into a group"
        )
    if node.blocks or node.ref is not None:
        raise _refused(
            f"its {node.kind}{where} holds a graph of its own, which no operator of a group does"
        )
    if not node.outputs:
        raise _refused(
            f"its {node.kind}{where} gives no value, so it is there for what else it does"
        )
    for name in node.attributes:
        if node.kind not in _REPLACED and name not in _ATTRIBUTES.get(
            node.kind, ()
        ):
            raise _refused(
                f"its {node.kind}{where} has the attribute '{_short(name)}', which is not its own"
            )


def is_literal(type_: str, text: str) -> bool:
    """True if the text is torch's printed form of a constant of that type: a
    number, a word, a list of them."""
    pattern = _LITERALS.get(type_)
    if pattern is None or pattern.fullmatch(text) is None:
        return False
    return "int" not in type_ or all(
        whole_number(number) is not None for number in re.findall(r"[0-9]+", text)
    )


def check(recipe: ReproRecipe) -> None:
    """Raise UsageError if a file of this recipe would hold anything but operators
    of a fusion group, literals, types and names."""
    if recipe.fuser not in at_work():
        raise _refused(f"'{_short(recipe.fuser)}' is no fuser")
    for input_ in recipe.inputs:
        _check_value(input_.name, input_.type)
        _check_input(input_)
    for step in recipe.steps:
        _check_step(step)
    for name in recipe.outputs:
        _check_name(name)


def _check_step(step: ReproStep) -> None:
    if step.kind not in WRITTEN:
        raise _refused(
            f"it holds {_short(step.kind)}, which no fuser takes into a group"
        )
    for name, type_ in step.outputs:
        _check_value(name, type_)
    for name in step.inputs:
        _check_name(name)
    if not step.attributes:
        return
    if step.kind == "prim::Constant":
        type_ = step.outputs[0][1] if step.outputs else ""
        if step.attributes.startswith("value=") and is_literal(
            type_, step.attributes[6:]
        ):
            return
    elif all(
        name in _ATTRIBUTES.get(step.kind, ()) and is_literal("int", text)
        for name, _, text in (
            attribute.partition("=") for attribute in step.attributes.split(", ")
        )
    ):
        return
    raise _refused(
        f"'{_short(step.attributes)}' of {step.kind} is no literal of a known type"
    )


def _check_value(name: str, type_: str) -> None:
    _check_name(name)
    if _TYPE.fullmatch(ir_type(type_)) is None:
        raise _refused(
            f"'{_short(type_)}', the type of %{name}, is none that a value of a group has"
        )


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise _refused(f"'{_short(name)}' is not the name of a value")


def _check_input(input_: Input) -> None:
    spec = input_.spec
    if isinstance(spec, TensorSpec):
        sound = _sound_tensor(spec)
    else:
        sound = _sound_value(spec.value)
    if not sound:
        raise _refused(
            f"%{input_.name} : {_short(input_.type)} is not a tensor, number or word that can be made"
        )


def _sound_tensor(spec: TensorSpec) -> bool:
    numbers = (*spec.size, *(spec.stride or ()))
    return (
        spec.dtype in DTYPES.values()
        and all(
            type(number) is int and 0 <= number <= _LARGEST for number in numbers
        )
        and type(spec.requires_grad) is bool
        and _DEVICE.fullmatch(spec.device) is not None
        and spec.fill in _FILLS
        and all(type(number) is float for number in spec.data or ())
    )


def _sound_value(value: object) -> bool:
    if isinstance(value, list):
        return all(
            not isinstance(inner, list) and _sound_value(inner) for inner in value
        )
    if isinstance(value, str):
        return _PLAIN_WORD.fullmatch(value) is not None
    if type(value) is int:
        return abs(value) <= _LARGEST
    return value is None or type(value) in (bool, float, complex)


def _short(text: str) -> str:
    line = one_line(text)
    if len(line) <= _SHOWN:
        return line
    return line[:_SHOWN] + "..."


def _refused(why: str) -> UsageError:
    return UsageError(
        f"no file is written for this group: {why}",
        "A written file is a program, so it takes only what a fusion group can hold. Is the log whole, and "
        "from somebody you know? If a fuser did make this group, report it together with the log.",
    )
