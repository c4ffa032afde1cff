"""The reason of a graph break in words, as logs and traces have it, and
``graph_break_reasons`` of torch/_dynamo/utils.py.

From 2.7 on it has parts (torch/_dynamo/exc.py, ``format_graph_break_message``): the
reason, then indented ``Explanation:``, ``Hint:`` (several), ``Developer debug
context:``, and a link with the number of the reason. Before, it is one line.
"""

from __future__ import annotations

import re

from fusiondoc.fusers.inductor.compilation import GraphBreak

_NUMBER = re.compile(r"/gb/(gb\d{1,6})\.html", re.IGNORECASE)
_AROUND = "Encountered graph break when attempting to trace"
_GIVEN_UP = "Failed to handle graph break gracefully."
"""Text before the reason if Dynamo does not compile the function at all (2.13), as
for a break in a loop."""
_IN_EAGER = ", and all of the function runs in eager code"
_ANOTHER = "*** While handling this graph break, another graph break occurred"
"""Text before a break that is only a consequence of the one above it."""


def break_of_text(text: str) -> GraphBreak:
    """Return the graph break that a text describes; the text does not hold its
    position in the program."""
    lines = text.partition(_ANOTHER)[0].split("\n")
    number = _NUMBER.search(text)
    hints = []
    for part in lines:
        if part.lstrip().startswith("Hint: "):
            hints.append(part.strip()[len("Hint: ") :])
    return GraphBreak(
        source=None,
        reason=_reason(lines),
        explanation=_after(lines, "Explanation: "),
        hints=tuple(hints),
        number=number.group(1).upper() if number is not None else None,
        context=_after(lines, "Developer debug context: "),
    )


_COMPILER_ERROR = re.compile(r"torch\._(?:dynamo|inductor)\.exc\.\w+(?:: |$)")
_BEHIND_ERROR = re.compile(
    r"\n\s*\n|\n(?:Set TORCHDYNAMO_VERBOSE=|from user code:|You can suppress this|Found from )"
    r"|\n  (?:Explanation|Hint): "
)
"""The end of the error itself: hints and the user's stack follow
(torch/_dynamo/exc.py, 2.6 to 2.13)."""
_MOST = 400
"""Most characters of a shortened error."""


def is_compiler_error(text: str) -> bool:
    """True if the text of an exception is from Dynamo (torch/_dynamo/exc.py) or
    Inductor."""
    return _COMPILER_ERROR.match(text) is not None


def error_in_short(text: str) -> str:
    """The first paragraph of an error of torch.compile as a line, without the
    module of its type: hints, the user's stack and the command of a compiler follow
    after it."""
    first = _BEHIND_ERROR.split(text.strip(), maxsplit=1)[0]
    words = " ".join(first.split())
    return re.sub(r"^torch\._(?:dynamo|inductor)\.exc\.", "", words)[:_MOST]


_WONT_CONVERT = re.compile(
    r"WON'T CONVERT (?P<function>\S{1,400}) (?P<file>.{1,1000}?) line (?P<line>\d{1,9})\s*$"
)
_TRACEBACK = "Traceback (most recent call last):\n"


def suppressed_failure(text: str) -> tuple[str, str] | None:
    """The warning that a function is not compiled because of an error
    (``format_error_msg`` of torch/_dynamo/exc.py, 2.6 to 2.13): ``file:line`` of
    the function, and the error.

    None for another text.
    """
    first, _, rest = text.partition("\n")
    found = _WONT_CONVERT.match(first)
    if found is None:
        return None
    lines = rest.rpartition(_TRACEBACK)[2].split("\n")
    begins = next(
        (number for number, line in enumerate(lines) if line[:1].strip()),
        len(lines),
    )
    error = "\n".join(lines[begins:]) or "the log does not hold its error"
    return f"{found['file']}:{found['line']}", error


_USER_CODE = re.compile(r"^(?:from user code:|Found from ?:)", re.MULTILINE)
"""The text before the user's frames in an error of Dynamo (torch/_dynamo/exc.py,
2.6 to 2.13) or of Inductor (torch/_inductor/exc.py, 2.13)."""
_FRAME = re.compile(r'^ +File "([^"\n]{1,1000})", line (\d{1,9})', re.MULTILINE)

_OF_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]")
"""A file of torch: the call of a custom operator is traced into
torch/_library/custom_ops.py."""


def line_of_compiler_error(text: str) -> str | None:
    """``file:line`` of the user's program at which torch.compile failed; None if
    the error has none."""
    begins = list(_USER_CODE.finditer(text))
    frames = _FRAME.findall(text, begins[-1].end()) if begins else []
    of_program = [frame for frame in frames if _OF_TORCH.search(frame[0]) is None]
    if frames:
        return ":".join((of_program or frames)[-1])
    return None


def _reason(lines: list[str]) -> str:
    """Return the first line of the reason itself; the first line of the text around
    it if there is no other."""
    reason = ending = ""
    for text in lines:
        text = text.strip()
        for start in ("Graph Break Reason: ", "Reason: "):
            text = text.removeprefix(start)
        if text.startswith(("User code traceback:", "Explanation:")):
            break
        if text.startswith(_GIVEN_UP):
            ending = _IN_EAGER
        elif text and not text.startswith(_AROUND):
            if ending:
                return text.rstrip(".") + ending
            return text
        reason = reason or text
    return reason


def _after(lines: list[str], start: str) -> str | None:
    """The text after ``start``, with its continuation lines."""
    for index, text in enumerate(lines):
        if not text.lstrip().startswith(start):
            continue
        parts = [text.lstrip()[len(start) :].strip()]
        for more in lines[index + 1 :]:
            if not more.strip() or more.lstrip().startswith(
                ("Hint:", "Developer debug context:")
            ):
                break
            parts.append(more.strip())
        return " ".join(parts)
    return None
