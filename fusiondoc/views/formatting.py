"""How every report writes figures and source positions: numbers, sizes and the
verdict in words; source positions, and the user's lines, if their files are
available."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from fusiondoc.fusers import (
    frontend_of_group,
    fuser_title,
    fusers_of_frontends,
    takers,
    without_plan,
)
from fusiondoc.fusers.te import TE
from fusiondoc.fusers.torchscript import TORCHSCRIPT
from fusiondoc.masking import texts_changed
from fusiondoc.model import count, multiple
from fusiondoc.model.change_plan import Try
from fusiondoc.model.equal_ranks import each_rank
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Evidence, Group, Kernel, Report, Unfused
from fusiondoc.model.runs import Speed
from fusiondoc.model.source import Source, Texts, from_package, without_packages
from fusiondoc.rendering.units import ratio, seconds

NO_DIFFERENCE = "no difference"
"""Words for a ratio whose 95 % interval contains 1."""

DOING = {"compile": "compiling", "run": "running"}
"""The activity during which a group fell back, by the stage of the fallback."""


def verdict_on_tries(tries: Sequence[Try]) -> str:
    """Return the result of ``--try``: the change that helps most, or that none
    does."""
    helped = [one for one in tries[1:] if one.helps(tries[one.against])]
    if not helped:
        number = len(tries) - 1
        if number:
            return f"No change helped: none of {number} fuses more or is faster"
        return "Nothing was tried"
    best = max(helped, key=lambda one: _gain(one, tries[one.against]))
    base = tries[best.against]
    parts = [
        f"{base.groups} → {best.groups} groups",
        f"{base.ops_fused} → {best.ops_fused} operators fused",
        f"{base.unfused} → {best.unfused} not fused",
    ]
    if best.speed is not None:
        if best.speed.differs:
            parts.append(f"{best.speed.value:.2f} times as fast")
        else:
            parts.append(NO_DIFFERENCE)
    others = [one.change for one in helped if one is not best]
    return f"Best: {best.change}: {', '.join(parts)}" + (
        f"; {', '.join(others)} helped too" if others else ""
    )


def _gain(one: Try, base: Try) -> tuple[float, int, int, int]:
    speed = one.speed.value if one.speed is not None and one.speed.differs else 1.0
    return (
        speed,
        one.ops_fused - base.ops_fused,
        base.unfused - one.unfused,
        base.groups - one.groups,
    )


def never_ran(report: Report) -> str | None:
    """Return ``264 operators that never ran: aten::linear x12, aten::cat x6 and 8
    more``; None without any."""
    counts: dict[str, int] = {}
    for row in report.unfused:
        if row.ran is False:
            counts[row.op] = counts.get(row.op, 0) + row.count
    if not counts:
        return None
    order = sorted(counts, key=lambda op: (-counts[op], op))
    named = [op + multiple(counts[op]) for op in order[:_MOST_NAMED]]
    rest = ""
    if len(order) > _MOST_NAMED:
        rest = f" and {len(order) - _MOST_NAMED} more"
    total = count(sum(counts.values()), "operator")
    return f"{total} that never ran (a branch that was not taken): {', '.join(named)}{rest}"


_MOST_NAMED = 3


def covered(
    report: Report, show: Callable[[float], str], any_fuser: bool = True
) -> str | None:
    """Return ``54% of what its fuser can fuse, 40% of what any fuser can``, or why
    the share is unknown; None if there is nothing to fuse. ``any_fuser``: with the
    second half."""
    cover = report.coverage
    if cover.fraction is None:
        if cover.is_known:
            return None
        return f"share unknown: {cover.unknown}"
    own = takers(
        report.fuser.effective or report.fuser.requested,
        TE if report.te is not None else None,
    )
    text = f"{show(cover.fraction)} of what {own} can fuse"
    if any_fuser and cover.any_fuser.fraction not in (None, cover.fraction):
        text += f", {show(cover.any_fuser.fraction or 0.0)} of what any fuser can"
    return text


def further_values(group: Group) -> str | None:
    """Return how many of the group's inputs and outputs a report does not list;
    None for none."""
    left = group.values_left_out
    if left:
        return f"{left:,} further inputs and outputs"
    return None


def times(group: Group) -> str:
    """Return the number of nodes of a group, ``×3``; empty for one."""
    if group.count > 1:
        return f" ×{group.count:,}"
    return ""


def groups_of(report: Report) -> str:
    """Return ``2 groups``; ``2 groups (and 4 in further specialisations)`` if they
    were compiled again; ``5 groups (3 of TorchScript, 2 of te.ops)`` if several
    frontends made groups."""
    more = 0
    for group in report.groups:
        if group.specialisation > 1:
            more += group.count
    again = f" (and {more:,} in further specialisations)" if more else ""
    first = report.fusion_groups - more
    return count(first, "group") + _by_frontend(report, first) + again


def _by_frontend(report: Report, groups: int) -> str:
    """Return `` (3 of TorchScript, 2 of torch.compile)`` if several frontends made
    groups, else an empty text.

    Args:
        groups: number of groups of the first specialisation, with those that the
            report does not list, which belong to TorchScript.
    """
    counts = {TORCHSCRIPT.title: groups}
    for group in report.groups:
        title = frontend_of_group(group.kind).title
        if group.specialisation == 1 and title != TORCHSCRIPT.title:
            counts[title] = counts.get(title, 0) + group.count
            counts[TORCHSCRIPT.title] -= group.count
    shares = []
    for frontend, number in counts.items():
        if number:
            shares.append(f"{number:,} of {frontend}")
    if len(shares) > 1:
        return f" ({', '.join(shares)})"
    return ""


def verdict(report: Report) -> str:
    """Return the verdict in one sentence: did it fuse?"""
    each = each_rank(report)
    if each is not None:
        sentence = verdict(each.report)
        return f"{each.whose[:1].upper()}{each.whose[1:]}: {sentence}"
    unfused = sum(row.count for row in outside(report))
    if report.te is not None and not report.groups and not report.unfused:
        return "Nothing fused: no operator of te.ops was called"
    if not report.groups and not report.unfused:
        text = without_plan(report.frontend)
        if report.views_alone:
            return "Nothing to fuse: its graphs hold views alone"
        return text[:1].upper() + text[1:]
    if not report.groups:
        return f"Nothing fused: {count(unfused, 'tensor operator')} outside every group"
    text = f"{fused_in_words(report)} fused into {groups_of(report)}"
    if unfused or report.coverage.unknown is None:
        text += f", {unfused:,} not fused" if unfused else ", none left outside"
    fallbacks = report.times_fallen_back
    return text + (f", {count(fallbacks, 'fallback')}" if fallbacks else "")


def fuser(report: Report, none: str = "no fuser") -> str:
    """Return the fuser that made groups, and the requested one. ``none``: the text
    if no fuser did."""
    state = report.fuser
    if state.effective in fusers_of_frontends():
        return state.why or fuser_title(state.effective or "unknown")
    if report.te is not None:
        return f"{fuser(replace(report, te=None), none)} and {report.te.in_words}"
    if state.effective is None and state.requested is None:
        return "unknown: the log shows no group"
    if state.effective == "none":
        name = none
    else:
        name = fuser_title(state.effective or "unknown")
    if state.requested is not None and state.requested != state.effective:
        name += f" (--fuser {state.requested})"
    elif state.requested is None and state.why:
        name += f", {state.why}"
    return name


def machine(report: Report) -> list[str]:
    """Return torch and the device, as far as they are known."""
    env = report.environment
    parts = [
        f"torch {env['torch']}" if env.get("torch") else "",
        env.get("gpu") or env.get("device") or "",
    ]
    return [part for part in parts if part]


def runs_of(ops: Iterable[str]) -> list[str]:
    """Return ``add``, ``mul ×2``: operators without their namespace, equal
    neighbours merged."""
    runs: list[tuple[str, int]] = []
    for op in ops:
        name = op[len("aten::") :] if op.startswith("aten::") else op
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return [name if times == 1 else f"{name} ×{times:,}" for name, times in runs]


def fused_in_words(report: Report) -> str:
    """Return ``31 operators``: the number of operators in groups."""
    number = report.fused_operators
    if not number and any(
        without_operators(group, report) for group in report.groups
    ):
        return "operators that the log does not show"
    return count(number, "operator")


def size_in_words(group: Group, report: Report) -> str:
    """Return ``3 operators``; for a kernel without operators the text of
    ``without_operators``."""
    return without_operators(group, report) or count(group.size, "operator")


def without_operators(group: Group, report: Report) -> str:
    """Return a text for a kernel of torch.compile without operators; "" for any
    other group. The loops that copy an input of a library's call into the layout or
    type that it takes have no operator but the call's."""
    if report.compiled is not None and not group.size:
        graphs = report.compiled.graphs
    else:
        graphs = ()
    for graph in graphs:
        if group.id in graph.groups:
            is_known = graph.accounts is not None and not graph.not_found
            if is_known:
                return "prepares a tensor for a call"
            return "operators unknown"
    return ""


