"""The JSON schema of a file of expectations (docs/expectations.schema.json), from the table of keys."""

from __future__ import annotations

from typing import Any, Mapping

from fusiondoc.expectations import fields

_NUMBERS: Mapping[str, dict[str, Any]] = {
    "count": {"type": "integer", "minimum": 0},
    "positive": {"type": "integer", "minimum": 1},
    "rate": {"type": "number", "minimum": 0},
    "share": {
        "anyOf": [
            {"type": "number", "minimum": 0, "maximum": 1},
            {"type": "string", "pattern": fields.PATTERNS["percent"]},
        ]
    },
}


def schema() -> dict[str, Any]:
    """The schema. What needs more than one key to be judged stands in anyOf and not."""
    section = _object(fields.SECTION)
    section["anyOf"] = [{"required": [key]} for key in fields.EXPECTING]
    group = _object(fields.GROUP)
    group["anyOf"] = [{"required": [key]} for key in fields.NEEDS_ONE]
    orders = list(fields.ORDERS)
    pairs = [[a, b] for i, a in enumerate(orders) for b in orders[i + 1 :]] + [["at_least", "exactly"]]
    group["not"] = {"anyOf": [{"required": pair} for pair in pairs]}
    counts = _object(fields.COUNTS)
    counts["minProperties"] = 1
    counts["not"] = {"anyOf": [{"required": ["exactly", "at_least"]}, {"required": ["exactly", "at_most"]}]}
    several = {
        "type": "object",
        "properties": {"sections": _field(fields.FILE["sections"])},
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
            "group": {"anyOf": [group, {"type": "array", "items": _one(fields.GROUP["ops"]), "minItems": 1}]},
            "counts": {"anyOf": [_NUMBERS["count"], counts]},
            "when": {**_object(fields.WHEN), "minProperties": 1},
            "findings": {**_object(fields.FINDINGS), "minProperties": 1},
        },
    }


def _object(known: Mapping[str, fields.Field]) -> dict[str, Any]:
    properties = {key: _field(field) for key, field in known.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _field(field: fields.Field) -> dict[str, Any]:
    one = _one(field)
    several = {"type": "array", "items": one, "minItems": 1}
    shape = {"no": one, "list": several, "either": {"anyOf": [one, several]}}[field.many]
    return {"description": field.doc, **({"allOf": [shape]} if "$ref" in shape else shape)}


def _one(field: fields.Field) -> dict[str, Any]:
    if field.choices:
        return {"enum": list(field.choices)}
    if field.kind in _NUMBERS:
        return dict(_NUMBERS[field.kind])
    if field.kind in fields.PATTERNS:
        return {"type": "string", "pattern": fields.PATTERNS[field.kind]}
    return {"$ref": f"#/definitions/{field.kind}"}


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
