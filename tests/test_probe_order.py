"""The log of a run holds every line in the order in which it was written, whoever
wrote it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from running import log_of, records_of, run_target, write

pytestmark = pytest.mark.torch

WRITERS = '''
    import ctypes, os, sys
    import torch

    libc = ctypes.CDLL(None)

    def fresh(number):
        """A function of its own for each round: its first run prints its graph to the JIT log."""
        unit = torch.jit.CompilationUnit(f"def f(x):\\n    return x + {1000 + number}\\n")
        unit.f(torch.ones(2))

    for number in range(20):
        libc.printf(b"ORDER %d c-stdout\\n", number)
        print("ORDER", number, "python-stdout")
        os.write(2, b"ORDER %d descriptor-2\\n" % number)
        print("ORDER", number, "python-stderr", file=sys.stderr)
        fresh(number)
        libc.puts(b"ORDER %d c-puts" % number)
'''


@pytest.mark.cold
def test_all_writers_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    write(tmp_path, "writers.py", WRITERS)
    capture, error = run_target(tmp_path, "writers.py", script=True)
    assert error is None
    seen = []
    for line in log_of(capture).split("\n"):
        own = re.match(r"ORDER (\d+) (\S+)", line)
        # The executor prints a fresh graph when it profiles it; the constant tells
        # whose it is.
        jit = re.search(
            r"^\[DUMP profiling_graph_executor_impl.cpp:\d+\] .*prim::Constant\[value=1(\d\d\d)\]",
            line,
        )
        if own:
            seen.append((int(own.group(1)), own.group(2)))
        elif jit and (int(jit.group(1)), "jit") not in seen:
            seen.append((int(jit.group(1)), "jit"))
    kinds = [
        "c-stdout",
        "python-stdout",
        "descriptor-2",
        "python-stderr",
        "jit",
        "c-puts",
    ]
    assert seen == [(number, kind) for number in range(20) for kind in kinds]


def test_iterations_are_marked_where_they_begin(tmp_path: Path) -> None:
    write(
        tmp_path,
        "talks.py",
        """
        import ctypes
        import torch

        count = 0

        def inputs():
            global count
            count += 1
            ctypes.CDLL(None).printf(b"making inputs %d\\n", count)
            return (torch.ones(2),)

        def model(x):
            return x.relu() + 1.0
        """,
    )
    capture, error = run_target(tmp_path, "talks.py", runs=3)
    assert error is None
    lines = [
        line
        for line in log_of(capture).split("\n")
        if line.startswith(("[fusiondoc]", "making"))
    ]
    # The first call of inputs() of each pass comes before its mark.
    assert lines == [
        "making inputs 1",
        "[fusiondoc] iteration 1/3 forward inputs 0",
        "making inputs 2",
        "[fusiondoc] iteration 2/3 forward inputs 0",
        "making inputs 3",
        "[fusiondoc] iteration 3/3 forward inputs 0",
        "[fusiondoc] end",
    ]
    records = records_of(capture, "iteration")
    assert [
        (one["index"], one["runs"], one["phase"], one["inputs"]) for one in records
    ] == [(number, 3, "forward", 0) for number in (1, 2, 3)]
    assert all(one["seconds"] >= 0 for one in records)
