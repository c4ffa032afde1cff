"""Reads a trace of torch's profiler: the time of each operator and fused kernel,
with its step and phase.

The trace has the Chrome format that ``torch.profiler`` exports
(torch/csrc/autograd/profiler_kineto.cpp and libkineto's output_json.cpp; seen from
torch 2.1.2 and 2.13): operators and launches of each host thread, nested by their
times, and the work on the GPU, each with the ``correlation`` of its launch. Up to
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
"""Number of bytes of an unpacked trace: reading it takes about ten times as much
memory."""
MOST_VALUES = 16_000_000

ACCUMULATE = "AccumulateGrad"
OPTIMIZER = "optimizer"


class NoTrace(ValueError):
    """The file holds no trace; the text says why."""


@dataclass(frozen=True)
class GpuEvent:
    """Something that ran on the GPU."""

    name: str
    ms: float
    grid: tuple[int, ...]
    block: tuple[int, ...]
    event: int
    """Its index in the events of the trace."""


@dataclass(frozen=True)
class Origin:
    """The origin of an operator, from the step with stacks."""

    frames: tuple[tuple[str, int], ...] = ()
    """(file, line), innermost first."""
    layer: str | None = None
    types: tuple[str, ...] = ()
    """Scalar types of its inputs: "float", "c10::Half"."""


@dataclass(frozen=True)
class Unit:
    """One run of an operator, or of a group, with everything that it calls."""

    name: str
    """``aten::add``, ``fused_add_mul``, ``run_fused_kernel``; "AccumulateGrad" for
    the accumulation of gradients."""
    group: bool
    phase: str
    step: int
    node: str | None
    """The node of the autograd graph in which it runs (``MulBackward0``), or
    "optimizer"."""
    host_ms: float
    launched: tuple[GpuEvent, ...]
    event: int
    origin: Origin = Origin()

    @property
    def device_ms(self) -> float:
        return sum(one.ms for one in self.launched)


@dataclass(frozen=True)
class Trace:
    """The steps of a program. Times are sums over all steps."""

    steps: int
    ms: float
    """Time from the beginning of the first step to the end of the last, on host and
    GPU."""
    busy_ms: float | None
    """Time in which the GPU ran anything; None if the trace shows no GPU."""
    units: tuple[Unit, ...]
    elsewhere: tuple[GpuEvent, ...]
    """GPU work that no operator launched."""


def read_events(path: Path) -> list[Any]:
    """Return the events of a trace file, which may be compressed.

    Raises:

        NoTrace: it cannot be read, is truncated, or is no trace.
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


def with_origins(
    units: Sequence[Unit], origins: Mapping[tuple[str, str, int], Origin]
) -> list[Unit]:
    """Return the units with their origins: each has the origin of the same unit in
    the step with stacks, since every step runs the same operators in the same
    order. If a step has another number of units with one name, these have no
    origin."""
    if not origins:
        return list(units)
    expected: dict[tuple[str, str], int] = {}
    for phase, name, _ in origins:
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
            unit = replace(unit, origin=origins[(unit.phase, unit.name, number)])
        made.append(unit)
    return made


STEP = "fusiondoc step"
SCRIPT_STEP = "fusiondoc script step"
"""The names that probe/step_profile.py gives to steps."""

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
"""The event that encloses a running group."""
_NODE = re.compile(r"Backward\d*\Z|CppFunction\Z|AccumulateGrad\Z")
"""Nodes of the autograd graph, which are recorded as backward functions."""
_ENGINE = "autograd::engine::evaluate_function"
_FRAME = re.compile(r"(\S.*?)\(([0-9]{1,9})\): ")
OWN_NAMES = {"_grad_sum_to_size": "aten::_grad_sum_to_size"}
"""Operators of TorchScript that are recorded under another name
(runtime/register_prim_ops.cpp)."""


@dataclass
class _Context:
    """The context in which a host event runs."""

    end: float
    unit: int | None
    backward: bool
    node: str | None


@dataclass
class _Open:
    """A unit while it is read."""

    name: str
    group: bool
    backward: bool
    node: str | None
    begin: float
    ms: float
    event: int
    launched: list[GpuEvent] = field(default_factory=list)


def read_trace(
    events: Sequence[Any],
    origins: Mapping[tuple[str, str, int], Origin] | None = None,
) -> Trace:
    """Return the steps in a trace.

    Args:
        origins: result of ``read_origins`` for the trace with stacks.

    Raises:

        NoTrace: it holds no operators.
    """
    return _Reader(events).trace(origins or {})


def read_origins(events: Sequence[Any]) -> dict[tuple[str, str, int], Origin]:
    """Return (phase, name, number of earlier units with that name in the phase) ->
    the origin of the operator."""
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
        found[(*key, number)] = Origin(
            _frames(stack),
            _layer(modules),
            tuple(one for one in types if isinstance(one, str))
            if isinstance(types, list)
            else (),
        )
    return found


def _frames(stack: str) -> tuple[tuple[str, int], ...]:
    matches = (_FRAME.match(part.strip()) for part in stack.split(";"))
    frames = []
    for match in matches:
        if match:
            frames.append((match[1], whole_number(match[2]) or 0))
    return tuple(frames)