def phase_of(group: Group) -> str:
    return group.phase or "phase unknown"


def peak_share(kernel: Kernel, report: Report) -> float | None:
    """Return the share of the peak bandwidth that a kernel's median reaches."""
    if kernel.peak_fraction is not None:
        return kernel.peak_fraction
    if kernel.gb_per_s is None or report.peak is None or report.peak.gb_per_s <= 0:
        return None
    return kernel.gb_per_s.median / report.peak.gb_per_s


class Speedup(NamedTuple):
    """The speed as a multiple of eager's, and the two times in words."""

    times: float
    differs: bool
    text: str

    @property
    def verdict(self) -> str:
        """``1.50× the speed of eager``, or that no difference could be shown."""
        if self.differs:
            return f"{ratio(self.times)} the speed of eager"
        return "No difference from eager"


def against(eager: Speed, other: Speed) -> tuple[float, bool]:
    """Return the speed as a multiple of eager's, and whether it differs from 1.
    Older captures, which did not keep rounds, have no interval: for these all times
    of one side must be below all of the other."""
    if other.ratio is not None:
        return other.ratio.value, other.ratio.differs
    apart = eager.ms.min > other.ms.max or other.ms.min > eager.ms.max
    return eager.ms.median / other.ms.median, apart


def speedups(report: Report) -> list[Speedup]:
    """Return the speed of each way relative to eager, for each phase and set of
    inputs with which both were timed."""
    eager_rows = {}
    for one in report.speed:
        if one.way == "eager":
            eager_rows[(one.phase, one.inputs)] = one
    several = len({one.inputs for one in report.speed}) > 1
    found = []
    for one in report.speed:
        eager = eager_rows.get((one.phase, one.inputs))
        if one.way == "eager" or eager is None or one.ms.median <= 0:
            continue
        name = one.phase + (f", inputs {one.inputs}" if several else "")
        text = f"{name}: {seconds(one.ms.median / 1e3)}, eager {seconds(eager.ms.median / 1e3)}"
        times, differs = against(eager, one)
        found.append(Speedup(times, differs, text))
    return found


