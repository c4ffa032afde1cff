"""What a file of expectations holds: after reading, where every part knows its place in the file; and its
keys, in one table for the reader and the documentation, with their JSON schema.

Modules are named by patterns: ``encoder.layer.*.output``, ``encoder.layer.[0-11]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from fusiondoc.model import AT_WORK, TE, dataclass, field
from fusiondoc.model.numbers import all_whole, whole_number
from fusiondoc.model.report import Group, Instance, Report
from fusiondoc.model.source import path_ends_with

Path = tuple[str | int, ...]
"""Keys and indices from the top of the file: ``("sections", 0, "groups", 2)``."""


@dataclass(frozen=True)
class Position:
    """A place in the file, both from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Count:
    """How many there must be; None is no bound."""

    at_least: int | None = None
    at_most: int | None = None
    plain: bool = False
    """Written as a number alone."""

    def holds(self, number: int) -> bool:
        return (self.at_least is None or number >= self.at_least) and (
            self.at_most is None or number <= self.at_most
        )

    def __str__(self) -> str:
        if self.at_least == self.at_most:
            return str(self.at_least)
        parts = [f"at least {self.at_least}"] if self.at_least is not None else []
        parts += [f"at most {self.at_most}"] if self.at_most is not None else []
        return " and ".join(parts)


@dataclass(frozen=True)
class SourceRange:
    """A file, or lines of it: ``model.py``, ``model.py:31``, ``model.py:18-20``."""

    file: str
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.first is None:
            return self.file
        return f"{self.file}:{self.first}" + (f"-{self.last}" if self.last != self.first else "")


@dataclass(frozen=True)
class Speed:
    """What kernels must reach. Both are lowered by ``tolerance``, a share from 0 to 1."""

    peak: float | None = None
    """Share of the device's memory bandwidth, from 0 to 1."""
    gb_per_s: float | None = None
    tolerance: float = 0.0


@dataclass(frozen=True)
class GroupExpectation:
    """A fusion group that must be there, or must not.

    ``order`` says how ``ops`` are meant: "sequence" (the whole body in this order), "set" (these operators
    and no others, in any order and number) or "contains" (these in this order, others between them).
    """

    ops: tuple[str, ...] = ()
    order: str = "sequence"
    count: Count = Count(at_least=1)
    phase: str | None = None
    source: tuple[SourceRange, ...] = ()
    function: str | None = None
    module: str | None = None
    layer: tuple[str, ...] = ()
    """Patterns of module paths (``is_in_layer``); the instances in one of them count."""
    dtype: tuple[str, ...] = ()
    speed: Speed = Speed()
    at: Position | None = None
    path: Path = ()


@dataclass(frozen=True)
class ModuleShare:
    """The least share of a module's operators that is in groups."""

    layer: str
    """A pattern; all modules that it names, and those inside them, are taken together."""
    coverage: float
    """From 0 to 1: of their operators that ran, whether or not a fuser takes them."""
    at: Position | None = None
    path: Path = ()


@dataclass(frozen=True)
class Findings:
    """Codes, severities or families (``FD3xx``) of findings."""

    expect: tuple[str, ...] = ()
    """Each must occur."""
    forbid: tuple[str, ...] = ()
    """None may occur."""
    allow: tuple[str, ...] | None = None
    """No other may occur; None allows all."""


@dataclass(frozen=True)
class When:
    """For which runs a section holds; empty holds for all."""

    fuser: tuple[str, ...] = ()
    torch: str | None = None
    gpu: tuple[str, ...] = ()
    target: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepLimits:
    """What the profiled run must show. Shares are of a step, from 0 to 1."""

    max_ms: float | None = None
    min_groups: float | None = None
    max_unfused: float | None = None
    max_could_save: float | None = None


@dataclass(frozen=True)
class Renamed:
    """The target of a section that is not there any more, and the one that has its groups."""

    old: str
    new: str


@dataclass(frozen=True)
class Section:
    """Expectations that hold together."""

    name: str
    path: Path
    at: Position
    when: When = When()
    groups: tuple[GroupExpectation, ...] = ()
    modules: tuple[ModuleShare, ...] = ()
    number_of_groups: Count | None = None
    max_fallbacks: int | None = None
    not_fused: tuple[str, ...] | None = None
    """Operators that may be outside groups; None says nothing of them."""
    min_coverage: float | None = None
    speed: Speed = Speed()
    steps: StepLimits = StepLimits()
    findings: Findings = Findings()
    places: dict[str, Position] = field(default_factory=dict)
    """Key of the section -> where it stands."""
    renamed: Renamed | None = None
    """Its model has another name in the run that it is held against."""


