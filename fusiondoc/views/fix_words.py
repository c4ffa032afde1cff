"""The result of ``fix`` in sentences: the gain of each change, why others did not
help, the verdict."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator

from fusiondoc.fusers import with_evaluator
from fusiondoc.model import count
from fusiondoc.model.bench import Ratio
from fusiondoc.model.change_plan import (
    MOST_TOGETHER,
    ChangeOutcome,
    Fixes,
    TriedFix,
    Version,
)
from fusiondoc.rendering.units import difference, interval, size

_MOST_NAMED = 4


def lines(fixes: Fixes, shown: str = "") -> Iterator[str]:
    """Yield all lines that are printed besides the diff.

    Args: shown: the folder to which paths are made relative, as text with a
        separator at its end.
    """
    yield f"unchanged: {counts(fixes.unchanged)}"
    for one in fixes.kept:
        yield f"+ {one.change}: {gain(one.before, one.after, one.speed)}"
        yield from _changed_lines(one, shown)
        for note in one.notes:
            for line in note.split("\n"):
                yield f"    {line}"
    others = []
    for one in fixes.tried:
        if one.outcome is not ChangeOutcome.KEPT:
            others.append(one)
    if others:
        yield "tried without success:"
    for one in others:
        yield f"- {one.change}: {why_not(one)}"
        yield from _changed_lines(one, shown)
    if fixes.described:
        yield "not changed here:"
    for text in fixes.described:
        yield f"  {text}"
    yield from how_compared(fixes)
    if fixes.together_tries:
        runs = f"{count(fixes.together_tries, 'run')}, at most {MOST_TOGETHER}"
        yield f"changes that did not help alone were tried line by line and together: {runs}"
    if fixes.untried:
        more = f"{fixes.untried} more change{'s were' if fixes.untried > 1 else ' was'}"
        yield f"{more} not tried: --tries N raises the limit"
    yield from _next(fixes)
    yield verdict(fixes)


def within(line: str, width: int) -> list[str]:
    """Wrap a line to ``width`` columns without breaking words; a command stays on
    one line."""
    text = line.lstrip()
    if len(line) <= width or text.startswith("fusiondoc "):
        return [line]
    lead = line[: len(line) - len(text)]
    behind = lead + ("" if lead else "  ")
    whole = textwrap.TextWrapper(
        width, lead, behind, break_long_words=False, break_on_hyphens=False
    )
    return whole.wrap(text)


def verdict(fixes: Fixes) -> str:
    """Return the last line."""
    stopped = "interrupted; " if fixes.interrupted else ""
    number = len(fixes.kept)
    if number:
        what = "1 change" if number == 1 else f"{number} changes together"
        setting = f" (with {', '.join(fixes.settings)})" if fixes.settings else ""
        return f"{stopped}{what}{setting}: {gain(fixes.unchanged, fixes.together, fixes.speed)}"
    if fixes.interrupted and not fixes.tried:
        nothing = "interrupted before a change was tried"
    elif not fixes.tried:
        nothing = "nothing was found to try"
    else:
        if len(fixes.tried) > 1:
            many = f"none of {len(fixes.tried)} changes"
        else:
            many = "the only change"
        nothing = f"{stopped}{many} {'helped' if len(fixes.tried) > 1 else 'did not help'}"
    return f"{nothing}: {counts(fixes.unchanged)}"


def _next(fixes: Fixes) -> Iterator[str]:
    """Yield the next step if no change was found."""
    if fixes.kept or fixes.interrupted:
        return
    if fixes.unchanged.launches <= 1 and fixes.unchanged.groups:
        yield "next: nothing; everything is in one group"
    else:
        yield "next: see in the report why the other operators are in no group"
        yield f"    {fixes.diagnose or f'fusiondoc diagnose {shlex.quote(fixes.target)}'}"


def counts(version: Version) -> str:
    """ "3 groups with 12 operators fused, 20 kernel launches in a forward pass" """
    groups = count(version.groups, "group")
    operators = count(version.ops_fused, "operator")
    return f"{groups} with {operators} fused, {_launches(version)}"


def _launches(version: Version) -> str:
    what = "kernel launch" if version.launches == 1 else "kernel launches"
    passes = "forward and backward" if version.of_gradients else "in a forward pass"
    return f"{version.launches} {what} {passes}"


def gain(before: Version, after: Version, speed: Ratio | None) -> str:
    """ "2 -> 9 groups, 4 -> 30 operators fused, 60 -> 41 kernel launches, 1.20
    times as fast" """
    parts = [
        f"{before.groups:,} -> {count(after.groups, 'group')}",
        f"{before.ops_fused:,} -> {count(after.ops_fused, 'operator')} fused",
        f"{before.launches} -> {_launches(after)}",
    ]
    if _moved(before) != _moved(after):
        parts.append(f"{_moved(before)} -> {_moved(after)} read and written")
    if before.graph_breaks != after.graph_breaks:
        parts.append(
            f"{before.graph_breaks} -> {count(after.graph_breaks, 'graph break')}"
        )
    if before.recompiles != after.recompiles:
        parts.append(
            f"{before.recompiles} -> {count(after.recompiles, 'recompile')}"
        )
    if speed is not None:
        parts.append(in_speed(speed))
    return ", ".join(parts)


