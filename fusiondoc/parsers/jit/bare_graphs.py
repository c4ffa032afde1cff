"""Graphs without their header: pasted graphs without the prefix of the JIT log, and
plans at the beginning of a truncated log.

``print(fn.graph_for(x))`` writes the former. The text may follow other text on its
line, be indented as a whole, or have lost its indentation. A paste often holds only
the body of a group (``with prim::CudaFusionGroup_0 = graph(``). In a plan whose
header was cut off, the groups that are printed completely count.

``KnownPlans`` holds the plans and group graphs printed so far, so that each is
parsed once: a log prints many of them several times, equal except for value names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from fusiondoc.fusers import plan_headers
from fusiondoc.parsers.facts import Facts, LineCounts, PlanLevel, PlanUse
from fusiondoc.parsers.ir.parse import parse_text
from fusiondoc.parsers.jit.lost_sources import LostSources
from fusiondoc.parsers.jit.message_runs import Lines, Print, Run, lines_of
from fusiondoc.parsers.jit.plan import GroupGraph, PlanParts
from fusiondoc.parsers.jit.plan_reading import PlanPrint, read_group, read_plan
from fusiondoc.parsers.jit.plan_walk import summarise_rest
from fusiondoc.parsers.jit.printed_forms import PrintedForms
from fusiondoc.parsers.jit.regions import Around, Regions

_HEAD = re.compile(rb"graph\((?:%[^\s,:)]+(?: : .*)?(?:,|\):)|\):)$")
"""``graph(`` with its first parameters, to the end of the line."""
_SECTION = re.compile(rb"with [A-Za-z_]\w*::\w{1,80} = $")
_NEAR = 100
IR_LINE = re.compile(
    rb"[ \t]*(?:%[^\s,:)]+(?: : |, %| = )|block\d{1,9}\(|-> \(|return \(|with [A-Za-z_]\w*::\w+ = graph\(|"
    rb"= [A-Za-z_]\w*::)"
)
"""Matches the beginning of a line of a graph, with any indentation."""

_NODE = re.compile(rb"[ \t]*(?:%[^=]* )?= \^?[A-Za-z_]")

_LIMIT = 150_000
"""Number of lines after which a graph without an end counts as cut off."""
BARE_FOREIGN = 40
"""Number of foreign lines in a row after which a graph counts as cut off."""

Sink = Callable[[Print, int, bool], bool]
"""Called with a graph, its position, and True if it is only the rest of a graph.
Returns True if the graph was understood."""


class BareGraphs:
    """Reads the lines of one stream that have no prefix."""

    def __init__(self, sink: Sink, counts: LineCounts) -> None:
        self._sink = sink
        self._counts = counts
        self._run: Run | None = None
        self._lead = b""
        self._quoted = False
        """True if other text precedes the graph on its first line, as when a
        summary quotes the beginning of an error."""
        self._rest = False
        self._done = False
        self._foreign = 0
        self._torn = False
        """True if lines that are not part of a graph come in between, as when a
        page breaks long lines."""

    @property
    def open(self) -> bool:
        """True if a graph has begun and may still continue."""
        return self._run is not None

    def starts(self, line: bytes, pos: int) -> bool:
        """True if a graph begins on this line, which is not part of another
        graph."""
        found = head_of(line)
        if found is None:
            return False
        self.end()
        at, self._rest = found
        lead = line[:at]
        self._lead = lead if lead.isspace() else b""
        self._quoted = bool(lead.strip())
        self._run = Run(Lines(line[at:], 1), 0, pos)
        self._done = False
        self._foreign = 0
        self._torn = False
        return True

    def goes_on(self, line: bytes, pos: int) -> bool:
        """True if the line belongs to the open graph. Other lines may come in
        between."""
        run = self._run
        if run is None:
            return False
        if line.startswith(self._lead):
            text = line[len(self._lead) :]
        else:
            text = line.lstrip(b" \t")
        section = text.startswith(b"with ")
        if self._done and text == b"}":
            self._counts.recognised += 1
            return True
        if self._done and not section:
            self.end()
            return False
        if text.startswith((b"  ", b"with ")):
            known = b"%" in text or b"(" in text
        else:
            known = IR_LINE.match(text) is not None
        if known:
            run.extend(Lines(text, 1), pos)
            self._counts.recognised += 1
            self._foreign = 0
            self._done = text.lstrip(b" \t").startswith(b"return (")
            if run.length > _LIMIT:
                self.end()
            return True
        self._foreign += 1
        self._torn = True
        if self._foreign > BARE_FOREIGN:
            self.end()
        return False

    def end(self) -> None:
        """Finish the open graph and pass it to the sink."""
        run, self._run = self._run, None
        if run is None or (self._quoted and run.length == 1):
            return
        text = run.text
        if b") {\n" in text:
            text = b"\n".join(_without_braces(lines_of(text)))
        lines = lines_of(text)
        text = text if _is_printed(lines) else b"\n".join(_indented(lines))
        whole = self._sink(
            Print(text, 0, run.stretches(0, run.length)),
            run.position(0),
            self._rest,
        )
        if not self._done or (self._torn and not whole):
            self._counts.truncated += 1


def _without_braces(lines: list[bytes]) -> Iterator[bytes]:
    """Yield the lines of a graph as torch prints them today: in 2018 bodies were in
    braces, and parameters on separate lines had no commas between them (the graphs
    of pytorch/pytorch#10466)."""
    head = False
    for line in lines:
        head = head or line.startswith((b"graph(", b"with "))
        if head and line.endswith(b") {"):
            head, line = False, line[:-2] + b":"
        elif head and not line.endswith((b",", b":")):
            line += b","
        elif not head and line.endswith(b");"):
            line = line[:-1]
        yield line


def _is_printed(lines: list[bytes]) -> bool:
    """True if the nodes have the indentation that torch prints: 2, 6, 10 ...
    spaces."""
    return all(
        line.startswith(b" ") and (len(line) - len(line.lstrip(b" "))) % 4 == 2
        for line in lines[1:]
        if _NODE.match(line) is not None
    )


def _indented(lines: list[bytes]) -> list[bytes]:
    """Return the lines with torch's indentation, which follows from the blocks
    (``Node::print``, torch/csrc/jit/ir/ir.cpp)."""
    made: list[bytes] = []
    depth = 0
    for line in lines:
        text = line.lstrip(b" \t")
        if text.startswith((b"with ", b"graph(")):
            depth = 0
            made.append(text)
        elif text.startswith(b"block"):
            made.append(b" " * (4 * depth + 4) + text)
            depth += 1
        else:
            made.append(b" " * (4 * depth + 2) + text)
            depth = max(0, depth - text.startswith(b"-> ("))
    return made


def head_of(line: bytes) -> tuple[int, bool] | None:
    """Return the offset on the line where a graph begins, and True if it is only a
    section of a graph; None without a graph."""
    at = line.find(b"graph(")
    if at < 0:
        return None
    if at and _HEAD.match(line, at) is None:
        return None
    section = _SECTION.search(line, max(0, at - _NEAR), at)
    if section is not None:
        return section.start(), True
    # Accepts ``%1 : Tensor = prim::X[Subgraph=graph(``; refuses a word that ends in
    # ``graph(``.
    if not at or line[at - 1 : at] in (b" ", b"\t", b":", b">", b"="):
        return at, False
    return None


_HEADERS = frozenset(
    (b"Optimized Graph:", *(header.encode() for header in plan_headers()))
)
_MOST = 20
"""Number of headless graphs that are kept: a truncated log has one; damaged logs
may have any number."""


class HeadlessPlans:
    """Graphs without a header. They are read after the whole log, since other lines
    show whether they are plans."""

    def __init__(self) -> None:
        self._runs: list[tuple[bytes, str, Run]] = []

    def add(self, prefix: bytes, file: str, run: Run) -> None:
        """Add a graph. ``file``: the file of torch that printed it."""
        if len(self._runs) < _MOST and any(
            line.startswith(b"with ", run.cut) for line in lines_of(run.text)
        ):
            self._runs.append((prefix, file, run))

    def plans(
        self, headers: Mapping[bytes, bytes], others: Sequence[PlanUse]
    ) -> list[PlanUse]:
        """Return the graphs that are plans.

        Args: headers: the last header with each prefix; a statement of torch's
        source prints one kind of graph. others: the plans that have a header.
        """
        planned = any(use.level <= PlanLevel.EXECUTOR for use in others)
        made = []
        for prefix, file, run in self._runs:
            header = headers.get(prefix)
            # Graphs of graph_fuser.cpp hold groups only if they are plans; graphs
            # of other files count only if the log has no other plan.
            if header not in _HEADERS and (
                header is not None or (planned and file != "graph_fuser")
            ):
                continue
            parts = PlanParts.of(*summarise_rest(parse_text(run.text, run.cut)))
            if parts.traits.groups:
                made.append(
                    _use(run, PlanUse(parts, PlanLevel.EXECUTOR, headless=True))
                )
        return made


def _use(run: Run, use: PlanUse) -> PlanUse:
    start = run.position(0)
    use.lines.append(start)
    stretches = run.stretches(0, run.length)
    if stretches is not None:
        use.stretches[start] = stretches
    return use


_Key = tuple[bytes, PlanLevel, bool, Around | None]
"""Digest of a print, its kind of printer, whether its executor gave up, and the
known layers around it."""


class KnownPlans:
    """The plans of one stream. New plans are added to ``facts``."""

    def __init__(self, facts: Facts, regions: Regions) -> None:
        self._facts = facts
        self._regions = regions
        self.began_with: Print | None = None
        """The graph with which the current fusion pass began: it has more types."""
        self._plans: dict[_Key, PlanUse] = {}
        """By the digest of their text without value names."""
        self._printed: dict[_Key, tuple[PlanUse, bool]] = {}
        """By the digest of their exact text, which is faster to compute; with True
        if the values have the names of the plan."""
        self._first_prints: set[_Key] = set()
        self._groups: dict[bytes, GroupGraph] = {}
        self._printed_groups: dict[bytes, GroupGraph] = {}
        """The same as ``_groups``, by the digest of the exact text."""
        self._sources = LostSources()
        self._left: tuple[bytes, Print] | None = None
        """The plan that the last pass left, and the graph with which the pass
        began: an executor prints the plan again, without types."""
        self._forms = PrintedForms()

    def plan(
        self, graph: Print, level: PlanLevel, simple: bool, rest: bool = False
    ) -> tuple[PlanUse, bool] | None:
        """Return the plan that these lines print, and True if its values have the
        names of the first print. The lines are parsed only if no equal plan was
        seen."""
        if not graph.text:
            return None
        executor = level in (PlanLevel.FUSION_PASS, PlanLevel.EXECUTOR)
        of_pass = level is PlanLevel.FUSION_PASS
        around = self._regions.around_print(graph, of_pass) if executor else None
        key = graph.digest, level, simple, around
        known = self._printed.get(key)
        if known is not None:
            return known
        bare = self._nameless(graph), level, simple, around
        use = self._plans.get(bare)
        if use is None:
            began = None
            if level is PlanLevel.FUSION_PASS and self.began_with is not None:
                began = self.began_with
                self._left = (graph.printed(), began)
            elif (
                level is PlanLevel.EXECUTOR
                and self._left is not None
                and self._left[0] == graph.printed()
            ):
                began = self._left[1]
            printed = PlanPrint(graph, began, of_pass, executor, rest)
            parts = read_plan(printed, self._forms, self._regions, self._sources)
            use = PlanUse(parts, level, simple, headless=rest)
            self._facts.plans.append(use)
            self._plans[bare] = use
            self._first_prints.add(key)
        if len(self._printed) >= 5_000:
            self._printed.clear()
        known = self._printed[key] = (use, key in self._first_prints)
        return known

    def group(self, graph: Print) -> GroupGraph | None:
        if not graph.text:
            return None
        known = self._printed_groups.get(graph.digest)
        if known is not None:
            return known
        bare = self._nameless(graph)
        group = self._groups.get(bare)
        if group is None:
            group = self._groups[bare] = read_group(graph, self._forms)
        if len(self._printed_groups) >= 5_000:
            self._printed_groups.clear()
        self._printed_groups[graph.digest] = group
        return group

    def _nameless(self, graph: Print) -> bytes:
        """Return a digest that is equal for prints of one message that differ only
        in value names."""
        return graph.prefix + self._forms.nameless(graph.printed())
