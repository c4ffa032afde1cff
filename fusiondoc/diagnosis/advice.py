"""What to change about an operator that is in no group: worded for the run it was seen in.

The general advice of a code is in ``model/codes.py``; here it is made to fit: a recipe, whose line it is,
what the run records and where it ran. Advice that contradicts the run is worse than none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from fusiondoc import fusers
from fusiondoc.diagnosis.nnc_conditions import CONDITIONS, WRITE_THE_LIST
from fusiondoc.diagnosis.reasons_of_node import WRITES_OUT
from fusiondoc.diagnosis.recipes import (
    OTHER_TYPES,
    OVERLOADS,
    Recipe,
    breaks_in_training,
    on_extremes,
    recipe_for,
)
from fusiondoc.diagnosis.rules import Owner, RunFacts, in_torch
from fusiondoc.diagnosis.surroundings import INTO_OBJECT
from fusiondoc.fusers import nnc
from fusiondoc.model import dataclass, fuser_title, operators
from fusiondoc.model.codes import CODES
from fusiondoc.model.remedies import NNC_REDUCTIONS, Remedy, nothing
from fusiondoc.model.report import Unfused
from fusiondoc.parsers.jit import rejections
from fusiondoc.parsers.jit.flow import COUNTED_LOOP, PYTHON, SIDE_EFFECTS

NO_RULE = ("FD201", "FD211", "FD233")
"""Reasons that only another way to write the operator takes away, or another place for it."""

REPLACEABLE = frozenset([*NO_RULE, "FD215", "FD219", "FD230", "FD231"])
"""Reasons that another way to write the operator takes away."""

NEEDS_SHAPES = frozenset([rejections.NO_SHAPE])
"""Conditions that groups for fixed shapes meet."""

_HALVES = {"Half", "BFloat16"}
_SUPPORTED = {"Float", "Double", "Bool", "Int", "Long"} | _HALVES


@dataclass(frozen=True)
class Advice:
    remedy: Remedy | None
    recipe: Recipe | None = None
    """What the remedy suggests, if it is sure to help."""
    sure: bool = False
    """It says how to bring the operator, or what it keeps out, into a group."""


def advice_on(row: Unfused, run: RunFacts) -> Advice:
    """What can be done about it, where it can be done."""
    if row.op in ("aten::dropout", "aten::dropout_") and run.gradients is False and not run.frozen:
        text = f"It does nothing in inference: freezing takes it out: {run.freezing}."
        return Advice(Remedy(text), sure=True)
    off = run.fuser == "nnc" and row.op in nnc.REDUCTIONS
    replaceable = row.reason.code in REPLACEABLE and not off
    recipe = recipe_of(row, run) if replaceable else None
    if row.reason.code in NO_RULE and not off and run.of_aot_gradient(row):
        return Advice(nothing("Nothing: it is of the gradient of this line, which AOTAutograd writes."))
    if recipe is not None:
        sure = recipe.caution is None
        return Advice(Remedy.of(_by_recipe(row, run, recipe)), recipe if sure else None, sure)
    worded = _WORDED.get(row.reason.code)
    remedy = Remedy.of(worded(row, run)) if worded is not None else CODES[row.reason.code].remedy
    return Advice(remedy, sure=row.reason.code not in NO_RULE)


def general_remedy(code: str) -> Remedy:
    """The remedy that fits all operators with a reason; every code that is worded here has one."""
    remedy = CODES[code].remedy
    assert remedy is not None
    return remedy


def of_a_library(row: Unfused, run: RunFacts) -> bool:
    """Whether it runs in a kernel of a library that no program is better without."""
    return row.op in operators.LIBRARY and _recipe(row.op, run, row.reason.text) is None


def of_torch(row: Unfused, run: RunFacts) -> bool:
    """Whether it is a line of torch's own gradient formulas."""
    return run.owner(row) is Owner.FORMULA and row.reason.code not in ("FD103", "FD226", "FD235")


def between_libraries(row: Unfused, run: RunFacts) -> bool:
    """Whether only kernels of a library keep it from what it could fuse with."""
    if row.reason.code != "FD227":
        return False
    barrier = _barrier(row)
    return barrier in operators.LIBRARY and _recipe(barrier, run) is None


