"""Which parts of a text are keywords, strings, numbers, comments and names, in CUDA, PTX and Python.

A text of a log may be made to be slow to read, so each pattern takes a part of it in one go and never looks
for an end twice: time grows with the length of the text. Lexers of pygments 2.19 do not: that of CUDA takes
15 s for 20 KB of ``//``, or of blank lines with a space.
"""

from __future__ import annotations

import builtins
import keyword
import re
from typing import Iterator

_NUMBER = r"(?P<m>\b\d(?:[eE][+-]\d|[\w.])*)"
_WORD = r"(?P<w>[^\W\d]\w*)"

_C = re.compile(
    r"(?P<c>//[^\n]*|/\*(?:[^*]+|\*(?!/))*(?:\*/)?|^[ \t]*\#[^\n]*)"
    r"|(?P<s>\"(?:[^\"\\\n]+|\\.)*\"?|'(?:[^'\\\n]+|\\.)*'?)"
    rf"|{_NUMBER}|{_WORD}",
    re.MULTILINE,
)
_PYTHON = re.compile(
    r"(?P<c>\#[^\n]*)"
    r"|(?P<s>\b[rRbBuUfF]{0,2}"
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
auto bool char double dim3 float half int int8_t int16_t int32_t int64_t long nvfuser_index_t short
signed size_t uint8_t uint16_t uint32_t uint64_t unsigned void __half __nv_bfloat16 Tensor threadIdx
blockIdx blockDim gridDim
"""
_C_WORDS = {**dict.fromkeys(_C_KEYWORDS.split(), "k"), **dict.fromkeys(_C_TYPES.split(), "t")}
_PYTHON_WORDS = dict.fromkeys((name for name in dir(builtins) if name.islower() and name[0] != "_"), "t")
_PYTHON_WORDS.update(dict.fromkeys(keyword.kwlist, "k"))


def cuda(text: str) -> Iterator[tuple[str, str]]:
    """The text of a kernel in parts that together are the text, each with its class: "k" keyword, "t" type,
    "s" string, "m" number, "c" comment or directive, "" anything else."""
    return _parts(text, _C, _C_WORDS)


def python(text: str) -> Iterator[tuple[str, str]]:
    """The same of a Python source; "t" is a builtin, "f" a decorator or the name of what is defined."""
    return _parts(text, _PYTHON, _PYTHON_WORDS)


def _parts(text: str, pattern: re.Pattern[str], words: dict[str, str]) -> Iterator[tuple[str, str]]:
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
