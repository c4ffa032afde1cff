"""``fusiondoc fix`` on real torch: what it finds, keeps and leaves out, and what it
writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Run
from running import write

pytestmark = pytest.mark.torch

BLOCK = """
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU(inplace=True)  # saves memory

        def forward(self, x, y):
            z = x * 2.0 + 1.0
            z += y  # the sum
            z = self.act(z) * 3.0
            return torch.square(z * y) + x


    model = Block()
    inputs = (torch.randn(8, 16), torch.randn(8, 16))
"""

FIXED = (
    ("nn.ReLU(inplace=True)  # saves", "nn.ReLU(inplace=False)  # saves"),
    ("z += y  # the sum", "z = z + y  # the sum"),
    ("return torch.square(z * y)", "h = z * y\n        return (h * h)"),
)


def test_what_helps_is_kept_and_applied(fusiondoc: Run, tmp_path: Path) -> None:
    path = write(tmp_path, "block.py", BLOCK)
    before = path.read_text()
    done = fusiondoc("fix", "block.py", "--apply", "--runs", 3, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = before
    for old, new in FIXED:
        wanted = wanted.replace(old, new)
    assert path.read_text() == wanted
    assert (tmp_path / "block.py.before-fix").read_text() == before
    # The diff on stdout is what was applied, as patch reads it.
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "block.py").write_text(before)
    patch = ["patch", "-p1", "-s"]
    subprocess.run(
        patch, cwd=str(tmp_path / "again"), input=done.stdout, text=True, check=True
    )
    assert (tmp_path / "again" / "block.py").read_text() == wanted
    said = done.stderr
    assert "block.py:13, block.py:9" in said and "speed is not judged" in said
    last = said.rstrip().split("\n")[-2]
    assert (
        last.startswith("2 changes together: ")
        and "-> 1 group," in last
        and "-> 1 kernel launch" in last
    )


def test_what_computes_something_else_or_nothing_new_is_left_out(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """``y`` is a view: ``z`` changes with it."""
    path = write(
        tmp_path,
        "seen.py",
        """
        import torch

        def model(x):
            z = x * 2.0
            y = z.view(-1)
            y += 1.0
            return torch.tanh(z) * z

        inputs = (torch.randn(4, 4),)
        """,
    )
    before = path.read_text()
    done = fusiondoc("fix", "seen.py", "--apply", "--runs", 3, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and path.read_text() == before
    assert (
        "computes something else: output 0" in done.stderr
        and "the only change did not help" in done.stderr
    )


def test_modules_of_a_package_change_from_the_users_file_in_training(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """As torchvision's resnet18 and densenet121: relu in place behind batch norm,
    and ``out += x``."""
    package = tmp_path / "lib" / "site-packages" / "zoo"
    package.mkdir(parents=True)
    write(
        package,
        "__init__.py",
        """
        import torch
        from torch import nn

        class Basic(nn.Module):
            def __init__(self):
                super().__init__()
                self.relu = nn.ReLU(inplace=True)

            def forward(self, x):
                out = self.relu(x * 2.0 + 1.0)
                out = out - 0.5
                out += x
                return self.relu(out)
        """,
    )
    text = "import torch\nfrom zoo import Basic\nmodel = Basic()\ninputs = (torch.randn(4, 8),)\n"
    text = text.replace("8)", "8, requires_grad=True)")
    (tmp_path / "train.py").write_text(text)
    done = fusiondoc(
        "fix",
        "train.py",
        "--backward",
        "--runs",
        4,
        cwd=tmp_path,
        env={"PYTHONPATH": str(package.parent)},
    )
    assert done.returncode == 0, done.stderr
    assert (
        '+for module in model.modules():\n+    if getattr(module, "inplace", False):'
        in done.stdout
    )
    assert "zoo/__init__.py:13: aten::add_ (1 time) works in place" in done.stderr
    assert (tmp_path / "train.py").read_text() == text
    assert "no difference beyond rounding in what is kept" in done.stderr
    assert done.stderr.rstrip().endswith(
        "\ntrain.py was not changed: --apply writes it"
    )


def test_an_archive_and_a_file_that_git_does_not_know(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "net.pt").write_bytes(b"PK")
    done = fusiondoc("fix", "net.pt", "--input", "float32[2]", cwd=tmp_path)
    assert done.returncode == 2 and "is an archive" in done.stderr
    subprocess.run(["git", "init", "-q"], cwd=str(tmp_path), check=True)
    write(tmp_path, "script.py", "print(1)\n")
    done = fusiondoc("fix", "script.py", "--apply", "--script", cwd=tmp_path)
    assert (
        done.returncode == 2
        and "note: script.py has changes that are not committed" in done.stderr
    )


def test_a_script_and_a_failing_program(fusiondoc: Run, tmp_path: Path) -> None:
    write(tmp_path, "script.py", "import torch\nprint(torch.ones(2) + 1)\n")
    done = fusiondoc("fix", "script.py", cwd=tmp_path)
    assert done.returncode == 2 and "is a script" in done.stderr
    write(
        tmp_path,
        "bad.py",
        "import torch\ninputs = ()\ndef model(): raise ValueError('no')\n",
    )
    done = fusiondoc("fix", "bad.py", cwd=tmp_path)
    assert (
        done.returncode == 3
        and "Traceback" in done.stderr
        and "fusiondoc/" not in done.stdout
    )
    done = fusiondoc("fix", "bad.py", "--force", cwd=tmp_path)
    assert done.returncode == 2 and "--apply" in done.stderr


MIXED = """
    from typing import Optional

    import torch
    from torch import Tensor


    def model(x: Tensor, m: Tensor, mask: Optional[Tensor] = None):
        y = x * 2.0 + 1.0
        if mask is not None:
            y = y * mask
        y = torch.tanh(y) * m
        print("shape", y.shape)  # forgotten
        z = torch.flip(torch.sigmoid(y), [0])
        z = z * 3.0 - 1.0
        return torch.relu(z)


    inputs = (torch.randn(8, 16), torch.ones(8, 16, dtype=torch.uint8), torch.ones(8, 16))
