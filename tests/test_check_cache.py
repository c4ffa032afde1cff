"""Kept results of check: each part of what a result depends on decides whether it
is used again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import FIXTURES
from running import run_target, write

import fusiondoc
from fusiondoc.captures.probe_records import ProgramInputs
from fusiondoc.captures.request import RunRequest, parse_target
from fusiondoc.expectations.gate import gate
from fusiondoc.expectations.read_file import loads
from fusiondoc.model.report import Report
from fusiondoc.workflows import check_cache
from fusiondoc.workflows.check_cache import (
    CachedReport,
    CheckCache,
    key_of,
    why_not_kept,
)
from fusiondoc.workflows.program_reads import reads_of

DATE = "2026-11-24T10:00:00+00:00"


@pytest.fixture(scope="module")
def bert() -> Report:
    return fusiondoc.parse(FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz")


class Case(NamedTuple):
    """A kept result of a program in a folder."""

    folder: Path
    request: RunRequest
    environment: dict[str, str]

    def is_kept(self, *patterns: str) -> bool:
        cache = CheckCache(self.folder / "kept", self.environment)
        return cache.get(self.request, patterns) is not None


PATTERN = "weights/*.bin"


@pytest.fixture
def case(tmp_path: Path, bert: Report, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "m.py", "import os, helper\nmodel = os.environ.get('MODE')\n")
    write(tmp_path, "helper.py", "x = 1\n")
    write(tmp_path, "sizes.json", "[1]")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "a.bin").write_bytes(b"1")
    packages = tmp_path / "site-packages"
    (packages / "torch-2.13.0.dist-info").mkdir(parents=True)
    inputs = ProgramInputs(
        files=tuple(
            str(tmp_path / name)
            for name in ("m.py", "helper.py", "sizes.json", "absent.json")
        ),
        names=("helper", "torch", "apex"),
        folders=(str(tmp_path),),
        packages=(str(packages),),
    )
    environment = {"MODE": "a", "OMP_NUM_THREADS": "1", "GITHUB_RUN_ID": "1"}
    request = RunRequest(
        target=parse_target("m.py"), python=Path(sys.executable), cwd=tmp_path
    )
    assert why_not_kept(inputs) is None
    for path in tmp_path.rglob("*.*"):
        os.utime(path, (1, 1))
    cache = CheckCache(tmp_path / "kept", environment)
    cache.put(request, [PATTERN], inputs, CachedReport(bert, DATE), began=1e9)
    made = Case(tmp_path, request, environment)
    assert made.is_kept(PATTERN)
    return made


def test_a_kept_result_is_the_report_that_was_put(case: Case, bert: Report) -> None:
    kept = CheckCache(case.folder / "kept", case.environment).get(
        case.request, [PATTERN]
    )
    assert kept is not None and kept.date == DATE
    text = "groups:\n- [add, layer_norm]\n- contains: [dropout]\n  layer: encoder.*\nmin_coverage: 100%\n"
    section = loads(text, "f.yaml").sections[0]
    assert gate(section, kept.report, "f.yaml") == gate(section, bert, "f.yaml")


CHANGES: Mapping[str, Callable[[Path], object]] = {
    "the program": lambda folder: write(
        folder, "m.py", "import os, helper\nmodel = 2\n"
    ),
    "a module of it": lambda folder: write(folder, "helper.py", "x = 2\n"),
    "a file that it reads": lambda folder: write(folder, "sizes.json", "[2]"),
    "a file that it did not find": lambda folder: write(
        folder, "absent.json", "{}"
    ),
    "a file that is gone": lambda folder: (folder / "sizes.json").unlink(),
    "a module before that of a package": lambda folder: write(
        folder, "torch.py", ""
    ),
    "a module that it did not find": lambda folder: (folder / "apex").mkdir(),
    "another version of a package": lambda folder: (
        folder / "site-packages" / "x-2.dist-info"
    ).mkdir(),
    "a further file, as the section names it": lambda folder: write(
        folder, "weights/a.bin", "2"
    ),
    "one more of those": lambda folder: write(folder, "weights/b.bin", "2"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_the_program_reads_is_a_miss(
    change: str, case: Case
) -> None:
    CHANGES[change](case.folder)
    assert not case.is_kept(PATTERN)


def test_what_it_does_not_depend_on_is_no_miss(case: Case) -> None:
    write(case.folder, "other_model.py", "y = 1\n")
    (case.folder / "m.py").touch()
    assert case._replace(
        environment={**case.environment, "GITHUB_RUN_ID": "2"}
    ).is_kept(PATTERN)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "MODE",
            "OMP_NUM_THREADS",
            "TORCH_LOGS",
            "CUDA_VISIBLE_DEVICES",
            "PYTHONPATH",
            "CXX",
            "CC",
        ),
        *("TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHDYNAMO_DISABLE", "TRITON_INTERPRET"),
    ],
)
def test_a_variable_that_is_read_is_a_part(name: str, case: Case) -> None:
    assert not case._replace(
        environment={**case.environment, name: "other"}
    ).is_kept(PATTERN)


@pytest.mark.parametrize(
    "options",
    [
        {"fuser": "nnc"},
        {"device": "cpu"},
        {"inputs": ("float32[8]",)},
        {"backward": True},
        {"knobs": {"single_node": "on"}},
        {"mode": "max-autotune"},
        {"dynamic": True},
        {"no_run": True},
        {"seed": 1},
        {"runs": 4},
        {"variables": {"A": "b"}},
        {"cwd": Path("/")},
    ],
    ids=lambda options: next(iter(options)),
)
def test_every_option_of_the_run_is_a_part(options: dict, case: Case) -> None:
    assert not case._replace(request=replace(case.request, **options)).is_kept(
        PATTERN
    )


def test_fusiondoc_torch_and_the_machine_are_parts(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key_of(case.request, case.environment)
    version_file = write(case.folder, "version.py", "__version__ = '2.13.0'\n")
    found = check_cache.inspect(case.request.python)
    for name, change in (
        ("fusiondoc", ("__version__", "9.9")),
        ("fusiondoc", ("_own_sources", lambda: "others")),
        ("machine", ("_machine", lambda: ["arm64"])),
        (
            "torch",
            ("inspect", lambda path: replace(found, version_file=version_file)),
        ),
        ("torch", ("inspect", lambda path: replace(found, torch="2.14.0"))),
        ("python", ("inspect", lambda path: replace(found, python="3.12.0"))),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(check_cache, *change)
            now = key_of(case.request, case.environment)
            assert [part for part in now if now[part] != before[part]] == [name]
            assert not case.is_kept(PATTERN)
    assert case.is_kept(PATTERN)


def test_a_newer_compiler_of_the_same_name_is_a_part(case: Case) -> None:
    """Inductor compiles kernels for what it finds out of the machine by this
    compiler."""
    compiler = write(case.folder, "bin/c++", "#!/bin/sh\n")
    compiler.chmod(0o755)
    environment = {**case.environment, "CXX": str(compiler)}
    before = key_of(case.request, environment)
    assert key_of(case.request, environment) == before
    os.utime(compiler, (1, 1))
    now = key_of(case.request, environment)
    assert [part for part in now if now[part] != before[part]] == ["compiler"]


def test_a_file_that_changed_during_the_run_keeps_nothing(
    case: Case, bert: Report
) -> None:
    write(case.folder, "m.py", "import helper\n")
    inputs = ProgramInputs(files=(str(case.folder / "m.py"),))
    changed = (case.folder / "m.py").stat().st_mtime
    cache = CheckCache(case.folder / "other", case.environment)
    cache.put(case.request, [], inputs, CachedReport(bert, DATE), began=changed)
    assert cache.get(case.request, []) is None
    cache.put(case.request, [], inputs, CachedReport(bert, DATE), began=changed + 1)
    assert cache.get(case.request, []) is not None


def test_damaged_results_are_none(case: Case) -> None:
    (path,) = (case.folder / "kept").glob("*/*.json")
    for content in (
        b"",
        b"{}",
        path.read_bytes()[:-9],
        path.read_bytes().replace(b'"groups": [', b'"groups": 1, "x": ['),
    ):
        path.write_bytes(content)
        assert not case.is_kept(PATTERN)


@pytest.mark.parametrize(
    ("text", "variables", "unknown"),
    [
        (
            "import os\na = os.environ['A'] or os.environ.get('B') or os.getenv('C', '')\n",
            "ABC",
            None,
        ),
        ("from os import environ\nif 'D' in environ: pass\n", "D", None),
        (
            "import os\nprint(dict(os.environ))\n",
            "",
            "line 2: the whole environment",
        ),
        ("import os\nos.getenv(name)\n", "", "whose name is not written there"),
        (
            "from pathlib import Path\nPath('a').exists()\n",
            "",
            "line 2: a file by exists()",
        ),
        (
            "import torch\nm = torch.jit.load('a.pt')\n",
            "",
            "line 2: a file by load()",
        ),
        ("import torch\nm = torch.load('a.pt')\n", "", None),
    ],
)
def test_what_the_text_of_a_program_reads(
    text: str, variables: str, unknown: str | None
) -> None:
    found = reads_of(text)
    if unknown is None:
        assert (found.variables, found.unknown) == (frozenset(variables), None)
    else:
        assert unknown in str(found.unknown)


PROGRAM = """\
import json, pathlib, tempfile
import torch
from helper import scale
try:
    import no_such_module
