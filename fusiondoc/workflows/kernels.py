"""The work of ``fusiondoc kernels``: the report of a target that it runs, of a log,
a capture, or a capture run again; and the dumps of its kernels as one file for each
kernel and dump, with an index."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import CaptureLocation, Within
from fusiondoc.captures.trust import request_again, texts
from fusiondoc.diagnosis.of_fusers.graph_texts import with_graph_texts
from fusiondoc.errors import FusiondocError, UsageError, did_you_mean
from fusiondoc.fuser_knobs import catalogue, gpu_fuser_in_release, has_gpu_fuser
from fusiondoc.fuser_knobs.checks import (
    INSTEAD,
    USUAL,
    check_dumps,
    how_to_set,
    is_set,
    together,
)
from fusiondoc.model import dataclass
from fusiondoc.model.report import Dump, Evidence, Group, Kernel, Report
from fusiondoc.model.typed_fields import as_json
from fusiondoc.reports.json_format import as_dict
from fusiondoc.reports.kernel_choice import chosen, ending, narrowed, present
from fusiondoc.reports.kernel_text import render
from fusiondoc.runner.interpreter import inspect
from fusiondoc.runner.launch import ShowProgress
from fusiondoc.runner.run_variables import fuser_of
from fusiondoc.whole_files import open_regular, read_within, write_whole
from fusiondoc.workflows import SourceKind, is_capture, sources_of
from fusiondoc.workflows.load import (
    parse_capture,
    report_from,
    report_of,
    report_of_log_sources,
)
from fusiondoc.workflows.run import Notify, run_target

FOLDER = "kernels"
"""The folder for the capture of a repeated run, inside the capture of the run it
repeats."""


@dataclass(frozen=True)
class Looked:
    """``failed`` is the error that ended the run; ``ran`` is True if a run was made
    just now; ``lacking`` are the dumps that the log does not hold, which were
    reported."""

    report: Report
    failed: FusiondocError | None = None
    interrupted: bool = False
    ran: bool = False
    lacking: tuple[str, ...] = ()


def of_target(
    request: RunRequest,
    store: CaptureLocation,
    *,
    notify: Notify,
    progress: ShowProgress,
) -> Looked:
    """Run a target with the dumps of the request, and those that name its
    kernels."""
    has_first = _check(request)
    fuser = INSTEAD if request.fuser == "auto" and not has_first else request.fuser
    usual = []
    for name in USUAL.get(fuser, ()):
        if name not in request.dumps:
            usual.append(name)
    request = replace(request, dumps=(*request.dumps, *usual))
    return _run(request, store, notify, progress)


def of_arguments(
    arguments: Sequence[str],
    dumps: Sequence[str],
    *,
    code: str | None = None,
    notify: Notify,
    progress: ShowProgress,
) -> Looked:
    """Return the report of logs, a capture or a saved report; without arguments, of
    the newest capture. ``code``: the user's permission to run the program named in
    a capture that somebody else made."""
    sources = sources_of(arguments)
    if len(sources) == 1 and sources[0].kind is SourceKind.CAPTURE:
        return of_capture(
            sources[0].capture(), dumps, code=code, notify=notify, progress=progress
        )
    for name in dumps:
        check_known(name)
    if all(source.kind in (SourceKind.LOG, SourceKind.STDIN) for source in sources):
        report = with_graph_texts(*report_of_log_sources(sources))
    else:
        report = report_from(arguments)
    return Looked(
        report, lacking=_lacking(report, dumps, ", ".join(arguments[:3]), notify)
    )


def check_known(name: str) -> None:
    """Raise a UsageError unless some version of torch has a dump of that name. All
    versions count, as a log does not state its torch."""
    known = [
        *catalogue.dump_options(),
        *(dump.name for dump in catalogue.fuser_dumps()),
    ]
    if name not in known:
        raise UsageError(
            f"there is no dump '{name}'. {did_you_mean(name, known)}",
            "fusiondoc knobs --all",
        )


def of_capture(
    capture: Capture,
    dumps: Sequence[str],
    *,
    code: str | None = None,
    notify: Notify,
    progress: ShowProgress,
) -> Looked:
    """Return the capture's report; if a dump is missing, run its target again with
    the dump."""
    lacking = []
    for name in dumps:
        if not is_set(name, capture.request.variables):
            lacking.append(name)
    if not lacking:
        return Looked(_report(capture), capture.failure())
    again = _earlier(capture)
    had = (again or capture).request.options.dumps
    if again is not None and all(
        is_set(name, again.request.variables) for name in dumps
    ):
        return Looked(_report(again), again.failure())
    request = request_again(capture, together(had, dumps), code=code)
    # Refused before the note on the run.
    _check(request)
    notify(
        f"note: {capture.name} has no {', '.join(lacking)}; running {request.target.label} again with it"
    )
    return _run(request, Within(capture.path, FOLDER), notify, progress)


def _check(request: RunRequest) -> bool:
    """Refuse dumps that this torch does not print; return True if it has a fuser
    for GPUs."""
    interpreter = inspect(request.python)
    torch = interpreter.require_torch()
    check_dumps(
        request.dumps, fuser_of(request), torch, gpu_fuser_in_release(torch)
    )
    return has_gpu_fuser(torch, interpreter.torch_cuda)


def _run(
    request: RunRequest,
    location: CaptureLocation,
    notify: Notify,
    progress: ShowProgress,
) -> Looked:
    ran = run_target(request, location, notify=notify, progress=progress)
    return Looked(_report(ran.capture), ran.failed, ran.interrupted, True)


def _report(capture: Capture) -> Report:
    """The report of a capture, with the files that the fuser wrote for each
    kernel."""
    parsed = parse_capture(capture)
    report = with_graph_texts(report_of(capture, parsed=parsed), parsed.observed)
    files = texts(capture)
    kernels = []
    for kernel in report.kernels:
        kernels.append(_with(kernel, files.get(kernel.name, ())))
    return replace(report, kernels=tuple(kernels))


def _with(kernel: Kernel, files: Sequence[tuple[str, str]]) -> Kernel:
    """Replace the lines of dumps by the names of the fuser's files."""
    options = [option for option, _ in files]
    kept = [dump for dump in kernel.dumps if dump.option not in options]
    return replace(
        kernel, dumps=(*kept, *(Dump(option, text) for option, text in files))
    )


