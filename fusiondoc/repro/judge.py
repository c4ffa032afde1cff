"""The verdict on running a written file, and the signature of a failure, which
stays the same across smaller files."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fusiondoc.errors import CannotRun
from fusiondoc.fusers import FUSERS
from fusiondoc.model import dataclass
from fusiondoc.runner.child import Child
from fusiondoc.whole_files import open_regular

_SILENT = (
    "PYTORCH_JIT_LOG_LEVEL",
    *(
        fuser.switches.dump_variable
        for fuser in FUSERS.values()
        if fuser.switches.dump_variable is not None
    ),
)
"""Variables that make torch print; a file is judged by its own output."""

_VERDICT = re.compile(r"^verdict: (same|different|failed)\b(.*)$", re.MULTILINE)
_STAGE = re.compile(r"^stage: (.*)$", re.MULTILINE)
_DESCRIBE = re.compile(r"^describe: (.*)$", re.MULTILINE)
_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception)\b:? ?", re.MULTILINE)
_ASSERT = re.compile(r'INTERNAL ASSERT FAILED at "([^"]+)":(\d+)')
_COMPILER = re.compile(r"CUDA NVRTC compile error: .*?(error: [^\n]*)", re.DOTALL)


@dataclass(frozen=True)
class ReproOutcome:
    """``kind``: same, different, failed, died, "timed out" or "no verdict".
    ``signature``: equal for equal failures. ``text``: the failure in a line."""

    kind: str
    stage: str
    signature: str
    text: str
    described: Any = None
    interrupted: bool = False

    @property
    def fails(self) -> bool:
        return self.kind in ("different", "failed", "died")


def run_file(
    python: Path, file: Path, arguments: Sequence[str], timeout: float
) -> ReproOutcome:
    """Run a written file in a process of its own and judge its output."""
    if not hasattr(os, "killpg"):
        raise CannotRun(
            "files run on Linux and macOS only: this system has no process groups",
            "Write the file without --minimise, and run it yourself.",
        )
    environment = {}
    for name, value in os.environ.items():
        if name not in _SILENT:
            environment[name] = value
    with tempfile.TemporaryDirectory(prefix="fusiondoc-repro-") as folder:
        log = Path(folder) / "log"
        command = [str(python), "-u", str(file), *arguments]
        try:
            ending = Child(command, environment, Path(folder), log, timeout).run()
        except OSError as error:
            raise CannotRun(
                f"{python} cannot be started: {error.strerror}",
                "Choose another interpreter with --python.",
            ) from None
        with open_regular(log) as written:
            printed = written.read().decode("utf-8", "replace")
    return judge(
        printed,
        ending.exit_status,
        ending.signal,
        ending.timed_out,
        ending.interrupted,
    )


def judge(
    printed: str,
    status: int | None,
    signal: str | None = None,
    timed_out: bool = False,
    interrupted: bool = False,
) -> ReproOutcome:
    """The outcome of a file, from its output and exit status."""
    stage = (_STAGE.findall(printed) or ["start"])[-1]
    verdict = _VERDICT.search(printed)
    described = _DESCRIBE.search(printed)
    if interrupted:
        return ReproOutcome(
            "no verdict", stage, "", "interrupted", interrupted=True
        )
    if timed_out:
        return ReproOutcome(
            "timed out", stage, "", f"did not end in time, in the {stage}"
        )
    if signal is not None and (verdict is None or verdict[1] == "failed"):
        return ReproOutcome(
            "died",
            stage,
            f"died {signal} {stage}",
            f"died of {signal} in the {stage}",
        )
    if described is not None:
        return ReproOutcome("no verdict", stage, "", "", json.loads(described[1]))
    if verdict is None:
        return ReproOutcome(
            "no verdict", stage, "", f"{_last_line(printed)} (exit status {status})"
        )
    if verdict[1] == "failed":
        message = _message(printed[verdict.end() :])
        return ReproOutcome(
            "failed", stage, f"failed {stage} {normalised(message)}", short(message)
        )
    if verdict[1] == "different":
        first = ""
        for line in printed.split("\n"):
            if line.startswith("differs: "):
                first = line
                break
        sort = re.sub(r"^differs: output \d+ \([^)]*\): ", "", first)
        return ReproOutcome("different", stage, f"different {_sort(sort)}", sort)
    return ReproOutcome("same", stage, "", verdict[0])


def normalised(message: str) -> str:
    """An error without the parts that change when the graph gets smaller: numbers,
    names, sizes.

    A failed assertion of torch is known by its file and line, an NVRTC error by the
    compiler's first complaint: the rest of the text is the whole kernel.
    """
    assertion = _ASSERT.search(message)
    if assertion is not None:
        return f"assert {assertion[1].rpartition('/')[2]}:{assertion[2]}"
    compiler = _COMPILER.search(message)
    line = compiler[1] if compiler is not None else short(message)
    line = re.sub(r"\[[^\]]*\]|\([^)]*\)|\"[^\"]*\"|'[^']*'|%[\w.]+", "_", line)
    return re.sub(r"\b0x[0-9a-f]+\b|-?\d+(?:\.\d+)?|\b[TVibfd]\d+\w*", "0", line)


def short(message: str) -> str:
    """The line of an error that names the fault."""
    assertion = _ASSERT.search(message)
    lines = []
    for line in message.split("\n"):
        if line.strip():
            lines.append(line.strip())
    if assertion is not None:
        lines = [line for line in lines if assertion[0] in line]
    compiler = _COMPILER.search(message)
    if compiler is not None:
        return f"CUDA NVRTC compile error: {compiler[1]}"
    if lines:
        return lines[0][:300]
    return ""


def _message(after: str) -> str:
    """The text of the last exception; the interpreter of TorchScript wraps the
    original in its own."""
    starts = list(_ERROR.finditer(after))
    if starts:
        return after[starts[-1].end() :]
    return _last_line(after)


def _sort(text: str) -> str:
    """The kind of a mismatch, without its figures."""
    if "largest difference" in text:
        return "values"
    return re.sub(r"-?\d[\d.e+-]*", "0", text)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().split("\n") if line.strip()]
    if lines:
        return lines[-1][:300]
    return "it printed nothing"
