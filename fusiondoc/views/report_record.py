"""The origin of a report, as sections: the expectations that it was checked
against, how to run it again, and how well its log was read."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fusiondoc.fusers import variables_set
from fusiondoc.model import count
from fusiondoc.model.report import Fallback, Finding, Group, Report, Unfused
from fusiondoc.model.runs import Expectation
from fusiondoc.numbers import figure, whole_number
from fusiondoc.rendering.blocks import (
    Block,
    CodeBlock,
    Column,
    Command,
    Formats,
    Heading,
    Item,
    Items,
    NamedValues,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.units import bandwidth, seconds, size
from fusiondoc.rendering.values import Status, Text, Tone


def expectations(report: Report) -> Section:
    """Section of the expectations of ``check`` with their results, the broken ones
    first."""
    rows = sorted(report.expectations, key=lambda row: row.holds)
    broken = sum(not row.holds for row in rows)
    note = f"{len(rows) - broken} of {len(rows)} hold" + (
        f", {broken} broken." if broken else "."
    )
    return Section(
        "expectations",
        "Expectations",
        note,
        (Items(tuple(map(_expectation, rows))),),
    )


def _expectation(row: Expectation) -> Item:
    if row.holds:
        mark = Status("holds", Tone.GOOD, "✅")
    else:
        mark = Status("broken", Tone.BAD, "❌")
    position = row.file + (f":{row.line}" if row.line is not None else "")
    if row.code is not None and row.source is not None:  # not in the file
        position = row.source
    details = [
        *([row.why] if row.why else []),
        *([f"note: {row.note}"] if row.note else []),
    ]
    return Item(
        (mark,),
        f"{row.expected}; found {row.found}",
        position,
        tuple(details),
        row.groups,
    )


_KNOBS = (
    Column("knob"),
    Column("requested"),
    Column("effective"),
    Column("does something"),
)

_SET = re.compile(
    "|".join(
        ("PYTORCH_JIT_LOG_LEVEL", "PYTORCH_JIT_TYPE_VERBOSITY", *variables_set())
    )
)
"""Variables that fusiondoc sets. A capture or report from elsewhere can name any
variable, and users copy these lines."""


def reproduce(report: Report) -> Section:
    """Section of the command, the variables that were set, the machine and the
    knobs; only pages have it."""
    command, options = report.target.command, report.target.options
    blocks: list[Block] = []
    typed = _shell(command) if command else None
    if typed is not None:
        blocks += [Heading("The command"), CodeBlock(typed, "Command")]
    known = {}
    for name, value in report.target.environment_set.items():
        if _SET.fullmatch(name):
            known[name] = value
    exports = []
    for name, value in known.items():
        exports.append(f"export {name}={shlex.quote(value)}")
    if exports:
        blocks += [
            Heading("What it set for your program"),
            CodeBlock("\n".join(exports), "Environment variables"),
        ]
    environment = _facts(_in_words(report.environment))
    if environment.rows:
        blocks += [Heading("Environment"), environment]
    if options is not None:
        blocks += [Heading("Options"), _facts(options.values_in_words())]
    knobs = []
    for knob in report.knobs:
        if knob.live is None:
            live = "not known"
        elif knob.live:
            live = "yes"
        else:
            live = "no"
        cells = (knob.name, knob.requested or "–", knob.effective or "–", live)
        knobs.append(Row(tuple(map(Text, cells))))
    if knobs:
        blocks += [Heading("Knobs"), Table(_KNOBS, tuple(knobs), caption="Knobs")]
    return Section(
        "reproduce", "Reproduce", blocks=tuple(blocks), formats=Formats.PAGE
    )


def _in_words(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the record of the environment with the names and units that people
    know."""
    for name, value in environment.items():
        label, written = _ENVIRONMENT.get(name, (name, str))
        yield label, written(value)


def _bytes_of(value: str) -> str:
    number = whole_number(value)
    if number is None:
        return value
    return size(number)


def _rate_of(value: str) -> str:
    number = figure(value)
    if number is None:
        return value
    return bandwidth(number)


def _yes_or_no(value: str) -> str:
    return {"True": "yes", "False": "no"}.get(value, value)


def _capability(value: str) -> str:
    """``9.0`` for ``[9, 0]``."""
    return ".".join(value.strip("[]").split(", "))


_ENVIRONMENT: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "cuda": ("CUDA", str),
    "llvm": ("LLVM in torch", _yes_or_no),
    "gpu": ("GPU", str),
    "capability": ("compute capability", _capability),
    "gpu_count": ("GPUs", str),
    "gpu_memory_bytes": ("GPU memory", _bytes_of),
    "gpu_memory_gb_per_s": ("memory bandwidth, by the driver", _rate_of),
    "gpu_l2_bytes": ("L2 cache", _bytes_of),
}


def _facts(pairs: Iterable[tuple[str, str | None]]) -> NamedValues:
    """Facts of names and values; pairs without a value are left out."""
    return NamedValues(tuple((name, value) for name, value in pairs if value))


def _shell(words: Sequence[str]) -> str | None:
    """Return the command as a user types it, without the path of the program. None
    for another program than fusiondoc: somebody else may have written the
    capture."""
    program = re.split(r"[/\\]", words[0]) if words else [""]
    if program[-1] not in ("fusiondoc", "fusiondoc.exe") and program[-2:] != [
        "fusiondoc",
        "__main__.py",
    ]:
        return None
    return " ".join(map(shlex.quote, ["fusiondoc", *words[1:]]))


_UNKNOWN_LINES = 3
_LONGEST_LINE = 90


def log(report: Report, format_: Formats) -> Section:
    """Section on how well the log was read, and where it is kept; on a page with the
    files of the lines that it quotes."""
    stats = report.parse
    if not stats.lines:
        return Section("log", "Log", blocks=(Sentences(("empty",)),))
    text = f"{count(stats.lines, 'line')} ({size(stats.bytes)}): {stats.recognised / stats.lines:.1%} recognised"
    text += f", {stats.user_output:,} of the program's own, {stats.unrecognised:,} unknown"
    if stats.truncated:
        text += f", {stats.truncated:,} blocks cut off"
    unknown = []
    for line in stats.first_unrecognised[:_UNKNOWN_LINES]:
        unknown.append(f"{line.file}:{line.line}: {line.text[:_LONGEST_LINE]}")
    blocks: list[Block] = [
        Sentences((text,)),
        Sentences(tuple(unknown), Tone.DIM),
        Sentences(_took(report)),
    ]
    if report.target.capture:
        again = shlex.join(["fusiondoc", "parse", report.target.capture])
        blocks.append(Command(again, "kept; the report again:"))
    if format_ is Formats.PAGE:
        files = tuple(Row((Text(file),)) for file in _quoted_files(report))
        blocks.append(Table((Column("files"),), files, caption="Files of the log"))
    return Section("log", "Log", blocks=tuple(blocks))


def _quoted_files(report: Report) -> list[str]:
    """The logs whose lines a page quotes."""
    rows: tuple[Group | Unfused | Finding | Fallback, ...] = (
        *report.groups,
        *report.unfused,
        *report.findings,
        *report.fallbacks,
    )
    quoted_files: dict[str, None] = {}
    for row in rows:
        for evidence in row.evidence:
            quoted_files[evidence.file] = None
    return list(quoted_files)


def _took(report: Report) -> tuple[str, ...]:
    child, overhead = report.timing.get("child"), report.timing.get("overhead")
    if child is None:
        return ()
    added = ""
    if overhead is not None:
        added = f", {seconds(overhead)} added by fusiondoc"
    return (f"{seconds(child)} in the model's process{added}",)
