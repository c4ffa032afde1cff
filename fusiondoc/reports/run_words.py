"""Words that every report uses of a run: where the time of a step goes; its ranks, and the rows of one rank
for those that are equal on several; its plan, what a change brings, and the last word on it; what
AOTAutograd did with its functions, and what a program that ran as it is reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from fusiondoc.model import count, dataclass
from fusiondoc.model.change_plan import NEW_FOLDER, NEW_LOG, PlannedChange
from fusiondoc.model.other_frontends import (
    AotFunction,
    AotGraph,
    AotValue,
    FusedModules,
    Partition,
    ScriptModel,
    ScriptRun,
)
from fusiondoc.model.report import Report, Unfused, shared_positions
from fusiondoc.model.runs import RankRow, Ranks, SlowRank, rank_names
from fusiondoc.model.source import SharedPositions
from fusiondoc.rendering.printable import markdown, markdown_code, one_line
from fusiondoc.rendering.units import (
    PAGE,
    TERMINAL,
    digits,
    milliseconds,
    short_percent,
    size,
)
from fusiondoc.views.formatting import covered, near, verdict

TITLE = "Do this first"


def gain(change: PlannedChange) -> str:
    """``up to 0.42 ms of a step``, ``1.04 MB less to move in a run``; else how many operators, if what
    it unlocks does not begin so; "" where nothing tells."""
    if change.gain_ms:
        return f"up to {milliseconds(change.gain_ms)} of a step"
    if change.gain_bytes and change.gain_bytes > 0:
        return f"{size(change.gain_bytes)} less to move in a run"
    said = count(change.operators, "operator") if change.operators else ""
    return "" if (change.unlocks or "").startswith(f"{said} ") else said


def place(change: PlannedChange) -> str:
    """``net.py:12`` and the number of other lines that change; "" where no line is known."""
    if change.where is None:
        return ""
    more = len(change.edits) - 1
    return near(change.where) + (f" and {count(more, 'more line')}" if more > 0 else "")


def before_command(change: PlannedChange) -> str | None:
    """What is to be known before its command is run; None where nothing is."""
    if change.command.startswith(("fusiondoc compare ", "fusiondoc parse ")):
        words = change.command.split(" ")
        if words[-1] == NEW_LOG:
            return f"record a new log as {NEW_LOG}, then:"
        if words[-1] == NEW_FOLDER:
            if words[2:-1] == ["old"]:
                return f"put these logs into a folder old, those of a new run into {NEW_FOLDER}, then:"
            return f"record the logs of a new run in a folder {NEW_FOLDER}, then:"
    return "what tries it, and writes nothing:" if change.command.startswith("fusiondoc fix ") else None


def unlocks(change: PlannedChange) -> str:
    """``unlocks 8 groups of add+relu``; of an error what it is."""
    text = change.unlocks or ""
    return f"unlocks {text}" if change.operators and text[:1].isdigit() else text


def no_plan(report: Report) -> str:
    """What stands above the reason why there is nothing to change."""
    return report.plan_title or "Nothing to do"


ONLY_TRYING = "to try changes that no log can judge (writes nothing):"
"""What stands before that command."""


def last_word(report: Report) -> str:
    """The verdict, and what to do about it, on one line."""
    share = covered(report, short_percent) if report.coverage.fraction is not None else None
    said = verdict(report) + (f" ({share})" if share is not None else "")
    if not report.plan:
        more = "; fusiondoc fix can try some" if report.plan_try is not None else ""
        return said + (f". {no_plan(report)}{more}" if report.plan_note else "")
    first = report.plan[0]
    where = f" ({place(first)})" if first.where is not None else ""
    return f"{said}. Do first: {first.change}{where}"


def plan_in_markdown(report: Report) -> list[str]:
    """The plan as lines of GitHub-flavoured Markdown: for comments and job summaries."""
    if not report.plan:
        lines = [f"**{no_plan(report)}**: {markdown(report.plan_note)}"] if report.plan_note else []
        if report.plan_try is not None:
            lines += ["", f"{ONLY_TRYING} {markdown_code(report.plan_try)}"]
        return lines
    lines = [f"**{TITLE}**", ""]
    for number, change in enumerate(report.plan, 1):
        where, brings = place(change), gain(change)
        head = f"{number}. **{markdown(change.change)}**"
        head += f" ({markdown_code(where)})" if where else ""
        lines.append(head + (f": {markdown(brings)}" if brings else ""))
        lines += [f"   {markdown(text)}" for text in (unlocks(change), change.note) if text]
        if change.before is not None and change.after is not None:
            rows = [f"- {row}" for row in change.before.split("\n")]
            rows += [f"+ {row}" for row in change.after.split("\n")]
            lines += ["   ```diff", *(f"   {_in_a_fence(row)}" for row in rows), "   ```"]
        if change.python is not None:
            lines += [
                "   ```python",
                *(f"   {_in_a_fence(row)}" for row in change.python.split("\n")),
                "   ```",
            ]
        first = before_command(change)
        lines.append(f"   {f'{first} ' if first else ''}{markdown_code(change.command)}")
    return lines


def _in_a_fence(row: str) -> str:
    """A line of code that ends no fence."""
    return one_line(row).replace("```", "`` `")


RANK_HEADER = ("Rank", "Groups", "Ops", "Unfused", "Kernels", "their ms", "Step ms", "Fell back", "Ended")

_KNOWN_BY = {
    "launcher": "started by torch.distributed.run",
    "files": "told apart by the names of their files",
    "prefixes": "told apart by what comes before their lines",
    "order": "told apart by what comes before their lines",
    "devices": "a guess by the GPU of their groups",
}
_SLOWER = 1.05
"""A ratio below this is no difference that a few launches show."""
_MOST = 12


def ranks_merged(report: Report) -> Report:
    """The report with one row for what is equal on several ranks, that of the lowest; itself where there is
    nothing to merge. Counts of rows are then those of one rank; the report's own sums are of all."""
    ranks = report.ranks
    if ranks is None or ranks.known_by == "devices":
        return report
    others = {group for one in ranks.groups for group in one.groups[1:]}
    kept = tuple(group for group in report.groups if group.id not in others)
    programs = tuple(
        program for program in report.programs if not _all_in([node.group for node in program.nodes], others)
    )
    script = report.script
    if script is not None:
        models = (replace(m, groups=tuple(g for g in m.groups if g not in others)) for m in script.models)
        script = replace(script, models=tuple(models))
    return replace(
        report,
        groups=kept,
        unfused=_unfused(report.unfused, shared_positions(report.groups, report.unfused)),
        kernels=tuple(k for k in report.kernels if not _all_in(k.groups, others)),
        programs=programs,
        script=script,
    )


