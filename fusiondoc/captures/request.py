"""What is asked of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from fusiondoc.captures.target import TargetSpec
from fusiondoc.errors import UsageError
from fusiondoc.probe.input_text import InputTextError, parse_input

FUSERS = ("auto", "nvfuser", "nnc", "onednn", "legacy", "none")


@dataclass(frozen=True)
class RunRequest:
    """A run of a target under a fuser.

    ``inputs`` are the texts of ``--input``; ``script`` runs the file as it is; ``timeout`` is in seconds;
    ``dumps`` are names of PYTORCH_NVFUSER_DUMP beyond the usual ones; ``device`` None leaves everything where
    the program puts it.
    """

    target: TargetSpec
    python: Path
    fuser: str = "auto"
    runs: int = 5
    backward: bool = False
    trace: bool = False
    script: bool = False
    script_args: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    device: str | None = None
    seed: int | None = None
    timeout: float = 600
    knobs: Mapping[str, str] = field(default_factory=dict)
    dumps: tuple[str, ...] = ()
    verify: bool = False
    """Compare every pass with an eager one."""
    no_freeze: bool = False
    """Leave a module unfrozen under oneDNN Graph."""
    eval: bool = False
    """Put a module into eval mode before it is scripted."""
    timing: bool = False
    """Time passes, eager against fused, without any log or dump."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables on top of those that the fuser needs."""
    cwd: Path = field(default_factory=Path.cwd)
    command: tuple[str, ...] = ()
    """The command line as the user gave it; only kept in the capture."""

    def check(self) -> None:
        """Refuse what can be seen to be wrong before a process starts (UsageError)."""
        for text in self.inputs:
            try:
                parse_input(text)
            except InputTextError as error:
                raise UsageError(
                    str(error), "Such as --input 'float32[8,128,1024]:grad' or --input 0.5"
                ) from None
        if self.script and self.target.kind != "file":
            raise UsageError("--script takes a Python file", f"'{self.target.text}' is none.")
        if self.script and (self.target.name or self.inputs):
            what = f":{self.target.name}" if self.target.name else "--input"
            raise UsageError(
                f"--script runs the file as it is, so {what} has no meaning", "Leave one of them out."
            )
        if self.target.kind == "archive" and not self.inputs:
            raise UsageError(
                f"an archive has no inputs of its own: {self.target.label} needs --input",
                "Give one --input for each argument, such as --input 'float32[8,128]'.",
            )
        if self.runs < 1:
            raise UsageError(
                f"--runs {self.runs}: at least 1 is needed", "A group appears in the second or third run."
            )
        if not self.timeout > 0:
            raise UsageError(
                f"--timeout {self.timeout:g}: it must be more than 0 seconds", "Such as --timeout 60"
            )

    def options(self) -> dict[str, Any]:
        """The options as the capture keeps them."""
        return {
            "fuser": self.fuser,
            "runs": self.runs,
            "backward": self.backward,
            "trace": self.trace,
            "script": self.script,
            "script_args": list(self.script_args),
            "inputs": list(self.inputs),
            "device": self.device,
            "seed": self.seed,
            "timeout": self.timeout,
            "knobs": dict(self.knobs),
            "dumps": list(self.dumps),
            "verify": self.verify,
            "no_freeze": self.no_freeze,
            "eval": self.eval,
            "timing": self.timing,
        }
