"""The fixture ``fusion`` in tests of its own: real test files, real child
processes, NNC on the CPU.

One pytest runs all files, and a second one, under xdist, two more.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
import warm_torch
from conftest import ROOT, Run
from running import python_apart
from thorough import every

from fusiondoc.runner.interpreter import inspect

ENTRY = "fusiondoc.pytest_plugin"
PYTEST = ROOT / "tests" / "live" / "run_pytest.py"


def entry_points() -> dict:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = config["options.entry_points"]["pytest11"].split("\n")
    return dict(map(str.strip, line.split("=")) for line in lines if line.strip())  # type: ignore[misc]


def installed() -> bool:
    """Whether pytest finds the plugin by itself; a plugin may not be named
    twice."""
    from importlib.metadata import entry_points as all_points

    points = all_points()
    group = (
        points.select(group="pytest11")
        if hasattr(points, "select")
        else points.get("pytest11", [])
    )
    return any(point.value == ENTRY for point in group)


PLUGIN = [] if installed() else ["-p", ENTRY]


PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")

FILES = {
    "test_groups.py": """
        import torch
        from fusiondoc.probe.fusers import read_back

        def double(x):
            return x * 2

        def test_function_of_the_test(fusion):
            def local(x, y):
                y = double(x + y)
                return torch.relu(y)  # the line

            before = read_back(torch)
            report = fusion.assert_fused(
                local, torch.ones(8), torch.ones(8), groups=[["add", "aten::mul", "relu"]], phase="forward"
            )
            assert read_back(torch) == before
            assert report.fuser.requested == "nnc"
            (group,) = report.groups
            with open(__file__) as file:
                line = 1 + [row.endswith("# the line\\n") for row in file].index(True)
            assert group.nodes[2].user_source == f"{__file__}:{line}"
            assert group.nodes[0].user_source == f"{__file__}:{line - 1}"

        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(8))
                self.norm = torch.nn.LayerNorm(8)

            def forward(self, x):
                return self.norm(torch.relu(x * self.weight))  # norm

        def test_module_backward(fusion):
            report = fusion.assert_fused(Block(), torch.ones(2, 8), backward=True, runs=4)
            assert {group.phase for group in report.groups} == {"forward", "backward"}
            assert len(report.iterations) == 8

        def test_a_line_that_calls_torchs_python(fusion):
            report = fusion.diagnose(Block().eval().requires_grad_(False), torch.ones(2, 8))
            (norm,) = [row for row in report.unfused if row.op == "aten::layer_norm"]
            with open(__file__) as file:
                line = 1 + [row.endswith("# norm\\n") for row in file].index(True)
            assert norm.user_source == f"{__file__}:{line}"

        def test_lambda(fusion):
            fusion.assert_fused(lambda x: torch.relu(x + 1), torch.ones(8), groups=[{"set": {"relu", "add"}}])
    """,
    "test_failures.py": """
        import pytest
        import torch
        from fusiondoc.errors import ModelFailed

        def test_raises(fusion):
            def picky(x):
                if x.sum() > 0:
                    raise ValueError("too much")
                return x

            with pytest.raises(ModelFailed, match="too much"):
                fusion.diagnose(picky, torch.ones(8), runs=1)
            fusion.diagnose(picky, torch.ones(8), runs=1)

        def test_cannot_be_scripted(fusion):
            def unknown(x):
                return x.no_such_method()

            fusion.diagnose(unknown, torch.ones(8))

        def test_wrong_arguments(fusion):
            fusion.assert_fused(torch.relu, torch.ones(8), groups=[["add"], {"opps": ["mul"]}])
    """,
    "test_fuser.py": """
        import torch

        def test_it(fusion):
            fusion.assert_fused(torch.nn.ReLU(), torch.ones(8), fuser="nvfuser")
    """,
    "test_torch.py": """
        import sys

        def test_it(monkeypatch, request):
            monkeypatch.setitem(sys.modules, "torch", None)
            request.getfixturevalue("fusion")
    """,
}
"""Test files of a user, which one pytest runs."""

SHARED = """
    import torch

    def test_it(fusion, worker_id):
        report = fusion.diagnose(torch.nn.ReLU(), torch.ones(8), runs=2)
        assert report.fuser.requested == "none" and not report.groups
        print("WORKER", worker_id)