def recipe_of(row: Unfused, run: RunFacts) -> Recipe | None:
    """The recipe for an operator, where it stands and as it was refused: no other words make the fuser take a
    type that it refused."""
    if any(words in row.reason.text for words in OTHER_TYPES) or run.of_aot_gradient(row):
        return None
    if row.index in run.mixed_casts:
        return None  # no tensor is known to have the type that type_as() would need
    found = _recipe(row.op, run, row.reason.text)
    return None if found is not None and found.follows and run.at_the_end(row) else found


def _recipe(op: str, run: RunFacts, reason: str | None = None) -> Recipe | None:
    """``reason``: of the operator; empty where nothing tells which of its arguments was refused."""
    if run.fuser is None:
        return None
    return recipe_for(op, run.fuser, run.torch, run.gradients, reason)


def _barrier(row: Unfused) -> str:
    """The operator that the reason begins with."""
    named = re.match(r"(?:aten|prim)::\w+", row.reason.text)
    return named.group() if named else ""


def _by_recipe(row: Unfused, run: RunFacts, recipe: Recipe) -> str | Remedy:
    owner = run.owner(row)
    if row.reason.code == "FD231" and row.op == "aten::to":
        return "Write x.type_as(y) instead of x.to(...), where y has that type and device: it has a formula."
    conditions = "; ".join(text for text in (recipe.needs, recipe.caution) if text)
    more = f" ({conditions})" if conditions else ""
    name = row.op.rsplit("::", 1)[1].rstrip("_")
    if recipe.module is not None and owner in (Owner.PACKAGE, Owner.TORCH):
        return Remedy(
            f"Replace {recipe.module} by a module with {recipe.after}{more};",
            f"from outside: fusiondoc explain {name}",
        )
    end = f": fusiondoc explain {name}" if recipe.helper else "."
    step = f"Write {recipe.words}{more}"
    if owner is Owner.PACKAGE:
        return Remedy(f"{step};", f"the line is in a package: change a copy of its module{end}")
    return step + end


def _reductions(run: RunFacts) -> Remedy:
    how = NNC_REDUCTIONS.text if run.live else "torch._C._jit_set_texpr_reductions_enabled(True)"
    return Remedy(f"Let NNC take reductions: {how}.", setting=NNC_REDUCTIONS)


_IN_PYTHON = "Write the function in TorchScript, without @torch.jit.ignore"


def _no_rule(row: Unfused, run: RunFacts) -> str | Remedy:
    if row.op.startswith(PYTHON):
        return Remedy(f"{_IN_PYTHON};", "or call it before or after the operators that should fuse.")
    if run.fuser == "nnc" and row.op in nnc.REDUCTIONS:
        return _reductions(run)
    extremes = on_extremes(row.op, row.reason.text, run.fuser, run.gradients)
    if extremes is not None:
        return extremes
    if run.fuser is not None and fusers.taken_by(row.op, run.fuser, run.torch):
        if "`training`" in row.reason.text:
            return _argument(row, run)
        if breaks_in_training(row.op, run.fuser, run.gradients):
            return nothing(
                "Nothing in training: with constant dimensions nvFuser takes it, and the run fails where its"
                " result is added or subtracted (FD307).",
                "Under torch.no_grad() name its dimensions.",
            )
        if "a number before the tensor" in row.reason.text and row.op != "aten::pow":
            return "Put the number into a tensor, made once: torch.full_like(x, 2.0)."
        overload = OVERLOADS.get(row.op) if "this overload" in row.reason.text else None
        if overload is not None:
            return overload
        if "number of an unknown type" in row.reason.text:
            return (
                "Say what the number is where it is made, float(x.item()), or keep it in a tensor without"
                " dimensions."
            )
        if "reduces to no other" in row.reason.text:
            return "Reduce in a floating-point type, and cast the result."
        text = "Make its dimensions, sizes and flags constants"
    else:
        text = "There is no recipe for it"
        if row.op in operators.PLACES_ELEMENTS:
            behind = (
                "the operators that it separates" if row.keeps_out else "both, if it is between two groups"
            )
            text += f": do it before or after {behind}, where these work on each element by itself"
    others = " or ".join(f"--fuser {name}" for name in other_fusers(row.op, run))
    return f"{text}, or try {others}." if others else f"{text}."