def _all_in(groups: Sequence[str | None], others: set[str]) -> bool:
    known = [group for group in groups if group is not None]
    return bool(known) and all(group in others for group in known)


def _unfused(rows: Sequence[Unfused], positions: SharedPositions) -> tuple[Unfused, ...]:
    alike: dict[Hashable, list[Unfused]] = {}
    for row in rows:
        key = (
            row.op,
            positions.of(row.source),
            positions.of(row.user_source),
            row.phase,
            row.reason,
            row.ran,
        )
        alike.setdefault(key, []).append(row)
    return tuple(max(several, key=lambda row: row.count) for several in alike.values())


def ranks_where(report: Report, group: str) -> str | None:
    """``ranks 0-7`` of a group, in a report of several."""
    if report.ranks is None:
        return None
    there = report.ranks.of_group(group)
    return rank_names(there) if there else None


def of_ranks(ranks: Ranks) -> str:
    """``2 ranks, started by torch.distributed.run``."""
    several = count(len(ranks.rows), "rank")
    if ranks.expected is not None and ranks.expected != len(ranks.rows):
        several += f" of {ranks.expected}"
    return f"{several}, {_KNOWN_BY.get(ranks.known_by, ranks.known_by)}"


def rank_cells(row: RankRow) -> tuple[str, ...]:
    """What stands below ``RANK_HEADER``."""
    ended = "-" if row.ended is None else row.ended.partition(":")[0]
    if row.restarts:
        ended += f" (started {row.restarts + 1} times)"
    return (
        str(row.rank),
        str(row.groups),
        str(row.operators),
        str(row.unfused),
        str(row.kernels),
        TERMINAL.known(row.kernel_ms, digits),
        TERMINAL.known(row.step_ms, digits),
        str(row.fallbacks),
        ended,
    )


