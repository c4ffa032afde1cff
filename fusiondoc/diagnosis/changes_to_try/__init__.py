"""All changes of a program that ran, which can be run in turn. What a report alone suggests, also that of a
log, is ``ChangesOfRows``: advice says it and the plan ranks it."""

from __future__ import annotations

from functools import cached_property

from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.changes_to_try import at_compilation, at_lines, at_model, settings
from fusiondoc.diagnosis.changes_to_try.user_program import UserProgram
from fusiondoc.diagnosis.suggested_settings import suggested


class ChangesOfProgram:
    """The changes of a program and of its run, each list made when it is first read."""

    def __init__(self, program: UserProgram) -> None:
        self._program = program

    @cached_property
    def of_run(self) -> list[Change]:
        """The settings of its run, the worst finding's first: ``--try`` runs them."""
        program = self._program
        return suggested(program.report, program.options, program.target.kind, program.training)

    @cached_property
    def in_files(self) -> list[Change]:
        """Settings, rewrites at the lines of operators outside groups, and what can be done where the model
        is made, written into its files, in no order: ``fix`` tries them. Whether one helps, its run shows."""
        program = self._program
        if program.is_compiled:
            return [*at_compilation.propose(program), *settings.written(program, self.of_run)]
        of_settings = settings.propose(program, self.of_run)
        return [*at_lines.propose(program), *of_settings, *at_model.propose(program)]
