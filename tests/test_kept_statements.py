"""The statements of a pass are kept as bytes: reports are those of statements that
are held as they are."""

from __future__ import annotations

from array import array

import pytest
import raw_log
from conftest import FIXTURES
from test_whole_runs import read

from fusiondoc.model.reasons import Stated
from fusiondoc.parsers.jit.kept_statements import KeptStatements
from fusiondoc.parsers.jit.statements import NodeText, state

LOG = FIXTURES / "ir" / "nvfuser-2.1.2-rejects.log.xz"


def test_a_report_of_packed_statements_is_that_of_open_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = raw_log.read(LOG)
    packed = read([text])
    reasons = [row.reason for row in packed[0].unfused if row.reason.stated]
    assert reasons, "the log states reasons"
    monkeypatch.setattr(KeptStatements, "pack", lambda _: None)
    assert read([text]) == packed


def test_statements_of_a_further_pass_join_those_that_were_packed() -> None:
    node = NodeText("aten::cumsum", "m.py:3:1", "y.1", tensor=True)
    kept = KeptStatements()
    state(kept.opened(), node, "FD203", Stated("output_type"), 7)
    kept.pack()
    assert kept and list(kept.hashes()) == [hash(node.key)]
    (of_first_pass,) = kept.get().of(node.key)
    assert (of_first_pass.code, of_first_pass.lines) == ("FD203", array("Q", [7]))
    state(kept.opened(), node, "FD203", Stated("output_type"), 30)
    (of_both,) = kept.get().of(node.key)
    assert of_both.lines == array("Q", [7, 30])
