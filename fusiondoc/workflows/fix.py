"""From a target to a diff: changes found, tried, and kept where they help.

``fix --apply`` writes the changed files, with a backup beside each. Nothing is
written unless everything can be: files inside the project only, unchanged since
they were read, without uncommitted changes of the user's on the lines that change.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import CaptureLocation
from fusiondoc.captures.trust import project_root
from fusiondoc.changes.change import Change
from fusiondoc.changes.edits import SourceText, TextEdit, changed_text, read_text
from fusiondoc.changes.inserted_lines import without_unused
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
from fusiondoc.diagnosis.commands import run_again
from fusiondoc.diagnosis.suggested_changes import SuggestedChanges
from fusiondoc.errors import UsageError
from fusiondoc.fusers import DYNAMO
from fusiondoc.fusers.torchscript import TORCHSCRIPT
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import MOST_TRIES, Fixes, KeptResults
from fusiondoc.model.report import Report
from fusiondoc.runner.fork_servers import forks
from fusiondoc.runner.launch import ShowProgress, no_progress
from fusiondoc.whole_files import read_within, write_whole
from fusiondoc.workflows.fix_bundles import (
    ChangeBundle,
    alters_signature,
    bundles,
    described,
)
from fusiondoc.workflows.fix_search import FixSearch
from fusiondoc.workflows.fix_versions import (
    Interrupted,
    Rounding,
    Versions,
    measured,
    results_file,
)
from fusiondoc.workflows.git_files import uncommitted
from fusiondoc.workflows.run import FollowUps, Notify, diagnose_target, silent
from fusiondoc.workflows.runs_ahead import beside_each_other


@dataclass(frozen=True)
class ChangedFile:
    """A file of the user's, before and after; ``edits`` lead from one to the
    other."""

    source: SourceText
    text: str
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True)
class FixesFound:
    """The fixes found, and the files that they change."""

    fixes: Fixes
    files: tuple[ChangedFile, ...]


def _diff(file: ChangedFile, cwd: Path) -> str:
    """The diff of a file, with names relative to the current folder, in which it
    can be applied (``patch -p1``)."""
    path, here = file.source.path, cwd.resolve()
    name = path.relative_to(here).as_posix() if here in path.parents else path.name
    return unified_diff(file.source.text, file.text, name)


def fix_target(
    request: RunRequest,
    store: CaptureLocation,
    *,
    inference: bool = False,
    allow_signature: bool = False,
    most_tries: int = MOST_TRIES,
    timed: bool = True,
    beside: int | None = None,
    notify: Notify = silent,
    progress: ShowProgress = no_progress,
) -> FixesFound:
    """Find changes that make more of the target fuse.

    Args: inference: also try changes that suit inference only: eval mode.
        allow_signature: also try changes of a function's arguments. timed: drop
        changes that are slower; else speed is not measured. beside: how many
        versions run at a time; None for as many as this machine has cores for.

    The fixes found are saved in the capture of the unchanged program, for its
    report.

    Raises:
        UsageError: the target has no model, or its frontend is none that this
            command supports.
        FusiondocError: the unchanged program failed.
    """
    if request.script:
        raise _no_model(request)
    if request.target.kind == "archive":
        raise UsageError(
            f"{request.target.label} is an archive: the code in it is not changed",
            "Give the Python file that it was made from.",
        )
    request = replace(request, seed=request.seed if request.seed is not None else 0)
    phases = _Phases()
    with tempfile.TemporaryDirectory(prefix="fusiondoc-fix-") as name, forks():
        folder = Path(name)
        asking = replace(
            request,
            verify=True,
            results=KeptResults(str(results_file(folder, False)), compare=False),
        )
        with phases.phase("the unchanged program"):
            done = diagnose_target(
                asking,
                store,
                follow_ups=FollowUps(rerun=False),
                notify=notify,
                progress=progress,
            )
        error = done.capture.error()
        if error is not None:
            if done.report.groups:
                error.hint = f"fusiondoc diagnose {request.target.text} shows whether the fuser is at fault."
            raise error
        if done.interrupted:
            raise KeyboardInterrupt
        _must_be_model(request, done.capture, done.report)
        found = _found(
            asking, done.capture, done.report, inference, allow_signature
        )
        rounding = Rounding(done.capture.records.rounding)
        unchanged = (
            measured(done.report, done.capture, rounding),
            replace(asking, results=None),
        )
        versions = Versions(
            asking,
            done.capture,
            {one.source.path: one for one in found.program.files},
            found.program.names_in_report,
            folder,
            progress,
            beside_each_other() if beside is None else beside,
        )
        with contextlib.closing(versions):
            search = FixSearch(versions, unchanged, most_tries, timed, notify)
            with contextlib.closing(search):
                made = _search(found, search, request.cwd, phases)
        done.capture.keep_fixes(made.fixes)
        notify(phases.in_words)
        return made


class _Phases:
    """How long each phase took."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Context manager: time the block as that phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = time.monotonic() - began

    @property
    def in_words(self) -> str:
        """ "took 40 s: the unchanged program 9 s, changed programs 20 s, timing 11
        s" """
        parts = ", ".join(
            f"{name} {seconds:.0f} s" for name, seconds in self._seconds.items()
        )
        return f"took {sum(self._seconds.values()):.0f} s: {parts}"


