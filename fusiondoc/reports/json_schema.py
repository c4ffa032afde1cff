"""``python -m fusiondoc.reports.json_schema DOCUMENT`` (report, comparison, bench
...): the schemas of docs/, from the dataclasses.

Types determine the shape; the text behind a field and the docstring of a class are
the descriptions. ``_VALUES`` adds limits of values that types do not express:
minima, choices.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from collections import abc
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import Any, Literal

from fusiondoc.comparison import Comparison
from fusiondoc.comparison.bench_changes import (
    FASTER,
    NO_DIFFERENCE,
    SLOWER,
    BenchComparison,
)
from fusiondoc.fusers import FUSER_OF_KIND
from fusiondoc.model.bench import (
    EACH_CALL,
    MEMORY,
    SPEED,
    TRAINING,
    VARIANTS,
    Bench,
    Suite,
)
from fusiondoc.model.change_plan import Fixes
from fusiondoc.model.checked_models import CheckedModels
from fusiondoc.model.history_answers import History
from fusiondoc.model.report import SEVERITIES, Report
from fusiondoc.model.run_lines import BROKEN, FAILED, HOLDS
from fusiondoc.model.survey_answers import DIMENSIONS, Survey
from fusiondoc.model.typed_fields import (
    field_types,
    is_union,
    property_type,
    variants,
)
from fusiondoc.reports.json_text import DERIVED

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DOCUMENTS: Mapping[str, tuple[type, str]] = {
    "report": (
        Report,
        "What fusiondoc parse and diagnose write with --format json. Keys may be added, never renamed; what "
        "a log does not state is null.",
    ),
    "comparison": (
        Comparison,
        "What fusiondoc compare writes with --format json. Keys may be added, never renamed; what a side "
        "does not state is null.",
    ),
    "bench": (
        Bench,
        "What fusiondoc bench writes with --format json. Keys may be added, never renamed; what could not be "
        "measured is null.",
    ),
    "suite": (
        Suite,
        "What fusiondoc bench --suite writes with --format json. Keys may be added, never renamed; what could"
        " not be measured is null.",
    ),
    "fix": (
        Fixes,
        "What fusiondoc fix writes with --format json. Keys may be added, never renamed; what could not be "
        "measured is null.",
    ),
    "survey": (
        Survey,
        "What fusiondoc survey writes with --format json. Keys may be added, never renamed; what a run does"
        " not state is null.",
    ),
    "check": (
        CheckedModels,
        "What fusiondoc check writes without a TARGET with --format json. Keys may be added, never renamed;"
        " what is not known is null.",
    ),
    "history": (
        History,
        "What fusiondoc history writes with --format json. Keys may be added, never renamed; what a run does"
        " not state is null.",
    ),
    "bench-comparison": (
        BenchComparison,
        "What fusiondoc compare writes of two benches with --format json. Keys may be added, never renamed.",
    ),
}

_PHASE = {"enum": ["forward", "backward"]}
_CODE = {"pattern": "^FD[0-9]{3}$"}
_SPEED = ["slower", "faster"]
_POSITIVE = {"minimum": 1}
_SHARE = {"minimum": 0, "maximum": 1}

_VALUES: Mapping[str, Mapping[str, Any]] = {
    "line": _POSITIVE,
    "column": _POSITIVE,
    "phase": _PHASE,
    "severity": {"enum": list(SEVERITIES)},
    "specialisation": _POSITIVE,
    "FallbackChange.stage": {"enum": ["compile", "run"]},
    "Fallback.stage": {"enum": ["compile", "run"]},
    "Fallback.count": _POSITIVE,
    "Unfused.count": _POSITIVE,
    "Fallback.error_kind": {
        "enum": [
            *(
                "codegen",
                "kernel",
                "driver",
                "option",
                "architecture",
                "no kernel",
                "builtins",
                "old driver",
            ),
            "program",
        ],
    },
    "BenchChange.phase": {"enum": ["forward", TRAINING]},
    "BenchChange.change": {"enum": [FASTER, SLOWER, NO_DIFFERENCE]},
    "BenchPhase.phase": {"enum": ["forward", TRAINING]},
    "BenchPhase.busy": _SHARE,
    "BenchVariant.name": {"enum": [*VARIANTS, EACH_CALL]},
    "Published.phase": {"enum": ["forward", TRAINING]},
    "Published.measure": {"enum": [SPEED, MEMORY]},
    "Gone.by": {"enum": list(DIMENSIONS)},
    "Move.what": {"enum": ["coverage", "ms"]},
    "RunLine.status": {"enum": [HOLDS, BROKEN, FAILED]},
    "RunRow.kind": {"enum": ["report", "capture", "log"]},
    "Group.kind": {"pattern": rf"^({'|'.join(FUSER_OF_KIND)}|te\.ops\..+)$"},
    "Group.id": {"pattern": "^G[1-9][0-9]*$"},
    "Kernel.id": {"pattern": "^K[1-9][0-9]*$"},
    "Kernel.block": _POSITIVE,
    "Kernel.grid": _POSITIVE,
    "Kernel.bound": {"enum": ["bandwidth", "cache", "launch"]},
    "Kernel.occupancy": _SHARE,
    "Coverage.fraction": _SHARE,
    "AnyFuser.fraction": _SHARE,
    "Reason.code": _CODE,
    "Finding.code": _CODE,
    "Suppressed.code": _CODE,
    "Suppressed.by": {"pattern": "^(config|comment): "},
    "Iteration.index": _POSITIVE,
    "Iteration.stage": {"enum": ["profiling", "compiling", "steady"]},
    "Verification.iteration": _POSITIVE,
    "Verification.by": {"enum": ["value", "statistics"]},
    "Peak.source": {"enum": ["driver", "table", "measured", "given"]},
    "Speed.way": {"enum": ["eager", "fused", "scripted"]},
    "Speed.phase": {"enum": ["forward", "backward", TRAINING]},
    "Speed.passes": _POSITIVE,
    "ProgramNode.kind": {"enum": ["group", "region", "control", "operator"]},
    "Difference.kind": {"enum": ["environment", "fuser", "knob", "setting"]},
    "SpeedChange.change": {"enum": _SPEED},
    "UnfusedChange.change": {"enum": ["came", "gone", "reason"]},
    "FallbackChange.change": {"enum": ["came", "gone", "count"]},
    "FindingChange.change": {"enum": ["came", "gone"]},
    "KernelChange.bandwidth": {"enum": ["higher", "lower"]},
    "GroupChange.kinds": {
        "enum": ["added", "gone", "split", "merged", "operators", "types", *_SPEED],
    },
    "KernelChange.kinds": {
        "enum": [
            *(
                "added",
                "gone",
                "code",
                "registers",
                "spills",
                "shared memory",
                "scheduler",
                "launch",
            ),
            *("launches", *_SPEED, "bandwidth", "bytes"),
        ],
    },
}
"""``Class.field``, or a field of every class -> limits of its value, or of each
element of a list."""


def schema(document: str) -> dict[str, Any]:
    """Return the schema of a document, such as ``report`` or ``comparison``."""
    kind, description = _DOCUMENTS[document]
    definitions: dict[str, Any] = {}
    shape = _object(kind, definitions)
    identifier = f"fusiondoc.{document}/1"
    shape["properties"]["schema"] = {"const": identifier}
    return {
        "$schema": _DIALECT,
        "$id": identifier,
        "title": f"fusiondoc {document}",
        "description": description,
        "type": "object",
        "properties": shape["properties"],
        "required": shape["required"],
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def text(document: str) -> str:
    """Return the text of the schema, as it is committed."""
    return json.dumps(schema(document), indent=2) + "\n"


def _object(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    docs = _texts_behind_fields(kind)
    types = {}
    for f in fields(kind):
        if f.metadata.get("json", True):
            types[f.name] = field_types(kind)[f.name]
    for name in DERIVED.get(kind.__name__, ()):
        types[name] = property_type(kind, name)
        docs[name] = _prose(inspect.getdoc(getattr(kind, name)))
    properties = {}
    for name, of in types.items():
        limits = _VALUES.get(f"{kind.__name__}.{name}", _VALUES.get(name, {}))
        shape = _shape(of, limits, definitions)
        if docs.get(name):
            shape = {**shape, "description": docs[name]}
        properties[name] = shape
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _shape(
    kind: Any, limits: Mapping[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    of: Any = getattr(kind, "__origin__", None)
    parts: Sequence[Any] = getattr(kind, "__args__", ())
    if is_union(kind):
        return _union(kind, parts, limits, definitions)
    if of is abc.Sequence or (of is tuple and parts[-1] is Ellipsis):
        return {"type": "array", "items": _shape(parts[0], limits, definitions)}
    if of is tuple:
        (item,) = {json.dumps(_shape(part, limits, definitions)) for part in parts}
        return {
            "type": "array",
            "items": json.loads(item),
            "minItems": len(parts),
            "maxItems": len(parts),
        }
    if of is abc.Mapping:
        return {
            "type": "object",
            "additionalProperties": _shape(parts[1], limits, definitions),
        }
    if of is Literal:
        return {"enum": list(parts)}
    if kind in _PLAIN:
        if "enum" in limits:
            return {**limits}
        return {**_PLAIN[kind], **limits}
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    return _reference(kind, definitions)


def _union(
    kind: Any,
    parts: Sequence[Any],
    limits: Mapping[str, Any],
    definitions: dict[str, Any],
) -> dict[str, Any]:
    """Return the shape of a union: one of several dataclasses, or a value that can
    be null."""
    if variants(kind):
        shapes = [_shape(part, {}, definitions) for part in variants(kind).values()]
        return {"anyOf": [*shapes, {"type": "null"}]}
    (inner,) = (part for part in parts if part is not type(None))
    return _or_null(_shape(inner, limits, definitions))


def _reference(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to a dataclass, which is defined once."""
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        shape = _object(kind, definitions)
        about = _prose((inspect.getdoc(kind) or "").split("\n\n")[0])
        # The docstring of a dataclass without one is its signature.
        if about.startswith(f"{kind.__name__}("):
            described = {}
        else:
            described = {"description": about}
        definitions[kind.__name__] = {**described, **shape}
    return {"$ref": f"#/$defs/{kind.__name__}"}


_PLAIN: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Any: {},
}


def _or_null(shape: dict[str, Any]) -> dict[str, Any]:
    if "enum" in shape:
        return {**shape, "enum": [*shape["enum"], None]}
    if "$ref" in shape:
        return {"anyOf": [shape, {"type": "null"}]}
    return {**shape, "type": [shape["type"], "null"]}


def _texts_behind_fields(kind: type) -> dict[str, str]:
    """Return for each field the string that follows it in the source."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for field, after in zip(node.body, node.body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            docstring = after.value if isinstance(after, ast.Expr) else None
            if isinstance(docstring, ast.Constant) and isinstance(
                docstring.value, str
            ):
                found[field.target.id] = _prose(docstring.value)
    return found


def _prose(docstring: str | None) -> str:
    return " ".join((docstring or "").replace("``", "`").split())


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in _DOCUMENTS:
        sys.exit(
            f"usage: python -m fusiondoc.reports.json_schema {'|'.join(_DOCUMENTS)}"
        )
    sys.stdout.write(text(sys.argv[1]))
