"""FD306: the installation does not fit the GPU: an error of NVRTC, of the driver or
of a missing kernel."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.fuser_knobs.catalogue import first_cuda, knows, parse_pair
from fusiondoc.fusers.fuser_errors import (
    ARCHITECTURE,
    BUILTINS,
    OLD_DRIVER,
    TOOLCHAIN,
)
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Evidence, Finding, Report
from fusiondoc.parsers.lines.error_texts import FuserError, read_error


def toolchain(report: Report, context: Context) -> Iterable[Finding]:
    """FD306: an error of NVRTC, of the driver or of a missing kernel image,
    raised by any code; or a crash on a GPU that the CUDA of this torch does not
    support."""
    found = _found(report, context)
    cuda = parse_pair(report.environment.get("cuda"))
    capability = parse_pair(report.environment.get("capability"))
    unknown = (
        cuda is not None
        and capability is not None
        and knows(cuda, capability) is False
    )
    if found is None:
        if not (unknown and context.result.signal) or context.result.timed_out:
            return
        found = (None, ())
    error, evidence = found
    yield finding(
        "FD306",
        _message(report, error, unknown),
        evidence=evidence,
        remedy=_remedy(error, capability, cuda),
    )


def _found(
    report: Report, context: Context
) -> tuple[FuserError | None, tuple[Evidence, ...]] | None:
    texts: list[tuple[str, tuple[Evidence, ...]]] = []
    if context.error is not None:
        texts.append((context.error.message, ()))
    for one in report.fallbacks:
        if one.error is not None:
            texts.append((one.error, tuple(one.evidence)[:1]))
    if context.rerun is not None and context.rerun.error is not None:
        texts.append((context.rerun.error.text, ()))
    texts += [(logged.text, (logged.line,)) for logged in context.observed.errors]
    for text, evidence in texts:
        error = read_error(text) or read_error("RuntimeError: " + text)
        if error is not None and error.kind in TOOLCHAIN:
            return error, evidence
    return None


def _message(report: Report, error: FuserError | None, unknown: bool) -> str:
    gpu = report.environment.get("gpu") or "this GPU"
    capability = parse_pair(report.environment.get("capability"))
    cuda = report.environment.get("cuda")
    who = gpu + (
        f" (compute capability {capability[0]}.{capability[1]})"
        if capability
        else ""
    )
    whose = f"CUDA {cuda} of this torch" if cuda else "The CUDA of this torch"
    if error is None:
        return f"{whose} does not know {who}, and the process died while it used it"
    if error.kind == BUILTINS:
        return f"NVRTC does not find a library that belongs to it: {error}"
    if error.kind == OLD_DRIVER:
        return f"The installed NVIDIA driver is too old for {whose}: {error}"
    if error.kind == ARCHITECTURE or unknown:
        return f"{whose} does not know {who}: {error}"
    return f"This build of torch holds no kernels for {who}: {error}"


_NOT_FUSION = "The installation is the cause, not fusion."


def _remedy(
    error: FuserError | None,
    capability: tuple[int, int] | None,
    cuda: tuple[int, int] | None,
) -> Remedy:
    if error is not None and error.kind == BUILTINS:
        return Remedy(
            "Put the folder of libnvrtc-builtins.so of exactly the CUDA version that this torch was"
            " built with on LD_LIBRARY_PATH, and remove other CUDA versions from it.",
            _NOT_FUSION,
        )
    if error is not None and error.kind == OLD_DRIVER:
        return Remedy(
            "Install a newer NVIDIA driver, or a torch with an older CUDA.",
            _NOT_FUSION,
        )
    first = first_cuda(capability) if capability is not None else None
    if first is None:
        return Remedy(
            "Install a torch whose CUDA knows the GPU: 11.0 for compute capability 8.0, 11.1 for 8.6,"
            " 11.8 for 8.9 and 9.0, 12.8 for 10.0 and 12.0; fusiondoc env shows both.",
            _NOT_FUSION,
        )
    wanted = f"CUDA {first[0]}.{first[1]}"
    if cuda is not None and cuda < first:
        return Remedy(f"Install a torch built with {wanted} or newer.", _NOT_FUSION)
    return Remedy(
        f"Check which libnvrtc is loaded (LD_LIBRARY_PATH), and for which GPUs this torch was built"
        f" (torch.cuda.get_arch_list()): {wanted} and newer know this GPU.",
        _NOT_FUSION,
    )
