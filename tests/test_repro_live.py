"""Files that ``repro`` writes, run by a real torch: they fuse what the log has
fused, and say so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from conftest import FIXTURES, Run
from running import python, run_target, write

pytest.importorskip("torch")

LIVE = Path(__file__).parent / "live" / "repro_groups.py"
LAYER_NORM = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz"


def made(
    fusiondoc: Run, folder: Path, log: Path, group: str, *options: object
) -> Path:
    path = folder / f"{log.stem}_{group}.py"
    done = fusiondoc("repro", log, "--group", group, "--output", path, *options)
    assert done.returncode == 0, done.stderr
    return path


def data(path: Path, name: str) -> object:
    """A literal of a written file; its inputs are calls of dict."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and getattr(node.targets[0], "id", "") == name
        ):
            return eval(compile(ast.Expression(node.value), "file", "eval"))
    raise AssertionError(name)


@pytest.fixture(scope="module")
def static_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("static") / "static.log"
    done = python(LIVE, "static")
    assert done.returncode == 0, done.stderr
    log.write_text(done.stdout)
    return log


def test_inputs_keep_dtype_sizes_and_strides(
    fusiondoc: Run, tmp_path: Path, static_log: Path
) -> None:
    path = made(fusiondoc, tmp_path, static_log, "G1")
    kept = {
        (one["dtype"], tuple(one["size"]), tuple(one["stride"]))
        for one in data(path, "INPUTS")
    }
    assert kept == {
        ("float32", (4, 6), (1, 4)),
        ("float32", (4, 6), (0, 1)),
        ("float64", (4, 1), (1, 1)),
    }
    done = python(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fused: 1 group, 5 of 5 operators (TensorExprGroup of 5)" in done.stdout
    assert "verdict: same, 1 output" in done.stdout
    # What the tensors really are, asked of torch in the file's own process.
    asking = (
        f"import runpy; ns = runpy.run_path({str(path)!r}); values, _ = ns['make_inputs']()\n"
        "print([(list(v.shape), list(v.stride()), str(v.dtype)) for v in values])\n"
    )
    asked = python(write(tmp_path, "asking.py", asking))
    seen = ast.literal_eval(asked.stdout.strip().split("\n")[-1])
    assert {
        (d.replace("torch.", ""), tuple(n), tuple(s)) for n, s, d in seen
    } == kept


def test_lists_inside_a_group_are_rebuilt(
    fusiondoc: Run, tmp_path: Path, static_log: Path
) -> None:
    done = python(made(fusiondoc, tmp_path, static_log, "G3"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fused: 1 group, 4 of 4 operators" in done.stdout


def test_a_group_for_any_size_says_which_sizes_were_chosen(
    fusiondoc: Run, tmp_path: Path
) -> None:
    shown = python(LIVE, "dynamic")
    assert "TensorExprDynamicGuard" in shown.stdout, shown.stderr
    log = write(tmp_path, "dynamic.log", "")
    log.write_text(shown.stdout)
    path = tmp_path / "dynamic.py"
    done = fusiondoc("repro", log, "--group", "G1", "--output", path)
    assert done.stderr.count("the log does not contain its sizes") == 2
    assert data(path, "DYNAMIC") is True
    ran = python(path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "fused: 1 group, 4 of 4 operators" in ran.stdout


def test_backward_groups_of_a_capture(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "model.py",
        """
        import torch

        def model(x, w):
            return torch.tanh(x * w + 1.0).sigmoid()

        inputs = (torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True))
        """,
    )
    capture, failed = run_target(
        tmp_path, "model.py", fuser="nnc", backward=True, runs=4
    )
    assert failed is None
    listed = fusiondoc("repro", capture.path)
    backward = [
        line.split()[0]
        for line in listed.stdout.split("\n")
        if " backward " in line
    ]
    assert backward, listed.stdout
    path = tmp_path / "backward.py"
    fusiondoc("repro", capture.path, "--group", backward[0], "--output", path)
    assert "# <string>:" in str(data(path, "IR"))
    done = python(path)
    assert done.returncode == 0, done.stdout + done.stderr
    fused = re.search(r"fused: 1 group, (\d+) of (\d+) operators", done.stdout)
    assert fused is not None and fused[1] == fused[2], done.stdout


def test_dropout_differs_by_design(fusiondoc: Run, tmp_path: Path) -> None:
    path = made(fusiondoc, tmp_path, LAYER_NORM, "G3")
    assert data(path, "RANDOM") == [0, 1]
    done = python(path, "none")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "differ by design" in done.stdout
    assert "the log has tensors on cuda:0, which is not here" in done.stdout
    # The same values in another order: only the means may be compared. With other
    # numbers they are not.
    text = path.read_text(encoding="utf-8")
    other = tmp_path / "other.py"
    other.write_text(
        text.replace("    torch.manual_seed(0)\n", "    torch.seed()\n"),
        encoding="utf-8",
    )
    assert python(other, "none").returncode == 0
    other.write_text(
        text.replace("    torch.manual_seed(0)\n", "    torch.seed()\n").replace(
            "RANDOM = [0, 1]", "RANDOM = []"
        ),
        encoding="utf-8",
    )
    differs = python(other, "none")
    assert differs.returncode == 1
    assert (
        "differs: output 0" in differs.stdout
        and "verdict: different, 2 of 2 outputs" in differs.stdout
    )


def test_a_constant_of_the_plan_is_not_guessed(
    fusiondoc: Run, tmp_path: Path, static_log: Path
) -> None:
    """A number that the graph around the group has as a constant is taken from
    there."""
    text = static_log.read_text()
    number = re.search(
        r"%(\d+) : float = prim::Constant\[value=2\.\]\(\)[^\n]*\n", text
    )
    assert number is not None
    line, name = number[0], number[1]
    before, after = text.split(line, 1)
    # The same program with its constant outside of the group, as nvFuser leaves
    # them.
    start = before.rindex("graph(")
    header = before[start:]
    params = header.replace("):\n", ",\n      %given : float):\n", 1)
    call = re.search(
        r"prim::TensorExprGroup_0\(([^)]*)\)", before[: before.rindex("with ")]
    )
    assert call is not None
    outer = before[:start].replace(
        call[0], f"prim::TensorExprGroup_0({call[1]}, %outside)", 1
    )
    outer = re.sub(
        r"(graph\([^)]*\)?.*?\):\n)",
        r"\1  %outside : float = prim::Constant[value=2.5]()\n",
        outer,
        count=1,
        flags=re.S,
    )
    inner = after.replace(f"%{name})", "%given)").replace(f"%{name},", "%given,")
    log = tmp_path / "outside.log"
    log.write_text(outer + params + inner)
    path = made(fusiondoc, tmp_path, log, "G1")
    assert {"value": 2.5} in data(path, "INPUTS"), path.read_text()[:3000]


def test_the_file_needs_torch_alone(
    fusiondoc: Run, tmp_path: Path, static_log: Path
) -> None:
    text = made(fusiondoc, tmp_path, static_log, "G2").read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 7))
    names = {
        a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
    }
    assert names == {"json", "os", "re", "sys", "torch"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