def _earlier(capture: Capture) -> Capture | None:
    path = capture.path / FOLDER
    if is_capture(path):
        return Capture(path)
    return None


def _lacking(
    report: Report, dumps: Sequence[str], name: str, notify: Notify
) -> tuple[str, ...]:
    """Report how to make a log with the missing dumps, as a log cannot be run
    again: raise the error, or print a note."""
    have = present(report.kernels)
    lacking = tuple(wanted for wanted in dumps if wanted not in have)
    if not lacking:
        return ()
    hint = f"Run it with {how_to_set(lacking)}"
    hint += f", or give the program: fusiondoc kernels TARGET --dump {','.join(lacking)}"
    message = f"{name} holds no {', '.join(lacking)} of a kernel"
    if not report.kernels:
        message = (
            f"{name} names no kernel, so it holds no {', '.join(lacking)} of one"
        )
    if have:
        message += f" (it holds {', '.join(have)})"
    if len(lacking) == len(dumps):
        raise UsageError(message, hint)
    notify(f"note: {message}. {hint}")
    return lacking


SCHEMA = "fusiondoc.kernels/1"
INDEX = "index.json"
TABLE = "index.txt"


@dataclass(frozen=True)
class SavedDump:
    """A file, as described in the index."""

    file: str
    kernel: str
    name: str
    """Name of the kernel, as the fuser calls it."""
    dump: str
    groups: tuple[str, ...]
    sources: tuple[str, ...]
    """Lines of the program whose operators are in the groups."""
    evidence: tuple[Evidence, ...]


def save(
    report: Report, kernels: Sequence[Kernel], options: Sequence[str], folder: Path
) -> list[Path]:
    """Write the dumps of these kernels into ``folder``; returns the files.

    ``index.json`` names each file with its kernel, groups, dump and lines of the
    log; ``index.txt`` is the table. Files of an earlier ``save`` are written over
    or removed, if nobody has changed them since.

    Raises: UsageError: a file that is not one of those stands in the way, or the
        folder cannot be written.
    """
    files, content = _contents(report, kernels, options)
    index = (json.dumps(content, indent=1) + "\n").encode("utf-8")
    try:
        _write_into(folder, files, index)
    except OSError as error:
        raise UsageError(
            f"cannot save into {folder}: {error.strerror}",
            "Choose another folder with --save.",
        ) from None
    return [folder / name for name in (*files, INDEX)]


