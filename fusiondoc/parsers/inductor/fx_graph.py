"""A graph after the post-grad passes, as Python text (``print_readable`` of
``torch/fx/graph.py``)::

    class GraphModule(torch.nn.Module):
        def forward(self, primals_1: "f32[64, 128][128, 1]cuda:0"):
            # File: model.py:9 in composite, code: x = x + bias
            add: "f32[64, 128]" = torch.ops.aten.add.Tensor(primals_1, 1);  primals_1 = None
            return (add,)

and as lines of torch.fx: ``%add : [num_users=2] = call_function[target=...](args =
(...), kwargs = {})``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fusiondoc.fusers.inductor.compilation import GraphOperator, Line
from fusiondoc.parsers.inductor.python_text import arguments
from fusiondoc.parsers.inductor.text_lines import TextLines

_FILE = re.compile(
    r"\s*# File: (.{1,400}?):(\d{1,9})(?: in ([^,\n]{1,200}))?(?:, code:|\s*$)"
)
_SIGNATURE = re.compile(r"\s*def forward\(self,? ?(.*)")
_ARGUMENT = re.compile(r"(\w+)(?:\s*:\s*\"?([^\"]*?)\"?)?\s*(?:=.*)?$")
_STATEMENT = re.compile(r"\s+(\w+)(?:: \"([^\"]*)\")? = ([A-Za-z_][\w.]*)(.*)")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w.(])")
_FX_LINE = re.compile(
    r"%(\w+) : (?:Tensor )?(?:\"([^\"]*)\")?\s*(?:\[num_users=\d+\])? ?= (\w+)\[target=([^\]]*)\](.*)"
)
_FX_NAME = re.compile(r"%(\w+)")
_OUTPUT = "output"
"""The torch.fx node that returns the results."""


class FxNode(NamedTuple):
    """A line of torch.fx, as in comments of generated code."""

    name: str
    type: str | None
    op: str
    """``call_function``, ``PlaceHolder``."""
    target: str
    inputs: tuple[str, ...]


def fx_node(text: str) -> FxNode | None:
    """Return the node of a line such as ``%add : Tensor "f32[8]"[num_users=1] =
    call_function[target=...](...)``; None for another line."""
    found = _FX_LINE.search(text)
    if found is None:
        return None
    name, type_, op, target, rest = found.groups()
    inputs = tuple(dict.fromkeys(_FX_NAME.findall(rest)))
    return FxNode(name, type_, op, target_of(target), inputs)


def target_of(text: str) -> str:
    """Return ``aten.add.Tensor`` for ``torch.ops.aten.add.Tensor``."""
    return text.removeprefix("torch.ops.")


class _Reader:
    """Reads the lines of a graph."""

    def __init__(self) -> None:
        self.operators: dict[str, GraphOperator] = {}
        self.outputs: tuple[str, ...] = ()
        self._source: str | None = None
        self._function: str | None = None

    def take(self, text: str, line: Line | None) -> None:
        """Read the next line."""
        if "#" in text and self._comment(text):
            return
        if text.lstrip().startswith("def forward("):
            self._signature(text)
        elif text.lstrip().startswith("return"):
            self.outputs = tuple(
                dict.fromkeys(_NAME.findall(text.lstrip()[len("return") :]))
            )
            returned = []
            for name in self.outputs:
                if name in self.operators:
                    returned.append(name)
            self.operators[_OUTPUT] = GraphOperator(
                _OUTPUT, _OUTPUT, _OUTPUT, tuple(returned), line=line
            )
        else:
            self._statement(text, line)

    def _comment(self, text: str) -> bool:
        found = _FILE.match(text)
        if found is not None:
            self._source, self._function = (
                f"{found.group(1)}:{found.group(2)}",
                found.group(3),
            )
            return True
        if "# No stacktrace found" in text:
            self._source = self._function = None
            return True
        return text.lstrip().startswith("#")

    def _signature(self, text: str) -> None:
        parts, _ = arguments(text, text.index("("))
        for part in parts:
            found = _ARGUMENT.match(part)
            if found is None or found.group(1) == "self":
                continue
            name, type_ = found.groups()
            self.operators[name] = GraphOperator(
                name, "placeholder", name, (), type_ or None
            )

    def _statement(self, text: str, line: Line | None) -> None:
        found = _STATEMENT.match(text)
        if found is None:
            return
        name, type_, target, rest = found.groups()
        op, target, given = self._called(target, rest)
        if op is None:
            return
        self.operators[name] = GraphOperator(
            name,
            op,
            target,
            self._read(given or ""),
            type_ or None,
            self._source,
            self._function,
            arguments=given,
            line=line,
        )

    def _called(self, target: str, rest: str) -> tuple[str | None, str, str | None]:
        """Return kind, target and arguments of the text after the equals sign."""
        if rest.startswith("("):
            _, end = arguments(rest, 0)
            return "call_function", target_of(target), rest[1 : end - 1]
        if rest.startswith("["):
            parts, _ = arguments(rest, 0)
            return "call_function", "getitem", ", ".join((target, *parts))
        if target.startswith("self."):
            return "get_attr", target.removeprefix("self."), None
        return None, target, None

    def _read(self, text: str) -> tuple[str, ...]:
        names = dict.fromkeys(_NAME.findall(_STRING.sub("", text)))
        return tuple(name for name in names if name in self.operators)


_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


class ReadGraph(NamedTuple):
    """A graph that was read."""

    digest: int
    """Equal for equal texts."""
    operators: tuple[GraphOperator, ...]
    outputs: tuple[str, ...]


def graph_of(text: str, lines: TextLines | None = None) -> ReadGraph:
    """Return the nodes of a graph in order.

    Args:
        lines: position of the text, if nodes should have their line.
    """
    reader = _Reader()
    for number, line in enumerate(text.splitlines()):
        reader.take(line, None if lines is None else lines.line(number))
    return ReadGraph(hash(text), tuple(reader.operators.values()), reader.outputs)
