"""The results of the runs of ``diagnose --try`` in words, added to the advice of
the findings that suggest them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fusiondoc.model import count
from fusiondoc.model.change_plan import Try
from fusiondoc.model.report import Finding


def with_tries(
    findings: Iterable[Finding], tries: tuple[Try, ...]
) -> list[Finding]:
    """Return the findings, with their advice followed by "Tried --trace: 3 groups
    become 1." """
    if len(tries) < 2:
        return list(findings)
    return [_with_effects(finding, tries) for finding in findings]


def _with_effects(finding: Finding, tries: tuple[Try, ...]) -> Finding:
    suggested_by_it = [one for one in tries[1:] if finding.code in one.codes]
    if not suggested_by_it:
        return finding
    parts = []
    for one in suggested_by_it:
        parts.append(f"{one.change}: {effect(tries[one.against], one)}")
    effects = "; ".join(parts)
    advice = f"{finding.advice} " if finding.advice else ""
    return replace(finding, advice=f"{advice}Tried {effects}.")


def effect(base: Try, one: Try) -> str:
    """Return what a change did to the run ``base``, in a few words: "3 groups
    become 1, 4 more operators fused"."""
    if one.problem is not None:
        return f"fails ({one.problem})"
    parts = []
    if one.groups != base.groups:
        parts.append(
            f"{count(base.groups, 'group')} become{'s' * (base.groups == 1)} {one.groups}"
        )
    if one.ops_fused != base.ops_fused:
        more = one.ops_fused - base.ops_fused
        parts.append(
            f"{count(abs(more), 'operator')} {'more' if more > 0 else 'fewer'} fused"
        )
    if one.unfused != base.unfused:
        parts.append(f"{one.unfused} instead of {base.unfused} not fused")
    if one.fallbacks != base.fallbacks:
        parts.append(
            f"{count(one.fallbacks, 'fallback')} instead of {base.fallbacks}"
        )
    if base.wrong and one.wrong is not None:
        if not one.wrong:
            parts.append("the numbers agree with eager")
        else:
            parts.append("the numbers still differ")
    parts = parts or ["the same groups"]
    if one.speed is not None:
        faster = f"{one.speed.value:.2f} times as fast"
        parts.append(faster if one.speed.differs else "no difference in speed")
    return ", ".join(parts)
