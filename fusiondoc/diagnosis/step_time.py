"""Where the time of a step goes: units of a profile tied to rows of the report (which group, which unfused
operator), and to kinds of work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fusiondoc.captures.probe_records import Profiled
from fusiondoc.diagnosis.possible_savings import saving_share
from fusiondoc.fusers import is_fusible
from fusiondoc.model import dataclass
from fusiondoc.model.bench import Part
from fusiondoc.model.report import Group, Report, Unfused
from fusiondoc.model.runs import FUSIBLE, GROUPS, Steps, Time
from fusiondoc.model.source import Source
from fusiondoc.numbers import in_natural_order, whole_numbers
from fusiondoc.operators import LIBRARY, of
from fusiondoc.operators.kinds import Kind
from fusiondoc.parsers.profiler_trace import ACCUMULATE, OPTIMIZER, Launched, Trace, Unit

_KERNEL = re.compile(r"(?:\w+::)*(kernel\d+)\(")
"""nvFuser's kernels in a profile: ``CudaCodeGen::kernel3(CudaCodeGen::Tensor<float, 3>, ...)``."""
_PARTITION = re.compile(r"LlgaPartition_[0-9]{1,9}\Z")
"""A group of oneDNN Graph (``LlgaKernel``, torch/csrc/jit/codegen/onednn/kernel.cpp)."""
_HASH = re.compile(r"_\d{12,}\Z")
"""The end of an NNC name that was too long (``truncateStrWithHash``, torch/csrc/jit/passes/utils)."""


@dataclass(frozen=True)
class _Line:
    """What of a row a profile can be compared with."""

    index: int
    row: Unfused
    source: tuple[str, int] | None
    user_source: tuple[str, int] | None


class _ProfileTies:
    """Which rows of a report the units of a profile are."""

    def __init__(self, report: Report, units: Sequence[Unit]) -> None:
        self._rows: dict[tuple[str, str | None], list[_Line]] = {}
        for index, row in enumerate(report.unfused):
            if row.ran is not False:
                line = _Line(index, row, _position(row.source), _position(row.user_source))
                self._rows.setdefault((row.op, row.phase), []).append(line)
        self._groups = {group.id: group for group in report.groups}
        self._kernels = {}
        for kernel in report.kernels:
            of = [self._groups[name] for name in kernel.groups if name in self._groups]
            if of:
                self._kernels[kernel.name] = (kernel.block, of)
        self._by_name: dict[tuple[str, str | None], list[Group]] = {}
        for group in report.groups:
            if group.specialisation == 1:
                self._by_name.setdefault((nnc_name(group), group.phase), []).append(group)
        ours = [one for one in report.groups if one.kind == "oneDNNFusionGroup" and one.specialisation == 1]
        self._partitions = ours if len(ours) == 1 else [group for group in ours for _ in group.instances]
        names = {unit.name for unit in units if _PARTITION.match(unit.name)}
        in_order = sorted(names, key=in_natural_order)
        self._numbered = {name: number for number, name in enumerate(in_order)}
        self._known: dict[tuple[str, str], list[Group]] = {}
        self._turn: dict[_Spot, int] = {}
        self._runs = Counter(_spot(unit) for unit in units)

    def row(self, unit: Unit) -> int | None:
        """The index of the row of an operator outside groups; None where none or several could be it.

        Several on one line of the program run in turn, as often as the report has them.
        """
        found: list[_Line] = [
            *self._rows.get((unit.name, unit.phase), ()),
            *self._rows.get((unit.name, None), ()),
        ]
        frames = unit.place.frames
        if frames:
            found = [one for one in found if one.source == frames[0]] or [
                one for one in found if one.user_source is not None and one.user_source in frames
            ]
        layer = unit.place.layer
        if len(found) > 1 and layer is not None:
            found = [one for one in found if layer in one.row.layers] or found
        if len(found) < 2:
            return found[0].index if found else None
        spot, turn = self._next(unit)
        counts = {one.row.count for one in found}
        if len(counts) > 1 or self._runs[spot] != counts.pop() * len(found):
            return None
        return found[turn % len(found)].index

    def _next(self, unit: Unit) -> tuple[_Spot, int]:
        """The spot of a unit, and how many of it came before."""
        spot = _spot(unit)
        turn = self._turn.get(spot, 0)
        self._turn[spot] = turn + 1
        return spot, turn

    def groups(self, unit: Unit) -> Sequence[tuple[Group, float]]:
        """The groups that a run of a group may be, with the share of its time that each gets: one group, or
        those that share a compiled kernel."""
        for one in unit.launched:
            match = _KERNEL.match(one.name)
            block, of = self._kernels.get(match[1], (None, [])) if match else (None, [])
            if of and (block is None or not one.block or one.block == tuple(block)):
                same = [group for group in of if group.phase in (None, unit.phase)] or of
                total = sum(group.count for group in same)
                return [(group, group.count / total) for group in same]
        if _PARTITION.match(unit.name):
            return self._partition(unit)
        return self._named(unit)

    def _partition(self, unit: Unit) -> Sequence[tuple[Group, float]]:
        """Partitions of oneDNN Graph are numbered as they are made, as groups are in a log."""
        if len(self._partitions) == 1:
            return [(self._partitions[0], 1.0)]
        if unit.name not in self._numbered or len(self._numbered) != len(self._partitions):
            return ()
        return [(self._partitions[self._numbered[unit.name]], 1.0)]

    def _named(self, unit: Unit) -> Sequence[tuple[Group, float]]:
        """By the name that NNC gives the kernel: its operators. Several groups of that name run in the order
        in which they appeared, where each runs once a step."""
        key = (unit.name, unit.phase)
        if key not in self._known:
            self._known[key] = self._called(*key)
        found = self._known[key]
        if len(found) < 2:
            return [(group, 1.0) for group in found]
        if any(group.count > 1 for group in found):
            return ()
        spot, turn = self._next(unit)
        return [(found[turn], 1.0)] if self._runs[spot] == len(found) else ()

    def _called(self, called: str, phase: str) -> list[Group]:
        """The groups whose kernel has that name, whole or cut."""
        start = _HASH.sub("", called)
        return [
            group
            for (name, of_phase), of in self._by_name.items()
            if of_phase in (None, phase)
            and (name == called or (len(name) > len(called) > len(start) and name.startswith(start)))
            for group in of
        ]


