"""The keys of a file of expectations, in one table for the reader and the
documentation; and their JSON schema, which ``python -m
fusiondoc.expectations.keys`` prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fusiondoc.fusers import at_work, fusers_of_frontends
from fusiondoc.model import dataclass
from fusiondoc.model.run_options import RUN_OPTIONS, Kind, Offer

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
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "text": r"\S",
}
"""Regular expressions with the same meaning in Python and in JSON schema."""

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
    "date": "a day such as 2027-01-31",
    "flag": "true or false",
    "seed": "a whole number",
    "value": "text, a number, true or false",
    "settings": "a mapping of names to values",
}


@dataclass(frozen=True)
class Field:
    """``kind`` names a pattern or one of count, positive, share, rate, counts,
    choice, group, module, section, when, findings, run, all, exception, flag, seed,
    value, settings, one kernel, graph. ``many``: "no", "list" (a list of at least
    one), "any" (a list, maybe empty) or "either" (one or a list)."""

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
    "min_peak": Field(
        "share",
        "Lowest share of the device's memory bandwidth that a kernel may reach.",
    ),
    "min_gb_per_s": Field(
        "rate", "Lowest bandwidth of a kernel, in GB/s (10^9 bytes)."
    ),
    "tolerance": Field(
        "share", "How much min_peak and min_gb_per_s may be missed by: 0.05 is 5%."
    ),
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
"""A group has at least one of these keys."""
ORDERS = {"ops": "sequence", "set": "set", "contains": "contains"}
"""At most one of these keys; its value is ``GroupExpectation.order``."""

MODULE: Mapping[str, Field] = {
    "layer": Field(
        "layer", "A module, or a pattern of several, which are taken together."
    ),
    "coverage": Field(
        "share",
        "Lowest share of its operators that ran, fusible or not, that is in groups.",
    ),
}

ONE_KERNEL: Mapping[str, Field] = {
    "source": Field(
        "source",
        "Lines of the program whose operators are in one kernel.",
        "either",
    ),
    "ops": Field(
        "operator", "Operators of the kernel at these lines, in any order.", "list"
    ),
    "phase": Field(
        "choice", "The pass of the kernel (forward without it).", choices=PHASES
    ),
}

GRAPH: Mapping[str, Field] = {
    "source": Field(
        "source",
        "Lines of the program: each graph with an operator there; else each.",
        "either",
    ),
    "phase": Field(
        "choice", "The pass of the graph (forward without it).", choices=PHASES
    ),
    "max_kernels": Field(
        "count", "Most kernels; second stages of reductions do not count."
    ),
    "bytes_at_most": Field(
        "count", "Most bytes that its kernels and calls read and write."
    ),
}

GRAPH_LIMITS = ("max_kernels", "bytes_at_most")
"""A graph has at least one of these keys."""

COMPILED: Mapping[str, Field] = {
    "one_kernel": Field(
        "one kernel",
        "Lines whose operators torch.compile computes in one kernel.",
        "list",
    ),
    "compiled_graphs": Field(
        "graph", "Limits of graphs that torch.compile made.", "list"
    ),
    "max_graph_breaks": Field(
        "count", "Most lines of your own files at which a graph breaks."
    ),
    "max_recompiles": Field("count", "How often functions may be compiled again."),
    "may_fall_back": Field(
        "operator",
        "Only these operators may run in eager code; none with [].",
        "any",
    ),
    "bytes_at_most": Field(
        "count", "Most bytes that all kernels and calls read and write."
    ),
}
"""Keys of a section for runs under torch.compile."""

WHEN: Mapping[str, Field] = {
    "fuser": Field(
        "choice",
        "The fuser that worked.",
        "either",
        (*at_work(), *fusers_of_frontends()),
    ),
    "torch": Field(
        "versions", "Versions of torch, in quotes; '2.1' is every 2.1.x."
    ),
    "gpu": Field("text", "A part of the GPU's name: H100.", "either"),
    "target": Field(
        "text",
        "The model: the end of its path, bias_gelu.py or model.py:block.",
        "either",
    ),
}

FINDINGS: Mapping[str, Field] = {
    "expect": Field("finding", "Findings that must occur.", "list"),
    "forbid": Field("finding", "Findings that may not occur.", "list"),
    "allow": Field("finding", "Only these findings may occur.", "list"),
}

_KINDS: Mapping[Kind, tuple[str, str]] = {
    Kind.FLAG: ("flag", "no"),
    Kind.NUMBER: ("positive", "no"),
    Kind.SEED: ("seed", "no"),
    Kind.SECONDS: ("rate", "no"),
    Kind.TEXT: ("text", "no"),
    Kind.CHOICE: ("choice", "no"),
    Kind.CHOICES: ("choice", "either"),
    Kind.TEXTS: ("value", "either"),
    Kind.NAMES: ("text", "either"),
    Kind.SETTINGS: ("settings", "no"),
}
"""Kind of a run option -> kind of its key, and how many values it accepts."""

_NOT_FOR_SECTIONS = ("dumps", "log_limit", "no_freeze")


def _run_keys() -> dict[str, Field]:
    found = {}
    for option in RUN_OPTIONS:
        if option.offers & Offer.COMMANDS and option.name not in _NOT_FOR_SECTIONS:
            kind, many = _KINDS[option.kind]
            found[option.name] = Field(kind, str(option.help), many, option.choices)
    return found


RUN: Mapping[str, Field] = {
    "target": Field(
        "text",
        "What is run: FILE.py, FILE.py:NAME, package.module:NAME or FILE.pt.",
    ),
    "python": Field(
        "text",
        "The interpreter whose torch runs the model; by default that of the check.",
    ),
    "files": Field(
        "text",
        "Further files that the result depends on, such as weights; patterns.",
        "either",
    ),
    **_run_keys(),
}

LIMITS: Mapping[str, Field] = {
    "max_fallbacks": Field("count", "Highest number of fallbacks."),
    "min_coverage": Field(
        "share",
        "Lowest share of what ran and the fuser can take that is in groups.",
    ),
    "max_step_ms": Field(
        "rate", "Longest time of a step of the profiled run, in milliseconds."
    ),
}

EXCEPTION: Mapping[str, Field] = {
    "model": Field("text", "Names of sections; * is any text.", "either"),
    "reason": Field("text", "Why it is an exception."),
    "until": Field("date", "The last day on which it holds."),
    **LIMITS,
    "allow": Field("finding", "Findings that may occur there.", "either"),
}
EXCEPTION_NEEDS = ("model", "reason", "until")

ALL: Mapping[str, Field] = {
    **LIMITS,
    "no": Field("finding", "Findings that may not occur in any model.", "either"),
    "except": Field(
        "exception",
        "Other limits for some models, each with a reason and an end.",
        "list",
    ),
}

LIMITS_FOR_ALL = (*LIMITS, "no")
"""If ``all`` has one of these, a section needs no expectation of its own."""

SECTION: Mapping[str, Field] = {
    "name": Field("text", "How messages name the section."),
    "run": Field("run", "How check without a target runs the model."),
    "when": Field(
        "when", "For which fuser, torch, GPU and model the section holds."
    ),
    "groups": Field("group", "Fusion groups that must be there.", "list"),
    "modules": Field(
        "module", "Modules with the share of them that must be fused.", "list"
    ),
    "number_of_groups": Field(
        "counts",
        "How many groups, each specialised one once; more of those under groups do not break a number.",
    ),
    "max_fallbacks": Field("count", "Highest number of fallbacks."),
    "not_fused": Field(
        "operator",
        "Only these operators may be outside groups; none with [].",
        "any",
    ),
    "min_coverage": Field(
        "share",
        "Lowest share of what ran and the fuser can take that is in groups.",
    ),
    **_SPEED,
    "max_step_ms": Field(
        "rate", "Longest time of a step of the profiled run, in milliseconds."
    ),
    "min_groups_share": Field("share", "Lowest share of a step that groups take."),
    "max_unfused_share": Field(
        "share", "Highest share that unfused operators take that could fuse."
    ),
    "max_could_save": Field(
        "share", "Highest share of a step that fusing the rest could save."
    ),
    "findings": Field("findings", "Findings that must, may or may not occur."),
    **COMPILED,
}

EXPECTING = tuple(
    key for key in SECTION if key not in ("name", "run", "when", "tolerance")
)
"""A section has at least one of these, or ``all`` a limit; without any it would
always hold."""

FILE: Mapping[str, Field] = {
    **SECTION,
    "sections": Field(
        "section", "Several sets of expectations, each for its own runs.", "list"
    ),
    "all": Field("all", "Limits that hold for every section."),
}
"""The keys of the file: those of one section, or ``sections`` and ``all``."""


def fits(pattern: str, text: str) -> bool:
    """True if the text matches the pattern; ``$`` is the very end, as in JSON
    schema."""
    return re.search(PATTERNS[pattern].replace("$", r"\Z"), text) is not None


_NUMBER_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "count": {"type": "integer", "minimum": 0},
    "positive": {"type": "integer", "minimum": 1},
    "rate": {"type": "number", "minimum": 0},
    "seed": {"type": "integer"},
    "flag": {"type": "boolean"},
    "share": {
        "anyOf": [
            {"type": "number", "minimum": 0, "maximum": 1},
            {"type": "string", "pattern": PATTERNS["percent"]},
        ]
    },
}


def schema() -> dict[str, Any]:
    """Return the JSON schema. Rules on more than one key are in anyOf and not."""
    expecting = {"anyOf": [{"required": [key]} for key in EXPECTING]}
    limited = {"all": {"anyOf": [{"required": [key]} for key in LIMITS_FOR_ALL]}}
    group = _object(GROUP)
    group["anyOf"] = [{"required": [key]} for key in NEEDS_ONE]
    orders = list(ORDERS)
    pairs = [[a, b] for i, a in enumerate(orders) for b in orders[i + 1 :]] + [
        ["at_least", "exactly"]
    ]
    group["not"] = {"anyOf": [{"required": pair} for pair in pairs]}
    counts = _object(COUNTS)
    counts["minProperties"] = 1
    counts["not"] = {
        "anyOf": [
            {"required": ["exactly", "at_least"]},
            {"required": ["exactly", "at_most"]},
        ]
    }
    several = {
        "type": "object",
        "properties": {name: _field(FILE[name]) for name in ("all", "sections")},
        "required": ["sections"],
        "additionalProperties": False,
        "anyOf": [
            {"required": ["all"], "properties": limited},
            {"properties": {"sections": {"items": expecting}}},
        ],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "fusiondoc expectations",
        "description": "What fusiondoc check --expect FILE.yaml compares a report with.",
        "anyOf": [
            {"allOf": [{"$ref": "#/definitions/section"}, expecting]},
            several,
        ],
        "definitions": {
            "section": {**_object(SECTION), "minProperties": 1},
            "group": {
                "anyOf": [
                    group,
                    {"type": "array", "items": _one(GROUP["ops"]), "minItems": 1},
                ]
            },
            "counts": {"anyOf": [_NUMBER_SCHEMAS["count"], counts]},
            "module": {**_object(MODULE), "required": list(MODULE)},
            "when": {**_object(WHEN), "minProperties": 1},
            "findings": {**_object(FINDINGS), "minProperties": 1},
            "run": {**_object(RUN), "minProperties": 1},
            "all": {**_object(ALL), "minProperties": 1},
            "exception": {
                **_object(EXCEPTION),
                "required": list(EXCEPTION_NEEDS),
                "minProperties": len(EXCEPTION_NEEDS) + 1,
            },
            "settings": {
                "type": "object",
                "additionalProperties": {"$ref": "#/definitions/value"},
            },
            "value": {"type": ["string", "number", "boolean"]},
            "one kernel": {**_object(ONE_KERNEL), "required": ["source"]},
            "graph": {
                **_object(GRAPH),
                "anyOf": [{"required": [key]} for key in GRAPH_LIMITS],
            },
        },
    }


def _object(known: Mapping[str, Field]) -> dict[str, Any]:
    properties = {key: _field(field) for key, field in known.items()}
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _field(field: Field) -> dict[str, Any]:
    value_schema = _one(field)
    several = {"type": "array", "items": value_schema, "minItems": 1}
    any_number = {"type": "array", "items": value_schema}
    shapes = {
        "no": value_schema,
        "list": several,
        "any": any_number,
        "either": {"anyOf": [value_schema, several]},
    }
    shape = shapes[field.many]
    return {
        "description": field.doc,
        **({"allOf": [shape]} if "$ref" in shape else shape),
    }


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
