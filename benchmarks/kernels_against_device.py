"""Kernels of a report of torch.compile against those that the GPU runs, of every program of a folder.

    python benchmarks/kernels_against_device.py [FOLDER] [--only TEXT] [-j N]

Each program names ``model`` and ``inputs``. ``fusiondoc diagnose --fuser inductor`` reports on it; another
process compiles and profiles it (``kernels_oracle.py``). Equal: the same names of Triton kernels. It also
counts operators of the compiled graphs for which the report has neither a group nor a call. The last line is
``N of M runs equal``; exits 1 if any differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent


def reported(program: Path, mode: str, folder: str) -> tuple[set[str], int, int] | None:
    """Names of Triton kernels, operators of the graphs, and those that are nowhere; None: no report."""
    file = Path(folder) / "report.json"
    command = [
        sys.executable,
        "-m",
        "fusiondoc",
        "diagnose",
        program,
        "--fuser",
        "inductor",
        "--device",
        "cuda",
    ]
    command += ["--backward"] if mode == "backward" else []
    subprocess.run([*command, "--output", file], cwd=folder, capture_output=True, timeout=400, check=False)
    if not file.exists():
        return None
    report = json.loads(file.read_text())
    accounts = [graph["accounts"] for graph in report["compiled"]["graphs"] if graph["accounts"]]
    lost = sum(len(account["not_found"]) for account in accounts)
    found = sum(account["in_groups"] + account["in_calls"] + account["views"] for account in accounts)
    names = {kernel["name"] for kernel in report["kernels"] if kernel["name"].startswith("triton_")}
    return names, found + lost, lost


def run(program: Path, mode: str) -> tuple[str, str, int, int]:
    """(run, verdict, operators, operators that are nowhere)."""
    name = f"{program.stem} {mode}"
    command = [sys.executable, HERE / "kernels_oracle.py", program, mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode != 0:
        return name, "did not run", 0, 0
    of_device = set(json.loads(done.stdout.splitlines()[-1]))
    with tempfile.TemporaryDirectory() as folder:
        of_report = reported(program.resolve(), mode, folder)
    if of_report is None:
        return name, "no report", 0, 0
    names, operators, lost = of_report
    if names == of_device:
        return name, "equal", operators, lost
    differs = f"differs: report {sorted(names - of_device)}, device {sorted(of_device - names)}"
    return name, differs, operators, lost


def main() -> int:
    """Run all programs and print a row for each run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=str(HERE / "promise_programs"))
    parser.add_argument("--only", default="")
    parser.add_argument("-j", type=int, default=1)
    options = parser.parse_args()
    programs = [path for path in sorted(Path(options.folder).glob("*.py")) if options.only in path.stem]
    runs = [(path, mode) for path in programs for mode in ("inference", "backward")]
    verdicts: Counter = Counter()
    operators = lost = 0
    with ThreadPoolExecutor(options.j) as pool:
        for name, verdict, found, missing in pool.map(lambda pair: run(*pair), runs):
            verdicts[verdict.partition(":")[0]] += 1
            operators, lost = operators + found, lost + missing
            print(f"{name}: {verdict}", flush=True)
    print(f"{lost} of {operators} operators of the graphs are in no group and no call")
    ran = len(runs) - verdicts["did not run"]
    print(f"{verdicts['equal']} of {ran} runs equal, {verdicts['did not run']} did not run")
    return 1 if verdicts["equal"] < ran or lost else 0


if __name__ == "__main__":
    sys.exit(main())
