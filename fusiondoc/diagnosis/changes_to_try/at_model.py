"""Changes of a model at the lines where the user's file makes it: to its modules,
by replacement and by freezing. This way a package's model changes without edits of
the package's files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusiondoc.changes.by_recipe import with_free_name, with_imports
from fusiondoc.changes.change import Change
from fusiondoc.changes.inserted_lines import defined, spelled
from fusiondoc.changes.model_position import (
    ModelPosition,
    position_of_model,
    value_of_model,
)
from fusiondoc.changes.recipes import Recipe
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
from fusiondoc.diagnosis.suggested_settings import of_module_in_place
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.remedies import FROZEN, IN_EVAL_MODE
from fusiondoc.operators import plain_name


def propose(program: UserProgram) -> Iterator[Change]:
    """Yield the changes of a program's model where the model is made."""
    file = program.target_file
    if file is None:
        return
    position = position_of_model(file, program.model_name, program.makes_model)
    if position is not None:
        yield from of_model(program, position)
    if program.is_scripted and not program.backward:
        yield from frozen_script(program, file)


def of_model(program: UserProgram, position: ModelPosition) -> Iterator[Change]:
    """Yield the changes of the model where it is made."""
    off = frozenset(row.op for row in program.rows if of_module_in_place(row))
    if off:
        yield _in_place_off(position, off)
    ops = {f"aten::{plain_name(row.op)}" for row in program.rows}
    for recipe in dict.fromkeys(
        one for op in _dearest_first(program, ops) for one in program.helping(op)
    ):
        yield from _replaced(position, recipe, _both(recipe.replaces & ops))
    if (
        program.is_module
        and not program.backward
        and not program.options.trace
        and position.may_freeze
    ):
        yield from _frozen(program, position)


def _in_place_off(position: ModelPosition, ops: frozenset[str]) -> Change:
    one = position.file.free_name("module", "each_module")
    lines = [
        f"for {one} in {position.name}.modules():",
        f'    if getattr({one}, "inplace", False):',
        f"        {one}.inplace = False",
    ]
    title = f"inplace=False on the modules of {position.name}"
    edits = (*position.edits, position.insert(lines))
    where = (position.where,)
    return Change(
        ChangeKind.NOT_INPLACE, title, edits, where=where, ops=ops, at_model=True
    )


_PARAMETER = {
    "ELU": ("0.5", "alpha"),
    "CELU": ("0.5", "alpha"),
    "LeakyReLU": ("0.01", "negative_slope"),
    "Hardshrink": ("0.5", "lambd"),
    "Softshrink": ("0.5", "lambd"),
}
"""Module -> the number in its recipe that stands for an attribute, and that
attribute."""

_ONLY_IF = {
    "Hardtanh": "({0}.min_val, {0}.max_val) == (-1.0, 1.0)",
    "Softplus": "{0}.beta == 1",
    "GLU": "{0}.dim == -1",
    "AdaptiveAvgPool2d": "{0}.output_size in (1, (1, 1))",
}
"""Module -> the further condition under which the recipe can replace it."""


def _dearest_first(program: UserProgram, ops: set[str]) -> list[str]:
    """Return the operators, those that keep most operators out of groups first."""
    cost = dict.fromkeys(ops, 0)
    for row in program.rows:
        cost[f"aten::{plain_name(row.op)}"] += row.keeps_out or row.count
    return sorted(ops, key=lambda op: (-cost[op], op))


def _both(ops: frozenset[str]) -> frozenset[str]:
    """Return the operators and their in-place versions."""
    return ops | {f"{op}_" for op in ops}


