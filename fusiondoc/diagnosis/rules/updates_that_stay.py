"""In-place updates that must not be written out of place, and why."""

from __future__ import annotations

from fusiondoc.diagnosis.advice import Advice
from fusiondoc.diagnosis.suggested_changes import SuggestedChanges
from fusiondoc.fusers import fuser_title
from fusiondoc.model.remedies import nothing
from fusiondoc.model.report import Unfused
from fusiondoc.operators import is_in_place


def stays_in_place(changes: SuggestedChanges, row: Unfused) -> Advice | None:
    """Return the advice on an in-place update that must not be written out of
    place; None for another operator."""
    if changes.caller_sees(row):
        return _CALLER_SEES
    if changes.another_name_sees(row):
        return _ANOTHER_NAME_SEES
    if changes.keeps_its_type(row):
        return _KEEPS_ITS_TYPE
    if changes.would_fail_out_of_place(row):
        return _fuser_would_fail(changes.run.fuser)
    if is_in_place(row.op) and changes.would_take_wrong_size(row):
        return _fuser_may_miscompute(changes.run.fuser)
    return None


_CALLER_SEES = Advice(
    nothing(
        "Nothing, if the caller reads this tensor afterwards, as an optimiser does its state;",
        "else return a new tensor instead of changing the argument.",
    )
)


_ANOTHER_NAME_SEES = Advice(
    nothing(
        "Nothing, while another name, a list or a view of this tensor is read after the update:",
        "out of place, it would keep the old values.",
    )
)


_KEEPS_ITS_TYPE = Advice(
    nothing(
        "Nothing: out of place, the result would have the element type of the other tensor, as float64 of one"
        " that is added to a float32 tensor.",
        "Cast that tensor before it, and write it out of place.",
    )
)


def _fuser_would_fail(fuser: str | None) -> Advice:
    return _stays_in_training(
        f"{fuser_title(fuser or '')} would compute the size of the reduction before it, and the run fails (FD307)."
    )


def _fuser_may_miscompute(fuser: str | None) -> Advice:
    return _stays_in_training(
        f"{fuser_title(fuser or '')} may compute a wrong size of the product of matrices before it, and the run"
        " fails (FD309)."
    )


def _stays_in_training(error: str) -> Advice:
    return Advice(
        nothing(
            f"Nothing in training: out of place, {error}",
            "Under torch.no_grad() write it out of place.",
        )
    )
