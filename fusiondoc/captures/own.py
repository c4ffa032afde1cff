"""Which captures this user made here: known by a signature whose key lies outside every capture.

A capture that came from somebody else says which interpreter, program and variables to run again; so it is
run again only if its request was signed with the key of this user, or if the user trusts it by name.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

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
