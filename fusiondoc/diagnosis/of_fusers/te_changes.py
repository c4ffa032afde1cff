"""Changes of a program that let Transformer Engine's operation fuser take more of
it (for the plan).

The gain is the number of operators that a rule would then take; their time is not
known before.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.of_fusers.te_modules import counterpart, instead_of, named
from fusiondoc.diagnosis.of_fusers.te_rules import lacks_recipe, version_of
from fusiondoc.diagnosis.planned_changes import SuggestedChange
from fusiondoc.diagnosis.rules import Context
from fusiondoc.model import count, dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.operator_places import folded
from fusiondoc.model.reasons import Detail, UnmetConditions
from fusiondoc.model.remedies import AS_REQUESTED, Setting
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.model.te import TeSplit

_RECIPE = Setting(recipe="delayed")


def te_changes(report: Report, context: Context) -> list[SuggestedChange]:
    """Return the changes, those for most operators first."""
    found = [*_of_rows(report, context), *_of_splits(report)]
    return sorted(found, key=lambda one: -one.operators)


# -- of operators that stayed basic --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Suggestion:
    """A change for operators that stayed basic for one reason."""

    kind: ChangeKind
    change: str
    lines: tuple[str, str]
    """A line of the program and the changed line; if not known, lines like them."""
    rows: Sequence[Unfused]
    """The operators."""
    first: Unfused
    """The row whose line is changed."""
    setting: Setting = AS_REQUESTED


def _of_rows(report: Report, context: Context) -> Iterable[SuggestedChange]:
    of_code: dict[tuple[str, Detail | None], list[Unfused]] = {}
    for row in report.unfused:
        flag = row.reason.detail if row.reason.code == "FD242" else None
        of_code.setdefault((row.reason.code, flag), []).append(row)
    for (code, _), rows in of_code.items():
        suggest = _SUGGESTED_FOR.get(code)
        suggestion = suggest(report, context, rows) if suggest is not None else None
        if suggestion is not None:
            yield _step(code, suggestion)


def _step(code: str, suggestion: _Suggestion) -> SuggestedChange:
    kind, rows, first = suggestion.kind, suggestion.rows, suggestion.first
    position = Source.parse(first.user_source)
    on_other_lines = []
    if kind.in_source:
        on_other_lines = [row for row in rows if row.op == first.op]
    number = sum(row.count for row in rows)
    before, after = suggestion.lines
    change = Change(
        kind,
        suggestion.change,
        setting=suggestion.setting,
        where=(position.at_line,)
        if position is not None and kind.in_source
        else (),
        codes=(code,),
        note=first.reason.text + _other_lines(on_other_lines, position),
        before=before,
        after=after,
    )
    return SuggestedChange(
        change,
        f"{count(number, 'operator')}: {_in_words(rows)}",
        operators=number,
        ops=tuple(dict.fromkeys(row.op for row in rows)),
    )


def _in_words(rows: Sequence[Unfused]) -> str:
    """Return ``Linear and Bias and others in encoder.0``."""
    ops = list(dict.fromkeys(row.op for row in rows))
    names = " and ".join(op.rpartition(".")[2] for op in ops[:2])
    if len(ops) > 2:
        names += " and others"
    layers = []
    for row in rows:
        for layer in row.layers:
            if layer:
                layers.append(layer)
    if layers:
        return f"{names} in {folded(layers, 2)}"
    return names


def _other_lines(rows: Sequence[Unfused], position: Source | None) -> str:
    """Return ``; also for model.py:14, model.py:20 and 3 more lines``."""
    others = list(
        dict.fromkeys(
            row.user_source for row in rows if row.user_source is not None
        )
    )
    others = [
        other
        for other in others
        if position is not None and other != position.at_line
    ]
    more = f" and {len(others) - 2} more lines" if len(others) > 2 else ""
    if others:
        return f"; also for {', '.join(others[:2])}{more}"
    return ""


def _in_bfloat16(
    report: Report, context: Context, rows: Sequence[Unfused]
) -> _Suggestion:
    """FD241: use a half type from the start."""
    if any(
        finding.code == "FD118" for finding in report.findings
    ):  # they have one, but too late
        return _Suggestion(
            ChangeKind.RUNS,
            "Convert the model before its first call",
            (
                "model(x); model.to(torch.bfloat16)",
                "model.to(torch.bfloat16); model(x)",
            ),
            rows,
            rows[0],
        )
    lines = _with_argument(report, rows[0], "dtype", "torch.bfloat16")
    like_these = (
        "te.ops.Linear(n, m)",
        "te.ops.Linear(n, m, dtype=torch.bfloat16)",
    )
    return _Suggestion(
        ChangeKind.DTYPE,
        "Make the operators in bfloat16",
        lines or like_these,
        rows,
        rows[0],
    )


def _with_other_flag(
    report: Report, context: Context, rows: Sequence[Unfused]
) -> _Suggestion:
    """FD242: give ``in_place`` the other value."""
    flags = _in_place_flags(rows[0])
    wanted = "False" if "output_in_place" in flags else "True"
    now = "True" if wanted == "False" else "False"
    name = "AddExtraInput" if flags == {"sum_not_in_place"} else "MakeExtraOutput"
    first = next((row for row in rows if row.op.endswith(name)), rows[0])
    lines = _with_argument(report, first, "in_place", wanted)
    like_these = (
        f"te.ops.{name}(in_place={now})",
        f"te.ops.{name}(in_place={wanted})",
    )
    return _Suggestion(
        ChangeKind.OUT_OF_PLACE,
        f"Make {name} with in_place={wanted}",
        lines or like_these,
        rows,
        first,
    )


def _under_a_recipe(
    report: Report, context: Context, rows: Sequence[Unfused]
) -> _Suggestion | None:
    """FD244: run under a recipe, unless it ran under one: then the report shows the
    effect."""
    without = [row for row in rows if lacks_recipe(row.reason.detail)]
    if not without or _ran_under_a_recipe(report):
        return None
    return _Suggestion(
        ChangeKind.KNOB,
        "Run it under a recipe, if it may be quantized",
        ("model(x)", f"with te.{_autocast(report)}: model(x)"),
        without,
        without[0],
        AS_REQUESTED if _is_program(context) else _RECIPE,
    )


_SUGGESTED_FOR: Mapping[
    str, Callable[[Report, Context, Sequence[Unfused]], _Suggestion | None]
] = {
    "FD241": _in_bfloat16,
    "FD242": _with_other_flag,
    "FD244": _under_a_recipe,
}
"""Code of a reason -> the change for its rows; other reasons have none."""


def _ran_under_a_recipe(report: Report) -> bool:
    fusers = report.te.fusers if report.te is not None else ()
    for fuser in fusers:
        for plan in fuser.plans:
            if plan.recipe is not None:
                return True
    return False


def _is_program(context: Context) -> bool:
    """True for a program, which enters recipes itself: --recipe is for models."""
    return context.request is not None and bool(context.request.options.script)


def _autocast(report: Report) -> str:
    """Return the call of ``autocast``, which is in
    transformer_engine/pytorch/__init__.py of 2.10, not of 2.8."""
    version = version_of(report.te.version) if report.te is not None else None
    if version is not None and version < (2, 10):
        return "fp8_autocast(enabled=True, fp8_recipe=recipe)"
    return "autocast(enabled=True, recipe=recipe)"


_IN_PLACE = ("sum_not_in_place", "output_not_in_place", "output_in_place")


def _in_place_flags(row: Unfused) -> set[str]:
    """Return the conditions on ``in_place`` that an operator does not meet."""
    detail = row.reason.detail
    if not isinstance(detail, UnmetConditions):
        return set()
    flags = set()
    for unmet in detail.conditions:
        if unmet.condition in _IN_PLACE:
            flags.add(unmet.condition)
    return flags


# -- lines of the program ------------------------------------------------------------------------------------


def _with_argument(
    report: Report, row: Unfused, keyword: str, value: str
) -> tuple[str, str] | None:
    """Return the line that makes the operator, and the line with another argument;
    None if it is no call on one line."""
    line = _line_of(report, row)
    if line is None or not line.isascii():
        return None
    name = row.op.rpartition(".")[2]
    call = _only_call(line, (name, "Linear") if keyword == "dtype" else (name,))
    if call is None or call.end_col_offset is None:
        return None
    for given in call.keywords:
        if given.arg == keyword and given.value.end_col_offset is not None:
            return line, line[: given.value.col_offset] + value + line[
                given.value.end_col_offset :
            ]
    end = call.end_col_offset - 1
    inside = line[:end].rstrip()
    comma = "" if inside.endswith(("(", ",")) else ", "
    return line, f"{inside}{comma}{keyword}={value}{line[end:]}"


def _line_of(report: Report, row: Unfused) -> str | None:
    """Return the line that made an operator, without its indentation and a trailing
    comma."""
    position = Source.parse(row.user_source)
    if position is None or position.line is None or report.texts is None:
        return None
    lines = (report.texts.source(position.file) or "").split("\n")
    if not 0 < position.line <= len(lines):
        return None
    return lines[position.line - 1].strip().rstrip(",")


def _only_call(line: str, names: Sequence[str]) -> ast.Call | None:
    """Return the call of one of these names, if the line has a single one."""
    try:
        nodes = list(ast.walk(ast.parse(line)))
    except (SyntaxError, ValueError):
        return None
    calls = []
    for node in nodes:
        if isinstance(node, ast.Call) and _called(node) in names:
            calls.append(node)
    if len(calls) == 1:
        return calls[0]
    return None


def _called(call: ast.Call) -> str | None:
    """Return ``Linear`` for ``te.ops.Linear(...)``."""
    found = getattr(call.func, "attr", getattr(call.func, "id", None))
    if isinstance(found, str):
        return found
    return None


# -- of modules that split a sequence ------------------------------------------------------------------------


def _of_splits(report: Report) -> Iterable[SuggestedChange]:
    if report.te is None:
        return
    modules: dict[tuple[str, str | None], list[TeSplit]] = {}
    for split in report.te.splits:
        modules.setdefault((split.module, split.of), []).append(split)
    version = version_of(report.te.version)
    for several in modules.values():
        first = several[0]
        layers = folded(tuple(split.where for split in several), 2)
        other, position = counterpart(first, version), Source.parse(first.source)
        change = Change(
            ChangeKind.RECIPE if other is not None else ChangeKind.MOVE,
            instead_of(first, version),
            where=(position.at_line,) if position is not None else (),
            codes=("FD113",),
            before=f"{named(first)}(...)" if other is not None else None,
            after=f"{other}(...)" if other is not None else None,
        )
        yield SuggestedChange(
            change,
            f"{named(first)} ({layers}) splits its sequence: nothing is fused across it",
        )
