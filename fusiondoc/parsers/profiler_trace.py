"""A trace of torch's profiler: which operator or fused kernel took how long, in
which step and phase.

The trace is the Chrome format that ``torch.profiler`` exports
(torch/csrc/autograd/profiler_kineto.cpp and libkineto's output_json.cpp; seen of
torch 2.1.2 and 2.13): operators and launches of each host thread, nested by their
times, and what ran on the GPU, each with the ``correlation`` of its launch. Up to
torch 2.2 times are whole microseconds.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fusiondoc.fusers import FUSERS
from fusiondoc.model import dataclass, field
from fusiondoc.numbers import whole_number
from fusiondoc.whole_files import open_regular

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
    """``aten::add``, ``fused_add_mul``, ``run_fused_kernel``; "AccumulateGrad"
    where gradients add up."""
    group: bool
    phase: str
    step: int
    node: str | None
    """The node of the autograd graph that it runs in (``MulBackward0``), or
    "optimizer"."""
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
    """From the beginning of the first step to the end of the last, on host and
    GPU."""
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
        with open_regular(path) as file:
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
            raise NoTrace(
                f"the profiler's trace has more than {MOST_VALUES:,} values"
            )
        document = json.loads(data.decode("utf-8", "replace"), strict=False)
    except NoTrace:
        raise
    except (ValueError, RecursionError):
        raise NoTrace("the profiler's trace is not JSON, or is cut off") from None
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if not isinstance(events, list):
        raise NoTrace("the profiler's trace has no events")
    return events


def with_places(
    units: Sequence[Unit], places: Mapping[tuple[str, str, int], Place]
) -> list[Unit]:
    """The units with the place of the same one of the step with stacks: a step runs
    the same operators in the same order; where it has other numbers of one, nothing
    is known of these."""
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


STEP = "fusiondoc step"
SCRIPT_STEP = "fusiondoc script step"
"""What probe/step_profile.py calls a step."""

_HOST = {
    "cpu_op",
    "user_annotation",
    "cuda_runtime",
    "cuda_driver",
    "operator",
    "runtime",
}
_LAUNCH = {"cuda_runtime", "cuda_driver", "runtime"}
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
"""Categories, and their older names."""

_GROUP = re.compile(
    "|".join(name for fuser in FUSERS.values() for name in fuser.log.profile_names)
)
"""The event that encloses a group as it runs."""
_NODE = re.compile(r"Backward\d*\Z|CppFunction\Z|AccumulateGrad\Z")
"""Nodes of the autograd graph: recorded as backward functions."""
_ENGINE = "autograd::engine::evaluate_function"
_FRAME = re.compile(r"(\S.*?)\(([0-9]{1,9})\): ")
OWN_NAMES = {"_grad_sum_to_size": "aten::_grad_sum_to_size"}
"""Operators of TorchScript that are recorded under another name
(runtime/register_prim_ops.cpp)."""


@dataclass
class _Context:
    """What a host event runs in."""

    end: float
    unit: int | None
    backward: bool
    node: str | None


@dataclass
class _Open:
    """A unit that is being read."""

    name: str
    group: bool
    backward: bool
    node: str | None
    begin: float
    ms: float
    event: int
    launched: list[Launched] = field(default_factory=list)


def read_trace(
    events: Sequence[Any],
    places: Mapping[tuple[str, str, int], Place] | None = None,
) -> Trace:
    """The steps in a trace.

    Args:
        places: what ``read_places`` found in the trace with stacks.

    Raises:
        NoTrace: it holds no operators.
    """
    return _Reader(events).trace(places or {})


def read_places(events: Sequence[Any]) -> dict[tuple[str, str, int], Place]:
    """(phase, name, how many of that name in the phase came before) -> where that
    operator comes from."""
    reader = _Reader(events)
    stacks = reader.stacks()
    found = {}
    counts: dict[tuple[str, str], int] = {}
    for unit in reader.trace({}).units:
        if unit.step:
            continue
        key = (unit.phase, unit.name)
        number = counts.get(key, 0)
        counts[key] = number + 1
        stack, modules = stacks.get(unit.event, ("", ""))
        types = reader.argument(unit.event, "Input type")
        found[(*key, number)] = Place(
            _frames(stack),
            _layer(modules),
            tuple(one for one in types if isinstance(one, str))
            if isinstance(types, list)
            else (),
        )
    return found


def _frames(stack: str) -> tuple[tuple[str, int], ...]:
    matches = (_FRAME.match(part.strip()) for part in stack.split(";"))
    return tuple(
        (match[1], whole_number(match[2]) or 0) for match in matches if match
    )


def _layer(modules: str) -> str | None:
    """``encoder.0`` of
    ``TOP(Net)::forward.encoder(Encoder)::forward.0(Layer)::forward.``; "" for the
    model itself, None outside TorchScript."""
    if not modules:
        return None
    names = []
    parts = modules.split("(")
    for before, inside in itertools.pairwise(parts):
        if inside.partition(")")[2].startswith("::"):
            name = before[max(before.rfind(")"), before.rfind(".")) + 1 :]
            names.append(name[2:] if name.startswith("::") else name)
    return ".".join(name for name in names if name not in ("", "TOP", "SELF"))


class _Reader:
    """The events of a trace, looked at from several sides."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._events = events
        self._host: dict[tuple[Any, Any], list[int]] = {}
        self._device: list[int] = []
        self._whole = True
        for index, event in enumerate(events):
            if (
                not isinstance(event, dict)
                or event.get("ph") != "X"
                or not _timed(event)
            ):
                continue
            category = str(event.get("cat", "")).lower()
            if category in _HOST:
                self._host.setdefault(
                    (str(event.get("pid")), str(event.get("tid"))), []
                ).append(index)
            elif category in _DEVICE:
                self._device.append(index)
            else:
                continue
            self._whole = (
                self._whole
                and event["ts"] == int(event["ts"])
                and event["dur"] == int(event["dur"])
            )
        if not self._host:
            raise NoTrace("the profiler's trace shows no operator")
        for indices in self._host.values():
            # In whole microseconds an operator and what it calls begin together:
            # the outer one came first.
            indices.sort(
                key=lambda i: (
                    events[i]["ts"],
                    -events[i]["dur"],
                    self._number(i, "External id") or 0,
                    i,
                )
            )

    def argument(self, index: int, name: str) -> Any:
        """An argument of an event."""
        arguments = self._events[index].get("args")
        return arguments.get(name) if isinstance(arguments, dict) else None

    def _number(self, index: int, name: str) -> int | None:
        value = self.argument(index, name)
        return value if isinstance(value, int) else None

    def trace(self, places: Mapping[tuple[str, str, int], Place]) -> Trace:
        opened: list[_Open] = []
        elsewhere = self._assign(opened)
        begins, end = self._steps(opened)
        opened.sort(key=lambda unit: unit.begin)
        units = with_places(
            [self._unit(one, begins, end) for one in opened], places
        )
        kept = tuple(unit for unit in units if unit.step >= 0)
        outside = tuple(one for ts, one in elsewhere if begins[0] <= ts < end)
        spans = self._times(
            (
                *outside,
                *itertools.chain.from_iterable(unit.launched for unit in kept),
            )
        )
        finish = max([end, *(after for _, after in spans)])
        if finish <= begins[0]:
            raise NoTrace("the steps of the profiler's trace take no time")
        return Trace(
            steps=len(begins),
            ms=(finish - begins[0]) / 1e3,
            busy_ms=_covered(spans) / 1e3 if spans else None,
            units=kept,
            elsewhere=outside,
        )

    def _assign(self, opened: list[_Open]) -> list[tuple[float, Launched]]:
        """Open the units of all threads, and give each what it launched; what no
        unit did, with its begin."""
        launches: dict[int, int | None] = {}
        externals: dict[int, int] = {}
        for indices in self._host.values():
            self._walk(indices, opened, launches, externals)
        elsewhere: list[tuple[float, Launched]] = []
        for index in self._device:
            one = self._launched(index)
            unit = launches.get(self._number(index, "correlation") or -1)
            if unit is None:
                unit = externals.get(self._number(index, "External id") or -1)
            if unit is not None:
                opened[unit].launched.append(one)
            else:
                elsewhere.append((self._events[index]["ts"], one))
        return elsewhere

    def _times(self, launched: Iterable[Launched]) -> list[tuple[float, float]]:
        """Begin and end of each on the device, in microseconds, in order."""
        begins = ((self._events[one.event]["ts"], one.ms) for one in launched)
        return sorted((begin, begin + ms * 1e3) for begin, ms in begins)

    def _walk(
        self,
        indices: Iterable[int],
        opened: list[_Open],
        launches: dict[int, int | None],
        externals: dict[int, int],
    ) -> None:
        """The events of a thread in the order of their begin, each inside those
        that enclose it."""
        around: list[_Context] = []
        for index in indices:
            event = self._events[index]
            begin, name = float(event["ts"]), str(event.get("name", ""))
            end = begin + float(event["dur"])
            while around and not self._inside(begin, end, around[-1].end):
                around.pop()
            outer = around[-1] if around else _Context(0.0, None, False, None)
            if str(event.get("cat")).lower() in _LAUNCH:
                correlation = self._number(index, "correlation")
                if correlation is not None:
                    launches[correlation] = outer.unit
                continue
            inner = _Context(end, outer.unit, outer.backward, outer.node)
            if outer.unit is None:
                self._enter(name, index, inner, opened)
            external = self._number(index, "External id")
            if external is not None and inner.unit is not None:
                externals[external] = inner.unit
            around.append(inner)

    def _inside(self, begin: float, end: float, outer: float) -> bool:
        if self._whole:  # both ends are cut to whole microseconds
            return begin <= outer and end <= outer + 1
        return begin < outer and end <= outer + 0.002

    def _enter(
        self, name: str, index: int, inner: _Context, opened: list[_Open]
    ) -> None:
        """An event outside every unit: it is one, or something around units."""
        annotation = self._events[index].get("cat") == "user_annotation"
        if name.startswith("Optimizer.") and annotation:
            inner.node = OPTIMIZER
            return
        if name.startswith(_ENGINE):
            inner.backward = True
            return
        if _is_node(name):
            inner.node = name
            inner.backward = True
            if not name.endswith(ACCUMULATE):
                return
            name = ACCUMULATE
        elif annotation or not _is_unit(name):
            return
        event = self._events[index]
        ms = float(event["dur"]) / 1e3
        name = OWN_NAMES.get(name, name)
        inner.unit = len(opened)
        group = bool(_GROUP.match(name))
        opened.append(
            _Open(
                name,
                group,
                inner.backward,
                inner.node,
                float(event["ts"]),
                ms,
                index,
            )
        )

    def _launched(self, index: int) -> Launched:
        event = self._events[index]
        # Cut off to whole microseconds, a time is half of one too short on average.
        us = float(event["dur"]) + (0.5 if self._whole else 0.0)
        return Launched(
            str(event.get("name", "")),
            us / 1e3,
            _three(self.argument(index, "grid")),
            _three(self.argument(index, "block")),
            index,
        )

    def _steps(self, opened: Sequence[_Open]) -> tuple[list[float], float]:
        """Where each step begins, and where the last one ends."""
        own = self._spans(lambda name, _: name == STEP)
        if own:
            return [begin for begin, _ in own], own[-1][1]
        # A script: steps of its function or optimizer, of which the first half
        # warms up; else all is one.
        ends = [end for _, end in self._spans(lambda name, _: name == SCRIPT_STEP)]
        ends = ends or [
            end
            for _, end in self._spans(
                lambda name, _: name.startswith("Optimizer.step#")
            )
        ]
        if len(ends) >= 4:
            ends = ends[-min(21, len(ends) // 2 + 1) :]
            return ends[:-1], ends[-1]
        first = min(
            self._events[indices[0]]["ts"] for indices in self._host.values()
        )
        last = max(one.begin + one.ms * 1e3 for one in opened) if opened else first
        return [float(first)], float(last)

    def _spans(self, wanted: Any) -> list[tuple[float, float]]:
        found = []
        for indices in self._host.values():
            for index in indices:
                event = self._events[index]
                if event.get("cat") == "user_annotation" and wanted(
                    str(event.get("name", "")), event
                ):
                    found.append(
                        (
                            float(event["ts"]),
                            float(event["ts"]) + float(event["dur"]),
                        )
                    )
        return sorted(found)

    def _unit(self, one: _Open, begins: Sequence[float], end: float) -> Unit:
        step = bisect_right(begins, one.begin) - 1 if one.begin < end + 1 else -1
        phase = "backward" if one.backward else "forward"
        return Unit(
            one.name,
            one.group,
            phase,
            step,
            one.node,
            one.ms,
            tuple(one.launched),
            one.event,
        )

    def stacks(self) -> dict[int, tuple[str, str]]:
        """Event -> (call stack, module hierarchy) of its TorchScript code.

        torch keeps one of each for every operator but the nodes of autograd
        (``RecordQueue::begin_op``, torch/csrc/profiler/collection.cpp, 1.13 to
        2.13) and deals them out to all operators in turn: behind each node they are
        one too late, which is undone here.
        """
        found = {}
        for indices in self._host.values():
            ops = [
                i
                for i in indices
                if str(self._events[i].get("cat")).lower() not in _LAUNCH
            ]
            stacks = [
                (
                    str(self.argument(i, "Call stack") or ""),
                    str(self.argument(i, "Module Hierarchy") or ""),
                )
                for i in ops
            ]
            plain = dict(zip(ops, stacks))
            rest = iter(stacks)
            moved = {
                i: next(rest)
                for i in ops
                if not _is_node(str(self._events[i].get("name", "")))
            }
            found.update(
                moved if self._fitting(moved) > self._fitting(plain) else plain
            )
        return found

    def _fitting(self, stacks: Mapping[int, tuple[str, str]]) -> int:
        """How many bookkeeping events of autograd have no module, as none has."""
        engine = [
            i
            for i in stacks
            if str(self._events[i].get("name", "")).startswith(_ENGINE)
        ]
        return sum(not stacks[i][1] for i in engine)


def _timed(event: Mapping[str, Any]) -> bool:
    ts, dur = event.get("ts"), event.get("dur")
    if not isinstance(ts, (int, float)) or not isinstance(dur, (int, float)):
        return False
    return -1e18 < ts < 1e18 and 0 <= dur < 1e15


def _is_node(name: str) -> bool:
    return not name.startswith(_ENGINE) and bool(_NODE.search(name))


def _is_unit(name: str) -> bool:
    """Operators have a namespace; functions of TorchScript and ``<forward op>``
    have none."""
    if name in OWN_NAMES or _GROUP.match(name):
        return True
    return "::" in name and not name.startswith("torch::") and "<" not in name


def _three(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(one for one in value if isinstance(one, int))


def _covered(spans: Sequence[tuple[float, float]]) -> float:
    """What the spans, in order, cover together: kernels of several streams
    overlap."""
    total, reached = 0.0, float("-inf")
    for begin, end in spans:
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
