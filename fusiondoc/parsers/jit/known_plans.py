"""Plans and graphs of groups that were printed before, so that each is parsed once: a log prints many of them
again, equal but for value names."""

from __future__ import annotations

import re
from hashlib import blake2b

from fusiondoc.parsers.facts import Facts, PlanLevel, PlanUse
from fusiondoc.parsers.ir.parse import parse_dump
from fusiondoc.parsers.jit.message_lines import Print
from fusiondoc.parsers.jit.plan import PlanGroup, summarise, summarise_group, summarise_rest
from fusiondoc.parsers.jit.profiles import profiled_in
from fusiondoc.parsers.jit.regions import Regions

_NAMES = re.compile(rb"%[\w.]+")


class KnownPlans:
    """The plans of one stream; new ones are noted in ``facts``."""

    def __init__(self, facts: Facts, regions: Regions) -> None:
        self._facts = facts
        self._regions = regions
        self.began_with: Print | None = None
        """The graph that the fusion pass which is being read began with: it tells more types."""
        self._plans: dict[bytes, PlanUse] = {}
        """By their text without value names."""
        self._printed: dict[bytes, tuple[PlanUse, bool]] = {}
        """By their very text, which is quicker to hash; and whether the values are named as in the plan."""
        self._first_prints: set[bytes] = set()
        self._groups: dict[bytes, PlanGroup] = {}

    def plan(
        self, graph: Print, level: PlanLevel, simple: bool, rest: bool = False
    ) -> tuple[PlanUse, bool] | None:
        """The plan that these lines print, parsed only if no equal one was seen; and whether its values have
        the names of the first print."""
        if not graph.lines:
            return None
        text = b"\n".join(graph.lines)
        executor = level in (PlanLevel.FUSION_PASS, PlanLevel.EXECUTOR)
        of_pass = level is PlanLevel.FUSION_PASS
        around = self._regions.around_print(graph.lines, of_pass) if executor else None
        beside = repr(around).encode() if around is not None else b""
        key = blake2b(text + beside, digest_size=16, salt=bytes((level, simple))).digest()
        known = self._printed.get(key)
        if known is not None:
            return known
        unnamed = _NAMES.sub(b"%", text) + beside
        bare = blake2b(unnamed, digest_size=16, salt=bytes((level, simple, 1))).digest()
        use = self._plans.get(bare)
        if use is None:
            profiled = None
            if level is PlanLevel.FUSION_PASS and self.began_with is not None:
                profiled = profiled_in(parse_dump(self.began_with.texts()))
            dump = parse_dump(graph.texts())
            regions = self._regions if executor else None
            plan = summarise_rest(dump) if rest else summarise(dump, profiled, regions)
            use = PlanUse(plan, level, simple, headless=rest)
            self._facts.plans.append(use)
            self._plans[bare] = use
            self._first_prints.add(key)
        if len(self._printed) >= 5_000:
            self._printed.clear()
        known = self._printed[key] = (use, key in self._first_prints)
        return known

    def group(self, graph: Print) -> PlanGroup | None:
        if not graph.lines:
            return None
        bare = blake2b(_NAMES.sub(b"%", b"\n".join(graph.lines)), digest_size=16).digest()
        group = self._groups.get(bare)
        if group is None:
            group = self._groups[bare] = summarise_group(parse_dump(graph.texts()))
        return group
