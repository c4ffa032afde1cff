"""Lines that are added to the user's file: where the model is made, for its modules, their replacement and
freezing; after the imports, for settings of torch that a finding suggests.

This is how a model of a package changes without its files. Proposed with these are what is no line of a
file (another fuser), and inputs that ask for gradients which no backward pass uses.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from fusiondoc.changes.by_recipe import with_free_name, with_imports
from fusiondoc.changes.change import Change
from fusiondoc.changes.edits import Edit
from fusiondoc.changes.inserted_lines import after_imports, defined, lines_at, spelled
from fusiondoc.changes.recipes import Recipe
from fusiondoc.changes.source_file import ParsedFile, walk
from fusiondoc.diagnosis.advice import NEEDS_SHAPES
from fusiondoc.diagnosis.tries import suggested
from fusiondoc.fixes import Program
from fusiondoc.fixes.model_position import ModelPosition, position_of_model, value_of_model
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.remedies import Setting
from fusiondoc.operators import is_in_place, plain_name
from fusiondoc.runner.own_launcher import knob_lines


def propose(program: Program) -> Iterator[Change]:
    """Settings of torch, another fuser, and what can be done to the model from where it is made."""
    yield from _of_settings(program)
    position = position_of_model(program)
    if position is not None:
        yield from of_model(program, position)
    if program.is_scripted and not program.backward:
        yield from _frozen_script(program)


def of_model(program: Program, position: ModelPosition) -> Iterator[Change]:
    """What can be done to the model from where it is made."""
    off = frozenset(row.op for row in program.rows if _of_a_module(row.op, row.source))
    if off:
        yield _in_place_off(position, off)
    ops = {f"aten::{plain_name(row.op)}" for row in program.rows}
    for recipe in dict.fromkeys(one for op in _dearest_first(program, ops) for one in program.helping(op)):
        yield from _replaced(position, recipe, _both(recipe.replaces & ops))
    if program.is_module and not program.backward and not program.options.trace and position.may_freeze:
        yield from _frozen(program, position)


def _of_a_module(op: str, source: str | None) -> bool:
    """Whether torch.nn.functional works in place there, as modules with ``inplace`` ask for."""
    return is_in_place(op) and source is not None and "torch/nn/" in source.replace("\\", "/")


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
    return Change(ChangeKind.NOT_INPLACE, title, edits, where=where, ops=ops, at_model=True)


_PARAMETER = {
    "ELU": ("0.5", "alpha"),
    "CELU": ("0.5", "alpha"),
    "LeakyReLU": ("0.01", "negative_slope"),
    "Hardshrink": ("0.5", "lambd"),
    "Softshrink": ("0.5", "lambd"),
}
"""The number in a recipe that stands for an attribute of the module."""

_ONLY_IF = {
    "Hardtanh": "({0}.min_val, {0}.max_val) == (-1.0, 1.0)",
    "Softplus": "{0}.beta == 1",
    "GLU": "{0}.dim == -1",
    "AdaptiveAvgPool2d": "{0}.output_size in (1, (1, 1))",
}
"""What else has to be so of a module that the recipe can stand for."""


def _dearest_first(program: Program, ops: set[str]) -> list[str]:
    """Those that keep most operators out of groups first."""
    cost = dict.fromkeys(ops, 0)
    for row in program.rows:
        cost[f"aten::{plain_name(row.op)}"] += row.keeps_out or row.count
    return sorted(ops, key=lambda op: (-cost[op], op))


def _both(ops: frozenset[str]) -> frozenset[str]:
    """With their versions in place."""
    return ops | {f"{op}_" for op in ops}


def _replaced(position: ModelPosition, recipe: Recipe, ops: frozenset[str]) -> Iterator[Change]:
    """A class with the recipe as its ``forward``, and a loop that puts it in the place of torch's."""
    if recipe.module is None or recipe.inputs.count("=") != 1 or recipe.caution is not None:
        return
    file, kind = position.file, recipe.module.split("(")[0].rpartition(".")[2]
    module, imports = spelled(file, "torch.nn.Module")
    old, more = spelled(file, f"torch.nn.{kind}")
    own = file.free_name(f"Fusible{kind}", f"{kind}InParts")
    number, attribute = _PARAMETER.get(kind, ("", ""))
    of_module = recipe.after.replace(number, f"self.{attribute}") if number else recipe.after
    body, helper, more_imports = with_imports(file, replace(recipe, after=of_module))
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
    written = [*definition, *head, "    def forward(self, x):", f"        return {body}"]
    parent, name, child = (
        file.free_name(*words) for words in (("parent", "above"), ("name", "child_name"), ("child", "inner"))
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
    note = None if recipe.difference in ("rounding", "exact") else f"{kind}: {recipe.difference}"
    where = (position.where,)
    yield Change(ChangeKind.RECIPE, title, edits, where=where, note=note, ops=ops, at_model=True)


def _condition(kind: str, child: str, old: str, recipe: Recipe) -> str:
    """When a module is one that the recipe can stand for."""
    condition = f"type({child}) is {old}"
    if kind == "GELU":
        approximate = "tanh" if "tanh" in recipe.before else "none"
        return f'{condition} and {child}.approximate == "{approximate}"'
    if kind in _ONLY_IF:
        return f"{condition} and {_ONLY_IF[kind].format(child)}"
    return condition


_FROZEN, _EVAL = Setting(flags=("--freeze",)), Setting(flags=("--eval",))
_EVAL_FROZEN = Setting(flags=("--eval", "--freeze"))

_INFERENCE = "for inference only"
_OTHER_IN_TRAINING = f"{_INFERENCE}: dropout and batch norm compute something else than in training"


def _frozen(program: Program, position: ModelPosition) -> Iterator[Change]:
    """Inference only: weights and flags become constants."""
    freeze, imports = spelled(position.file, "torch.jit.freeze")
    script, more = spelled(position.file, "torch.jit.script")
    title = f"{position.name} frozen"
    if program.training is None:
        return
    frozen = f"{position.name} = {freeze}({script}({position.name}))"
    if not program.training:
        edits = (*imports, *more, *position.edits, position.insert([frozen], rank=8))
        yield Change(
            ChangeKind.FREEZE, title, edits, setting=_FROZEN, where=(position.where,), note=_INFERENCE
        )
        return
    mode = f"{position.name}.eval()"
    note = _OTHER_IN_TRAINING
    edits = (*position.edits, position.insert([mode], rank=7))
    title_of_mode = f"{position.name} in eval mode"
    yield Change(ChangeKind.EVAL, title_of_mode, edits, setting=_EVAL, where=(position.where,), note=note)
    edits = (*imports, *more, *position.edits, position.insert([mode, frozen], rank=8))
    title = f"{position.name} in eval mode and frozen"
    yield Change(ChangeKind.FREEZE, title, edits, setting=_EVAL_FROZEN, where=(position.where,), note=note)


def _frozen_script(program: Program) -> Iterator[Change]:
    """The same of a module that the user's file scripts, traces or loads: freezing comes behind that."""
    file, value = program.target_file, value_of_model(program)
    if file is None or value is None:
        return
    freeze, imports = spelled(file, "torch.jit.freeze")
    mode, note = ("", _INFERENCE) if not program.training else (".eval()", _OTHER_IN_TRAINING)
    edits = (*imports, file.replaced(value, f"{freeze}({file.text(value)}{mode})"))
    title = f"{program.target.name or 'model'} {'in eval mode and ' if mode else ''}frozen"
    setting = _EVAL_FROZEN if program.training else _FROZEN
    where = (file.where(value),)
    yield Change(ChangeKind.FREEZE, title, edits, setting=setting, where=where, note=note)


def _of_settings(program: Program) -> Iterator[Change]:
    """One for each knob and fuser, and one for the inputs."""
    file = program.target_file
    for change in suggested(program.report, program.options, program.target.kind):
        ops = frozenset(row.op for row in program.rows if row.reason.code in change.codes)
        if change.kind is ChangeKind.FUSER:
            yield _another_fuser(program, change, ops)
        elif file is not None:
            yield from _setting(file, change.setting, ops, ChangeKind.KNOB)
    if file is None:
        return
    yield from _static_shapes(program, file)
    if not program.backward:
        yield from _without_grad(program)


def _another_fuser(program: Program, change: Change, ops: frozenset[str]) -> Change:
    """No line of a file: which fuser runs is for the launcher to say, or for each position with a context."""
    target = shlex.quote(program.target.text)
    note = "a setting of the run, not in the diff; its lines for your own program:\n"
    note += f"fusiondoc env --export {target} {change.title}"
    return replace(change, note=note, ops=ops)


def _setting(file: ParsedFile, setting: Setting, ops: frozenset[str], kind: ChangeKind) -> Iterator[Change]:
    lines = knob_lines(setting.knobs)
    if not lines or any(line.startswith("#") for line in lines):
        return
    name, imports = spelled(file, "torch")
    lines = [
        line.replace("torch._C._jit_set_fusion_strategy", "torch.jit.set_fusion_strategy") for line in lines
    ]
    written = [f"{name}{line[len('torch') :]}" if line.startswith("torch.") else line for line in lines]
    edit = lines_at(file, after_imports(file), written, "", rank=-8)
    where = (f"{file.source.path}:{file.source.text.count(chr(10), 0, edit.start) + 1}",)
    note, edits = "for the whole process", (*imports, edit)
    yield Change(kind, written[0], edits, setting=setting, where=where, note=note, ops=ops)


_STATIC = Setting(knobs={"fusion_strategy": "STATIC:20"})


def _static_shapes(program: Program, file: ParsedFile) -> Iterator[Change]:
    """Plans for the shapes that come, one each, where a group for any shape was refused or none was left."""
    rows = [row for row in program.rows if row.reason.code == "FD304" or row.reason.detail == NEEDS_SHAPES]
    requested = program.options.knobs.get("fusion_strategy", "")
    if rows and "STATIC:20" not in requested:
        ops = frozenset(row.op for row in rows)
        yield from _setting(file, _STATIC, ops, ChangeKind.STATIC_SHAPES)


def _without_grad(program: Program) -> Iterator[Change]:
    """``requires_grad=True`` of the inputs, where nothing is differentiated."""
    file = program.target_file
    assert file is not None
    edits: list[Edit] = []
    for statement in file.tree.body:
        if isinstance(statement, ast.Assign) and _names_inputs(statement):
            flags = (given.value for given in walk(statement.value) if _asks_for_gradients(given))
            edits += [file.replaced(flag, "False") for flag in flags]
    if edits:
        note = "for inference only; where gradients are recorded elsewhere, run it under torch.no_grad()"
        yield Change(ChangeKind.NO_GRAD, "inputs that record no gradients", tuple(edits), note=note)


def _names_inputs(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "inputs" for target in node.targets)


def _asks_for_gradients(node: ast.AST) -> TypeGuard[ast.keyword]:
    """``requires_grad=True``"""
    if not isinstance(node, ast.keyword) or node.arg != "requires_grad":
        return False
    return isinstance(node.value, ast.Constant) and node.value.value is True
