"""What the end of a run means for the user: nothing, or an error with its exit status."""

from __future__ import annotations

from fusiondoc.captures.capture import Capture
from fusiondoc.errors import CANNOT_RUN, WRONG_USAGE, CannotRun, FusiondocError, ModelFailed, UsageError

_SHOWN_LINES = 5
_OWN = ("[fusiondoc] ", "fusiondoc: ")
"""Lines in the log that are the probe's."""


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
    hint = f"The whole output is in {capture.log_path}."
    if told is not None:
        kind = {WRONG_USAGE: UsageError, CANNOT_RUN: CannotRun}.get(status or 0, ModelFailed)
        said = "" if told.get("traceback") or kind is not ModelFailed else _last_lines(capture)
        return kind(_text(told, label) + said, told.get("hint") or hint)
    done = bool(capture.record("done"))
    # A script may end itself at any place (os._exit); a model has passes to do.
    if not status and (done or status is None or capture.record("target").get("how") == "script"):
        return None
    when = "after" if done else "before"
    return ModelFailed(
        f"{label} ended with exit status {status} {when} all passes were done{_last_lines(capture)}", hint
    )


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
        "verify": "failed in the eager run that --verify compares with",
        "eager": "failed in the eager run that --time compares with",
        "exit": "ended the process",
    }.get(str(told["stage"]), "failed")
    return f"{label} {doing}\n{str(told['traceback']).rstrip()}"


def _last_lines(capture: Capture) -> str:
    try:
        text = capture.log_path.read_bytes()[-4000:].decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line for line in text.rstrip().split("\n") if not line.startswith(_OWN)][-_SHOWN_LINES:]
    return "\n" + "\n".join(lines) if any(lines) else ""
