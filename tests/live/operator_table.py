"""Run in a child beside torch: facts about operators from its schemas, methods and
compiler, as JSON.

``tensors``: the most tensors of an overload, ``out`` aside; null where an overload
takes a list of them. ``arguments``: the types of the arguments of each
overload. ``aliases``: operators that may return the memory of an
argument that they do not write. ``pointwise`` and ``random``: those with torch's
own tags. ``methods``: names of methods of a tensor. ``signs``: sign -> the
operators that an expression makes, and a statement such as ``x += y``, in a script
and in a trace. ``flags``: where ``inplace`` stands among the arguments of functions
and constructors of modules. ``defaults``: function -> the numbers that its last
arguments have where they are left out. ``mixing``: functions named on the command
line whose elements depend on more than the element at their index. ``truth``:
pointwise operators, and those named, that give truth values of numbers.
"""

import inspect
import json
import sys

import torch


def main():
    facts = {
        "tensors": {},
        "arguments": {},
        "aliases": set(),
        "pointwise": set(),
        "random": set(),
    }
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name
        given = [argument for argument in schema.arguments if not argument.is_out]
        texts = [str(argument.type) for argument in given]
        if (
            texts
            and texts[0] == "List[Tensor]"
            and name in ("aten::eq", "aten::ne")
        ):
            continue  # that of two lists, no operator of tensors
        facts["arguments"].setdefault(name, []).append(texts)
        lists = any("Tensor" in text and "List" in text for text in texts)
        count = sum(text in ("Tensor", "Optional[Tensor]") for text in texts)
        before = facts["tensors"].get(name, 0)
        facts["tensors"][name] = (
            None if lists or before is None else max(before, count)
        )
        if any(
            argument.alias_info and not argument.alias_info.is_write
            for argument in given
        ):
            facts["aliases"].add(name)
        for tag, key in (
            (torch.Tag.pointwise, "pointwise"),
            (torch.Tag.nondeterministic_seeded, "random"),
        ):
            if name.startswith("aten::") and tag in tags(
                name, schema.overload_name
            ):
                facts[key].add(name)
    facts["methods"] = dir(torch.Tensor)
    facts["signs"] = {sign: [*made_by(sign)] for sign in SIGNS}
    facts["flags"] = flags()
    facts["defaults"] = {name: defaults(name) for name in WITH_DEFAULTS}
    facts["mixing"] = [name for name in sys.argv[1:] if mixes(name)]
    names = {*facts["pointwise"], *(f"aten::{name}" for name in sys.argv[1:])}
    facts["truth"] = {name for name in names if gives_truth(name)}
    print(
        json.dumps(
            {
                key: sorted(fact) if isinstance(fact, set) else fact
                for key, fact in facts.items()
            }
        )
    )


def tags(name, overload):
    packet = getattr(torch.ops.aten, name.partition("::")[2], None)
    try:
        return getattr(packet, overload or "default").tags
    except (AttributeError, RuntimeError):
        return ()


def gives_truth(name):
    function = getattr(torch.ops.aten, name.partition("::")[2], None)
    for given in (torch.ones(2),), (torch.ones(2), torch.ones(2)):
        try:
            made = function(*given)
        except Exception:  # it takes other arguments
            continue
        return isinstance(made, torch.Tensor) and made.dtype == torch.bool
    return False


SIGNS = [*"+-*/%@&|^<>", "//", "**", "<<", ">>", "==", "!=", "<=", ">="]


def mixes(name):
    """Whether another order of the elements gives another order of the same
    results, shape kept."""
    function = getattr(
        torch.nn.functional, name.replace("log_sigmoid", "logsigmoid"), None
    )
    function = (
        function or getattr(torch, name, None) or getattr(torch.special, name)
    )
    x = torch.arange(1, 13).reshape(3, 4)
    if name != "bitwise_not":
        x = x / 16.0
    more = {"threshold": (0.5, 2.0)}.get(name, ())
    made = function(x, *more)
    again = function(x.flip(0, 1), *more)
    return made.shape != x.shape or not torch.allclose(
        made.flip(0, 1), again, equal_nan=True
    )


def made_by(sign):
    """Operators of ``x sign y`` in a script, and of ``x sign= y`` in a script and
    in a trace."""
    for text in (f"return x {sign} y", f"x {sign}= y\n    return x"):
        try:
            graph = torch.jit.CompilationUnit(f"def f(x, y):\n    {text}\n").f.graph
        except RuntimeError:
            yield []
        else:
            yield [
                node.kind()
                for node in graph.nodes()
                if node.kind().startswith("aten::")
            ]
    names = {"__name__": "__main__"}
    numbers = (
        torch.tensor([3, 4])
        if sign in ("&", "|", "^", "<<", ">>")
        else torch.tensor([3.0, 4.0])
    )
    try:
        exec(
            f"def f(x, y):\n    x = x.clone()\n    x {sign}= y\n    return x\n",
            names,
        )
        graph = torch.jit.trace(names["f"], (numbers, numbers)).graph
    except (SyntaxError, RuntimeError, TypeError):
        yield []
    else:
        yield [
            node.kind()
            for node in graph.nodes()
            if node.kind().startswith("aten::")
        ]


WITH_DEFAULTS = [
    "addcdiv",
    "addcmul",
    "celu",
    "elu",
    "glu",
    "hardshrink",
    "hardtanh",
    "leaky_relu",
    "softshrink",
]


def defaults(name):
    function = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function of C++
        (schema,) = [
            one
            for one in torch._C._jit_get_schemas_for_operator("aten::" + name)
            if not one.overload_name
        ]
        return [
            one.default_value for one in schema.arguments if one.has_default_value()
        ]
    values = [one.default for one in parameters if one.name != "inplace"]
    return [value for value in values if value is not inspect.Parameter.empty]


def flags():
    found = {}
    for owner in (torch.nn.functional, torch.nn):
        for name in dir(owner):
            function = getattr(owner, name)
            if not callable(function) or name.startswith("_"):
                continue
            try:
                parameters = list(inspect.signature(function).parameters)
            except (TypeError, ValueError):
                continue
            if "inplace" in parameters:
                found[name] = parameters.index("inplace")
    return found


main()
