"""Reads the output of torch.compile into a ``Compilation``: TORCH_LOGS output,
TORCH_TRACE folders, generated code. Nothing of it is ever executed."""

import re

LIMIT = b"torch._dynamo hit config."
"""Text of the warning that a function is not compiled again."""

FAILED = b"WON'T CONVERT "
"""Beginning of the warning that a function is not compiled because of an error."""

_IN_LINES = re.compile(rb'\] (?:\[__|\{"|' + FAILED + rb")")
"""The first line of everything that is read contains it or LIMIT. A search for this
expression takes a third of the time of two searches for such short texts."""


def may_hold_lines(text: bytes) -> bool:
    """True if a text may have lines of torch.compile, so that searching for them is
    worthwhile."""
    return _IN_LINES.search(text) is not None or LIMIT in text
