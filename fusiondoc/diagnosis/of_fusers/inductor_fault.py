"""FD309 under torch.compile: the compiled run fails, and the program in eager code does not."""

from __future__ import annotations

from fusiondoc.captures.probe_records import Failure
from fusiondoc.diagnosis.of_fusers.inductor_section import helpful
from fusiondoc.diagnosis.rules import finding
from fusiondoc.fusers.inductor.break_texts import break_of_text, line_of_compiler_error
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Finding


def compiler_at_fault(failed: str, error: Failure, in_same_process: bool) -> Finding:
    """The finding, with torch's own hints where the error has some.

    Args:
        failed: which fuser fails, in which pass, and the error.
        in_same_process: the pass that ran in eager code was one of the same process.
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


def _remedy(error: Failure) -> Remedy:
    hints = helpful(break_of_text(error.message).hints)
    if hints:
        return Remedy("Write this line so that torch.compile takes it;", f"torch's hints: {' '.join(hints)}")
    return Remedy(
        "Keep torch.compile out of what fails (torch.compiler.disable on that function);",
        "TORCHDYNAMO_REPRO_AFTER=aot makes a small program of it for a report to torch.",
    )
