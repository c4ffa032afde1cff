"""The facts of one run in a survey: its row, groups, reasons and kernels.

They come from the JSON of a saved report, or from a report that is made of a
capture or log.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fusiondoc.captures.model_identity import recorded_model
from fusiondoc.errors import UsageError
from fusiondoc.masking import masked
from fusiondoc.model import dataclass
from fusiondoc.model.report import SCHEMA, Group, Kernel, OpNode, Report, Unfused
from fusiondoc.model.runs import Steps
from fusiondoc.model.source import Source, Target, last_name
from fusiondoc.model.survey_answers import (
    RunRow,
    SavedGroup,
    SavedKernel,
    SavedReport,
    SavedSteps,
    SavedTarget,
    SavedUnfused,
)
from fusiondoc.model.typed_fields import json_within, sound
from fusiondoc.model.unfused_bytes import unfused_bytes
from fusiondoc.parsers.lines.log_files import CHUNK_BYTES, LogInput, content
from fusiondoc.reports.json_format import read_part
from fusiondoc.whole_files import open_regular
from fusiondoc.workflows import named_json, saved_bytes, source_of
from fusiondoc.workflows.archives import is_archive_name
from fusiondoc.workflows.survey_keys import (
    NS,
    GroupFact,
    GroupKey,
    KernelKey,
    ReasonFact,
    ReasonKey,
)
from fusiondoc.workflows.survey_listing import (
    DATE,
    OF_CAPTURE,
    UNKNOWN,
    ListedRun,
    at_hand,
    is_compressed,
    without_days,
)
from fusiondoc.workflows.survey_plans import (
    RunPlan,
    circumstances,
    plan_of,
    time_of,
)


def digest(path: Path, capture: bool) -> str:
    """Digest of the unpacked content; equal for two captures of the same request,
    records and log."""
    made = hashlib.blake2b(digest_size=16)
    for file in [path / name for name in OF_CAPTURE] if capture else [path]:
        with contextlib.suppress(FileNotFoundError):
            for block in _bytes_of(file):
                made.update(block)
        made.update(b"\0")
    return made.hexdigest()


def _bytes_of(file: Path) -> Iterator[bytes]:
    if is_compressed(file.name):
        yield from content(LogInput(file.name, file))
        return
    with open_regular(file) as opened:
        yield from iter(lambda: opened.read(CHUNK_BYTES), b"")


@dataclass(frozen=True)
class SurveyedRun:
    """The facts of one run."""

    row: RunRow
    groups: Mapping[GroupKey, GroupFact]
    reasons: Mapping[ReasonKey, ReasonFact]
    kernels: Mapping[KernelKey, int]
    """Median nanoseconds of a launch, on the slowest of its ranks."""
    plan: RunPlan
    time: str | None = None
    """Time of day, ``hh:mm:ss``."""


def facts_of(item: ListedRun) -> SurveyedRun:
    """Read the facts of one run.

    Raises:
        UsageError: it is no report, log or capture, or it is damaged.
        Exception: an error of a remote store or a damaged file.
    """
    with at_hand(item) as path:  # of a store: fetched once, for its digest too
        found = digest(path, item.capture)
        if not item.capture and named_json(item.name):
            return _facts(_saved(path), item, "report", found)
        from fusiondoc.workflows.load import report_from, report_of

        if item.capture or is_archive_name(path.name):
            capture = source_of(str(path)).capture()
            return _facts(
                report_of(capture), item, "capture", found, capture.request.created
            )
        report = report_from([str(path)])
        kind = "capture" if report.target.of_capture else "log"
        return _facts(report, item, kind, found)


def _saved(path: Path) -> SavedReport:
    data = saved_bytes(path.name, path)
    try:
        content = json_within(data)
        if _ESCAPED_HALF.search(data) is not None:
            content = sound(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not a complete JSON file: {error}") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"it is not a report: its schema is {str(schema)[:60]!r}")
    try:
        return read_part(SavedReport, content)
    except ValueError as error:
        raise UsageError(f"it is damaged: {error}") from None


_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""One half of a surrogate pair: a text with it cannot be encoded."""
_CAPTURED = re.compile(r"(?:^|[/\\])(\d{4})(\d\d)(\d\d)-\d{6}-")


