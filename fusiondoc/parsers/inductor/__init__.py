"""What torch.compile writes, read into a ``Compilation``: TORCH_LOGS output, TORCH_TRACE folders, generated
code. Nothing of it is ever executed.
"""

LIMIT = b"torch._dynamo hit config."
"""In the warning that a function is not compiled again."""

_IN_LINES = (b"] [__", b'] {"', LIMIT)
"""One of them stands in the first line of all that is read."""


def may_hold_lines(text: bytes) -> bool:
    """Whether lines of torch.compile may be in a text, so that it is worth to look for them."""
    return any(part in text for part in _IN_LINES)
