"""What a run gives when the user's program is wrong: a message to act on, a
capture, no traceback of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Run
from running import log_of, run_target, write

from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import CannotRun, FusiondocError, ModelFailed, UsageError
from fusiondoc.workflows.load import report_of

pytestmark = pytest.mark.torch


def failing(
    folder: Path, source: str, target: str = "user.py", **options: object
) -> FusiondocError:
    """The error of a run of ``source`` as user.py; the probe's own frames are never
    shown."""
    write(folder, "user.py", source)
    capture, error = run_target(folder, target, **options)
    assert error is not None
    shown = f"{error.message}\n{error.hint}\n{log_of(capture)}"
    assert "fusiondoc/probe" not in shown and "fusiondoc/runner" not in shown
    assert capture.result.exit_status == error.exit_code
    return error


def test_a_model_that_raises(tmp_path: Path) -> None:
    error = failing(
        tmp_path,
        """
        import torch

        def helper(x):
            return x.view(3, 7)

        def model(x):
            return helper(x) + 1

        inputs = (torch.ones(4, 4),)
        """,
    )
    assert isinstance(error, ModelFailed) and error.exit_code == 3
    assert (
        "return x.view(3, 7)" in error.message
        and "shape '[3, 7]' is invalid" in error.message
    )


def test_a_file_that_raises_while_it_is_imported(tmp_path: Path) -> None:
    error = failing(
        tmp_path,
        "import torch\n\ndef late():\n    raise KeyError('gone')\n\nmodel = late()\ninputs = ()\n",
    )
    assert error.exit_code == 3
    assert "user.py could not be imported\nTraceback" in error.message
    assert "in late" in error.message and error.message.endswith("KeyError: 'gone'")


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    error = failing(tmp_path, "model = (\n")
    assert (
        error.exit_code == 3
        and "SyntaxError" in error.message
        and "user.py" in error.message
    )


def test_a_model_that_cannot_be_scripted(tmp_path: Path) -> None:
    error = failing(
        tmp_path,
        """
        import torch

        def model(x):
            return [f(x) for f in (lambda a: a + 1,)][0]

        inputs = (torch.ones(4),)
        """,
    )
    assert isinstance(error, ModelFailed)
    assert (
        "cannot be scripted" in error.message
        and "(lambda a: a + 1,)" in error.message
    )
    assert "HERE" in error.message and "--trace" in str(error.hint)
    assert "torch/jit/frontend.py" not in error.message


def test_a_function_that_makes_the_model(tmp_path: Path) -> None:
    source = "import torch\n\ndef build():\n    return torch.nn.Linear(4, 4)\n"
    error = failing(tmp_path, source, "user.py:build", inputs=("float32[2,4]",))
    assert error.exit_code == 3 and "cannot be scripted" in error.message
    assert "model = build()" in str(error.hint)
    found = {
        finding.code: finding.message
        for finding in report_of(CaptureStore(tmp_path).newest()).findings
    }
    assert found["FD905"].startswith(
        "The program failed while it was scripted: FrontendError: Cannot "
    )
    assert not found["FD905"].endswith(":") and "FD901" not in found


def test_the_same_model_can_be_traced(tmp_path: Path) -> None:
    write(
        tmp_path,
        "user.py",
        "import torch\n\ndef model(x):\n    return [f(x) for f in (lambda a: a + 1,)][0]\n"
        "\ninputs = (torch.ones(4),)\n",
    )
    _, error = run_target(tmp_path, "user.py", trace=True, runs=1)
    assert error is None


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        ("import torch\n\ndef f(x):\n    return x\n", "no 'model'", "user.py:f"),
        (
            "import torch\n\ndef model(x):\n    return x\n",
            "'model' but no 'inputs'",
            "--input",
        ),
        (
            "model = None\ninputs = ()\n",
            "user.py:model is of type NoneType",
            "nn.Module",
        ),
        (
            "import torch\nmodel = torch.nn.ReLU\ninputs = ()\n",
            "is a class",
            "ReLU()",
        ),
        (
            "import torch\nmodel = torch.nn.Linear\ninputs = ()\n",
            "is a class",
            "Linear(in_features, out_features)",
        ),
    ],
)
def test_no_model_or_no_inputs(
    tmp_path: Path, source: str, message: str, hint: str
) -> None:
    error = failing(tmp_path, source)
    assert isinstance(error, UsageError)
    assert message in error.message and hint in str(error.hint)


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    error = failing(
        tmp_path,
        "def block(x):\n    return x\n",
        "user.py:blokc",
        inputs=("float32[2]",),
    )
    assert error.exit_code == 2 and "Did you mean 'block'" in str(error.hint)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("(torch.ones(2), 'text')", "argument 'y' but instead found type 'str'"),
        ("(torch.ones(2),)", "missing value for argument 'y'"),
        ("(torch.ones(2), torch.ones(2), 3)", "at most 2 argument"),
        ("7", "is of type int, not a tuple"),
        ("{1: 2}", "is of type dict, not a tuple"),
        ("(__import__('numpy').zeros(2), torch.ones(2))", "numpy ndarray"),
    ],
)
def test_inputs_that_do_not_fit(tmp_path: Path, inputs: str, message: str) -> None:
    if "numpy" in inputs:
        pytest.importorskip("numpy")
    error = failing(
        tmp_path,
        f"import torch\n\ndef model(x, y):\n    return x + y\n\ninputs = {inputs}\n",
    )
    assert isinstance(error, UsageError), error.message
    assert message in error.message


def test_a_backward_pass_without_anything_to_differentiate(tmp_path: Path) -> None:
    source = "import torch\n\ndef model(x):\n    return x + 1\n\ninputs = (torch.ones(2),)\n"
    error = failing(tmp_path, source, backward=True)
    assert error.exit_code == 2 and ":grad" in str(error.hint)


def test_a_fuser_that_this_torch_does_not_have(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("nvFuser may work here")
    error = failing(
        tmp_path, "def model(x):\n    return x\n\ninputs = ()\n", fuser="nvfuser"
    )
    assert isinstance(error, CannotRun) and error.exit_code == 4
    assert (
        "1.12 to 2.1 with CUDA" in f"{error.message} {error.hint}"
        and torch.__version__ in error.message
    )


def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    if pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is one")
    error = failing(
        tmp_path, "def model(x):\n    return x\n\ninputs = ()\n", device="cuda"
    )
    assert isinstance(error, CannotRun) and "sees no CUDA device" in error.message


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.ones(2)}, tmp_path / "weights.pt")
    _, error = run_target(tmp_path, "weights.pt", inputs=("float32[2]",))
    assert (
        isinstance(error, UsageError)
        and "is no TorchScript archive" in error.message
    )
    assert "miniz" not in error.message and "torch.jit.save" in str(error.hint)


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    _, error = run_target(tmp_path, "no.such.package:model", inputs=("float32[2]",))
    assert isinstance(error, UsageError) and "no module 'no'" in error.message


def test_a_seed_that_torch_does_not_take(fusiondoc: Run) -> None:
    done = fusiondoc("diagnose", "model.py", "--seed", str(2**64))
    assert done.returncode == 2
    assert "more than 64 bits" in done.stderr


def test_an_error_behind_the_models_own_code_is_not_one_of_its_inputs() -> None:
    """The program calls something of its own with what does not fit."""
    import math

    from fusiondoc.probe import hint_of
    from fusiondoc.probe.passes import Passes

    passes = Passes.__new__(Passes)
    passes._torch = math  # a module with a file

    def blames_the_program(call: object) -> bool:
        try:
            passes._call = call  # type: ignore[attr-defined]
            exec(
                compile("passes._call()", math.__file__, "exec"), {"passes": passes}
            )
        except TypeError as error:
            assert error.__traceback__ is not None
            error.__traceback__ = (
                error.__traceback__.tb_next
            )  # the frame of this test
            return passes._in_users_code(error)
        raise AssertionError

    assert not blames_the_program(math.sqrt)  # takes an argument
    assert blames_the_program(lambda: math.sqrt())  # type: ignore[call-arg]
    said = "Expected a value of type 'Tensor' for argument 'primals_3' but instead found type 'float'."
    assert "functools.partial" in str(hint_of(said))
    assert "_force_skip_lazy_graph_module" in str(
        hint_of('File "torch/fx/_lazy_graph_module.py", line 181')
    )
    both = "vector::_M_range_check: __n (which is 0) >= this->size() (which is 0)"
    assert "torch.jit.freeze alone" in str(hint_of(both))
    assert hint_of("missing value for argument 'x'") is None
