"""A capture: a folder with the log of a run, the probe's records, the request, the
result, and the results of further runs: bandwidth, the rerun without fallback, the
cause of its error, the timed and profiled runs, the tries, and the changes that
``fix`` tried."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fusiondoc.captures.ending import Ended, Result, failure_of, where_it_was
from fusiondoc.captures.fuser_fault import Blame, FuserFault
from fusiondoc.captures.probe_records import (
    LeftRunning,
    ProbeRecords,
    read_records,
    together,
)
from fusiondoc.captures.process_records import RANKS
from fusiondoc.captures.raw_records import lines_of
from fusiondoc.captures.request import KeptRequest
from fusiondoc.errors import FusiondocError, UsageError
from fusiondoc.masking import masked_in
from fusiondoc.model import dataclass, field
from fusiondoc.model.change_plan import Fixes, Try
from fusiondoc.model.runs import Peak, Speed
from fusiondoc.model.typed_fields import as_json, object_of, read_object, sound
from fusiondoc.numbers import whole_number
from fusiondoc.version import __version__
from fusiondoc.whole_files import read_within


@dataclass(frozen=True)
class FoundError:
    """An error of a fuser; ``kind`` is one of ``fusers/fuser_errors.py``."""

    text: str
    kind: str | None = None


@dataclass(frozen=True)
class Rerun:
    """The result of the rerun without fallback (``rerun.json``)."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """The variable that switched the fallback off, with its value."""
    capture: str | None = None
    """Its folder, inside the capture of the first run."""
    ended: Ended | None = None
    signal: str | None = None
    error: FoundError | None = None


@dataclass(frozen=True)
class TimedRun:
    """The run of ``--time`` (``timing.json``)."""

    capture: str | None = None
    """Its folder, inside the capture of the first run; None if it did not run."""
    again: str | None = None
    """The folder of a second timed process; None if there was none."""
    problem: str | None = None
    """Why there is no speed."""
    dropped: tuple[str, ...] = ()
    """The user's variables that were dropped for it."""
    speeds: tuple[Speed, ...] = ()
    """For a script: the times of its own steps, each way."""
    note: str | None = None
    """How these were measured."""


@dataclass(frozen=True)
class ProfiledRun:
    """The run under torch's profiler (``profile.json``)."""

    capture: str | None = None
    """Its folder, inside the capture of the first run; None if it did not run."""
    problem: str | None = None
    """Why there is no profile."""


@dataclass(frozen=True)
class Tries:
    """The runs of ``--try`` (``tries.json``); the first is the run as it was
    requested."""

    tries: tuple[Try, ...] = ()


SCHEMA = "fusiondoc.capture/1"
_SCHEMA_NUMBER = re.compile(r"fusiondoc\.capture/(\d+)\Z")

REQUEST, RESULT, RECORDS = "request.json", "result.json", "records.jsonl"
_PEAK, _RERUN, _TIMING, _TRIES = (
    "peak.json",
    "rerun.json",
    "timing.json",
    "tries.json",
)
_PROFILE, _FAULT, FIXES = "profile.json", "fault.json", "fixes.json"
LOGS = ("log", "log.1", "log.2")
"""The log, and the newest lines of a long log that could not be appended to it:
fusiondoc was killed."""
INNER = (
    "rerun",
    "unfused",
    "fused-again",
    "around/*",
    "timing",
    "timing-again",
    "profile",
    "kernels",
    "tries/*",
    "fix/*",
    "ranks/*",
)
"""Folders of a capture with captures of further runs."""
FILES = (
    REQUEST,
    RESULT,
    RECORDS,
    _PEAK,
    _RERUN,
    _FAULT,
    _TIMING,
    _PROFILE,
    _TRIES,
    FIXES,
    *LOGS,
)


MOST_BYTES = 256 << 20
"""Most bytes of a file that is read whole; the log may be larger."""


