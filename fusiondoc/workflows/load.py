"""From the arguments of a command to a finished report: logs, captures, or the newest capture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import Environment, KnobSetting, PassDone
from fusiondoc.captures.sources import kept_source, project_root, read_source, text_of
from fusiondoc.captures.store import CaptureStore
from fusiondoc.diagnosis.diagnose import diagnose
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.diagnosis.rules.context import Context
from fusiondoc.model.report import Evidence, FuserState, KnobState, Report
from fusiondoc.model.runs import Iteration
from fusiondoc.parsers.excerpts import excerpts
from fusiondoc.parsers.lines.log_files import LogInput, find_logs
from fusiondoc.parsers.observed import Observed
from fusiondoc.parsers.read import read_logs
from fusiondoc.workflows.peak import peak_of
from fusiondoc.workflows.speed import speed_of


def report_from(
    arguments: Sequence[str], peak: float | None = None, source_roots: Sequence[Path] = ()
) -> Report:
    """The report of logs and captures; of the newest capture without any.

    Args:
        peak: memory bandwidth in GB/s that the user gave.
        source_roots: folders beside the project whose Python files may be shown.
    """
    if not arguments:
        return report_of(CaptureStore().newest(), peak, source_roots=source_roots)
    if len(arguments) == 1 and is_capture(Path(arguments[0])):
        return report_of(Capture(Path(arguments[0])), peak, source_roots=source_roots)
    logs = find_logs(arguments)
    report, observed = read_logs(logs, work_out=Reasons())
    report = replace(
        report,
        target={"name": ", ".join(log.name for log in logs[:3])},
        peak=peak_of(Environment(), None, peak),
        texts=LogTexts(logs, None, source_roots),
    )
    return diagnose(report, Context(observed))


def is_capture(path: Path) -> bool:
    """Whether this is the folder of a capture."""
    return (path / "request.json").is_file()


@dataclass(frozen=True)
class ParsedLog:
    """What the log of a capture says, without what the capture's other files add."""

    report: Report
    observed: Observed
    logs: tuple[LogInput, ...]


def parse_capture(capture: Capture) -> ParsedLog:
    """Read the log of a capture."""
    log = capture.log_path
    logs = [LogInput(str(_relative(log)), log)] if log.exists() else []
    told = capture.records
    report, observed = read_logs(logs, told.source_map, work_out=Reasons(told.fuser.effective))
    return ParsedLog(report, observed, tuple(logs))


def report_of(
    capture: Capture,
    peak: float | None = None,
    parsed: ParsedLog | None = None,
    source_roots: Sequence[Path] = (),
) -> Report:
    """The report of a capture: what its log says, with what the probe recorded.

    Args:
        peak: memory bandwidth in GB/s that the user gave.
        parsed: the log, if it has been read already.
        source_roots: folders beside the project whose Python files may be shown.
    """
    parsed = parsed or parse_capture(capture)
    report, told = parsed.report, capture.records
    report = replace(
        report,
        environment=told.environment.texts,
        fuser=_fuser(report.fuser, capture),
        peak=peak_of(told.environment, capture.peak, peak),
        knobs=tuple(map(_knob, told.knobs)),
        iterations=_timed(report.iterations, told.passes),
        verification=told.verification,
        tries=capture.tries,
        texts=LogTexts(parsed.logs, capture.path, source_roots),
        timing={
            "child": capture.result.seconds.child,
            "overhead": capture.result.seconds.overhead,
            "parse": report.parse.seconds,
        },
        target={
            "name": capture.label,
            "command": list(capture.request.command),
            "options": capture.request.told_options(),
            "environment_set": capture.request.environment_set,
            "capture": str(_relative(capture.path)),
        },
    )
    speed, note = speed_of(capture, report)
    report = replace(report, speed=speed, speed_note=note)
    return diagnose(
        report, Context(parsed.observed, capture.request, capture.result, told.error, capture.rerun)
    )


class LogTexts:
    """The texts that a report refers to, read when a renderer asks: lines of its logs, and source files,
    those that its capture kept first."""

    def __init__(
        self, logs: Sequence[LogInput], capture: Path | None = None, source_roots: Sequence[Path] = ()
    ) -> None:
        self._logs = logs
        self._capture = capture
        self._source_roots = tuple(source_roots)
        self._sources: dict[str, str | None] = {}

    def source(self, file: str) -> str | None:
        """The copy in the capture, else the file on disk as seen from the current folder, if it is of the
        project."""
        if file not in self._sources:
            self._sources[file] = self._read(file)
        return self._sources[file]

    def _read(self, file: str) -> str | None:
        kept = kept_source(self._capture, file) if self._capture is not None else None
        if kept is not None:
            return kept
        data = read_source(Path(file), (project_root(Path.cwd()), *self._source_roots))
        return None if data is None else text_of(data)

    def log(self, lines: Iterable[Evidence], graphs: Iterable[Evidence]) -> Mapping[Evidence, str]:
        """Reads the logs once more."""
        return excerpts(self._logs, lines, graphs)


def _relative(path: Path) -> Path:
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path


def _fuser(seen: FuserState, capture: Capture) -> FuserState:
    """The probe says what was set; groups in the log prove what worked."""
    told = capture.records.fuser
    requested = told.requested or capture.request.options.fuser
    return FuserState(requested, seen.effective or told.effective, told.live, told.why)


def _knob(told: KnobSetting) -> KnobState:
    def text(value: Any) -> str | None:
        return None if value is None else str(value)

    return KnobState(told.name, text(told.requested), text(told.effective), told.live)


def _timed(iterations: tuple[Iteration, ...], passes: Sequence[PassDone]) -> tuple[Iteration, ...]:
    """The iterations that the log marks, with the seconds that the probe took."""
    seconds = {(one.index, one.phase): one.seconds for one in passes}
    return tuple(replace(one, seconds=seconds.get((one.index, one.phase))) for one in iterations)
