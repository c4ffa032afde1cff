"""Does every change that a plan advises do what the plan promises? Judged by torch, not by fusiondoc.

    python benchmarks/promises.py benchmarks/promise_programs

Each program of the folder names ``model`` and ``inputs``. The command line diagnoses it, forward and with
gradients. Every change of its plan that has edits is made in a copy, alone and all together. A child process
runs the copies, compares outputs, gradients and arguments with those of the program in eager mode, and counts
groups and operators outside groups in the plans of torch's own graph executors.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import typing
from pathlib import Path

VERDICTS = ("as promised", "less", "nothing", "broken", "wrong line")
SECONDS = 300  # the longest that one diagnosis, or one child process, may take
ENOUGH = 0.95
JUDGE = Path(__file__).with_name("promises_judge.py")
Json = dict[str, typing.Any]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One change of a plan, and what it did."""

    program: str
    backward: bool
    change: str
    kind: str
    codes: list[str]
    verdict: str
    why: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """All of one program and one direction."""

    verdicts: list[Verdict]
    without_edits: list[str]
    error: str | None


def changed_text(text: str, changes: typing.Sequence[Json]) -> str | None:
    """The text with the edits of these changes; None where a line is not as its edit states.

    A line that an earlier change has replaced is left as that change wrote it.
    """
    lines = text.split("\n")
    result: list[str | None] = list(lines)
    edited: set[int] = set()
    for change in changes:
        for edit in change["edits"]:
            first = edit["line"] - 1
            old = edit["before"].rstrip("\n").split("\n")
            if lines[first : first + len(old)] != old:
                return None
            span = set(range(first, first + len(old)))
            if span & edited:
                continue
            edited |= span
            for index in span:
                result[index] = None
            if edit["after"] or not edit["before"]:
                result[first] = edit["after"].rstrip("\n")
    return "\n".join(line for line in result if line is not None)


def groups_promised(unlocks: str | None) -> int:
    """By how many groups a sentence of the plan lets the number of groups change: joins count downward."""
    difference = 0
    for joined, into in re.findall(r"joins (\d+) groups? .*?into (\d+)", unlocks or ""):
        difference -= int(joined) - int(into)
    return difference


def stands_elsewhere(change: Json, ops_of_lines: Json) -> bool:
    """True where no operator of the change stands on a line that it edits.

    A constructor's line (``nn.ReLU(inplace=True)``) has no operator of any graph: nothing is judged there.
    """
    lines = [str(edit["line"]) for edit in change["edits"]]
    with_operators = [line for line in lines if line in ops_of_lines]
    if not with_operators:
        return False
    wanted = {op.rstrip("_") for op in change["ops"]}
    known = {op.rstrip("_") for ops in ops_of_lines.values() for op in ops}
    if not wanted & known:
        return False  # made by a pass of torch, so no line of the source has it
    return not any(wanted & {op.rstrip("_") for op in ops_of_lines[line]} for line in with_operators)


def judged(change: Json, before: Json, after: Json | None) -> tuple[str, str]:
    """Verdict and its reason, from torch's counts of the program before and after the change."""
    if after is None:
        return "broken", "the process ended"
    if after["error"]:
        return "broken", after["error"]
    if stands_elsewhere(change, before["ops_of_lines"]):
        return "wrong line", f"no {' or '.join(change['ops'])} stands there"
    freed = outside(before, change["ops"]) - outside(after, change["ops"])
    joined = before["groups"] - after["groups"]
    promised = -groups_promised(change["unlocks"])
    seen = f"{freed} of {change['operators']} operators freed, groups {before['groups']} to {after['groups']}"
    seen += f" ({change['unlocks']})"
    if freed >= change["operators"] and joined >= promised:
        return "as promised", seen
    if freed > 0 or joined > 0 or after["inside"] > before["inside"]:
        return "less", seen
    return "nothing", seen


def outside(counts: Json, ops: typing.Sequence[str]) -> int:
    """Operators outside groups that compute, and views where the change is of a view."""
    return sum(number for op, number in counts["outside"].items() if op in ops or op not in counts["views"])


def all_together(before: Json, alone: typing.Sequence[Json | None], after: Json | None) -> tuple[str, str]:
    """All changes in one copy: not broken, and no fewer operators in groups than the best one alone."""
    if after is None or after["error"]:
        return "broken", "the process ended" if after is None else after["error"]
    left = outside(after, ())
    best = min((outside(one, ()) for one in alone if one and not one["error"]), default=left)
    seen = f"operators outside {outside(before, ())} to {left}, the best change alone {best}"
    return ("as promised" if left <= best else "less"), seen


def diagnosed(program: Path, fuser: str, backward: bool, folder: Path) -> Json:
    """The report of the real command line, run in a folder of its own."""
    command = [sys.executable, "-m", "fusiondoc", "diagnose", str(program), "--fuser", fuser]
    command += ["--backward"] if backward else []
    result = subprocess.run(
        [*command, "--format", "json"], cwd=folder, capture_output=True, text=True, timeout=SECONDS
    )
    if result.returncode:
        raise RuntimeError(f"diagnose ended with status {result.returncode}: {result.stderr[-300:]}")
    report: Json = json.loads(result.stdout)
    return report