except ImportError:
    pass
size = json.loads(pathlib.Path("sizes.json").read_text())[0]
with tempfile.NamedTemporaryFile("w+") as file:
    file.write("x")

def model(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x + 1) * x

inputs = (torch.ones(size) * scale,)
"""


@pytest.mark.torch
def test_a_run_records_what_its_program_reads(tmp_path: Path) -> None:
    write(tmp_path, "m.py", PROGRAM)
    write(tmp_path, "helper.py", "scale = 2\n")
    write(tmp_path, "sizes.json", "[8]")
    capture, failed = run_target(tmp_path, "m.py", fuser="nnc", record_inputs=True)
    inputs = capture.records.inputs
    assert failed is None and inputs is not None
    own = {
        Path(name).name
        for name in inputs.files
        if Path(name).parent == tmp_path and Path(name).exists()
    }
    assert own == {"m.py", "helper.py", "sizes.json"}
    assert {"helper", "no_such_module", "torch"} <= set(inputs.names)
    assert str(tmp_path) in inputs.folders
    assert why_not_kept(inputs) is None
    assert not any(
        "-packages" in name or "fusiondoc/probe" in name for name in inputs.files
    )

    write(
        tmp_path,
        "helper.py",
        "import subprocess\nsubprocess.run(['true'])\nscale = 2\n",
    )
    capture, _ = run_target(tmp_path, "m.py", fuser="nnc", record_inputs=True)
    assert "subprocess.Popen" in str(why_not_kept(capture.records.inputs))
    assert run_target(tmp_path, "m.py", fuser="nnc")[0].records.inputs is None