def _must_be_model(request: RunRequest, capture: Capture, report: Report) -> None:
    if capture.records.target.how == "script":
        raise _no_model(request)
    if report.frontend not in (None, TORCHSCRIPT.name, DYNAMO.name):
        raise UsageError(
            f"fix changes programs for TorchScript and torch.compile; {request.target.label} goes through"
            f" {report.frontend}",
            "fusiondoc diagnose shows what fuses there.",
        )


def _no_model(request: RunRequest) -> UsageError:
    return UsageError(
        f"{request.target.label} is a script: there is no model to run in other ways and compare",
        "Name the model (FILE.py:NAME), or give the file a model and inputs.",
    )


@dataclass(frozen=True)
class _ToTry:
    """Changes to try, and descriptions of possible changes that are not tried."""

    program: UserProgram
    bundles: tuple[ChangeBundle, ...]
    described: tuple[str, ...]
    diagnose: str
    """The command that shows the report of the unchanged program."""


def _found(
    request: RunRequest,
    capture: Capture,
    report: Report,
    inference: bool,
    allow_signature: bool,
) -> _ToTry:
    program = UserProgram.of(request, capture, report)
    changes = SuggestedChanges.of_program(program).in_files
    if allow_signature:
        altering = []
    else:
        altering = [one for one in changes if alters_signature(program, one)]
    every = bundles(one for one in changes if one not in altering)
    if inference:
        left_out = []
    else:
        left_out = [one for one in every if "--eval" in one.setting.flags]
    notes_shown = (
        *described(program),
        *_in_eval_mode(left_out),
        *_with_other_arguments(altering),
    )
    tried = tuple(one for one in every if one not in left_out)
    return _ToTry(program, tried, notes_shown, run_again(capture.request))


def _in_eval_mode(bundles: Sequence[ChangeBundle]) -> Iterable[str]:
    """One line on the changes that need the model in eval mode."""
    for one in bundles[-1:]:
        yield f"{one.title} ({', '.join(one.notes)}): tried with --inference"


def _with_other_arguments(changes: Sequence[Change]) -> Iterable[str]:
    """One line on the changes that alter the arguments of a function."""
    titles = list(dict.fromkeys(one.title for one in changes))
    if titles:
        more = ""
        if len(titles) > _MOST_TITLES:
            more = f" and {len(titles) - _MOST_TITLES} more"
        listed = "; ".join(titles[:_MOST_TITLES]) + more
        alters = "alters" if len(titles) == 1 else "each alters"
        yield f"{listed}: {alters} the arguments of a function; tried with --allow-signature"


_MOST_TITLES = 3


def _search(
    found: _ToTry, search: FixSearch, cwd: Path, phases: _Phases
) -> FixesFound:
    interrupted, speed = False, None
    try:
        with phases.phase("changed programs"):
            search.run(found.bundles)
        with phases.phase("timing"):
            speed = search.time()
    except (Interrupted, KeyboardInterrupt):
        interrupted = True
    files = tuple(_files(found.program.files, search.edits))
    fixes = Fixes(
        target=found.program.target.label,
        unchanged=search.original[0],
        together=search.now[0],
        tried=tuple(search.tried),
        diff="".join(_diff(one, cwd) for one in files),
        described=found.described,
        speed=speed,
        untried=search.untried,
        together_tries=search.together_tries,
        settings=search.settings,
        interrupted=interrupted,
        environment=found.program.report.environment,
        fuser=found.program.report.fuser.effective,
        diagnose=found.diagnose,
    )
    return FixesFound(fixes, files)