def measured(paths: typing.Sequence[Path], fuser: str, backward: bool) -> dict[str, Json]:
    """By path, what torch states of each program; a path is missing where the process ended in it."""
    command = [sys.executable, str(JUDGE), fuser, str(int(backward)), *map(str, paths)]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS).stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else (error.stdout or "")
    rows = [json.loads(line[6:]) for line in output.splitlines() if line.startswith("JUDGE ")]
    return {row["path"]: row for row in rows}


def try_program(program: Path, fuser: str, backward: bool) -> Outcome:
    """Diagnose, make the changes, measure and judge; an error is part of the outcome."""
    try:
        with tempfile.TemporaryDirectory() as name:
            copy = Path(name) / program.name
            copy.write_text(program.read_text())
            plan = diagnosed(copy, fuser, backward, Path(name))["plan"]
            return judge_plan(copy, plan, fuser, backward)
    except Exception as error:  # the other programs go on
        return Outcome([], [], f"{program.name}: {type(error).__name__}: {error}")


def judge_plan(program: Path, plan: typing.Sequence[Json], fuser: str, backward: bool) -> Outcome:
    """The verdicts on the changes of a plan of this program."""
    changes = [change for change in plan if change["edits"]]
    without = [f"{program.name}: {change['change']}" for change in plan if not change["edits"]]
    text = program.read_text()
    copies: dict[int, Path] = {}  # by the index of the change; behind the last, all together
    trials = [[change] for change in changes] + ([changes] if len(changes) > 1 else [])
    for index, trial in enumerate(trials):
        own = all(edit["file"] == str(program) for change in trial for edit in change["edits"])
        new = changed_text(text, trial) if own else None
        if new is not None:
            copies[index] = program.with_name(f"{program.stem}_{index}.py")
            copies[index].write_text(new)
    rows = measured([program, *copies.values()], fuser, backward) if changes else {}
    before = rows.get(str(program))
    if changes and (before is None or before["error"]):
        raise RuntimeError(f"does not run by itself: {before and before['error']}")
    after = [rows.get(str(copies[index])) if index in copies else None for index in range(len(trials))]
    verdicts = []
    for index, change in enumerate(changes):
        if index in copies:
            found = judged(change, before or {}, after[index])
        else:
            found = ("wrong line", "the lines to change are not those of the file")
        verdicts.append(
            Verdict(
                program.stem, backward, change["change"], change["kind"], change["codes"], found[0], found[1]
            )
        )
    if len(changes) > 1 and len(changes) in copies:
        verdict, why = all_together(before or {}, after[:-1], after[-1])
        verdicts.append(Verdict(program.stem, backward, "all together", "all", [], verdict, why))
    return Outcome(verdicts, without, None)


def show(outcome: Outcome) -> None:
    if outcome.error:
        print(f"FAILED      {outcome.error}", flush=True)
    for one in outcome.verdicts:
        way = "backward" if one.backward else "forward"
        print(f"{one.verdict:11} {one.program} {way}: {one.change}: {one.why}", flush=True)
    for text in outcome.without_edits:
        print(f"no edits    {text}", flush=True)


def summarise(outcomes: typing.Sequence[Outcome]) -> int:
    """The table by cause and the last line; the exit status."""
    verdicts = [one for outcome in outcomes for one in outcome.verdicts]
    failed = [outcome for outcome in outcomes if outcome.error]
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for one in verdicts:
        table[f"{one.kind} {'+'.join(one.codes)}".strip()][one.verdict] += 1
    print(f"\n{'cause':32}" + "".join(f"{verdict:>12}" for verdict in VERDICTS))
    for cause in sorted(table):
        print(f"{cause:32}" + "".join(f"{table[cause][verdict]:12}" for verdict in VERDICTS))
    counts = collections.Counter(one.verdict for one in verdicts)
    without = sum(len(outcome.without_edits) for outcome in outcomes)
    print(f"{without} changes without edits; {len(failed)} runs failed")
    kept, broken, wrong = (counts[verdict] for verdict in ("as promised", "broken", "wrong line"))
    print(f"{kept} of {len(verdicts)} as promised, {broken} broken, {wrong} on a wrong line")
    good = not failed and not broken and kept >= ENOUGH * len(verdicts)
    return 0 if good else 1


def main(arguments: typing.Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fuser", default="nnc", choices=["nnc", "nvfuser"])
    parser.add_argument("--only", action="append", help="name of a program; may be repeated")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    programs = sorted(options.folder.glob("*.py"))
    if options.only:
        programs = [program for program in programs if program.stem in options.only]
    if not programs:
        parser.error(f"no programs in {options.folder}")
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        works = [
            pool.submit(try_program, program, options.fuser, backward)
            for program in programs
            for backward in (False, True)
        ]
        for work in concurrent.futures.as_completed(works):
            outcomes.append(work.result())
            show(outcomes[-1])
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(one) for one in outcomes], indent=1) + "\n")
    return summarise(outcomes)


if __name__ == "__main__":
    sys.exit(main())