def short_type(text: str) -> str:
    """Return a shorter type: ``Float(2, 3, strides=[3, 1], requires_grad=0,
    device=cuda:0)`` becomes ``Float(2, 3) cuda:0``.

    Dense strides and requires_grad=0 are the usual case and left out.
    """
    from fusiondoc.parsers.ir.types import TensorType, parse_type

    tensor = parse_type(text)
    if (
        not isinstance(tensor, TensorType)
        or tensor.sizes is None
        or None in tensor.sizes
    ):
        return text
    dense, step = [], 1
    for extent in reversed(tensor.sizes):
        dense.append(step)
        step *= max(1, extent or 1)
    short = f"{tensor.dtype}({', '.join(map(str, tensor.sizes))}"
    if tensor.strides is not None and list(tensor.strides) != dense[::-1]:
        short += f", strides={list(tensor.strides)}"
    return short + ")" + (f" {tensor.device}" if tensor.device else "")


T = TypeVar("T")


def near(source: str) -> str:
    """Return a source position in its most readable form: a package's file from the
    package's name on (``torch/functional.py:1``), a file below the current folder
    without that folder."""
    short = without_packages(source)
    if short != source:
        return short
    here = os.getcwd() + os.sep  # noqa: PTH109 - called for every row
    if source.startswith(here):
        return source[len(here) :]
    return from_package(source)