class Capture:
    """A capture folder. Every file but ``request.json`` may be missing or cut off:
    the run may have been killed at any moment. Each file is read once, at the first
    use.

    Args: shown: the folder's name in reports, if not ``path``; for an archive, the
        archive's. held: an object that must live as long as this one, such as a
        temporary folder.

    Raises:
        UsageError: the folder is no capture, or one of a newer fusiondoc.
    """

    def __init__(
        self, path: Path, shown: Path | None = None, held: object = None
    ) -> None:
        self.path = path
        self.shown = shown
        self._held = held
        if not path.is_dir():
            raise UsageError(
                f"there is no capture '{path}'", "fusiondoc captures lists them."
            )
        _refuse_links(path)
        try:
            request = sound(json.loads(read_within(path / REQUEST)))
        except FileNotFoundError:
            raise UsageError(
                f"'{path}' is not a capture: it has no {REQUEST}",
                "fusiondoc captures lists them.",
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{path / REQUEST} cannot be read: {error}", "Run it again."
            ) from None
        _check_schema(path, request)
        for part in ("target", "options", "environment_set"):
            if not isinstance(request.get(part) or {}, dict):
                raise UsageError(
                    f"{path / REQUEST} is damaged: its {part} is not an object",
                    f"Its log can be read all the same: fusiondoc parse {path / 'log'}",
                )
        self._further: dict[Path, Capture] = {}
        self._raw_request: Mapping[str, Any] = request
        self.request = KeptRequest.from_json(request)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def from_archive(self) -> bool:
        """True if it was unpacked from an archive, such as a bundle. Its own files
        have no say in this."""
        return self.shown is not None

    @property
    def label(self) -> str:
        """The target as the user named it, else the name of the capture."""
        return self.request.target.text or self.name

    @property
    def log_path(self) -> Path:
        """The log, byte for byte as the child wrote it up to the limit of the run;
        may be missing."""
        return self.path / "log"

    @property
    def log_names(self) -> tuple[str, ...]:
        """The files that are the log, in order."""
        return tuple(name for name in LOGS if (self.path / name).exists())

    @cached_property
    def result(self) -> Result:
        """How the run ended; ``Ended.UNFINISHED`` while it runs and if fusiondoc
        itself was killed."""
        return read_object(Result, object_of(self._bytes(RESULT))) or Result()

    @cached_property
    def records(self) -> ProbeRecords:
        """The records of the probe."""
        return read_records(self._records)

    @cached_property
    def ranks(self) -> tuple[Capture, ...]:
        """The captures of the processes that the launcher started here, in their
        order; () for a run of one process."""
        found = []
        for folder in self.path.glob(f"{RANKS}/*"):
            if folder.is_dir():
                found.append((whole_number(folder.name), folder))
        made = []
        for _, path in sorted(
            (rank, path) for rank, path in found if rank is not None
        ):
            with contextlib.suppress(UsageError):  # damaged; it is missing then
                made.append(self.further(path))
        return tuple(made)

    @cached_property
    def _records(self) -> bytes:
        # With several ranks the first has the records that all have in common.
        first = self.ranks[0]._bytes(RECORDS) if self.ranks else b""
        return first + self._bytes(RECORDS)

    @cached_property
    def peak(self) -> Peak | None:
        """The memory bandwidth that was given or measured for the run; None if none
        was."""
        peak = read_object(Peak, object_of(self._bytes(_PEAK)))
        known = (
            peak is not None
            and peak.source in ("given", "measured")
            and peak.gb_per_s > 0
        )
        if known:
            return peak
        return None

    @cached_property
    def rerun(self) -> Rerun | None:
        """The result of the rerun without fallback; None if there was none."""
        kept = object_of(self._bytes(_RERUN))
        if kept:
            return read_object(Rerun, kept)
        return None

    @cached_property
    def fault(self) -> FuserFault | None:
        """Whether the fuser or the program caused the error of the run; None if
        that is not known."""
        kept = object_of(self._bytes(_FAULT))
        if kept:
            return read_object(FuserFault, kept)
        if self.records.passes_in_eager:
            return FuserFault(Blame.FUSER)
        return None

    @property
    def fuser_is_at_fault(self) -> bool:
        """True if only the fused run has the error that ended it."""
        return self.fault is not None and self.fault.blame is Blame.FUSER

    @cached_property
    def timing(self) -> TimedRun | None:
        """The run of ``--time``; None if there was none."""
        kept = object_of(self._bytes(_TIMING))
        if kept:
            return read_object(TimedRun, kept)
        return None

    @cached_property
    def profile(self) -> ProfiledRun | None:
        """The run under torch's profiler; None if there was none."""
        kept = object_of(self._bytes(_PROFILE))
        if kept:
            return read_object(ProfiledRun, kept)
        return None

    def inner(self, name: str | None) -> Path | None:
        """The folder of a further run, by its name in a file of this capture; None
        for any other name, as somebody else may have written the file."""
        if name is not None and name in INNER:
            return self.path / name
        return None

    def further(self, path: Path) -> Capture:
        """The capture of a further run in this one, read once; UsageError if it is
        no capture."""
        if path not in self._further:
            self._further[path] = Capture(path)
        return self._further[path]

    @cached_property
    def tries(self) -> tuple[Try, ...]:
        """The runs of ``--try``; () if there were none."""
        return (read_object(Tries, object_of(self._bytes(_TRIES))) or Tries()).tries

    @cached_property
    def fixes(self) -> Fixes | None:
        """The changes of the program that ``fix`` tried on this run, and the
        outcome of each; None if there were none."""
        kept = object_of(self._bytes(FIXES))
        if kept:
            return read_object(Fixes, kept)
        return None

    @property
    def left_later(self) -> LeftRunning | None:
        """The processes that further runs (without fallback, timed, tries) left
        running; None without any."""
        found = []
        for inner in INNER:
            for path in sorted(self.path.glob(inner)):
                with contextlib.suppress(UsageError):  # damaged, or no capture
                    found.append(self.further(path).records.left)
        return together(value for value in found if value is not None)

    def failure(self) -> FusiondocError | None:
        """The error of the user's program that ended the run, or None. Also None
        for an interruption, and for an error that only the fused run has: that is a
        finding."""
        if self.fuser_is_at_fault:
            return None
        return self.error()

    def error(self) -> FusiondocError | None:
        """The error that ended the run, whether caused by the program or by the
        fuser; None for an interruption."""
        label = self.request.target.text or "the program"
        log = self.log_path if self.shown is None else self.shown / "log"
        timeout = self.request.options.timeout
        if not self.ranks:
            return failure_of(self.result, self.records, label, timeout, log)
        first = None if self.result.timed_out else self._first_to_fail()
        if first is None:
            # The error of a rank does not explain a failure of the launcher.
            records = replace(self.records, error=None)
            failed = failure_of(self.result, records, label, timeout, log)
            if failed is not None and self.result.timed_out:
                failed.hint = self._where_ranks_were() or failed.hint
            return failed
        if self.shown is None:
            log = first.log_path
        else:
            log = self.shown / RANKS / first.name / "log"
        return failure_of(
            first.result,
            first.records,
            f"{label} on rank {first.name}",
            timeout,
            log,
        )

    @property
    def ending(self) -> Capture:
        """The capture whose end decides the run's: with several ranks that of the
        rank that failed first, else this one."""
        of_all = self.result.ended in (
            Ended.INTERRUPTED,
            Ended.TIMED_OUT,
            Ended.UNFINISHED,
        )
        if of_all:
            return self
        return self._first_to_fail() or self

    @property
    def rank(self) -> int:
        """The rank of a process that the launcher started, which is the name of its
        folder; else 0."""
        return whole_number(self.name) or 0

    def _first_to_fail(self) -> Capture | None:
        """The rank that failed before the launcher ended the others; None if the
        launcher itself failed."""
        at = []
        for rank in self.ranks:
            record = rank.records.rank if rank.ended_badly else None
            if record is not None and record.asked is None:
                at.append((record.ended_at or 0.0, rank.rank, rank))
        if at:
            return min(at, key=lambda end: end[:2])[2]
        return None

    @property
    def ended_badly(self) -> bool:
        """The process died, or ended with another status than 0."""
        return self.result.ended in (Ended.SIGNAL, Ended.FAILED)

    def _where_ranks_were(self) -> str | None:
        texts = []
        for rank in self.ranks:
            where = where_it_was(rank.log_path)
            if where is not None:
                texts.append(f"rank {rank.rank} was at {where}")
        if not texts:
            return None
        return (
            "; ".join(texts[:8])
            + f". Their logs are in {self.path / RANKS}; --timeout gives more time."
        )

    def keep_result(self, result: Result) -> None:
        """Write how the run ended. OSError if it cannot be written, as in the
        methods below."""
        self._write(RESULT, result)
        self.result = result

    def keep_peak(self, peak: Peak) -> None:
        """Write the peak memory bandwidth to which its kernels are compared."""
        self._write(_PEAK, peak)
        self.peak = peak

    def keep_rerun(self, rerun: Rerun) -> None:
        """Write the result of the rerun without fallback."""
        self._write(_RERUN, rerun)
        self.rerun = rerun

    def keep_fault(self, fault: FuserFault) -> None:
        """Write whether the fuser or the program caused the error."""
        self._write(_FAULT, fault)
        self.fault = fault

    def keep_timing(self, timing: TimedRun) -> None:
        """Write the result of the run of ``--time``."""
        self._write(_TIMING, timing)
        self.timing = timing

    def keep_profile(self, profile: ProfiledRun) -> None:
        """Write the result of the run under torch's profiler."""
        self._write(_PROFILE, profile)
        self.profile = profile

    def keep_tries(self, tries: tuple[Try, ...]) -> None:
        """Write the runs of ``--try``."""
        self._write(_TRIES, Tries(tries))
        self.tries = tries

    def keep_fixes(self, fixes: Fixes) -> None:
        """Write the changes that ``fix`` tried on this run."""
        self._write(FIXES, fixes)
        self.fixes = fixes

    def add_source_map(self, source_map: Mapping[str, object]) -> None:
        """Add lines and layers of the program that the probe could not find, in the
        form of its record."""
        self.add_record("source_map", **source_map)

    def add_record(self, record: str, **fields: object) -> None:
        """Add a record that the probe did not write. OSError if it cannot be
        written."""
        with (self.path / RECORDS).open("a", encoding="utf-8") as records:
            records.write(json.dumps({"record": record, **fields}) + "\n")
        for name in ("_records", "records"):
            self.__dict__.pop(name, None)

    def document(self) -> dict[str, object]:
        """Everything in the capture except the log, with secrets masked, for
        ``captures show --format json``."""
        content: dict[str, object] = {
            "name": self.name,
            "path": str(self.path),
            **self._raw_request,
        }
        content["result"] = as_json(self.result)
        content["records"] = lines_of(self._records)
        return masked_in(content)

    def _bytes(self, name: str) -> bytes:
        try:
            return read_within(self.path / name, MOST_BYTES)
        except OSError:
            return b""

    def _write(self, name: str, content: object) -> None:
        write_json(self.path / name, as_json(content))


