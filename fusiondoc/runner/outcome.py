"""What the end of a run means for the user: nothing, or an error with its exit status."""

from __future__ import annotations

from fusiondoc.errors import CANNOT_RUN, MODEL_FAILED, CannotRun, FusiondocError, ModelFailed, UsageError
from fusiondoc.runner.capture import Capture

_SHOWN_LINES = 5


def failure(capture: Capture) -> FusiondocError | None:
    """The error that a run ended with, or None. An interruption is none: see ``interrupted`` in the
    result."""
    result = capture.result
    if result.get("interrupted"):
        return None
    label = capture.request.get("target", {}).get("text", "the program")
    if result.get("timed_out"):
        seconds = capture.request.get("options", {}).get("timeout")
        return ModelFailed(
            f"{label} did not end in {seconds:g} s and was stopped",
            f"{capture.log_path} ends with where it was (Python's stack). --timeout gives it more time.",
        )
    told = capture.error
    if result.get("signal"):
        return ModelFailed(
            f"{label} died of {result['signal']}",
            f"{capture.log_path} ends with Python's stack at that moment, if there was time to print it.",
        )
    status = result.get("exit_status")
    if not status:
        return None
    if told is None:
        return ModelFailed(
            f"{label} ended with exit status {status} before all passes were done{_last_lines(capture)}",
            f"The whole output is in {capture.log_path}.",
        )
    kind = {MODEL_FAILED: ModelFailed, CANNOT_RUN: CannotRun}.get(status, UsageError)
    return kind(_text(told, label), told.get("hint"))


def _text(told: dict[str, object], label: str) -> str:
    if not told.get("traceback"):
        return str(told["message"])
    doing = {
        "import": "could not be imported",
        "script": "cannot be scripted",
        "trace": "cannot be traced",
        "inputs": "failed while making its inputs",
        "forward": "failed in the forward pass",
        "backward": "failed in the backward pass",
        "exit": "ended the process",
    }.get(str(told["stage"]), "failed")
    return f"{label} {doing}\n{str(told['traceback']).rstrip()}"


def _last_lines(capture: Capture) -> str:
    try:
        text = capture.log_path.read_bytes()[-4000:].decode("utf-8", "replace")
    except OSError:
        return ""
    lines = text.rstrip().split("\n")[-_SHOWN_LINES:]
    return "\n" + "\n".join(lines) if any(lines) else ""
