"""All changes that a program may get, in the order in which they are tried, and what is only described."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from fusiondoc.changes.edits import Edit, overlapping
from fusiondoc.fixes import (
    Program,
    Proposal,
    added_lines,
    at_lines,
    recipes_in_code,
)
from fusiondoc.fusers import taken_by
from fusiondoc.model import count, dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import FILLS, IN_PLACE_ASSIGNS, WITH_FORMULA, is_in_place, plain_name, sign_of


@dataclass(frozen=True)
class Bundle:
    """Proposals of one family that are tried together first, and one by one if that fails."""

    kind: ChangeKind
    words: str
    """What they have in common."""
    proposals: tuple[Proposal, ...]
    parts: tuple[Bundle, ...] = ()
    """Those that it was made of, which did not help alone."""

    @classmethod
    def of_all(cls, bundles: Sequence[Bundle]) -> Bundle:
        """Several as one."""
        every = tuple(one for bundle in bundles for one in bundle.proposals)
        return cls(bundles[0].kind, "", every, tuple(bundles))

    @property
    def title(self) -> str:
        """Of its only proposal, else of the family with the number of lines."""
        if self.parts:
            return "; together with ".join(one.title for one in self.parts)
        if len(self.proposals) == 1:
            return self.proposals[0].title
        lines = len({line for one in self.proposals for line in one.lines})
        return f"{self.words} ({count(lines, 'line')})"

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(edit for one in self.proposals for edit in one.edits))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for one in self.proposals for line in one.lines))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.note for one in self.proposals if one.note is not None))

    @property
    def knobs(self) -> dict[str, str]:
        return {name: value for one in self.proposals for name, value in one.knobs.items()}

    @property
    def fuser(self) -> str | None:
        return next((one.fuser for one in self.proposals if one.fuser is not None), None)

    @property
    def eval_mode(self) -> bool:
        return any(one.eval_mode for one in self.proposals)

    @property
    def about(self) -> frozenset[str]:
        """The operators that it is about; empty where it is about none in particular."""
        named = [proposal.ops for proposal in self.proposals]
        return frozenset().union(*named) if all(named) else frozenset()

    @property
    def freeze(self) -> bool:
        return any(one.freeze for one in self.proposals)

    @property
    def fewer(self) -> bool:
        return any(one.fewer for one in self.proposals)

    def singly(self) -> list[Bundle]:
        """Each proposal as a bundle of its own, or each of its parts; none where there is only one."""
        if self.parts:
            return list(self.parts)
        if len(self.proposals) < 2:
            return []
        return [Bundle(one.kind, self.words, (one,)) for one in self.proposals]


_FAMILIES: Sequence[tuple[str, tuple[ChangeKind, ...], bool]] = (
    ("operators in place written out of place", (ChangeKind.OUT_OF_PLACE, ChangeKind.NOT_INPLACE), False),
    ("inplace=False on modules that a package made", (ChangeKind.NOT_INPLACE,), True),
    ("operators written with operators that the fuser takes", (ChangeKind.RECIPE,), False),
    ("modules replaced by ones that the fuser takes", (ChangeKind.RECIPE,), True),
    ("dimensions named", (ChangeKind.DIMENSIONS,), False),
    ("constants instead of arguments and attributes", (ChangeKind.CONSTANT,), False),
    ("types that remove a branch", (ChangeKind.ANNOTATION,), False),
    ("tensors that stay on their device, and stay tensors", (ChangeKind.NUMBER,), False),
    ("operands of a type that the fuser takes", (ChangeKind.DTYPE,), False),
    ("made ready for inference", (ChangeKind.NO_GRAD, ChangeKind.EVAL, ChangeKind.FREEZE), False),
    ("a setting of torch", (ChangeKind.KNOB, ChangeKind.STATIC_SHAPES), False),
    ("statements after what is computed", (ChangeKind.SPLIT,), False),
    ("operators moved to the edge", (ChangeKind.MOVE_VIEW, ChangeKind.MOVE), False),
    ("another fuser", (ChangeKind.FUSER,), False),
)
"""What is tried together, in this order: words, kinds, whether it is made where the model is made. In place
comes first: a function and a module in place leave either's operators in the way alone."""

