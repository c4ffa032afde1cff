"""The registries of fusers and of frontends, and queries over all of them.

All facts about a single fuser are in a folder of its name here, with one module for
each concern: the operators that it takes (``takes.py``), its lines in logs
(``log.py``). "Takes" means: for some types, shapes and arguments. A rule may still
refuse a node, say for a dimension that is not a constant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from fusiondoc.fusers.aot import AOT
from fusiondoc.fusers.dump_kind import DumpKind
from fusiondoc.fusers.frontend import Frontend
from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.inductor import INDUCTOR
from fusiondoc.fusers.inductor.files import is_debug_file as is_debug_file
from fusiondoc.fusers.inductor.frontend import CACHED as CACHED
from fusiondoc.fusers.inductor.frontend import DYNAMO as DYNAMO
from fusiondoc.fusers.inductor.frontend import NO_BYTES as NO_BYTES
from fusiondoc.fusers.legacy import LEGACY
from fusiondoc.fusers.nnc import NNC
from fusiondoc.fusers.nvfuser import NVFUSER
from fusiondoc.fusers.onednn import ONEDNN
from fusiondoc.fusers.te import TE
from fusiondoc.fusers.torchscript import TORCHSCRIPT
from fusiondoc.numbers import version_pair
from fusiondoc.operators import VIEWS

if TYPE_CHECKING:
    from fusiondoc.fusers.inductor.compilation import Compilation as Compilation

FUSERS: dict[str, Fuser] = {}
"""Every fuser by its name."""

FUSER_OF_KIND: dict[str, Fuser] = {}
"""Kind of a fusion group -> its fuser."""


def register(fuser: Fuser) -> None:
    """Add a fuser, before modules that read logs are imported: they make their
    tables from the registry."""
    FUSERS[fuser.name] = fuser
    FUSER_OF_KIND.update(dict.fromkeys(fuser.kinds, fuser))


for _fuser in (NVFUSER, NNC, ONEDNN, LEGACY, INDUCTOR):
    register(_fuser)


EVERYWHERE = NNC.name
"""The fuser that every torch has, for every device."""

_WITHOUT_FACTS = Fuser("", "the fuser", (), instead=(EVERYWHERE,))


def facts_of(name: str | None) -> Fuser:
    """Return the fuser of that name; one without any facts if it is not known which
    fuser ran, or if none did."""
    return FUSERS.get(name or "", _WITHOUT_FACTS)


def group_nodes() -> dict[str, str]:
    """Kind of a node that holds a fusion group (``prim::CudaFusionGroup``) ->
    ``Group.kind``."""
    nodes = {}
    for fuser in FUSERS.values():
        for node, kind in fuser.nodes.items():
            nodes[node] = kind
    return nodes


def plan_headers() -> tuple[str, ...]:
    """Headers of the plans that fusion passes leave."""
    headers = []
    for fuser in FUSERS.values():
        if fuser.log.plan_header is not None:
            headers.append(fuser.log.plan_header)
    return tuple(headers)


def inner_graphs() -> frozenset[str]:
    """Nodes of fusion passes, other than those of groups, that print a graph of
    their own."""
    return frozenset().union(*(fuser.log.inner_graphs for fuser in FUSERS.values()))


@cache
def views_of_any() -> frozenset[str]:
    """Views for which at least one fuser has a stand-in in its groups."""
    views: set[str] = set()
    for fuser in FUSERS.values():
        views.update(fuser.operators.stand_ins.values())
    return frozenset(views)


@cache
def stand_ins() -> dict[str, str]:
    """Operators that fusion passes put into groups in the place of views -> these
    views. They cannot run outside groups."""
    views = {}
    for fuser in FUSERS.values():
        for node, view in fuser.operators.stand_ins.items():
            views[node] = view
    return views


@cache
def scalar_types() -> frozenset[str]:
    """Scalar types of tensors that groups of at least one fuser take."""
    return frozenset().union(
        *(fuser.limits.dtypes or frozenset() for fuser in FUSERS.values())
    )


@cache
def sized_reductions() -> frozenset[str]:
    """Reductions whose size at least one fuser computes alone."""
    return frozenset().union(
        *(fuser.operators.sized_reductions for fuser in FUSERS.values())
    )


@cache
def with_dimensions_only() -> frozenset[str]:
    """Reductions whose overload over all dimensions at least one fuser does not
    take."""
    return frozenset().union(
        *(fuser.operators.with_dimensions_only for fuser in FUSERS.values())
    )


@cache
def by_constant_dimension() -> frozenset[str]:
    """Operators whose `dim` must be a constant for at least one fuser."""
    return frozenset().union(
        *(fuser.operators.by_constant_dimension for fuser in FUSERS.values())
    )


def operators_of_knobs() -> dict[str, frozenset[str]]:
    """Knob -> the operators that a fuser takes only with it."""
    knobs = []
    for fuser in FUSERS.values():
        if fuser.operators.with_knob is not None:
            knobs.append(fuser.operators.with_knob)
    return {knob.knob: knob.operators for knob in knobs}


def knob_for(op: str) -> str:
    """The knobs without which some fusers do not take an operator: "the knob
    nnc_reductions under NNC"."""
    rows = ((fuser.operators.with_knob, fuser.title) for fuser in FUSERS.values())
    parts = []
    for row, title in rows:
        if row and op in row.operators:
            parts.append(f"the knob {row.knob} under {title}")
    return " or ".join(parts)