def _moved(version: Version) -> str:
    if version.bytes_moved is None:
        return "unknown bytes"
    return size(version.bytes_moved)


def in_speed(speed: Ratio) -> str:
    """ "1.20 times as fast as unchanged (1.12 to 1.30)" """
    if not speed.differs:
        return "no difference in speed"
    return f"{speed.value:.2f} times as fast as unchanged ({interval(speed.low, speed.high)})"


def why_not(one: TriedFix) -> str:
    """Return why a change was left out."""
    if one.outcome is ChangeOutcome.FAILED:
        return f"fails: {one.after.problem}"
    if one.outcome is ChangeOutcome.WRONG:
        more = ""
        if len(one.after.wrong) > 1:
            more = f" and {len(one.after.wrong) - 1} more"
        return f"computes something else: {one.after.wrong[0]}{more}"
    if one.outcome is ChangeOutcome.SLOWER and one.speed is not None:
        return f"slower: {one.speed.value:.2f} times as fast ({interval(one.speed.low, one.speed.high)})"
    if counts(one.after) == counts(one.before):
        return "fuses as much as without it"
    if one.after.launches < one.before.launches:
        return (
            f"runs fewer operators, and fuses none in addition: {counts(one.after)}"
        )
    return f"no fewer kernel launches: {counts(one.after)}"


def how_compared(fixes: Fixes) -> Iterator[str]:
    """Yield how it was checked that the program still computes the same, and
    whether speed was judged."""
    if not fixes.tried:
        return
    text = "compared: outputs, gradients and arguments after the call, unfused, from one seed; and fused with"
    text += " eager"
    if fixes.kept:
        text += "; no difference beyond rounding in what is kept"
    if fixes.together.random:
        ops = ", ".join(fixes.together.random)
        drawn = "draws" if len(fixes.together.random) == 1 else "draw"
        text += f" ({ops} {drawn} random numbers: {_unfused_sides(fixes)}, fused and eager are compared by"
        text += " statistics)"
    yield text
    allowed = max((one.after.allowed or 0.0 for one in fixes.kept), default=0.0)
    if allowed:
        yield (
            f"roundings alone move results of this program: fused ones may be off by {difference(allowed)} of"
            " their size, ten times what one rounding of every input and parameter does to the unchanged"
            " program"
        )
    if any(one.after.interpreted for one in fixes.tried):
        yield (
            f"speed is not judged: {with_evaluator()} ran through its own evaluator here"
            " (this torch has no LLVM)"
        )
    elif fixes.kept and all(one.speed is None for one in fixes.kept):
        if fixes.interrupted:
            why = "interrupted before it was timed"
        else:
            why = "it was not timed, or cannot be timed here"
        yield f"speed is not judged: {why}"


def _unfused_sides(fixes: Fixes) -> str:
    """Return a clause on how the random numbers of the program and its changed
    versions agree."""
    how = {one.after.drew_otherwise for one in fixes.tried} - {None}
    if "statistics" in how:
        return "of both unfused sides what differs is compared by statistics"
    return f"both unfused sides {'are made to ' if how else ''}draw the same ones"


def near_folder(where: str, shown: str) -> str:
    """A path without the folder ``shown``, if it begins with it."""
    if shown and where.startswith(shown):
        return where[len(shown) :]
    return where


def _changed_lines(one: TriedFix, shown: str) -> Iterator[str]:
    named = [near_folder(where, shown) for where in one.where]
    if named:
        more = ""
        if len(named) > _MOST_NAMED:
            more = f" and {len(named) - _MOST_NAMED} more"
        yield f"    {', '.join(named[:_MOST_NAMED])}{more}"
