"""``--shapes``: input texts with sets of sizes, ``float32[8,{64,128},1024]``, to the inputs of each shape."""

from __future__ import annotations

import itertools
import re
from typing import Mapping, Sequence

from fusiondoc.errors import UsageError
from fusiondoc.probe.input_text import InputTextError, parse_input

MOST_SHAPES = 64

_SET = re.compile(r"\{([^{}]*)\}")

_EXAMPLE = "Such as --shapes 'float32[8,{64,128,256},1024]'"


def expanded(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The ``--input`` texts of each shape.

    Sets that are written alike vary together; different ones are combined each with each, the first slowest.

    Args:
        texts: one an argument of the model; none is no shape.

    Raises:
        UsageError: a text cannot be read, or there are more than ``MOST_SHAPES``.
    """
    if not texts:
        return ()
    sets = list(dict.fromkeys(_key(text, one) for text in texts for one in _SET.findall(text)))
    number = 1
    for one in sets:
        number *= len(one)
    if number > MOST_SHAPES:
        raise UsageError(
            f"--shapes: these are {number} shapes, and at most {MOST_SHAPES} are timed", "Take fewer sizes."
        )
    shapes = []
    for chosen in itertools.product(*sets):
        values = dict(zip(sets, chosen))
        shapes.append(tuple(_filled(text, values) for text in texts))
    for text in itertools.chain.from_iterable(shapes):
        try:
            parse_input(text)
        except InputTextError as error:
            raise UsageError(f"--shapes: {error}", _EXAMPLE) from None
    return tuple(dict.fromkeys(shapes))


def _filled(text: str, values: Mapping[tuple[str, ...], str]) -> str:
    return _SET.sub(lambda found: values[_words(found[1])], text)


def _key(text: str, inside: str) -> tuple[str, ...]:
    words = _words(inside)
    for word in words:
        if not re.fullmatch(r"[0-9]+", word):
            found = f"found '{word}'" if word else "found nothing"
            raise UsageError(f"--shapes: '{text}': expected sizes in {{...}}, {found}", _EXAMPLE)
    return words


def _words(inside: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in inside.split(","))