def taken_by_default(op: str) -> bool:
    """True if all fusers that may run by default take an operator."""
    return all(
        op in fuser.operators.takes for fuser in FUSERS.values() if fuser.by_default
    )


def stdout_marks() -> tuple[bytes, ...]:
    """Starts of the lines that libraries of fusers print to stdout."""
    marks: list[bytes] = []
    for fuser in FUSERS.values():
        marks.extend(fuser.log.stdout_marks)
    return tuple(marks)


def signs() -> tuple[bytes, ...]:
    """Parts of lines; each line of a fuser's dumps contains one."""
    found: list[bytes] = []
    for fuser in FUSERS.values():
        found.extend(fuser.log.signs)
    return tuple(found)


def dump_kinds() -> tuple[DumpKind, ...]:
    """The dumps of fusers that carry text."""
    kinds: list[DumpKind] = []
    for fuser in FUSERS.values():
        kinds.extend(fuser.log.dump_kinds)
    return tuple(kinds)


def kernel_names() -> tuple[str, ...]:
    """Regular expressions for names in the code of kernels that end in a
    counter."""
    names: list[str] = []
    for fuser in FUSERS.values():
        names.extend(fuser.log.kernel_names)
    return tuple(names)


def pass_files() -> tuple[str, ...]:
    """Files of torch in which fusion passes print messages."""
    files = []
    for fuser in FUSERS.values():
        if fuser.log.pass_file is not None:
            files.append(fuser.log.pass_file)
    return tuple(files)


def variables_set() -> tuple[str, ...]:
    """Environment variables of fusers that fusiondoc sets."""
    names: list[str] = []
    for fuser in FUSERS.values():
        names.extend(fuser.switches.variables_set)
    return tuple(names)


def fuser_of_dumps() -> Fuser:
    """The fuser whose kernels are in a log that has nothing but dumps."""
    return next(
        fuser
        for fuser in FUSERS.values()
        if fuser.switches.dump_variable is not None
    )


def calls_off() -> str:
    """The calls with which programs switch fusers off."""
    parts = []
    for fuser in FUSERS.values():
        if fuser.switches.off_by_call is not None:
            parts.append(fuser.switches.off_by_call)
    return " or ".join(parts)


def titles(holds: Callable[[Fuser], object]) -> str:
    """The fusers for which ``holds`` is true, as words of a sentence."""
    return " and ".join(fuser.title for fuser in FUSERS.values() if holds(fuser))


def order_of_choice() -> str:
    """The fusers of TorchScript from which "auto" chooses, as a clause: the last
    works wherever torch does."""
    known = []
    for fuser in FUSERS.values():
        if fuser.by_default:
            known.append(fuser.title)
    return " where this torch really has it, else ".join(known)


