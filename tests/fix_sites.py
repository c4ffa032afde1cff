"""A file and a line of an operator as the changes of ``fix`` get them, without a
run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fusiondoc.changes.edits import SourceText
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.diagnosis.changes_to_try.user_program import UnfusedSite, UserProgram

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"


def parsed(text: str) -> ParsedFile:
    return ParsedFile(SourceText(Path("m.py"), text, "utf-8", False))


class MadeProgram(UserProgram):
    """A program without a run: what is given of it, and nothing else found."""

    files: Any = ()
    fuser = "nnc"
    torch: Any = None
    backward = False

    def __init__(self, **given: Any) -> None:
        nothing = SimpleNamespace(programs=[], groups=[], unfused=[])
        usual = {
            "rows": [],
            "sites": [],
            "idle_sites": [],
            "lines_that_ran": frozenset(),
            "report": nothing,
        }
        self.__dict__.update(
            {**usual, "options": SimpleNamespace(trace=False), **given}
        )


def site(text: str, op: str, line: int) -> UnfusedSite:
    reason = SimpleNamespace(detail=None, code="")
    row: Any = SimpleNamespace(
        op=op, index=0, layers=(), reason=reason, source=None
    )
    return UnfusedSite(row, parsed(text), line)


def in_plans(*types: Sequence[str]) -> Any:
    """A report with plans in which an operator of ``site`` takes these types, once
    each."""
    nodes = [
        SimpleNamespace(
            kind="operator", op="aten::relu_", rows=(0,), inputs=inputs, first=None
        )
        for inputs in types
    ]
    return SimpleNamespace(
        programs=[SimpleNamespace(nodes=nodes)], groups=[], unfused=[]
    )
