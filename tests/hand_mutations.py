"""Wrong changes of decisions, written by hand, that the tests have to notice.

``python tests/hand_mutations.py`` copies the repository to a temporary folder,
makes each change of the table by itself, and runs the tests beside it there: a
mutant is killed if one of them fails. It prints the result of each and ends with 1
if less than 90 % are killed. ``--only TEXT`` takes the rows whose file or text has
TEXT, ``--list`` prints the rows, ``-j N`` runs N mutants at a time (each in a copy
of its own).

The recordings beside a development checkout are not copied: the mutants have to be
killed by what CI has. A new threshold or condition in one of these files gets a row
here. ``tests/test_hand_mutations.py`` holds that the text of each row is still in
its file once.
"""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from code_texts import replaced_once

ROOT = Path(__file__).resolve().parent.parent
LEAST_KILLED = 0.9
"""Share of the mutants that the tests have to kill."""
LONGEST_SECONDS = 300
"""For the tests of one mutant; a mutant that makes them hang is killed. Ten times
that for all without one."""

NOT_COPIED = (
    ".git",
    ".venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    "build",
    "*.egg-info",
)


class Mutation(NamedTuple):
    """A change of one text of one file."""

    tests: str
    """Names of test files without ``test_``, or ``file::test``, with blanks
    between."""
    file: str
    """Below ``fusiondoc/``."""
    old: str
    """Stands in the file exactly once, wherever its lines break."""
    new: str

    @property
    def name(self) -> str:
        return f"{self.file}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"


def _of(tests: str, file: str, *texts: tuple[str, str]) -> Iterator[Mutation]:
    for old, new in texts:
        yield Mutation(tests, file, old, new)


