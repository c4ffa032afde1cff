"""Whether the fuser or the program caused the error of a run: run it again without
the fuser, and once more with it.

If only the fused run fails, the fuser is at fault. Then groups run alone, those
first whose results were read where it failed, until one fails too, and that one is
made smaller; and settings that may avoid the error are run, each with its results
held against eager.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.fuser_fault import Blame, FailingGroup, FuserFault
from fusiondoc.captures.process_records import SCRIPT
from fusiondoc.captures.request import IN_PROCESS, RunRequest
from fusiondoc.captures.store import Within
from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.failing_read import suspects
from fusiondoc.diagnosis.suggested_settings import another_fuser, other_fuser
from fusiondoc.errors import FusiondocError
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fusers import compiles_python, facts_of, is_switched_by_package
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind, Try
from fusiondoc.model.remedies import Setting
from fusiondoc.model.report import Group, Report
from fusiondoc.parsers.lines.error_texts import is_of_fuser
from fusiondoc.repro.judge import run_file
from fusiondoc.repro.write import Groups, groups_of, smaller, write_script
from fusiondoc.runner.launch import ShowProgress, run
from fusiondoc.workflows.follow_ups import UNCHANGED, measured, try_change
from fusiondoc.workflows.load import ParsedLog, report_of

CODE = "FD309"

_UNFUSED, _AGAIN, _AROUND = "unfused", "fused-again", "around"
"""Captures of the further runs, inside the capture of the run they belong to."""

_NO_TORCHSCRIPT = {"PYTORCH_JIT": "0"}
"""torch.jit.script and trace return the Python that they were given
(torch/jit/_state.py, 1.10 to 2.13): for a program that switches a fuser on
itself."""

_MOST_ALONE = 4
"""Groups that are run alone."""
_MOST_SMALLER = 40
"""Runs of smaller parts of the group that fails."""
_SMALLER_WITHIN = 120.0
"""Seconds for these runs."""
_ALONE_WITHIN = 120.0
"""Seconds that one run of a group may take."""
_MOST_OPERATORS = 3
"""Operators that are kept out of groups, one run each."""

_PASSES = ("forward", "backward", "script_run")
"""Stages of an error in a pass (``probe/passes.py``) or in a program that runs as
it is."""

Notify = Callable[[str], None]


def wants_to_know(report: Report, capture: Capture) -> bool:
    """Whether the run ended with an error in a pass, and the fuser can be its
    cause: something was fused, a knob was set, the process died, an earlier pass
    had run, or the error is one of the fuser's own."""
    records, request = capture.records, capture.request
    if records.fuser.effective in (None, "none") or request.options.launcher:
        return False
    compiled = _is_compiled(capture)
    if compiled and records.target.how != SCRIPT:
        return False  # the probe runs the model in eager itself
    if records.target.how == IN_PROCESS:
        return False
    if is_switched_by_package(report.frontend, records.frontend.effective):
        return False
    if capture.result.ended in (
        Ended.INTERRUPTED,
        Ended.TIMED_OUT,
        Ended.UNFINISHED,
        Ended.DONE,
    ):
        return False
    if capture.result.ended is Ended.SIGNAL:
        return records.done is None
    error = records.error
    if error is None or error.stage not in _PASSES:
        return False
    if compiled:
        return True
    started = bool(report.groups or request.options.knobs or records.passes)
    return started or is_of_fuser(f"{error.type}: {error.message}")


def _is_compiled(capture: Capture) -> bool:
    """True if Python code is compiled: no group runs alone, and no setting of
    TorchScript avoids an error."""
    records = capture.records
    of_torchscript = facts_of(records.fuser.effective).of_torchscript
    return compiles_python(records.frontend.effective) or not of_torchscript


