"""What a trace of torch's profiler tells: units of work, in steps; and the file that it is in."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from fusiondoc.model.quick_dataclass import dataclass

MOST_BYTES = 256 << 20
"""Of a trace, unpacked: reading one takes some ten times as much memory."""
MOST_VALUES = 16_000_000

ACCUMULATE = "AccumulateGrad"
OPTIMIZER = "optimizer"


class NoTrace(ValueError):
    """The file holds no trace; the text says why."""


@dataclass(frozen=True)
class Launched:
    """Something that ran on the GPU."""

    name: str
    ms: float
    grid: tuple[int, ...]
    block: tuple[int, ...]
    event: int
    """Its index in the trace."""


@dataclass(frozen=True)
class Place:
    """Where an operator comes from, by the step with stacks."""

    frames: tuple[tuple[str, int], ...] = ()
    """(file, line), innermost first."""
    layer: str | None = None
    types: tuple[str, ...] = ()
    """Scalar types of its inputs: "float", "c10::Half"."""


@dataclass(frozen=True)
class Unit:
    """One run of an operator, or of a group, with all that it calls."""

    name: str
    """``aten::add``, ``fused_add_mul``, ``run_fused_kernel``; "AccumulateGrad" where gradients add up."""
    group: bool
    phase: str
    step: int
    node: str | None
    """The node of the autograd graph that it runs in (``MulBackward0``), or "optimizer"."""
    host_ms: float
    launched: tuple[Launched, ...]
    event: int
    place: Place = Place()

    @property
    def device_ms(self) -> float:
        return sum(one.ms for one in self.launched)


@dataclass(frozen=True)
class Trace:
    """Steps of a program. Times are those of all steps."""

    steps: int
    ms: float
    """From the beginning of the first step to the end of the last, on host and GPU."""
    busy_ms: float | None
    """In which the GPU ran anything; None where the trace shows no GPU."""
    units: tuple[Unit, ...]
    elsewhere: tuple[Launched, ...]
    """What no operator launched."""


def read_events(path: Path) -> list[Any]:
    """The events of a trace file, also a packed one.

    Raises:
        NoTrace: it cannot be read, is cut off, or no trace.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream = gzip.GzipFile(fileobj=file) if packed else file
            data = stream.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise NoTrace(f"the profiler's trace cannot be read: {error}") from None
    if len(data) > MOST_BYTES:
        raise NoTrace(f"the profiler's trace has more than {MOST_BYTES >> 20} MiB")
    try:
        if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise NoTrace(f"the profiler's trace has more than {MOST_VALUES:,} values")
        document = json.loads(data.decode("utf-8", "replace"), strict=False)
    except NoTrace:
        raise
    except (ValueError, RecursionError):
        raise NoTrace("the profiler's trace is not JSON, or is cut off") from None
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(events, list):
        raise NoTrace("the profiler's trace has no events")
    return events


def with_places(units: Sequence[Unit], places: Mapping[tuple[str, str, int], Place]) -> list[Unit]:
    """The units with the place of the same one of the step with stacks: a step runs the same operators in the
    same order; where it has other numbers of one, nothing is known of these."""
    if not places:
        return list(units)
    expected: dict[tuple[str, str], int] = {}
    for phase, name, _ in places:
        expected[phase, name] = expected.get((phase, name), 0) + 1
    counts: dict[tuple[int, str, str], int] = {}
    for unit in units:
        key = (unit.step, unit.phase, unit.name)
        counts[key] = counts.get(key, 0) + 1
    seen: dict[tuple[int, str, str], int] = {}
    made = []
    for unit in units:
        key = (unit.step, unit.phase, unit.name)
        number = seen.get(key, 0)
        seen[key] = number + 1
        if counts[key] == expected.get(key[1:]):
            unit = replace(unit, place=places[(unit.phase, unit.name, number)])
        made.append(unit)
    return made
