"""Whose log it is: files made from somebody else's log run only if the user says so."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from fusiondoc.captures.capture import REQUEST
from fusiondoc.captures.own import is_own
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import UsageError


def refuse_foreign(arguments: Sequence[str], store: CaptureStore, option: str) -> None:
    """Check that every argument is a capture of ``store``, as its folder or its log; no argument is the
    newest capture.

    Args:
        option: the option that would run files, for the message.

    Raises:
        UsageError: one of them is another log, which anybody may have written.
    """
    own = {
        place.resolve()
        for path in store.paths()
        if not (path / "log").is_symlink() and is_own(path, REQUEST)
        for place in (path, path / "log")
    }
    for argument in arguments or [str(store.newest().path)]:
        if argument == "-" or Path(argument).resolve() not in own:
            raise UsageError(
                f"{option} runs files made from {argument}, which is no capture of yours in {store.folder}: "
                "somebody else may have written it",
                f"Leave {option} out and look at the file; if you trust who made the log, add --trust-log.",
            )