def _contents(
    report: Report, kernels: Sequence[Kernel], options: Sequence[str]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files by name, and the content of the index."""
    files: dict[str, bytes] = {}
    rows: list[SavedDump] = []
    groups = {group.id: group for group in report.groups}
    for kernel in kernels:
        for dump in chosen(kernel, options):
            name = _file_name(kernel, dump, files)
            text = dump.text.removesuffix("\n") + "\n"
            files[name] = text.encode("utf-8", "backslashreplace")
            rows.append(_row(name, kernel, dump, groups))
    files[TABLE] = _table(report, kernels, rows).encode("utf-8", "backslashreplace")
    in_json = as_dict(narrowed(report, kernels, ()))["kernels"]
    content = {
        "schema": SCHEMA,
        "target": report.target.name,
        "files": [as_json(row) for row in rows],
        "kernels": [_without_texts(kernel) for kernel in in_json],
        "sha256": {name: sha256(data).hexdigest() for name, data in files.items()},
    }
    return files, content


def _write_into(folder: Path, files: Mapping[str, bytes], index: bytes) -> None:
    """Write the files, the index last: it names the files that a later ``save`` may
    overwrite."""
    folder.mkdir(parents=True, exist_ok=True)
    old = _own_files(folder)
    for name in (*files, INDEX):
        if (folder / name).exists() and name not in old:
            raise _foreign(folder / name)
    for name in old:
        if name not in files and name != INDEX:
            (folder / name).unlink()
    for name, data in files.items():
        write_whole(folder / name, data)
    write_whole(folder / INDEX, index)


def _without_texts(kernel: Mapping[str, Any]) -> dict[str, Any]:
    texts = {}
    for key, value in kernel.items():
        if key not in _TEXTS:
            texts[key] = value
    return texts


_TEXTS = ("code", "dumps")


def _row(
    name: str, kernel: Kernel, dump: Dump, groups: dict[str, Group]
) -> SavedDump:
    nodes = []
    for group in kernel.groups:
        if group in groups:
            for node in groups[group].nodes:
                nodes.append(node)
    sources = {node.user_source or node.source or "" for node in nodes} - {""}
    evidence = tuple(
        Evidence(evidence.file, evidence.line) for evidence in dump.evidence
    )
    return SavedDump(
        name,
        kernel.id,
        kernel.name,
        dump.option,
        tuple(kernel.groups),
        tuple(sorted(sources)),
        evidence,
    )


def _file_name(kernel: Kernel, dump: Dump, taken: dict[str, bytes]) -> str:
    """``K1-kernel1.cuda_kernel.cu``. Names of kernels come from a log: only plain
    characters stay."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", kernel.name)[:60]
    option = re.sub(r"[^A-Za-z0-9_]+", "_", dump.option)[:40]
    end = ending(dump.option)
    stem = f"{kernel.id}-{plain}" + ("" if end == f".{option}" else f".{option}")
    name, number = stem + end, 1
    while name in taken:
        number += 1
        name = f"{stem}.{number}{end}"
    return name


def _table(
    report: Report, kernels: Sequence[Kernel], rows: Sequence[SavedDump]
) -> str:
    text = render(report, kernels, (), width=120)
    lines = []
    for row in rows:
        lines.append(f"{row.file}  {row.kernel} {row.name}, {row.dump}")
    files = "\n".join(lines)
    return f"{text.rstrip()}\n\nFiles\n{files or 'none'}\n"


def _own_files(folder: Path) -> set[str]:
    """The files there that an earlier ``save`` wrote and that are as it wrote
    them."""
    try:
        index = json.loads(read_within(folder / INDEX))
    except FileNotFoundError:
        return set()
    except (ValueError, RecursionError):
        raise _foreign(folder / INDEX) from None
    sums = None
    if isinstance(index, dict) and index.get("schema") == SCHEMA:
        sums = index.get("sha256")
    if not isinstance(sums, dict):
        raise _foreign(folder / INDEX)
    own = {INDEX}
    for name, known in sums.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            continue
        with open_regular(path) as file:
            found = sha256(file.read()).hexdigest()
        if found != known:
            raise _foreign(path, "was changed since fusiondoc saved it")
        own.add(name)
    return own


def _foreign(
    path: Path, why: str = "already exists, and fusiondoc did not write it"
) -> UsageError:
    return UsageError(
        f"{path} {why}", "Save into another folder, or move the file away."
    )
