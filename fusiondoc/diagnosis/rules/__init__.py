"""The type of a rule, its context beside the report, and how it makes a finding of
a code; and the facts of a run that rules and advice depend on.

A fact that nothing shows is None, and no advice assumes it. One report can hold
rows of several frontends (TorchScript, te.ops, torch.compile): each has its own
rules, changes and coverage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from pathlib import Path

from fusiondoc.captures.capture import Rerun
from fusiondoc.captures.ending import Result
from fusiondoc.captures.frontend_records import GraphBreaks, TeRecords
from fusiondoc.captures.fuser_fault import FuserFault
from fusiondoc.captures.probe_records import Failure, LeftRunning, Redirected
from fusiondoc.captures.request import KeptRequest
from fusiondoc.captures.switch_records import Switches
from fusiondoc.captures.trust import project_root
from fusiondoc.diagnosis.casts import casts_to_other_types
from fusiondoc.fusers import DYNAMO, facts_of, frontend_of_group, taken_by
from fusiondoc.fusers.frontend import Frontend
from fusiondoc.fusers.te import TE
from fusiondoc.fusers.torchscript import TORCHSCRIPT
from fusiondoc.graph import DependencyGraph, graph_of
from fusiondoc.model import dataclass, field
from fusiondoc.model.change_plan import Fixes
from fusiondoc.model.codes import CODES
from fusiondoc.model.compiled import FALLBACKS
from fusiondoc.model.reasons import CompiledCall
from fusiondoc.model.reasons.lacking_constants import reads_training_flag
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import (
    Evidence,
    Finding,
    Program,
    ProgramNode,
    Report,
    Unfused,
)
from fusiondoc.model.runs import AnyFuser, Coverage, Time
from fusiondoc.model.source import file_of
from fusiondoc.operators import CONTROL_FLOW, OF_MANY_ELEMENTS, VIEWS
from fusiondoc.parsers.observed import Observed


@dataclass(frozen=True)
class Context:
    observed: Observed
    request: KeptRequest | None = None
    """The request of the run; None for a plain log."""
    own: bool = True
    """True if this user made the capture here: its file names may be used in
    commands."""
    result: Result = field(default_factory=Result)
    """How the child ended; empty for a plain log."""
    error: Failure | None = None
    """The error that the probe recorded, if the user's program failed."""
    rerun: Rerun | None = None
    """The result of a rerun without fallback."""
    fault: FuserFault | None = None
    """Whether the fuser or the program caused the error that ended the run, if
    further runs showed it."""
    left: LeftRunning | None = None
    """Processes that the program left running."""
    left_later: LeftRunning | None = None
    """Processes that further runs of the capture left running."""
    fixes: Fixes | None = None
    """The changes of the program that ``fix`` tried on this run."""
    switches: Switches = field(default_factory=Switches)
    """Parts of torch that the program switched off."""
    redirected: Redirected = field(default_factory=Redirected)
    """Changes that the program made to the logged file descriptors."""
    te: TeRecords = field(default_factory=TeRecords)
    """The records of the probe on te.ops."""
    finished: bool = False
    """True if all requested passes were done when the process ended."""
    ended_early: bool = False
    """True if the program ended its process, apparently without an error, before
    all passes were done."""

    graph_breaks: GraphBreaks = field(default_factory=GraphBreaks)
    """The positions at which torch.compile split the program for AOTAutograd."""
    rank: int | None = None
    """The rank whose end ``result`` and ``error`` describe, in a run of several
    ranks."""

    @property
    def cut_short(self) -> bool:
        """True if the run did not come to its end: a line that is missing from the
        log proves nothing."""
        return self.result.cut_short or self.error is not None or self.ended_early


Rule = Callable[[Report, Context], Iterable[Finding]]
"""A rule: report and context to findings. It never raises and changes nothing."""


def finding(
    code: str,
    message: str,
    *,
    source: str | None = None,
    evidence: Sequence[Evidence] = (),
    remedy: Remedy | str | None = None,
    severity: str | None = None,
    saves_bytes: int | None = None,
    keeps_out: int | None = None,
    recipe: str | None = None,
    ops: Sequence[str] = (),
    rows: Sequence[Unfused] = (),
    time: Time | None = None,
    brief: str | None = None,
) -> Finding:
    """Return a finding of ``code`` with its usual severity, unless another is
    given; at most a note if nothing can be done.

    Args:
        remedy: a text is a step without an explanation.
        rows: the operators outside groups that it is about.
    """
    remedy = Remedy.of(remedy) if remedy is not None else None
    severity = severity or CODES[code].severity
    if severity == "warning" and remedy is not None and remedy.nothing is not None:
        severity = "note"
    return Finding(
        code,
        severity,
        message,
        source,
        evidence,
        remedy.text if remedy is not None else None,
        saves_bytes=saves_bytes,
        keeps_out=keeps_out,
        recipe=recipe,
        ops=tuple(ops),
        time=time,
        rows=tuple(row.index for row in rows if row.index is not None),
        remedy=remedy,
        brief=brief,
    )


