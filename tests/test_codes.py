"""What is known of each finding code and fuser, in one place, and whole."""

from __future__ import annotations

import pytest

from fusiondoc.fusers import FUSER_OF_KIND, FUSERS, at_work, choices, fuser_title
from fusiondoc.fusers.nvfuser import log as nvfuser_log
from fusiondoc.model.code_kinds import Family, Loss
from fusiondoc.model.codes import CODES
from fusiondoc.model.finding_code import Code
from fusiondoc.model.inductor_codes import LOSE_NOTHING
from fusiondoc.model.report import SEVERITIES
from fusiondoc.parsers.jit import FUSION_KINDS


@pytest.mark.parametrize("code", CODES.values(), ids=list(CODES))
def test_a_code_is_whole(code: Code) -> None:
    assert code.severity in SEVERITIES and code.family in Family
    assert 0 < len(code.title) <= 72 and not code.title.endswith(".")
    assert len(set(code.tries)) == len(code.tries)
    if code.family is Family.NODE:
        assert code.advice is not None, (
            "an operator with this reason would get no finding"
        )
    if code.advice is not None:
        assert code.advice.endswith(".") and code.advice[0].isupper()


def test_every_rejection_of_nvfuser_has_a_code_with_advice() -> None:
    with_advice = {code.code for code in CODES.values() if code.advice}
    assert {code for code, _ in nvfuser_log.REFUSALS.causes.values()} <= with_advice


def test_what_is_lost_and_what_sums_up_the_run() -> None:
    assert {c.code for c in CODES.values() if c.loss is Loss.NONE} == {
        *("FD226", "FD235", "FD236", "FD246"),
        *LOSE_NOTHING,
    }
    assert {c.code for c in CODES.values() if c.loss is Loss.AROUND} == {"FD229"}
    assert {c.code[:3] for c in CODES.values() if c.of_the_run} == {
        "FD0",
        "FD1",
        "FD4",
        "FD9",
    }
    assert CODES["FD402"].of_the_run and not CODES["FD401"].of_the_run


def test_fusers_and_their_kinds_are_one_to_one() -> None:
    assert {fuser.name: fuser for fuser in FUSER_OF_KIND.values()} == FUSERS
    assert (
        FUSION_KINDS["prim::CudaFusionGroup"]
        == "CudaFusionGroup"
        == FUSERS["nvfuser"].kinds[0]
    )
    assert choices() == ("nvfuser", "nnc", "onednn", "inductor", "none")
    assert at_work() == ("nvfuser", "nnc", "onednn", "legacy", "inductor", "none")
    assert [fuser_title(name) for name in ("onednn", "none", "other")] == [
        "oneDNN Graph",
        "none",
        "other",
    ]
