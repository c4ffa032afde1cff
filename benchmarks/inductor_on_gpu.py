"""Reports of torch.compile against torch itself, on programs and on causes of
boundaries.

    PYTHONPATH=. python benchmarks/inductor_on_gpu.py FOLDER [-j 6] [--only TEXT]
    [--device cuda] PYTHONPATH=. python benchmarks/inductor_on_gpu.py FOLDER --all
    --only compile_ --device cpu --generate

Programs of ``promise_programs`` (``--all``: all of them, and those of
``compile_programs``, some with dynamic shapes too), inference and with gradients.
``fusiondoc diagnose --fuser inductor`` reports on each; another process compiles it
without fusiondoc (``inductor_oracle.py``). The oracles, of each run:

  nodes     Scheduler.nodes: the groups and calls of each graph, in its order
  code      the kernels that the generated code defines, and how often it calls each
  bytes     that Inductor counts of each group
  launches  the Triton kernels that a step launches, by torch's profiler
  accounts  operators of the graphs in no group, call or view

and of each case of ``inductor_apart.py``:

  cause     the report of the first program has the cause; with the change that it
            names, torch's scheduler has one node

Results go to FOLDER/results.jsonl as they come, and to FOLDER/results.md at the
end. What takes longer than --limit seconds is stopped, and nothing begins after
--budget seconds; both count as not held. Exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ORACLE = HERE / "inductor_oracle.py"
APART = HERE / "inductor_apart.py"
MODES = ("inference", "backward")
SOME = [
    "adam_step",
    "box_iou",
    "cross_attention",
    "depth_separable",
    "dice_loss",
    "flow_coupling",
    "focal_loss",
    "generator",
    "glu_block",
    "graph_attention",
    "gru_cell",
    "inverted_residual",
    "label_smoothing",
    "layer_norm_by_hand",
    "message_passing",
    "mixed_precision",
    "nerf_encoding",
    "rotary_attention",
    "squeeze_excite",
    "swiglu_block",
    "vae",
]
"""Programs that are run without --all: some of each kind."""
DYNAMIC = ("masked_attention", "cumulative_rays")
"""Those of ``compile_programs`` that are also compiled with dynamic shapes."""
WITHOUT = (("optimiser_step", "backward"),)
"""A step of an optimiser has no gradients to ask for."""
EQUAL = "equal"
NO_DEVICE = "no device"
NOT_A_NODE = ("NopKernelSchedulerNode", "MultiOutput")
CALL = "ExternKernelSchedulerNode"

Row = dict[str, Any]
Json = dict[str, Any]


class Failed(Exception):
    """A process that gave no result; the text says why."""


class Processes:
    """Runs children, each within the time that is left."""

    def __init__(self, limit: float, budget: float, generate: bool) -> None:
        self._limit = limit
        self._end = time.monotonic() + budget
        self.generate = generate
        self._env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "4",
        }
        self._env["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH")))
        )

    def run(self, command: Sequence[object], folder: Path) -> str:
        """Its output.

        Raises:
            Failed: it failed, or took too long.
        """
        left = min(self._limit, self._end - time.monotonic())
        if left <= 0:
            raise Failed("not run: the budget was spent")
        child = subprocess.Popen(
            [sys.executable, *map(str, command)],
            cwd=folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, errors = child.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(
                child.pid, signal.SIGKILL
            )  # with the processes that compile for it
            child.communicate()
            raise Failed(f"stopped after {left:.0f} s") from None
        if child.returncode != 0:
            last = (errors.strip() or output.strip() or "no output").splitlines()[
                -4:
            ]
            raise Failed(f"status {child.returncode}: {' '.join(last)[:500]}")
        return output

    def oracle(self, *arguments: object, folder: Path) -> Json:
        """What torch itself knows."""
        command = [ORACLE, *arguments, *(["--generate"] if self.generate else [])]
        found: Json = json.loads(self.run(command, folder).splitlines()[-1])
        return found

    def report(self, *arguments: object, folder: Path) -> Json:
        """Of fusiondoc."""
        file = folder / "report.json"
        options = [
            "--fuser",
            "inductor",
            "--output",
            file,
            *(["--no-run"] if self.generate else []),
        ]
        self.run(["-m", "fusiondoc", "diagnose", *options, *arguments], folder)
        found: Json = json.loads(file.read_text("utf-8"))
        return found


# -- programs ------------------------------------------------------------------------------------------------


def differ(what: str, ours: Counter[Any], theirs: Counter[Any]) -> str:
    """What one side alone has."""
    return f"differ: {what} {dict(ours - theirs)} in the report alone, {dict(theirs - ours)} in torch alone"


def nodes(report: Json, oracle: Json) -> str:
    """Groups and calls of each graph against the nodes of its scheduler."""
    ours = [
        [node["kind"] == "group" for node in program["nodes"]]
        for program in report["programs"]
    ]
    theirs = [
        [
            node["class"] != CALL
            for node in graph["nodes"]
            if node["class"] not in NOT_A_NODE
        ]
        for graph in oracle["graphs"]
    ]
    if sorted(ours) == sorted(theirs):
        return EQUAL
    counts = (
        [(len(graph), sum(graph)) for graph in ours],
        [(len(graph), sum(graph)) for graph in theirs],
    )
    return f"differ: (nodes, groups) by graph {counts[0]} in the report, {counts[1]} in the scheduler"


def code(report: Json, oracle: Json) -> str:
    """Kernels against definitions, and groups by kernel against calls."""
    ours = sorted(kernel["name"] for kernel in report["kernels"])
    if ours != sorted(oracle["defined"]):
        return f"differ: kernels {ours} in the report, {sorted(oracle['defined'])} defined"
    theirs = Counter(oracle["calls"])
    called = Counter(
        {
            name: called_as(name, count, theirs[name])
            for name, count in instances_of(report).items()
        }
    )
    if called == theirs:
        return EQUAL
    return differ("calls", called, theirs)


def instances_of(report: Json, backward: bool = True) -> Counter[str]:
    """Name of a kernel -> groups that it computes in a run of each graph, or of
    each forward graph."""
    names = {kernel["id"]: kernel["name"] for kernel in report["kernels"]}
    found: Counter[str] = Counter()
    for group in report["groups"]:
        if group["phase"] == "backward" and not backward:
            continue
        for instance in group["instances"]:
            found.update(names[id_] for id_ in instance["kernels"])
    return found


def called_as(name: str, instances: int, calls: int) -> int:
    """How often a kernel is called by its groups. A C++ function holds the loops of
    several, the same number in each call: so its groups must be a multiple of
    torch's calls."""
    is_multiple = name.startswith("cpp_") and calls > 0 and instances % calls == 0
    return calls if is_multiple else instances