_ALONE = frozenset(
    [
        *(ChangeKind.NO_GRAD, ChangeKind.EVAL, ChangeKind.FREEZE, ChangeKind.KNOB),
        *(ChangeKind.STATIC_SHAPES, ChangeKind.MOVE_VIEW, ChangeKind.MOVE, ChangeKind.FUSER),
    ]
)
"""Kinds whose proposals are alternatives, or may help one by one where they do not together."""


def _family(one: Proposal) -> int:
    """Which of the families it belongs to."""
    for index, (_, kinds, outside) in enumerate(_FAMILIES):
        if one.kind in kinds and one.from_outside is outside:
            return index
    raise AssertionError(one.kind)


def proposals_for(program: Program) -> list[Proposal]:
    """Every change that some family finds, in no order."""
    return list(_all(program))


def alters_signature(program: Program, one: Proposal) -> bool:
    """Whether it changes what a function takes or returns: a call of the function that no run shows may fail
    then."""
    files = {file.source.path: file for file in program.files}
    return any(
        edit.start < end and start < edit.end
        for edit in one.edits
        for start, end in files[edit.path].signatures
    )


def bundles(every: Iterable[Proposal]) -> list[Bundle]:
    """The changes to try, those first that others need."""
    made: list[Bundle] = []
    for index, group in groupby(sorted(every, key=_family), key=_family):
        words, kinds, _ = _FAMILIES[index]
        proposals = _distinct(group)
        if kinds[0] in _ALONE:
            made += [Bundle(one.kind, words, (one,)) for one in proposals]
        else:
            made.append(Bundle(proposals[0].kind, words, tuple(_compatible(proposals))))
    return made


def _all(program: Program) -> Iterator[Proposal]:
    yield from at_lines.propose(program)
    yield from recipes_in_code.propose(program)
    yield from added_lines.propose(program)


def _distinct(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Those with the same edits once: one line may have several operators."""
    found: dict[tuple[Edit, ...], Proposal] = {}
    for one in proposals:
        found.setdefault(one.edits, one)
    return list(found.values())


def _compatible(proposals: Sequence[Proposal]) -> Iterator[Proposal]:
    """Without those that change what one before them changes otherwise."""
    kept: list[Edit] = []
    for one in proposals:
        if not overlapping([*kept, *one.edits]):
            kept += one.edits
            yield one


def described(program: Program) -> list[str]:
    """What could be changed and is not, a line each: what works in place in files of packages, files that
    cannot be read."""
    unread = [f"{path.name} could not be read: {why}" for path, why in program.unread.items()]
    return [*_in_packages(program), *unread]


def _in_packages(program: Program) -> list[str]:
    in_place = {
        (line, row.op): (row, instead)
        for line, row in program.in_packages
        if (instead := _instead(program, row.op))
    }
    lines = [
        f"{line}: {op} ({count(row.count, 'time')}) works in place; {instead}, it could fuse"
        for (line, op), (row, instead) in sorted(in_place.items(), key=lambda one: one[0])
    ]
    if lines:
        lines.append("files of packages stay as they are: change a copy, or the class from outside")
    return lines


def _instead(program: Program, op: str) -> str | None:
    """How to write an operator in place so that the fuser can take it; None where it cannot."""
    if not is_in_place(op) or op in IN_PLACE_ASSIGNS:
        return None
    made, sign = FILLS.get(op), sign_of(op)
    plain = f"aten::{re.split(r'[.(]', made)[1]}" if made else f"{op.rpartition(':')[0]}:{plain_name(op)}"
    if not taken_by(plain, program.fuser, program.torch) or (program.backward and plain not in WITH_FORMULA):
        return None
    if sign is not None:
        return f"with x = x {sign} y instead of x {sign}= y"
    return f"with {made or plain.rpartition(':')[2]} instead"
