"""Changes in the order in which ``fix`` tries them, grouped by family; and
descriptions of possible changes that are not tried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from fusiondoc.changes.change import Change
from fusiondoc.changes.edits import TextEdit, overlapping
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
from fusiondoc.fusers import taken_by
from fusiondoc.model import count, dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.remedies import AS_REQUESTED, Setting
from fusiondoc.operators import (
    FILLS,
    IN_PLACE_ASSIGNS,
    WITH_FORMULA,
    is_in_place,
    plain_name,
    sign_of,
)


@dataclass(frozen=True)
class ChangeBundle:
    """Changes that are made together: those of one family, which are tried one by
    one if that fails."""

    changes: tuple[Change, ...] = ()
    words: str = ""
    """The changes' common description."""
    parts: tuple[ChangeBundle, ...] = ()
    """The bundles that it was made of, none of which helped alone."""

    @classmethod
    def of_all(cls, bundles: Sequence[ChangeBundle]) -> ChangeBundle:
        """Combine several bundles into one."""
        return cls(
            tuple(one for bundle in bundles for one in bundle.changes),
            parts=tuple(bundles),
        )

    def plus(self, more: ChangeBundle) -> ChangeBundle:
        """Return this bundle with further changes added."""
        return ChangeBundle((*self.changes, *more.changes))

    @property
    def kind(self) -> ChangeKind:
        """The kind of the first change."""
        return self.changes[0].kind

    @property
    def title(self) -> str:
        """The title of its only change, else of the family with the number of
        lines."""
        if self.parts:
            return "; together with ".join(one.title for one in self.parts)
        if len(self.changes) == 1:
            return self.changes[0].title
        return f"{self.words} ({count(len(self.where), 'line')})"

    @property
    def edits(self) -> tuple[TextEdit, ...]:
        """All edits of its changes, without duplicates."""
        edits: dict[TextEdit, None] = {}
        for one in self.changes:
            for edit in one.edits:
                edits[edit] = None
        return tuple(edits)

    @property
    def where(self) -> tuple[str, ...]:
        """``file:line`` of each changed line, without duplicates."""
        lines: dict[str, None] = {}
        for one in self.changes:
            for line in one.where:
                lines[line] = None
        return tuple(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all changes, without duplicates."""
        notes: dict[str, None] = {}
        for one in self.changes:
            if one.note is not None:
                notes[one.note] = None
        return tuple(notes)

    @property
    def setting(self) -> Setting:
        """The settings of all changes; if several select a fuser, the last."""
        made = AS_REQUESTED
        for one in self.changes:
            made = made.with_more(one.setting)
        return made

    @property
    def about(self) -> frozenset[str]:
        """The operators that it targets; empty if it targets none in particular."""
        named = [one.ops for one in self.changes]
        if all(named):
            return frozenset().union(*named)
        return frozenset()

    @property
    def replaces_by_several(self) -> bool:
        """True if it replaces some operators by several: then more operators in
        groups are no gain by themselves."""
        return any(one.kind in _BY_SEVERAL for one in self.changes)

    def singly(self) -> list[ChangeBundle]:
        """Each change as a bundle of its own, or each of its parts; empty if there
        is only one."""
        if self.parts:
            return list(self.parts)
        if len(self.changes) < 2:
            return []
        return [ChangeBundle((one,), self.words) for one in self.changes]


_BY_SEVERAL = frozenset(
    [
        *(ChangeKind.RECIPE, ChangeKind.MOVE, ChangeKind.MOVE_VIEW),
        *(ChangeKind.COMPOSITION, ChangeKind.LAYOUT),
        *(
            ChangeKind.KNOB,
            ChangeKind.STATIC_SHAPES,
            ChangeKind.DYNAMIC_SHAPES,
            ChangeKind.FUSER,
        ),
    ]
)
"""Kinds that help only if fewer kernels and operators run."""

_FAMILIES: Sequence[tuple[str, tuple[ChangeKind, ...], bool]] = (
    (
        "operators in place written out of place",
        (ChangeKind.OUT_OF_PLACE, ChangeKind.NOT_INPLACE),
        False,
    ),
    (
        "inplace=False on modules that a package made",
        (ChangeKind.NOT_INPLACE,),
        True,
    ),
    (
        "operators written with operators that the fuser takes",
        (ChangeKind.RECIPE,),
        False,
    ),
    ("modules replaced by ones that the fuser takes", (ChangeKind.RECIPE,), True),
    ("dimensions named", (ChangeKind.DIMENSIONS,), False),
    (
        "constants instead of arguments and attributes",
        (ChangeKind.CONSTANT,),
        False,
    ),
    ("types that remove a branch", (ChangeKind.ANNOTATION,), False),
    (
        "tensors that stay on their device, and stay tensors",
        (ChangeKind.NUMBER,),
        False,
    ),
    ("operands of a type that the fuser takes", (ChangeKind.DTYPE,), False),
    (
        "made ready for inference",
        (ChangeKind.NO_GRAD, ChangeKind.EVAL, ChangeKind.FREEZE),
        False,
    ),
    ("compiled once for any size", (ChangeKind.DYNAMIC_SHAPES,), False),
    (
        "operators that are compiled instead of calls",
        (ChangeKind.COMPOSITION,),
        False,
    ),
    ("equal layouts", (ChangeKind.LAYOUT,), False),
    ("a setting of torch", (ChangeKind.KNOB, ChangeKind.STATIC_SHAPES), False),
    ("statements after what is computed", (ChangeKind.SPLIT,), False),
    ("branches on values as torch.where", (ChangeKind.BRANCH,), False),
    ("operators moved to the edge", (ChangeKind.MOVE_VIEW, ChangeKind.MOVE), False),
    ("another fuser", (ChangeKind.FUSER,), False),
)
"""The families of changes that are tried together, in this order: title, kinds, and
whether the change is made where the model is constructed. In-place updates come
first: if a function and a module both write in place, a change of only one still
leaves the other's operator as an obstacle."""

_ALONE = frozenset(
    [
        *(ChangeKind.NO_GRAD, ChangeKind.EVAL, ChangeKind.FREEZE, ChangeKind.KNOB),
        *(
            ChangeKind.STATIC_SHAPES,
            ChangeKind.MOVE_VIEW,
            ChangeKind.MOVE,
            ChangeKind.FUSER,
        ),
        *(ChangeKind.COMPOSITION, ChangeKind.LAYOUT),
    ]
)
"""Kinds whose changes are alternatives, or may help singly if they do not
together."""


def _family(one: Change) -> int:
    """The index of the family that it belongs to."""
    for index, (_, kinds, outside) in enumerate(_FAMILIES):
        if one.kind in kinds and one.at_model is outside:
            return index
    raise AssertionError(one.kind)


def alters_signature(program: UserProgram, one: Change) -> bool:
    """True if a change touches the parameters or returned values of a function: a
    call of the function that no run executes may fail then."""
    files = {file.source.path: file for file in program.files}
    for edit in one.edits:
        for start, end in files[edit.path].signatures:
            if edit.start < end and start < edit.end:
                return True
    return False


def bundles(every: Iterable[Change]) -> list[ChangeBundle]:
    """Return the changes to try; those that others depend on come first."""
    made: list[ChangeBundle] = []
    for index, group in groupby(sorted(every, key=_family), key=_family):
        words, kinds, _ = _FAMILIES[index]
        changes = _distinct(group)
        if kinds[0] in _ALONE:
            made += [ChangeBundle((one,), words) for one in changes]
        else:
            made.append(ChangeBundle(tuple(_compatible(changes)), words))
    return made


def _distinct(changes: Iterable[Change]) -> list[Change]:
    """Drop changes with the same edits as another: one line may have several
    operators."""
    found: dict[tuple[TextEdit, ...], Change] = {}
    for one in changes:
        found.setdefault(one.edits, one)
    return list(found.values())


def _compatible(changes: Sequence[Change]) -> Iterator[Change]:
    """Yield the changes, without those whose edits overlap those of an earlier
    one."""
    kept: list[TextEdit] = []
    for one in changes:
        if not overlapping([*kept, *one.edits]):
            kept += one.edits
            yield one


def described(program: UserProgram) -> list[str]:
    """Describe possible changes that are not made, a line each: in-place operations
    in files of installed packages, and files that cannot be read."""
    unread = []
    for path, why in program.unread.items():
        unread.append(f"{path.name} could not be read: {why}")
    return [*_in_packages(program), *unread]


def _in_packages(program: UserProgram) -> list[str]:
    in_place = {}
    for line, row in program.in_packages:
        if instead := _instead(program, row.op):
            in_place[(line, row.op)] = row, instead
    lines = []
    for (line, op), (row, rewritten) in sorted(
        in_place.items(), key=lambda one: one[0]
    ):
        lines.append(
            f"{line}: {op} ({count(row.count, 'time')}) works in place; {rewritten}, it could fuse"
        )
    if lines:
        lines.append(
            "files of packages stay as they are: change a copy, or the class from outside"
        )
    return lines


def _instead(program: UserProgram, op: str) -> str | None:
    """Return how to write an in-place operator so that the fuser can take it; None
    if it cannot."""
    if not is_in_place(op) or op in IN_PLACE_ASSIGNS:
        return None
    made, sign = FILLS.get(op), sign_of(op)
    if made:
        plain = f"aten::{re.split(r'[.(]', made)[1]}"
    else:
        plain = f"{op.rpartition(':')[0]}:{plain_name(op)}"
    if not taken_by(plain, program.fuser, program.torch) or (
        program.backward and plain not in WITH_FORMULA
    ):
        return None
    if sign is not None:
        return f"with x = x {sign} y instead of x {sign}= y"
    return f"with {made or plain.rpartition(':')[2]} instead"