_Spot = tuple[int, str, str, tuple[str, int] | None, str | None]
"""What units have in common that are told apart by their turn alone."""


def _spot(unit: Unit) -> _Spot:
    place = unit.place
    return unit.step, unit.phase, unit.name, place.frames[0] if place.frames else None, place.layer


def nnc_name(group: Group) -> str:
    """What NNC calls the kernel of a group before it is cut to 40 characters: ``fused_add_mul``
    (``generateNameForGraph``, torch/csrc/jit/passes/utils/subgraph_utils.cpp)."""
    names = [op[len("aten::") :] for op in group.ops if op.startswith("aten::")]
    return "_".join(["fused", *names])


def _position(text: str | None) -> tuple[str, int] | None:
    place = Source.parse(text)
    return (place.file, place.line) if place is not None else None


MATMUL = "matmul"
CONVOLUTIONS = "convolutions"
COPIES = "views and copies"
GRADIENTS = "gradients added up"
OTHERS = "other operators"
LAUNCHED = "kernels of no operator"
IDLE = "device idle"
HOST = "outside operators"

DISTURBED = 1.1
"""A step that the profiler makes longer than by this factor is disturbed."""
MOST_LAYERS = 40
_TF32_SINCE = (8, 0)
"""Compute capability of the first GPUs with it (Ampere)."""
_LARGE = 0.25
"""Share of a step above which a kind of work is worth a hint."""

_MATMUL = of(Kind.MATMUL)
_COPIES = of(Kind.VIEW | Kind.COPIES)
_FLOAT32_GEMM = re.compile(r"sgemm|f32f32_f32f32")
_TENSOR_CORES = re.compile(r"tf32|s1688|fp16|bf16|f16")