def with_evaluator() -> str:
    """The titles of the fusers that run groups in an interpreter if torch has no
    compiler for the CPU."""
    return titles(lambda fuser: fuser.limits.evaluator_without_llvm)


def how_to_leave_out(fuser: str | None) -> str:
    """The option that keeps operators out of the groups of a fuser: ``--knob
    skip_node_kind=OPERATOR``. If the fuser is not known, or has no such setting:
    the options of all fusers that have one, with their names.
    """
    switches = facts_of(fuser).switches
    if switches.knob_to_leave_out is not None:
        return f"--knob {switches.knob_to_leave_out}"
    if switches.variable_to_leave_out is not None:
        return f"{switches.variable_to_leave_out}=OPERATOR in the environment"
    parts = []
    for other in FUSERS.values():
        knob = other.switches.knob_to_leave_out
        if knob is not None:
            parts.append(f"{other.title}: --knob {knob}")
    return ", ".join(parts)


def choices() -> tuple[str, ...]:
    """The values that a run can request: a fuser by name, or none at all."""
    return (
        *(fuser.name for fuser in FUSERS.values() if fuser.can_be_requested),
        "none",
    )


def own_dumps() -> tuple[str, ...]:
    """Dumps of TorchScript's fusers that are no options of a variable."""
    fusers = (fuser for fuser in FUSERS.values() if fuser.of_torchscript)
    dumps = []
    for fuser in fusers:
        for dump in fuser.catalogue.dumps:
            dumps.append(dump.name)
    return tuple(dumps)


def of_torchscript() -> tuple[str, ...]:
    """Fusers that can be requested and whose groups are nodes of TorchScript's
    plans."""
    requested = []
    for name in choices():
        if name in FUSERS:
            requested.append(FUSERS[name])
    return tuple(fuser.name for fuser in requested if fuser.of_torchscript)


def requests() -> tuple[str, ...]:
    """The values of ``--fuser``; with "auto" the installed torch decides."""
    return ("auto", *choices())


def at_work() -> tuple[str, ...]:
    """The fusers that a log can show to be active, and "none"."""
    return (*FUSERS, "none")


def may_write_to_stdout(name: str | None) -> bool:
    """True if the fuser of a run may print to stdout, also if it is not in the
    registry."""
    return name not in at_work() or facts_of(name).log.writes_to_stdout


COMPILER = INDUCTOR.name
"""The variant of a bench that torch.compile makes with its default backend."""

FRONTENDS: dict[str, Frontend] = {
    frontend.name: frontend for frontend in (TORCHSCRIPT, AOT, TE, DYNAMO)
}
"""Every frontend by its name, in the order in which options list them."""


def frontend_choices() -> tuple[str, ...]:
    """The values of ``--frontend``; with "auto" the target decides."""
    return (
        "auto",
        *(
            frontend.name
            for frontend in FRONTENDS.values()
            if frontend.can_be_requested
        ),
    )


def frontend_of_group(kind: str) -> Frontend:
    """The frontend whose fuser makes groups of that kind (``Group.kind``), or
    operators of that kind."""
    for frontend in FRONTENDS.values():
        if frontend.group_prefix is not None and kind.startswith(
            frontend.group_prefix
        ):
            return frontend
    return TORCHSCRIPT


def keeps_kernel_names(kind: str) -> bool:
    """True if a profile shows the kernels of groups of that kind under the report's
    names."""
    return kind in FUSER_OF_KIND and FUSER_OF_KIND[kind].log.kernels_keep_names


def kernel_in_report(name: str) -> str:
    """The report's name of a kernel that a profile shows as ``name``."""
    return _before_kernel_names().sub("", name, count=1)


@cache
def _before_kernel_names() -> re.Pattern[str]:
    known = (fuser.log.before_kernel_names for fuser in FUSERS.values())
    return re.compile(
        "|".join(rf"\A{pattern}" for pattern in known if pattern is not None)
    )


def without_plan(frontend: str | None) -> str:
    """The sentence for a run without any known group or operator."""
    return FRONTENDS.get(frontend or "", TORCHSCRIPT).without_plan


