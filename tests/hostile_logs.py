"""Logs of somebody who wants a written file to do something else: real groups
changed, and made-up ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from thorough import every

from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs
from fusiondoc.repro.rebuild import find_group

CODE = "__import__('os').system('touch ran')"

OPERATORS = (
    "aten::from_file",
    "aten::copy_",
    "aten::save",
    "aten::load",
    "aten::set_",
    "aten::resize_",
    "aten::_print",
    "aten::add.out",
    "aten::add_",
    "aten::eval",
    "aten::format",
    "aten::tensor",
    "aten::append",
    "aten::__contains__",
    "prim::PythonOp",
    "prim::Print",
    "prim::CallFunction",
    "prim::CallMethod",
    "prim::GetAttr",
    "prim::SetAttr",
    "prim::CreateObject",
    "prim::RaiseException",
    "prim::Loop",
    "prim::If",
    "prim::fork",
    "prim::rpc_async",
    "prim::DifferentiableGraph",
    "prim::CudaFusionGroup",
    "prim::TensorExprGroup_0",
    "prim::Open",
    "prim::CudaFusionGroup_0",
    "quantized::linear_unpack",
    "fb::save",
    "x::add",
    "static_runtime::to_copy",
    "tensorexpr::Group",
    "aten::\u0430dd",
)
"""The last one's first letter is Cyrillic."""

TEXTS = [
    '"""',
    "'''",
    '"',
    "\\",
    '\\"""',
    '"""\n' + CODE + '\n"""',
    "'''\n" + CODE + "\n'''",
    f"\n{CODE}\n",
    f"\r{CODE}\r",
    f"\r\n{CODE}",
    f"\x0c{CODE}",
    f"\x0b{CODE}",
    f"\x1c{CODE}",
    f"\x85{CODE}",
    f"\u2028{CODE}",
    f"\u2029{CODE}",
    "\x00",
    "\x1b]0;title\x07",
    "\u202e\u2066",
    "\udcff\udc80",
    "\ufeff",
    "# -*- coding: utf-7 -*-",
    "\n# coding: rot13\n",
    "{0.__class__} {title} {ir}",
    "%s %(x)s",
    "\\N{DIGIT ONE}\\u0022\\x22",
    f'"+{CODE}+"',
    f"[{CODE}]",
    f'"]() \n  %9 : Tensor = aten::from_file("{CODE}")\n',
    "/etc/passwd",
    "../../.bashrc",
    'type: (Tensor) -> "',
    "x" * 3000,
    "[" * 300,
    "(" * 300,
    "1e999",
    "9" * 30,
    "-9223372036854775809",
    "0x41",
    "1_000",
    "\u0661\u0662",
    "1j",
    "b'x'",
    "f'{1}'",
    "{1: 2}",
    "...",
    "lambda: 0",
    "None",
]

TYPES = [
    "str",
    "Device",
    "Dict(str,int)",
    "__torch__.Evil",
    "Future(Tensor)",
    "(str,int)",
    "Any",
    "PyObject",
    "File",
    "Tensor[]",
    "str[]",
    "int[]",
    "Float(99999999999999999999, strides=[1])",
    "Float(-5)",
    "Float(2, device=/etc/passwd)",
    "Float(*, *)",
    "Evil(2)",
]

BLOCK = """\
  %name.1 : str = prim::Constant[value="{place}"]()
  %yes.1 : bool = prim::Constant[value=1]()
  %many.1 : int = prim::Constant[value=64]()
  %none.1 : NoneType = prim::Constant()
  %file.1 : Tensor = aten::from_file(%name.1, %yes.1, %many.1, %none.1, %none.1, %none.1, %none.1)
  %done.1 : Tensor = aten::copy_(%file.1, %{value}, %yes.1)
"""
"""Writes the bytes of a tensor to any file: what the log of an attacker did."""


def real_bodies(folder: Path) -> list[str]:
    """The printed graphs of the groups of real logs, each once, without the very
    long. Reading the logs takes longer than the test, so it is a part of them at a
    push."""
    bodies: dict[str, None] = {}
    for path in every(6, sorted(folder.rglob("*.log.xz"))):
        log = LogInput(str(path), path)
        for group in read_logs([log])[0].groups:
            found = find_group(group, [log])
            if found is not None and len(found.text) < 4000:
                bodies[found.text] = None
    return list(bodies)


