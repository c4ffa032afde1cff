"""What ``compare --fail-on`` takes, and whether a comparison has it."""

from __future__ import annotations

from typing import Callable, Mapping

from fusiondoc.comparison.differences import Comparison, KernelRef
from fusiondoc.model.report import SEVERITIES


def _group(kind: str) -> Callable[[Comparison], bool]:
    return lambda c: any(kind in change.kinds for change in c.groups)


def _kernel(*kinds: str) -> Callable[[Comparison], bool]:
    return lambda c: any(set(kinds) & set(change.kinds) for change in c.kernels)


def _slower(c: Comparison) -> bool:
    return (
        _group("slower")(c)
        or _kernel("slower")(c)
        or any(change.bandwidth == "lower" for change in c.kernels)
        or any(change.speed.change == "slower" for change in c.speed)
    )


def _registers(kernel: KernelRef | None) -> int:
    return kernel.registers or 0 if kernel is not None else 0


def _coverage(c: Comparison) -> bool:
    """A smaller share of operators is fused; where a side does not tell its share, fewer operators are."""
    a, b = c.a.coverage.fraction, c.b.coverage.fraction
    if a is None or b is None:
        return c.a.coverage.ops_fused > c.b.coverage.ops_fused
    return b < a - 1e-9


WORDS: Mapping[str, tuple[str, Callable[[Comparison], bool]]] = {
    "group-gone": ("a group that B has no more", _group("gone")),
    "group-added": ("a group that A did not have", _group("added")),
    "split": ("a group whose operators are now in several", _group("split")),
    "merged": ("groups whose operators are now in one", _group("merged")),
    "operators": ("an operator that left or joined a group", _group("operators")),
    "types": ("a group with the same operators and other types", _group("types")),
    "unfused": (
        "an operator that is newly outside every group",
        lambda c: any(u.change == "came" for u in c.unfused),
    ),
    "reason": (
        "another reason for an operator outside every group",
        lambda c: any(u.change == "reason" for u in c.unfused),
    ),
    "fallback": (
        "a fallback that A did not have, or more of one",
        lambda c: any(
            f.change == "came" or (f.change == "count" and (f.count_b or 0) > (f.count_a or 0))
            for f in c.fallbacks
        ),
    ),
    "slower": ("a group, kernel or model that is slower", _slower),
    "code": ("a kernel with other code", _kernel("code")),
    "registers": (
        "a kernel with more registers",
        lambda c: any("registers" in k.kinds and _registers(k.b) > _registers(k.a) for k in c.kernels),
    ),
    "kernel": ("any change of a kernel but faster", lambda c: any(k.kinds != ("faster",) for k in c.kernels)),
    "coverage": ("a smaller share of operators in groups", _coverage),
    "environment": (
        "another environment, fuser, knob or setting",
        lambda c: bool(c.differences),
    ),
    "any": ("any change but one of the environment", lambda c: not c.same),
}
"""Word -> (what it stands for, whether a comparison has it). Besides these: severities and finding codes."""


def reached(comparison: Comparison, word: str) -> bool:
    """Whether the comparison has what ``word`` names; a severity or code means findings that came."""
    if word in WORDS:
        return WORDS[word][1](comparison)
    came = [change.finding for change in comparison.findings if change.change == "came"]
    if word in SEVERITIES:
        worse = SEVERITIES[: SEVERITIES.index(word) + 1]
        return any(finding.severity in worse for finding in came)
    return any(finding.code == word.upper() for finding in came)
