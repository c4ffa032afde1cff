"""The targets of fuzz/ on their corpus and on seeded changes of it: any bytes end
without an exception.

A target checks its results too: every line accounted for, JSON without NaN, errors
with a next step.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import raw_log
from code_texts import replaced_once
from command_line import ROOT
from conftest import FIXTURES, Run
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import every, examples

from fusiondoc.errors import UsageError
from fusiondoc.reports.json_format import read_report
from fusiondoc.workflows.load import report_from

sys.path.insert(0, str(ROOT / "fuzz"))

from changes import changed
from protections import TAKEN, rows
from targets import TARGETS, show

CORPUS = {
    name: [
        path.read_bytes()
        for path in sorted((ROOT / "fuzz" / "corpus" / name).iterdir())
    ]
    for name in TARGETS
}
REAL = (
    "logs/nvfuser-2.1.2-fallback-run",
    "logs/nnc-2.11-add-relu",
    "dumps/nvfuser-2.1.2-segmented.ca_map",
)
CORPUS["log"] += [
    raw_log.read(FIXTURES / f"{name}.log.xz")[:20_000] for name in REAL
]

EXAMPLES = {
    "log": 60,
    "records": 60,
    "trace": 60,
    "capture": 60,
    "saved_report": 60,
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name: str) -> None:
    assert CORPUS[name]
    for data in CORPUS[name]:
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_changes_of_the_corpus(name: str) -> None:
    @settings(
        max_examples=examples(EXAMPLES.get(name, 150)),
        deadline=None,
        derandomize=True,
    )
    @given(st.integers(0, 1 << 32))
    def run(seed: int) -> None:
        draw = Random(seed)
        data = draw.choice(CORPUS[name])
        for _ in range(draw.choice((1, 1, 2, 4))):
            data = changed(data, draw)
        TARGETS[name](data)

    run()


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes(name: str) -> None:
    @settings(max_examples=examples(80), deadline=None, derandomize=True)
    @given(st.binary(max_size=300))
    def run(data: bytes) -> None:
        TARGETS[name](data)

    run()


WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    1e400,
    "text",
    "\ud800",
    [],
    [None, 1, [], {}],
    {},
    {"a": 1},
)


def damaged(value: Any) -> Iterator[Any]:
    """The value with one of its parts at a time of a wrong type or missing."""
    yield from WRONG
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: other} for other in damaged(inner))
            yield {key: one for key, one in value.items() if key != name}
    elif isinstance(value, list):
        for place, inner in enumerate(value[:1]):
            yield from (
                [*value[:place], other, *value[place + 1 :]]
                for other in damaged(inner)
            )


def test_every_field_of_a_saved_report_with_wrong_types() -> None:
    report = json.loads((ROOT / "fuzz/corpus/saved_report/lines.json").read_text())
    tried = list(damaged(report))
    assert len(tried) > 500
    for number, content in enumerate(every(3, tried)):
        data = json.dumps(content).encode()
        if number % 10 == 0:
            TARGETS["saved_report"](data)
            continue
        try:
            read_report(data, "saved.json")
        except UsageError as error:
            assert error.hint


@pytest.mark.parametrize("number", ["1e400", "Infinity", "NaN", "1" + "0" * 400])
@pytest.mark.parametrize("key", ["seconds", "lines"])
def test_a_number_that_no_report_can_have_is_refused(key: str, number: str) -> None:
    text = (ROOT / "fuzz/corpus/saved_report/lines.json").read_text()
    data = re.sub(rf'"{key}": [\d.e-]+', f'"{key}": {number}', text, count=1)
    assert data != text
    with pytest.raises(UsageError, match=f"parse.{key}") as refused:
        read_report(data.encode(), "saved.json")
    assert refused.value.hint


def test_what_was_found_before(fusiondoc: Run, tmp_path: Path) -> None:
    """Rows of docs/evidence/2026-11-24-reliability.md that no other test
    repeats."""
    graph = CORPUS["log"][0]
    TARGETS["log"](graph + b"\nkernel1 run in 0.5 ms, achieved: 0 GB/s\n")
    report = json.loads((ROOT / "fuzz/corpus/saved_report/lines.json").read_text())
    report["coverage"]["fraction"] = 1e308
    TARGETS["saved_report"](json.dumps(report).encode())
    capture = (ROOT / "fuzz/corpus/capture/composite").read_bytes()
    endless = capture.replace(b'"timeout": 600.0', b'"timeout": 1e400')
    assert endless != capture
    TARGETS["capture"](endless)
    (tmp_path / "a.log").write_bytes(graph)
    if Path("/dev/zero").exists():
        done = fusiondoc("check", "a.log", "--expect", "/dev/zero", cwd=tmp_path)
        assert done.returncode == 2 and "not a regular file" in done.stderr


@pytest.mark.parametrize("depth", [5, 340, 3000])
@pytest.mark.parametrize("lost", [0, 2])
def test_sections_nested_in_one_another(depth: int, lost: int) -> None:
    """``lost``: lines at the beginning that are cut off."""
    lines = ["Before Compilation: ", "graph(%x : Tensor):"]
    call = "  %y : Tensor = prim::DifferentiableGraph_0(%x)"
    lines += [call, "  return (%y)"]
    for level in range(depth):
        inner = (
            call
            if level + 1 < depth
            else "  %y : Tensor = aten::relu(%x) # a.py:3:4"
        )
        lines += [
            "with prim::DifferentiableGraph_0 = graph(%x : Tensor):",
            inner,
            "  return (%y)",
        ]
    TARGETS["log"](
        "".join(
            f"[DUMP graph_fuser.cpp:2503] {line}\n" for line in lines[lost:]
        ).encode()
    )


def test_a_log_whose_name_is_not_utf8(tmp_path: Path) -> None:
    path = str(tmp_path / os.fsdecode(b"a\xff.log"))
    try:
        Path(path).write_bytes(CORPUS["log"][0])
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    show(report_from([path]))


def test_the_protections_that_are_taken_away_are_there() -> None:
    """Each once, in the file that is named, with a test that is there: nothing has
    moved away from under ``fuzz/protections.py``."""
    gone = []
    for taken in TAKEN:
        for place, old, _ in ((taken.file, taken.old, taken.new), *taken.also):
            try:
                replaced_once(
                    (ROOT / "fusiondoc" / place).read_text("utf-8"), old, ""
                )
            except (OSError, ValueError) as error:
                gone.append(f"{place}: {old}: {error}")
        name, _, function = taken.test.partition("::")
        if f"def {function}(" not in (ROOT / "tests" / name).read_text("utf-8"):
            gone.append(taken.test)
    assert gone == []
    assert rows() <= {taken.test for taken in TAKEN}