def moved(report: Json, oracle: Json) -> str:
    """Bytes of groups against those that Inductor counts of the nodes."""
    groups = {group["id"]: group for group in report["groups"]}
    ours = []
    for program in report["programs"]:
        for node in program["nodes"]:
            if node["group"] is not None:
                group = groups[node["group"]]
                ours.append((group["bytes_in"] or 0) + (group["bytes_out"] or 0))
    theirs = [
        node["bytes"]
        for graph in oracle["graphs"]
        for node in graph["nodes"]
        if node["class"] not in (CALL, *NOT_A_NODE)
    ]
    if sorted(ours) == sorted(theirs):
        return EQUAL
    return differ("bytes", Counter(ours), Counter(theirs))


def launches(report: Json, oracle: Json) -> str:
    """Launches of Triton kernels by groups against those of a step."""
    if oracle["launched"] is None:
        return NO_DEVICE
    # With dynamic shapes torch compiles a gradient that is never run.
    called = instances_of(report, oracle["backward"])
    ours = Counter(
        {
            name: count
            for name, count in called.items()
            if name.startswith("triton_")
        }
    )
    theirs = Counter(
        {
            name: count
            for name, count in oracle["launched"].items()
            if name.startswith("triton_")
        }
    )
    if ours == theirs:
        return EQUAL
    return differ("launches", ours, theirs)


def accounts(report: Json, oracle: Json) -> str:
    """Operators that are nowhere."""
    every = [graph["accounts"] for graph in report["compiled"]["graphs"]]
    if len(every) != len(oracle["graphs"]) or None in every:
        return f"differ: {len(every)} graphs in the report, {len(oracle['graphs'])} compiled"
    lost = [name for account in every for name in account["not_found"]]
    return EQUAL if not lost else f"differ: {', '.join(lost)} are nowhere"