def other_fusers(op: str, run: RunFacts) -> list[str]:
    """Fusers that take the operator and can run there, as far as it is known."""
    takers = fusers.fusible_by(op, run.torch) - {run.fuser}
    if run.torch is None or "cuda" not in run.devices:
        takers -= {"nvfuser"}
    if "cpu" not in run.devices or "cuda" in run.devices or run.gradients is not False:
        takers -= {"onednn"}
    if op in nnc.REDUCTIONS or op in operators.LIBRARY or not run.live:
        takers -= {"nnc"}
    return [name for name in ("nvfuser", "nnc", "onednn") if name in takers]


def _in_place(row: Unfused, run: RunFacts) -> str | Remedy:
    if row.reason.text == WRITES_OUT:
        name = row.op.rpartition("::")[2]
        return f"Take the result that torch.{name}(...) returns without out=, in the place of that tensor."
    if row.op in operators.FILLS:
        name = row.op.rpartition("::")[2]
        filled = f"Make a filled tensor, x = {operators.FILLS[row.op]} for x.{name}(...)"
        return Remedy(f"{filled};", "for a part of one choose with torch.where.")
    if row.op in operators.WITH_FLAG and in_torch(row.source):
        return Remedy(
            "Set inplace=False where the module is made;",
            "or from outside, before torch.jit.script: for m in [m for m in model.modules() if"
            " hasattr(m, 'inplace')]: m.inplace = False",
        )
    sign = operators.sign_of(row.op)
    if row.op in operators.IN_PLACE_ASSIGNS:
        text = (
            "It is an assignment to a part of a tensor: choose with torch.where, or join parts with torch.cat"
        )
    elif sign is not None:
        text = f"Write x = x {sign} y instead of x {sign}= y"
    else:
        text = f"Write the version without the underscore: x = x.{row.op.rsplit('::', 1)[1][:-1]}(...)"
    if run.owner(row) in (Owner.PACKAGE, Owner.TORCH):
        in_a_package = "the line is in a package: change a copy of its module, or override its forward."
        return Remedy(f"{text};", in_a_package)
    return f"{text}."


def _gradient(row: Unfused, run: RunFacts) -> str | Remedy:
    if operators.sign_of(row.op) is not None or row.op in operators.WITH_FLAG:
        return _in_place(row, run)
    if row.op.startswith(PYTHON):
        return f"{_IN_PYTHON}, with operators that have a gradient formula."
    if "was lost at the border" in row.reason.text or "no type was profiled" in row.reason.text:
        return nothing(
            "Nothing in training: torch loses that type itself.",
            "Under torch.no_grad() no such graph is made.",
        )
    if "torch moves nothing past that" in row.reason.text:
        return (
            "Do what changes the attribute or argument before or after these operators, where that is yours."
        )
    training = "move operators without a gradient formula out of the block"
    ends = re.findall(r"(aten::\w+)(?: \([^()]*\))? (?:before|after) it (changes|has)", row.reason.text)
    if ends and ends[0][1] == "changes" and ends[0][0][:-1] in operators.WITH_FORMULA:
        plain = ends[0][0][:-1]
        training = f"change {ends[0][0]}, which works in place, to {plain}"
        recipe = (
            None if run.fuser is None or fusers.taken_by(plain, run.fuser, run.torch) else _recipe(plain, run)
        )
        if recipe is not None:
            training = f"change {ends[0][0]}, which works in place: {recipe.words}"
    elif ends and "alone in its" in row.reason.text and all(op in operators.LIBRARY for op, _ in ends):
        return nothing("Nothing: what is next to it are kernels of libraries.")
    small = "--knob autodiff_inlining=off keeps small regions."
    if run.backward:
        step = f"{training[0].upper()}{training[1:]}"
        return Remedy(f"{step};", small) if run.live else f"{step}."
    training += f"; {small}" if run.live else "."
    return Remedy("If this is inference, run it under torch.no_grad().", f"For training {training}")


_CONSTANTS = ("bool", "int", "float", "str")
"""Types of single values that ``torch.jit.Final`` takes (try_ann_to_type and infer_constants of
torch/jit/_recursive.py, 1.12 to 2.13); it refuses an Enum, which freezing makes a constant."""


def constant_attribute(reason: str) -> tuple[str, str] | None:
    """The attribute that a branch depends on and its type, where it can be declared a constant."""
    found = re.search(r"attribute `(.*?)`(?: of type ([^\s)]+))?", reason)
    if found is None or (found[2] or "bool") not in _CONSTANTS:
        return None
    return found[1], found[2] or "bool"


