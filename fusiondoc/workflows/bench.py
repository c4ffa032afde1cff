"""``fusiondoc bench``: a model in every variant on the same inputs, in one or
several interpreters.

Each variant is a process of its own in each phase, and none logs anything. All
variants of a phase live at the same time and run a round each in turns, in an order
that changes from turn to turn: a slow moment of the machine then slows all of them.
Then each variant gets a second process, and all of these take turns: where the host
is the limit, processes of one program differ by more than rounds of one process.
(All at once would need the memory of the GPU twice.)
"""

from __future__ import annotations

import contextlib
import itertools
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from fusiondoc.errors import CannotRun, ModelFailed, UsageError
from fusiondoc.model.bench import (
    EAGER,
    Bench,
    BenchShape,
)
from fusiondoc.probe.pass_inputs import InputTextError, parse_input
from fusiondoc.runner.bench_child import BenchChild
from fusiondoc.runner.interpreter import Interpreter, find_python, inspect
from fusiondoc.workflows.bench_rows import label_among, variant_row
from fusiondoc.workflows.bench_turns import (
    BenchProgress,
    BenchRequest,
    Start,
    VariantRun,
    run_in_turns,
    start_variant,
)


class _Silent:
    """Shows nothing."""

    def say(self, doing: str, done: int, total: int) -> None: ...


@contextlib.contextmanager
def silent() -> Iterator[BenchProgress]:
    """Context manager without a progress display."""
    yield _Silent()


class _Whole:
    """The progress of one of ``phases`` phases as a part of the whole, so that the
    displayed time left is that of the whole."""

    def __init__(self, bar: BenchProgress, before: int, phases: int) -> None:
        self._bar, self._before, self._phases = bar, before, phases

    def say(self, doing: str, done: int, total: int) -> None:
        self._bar.say(doing, self._before * total + done, self._phases * total)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fusiondoc-bench-") as name:
        yield Path(name)


def run_bench(
    request: BenchRequest,
    progress: Callable[[], AbstractContextManager[BenchProgress]],
) -> Bench:
    """Run all variants in all interpreters.

    An interruption (Ctrl-C) ends the rounds; the result holds the measurements up
    to then.

    Raises:
        UsageError: wrong usage.
        KeyboardInterrupt: the user stopped it before the first turn was done.
        CannotRun: no interpreter has torch, or this system cannot run models.
        ModelFailed: the model fails in every variant, eager too.
    """
    request.check()
    interpreters = [inspect(find_python(path)) for path in request.pythons]
    for chosen in interpreters:
        chosen.require_torch()
    done, interrupted = _measured(request, interpreters, progress)
    if interrupted and not any(
        run.measured_shapes() for runs in done.values() for run in runs
    ):
        raise KeyboardInterrupt
    _refuse_if_nothing_ran(request, done)
    variants = []
    for number, (interpreter, name) in enumerate(
        itertools.product(interpreters, request.variants)
    ):
        present = {}
        for phase, runs in done.items():
            if number < len(runs):
                present[phase] = runs[number]
        variants.append(
            variant_row(name, label_among(interpreter, interpreters), present, done)
        )
    children = []
    for runs in done.values():
        for run in runs:
            children.append(run.child)
    shapes = _shapes(children)
    inputs = shapes[0].inputs if shapes else request.inputs
    return Bench(
        _environment(children),
        request.target.label,
        inputs,
        tuple(variants),
        interrupted,
        shapes,
    )


def _measured(
    request: BenchRequest,
    interpreters: Sequence[Interpreter],
    progress: Callable[[], AbstractContextManager[BenchProgress]],
) -> tuple[dict[str, list[VariantRun]], bool]:
    """The runs of each phase, and whether the user interrupted."""
    phases = [phase for phase, wanted in request.phases().items() if wanted]
    done: dict[str, list[VariantRun]] = {}
    interrupted = False
    with _folder() as folder, progress() as bar:
        for phase in phases:
            whole = _Whole(bar, len(done), len(phases))
            done[phase], interrupted = _phase(
                request, interpreters, phase, folder / phase, whole
            )
            if interrupted:
                break
    return done, interrupted


