"""Of each cause of a boundary: the change that it names makes one node of the two.
Torch's own scheduler counts the nodes, in a process without fusiondoc.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import runs_in_this_process
from thorough import every

pytestmark = pytest.mark.torch

PROGRAMS = Path(__file__).with_name("apart_programs.py")
CLASSES = [
    node
    for node in ast.parse(PROGRAMS.read_text("utf-8")).body
    if isinstance(node, ast.ClassDef)
]
CODES = every(4, [node.name for node in CLASSES])

ORACLE = """
import json, sys
import torch
import torch._inductor.config as config
from torch._inductor.async_compile import AsyncCompile
import apart_programs

AsyncCompile.cpp_pybinding = lambda self, *args, **kwargs: lambda *values: None
config.cpp.vec_isa_ok = True
config.force_disable_caches = True
counts, of = {}, []

def after_fusion(nodes):
    counts[of[-1]] = counts.get(of[-1], 0) + len(nodes)
    return nodes

config._post_fusion_custom_pass = after_fusion
for which in ("apart", "one"):
    apart_programs.compile_all(sys.argv[1:], which, lambda name: of.append(name + " " + which))
print(json.dumps(counts))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("apart")
    shutil.copy(PROGRAMS, made)
    return made


@pytest.fixture(scope="module")
def counts(folder: Path) -> dict[str, int]:
    """Final nodes of Inductor's scheduler, by case and by which of the two."""
    done = subprocess.run(
        [sys.executable, "-c", ORACLE, *CODES],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def causes(folder: Path) -> dict[str, set[str]]:
    """The causes of boundaries that a report has, by the case that the lines of
    their ends are in."""
    run = runs_in_this_process(folder, folder / "cache")
    done = run(
        "diagnose",
        PROGRAMS.name,
        "--script",
        "--no-run",
        "--format",
        "json",
        "--",
        *CODES,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    spans = {
        node.name: range(node.lineno, (node.end_lineno or 0) + 1)
        for node in CLASSES
    }
    found: dict[str, set[str]] = {}
    for boundary in report["boundaries"]:
        for line in _lines(boundary, report):
            for name, span in spans.items():
                if line in span:
                    found.setdefault(name, set()).add(
                        (boundary["cause"] or {}).get("code")
                    )
    return found


def _lines(boundary: dict[str, Any], report: dict[str, Any]) -> Iterator[int]:
    groups = {group["id"]: group for group in report["groups"]}
    rows = {row["index"]: row for row in report["unfused"]}
    for end in (boundary["producer"], boundary["consumer"]):
        nodes = (
            groups[end["group"]]["nodes"] if end["group"] else [rows[end["row"]]]
        )
        for source in (node["user_source"] for node in nodes):
            if source is not None:
                yield int(source.rpartition(":")[2])


@pytest.mark.parametrize("code", CODES)
def test_the_report_names_the_cause(causes: dict[str, set[str]], code: str) -> None:
    assert code in causes[code]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.nightly
def test_the_change_makes_one_node(counts: dict[str, int], code: str) -> None:
    assert counts[f"{code} apart"] > 1
    assert counts[f"{code} one"] == 1