def find_fault(
    request: RunRequest,
    capture: Capture,
    parsed: ParsedLog,
    notify: Notify,
    progress: ShowProgress,
) -> bool:
    """Find out whether the fuser caused the error, and keep the result in
    ``capture``; False if the user interrupted."""
    notify(
        "note: the run failed; running it again without the fuser to see whether the fuser causes it"
        " (--no-rerun)"
    )
    runs = _Runs(request, capture, progress)
    fault = runs.blamed()
    if fault is None:
        return False
    capture.keep_fault(fault)
    if fault.blame is not Blame.FUSER or _is_compiled(capture):
        return True
    notify(
        "note: only the run under the fuser fails; looking for the group and for settings that avoid it"
    )
    try:
        with tempfile.TemporaryDirectory(prefix="fusiondoc-alone-") as folder:
            alone = tuple(_alone(request, capture, parsed, Path(folder), progress))
    except KeyboardInterrupt:
        return False
    fault = replace(fault, alone=alone)
    capture.keep_fault(fault)
    report = report_of(capture, parsed=parsed)
    around = runs.around(report, _changes(request, report, fault), notify)
    if around is None:
        return False
    capture.keep_fault(replace(fault, around=around))
    return True


@dataclass
class _Runs:
    """Runs that follow the failed one."""

    request: RunRequest
    capture: Capture
    progress: ShowProgress

    def blamed(self) -> FuserFault | None:
        """Return whether the fuser or the program caused the error; None if the
        user interrupted."""
        plain = self._without_fuser()
        done = self._run(plain, _UNFUSED, "without the fuser")
        if (
            isinstance(done, Capture)
            and done.error() is not None
            and _fused_all_the_same(done)
        ):
            variables = {**plain.variables, **_NO_TORCHSCRIPT}
            done = self._run(
                replace(plain, variables=variables), _UNFUSED, "without TorchScript"
            )
        if isinstance(done, FusiondocError):
            return FuserFault(None, unfused_error=done.in_one_line)
        if done.result.ended is Ended.INTERRUPTED:
            return None
        error = done.error()
        if error is not None:
            return FuserFault(Blame.PROGRAM, _UNFUSED, error.in_one_line)
        if self.capture.records.passes_in_eager:
            return FuserFault(Blame.FUSER, _UNFUSED)
        again = self._run(
            replace(self.request, verify=False, command=()), _AGAIN, "once more"
        )
        if isinstance(again, FusiondocError):
            return FuserFault(None, _UNFUSED)
        if again.result.ended is Ended.INTERRUPTED:
            return None
        blame = Blame.FUSER if again.error() is not None else Blame.UNSTEADY
        return FuserFault(blame, _UNFUSED, again=_AGAIN)

    def _without_fuser(self) -> RunRequest:
        plain = replace(self.request, knobs={}, verify=False, dumps=(), command=())
        if not _is_compiled(self.capture):
            return replace(plain, fuser="none")
        off = facts_of(
            self.capture.records.fuser.effective
        ).switches.off_by_variable
        return replace(
            plain, variables={**plain.variables, **dict([off] if off else [])}
        )

    def _run(
        self, request: RunRequest, folder: str, how: str
    ) -> Capture | FusiondocError:
        with self.progress(f"{request.target.label} {how}") as bar:
            try:
                return run(request, Within(self.capture.path, folder), bar)
            except FusiondocError as error:
                return error

    def around(
        self, report: Report, changes: list[Change], notify: Notify
    ) -> tuple[Try, ...] | None:
        """The result of each change of the settings, behind the run as it was; None
        if the user interrupted."""
        rows = [measured(UNCHANGED, (), report, self.capture, self.capture.error())]
        script = self.capture.records.target.how == SCRIPT
        request = replace(self.request, verify=not script, dumps=(), command=())
        for number, change in enumerate(changes, 1):
            notify(f"trying {number} of {len(changes)}: {change.title}")
            row, _, interrupted = try_change(
                request, self.capture, change, f"{_AROUND}/{number}", self.progress
            )
            if interrupted:
                return None
            rows.append(row)
        return tuple(rows)


def _fused_all_the_same(capture: Capture) -> bool:
    """True if a run without a fuser has groups: then the program switched a fuser
    on itself."""
    return bool(report_of(capture).groups)


