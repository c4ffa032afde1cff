"""Kernels defined in a generated module: Triton kernels, C++ functions, templates,
with torch's comments before them (``torch/_inductor/codegen/wrapper.py``,
``define_kernel``)."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from fusiondoc.numbers import LARGEST, whole_numbers
from fusiondoc.parsers.inductor.fx_graph import FxNode, fx_node
from fusiondoc.parsers.inductor.python_text import arguments

_DEFINITION = re.compile(r"(\w{1,400}) = async_compile\.(\w+)\(")
_SIGNATURE = re.compile(r"^def (\w{1,400})\((.*)\):\s*$", re.MULTILINE)
_CPP_SIGNATURE = re.compile(r"\bvoid\s+(?:kernel|\w+)\(([^{]{0,100000}?)\)\s*\{")
_CPP_PARAMETER = re.compile(r"(const )?[\w:<> ]+?(\*?)\s*(?:__restrict__ )?(\w+)$")
_LOADS = re.compile(
    r"tl\.load\(\s*(\w+)|tl\.make_block_ptr\(\s*(\w+)|make_tensor_descriptor\(\s*(\w+)"
)
_STORES = re.compile(r"tl\.(?:store|atomic_\w+)\(\s*(\w+)")
_SIZE = re.compile(r"^    ([xyz]numel|r\d*_?numel) = (\d{1,19})$", re.MULTILINE)
_NUMEL = re.compile(r"\b([xyz]numel|r\d+_numel)\b")


class Parameter(NamedTuple):
    """A parameter of a kernel: a pointer or a number."""

    name: str
    reads: bool
    writes: bool
    loads: int = 0
    """Number of loads from it in the text of the kernel; 0 if not known."""
    stores: int = 0


class Definition(NamedTuple):
    """A kernel that a module defines."""

    name: str
    kind: str
    """``triton``, ``cpp``, ``template``, ``foreach``, ``multi``, ``mixed order``,
    ``user``."""
    code: str
    parameters: tuple[Parameter, ...]
    operators: tuple[FxNode, ...]
    """The graph nodes that it computes, from its comment; none for C++."""
    returns: tuple[str, ...]
    """Names that the comment's fragment returns: nodes, or buffers without a
    node."""
    line: int
    """Line number in the module, from 0."""
    elements: int | None
    """Number of elements that its loops run over: none of its loads and stores
    moves more. None if a size is not in the text."""


def definition_name(line: str) -> tuple[str, str] | None:
    """Return name and compiler (``triton``, ``cpp_pybinding``) of a definition that
    begins on this line; None for another line."""
    found = _DEFINITION.match(line)
    if found is None:
        return None
    return found.group(1), found.group(2)


def definition(
    name: str, compiler: str, comment: list[str], body: list[str], line: int
) -> Definition:
    """Return the kernel of a definition.

    Args:
        comment: the comment lines before it.
        body: its lines, from the first to the last.
    """
    text = "\n".join(body)
    operators, returns = _fragment(comment)
    is_cpp = compiler.startswith("cpp")
    code = _between_quotes(text)
    parameters = _cpp_parameters(code) if is_cpp else _triton_parameters(name, code)
    elements = None if is_cpp else _elements(code)
    kind = _kind(name, compiler, code)
    return Definition(
        name, kind, code, parameters, operators, returns, line, elements
    )


def _kind(name: str, compiler: str, code: str) -> str:
    if compiler.startswith("cpp"):
        if "GemmBlocking" in code or "_template" in name:
            return "template"
        return "cpp"
    if compiler.startswith("multi"):
        return "multi"
    if "'MixOrderReductionGrid'" in code:
        return "mixed order"
    for start, kind in (("triton_tem_", "template"), ("triton_for_", "foreach")):
        if name.startswith(start):
            return kind
    if compiler == "triton":
        if name.startswith("triton_"):
            return "triton"
        return "user"
    return compiler


def _elements(code: str) -> int | None:
    """Return the product of the sizes of a kernel's loops (``xnumel = 512``); None
    if any is unknown."""
    sizes = dict(_SIZE.findall(code))
    if not sizes or set(_NUMEL.findall(code)) - set(sizes):
        return None
    total = 1
    for number in whole_numbers(sizes.values()):
        total *= number
    if 0 < total < LARGEST:
        return total
    return None


def _fragment(comment: list[str]) -> tuple[tuple[FxNode, ...], tuple[str, ...]]:
    """Return nodes and results of the "Graph fragment" in a comment."""
    nodes: list[FxNode] = []
    returns: tuple[str, ...] = ()
    for text in comment:
        if " = " in text:
            node = fx_node(text)
            if node is not None and node.op == "call_function":
                nodes.append(node)
        elif text.startswith("#   return "):
            names = text[len("#   return ") :].split(",")
            returns = tuple(name.strip().lstrip("%") for name in names)
    return tuple(nodes), returns


def _between_quotes(text: str) -> str:
    """Return the text of the kernel, which is between the first and the last triple
    quotes."""
    for quotes in ("'''", '"""'):
        start = text.find(quotes)
        if start >= 0:
            end = text.rfind(quotes)
            return text[start + 3 : end if end > start else len(text)].strip("\n")
    return text


def _triton_parameters(name: str, code: str) -> tuple[Parameter, ...]:
    found = None
    for one in _SIGNATURE.finditer(code):
        if one.group(1) == name:
            found = one
            break
    found = found or _last_function(code)
    if found is None:
        return ()
    loaded: Counter[str] = Counter()
    for groups in _LOADS.findall(code):
        for part in groups:
            if part:
                loaded[part] += 1
    stored = Counter(_STORES.findall(code))
    parts, _ = arguments("(" + found.group(2) + ")", 0)
    names = [part.partition(":")[0].strip() for part in parts]
    return tuple(_parameter(one, loaded, stored) for one in names)


def _last_function(code: str) -> re.Match[str] | None:
    found = list(_SIGNATURE.finditer(code))
    if found:
        return found[-1]
    return None


def _parameter(name: str, loaded: Counter[str], stored: Counter[str]) -> Parameter:
    if name in loaded or name in stored:
        return Parameter(
            name, name in loaded, name in stored, loaded[name], stored[name]
        )
    in_out = name.startswith("in_out_ptr")
    return Parameter(
        name,
        name.startswith("in_ptr") or in_out,
        name.startswith("out_ptr") or in_out,
    )


def _cpp_parameters(code: str) -> tuple[Parameter, ...]:
    found = _CPP_SIGNATURE.search(code)
    if found is None:
        return ()
    made = []
    for part in found.group(1).split(","):
        parameter = _CPP_PARAMETER.match(part.strip())
        if parameter is None:
            continue
        const, pointer, name = parameter.groups()
        is_pointer = bool(pointer)
        reads = is_pointer and (const is not None or name.startswith("in_"))
        made.append(Parameter(name, reads, is_pointer and const is None))
    return tuple(made)
