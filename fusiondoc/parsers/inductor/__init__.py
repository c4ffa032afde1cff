"""What torch.compile writes, read into a ``Compilation``: TORCH_LOGS output,
TORCH_TRACE folders, generated code. Nothing of it is ever executed.
"""

import re

LIMIT = b"torch._dynamo hit config."
"""In the warning that a function is not compiled again."""

FAILED = b"WON'T CONVERT "
"""Begins the warning that a function is not compiled because of an error."""

_IN_LINES = re.compile(rb'\] (?:\[__|\{"|' + FAILED + rb")")
"""It or LIMIT stands in the first line of all that is read. To look for the
expression takes a third of the time of two searches for so few bytes."""


def may_hold_lines(text: bytes) -> bool:
    """Whether lines of torch.compile may be in a text, so that it is worth to look
    for them."""
    return _IN_LINES.search(text) is not None or LIMIT in text
