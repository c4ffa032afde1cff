"""From the arguments of a command to a finished report: logs, captures, saved
reports. Starts no process."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fusiondoc.captures.capture import REQUEST, Capture
from fusiondoc.captures.ending import ended_early
from fusiondoc.captures.probe_records import (
    Environment,
    KnobSetting,
    Loaded,
    PassDone,
)
from fusiondoc.captures.store import is_latest
from fusiondoc.captures.trust import (
    is_own,
    kept_source,
    project_root,
    read_source,
    text_of,
)
from fusiondoc.diagnosis.commands import without_commands_of_others
from fusiondoc.diagnosis.diagnose import diagnose
from fusiondoc.diagnosis.of_fusers import with_compiled
from fusiondoc.diagnosis.ranks_compared import ranks_of
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.speed_of_light import with_speed_of_light
from fusiondoc.errors import FusiondocError, UsageError
from fusiondoc.fusers.aot import AOT
from fusiondoc.fusers.te import TE
from fusiondoc.masking import masked, masked_in
from fusiondoc.model import dataclass
from fusiondoc.model.report import Evidence, Report
from fusiondoc.model.runs import (
    FuserState,
    Iteration,
    KnobState,
    Peak,
    Ranks,
)
from fusiondoc.model.source import Options, Target
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.observed import Observed
from fusiondoc.parsers.read import read_logs
from fusiondoc.parsers.rows import excerpts
from fusiondoc.reports.json_format import read_report
from fusiondoc.runner import peak_of
from fusiondoc.workflows import (
    ReportSource,
    SourceKind,
    is_capture,
    logs_in,
    logs_of,
    named_json,
    saved_bytes,
    source_of,
    sources_of,
)
from fusiondoc.workflows.rank_captures import (
    compared,
    rank_logs,
    ranks_of_captures,
    ranks_stated_by_log,
)
from fusiondoc.workflows.refused_logs import refuse_what_is_no_log


def log_from(arguments: Sequence[str], peak: float | None = None) -> Report:
    """As ``report_from``, for a report that is compared with expectations.

    Raises:
        UsageError: the arguments name logs, and none of their lines comes from
            torch.
    """
    sources = sources_of(arguments)
    report = _report(sources, peak, ())
    refuse_what_is_no_log(sources, report, empty=False)
    return report


def report_from(
    arguments: Sequence[str],
    peak: float | None = None,
    source_roots: Sequence[Path] = (),
) -> Report:
    """Return the report of the arguments: logs, captures (a folder, or a name), a
    saved report, "-" for stdin; without arguments, of the newest capture.

    Args:
        peak: memory bandwidth in GB/s that the user gave.
        source_roots: folders beside the project whose Python files may be shown.
    """
    return _report(sources_of(arguments), peak, source_roots)


def failure_of_run(arguments: Sequence[str]) -> FusiondocError | None:
    """Return the error of the run whose capture the arguments name; None if it went
    well, or if they name logs.

    Raises:
        UsageError: they name captures of several runs: logs count as parts of one
            run, so a group lost in one run would be found in another.
    """
    sources = sources_of(arguments)
    captures = []
    for source in sources:
        if source.kind is SourceKind.CAPTURE:
            captures.append(source.capture())
    for source in sources:
        if (
            source.kind is SourceKind.LOG
            and source.path is not None
            and source.path.is_dir()
        ):
            for path in sorted(source.path.iterdir()):
                if is_capture(path):
                    captures.append(Capture(path))
    if len(captures) > 1 and not all(capture.ranks for capture in captures):
        first, second = (capture.name for capture in captures[:2])
        raise UsageError(
            f"{first}, {second}{' and others' * (len(captures) > 2)} are captures of runs of their own",
            "Check each by itself: a group that one run lost would be found in the other.",
        )
    return next(filter(None, (capture.failure() for capture in captures)), None)


def with_facts(arguments: Sequence[str]) -> tuple[Report, Observed]:
    """As ``report_from``, and also return the facts observed in the logs. For a
    saved report, read the capture it was made from, or else its logs.

    Raises:
        UsageError: neither is there.
    """
    sources = sources_of(arguments)
    if len(sources) == 1 and sources[0].kind is SourceKind.REPORT:
        saved = report_from(arguments)
        made_of = saved.target.capture
        if made_of is not None:
            named = [made_of]
        else:
            named = [log.name for log in logs_behind(saved)]
        if not named or not all(Path(name).exists() for name in named):
            raise UsageError(
                f"{sources[0].text} is a saved report, and what it was made of is not here",
                "Name the capture or log itself.",
            )
        sources = sources_of(named)
    if all(source.kind is SourceKind.CAPTURE for source in sources):
        first, *others = (source.capture() for source in sources)
        parsed = parse_capture(first, others)
        return report_of(first, parsed=parsed, others=others), parsed.observed
    return report_of_log_sources(sources)


def side(argument: str) -> Report:
    """The report that an argument of a comparison names; its name is the argument,
    with the logs or capture that it was made of.

    Raises:
        UsageError: there is no such thing, or it cannot be read.
    """
    source = source_of(argument)
    report = _report([source], None, ())
    refuse_what_is_no_log([source], report, empty=True)
    name = "stdin" if argument == "-" else argument
    if is_latest(argument) and source.path is not None:
        name = source.path.name
    inner = report.target.name
    has_own_name = named_json(argument) or report.target.of_capture
    if has_own_name and inner and inner != argument:
        name += f" ({inner})"
    return replace(report, target=replace(report.target, name=name))


def with_peak(report: Report, peak: float) -> Report:
    """Return the report with its kernels compared to another peak memory bandwidth,
    in GB/s."""
    return with_speed_of_light(replace(report, peak=Peak(peak, "given")))


def _report(
    sources: Sequence[ReportSource],
    peak: float | None,
    source_roots: Sequence[Path],
) -> Report:
    first = sources[0]
    if len(sources) > 1 and all(
        source.kind is SourceKind.CAPTURE for source in sources
    ):
        captures = [source.capture() for source in sources]
        if all(capture.ranks for capture in captures):  # of several machines
            return report_of(
                captures[0], peak, source_roots=source_roots, others=captures[1:]
            )
    if len(sources) == 1 and first.path is not None:
        if first.kind is SourceKind.CAPTURE:
            return report_of(first.capture(), peak, source_roots=source_roots)
        if first.kind is SourceKind.REPORT:
            saved = _without_secrets(
                read_report(saved_bytes(first.text, first.path), first.text)
            )
            saved = without_commands_of_others(saved, first.text)
            if peak is None:
                return saved
            return with_peak(saved, peak)
    return report_of_log_sources(sources, peak, source_roots)[0]


def report_of_log_sources(
    sources: Sequence[ReportSource],
    peak: float | None = None,
    source_roots: Sequence[Path] = (),
) -> tuple[Report, Observed]:
    """Return the report of logs of one run that belong to no capture, and the facts
    observed in the logs."""
    logs, first = logs_of(sources), sources[0]
    report, observed = read_logs(logs, work_out=Reasons())
    given = None
    if len(sources) == 1 and first.path is not None and first.path.is_dir():
        given = first.text
    return report_of_logs(
        report, observed, logs, peak, source_roots, given
    ), observed


def report_of_logs(
    report: Report,
    observed: Observed,
    logs: Sequence[LogInput],
    peak: float | None,
    source_roots: Sequence[Path],
    folder: str | None = None,
) -> Report:
    """The report of parsed logs that belong to no capture, with findings, plan and
    coverage. ``folder``: the folder of the logs, if a folder was named."""
    report = with_compiled(report, observed, None)
    report = replace(
        report,
        ranks=ranks_of(report, ranks_stated_by_log(observed)),
        target=Target(
            ", ".join(log.name for log in logs[:3]),
            logs=len(logs),
            logs_in=folder or _folder_of(logs),
        ),
        peak=peak_of(Environment(), None, peak),
        texts=LogTexts(logs, None, source_roots),
    )
    return _without_secrets(diagnose(report, Context(observed)))


def _folder_of(logs: Sequence[LogInput]) -> str | None:
    """The folder that holds exactly these logs, with its name in reports; None for
    one log, or if there is no such folder."""
    paths = set()
    for log in logs:
        if log.path is not None:
            paths.add(str(log.path))
    if len(logs) < 2 or len(paths) != len(logs):
        return None
    try:
        folder = (
            os.path.commonpath([str(Path(path).parent) for path in paths]) or "."
        )
        there = {os.path.normpath(str(log.path)) for log in logs_in(folder)}
    except (
        UsageError,
        ValueError,
        OSError,
    ):  # absolute and relative names, or other drives
        return None
    if there == {os.path.normpath(path) for path in paths}:
        return folder
    return None


def _without_secrets(report: Report) -> Report:
    """The report with secrets masked in all text that comes from the program or the
    user; text that only a compiler prints (groups, programs, kernels) is left as it
    is."""
    kept = ("groups", "programs", "kernels")
    named = []
    for field in fields(report):
        if field.metadata.get("json", True):
            named.append(field.name)
    return replace(
        report,
        **{
            name: masked_in(getattr(report, name))
            for name in named
            if name not in kept
        },
    )


def logs_behind(report: Report) -> tuple[LogInput, ...]:
    """The logs that a report was made from; for a saved report, those that it names
    and that are regular files here."""
    if isinstance(report.texts, LogTexts):
        return report.texts.logs
    named: dict[str, None] = {}
    for group in report.groups:
        for evidence in group.evidence:
            named[evidence.file] = None
    logs = []
    for name in named:
        if _is_log(Path(name)):
            logs.append(LogInput(name, Path(name)))
    return tuple(logs)


def _is_log(path: Path) -> bool:
    """True for a file with content: not a pipe, a device, or a file of /proc, whose
    size is 0."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