def helps_any_size(report: Report) -> bool:
    """True if the setting ``ANY_SIZE`` can change anything: some fusers compile for
    exact sizes even with it, and a run that already has it gains nothing."""
    strategies = []
    for knob in report.knobs:
        if knob.name == "fusion_strategy":
            strategies.append(knob.effective or "")
    fuser = report.fuser.effective or report.fuser.requested
    return not facts_of(fuser).limits.exact_sizes and not any(
        one.startswith("DYNAMIC") for one in strategies
    )


_GRADIENT = re.compile(r"requires_grad=([01])")


class Owner(Enum):
    """The owner of an operator's line: decides how the line can be changed."""

    USER = "the user's program"
    PACKAGE = "an installed package"
    TORCH = "torch.nn and the rest of torch"
    FORMULA = "torch's own gradient formulas"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class RunFacts:
    fuser: str | None
    torch: str | None
    gradients: bool | None
    """True if gradients are recorded: training, or inference without
    torch.no_grad()."""
    backward: bool
    """True if a backward pass ran."""
    frozen: bool | None
    """True if the module was frozen."""
    traced: bool | None
    dtypes: frozenset[str]
    """Dtypes of the tensors in groups and plans, as the log prints them: Float,
    Half ..."""
    devices: frozenset[str]
    """cpu, cuda."""
    live: bool
    """True if fusiondoc ran the program, and can run it again in another way."""
    project: Path | None
    """The folder of the user's files."""
    last: frozenset[int] = frozenset()
    """Rows (``Unfused.index``) of operators whose results no fusible element-wise
    operator takes."""

    mixed_casts: frozenset[int] = frozenset()
    """Rows of casts whose results meet only tensors of other types."""
    computed: frozenset[tuple[str, str | None]] | None = None
    """Operators (name and user's line) of the forward graphs of AOTAutograd; None
    if there are no such graphs."""

    def of_aot_gradient(self, row: Unfused) -> bool:
        """True if the operator is from AOTAutograd's gradient of a line, which does
        not show it. Operators of the forward pass that a backward graph recomputes
        do not count: they are in their line."""
        graph = row.source is not None and row.source.startswith("<eval_with_key>")
        if self.computed is None or row.phase != "backward" or not graph:
            return False
        return (row.op, row.user_source) not in self.computed

    def at_the_end(self, row: Unfused) -> bool:
        """True if no fusible element-wise operator takes its result in any plan."""
        return row.index in self.last

    @property
    def freezing(self) -> str:
        """The call that freezes the model; a model traced in training mode keeps
        the values of its flags."""
        if self.traced:
            return "torch.jit.freeze(torch.jit.trace(model.eval(), inputs))"
        if self.traced is None:
            return "torch.jit.freeze(module), of the scripted or traced module in eval mode"
        return "torch.jit.freeze(torch.jit.script(model.eval()))"

    def owner(self, row: Unfused) -> Owner:
        """Return the owner of the line that makes the operator."""
        if row.source is not None and row.source.startswith("<"):
            written = (
                row.source.startswith("<eval_with_key>")
                and row.user_source is not None
            )
            # Without gradients these are torch's own definitions of operators
            # between a number and a tensor
            # (torch/csrc/jit/frontend/builtin_functions.cpp, 1.12 to 2.13).
            plain = self.gradients is False and row.phase != "backward"
            if not written:  # else the probe found its call in an FX graph
                if plain:
                    return Owner.UNKNOWN
                return Owner.FORMULA
        lines = row.users_lines
        if row.source is None and not lines and row.phase == "backward":
            return Owner.FORMULA  # added by torch to sum gradients
        file = next(filter(None, map(file_of, lines)), None) or file_of(row.source)
        if file:
            return _owner_of(file, self.project, bool(lines))
        return Owner.UNKNOWN


@lru_cache(maxsize=1024)
def _owner_of(file: str, project: Path | None, called: bool) -> Owner:
    """Return the owner of a file.

    Args:
        called: a user's line is known; if not, a file outside the project is not
            the user's.
    """
    if in_torch(file):
        return Owner.TORCH
    if _PACKAGE.search(file):
        return Owner.PACKAGE
    if (
        project is not None
        and file.startswith(("/", "\\"))
        and project not in Path(file).parents
    ):
        if called:
            return Owner.USER
        return Owner.PACKAGE
    return Owner.USER