def _refuse_links(path: Path) -> None:
    """Refuse links and pipes in a capture: it holds files that a run wrote; a link
    leads elsewhere, and reading a pipe may wait for ever."""
    for folder in (path, path / "sources", path / "files"):
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not (
                        entry.is_file(follow_symlinks=False)
                        or entry.is_dir(follow_symlinks=False)
                    ):
                        name = Path(entry.path).relative_to(path)
                        raise UsageError(
                            f"'{path}' is not a capture to trust: its {name} is a link, or not a file",
                            "Name the log itself if you want it read: fusiondoc parse FILE",
                        )
        except OSError:
            continue


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of a capture. OSError if it cannot be written."""
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _check_schema(path: Path, request: Any) -> None:
    schema = request.get("schema") if isinstance(request, dict) else None
    if schema == SCHEMA:
        return
    number = _SCHEMA_NUMBER.match(str(schema))
    if number and whole_number(number.group(1)) not in (0, 1):
        raise UsageError(
            f"the capture '{path.name}' was made by fusiondoc {request.get('fusiondoc', '?')} in the newer "
            f"form {schema}; this is fusiondoc {__version__}, which reads {SCHEMA}",
            "Upgrade: pip install --upgrade fusiondoc. Its log can be read all the same: "
            f"fusiondoc parse {path / 'log'}",
        )
    raise UsageError(
        f"'{path}' is not a capture: its schema is {schema!r}, not {SCHEMA!r}",
        "fusiondoc captures lists captures; a log in it can be read: fusiondoc parse LOG",
    )