@dataclass(frozen=True)
class ParsedLog:
    """The parsed log of a capture, without the facts of the capture's other
    files."""

    report: Report
    observed: Observed
    logs: tuple[LogInput, ...]


def parse_capture(capture: Capture, others: Sequence[Capture] = ()) -> ParsedLog:
    """Read the log of a capture, or those of its ranks and of the ranks that
    ``others`` hold."""
    shown = _shown(capture)
    logs = []
    for name in capture.log_names:
        logs.append(LogInput(str(shown / name), capture.path / name))
    if capture.ranks:
        captures = (capture, *others)
        logs = rank_logs(captures, [str(_shown(capture)) for capture in captures])
    run_records = capture.records
    report, observed = read_logs(
        logs,
        {**run_records.source_map, **run_records.aot.source_map},
        work_out=Reasons(
            run_records.fuser.effective
            if not run_records.switches.fuser_off_before
            else None,
            run_records.environment.texts.get("torch"),
            _fuser_off(capture),
            "the program had switched the fuser off"
            if run_records.switches.fuser_off_in_run
            else None,
        ),
        layers=run_records.layers,
        phases=run_records.aot.phases,
    )
    compilation = run_records.compiled.with_log(observed.compilation)
    observed = replace(observed, compilation=compilation)
    return ParsedLog(report, observed, tuple(logs))


