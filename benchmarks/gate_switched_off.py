"""What ``fusiondoc check`` says of programs that switch their fuser off, form by
form.

    python benchmarks/gate_switched_off.py

Needs a torch in this interpreter; each form is a program that is run under NNC and
held against what it fuses without the switch. Prints the exit status (1 is red),
whether FD104 names the cause, and whether the line of the call is in what is
printed. The last three forms are none, so that a gate that is always red shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

OFF = "torch._C._jit_set_texpr_fuser_enabled(False)"
MODEL = """\
import torch
{import_}

def model(x, y):
    return torch.relu(x + y) * y

inputs = (torch.rand(4, 8), torch.rand(4, 8))
"""
SCRIPT = """\
import torch

@torch.jit.script
def model(x, y):
    return torch.relu(x + y) * y

{before}
for number in range(5):
    {around}
        model(torch.rand(4, 8), torch.rand(4, 8))
    {after}
"""
IGNORED = """\
import torch

@torch.jit.ignore
def off() -> None:
    {off}

def model(x, y):
    off()
    return torch.relu(x + y) * y

inputs = (torch.rand(4, 8), torch.rand(4, 8))
"""
BLOCK = """\
import torch

@torch.jit.script
def inner(x, y):
    return torch.relu(x + y) * y

def model(x, y):
    with torch.jit.optimized_execution(False):
        return inner(x, y)

inputs = (torch.rand(4, 8), torch.rand(4, 8))
"""


def script(
    before: str = "pass", around: str = "if True:", after: str = "pass"
) -> str:
    return SCRIPT.format(before=before, around=around, after=after)


NO_PASSES = "with torch.jit.optimized_execution(False):"
AT_IMPORT = (
    OFF,
    "torch._C._jit_override_can_fuse_on_cpu(False)",
    "torch._C._jit_set_te_must_use_llvm_cpu(True)",
    "torch._C._jit_set_profiling_executor(False)",
    "torch._C._jit_set_profiling_mode(False)",
    "torch._C._set_graph_executor_optimize(False)",
    "torch._C._get_graph_executor_optimize(False)",
    "kept = torch.jit.fuser('fuser0'); kept.__enter__()",
    "import os; os.environ['PYTORCH_TENSOREXPR'] = '0'",
)
FORMS = (
    *((f"at import: {one}", MODEL.format(import_=one), ()) for one in AT_IMPORT),
    ("script: before its passes", script(before=OFF), ("--script",)),
    ("script: between its passes", script(after=OFF), ("--script",)),
    ("script: optimized_execution(False)", script(around=NO_PASSES), ("--script",)),
    ("script: jit.fuser('fuser0')", script(around="with torch.jit.fuser('fuser0'):"), ("--script",)),
    ("model: in every pass", IGNORED.format(off=OFF), ()),
    ("model: a block, traced through", BLOCK, ("--trace",)),
    ("none: the program as it is", MODEL.format(import_=""), ()),
    ("none: a script, as it is", script(), ("--script",)),
    ("none: a script, off after its last pass", script(after=f"number < 4 or {OFF}"), ("--script",)),
)  # fmt: skip
PARTS_OF_A_CALL = ("_C.", "jit.fuser", "optimized_execution", "environ")
EXPECTED = (
    (
        "groups",
        "groups:\n- [add, relu, mul]\nnumber_of_groups: 1\nmax_fallbacks: 0\nnot_fused: []\n",
    ),
    ("absence", "max_fallbacks: 0\nnot_fused: [add, relu, mul]\n"),
)


def main() -> None:
    """Print a row for each form."""
    print(
        "form | status (groups expected) | status (absence expected) | FD104 | line of the call"
    )
    for name, text, options in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            statuses, said = [], ""
            (Path(folder) / "program.py").write_text(text)
            for kind, expected in EXPECTED:
                (Path(folder) / f"{kind}.yaml").write_text(expected)
                command = [
                    sys.executable,
                    "-m",
                    "fusiondoc",
                    "check",
                    "program.py",
                    "--fuser",
                    "nnc",
                    *options,
                ]
                done = subprocess.run(
                    [*command, "--expect", f"{kind}.yaml"],
                    cwd=folder,
                    env={**os.environ, "COLUMNS": "400"},
                    capture_output=True,
                    text=True,
                )
                statuses.append(str(done.returncode))
                said += done.stdout
            rows = enumerate(text.split("\n"), 1)
            call = next(
                (
                    n
                    for n, row in rows
                    if any(part in row for part in PARTS_OF_A_CALL)
                ),
                0,
            )
            named, placed = "FD104" in said, f"program.py:{call}" in said
            print(
                f"{name} | {' | '.join(statuses)} | {'yes' if named else 'no'} | {'yes' if placed else 'no'}"
            )


if __name__ == "__main__":
    main()
