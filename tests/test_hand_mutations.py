"""The table of hand mutations is true: each row is a change of a text that is
there."""

from __future__ import annotations

import pytest
from hand_mutations import MUTATIONS, ROOT, Mutation, changed


def test_there_are_enough_of_them() -> None:
    assert len(MUTATIONS) >= 60
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_row_changes_a_text_that_stands_in_its_file_once(
    mutation: Mutation,
) -> None:
    compile(
        changed(mutation, ROOT), mutation.file, "exec"
    )  # a mutant that Python refuses tests nothing
    for name in mutation.tests.split():
        assert (ROOT / "tests" / f"test_{name.partition('::')[0]}.py").is_file()


def test_a_text_that_is_gone_or_stands_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        changed(MUTATIONS[0]._replace(old="no such text"), ROOT)
    with pytest.raises(ValueError, match=r"stands \d+ times"):
        changed(MUTATIONS[0]._replace(old="return"), ROOT)
