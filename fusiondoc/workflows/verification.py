"""What ``--verify`` found, from the probe's records."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from fusiondoc.model.runs import Verification


def verification(records: Iterable[Mapping[str, Any]]) -> tuple[Verification, ...]:
    """One row for each compared tensor of each pass."""
    return tuple(
        _row(record, result)
        for record in records
        if record["record"] == "verify"
        for result in record.get("results", ())
    )


def _row(record: Mapping[str, Any], result: Mapping[str, Any]) -> Verification:
    return Verification(
        iteration=record["iteration"],
        inputs=record["inputs"],
        phase=result["phase"],
        what=result["what"],
        same=result["same"],
        max_abs=_finite(result["max_abs"]),
        max_rel=_finite(result["max_rel"]),
        tolerance=result["tolerance"],
        dtype_same=result["dtype_same"],
        strides_same=result["strides_same"],
        by=result["by"],
        detail=result["detail"],
        random=tuple(record.get("random", ())),
    )


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: a difference that overflows is one that no number tells."""
    return value if value is not None and abs(value) < float("inf") else None
