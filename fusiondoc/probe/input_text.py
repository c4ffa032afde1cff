"""``--input`` texts: ``float32[8,128,1024]:grad``, ``int64[4]``, ``0.5``, ``True``, ``None``,
``[2, 3]``; an argument by name is ``mask=float32[8,128]``.

Needs no torch, so that a mistake is told before a process starts.
"""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from typing import Any

DTYPES = (
    "bfloat16",
    "bool",
    "complex128",
    "complex64",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "uint8",
)
"""Names of ``torch.dtype`` that every torch from 1.12 on can make tensors of."""

ALIASES = {"half": "float16", "float": "float32", "double": "float64", "int": "int32", "long": "int64"}

_NAMED = re.compile(r"\s*([^\W\d]\w*)\s*=(.*)\Z", re.DOTALL)
_WORD = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*)\s*\[")


class InputTextError(ValueError):
    """The text cannot be read; the message names the column (from 1) and what was expected there."""

    def __init__(self, text: str, column: int, problem: str) -> None:
        shown = text if len(text) <= 200 else text[:200] + "..."
        super().__init__("cannot read the input '%s': column %d: %s" % (shown, column, problem))


class TensorText:
    """A tensor to make: its dtype's name, its sizes (none: a scalar tensor), and whether it needs grad."""

    def __init__(self, dtype: str, sizes: tuple[int, ...], grad: bool) -> None:
        self.dtype = dtype
        self.sizes = sizes
        self.grad = grad


class PlainText:
    """A number, boolean, None, string, or list or tuple of them, that stands for itself."""

    def __init__(self, value: Any) -> None:
        self.value = value


def named_input(text: str) -> tuple[str | None, str]:
    """(name, text) of ``NAME=TEXT``, an argument that is given by name; (None, text) of another."""
    named = _NAMED.match(text)
    return (named.group(1), named.group(2)) if named is not None else (None, text)


def parse_input(text: str) -> TensorText | PlainText:
    """Read one ``--input``; raises InputTextError."""
    start = _WORD.match(text)
    if start is not None:
        return _tensor(text, start)
    stripped = text.strip()
    spelling = {"true": "True", "false": "False", "none": "None", "": "None"}.get(stripped.lower(), stripped)
    if not stripped:
        raise InputTextError(text, 1, "expected a value such as float32[8,128], 0.5 or True")
    try:
        with warnings.catch_warnings():  # of the compiler, on texts such as 1if
            warnings.simplefilter("ignore")
            return PlainText(ast.literal_eval(spelling))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    word = re.match(r"[A-Za-z_][A-Za-z_0-9]*", stripped)
    if word is not None and word.group() in DTYPES + tuple(ALIASES):
        raise InputTextError(
            text,
            len(text.rstrip()) + 1,
            "expected '[' and sizes, such as %s[8,128]; %s[] is one number" % (word.group(), word.group()),
        )
    raise InputTextError(text, 1, "expected a tensor such as float32[8,128], a number, True, False or None")


def _tensor(text: str, start: re.Match[str]) -> TensorText:
    name = start.group(1)
    dtype = ALIASES.get(name, name)
    if dtype not in DTYPES:
        near = difflib.get_close_matches(name, DTYPES + tuple(ALIASES), n=1)
        hint = "did you mean %s?" % near[0] if near else "known: " + ", ".join(DTYPES)
        raise InputTextError(text, start.start(1) + 1, "no dtype '%s'; %s" % (name, hint))
    close = text.find("]", start.end())
    if close < 0:
        raise InputTextError(text, len(text) + 1, "expected ']' after the sizes")
    sizes = _sizes(text, start.end(), close)
    rest = text[close + 1 :].rstrip()
    if rest and not rest.startswith(":"):
        raise InputTextError(text, close + 2, "expected ':grad' or the end, found '%s'" % rest)
    option = rest[1:].strip()
    if rest and option != "grad":
        raise InputTextError(text, close + 3, "no option '%s'; did you mean grad?" % option)
    if option and not dtype.startswith(("float", "bfloat", "complex")):
        raise InputTextError(text, close + 2, "%s tensors have no gradient; only floating point ones" % dtype)
    return TensorText(dtype, sizes, bool(option))


def _sizes(text: str, begin: int, close: int) -> tuple[int, ...]:
    inside = text[begin:close]
    if not inside.strip():
        return ()
    sizes: list[int] = []
    column = begin
    for part in inside.split(","):
        word = part.strip()
        at = column + len(part) - len(part.lstrip()) + 1
        if not re.match(r"[0-9]+\Z", word):
            found = "found '%s'" % word if word else "found nothing"
            raise InputTextError(text, at, "expected a size (a whole number from 0), %s" % found)
        if len(word) > 18:
            raise InputTextError(text, at, "no tensor has a size of %d digits" % len(word))
        sizes.append(int(word))
        column += len(part) + 1
    return tuple(sizes)
