"""Groups of reports against those that torch's own graph API lists, of every
program of a folder.

    python benchmarks/groups_against_torch.py [FOLDER] [--fuser nnc|nvfuser] [--only
    TEXT] [-j N]

Each program names ``model`` and ``inputs``. A child process runs it
(``groups_oracle.py``), with the JIT log on stderr; fusiondoc reads that log. Equal:
for each phase the same groups, as many of each. The last line is ``N of M runs
equal``; exits 1 if any differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

HERE = Path(__file__).parent
Group = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Phase, operators, types of the inputs."""

LEVELS = {
    "nnc": "profiling_graph_executor_impl:tensorexpr_fuser",
    "nvfuser": ">partition:graph_fuser:>>kernel_cache:profiling_graph_executor_impl",
}


def read_groups(log: Path) -> Counter:
    """(phase, operators, input types) -> instances, of groups that are not for
    other types."""
    report = read_logs(find_logs([str(log)]))[0]
    found: Counter = Counter()
    for group in report.groups:
        if group.respecialises is None:
            found[group.phase, group.ops, group.inputs] += len(group.instances)
    return found


def run(
    program: Path, mode: str, options: argparse.Namespace
) -> tuple[str, str, list[str]]:
    """(run, verdict, lines that differ)."""
    name = f"{program.stem} {mode}"
    env = {
        **os.environ,
        "PYTORCH_JIT_LOG_LEVEL": LEVELS[options.fuser],
        "OMP_NUM_THREADS": "1",
    }
    env.pop("PYTHONUNBUFFERED", None)
    command = [
        sys.executable,
        HERE / "groups_oracle.py",
        options.fuser,
        program,
        mode,
    ]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.log"
        with log.open("wb") as stderr:
            done = subprocess.run(
                command, env=env, stdout=subprocess.PIPE, stderr=stderr, timeout=300
            )
        if options.keep:
            (Path(options.keep) / f"{program.stem}-{mode}.log").write_bytes(
                log.read_bytes()
            )
        if done.returncode != 0:
            return name, "failed", log.read_text(errors="replace").splitlines()[-1:]
        answer = json.loads(done.stdout.splitlines()[-1])
        read = read_groups(log)
    listed = Counter(
        (phase, tuple(operators), tuple(types))
        for phase, groups in answer["plans"]
        for operators, types in groups
    )
    keys = sorted(read.keys() | listed.keys())
    if answer["gradients_missing"]:
        keys = [key for key in keys if key[0] == "forward"]
    lines = [
        different(key, read, listed) for key in keys if read[key] != listed[key]
    ]
    if lines:
        return name, "differs", lines
    return name, "forward alone" if answer["gradients_missing"] else "equal", []


def different(key: Group, read: Counter, listed: Counter) -> str:
    """A group that the report has more or less often than torch."""
    phase, operators, types = key
    return f"  {read[key]} for torch's {listed[key]}: {phase} {' '.join(operators)} {', '.join(types)}"


def main() -> int:
    """Run all programs and print a row for each run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=str(HERE / "promise_programs"))
    parser.add_argument("--fuser", choices=LEVELS, default="nnc")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="a folder for the logs")
    parser.add_argument("-j", type=int, default=1)
    options = parser.parse_args()
    programs = [
        path
        for path in sorted(Path(options.folder).glob("*.py"))
        if options.only in path.stem
    ]
    runs = [(path, mode) for path in programs for mode in ("inference", "backward")]
    verdicts: Counter = Counter()
    with ThreadPoolExecutor(options.j) as pool:
        for name, verdict, lines in pool.map(
            lambda pair: run(*pair, options), runs
        ):
            verdicts[verdict] += 1
            print(f"{verdict:14} {name}", *lines, sep="\n", flush=True)
    equal = verdicts["equal"] + verdicts["forward alone"]
    ran = len(runs) - verdicts["failed"]
    print(
        f"{verdicts['forward alone']} in forward groups alone: torch lists no gradients of these runs"
    )
    print(f"{equal} of {ran} runs equal, {verdicts['failed']} did not run")
    return 1 if verdicts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
