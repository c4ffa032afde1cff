"""``fusiondoc bench``: a model in every variant on the same inputs, timed side by
side. (``workflows/bench.py`` does the work)"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import click

from fusiondoc.cli.help import CommandWithShortHelp
from fusiondoc.cli.options import chosen_knobs, run_option
from fusiondoc.cli.output import (
    complete_files,
    format_of,
    format_option,
    notify,
    output_option,
    text_style,
    write,
)
from fusiondoc.errors import FINDINGS_FOUND, INTERRUPTED, UsageError
from fusiondoc.model.bench import EACH_CALL, EAGER, VARIANTS

FORMATS = ("text", "json", "markdown", "csv", "html")
ENDINGS = {
    ".json": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".csv": "csv",
    ".html": "html",
    ".htm": "html",
    ".txt": "text",
}


@click.command(name="bench", cls=CommandWithShortHelp)
@click.argument("target", required=False, shell_complete=complete_files)
@click.option(
    "--suite",
    metavar="NAME",
    help="Time the programs of a suite instead of a target: tutorial, xformers.",
)
@click.option(
    "--list-suites", is_flag=True, help="Show the suites and their cases, and exit."
)
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="TEXT",
    help="Only cases of the suite whose name contains this ('rms', 'bias_gelu*float16'). Repeat for more.",
)
@click.option(
    "--small/--full",
    default=None,
    help="Sizes of a suite; by default the full ones where a GPU is seen. With a target, --full shows where"
    " the time of each variant goes.",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    type=click.Choice((*VARIANTS, EACH_CALL)),
    metavar="NAME",
    help=f"Run only this one, and eager: {', '.join((*VARIANTS, EACH_CALL))}. Repeat for more.",
)
@run_option("backward", "Time forward and backward together too.")
@click.option(
    "--no-forward",
    "forward",
    is_flag=True,
    flag_value=False,
    default=True,
    help="With --backward: do not time the forward pass alone.",
)
@run_option("inputs")
@click.option(
    "--shapes",
    multiple=True,
    metavar="TEXT",
    help="As --input, with sets of sizes: 'float32[8,{64,128,256},1024]' is three shapes.",
)
@click.option(
    "--random-sizes",
    is_flag=True,
    help="Give every step other sizes, near those of the inputs (20 of them).",
)
@click.option(
    "--rounds",
    type=int,
    default=15,
    show_default=True,
    help="Rounds of each variant and phase.",
)
@click.option(
    "--processes",
    type=int,
    metavar="N",
    help="Processes of each variant and phase, which share the rounds: processes of one program differ by"
    " more than rounds of one. Default: 2; 1 in a suite, or where warming up takes longer than a quarter of"
    " --timeout.",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="An interpreter whose torch runs the model; by default this one. Repeat to compare several.",
)
@run_option("trace", "Trace the model for TorchScript instead of scripting it.")
@click.option(
    "--eval", "eval_mode", is_flag=True, help="Put a module into eval mode first."
)
@run_option("device")
@run_option("seed", "Seed of torch.", default=0, show_default=True)
@run_option(
    "knobs",
    "Set a knob of torch in every variant (fusiondoc knobs lists them). Repeat for more.",
)
@run_option(
    "timeout",
    "Give up a variant that needs longer than this to warm up, or for a round.",
)
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(("slower",)),
    help="Exit with status 1 if a variant is slower than eager (its 95 % interval is below 1).",
)
@format_option(FORMATS)
@output_option(
    "Write to this file; its ending gives the format. Repeat for more formats of one run.",
    "outputs",
    multiple=True,
)
def command(
    target: str | None,
    suite: str | None,
    list_suites: bool,
    cases: tuple[str, ...],
    small: bool | None,
    variants: tuple[str, ...],
    pythons: tuple[Path, ...],
    eval_mode: bool,
    knobs: tuple[str, ...],
    shapes: tuple[str, ...],
    fail_on: tuple[str, ...],
    format_: str | None,
    outputs: tuple[Path, ...],
    **options: Any,
) -> int:
    """Time TARGET in every variant that can run here: eager, TorchScript with each fuser and with none,
    AOTAutograd, torch.compile.

    Every variant runs in processes of its own, without logs, and all take a round in turns. A ratio whose
    95 % interval holds 1 is "no difference".

    \b
    Examples:
      fusiondoc bench model.py
      fusiondoc bench model.py --backward --variant none --variant aot
      fusiondoc bench model.py --shapes 'float32[8,{64,128,256},1024]'
      fusiondoc bench model.py --python old/bin/python --python new/bin/python
      fusiondoc bench --suite tutorial -o tutorial.html -o tutorial.json
    """
    from fusiondoc.captures.request import parse_target
    from fusiondoc.suites import SUITES, listing, suite_named
    from fusiondoc.workflows.bench import expanded, run_bench
    from fusiondoc.workflows.bench_suite import SuiteRequest, run_suite
    from fusiondoc.workflows.bench_turns import BenchRequest

    if list_suites:
        write(listing(), outputs[0] if outputs else None)
        return 0
    if (target is None) == (suite is None):
        raise UsageError(
            "bench needs a target or a suite, one of them",
            f"For example: fusiondoc bench model.py, or fusiondoc bench --suite {next(iter(SUITES))}",
        )
    plan = suite_named(suite) if suite is not None else None
    request = BenchRequest(
        target=parse_target(
            plan.cases[0].target if plan is not None else str(target)
        ),
        pythons=pythons or (Path(sys.executable),),
        variants=_in_order(
            variants or (plan.variants if plan is not None else VARIANTS)
        ),
        eval=eval_mode,
        knobs=chosen_knobs(knobs),
        shapes=expanded(shapes),
        **options,
    )
    if plan is not None:
        bench: Any = run_suite(SuiteRequest(plan, request, cases, small), _progress)
    else:
        bench = run_bench(request, _progress)
    for output in outputs or (None,):
        write(
            _text(
                bench,
                format_of(format_, output, ENDINGS),
                output,
                full=small is False,
            ),
            output,
        )
    if bench.interrupted:
        return INTERRUPTED
    return _status(bench, fail_on)


def _status(bench: Any, fail_on: Collection[str]) -> int:
    slower = bench.slower() if fail_on else []
    if slower:
        notify(f"failed on: slower ({', '.join(slower)})")
    if slower:
        return FINDINGS_FOUND
    return 0


def _in_order(variants: Collection[str]) -> tuple[str, ...]:
    """The variants in the order of the table, and eager in any case."""
    ordered = []
    for name in (*VARIANTS, EACH_CALL):
        if name in variants or name == EAGER:
            ordered.append(name)
    return tuple(ordered)


def _text(bench: Any, format_: str, output: Path | None, full: bool) -> str:
    from fusiondoc.reports import bench_documents, render_bench

    if format_ == "text":
        return bench_documents.as_text(bench, **text_style(output), full=full)
    return render_bench(bench, format_)


class _Bar:
    """A bar on stderr."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None)

    def say(self, doing: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=doing, completed=done, total=total)


LINE_SECONDS = 10.0
"""Seconds between lines of progress, if stderr is no terminal."""


class _Lines:
    """A line on stderr at the start and every ten seconds, also while one step
    takes longer than that."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._at: tuple[str, int, int] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._now_and_then, name="fusiondoc progress", daemon=True
        )

    def say(self, doing: str, done: int, total: int) -> None:
        first, self._at = self._at is None, (doing, done, total)
        if first:
            self._show()
            self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _now_and_then(self) -> None:
        while not self._over.wait(LINE_SECONDS):
            with contextlib.suppress(
                OSError, ValueError
            ):  # a reader that went away is no reason to stop
                self._show()

    def _show(self) -> None:
        if self._at is None:
            return
        doing, done, total = self._at
        share = f"{done / total:.0%} done, " if done and total else ""
        notify(f"bench: {share}{time.monotonic() - self._began:.0f} s: {doing}")


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    if not sys.stderr.isatty():
        lines = _Lines()
        try:
            yield lines
        finally:
            lines.end()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar)