def facts_of_report(report: Report, name: str, created: str) -> SurveyedRun:
    """Return the facts of a given report.

    Args:
        name: of the run, such as the path of its capture.
        created: when it was made, in ISO 8601.
    """
    return _facts(report, ListedRun(name, UNKNOWN), "report", "", created)


def _facts(
    report: Report | SavedReport,
    item: ListedRun,
    kind: str,
    content_digest: str,
    created: str | None = None,
) -> SurveyedRun:
    """Return the facts of a report; ``created``: when its capture was made."""
    target, name = report.target, item.name
    environment = {key: value or None for key, value in report.environment.items()}
    model = _model(target, item, kind)
    gpu = environment.get("gpu")
    groups = _Groups(model)
    for group in report.groups:
        groups.add(group)
    kernels, kernel_ns = _kernels(report.kernels, model, gpu, groups.kernel_names)
    reasons = _reasons(report.unfused)
    unfused_ns = sum(reason.ns for reason in reasons.values())
    row = RunRow(
        run=name,
        kind=kind,
        digest=content_digest,
        model=model,
        date=_date(target.capture or "", name, created),
        torch=environment.get("torch"),
        cuda=environment.get("cuda"),
        gpu=gpu,
        driver=environment.get("driver"),
        fuser=report.fuser.effective or None,
        groups=groups.instances,
        operators=groups.operators,
        unfused=sum(reason.nodes for reason in reasons.values()),
        fallbacks=sum(fallback.count for fallback in report.fallbacks),
        coverage=report.coverage.fraction,
        kernels=len(report.kernels),
        kernel_ms=kernel_ns / NS if kernels else None,
        unfused_bytes=unfused_bytes(report.unfused) or 0,
        unfused_ms=unfused_ns / NS if unfused_ns else None,
        errors=sum(finding.severity == "error" for finding in report.findings),
        step_ms=_step_ms(report.steps),
        **circumstances(report),
    )
    plan = plan_of(report, groups.facts, groups.nodes)
    time = time_of(target.capture or "", name, created)
    return SurveyedRun(row, groups.facts, reasons, kernels, plan, time)


def _step_ms(steps: Steps | SavedSteps | None) -> float | None:
    """Milliseconds of a step, without the profiler if known, as that makes a step
    longer."""
    if steps is None:
        return None
    if steps.unprofiled_ms is not None:
        return steps.unprofiled_ms
    return steps.ms