def rank_sentences(report: Report) -> list[str]:
    """What is the same, what differs and why, and what is slowest; the table stands apart."""
    ranks = report.ranks
    if ranks is None:
        return []
    everywhere = sum(len(one.groups) == len(ranks.rows) for one in ranks.groups)
    said = [f"{everywhere} of {len(ranks.groups)} groups are equal on all of them"]
    said += [f"{one.text}: {one.why}" if one.why else one.text for one in ranks.differences[:_MOST]]
    more = len(ranks.differences) + ranks.differences_left_out - _MOST
    if more > 0:
        has = f"the first {len(ranks.differences)}" if ranks.differences_left_out else "all"
        said.append(f"{count(more, 'more difference')}: --format json has {has}")
    if not any(row.failed for row in ranks.rows):
        told = [f"rank {row.rank} {row.ended}, at {row.where}" for row in ranks.rows if row.where is not None]
        said += told[:_MOST]
    if ranks.slowest_step is not None:
        said.append("slowest by step: " + _slow(ranks.slowest_step))
    kernels = [one for one in ranks.slowest_kernels if one.ratio >= _SLOWER]
    said += [f"slowest by kernel {one.what}: {_slow(one)}" for one in kernels[:3]]
    if ranks.slowest_kernels and not kernels:
        said.append("no kernel is slower on one rank than on the others by more than 5 %")
    return said + ([ranks.note] if ranks.note else [])


def _slow(one: SlowRank) -> str:
    others = f"{digits(one.others_ms)} of the others"
    return f"rank {one.rank}, {digits(one.ms)} ms against {others} ({one.ratio:.2f} times)"


MOST_VALUES = 12
"""Tensors of a partition that are shown; the JSON report has all."""


@dataclass(frozen=True)
class Side:
    """A graph: how many of its operators are in TorchScript groups, and why the others are not."""

    phase: str
    operators: int
    fused: str
    groups: tuple[str, ...]
    others: str


@dataclass(frozen=True)
class Kept:
    """A tensor of a partition. ``fate``: "kept", "again" (computed in both) or "by default" (kept there)."""

    fate: str
    op: str
    name: str
    type: str
    bytes: str
    line: str


def headline(one: AotFunction) -> str:
    """``fn: memory_efficient_fusion in m.py:7, called 5 times, compiled once``."""
    where = f" in {near(one.user_source)}" if one.user_source else ""
    said = [f"{one.name}: {one.how}{where}"]
    if one.processes > 1:
        said.append(f"used by {one.processes} processes, in one of them")
    if one.wraps is not None and one.wraps > 1:
        said.append(f"wrapped {_times(one.wraps)}")
    if one.calls is not None:
        said.append(f"called {_times(one.calls)}")
    said.append(f"compiled {_times(one.compiles)}")
    return ", ".join(said)


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def sides(one: AotFunction) -> tuple[Side, ...]:
    """The joint, forward and backward graph."""
    return tuple(_side(graph) for graph in one.graphs)


def _side(graph: AotGraph) -> Side:
    if graph.phase == "joint":
        return Side(graph.phase, graph.operators, "", (), "is parted into the two below")
    if graph.source is None:
        return Side(graph.phase, graph.operators, "0", (), "did not become TorchScript")
    reasons = Counter(
        (node.op or "", node.reason) for node in graph.nodes if node.reason is not None and node.group is None
    )
    others = [f"{op}{f' x{n}' if n > 1 else ''} ({code})" for (op, code), n in reasons.most_common(6)]
    silent = graph.operators - graph.fused - sum(reasons.values())
    if silent > 0:
        others.append(f"{count(silent, 'operator')} that no plan in the log has")
    return Side(graph.phase, graph.operators, f"{graph.fused:,}", graph.groups, ", ".join(others))


def partition(one: AotFunction) -> str | None:
    """``min_cut_rematerialization_partition keeps 1 tensor (64 KB) for the backward pass ...``."""
    made, default = one.partition, one.default
    if made is None:
        return None
    text = f"{made.name} keeps {_kept(made)} for the backward pass"
    if made.recomputed:
        again = count(len(made.recomputed), "result")
        text += f", which computes {again} again ({PAGE.known(made.recomputed_bytes, size)})"
    if default is not None and default != made:
        text += f"; the default partition would keep {_kept(default)}"
    return text