def _made_by(capture: Capture) -> dict[str, str]:
    """The versions of fusiondoc and of the program that made a capture, and the
    machine."""
    request = capture.request
    texts = {
        "fusiondoc": request.fusiondoc,
        "commit": request.commit,
        "host": request.host,
    }
    return {name: text for name, text in texts.items() if text}


def _fuser_off(capture: Capture) -> str | None:
    """The switch that turned the fuser of a run off, as the reason of its
    operators."""
    if capture.records.switches.fuser_off_before:
        return "this process had the fuser off before the block began"
    variable = capture.request.off_by_variable(capture.records.fuser.effective)
    if variable is None:
        return None
    return f"{variable} is set, which switches the fuser off"


def report_of(
    capture: Capture,
    peak: float | None = None,
    parsed: ParsedLog | None = None,
    source_roots: Sequence[Path] = (),
    others: Sequence[Capture] = (),
) -> Report:
    """Return the report of a capture: from its log and from the probe's records.

    Args:
        peak: memory bandwidth in GB/s that the user gave.
        parsed: the log, if it has been read already.
        source_roots: folders beside the project whose Python files may be shown.
        others: captures of the same run on other machines, with ranks of their own.
    """
    # Only here: a log alone has none of it, so its report does not wait for these
    # imports.
    from fusiondoc.diagnosis.aot_functions import aot_functions, script_run
    from fusiondoc.diagnosis.of_fusers.te_report import te_report
    from fusiondoc.workflows.fuser_by_itself import own_fuser
    from fusiondoc.workflows.speed import speed_of, with_profile

    parsed = parsed or parse_capture(capture, others)
    run_records = capture.records
    report = with_compiled(
        parsed.report, parsed.observed, run_records.fuser.requested
    )
    report = replace(
        report,
        environment={**run_records.environment.texts, **_made_by(capture)},
        fuser=_fuser(report.fuser, capture),
        peak=peak_of(run_records.environment, capture.peak, peak),
        knobs=tuple(map(_knob, run_records.knobs)),
        iterations=_timed(report.iterations, run_records.passes),
        ranks=_ranks(report, capture, others),
        verification=compared((capture, *others)) or run_records.verification,
        tries=capture.tries,
        texts=LogTexts(parsed.logs, capture, source_roots),
        timing={
            "child": capture.result.seconds.child,
            "overhead": capture.result.seconds.overhead,
            "parse": report.parse.seconds,
        },
        target=_target(capture),
    )
    reached = bool(report.unfused or parsed.observed.headers)
    report = replace(report, script=script_run(run_records.script, report, reached))
    speed, note = speed_of(capture, report)
    report = replace(
        report,
        speed=speed,
        speed_note=note,
        frontend=run_records.frontend.effective
        or (AOT.name if run_records.aot.sites else report.frontend),
        aot=aot_functions(run_records.aot, report),
        fused_modules=run_records.aot.modules,
    )
    report = with_profile(report, capture)
    if run_records.frontend.effective == TE.name or run_records.te.plans:
        report = te_report(report, run_records.te, run_records.frontend.requested)
    report = replace(
        report, fuser=replace(report.fuser, by_itself=own_fuser(report, capture))
    )
    return _without_secrets(diagnose(report, _context(capture, parsed.observed)))


