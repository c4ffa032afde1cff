"""Whose capture it is, and so what of it may run again: known by a signature whose key lies outside captures.

A capture that came from somebody else says which interpreter, program and variables to run again; so it is
run again only if its request was signed with the key of this user, or if the user trusts it by name.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import fields
from pathlib import Path
from typing import Mapping, Sequence

from fusiondoc.captures.capture import REQUEST, Capture
from fusiondoc.captures.request import KeptTarget, RunRequest, TargetSpec
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import UsageError
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fuser_knobs.checks import DUMP, JIT_LOG
from fusiondoc.masking import MASK
from fusiondoc.model.source import Options

SIGNATURE = "signature"
"""The file in a capture."""

_KEY = "captures.key"


def user_folder() -> Path:
    """Where fusiondoc keeps things of this user: $FUSIONDOC_CACHE, or ``fusiondoc`` in $XDG_CACHE_HOME or
    ~/.cache."""
    own = os.environ.get("FUSIONDOC_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fusiondoc"


def sign(capture: Path, request: str) -> None:
    """Sign the file that says what was asked for. Without a place for a key nothing is signed: the capture
    then needs the user's word to be run again."""
    with contextlib.suppress(OSError):
        (capture / SIGNATURE).write_text(_digest(_key(make=True), capture / request), encoding="ascii")


def is_own(capture: Path, request: str) -> bool:
    """Whether ``sign`` was called for this very request by this user."""
    try:
        for name in (SIGNATURE, request):
            if not stat.S_ISREG((capture / name).lstat().st_mode):
                return False
        told = (capture / SIGNATURE).read_bytes()[:200]
        return hmac.compare_digest(told, _digest(_key(make=False), capture / request).encode("ascii"))
    except OSError:
        return False


def _digest(key: bytes, file: Path) -> str:
    return hmac.new(key, file.read_bytes(), hashlib.sha256).hexdigest()


def _key(make: bool) -> bytes:
    """The key of this user, made at the first need. OSError if there is none, or it is too short."""
    path = user_folder() / _KEY
    if make and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            handle = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
    key = path.read_bytes()
    if len(key) < 32:
        raise OSError(f"{path} is cut off")
    return key


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
                f"{option} runs files made from {argument}, which is not a capture of yours in "
                f"{store.folder}: somebody else may have written it",
                f"Leave {option} out and look at the file; if you trust who made the log, add --trust-log.",
            )


def request_again(
    capture: Capture, dumps: Sequence[str], command: Sequence[str] = (), *, trusted: bool = False
) -> RunRequest:
    """What ``capture`` was asked for, with these dumps and without ``--verify``. Variables of torch that the
    user had set then and has not set now are set again, but for those that ask for logs and dumps.

    Args:
        trusted: the user says that whoever made the capture may name what runs here.

    Raises:
        UsageError: its target, folder or request is gone, or somebody else made it.
    """
    if capture.request.bundled:
        raise UsageError(
            f"'{capture.name}' came in a bundle, which is read only and never run",
            "Name the target to run it yourself.",
        )
    if not trusted and not is_own(capture.path, REQUEST):
        raise UsageError(
            f"'{capture.name}' was not made here by you, so what it asks for is not run",
            "Name the target to run it yourself; if you trust who made the capture, add --trust-capture.",
        )
    request = capture.request
    if "script_args" in request.masked:
        raise UsageError(
            f"'{capture.name}' ran with a secret among its arguments, which a capture does not keep",
            "Run it yourself with the secret: fusiondoc diagnose --script "
            f"{request.target.text} --dump {','.join(dumps) or 'NAME'} -- ARGS",
        )
    target = _target(request.target, capture)
    folder = Path(request.cwd or ".")
    if not folder.is_dir():
        raise UsageError(
            f"'{capture.name}' ran in {folder}, which is gone", "Name the target to run it from here."
        )
    told = {one.name: getattr(request.options, one.name) for one in fields(Options)}
    options = {name: value for name, value in told.items() if value is not None}
    options.update(dumps=tuple(dumps), verify=False)
    return RunRequest(
        target=target,
        python=Path(request.python or "python"),
        cwd=folder,
        variables=_variables(request.environment_user, request.environment_set),
        command=tuple(command),
        **options,
    )


def _target(told: KeptTarget, capture: Capture) -> TargetSpec:
    kind, path = told.kind, told.path
    if kind not in ("file", "module", "archive") or (kind != "module") != bool(path):
        raise UsageError(
            f"'{capture.name}' does not say what ran", "Name the target: fusiondoc kernels TARGET"
        )
    if path and not Path(path).is_file():
        raise UsageError(
            f"{path} is gone, so '{capture.name}' cannot run again", "Name its target where it is now."
        )
    return TargetSpec(str(told.text), kind, Path(path) if path else None, told.module, told.name, told.call)


def _variables(user: Mapping[str, str], made: Mapping[str, str]) -> dict[str, str]:
    apart = {DUMP, JIT_LOG, *made, *os.environ}
    return {
        name: value
        for name, value in user.items()
        if name not in apart and MASK not in value and catalogue.is_kept(name)
    }
