"""Findings on logs of stand-alone nvFuser and of Lightning Thunder, whose fusions
are not TorchScript's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Finding, Report
from fusiondoc.parsers.lines.error_texts import of_stand_alone, read_error
from fusiondoc.parsers.observed import LoggedError

_STAND_ALONE = re.compile(r"nvfuser_\w+_f\d+_c\d+_r\d+_g\d+\Z")
"""Kernel names of stand-alone nvFuser: scheduler, fusion, concretisation, runtime
and group (``KernelExecutor::kernelName``, csrc/runtime/compiled_kernel.cpp)."""


def errors_of_stand_alone(context: Context) -> list[LoggedError]:
    """Return the errors in the log that the stand-alone library wrote."""
    return [one for one in context.observed.errors if of_stand_alone(one.text)]


def of_other_tools(report: Report, context: Context) -> Iterable[Finding]:
    """FD910: the log is from another tool with nvFuser: its stand-alone library, or
    Lightning Thunder."""
    observed = context.observed
    kernels = []
    for kernel in report.kernels:
        if _STAND_ALONE.match(kernel.name):
            kernels.append(kernel)
    errors = errors_of_stand_alone(context)
    if report.groups or (
        observed.other_tools is None and not kernels and not errors
    ):
        return
    evidence = [error.line for error in errors]
    evidence += [kernel.evidence[0] for kernel in kernels if kernel.evidence]
    if observed.other_tools is not None:
        evidence = [observed.other_tools]
    if observed.thunder_traces:
        whose = "Lightning Thunder"
    else:
        whose = "stand-alone nvFuser"
    content = "; ".join(_content_of_other_tools(report, context, len(kernels)))
    report_it = "; report the error as it asks" if errors else ""
    yield finding(
        "FD910",
        f"This is a log of {whose}, whose fusions are not TorchScript's: {content}",
        evidence=evidence[:1],
        remedy=Remedy(
            "For groups and reasons see the reports of that tool (thunder.last_traces and"
            " thunder.examine.get_fusions; FusionDefinition.fusion_ir);",
            "fusiondoc diagnose FILE.py:NAME reports the same model under TorchScript or torch.compile"
            f"{report_it}.",
        ),
        severity="error" if errors else None,
    )


def _content_of_other_tools(
    report: Report, context: Context, kernels: int
) -> Iterable[str]:
    """Yield the contents of a log of other tools, in words.

    Args:
        kernels: the number of kernels named by the stand-alone library.
    """
    observed = context.observed
    errors = errors_of_stand_alone(context)
    if observed.thunder_traces:
        yield f"traces of Lightning Thunder read: {observed.thunder_traces}"
    if kernels or not (observed.thunder_traces or errors):
        yield f"kernels of stand-alone nvFuser read: {kernels or len(report.kernels)}"
    if observed.other_fusions:
        names = ", ".join(observed.other_fusions[:4])
        more = ", ..." if len(observed.other_fusions) > 4 else ""
        yield f"fusions named in it: {len(observed.other_fusions)} ({names}{more})"
    if observed.beside_fusions:
        beside = ", ".join(observed.beside_fusions[:4]) + (
            ", ..." if len(observed.beside_fusions) > 4 else ""
        )
        yield f"operators that its last trace with fusions calls beside them: {beside}"
    read = (read_error(error.text) for error in errors)
    for text in dict.fromkeys(str(error) for error in read if error):
        yield f"an error of stand-alone nvFuser: {text}"