def _control_flow(row: Unfused, run: RunFacts) -> str | Remedy:
    text, owner = row.reason.text, run.owner(row)
    if "flag `training`" in text or "attribute `" in text:
        when = "" if run.gradients is False else "for inference, "
        parts = [] if run.frozen else [f"{when}freeze it ({run.freezing})"]
        if owner not in (Owner.PACKAGE, Owner.TORCH) and constant_attribute(text) is not None:
            parts.append("declare it torch.jit.Final")
        if not run.traced:
            parts.append("trace the module instead of scripting it")
        return f"Make it a constant: {', or '.join(parts)}."
    if COUNTED_LOOP in text:
        return (
            "torch unrolls a body of up to 32 nodes, those of functions and branches in it counted: shorten"
            " it, or write the steps out."
        )
    if "a loop that is not unrolled" in text:
        return Remedy(
            "Give the loop a number of steps, for i in range(n), which torch unrolls;",
            "one with a condition stays a loop.",
        )
    if "unrolled" in text:
        return nothing(
            "Nothing, or give the loop a constant number of steps: for i in range(5) leaves no loop."
        )
    if owner in (Owner.PACKAGE, Owner.TORCH):
        return (
            "The branch is in a package: if its inputs always take one side, trace the module instead of"
            " scripting it."
        )
    return general_remedy("FD229")


def _separated(row: Unfused, run: RunFacts) -> str | Remedy:
    moved = _reordered(row, run)
    if moved is not None:
        return moved
    barrier = _barrier(row)
    if "wait for each other" in row.reason.text:
        return _waits(row)
    if run.fuser == "nnc" and barrier in nnc.REDUCTIONS:
        return _reductions(run)
    if barrier in OVERLOADS and run.fuser == "nnc" and "does not take here" in row.reason.text:
        return OVERLOADS[barrier]
    recipe = _recipe(barrier, run, reason="")
    if recipe is not None:
        more = "; ".join(text for text in (recipe.needs, recipe.caution) if text)
        return f"Change {barrier}: {recipe.words}{f' ({more})' if more else ''}."
    plain = barrier[:-1]
    if barrier.endswith("_") and run.fuser is not None and fusers.taken_by(plain, run.fuser, run.torch):
        return f"Change {barrier}, which works in place, to {plain}."
    if barrier.startswith("aten::") and barrier not in operators.PLACES_ELEMENTS:
        return nothing(
            f"Nothing, as long as {barrier} cannot be written with operators that fuse: no recipe is known."
        )
    return general_remedy("FD227")


def _types(row: Unfused, run: RunFacts) -> str | Remedy:
    text = row.reason.text
    if row.op.startswith("aten::_autocast_to_"):
        return nothing(
            "Nothing, where autocast is needed: it adds this cast.", "Else end its block before these lines."
        )
    for words, advice in OTHER_TYPES.items():
        if words in text:
            return advice
    if run.dtypes and run.dtypes <= _SUPPORTED:
        return "Its dtypes are supported: make its other arguments constants."
    return general_remedy("FD215")


def _dtype(row: Unfused, run: RunFacts) -> str:
    only = run.fuser == "nnc" and run.devices == {"cpu"}
    kinds = "float32" if only else "float32, float16 or bfloat16"
    kinds = "the dtype of the rest" if run.dtypes & _HALVES else kinds
    return f"Compute in {kinds} where the result allows it, and cast outside the block."


def _device(row: Unfused, run: RunFacts) -> str | Remedy:
    if run.fuser == "nvfuser":
        return Remedy("Move its tensors to the GPU: .to('cuda').", "NNC fuses on the CPU too.")
    return "Move its tensors to the device of the others."


def _not_on_this_device(row: Unfused, run: RunFacts) -> str | Remedy:
    for device, name in (("cuda", "gpu"), ("cpu", "cpu")):
        if run.devices == {device}:
            return f"Turn fusion on for its device: torch._C._jit_override_can_fuse_on_{name}(True)."
    return general_remedy("FD213")


def _alone(row: Unfused, run: RunFacts) -> str | Remedy:
    if "differentiable graph ends there" in row.reason.text:
        sign = operators.sign_of(_barrier(row))
        how = f"x = x {sign} y instead of x {sign}= y" if sign else f"{_barrier(row)} without its underscore"
        return f"Write {how} after it."
    if INTO_OBJECT in row.reason.text:
        return "Compute with its result under a name of its own, and put it into the object last."
    if run.fuser == "nvfuser" and run.live:
        return nothing(
            "Nothing, if it is alone for good;", "--knob single_node=on makes it a group of its own."
        )
    return nothing("Nothing, if it is alone for good.")


