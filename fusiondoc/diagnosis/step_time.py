"""The time of a step: units of a profile matched to rows of the report (groups and
unfused operators), and to kinds of work."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from fusiondoc.captures.probe_records import Profiled
from fusiondoc.diagnosis.of_fusers.generated_kernels import (
    GeneratedKernels,
    least_ms,
    with_kernel_times,
    with_launches_as_units,
)
from fusiondoc.diagnosis.possible_savings import saving_share
from fusiondoc.diagnosis.profile_ties import GroupTies, RowTies
from fusiondoc.fusers import is_fusible
from fusiondoc.model import dataclass
from fusiondoc.model.at_bandwidth import AtBandwidth
from fusiondoc.model.bench import Part
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.runs import FUSIBLE, GROUPS, Steps, Time
from fusiondoc.numbers import whole_numbers
from fusiondoc.operators import LIBRARY, of
from fusiondoc.operators.kinds import OperatorKind
from fusiondoc.parsers.profiler_trace import ACCUMULATE, OPTIMIZER, Trace, Unit

MATMUL = "matmul"
CONVOLUTIONS = "convolutions"
COPIES = "views and copies"
GRADIENTS = "gradients added up"
OTHERS = "other operators"
LAUNCHED = "kernels of no operator"
IDLE = "device idle"
HOST = "outside operators"

DISTURBED = 1.1
"""A step that the profiler slows down or speeds up by more than this factor is
disturbed."""
MOST_LAYERS = 40
_TF32_SINCE = (8, 0)
"""Compute capability of the first GPUs with TF32 (Ampere)."""
_LARGE = 0.25
"""Share of a step above which a kind of work is worth a hint."""

_MATMUL = of(OperatorKind.MATMUL)
_COPIES = of(OperatorKind.VIEW | OperatorKind.COPIES)
_FLOAT32_GEMM = re.compile(r"sgemm|f32f32_f32f32")
_TENSOR_CORES = re.compile(r"tf32|s1688|fp16|bf16|f16")


def with_step_times(report: Report, trace: Trace, profiled: Profiled) -> Report:
    """Return the report with ``steps``, and with ``time`` on its groups and unfused
    operators."""
    kernels = GeneratedKernels(report)
    trace = with_launches_as_units(trace, kernels)
    work = _work(trace, profiled.device)
    if work is None:
        return replace(report, steps_note=NO_DEVICE_TIMES)
    report = with_kernel_times(report, trace, kernels, work.on_gpu)
    spent = _TimeSpent(report, trace, kernels)
    for unit in trace.units:
        spent.add(unit, work.cost(unit) * work.scale)
    savings = saving_share(report, spent.rows, profiled.gb_per_s)
    unfused = []
    for index, row in enumerate(report.unfused):
        saving = savings.get(index) if _could_fuse(row.op) else None
        unfused.append(replace(row, time=work.time(spent.rows.get(index), saving)))
    groups = [
        replace(group, time=work.time(spent.groups.get(group.id)))
        for group in report.groups
    ]
    capability = report.environment.get("capability")
    without_tf32 = _without_tf32(
        trace, work, profiled.device, profiled.allow_tf32, capability
    )
    layers = {name or "(the model itself)": ms for name, ms in spent.layers.items()}
    busy = None
    if work.on_gpu and trace.ms:
        busy = _short(min(1.0, work.busy / trace.ms))
    steps = Steps(
        ms=_short(work.step_ms),
        device_ms=_short(work.busy / trace.steps) if work.on_gpu else None,
        busy=busy,
        parts=_parts(work.kinds, work.step_ms),
        steps=trace.steps,
        unprofiled_ms=profiled.unprofiled_ms,
        disturbed=_disturbed(work.step_ms, profiled.unprofiled_ms),
        could_save_ms=_total_saving(unfused),
        layers=_parts(layers, work.step_ms)[:MOST_LAYERS],
        unmatched_ms=_short(spent.unmatched),
        hint=_hint(without_tf32),
        without_tf32=without_tf32,
        gb_per_s=profiled.gb_per_s,
        at_bandwidth=_at_bandwidth(trace, kernels, profiled.gb_per_s, work),
    )
    return replace(
        report,
        steps=steps,
        steps_note=_note(steps),
        groups=tuple(groups),
        unfused=tuple(unfused),
    )


def _at_bandwidth(
    trace: Trace, kernels: GeneratedKernels, gb_per_s: float | None, work: _Work
) -> AtBandwidth | None:
    found = least_ms(trace, kernels, gb_per_s, work.on_gpu)
    if found is None:
        return None
    return AtBandwidth(_short(found[0]), _short(found[1]))


class _TimeSpent:
    """Milliseconds of a step by row of the report and by module."""

    def __init__(
        self, report: Report, trace: Trace, kernels: GeneratedKernels
    ) -> None:
        self._kernels = kernels
        self._group_ties = GroupTies(report, trace.units)
        self._row_ties = RowTies(report, trace.units)
        self.groups: defaultdict[str, float] = defaultdict(float)
        """Id of the group -> milliseconds."""
        self.rows: defaultdict[int, float] = defaultdict(float)
        """Index in ``unfused`` -> milliseconds."""
        self.layers: defaultdict[str, float] = defaultdict(float)
        self.unmatched = 0.0
        """Milliseconds of groups and fusible operators that match no row."""

    def add(self, unit: Unit, ms: float) -> None:
        if unit.group:
            self._add_group(unit, ms)
            return
        row = self._row_ties.row(unit)
        if row is not None:
            self.rows[row] += ms
        elif kind_of(unit) == FUSIBLE:
            self.unmatched += ms
        if unit.origin.layer is not None:
            self.layers[unit.origin.layer] += ms

    def _add_group(self, unit: Unit, ms: float) -> None:
        kernel = self._kernels.of_unit(unit)
        if kernel is None:
            shares = self._group_ties.groups(unit)
        else:
            only = self._kernels.only_group(kernel)
            shares = [(only, 1.0)] if only is not None else []
        if not shares and kernel is None:
            self.unmatched += ms
        for group, share in shares:
            self.groups[group.id] += ms * share
            for instance in group.instances:
                if instance.layer is not None:
                    self.layers[instance.layer] += ms * share / group.count


def _disturbed(profiled_ms: float, unprofiled_ms: float | None) -> bool:
    """True if the profiler, or something else on the machine, changed the time of a
    step."""
    if not unprofiled_ms:
        return False
    return not 1 / DISTURBED <= profiled_ms / unprofiled_ms <= DISTURBED


def _total_saving(rows: Iterable[Unfused]) -> float | None:
    """Return the milliseconds of a step that fusing all rows could save; None if no
    row has such a figure."""
    saved = []
    for row in rows:
        if row.time and row.time.could_save_ms is not None:
            saved.append(row.time.could_save_ms)
    if saved:
        return _short(sum(saved))
    return None


@dataclass(frozen=True)
class StepParts:
    """The time of a step by kind of work, without a report to match."""

    parts: tuple[Part, ...]
    """Kinds of work, longest first; together they are the step."""
    hint: str | None
    """A change that would help more than fusion, in words."""


def parts_of(
    trace: Trace,
    device: str | None,
    allow_tf32: bool | None = None,
    capability: str | None = None,
) -> StepParts | None:
    """Return the parts of a step; None if ``device`` is "cuda" and the profiler has
    no times of the GPU."""
    work = _work(trace, device)
    if work is None:
        return None
    share = _without_tf32(trace, work, device, allow_tf32, capability)
    return StepParts(_parts(work.kinds, work.step_ms), _hint(share))


@dataclass(frozen=True)
class _Work:
    """The time that the units of a trace took."""

    on_gpu: bool
    cost: Callable[[Unit], float]
    """Returns the milliseconds of a unit, over all steps."""
    kinds: Mapping[str, float]
    """Milliseconds of a step by kind of work, idle time included."""
    busy: float
    """Milliseconds in which anything ran, over all steps."""
    scale: float
    """Factor from ``cost`` to milliseconds of a step."""
    step_ms: float
    """Milliseconds of a step, from its begin to its end."""

    def time(self, ms: float | None, saving: float | None = None) -> Time | None:
        """Return the ``time`` of a row.

        Args:
            ms: of a step.
            saving: share of it that fusing could save.
        """
        if ms is None:
            return None
        could_save = None if saving is None else _short(ms * saving)
        return Time(_short(ms), _short(ms / self.step_ms), could_save)


def _work(trace: Trace, device: str | None) -> _Work | None:
    """Return the times; None if the GPU was used and the profiler has no times of
    it."""
    on_gpu = trace.busy_ms is not None and device != "cpu"
    if device == "cuda" and not on_gpu:
        return None
    cost = _device_ms if on_gpu else _host_ms
    kinds: dict[str, float] = {}
    for unit in trace.units:
        kind = kind_of(unit)
        kinds[kind] = kinds.get(kind, 0.0) + cost(unit)
    if on_gpu and trace.elsewhere:
        kinds[LAUNCHED] = sum(launched.ms for launched in trace.elsewhere)
    # Kernels of several streams overlap: the parts together are the time in which
    # any of them ran.
    spent = sum(kinds.values())
    if on_gpu and trace.busy_ms is not None:
        busy = trace.busy_ms
    else:
        busy = min(spent, trace.ms)
    scale = busy / spent / trace.steps if spent else 0.0
    kinds = {kind: ms * scale for kind, ms in kinds.items()}
    kinds[IDLE if on_gpu else HOST] = max(0.0, (trace.ms - busy) / trace.steps)
    return _Work(on_gpu, cost, kinds, busy, scale, trace.ms / trace.steps)


NO_DEVICE_TIMES = (
    "the profiler has no times of the GPU here (CUPTI is missing or not permitted), so it is not known where"
    " the time of a step goes; what could fuse is ranked by bytes"
)


def kind_of(unit: Unit) -> str:
    """Return the kind of work of a unit."""
    if unit.group:
        return GROUPS
    if unit.name == ACCUMULATE:
        return GRADIENTS
    if unit.node == OPTIMIZER:
        return OPTIMIZER
    return _kind_of_operator(unit.name)


def _kind_of_operator(op: str) -> str:
    """Return the kind of work of an operator outside groups, by its name."""
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


def _device_ms(unit: Unit) -> float:
    return unit.device_ms


def _host_ms(unit: Unit) -> float:
    return unit.host_ms


def _float32_products_ms(trace: Trace) -> float:
    """Return the milliseconds, over all steps, of float32 matrix products that use
    no tensor cores."""
    ms = 0.0
    for unit in trace.units:
        if kind_of(unit) == MATMUL:
            for launched in unit.launched:
                if _FLOAT32_GEMM.search(launched.name) and not _TENSOR_CORES.search(
                    launched.name
                ):
                    ms += launched.ms
    return ms


def _short(value: float) -> float:
    return round(value, 6)


def _parts(found: Mapping[str, float], whole: float) -> tuple[Part, ...]:
    ordered = sorted(found.items(), key=lambda item: -item[1])
    parts = []
    for what, ms in ordered:
        if ms > 0:
            parts.append(Part(what, _short(ms), _short(ms / whole)))
    return tuple(parts)


def _note(steps: Steps) -> str | None:
    if not steps.disturbed or steps.unprofiled_ms is None:
        return None
    text = f"a profiled step takes {steps.ms:.3g} ms, one without the profiler {steps.unprofiled_ms:.3g} ms"
    if steps.ms < steps.unprofiled_ms:
        return f"disturbed by something else on this machine: {text}"
    return f"disturbed: {text}" + (
        ", so the device is idle less than shown" if steps.busy else ""
    )


def _without_tf32(
    trace: Trace,
    work: _Work,
    device: str | None,
    allow_tf32: bool | None,
    capability: str | None,
) -> float | None:
    """Return the share of a step that float32 matrix products without TF32 take, if
    it is large and this GPU has TF32; else None."""
    if device != "cuda" or allow_tf32:
        return None
    slow = _float32_products_ms(trace) * work.scale
    if slow < _LARGE * work.step_ms or slow < max(work.kinds.values()) / 2:
        return None
    numbers = whole_numbers(re.findall(r"[0-9]+", capability or "")[:2])
    if tuple(numbers) >= _TF32_SINCE:
        return slow / work.step_ms
    return None


def slow_products(share: float) -> str:
    """Return the share of a step that matrix products take, in words."""
    return f"float32 matrix products without TF32 take {share:.0%} of the step, which no fusion changes"


def _hint(share: float | None) -> str | None:
    """Return a change that would help more than fusion, in words."""
    if share is None:
        return None
    return (
        f"{slow_products(share)}:"
        " torch.backends.cuda.matmul.allow_tf32 = True, or torch.set_float32_matmul_precision('high'), lets"
        " this GPU multiply them several times faster, with 10 bits of mantissa"
    )
