"""Errors of torch.compile: FD309 if a run shows that the program has no error in
eager code; FD312 for a log, which does not show whether the program or the compiler
is the cause."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.captures.probe_records import Failure
from fusiondoc.diagnosis.of_fusers.inductor_section import helpful
from fusiondoc.diagnosis.rules import finding
from fusiondoc.fusers.inductor.break_texts import (
    break_of_text,
    error_in_short,
    is_compiler_error,
    line_of_compiler_error,
)
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Evidence, Finding, Report


def compiler_at_fault(
    failed: str, error: Failure, in_same_process: bool
) -> Finding:
    """Return the finding, with torch's own hints if the error has some.

    Args:
        failed: which fuser fails, in which pass, and the error.
        in_same_process: the pass that ran in eager code was in the same process.
    """
    without = "without torch.compile the same run ends without an error"
    if in_same_process:
        without = "the same pass runs in eager without an error"
    return finding(
        "FD309",
        f"Only the run under {failed}; {without}",
        source=line_of_compiler_error(error.message),
        remedy=_remedy(error),
    )


def compiler_failed(
    error: str,
    of: str = "",
    source: str | None = None,
    evidence: Sequence[Evidence] = (),
) -> Finding:
    """FD312: a compilation that ended in an error.

    Args:
        of: the graph that was compiled: " on graph 0/0".
        source: ``file:line`` of the function, for an error that names no line of
            the program.
    """
    return finding(
        "FD312",
        f"torch.compile failed{of}: {error_in_short(error)}",
        source=line_of_compiler_error(error) or source,
        evidence=evidence,
        remedy=_of_hints(error)
        or Remedy(
            "Run the program in eager code first, to see whether it is right there (TORCHDYNAMO_DISABLE=1);",
            "an error of the compiled run alone is torch's: TORCHDYNAMO_REPRO_AFTER=aot makes a small program"
            " of it.",
        ),
    )


def logged_failure(
    report: Report, text: str, whose: str, evidence: Sequence[Evidence]
) -> tuple[Finding, ...] | None:
    """FD312 for an error that a log ends with; empty if the report already has it
    with the graph. None for an error that is not from torch.compile.

    Args:
        whose: " of rank 1".
    """
    if not is_compiler_error(text):
        return None
    known = []
    if report.compiled is not None:
        known = [graph.failed for graph in report.compiled.graphs]
    if any(
        failed is not None and failed in error_in_short(text) for failed in known
    ):
        return ()
    return (compiler_failed(text, whose, evidence=evidence),)


def _of_hints(error: str) -> Remedy | None:
    hints = helpful(break_of_text(error).hints)
    if not hints:
        return None
    return Remedy(
        "Write this line so that torch.compile takes it;",
        f"torch's hints: {' '.join(hints)}",
    )


def _remedy(error: Failure) -> Remedy:
    return _of_hints(error.message) or Remedy(
        "Keep torch.compile out of what fails (torch.compiler.disable on that function);",
        "TORCHDYNAMO_REPRO_AFTER=aot makes a small program of it for a report to torch.",
    )