def with_step_times(report: Report, trace: Trace, told: Profiled) -> Report:
    """The report with ``steps``, and with ``time`` on its groups and unfused operators."""
    work = _work(trace, told.device)
    if work is None:
        return replace(report, steps_note=NO_DEVICE_TIMES)
    on_gpu, cost, kinds, busy, scale = work.on_gpu, work.cost, work.kinds, work.busy, work.scale
    ties = _ProfileTies(report, trace.units)
    layers: dict[str, float] = {}
    groups: dict[str, float] = {}
    rows: dict[int, float] = {}
    unmatched = 0.0
    slow = 0.0
    for unit in trace.units:
        ms = cost(unit)
        kind = kind_of(unit)
        if kind == MATMUL:
            slow += sum(one.ms for one in unit.launched if _in_float32(one))
        tied = ties.groups(unit) if unit.group else ()
        for group, part in tied:
            groups[group.id] = groups.get(group.id, 0.0) + ms * part
            for instance in group.instances:
                if instance.layer is not None:
                    one = ms * part / group.count
                    layers[instance.layer] = layers.get(instance.layer, 0.0) + one
        row = None if unit.group else ties.row(unit)
        if row is not None:
            rows[row] = rows.get(row, 0.0) + ms
        elif not tied and kind in (GROUPS, FUSIBLE):
            unmatched += ms
        if unit.place.layer is not None and not unit.group:
            layers[unit.place.layer] = layers.get(unit.place.layer, 0.0) + ms
    whole = trace.ms / trace.steps

    def time(ms: float | None, fusing: float | None = None) -> Time | None:
        if ms is None:
            return None
        ms *= scale
        return Time(_short(ms), _short(ms / whole), None if fusing is None else _short(ms * fusing))

    savings = saving_share(report, {row: ms * scale for row, ms in rows.items()}, told.gb_per_s)
    unfused = tuple(
        replace(row, time=time(rows.get(index), savings.get(index) if _could_fuse(row.op) else None))
        for index, row in enumerate(report.unfused)
    )
    saved = [row.time.could_save_ms for row in unfused if row.time and row.time.could_save_ms is not None]
    ratio = whole / told.unprofiled_ms if told.unprofiled_ms else None
    capability = report.environment.get("capability")
    without_tf32 = _without_tf32(kinds, whole, slow * scale, told.device, told.allow_tf32, capability)
    steps = Steps(
        ms=_short(whole),
        device_ms=_short(busy / trace.steps) if on_gpu else None,
        busy=_short(min(1.0, busy / trace.ms)) if on_gpu and trace.ms else None,
        parts=_parts(kinds, whole),
        steps=trace.steps,
        unprofiled_ms=told.unprofiled_ms,
        disturbed=ratio is not None and not 1 / DISTURBED <= ratio <= DISTURBED,
        could_save_ms=_short(sum(saved)) if saved else None,
        layers=_parts({name or "(the model itself)": ms * scale for name, ms in layers.items()}, whole)[
            :MOST_LAYERS
        ],
        unmatched_ms=_short(unmatched * scale),
        hint=_hint(without_tf32),
        without_tf32=without_tf32,
        gb_per_s=told.gb_per_s,
    )
    timed = tuple(replace(group, time=time(groups.get(group.id))) for group in report.groups)
    return replace(report, steps=steps, steps_note=_note(steps), groups=timed, unfused=unfused)


@dataclass(frozen=True)
class StepParts:
    """Where the time of a step goes, without a report to tie it to."""

    parts: tuple[Part, ...]
    """Kinds of work, longest first; together they are the step."""
    hint: str | None
    """What would help more than fusion."""


def parts_of(
    trace: Trace, device: str | None, allow_tf32: bool | None = None, capability: str | None = None
) -> StepParts | None:
    """None where the profiler has no times of the GPU, ``device`` being "cuda"."""
    work = _work(trace, device)
    if work is None:
        return None
    whole = trace.ms / trace.steps
    products = (unit for unit in trace.units if kind_of(unit) == MATMUL)
    slow = sum(one.ms for unit in products for one in unit.launched if _in_float32(one)) * work.scale
    share = _without_tf32(work.kinds, whole, slow, device, allow_tf32, capability)
    return StepParts(_parts(work.kinds, whole), _hint(share))


@dataclass(frozen=True)
class _Work:
    """What the units of a trace took."""

    on_gpu: bool
    cost: Callable[[Unit], float]
    """Milliseconds of a unit, of all steps."""
    kinds: Mapping[str, float]
    """Milliseconds of a step, by kind of work; idle time included."""
    busy: float
    """Milliseconds of all steps in which anything ran."""
    scale: float
    """From ``cost`` to milliseconds of a step."""