def in_torch(source: str | None) -> bool:
    """True if a source is one of torch's own files."""
    return source is not None and _TORCH.search(source) is not None


def in_package(source: str) -> bool:
    """True if a source is a file of an installed package, torch included."""
    return in_torch(source) or _PACKAGE.search(source) is not None


_TORCH = re.compile(r"(?:^|[/\\])torch[/\\](?:\w+\.py|\w+[/\\].*\.py)")
_PACKAGE = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3[.\d]*|torch(?:vision|audio|text)|transformers|timm"
    r"|detectron2|fairseq|espnet2?|torch_geometric|diffusers|monai|torchani)[/\\]"
)
"""Folders of packages; logs of other machines have no project folder."""


def run_facts(report: Report, context: Context) -> RunFacts:
    """Return the facts of a run, by the request, the probe and the log."""
    request = context.request
    options = request.options if request is not None else None
    live = options is not None and not options.script
    fuser = report.fuser.effective or report.fuser.requested
    types = list(_types(report))
    backward = _has_backward(report) or bool(options and options.backward)
    if options is not None and live:
        traced = options.trace
    else:
        traced = _traced(report, context.observed.traced)
    project = None
    if request is not None and request.cwd:
        project = project_root(Path(request.cwd))
    return RunFacts(
        fuser=fuser,
        torch=_torch(report, context),
        gradients=_gradients(report, types, backward, live),
        backward=backward,
        frozen=report.target.frozen is not None if options is not None else None,
        traced=traced,
        dtypes=frozenset(text.split("(", 1)[0] for text in types if "(" in text),
        devices=frozenset(name for name in ("cpu", "cuda") if _is_on(name, types)),
        live=live,
        project=project,
        last=_last(report, fuser),
        mixed_casts=casts_to_other_types(report),
        computed=_computed(report),
    )


def _torch(report: Report, context: Context) -> str | None:
    """Return the version that ran, by the environment, the request or the lines of
    the log."""
    version = report.environment.get("torch")
    if version is None and context.request is not None:
        version = context.request.torch
    return version or context.observed.release


def _has_backward(report: Report) -> bool:
    phases = {group.phase for group in report.groups}
    phases.update(row.phase for row in report.unfused)
    return "backward" in phases


def _is_on(device: str, types: Iterable[str]) -> bool:
    return any(f"device={device}" in text for text in types)


def _last(report: Report, fuser: str | None) -> frozenset[int]:
    """Return the rows of operators whose results no fusible element-wise operator
    takes."""
    last: set[int] = set()
    others: set[int] = set()
    inside = {}
    for group in report.groups:
        inside[group.id] = {node.op for node in group.nodes}
    for program in report.programs:
        graph = graph_of(program)
        takers = set()
        for index, node in enumerate(program.nodes):
            if _is_element_wise(
                node, inside.get(node.group or "", {node.op}), fuser
            ):
                takers.add(index)
        for index, node in enumerate(program.nodes):
            if not node.rows:
                continue
            if program.cut or not takers.isdisjoint(
                _takers_through_views(graph, index)
            ):
                others.update(node.rows)
            else:
                last.update(node.rows)
    return frozenset(last - others)


def _is_element_wise(
    node: ProgramNode, ops: AbstractSet[str], fuser: str | None
) -> bool:
    """True if a node with these operators could be fused with one before it."""
    if node.kind == "operator" and (fuser is None or not taken_by(node.op, fuser)):
        return False
    return not ops & OF_MANY_ELEMENTS


def _takers_through_views(
    graph: DependencyGraph[ProgramNode], node: int
) -> Iterator[int]:
    """Yield the nodes that take a node's result, directly or through views; these
    views too."""
    reached = graph.reach(
        [node], "after", lambda index: graph.nodes[index].op in VIEWS
    )
    yield from reached.passed
    for end, _ in reached.ends:
        yield end


def _computed(report: Report) -> frozenset[tuple[str, str | None]] | None:
    forward = []
    for one in report.aot:
        for graph in one.graphs:
            if graph.phase == "forward":
                forward.append(graph)
    if not forward or any(graph.cut for graph in forward):
        return None
    operators = set()
    for graph in forward:
        for node in graph.nodes:
            if node.op is not None:
                operators.add((node.op, node.user_source))
    return frozenset(operators)


def _traced(report: Report, scopes: bool) -> bool | None:
    """Return whether the model was traced, by the log: only tracing writes scopes;
    without scopes, control flow shows scripting. None if neither shows."""
    if scopes:
        return True
    control = any(row.op in CONTROL_FLOW and row.source for row in report.unfused)
    flags = any(
        reads_training_flag(row.reason.detail) for row in report.unfused
    )  # constants in a trace
    if control or flags:
        return False
    return None