@dataclass(frozen=True)
class Expectations:
    """A file of them."""

    file: str
    sections: tuple[Section, ...]

    @property
    def need_profile(self) -> bool:
        """Whether any section says something of the time of a step."""
        return any(section.steps != StepLimits() for section in self.sections)


_NUMBERS = re.compile(r"\[([0-9,-]+)\]")


def instances_in(group: Group, patterns: Sequence[str]) -> tuple[Instance, ...]:
    """The instances of a group that are in one of these modules; all of them without a pattern."""
    if not patterns:
        return group.instances
    return tuple(
        one
        for one in group.instances
        if one.layer is not None and any(is_in_layer(one.layer, pattern) for pattern in patterns)
    )


def is_in_layer(layer: str, pattern: str) -> bool:
    """Whether a module is the one that the pattern names, or inside it.

    ``*`` is any text without a dot, ``[0-3,7]`` are numbers, as reports fold them.
    """
    found = _compiled(pattern).match(layer)
    return found is not None and all(
        _among(whole_number(number), ranges)
        for number, ranges in zip(found.groups(), (one.group(1) for one in _NUMBERS.finditer(pattern)))
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = _NUMBERS.split(pattern)
    texts = (re.escape(text).replace(r"\*", "[^.]*") for text in parts[::2])
    return re.compile("([0-9]{1,9})".join(texts) + r"(?:\.|\Z)")


def _among(number: int | None, ranges: str) -> bool:
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if number is not None and low is not None and high is not None and low <= number <= high:
            return True
    return False


_PART = re.compile(r"(>=|<=|==|!=|>|<)?\s*(\d+(?:\.\d+)*)\Z")


def applying(expectations: Expectations, report: Report) -> list[Section]:
    """The sections that hold for the run that the report is of."""
    return [section for section in expectations.sections if why_not(section.when, report) is None]


def why_not(when: When, report: Report) -> str | None:
    """Why a section does not hold for this run; None if it does.

    What a plain log does not tell (its torch, its GPU) counts as different: a gate must not guess.
    """
    fuser, torch, gpu = report.fuser.effective, report.environment.get("torch"), report.environment.get("gpu")
    if when.fuser and fuser not in when.fuser:
        return f"it is for {' or '.join(when.fuser)}, and the fuser is {fuser or 'unknown'}"
    if when.torch is not None and (torch is None or not version_fits(torch, when.torch)):
        return f"it is for torch {when.torch}, and torch is {torch or 'unknown'}"
    if when.gpu and not any(part.lower() in (gpu or "").lower() for part in when.gpu):
        return f"it is for {' or '.join(when.gpu)}, and the GPU is {gpu or 'unknown'}"
    name = report.target.name or ""
    # Named from the folder of the run, which may be inside the one that the file names it from.
    full = f"{report.target.folder}/{name}" if report.target.folder and name else name
    if when.target and not any(path_ends_with(full, end) for end in when.target):
        return f"it is for {' or '.join(when.target)}, and the model is {name or 'unknown'}"
    return None


def version_fits(version: str, wanted: str) -> bool:
    """Whether a version (``2.1.2+cu121``) is in what is wanted (``>=1.12, <2.2``; ``2.1`` is every 2.1.x).

    Compared as pip does, by the numbers before the first letter or plus sign: ``<=2.1`` leaves out 2.1.2.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    if match is None:
        return False
    numbers = all_whole(match.group(1).split("."))
    return numbers is not None and all(_fits(numbers, part.strip()) for part in wanted.split(","))


def _fits(version: tuple[int, ...], part: str) -> bool:
    match = _PART.match(part)
    limit = all_whole(match.group(2).split(".")) if match is not None else None
    if match is None or limit is None:
        return False
    sign = match.group(1) or "=="
    if sign in ("==", "!="):
        return (_padded(version, len(limit))[: len(limit)] == limit) == (sign == "==")
    size = max(len(version), len(limit))
    a, b = _padded(version, size), _padded(limit, size)
    return {">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b}[sign]


def _padded(version: tuple[int, ...], size: int) -> tuple[int, ...]:
    return version + (0,) * (size - len(version))


PHASES = ("forward", "backward")
DTYPES = (
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    "int8", "int16", "int32", "int64", "uint8", "bool",
)  # fmt: skip

_VERSION = r"(>=|<=|==|!=|>|<)? ?[0-9]{1,6}(\.[0-9]{1,6})*"

PATTERNS = {
    "operator": r"^(te\.ops\.\w+|\^[\w.<>]+|[A-Za-z_]\w*(::[A-Za-z_]\w*)?)$",
    "layer": r"^[A-Za-z0-9_*]([A-Za-z0-9_*.]|\[[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*\])*$",
    "source": r"^[^:\n]+(:[1-9][0-9]{0,8}(-[1-9][0-9]{0,8})?)?$",
    "versions": rf"^{_VERSION}(, ?{_VERSION})*$",
    "percent": r"^(100|[0-9]{1,2}(\.[0-9]{1,6})?)%$",
    "finding": r"^(error|warning|note|FD[0-9]xx|FD[0-9]{3})$",
    "text": r"\S",
}
"""Regular expressions that mean the same in Python and in JSON schema."""

EXAMPLES = {
    "operator": "aten::add, or add for short",
    "layer": "encoder.layer.0.output, encoder.layer.*.output or encoder.layer.[0-11]",
    "source": "model.py, model.py:31 or model.py:18-20",
    "versions": "'2.1' or '>=1.12, <2.2'",
    "share": "0.9 or 90%",
    "finding": "FD301, FD3xx, error, warning or note",
    "count": "a whole number",
    "positive": "a whole number from 1",
    "rate": "a number",
    "text": "text",
}


@dataclass(frozen=True)
class Field:
    """``kind`` names a pattern or one of count, positive, share, rate, counts, choice, group, module,
    section, when, findings. ``many``: "no", "list" (a list of at least one), "any" (a list, maybe empty) or
    "either" (one or a list)."""

    kind: str
    doc: str
    many: str = "no"
    choices: tuple[str, ...] = ()


COUNTS: Mapping[str, Field] = {
    "at_least": Field("count", "Not fewer than this."),
    "at_most": Field("count", "Not more than this."),
    "exactly": Field("count", "This many."),
}

_SPEED = {
    "min_peak": Field("share", "Lowest share of the device's memory bandwidth that a kernel may reach."),
    "min_gb_per_s": Field("rate", "Lowest bandwidth of a kernel, in GB/s (10^9 bytes)."),
    "tolerance": Field("share", "How much min_peak and min_gb_per_s may be missed by: 0.05 is 5%."),
}

GROUP: Mapping[str, Field] = {
    "ops": Field("operator", "All operators of the group, in this order.", "list"),
    "set": Field("operator", "The operators of the group and no others, in any order and number.", "list"),
    "contains": Field("operator", "These operators in this order; others may be between them.", "list"),
    "at_least": Field("positive", "There are at least this many such groups (1 without exactly)."),
    "exactly": Field("count", "There are this many such groups; 0 is none."),
    "phase": Field("choice", "The pass that the group belongs to.", choices=PHASES),
    "source": Field("source", "Lines of the program; an operator of the group comes from each.", "either"),
    "function": Field("text", "A function that an operator of the group comes from: forward, Block.forward."),
    "module": Field("text", "A class that an operator of the group comes from: BiasGelu."),
    "layer": Field("layer", "Modules; its nodes in them, and in modules inside these, count.", "either"),
    "dtype": Field("choice", "Types of its floating-point inputs (of all, if none is).", "either", DTYPES),
    **_SPEED,
}  # fmt: skip

NEEDS_ONE = ("ops", "set", "contains", "source", "function", "module", "layer")
"""A group names at least one of these."""
ORDERS = {"ops": "sequence", "set": "set", "contains": "contains"}
"""At most one of these keys; its value is ``GroupExpectation.order``."""

MODULE: Mapping[str, Field] = {
    "layer": Field("layer", "A module, or a pattern of several, which are taken together."),
    "coverage": Field("share", "Lowest share of its operators that ran, fusible or not, that is in groups."),
}

WHEN: Mapping[str, Field] = {
    "fuser": Field("choice", "The fuser that worked.", "either", (*AT_WORK, TE)),
    "torch": Field("versions", "Versions of torch, in quotes; '2.1' is every 2.1.x."),
    "gpu": Field("text", "A part of the GPU's name: H100.", "either"),
    "target": Field("text", "The model: the end of its path, bias_gelu.py or model.py:block.", "either"),
}

FINDINGS: Mapping[str, Field] = {
    "expect": Field("finding", "Findings that must occur.", "list"),
    "forbid": Field("finding", "Findings that may not occur.", "list"),
    "allow": Field("finding", "Only these findings may occur.", "list"),
}

SECTION: Mapping[str, Field] = {
    "name": Field("text", "How messages name the section."),
    "when": Field("when", "For which fuser, torch, GPU and model the section holds."),
    "groups": Field("group", "Fusion groups that must be there.", "list"),
    "modules": Field("module", "Modules with the share of them that must be fused.", "list"),
    "number_of_groups": Field(
        "counts",
        "How many groups, each specialised one once; more of those under groups do not break a number.",
    ),
    "max_fallbacks": Field("count", "Highest number of fallbacks."),
    "not_fused": Field("operator", "Only these operators may be outside groups; none with [].", "any"),
    "min_coverage": Field("share", "Lowest share of what ran and the fuser can take that is in groups."),
    **_SPEED,
    "max_step_ms": Field("rate", "Longest time of a step of the profiled run, in milliseconds."),
    "min_groups_share": Field("share", "Lowest share of a step that groups take."),
    "max_unfused_share": Field("share", "Highest share that unfused operators take that could fuse."),
    "max_could_save": Field("share", "Highest share of a step that fusing the rest could save."),
    "findings": Field("findings", "Findings that must, may or may not occur."),
}

EXPECTING = tuple(key for key in SECTION if key not in ("name", "when", "tolerance"))
"""A section has at least one of these; without one it would hold whatever was found."""

FILE: Mapping[str, Field] = {
    **SECTION,
    "sections": Field("section", "Several sets of expectations, each for its own runs.", "list"),
}
"""The keys of the file: those of one section, or ``sections`` alone."""


def fits(pattern: str, text: str) -> bool:
    """Whether the text has the form; ``$`` is the very end, as in JSON schema."""
    return re.search(PATTERNS[pattern].replace("$", r"\Z"), text) is not None


_NUMBER_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "count": {"type": "integer", "minimum": 0},
    "positive": {"type": "integer", "minimum": 1},
    "rate": {"type": "number", "minimum": 0},
    "share": {
        "anyOf": [
            {"type": "number", "minimum": 0, "maximum": 1},
            {"type": "string", "pattern": PATTERNS["percent"]},
        ]
    },
}


def schema() -> dict[str, Any]:
    """The schema. What needs more than one key to be judged stands in anyOf and not."""
    section = _object(SECTION)
    section["anyOf"] = [{"required": [key]} for key in EXPECTING]
    group = _object(GROUP)
    group["anyOf"] = [{"required": [key]} for key in NEEDS_ONE]
    orders = list(ORDERS)
    pairs = [[a, b] for i, a in enumerate(orders) for b in orders[i + 1 :]] + [["at_least", "exactly"]]
    group["not"] = {"anyOf": [{"required": pair} for pair in pairs]}
    counts = _object(COUNTS)
    counts["minProperties"] = 1
    counts["not"] = {"anyOf": [{"required": ["exactly", "at_least"]}, {"required": ["exactly", "at_most"]}]}
    several = {
        "type": "object",
        "properties": {"sections": _field(FILE["sections"])},
        "required": ["sections"],
        "additionalProperties": False,
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "fusiondoc expectations",
        "description": "What fusiondoc check --expect FILE.yaml compares a report with.",
        "anyOf": [{"$ref": "#/definitions/section"}, several],
        "definitions": {
            "section": section,
            "group": {"anyOf": [group, {"type": "array", "items": _one(GROUP["ops"]), "minItems": 1}]},
            "counts": {"anyOf": [_NUMBER_SCHEMAS["count"], counts]},
            "module": {**_object(MODULE), "required": list(MODULE)},
            "when": {**_object(WHEN), "minProperties": 1},
            "findings": {**_object(FINDINGS), "minProperties": 1},
        },
    }


def _object(known: Mapping[str, Field]) -> dict[str, Any]:
    properties = {key: _field(field) for key, field in known.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _field(field: Field) -> dict[str, Any]:
    one = _one(field)
    several = {"type": "array", "items": one, "minItems": 1}
    any_number = {"type": "array", "items": one}
    shapes = {"no": one, "list": several, "any": any_number, "either": {"anyOf": [one, several]}}
    shape = shapes[field.many]
    return {"description": field.doc, **({"allOf": [shape]} if "$ref" in shape else shape)}


def _one(field: Field) -> dict[str, Any]:
    if field.choices:
        return {"enum": list(field.choices)}
    if field.kind in _NUMBER_SCHEMAS:
        return dict(_NUMBER_SCHEMAS[field.kind])
    if field.kind in PATTERNS:
        return {"type": "string", "pattern": PATTERNS[field.kind]}
    return {"$ref": f"#/definitions/{field.kind}"}


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
