"""Making a finding from its code: severity comes from the catalogue of codes."""

from __future__ import annotations

from typing import Sequence

from fusiondoc.model.codes import CODES
from fusiondoc.model.report import Evidence, Finding


def finding(
    code: str,
    message: str,
    *,
    source: str | None = None,
    evidence: Sequence[Evidence] = (),
    advice: str | None = None,
    severity: str | None = None,
    saves_bytes: int | None = None,
) -> Finding:
    """A finding of ``code`` with its usual severity, unless another is given."""
    return Finding(code, severity or CODES[code].severity, message, source, evidence, advice, saves_bytes)
