"""The words of a comparison, which its text, Markdown and page share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fusiondoc.comparison import (
    Comparison,
    FallbackChange,
    FindingChange,
    GroupByLines,
    GroupChange,
    GroupRef,
    KernelChange,
    Side,
    SpeedChange,
    UnfusedChange,
)
from fusiondoc.fusers import fuser_title, titles
from fusiondoc.model import count, multiple
from fusiondoc.model.boundaries import Boundary
from fusiondoc.model.operator_places import folded
from fusiondoc.model.report import OpNode
from fusiondoc.rendering.units import (
    TERMINAL,
    bandwidth,
    interval,
    milliseconds,
    short_percent,
    size,
    whole,
)
from fusiondoc.views.formatting import (
    near,
    near_paths_of,
    short_type,
    where_from,
    with_near_paths,
)

KINDS = {
    "operators": "with other operators",
    "types": "with other types",
    "code": "with other code",
    "registers": "with other registers",
    "spills": "with other spills",
    "shared memory": "with other shared memory",
    "scheduler": "with another scheduler",
    "launch": "launched otherwise",
    "launches": "launched more or less often",
    "bandwidth": "with another bandwidth",
    "bytes": "counted otherwise",
}
"""The phrase for a kind of change in a sentence, if its name alone is not one."""

ARROW = "→"


def for_readers(comparison: Comparison) -> Comparison:
    """The comparison without the folders of the machine in its paths, see
    ``near_paths_of``."""
    reports = comparison.reports
    made = near_paths_of(*(reports or ())).inside(comparison)
    if reports is None:
        return made
    return replace(
        made, reports=(with_near_paths(reports[0]), with_near_paths(reports[1]))
    )


def side(one: Side) -> str:
    """A side in figures."""
    facts = []
    if one.torch:
        facts.append(f"torch {one.torch}")
    if one.fuser:
        facts.append(fuser_title(one.fuser))
    facts.append(count(one.groups, "group"))
    facts.append(coverage(one))
    if one.fallbacks:
        facts.append(count(one.fallbacks, "fallback"))
    return ", ".join(facts)


def coverage(one: Side) -> str:
    """Return how much of a side is fused."""
    share = one.coverage
    if not share.is_known:
        return (
            f"{share.ops_fused:,} operators fused, share unknown ({share.unknown})"
        )
    if share.fraction is None:
        return "no operators"
    return f"{share.ops_fused:,} of {share.ops_total:,} operators fused ({short_percent(share.fraction)})"


def changed(comparison: Comparison) -> str:
    """The changes in one sentence."""
    parts = [*_changed_groups(comparison), *_changed_operators(comparison)]
    if comparison.fallbacks:
        parts.append(count(len(comparison.fallbacks), "fallback"))
    parts += _changed_kernels(comparison)
    if comparison.speed:
        parts.append("speed of the model")
    parts += _changed_findings(comparison)
    if comparison.coverage_changed:
        parts.append("coverage")
    return "; ".join(parts) or "nothing"


def _changed_groups(comparison: Comparison) -> Iterator[str]:
    kinds: Counter[str] = Counter()
    for change in comparison.groups:
        kinds[" and ".join(KINDS.get(kind, kind) for kind in change.kinds)] += (
            change.count
        )
    kinds.update(
        one.kind
        for one in comparison.by_lines
        for _ in range(one.a.instances)
        if one.kind != "one"
    )
    if kinds:
        named = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
        yield f"{count(sum(kinds.values()), 'group')} ({named})"


def _changed_operators(comparison: Comparison) -> Iterator[str]:
    for change, words in (
        ("came", "newly unfused"),
        ("gone", "now fused, or gone"),
    ):
        number = 0
        for row in comparison.unfused:
            if row.change == change:
                number += row.count
        if number:
            yield f"{count(number, 'operator')} {words}"
    reasons = sum(row.change == "reason" for row in comparison.unfused)
    if reasons:
        yield count(reasons, "other reason")


def _changed_kernels(comparison: Comparison) -> Iterator[str]:
    kinds: Counter[str] = Counter()
    for change in comparison.kernels:
        for kind in change.kinds:
            kinds[kind] += 1
    if comparison.kernels:
        parts = []
        for kind, number in kinds.items():
            parts.append(f"{number:,} {KINDS.get(kind, kind)}")
        named = ", ".join(parts)
        yield f"{count(len(comparison.kernels), 'kernel')} ({named})"


def _changed_findings(comparison: Comparison) -> Iterator[str]:
    came = sum(row.change == "came" for row in comparison.findings)
    gone = sum(row.change == "gone" for row in comparison.findings)
    if came:
        yield count(came, "new finding")
    if gone:
        yield f"{count(gone, 'finding')} gone"


def group_head(change: GroupChange) -> str:
    """Return the line on a changed group: ``G1 and G2 of A are now G1 of B in 9 of
    12 places (encoder.layer.[0-8]); forward``."""
    facts = [became(change) + where_in_plans(change)]
    ref = (change.a or change.b)[0]
    facts.append(ref.phase or "phase unknown")
    if not change.a and ref.specialisation > 1:
        facts.append(f"specialisation {ref.specialisation}")
    kinds = {r.kind for r in change.a}, {r.kind for r in change.b}
    if all(kinds) and kinds[0] != kinds[1]:
        facts.append(
            f"{' and '.join(sorted(kinds[0]))} before, {' and '.join(sorted(kinds[1]))} now"
        )
    if not operators_differ(change):
        facts.append(operators(change.a or change.b))
    return "; ".join(facts)


def became(change: GroupChange) -> str:
    """Return which groups of A became which of B. Numbers are those of each side's
    own report, so the side is named."""
    a, b = (_named([ref.id for ref in refs]) for refs in (change.a, change.b))
    if not change.b:
        return f"{a} of A is gone"
    if not change.a:
        return f"{b} of B is new"
    return f"{a} of A {'is' if len(change.a) == 1 else 'are'} now {b} of B"


def _named(ids: Sequence[str]) -> str:
    if len(ids) == 1:
        return ids[0]
    if ids:
        return f"{', '.join(ids[:-1])} and {ids[-1]}"
    return ""


def where_in_plans(change: GroupChange) -> str:
    """Return how many instances of a group changed, and in which modules; empty for
    a group that occurs once, in no module that the log names."""
    layers = f" ({folded(change.layers)})" if change.layers else ""
    of = max(ref.instances for ref in change.a or change.b)
    if of == change.count == 1:
        return layers
    if change.count == of:
        return f" in all {of:,} instances{layers}"
    if change.count > of:
        return f" in {change.count:,} instances{layers}"
    return f" in {change.count:,} of {of:,} instances{layers}"


def operators_differ(change: GroupChange) -> bool:
    """True if its groups hold other operators than before, so that each is shown
    with its operators."""
    return bool(set(change.kinds) & {"split", "merged", "operators"})


def sides_of(change: GroupChange) -> list[str]:
    """Return ``A G1: 2 operators: add, mul``, one for each group, if they hold
    other operators than before."""
    if not operators_differ(change):
        return []
    sides = []
    for side, refs in (("A", change.a), ("B", change.b)):
        for ref in refs:
            sides.append(f"{side} {ref.id}: {operators([ref])}")
    return sides


def boundary(one: Boundary) -> str:
    """``41.9 MB go through memory between G2 and G3: ... (FD262)``."""
    ends = f"{one.producer.group or one.producer.op} and {one.consumer.group or one.consumer.op}"
    moved = f"{size(one.bytes)} go" if one.bytes is not None else "a tensor goes"
    if one.cause is not None:
        why = f"{one.cause.text} ({one.cause.code})"
    else:
        why = "the log does not show why"
    return f"{moved} through memory between {ends}: {why}"


def by_lines(one: GroupByLines) -> str:
    """``G1 of A (5 operators: ...) is computed by G1 and G2 of B, and aten::addmm
    outside groups``."""
    parts = []
    if one.b:
        parts.append(f"{' and '.join(ref.id for ref in one.b)} of B")
    if one.outside:
        parts.append(f"{', '.join(one.outside[:MOST_NAMES])} outside groups")
    return f"{one.a.id} of A ({operators([one.a])}) is computed by {', and '.join(parts) or 'nothing in B'}"


def operators(refs: Sequence[GroupRef]) -> str:
    """``5 operators: add, mul, tanh ...``."""
    names = []
    for ref in refs:
        for node in ref.nodes:
            names.append(node.op.split("::")[-1])
    shown = ", ".join(names[:MOST_NAMES]) + (
        ", ..." if len(names) > MOST_NAMES else ""
    )
    return f"{count(len(names), 'operator')}: {shown}"


MOST_NAMES = 6


def first_line_of(refs: Sequence[GroupRef]) -> str:
    """Return the first line of the program that the groups come from; else a
    position in a formula."""
    sources = []
    for ref in refs:
        for node in ref.nodes:
            sources.append(node.user_source or node.source)
    for source in sources:
        if source and not source.startswith("<"):
            return near(source)
    return next((source for source in sources if source), "")


def nodes(of: Iterable[OpNode]) -> list[str]:
    """Return equal operators of one line once, with their number."""
    counts = Counter(
        (node.op, where_from(node.user_source, node.source)) for node in of
    )
    found = []
    for (op, source), number in counts.items():
        text = op
        if number > 1:
            text += f" x{number:,}"
        if source:
            text += f"  {source}"
        found.append(text)
    return found


def types(change: GroupChange) -> list[str]:
    """Return the input and output types that only one side has: ``- input
    Float(8)``."""
    found = []
    for what in ("inputs", "outputs"):
        of_a, of_b = _types(change.a, what), _types(change.b, what)
        for sign, left in (("-", of_a - of_b), ("+", of_b - of_a)):
            for text, n in left.items():
                found.append(f"{sign} {what[:-1]} {text}" + multiple(n))
    return found


def _types(refs: Sequence[GroupRef], what: str) -> Counter[str]:
    """Return how often the groups have each type among their ``inputs`` or
    ``outputs``."""
    found: Counter[str] = Counter()
    for ref in refs:
        found.update(map(short_type, getattr(ref, what)))
    return found


def speed(change: SpeedChange) -> str:
    """``0.03 ms → 0.061 ms, 2.03 times (A 0.029 ms to 0.035 ms, B 0.06 ms to 0.071
    ms)``."""
    times = f", {change.ratio:.2f} times" if change.ratio is not None else ""
    medians = (
        f"{milliseconds(change.a.median)} {ARROW} {milliseconds(change.b.median)}"
    )
    of_a = interval(change.a.min, change.a.max, milliseconds)
    of_b = interval(change.b.min, change.b.max, milliseconds)
    return f"{medians}{times} (A {of_a}, B {of_b})"


def unfused(change: UnfusedChange) -> str:
    """An operator outside the groups, with its line and reason."""
    words = change.op + multiple(change.count)
    source = where_from(change.user_source, change.source)
    if source:
        words += f"  {source}"
    if change.phase == "backward":
        words += " (backward)"
    if change.change == "reason" and change.reason_a and change.reason_b:
        return f"{words}  {change.reason_a.code} {ARROW} {change.reason_b.code} {change.reason_b.text}"
    reason = change.reason_b or change.reason_a
    if reason is None:
        return words
    return f"{words}  {reason.code} {reason.text}"


def once_each(rows: Sequence[UnfusedChange]) -> list[UnfusedChange]:
    """Merge the rows that read alike: operators of one line that differ only in
    their column."""
    alike: dict[tuple[str, str], UnfusedChange] = {}
    for row in rows:
        key = (row.change, unfused(replace(row, count=1)))
        known = alike.get(key)
        if known is None:
            alike[key] = row
        else:
            alike[key] = replace(known, count=known.count + row.count)
    return list(alike.values())


def fallback(change: FallbackChange) -> str:
    """A fallback with its group and counts."""
    names = (("A", change.group_a), ("B", change.group_b))
    group = (
        ", ".join(f"{name} of {side}" for side, name in names if name)
        or "group unknown"
    )
    numbers = f" {ARROW} ".join(
        str(n) for n in (change.count_a, change.count_b) if n is not None
    )
    doing = {"compile": "compiling", "run": "running"}.get(
        change.stage, change.stage
    )
    return f"{group} while {doing}, times: {numbers}" + (
        f": {change.error}" if change.error else ""
    )


def findings(comparison: Comparison) -> tuple[list[FindingChange], str | None]:
    """Return the findings to show, and a sentence on the findings about single
    operators, which have a section of their own ("Not fused")."""
    single = []
    for row in comparison.findings:
        if row.finding.code.startswith("FD2"):
            single.append(row)
    if not comparison.unfused or not single:
        return list(comparison.findings), None
    rest = []
    for row in comparison.findings:
        if not row.finding.code.startswith("FD2"):
            rest.append(row)
    parts = []
    for change in ("came", "gone"):
        codes = sorted({row.finding.code for row in single if row.change == change})
        number = sum(1 for row in single if row.change == change)
        if number:
            parts.append(
                f"{count(number, 'finding')} on operators above {change} ({', '.join(codes)})"
            )
    return rest, f"{'; '.join(parts)}: fusiondoc explain {single[0].finding.code}"


def kernel_head(change: KernelChange) -> str:
    """``K2 of A, K3 of B (G1)``."""
    sides = (("A", change.a), ("B", change.b))
    ids = ", ".join(f"{ref.id} of {side}" for side, ref in sides if ref is not None)
    last = change.b or change.a
    groups = last.groups if last is not None else ()
    return ids + (
        f" ({', '.join(groups[:3])}{', ...' if len(groups) > 3 else ''})"
        if groups
        else ""
    )


def kernel_facts(change: KernelChange) -> list[str]:
    """Return the changes of a kernel, each in a few words; empty for a kernel of
    one side."""
    a, b = change.a, change.b
    if a is None or b is None:
        return []
    grids = f"{TERMINAL.dimensions(a.grid)} {ARROW} {TERMINAL.dimensions(b.grid)}"
    blocks = (
        f"{TERMINAL.dimensions(a.block)} {ARROW} {TERMINAL.dimensions(b.block)}"
    )
    words = {
        "code": f"code: {change.lines_gone} lines gone, {change.lines_added} added",
        "registers": f"registers {a.registers} {ARROW} {b.registers}",
        "spills": f"spills {a.spill_bytes} {ARROW} {b.spill_bytes} bytes",
        "shared memory": f"shared memory {a.smem_bytes} {ARROW} {b.smem_bytes} bytes",
        "scheduler": f"scheduler {a.scheduler} {ARROW} {b.scheduler}",
        "launch": f"grid {grids}, block {blocks}",
        "launches": f"launches {a.launches} {ARROW} {b.launches}",
    }
    if change.speed is not None:
        for kind in ("slower", "faster"):
            words[kind] = f"{kind}: {speed(change.speed)}{_rate(change)}"
    if a.gb_per_s and b.gb_per_s:
        words["bandwidth"] = f"bandwidth {change.bandwidth}{_rate(change)}"
    facts = []
    for kind in change.kinds:
        if kind in words:
            facts.append(words[kind])
    return facts


def _rate(change: KernelChange) -> str:
    a, b = change.a, change.b
    if "bytes" in change.kinds or not (a and b and a.gb_per_s and b.gb_per_s):
        return ""
    return f", {whole(a.gb_per_s.median)} {ARROW} {bandwidth(b.gb_per_s.median)}"


_COUNTS = titles(lambda fuser: fuser.catalogue.options)
"""The fusers that print the rates of kernels."""


def only_bytes(comparison: Comparison) -> tuple[list[KernelChange], str | None]:
    """Return the kernels to show, and a sentence on those of which only the counted
    bytes differ."""
    shown = []
    for change in comparison.kernels:
        if change.kinds != ("bytes",):
            shown.append(change)
    counted = 0
    for change in comparison.kernels:
        if "bytes" in change.kinds:
            counted += 1
    if not counted:
        return shown, None
    kernels = count(counted, "kernel")
    return (
        shown,
        f"{_COUNTS} counted other bytes for {kernels}: their GB/s cannot be compared, times can",
    )
