"""A recipe as IR text that ``torch._C.parse_ir`` of torch 1.12 and of 2.13 takes."""

from __future__ import annotations

from fusiondoc.repro.recipe import Recipe
from fusiondoc.repro.values import ir_type


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