def _replaced(
    position: ModelPosition, recipe: Recipe, ops: frozenset[str]
) -> Iterator[Change]:
    """Yield the change that adds a class with the recipe as its ``forward``, and a
    loop that replaces torch's modules by it."""
    if (
        recipe.module is None
        or recipe.inputs.count("=") != 1
        or recipe.caution is not None
    ):
        return
    file, kind = position.file, recipe.module.split("(")[0].rpartition(".")[2]
    module, imports = spelled(file, "torch.nn.Module")
    old, more = spelled(file, f"torch.nn.{kind}")
    own = file.free_name(f"Fusible{kind}", f"{kind}InParts")
    number, attribute = _PARAMETER.get(kind, ("", ""))
    if number:
        of_module = recipe.after.replace(number, f"self.{attribute}")
    else:
        of_module = recipe.after
    body, helper, more_imports = with_imports(
        file, replace(recipe, after=of_module)
    )
    definition: list[str] = []
    if helper:
        body, definition = with_free_name(file, body, helper)
        definition += ["", ""]
    head = [f"class {own}({module}):"]
    if number:
        head += [
            f"    def __init__(self, {attribute}: float):",
            "        super().__init__()",
            f"        self.{attribute} = {attribute}",
            "",
        ]
    written = [
        *definition,
        *head,
        "    def forward(self, x):",
        f"        return {body}",
    ]
    parent, name, child = (
        file.free_name(*words)
        for words in (
            ("parent", "above"),
            ("name", "child_name"),
            ("child", "inner"),
        )
    )
    condition = _condition(kind, child, old, recipe)
    loop = [
        f"for {parent} in list({position.name}.modules()):",
        f"    for {name}, {child} in {parent}.named_children():",
        f"        if {condition}:",
        f"            setattr({parent}, {name}, {own}({f'{child}.{attribute}' if number else ''}))",
    ]
    edits = (
        *(*imports, *more, *more_imports, *position.edits),
        *defined(file, written, rank=-5),
        position.insert(loop, rank=1),
    )
    title = f"{kind} of {position.name} -> {recipe.after}"
    if recipe.difference in ("rounding", "exact"):
        note = None
    else:
        note = f"{kind}: {recipe.difference}"
    where = (position.where,)
    yield Change(
        ChangeKind.RECIPE,
        title,
        edits,
        where=where,
        note=note,
        ops=ops,
        at_model=True,
    )


def _condition(kind: str, child: str, old: str, recipe: Recipe) -> str:
    """Return the condition under which the recipe can replace a module."""
    condition = f"type({child}) is {old}"
    if kind == "GELU":
        approximate = "tanh" if "tanh" in recipe.before else "none"
        return f'{condition} and {child}.approximate == "{approximate}"'
    if kind in _ONLY_IF:
        return f"{condition} and {_ONLY_IF[kind].format(child)}"
    return condition


_EVAL_FROZEN = IN_EVAL_MODE.with_more(FROZEN)

_INFERENCE = "for inference only"
_OTHER_IN_TRAINING = (
    f"{_INFERENCE}: dropout and batch norm compute something else than in training"
)


def _frozen(program: UserProgram, position: ModelPosition) -> Iterator[Change]:
    """Yield the frozen model, for inference only: weights and flags become
    constants."""
    freeze, imports = spelled(position.file, "torch.jit.freeze")
    script, more = spelled(position.file, "torch.jit.script")
    title = f"{position.name} frozen"
    if program.training is None:
        return
    frozen = f"{position.name} = {freeze}({script}({position.name}))"
    if not program.training:
        edits = (
            *imports,
            *more,
            *position.edits,
            position.insert([frozen], rank=8),
        )
        yield Change(
            ChangeKind.FREEZE,
            title,
            edits,
            setting=FROZEN,
            where=(position.where,),
            note=_INFERENCE,
        )
        return
    mode = f"{position.name}.eval()"
    note = _OTHER_IN_TRAINING
    edits = (*position.edits, position.insert([mode], rank=7))
    title_of_mode = f"{position.name} in eval mode"
    yield Change(
        ChangeKind.EVAL,
        title_of_mode,
        edits,
        setting=IN_EVAL_MODE,
        where=(position.where,),
        note=note,
    )
    edits = (
        *imports,
        *more,
        *position.edits,
        position.insert([mode, frozen], rank=8),
    )
    title = f"{position.name} in eval mode and frozen"
    yield Change(
        ChangeKind.FREEZE,
        title,
        edits,
        setting=_EVAL_FROZEN,
        where=(position.where,),
        note=note,
    )


def frozen_script(program: UserProgram, file: ParsedFile) -> Iterator[Change]:
    """Yield the frozen model of a program that scripts, traces or loads it:
    freezing comes after that."""
    value = value_of_model(file, program.model_name, program.makes_model)
    if value is None:
        return
    freeze, imports = spelled(file, "torch.jit.freeze")
    if program.training:
        mode, note = ".eval()", _OTHER_IN_TRAINING
    else:
        mode, note = "", _INFERENCE
    edits = (*imports, file.replaced(value, f"{freeze}({file.text(value)}{mode})"))
    title = f"{program.model_name} {'in eval mode and ' if mode else ''}frozen"
    setting = _EVAL_FROZEN if program.training else FROZEN
    where = (file.where(value),)
    yield Change(
        ChangeKind.FREEZE, title, edits, setting=setting, where=where, note=note
    )
