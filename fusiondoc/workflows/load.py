"""From the arguments of a command to a finished report: logs, captures, or the newest capture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.sources import kept_source, project_root, read_source, text_of
from fusiondoc.captures.store import CaptureStore
from fusiondoc.diagnosis.diagnose import diagnose
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.diagnosis.rules.context import Context
from fusiondoc.model.report import Evidence, FuserState, KnobState, Report
from fusiondoc.model.runs import Iteration, Try
from fusiondoc.parsers.excerpts import excerpts
from fusiondoc.parsers.lines.log_files import LogInput, find_logs
from fusiondoc.parsers.observed import Observed
from fusiondoc.parsers.read import read_logs
from fusiondoc.workflows.peak import peak_of
from fusiondoc.workflows.speed import speed_of
from fusiondoc.workflows.verification import verification


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
        peak=peak_of({}, None, peak),
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
    fuser = str(capture.record("fuser").get("effective") or "") or None
    report, observed = read_logs(logs, _sources(list(capture.records())), work_out=Reasons(fuser))
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
    report = parsed.report
    records = list(capture.records())
    result, request = capture.result, capture.request
    seconds = result.get("seconds") or {}
    report = replace(
        report,
        environment={k: str(v) for k, v in capture.environment.items() if v is not None and v != ""},
        fuser=_fuser(report.fuser, capture.record("fuser"), request),
        peak=peak_of(capture.environment, capture.peak, peak),
        knobs=tuple(_knob(r) for r in records if r["record"] == "knob"),
        iterations=_timed(report.iterations, records),
        verification=verification(records),
        tries=_tries(capture),
        texts=LogTexts(parsed.logs, capture.path, source_roots),
        timing={
            "child": seconds.get("child"),
            "overhead": seconds.get("overhead"),
            "parse": report.parse.seconds,
        },
        target={
            "name": (request.get("target") or {}).get("text") or capture.name,
            "command": request.get("command"),
            "options": request.get("options"),
            "environment_set": request.get("environment_set"),
            "capture": str(_relative(capture.path)),
        },
    )
    speed, note = speed_of(capture, report)
    report = replace(report, speed=speed, speed_note=note)
    return diagnose(report, Context(parsed.observed, result, request, capture.error, capture.rerun))


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


def _tries(capture: Capture) -> tuple[Try, ...]:
    """What ``--try`` kept; nothing if there were none, or the file is damaged."""
    kept = capture.tries
    try:
        return tuple(Try(**{**row, "codes": tuple(row["codes"])}) for row in (kept or {}).get("tries", ()))
    except (TypeError, KeyError):
        return ()


def _sources(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The probe's map of operators to the user's lines.

    Where all operators of a library line have one caller, that line alone is a key too: passes replace
    operators and keep their source.
    """
    sources: dict[str, str] = {}
    for record in records:
        if record["record"] == "source_map" and isinstance(record.get("map"), dict):
            sources.update(record["map"])
    callers: dict[str, set[str]] = {}
    for key, line in sources.items():
        callers.setdefault(key.partition("|")[2], set()).add(line)
    sources.update({f"|{source}": lines.pop() for source, lines in callers.items() if len(lines) == 1})
    return sources


def _relative(path: Path) -> Path:
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path


def _fuser(seen: FuserState, record: Mapping[str, Any], request: Mapping[str, Any]) -> FuserState:
    """The probe says what was set; groups in the log prove what worked."""
    requested = record.get("requested") or (request.get("options") or {}).get("fuser")
    effective = seen.effective or record.get("effective")
    return FuserState(requested, effective, record.get("live"), record.get("why"))


def _knob(record: Mapping[str, Any]) -> KnobState:
    def text(value: Any) -> str | None:
        return None if value is None else str(value)

    return KnobState(
        str(record.get("name")),
        text(record.get("requested")),
        text(record.get("effective")),
        record.get("live"),
    )


def _timed(iterations: tuple[Iteration, ...], records: Sequence[Mapping[str, Any]]) -> tuple[Iteration, ...]:
    """The iterations that the log marks, with the seconds that the probe took."""
    seconds = {
        (r.get("index"), r.get("phase")): r.get("seconds") for r in records if r["record"] == "iteration"
    }
    return tuple(replace(i, seconds=seconds.get((i.index, i.phase))) for i in iterations)
