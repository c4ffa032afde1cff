"""How many random cases a test tries: a tenth at every push, all at night (``FUSIONDOC_THOROUGH=1``)."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("FUSIONDOC_THOROUGH") == "1"


def examples(most: int) -> int:
    """Of ``most`` cases those to try now."""
    return most if THOROUGH else max(most // 10, 10)