"""


@pytest.mark.nightly
def test_what_stands_in_the_middle_is_taken_out(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "mixed.py", MIXED)
    asked = ("--runs", 3, "--allow-signature", "--format", "json")
    done = fusiondoc("fix", "mixed.py", *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    kept = [one["kind"] for one in data["tried"] if one["outcome"] == "kept"]
    assert sorted(kept) == ["annotation", "dtype", "moved", "split"]
    assert data["together"]["groups"] < data["unchanged"]["groups"]
    assert "+def model(x: Tensor, m: Tensor, mask: Tensor):" in data["diff"]
    assert (
        "torch.tanh(y) * m.int()" in data["diff"]
        and "+    result = torch.flip(torch.relu(z), [0])" in data["diff"]
    )


UNFUSED = """
    from typing import Optional

    import torch
    from torch import Tensor, nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)
            self.b = nn.Linear(8, 8)

        def forward(self, x: Tensor, mask: Optional[Tensor] = None):
            x = self.a(x)
            if mask is not None:
                x = torch.matmul(x, mask)
            return self.b(x)


    model = Net()
    inputs = (torch.randn(4, 8), torch.randn(8, 8))
"""


def test_a_signature_stays_and_what_fuses_nothing_is_left_out(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Three matrix products, of which no fuser takes one: without the branch there
    is a node less, and nothing is fused."""
    write(tmp_path, "unfused.py", UNFUSED)
    asked = (
        "fix",
        "unfused.py",
        "--runs",
        3,
        "--fuser",
        "nnc",
        "--no-time",
        "--format",
        "json",
    )
    data = json.loads(fusiondoc(*asked, cwd=tmp_path).stdout)
    assert (
        "annotation" not in [one["kind"] for one in data["tried"]]
        and data["diff"] == ""
    )
    (said,) = [one for one in data["described"] if "--allow-signature" in one]
    assert said.startswith(
        "mask: Tensor instead of Optional: alters the arguments of a function; "
    )
    data = json.loads(fusiondoc(*asked, "--allow-signature", cwd=tmp_path).stdout)
    (tried,) = [one for one in data["tried"] if one["kind"] == "annotation"]
    assert tried["outcome"] == "fuses no more" and tried["after"]["ops_fused"] == 0
    assert data["diff"] == "" and not any(
        "--allow-signature" in one for one in data["described"]
    )


SCRIPTED = """
    import torch
    from torch import nn


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 1)
            self.norm = nn.BatchNorm2d(2)

        def forward(self, x):
            return torch.relu(self.norm(self.conv(x)) + x)


    model = torch.jit.script(nn.Sequential(Block(), Block()).eval())
    inputs = (torch.randn(1, 2, 4, 4),)
"""


def test_a_module_that_the_file_scripts_is_frozen(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "scripted.py", SCRIPTED)
    asked = (
        "--runs",
        3,
        "--fuser",
        "nnc",
        "--no-time",
        "--tries",
        1,
        "--format",
        "json",
    )
    data = json.loads(fusiondoc("fix", "scripted.py", *asked, cwd=tmp_path).stdout)
    (tried,) = data["tried"]
    assert (tried["kind"], tried["outcome"]) == ("freeze", "kept")
    before, after = tried["before"], tried["after"]
    assert (
        before["ops_fused"] == after["ops_fused"] == 4
        and before["launches"] - after["launches"] == 2
    )
    made = (
        "torch.jit.freeze(torch.jit.script(nn.Sequential(Block(), Block()).eval()))"
    )
    assert f"+model = {made}" in data["diff"]
    (tmp_path / "frozen.py").write_text((tmp_path / "scripted.py").read_text())
    subprocess.run(
        ["patch", "-p1", "frozen.py"],
        input=data["diff"].encode(),
        cwd=tmp_path,
        check=True,
    )
    report = json.loads(
        fusiondoc(
            "diagnose", "frozen.py", "--runs", 3, "-f", "json", cwd=tmp_path
        ).stdout
    )
    assert not [one for one in report["unfused"] if "batch_norm" in one["op"]]