MUTATIONS: Sequence[Mutation] = (
    # -- why: reasons of one operator, and of what stands around it
    *_of(
        "limits_of_reasons limits reasons_in_models barriers gradient_plans",
        "diagnosis/operator_in_plan.py",
        ("for _ in range(3):", "for _ in range(2):"),
        ("if node.ran is False:\n            return False", "if node.ran is False:\n            return True"),
    ),
    *_of(
        "limits_of_reasons limits reasons_in_models barriers gradient_plans",
        "diagnosis/surroundings.py",
        ("if control < nearest and", "if control > nearest and"),
        (
            'if own is not None:\n        return Reason.of("FD233", own)',
            "if own is not None:\n        return None",
        ),
        ("if whole and later[0] is not None and all(later)", "if later[0] is not None and all(later)"),
        ("if node.op in LIBRARY: return 5", "if node.op not in LIBRARY:\n        return 5"),
        ("if plain not in WITH_FORMULA or not operator.takes(plain)", "if not operator.takes(plain)"),
        ("if last.index in first.numbers:", "if first.index in last.numbers:"),
    ),
    *_of(
        "branches_in_training",
        "parsers/jit/plan_walk.py",
        ("if shown.count(True) != 1:", "if shown.count(True) == 1:"),
        ("node.ran = node.ran if ran else False", "node.ran = False if ran else node.ran"),
    ),
    *_of(
        "certain_promises",
        "diagnosis/plan_graphs.py",
        ("if not group.isdisjoint(first):", "if group.isdisjoint(first):"),
        ("fewer += sum(len(one) == 1 for one in parts)", "fewer += 0"),
    ),
    *_of(
        "edits_that_meet",
        "changes/line_edits.py",
        ("if lines is not None:", "if lines is None:"),
    ),
    *_of(
        "limits_of_reasons nvfuser_rules",
        "fusers/nvfuser/takes.py",
        ("most_dimensions=8", "most_dimensions=9"),
    ),
    *_of(
        "limits_of_reasons reasons_in_models nnc_conditions views_and_copies",
        "diagnosis/reasons_of_node.py",
        ("_MOST_ARGUMENTS = 128", "_MOST_ARGUMENTS = 127"),
        ("if typed * 2 > with_tensors - 1:", "if typed * 2 > with_tensors + 1:"),
        ("return given > row.tensors and tensors[-1]", "return given >= row.tensors and tensors[-1]"),
        ("if len(devices) > 1:", "if len(devices) > 2:"),
    ),
    *_of(
        "limits_of_reasons reasons_in_models nnc_conditions",
        "diagnosis/of_fusers/nnc_rules.py",
        ('if tensor.dtype == "Half" and tensor.device == "cpu":', 'if tensor.dtype == "Half":'),
        ('if op == "aten::div" and len(types) > 2:', 'if op == "aten::div" and len(types) > 3:'),
    ),
    *_of(
        "limits_of_reasons limits barriers reasons_in_models",
        "diagnosis/kept_out.py",
        ('if self._reasons[index] != "FD231":', "if True:"),
        ("return code in FOR_ITSELF or _lacks_formula(self._nodes[index].op, code)", 'return code in FOR_ITSELF or code == "FD231"'),
        ("if code in FOR_ITSELF or code in NEVER_LOOKED_AT:", "if code in FOR_ITSELF:"),
    ),
    *_of(
        "limits_of_reasons limits reasons_in_models",
        "diagnosis/reasons.py",
        ("if stated.code in CATCH_ALL:", "if stated.code == CATCH_ALL[0]:"),
    ),
    *_of(
        "module_layers",
        "parsers/jit/regions.py",
        ("_MOST_GRAPHS = 200", "_MOST_GRAPHS = 1"),
    ),
    *_of(
        "limits_of_reasons regions_dissolved gradient_plans reasons_in_models",
        "diagnosis/differentiable_graphs.py",
        ("_FEWEST_NODES = 5", "_FEWEST_NODES = 4"),
        ("if region.size < _FEWEST_NODES:", "if region.size <= _FEWEST_NODES:"),
        ("if bare and len(bare) == len(entering):", "if bare:"),
        ("if not (_of_module(first) and _of_module(last)):", "if not _of_module(first):"),
        ("if gap is not None and all(any(", "if gap is not None and any(any("),
        (
            "ranks[end] = 0 elif node.op in LIBRARY: ranks[end] = 2",
            "ranks[end] = 2\n            elif node.op in LIBRARY:\n                ranks[end] = 0",
        ),
        ("one.by not in inside:", "one.by in inside:"),
    ),
    *_of(
        "limits_of_reasons nvfuser_rules refused_arguments",
        "diagnosis/of_fusers/nvfuser_rules.py",
        ('_HALVES = {"5", "15"}', '_HALVES = {"5"}'),
        ('_FLOATING = {"5", "6", "7", "15"}', '_FLOATING = {"5", "6", "7"}'),
        ("and 0 in tensor.sizes", "and 1 in tensor.sizes"),
        ("tensor.sizes == ():", "tensor.sizes == (1,):"),
        ("parse_version(torch) < rule.since", "parse_version(torch) <= rule.since"),
        ('"differ" if ran else "not_profiled"', '"not_profiled" if ran else "differ"'),
    ),
    *_of(
        "limits_of_reasons nnc_conditions",
        "diagnosis/of_fusers/nnc_conditions.py",
        ('("list_shared", "cat_shared")', '("list_shared",)'),
        ('("list_elsewhere", "list_given", "cat_elsewhere")', '("list_given", "cat_elsewhere")'),
        ('"pass_stopped": "Unset', '"pass_stops": "Unset'),
    ),
    *_of("limits_of_reasons", "graph/__init__.py", ("most_passed = 100", "most_passed = 50")),
    # -- changes: which there are, what they gain, how lines are written
    *_of(
        "limits_of_changes plan_changes",
        "diagnosis/gains.py",
        ("MOST = 3", "MOST = 4"),
        ("MOST_TRIED = 12", "MOST_TRIED = 3"),
        ("weight = 0.5 if one.conditional else 1.0", "weight = 1.0"),
        ("joined += one.joined - 1", "joined += one.joined"),
        (
            "not one.kind.in_source or not one.sure or one.kind in _REBUILT",
            "not one.kind.in_source or not one.sure",
        ),
        ("self.bytes - (other.bytes or 0)", "self.bytes"),
        ("return other is not self and not changed.isdisjoint", "return not changed.isdisjoint"),
    ),
    *_of(
        "certain_promises",
        "diagnosis/gains.py",
        ("self.instead.fewer_launches > 0", "self.instead.fewer_launches >= 0"),
        ("and brought.groups <= more", ""),
    ),
    *_of(
        "certain_promises",
        "diagnosis/unlocked.py",
        ("if not self._may_have_run(plan, members) or", "if"),
    ),
    *_of(
        "graph",
        "graph/would_fuse.py",
        ("not divided and not self._needs_in_any_way(later, earlier)", "not divided"),
    ),
    *_of(
        "limits_of_changes plan_changes plan",
        "diagnosis/next_steps.py",
        ("[: MOST - bool(changes)] + changes", "[:MOST] + changes"),
        (
            "[one for one in steps if named.isdisjoint(one.change.codes)]",
            "list(steps)",
        ),
    ),
    *_of(
        "proofs",
        "diagnosis/proofs.py",
        ("issuperset(change.lines) and self._kept_lines", "issuperset(change.lines) or self._kept_lines"),
        ("if not self._kept_lines.issuperset(change.lines):", "if self._kept_lines.isdisjoint(change.lines):"),
        ("if tried.helps(base):", "if tried.ops_fused:"),
        ("if setting == AS_REQUESTED or self.of_setting", "if self.of_setting"),
    ),
    *_of(
        "limits_of_changes plan plan_changes",
        "diagnosis/unlocked.py",
        ("if not ops + tuple(names) or size < 2:", "if not ops + tuple(names) or size < 1:"),
        ("by_elements = by_elements or not any(map(self._is_of_many_elements, beside))", "by_elements = True"),
        ("self._without = self._facts.operators.inference_only", "self._without = frozenset[str]()"),
    ),
    *_of(
        "limits_of_changes plan plan_changes",
        "diagnosis/changes_of_operators.py",
        ('return _is_changeable(row, run) and row.phase != "backward"', "return _is_changeable(row, run)"),
        ('codes=("FD216", "FD230", "FD231")', 'codes=("FD216", "FD230")'),
        (
            'run.gradients and row.phase != "backward" and plain not in WITH_FORMULA',
            "run.gradients and plain not in WITH_FORMULA",
        ),
        ("if not run.gradients or run.backward:", "if not run.gradients:"),
        ("return not run.backward and not run.frozen", "return not run.frozen"),
        ('row.reason.code == "FD226" and bool(row.keeps_out)', 'row.reason.code == "FD226"'),
    ),
    *_of(
        "advice",
        "diagnosis/advice.py",
        ('if row.keeps_out and row.reason.code == "FD226"', 'if row.reason.code == "FD226"'),
        ("if run.owner(row) is Owner.PACKAGE:\n        return None\n    note", "note"),
    ),
    *_of(
        "rewrites",
        "changes/masked_fill.py",
        ("sure=not as_tensor or is_number", "sure=not as_tensor and is_number"),
    ),
    *_of(
        "fix_edits",
        "workflows/fix_bundles.py",
        ("any(one.kind in _BY_SEVERAL for", "all(one.kind not in _BY_SEVERAL for"),
    ),
    *_of(
        "limits_of_changes one_line_programs fix_changes plan_statements",
        "changes/moved_views.py",
        ("if target != name and file.reads_after(statement, name):", "if False:"),
        ("sure=found.is_all", "sure=True"),
        ("if _name_of(line) != name and file.reads_after(line, name):", "if False:"),
        ("if len(uses) != 1:", "if not uses:"),
        ("return name == _name_of(node) or not file.reads_after(node, name)", "return True"),
    ),
    *_of(
        "limits_of_changes fix_edits",
        "model/change_plan.py",
        (
            "self.fallbacks > other.fallbacks or self.launches",
            "self.fallbacks > other.fallbacks + 1 or self.launches",
        ),
        ("self.launches > other.launches:", "self.launches > other.launches + 1:"),
        ("return not fewer and self.ops_fused > other.ops_fused", "return self.ops_fused > other.ops_fused"),
        ("return saved * other.launches > saved_before * self.launches", "return saved > saved_before"),
        (
            "self.wrong or self.fallbacks > base.fallbacks",
            "self.wrong",
        ),
    ),
    # -- checks: expectations held against a report
    *_of(
        "near_miss limits_of_checks check_layers",
        "expectations/missing.py",
        ("_BESIDE = 5", "_BESIDE = 50"),
        ("if 2 * common(group.ops, wanted.ops) < len(wanted.ops)", "if not common(group.ops, wanted.ops)"),
        (
            "return -(row.keeps_out or 0), not row.reason.stated",
            "return (row.keeps_out or 0), not row.reason.stated",
        ),
        (
            "if first <= line.line <= last:\n            rows",
            "if first < line.line < last:\n            rows",
        ),
    ),
    *_of(
        "near_miss limits_of_checks expectations_file",
        "expectations/near_miss.py",
        ("return set(ops) == set(wanted.ops)", "return set(ops) >= set(wanted.ops)"),
        ("if value < limit * (1 - speed.tolerance):", "if value < limit:"),
        ("value, id_, name = min(measured)", "value, id_, name = max(measured)"),
        ("if wanted.ops and not shared:", "if not shared:"),
        ("if set(types) <= set(wanted.dtype):", "if set(types) & set(wanted.dtype):"),
    ),
    *_of(
        "near_miss limits_of_checks check_layers check_update",
        "expectations/assignment.py",
        (
            "if 2 * near.shared < len(wanted.ops) and near.shared < most:",
            "if 2 * near.shared < len(wanted.ops):",
        ),
        ("if matched.wanted.count.at_most != 0: claiming.append(", "if True:\n            claiming.append("),
        ("last = min(row)", "last = max(row)"),
        ("if not expectation.layer:", "if True:"),
    ),
    *_of(
        "near_miss limits_of_checks check_layers",
        "expectations/whole_report.py",
        ("if not wanted.plain or wanted.at_most is None", "if wanted.at_most is None"),
        ('if kernel.bound != "launch"', 'if kernel.bound == "launch"'),
        ("return value >= limit - 1e-9", "return value <= limit + 1e-9"),
        ("if sum(matched.more for matched in equal) < more:", "if not equal:"),
        ("count <= most", "count < most"),
    ),
    *_of(
        "limits_of_checks check_layers check_update",
        "expectations/renamed_modules.py",
        ("if share is None or share < module.coverage - 1e-9:", "if share is None:"),
        ("if not taken & set(in_pattern(known, renamed)):", "if True:"),
    ),
    *_of(
        "expectations_file limits_of_checks near_miss",
        "expectations/applies.py",
        ("return version + (0,) * (size - len(version))", "return version"),
    ),
    *_of(
        "expectations_file limits_of_checks near_miss",
        "expectations/__init__.py",
        ("low <= number <= high", "low <= number < high"),
        ("number >= self.at_least", "number > self.at_least"),
    ),
    *_of(
        "limits_of_checks check_places",
        "expectations/gate.py",
        (
            "if without_plan(report) is not None and not all(outcome.holds for outcome in outcomes):",
            "if without_plan(report) is not None:",
        ),
        ("return _line(max(rows, key=", "return _line(min(rows, key="),
    ),
    # -- comparison
    *_of(
        "limits_of_comparison limits compare_match",
        "comparison/__init__.py",
        ("LEAST_LAUNCHES = 2", "LEAST_LAUNCHES = 1"),
        ("SAME_BYTES = 0.01", "SAME_BYTES = 0.2"),
        (
            "and b.min > a.median and apart > a.median - a.min",
            "and b.min > a.median",
        ),
        ("apart > a.median * threshold and b.min > a.median and", "apart > a.median * threshold and"),
        ("and b.max < a.median:", "and True:"),
        ("if not known or len(known) < len(times):", "if not known:"),
        ("(f.count_b or 0) > (f.count_a or 0)", "(f.count_b or 0) != (f.count_a or 0)"),
        ("return b < a - 1e-9", "return b <= a"),
    ),
    *_of(
        "limits_of_comparison limits compare_match",
        "comparison/group_match.py",
        ("LEAST_LIKENESS = 0.6", "LEAST_LIKENESS = 0.3"),
        ("LEAST_SHARE = 0.5", "LEAST_SHARE = 0.2"),
        ("elif not (node.elsewhere and other.elsewhere):", "else:"),
        ("None in (item.group.phase, other.group.phase)", "True"),
        ("_WEAK = 0.75", "_WEAK = 0.95"),
        (
            "share >= LEAST_SHARE and (best is None or share > best[0])",
            "share >= LEAST_SHARE and (best is None or share < best[0])",
        ),
    ),
    *_of(
        "limits_of_comparison limits compare_match",
        "comparison/kernel_match.py",
        ("LEAST_LIKENESS = 0.5", "LEAST_LIKENESS = 0.95"),
        ("_SAME_PARAMETERS = 0.3", "_SAME_PARAMETERS = 0.0"),
    ),
    *_of(
        "limits_of_comparison limits compare_match",
        "comparison/kernel_changes.py",
        ("if not clusters.is_of_new_groups(kernel):", "if True:"),
        ("speed is not None and not same_work", "False"),
        ("if None not in values and values[0] != values[1]:", "if values[0] != values[1]:"),
    ),
    *_of(
        "limits_of_comparison limits compare_match",
        "comparison/compare_reports.py",
        ("LEAST_APART_MS = 0.05", "LEAST_APART_MS = 0.0"),
        ("SLOWER_THAN = 0.1", "SLOWER_THAN = 0.6"),
        ("if other is None or speed.passes < 2:", "if other is None:"),
    ),
    *_of(
        "limits_of_comparison limits compare_match",
        "comparison/group_changes.py",
        ("if speed is not None and other_work(cluster):", "if False:"),
        ("if row.phase not in self._phases and None not in self._phases:", "if False:"),
        ("elif not kinds and cluster.a[0].types != cluster.b[0].types:", "elif not kinds:"),
    ),
    *_of(
        "limits_of_comparison limits compare_match",
        "comparison/positions.py",
        ("_MOST_UNLIKE = 0.5", "_MOST_UNLIKE = 0.0"),
    ),
    *_of(
        "limits_of_comparison limits compare_match",
        "comparison/unfused_changes.py",
        ("return other.coverage.is_known and not report.coverage.is_known", "return not report.coverage.is_known"),
        ("if False not in (row.row.ran, other.row.ran):", "if True:"),
        ("return self.position.weak or not self.position.aligned", "return True"),
    ),
    *_of(
        "limits_of_comparison bench",
        "comparison/bench_changes.py",
        ("1 / (1 + least) < ratio.value < 1 + least", "False"),
        ("hypot(log(a.median / a.low), log(b.high / b.median))", "log(a.median / a.low)"),
    ),
)  # fmt: skip


