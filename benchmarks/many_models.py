"""A repository of small models with a file of expectations, for ``fusiondoc check``
without a target.

python benchmarks/many_models.py make FOLDER [--models 40] writes models/model_NN.py
    (a block of a ResNet-18 with an activation of its own each), blocks.py, which
    they import, and fusions.yaml.

python benchmarks/many_models.py time FOLDER [--workers 2] [--separate N] times a
    check of each of the first N models by itself, then all models at once: without
    a cache, with one that is empty, with one after a change of one model, and with
    one when nothing changed; the last two with --changed-since too. Wall time.

python benchmarks/many_models.py changes FOLDER makes 60 changes, half of them
    harmless, one at a time and each to one model, checks all models at once, and
    counts what was caught, missed, or reported without cause. The first dozen is
    checked by the cache alone, the others with --changed-since. --first and
    --changes make a part of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

BLOCKS = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(hidden)) + x)
"""

MODEL = """\
import torch
from blocks import Block
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block({channels})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.block(x)
        y = {tail}
        return y


torch.manual_seed(0)
model = Model().eval()
inputs = (torch.randn(1, {channels}, 16, 16),)
"""

TAILS = (
    "torch.tanh(y * 0.5) + y",
    "torch.sigmoid(y + 1.0) * y",
    "torch.exp(y * -0.5) + y",
    "torch.abs(y - 0.5) * y",
)

SECTION = """\
  - name: model_{number:02}
    run: {{target: models/model_{number:02}.py, fuser: nnc}}
    groups:
      - ops: [{ops}]
    number_of_groups: 1
    not_fused: [batch_norm, conv2d, relu]
"""

ALL = """\
all:
  max_fallbacks: 0
  min_coverage: 40%
  no: [FD301]
sections:
"""

OPERATORS = (
    "add, relu, mul, tanh, add",
    "add, relu, add, sigmoid, mul",
    "add, relu, mul, exp, add",
    "add, relu, sub, abs, mul",
)


