"""Graph breaks and recompiles in Dynamo's words, from logs and traces.

Forms: 2.6 (``Graph break in user code at FILE:LINE``, ``Reason: ...``) and the
later form with a registered reason, an explanation, hints and a number
(``torch/_dynamo/symbolic_convert.py``, ``exc.py``, ``guards.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from fusiondoc.fusers.inductor.break_texts import break_of_text
from fusiondoc.fusers.inductor.compilation import GraphBreak, Line, Recompile

_BREAK = re.compile(
    r"Graph break (?:\(details suppressed\) )?(?:in user code )?at (.{1,400}?):(\d{1,9})\s*$"
)
_FUNCTION = re.compile(r"\s*File \"[^\"]*\", line \d+, in (\S+)")
_RECOMPILING = re.compile(
    r"Recompiling function (\S{1,400}) in (.{1,400}?):(\d{1,9})\s*$"
)
_GUARD = re.compile(r"\s*(?:- )?(\d+/\d+(?:_\d+)?: )?(.+?)(?:\s{2,}# .*)?$")
"""The line of code that made the guard follows it."""
_LIMIT = re.compile(
    r"torch\._dynamo hit config\.(\w*(?:recompile|cache_size)_limit)"
)
_LIMIT_FUNCTION = re.compile(
    r"\s*function: '(.{1,400}?)' \((.{1,400}?):(\d{1,9})\)"
)
_LAST_REASON = re.compile(
    r"\s*last reason: (?:\d+/\d+(?:_\d+)?: )?(.+?)(?:\s{2,}# .*)?$"
)


def graph_break(
    text: str, compile_id: str | None, rank: int | None, line: Line
) -> GraphBreak | None:
    """Return the break that a message describes; None for another text."""
    lines = text.strip("\n").split("\n")
    found = _BREAK.match(lines[0])
    if found is None:
        return None
    return replace(
        break_of_text("\n".join(lines[1:])),
        source=f"{found.group(1)}:{found.group(2)}",
        compile_id=compile_id,
        function=_function(lines),
        rank=rank,
        lines=(line,),
    )


def _function(lines: list[str]) -> str | None:
    """Return the function of the innermost frame of "User code traceback"; None
    without one."""
    start = None
    for i, text in enumerate(lines):
        if text.startswith("User code traceback:"):
            start = i
            break
    if start is None:
        return None
    name = None
    for text in lines[start + 1 :]:
        if text.startswith("Traceback"):
            break
        found = _FUNCTION.match(text)
        name = found.group(1) if found is not None else name
    return name


def recompile(
    text: str, compile_id: str | None, rank: int | None, line: Line
) -> Recompile | None:
    """Return the recompile that a message of the artifact ``recompiles`` describes;
    None for another text."""
    lines = text.strip("\n").split("\n")
    found = _RECOMPILING.match(lines[0])
    if found is None:
        return None
    rest = (
        part
        for part in lines[1:]
        if "triggered by the following guard failure" not in part
    )
    source = f"{found.group(2)}:{found.group(3)}"
    return Recompile(
        found.group(1), source, guards_of(rest), compile_id, rank, line=line
    )


def guards_of(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the guards that failed, one per line, without the compile id before
    them. If some lines have such an id, lines without one belong to the user's
    stack (2.13)."""
    found = []
    for text in lines:
        if text.strip():
            found.append(_GUARD.match(text))
    guards = [one for one in found if one is not None]
    named = [one for one in guards if one.group(1) is not None]
    return tuple(one.group(2).strip() for one in named or guards)


def limit_reached(
    text: str, compile_id: str | None, rank: int | None, line: Line
) -> Recompile | None:
    """Return the warning that a function is not compiled again
    (``convert_frame.py``); None for another text."""
    if _LIMIT.search(text) is None:
        return None
    function = source = None
    guards: tuple[str, ...] = ()
    for part in text.split("\n"):
        named = _LIMIT_FUNCTION.match(part)
        if named is not None:
            function, source = named.group(1), f"{named.group(2)}:{named.group(3)}"
        reason = _LAST_REASON.match(part)
        if reason is not None:
            guards = (reason.group(1).strip(),)
    return Recompile(
        function, source, guards, compile_id, rank, limit_reached=True, line=line
    )