ORACLES: dict[str, Callable[[Json, Json], str]] = {
    "nodes": nodes,
    "code": code,
    "bytes": moved,
    "launches": launches,
    "accounts": accounts,
}


def operators(report: Json) -> int:
    return sum(
        account["in_groups"]
        + account["in_calls"]
        + account["views"]
        + account["dead"]
        for account in (graph["accounts"] for graph in report["compiled"]["graphs"])
        if account is not None
    )


def of_program(
    processes: Processes,
    path: Path,
    mode: str,
    on: str,
    options: Sequence[str],
    folder: Path,
) -> Row:
    """Both sides, and each oracle."""
    row: Row = {"what": named(path, mode, options), "kind": "program"}
    try:
        oracle = processes.oracle(
            path, mode, "--device", on, *options, folder=folder
        )
    except Failed as failed:
        return {**row, "oracle": str(failed)}
    (folder / "oracle.json").write_text(json.dumps(oracle), "utf-8")
    asked = [
        path,
        "--device",
        on,
        *options,
        *(["--backward"] if mode == "backward" else []),
    ]
    try:
        report = processes.report(*asked, folder=folder)
    except Failed as failed:
        return {**row, "report": str(failed)}
    row.update({name: compare(report, oracle) for name, compare in ORACLES.items()})
    causes = Counter(
        (boundary["cause"] or {}).get("code", "none")
        for boundary in report["boundaries"]
    )
    row.update(
        graphs=len(oracle["graphs"]),
        operators=operators(report),
        boundaries=dict(causes),
    )
    row["other launches"] = sum(
        count
        for name, count in (oracle["launched"] or {}).items()
        if not name.startswith("triton_")
    )
    return row


# -- causes --------------------------------------------------------------------------------------------------


def real_nodes(graphs: Sequence[Json]) -> int:
    """Of a list of graphs, those that do something."""
    return sum(
        node["class"] not in NOT_A_NODE
        for graph in graphs
        for node in graph["nodes"]
    )


def of_case(processes: Processes, name: str, on: str, folder: Path) -> Row:
    """The cause in the report, and the nodes before and after the change."""
    row: Row = {"what": name, "kind": "cause", "on": on}
    wanted = name.partition("_")[0]
    try:
        graphs = processes.oracle(name, "both", "--device", on, folder=folder)
        before, after = (real_nodes(graphs[which]) for which in ("apart", "one"))
        row["nodes"] = (
            EQUAL if before > 1 == after else f"differ: {before}, then {after}"
        )
        report = processes.report(
            APART, "--script", "--", name, "apart", "--device", on, folder=folder
        )
    except Failed as failed:
        return {**row, "report": str(failed)}
    found = [boundary["cause"] or {} for boundary in report["boundaries"]]
    codes = sorted({cause.get("code", "none") for cause in found})
    row["cause"] = (
        EQUAL if wanted in codes else f"differ: {', '.join(codes) or 'no boundary'}"
    )
    row["texts"] = sorted(
        {cause.get("text", "") for cause in found if cause.get("code") == wanted}
    )
    row["found"] = codes
    return row


# -- all of them ---------------------------------------------------------------------------------------------

VERDICTS = (*ORACLES, "cause", "oracle", "report")


def differing(row: Row) -> Row:
    """The verdicts of a row that are not as they should be."""
    return {
        name: row[name]
        for name in VERDICTS
        if name in row and row[name] not in (EQUAL, NO_DEVICE)
    }


def table(rows: Sequence[Row], seconds: float) -> str:
    """As Markdown."""
    names = list(ORACLES)
    lines = [f"# Reports of torch.compile against torch, {seconds:.0f} s", ""]
    lines += [
        f"| run | graphs | operators | {' | '.join(names)} |",
        "|---|--:|--:|" + "---|" * len(names),
    ]
    for row in rows:
        if row["kind"] == "program":
            cells = [row["what"], row.get("graphs", ""), row.get("operators", "")]
            cells += [str(row.get(name, "")).partition(":")[0] for name in names]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "| case | nodes | cause | causes found |", "|---|---|---|---|"]
    for row in rows:
        if row["kind"] == "cause":
            cells = [
                row["what"],
                row.get("nodes", ""),
                row.get("cause", ""),
                ", ".join(row.get("found", ())),
            ]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "## What differs", ""]
    lines += [
        f"- {row['what']}, {name}: {verdict}"
        for row in rows
        for name, verdict in differing(row).items()
    ]
    return "\n".join([*lines, "", summary(rows), ""])


