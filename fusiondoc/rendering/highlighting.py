"""Code with syntax colours: which parts of a text in CUDA, PTX, Python or
TorchScript IR are keywords, strings, numbers, comments and names; and the lines of
a page made of them.

A text of a log may be made to be slow to read, so each pattern takes a part of it
in one go and never looks for an end twice: time grows with the length of the text.
Lexers of pygments 2.19 do not: that of CUDA takes 15 s for 20 KB of ``//``, or of
blank lines with a space.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from fusiondoc.rendering.printable import visible

_NUMBER = r"(?P<m>\b\d(?:[eE][+-]\d|[\w.])*)"
_WORD = r"(?P<w>[^\W\d]\w*)"

_C = re.compile(
    r"(?P<c>//[^\n]*|/\*(?:[^*]+|\*(?!/))*(?:\*/)?|^[ \t]*\#[^\n]*)"
    r"|(?P<s>\"(?:[^\"\\\n]+|\\.)*\"?|'(?:[^'\\\n]+|\\.)*'?)"
    rf"|{_NUMBER}|(?P<t>\b[^\W\d]\w*_t\b)|{_WORD}",
    re.MULTILINE,
)
_PYTHON = re.compile(
    r"(?P<c>\#[^\n]*)"
    r"|(?P<s>(?<!\w)[rRbBuUfF]{0,2}"
    r"(?:\"\"\"(?:[^\"\\]+|\\.|\"(?!\"\"))*(?:\"\"\")?|'''(?:[^'\\]+|\\.|'(?!''))*(?:''')?"
    r"|\"(?:[^\"\\\n]+|\\.)*\"?|'(?:[^'\\\n]+|\\.)*'?))"
    rf"|(?P<f>^[ \t]*@[\w.]+|(?<=\bdef )\w+|(?<=\bclass )\w+)|{_NUMBER}|{_WORD}",
    re.MULTILINE | re.DOTALL,
)

_C_KEYWORDS = """
alignas asm break case class const constexpr continue default delete do else enum extern false for
goto if inline namespace new nullptr operator private public return sizeof static static_assert
static_cast struct switch template this throw true try typedef typename union using volatile while
__restrict__ __global__ __device__ __shared__ __launch_bounds__ __forceinline__ __syncthreads
"""
_C_TYPES = """
auto bool char double dim3 float half int long short signed unsigned void __half __nv_bfloat16 Tensor
threadIdx blockIdx blockDim gridDim
"""
_C_WORDS = {
    **dict.fromkeys(_C_KEYWORDS.split(), "k"),
    **dict.fromkeys(_C_TYPES.split(), "t"),
}
_PYTHON_WORDS = dict.fromkeys(
    (name for name in dir(builtins) if name.islower() and name[0] != "_"), "t"
)
_PYTHON_WORDS.update(dict.fromkeys(keyword.kwlist, "k"))

_IR = re.compile(
    r"(?P<c> # .*$)|(?P<f>\b(?:aten|prim|cuda|profiler|fb)::\w+)|(?P<v>%[\w.]+)|(?P<s>\"[^\"\n]*\")",
    re.MULTILINE,
)


def cuda(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text of a kernel in parts, which together are the text, each with
    its class: "k" keyword, "t" type, "s" string, "m" number, "c" comment or
    directive, "" anything else."""
    return _parts(text, _C, _C_WORDS)


def python(text: str) -> Iterator[tuple[str, str]]:
    """Yield the same parts for a Python source; "t" is a builtin, "f" a decorator
    or the name of a function or class that is defined."""
    return _parts(text, _PYTHON, _PYTHON_WORDS)


def ir(text: str) -> Iterator[tuple[str, str]]:
    """Yield the same parts for TorchScript IR; "f" is an operator, "v" a value, "c"
    a source position."""
    return _parts(text, _IR, {})


def _parts(
    text: str, pattern: re.Pattern[str], words: dict[str, str]
) -> Iterator[tuple[str, str]]:
    done = 0
    for found in pattern.finditer(text):
        kind = found.lastgroup or ""
        if kind == "w":
            kind = words.get(found.group(), "")
            if not kind:
                continue
        if found.start() > done:
            yield "", text[done : found.start()]
        yield kind, found.group()
        done = found.end()
    if done < len(text):
        yield "", text[done:]


_LANGUAGES = {"cuda": cuda, "python": python, "ir": ir}


def coloured_lines(text: str, language: str) -> list[Markup]:
    """Return the lines of a text as spans, whose classes determine their
    colours."""
    lines: list[list[Markup]] = [[]]
    for css, value in _LANGUAGES[language](text):
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(_span(css, part))
    return [Markup().join(line) for line in lines]


def plain_lines(text: str) -> list[Markup]:
    """Return the lines without colours."""
    return [escape(visible(line)) for line in text.split("\n")]


def _span(css: str, text: str) -> Markup:
    if not css or text.isspace():
        return escape(visible(text))
    return Markup('<span class="{}">{}</span>').format(css, visible(text))
