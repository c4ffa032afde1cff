"""Recordings of torch.compile under fixtures/inductor: logs, traces, and what hooks
inside of torch saw."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fusiondoc.fusers.inductor.compilation import Compilation
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs

FOLDER = Path(__file__).parent.parent / "fixtures" / "inductor"


@dataclass(frozen=True)
class Recording:
    """A program under torch.compile."""

    folder: Path

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}-{self.folder.name}"

    @property
    def facts(self) -> dict[str, Any]:
        """What hooks inside of torch saw."""
        packed = (self.folder / "facts.json.xz").read_bytes()
        facts: dict[str, Any] = json.loads(lzma.decompress(packed))
        return facts

    @property
    def log(self) -> Path:
        return self.folder / "log.xz"

    @property
    def trace(self) -> Path:
        return self.folder / "dedicated_log_torch_trace_a.log.xz"


RECORDINGS = [
    Recording(path.parent) for path in sorted(FOLDER.glob("*/*/facts.json.xz"))
]


@cache
def read(*paths: Path) -> Compilation:
    """What logs and traces show together."""
    compilation = read_logs([LogInput(path.name, path) for path in paths])[
        1
    ].compilation
    assert compilation is not None
    return compilation
