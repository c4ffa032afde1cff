"""JSON against a schema, which is itself checked once: that takes longer than what
is held against it."""

from __future__ import annotations

from typing import Any

import jsonschema

_validators: dict[int, tuple[Any, Any]] = {}
"""By identity; the schema is kept, so that no other one gets its number."""


def validate(instance: Any, schema: Any) -> None:
    """As ``jsonschema.validate``."""
    if id(schema) not in _validators:
        kind = jsonschema.validators.validator_for(schema)
        kind.check_schema(schema)
        _validators[id(schema)] = schema, kind(schema)
    _validators[id(schema)][1].validate(instance)
