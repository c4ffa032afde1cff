"""The public API: what the commands do, from Python. ``import fusiondoc`` has all of it.

Nothing here prints or ends the process. What is wrong is raised as a
:class:`fusiondoc.errors.FusiondocError`: ``UsageError`` (no such file, format, fuser), ``ModelFailed`` (the
model itself raised), ``CannotRun`` (this machine or this torch cannot do it); each has ``message`` and
``hint``, the next step.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Iterable, Sequence, Union

from fusiondoc.captures.capture import Capture
from fusiondoc.comparison.compare_reports import compare as compare_reports
from fusiondoc.comparison.differences import Comparison
from fusiondoc.errors import UsageError
from fusiondoc.model.report import Report
from fusiondoc.reports import notebook
from fusiondoc.reports.formats import render_comparison, render_report
from fusiondoc.workflows.live_run import LiveRun
from fusiondoc.workflows.load import report_from, report_of, side

__all__ = ["Comparison", "LiveRun", "Report", "capture", "compare", "parse", "render"]

Log = Union[str, "os.PathLike[str]", Capture, LiveRun]
"""A path, or what was captured."""


def parse(logs: Log | Sequence[Log] | None = None, *, peak: float | None = None) -> Report:
    """The report of saved logs or of a capture; needs neither torch nor a GPU.

    Args:
        logs: the path of a log (also ``.gz``, ``.xz``, ``.bz2``, ``.zst``), of a folder of logs or of a
            capture; a capture itself; several logs in a list are parts of one run and give one report. None
            is the newest capture in ``.fusiondoc/`` of the current folder.
        peak: memory bandwidth of the GPU in GB/s (10^9 bytes a second) to hold kernels against, if what the
            log and the table of GPUs say is not right.

    Raises:
        UsageError: there is no such log, or it cannot be read.

    Example:
        >>> report = fusiondoc.parse("train.log")  # doctest: +SKIP
        >>> [group.ops for group in report.groups]  # doctest: +SKIP
        [('aten::add', 'aten::relu')]
    """
    if logs is None:
        return _shown(report_from((), peak))
    several: list[Any] = [logs] if isinstance(logs, (str, os.PathLike, Capture, LiveRun)) else list(logs)
    if not several:
        raise UsageError(
            "the list of logs is empty", "Name at least one log, or none for the newest capture."
        )
    if len(several) == 1 and isinstance(several[0], Capture):
        return _shown(report_of(several[0], peak))
    return _shown(report_from([_path(one) for one in several], peak))


def compare(a: Log | Report, b: Log | Report, *, slower_than: float = 0.1) -> Comparison:
    """What changed from ``a`` to ``b``: groups, reasons, kernels, speed.

    Args:
        a, b: reports, captures, or paths of logs, captures and saved JSON reports; a name is a capture of
            ``.fusiondoc/`` here.
        slower_than: share by which a median time must differ to be called slower or faster: 0.1 is 10 %.

    Raises:
        UsageError: there is no such thing, or it cannot be read.
    """
    if not 0 <= slower_than < float("inf"):
        raise UsageError(f"slower_than={slower_than}: a share is needed", "Such as 0.1 for 10 %.")
    comparison = compare_reports(_side(a), _side(b), slower_than)
    return ShownComparison(**{one.name: getattr(comparison, one.name) for one in fields(Comparison)})


def render(what: Report | Comparison, format: str = "text", *, width: int = 80, colour: bool = False) -> str:
    """A report or a comparison as text.

    Args:
        format: "text", "json", "html" (one self-contained page), "markdown"; of a report also "sarif",
            "junit", "gitlab", "github".
        width, colour: columns, and whether ANSI colours are used; for "text".

    Raises:
        UsageError: there is no such format.
    """
    if isinstance(what, Comparison):
        return render_comparison(what, format, width=width, colour=colour)
    if not isinstance(what, Report):
        raise UsageError(
            f"a report or a comparison is needed, not {type(what).__name__}",
            "Such as fusiondoc.render(fusiondoc.parse('train.log'), 'html').",
        )
    return render_report(what, format, width=width, colour=colour)


def capture(
    folder: str | os.PathLike[str] | None = None, *, fuser: str = "auto", dumps: Iterable[str] = ()
) -> ShownRun:
    """Record what the fusers of this process say, from entering a ``with`` block to leaving it.

        with fusiondoc.capture() as run:
            for _ in range(3):
                model(x)
        print(run.report)

    It changes nothing of how the program runs: the fuser is the one that the program has switched on. A
    group appears in the second or third call of a model, and a model that has run before keeps its plan, so
    the first three calls belong in the block.

    File descriptors 1 and 2 go to a file of the capture meanwhile, in true order. What the program prints
    through Python's streams is shown at once, as usual, and is in the file too. What compiled code and child
    processes print is in the file only (``run.log``). The JIT log level is set for the block. All of it is
    put back on every way out: the end, an exception, ``sys.exit``, Ctrl-C. A process that dies inside the
    block leaves its last words in the file. Of nvFuser's dumps, which it reads once, ``run.notes`` says what
    to set before the program starts.

    Args:
        folder: captures are kept in ``.fusiondoc/`` of this folder, by default the current one (the newest 20
            are kept); where that cannot be written, in a temporary folder, and ``run.notes`` says so.
        fuser: the fuser whose messages are wanted, if not the one that is switched on when the block begins.
        dumps: names of further dumps, as ``fusiondoc diagnose --dump`` takes them.

    Raises:
        UsageError: (on entering) another capture of this process is running; a name is unknown.
        CannotRun: (on entering) there is no torch.
    """
    return ShownRun(Path(folder) if folder is not None else None, fuser, tuple(dumps))


@dataclass(frozen=True, repr=False)
class ShownReport(Report):
    """A report that shows itself: as text when it is printed, as a small table in a notebook."""

    def __str__(self) -> str:
        return render(self)

    def __repr__(self) -> str:
        name = self.target.get("name") or "a log"
        return f"<fusiondoc report of {name}: {len(self.groups)} groups, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        return notebook.render(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


@dataclass(frozen=True, repr=False)
class ShownComparison(Comparison):
    """A comparison that shows itself, as a report does."""

    def __str__(self) -> str:
        return render(self)

    def __repr__(self) -> str:
        changed = "nothing changed" if self.same else "changed"
        return f"<fusiondoc comparison of {self.a.name} with {self.b.name}: {changed}>"

    def _repr_html_(self) -> str:
        return notebook.render_comparison(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class ShownRun(LiveRun):
    """A capture whose report shows itself; it shows the report too, with the notes."""

    def __enter__(self) -> ShownRun:
        super().__enter__()
        return self

    @property
    def report(self) -> Report:
        if self._shown is None:
            self._shown = _shown(super().report)
        return self._shown

    _shown: Report | None = None

    def __str__(self) -> str:
        if not self.ended:
            return repr(self)
        return render(self.report) + "".join(f"note: {note}\n" for note in self.notes)

    def _repr_html_(self) -> str | None:
        return notebook.render(self.report, self.notes) if self.ended else None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def _shown(report: Report) -> Report:
    return ShownReport(**{one.name: getattr(report, one.name) for one in fields(Report)})


def _path(log: Log) -> str:
    return str(log.path) if isinstance(log, (Capture, LiveRun)) else os.fspath(log)


def _side(given: Log | Report) -> Report:
    if isinstance(given, Report):
        return given
    return given.report if isinstance(given, LiveRun) else side(_path(given))