def _work(trace: Trace, device: str | None) -> _Work | None:
    on_gpu = trace.busy_ms is not None and device != "cpu"
    if device == "cuda" and not on_gpu:
        return None
    cost = _device if on_gpu else _host
    kinds: dict[str, float] = {}
    for unit in trace.units:
        kind = kind_of(unit)
        kinds[kind] = kinds.get(kind, 0.0) + cost(unit)
    if on_gpu and trace.elsewhere:
        kinds[LAUNCHED] = sum(one.ms for one in trace.elsewhere)
    # Kernels of several streams overlap: the parts together are the time in which any of them ran.
    spent = sum(kinds.values())
    busy = trace.busy_ms if on_gpu and trace.busy_ms is not None else min(spent, trace.ms)
    scale = busy / spent / trace.steps if spent else 0.0
    kinds = {kind: ms * scale for kind, ms in kinds.items()}
    kinds[IDLE if on_gpu else HOST] = max(0.0, (trace.ms - busy) / trace.steps)
    return _Work(on_gpu, cost, kinds, busy, scale)


def groups_of_units(report: Report, trace: Trace) -> dict[int, tuple[Group, ...]]:
    """The groups that the units of a trace are, by the index of the unit's event."""
    ties = _ProfileTies(report, trace.units)
    tied = {unit.event: ties.groups(unit) for unit in trace.units if unit.group}
    return {event: tuple(group for group, _ in found) for event, found in tied.items() if found}


NO_DEVICE_TIMES = (
    "the profiler has no times of the GPU here (CUPTI is missing or not permitted), so it is not known where"
    " the time of a step goes; what could fuse is ranked by bytes"
)


def kind_of(unit: Unit) -> str:
    """The kind of work that a unit is."""
    if unit.group:
        return GROUPS
    if unit.name == ACCUMULATE:
        return GRADIENTS
    if unit.node == OPTIMIZER:
        return OPTIMIZER
    return _kind_of_operator(unit.name)


def _kind_of_operator(op: str) -> str:
    """The kind of work that an operator outside groups is, by its name."""
    plain = op[:-1] if op.endswith("_") and not op.endswith("__") else op
    if plain in _MATMUL or op in _MATMUL:
        return MATMUL
    if "convolution" in op or plain.startswith("aten::conv"):
        return CONVOLUTIONS
    if op in _COPIES or plain in _COPIES:
        return COPIES
    if plain not in LIBRARY and (is_fusible(op) or is_fusible(plain)):
        return FUSIBLE
    return OTHERS


def _could_fuse(op: str) -> bool:
    return _kind_of_operator(op) == FUSIBLE


def _device(unit: Unit) -> float:
    return unit.device_ms


def _host(unit: Unit) -> float:
    return unit.host_ms


def _in_float32(one: Launched) -> bool:
    return bool(_FLOAT32_GEMM.search(one.name)) and not _TENSOR_CORES.search(one.name)


def _short(value: float) -> float:
    return round(value, 6)


def _parts(found: Mapping[str, float], whole: float) -> tuple[Part, ...]:
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return tuple(Part(what, _short(ms), _short(ms / whole)) for what, ms in ordered if ms > 0)


def _note(steps: Steps) -> str | None:
    if not steps.disturbed or steps.unprofiled_ms is None:
        return None
    text = f"a profiled step takes {steps.ms:.3g} ms, one without the profiler {steps.unprofiled_ms:.3g} ms"
    if steps.ms < steps.unprofiled_ms:
        return f"disturbed by something else on this machine: {text}"
    return f"disturbed: {text}" + (", so the device is idle less than shown" if steps.busy else "")


def _without_tf32(
    kinds: Mapping[str, float],
    whole: float,
    slow: float,
    device: str | None,
    allow_tf32: bool | None,
    capability: str | None,
) -> float | None:
    """The share of a step that float32 matrix products without TF32 take, where that is much and this GPU has
    TF32; else None.

    Args:
        slow: milliseconds of these products.
    """
    if device != "cuda" or slow < _LARGE * whole or allow_tf32 or slow < max(kinds.values()) / 2:
        return None
    numbers = whole_numbers(re.findall(r"[0-9]+", capability or "")[:2])
    return slow / whole if tuple(numbers) >= _TF32_SINCE else None


def slow_products(share: float) -> str:
    """That matrix products take so much of a step, in words."""
    return f"float32 matrix products without TF32 take {share:.0%} of the step, which no fusion changes"


def _hint(share: float | None) -> str | None:
    """What would help more than fusion."""
    if share is None:
        return None
    return (
        f"{slow_products(share)}:"
        " torch.backends.cuda.matmul.allow_tf32 = True, or torch.set_float32_matmul_precision('high'), lets"
        " this GPU multiply them several times faster, with 10 bits of mantissa"
    )