class Hostile:
    """Logs from a seed. Each is a bare print of a graph that calls one group, or a
    line of a kernel cache."""

    def __init__(self, bodies: list[str], seed: int) -> None:
        self._bodies = bodies
        self._random = random.Random(seed)
        self._changes: list[Callable[[str], str]] = [
            self._operator,
            self._operator,
            self._block,
            self._python,
            self._name,
            self._attribute,
            self._attribute,
            self._type,
            self._source,
            self._insert,
            self._bytes,
            self._line,
            self._control_flow,
        ]

    def log(self) -> bytes:
        """The next log."""
        draw = self._random
        body = draw.choice(self._bodies)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            body = draw.choice(self._changes)(body)
        if draw.random() < 0.2:
            text = (
                f"[DUMP kernel_cache.cpp:1] GraphCache created for graph\n{body}\n"
            )
            return text.replace("\n", "\n[DUMP kernel_cache.cpp:1] ").encode(
                "utf-8", "surrogateescape"
            )
        return (self._around(body) + body + "\n").encode("utf-8", "surrogateescape")

    def _around(self, body: str) -> str:
        """The graph that calls the group; some of the group's inputs are its
        constants."""
        kind = self._random.choice(
            ("CudaFusionGroup", "TensorExprGroup", "FusionGroup")
        )
        head, _, _ = body.partition("):\n")
        params = re.findall(r"%([\w.]+) : ([^\n]*?)(?:,?\n|$)", head)
        given, constants = [], ""
        for name, type_ in params:
            if self._random.random() < 0.2:
                text = self._random.choice([*TEXTS, "2", "[1, 2]", '"cpu"'])
                constants += (
                    f"  %{name} : {type_} = prim::Constant[value={text}]()\n"
                )
            else:
                given.append(f"%{name} : {type_}")
        call = ", ".join(f"%{name}" for name, _ in params)
        return (
            "graph("
            + ",\n      ".join(given)
            + "):\n"
            + constants
            + f"  %out : Tensor = prim::{kind}_0({call})\n"
            f"  return (%out)\nwith prim::{kind}_0 = "
        )

    def _operator(self, body: str) -> str:
        kinds = list(re.finditer(r"(?<== )\w+::\w+", body))
        return self._replace(body, kinds, self._random.choice(OPERATORS))

    def _attribute(self, body: str) -> str:
        places = list(re.finditer(r"(?<=\[value=)[^\]]*|(?<=::\w\w\w)(?=\()", body))
        return self._replace(
            body,
            places,
            self._random.choice([*TEXTS, f'"{self._random.choice(TEXTS)}"']),
        )

    def _name(self, body: str) -> str:
        names = sorted(set(re.findall(r"%[\w.]+", body)))
        return (
            body.replace(
                self._random.choice(names), "%" + self._random.choice(TEXTS)
            )
            if names
            else body
        )

    def _type(self, body: str) -> str:
        types = list(re.finditer(r"(?<= : )[\w\[\]]+(?:\([^()\n]*\))?", body))
        return self._replace(body, types, self._random.choice(TYPES + TEXTS))

    def _source(self, body: str) -> str:
        places = list(re.finditer(r"(?<= # )[^\n]*", body))
        return self._replace(body, places, self._random.choice(TEXTS) + ":1:2")

    def _block(self, body: str) -> str:
        value = self._random.choice(
            re.findall(r"%([\w.]+) : (?:Float|Half|Tensor)", body) or ["1"]
        )
        place = self._random.choice(("evil.py", "../evil.py", "/tmp/evil", *TEXTS))
        node = body.find("\n  return (")
        return (
            f"{body[: node + 1]}{BLOCK.format(place=place, value=value)}  return (%done.1)"
            if node > 0
            else body
        )

    def _python(self, body: str) -> str:
        node = body.find("\n  return (")
        called = self._random.choice(("^Evil", "^exec", "^<lambda>"))
        return f"{body[:node]}\n  %done.2 : Tensor = {called}({CODE})(%1)\n  return (%done.2)"

    def _control_flow(self, body: str) -> str:
        node = body.find("\n  return (")
        inner = "\n    block0():\n      %x.9 : Tensor = aten::from_file()\n      -> (%x.9)"
        return f"{body[:node]}\n  %done.3 : Tensor = aten::mul(%1, %1){inner}\n  return (%done.3)"

    def _insert(self, body: str) -> str:
        at = self._random.randrange(len(body))
        return body[:at] + self._random.choice(TEXTS) + body[at:]

    def _bytes(self, body: str) -> str:
        for _ in range(self._random.randrange(1, 6)):
            at = self._random.randrange(len(body))
            body = body[:at] + chr(self._random.randrange(256)) + body[at + 1 :]
        return body

    def _line(self, body: str) -> str:
        lines = body.split("\n")
        at = self._random.randrange(len(lines))
        lines[at:at] = [
            self._random.choice(
                (self._random.choice(lines), self._random.choice(TEXTS))
            )
        ]
        del lines[self._random.randrange(len(lines))]
        return "\n".join(lines)

    def _replace(self, body: str, places: list[re.Match[str]], by: str) -> str:
        if not places:
            return body
        place = self._random.choice(places)
        return body[: place.start()] + by + body[place.end() :]
