"""What is fuzzed: each target takes any bytes and must end without an exception.

``TARGETS`` names them. tests/test_fuzz_targets.py runs them on the corpus and on
seeded changes of it; fuzz/run.py runs one under atheris, which looks for inputs
that reach new code.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.probe_records import Profiled, read_records
from fusiondoc.cli import config
from fusiondoc.comparison.bench_changes import compare_benches
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.diagnosis.profile_ties import groups_of_units
from fusiondoc.diagnosis.step_time import parts_of, with_step_times
from fusiondoc.errors import FusiondocError, UsageError
from fusiondoc.expectations.match import check
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.update import updated
from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.error_texts import fuser_error, read_error
from fusiondoc.parsers.profiler_trace import (
    NoTrace,
    read_events,
    read_origins,
    read_trace,
)
from fusiondoc.probe.pass_inputs import InputTextError, named_input, parse_input
from fusiondoc.reports import (
    COMPARISON_FORMATS,
    REPORT_FORMATS,
    json_format,
    render_comparison,
    render_report,
)
from fusiondoc.reports import bench_documents as documents
from fusiondoc.reports.json_format import read_bench, read_report
from fusiondoc.workflows.bench import expanded
from fusiondoc.workflows.load import report_from, report_of
from fusiondoc.workflows.speed import named_trace

HERE = Path(__file__).parent

JSON = ("json", "sarif", "gitlab")


class Wrong(AssertionError):
    """A result that must not be, without an exception of its own."""


@contextmanager
def read(data: bytes) -> Iterator[Report]:
    """The report of a log, whose lines add up; the log is there as long as the
    block."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.log")
        path.write_bytes(data or b"\n")
        report = report_from([str(path)])
        counts = report.parse
        if (
            counts.lines
            != counts.recognised + counts.user_output + counts.unrecognised
        ):
            raise Wrong(f"lines do not add up: {counts}")
        yield report


def log(data: bytes) -> None:
    """Every parser, every format: each line is accounted for, no NaN in JSON, all
    can be written."""
    with read(data) as report:
        show(report)
        _compare(
            report,
            read_report(render_report(report, "json").encode(), "saved.json"),
        )


def saved_report(data: bytes) -> None:
    """A saved report that was damaged is refused with a next step, or shown and
    compared."""
    try:
        report = read_report(data, "saved.json")
    except FusiondocError as error:
        _next_step(error)
        return
    show(report)
    _compare(report, report)


def records(data: bytes) -> None:
    """The records of the probe: what is damaged is left out."""
    for speed in read_records(data).speeds:
        speed.as_speed()


def capture(data: bytes) -> None:
    """Files of a capture: a line with a name of a file, then its content, up to a
    line of ``--``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "capture")
        path.mkdir()
        (path / "profile").mkdir()
        for part in data.split(b"\n--\n")[:12]:
            name, _, content = part.partition(b"\n")
            if name in _FILES:
                (path / name.decode()).write_bytes(content)
        try:
            read = Capture(path)
            read.failure()
            json.dumps(read.document(), allow_nan=False)
            show(report_of(read))
        except FusiondocError as error:
            _next_step(error)
        shutil.rmtree(path)


_FILES = (
    *(
        b"request.json",
        b"result.json",
        b"records.jsonl",
        b"log",
        b"rerun.json",
        b"timing.json",
    ),
    *(b"peak.json", b"tries.json", b"profile.json"),
    *(
        b"profile/request.json",
        b"profile/records.jsonl",
        b"profile/trace.json.gz",
        b"profile/places.json.gz",
    ),
)


def bundle(data: bytes) -> None:
    """The bytes as a zip file, and as the tar in a .tar.xz: a report, or refused;
    nothing is left behind."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (
            ("b.zip", data),
            ("b.tar.xz", lzma.compress(data, preset=0)),
        ):
            path = Path(folder, name)
            path.write_bytes(content)
            try:
                show(report_from([str(path)]))
            except FusiondocError as error:
                _next_step(error)
            path.unlink()
        if any(Path(folder).iterdir()):
            raise Wrong("a file was written beside the bundle")


