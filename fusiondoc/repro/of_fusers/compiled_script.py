"""The script of a part of a compiled graph. Anybody can have written a log: only
operators of torch's own namespaces get into it, with arguments that are numbers,
lists, words that torch uses there and values of the part.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from fusiondoc.errors import UsageError
from fusiondoc.fusers.inductor.compilation import GraphOperator
from fusiondoc.fusers.inductor.targets import ARGUMENT_WORDS, GETITEM
from fusiondoc.numbers import LARGEST
from fusiondoc.repro.of_fusers.compiled_cut import CompiledPart, PartInput
from fusiondoc.repro.permitted import one_line
from fusiondoc.version import __version__

_TARGET = re.compile(
    r"(?:aten|prims|mkldnn)\._?[a-z][a-z0-9_]{0,80}\.[A-Za-z][A-Za-z0-9_]{0,80}"
)
"""Operators of torch itself. Operators on files need a file name as argument, which
no script can contain."""
_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
_TAKEN = frozenset(
    (
        "torch",
        "device",
        "inf",
        "nan",
        "made",
        "model",
        "inputs",
        *dir(builtins),
        *keyword.kwlist,
    )
)
"""Names with another meaning in a script."""
_OF_TORCH = re.compile(
    r"(?:float|bfloat|int|uint|complex)\d{1,3}(?:_\w{1,12})?|bool|strided|contiguous_format|channels_last(?:_3d)?"
    r"|preserve_format"
)
_DEVICES = frozenset(("cpu", "cuda", "xpu", "mps", "meta"))

_TEMPLATE = '''\
"""{title}

Written by fusiondoc {version}; needs torch alone. Values are drawn anew: a log has none.

    {shown}
"""
import torch
from torch import device, inf, nan


def model({names}):
{statements}
    return {outputs}


def made(dtype, size, stride, device):
    tensor = torch.empty_strided(size, stride, dtype=dtype, device=device)
    return tensor.normal_() if dtype.is_floating_point and dtype.itemsize > 1 else tensor.zero_()


inputs = (
{inputs}
)

if __name__ == "__main__":
    torch.compile(model{dynamic})(*inputs)
'''


def script_of(part: CompiledPart, title: str, shown: str) -> str:
    """Return the text of the file.

    Args:
        title: the first sentence of its docstring.
        shown: the command that compiles the file and shows the result.

    Raises:
        UsageError: the part holds a name or value that is not allowed in a script.
    """
    names = {one.name for one in part.inputs} | {one.name for one in part.operators}
    for name in names:
        if _VALUE.fullmatch(name) is None or name in _TAKEN:
            raise _refused(f"'{name[:80]}' is no name of a value")
    return _TEMPLATE.format(
        title=_in_docstring(title),
        version=__version__,
        shown=_in_docstring(shown),
        names=", ".join(one.name for one in part.inputs),
        statements="\n".join(_statement(one, names) for one in part.operators),
        outputs=", ".join(part.outputs) + ("," if len(part.outputs) == 1 else "")
        or "()",
        inputs="\n".join(f"    {_made(one)}," for one in part.inputs),
        dynamic=", dynamic=True" if part.dynamic else "",
    )


def _in_docstring(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', "'")


def _made(one: PartInput) -> str:
    if one.dtype is None:
        return f"{one.value!r}"
    return f"made(torch.{one.dtype}, {one.size!r}, {one.stride!r}, {one.device!r})"


def _statement(operator: GraphOperator, names: AbstractSet[str]) -> str:
    given = operator.arguments
    if given is None:
        raise UsageError(
            f"the log does not contain the arguments of {one_line(operator.name)}",
            "Record it again, with TORCH_LOGS=post_grad_graphs or TORCH_TRACE, or run: fusiondoc diagnose",
        )
    call = _call(given)
    for wrong in _wrong(call, names):
        raise _refused(
            f"'{one_line(wrong)[:80]}' of {one_line(operator.name)} is no literal of a known form"
        )
    if operator.target == GETITEM and len(call.args) == 2 and not call.keywords:
        return f"    {operator.name} = {ast.unparse(call.args[0])}[{ast.unparse(call.args[1])}]"
    if _TARGET.fullmatch(operator.target) is None:
        raise _refused(
            f"it holds {one_line(operator.target)[:80]}, which is no operator of torch itself"
        )
    source = f"  # {one_line(operator.source)}" if operator.source else ""
    shown = ast.unparse(call).removeprefix("f")
    return f"    {operator.name} = torch.ops.{operator.target}{shown}{source}"


_NO_CALL = ast.Call(ast.Name("f"), [ast.Constant(...)], [])
"""Used for a text that is no valid Python; its argument is one that no script
accepts."""


def _call(given: str) -> ast.Call:
    """A call with the arguments."""
    try:
        parsed = ast.parse(f"f({given})", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return _NO_CALL
    if isinstance(parsed, ast.Call) and isinstance(parsed.func, ast.Name):
        return parsed
    return _NO_CALL


def _wrong(call: ast.Call, names: AbstractSet[str]) -> Iterator[str]:
    """The arguments that a script does not accept."""
    for node in (*call.args, *(named.value for named in call.keywords)):
        if not _is_permitted(node, names):
            yield ast.unparse(node)
    for named in call.keywords:
        if not (named.arg or "").isidentifier():
            yield str(named.arg)


def _is_permitted(node: ast.expr, names: AbstractSet[str]) -> bool:
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(_is_permitted(inner, names) for inner in node.elts)
    if isinstance(node, ast.Name):
        return node.id in names or node.id in ("inf", "nan")
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_number(node.operand)
    if isinstance(node, ast.Attribute):
        of_torch = isinstance(node.value, ast.Name) and node.value.id == "torch"
        return of_torch and _OF_TORCH.fullmatch(node.attr) is not None
    if isinstance(node, ast.Call):
        return _is_device(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value in ARGUMENT_WORDS
    return (isinstance(node, ast.Constant) and node.value is None) or _is_number(
        node
    )


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id in ("inf", "nan")
    if not isinstance(node, ast.Constant) or type(node.value) not in (
        bool,
        int,
        float,
    ):
        return False
    return type(node.value) is not int or abs(node.value) <= LARGEST


def _is_device(node: ast.Call) -> bool:
    """True for ``device(type='cuda', index=0)``."""
    if not isinstance(node.func, ast.Name) or node.func.id != "device" or node.args:
        return False
    values = {}
    for one in node.keywords:
        if isinstance(one.value, ast.Constant):
            values[one.arg] = one.value.value
    index = values.pop("index", 0)
    return (
        type(index) is int
        and 0 <= index < 1024
        and values.keys() == {"type"}
        and values["type"] in _DEVICES
    )


def _refused(why: str) -> UsageError:
    return UsageError(
        f"no file is written for this part: {why}",
        "A written file is a program, so it takes only torch's own operators. Name a boundary or kernel"
        " without this one; fusiondoc repro lists them.",
    )
