"""Output of stand-alone nvFuser (NVIDIA/Fuser) and Lightning Thunder. Only names
are read.

Their fusions are not TorchScript's. A trace of Thunder is a Python module
(``TraceCtx.python``, thunder/core/trace.py): the lines that call a fusion (``[t0] =
nvFusion0(a, b)``, thunder/executors/nvfuserex_impl.py) or an operator outside
fusions are read. From nvFuser's Python output the definitions are read (``def
nvfuser_fusion_id0(fd : FusionDefinition)``, csrc/python_frontend/fusion_record.h);
its kernels are read by the same code as torch's. Lines of its IR count neither as
recognised nor as output of the program.
"""

from __future__ import annotations

import re

from fusiondoc.model import dataclass, field

MOST_NAMES = 1_000

_TRACE = re.compile(
    rb".{0,200}?# Constructed by |(?:import thunder|from thunder\.\S+ import )"
)
"""The pass that made a trace; a logger may write its own text before it. The first
trace names no pass."""
_FUSION = re.compile(
    rb"\s+(?:\[[^\]]*\]|\w+(?:, \w+)*) = (nvFusion\d{1,6}|TorchCompile\d{1,6})\("
)
_DEFINITION = re.compile(
    rb"def (nvfuser_fusion_id\d{1,9})\(\s*fd\s*:\s*FusionDefinition\s*\)"
)
_CALL = re.compile(rb"  (?:[\[(]?\w+[\w, ]*[\])]? = )?([A-Za-z_][\w.]*)\(")
_NO_OPERATOR = re.compile(
    rb"(?:prims|ltorch|clang|thunder)\.|(?:unpack|check|python|clear|return|del)(?:_|\Z)"
)
"""Calls in a trace that is not yet an executor's program, and calls that only pass
arguments on."""
_OF_TRACE = re.compile(rb"(?:import |from |@|def |  |# |$)")
_IR = re.compile(
    rb"\s*(?:[TI]\d+_[glspr](?:_\w+)?\s?\[|%(?:kernel|kernel_math|Kernel|HostIrContainer) \{|Segmented_Fusion"
    rb"|groups:$|edges:$|group details:$|inputs:$|outputs:$|\} ?// \{|TransformPrinter"
    rb"|= \w+\(|, (?:double|int|float)\(|with FusionDefinition\(|HOST IRS:|HostUnit\d|PostOnStream \()"
)
_WORDS = re.compile(rb"(?:Inputs|Outputs):$|g\{")
"""Lines of the same dumps that a program may print too. They count as dumps only
after IR that no parser of dumps knows, or if a tool is known for certain
(``named``)."""
_STARTS_IR = re.compile(
    rb"%(?:kernel|kernel_math|Kernel|HostIrContainer) \{|Segment the fusion|Segmented_Fusion"
)


def _is_header(line: bytes) -> bool:
    return (b"thunder" in line or b"# Constructed by " in line) and _TRACE.match(
        line
    ) is not None


@dataclass
class OtherTools:
    """The facts that a stream shows about these tools. ``line`` is the position of
    the first such line."""

    traces: int = 0
    fusions: dict[str, None] = field(default_factory=dict)
    definitions: dict[str, None] = field(default_factory=dict)
    beside: dict[str, None] = field(default_factory=dict)
    """Operators that the last trace with a fusion calls outside fusions."""
    ir: bool = False
    """True if lines in the form of nvFuser's IR belong to nvFuser and are not
    output of the program."""
    line: int | None = None
    _in_trace: bool = False
    _calls: dict[str, None] = field(default_factory=dict)
    """Calls in the current trace."""
    _unknown_ir: bool = False

    def begins(self, line: bytes, pos: int, alone: bool) -> None:
        """Record the beginning of an nvFuser dump that the dump parsers know.
        ``alone``: the stream has no log of torch, so the lines that those parsers
        leave also belong to the tools."""
        self.ir = alone and (self.ir or bool(_STARTS_IR.match(line)))
        defined = _DEFINITION.match(line) if line.startswith(b"def ") else None
        if defined is not None:
            self._name(self.definitions, defined.group(1))
            self.line = pos if self.line is None else self.line

    def takes(self, line: bytes, pos: int) -> bool | None:
        """Return True if the line belongs to the tools and was read, False if it
        belongs to them and was not read, None for other lines."""
        found = self._takes(line)
        if found is not None and self.line is None:
            self.line = pos
        return found

    def _takes(self, line: bytes) -> bool | None:
        if _is_header(line) and (b"#" in line or not self._in_trace):
            self.traces += 1
            self._in_trace, self._calls = True, {}
            return True
        if self._in_trace:
            if self._of_trace(line):
                return True
            self._in_trace = False
        if not self.ir and _STARTS_IR.match(line):
            self.ir = True
        if self.ir and _IR.match(line):
            self._unknown_ir = True
            return False
        if (self._unknown_ir or self.named) and _WORDS.match(line):
            return False
        return None

    def _of_trace(self, line: bytes) -> bool:
        """True if a line after the beginning of a trace belongs to it."""
        fusion = _FUSION.match(line)
        if fusion is not None:
            self._name(self.fusions, fusion.group(1))
            self.beside = self._calls
            return True
        call = _CALL.match(line)
        if call is not None and _NO_OPERATOR.match(call.group(1)) is None:
            self._name(self._calls, call.group(1))
        return _OF_TRACE.match(line) is not None

    @property
    def idle(self) -> bool:
        """True if nothing of the tools was seen that lines without a mark can
        continue."""
        return not (self._in_trace or self.ir or self._unknown_ir or self.named)

    @property
    def named(self) -> bool:
        """True if the output can only come from these tools: IR alone is also
        printed by the nvFuser in torch."""
        return bool(self.traces or self.definitions)

    @staticmethod
    def _name(names: dict[str, None], name: bytes) -> None:
        if len(names) < MOST_NAMES:
            names[name.decode("ascii", "replace")] = None
