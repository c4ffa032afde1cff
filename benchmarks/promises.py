"""Does every change that a plan advises do what the plan promises? Judged by torch,
not by fusiondoc.

    python benchmarks/promises.py benchmarks/promise_programs

Each program of the folder names ``model`` and ``inputs``. The command line
diagnoses it, forward and with gradients. Every change of its plan that has edits is
made in a copy, together with those changes that its promise counts on, and all of
them in another copy. A child process (``promises_judge.py``) runs the copies,
compares outputs, gradients and arguments with those of the program in eager mode,
and counts groups and operators outside groups in the plans that torch's graph
executors print. The last line sums it up; the exit status is 1 below 95 % as
promised, or with anything broken.

Whether a change is slower is not judged: NNC interprets its kernels in a torch
without LLVM.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import typing
from pathlib import Path

VERDICTS = ("as promised", "less", "nothing", "broken", "wrong line", "no number")
SECONDS = 300  # the longest that one diagnosis, or one child process, may take
ENOUGH = 0.95
JUDGE = Path(__file__).with_name("promises_judge.py")
NO_GRADIENTS = (
    "no output of the model requires grad"  # of the command line, for --backward
)
MODEL_FAILED = 3  # its exit status
Json = dict[str, typing.Any]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A change of a plan, and what it did."""

    program: str
    backward: bool
    change: str
    kind: str
    verdict: str
    why: str
    planned: Json
    """The change as the plan has it; empty for all together."""
    before: Json
    after: Json | None
    """What the child process counted."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """All of one program and one direction."""

    verdicts: list[Verdict]
    without_edits: list[str]
    error: str | None
    runs_there: bool = True
    """False where the program fails on the device of the fuser in eager mode too:
    nothing is judged then."""


class CannotRun(Exception):
    """The program fails without a fuser, too."""


# -- the copies ----------------------------------------------------------------------------------------------


def changed_text(text: str, changes: typing.Sequence[Json]) -> str | None:
    """The text with the edits of these changes; None where a line is not as its
    edit states.

    A line that an earlier change has replaced is left as that change wrote it;
    lines that are put behind one come all the same.
    """
    lines = text.split("\n")
    result: list[str | None] = list(lines)
    behind: dict[int, list[str]] = {}
    edited: set[int] = set()
    for change in changes:
        for edit in change["edits"]:
            first = edit["line"] - 1
            old = edit["before"].rstrip("\n").split("\n")
            if lines[first : first + len(old)] != old:
                return None
            stays = f"{edit['before']}\n"
            if edit["after"].startswith(stays):
                more = edit["after"][len(stays) :]
                if more not in behind.setdefault(first, []):
                    behind[first].append(more)
                continue
            span = set(range(first, first + len(old)))
            if span & edited:
                continue
            edited |= span
            for index in span:
                result[index] = None
            if edit["after"] or not edit["before"]:
                result[first] = edit["after"].rstrip("\n")
    for first, more in behind.items():
        result[first] = "\n".join([result[first] or "", *more])
    return "\n".join(line for line in result if line is not None)


def copies_of(
    program: Path, trials: typing.Sequence[typing.Sequence[Json]]
) -> dict[int, Path]:
    """By the index of a trial, the file with its changes; none where these do not
    fit the program."""
    text = program.read_text()
    copies: dict[int, Path] = {}
    for index, trial in enumerate(trials):
        own = all(
            edit["file"] == str(program)
            for change in trial
            for edit in change["edits"]
        )
        new = changed_text(text, trial) if own else None
        if new is not None:
            copies[index] = program.with_name(f"{program.stem}_{index}.py")
            copies[index].write_text(new)
    return copies


# -- verdicts ------------------------------------------------------------------------------------------------


def stands_elsewhere(change: Json, ops_of_lines: Json) -> bool:
    """True where no operator of the change stands on a line that it edits.

    A constructor's line (``nn.ReLU(inplace=True)``) has no operator of any graph:
    nothing is judged there.
    """
    lines = [str(edit["line"]) for edit in change["edits"]]
    with_operators = [line for line in lines if line in ops_of_lines]
    if not with_operators:
        return False
    wanted = {op.rstrip("_") for op in change["ops"]}
    known = {op.rstrip("_") for ops in ops_of_lines.values() for op in ops}
    if not wanted & known:
        return False  # made by a pass of torch, so no line of the source has it
    return not any(
        wanted & {op.rstrip("_") for op in ops_of_lines[line]}
        for line in with_operators
    )


def judged(
    change: Json, others: typing.Sequence[Json], before: Json, after: Json | None
) -> tuple[str, str]:
    """Verdict and its reason, from torch's counts of the program before and after
    the change.

    The other changes in the copy may bring the groups that they promise. A change
    that brings more operators into differentiable graphs shows more of the backward
    pass in plans, where autograd ran it unseen before: that is neither more
    operators outside groups nor more groups. A group more than promised is none too
    many if it holds two operators more.
    """
    if after is None:
        return "broken", "the process ended"
    if after["error"]:
        return "broken", after["error"]
    if stands_elsewhere(change, before["ops_of_lines"]):
        return "wrong line", f"no {' or '.join(change['ops'])} stands there"
    freed = outside(before, "forward", change["ops"]) - outside(
        after, "forward", change["ops"]
    )
    freed += max(
        0,
        outside(before, "backward", change["ops"])
        - outside(after, "backward", change["ops"]),
    )
    more = more_groups(before, after, "forward") + min(
        0, more_groups(before, after, "backward")
    )
    seen = (
        f"{freed} operators freed, {more:+} groups of {before['forward']['groups']}"
    )
    seen += f" ({change['operators']} and {change['groups']} promised: {change['unlocks']})"
    if not change["operators"] and change["groups"] is None:
        return "no number", seen
    of_others = sum(max(0, other["groups"] or 0) for other in others)
    of_more = max(0, freed - change["operators"]) // 2
    fewer_groups = (
        change["groups"] is None or more <= change["groups"] + of_others + of_more
    )
    if freed >= change["operators"] and fewer_groups:
        return "as promised", seen
    if (
        freed > 0
        or more < 0
        or after["forward"]["inside"] > before["forward"]["inside"]
    ):
        return "less", seen
    return "nothing", seen


def outside(counts: Json, way: str, ops: typing.Sequence[str] = ()) -> int:
    """Operators outside groups that compute, and those of the change, which may be
    views."""
    no_work = set(counts["no_work"]).difference(ops)
    return sum(
        number for op, number in counts[way]["outside"].items() if op not in no_work
    )


def more_groups(before: Json, after: Json, way: str) -> int:
    more: int = after[way]["groups"] - before[way]["groups"]
    return more


def all_together(
    before: Json, alone: typing.Sequence[Json | None], after: Json | None
) -> tuple[str, str]:
    """All changes in one copy: not broken, and no fewer operators in groups than
    the best one alone."""
    if after is None or after["error"]:
        return "broken", "the process ended" if after is None else after["error"]
    left = outside(after, "forward")
    best = min(
        (outside(row, "forward") for row in alone if row and not row["error"]),
        default=left,
    )
    seen = f"operators outside {outside(before, 'forward')} to {left}, the best change alone {best}"
    return ("as promised" if left <= best else "less"), seen


# -- runs ----------------------------------------------------------------------------------------------------


def diagnosed(
    program: Path, fuser: str, backward: bool, folder: Path
) -> Json | None:
    """The report of the real command line, run in a folder of its own; None where
    the program cannot be trained, as nothing has gradients.

    Raises: CannotRun: the program fails in eager mode too, in the backward pass or
        on a GPU.
    """
    command = [
        sys.executable,
        "-m",
        "fusiondoc",
        "diagnose",
        str(program),
        "--fuser",
        fuser,
    ]
    command += ["--device", "cuda"] if fuser == "nvfuser" else []  # as the judge
    command += ["--backward"] if backward else []
    result = subprocess.run(
        [*command, "--format", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if backward and NO_GRADIENTS in result.stderr:
        return None
    may_fail = (
        backward or fuser == "nvfuser"
    )  # else the program is not fit to be judged by
    if (
        may_fail
        and result.returncode == MODEL_FAILED
        and not runs(program, fuser, backward)
    ):
        raise CannotRun
    if result.returncode:
        raise RuntimeError(
            f"diagnose ended with status {result.returncode}: {result.stderr[-300:]}"
        )
    report: Json = json.loads(result.stdout)
    return report


def measured(
    paths: typing.Sequence[Path], fuser: str, backward: bool
) -> dict[str, Json]:
    """By path, the counts of each program; a path is missing where the process
    ended in it. What is slow to compile several times in one process is run in a
    process of its own."""
    command = [
        sys.executable,
        str(JUDGE),
        fuser,
        str(int(backward)),
        *map(str, paths),
    ]
    late: list[Path] = []
    try:
        output = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS
        ).stdout
    except subprocess.TimeoutExpired as error:
        output = (
            error.stdout.decode()
            if isinstance(error.stdout, bytes)
            else (error.stdout or "")
        )
        late = [path for path in paths[1:] if f'"path": "{path}"' not in output]
    rows = [
        json.loads(line[6:])
        for line in output.splitlines()
        if line.startswith("JUDGE ")
    ]
    found = {row["path"]: row for row in rows}
    for path in late:
        found |= measured([path], fuser, backward)
    return found


def runs(program: Path, fuser: str, backward: bool) -> bool:
    row = measured([program], fuser, backward).get(str(program))
    return row is not None and not row["error"]


def try_program(program: Path, fuser: str, backward: bool) -> Outcome:
    """Diagnose, make the changes, measure and judge; an error is part of the
    outcome."""
    try:
        with tempfile.TemporaryDirectory() as name:
            copy = Path(name) / program.name
            copy.write_text(program.read_text())
            report = diagnosed(copy, fuser, backward, Path(name))
            return judge_plan(
                copy, report["plan"] if report is not None else [], fuser, backward
            )
    except CannotRun:
        return Outcome([], [], None, runs_there=False)
    except Exception as error:  # the other programs go on
        return Outcome([], [], f"{program.name}: {type(error).__name__}: {error}")


def judge_plan(
    program: Path, plan: typing.Sequence[Json], fuser: str, backward: bool
) -> Outcome:
    """The verdicts on the changes of a plan of this program."""
    changes = [change for change in plan if change["edits"]]
    without = [
        f"{program.name}: {change['change']}"
        for change in plan
        if not change["edits"]
    ]
    trials = [[change, *counted_on(change, plan)] for change in changes]
    if len(changes) > 1:
        trials.append(changes)
    copies = copies_of(program, trials)
    rows = measured([program, *copies.values()], fuser, backward) if changes else {}
    before = rows.get(str(program), {"error": "the process ended"})
    if changes and before["error"]:
        raise RuntimeError(f"does not run by itself: {before['error']}")
    after = [
        rows.get(str(copies[index])) if index in copies else None
        for index in range(len(trials))
    ]
    verdicts = []
    for index, change in enumerate(changes):
        verdict, why = "wrong line", "the lines to change are not those of the file"
        unwritten = [
            plan[number - 1]
            for number in change["together_with"]
            if not plan[number - 1]["edits"]
        ]
        if unwritten:
            verdict, why = (
                "no number",
                f"it counts on a change without edits: {unwritten[0]['change']}",
            )
        elif index in copies:
            verdict, why = judged(change, trials[index][1:], before, after[index])
        words = (change["change"], change["kind"])
        verdicts.append(
            Verdict(
                program.stem,
                backward,
                *words,
                verdict,
                why,
                change,
                before,
                after[index],
            )
        )
    if len(changes) > 1 and len(changes) in copies:
        verdict, why = all_together(before, after[:-1], after[-1])
        words = ("all together", "all")
        verdicts.append(
            Verdict(
                program.stem, backward, *words, verdict, why, {}, before, after[-1]
            )
        )
    return Outcome(verdicts, without, None)


def counted_on(change: Json, plan: typing.Sequence[Json]) -> list[Json]:
    """The other changes of the plan that the promise of this one counts on."""
    others = [plan[number - 1] for number in change["together_with"]]
    return [other for other in others if other["edits"]]


# -- the table -----------------------------------------------------------------------------------------------


def show(outcome: Outcome) -> None:
    if outcome.error:
        print(f"FAILED      {outcome.error}", flush=True)
    for found in outcome.verdicts:
        way = "backward" if found.backward else "forward"
        print(
            f"{found.verdict:11} {found.program} {way}: {found.change}: {found.why}",
            flush=True,
        )
    for text in outcome.without_edits:
        print(f"no edits    {text}", flush=True)


def summarise(outcomes: typing.Sequence[Outcome]) -> int:
    """The table by kind of change and the last line; the exit status."""
    verdicts = [found for outcome in outcomes for found in outcome.verdicts]
    failed = [outcome for outcome in outcomes if outcome.error]
    table: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for found in verdicts:
        table[found.kind][found.verdict] += 1
    print(f"\n{'kind':32}" + "".join(f"{verdict:>12}" for verdict in VERDICTS))
    for kind in sorted(table):
        print(
            f"{kind:32}"
            + "".join(f"{table[kind][verdict]:12}" for verdict in VERDICTS)
        )
    counts = collections.Counter(found.verdict for found in verdicts)
    without = sum(len(outcome.without_edits) for outcome in outcomes)
    print(
        f"{without} changes without edits, {counts['no number']} without a number; {len(failed)} runs failed"
    )
    cannot = sum(not outcome.runs_there for outcome in outcomes)
    if cannot:
        print(f"{cannot} runs that fail in eager mode too, there or backward")
    kept, broken, wrong = (
        counts[verdict] for verdict in ("as promised", "broken", "wrong line")
    )
    promises = len(verdicts) - counts["no number"]
    print(
        f"{kept} of {promises} as promised, {broken} broken, {wrong} on a wrong line"
    )
    good = not failed and not broken and kept >= ENOUGH * promises
    return 0 if good else 1


def main(arguments: typing.Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fuser", default="nnc", choices=["nnc", "nvfuser"])
    parser.add_argument(
        "--only", action="append", help="name of a program; may be repeated"
    )
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument(
        "--json",
        type=Path,
        help="a file for all verdicts with the counts behind them",
    )
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
                options.json.write_text(
                    json.dumps(
                        [dataclasses.asdict(outcome) for outcome in outcomes],
                        indent=1,
                    )
                    + "\n"
                )
    return summarise(outcomes)


if __name__ == "__main__":
    sys.exit(main())
