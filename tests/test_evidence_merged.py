"""Lines of evidence that are put together when somebody looks are those of a plain
sorted set."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from fusiondoc.model.reasons import Stated
from fusiondoc.model.source import MOST_EVIDENCE
from fusiondoc.parsers.jit.statements import Statement
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.parsers.rows.tallies import CountedRow, Reason

LINES = st.lists(st.integers(1, 400), max_size=300)
BOUNDS = st.one_of(st.none(), st.integers(-450, 450))


def numbers(lines: list[int]) -> array[int]:
    return array("Q", lines)


@given(
    LINES,
    st.lists(LINES, max_size=4),
    BOUNDS,
    BOUNDS,
    st.sampled_from((None, 1, 3, -1, -2)),
)
def test_many_arrays_are_each_line_once_in_order(
    own: list[int],
    more: list[list[int]],
    start: int | None,
    stop: int | None,
    step: int | None,
) -> None:
    parts = [numbers(one) for one in more]
    found = PackedEvidence(numbers(own), ["a"], parts)
    plain = sorted(set(own).union(*more))
    for part in parts:
        part.append(7_777)  # of a log that is read on
    assert len(found) == len(plain)
    assert [one.line for one in found] == plain
    assert [one.line for one in found[start:stop:step]] == plain[start:stop:step]
    for place in (
        {0, len(plain) // 2, len(plain) - 1, -1, -len(plain)} if plain else ()
    ):
        assert found[place].line == plain[place]
    assert found == PackedEvidence(plain, ["a"])
    assert hash(found) == hash(PackedEvidence(plain, ["a"]))


def test_a_row_keeps_no_copy_of_what_statements_say() -> None:
    row = CountedRow(Reason.of("FD203", Stated("output_type"), stated=True), 0)
    said = [Statement("FD203", Stated("output_type"), True) for _ in range(3)]
    for place, one in enumerate(said):
        one.lines.extend(range(place, 3_000, 3))
        row.add_statement(one)
        row.add_statement(one)
    row.lines.append(2_999)
    found = row.evidence(["a"])
    assert [one.line for one in found] == list(range(3_000))
    assert len(row.lines) == 1
    assert found._parts is not None
    assert all(
        any(part is one.lines for one in said) for part in found._parts._parts[1:]
    )
    assert len(found._lines) == MOST_EVIDENCE