def _kept(made: Partition) -> str:
    inputs = f" and {count(len(made.saved_inputs), 'input')}" if made.saved_inputs else ""
    return f"{count(len(made.saved), 'tensor')} ({PAGE.known(made.saved_bytes, size)}){inputs}"


def kept(one: AotFunction) -> tuple[Kept, ...]:
    """The tensors of the partition, and those that only the default one would keep."""
    if one.partition is None:
        return ()
    rows = _rows("kept", one.partition.saved) + _rows("again", one.partition.recomputed)
    names = {value.name for value in one.partition.saved}
    if one.default is not None:
        rows += _rows("by default", [v for v in one.default.saved if v.name not in names])
    return tuple(rows)


def _rows(fate: str, values: Sequence[AotValue]) -> list[Kept]:
    rows = []
    for one in values:
        moved, line = PAGE.known(one.bytes, size), near(one.user_source or "")
        rows.append(Kept(fate, one.op or "", one.name, one.type or "", moved, line))
    return rows


def aot_remarks(one: AotFunction) -> tuple[str, ...]:
    """Shapes and shared memory, where there is something to say."""
    said = []
    if len(one.shapes) > 1:
        more = "; ..." if len(one.shapes) > 3 else ""
        said.append(f"{len(one.shapes)} kinds of arguments: {'; '.join(one.shapes[:3])}{more}")
    if one.changed:
        said.append(f"changes in place: {', '.join(one.changed)}")
    if one.shared:
        said.append(f"shares memory: {', '.join(one.shared)}")
    if one.failure:
        said.append(one.failure)
    return tuple(said)


def module_line(one: FusedModules) -> str:
    """``NVFusedBiasActivationDropout (act): 5 calls, 0 to AOTAutograd: its tensor is not on a GPU``."""
    layers = f" ({', '.join(one.layers[:3])}{', ...' if len(one.layers) > 3 else ''})" if one.layers else ""
    text = f"{one.kind}{layers}: {count(one.calls, 'call')}, {one.fused:,} of them through AOTAutograd"
    if one.wraps:
        text += f", wrapped {'anew in each' if one.wraps >= one.fused > 1 else _times(one.wraps)}"
    return text + (f"; else its plain operators: {'; '.join(one.eager)}" if one.eager else "")


_MOST_MODELS = 20


def _model_line(one: ScriptModel) -> str:
    """``Block x2: scripted in train.py:32, groups G1, G3; 4 operators outside``."""
    times = f" x{one.count}" if one.count > 1 else ""
    where = f" in {near(one.at)}" if one.at else ""
    if one.groups:
        listed = ", ".join(one.groups[:6]) + (
            f" and {len(one.groups) - 6} more" if len(one.groups) > 6 else ""
        )
        became = f"group{'s' * (len(one.groups) > 1)} {listed}"
    elif one.planned is False:
        became = "no plan was made of it: it was never called, or too few times"
    else:
        became = "no group"
    outside = f"; {count(one.operators_outside, 'operator')} outside" if one.operators_outside else ""
    return f"{one.name}{times}: {one.how}{where}, {became}{outside}"


def script_lines(report: Report) -> list[str]:
    """A line for each model, and one for the rest; none of a run that was no program's."""
    run = report.script
    if run is None or not run.reached:
        return []
    more = len(run.models) - _MOST_MODELS
    made = [_model_line(one) for one in run.models[:_MOST_MODELS]]
    made += [f"... {more} more models: --format json has all"] if more > 0 else []
    return made + list(filter(None, (_rest(report, run),)))


def _scripts_graphs(report: Report, run: ScriptRun) -> bool:
    """The backend of torch.compile makes TorchScript: of graphs of AOTAutograd, or there are groups and no
    model that they could be of."""
    told = (graph for one in report.aot if one.how == "torch.compile" for graph in one.graphs)
    return any(graph.source is not None for graph in told) or bool(report.groups and not run.models)


def _rest(report: Report, run: ScriptRun) -> str | None:
    said = []
    if run.steps:
        said.append(f"{count(run.steps, 'step')} ({run.step_by})")
    if run.compiled_graphs:
        made = f"torch.compile made {count(run.compiled_graphs, 'graph')}"
        said.append(made if _scripts_graphs(report, run) else f"{made}, which no fuser of TorchScript sees")
    return "; ".join(said) or None
