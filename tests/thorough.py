"""How many cases a test tries: a part at every push, all at night
(``FUSIONDOC_THOROUGH=1``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

THOROUGH = os.environ.get("FUSIONDOC_THOROUGH") == "1"


def examples(most: int) -> int:
    """Of ``most`` cases those to try now."""
    return most if THOROUGH else max(most // 10, 10)


def every(step: int, cases: Sequence[T]) -> Sequence[T]:
    """Of a sweep over like cases those to try now: one in ``step``, the first among
    them."""
    return cases if THOROUGH else cases[::step]


def least(found: int) -> int:
    """More than this many a sweep has to find: ``found`` in all cases, a twentieth
    in the part of a push."""
    return found if THOROUGH else found // 20
