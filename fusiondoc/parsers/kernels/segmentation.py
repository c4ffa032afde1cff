"""What segmented_fusion, segmenter_logging and scheduler_params say.

Formats: fusion_segmenter.cpp, kernel_cache.cpp and the schedulers' parameter classes of torch 1.11 to 2.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Sequence

_PARAMETERS = re.compile(rb"=+ (\w+) Parameters =+")
_TENSOR = re.compile(r"T(\d{1,9})_")
_GROUP = re.compile(r"^g\{\((\S+)\)\n", re.M)
_REJECTED = re.compile(r"Scheduler _(\S+)_ \*\*\*rejected\*\*\* because : (.*)")
_ACCEPTED = re.compile(r"\*\*\*Accepted\*\*\* as: (\S+)")
_CONSIDERING = re.compile(r"^\*\*Segmenter\*\* Considering fusion:.*\n", re.M)


@dataclass(frozen=True)
class Expression:
    """A line of fusion IR: the tensors it makes and takes, by number, and what computes them."""

    makes: tuple[int, ...]
    takes: tuple[int, ...]
    text: str
    """What stands right of the first ``=``."""


@dataclass(frozen=True)
class Part:
    """One segment as segmented_fusion prints it."""

    scheduler: str
    inputs: frozenset[int]
    outputs: frozenset[int]
    expressions: tuple[Expression, ...]


@dataclass(frozen=True)
class Asked:
    """A fusion that the schedulers were asked about; no expressions: the whole one."""

    expressions: tuple[Expression, ...]
    refused: tuple[tuple[str, str], ...]
    accepted: str | None
    line: int
    """Offset of its first line in the text."""


def scheduler_of_parameters(text: bytes) -> str | None:
    """The scheduler whose parameters these are, by nvFuser's own name for it."""
    found = _PARAMETERS.search(text)
    if found is None:
        return None
    name = found.group(1).decode("ascii").lower()
    if name == "reduction" and b"\nPersistent Kernel" in text:
        return "persistent"
    return name


@lru_cache(maxsize=256)
def parts_of(text: str) -> tuple[Part, ...]:
    """The segments of a ``Segmented_Fusion`` dump, in its order."""
    _, _, details = text.partition("group details:")
    starts = list(_GROUP.finditer(details))
    parts = []
    for found, after in zip(starts, [*(s.start() for s in starts[1:]), len(details)]):
        body = details[found.end() : after]
        inputs, _, rest = body.partition("outputs:")
        outputs, _, expressions = rest.partition("\n\n")
        parts.append(
            Part(
                found.group(1),
                frozenset(_numbers(inputs)),
                frozenset(_numbers(outputs)),
                expressions_of(expressions),
            )
        )
    return tuple(parts)


def run_order(parts: Sequence[Part]) -> list[int]:
    """The order in which nvFuser compiles and runs segments: always the first one whose inputs are there
    (kernel_cache.cpp, prepareRuntimeOrder)."""
    missing = {number for part in parts for number in part.outputs}
    order: list[int] = []
    while len(order) < len(parts):
        before = len(order)
        for index, part in enumerate(parts):
            if index not in order and not (part.inputs & missing - part.outputs):
                order.append(index)
                missing -= part.outputs
        if len(order) == before:
            return []
    return order


@lru_cache(maxsize=256)
def asked_of(text: str) -> tuple[Asked, ...]:
    """Whom the segmenter asked, in order. The first may be the whole fusion."""
    asked = []
    starts = [0, *(found.start() for found in _CONSIDERING.finditer(text))]
    for start, end in zip(starts, [*starts[1:], len(text)]):
        part = text[start:end]
        fusion, verdicts = part, part
        if part.startswith("**Segmenter**"):
            lines = part.split("\n")
            cut = next((k for k, line in enumerate(lines) if line.startswith(("Scheduler _", "***"))), 0)
            fusion = "\n".join(lines[1:cut]) if cut else "\n".join(lines[1:])
            verdicts = "\n".join(lines[cut:]) if cut else ""
        else:
            fusion = ""
        refused = dict.fromkeys(_REJECTED.findall(verdicts))
        accepted = _ACCEPTED.search(verdicts)
        if refused or accepted:
            asked.append(
                Asked(
                    expressions_of(fusion),
                    tuple(refused),
                    accepted.group(1) if accepted else None,
                    text.count("\n", 0, start),
                )
            )
    return tuple(asked)


def expressions_of(text: str) -> tuple[Expression, ...]:
    """The expressions on tensors among the lines of fusion IR."""
    found = []
    for block in _blocks(text):
        left, equals, right = block.partition("=")
        makes = tuple(_numbers(left))
        if equals and makes:
            found.append(Expression(makes, tuple(_numbers(right)), right.strip()))
    return tuple(found)


def _blocks(text: str) -> list[str]:
    """Lines that begin at the margin start an expression; a Welford has three such lines, with commas."""
    blocks: list[str] = []
    for line in text.split("\n"):
        if not line.strip() or line.startswith(("}", "%", "Inputs", "Outputs")):
            continue
        if blocks and (line.startswith(" ") or blocks[-1].endswith(",")):
            blocks[-1] += "\n" + line
        else:
            blocks.append(line)
    return blocks


def _numbers(text: str) -> list[int]:
    return list(dict.fromkeys(int(n) for n in _TENSOR.findall(text)))
