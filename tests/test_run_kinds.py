"""All that a target may be, run for real: scripts, archives, functions, scripted
ones, several shapes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Run
from running import log_of, records_of, run_target, write

from fusiondoc.captures.capture import Capture
from fusiondoc.errors import ModelFailed, UsageError
from fusiondoc.workflows.load import report_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

GROUP = re.compile(r"= prim::TensorExprGroup_0\[?")


def passes(capture: Capture) -> list[tuple[int, str, int]]:
    return [
        (one["index"], one["phase"], one["inputs"])
        for one in records_of(capture)
        if one["record"] == "iteration"
    ]


def test_a_script_is_run_as_python_would(tmp_path: Path) -> None:
    folder = tmp_path / "place"
    write(folder, "beside.py", "word = 'imported from beside the script'\n")
    write(
        folder, "models.py", "word = 'the user\\'s models.py, not the probe\\'s'\n"
    )
    write(
        folder,
        "train.py",
        """
        import atexit, sys
        import beside, models
        import torch

        atexit.register(lambda: print("at exit", torch.__name__, step))
        print("argv", sys.argv[1:], "path", sys.path[0] == sys.argv[0].rpartition("/")[0], __name__)
        print(beside.word, "|", models.word, "|", sys.modules["__main__"].__dict__ is globals())

        @torch.jit.script
        def step(x):
            return (x + 1).relu()

        if __name__ == "__main__":
            for _ in range(3):
                step(torch.ones(4))
        """,
    )
    capture, error = run_target(
        tmp_path, "place/train.py", script=True, script_args=("--token", "abcd")
    )
    assert error is None
    log = log_of(capture)
    assert "argv ['--token', 'abcd'] path True __main__" in log
    written = [
        path
        for path in capture.path.iterdir()
        if path.name != "log" and b"abcd" in path.read_bytes()
    ]
    assert written == [] and capture.request.options.script_args == (
        "--token",
        "***",
    )
    assert (
        "imported from beside the script | the user's models.py, not the probe's | True"
        in log
    )
    assert "at exit torch <torch.jit" in log
    assert GROUP.search(log) and "[fusiondoc] iteration" not in log


def test_a_script_without_a_model_is_run_without_being_asked(
    tmp_path: Path,
) -> None:
    write(tmp_path, "train.py", "import sys\nprint('ran once')\nsys.exit(4)\n")
    capture, error = run_target(tmp_path, "train.py", backward=True)
    assert log_of(capture).count("ran once") == 1
    assert (
        isinstance(error, ModelFailed) and "exited with status 4" in error.message
    )
    assert error.message.endswith("\nran once")
    notes = [note.text for note in capture.records.notes]
    assert notes == [
        "train.py defines no 'model': run as a script",
        "--backward has no effect on a script that is run as it is",
    ]


def test_a_script_without_torchscript(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import torch\nprint(torch.ones(2).sum())\n")
    capture, error = run_target(tmp_path, "train.py", script=True)
    assert error is None
    found = {finding.code: finding for finding in report_of(capture).findings}
    assert found["FD901"].message.startswith(
        "The program ran nothing in TorchScript"
    )
    assert "diagnose FILE.py:NAME" in str(found["FD901"].advice)


def test_a_module_of_torchs_own_is_not_compiled_in_place(tmp_path: Path) -> None:
    """Dynamo skips the frames of its ``forward``."""
    model = "model = torch.nn.Sequential(torch.nn.Tanh())\nmodel.compile()\ninputs = (torch.ones(2),)\n"
    write(tmp_path, "model.py", f"import torch\n{model}")
    capture, error = run_target(tmp_path, "model.py", no_run=True)
    assert error is None
    report = report_of(capture)
    assert report.frontend == "dynamo" and not report.groups
    (found,) = [finding for finding in report.findings if finding.code == "FD901"]
    assert (
        "nothing was compiled" in found.message
        and "torch.compile(model)" in str(found.advice)
    )


def test_an_archive(tmp_path: Path) -> None:
    torch.jit.script(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())).save(
        str(tmp_path / "net.pt")
    )
    capture, error = run_target(
        tmp_path, "net.pt", inputs=("float32[4,8]",), runs=3
    )
    assert error is None
    assert GROUP.search(log_of(capture))
    with pytest.raises(UsageError, match="needs --input"):
        run_target(tmp_path, "net.pt")


def test_several_shapes_run_one_after_the_other(tmp_path: Path) -> None:
    write(
        tmp_path,
        "shapes.py",
        """
        import torch

        @torch.jit.script
        def model(x, k: float):
            return (x * k).relu()

        inputs = [(torch.ones(2, 3), 1.0), (torch.ones(5), 2.0)]
        """,
    )
    capture, error = run_target(tmp_path, "shapes.py", runs=2)
    assert error is None
    assert passes(capture) == [
        (1, "forward", 0),
        (2, "forward", 0),
        (3, "forward", 1),
        (4, "forward", 1),
    ]
    assert "[fusiondoc] iteration 3/4 forward inputs 1" in log_of(capture)


def test_backward_passes_do_not_add_up(tmp_path: Path) -> None:
    """Gradients start from nothing in each pass, also of inputs that are no leaves
    and of parameters."""
    write(
        tmp_path,
        "grads.py",
        """
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(3))

            def forward(self, x):
                return {"loss": x * self.weight, "aside": [x.detach()]}

        model = Model()
        weight = model.weight
        weight.register_hook(lambda grad: print("had", weight.grad, "new", grad.tolist()))
        inputs = (torch.full((3,), 2.0, requires_grad=True) * 2,)
        """,
    )
    capture, error = run_target(tmp_path, "grads.py", runs=3, backward=True)
    assert error is None
    assert passes(capture) == [
        (n, phase, 0) for n in (1, 2, 3) for phase in ("forward", "backward")
    ]
    assert log_of(capture).count("had None new [4.0, 4.0, 4.0]") == 3


def test_grad_mode_follows_what_is_asked(tmp_path: Path) -> None:
    """Parameters alone do not make it training: without --backward it runs as
    inference does."""
    write(
        tmp_path,
        "mode.py",
        """
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(4, 4)

            def forward(self, x):
                print(torch.is_grad_enabled())
                return self.inner(x)

        model = Model()
        inputs = (torch.ones(2, 4),)
        """,
    )
    for options, expected in (
        ({}, "False"),
        ({"backward": True}, "True"),
        ({"inputs": ("float32[2,4]:grad",)}, "True"),
    ):
        capture, error = run_target(tmp_path, "mode.py", runs=1, **options)
        assert error is None
        assert re.findall(r"^(True|False)$", log_of(capture), re.M) == [expected]


def test_named_functions_inputs_seed_and_knobs(tmp_path: Path) -> None:
    write(
        tmp_path,
        "named.py",
        """
        import torch

        print("draw", torch.rand(1).item())

        class Holder:
            @staticmethod
            def block(x, ids, scale: float, flag: bool):
                print(x.dtype, x.size(), ids.dtype, int(ids.max()) < 2, scale, flag)
                return x * scale if flag else x
        """,
    )
    draws = []
    for _ in range(2):
        capture, error = run_target(
            tmp_path,
            "named.py:Holder.block",
            inputs=("bfloat16[3,5]", "int64[7]", "0.5", "true"),
            seed=7,
            runs=1,
            knobs={"profiled_runs": "3", "single_node": "on"},
        )
        assert error is None, error
        draws += re.findall(r"^draw (.*)$", log_of(capture), re.M)
    assert draws[0] == draws[1]
    knobs = {one["name"]: one for one in records_of(capture, "knob")}
    assert (
        knobs["profiled_runs"]["effective"] == "3"
        and knobs["profiled_runs"]["live"] is True
    )
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 2):
        assert knobs["single_node"]["live"] is False  # a no-op since nvFuser left
    assert re.search(r"\[3, 5\] .*True 0.5 True", log_of(capture))


def test_a_module_of_a_package(tmp_path: Path) -> None:
    write(tmp_path, "pack/__init__.py", "")
    write(
        tmp_path,
        "pack/nets.py",
        "import torch\nmodel = torch.nn.Tanh()\ninputs = (torch.ones(3),)\n",
    )
    capture, error = run_target(tmp_path, "pack.nets:model", runs=1)
    assert error is None and passes(capture) == [(1, "forward", 0)]


def test_switches_that_the_file_throws_are_set_back(tmp_path: Path) -> None:
    write(
        tmp_path,
        "own.py",
        """
        import torch

        torch._C._jit_set_texpr_fuser_enabled(False)

        def model(x):
            return (x + 1).relu()

        inputs = (torch.ones(4),)
        """,
    )
    capture, error = run_target(tmp_path, "own.py", runs=3)
    assert error is None
    assert GROUP.search(log_of(capture))
    assert any("fuser switches" in note.text for note in capture.records.notes)


def test_options_of_a_script_without_the_dashes(
    tmp_path: Path, fusiondoc: Run
) -> None:
    write(tmp_path, "train.py", "import torch\n")
    done = fusiondoc("diagnose", "train.py", "--epochs", "1")
    assert done.returncode == 2 and "no such option" in done.stderr
    assert "--script FILE.py -- OPTIONS" in done.stderr