def _files(
    files: Iterable[ParsedFile], edits: Sequence[TextEdit]
) -> Iterable[ChangedFile]:
    for file in files:
        own = tuple(edit for edit in edits if edit.path == file.source.path)
        if own:
            own = without_unused(file, own)
            yield ChangedFile(file.source, changed_text(file.source.text, own), own)


def apply(
    files: Sequence[ChangedFile], cwd: Path, force: bool
) -> list[tuple[Path, Path]]:
    """Write the files; returns (file, backup) of each.

    Raises:
        UsageError: a file is outside the project, has changed meanwhile, has
            uncommitted changes on these lines (``force`` writes nevertheless), or
            cannot be written.
    """
    root = project_root(cwd)
    for one in files:
        _check(one, root, force)
    written: list[tuple[Path, Path]] = []
    path = root
    try:
        for one in files:
            path = one.source.path
            written.append((path, _backup(path)))
            write_whole(path, one.source.bytes_of(one.text))
    except BaseException as error:  # a signal too: all files or none
        for changed, backup in written:
            _put_back(changed, backup)
        if isinstance(error, (OSError, UnicodeEncodeError)):
            raise UsageError(
                f"{path} cannot be written: {error}; no file was changed",
                "The diff on stdout can be applied by hand: patch -p1",
            ) from None
        raise
    return written


def _put_back(path: Path, backup: Path) -> None:
    with contextlib.suppress(OSError):
        data = read_within(backup)
        if read_within(path) != data:
            write_whole(path, data)
        backup.unlink()


def _check(one: ChangedFile, root: Path, force: bool) -> None:
    path = one.source.path
    if root not in path.resolve().parents:
        raise UsageError(
            f"{path} is outside the project {root}",
            "Run it from the folder of that project, or apply the diff.",
        )
    if read_text(path) != one.source:
        raise UsageError(f"{path} has changed since it was read", "Run it again.")
    if force:
        return
    mine = uncommitted(path)
    lines = sorted(
        {line for edit in one.edits for line in _lines(one.source.text, edit)}
        & mine
    )
    if lines:
        shown = ", ".join(map(str, lines[:5])) + (" ..." if len(lines) > 5 else "")
        raise UsageError(
            f"{path} has changes that are not committed on the lines that would change ({shown})",
            "Commit them first, or write over them with --force (a backup is kept).",
        )


def _lines(text: str, edit: TextEdit) -> Iterable[int]:
    """The lines that an edit touches, from 1; empty for an insertion between two
    lines."""
    first = text.count("\n", 0, edit.start) + 1
    if edit.start == edit.end and (edit.start == 0 or text[edit.start - 1] == "\n"):
        return ()
    return range(first, text.count("\n", 0, edit.end) + 2)


def _backup(path: Path) -> Path:
    """Copy the file to a name that does not exist yet: model.py.before-fix,
    model.py.before-fix-2 ...

    A link of that name counts as existing, whether or not its target exists.
    """
    data = read_within(path)
    number = 1
    while True:
        beside = path.with_name(
            path.name + ".before-fix" + (f"-{number}" if number > 1 else "")
        )
        try:
            file = beside.open("xb")
        except FileExistsError:
            number += 1
            continue
        try:
            with file:
                file.write(data)
            shutil.copystat(path, beside)
        except BaseException:
            beside.unlink()
            raise
        return beside


def unified_diff(before: str, after: str, name: str) -> str:
    """Return a diff as ``git diff`` writes it: lines keep their ends, and a last
    line without one is marked."""
    lines = difflib.unified_diff(
        _ended_lines(before), _ended_lines(after), f"a/{name}", f"b/{name}"
    )
    marked = []
    for one in lines:
        if one.endswith("\n"):
            marked.append(one)
        else:
            marked.append(one + "\n\\ No newline at end of file\n")
    return "".join(marked)


def _ended_lines(text: str) -> list[str]:
    """Split a text at line feeds alone: a carriage return before one is part of the
    line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
