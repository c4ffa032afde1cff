"""All changes of a program and of its run that ``fix`` tries: settings, the rewrites at the lines of
operators outside groups, and what can be done where the model is made. Whether one helps, its run shows."""

from __future__ import annotations

from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.changes_to_try import at_lines, at_model, settings
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram


def changes_to_try(program: UserProgram) -> list[Change]:
    """Every change, in no order."""
    return [*at_lines.propose(program), *settings.propose(program), *at_model.propose(program)]