def _layer(modules: str) -> str | None:
    """Return ``encoder.0`` for
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
    """The events of a trace."""

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
            # In whole microseconds an operator and the operators that it calls
            # begin together: the outer one was recorded first.
            indices.sort(
                key=lambda i: (
                    events[i]["ts"],
                    -events[i]["dur"],
                    self._number(i, "External id") or 0,
                    i,
                )
            )

    def argument(self, index: int, name: str) -> Any:
        """Return an argument of an event; None if it is missing."""
        arguments = self._events[index].get("args")
        if isinstance(arguments, dict):
            return arguments.get(name)
        return None

    def _number(self, index: int, name: str) -> int | None:
        value = self.argument(index, name)
        if isinstance(value, int):
            return value
        return None

    def trace(self, origins: Mapping[tuple[str, str, int], Origin]) -> Trace:
        opened: list[_Open] = []
        elsewhere = self._assign(opened)
        begins, end = self._steps(opened)
        opened.sort(key=lambda unit: unit.begin)
        units = with_origins(
            [self._unit(one, begins, end) for one in opened], origins
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

    def _assign(self, opened: list[_Open]) -> list[tuple[float, GpuEvent]]:
        """Open the units of all threads, and add to each the GPU work that it
        launched. Return the work that no unit launched, with its start time."""
        launches: dict[int, int | None] = {}
        externals: dict[int, int] = {}
        for indices in self._host.values():
            self._walk(indices, opened, launches, externals)
        elsewhere: list[tuple[float, GpuEvent]] = []
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

    def _times(self, launched: Iterable[GpuEvent]) -> list[tuple[float, float]]:
        """Return begin and end of each on the device, in microseconds, in order."""
        begins = ((self._events[one.event]["ts"], one.ms) for one in launched)
        return sorted((begin, begin + ms * 1e3) for begin, ms in begins)

    def _walk(
        self,
        indices: Iterable[int],
        opened: list[_Open],
        launches: dict[int, int | None],
        externals: dict[int, int],
    ) -> None:
        """Walk the events of a thread in the order of their begin, each inside the
        events that enclose it."""
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
        if self._whole:  # both ends are truncated to whole microseconds
            return begin <= outer and end <= outer + 1
        return begin < outer and end <= outer + 0.002

    def _enter(
        self, name: str, index: int, inner: _Context, opened: list[_Open]
    ) -> None:
        """Enter an event outside every unit: it is a unit, or an event around
        units."""
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

    def _launched(self, index: int) -> GpuEvent:
        event = self._events[index]
        # Truncated to whole microseconds, a time is half a microsecond too short on
        # average.
        us = float(event["dur"]) + (0.5 if self._whole else 0.0)
        return GpuEvent(
            str(event.get("name", "")),
            us / 1e3,
            _three(self.argument(index, "grid")),
            _three(self.argument(index, "block")),
            index,
        )

    def _steps(self, opened: Sequence[_Open]) -> tuple[list[float], float]:
        """Return the begin of each step, and the end of the last one."""
        own = self._spans(lambda name, _: name == STEP)
        if own:
            return [begin for begin, _ in own], own[-1][1]
        # For a script: the steps of its function or optimizer, of which the first
        # half is warm-up; without such steps everything is one step.
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
        """Return (call stack, module hierarchy) of the TorchScript code of each
        event.

        torch stores one of each for every operator except the nodes of autograd
        (``RecordQueue::begin_op``, torch/csrc/profiler/collection.cpp, 1.13 to
        2.13) and assigns them to all operators in turn: after each node they are
        shifted by one, which is undone here.
        """
        found = {}
        for indices in self._host.values():
            ops = []
            for i in indices:
                if str(self._events[i].get("cat")).lower() not in _LAUNCH:
                    ops.append(i)
            stacks = []
            for i in ops:
                stacks.append(
                    (
                        str(self.argument(i, "Call stack") or ""),
                        str(self.argument(i, "Module Hierarchy") or ""),
                    )
                )
            plain = dict(zip(ops, stacks))
            rest = iter(stacks)
            moved = {}
            for i in ops:
                if not _is_node(str(self._events[i].get("name", ""))):
                    moved[i] = next(rest)
            found.update(
                moved if self._fitting(moved) > self._fitting(plain) else plain
            )
        return found

    def _fitting(self, stacks: Mapping[int, tuple[str, str]]) -> int:
        """Return the number of autograd's bookkeeping events without a module;
        correctly none of them has one."""
        engine = []
        for i in stacks:
            if str(self._events[i].get("name", "")).startswith(_ENGINE):
                engine.append(i)
        return sum(not stacks[i][1] for i in engine)


def _timed(event: Mapping[str, Any]) -> bool:
    ts, dur = event.get("ts"), event.get("dur")
    if not isinstance(ts, (int, float)) or not isinstance(dur, (int, float)):
        return False
    return -1e18 < ts < 1e18 and 0 <= dur < 1e15


def _is_node(name: str) -> bool:
    return not name.startswith(_ENGINE) and bool(_NODE.search(name))


def _is_unit(name: str) -> bool:
    """True for names of operators, which have a namespace; functions of TorchScript
    and ``<forward op>`` have none."""
    if name in OWN_NAMES or _GROUP.match(name):
        return True
    return "::" in name and not name.startswith("torch::") and "<" not in name


def _three(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(one for one in value if isinstance(one, int))


def _covered(spans: Sequence[tuple[float, float]]) -> float:
    """Return the total time that the spans, in order, cover: kernels of several
    streams overlap."""
    total, reached = 0.0, float("-inf")
    for begin, end in spans:
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
