"""Which changes of a program or a run could bring operators into groups: one for each kind and operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusiondoc.changes.changed_arguments import changes_argument
from fusiondoc.changes.recipes import Recipe, breaks_in_training, on_extremes
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.advice import (
    NO_RULE,
    REPLACEABLE,
    condition_of,
    constant_attribute,
    other_fusers,
)
from fusiondoc.diagnosis.lines_of_changes import (
    lines_by_recipe,
    lines_moved,
    lines_of_kept_tensor,
    lines_of_modules,
    lines_out_of_place,
    ranks_of,
)
from fusiondoc.diagnosis.nvfuser_rules import to_be_constant
from fusiondoc.diagnosis.recipes_of_rows import recipe_of
from fusiondoc.diagnosis.rows_in_plans import RowsInPlans
from fusiondoc.diagnosis.rules import Owner, RunFacts, in_torch
from fusiondoc.diagnosis.surroundings import NOTHING_TO_GAIN
from fusiondoc.diagnosis.unlocked import WouldBeGroup
from fusiondoc.fusers import is_fusible, nnc, nvfuser, taken_by
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.operators import (
    CALLED_BY,
    FILLS,
    IN_PLACE_ASSIGNS,
    LIBRARY,
    PERMUTATIONS,
    PLACES_ELEMENTS,
    SAME_ELEMENTS,
    WITH_FLAG,
    WITH_FORMULA,
    is_in_place,
    sign_of,
)
from fusiondoc.model.reasons import Argument, Condition
from fusiondoc.model.reasons.lacking_constants import reads_training_flag
from fusiondoc.model.remedies import AS_REQUESTED, NNC_REDUCTIONS, Setting
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source, from_package

IN_A_PACKAGE = "the line is in a package: change a copy of its module, or override its forward"

ONE_NAME = (
    "only where no other name has the tensor (skip = h, or a slice of h): that one would keep the old values"
)

CALLERS = "only where no caller needs its own tensor changed"

NO_GRAD = "Run it under torch.no_grad()"


@dataclass(frozen=True)
class Candidate:
    """A change, with the rows of ``report.unfused`` that it is about."""

    kind: ChangeKind
    change: str
    rows: tuple[int, ...]
    before: str | None = None
    after: str | None = None
    """How the operator is called, and how it would be; lines of the program are in ``edits``."""
    where: str | None = None
    note: str | None = None
    python: str | None = None
    """Lines that do it from outside, as in ``PlannedChange``."""
    setting: Setting = AS_REQUESTED
    """For a change of the run."""
    in_python: bool = False
    """``change`` has the lines of Python that keep the setting."""
    edits: tuple[Edit, ...] = ()
    removes: bool = False
    """The operators go."""
    folded: int = 0
    """Batch norms of these rows that become part of the convolutions before them."""
    sure: bool = True
    """It is known to bring operators into groups; else it is worth a try."""
    joins: tuple[WouldBeGroup, ...] = ()
    """For what is not about rows: the groups of the run that it joins."""
    conditional: bool = False
    """Something has to hold that the log does not tell."""


def candidates(report: Report, run: RunFacts) -> list[Candidate]:
    """Every change that the operators outside groups suggest and that can matter in this run."""
    found: dict[tuple[ChangeKind, str], Candidate] = {}
    files = _files(report)
    ranks = ranks_of(report.programs)
    places = RowsInPlans(report)
    of_line: dict[tuple[Edit, ...], tuple[ChangeKind, str]] = {}
    for index, row in enumerate(report.unfused):
        if row.ran is False or run.owner(row) is Owner.FORMULA:
            continue
        one = _of_row(index, row, run)
        if one is None or (one.kind.in_source and run.of_aot_gradient(row)):
            continue
        one = _with_lines(one, row, report, run, ranks)
        if one.kind is ChangeKind.FREEZE and row.op == "aten::batch_norm":
            one = replace(one, folded=places.behind_convolutions(row))
        if one.kind is ChangeKind.NOT_INPLACE and not one.edits:
            one = _where_made(one, row.op, report, files)
        if one.kind is ChangeKind.NUMBER and not one.edits:
            continue
        if one.kind is ChangeKind.OUT_OF_PLACE and places.may_be_read_as_it_was(row):
            one = replace(one, conditional=True, note=ONE_NAME)
        if one.kind is ChangeKind.OUT_OF_PLACE and _of_a_caller(row, report, places):
            one = replace(one, conditional=True, note="; ".join(filter(None, (one.note, CALLERS))))
        if one.kind is ChangeKind.MOVE and one.sure and not places.before_one_tensor(row):
            continue
        key = one.kind, one.change
        if one.kind is ChangeKind.OUT_OF_PLACE and one.edits:
            key = of_line.setdefault(one.edits, key)  # several operators may be called in one line
            if key in found and one.change != found[key].change:
                change = _all_out_of_place(report, (*found[key].rows, index)) or one.change
                found[key] = replace(found[key], change=change)
        found[key] = _joined(found[key], one) if key in found else one
    return list(found.values())


def _all_out_of_place(report: Report, rows: Sequence[int]) -> str | None:
    """``Write add_() and floor_() out of place``; None of one operator."""
    names = list(dict.fromkeys(f"{report.unfused[row].op.rpartition('::')[2]}()" for row in rows))
    return f"Write {', '.join(names[:-1])} and {names[-1]} out of place" if len(names) > 1 else None


def _of_a_caller(row: Unfused, report: Report, places: RowsInPlans) -> bool:
    """Whether it changes in place a tensor that the program was called with."""
    place = Source.parse(row.user_source)
    text = report.texts.source(place.file) if place is not None and report.texts is not None else None
    file = parsed_text(text, place.file) if place is not None and text is not None else None
    if place is None or file is None:
        return False
    return changes_argument(file, place.line) and places.may_come_from_outside(row)


def _joined(one: Candidate, more: Candidate) -> Candidate:
    edits = dict.fromkeys([*one.edits, *more.edits])
    return replace(
        one,
        rows=(*one.rows, *more.rows),
        edits=tuple(edits),
        where=one.where or more.where,
        note=one.note or more.note,
        folded=one.folded + more.folded,
        python=one.python or more.python,
    )


def _takes(op: str, run: RunFacts) -> bool:
    return is_fusible(op) if run.fuser is None else taken_by(op, run.fuser, run.torch)


def _of_row(index: int, row: Unfused, run: RunFacts) -> Candidate | None:
    code, detail = row.reason.code, row.reason.detail
    inference = not run.backward and not run.frozen
    if row.op in ("aten::dropout", "aten::dropout_") and run.gradients is False and inference:
        return replace(_freeze(index, run, "dropout does nothing in inference"), removes=True)
    assigns = row.op in IN_PLACE_ASSIGNS or row.op in FILLS
    if detail == Argument("unknown_number") and run.owner(row) is Owner.USER and _takes(row.op, run):
        note = "its value is not waited for either"
        return Candidate(ChangeKind.NUMBER, "Keep the tensor instead of its .item()", (index,), note=note)
    if is_in_place(row.op) and code in ("FD216", "FD230", "FD231") and not assigns:
        one = _not_in_place(index, row, run)
        if one is not None:
            return one
    if run.fuser == "nnc" and row.op in nnc.REDUCTIONS and code in ("FD201", "FD211", "FD219", "FD233"):
        how = NNC_REDUCTIONS.text if run.live else "torch._C._jit_set_texpr_reductions_enabled(True)"
        change = f"Let NNC take reductions: {how}"
        return Candidate(ChangeKind.KNOB, change, (index,), setting=NNC_REDUCTIONS, in_python=not run.live)
    if (
        code == "FD213"
        and run.fuser == "nnc"
        and len(run.devices) == 1
        and row.op not in LIBRARY
        and _takes(row.op, run)
    ):
        return _on_its_device(index, run)
    if reads_training_flag(detail) and code in ("FD219", "FD229", "FD201", "FD211", "FD215"):
        if inference:
            return _freeze(index, run, "its flag `training` becomes a constant; for inference only")
        return None if run.traced or not run.live else _trace(index)
    condition = condition_of(detail)
    if condition is not None and condition.on == "attribute":
        attribute = constant_attribute(condition)
        if attribute is not None and run.owner(row) is Owner.USER:
            flag, kind = attribute
            change = f"Declare the attribute {flag} torch.jit.Final, so that the branch goes"
            before, after = f"{flag}: {kind}", f"{flag}: torch.jit.Final[{kind}]"
            return Candidate(ChangeKind.ANNOTATION, change, (index,), before, after)
        why = "attributes become constants; for inference only"
        return _freeze(index, run, why) if inference else None
    mine, name = run.owner(row) not in (Owner.TORCH, Owner.FORMULA), row.op.rpartition("::")[2]
    if code == "FD229" and row.op == "prim::If" and mine:
        return _without_branch(index, condition)
    if row.op in PERMUTATIONS and mine and row.phase != "backward":
        return _permutation_at_the_edge(index, name)
    if row.op in SAME_ELEMENTS and code in _OF_VIEWS and mine and row.phase != "backward":
        return _view_at_the_edge(index, name)
    breaks = breaks_in_training(row.op, run.fuser, run.gradients)
    constants = to_be_constant(detail) if row.op in nvfuser.BY_CONSTANT_DIMENSION else None
    if constants is not None and mine and not breaks:
        note = "numbers in the code, or attributes that are declared torch.jit.Final, not arguments"
        change = f"Give {name}() constants for {constants}"
        return Candidate(ChangeKind.CONSTANT, change, (index,), *_by_dimension(name), note=note)
    recipe = recipe_of(row, run)
    replaceable = code in REPLACEABLE or (code == "FD226" and row.keeps_out)
    if recipe is not None and replaceable and recipe.caution is None:
        return _by_recipe(index, row, recipe, run.gradients)
    if code in ("FD231", "FD103") and run.gradients and not run.backward and _gains(row.op, run):
        note = "for inference: gradients are recorded, and no backward pass ran"
        return Candidate(ChangeKind.NO_GRAD, NO_GRAD, (index,), "y = model(x)",
                         "with torch.no_grad(): y = model(x)", note=note)  # fmt: skip
    if code in ("FD204", "FD222") and run.fuser == "nvfuser":
        return Candidate(ChangeKind.DEVICE, "Move its tensors to the GPU", (index,), "x", "x.to('cuda')")
    if row.keeps_out and code in NO_RULE and row.op not in LIBRARY and not is_in_place(row.op):
        return _without_rule(index, row, run)
    if code == "FD221":
        return Candidate(
            ChangeKind.DEVICE, "Put all its tensors on one device", (index,), "x", "x.to(y.device)"
        )
    return None


def _gains(op: str, run: RunFacts) -> bool:
    taken = _takes(op, run) if run.fuser is not None else taken_by(op, "nvfuser") and taken_by(op, "nnc")
    return taken and op not in LIBRARY and op not in NOTHING_TO_GAIN


def _on_its_device(index: int, run: RunFacts) -> Candidate:
    name = "gpu" if "cuda" in run.devices else "cpu"
    knobs = {f"fuse_on_{name}": "on"}
    note = None
    if name == "cpu":
        knobs["nnc_must_use_llvm"] = "off"
        note = (
            "a torch without LLVM (the wheels of 2.1 and newer) then interprets groups, slowly: it shows what"
            " fuses"
        )
    change, setting = f"Let NNC fuse on the {name.upper()}", Setting(knobs=knobs)
    return Candidate(ChangeKind.KNOB, change, (index,), note=note, setting=setting)


def _without_rule(index: int, row: Unfused, run: RunFacts) -> Candidate | None:
    """No recipe is known: another fuser, one that is not always right, or another place for what computes
    nothing. To move what does compute changes results, as ``sigmoid(cumsum(x))`` is no
    ``cumsum(sigmoid(x))``."""
    name = row.op.rpartition("::")[2]
    extremes = on_extremes(row.op, row.reason.detail, run.fuser, run.gradients)
    others = other_fusers(row.op, run) if extremes is None else []
    if others:
        change = f"Try {' or '.join(f'--fuser {other}' for other in others)}, which takes {name}"
        return Candidate(ChangeKind.FUSER, change, (index,), setting=Setting(fuser=others[0]), sure=False)
    recipe = recipe_of(row, run)
    if recipe is not None and recipe.caution is not None:
        change = f"Write {recipe.words}"
        return Candidate(ChangeKind.RECIPE, change, (index,), note=recipe.caution, sure=False)
    if row.op not in PLACES_ELEMENTS:
        return None
    change = f"Do {name} before or after the operators that it separates"
    note = "where these work on each element by itself"
    return Candidate(ChangeKind.MOVE, change, (index,), note=note, sure=False, conditional=True)


_FROZEN, _TRACED = Setting(flags=("--freeze",)), Setting(flags=("--trace",))


def _by_dimension(name: str) -> tuple[str, str]:
    """A call of a reduction, and the same with constants."""
    if name == "mean":
        return "x.mean(dim, keepdim=keep)", "x.mean(2, keepdim=True)"
    return f"torch.{name}(x, dim)", f"torch.{name}(x, -1)"


def _freeze(index: int, run: RunFacts, why: str) -> Candidate:
    change = f"Freeze it: {run.freezing}"
    if run.traced is None:
        return Candidate(ChangeKind.FREEZE, change, (index,), note=why, setting=_FROZEN)
    before = "torch.jit.trace(model, inputs)" if run.traced else "torch.jit.script(model)"
    after = run.freezing
    return Candidate(ChangeKind.FREEZE, change, (index,), before, after, note=why, setting=_FROZEN)


_OF_VIEWS = ("FD226", "FD231", "FD201", "FD211", "FD233")


ALL_OUT_OF_PLACE = """\
# or from outside, before torch.jit.script: a scripted module refuses it
for module in model.modules():
    if hasattr(module, "inplace"):
        module.inplace = False"""
"""For modules that a package makes. Set on a scripted module it is a RuntimeError, "Can't set constant"
(torch 2.13)."""


def _view_at_the_edge(index: int, name: str) -> Candidate:
    arguments = {"t": "", "permute": "0, 2, 1", "transpose": "1, 2", "squeeze": "1", "unsqueeze": "1",
                 "flatten": "1"}.get(name, "-1, 64")  # fmt: skip
    note = f"where one side of it works on each element by itself; other tensors there get the {name} too"
    return Candidate(
        ChangeKind.MOVE_VIEW,
        f"Do the {name} after the operators that follow it, or before those in front of it",
        (index,),
        f"y = g(f(x).{name}({arguments}))",
        f"y = g(f(x)).{name}({arguments})",
        note=note,
        conditional=True,
    )


def _permutation_at_the_edge(index: int, name: str) -> Candidate:
    arguments = {"roll": "1, 0", "rot90": "1, [0, 1]", "flip": "[0]"}.get(name)
    given = f", {arguments}" if arguments else ""
    return Candidate(
        ChangeKind.MOVE,
        f"Do the {name} after the operators that follow it",
        (index,),
        f"y = g(torch.{name}(f(x){given}))",
        f"y = torch.{name}(g(f(x)){given})",
        note="where these work on each element by itself",
        conditional=True,
    )


def _without_branch(index: int, condition: Condition | None) -> Candidate | None:
    """A branch that goes, by what it depends on."""
    if condition is None:
        return None
    if condition.on == "tensor_value":
        return Candidate(
            ChangeKind.BRANCH,
            "Choose with torch.where instead of a branch on a tensor's value",
            (index,),
            "if condition: y = f(x)\nelse: y = g(x)",
            "y = torch.where(condition, f(x), g(x))",
            note="both sides are computed then; the condition stays a tensor, without bool() and .item()",
            conditional=True,
        )
    if condition.on == "argument":
        return Candidate(
            ChangeKind.CONSTANT,
            "Make the flag a constant: a function for each value, chosen before the scripted code",
            (index,),
            "def f(x, flag: bool): return g(x) if flag else h(x)",
            "f = g if flag else h",
            note="a module has it as an attribute that is declared torch.jit.Final",
            conditional=True,
        )
    return None


def _trace(index: int) -> Candidate:
    change = "Trace the model instead of scripting it, so that flags become constants"
    return Candidate(ChangeKind.TRACE, change, (index,), "torch.jit.script(model)",
                     "torch.jit.trace(model, inputs)", setting=_TRACED)  # fmt: skip


def _not_in_place(index: int, row: Unfused, run: RunFacts) -> Candidate | None:
    plain = row.op[:-1]
    if not _takes(plain, run) or (run.gradients and row.phase != "backward" and plain not in WITH_FORMULA):
        return None
    name = plain.rpartition("::")[2]
    if row.op in WITH_FLAG and (in_torch(row.source) or run.owner(row) is Owner.TORCH):
        return Candidate(
            ChangeKind.NOT_INPLACE,
            f"Set inplace=False on {_module(name)}",
            (index,),
            f"nn.{_module(name)}(inplace=True)",
            f"nn.{_module(name)}(inplace=False)",
        )
    sign = sign_of(row.op)
    if sign is not None:
        before, after = f"x {sign}= y", f"x = x {sign} y"
    else:
        before, after = f"x.{name}_()", f"x = x.{name}()"
    return Candidate(ChangeKind.OUT_OF_PLACE, f"Write {after} instead of {before}", (index,), before, after)


def _module(name: str) -> str:
    return CALLED_BY.get(name, (name,))[0]


def _by_recipe(index: int, row: Unfused, recipe: Recipe, gradients: bool | None) -> Candidate:
    dims = recipe.arguments and row.op.rpartition("::")[2] in ("mean", "sum", "var", "std")
    name = row.op.rpartition("::")[2].rstrip("_")
    after = recipe.after if not recipe.shown else recipe.shown.partition(" instead of ")[0]
    before = recipe.before if not recipe.shown else recipe.shown.partition(" instead of ")[2]
    words = "with its dimensions named" if dims else "with operators that fuse"
    needs = recipe.needs or ""
    if row.op == "aten::to" and row.reason.code == "FD231":
        needs = needs.partition("; ")[0]  # with a dtype alone it has no gradient formula either
    more = [needs] if needs else []
    if recipe.at_kinks is not None and gradients:
        more.append(recipe.at_kinks)
    if recipe.helper:
        more.append(f"fusiondoc explain {name} has the function")
    return Candidate(
        ChangeKind.DIMENSIONS if dims else ChangeKind.RECIPE,
        f"Write {name}() {words}",
        (index,),
        before,
        after,
        note="; ".join(more) or None,
        sure=not recipe.shown,
        conditional=recipe.needs is not None and not dims,
    )


def _with_lines(
    one: Candidate, row: Unfused, report: Report, run: RunFacts, ranks: Mapping[int | None, int]
) -> Candidate:
    """The candidate with the user's lines, where the program's own files are at hand."""
    if not one.kind.in_source:
        return one
    owner = run.owner(row)
    place = Source.parse(row.user_source)
    if place is None or owner is Owner.PACKAGE:
        return _elsewhere(one, row, owner, run)
    text = report.texts.source(place.file) if report.texts is not None else None
    made: Sequence[Edit] = ()
    if text is not None and one.kind is ChangeKind.NUMBER:
        kept = lines_of_kept_tensor(text, place.file, place.line, detached=run.gradients is not False)
        if kept is not None:
            made = kept.edits
            one = replace(one, change=f"Write {kept.after} instead of {kept.before}")
    elif text is not None and one.kind in (ChangeKind.MOVE, ChangeKind.MOVE_VIEW):
        moved = lines_moved(text, place.file, place.line)
        if moved is not None:
            made = moved.edits
            one = replace(one, before=moved.before, after=moved.after, conditional=False, note=None)
    elif text is not None and one.kind in (ChangeKind.OUT_OF_PLACE, ChangeKind.NOT_INPLACE):
        made = lines_out_of_place(text, place.file, place.line, row.op)
    elif (
        text is not None and one.kind in (ChangeKind.RECIPE, ChangeKind.DIMENSIONS) and run.fuser is not None
    ):
        recipe = recipe_of(row, run)
        module = row.layers[0].rpartition(".")[2] if row.layers else None
        if recipe is not None:
            rank, numbers = ranks.get(row.index), run.fuser == "nnc" and run.gradients is False
            made = lines_by_recipe(text, place.file, place.line, recipe, rank, module, as_tensor=not numbers)
            if recipe.numbers_too and made:
                note = None if numbers else "for tensors of a floating-point type"
                one = replace(one, note=note, conditional=False)
    sign = sign_of(row.op)
    if made and sign is not None and one.kind is ChangeKind.OUT_OF_PLACE and f"{sign}=" not in made[0].before:
        name = row.op.rpartition("::")[2]
        one = replace(one, change=f"Write x = x.{name[:-1]}(y) instead of x.{name}(y)")
    return replace(one, edits=tuple(made), where=f"{made[0].file}:{made[0].line}" if made else place.at_line)


def _elsewhere(one: Candidate, row: Unfused, owner: Owner, run: RunFacts) -> Candidate:
    """The line is of a package, or not told."""
    source = Source.parse(row.user_source) or Source.parse(row.source)
    if source is None or not source.has_file:
        return one
    place = from_package(source.at_line)
    if owner is Owner.PACKAGE:
        return replace(one, where=place, note="; ".join(filter(None, (one.note, IN_A_PACKAGE))))
    if owner is Owner.TORCH and one.kind is ChangeKind.NOT_INPLACE:
        return replace(one, note="where the module is made", python=ALL_OUT_OF_PLACE)
    recipe = recipe_of(row, run)
    if owner is Owner.TORCH and recipe is not None and recipe.module is not None:
        name = row.op.rpartition("::")[2].rstrip("_")
        how = f"{recipe.module} calls it: fusiondoc explain {name} has the lines that replace it from outside"
        return replace(one, note="; ".join(filter(None, (one.note, how))))
    if owner is Owner.TORCH:
        return replace(one, note="; ".join(filter(None, (one.note, f"it is called in {place}"))))
    return replace(one, where=place)


def _files(report: Report) -> tuple[str, ...]:
    """The files of the user's that the report names, else its target's."""
    nodes = [node.user_source for group in report.groups for node in group.nodes]
    places = map(Source.parse, [*(row.user_source for row in report.unfused), *nodes])
    named = [
        place.file for place in places if place is not None and place.has_file and not in_torch(place.file)
    ]
    target = (report.target.name or "").partition(".py:")
    return tuple(dict.fromkeys(named or [target[0] + ".py" if target[1] else target[0]]))


def _where_made(one: Candidate, op: str, report: Report, files: Sequence[str]) -> Candidate:
    """Modules of torch.nn are called in torch's files; what is changed is where the user makes them."""
    texts = ((file, report.texts.source(file)) for file in files) if report.texts is not None else ()
    made = [edit for file, text in texts if text is not None for edit in lines_of_modules(text, file, op)]
    if not made:
        return one
    return replace(one, edits=tuple(made), where=f"{made[0].file}:{made[0].line}", note=None, python=None)
