"""An expectation of ``check`` and its result, in one sentence."""

from __future__ import annotations

from fusiondoc.model.runs import Expectation


def expected_and_found(row: Expectation) -> str:
    """Return ``expected X; found Y: why``."""
    text = f"expected {row.expected}; found {row.found}" + (
        f": {row.why}" if row.why else ""
    )
    return text + (f" (note: {row.note})" if row.note else "")