def make(folder: Path, models: int) -> None:
    """Write the repository."""
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "blocks.py").write_text(BLOCKS)
    sections = []
    for number in range(models):
        text = MODEL.format(channels=16, tail=TAILS[number % len(TAILS)])
        (folder / "models" / f"model_{number:02}.py").write_text(text)
        sections.append(
            SECTION.format(number=number, ops=OPERATORS[number % len(OPERATORS)])
        )
    (folder / "fusions.yaml").write_text(ALL + "".join(sections))
    (folder / ".gitignore").write_text(".fusiondoc/\n__pycache__/\ncheck.json\n")
    author = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.com")
    for arguments in (
        ("init", "-q"),
        ("add", "-A"),
        (*author, "commit", "-qm", "models"),
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


class Took(NamedTuple):
    status: int
    wall: float
    text: str

    def __str__(self) -> str:
        return f"status {self.status}, {self.wall:.1f} s"


def run(folder: Path, *arguments: str) -> Took:
    """Run fusiondoc there, with one thread of OpenMP in each process."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "fusiondoc", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - began
    return Took(done.returncode, wall, done.stdout + done.stderr)


_SINCE = ("--changed-since", "HEAD")


def show_times(folder: Path, workers: int, separate: int) -> None:
    """Print the times of each way."""
    every = ("check", "--expect", "fusions.yaml", "-j", str(workers))
    models = sorted((folder / "models").glob("model_*.py"))
    alone = []
    for path in models[:separate]:
        target = path.relative_to(folder).as_posix()
        took = run(
            folder, "check", target, "--fuser", "nnc", "--expect", "fusions.yaml"
        )
        alone.append(took)
        print(f"{target} by itself: {took}", flush=True)
    if alone:
        total = sum(took.wall for took in alone) / len(alone) * len(models)
        print(
            f"{len(models)} by themselves, from the mean of {len(alone)}: {total:.0f} s"
        )
    print("all, no cache:", run(folder, *every, "--no-cache"), flush=True)
    print("all, empty cache:", run(folder, *every), flush=True)
    text = models[0].read_text()
    models[0].write_text(text + "\n# changed\n")
    print("all, one model changed:", run(folder, *every), flush=True)
    models[0].write_text(text + "\n# changed again\n")
    print(
        "all, one model changed, --changed-since HEAD:",
        run(folder, *every, *_SINCE),
        flush=True,
    )
    models[0].write_text(text)
    print("all, nothing changed:", run(folder, *every), flush=True)
    print(
        "all, nothing changed, --changed-since HEAD:",
        run(folder, *every, *_SINCE),
        flush=True,
    )


class Change(NamedTuple):
    name: str
    loses: bool
    make: Callable[[str], str]


def _replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text, old
        return text.replace(old, new, 1)

    return change


_FIRST = "        y = self.block(x)\n"
_RETURN = "        return y"
_HELPER = "def helper() -> int:\n    return 1\n\n\nclass Model"
_OFF = "torch._C._jit_set_texpr_fuser_enabled(False)\ntorch.manual_seed(0)"


def _renamed(text: str) -> str:
    """The local value y under another name."""
    for old, new in (
        ("y = ", "z = "),
        ("return y", "return z"),
        ("(y", "(z"),
        ("+ y", "+ z"),
        ("* y", "* z"),
    ):
        text = text.replace(old, new)
    return text


CHANGES = (
    Change(
        "a comment above the class",
        False,
        _replaced("class Model", "# one more line\nclass Model"),
    ),
    Change(
        "cumsum before the tail",
        True,
        _replaced(_FIRST, "        y = torch.cumsum(self.block(x), 1)\n"),
    ),
    Change("another local name", False, _renamed),
    Change(
        "the tail taken out",
        True,
        _replaced(_RETURN, "        return self.block(x)"),
    ),
    Change("another seed", False, _replaced("manual_seed(0)", "manual_seed(7)")),
    Change(
        "cumsum behind the tail",
        True,
        _replaced(_RETURN, "        y = y.cumsum(0)\n        return y.relu()"),
    ),
    Change("a larger input", False, _replaced("16, 16),)", "24, 24),)")),
    Change("the fuser switched off", True, _replaced("torch.manual_seed(0)", _OFF)),
    Change("an unused helper", False, _replaced("class Model", _HELPER)),
    Change(
        "a printed value",
        True,
        _replaced(_FIRST, _FIRST + "        print(float(y.sum()))\n"),
    ),
    Change("blank lines", False, lambda text: text.replace("\n\n\n", "\n\n\n\n")),
    Change(
        "an integer detour",
        True,
        _replaced(_FIRST, _FIRST + "        y = y.long().cumsum(0).float()\n"),
    ),
)


def count_changes(folder: Path, workers: int, numbers: range) -> None:
    """Make the changes one after the other, and count what the check of all models
    says of each."""
    counts = {
        "caught": 0,
        "missed": 0,
        "false alarm": 0,
        "rightly quiet": 0,
        "wrong model": 0,
    }
    models = sorted((folder / "models").glob("model_*.py"))
    report = folder / "check.json"
    if numbers[0] < len(CHANGES):
        base = run(folder, "check", "--expect", "fusions.yaml", "-j", str(workers))
        print("before any change:", base, flush=True)
    for index in numbers:
        change = CHANGES[index % len(CHANGES)]
        path = models[index * 7 % len(models)]
        text = path.read_text()
        path.write_text(change.make(text))
        every = (
            "check",
            "--expect",
            "fusions.yaml",
            "-j",
            str(workers),
            "-o",
            str(report),
            "-f",
            "json",
        )
        took = run(folder, *every, *(_SINCE if index >= len(CHANGES) else ()))
        path.write_text(text)
        rows = json.loads(report.read_text())["models"]
        lost = [
            row["section"]
            for row in rows
            if row["outcome"] not in ("holds", "unchanged")
        ]
        word = _judged(change.loses, lost, path.stem)
        counts[word] += 1
        print(
            f"{index + 1:2} {change.name} in {path.stem}: {word}, {took}",
            flush=True,
        )
    print(json.dumps(counts))


def _judged(loses: bool, lost: Sequence[str], changed: str) -> str:
    if any(name != changed for name in lost):
        return "wrong model"
    if loses:
        return "caught" if lost else "missed"
    return "false alarm" if lost else "rightly quiet"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", choices=("make", "time", "changes"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--separate", type=int, default=3)
    parser.add_argument("--changes", type=int, default=60)
    parser.add_argument(
        "--first", type=int, default=0, help="begin with this change, from 0"
    )
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    if arguments.what == "make":
        shutil.rmtree(arguments.folder, ignore_errors=True)
        make(arguments.folder, arguments.models)
    elif arguments.what == "time":
        show_times(arguments.folder, arguments.workers, arguments.separate)
    else:
        first = arguments.first
        count_changes(
            arguments.folder,
            arguments.workers,
            range(first, first + arguments.changes),
        )


if __name__ == "__main__":
    main()