def bench(data: bytes) -> None:
    """A result of ``fusiondoc bench`` that was damaged is refused with a next step,
    or shown and compared."""
    try:
        one = read_bench(data, "bench.json")
    except FusiondocError as error:
        _next_step(error)
        return
    other = read_bench(
        (HERE / "corpus" / "bench" / "nvfuser.json").read_bytes(), "other.json"
    )
    for a, b in ((one, other), (other, one), (one, one)):
        found = compare_benches(a, b, ("a.json", "b.json"))
        shown(documents.as_text(found), "text")
        shown(json_format.as_json(found), "json")
        shown(documents.as_markdown(found), "markdown")
    shown(json_format.as_json(one), "json")
    shown(documents.as_csv(one), "csv")
    shown(documents.as_markdown(one), "markdown")
    shown(documents.as_text(one, width=80, full=True), "text")
    documents.as_page(one).encode("utf-8")


def trace(data: bytes) -> None:
    """A trace of torch's profiler: no trace, or times of steps, and the trace with
    groups named."""
    report = read_report(
        (HERE / "corpus" / "saved_report" / "lines.json").read_bytes(), "lines.json"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        path.write_bytes(data)
        try:
            events = read_events(path)
            origins = read_origins(events)
            read = read_trace(events, origins)
        except NoTrace:
            return
    for told in (
        Profiled(),
        Profiled(device="cuda", gb_per_s=1000.0, unprofiled_ms=1.0),
    ):
        timed = with_step_times(report, read, told)
        for name in ("text", "json"):
            shown(render_report(timed, name), name)
        parts_of(read, told.device)
    named = named_trace(
        events, groups_of_units(report, read), read.units, packed=False
    )
    json.loads(named, parse_constant=_no_constant)


def input_text(data: bytes) -> None:
    """Texts of ``--input`` and ``--shapes``."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(InputTextError):
        parse_input(named_input(text)[1])
    try:
        expanded(text.split("\n")[:4])
    except FusiondocError as error:
        _next_step(error)


def shown(text: str, name: str) -> None:
    """A text that reaches a terminal or a page holds no command to it."""
    text.encode("utf-8")
    if name == "json":
        json.loads(text, parse_constant=_no_constant)
    if _COMMANDS.search(text):
        raise Wrong(f"{name} has a control character: {_COMMANDS.search(text)}")


_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def expectations(data: bytes) -> None:
    """A file of expectations is refused with its line, or held against a report and
    updated."""
    text = data.decode("utf-8", "replace")
    try:
        for section in loads(text, "fusions.yaml").sections:
            check(section, _empty_report())
        updated(text, "fusions.yaml", _empty_report())
    except FusiondocError as error:
        _next_step(error)


def configuration(data: bytes) -> None:
    """Configuration as TOML and as YAML."""
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in (("pyproject.toml", "toml"), ("fusiondoc.yaml", "yaml")):
            path = Path(folder, name)
            path.write_bytes(data)
            try:
                config.read(str(path), kind)
            except FusiondocError as error:
                _next_step(error)


def error_text(data: bytes) -> None:
    """The error in what a failed program printed."""
    text = data.decode("utf-8", "replace")
    str(read_error(text))
    str(fuser_error(text))


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        *(log, saved_report, records, capture, bundle, bench, trace, input_text),
        *(expectations, configuration, error_text),
    )
}


def show(report: Report) -> None:
    """The report in every format, and as expectations."""
    for name in REPORT_FORMATS:
        text = render_report(report, name)
        text.encode("utf-8")
        if name in JSON:
            json.loads(text, parse_constant=_no_constant)
    try:
        updated("", "fusions.yaml", report)
    except (
        UsageError
    ) as error:  # of a run without a plan there is nothing to write down
        _next_step(error)


def _compare(one: Report, other: Report) -> None:
    compared = compare(one, other)
    for name in COMPARISON_FORMATS:
        text = render_comparison(compared, name)
        text.encode("utf-8")
        if name in JSON:
            json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise Wrong(f"JSON has no {name}")


def _next_step(error: FusiondocError) -> None:
    if not error.hint:
        raise Wrong(f"no next step: {error.message}")


def _empty_report() -> Report:
    content: dict[str, Any] = json.loads(
        (Path(__file__).parent / "corpus/saved_report/empty.json").read_text()
    )
    return read_report(json.dumps(content).encode(), "empty.json")
