"""Numbers as every text writes them: in a message, a report, a comment in generated code."""

from __future__ import annotations


def count(number: int, what: str) -> str:
    """``3 groups``, ``1 group``, ``2 passes``, ``12,000 operators``."""
    ending = "es" if what.endswith("s") else "s"
    return f"{number:,} {what}" + ("" if number == 1 else ending)