def summary(rows: Sequence[Row]) -> str:
    """In one sentence."""
    programs = [
        row for row in rows if row["kind"] == "program" and "oracle" not in row
    ]
    equal = [row for row in programs if not differing(row)]
    causes = {
        row["what"].partition("_")[0] for row in rows if row["kind"] == "cause"
    }
    shown = {
        row["what"].partition("_")[0]
        for row in rows
        if row["kind"] == "cause" and not differing(row)
    }
    counted = sum(row.get("operators", 0) for row in programs)
    return (
        f"{len(equal)} of {len(programs)} runs equal by every oracle, {counted} operators; {len(shown)} of"
        f" {len(causes)} causes have a program that the change makes one node: {', '.join(sorted(shown))}"
    )


def work(
    processes: Processes, on: str, every: bool
) -> Iterator[tuple[str, Callable[[Path], Row]]]:
    """Names of runs, and what runs each in a folder."""
    sys.path.insert(0, str(HERE))
    import inductor_apart

    for name in inductor_apart.CASES:
        yield name, partial(of_case, processes, name, on)
    for path, mode, options in programs(every):
        yield (
            named(path, mode, options),
            partial(of_program, processes, path, mode, on, options),
        )


def named(path: Path, mode: str, options: Sequence[str]) -> str:
    """What the run of a program is called."""
    before = "compile_" if path.parent.name == "compile_programs" else ""
    return " ".join(
        [f"{before}{path.stem}", mode, *(option.strip("-") for option in options)]
    )


def programs(every: bool) -> Iterator[tuple[Path, str, tuple[str, ...]]]:
    """Each program, with its mode and the options of both sides."""
    for path in sorted((HERE / "promise_programs").glob("*.py")):
        if every or path.stem in SOME:
            yield from ((path, mode, ()) for mode in MODES)
    for path in sorted((HERE / "compile_programs").glob("*.py")) if every else ():
        yield from (
            (path, mode, ()) for mode in MODES if (path.stem, mode) not in WITHOUT
        )
        if path.stem in DYNAMIC:
            yield from ((path, mode, ("--dynamic",)) for mode in MODES)


def timed(root: Path, name: str, run: Callable[[Path], Row]) -> Row:
    """A run in a folder of its own. Captures of equal runs are not kept."""
    folder = root / name.replace(" ", "-")
    folder.mkdir()
    began = time.monotonic()
    row = {**run(folder), "seconds": round(time.monotonic() - began, 1)}
    if not differing(row):
        shutil.rmtree(folder / ".fusiondoc", ignore_errors=True)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a new one")
    parser.add_argument("-j", type=int, default=6)
    parser.add_argument(
        "--only", default="", help="parts of the names of runs: FD263,FD272"
    )
    parser.add_argument("--all", action="store_true", help="all programs")
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--limit", type=float, default=60, help="seconds of a process"
    )
    parser.add_argument("--budget", type=float, default=440, help="seconds of all")
    parser.add_argument(
        "--generate",
        action="store_true",
        help="compile no kernels (C++): without a GPU",
    )
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    root = given.folder.resolve()
    processes = Processes(given.limit, given.budget, given.generate)
    began = time.monotonic()
    rows = []
    with (
        ThreadPoolExecutor(given.j) as pool,
        (root / "results.jsonl").open("w", encoding="utf-8") as file,
    ):
        parts = given.only.split(",")
        every = work(processes, given.device, given.all)
        chosen = [one for one in every if any(part in one[0] for part in parts)]
        for done in as_completed(pool.submit(timed, root, *one) for one in chosen):
            row = done.result()
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(
                f"{row['what']}: {differing(row) or EQUAL}, {row['seconds']} s",
                flush=True,
            )
    rows.sort(key=lambda row: str(row["what"]))
    (root / "results.md").write_text(table(rows, time.monotonic() - began), "utf-8")
    print(summary(rows))
    return 1 if any(map(differing, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