def _target(capture: Capture) -> Target:
    request = capture.request
    return Target(
        capture.label,
        _frozen(capture.records.target),
        request.command,
        request.options if request.options != Options() else None,
        request.environment_set,
        str(_shown(capture)),
        request.cwd,
        model=request.model,
    )


def _ranks(
    report: Report, capture: Capture, others: Sequence[Capture]
) -> Ranks | None:
    """The processes of a run that a launcher started."""
    if not capture.request.options.launcher:
        return None
    return ranks_of(report, ranks_of_captures((capture, *others)))


def _context(capture: Capture, observed: Observed) -> Context:
    """Return the facts of a run, beside its report, that the rules of the diagnosis
    use."""
    run_records, ending = capture.records, capture.ending
    return Context(
        observed,
        capture.request,
        is_own(capture.path, REQUEST),
        ending.result,
        ending.records.error,
        capture.rerun,
        capture.fault,
        run_records.left,
        capture.left_later,
        capture.fixes,
        run_records.switches,
        run_records.redirected,
        run_records.te,
        finished=ending.records.done is not None and ending.records.error is None,
        ended_early=ended_early(ending.result, ending.records),
        graph_breaks=run_records.aot.breaks,
        rank=ending.rank if ending is not capture else None,
    )


class LogTexts:
    """The texts that a report refers to, read when a renderer needs them: lines of
    its logs, and source files, first those that its capture kept."""

    def __init__(
        self,
        logs: Sequence[LogInput],
        capture: Capture | None = None,
        source_roots: Sequence[Path] = (),
    ) -> None:
        self.logs = tuple(logs)
        self._capture = capture
        self._source_roots = tuple(source_roots)
        self._sources: dict[str, str | None] = {}

    def source(self, file: str) -> str | None:
        """Return the copy in the capture, else the file on disk, relative to the
        current folder, if it belongs to the project."""
        if file not in self._sources:
            self._sources[file] = self._read(file)
        return self._sources[file]

    def _read(self, file: str) -> str | None:
        kept = None
        if self._capture is not None:
            kept = kept_source(self._capture.path, file)
        if kept is not None:
            return masked(kept)
        roots = (project_root(Path.cwd()), *self._source_roots)
        found = (
            read_source(path, roots)
            for path in (Path(file), *(root / file for root in self._source_roots))
        )
        data = next((one for one in found if one is not None), None)
        if data is None:
            return None
        return masked(text_of(data))

    def is_elsewhere(self, file: str) -> bool:
        """True if it is a Python file on disk that ``source`` does not return."""
        return (
            file.endswith(".py")
            and self.source(file) is None
            and Path(file).is_file()
        )

    def log(
        self, lines: Iterable[Evidence], graphs: Iterable[Evidence]
    ) -> Mapping[Evidence, str]:
        """Return these lines of the logs, which are read once more."""
        return masked_in(excerpts(self.logs, lines, graphs))


def _frozen(target: Loaded) -> str | None:
    """ "fusiondoc" or "program", whichever froze the module; None if neither did, or
    if it is not known."""
    if not target.frozen:
        return None
    if target.frozen_here:
        return "fusiondoc"
    return "program"


def _shown(capture: Capture) -> Path:
    """The folder's name in a report."""
    if capture.shown is not None:
        return capture.shown
    try:
        return capture.path.resolve().relative_to(Path.cwd())
    except ValueError:
        return capture.path


def _fuser(seen: FuserState, capture: Capture) -> FuserState:
    """The probe records which switches were set; groups in the log prove which
    worked."""
    switch = capture.records.fuser
    requested = switch.requested or capture.request.options.fuser
    return FuserState(
        requested, seen.effective or switch.effective, switch.live, switch.why
    )


def _knob(setting: KnobSetting) -> KnobState:
    def text(value: Any) -> str | None:
        if value is None:
            return None
        return str(value)

    return KnobState(
        setting.name, text(setting.requested), text(setting.effective), setting.live
    )


def _timed(
    iterations: tuple[Iteration, ...], passes: Sequence[PassDone]
) -> tuple[Iteration, ...]:
    """The iterations that the log marks, with the seconds that the probe
    measured."""
    seconds = {(done.index, done.phase): done.seconds for done in passes}
    timed = []
    for iteration in iterations:
        timed.append(
            replace(
                iteration, seconds=seconds.get((iteration.index, iteration.phase))
            )
        )
    return tuple(timed)