_NAMED = re.compile(r"(?<=\()([^()\s]+\.py:\d+)(?::\d+)?(?=\))")


def with_short_positions(text: str) -> str:
    """Return a reason in words with readable source positions, without columns."""
    return _NAMED.sub(lambda found: near(found[1]), text)


_PACKAGES = re.compile(
    r"(?<![\w./\\-])(?:(?:[A-Za-z]:)?[/\\][^\s:'\"()<>,;=|]{0,300}?[/\\])?"
    r"(?:site|dist)-packages[/\\](?=\w)"
)


class NearPaths:
    """Rewrites texts with readable paths: files in given folders relative to these,
    files of installed packages from the package's name on.

    Args:
        folders: they are removed from the beginning of paths.
        packages: whether paths of packages are shortened.
        first: another rewriting, which each text passes before.
    """

    def __init__(
        self,
        folders: Iterable[str],
        packages: bool = True,
        first: Callable[[str], str] = str,
    ) -> None:
        ends = (one.rstrip("/\\") for one in folders)
        self._folders = tuple(
            dict.fromkeys(one + os.sep for one in ends if len(Path(one).parts) > 1)
        )
        each = "|".join(map(re.escape, self._folders))
        self._below = re.compile(rf"(?<![\w./\\-])(?:{each})(?=[^\s/\\])")
        self._packages = packages
        self._first = first
        self._made: dict[str, str] = {}
        self._files: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        made = self._made.get(text)
        if made is None:
            made = self._first(text)
            if self._packages and "-packages" in made:
                made = _PACKAGES.sub("", made)
            if any(one in made for one in self._folders):
                made = self._below.sub("", made)
            if made != text:
                before, after = Source.parse(text), Source.parse(made)
                both = before is not None and after is not None
                self._files[after.file if after and both else made] = (
                    before.file if before and both else text
                )
            self._made[text] = made
        return made

    def before(self, file: str) -> str:
        """Return the file that a text named before its path was rewritten."""
        return self._files.get(file, file)

    def inside(self, value: T) -> T:
        """Return a report, a comparison or a part of one with every text
        rewritten."""
        return texts_changed(
            value, self, lambda key, item: (self._first(key), self.inside(item))
        )


class _NearTexts:
    """The texts of a report whose paths were rewritten."""

    def __init__(self, texts: Texts, near_paths: NearPaths) -> None:
        self._texts, self._near_paths = texts, near_paths

    def source(self, file: str) -> str | None:
        return self._texts.source(self._near_paths.before(file))

    def is_elsewhere(self, file: str) -> bool:
        return self._texts.is_elsewhere(self._near_paths.before(file))

    def log(
        self, lines: Iterable[Evidence], graphs: Iterable[Evidence]
    ) -> Mapping[Evidence, str]:
        wanted, begin = list(lines), list(graphs)
        before = {}
        for one in (*wanted, *begin):
            before[one] = replace(one, file=self._near_paths.before(one.file))
        found = self._texts.log(
            [before[one] for one in wanted], [before[one] for one in begin]
        )
        evidence = {}
        for one, was in before.items():
            if was in found:
                evidence[one] = self._near_paths(found[was])
        return evidence