class _Groups:
    """The groups of one run; equal groups are counted as one."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self.facts: dict[GroupKey, GroupFact] = {}
        self.nodes: dict[GroupKey, Sequence[OpNode]] = {}
        self.kernel_names: dict[str, str] = {}
        """Id of a kernel -> the text of its group, and the kernel's number in the
        group."""
        self.instances = 0
        """Number of instances, of all specialisations."""
        self.operators = 0
        """Operators of the first specialisation, summed over instances."""

    def add(self, group: Group | SavedGroup) -> None:
        operators = tuple(node.op for node in group.nodes)
        lines = [_line(node) for node in group.nodes]
        positions = tuple(dict.fromkeys(line for line in lines if line is not None))
        key = GroupKey(self._model, group.phase or None, operators, positions)
        count = len(group.instances) + group.instances_left_out
        self.instances += count
        if group.specialisation == 1:
            self.operators += (len(operators) + group.nodes_left_out) * count
        self.nodes.setdefault(key, group.nodes)
        before = self.facts.get(key)
        if before is None:
            self.facts[key] = GroupFact(group.kind, count, group.fallback)
        else:
            more = count if group.specialisation == 1 else 0
            fell_back = before.fell_back or group.fallback
            self.facts[key] = GroupFact(group.kind, before.nodes + more, fell_back)
        for number, kernel in enumerate(group.kernels, 1):
            which = f", kernel {number}" if len(group.kernels) > 1 else ""
            self.kernel_names.setdefault(kernel, text_of(key) + which)


def _kernels(
    kernels: Iterable[Kernel | SavedKernel],
    model: str | None,
    gpu: str | None,
    names: Mapping[str, str],
) -> tuple[dict[KernelKey, int], int]:
    """Median nanoseconds of a launch by kernel, on the slowest of its ranks; and
    the sum over all kernels."""
    found: dict[KernelKey, int] = {}
    total = 0
    for kernel in kernels:
        if kernel.ms is None:
            continue
        key = KernelKey(model, gpu, names.get(kernel.id, kernel.name))
        ns = round(kernel.ms.median * NS)
        found[key] = max(ns, found.get(key, 0))
        total += ns
    return found, total


def _model(target: Target | SavedTarget, item: ListedRun, kind: str) -> str | None:
    """The model of the run: the part of its name that matches ``--model-from``,
    else the recorded model, else the target as named by the user, with its folders;
    for a log alone its folders."""
    if item.label is not None:
        return item.label
    if target.model:
        return masked(target.model)
    if not target.name:
        return None
    if target.options or target.capture:
        nameless = last_name(target.name) == last_name(target.capture or "")
        if nameless:
            return None
        return recorded_model(target.name, target.folder)
    if kind == "log":
        return item.folder
    # For a report of several logs: the folder of the first.
    folders = without_days(re.split(r"[/\\]", target.name.partition(", ")[0])[:-1])
    if folders is None:
        return None
    return masked(folders)


def _reasons(rows: Iterable[Unfused | SavedUnfused]) -> dict[ReasonKey, ReasonFact]:
    found: dict[ReasonKey, ReasonFact] = {}
    for row in rows:
        if row.ran is False:
            continue
        key = ReasonKey(row.reason.code, row.op)
        so_far = found.get(key, _NO_REASON)
        text = masked(row.reason.text[:200])
        ms = (row.time.ms or 0.0) if row.time is not None else 0.0
        found[key] = ReasonFact(
            text=min(text, so_far.text)
            if text and so_far.text
            else text or so_far.text,
            nodes=so_far.nodes + row.count,
            bytes=so_far.bytes + (row.bytes_moved or 0),
            ns=so_far.ns + round(ms * NS),
            keeps_out=so_far.keeps_out + (row.keeps_out or 0),
        )
    return found


_NO_REASON = ReasonFact("", 0, 0, 0, 0)


def _line(node: OpNode) -> str | None:
    """``file:line`` of an operator, without folders, which differ between
    machines."""
    text = node.user_source or node.source
    if text is None:
        return None
    source = Source.parse(text)
    return re.split(r"[/\\]", text if source is None else source.at_line)[-1]


def text_of(key: GroupKey) -> str:
    """``mul, add, relu (backward) at train.py:15``."""
    phase, ops, source_lines = key.phase, key.ops, key.source_lines
    names = [op.rpartition("::")[2] for op in ops]
    text = ", ".join(names[:5]) + (
        f" and {len(names) - 5} more" if len(names) > 5 else ""
    )
    if phase == "backward":
        text += " (backward)"
    own = [
        line for line in source_lines if not line.startswith("<string>")
    ] or list(source_lines)
    return text + (f" at {', '.join(own[:2])}" if own else "")


def _date(capture: str, name: str, created: str | None = None) -> str | None:
    found = _CAPTURED.search(capture) or _CAPTURED.search(name)
    for text in (created or "", name):
        found = found or DATE.search(text)
    if found is None:
        return None
    return "-".join(found.groups())


def preference(name: str) -> tuple[bool, str]:
    """Sort key for files with the same content: the least is kept. A path that
    names the day is preferred."""
    return _date("", name) is None, name
