"""Secrets in text, arguments and variables, each replaced by ``***``.

``KINDS`` lists the kinds of secrets. Normal output of torch and models must stay:
names of values (``%token.1``), special tokens (``pad_token=<pad>``), hashes of
kernels, mangled names, paths. Every pattern takes time in proportion to the text.
"""

from __future__ import annotations

from fusiondoc.masking.masked_texts import KINDS, mask, masked
from fusiondoc.masking.masked_values import (
    masked_arguments,
    masked_in,
    masked_variables,
    texts_changed,
)
from fusiondoc.masking.secret_names import MASK, is_secret, looks_random

__all__ = [
    "KINDS",
    "MASK",
    "is_secret",
    "looks_random",
    "mask",
    "masked",
    "masked_arguments",
    "masked_in",
    "masked_variables",
    "texts_changed",
]