def near_paths_of(*reports: Report, first: Callable[[str], str] = str) -> NearPaths:
    """Return the rewriting for texts on these reports: it removes the current
    folder, the folders that the programs were run in, and that of installed
    packages. ``first``: as in ``NearPaths``."""
    here = str(Path.cwd())
    run_in = (first(run_folder(one)) for one in reports)
    return NearPaths([here, os.path.realpath(here), *run_in], first=first)


def run_folder(report: Report) -> str:
    """Return the folder that the program was run in; "" if it is not known."""
    return report.target.folder or ""


def with_near_paths(report: Report, first: Callable[[str], str] = str) -> Report:
    """Return a report for others to read, see ``near_paths_of``. Commands, which
    users type again, only lose the current folder.

    JSON does not use it: JSON holds the paths of the log, so that the files are
    found again on its machine.
    """
    near_paths = near_paths_of(report, first=first)
    typed = NearPaths([str(Path.cwd())], packages=False, first=first)
    made = near_paths.inside(report)
    plan = []
    for one, was in zip(made.plan, report.plan):
        plan.append(replace(one, command=typed(was.command)))
    capture = None
    if report.target.capture is not None:
        capture = typed(report.target.capture)
    target = replace(made.target, folder=None, capture=capture)
    texts = None
    if report.texts is not None:
        texts = _NearTexts(report.texts, near_paths)
    return replace(made, plan=tuple(plan), target=target, texts=texts)


MOST_LINES = 3
"""Most of the user's lines that are named."""


def listed_lines(lines: Sequence[str]) -> str:
    """Return ``model.py:12, 14 and 3 more lines``: the first lines; a file's name
    stands before its first line."""
    named: list[str] = []
    file = None
    for line in map(Source.parse, map(near, lines[:MOST_LINES])):
        if line is not None:
            named.append(str(line.line) if line.file == file else line.at_line)
            file = line.file
    more = len(lines) - len(named)
    return ", ".join(named) + (f" and {count(more, 'more line')}" if more else "")


def where_called(row: Unfused) -> str:
    """Return ``where_from`` of an operator outside groups, with all of the user's
    lines that may lead there."""
    if not row.called_from or row.source is None:
        return where_from(row.user_source, row.source)
    return f"{listed_lines(row.called_from)} ({near(without_column(row.source))})"


def where_from(user_source: str | None, source: str | None) -> str:
    """Return where an operator comes from: the user's line, and the line of the
    package to which it leads.

    ``model.py:12 (torch/nn/functional.py:2987)``; "" if neither is known.
    """
    if not user_source or not source:
        return near(user_source or source or "")
    inside = without_column(source)
    if inside == user_source or from_package(source) == source:
        return near(user_source)
    return f"{near(user_source)} ({near(inside)})"


def code_at(source: str | None, texts: Texts | None) -> str | None:
    """Return the text of ``file:line``, if that file is available: kept by the
    capture, or in the project here."""
    position = Source.parse(source)
    if position is None or texts is None:
        return None
    lines = (texts.source(position.file) or "").split("\n")
    if 0 < position.line <= len(lines):
        return lines[position.line - 1].strip() or None
    return None


def without_column(source: str) -> str:
    """Return ``file:line`` of a source with a column; another text unchanged."""
    position = Source.parse(source)
    if position is None:
        return source
    return position.at_line


def source_lines(group: Group) -> str:
    """Return the source lines of the group's operators: each file once, with its
    lines."""
    files: dict[str, dict[str, None]] = {}
    for node in group.nodes:
        position = Source.parse(near(node.user_source or node.source or ""))
        if position is not None:
            files.setdefault(position.file, {})[str(position.line)] = None
    return (
        "; ".join(f"{file}:{','.join(lines)}" for file, lines in files.items())
        or "no source lines"
    )
