"""The public API: the commands as Python functions. ``import fusiondoc`` has all of
it.

Nothing here prints or ends the process. Errors are raised as a
:class:`fusiondoc.errors.FusiondocError`: ``UsageError`` (no such file, format,
fuser), ``ModelFailed`` (the model itself raised), ``CannotRun`` (this machine or
this torch cannot do it); each has ``message`` and ``hint``, the next step.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.model_identity import check_model_name
from fusiondoc.captures.python_options import (
    checked_options,
    input_texts,
    knob_texts,
)
from fusiondoc.captures.request import (
    RunRequest,
    TargetSpec,
    parse_module,
    parse_target,
)
from fusiondoc.captures.store import CaptureStore
from fusiondoc.comparison import Comparison
from fusiondoc.comparison.compare_reports import compare as compare_reports
from fusiondoc.errors import FusiondocError, UsageError
from fusiondoc.model import count
from fusiondoc.model.bench import EAGER, ROUNDS, VARIANTS, Bench
from fusiondoc.model.report import Report
from fusiondoc.model.run_options import Offer
from fusiondoc.reports import render_bench, render_comparison, render_report
from fusiondoc.workflows.live_run import LOG_LIMIT, LiveRun
from fusiondoc.workflows.load import report_from, report_of, side
from fusiondoc.workflows.survey import survey

if TYPE_CHECKING:
    from fusiondoc.workflows.run import FollowUps

__all__ = [
    "Bench",
    "Comparison",
    "LiveRun",
    "Report",
    "bench",
    "capture",
    "compare",
    "diagnose",
    "parse",
]
__all__ += ["render", "survey"]

Shown = Report | Comparison | Bench
Log = Union[
    str, "os.PathLike[str]", Capture, LiveRun
]  # a path, or what was captured


def parse(
    logs: Log | Sequence[Log] | None = None, *, peak: float | None = None
) -> Report:
    """The report of saved logs or of a capture; needs neither torch nor a GPU.

    Args:
        logs: the path of a log (also ``.gz``, ``.xz``, ``.bz2``, ``.zst``), of a folder of logs or of a
            capture; a capture itself; several logs in a list are parts of the same run and give a
            single report. None is the newest capture in ``.fusiondoc/`` of the current folder.
        peak: memory bandwidth of the GPU in GB/s (10^9 bytes a second) to hold kernels against, if the figure
            of the log and the table of GPUs is not right.

    Raises:
        UsageError: there is no such log, or it cannot be read.

    Example:
        >>> report = fusiondoc.parse("train.log")  # doctest: +SKIP
        >>> [group.ops for group in report.groups]  # doctest: +SKIP
        [('aten::add', 'aten::relu')]
    """
    if logs is None:
        return _shown(report_from((), peak))
    if isinstance(logs, (str, os.PathLike, Capture, LiveRun)):
        several: list[Any] = [logs]
    else:
        several = list(logs)
    if not several:
        raise UsageError(
            "the list of logs is empty",
            "Name at least one log, or none for the newest capture.",
        )
    if len(several) == 1 and isinstance(several[0], Capture):
        return _shown(report_of(several[0], peak))
    return _shown(report_from([_path(log) for log in several], peak))


def diagnose(
    what: str | os.PathLike[str] | Callable[..., Any],
    inputs: Any = None,
    *,
    backward: bool = False,
    fuser: str = "auto",
    frontend: str = "auto",
    runs: int = 5,
    trace: bool = False,
    knobs: Mapping[str, Any] | None = None,
    dumps: Iterable[str] = (),
    device: str | None = None,
    seed: int | None = None,
    timeout: float = 600.0,
    verify: bool = False,
    time: bool = False,
    rerun: bool = True,
    no_freeze: bool = False,
    freeze: bool = False,
    mode: str = "default",
    dynamic: bool = False,
    no_run: bool = False,
    peak: float | None = None,
    script: bool = False,
    script_args: Sequence[str] = (),
    step_function: str | None = None,
    python: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    by_name: bool = True,
    notify: Callable[[str], None] | None = None,
    name: str | None = None,
    keep: bool = False,
    model_name: str | None = None,
) -> Report:
    """Run a model under a fuser in a process of its own, and report what fused,
    what did not and why.

    A target (``FILE.py``, ``FILE.py:NAME``, ``package.module:NAME`` or an archive
    ``FILE.pt``) runs exactly as ``fusiondoc diagnose`` runs it. A function, an
    ``nn.Module`` or a scripted module of this process is handed to the child:
    pickled, where all its code can be imported by name, else scripted here and
    saved as an archive (a lambda, a bound method or another callable is traced).
    This process keeps its own fuser state.

    Args:
        what: the target, or the model itself.
        inputs: of a model, the arguments: a tuple, a tensor, a function that returns either, or a list of
            tuples for several shapes. Of a target, the texts of ``--input``, such as
            ``["float32[8,128]:grad"]``; None takes the file's own.
        backward: add a backward pass to every run.
        fuser: the name of a fuser, "none" or "auto", as ``--fuser`` (``fusiondoc diagnose --help``).
        frontend: what builds the groups: "torchscript", "aot", "te", "dynamo" (torch.compile) or "auto", what
            the target uses.
        runs: passes for each shape; a group appears in the second or third.
        trace: trace instead of scripting.
        knobs: as ``--knob``: name to value; True and False are "on" and "off".
        dumps: names of what to print of kernels too, as ``--dump``.
        device: move model and inputs there first, such as "cuda".
        seed: of torch, set before the model is loaded.
        timeout: seconds after which the child is stopped.
        verify: compare every pass with an eager pass.
        time: run once more without logs, and time it, eager against fused.
        rerun: where groups fell back, run again without fallback to see why.
        no_freeze, freeze: freeze a module under no fuser, or under every one; else where its fuser needs it.
        peak: memory bandwidth of the GPU in GB/s to hold kernels against.
        script, script_args: run a file, or a module by its name, as it is; python: the interpreter.
        step_function: of a script, whose calls are its steps; by default those of its optimizer.
        folder: captures are kept in ``.fusiondoc/`` of this folder, by default the current one.
        by_name: False scripts a model here, for a model whose module must not be imported again.
        notify: is called with each note for stderr.
        name, keep: the name of the capture; with either it is kept until it is removed by name.
        model_name: which model this is, for ``survey``; by default its project and where it is in that.

    Raises:
        UsageError: wrong arguments, or inputs that cannot be handed to another process.
        ModelFailed: the model cannot be scripted, or it raised; the message is its own traceback. What was
            captured is the newest capture: ``fusiondoc.parse()``.
        CannotRun: this torch or machine cannot do it.
        KeyboardInterrupt: the user interrupted; the child was stopped.
    """
    # Imported here: reading logs must also work where processes cannot be started
    # (no POSIX).
    from fusiondoc.runner.interpreter import find_python
    from fusiondoc.workflows.run import FollowUps, silent

    options = checked_options(
        {
            "backward": backward,
            "fuser": fuser,
            "frontend": frontend,
            "runs": runs,
            "trace": trace,
            "knobs": knobs,
            "dumps": dumps,
            "device": device,
            "seed": seed,
            "timeout": timeout,
            "verify": verify,
            "no_freeze": no_freeze,
            "freeze": freeze,
            "mode": mode,
            "dynamic": dynamic,
            "no_run": no_run,
            "script": script,
            "script_args": script_args,
            "step_function": step_function,
        },
        Offer.PYTHON,
    )
    interpreter = (
        python
        if isinstance(python, str) and python
        else Path(python or sys.executable)
    )
    request = RunRequest(
        target=TargetSpec("", "file"),
        python=find_python(interpreter),
        model=None if model_name is None else check_model_name(model_name),
        **options,
    )
    notify_user = notify or silent
    run = _Run(
        CaptureStore(
            Path(folder) if folder is not None else None,
            name=name,
            keep=keep,
            notify=notify_user,
        ),
        FollowUps(rerun, timing=time),
        peak,
        notify_user,
    )
    if isinstance(what, (str, os.PathLike)):
        return _diagnose_target(os.fspath(what), inputs, request, run)
    if python is not None or script:
        raise UsageError(
            "a model of this process is not a script, and runs in this interpreter",
            "Name a target instead: fusiondoc.diagnose('model.py', python=..., script=...).",
        )
    return _diagnose_model(what, inputs, request, run, by_name)


class _Run(NamedTuple):
    """The settings of a run that are not part of its request; ``peak`` in GB/s."""

    store: CaptureStore
    follow_ups: FollowUps
    peak: float | None
    notify: Callable[[str], None]


def _diagnose_target(
    text: str, inputs: Any, request: RunRequest, run: _Run
) -> Report:
    from fusiondoc.workflows.run import diagnose_target

    texts = input_texts(inputs)
    as_module = (
        request.script and not text.endswith(".py") and not Path(text).exists()
    )
    target = parse_module(text) if as_module else parse_target(text)
    request = replace(request, target=target, inputs=texts)
    done = diagnose_target(
        request,
        run.store,
        follow_ups=run.follow_ups,
        peak=run.peak,
        notify=run.notify,
    )
    if done.interrupted:
        raise KeyboardInterrupt
    if done.failed is not None:
        raise done.failed
    return _shown(done.report)


def _diagnose_model(
    model: Callable[..., Any],
    inputs: Any,
    request: RunRequest,
    run: _Run,
    by_name: bool,
) -> Report:
    from fusiondoc.workflows.run_model import name_of, run_model, shapes_of, slug_of

    request = replace(request, target=TargetSpec(name_of(model), "file"))
    request.check()
    shapes = shapes_of(inputs)
    capture_folder = run.store.new(slug_of(model))
    try:
        done = run_model(
            model,
            shapes,
            request,
            capture_folder,
            by_name=by_name,
            follow_ups=run.follow_ups,
            peak=run.peak,
            notify=run.notify,
        )
    except FusiondocError:
        if not (capture_folder / "request.json").exists():  # nothing ran
            shutil.rmtree(capture_folder, ignore_errors=True)
        raise
    run.store.done(capture_folder)
    return _shown(done.report)


def compare(
    a: Log | Report, b: Log | Report, *, slower_than: float = 0.1
) -> Comparison:
    """What changed from ``a`` to ``b``: groups, reasons, kernels, speed.

    Args:
        a, b: reports, captures, or paths of logs, captures and saved JSON reports; a name is a capture of
            ``.fusiondoc/`` here.
        slower_than: share by which a median time must differ to be called slower or faster: 0.1 is 10 %.

    Raises:
        UsageError: there is no such thing, or it cannot be read.
    """
    if not 0 <= slower_than < float("inf"):
        raise UsageError(
            f"slower_than={slower_than}: a share is needed",
            "For example: 0.1 for 10 %.",
        )
    comparison = compare_reports(_side(a), _side(b), slower_than)
    return ShownComparison(
        **{
            field.name: getattr(comparison, field.name)
            for field in fields(Comparison)
        }
    )


def bench(
    target: str | os.PathLike[str],
    *,
    variants: Sequence[str] = VARIANTS,
    inputs: Sequence[str] | None = None,
    shapes: Sequence[str] = (),
    pythons: Sequence[str | os.PathLike[str]] = (),
    forward: bool = True,
    backward: bool = False,
    random_sizes: bool = False,
    trace: bool = False,
    eval: bool = False,
    device: str | None = None,
    seed: int = 0,
    knobs: Mapping[str, Any] | None = None,
    rounds: int = ROUNDS,
    processes: int | None = None,
    timeout: float = 600.0,
) -> Bench:
    """Time a target in every variant, on the same inputs, as ``fusiondoc bench``
    does.

    Args: target: FILE.py, FILE.py:NAME, package.module:NAME or an archive.
        variants: the variants to time beside eager, such as ``["none", "aot"]``.
        inputs: the texts of ``--input``, instead of the file's own. shapes: the
        texts of ``--shapes``: sets of sizes, each combination a shape. pythons:
        interpreters, each with all variants; by default this one. forward,
        backward: the phases that are timed: forward alone, forward and backward
        together. random_sizes: give every step other sizes, near those of each
        shape. trace: trace for TorchScript instead of scripting. eval: put a module
        into eval mode first. device, seed, knobs: as in ``diagnose``, for every
        variant. rounds: of each variant in each phase and shape. processes: that
        share the rounds; None chooses. timeout: seconds for a warm-up, and for
        every round.

    Raises:
        UsageError: wrong arguments.
        CannotRun: no variant can run here.
    """
    from fusiondoc.workflows.bench import expanded, run_bench, silent
    from fusiondoc.workflows.bench_turns import BenchRequest

    request = BenchRequest(
        target=parse_target(os.fspath(target)),
        pythons=tuple(Path(path) for path in pythons) or (Path(sys.executable),),
        variants=tuple(dict.fromkeys((EAGER, *variants))),
        inputs=input_texts(inputs),
        shapes=expanded(shapes),
        random_sizes=random_sizes,
        forward=forward,
        backward=backward,
        trace=trace,
        eval=eval,
        device=device,
        seed=seed,
        knobs=knob_texts(knobs),
        rounds=rounds,
        processes=processes,
        timeout=timeout,
    )
    return run_bench(request, silent)


def render(
    what: Shown, format: str = "text", *, width: int = 80, colour: bool = False
) -> str:
    """A report, a comparison or a bench as text.

    Args:
        format: "text", "json", "html" (one self-contained page), "markdown"; of a report also "sarif",
            "junit", "gitlab", "github", "openmetrics"; of a bench also "csv".
        width, colour: columns, and whether ANSI colours are used; for "text".

    Raises:
        UsageError: there is no such format.
    """
    if isinstance(what, Comparison):
        return render_comparison(what, format, width=width, colour=colour)
    if isinstance(what, Bench):
        return render_bench(what, format, width=width, colour=colour)
    if not isinstance(what, Report):
        raise UsageError(
            f"a report or a comparison is needed, not {type(what).__name__}",
            "For example: fusiondoc.render(fusiondoc.parse('train.log'), 'html').",
        )
    return render_report(what, format, width=width, colour=colour)


def capture(
    folder: str | os.PathLike[str] | None = None,
    *,
    fuser: str = "auto",
    dumps: Iterable[str] = (),
    log_limit: int = LOG_LIMIT,
    name: str | None = None,
    keep: bool = False,
    model_name: str | None = None,
) -> ShownRun:
    """Record what the fusers of this process print, from entering a ``with`` block
    to leaving it.

        with fusiondoc.capture() as run:
            for _ in range(3):
                model(x)
        print(run.report)

    It changes nothing of how the program runs. A group appears in the second or
    third call of a model, and a model that has run before keeps its plan: the first
    three calls belong in the block.

    File descriptors 1 and 2 go to a file of the capture meanwhile, in true order.
    What the program prints through Python's streams is shown as usual too; what
    compiled code and child processes print is in the file only (``run.log``). The
    JIT log level is set for the block. All of it is put back on every way out: the
    end, an exception, ``sys.exit``, Ctrl-C. Of dumps that a fuser reads once,
    ``run.notes`` states what to set before the start. What AOTAutograd compiles and
    the block scripts is in the report by name.

    Args:
        folder: captures are in its ``.fusiondoc/``, by default of the current one (the newest 20 stay); where
            that cannot be written, in a temporary folder, and ``run.notes`` states it.
        fuser: the fuser whose messages are wanted, if not the one that is switched on when the block begins.
        dumps: names of further dumps, as ``fusiondoc diagnose --dump`` takes them.
        log_limit: MiB of output that are kept; of more, head, tail and lines about fusion between them.
        name, keep: what the capture is called; it stays then, or with ``keep``, until it is removed by name.
        model_name: which model this is, for ``survey``; by default the project, file and function of the
            block.

    Raises: UsageError: (on entering) another capture of this process runs; a name
        is unknown. CannotRun: (on entering) there is no torch.
    """
    return ShownRun(
        Path(folder) if folder else None,
        fuser,
        tuple(dumps),
        log_limit,
        name,
        keep,
        model_name,
    )


@dataclass(frozen=True, repr=False)
class ShownReport(Report):
    """A report that shows itself: as text when it is printed, as a small table in a
    notebook."""

    def __str__(self) -> str:
        return render(self)

    def __repr__(self) -> str:
        name = self.target.name or "a log"
        found = f"{count(len(self.groups), 'group')}, {count(len(self.findings), 'finding')}"
        return f"<fusiondoc report of {name}: {found}>"

    def _repr_html_(self) -> str:
        from fusiondoc.reports.fragments import report_fragment

        return report_fragment(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


@dataclass(frozen=True, repr=False)
class ShownComparison(Comparison):
    """A comparison that shows itself, as a report does."""

    def __str__(self) -> str:
        return render(self)

    def __repr__(self) -> str:
        changed = "nothing changed" if self.same else "changed"
        return (
            f"<fusiondoc comparison of {self.a.name} with {self.b.name}: {changed}>"
        )

    def _repr_html_(self) -> str:
        from fusiondoc.reports.fragments import comparison_fragment

        return comparison_fragment(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class ShownRun(LiveRun):
    """A capture whose report shows itself; it shows the report too, with the
    notes."""

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
        return render(self.report) + "".join(
            f"note: {note}\n" for note in self.notes
        )

    def _repr_html_(self) -> str | None:
        from fusiondoc.reports.fragments import report_fragment

        if self.ended:
            return report_fragment(self.report, self.notes)
        return None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def _shown(report: Report) -> Report:
    return ShownReport(
        **{field.name: getattr(report, field.name) for field in fields(Report)}
    )


def _path(log: Log) -> str:
    if isinstance(log, (Capture, LiveRun)):
        return str(log.path)
    return os.fspath(log)


def _side(given: Log | Report) -> Report:
    if isinstance(given, Report):
        return given
    if isinstance(given, LiveRun):
        return given.report
    return side(_path(given))
