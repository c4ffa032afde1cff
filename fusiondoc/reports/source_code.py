"""Source code in reports: how places are named, the user's lines, where their files are at hand, and which
parts of a text in CUDA, PTX or Python are keywords, strings, numbers, comments and names.

A text of a log may be made to be slow to read, so each pattern takes a part of it in one go and never looks
for an end twice: time grows with the length of the text. Lexers of pygments 2.19 do not: that of CUDA takes
15 s for 20 KB of ``//``, or of blank lines with a space.
"""

from __future__ import annotations

import builtins
import keyword
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Iterable, Iterator, Mapping, TypeVar

from fusiondoc.masking import texts_changed
from fusiondoc.model.report import Evidence, Report
from fusiondoc.model.source import Source, Texts, from_package, without_packages

T = TypeVar("T")


def near(source: str) -> str:
    """A source as it is read best: a package's file from the package's name on (``torch/functional.py:1``),
    one below the current folder without that folder."""
    short = without_packages(source)
    if short != source:
        return short
    here = str(Path.cwd()) + os.sep
    if source.startswith(here):
        return source[len(here) :]
    return from_package(source)


_NAMED = re.compile(r"(?<=\()([^()\s]+\.py:\d+)(?::\d+)?(?=\))")


def with_near_places(text: str) -> str:
    """A reason in words with the places that it names as they are read best, without columns."""
    return _NAMED.sub(lambda found: near(found[1]), text)


_PACKAGES = re.compile(
    r"(?<![\w./\\-])(?:(?:[A-Za-z]:)?[/\\][^\s:'\"()<>,;=|]{0,300}?[/\\])?"
    r"(?:site|dist)-packages[/\\](?=\w)"
)


class NearPaths:
    """Texts with the paths in them as others read them best: files below some folders from there on, files
    of installed packages from the package's name on.

    Args:
        folders: a path that begins with one of them is without it.
        packages: whether the second is done.
    """

    def __init__(self, folders: Iterable[str], packages: bool = True) -> None:
        ends = (one.rstrip("/\\") for one in folders)
        self._folders = tuple(dict.fromkeys(one + os.sep for one in ends if len(Path(one).parts) > 1))
        each = "|".join(map(re.escape, self._folders))
        self._below = re.compile(rf"(?<![\w./\\-])(?:{each})(?=[^\s/\\])")
        self._packages = packages
        self._made: dict[str, str] = {}
        self._files: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        made = self._made.get(text)
        if made is None:
            made = _PACKAGES.sub("", text) if self._packages and "-packages" in text else text
            if any(one in made for one in self._folders):
                made = self._below.sub("", made)
            if made != text:
                before, after = Source.parse(text), Source.parse(made)
                both = before is not None and after is not None
                self._files[after.file if after and both else made] = before.file if before and both else text
            self._made[text] = made
        return made

    def before(self, file: str) -> str:
        """The file that a text named, by what stands there now."""
        return self._files.get(file, file)

    def inside(self, value: T) -> T:
        """A report, a comparison or a part of one with every text so."""
        return texts_changed(value, self, lambda key, item: (key, self.inside(item)))


class _NearTexts:
    """The texts of a report whose paths are so."""

    def __init__(self, texts: Texts, near_paths: NearPaths) -> None:
        self._texts, self._near_paths = texts, near_paths

    def source(self, file: str) -> str | None:
        return self._texts.source(self._near_paths.before(file))

    def log(self, lines: Iterable[Evidence], graphs: Iterable[Evidence]) -> Mapping[Evidence, str]:
        wanted, begin = list(lines), list(graphs)
        before = {one: replace(one, file=self._near_paths.before(one.file)) for one in (*wanted, *begin)}
        found = self._texts.log([before[one] for one in wanted], [before[one] for one in begin])
        return {one: self._near_paths(found[was]) for one, was in before.items() if was in found}


def near_paths_of(*reports: Report) -> NearPaths:
    """For what is read about these reports: no text names the current folder, the folders that the programs
    were run in, or that of installed packages."""
    here = str(Path.cwd())
    return NearPaths([here, os.path.realpath(here), *(run_folder(one) for one in reports)])


def run_folder(report: Report) -> str:
    """The folder that the program was run in; "" where nothing tells."""
    return report.target.folder or ""


def with_near_paths(report: Report) -> Report:
    """A report for others to read, see ``near_paths_of``. What is typed again is left as it is, but for the
    current folder.

    JSON is made without: it holds what the log says, so that the files of its machine are found again.
    """
    near_paths, typed = near_paths_of(report), NearPaths([str(Path.cwd())], packages=False)
    made = near_paths.inside(report)
    plan = tuple(replace(one, command=typed(was.command)) for one, was in zip(made.plan, report.plan))
    capture = typed(report.target.capture) if report.target.capture is not None else None
    target = replace(made.target, folder=None, capture=capture)
    texts = _NearTexts(report.texts, near_paths) if report.texts is not None else None
    return replace(made, plan=plan, target=target, texts=texts)


def where_from(user_source: str | None, source: str | None) -> str:
    """Where an operator comes from: the user's line, and that of the package which it leads to.

    ``model.py:12 (torch/nn/functional.py:2987)``; "" where nothing is known.
    """
    if not user_source or not source:
        return near(user_source or source or "")
    inside = without_column(source)
    if inside == user_source or from_package(source) == source:
        return near(user_source)
    return f"{near(user_source)} ({near(inside)})"


def code_at(source: str | None, texts: Texts | None) -> str | None:
    """The text of ``file:line``, if that file is at hand: kept by the capture, or of the project here."""
    place = Source.parse(source)
    if place is None or texts is None:
        return None
    lines = (texts.source(place.file) or "").split("\n")
    return lines[place.line - 1].strip() or None if 0 < place.line <= len(lines) else None


def without_column(source: str) -> str:
    """``file:line`` of a source that has a column; another text as it is."""
    place = Source.parse(source)
    return place.at_line if place is not None else source


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
