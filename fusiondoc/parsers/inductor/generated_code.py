"""The module that Inductor generates for a graph, as text: the kernels that it
defines, its calls, and buffers.

The same text is in ``output_code`` of TORCH_LOGS, ``inductor_output_code`` of
TORCH_TRACE, ``output_code.py`` of a debug folder and the files of Inductor's cache.
It is never run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fusiondoc.fusers.inductor.compilation import Buffer
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.inductor.kernel_definitions import (
    Definition,
    definition,
    definition_name,
)
from fusiondoc.parsers.inductor.wrapper_calls import (
    Wrapper,
    WrapperReader,
    given_value,
)

_AOT_ID = re.compile(r"# AOT ID: \['(\d{1,9})_(\w+)'\]")
_PARTITION = re.compile(r"def partition_(\d{1,6})\(")
_RUNS_PARTITION = re.compile(r"self\.partitions\[(\d{1,6})\]\(")


@dataclass
class GeneratedModule:
    """A generated module."""

    number: int | None = None
    """Number of the graph: ``0`` in ``['0_forward']``."""
    phase: str | None = None
    """``forward``, ``backward``, ``inference``."""
    kernels: dict[str, Definition] = field(default_factory=dict)
    wrapper: Wrapper = field(default_factory=Wrapper)


class _Blocks:
    """Splits the lines of a module into its parts."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0
        self.module = GeneratedModule()
        self.call: list[tuple[int, str]] = []
        self.partitions: dict[str, list[tuple[int, str]]] = {}
        self.given: list[str] = []
        self._comment: list[str] = []

    def read(self) -> None:
        """Read all lines."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith("#"):
                self._take_comment(line)
            elif " = async_compile." in line and (named := definition_name(line)):
                self._define(*named)
                continue
            elif "def " in line:
                self._function(line)
                continue
            self.at += 1

    def _take_comment(self, line: str) -> None:
        found = _AOT_ID.match(line)
        if found is not None:
            self.module.number, self.module.phase = (
                whole_number(found.group(1)),
                found.group(2),
            )
        if line.startswith("# kernel path:"):
            self._comment = []
        self._comment.append(line)

    def _define(self, name: str, compiler: str) -> None:
        start = self.at
        quotes = "'''" if "'''" in self.lines[start] else '"""'
        end = start
        if self.lines[start].count(quotes) == 1:
            end = self._line_with(quotes, start + 1)
        body = self.lines[start : end + 1]
        self.module.kernels[name] = definition(
            name, compiler, self._comment, body, start
        )
        self._comment = []
        self.at = end + 1

    def _line_with(self, text: str, start: int) -> int:
        for index in range(start, len(self.lines)):
            if text in self.lines[index]:
                return index
        return len(self.lines) - 1

    def _function(self, line: str) -> None:
        """Read a function: ``call``, a partition of it, or the function that makes
        its inputs."""
        body = self._body(line)
        name = line.strip()
        partition = _PARTITION.match(name)
        if name.startswith("def call("):
            self.call = body
        elif partition is not None:
            self.partitions[partition.group(1)] = body
        elif name.startswith(("def get_args(", "def benchmark_compiled_module(")):
            self.given += [text for _, text in body]

    def _body(self, line: str) -> list[tuple[int, str]]:
        """Return the lines below a ``def`` with larger indentation, with their
        numbers."""
        indent = len(line) - len(line.lstrip())
        self.at += 1
        start = self.at
        while (
            self.at < len(self.lines)
            and not self.lines[self.at][: indent + 1].strip()
        ):
            self.at += 1
        return list(enumerate(self.lines[start : self.at], start))


def generated_module(text: str) -> GeneratedModule:
    """Return the definitions and calls of a module. For another text, or a
    truncated module, the result has the parts that are there."""
    blocks = _Blocks(text.splitlines())
    blocks.read()
    hints: dict[str, int] = {}
    given: dict[str, Buffer] = {}
    for line in blocks.given:
        buffer = given_value(line, hints)
        if buffer is not None:
            given[buffer.name] = buffer
    module = blocks.module
    reader = WrapperReader(frozenset(module.kernels), hints, given)
    for number, line in _in_order(blocks):
        reader.take(line, number)
    module.wrapper = reader.wrapper
    return module


def _in_order(blocks: _Blocks) -> list[tuple[int, str]]:
    """Return the lines of ``call``, with the lines of each partition inserted where
    it runs. The ``return`` of a partition is left out."""
    lines: list[tuple[int, str]] = []
    for number, text in blocks.call:
        found = _RUNS_PARTITION.search(text)
        if found is None:
            lines.append((number, text))
            continue
        inner = blocks.partitions.get(found.group(1), [])
        for pair in inner:
            if not pair[1].strip().startswith("return"):
                lines.append(pair)
    return lines
