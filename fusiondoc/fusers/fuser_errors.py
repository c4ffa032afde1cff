"""Errors in logs: what failed, and patterns of the errors that only one fuser
writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from re import Pattern

CODEGEN = "codegen"
"""The fuser's own code failed: lowering, scheduling, binding of inputs."""
KERNEL = "kernel"
"""The CUDA source that the fuser made does not compile."""
DRIVER = "driver"
"""The CUDA driver refused a kernel, or it failed while it ran."""
OPTION = "option"
"""An unknown word in a variable of the fuser."""
ARCHITECTURE = "architecture"
"""NVRTC does not know the GPU."""
NO_KERNEL = "no kernel"
"""This build of torch holds no kernel for the GPU."""
BUILTINS = "builtins"
"""A library that NVRTC needs was not found."""
OLD_DRIVER = "old driver"
"""The installed driver is older than the CUDA of this torch."""
PROGRAM = "program"
"""Any other error: the operators fail without fusion too."""

TOOLCHAIN = frozenset((ARCHITECTURE, NO_KERNEL, BUILTINS, OLD_DRIVER))
"""Kinds that are unrelated to fusion: the installation does not fit the GPU."""

OF_FUSER = frozenset((CODEGEN, KERNEL, OPTION))
"""Kinds that are faults of a fuser."""


@dataclass(frozen=True)
class FuserErrors:
    """The errors of a fuser. Patterns are searched in a single line of an error's
    text."""

    forms: tuple[tuple[str, Pattern[str]], ...] = ()
    """Kind and form of an error; group 1 is its text."""
    files: Pattern[str] | None = None
    """Its source files, named in an assert of torch: its code failed."""
    texts: Pattern[str] | None = None
    """Errors of its code that name no file."""
    wrappers: Pattern[str] | None = None
    """Asserts that only announce errors of several threads, which follow."""
    source: str | None = None
    """The first words of the CUDA source of a kernel that it puts into the text of
    an assert."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """Words of an error -> a name for its cause, where the advice depends on it."""
    stand_alone: str | None = None
    """Text in errors of its stand-alone package that is in no error raised by
    torch."""
    marks: tuple[str, ...] = ()
    """Parts of error texts which show that the fuser's code, or a kernel that it
    made, failed."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of errors that its own code can be recognised to raise."""
        found = {kind for kind, _ in self.forms}
        return frozenset(found | {CODEGEN} if self.files is not None else found)
