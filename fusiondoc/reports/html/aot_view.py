"""The sections on where graphs come from: the models of a program, and AOTAutograd's functions with their
graphs, their groups and what a partition keeps."""

from __future__ import annotations

from dataclasses import dataclass

from fusiondoc.model.aot import AotFunction
from fusiondoc.reports import aot_words
from fusiondoc.reports.html.page_context import Context


@dataclass(frozen=True)
class FunctionView:
    """A function; ``more`` of its tensors are only in the JSON report."""

    id: str
    headline: str
    sides: tuple[aot_words.Side, ...]
    partition: str | None
    kept: tuple[aot_words.Kept, ...]
    more: int
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class AotView:
    modules: tuple[str, ...]
    functions: tuple[FunctionView, ...]


@dataclass(frozen=True)
class ScriptView:
    lines: tuple[str, ...]


def script_view(context: Context) -> ScriptView | None:
    """What a program that ran as it is gave to TorchScript; None of another run."""
    lines = aot_words.script_lines(context.report)
    return ScriptView(tuple(lines)) if lines else None


def aot_view(context: Context) -> AotView | None:
    """Functions that were given to AOTAutograd; None without any."""
    report = context.report
    if not report.aot and not report.fused_modules:
        return None
    return AotView(
        tuple(aot_words.module_line(one) for one in report.fused_modules),
        tuple(_function(one) for one in report.aot[:100]),
    )


def _function(one: AotFunction) -> FunctionView:
    rows = aot_words.kept(one)
    shown = rows[: 4 * aot_words.MOST_VALUES]
    return FunctionView(
        one.id,
        aot_words.headline(one),
        aot_words.sides(one),
        aot_words.partition(one),
        shown,
        len(rows) - len(shown),
        aot_words.remarks(one),
    )
