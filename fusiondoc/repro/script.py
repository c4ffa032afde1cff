"""The stand-alone file: a head with what is special to the group, and a body that is the same for all."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Iterable

from fusiondoc.repro.permitted import check, one_line
from fusiondoc.repro.recipe import Input, Recipe, TensorSpec, ir_type
from fusiondoc.version import __version__

_BODY = Path(__file__).parent / "body.py.txt"

_HEAD = '''\
"""{title}

Written by fusiondoc {version}; needs torch alone (1.12 or newer). It builds the group from its IR, runs it
unfused and fused, and compares the results:

    python {name} [nvfuser|nnc|onednn|legacy|none]

Exit status: 0 the results are the same, 1 they differ. An error of the fuser is raised as it is, not hidden
by a fallback.
"""
{remarks}
FUSER = {fuser!r}
DYNAMIC = {dynamic!r}  # compiled for any size (NNC)
RUNS = 4  # the first profiles, the second compiles

IR = {ir}

# One a graph input, in order. Numbers in tensors are drawn anew: a log has none.
INPUTS = [
{inputs}
]

OUTPUTS = {outputs!r}
RANDOM = {random!r}  # outputs that depend on a random operator: they differ by design
'''


@functools.lru_cache(maxsize=1)
def _body() -> str:
    return _BODY.read_text(encoding="utf-8")


def script(recipe: Recipe, title: str, name: str, remarks: Iterable[str] = (), printed: str = "") -> str:
    """The text of the file ``name``. ``remarks`` are sentences, ``printed`` is the graph in the log.

    Raises:
        UsageError: the recipe holds what no fusion group does.
    """
    check(recipe)
    comments = [*remarks, *recipe.problems]
    if printed:
        comments += ["", "The graph as the log prints it:", *printed.split("\n")]
    lines = [("# " + one_line(text)).rstrip() for text in comments]
    head = _HEAD.format(
        title=_literal_text(title),
        version=__version__,
        name=_literal_text(name),
        remarks="\n".join(["", *lines, ""]) if lines else "",
        fuser=recipe.fuser,
        dynamic=recipe.dynamic,
        ir=_block(ir_text(recipe)),
        inputs="\n".join(_input(one) for one in recipe.inputs),
        outputs=list(recipe.outputs),
        random=list(recipe.random_outputs()),
    )
    return head + _body()


def _literal_text(text: str) -> str:
    """For a place inside a docstring."""
    return one_line(text).replace("\\", "\\\\").replace('"', "'")


def _block(text: str) -> str:
    """A Python string over several lines."""
    lines = (one_line(line.replace("\\", "\\\\")) for line in text.split("\n"))
    escaped = "\n".join(lines).replace('"""', '\\"\\"\\"')
    return f'"""\\\n{escaped}"""'


def _input(one: Input) -> str:
    spec = one.spec
    comment = f"%{one.name} : {one.type}" + (f"  ({one.note})" if one.note else "")
    lines = [f"    # {one_line(comment)}"]
    if isinstance(spec, TensorSpec):
        fields: dict[str, object] = {
            "dtype": spec.dtype,
            "size": list(spec.size),
            "stride": None if spec.stride is None else list(spec.stride),
            "requires_grad": spec.requires_grad,
            "device": spec.device,
            "fill": spec.fill,
        }
        if spec.constant:
            fields["constant"] = True
        if spec.data is not None:
            fields["data"] = list(spec.data)
        lines.append(
            "    dict(" + ", ".join(f"{key}={_python(value)}" for key, value in fields.items()) + "),"
        )
    else:
        lines.append(f"    dict(value={_python(spec.value)}),")
    return "\n".join(lines)


def _python(value: object) -> str:
    """``repr``, in a form that Python reads back."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_python, value)) + "]"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    return repr(value)


def ir_text(recipe: Recipe) -> str:
    """The graph. It returns one value: several are packed into a tuple, because only the last value that a
    function leaves reaches Python (torch/csrc/jit/python/pybind_utils.h, runAndInsertCall)."""
    params = [f"%{one.name} : {ir_type(one.type)}" for one in recipe.inputs]
    lines = ["graph(" + ",\n      ".join(params) + "):"]
    types = {name: ir_type(text) for name, text in recipe.types().items()}
    for step in recipe.steps:
        outputs = ", ".join(f"%{name} : {types[name]}" for name, _ in step.outputs)
        attributes = f"[{step.attributes}]" if step.attributes else ""
        inputs = ", ".join(f"%{name}" for name in step.inputs)
        equals = f"{outputs} = " if outputs else ""
        # A comment that begins with `type:` would be an annotation to the lexer.
        shown = step.source and step.source.isprintable() and not step.source.lstrip().startswith("type:")
        lines.append(f"  {equals}{step.kind}{attributes}({inputs})" + (f" # {step.source}" if shown else ""))
    returned = f"%{recipe.outputs[0]}" if len(recipe.outputs) == 1 else "%returned"
    if len(recipe.outputs) != 1:
        packed = ", ".join(f"%{name}" for name in recipe.outputs)
        tuple_ = ", ".join(types[name] for name in recipe.outputs)
        lines.append(f"  {returned} : ({tuple_}) = prim::TupleConstruct({packed})")
    lines.append(f"  return ({returned})")
    return "\n".join(lines) + "\n"