"""


@dataclass(frozen=True)
class Session:
    """What a pytest in a process of its own said of the files in ``folder``."""

    folder: Path
    text: str

    def outcomes(self, file: str) -> list[str]:
        """Of each test of a file, by the summary; those that were skipped are not
        listed by name there."""
        return sorted(
            re.findall(rf"^(PASSED|FAILED|ERROR) {file}::", self.text, re.MULTILINE)
        )

    def failure(self, test: str) -> str:
        """The section on a test that failed."""
        found = re.search(
            rf"^_+ {test} _+$(.*?)^(?=____+ \w|=====)",
            self.text,
            re.MULTILINE | re.DOTALL,
        )
        assert found is not None, self.text
        return found.group(1)


def run(folder: Path, cache: Path, files: dict[str, str], *options: str) -> Session:
    """Run pytest on these files."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("PYTORCH_", "PYTEST_XDIST", "PYTEST_ADDOPTS", "COV")
        )
    }
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    environment.update(FUSIONDOC_CACHE=str(cache), COLUMNS="100")
    for name, source in files.items():
        (folder / name).write_text(textwrap.dedent(source), encoding="utf-8")
    words = [*PLUGIN, "-p", "no:cacheprovider", "-rA", *options, *files]
    if not any("torch" in source for source in files.values()):
        command = [sys.executable, str(PYTEST), *words]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    else:
        # It and its children are forks of the process that has torch.
        (folder / "conftest.py").write_text(
            f"import sys\nsys.path.append({str(ROOT / 'tests')!r})\n"
            f"import warm_torch\nwarm_torch.use({warm_torch.server()!r})\n"
        )
        done = python_apart(PYTEST, *words, cwd=folder, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return Session(folder, done.stdout)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Session:
    example = re.search(
        r"<!-- file: test_gelu.py -->\n```python\n(.*?)```", PAGE, re.DOTALL
    )
    assert example is not None
    files = {**FILES, "test_gelu.py": example.group(1)}
    options = ("-W", "error", "-o", "fusion_fuser=nnc", "--fusion-keep", "kept")
    return run(tmp_path_factory.mktemp("session"), cache, files, *options)


def test_setup_cfg_names_the_plugin() -> None:
    assert entry_points() == {"fusiondoc": ENTRY}


def test_it_imports_nothing_until_it_is_used(tmp_path: Path, cache: Path) -> None:
    source = """
        import sys

        def test_modules():
            print("MODULES", *sorted(sys.modules))
    """
    loaded = re.search(
        "MODULES (.*)", run(tmp_path, cache, {"test_it.py": source}, "-s").text
    )
    assert loaded is not None
    names = set(loaded.group(1).split())
    assert {name for name in names if name.split(".")[0] == "fusiondoc"} == {
        "fusiondoc", "fusiondoc.version", ENTRY,
    }  # fmt: skip
    assert not names & {"torch", "numpy", "click", "rich", "yaml"}


@pytest.mark.torch
def test_groups_are_found_and_switches_stay(session: Session) -> None:
    assert session.outcomes("test_groups.py") == ["PASSED"] * 4, session.text


@pytest.mark.torch
def test_a_broken_expectation_says_what_check_says(
    session: Session, fusiondoc: Run
) -> None:
    assert session.outcomes("test_gelu.py") == ["FAILED", "PASSED"]
    file, text = (
        session.folder / "test_gelu.py",
        session.failure("test_scale_is_fused_with_the_rest"),
    )
    said = re.search(r"^E +AssertionError: (.*)$", text, re.MULTILINE)
    assert said is not None
    assert said.group(1) == (
        "expected add, relu, mul; found add, relu (G1): mul is not fused: aten::cumsum "
        f"({file}:16:12), which NNC has no rule for, stands between it and a fusion group (FD227), "
        f"{file.name}:17"
    )
    assert said.group(1).replace(str(file), file.name) in PAGE
    assert re.search(
        r"^> .*fusion\.assert_fused\(scaled, .*\nE .*\nE +under nnc, torch ",
        text,
        re.MULTILINE,
    )
    assert "def assert_fused" not in text and "Traceback" not in text

    capture = re.search(r"fusiondoc parse (kept/\S+)", text)
    assert capture is not None and "captures are under kept" in session.text
    expect = session.folder / "fusions.yaml"
    expect.write_text("groups:\n- [add, relu, mul]\n", encoding="utf-8")
    checked = fusiondoc(
        "check",
        capture.group(1),
        "--expect",
        expect,
        "--format",
        "json",
        cwd=session.folder,
    )
    assert checked.returncode == 1, checked.stderr
    (row,) = json.loads(checked.stdout)["expectations"]
    assert (
        said.group(1)
        == f"expected {row['expected']}; found {row['found']}: {row['why']}"
    )


@pytest.mark.torch
def test_failures_show_the_models_own_text(session: Session) -> None:
    assert session.outcomes("test_failures.py") == ["FAILED"] * 3
    failures = map(
        session.failure,
        ("test_raises", "test_cannot_be_scripted", "test_wrong_arguments"),
    )
    text = "\n".join(failures)
    for said in (
        "test_raises (picky) failed in the forward pass",
        'raise ValueError("too much")',
        "builtins.ValueError: too much",
        "test_cannot_be_scripted (unknown) cannot be scripted",
        "return x.no_such_method()",
        "pass trace=True",
        "assert_fused, group 2: unknown key 'opps' in a group. Did you mean 'ops'?",
    ):
        assert re.search(rf"^E .*{re.escape(said)}", text, re.MULTILINE), said
    assert not re.search(r"fusiondoc/testing|def diagnose|def run_in_child", text)


@pytest.mark.torch
def test_it_skips_where_the_fuser_or_torch_is_not_there(session: Session) -> None:
    if (
        inspect(Path(sys.executable)).torch_cuda is not None
        and Path("/dev/nvidiactl").exists()
    ):
        pytest.skip("nvFuser may be here")
    assert not session.outcomes("test_fuser.py") and not session.outcomes(
        "test_torch.py"
    )
    assert re.search(
        r"^SKIPPED.*nvFuser cannot work here: .*Use torch 2\.1",
        session.text,
        re.MULTILINE,
    )
    assert re.search(
        r"^SKIPPED.*no torch \(pip install torch\)", session.text, re.MULTILINE
    )


@pytest.mark.torch
@pytest.mark.parametrize(
    "option", every(2, [("--fusion-required",), ("-o", "fusion_required=true")])
)
def test_what_would_be_skipped_fails_where_it_is_required(
    option: tuple[str, ...], tmp_path: Path, cache: Path
) -> None:
    if (
        inspect(Path(sys.executable)).torch_cuda is not None
        and Path("/dev/nvidiactl").exists()
    ):
        pytest.skip("nvFuser may be here")
    files = {name: FILES[name] for name in ("test_fuser.py", "test_torch.py")}
    session = run(tmp_path, cache, files, *option)
    assert (
        session.outcomes("test_fuser.py")
        == session.outcomes("test_torch.py")
        == ["FAILED"]
    )
    assert re.search(
        r"^E .*CannotRun: nvFuser cannot work here: ", session.text, re.MULTILINE
    )
    assert re.search(
        r"^E .*no torch \(pip install torch\)", session.text, re.MULTILINE
    )


@pytest.mark.torch
@pytest.mark.nightly
def test_under_xdist_every_test_has_its_own_captures(
    tmp_path: Path, cache: Path
) -> None:
    pytest.importorskip("xdist")
    options = (
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--fusion-fuser",
        "none",
        "--fusion-keep",
        "kept",
    )
    done = run(
        tmp_path, cache, {"test_a.py": SHARED, "test_b.py": SHARED}, *options
    )
    assert done.outcomes("test_[ab].py") == ["PASSED"] * 2
    assert set(re.findall(r"WORKER (\w+)", done.text)) == {"gw0", "gw1"}
    captures = sorted((tmp_path / "kept").glob("*/*/request.json"))
    assert [path.parent.name for path in captures] == ["1-ReLU", "1-ReLU"]
    assert len({path.parent.parent for path in captures}) == 2
    assert not (tmp_path / ".fusiondoc").exists()
