"""Captures whose JSON has other types than it should: what is damaged is left out,
and nothing raises but an error with its next step."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from thorough import THOROUGH, every

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import Ended
from fusiondoc.captures.trust import request_again
from fusiondoc.cli.captures import _details, _summary
from fusiondoc.errors import FusiondocError
from fusiondoc.reports import json_format
from fusiondoc.reports.text import screen
from fusiondoc.whole_files import open_regular, read_within
from fusiondoc.workflows.load import report_of

CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
WRONG: tuple[Any, ...] = (
    None,
    True,
    1e400,
    "text",
    [None, 1, [], {}],
    {"a": {"b": []}, "text": 1},
)

RECORDS = (
    {
        "record": "knob",
        "name": "single_node",
        "requested": "on",
        "effective": "on",
        "live": False,
    },
    {
        "record": "iteration",
        "index": 1,
        "runs": 3,
        "phase": "forward",
        "inputs": 0,
        "seconds": 0.1,
    },
    {"record": "note", "text": "a note"},
    {
        "record": "error",
        "stage": "forward",
        "type": "E",
        "message": "m",
        "traceback": "t",
        "hint": "h",
    },
    {"record": "source_map", "map": {"aten::add|a.py:1:1": "b.py:2"}},
    {
        "record": "verify",
        "iteration": 1,
        "inputs": 0,
        "random": ["aten::rand"],
        "results": [
            {
                "phase": "forward",
                "what": "output 0",
                "same": False,
                "max_abs": 1e400,
                "max_rel": None,
                "tolerance": 1e-5,
                "dtype_same": True,
                "strides_same": True,
                "by": "value",
                "detail": None,
            }
        ],
    },
    {
        "record": "speed",
        "way": "eager",
        "phase": "forward",
        "inputs": 0,
        "ms": [1, 2, 3],
        "passes": 3,
        "warmup_ms": [4.0],
        "memory_bytes": 5,
        "eager": "the module",
    },
)
OTHERS = {
    "rerun.json": {
        "variables": {"A": "1"},
        "capture": "rerun",
        "ended": "signal",
        "signal": "SIGSEGV",
        "error": {"kind": "codegen", "text": "t"},
    },
    "timing.json": {"capture": "timing", "problem": None, "dropped": ["A"]},
    "peak.json": {"gb_per_s": 100.0, "source": "given"},
    "tries.json": {
        "tries": [
            {"change": "as asked", "codes": ["FD101"], "groups": 1, "ops_fused": 2}
        ]
    },
    "sources/index.json": {"a.py": "0.py"},
}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture with everything, and a log of one line, so that it is read fast."""
    copy = tmp_path / "capture"
    shutil.copytree(CAPTURE, copy)
    (copy / "log").write_text("nothing\n")
    (copy / "sources").mkdir(exist_ok=True)
    with (copy / "records.jsonl").open("a") as records:
        records.writelines(json.dumps(one) + "\n" for one in RECORDS)
    for name, content in OTHERS.items():
        (copy / name).write_text(json.dumps(content))
    return copy


_WRONG = cycle((one,) for one in WRONG)
"""One of them for a place, in turns: over all places each is tried often."""


def damaged(value: Any) -> Iterator[Any]:
    """The value with one of its parts at a time of a wrong type, and itself of
    one."""
    yield from next(_WRONG) if not THOROUGH else WRONG
    if isinstance(value, dict):
        for name, inner in value.items():
            for other in damaged(inner):
                yield {**value, name: other}
            yield {key: one for key, one in value.items() if key != name}
    elif isinstance(value, list):
        for place, inner in enumerate(value[:2]):
            for other in damaged(inner):
                yield [*value[:place], other, *value[place + 1 :]]


def use(path: Path) -> None:
    """Everything that reads a capture."""
    read = Capture(path)
    _summary(read)
    _details(read)
    json.dumps(read.document())
    read.failure()
    report = report_of(read)
    json_format.render(report)
    screen.render(report, width=80)
    request_again(read, ("cuda_kernel",))


@pytest.mark.parametrize("name", ["request.json", "result.json", *OTHERS])
def test_a_part_of_a_wrong_type(name: str, capture: Path) -> None:
    file = capture / name
    for content in every(3, list(damaged(json.loads(file.read_text())))):
        file.write_text(json.dumps(content))
        try:
            use(capture)
        except FusiondocError as error:
            assert error.hint


def test_a_record_of_a_wrong_type(capture: Path) -> None:
    file = capture / "records.jsonl"
    by_kind = {
        json.loads(line)["record"]: line for line in file.read_text().splitlines()
    }
    assert {"environment", "fuser", "target", "done"} <= {*by_kind}
    for kind, line in by_kind.items():
        others = [other for name, other in by_kind.items() if name != kind]
        for content in every(3, list(damaged(json.loads(line)))):
            file.write_text("\n".join([*others, json.dumps(content)]))
            try:
                use(capture)
            except FusiondocError as error:
                assert error.hint


def test_what_is_right_beside_the_damage_is_kept(capture: Path) -> None:
    (capture / "result.json").write_text(
        '{"signal": "SIGSEGV", "timed_out": "no", "seconds": {"child": 2}}'
    )
    with (capture / "records.jsonl").open("a") as records:
        records.write(
            '{"record": "note", "text": 5}\n{"record": "note", "text": "a second"}\n'
        )
    read = Capture(capture)
    assert read.result.ended is Ended.SIGNAL and read.result.seconds.child == 2.0
    assert [note.text for note in read.records.notes] == ["a note", "a second"]
    assert (
        read.records.verification[0].max_abs is None
        and read.records.verification[0].tolerance == 1e-5
    )


def test_each_file_is_read_once(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def counting(path: Path, *most: int) -> bytes:
        opened.append(path.relative_to(capture).as_posix())
        return read_within(path, *most)

    further = ("timing", "profile", "tries/0")
    for name in further:
        (capture / name).mkdir(parents=True)
        for file in ("request.json", "records.jsonl"):
            shutil.copy(capture / file, capture / name)
    with (capture / "profile" / "records.jsonl").open("a") as records:
        records.write('{"record": "profiled", "steps": 1}\n')
    (capture / "profile" / "trace.json.gz").write_text("[]")
    (capture / "timing.json").write_text('{"capture": "timing", "again": null}')
    (capture / "profile.json").write_text('{"capture": "profile"}')

    def opening(path: Path, *more: Any) -> Any:
        if path.name != "log":
            opened.append(path.relative_to(capture).as_posix())
        return open_regular(path, *more)

    monkeypatch.setattr("fusiondoc.parsers.profiler_trace.open_regular", opening)
    monkeypatch.setattr("fusiondoc.captures.capture.read_within", counting)
    one = Capture(capture)
    for _ in range(2):
        report_of(one)
        _details(one)
        one.failure()
    assert (
        opened.count("profile/trace.json.gz") == 2
    )  # it is not kept: once a report
    own = [
        name
        for name in opened
        if (capture / name).is_file() and not name.endswith(("log", "gz"))
    ]
    assert sorted(own) == sorted({*own}) and {
        "request.json",
        "result.json",
        "records.jsonl",
    } <= {*own}
    both = ("request.json", "records.jsonl")
    assert {f"{name}/{file}" for name in further for file in both} <= {*own}
