"""What stand-alone nvFuser (NVIDIA/Fuser) and Lightning Thunder print: read by
name, as far as names go.

Their fusions are none of TorchScript's. A trace of Thunder is a Python module
(``TraceCtx.python``, thunder/core/trace.py): the lines are read that call a fusion
(``[t0] = nvFusion0(a, b)``, thunder/executors/nvfuserex_impl.py) or an operator
beside it. Of nvFuser's Python the definitions are read (``def nvfuser_fusion_id0(fd
: FusionDefinition)``, csrc/python_frontend/fusion_record.h); its kernels are read
where those of torch are. Lines of its IR are not recognised, and no output of the
program.
"""

from __future__ import annotations

import re

from fusiondoc.model import dataclass, field

MOST_NAMES = 1_000

_TRACE = re.compile(
    rb".{0,200}?# Constructed by |(?:import thunder|from thunder\.\S+ import )"
)
"""The pass that made a trace, which a logger may write behind its own text; the
first trace names none."""
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
"""Calls of a trace that is no program of an executor yet, and those that only hand
arguments on."""
_OF_TRACE = re.compile(rb"(?:import |from |@|def |  |# |$)")
_IR = re.compile(
    rb"\s*(?:[TI]\d+_[glspr](?:_\w+)?\s?\[|%(?:kernel|kernel_math|Kernel|HostIrContainer) \{|Segmented_Fusion"
    rb"|groups:$|edges:$|group details:$|inputs:$|outputs:$|\} ?// \{|TransformPrinter"
    rb"|= \w+\(|, (?:double|int|float)\(|with FusionDefinition\(|HOST IRS:|HostUnit\d|PostOnStream \()"
)
_WORDS = re.compile(rb"(?:Inputs|Outputs):$|g\{")
"""Lines of the same dumps that a program may print too: theirs behind IR that no
parser of dumps knows."""
_STARTS_IR = re.compile(
    rb"%(?:kernel|kernel_math|Kernel|HostIrContainer) \{|Segment the fusion|Segmented_Fusion"
)


def _is_header(line: bytes) -> bool:
    return (b"thunder" in line or b"# Constructed by " in line) and _TRACE.match(
        line
    ) is not None


@dataclass
class OtherTools:
    """What a stream shows of them. ``line`` is the position of the first such
    line."""

    traces: int = 0
    fusions: dict[str, None] = field(default_factory=dict)
    definitions: dict[str, None] = field(default_factory=dict)
    beside: dict[str, None] = field(default_factory=dict)
    """Operators that the last trace with a fusion calls by themselves."""
    ir: bool = False
    """What looks like nvFuser's IR is its own, and no output of the program."""
    line: int | None = None
    _in_trace: bool = False
    _calls: dict[str, None] = field(default_factory=dict)
    """Of the trace that is read."""
    _unknown_ir: bool = False

    def begins(self, line: bytes, pos: int, alone: bool) -> None:
        """A dump of nvFuser begins that the parsers of its dumps know; ``alone``:
        torch's own log is not there, so what they leave of it is theirs too."""
        self.ir = alone and (self.ir or bool(_STARTS_IR.match(line)))
        defined = _DEFINITION.match(line) if line.startswith(b"def ") else None
        if defined is not None:
            self._name(self.definitions, defined.group(1))
            self.line = pos if self.line is None else self.line

    def takes(self, line: bytes, pos: int) -> bool | None:
        """Whether the line is theirs and was read (True) or not (False); None for
        anybody else's."""
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
        return (
            False
            if (self._unknown_ir or self.named) and _WORDS.match(line)
            else None
        )

    def _of_trace(self, line: bytes) -> bool:
        """Whether a line behind the begin of a trace belongs to it."""
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
        """Nothing of theirs was met that lines without a mark can go on with."""
        return not (self._in_trace or self.ir or self._unknown_ir or self.named)

    @property
    def named(self) -> bool:
        """Whether it can only be theirs: IR alone is printed by the nvFuser in
        torch too."""
        return bool(self.traces or self.definitions)

    @staticmethod
    def _name(names: dict[str, None], name: bytes) -> None:
        if len(names) < MOST_NAMES:
            names[name.decode("ascii", "replace")] = None