def _environment(children: Sequence[BenchChild]) -> dict[str, str]:
    """The texts among the facts that the first child reported of its torch."""
    for child in children:
        if child.facts is not None:
            environment = {}
            for name, value in vars(child.facts).items():
                if isinstance(value, str):
                    environment[name] = value
            return environment
    return {}


def _shapes(children: Sequence[BenchChild]) -> tuple[BenchShape, ...]:
    """The input shapes of the variants that completed most phases."""
    most = max((child.inputs for child in children), key=len, default={})
    shapes = []
    for number in sorted(most):
        shapes.append(BenchShape(most[number].inputs, most[number].sizes))
    return tuple(shapes)


def _phase(
    request: BenchRequest,
    interpreters: Sequence[Interpreter],
    phase: str,
    folder: Path,
    bar: BenchProgress,
) -> tuple[list[VariantRun], bool]:
    """Run all variants of one phase; also return whether the user interrupted."""

    def starting(name: str, chosen: Interpreter) -> Start:
        return lambda inside: start_variant(request, name, chosen, phase, inside)

    starts = []
    for interpreter in interpreters:
        for name in request.variants:
            starts.append(starting(name, interpreter))
    return run_in_turns(starts, request, folder, bar, phase)


def _refuse_if_nothing_ran(
    request: BenchRequest, done: Mapping[str, Sequence[VariantRun]]
) -> None:
    """Raise the error of the variants if no variant has a round, for the same
    reason."""
    runs: list[VariantRun] = []
    for of_start in done.values():
        runs.extend(of_start)
    if any(run.measured_shapes() for run in runs):
        return
    for run in sorted(runs, key=lambda run: run.name != EAGER):
        problem = run.child.problem
        if problem is None:
            continue
        if problem.type != "Refused":
            where = f"{request.target.label} failed in every variant; {run.name}: "
            raise ModelFailed(
                where + run.child.why(),
                problem.hint or "Run it by hand to see more.",
            )
        if run.name == EAGER or len({run.why for run in runs}) == 1:
            raise CannotRun(run.child.why(), problem.hint)
    reasons = "; ".join(f"{run.name}: {run.why}" for run in runs if run.why)
    raise CannotRun(
        f"no variant could run: {reasons}" if reasons else "no round was run", None
    )


MOST_SHAPES = 64

_SET = re.compile(r"\{([^{}]*)\}")

_EXAMPLE = "For example: --shapes 'float32[8,{64,128,256},1024]'"


def expanded(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the ``--input`` texts of each shape. Equal sets vary together;
    different ones are combined each with each, the first slowest.

    Args:
        texts: one for each argument of the model; without any there is no shape.

    Raises:
        UsageError: a text cannot be read, or there are more than ``MOST_SHAPES``.
    """
    if not texts:
        return ()
    sets = list(
        dict.fromkeys(
            _key(text, item) for text in texts for item in _SET.findall(text)
        )
    )
    number = 1
    for set_ in sets:
        number *= len(set_)
    if number > MOST_SHAPES:
        raise UsageError(
            f"--shapes: these are {number} shapes, and at most {MOST_SHAPES} are timed",
            "Take fewer sizes.",
        )
    shapes = []
    for chosen in itertools.product(*sets):
        values = dict(zip(sets, chosen))
        shapes.append(tuple(_filled(text, values) for text in texts))
    for text in itertools.chain.from_iterable(shapes):
        try:
            parse_input(text)
        except InputTextError as error:
            raise UsageError(f"--shapes: {error}", _EXAMPLE) from None
    return tuple(dict.fromkeys(shapes))


def _filled(text: str, values: Mapping[tuple[str, ...], str]) -> str:
    return _SET.sub(lambda found: values[_words(found[1])], text)


def _key(text: str, inside: str) -> tuple[str, ...]:
    words = _words(inside)
    for word in words:
        if not re.fullmatch(r"[0-9]+", word):
            found = f"found '{word}'" if word else "found nothing"
            raise UsageError(
                f"--shapes: '{text}': expected sizes in {{...}}, {found}", _EXAMPLE
            )
    return words


def _words(inside: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in inside.split(","))