def nothing_compiled(frontend: str | None) -> tuple[str, str] | None:
    """Return the instruction for a run that compiled nothing
    (``Frontend.nothing_compiled``)."""
    return FRONTENDS.get(frontend or "", TORCHSCRIPT).nothing_compiled


def compiles_python(name: str | None) -> bool:
    """True if the frontend makes its graphs from Python in the first pass
    (``Frontend.compiles_python``)."""
    return name in FRONTENDS and FRONTENDS[name].compiles_python


def is_switched_by_package(*names: str | None) -> bool:
    """True if one of these frontends fuses without a switch of torch
    (``Frontend.switched_by_package``)."""
    return any(
        FRONTENDS[name].switched_by_package for name in names if name in FRONTENDS
    )


def fusers_of_frontends() -> tuple[str, ...]:
    """``FuserState.effective`` of the fusers that belong to frontends and are no
    entries of ``FUSERS``."""
    own = []
    for frontend in FRONTENDS.values():
        if frontend.fuser_title is not None:
            own.append(frontend.fuser)
    return tuple(name for name in own if name is not None)


def bench_variants() -> tuple[str, ...]:
    """Variants of a bench that go through a frontend before TorchScript, in the
    order of the table."""
    variants: list[str] = []
    for frontend in FRONTENDS.values():
        variants.extend(frontend.variants)
    return tuple(variants)


def recipes() -> tuple[str, ...]:
    """The values of ``--recipe``."""
    known: list[str] = []
    for frontend in FRONTENDS.values():
        known.extend(frontend.recipes)
    return tuple(known)


COMPILE_MODES = (
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)
"""The values of ``--mode``: modes of torch.compile."""


def fuser_title(name: str) -> str:
    """The fuser's name in sentences; another name, such as none, is unchanged."""
    if name in FUSERS:
        return FUSERS[name].title
    for frontend in FRONTENDS.values():
        if frontend.fuser == name and frontend.fuser_title is not None:
            return frontend.fuser_title
    return name


def takers(effective: str | None, beside: Frontend | None) -> str:
    """The fusers that could take an operator, as words of a sentence.

    Args:
        effective: ``FuserState.effective``.
        beside: a frontend with a fuser of its own that was active too.
    """
    for frontend in FRONTENDS.values():
        if frontend.fuser == effective and effective in fusers_of_frontends():
            return frontend.title
    name = fuser_title(effective) if effective in FUSERS else "the fuser"
    if beside is None:
        return name
    return f"{name} and {beside.title}"


@cache
def taken_by_any() -> frozenset[str]:
    """The operators that at least one fuser can take, in at least one version of
    torch."""
    return frozenset().union(*(fuser.operators.takes for fuser in FUSERS.values()))


def fusible_by(op: str, torch: str | None = None) -> frozenset[str]:
    """The fusers that can take the operator into a group; with a version of torch,
    only those with a rule in that version."""
    version = version_pair(torch) if torch is not None else None
    names = set()
    for fuser in FUSERS.values():
        if _takes(fuser, op, version):
            names.add(fuser.name)
    return frozenset(names)


def _takes(fuser: Fuser, op: str, version: tuple[int, int] | None) -> bool:
    if fuser.operators.taken_in is None or version is None:
        return op in fuser.operators.takes
    if fuser.limits.until is not None and version > fuser.limits.until:
        return False
    return op in fuser.operators.taken_in(version)


def taken_by(op: str, fuser: str, torch: str | None = None) -> bool:
    """True if a fuser has a rule for the operator, for some arguments; without a
    version, in any version."""
    if torch is None:
        return fuser in FUSERS and op in FUSERS[fuser].operators.takes
    return fuser in fusible_by(op, torch)


def takes_seldom(op: str, fuser: str | None) -> bool:
    """True if a fuser takes the operator only with a knob or only on the CPU: then
    no fusion is lost next to it."""
    return op in facts_of(fuser).operators.seldom


def is_fusible(op: str) -> bool:
    """True if at least one fuser can take the operator, and performance is lost if
    none does: False for views."""
    return op in taken_by_any() and op not in VIEWS
