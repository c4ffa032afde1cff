"""What the runs of ``--try`` changed, in the advice of the findings that suggested them."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable

from fusiondoc.model import Finding, Try

NOISE = 1.1
"""Steady passes that differ by less say nothing: a run has only a few of them."""


def with_tries(findings: Iterable[Finding], tries: tuple[Try, ...]) -> list[Finding]:
    """The findings, their advice followed by "Tried --trace: 3 groups become 1." """
    if len(tries) < 2:
        return list(findings)
    asked = tries[0]
    return [
        _told(finding, asked, [one for one in tries[1:] if finding.code in one.codes]) for finding in findings
    ]


def _told(finding: Finding, asked: Try, tries: list[Try]) -> Finding:
    if not tries:
        return finding
    said = "; ".join(f"{one.change}: {effect(asked, one)}" for one in tries)
    advice = f"{finding.advice} " if finding.advice else ""
    return replace(finding, advice=f"{advice}Tried {said}.")


def effect(asked: Try, one: Try) -> str:
    """What a change did, in a few words: "3 groups become 1, 4 more operators fused"."""
    if one.problem is not None:
        return f"fails ({one.problem})"
    parts = []
    if one.groups != asked.groups:
        parts.append(f"{_count(asked.groups, 'group')} become{'s' * (asked.groups == 1)} {one.groups}")
    if one.ops_fused != asked.ops_fused:
        more = one.ops_fused - asked.ops_fused
        parts.append(f"{_count(abs(more), 'operator')} {'more' if more > 0 else 'fewer'} fused")
    if one.unfused != asked.unfused:
        parts.append(f"{one.unfused} instead of {asked.unfused} not fused")
    if one.fallbacks != asked.fallbacks:
        parts.append(f"{_count(one.fallbacks, 'fallback')} instead of {asked.fallbacks}")
    if asked.wrong and one.wrong is not None:
        parts.append("the numbers agree with eager" if not one.wrong else "the numbers still differ")
    if not parts:
        # Times of the same groups differ by noise alone.
        return "the same groups"
    if one.steady_seconds and asked.steady_seconds:
        ratio = asked.steady_seconds / one.steady_seconds
        if not 1 / NOISE < ratio < NOISE:
            parts.append(f"{ratio:.2f} times as fast")
    return ", ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
