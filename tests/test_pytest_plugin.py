"""The fixture ``fusion`` in tests of its own: real test files, real child processes, NNC on the CPU.

Nothing here may import torch or run a command in this process: after each test pytester takes the modules
that came with it out of ``sys.modules``, and torch cannot be imported twice.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Run

from fusiondoc.runner.interpreter import inspect

pytest_plugins = ["pytester"]

ENTRY = "fusiondoc.pytest_plugin"


def entry_points() -> dict:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = config["options.entry_points"]["pytest11"].split("\n")
    return dict(map(str.strip, line.split("=")) for line in lines if line.strip())  # type: ignore[misc]


def installed() -> bool:
    """Whether pytest finds the plugin by itself; a plugin may not be named twice."""
    from importlib.metadata import entry_points as all_points

    points = all_points()
    group = points.select(group="pytest11") if hasattr(points, "select") else points.get("pytest11", [])
    return any(point.value == ENTRY for point in group)


PLUGIN = [] if installed() else ["-p", ENTRY]


@pytest.fixture
def run(pytester: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run pytest on files of the folder, in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in [one for one in os.environ if one.startswith(("PYTORCH_", "PYTEST_XDIST", "PYTEST_ADDOPTS"))]:
        monkeypatch.delenv(name)

    def runs(*args: str) -> Any:
        return pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", *args)

    return runs


def test_setup_cfg_names_the_plugin() -> None:
    assert entry_points() == {"fusiondoc": ENTRY}


def test_it_imports_nothing_until_it_is_used(pytester: Any, run: Any) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_modules():
            print("MODULES", *sorted(sys.modules))
        """
    )
    loaded = re.search("MODULES (.*)", run("-s").stdout.str())
    assert loaded is not None
    names = set(loaded.group(1).split())
    assert {name for name in names if name.split(".")[0] == "fusiondoc"} == {
        "fusiondoc", "fusiondoc.load_time", "fusiondoc.version", ENTRY,
    }  # fmt: skip
    assert not names & {"torch", "numpy", "click", "rich", "yaml"}


@pytest.mark.torch
def test_groups_are_found_and_switches_stay(pytester: Any, run: Any) -> None:
    pytester.makepyfile(
        """
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
        """
    )
    run("-W", "error", "-o", "fusion_fuser=nnc").assert_outcomes(passed=4)


@pytest.mark.torch
def test_a_broken_expectation_says_what_check_says(pytester: Any, run: Any, fusiondoc_process: Run) -> None:
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    example = re.search(r"<!-- file: (test_gelu.py) -->\n```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    file = pytester.path / example.group(1)
    file.write_text(example.group(2), encoding="utf-8")
    done = run("--fusion-fuser", "nnc", "--fusion-keep", "kept")
    done.assert_outcomes(passed=1, failed=1)
    text = done.stdout.str()
    said = re.search(r"^E +AssertionError: (.*)$", text, re.MULTILINE)
    assert said is not None
    assert said.group(1) == (
        "expected add, relu, mul; found add, relu (G1): mul is not fused: aten::cumsum "
        f"({file}:16:12), which NNC has no rule for, stands between it and a fusion group (FD227), "
        f"{file.name}:17"
    )
    assert said.group(1).replace(str(file), file.name) in page
    done.stdout.fnmatch_lines(["> *fusion.assert_fused(scaled, *", "E *under nnc, torch *"])
    assert "def assert_fused" not in text and "Traceback" not in text

    capture = re.search(r"fusiondoc parse (kept/\S+)", text)
    assert capture is not None and "captures are under kept" in text
    expect = pytester.path / "fusions.yaml"
    expect.write_text("groups:\n- [add, relu, mul]\n", encoding="utf-8")
    checked = fusiondoc_process(
        "check", capture.group(1), "--expect", expect, "--format", "json", cwd=pytester.path
    )
    assert checked.returncode == 1, checked.stderr
    (row,) = json.loads(checked.stdout)["expectations"]
    assert said.group(1) == f"expected {row['expected']}; found {row['found']}: {row['why']}"


@pytest.mark.torch
def test_failures_show_the_models_own_text(pytester: Any, run: Any) -> None:
    pytester.makepyfile(
        """
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
        """
    )
    done = run()
    done.assert_outcomes(failed=3)
    text = done.stdout.str()
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
    assert not re.search(r"fusiondoc/testing/|def diagnose|def run_in_child", text)


@pytest.mark.torch
def test_it_skips_where_the_fuser_or_torch_is_not_there(pytester: Any, run: Any) -> None:
    if inspect(sys.executable).torch_cuda is not None and Path("/dev/nvidiactl").exists():
        pytest.skip("nvFuser may be here")
    pytester.makepyfile(
        test_fuser="""
        import torch

        def test_it(fusion):
            fusion.assert_fused(torch.nn.ReLU(), torch.ones(8), fuser="nvfuser")
        """,
        test_torch="""
        import sys

        def test_it(monkeypatch, request):
            monkeypatch.setitem(sys.modules, "torch", None)
            request.getfixturevalue("fusion")
        """,
    )
    done = run("-rs")
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines_random(
        ["SKIPPED*nvFuser cannot work here: *Use torch 2.1*", "SKIPPED*no torch (pip install torch)*"]
    )


@pytest.mark.torch
def test_under_xdist_every_test_has_its_own_captures(pytester: Any, run: Any) -> None:
    pytest.importorskip("xdist")
    source = """
        import torch

        def test_it(fusion, worker_id):
            report = fusion.diagnose(torch.nn.ReLU(), torch.ones(8), runs=2)
            assert report.fuser.requested == "none" and not report.groups
            print("WORKER", worker_id)
        """
    pytester.makepyfile(test_a=source, test_b=source)
    done = run("-n", "2", "--dist", "loadfile", "-rP", "--fusion-fuser", "none", "--fusion-keep", "kept")
    done.assert_outcomes(passed=2)
    assert set(re.findall(r"WORKER (\w+)", done.stdout.str())) == {"gw0", "gw1"}
    captures = sorted((pytester.path / "kept").glob("*/*/request.json"))
    assert [path.parent.name for path in captures] == ["1-ReLU", "1-ReLU"]
    assert len({path.parent.parent for path in captures}) == 2
    assert not (pytester.path / ".fusiondoc").exists()
