"""Characters of all of Unicode for property tests.

``st.text()`` alone makes a table of all characters first, which takes seconds in
each process of a machine that has no ``.hypothesis`` folder yet, as that of CI.
"""

from __future__ import annotations

from hypothesis import strategies as st

LAST_BEFORE_SURROGATES, FIRST_AFTER, LAST = 0xD7FF, 0xE000, 0x10FFFF
ASCII = st.integers(0, 127).map(chr)
CHARACTERS = (
    ASCII
    | st.integers(128, LAST_BEFORE_SURROGATES).map(chr)
    | st.integers(FIRST_AFTER, LAST).map(chr)
)
