"""JSON of others: results of bench, traces of a profiler, and captures that name
files outside of them."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Run
from work_done import lines_in_proportion, time_in_proportion

from fusiondoc.captures.capture import Capture
from fusiondoc.comparison.bench_changes import compare_benches
from fusiondoc.errors import UsageError
from fusiondoc.model import typed_fields
from fusiondoc.model.typed_fields import json_within
from fusiondoc.parsers import profiler_trace
from fusiondoc.parsers.profiler_trace import (
    NoTrace,
    read_events,
    read_origins,
    read_trace,
)
from fusiondoc.reports.json_format import read_bench
from fusiondoc.workflows.load import report_of
from fusiondoc.workflows.speed import trace_file

CORPUS = ROOT / "fuzz" / "corpus"
BENCH = (CORPUS / "bench" / "nvfuser.json").read_text()


def changed(**values: Any) -> str:
    """The bench with these values in a phase that has a ratio."""
    content = json.loads(BENCH)
    phase = next(
        one["phases"][0]
        for one in content["variants"]
        if one["phases"] and one["name"] != "eager"
    )
    phase.update(values)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            changed(ms={"median": 0.0, "low": 0.0, "high": 0.0}),
            "its ms is 0 (0 to 0)",
        ),
        (
            changed(ms={"median": 1.0, "low": -1.0, "high": 2.0}),
            "its ms is 1 (-1 to 2)",
        ),
        (
            changed(ms={"median": 1e300, "low": 1e-300, "high": 1e300}),
            "its ms is 1e+300",
        ),
        (
            changed(ratio={"value": 3.0, "low": 1.0, "high": 2.0}),
            "its ratio is 3 (1 to 2)",
        ),
        (changed(shape=-9), "it is of shape -9, of 1"),
        (BENCH[:-200], "is not a complete JSON file"),
        (BENCH.replace("bench/1", "bench/2"), "newer fusiondoc"),
    ],
)
def test_a_bench_that_no_run_wrote_is_refused(
    text: str, said: str, tmp_path: Path, fusiondoc: Run
) -> None:
    (tmp_path / "a.json").write_text(BENCH)
    (tmp_path / "b.json").write_text(text)
    for sides in (("a.json", "b.json"), ("b.json", "a.json")):
        done = fusiondoc("compare", *sides, cwd=tmp_path)
        assert (
            done.returncode == 2 and said in done.stderr and "next: " in done.stderr
        ), done.stderr


def test_benches_with_many_interpreters_are_compared_in_proportion() -> None:
    def comparing(number: int) -> Callable[[], object]:
        content = json.loads(BENCH)
        one = next(one for one in content["variants"] if one["phases"])
        content["variants"] = [
            {**one, "interpreter": f"python {at}"} for at in range(number)
        ]
        bench = read_bench(json.dumps(content).encode(), "a.json")

        def work() -> None:
            assert len(
                compare_benches(bench, bench, ("a", "b")).changes
            ) == number * len(one["phases"])

        return work

    assert lines_in_proportion(comparing, 100)
    assert time_in_proportion(comparing, 200)


def test_documents_of_too_many_values_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before they are built: ``[[],[],...`` takes thirty times its own size."""
    monkeypatch.setattr(typed_fields, "MOST_VALUES", 50)
    with pytest.raises(ValueError, match="more than 50 values"):
        json_within(b"[" + b"[]," * 50 + b"[]]", 50)
    assert json_within(b"[" + b"[]," * 10 + b"[]]", 50) == [[]] * 11
    monkeypatch.setattr(profiler_trace, "MOST_VALUES", 50)
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(b'{"traceEvents": [' + b"[]," * 50 + b"[]]}"))
    with pytest.raises(NoTrace, match="more than 50 values"):
        read_events(packed)


def event(**values: Any) -> dict[str, Any]:
    plain = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mul",
        "pid": 1,
        "tid": 1,
        "ts": 1.0,
        "dur": 2.0,
    }
    return {**plain, **values}


@pytest.mark.parametrize(
    "ts", [10**400, -(10**400), float("inf"), float("nan"), "1", None, True]
)
def test_times_that_are_none_are_left_out(ts: Any) -> None:
    trace = read_trace(
        [event(), event(ts=ts, name="aten::add"), event(dur=ts, name="aten::add")]
    )
    assert {unit.name for unit in trace.units} <= {
        "aten::mul",
        "aten::add",
    } and trace.ms > 0


