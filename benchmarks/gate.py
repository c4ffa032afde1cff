"""The gate over the models of ``tests/gate_models.py``: how many harmless changes
pass ``check``, and how many changes that lose a group are red. NNC on the CPU; each
run is a process.

    python benchmarks/gate.py                      # of the fusiondoc that this
    python has PYTHONPATH=OTHER_CHECKOUT python benchmarks/gate.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from gate_models import HARMLESS, MODELS, GateModel


def main() -> None:
    passed: Counter[str] = Counter()
    red: Counter[str] = Counter()
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            one_model(model, Path(folder), passed, red)
    print(f"{len(MODELS)} models")
    for change in ("rename the file", *HARMLESS):
        print(f"{change:24} status 0 in {passed[change]} of {len(MODELS)}")
    for change in (
        "lost",
        "lost, and the file renamed",
        "lost, and a module renamed",
    ):
        print(
            f"{change:28} status 1 in {red[change]}, 2 in {red[change + ' 2']}, 0 in {red[change + ' 0']}"
        )


def one_model(
    model: GateModel, folder: Path, passed: Counter[str], red: Counter[str]
) -> None:
    assert check(model, folder, "model.py", model.text, "--update") == 0
    for change, edit in {"rename the file": str, **HARMLESS}.items():
        name = "net.py" if change == "rename the file" else "model.py"
        passed[change] += check(model, folder, name, edit(model.text)) == 0
    lost = model.text.replace(*model.loss)
    for change, name, text in (
        ("lost", "model.py", lost),
        ("lost, and the file renamed", "net.py", lost),
        (
            "lost, and a module renamed",
            "model.py",
            HARMLESS["rename a module"](lost),
        ),
    ):
        status = check(model, folder, name, text)
        red[change if status == 1 else f"{change} {status}"] += 1


def check(model: GateModel, folder: Path, name: str, text: str, *more: str) -> int:
    for old in folder.glob("*.py"):
        old.unlink()
    (folder / name).write_text(text)
    run = [
        sys.executable,
        "-m",
        "fusiondoc",
        "check",
        name,
        "--expect",
        "fusions.yaml",
        "--fuser",
        "nnc",
    ]
    done = subprocess.run(
        [*run, *model.options, *more],
        cwd=folder,
        capture_output=True,
        env=os.environ,
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    main()