def changed(mutation: Mutation, root: Path) -> str:
    """The text of the mutant's file.

    Raises:
        ValueError: the old text is not in the file exactly once.
    """
    text = (root / "fusiondoc" / mutation.file).read_text("utf-8")
    try:
        return replaced_once(text, mutation.old, mutation.new)
    except ValueError as error:
        raise ValueError(f"{error} in its file: {mutation.name}") from None


class Copy:
    """A copy of the repository in which one mutant at a time is tested."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repository"
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*NOT_COPIED))

    def run(
        self, tests: str, *options: str, seconds: int = LONGEST_SECONDS
    ) -> tuple[int | None, str]:
        """pytest's exit status for these tests, None if they do not end in time,
        and what it prints."""
        files = []
        for name in tests.split():
            file, colons, test = name.partition("::")
            files.append(f"tests/test_{file}.py{colons}{test}")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *options,
            *files,
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "OMP_NUM_THREADS": "1",
        }
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"not ended after {seconds} s"
        return done.returncode, done.stdout

    def test(self, mutation: Mutation) -> str:
        """ "killed", "survived", or "no result" where the tests could not be run at
        all."""
        path = self.root / "fusiondoc" / mutation.file
        original = path.read_text("utf-8")
        self._write(path, changed(mutation, self.root))
        try:
            status, _ = self.run(mutation.tests)
        finally:
            self._write(path, original)
        if status is None:
            return "killed"
        return {0: "survived", 1: "killed"}.get(status, "no result")

    @staticmethod
    def _write(path: Path, text: str) -> None:
        """Without bytecode of the text before, which Python knows by the second and
        the size alone."""
        path.write_text(text, "utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


def main() -> int:
    """The exit status: 1 where too few mutants are killed, 2 where the tests fail
    without one."""
    parser = argparse.ArgumentParser(
        description="Whether the tests notice wrong changes of decisions."
    )
    parser.add_argument(
        "--list", action="store_true", help="print the mutations and end"
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="those whose file or text has TEXT",
    )
    parser.add_argument(
        "-j",
        dest="jobs",
        type=int,
        default=1,
        metavar="N",
        help="mutants at a time",
    )
    options = parser.parse_args()
    rows = [row for row in MUTATIONS if options.only in row.name]
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return _try_all(rows, Path(folder), options.jobs)


def _try_all(rows: Sequence[Mutation], folder: Path, jobs: int) -> int:
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(jobs):
        copies.put(Copy(folder / str(number)))
    first = copies.get()
    tests = dict.fromkeys(name for row in rows for name in row.tests.split())
    everything = ("-n", str(jobs), "--dist", "loadgroup")
    status, printed = first.run(
        " ".join(tests), *everything, seconds=10 * LONGEST_SECONDS
    )
    if status != 0:
        print(f"{printed[-2000:]}\nthe tests fail without a mutation")
        return 2
    copies.put(first)

    def result(row: Mutation) -> str:
        copy = copies.get()
        begin = time.monotonic()
        try:
            became = copy.test(row)
        finally:
            copies.put(copy)
        print(
            f"{became:9} {time.monotonic() - begin:4.0f} s  {row.name}", flush=True
        )
        return became

    with ThreadPoolExecutor(jobs) as threads:
        results = list(threads.map(result, rows))
    killed = results.count("killed")
    share = killed / len(results) if results else 1.0
    print(f"{killed} of {len(results)} mutants killed ({share:.0%})")
    return 0 if share >= LEAST_KILLED else 1


if __name__ == "__main__":
    sys.exit(main())
