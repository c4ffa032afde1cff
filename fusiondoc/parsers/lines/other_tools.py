"""What stand-alone nvFuser (NVIDIA/Fuser) and Lightning Thunder print: read by name, as far as names go.

Their fusions are none of TorchScript's. Of a trace of Thunder the lines that call a fusion are read
(``[t0] = nvFusion0(a, b)``, thunder/executors/nvfuserex_impl.py), of nvFuser's Python the definitions
(``def nvfuser_fusion_id0(fd : FusionDefinition)``, csrc/python_frontend/fusion_record.h); its kernels are
read where those of torch are. All other lines of theirs are not recognised, and no output of the program.
"""

from __future__ import annotations

import re

from fusiondoc.model import dataclass, field

MOST_NAMES = 1_000

_TRACE = b"# Constructed by "
_FUSION = re.compile(rb"\s+(?:\[[^\]]*\]|\w+(?:, \w+)*) = (nvFusion\d{1,6}|TorchCompile\d{1,6})\(")
_DEFINITION = re.compile(rb"def (nvfuser_fusion_id\d{1,9})\(\s*fd\s*:\s*FusionDefinition\s*\)")
_OF_TRACE = re.compile(rb"(?:import |from |@|def |  |# |$)")
_IR = re.compile(
    rb"\s*(?:[TI]\d+_[glspr](?:_\w+)?\s?\[|%(?:kernel|kernel_math|Kernel|HostIrContainer) \{|Segmented_Fusion"
    rb"|groups:$|edges:$|group details:$|inputs:$|outputs:$|\} ?// \{|TransformPrinter"
    rb"|= \w+\(|, (?:double|int|float)\(|with FusionDefinition\(|HOST IRS:|HostUnit\d|PostOnStream \()"
)
_WORDS = re.compile(rb"(?:Inputs|Outputs):$|g\{")
"""Lines of the same dumps that a program may print too: theirs behind IR that no parser of dumps knows."""
_STARTS_IR = re.compile(
    rb"%(?:kernel|kernel_math|Kernel|HostIrContainer) \{|Segment the fusion|Segmented_Fusion"
)


@dataclass
class OtherTools:
    """What a stream shows of them. ``line`` is the position of the first such line."""

    traces: int = 0
    fusions: dict[str, None] = field(default_factory=dict)
    definitions: dict[str, None] = field(default_factory=dict)
    ir: bool = False
    """What looks like nvFuser's IR is its own, and no output of the program."""
    line: int | None = None
    _in_trace: bool = False
    _unknown_ir: bool = False

    def begins(self, line: bytes, pos: int, alone: bool) -> None:
        """A dump of nvFuser begins that the parsers of its dumps know; ``alone``: torch's own log is not
        there, so what they leave of it is theirs too."""
        self.ir = alone and (self.ir or bool(_STARTS_IR.match(line)))
        defined = _DEFINITION.match(line) if line.startswith(b"def ") else None
        if defined is not None:
            self._name(self.definitions, defined.group(1))
            self.line = pos if self.line is None else self.line

    def takes(self, line: bytes, pos: int) -> bool | None:
        """Whether the line is theirs and was read (True) or not (False); None for anybody else's."""
        found = self._takes(line)
        if found is not None and self.line is None:
            self.line = pos
        return found

    def _takes(self, line: bytes) -> bool | None:
        if line.startswith(_TRACE):
            self.traces += 1
            self._in_trace = True
            return True
        if self._in_trace:
            called = _FUSION.match(line)
            if called is not None:
                self._name(self.fusions, called.group(1))
                return True
            if _OF_TRACE.match(line):
                return False
            self._in_trace = False
        if not self.ir and _STARTS_IR.match(line):
            self.ir = True
        if self.ir and _IR.match(line):
            self._unknown_ir = True
            return False
        return False if (self._unknown_ir or self.named) and _WORDS.match(line) else None

    @property
    def idle(self) -> bool:
        """Nothing of theirs was met that lines without a mark can go on with."""
        return not (self._in_trace or self.ir or self._unknown_ir or self.named)

    @property
    def named(self) -> bool:
        """Whether it can only be theirs: IR alone is printed by the nvFuser in torch too."""
        return bool(self.traces or self.definitions)

    @staticmethod
    def _name(names: dict[str, None], name: bytes) -> None:
        if len(names) < MOST_NAMES:
            names[name.decode("ascii", "replace")] = None