def _nothing_to_gain(row: Unfused, run: RunFacts) -> str | Remedy:
    if "copies" in row.reason.text:
        return nothing(
            "Nothing where what follows needs that order in memory;",
            "else do the permute or transpose before it last, and the copy is saved.",
        )
    return general_remedy("FD226")


def _argument(row: Unfused, run: RunFacts) -> str | Remedy:
    if "`training`" in row.reason.text and not run.frozen:
        when = "" if run.gradients is False else "for inference, "
        other = "" if run.traced else ", or trace the module instead of scripting it"
        return f"Make it a constant: {when}freeze the module ({run.freezing}){other}."
    if row.reason.text == rejections.VIEW_SHARED and row.op == "prim::ConstantChunk":
        return (
            "Take what is used outside by itself, x.narrow(1, 0, n), instead of from the chunk: then all uses"
            " of the chunk are in the group."
        )
    if row.reason.text in NEEDS_SHAPES:
        knob = " (--knob fusion_strategy=STATIC:10)" if run.live else ""
        return f"Let groups be made for fixed shapes: torch.jit.set_fusion_strategy([('STATIC', 10)]){knob}."
    if row.reason.text in (rejections.LIST_ELSEWHERE, rejections.CAT_ELSEWHERE) and run.gradients:
        return Remedy(
            WRITE_THE_LIST,
            "Where it is written so, what makes the tensors is outside its differentiable graph: it works in"
            " place, or has no gradient formula.",
        )
    return CONDITIONS.get(row.reason.text) or general_remedy("FD219")


def _reordered(row: Unfused, run: RunFacts) -> str | None:
    """What stands between can often be moved: the text begins with it."""
    text = row.reason.text
    if text.startswith("a number that"):
        return (
            "Compute the number before: of the model's input (x.size(0)), or of another tensor that the group"
            " does not compute."
        )
    if text.startswith("the dtype of its result"):
        return "Cast with type_as, y.type_as(x) for y.to(x.dtype), or name the dtype: y.to(torch.float16)."
    if text.startswith(("the device of its result", "the layout of its result")):
        return "Take it of another tensor, such as an input of the model."
    if text.startswith((SIDE_EFFECTS["prim::Enter"], SIDE_EFFECTS["prim::Exit"])):
        return "Put these operators together into the with block, or before or after it."
    if text.startswith(tuple(SIDE_EFFECTS.values())) or text.startswith("aten::wait"):
        return "Do that before or after these operators."
    return None


def _waits(row: Unfused) -> Remedy:
    return nothing(
        f"Nothing, as long as {_barrier(row)} is in no group: one runs before it, the other after it."
    )


def _order(row: Unfused, run: RunFacts) -> str | Remedy:
    waits = _waits(row) if "wait for each other" in row.reason.text else None
    return _reordered(row, run) or waits or general_remedy("FD216")


def _not_profiled(row: Unfused, run: RunFacts) -> str:
    runs = " (--runs)" if run.live else ""
    return (
        f"Run the code in the first passes too{runs}, with all its branches, so that its tensors are"
        " profiled."
    )


def _unknown(row: Unfused, run: RunFacts) -> str | Remedy:
    if run.fuser == "onednn":
        return nothing(
            "Nothing: its partitions are chains of certain operators, such as a convolution with an addition."
        )
    if run.live:
        name = fuser_title(run.fuser) if run.fuser else "torch"
        return nothing(f"Nothing that {name} states tells why: please report it to fusiondoc.")
    return general_remedy("FD299")


_WORDED: Mapping[str, Callable[[Unfused, RunFacts], str | Remedy]] = {
    **dict.fromkeys(NO_RULE, _no_rule),
    "FD213": _not_on_this_device,
    "FD215": _types,
    "FD216": _order,
    "FD219": _argument,
    "FD222": _device,
    "FD223": _dtype,
    "FD225": _alone,
    "FD226": _nothing_to_gain,
    "FD227": _separated,
    "FD229": _control_flow,
    "FD230": _in_place,
    "FD231": _gradient,
    "FD232": _not_profiled,
    "FD299": _unknown,
}