def _types(report: Report) -> Iterable[str]:
    for group in report.groups:
        yield from group.inputs
    for program in report.programs:
        for node in program.nodes:
            yield from node.inputs


def _gradients(
    report: Report, types: Iterable[str], backward: bool, live: bool
) -> bool | None:
    """Return whether gradients are recorded: a backward pass, a differentiable
    region or a type shows it; a live run without any of these records none."""
    regions = any(
        node.kind == "region"
        for program in report.programs
        for node in program.nodes
    )
    formulas = any(row.reason.code in ("FD231", "FD103") for row in report.unfused)
    flags = set()
    for text in types:
        flags.update(_GRADIENT.findall(text))
    if backward or regions or formulas or "1" in flags:
        return True
    if live or "0" in flags:
        return False
    return None


def of_te(report: Report) -> Report:
    """Return the report with only the rows of te.ops."""
    return _with_rows(report, TE)


def of_compiled(report: Report) -> Report:
    """Return the report with only the rows of torch.compile."""
    return _with_rows(report, DYNAMO)


def of_torchscript(report: Report) -> Report:
    """Return the report with only the rows of TorchScript, as if there were no
    others."""
    if report.te is None and report.compiled is None:
        return report
    return replace(_with_rows(report, TORCHSCRIPT), te=None, compiled=None)


def has_torchscript(report: Report) -> bool:
    """True if there are rows of TorchScript, or none of other frontends."""
    if report.te is None and report.compiled is None:
        return True
    groups = [frontend_of_group(group.kind) for group in report.groups]
    return TORCHSCRIPT in (*groups, *map(_frontend_of_row, report.unfused))


def _frontend_of_row(row: Unfused) -> Frontend:
    if isinstance(row.reason.detail, CompiledCall):
        return DYNAMO
    return frontend_of_group(row.op)


def _with_rows(report: Report, frontend: Frontend) -> Report:
    """Return the report with only the rows of that frontend."""
    groups = []
    for group in report.groups:
        if frontend_of_group(group.kind) is frontend:
            groups.append(group)
    unfused = []
    for row in report.unfused:
        if _frontend_of_row(row) is frontend:
            unfused.append(row)
    others = frozenset(one.id for one in report.groups) - {one.id for one in groups}
    other_rows = frozenset(row.index for row in report.unfused) - {
        row.index for row in unfused
    }
    made = replace(
        report,
        groups=tuple(groups),
        unfused=tuple(unfused),
        kernels=tuple(
            one for one in report.kernels if not others.intersection(one.groups)
        ),
        programs=tuple(
            one for one in report.programs if not _has_any(one, others, other_rows)
        ),
        compiled=report.compiled if frontend is DYNAMO else None,
    )
    if frontend is TORCHSCRIPT:
        return made
    return replace(made, fusion_groups_left_out=0, fused_operators_left_out=0)


def _has_any(
    program: Program, groups: frozenset[str], rows: frozenset[int | None]
) -> bool:
    return any(
        node.group in groups or rows.intersection(node.rows)
        for node in program.nodes
    )


def te_coverage(report: Report) -> Coverage:
    """Return the share of operators in groups, among these and the ones that some
    rule of te.ops takes."""
    fused = report.fused_operators
    total = fused + sum(
        row.count for row in report.unfused if row.reason.code != "FD246"
    )
    share = fused / total if total else None
    unknown = None if total else f"no operator ran that {TE.title} has a rule for"
    return Coverage(
        fused, total or None, share, AnyFuser(total or None, share), unknown
    )


def _not_found(report: Report) -> bool:
    """True if no kernel or call is known to compute some operators of compiled
    graphs."""
    graphs = report.compiled.graphs if report.compiled is not None else ()
    return any(graph.not_found for graph in graphs)


def compiled_coverage(report: Report) -> Coverage:
    """Return the share of operators that generated kernels compute, among these and
    those that the compiler left to calls because it has no lowering, or on purpose.

    Calls of libraries are not counted, as for other fusers, nor operators that move
    no data.
    """
    fused = report.fused_operators
    left = 0
    for row in report.unfused:
        if row.reason.code in FALLBACKS:
            left += row.count
    total = fused + left
    if _not_found(report):
        return Coverage(
            fused,
            None,
            None,
            AnyFuser(None, None),
            "the log does not show all operators of kernels",
        )
    if not total:
        return Coverage(
            0,
            None,
            None,
            AnyFuser(None, None),
            "no operator is known that was compiled",
        )
    return Coverage(fused, total, fused / total, AnyFuser(total, fused / total))