def test_a_trace_whose_steps_take_no_time_is_none() -> None:
    with pytest.raises(NoTrace, match="no time"):
        read_trace([event(dur=0)])


def test_stacks_and_modules_are_read_in_proportion() -> None:
    """One character of which nothing comes, very often; digits that are no line
    number."""

    def reading(number: int) -> Callable[[], object]:
        told = {
            "Call stack": " " * number
            + ";"
            + "a(" * number
            + ";b.py("
            + "9" * number
            + "): f",
            "Module Hierarchy": "a" * number
            + "(".join("b" * 9 for _ in range(number)),
        }
        return lambda: read_origins([event(args=told)])

    assert lines_in_proportion(reading, 1_000)
    assert time_in_proportion(reading, 10_000)


def test_modules_of_a_trace() -> None:
    told = "TOP(Net)::forward.encoder(Encoder)::forward.0(Layer)::forward."
    (origin,) = read_origins(
        [
            event(
                args={
                    "Module Hierarchy": told,
                    "Call stack": "a.py(3): f;torch/b.py(12): g",
                }
            )
        ]
    ).values()
    assert origin.layer == "encoder.0" and origin.frames == (
        ("a.py", 3),
        ("torch/b.py", 12),
    )


def test_a_capture_that_names_a_trace_elsewhere_is_read_without_it(
    tmp_path: Path,
) -> None:
    folders = {}
    for name in ("mine", "theirs"):
        folder = folders[name] = tmp_path / name
        (folder / "profile").mkdir(parents=True)
        for part in (CORPUS / "capture" / "profiled").read_bytes().split(b"\n--\n"):
            file, _, content = part.partition(b"\n")
            (folder / file.decode()).write_bytes(content)
    assert trace_file(Capture(folders["theirs"])) is not None
    assert report_of(Capture(folders["theirs"])).steps is not None
    for elsewhere in (
        "../mine/profile",
        str(folders["mine"] / "profile"),
        "profile/../../mine/profile",
        ".",
    ):
        (folders["theirs"] / "profile.json").write_text(
            json.dumps({"capture": elsewhere})
        )
        (folders["theirs"] / "timing.json").write_text(
            json.dumps({"capture": elsewhere})
        )
        capture = Capture(folders["theirs"])
        assert trace_file(capture) is None and report_of(capture).steps is None
    shutil.rmtree(folders["theirs"] / "profile")
    (folders["theirs"] / "profile").mkdir()
    (folders["theirs"] / "profile.json").write_text(
        json.dumps({"capture": "profile"})
    )
    (folders["theirs"] / "profile" / "trace.json.gz").symlink_to(
        folders["mine"] / "profile" / "trace.json.gz"
    )
    assert trace_file(Capture(folders["theirs"])) is None


def test_a_size_of_thousands_of_digits_is_refused(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text("def model(x):\n    return x\n")
    for option in ("--input", "--shapes"):
        done = fusiondoc(
            "bench", "model.py", option, f"float32[{'9' * 5000}]", cwd=tmp_path
        )
        assert done.returncode == 2 and "a size of 5000 digits" in done.stderr, (
            done.stderr[-300:]
        )


def test_values_that_python_cannot_build_are_refused(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text("def model(x):\n    return x\n")
    for arguments in (
        ["model.py", "--input", "{{}: 1}"],
        ["model.py:model({{}: 1})"],
    ):
        done = fusiondoc("bench", *arguments, cwd=tmp_path)
        assert (
            done.returncode == 2
            and "{{}: 1}" in done.stderr
            and "Warning" not in done.stderr
        )


def test_a_bench_as_csv_holds_no_formula_and_no_command() -> None:
    from fusiondoc.reports.bench_documents import as_csv

    content = json.loads(BENCH)
    content["variants"][0].update(
        reason="=HYPERLINK(1)", interpreter="\x1b]0;x\x07"
    )
    text = as_csv(read_bench(json.dumps(content).encode(), "a.json"))
    assert "'=HYPERLINK" in text and "\x1b" not in text


def test_a_result_larger_than_any_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fusiondoc import workflows

    monkeypatch.setattr(workflows, "_MOST_BYTES", 500)
    (tmp_path / "a.json").write_text(BENCH)
    with pytest.raises(UsageError, match="larger than any result"):
        workflows.saved_bench(str(tmp_path / "a.json"))