def _alone(
    request: RunRequest,
    capture: Capture,
    parsed: ParsedLog,
    folder: Path,
    progress: ShowProgress,
) -> Iterator[FailingGroup]:
    """Run the groups that can be the cause, each alone, up to the first that fails;
    that one is made smaller."""
    report = parsed.report
    if not report.groups:
        return
    known = groups_of(report.groups, parsed.logs)
    error = capture.records.error
    text = f"{error.message}\n{error.traceback}" if error is not None else ""
    for group in suspects(report, text)[:_MOST_ALONE]:
        with progress(f"{request.target.label} {group.id} alone"):
            found = _run_alone(known, group, request.python, folder)
        if found is None:
            continue
        yield found
        if found.fails:
            return


def _run_alone(
    known: Groups, group: Group, python: Path, folder: Path
) -> FailingGroup | None:
    """Run one group, fused and unfused, in a process of its own; None if it cannot
    be rebuilt.

    Raises:
        KeyboardInterrupt: the user stopped it.
    """
    try:
        written = write_script(
            known, group.id, folder / f"{group.id}.py", True, None
        )
    except FusiondocError:
        return None
    first = run_file(python, written.path, [], _ALONE_WITHIN)
    if first.interrupted:
        raise KeyboardInterrupt
    if first.kind in ("no verdict", "timed out"):
        return None
    fails = first.fails and first.stage != "unfused run"
    found = FailingGroup(group.id, fails, first.text, of=group.size)
    if not fails:
        return found
    began = time.monotonic()
    search = smaller(
        written,
        first,
        python,
        _ALONE_WITHIN,
        _MOST_SMALLER,
        lambda line: None,
        lambda: time.monotonic() - began > _SMALLER_WITHIN,
        operators_alone=True,
    )
    operators = []
    for step in search.best.steps:
        if step.operator:
            operators.append(_as_in_the_group(step.kind, group))
    return replace(found, operators=tuple(operators), finished=not search.over)


def _as_in_the_group(op: str, group: Group) -> str:
    """Return the group's name of an operator in the file: the copy of a view, which
    only a fusion pass knows, is that view in the file."""
    copy = f"prim::{op.partition('::')[2]}_copy"
    if op not in group.ops and copy in group.ops:
        return copy
    return op


def _changes(
    request: RunRequest, report: Report, fault: FuserFault
) -> list[Change]:
    """Settings that may avoid the error: the user's own switches reversed,
    operators kept out of groups, another fuser."""
    changes = [*_switched_back(request.knobs), *_left_out(request, report, fault)]
    fuser = other_fuser(report, request.options(), (CODE,))
    if fuser is not None:
        changes.append(another_fuser(fuser, (CODE,)))
    return changes


_ON, _OFF = ("on", "true", "1", "yes"), ("off", "false", "0", "no")


def _switched_back(knobs: Mapping[str, str]) -> Iterator[Change]:
    for name, value in knobs.items():
        known = catalogue.knob(name)
        if known is None or known.kind != "switch":
            continue
        if value.strip().lower() in _ON:
            other = "off"
        elif value.strip().lower() in _OFF:
            other = "on"
        else:
            other = None
        if other is not None:
            yield _knob(name, other)


def _left_out(
    request: RunRequest, report: Report, fault: FuserFault
) -> Iterator[Change]:
    """The fuser without an operator of the failing group. Copies of views come
    first: their rules of 2.0 and 2.1 confuse memory order with the order of
    dimensions (parser.cpp)."""
    if facts_of(report.fuser.effective).switches.knob_to_leave_out is None:
        return
    culprit = fault.culprit
    smallest = culprit.operators if culprit is not None else ()
    every: list[str] = []
    for group in report.groups:
        if culprit is None or group.id == culprit.group:
            every.extend(group.ops)
    copies = [op for op in every if re.search(r"_copy\Z", op)]
    wanted = dict.fromkeys([*smallest, *copies] if smallest or copies else every)
    given = request.knobs.get("skip_node_kind")
    for op in list(wanted)[:_MOST_OPERATORS]:
        value = op if given is None else f"{given},{op}"
        yield _knob("skip_node_kind", value)


def _knob(name: str, value: str) -> Change:
    setting = Setting(knobs={name: value})
    return Change(ChangeKind.KNOB, setting.text, setting=setting, codes=(CODE,))
