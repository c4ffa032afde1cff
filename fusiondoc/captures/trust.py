"""Which parts of a capture are trusted: which of its files may be read, and whether
its run may be repeated, as the user's own.

A capture from somebody else names the interpreter, program and variables of its
run. No statement in the capture about its origin counts. Either its request was
signed here with the key of this user, which lies outside captures; or the user was
shown the command that would run, and passes the code of exactly that command, made
with the same key, so that nobody else can know it. A run from an archive is never
repeated.

A log may name any file, and a report shows lines of the files that it names. So
only Python files of the project are read: below the project's folder or a folder
that the user names, never through a link out of it. Copies of packages' files are
kept only by a run, and only from the package folder of its own interpreter.

A fuser that can write its kernels to files writes ``__tmp_kernel1.cu``, ``.ptx``,
``.cubin`` and ``segmented_fusion1.dot``. It prints ``PRINTING: __tmp_kernel1.cu``
for each but the last kind (seen on torch 2.1.2; for others by the strings in the
binaries of 1.11 to 2.0). If a run requests them, they are moved into its capture.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import shlex
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fusiondoc.captures.capture import REQUEST, Capture
from fusiondoc.captures.request import (
    KeptRequest,
    KeptTarget,
    RunRequest,
    TargetSpec,
)
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import UsageError
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fuser_knobs.checks import DUMP, JIT_LOG
from fusiondoc.masking import MASK
from fusiondoc.model import dataclass
from fusiondoc.whole_files import open_regular, read_within

SIGNATURE = "signature"
"""The file in a capture that holds the signature."""

_KEY = "captures.key"


def user_folder() -> Path:
    """The folder for this user's files of fusiondoc: $FUSIONDOC_CACHE, or
    ``fusiondoc`` in $XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("FUSIONDOC_CACHE")
    if own:
        return Path(own)
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "fusiondoc"
    )


def sign(capture: Path, request: str) -> None:
    """Sign the file with the request. Without a folder for a key nothing is signed:
    the capture then needs the user's consent to be run again."""
    with contextlib.suppress(OSError):
        (capture / SIGNATURE).write_text(
            _digest(_key(make=True), capture / request), encoding="ascii"
        )


def is_own(capture: Path, request: str) -> bool:
    """True if this user called ``sign`` for this very request."""
    try:
        for name in (SIGNATURE, request):
            if not stat.S_ISREG((capture / name).lstat().st_mode):
                return False
        recorded = read_within(capture / SIGNATURE, 200)
        return hmac.compare_digest(
            recorded, _digest(_key(make=False), capture / request).encode("ascii")
        )
    except OSError:
        return False


def _digest(key: bytes, file: Path) -> str:
    return hmac.new(key, read_within(file), hashlib.sha256).hexdigest()


_CODE_LENGTH = 12
"""Hexadecimal digits: 48 bits, for which somebody without the key has one try, on
the user's command line."""


def _code_to_run(capture: Path) -> str | None:
    """The user's consent to run a capture of somebody else: a code of this very
    request, made with the key of this user. None if no key can be kept."""
    try:
        content = read_within(capture / REQUEST)
        return hmac.new(
            _key(make=True), b"run again\0" + content, hashlib.sha256
        ).hexdigest()[:_CODE_LENGTH]
    except OSError:
        return None


def _key(make: bool) -> bytes:
    """The key of this user, created when first needed. OSError if there is none, or
    it is too short."""
    path = user_folder() / _KEY
    if make and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            handle = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
    key = read_within(path, 1 << 10)
    if len(key) < 32:
        raise OSError(f"{path} is cut off")
    return key


def refuse_foreign(
    arguments: Sequence[str], store: CaptureStore, option: str
) -> None:
    """Check that every argument is a capture of ``store``, as its folder or its
    log; no argument is the newest capture.

    Args:
        option: the option that would run files, for the message.

    Raises:
        UsageError: one of them is another log, which anybody may have written.
    """
    own = set()
    for path in store.paths():
        if not (path / "log").is_symlink() and is_own(path, REQUEST):
            for candidate in (path, path / "log"):
                own.add(candidate.resolve())
    for argument in arguments or [str(store.newest().path)]:
        if argument == "-" or Path(argument).resolve() not in own:
            raise UsageError(
                f"{option} runs files made from {argument}, which is not a capture of yours in "
                f"{store.folder}: somebody else may have written it",
                f"Leave {option} out and look at the file; if you trust who made the log, add --trust-log.",
            )


def request_again(
    capture: Capture,
    dumps: Sequence[str],
    command: Sequence[str] = (),
    *,
    code: str | None = None,
) -> RunRequest:
    """The request of ``capture``, with these dumps and without ``--verify``.
    Variables of torch that the user had set then and has not set now are set again,
    except those that request logs and dumps.

    Args: code: the code that the user was shown for a capture of somebody else, and
        passes to permit its run.

    Raises:
        UsageError: its target, folder or request is gone, or somebody else made it.
    """
    if capture.from_archive or capture.request.bundled:
        raise UsageError(
            f"'{capture.name}' came in a bundle, which is read only and never run",
            "Name the target to run it yourself: fusiondoc kernels TARGET --dump NAME",
        )
    if not is_own(capture.path, REQUEST):
        _must_be_allowed(capture, code)
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
            f"'{capture.name}' ran in {folder}, which is gone",
            "Name the target to run it from here.",
        )
    options = {}
    for name, value in vars(request.options).items():
        if value is not None:
            options[name] = value
    options.update(dumps=tuple(dumps), verify=False)
    return RunRequest(
        target=target,
        python=Path(request.python or "python"),
        cwd=folder,
        variables=_variables(request.environment_user, request.environment_set),
        command=tuple(command),
        model=request.model,
        **options,
    )


_MOST_SHOWN = 2000
"""Most characters of the code to run that are shown: nobody reads more."""


def _must_be_allowed(capture: Capture, code: str | None) -> None:
    """Refuse a capture of somebody else, unless the user gives the code of exactly
    its request."""
    requested = _requested_command(capture.request)
    right = _code_to_run(capture.path) if len(requested) <= _MOST_SHOWN else None
    if (
        right is not None
        and code is not None
        and hmac.compare_digest(code.encode(), right.encode())
    ):
        return
    hint = (
        "Name the target to run it yourself: fusiondoc kernels TARGET --dump NAME"
    )
    if right is not None:
        hint += f". To run exactly this: --trust-capture {right}"
    raise UsageError(
        f"'{capture.name}' was not made here by you, so the program that it names is not run"
        + (f". That is: {requested}" if right is not None else ""),
        hint,
    )


def _requested_command(request: KeptRequest) -> str:
    """The command of a request in shell syntax, with the programs that really
    run."""
    target = request.target
    name = f":{target.name}" if target.name else ""
    words = [
        request.python or "python",
        f"{target.path or target.module}{name}{target.call or ''}",
    ]
    options = request.options
    return f"{shlex.join([*words, *options.script_args])} in {shlex.quote(request.cwd or '.')}"


def _target(recorded: KeptTarget, capture: Capture) -> TargetSpec:
    kind, path = recorded.kind, recorded.path
    if kind not in ("file", "module", "archive") or (kind != "module") != bool(
        path
    ):
        raise UsageError(
            f"'{capture.name}' does not name its target",
            "Name the target: fusiondoc kernels TARGET",
        )
    if path and not Path(path).is_file():
        raise UsageError(
            f"{path} is gone, so '{capture.name}' cannot run again",
            "Name its target where it is now.",
        )
    return TargetSpec(
        str(recorded.text),
        kind,
        Path(path) if path else None,
        recorded.module,
        recorded.name,
        recorded.call,
    )


def _variables(user: Mapping[str, str], made: Mapping[str, str]) -> dict[str, str]:
    apart = {DUMP, JIT_LOG, *made, *os.environ}
    variables = {}
    for name, value in user.items():
        if name not in apart and MASK not in value and catalogue.is_kept(name):
            variables[name] = value
    return variables


SOURCES = "sources"
INDEX = "index.json"

MOST_BYTES = 1 << 20
"""Most bytes of a file that is kept; larger files are left out."""

MOST_BYTES_IN_ALL = 5 << 20


_PROJECT = ("pyproject.toml", "setup.cfg", "setup.py", ".git", ".hg")
"""Files and folders, at least one of which is in the top folder of a project."""


def project_root(folder: Path) -> Path:
    """Return the project of ``folder``: the folder itself or the nearest one above
    it that has a file marking a project. The user's home and folders above it do
    not count; without any, return the folder itself."""
    folder = Path(os.path.realpath(folder))
    home = Path(os.path.realpath(Path.home()))
    for parent in (folder, *folder.parents):
        if parent in (home, *home.parents):
            break
        if any((parent / mark).exists() for mark in _PROJECT):
            return parent
    return folder


@dataclass(frozen=True)
class PackageFiles:
    """Files of installed packages that a log names, and the folder that they must
    be in: that of the interpreter which ran the program, not one that the log
    names."""

    names: frozenset[str] = frozenset()
    folder: Path | None = None


def keep_sources(
    capture: Path,
    files: Iterable[str],
    cwd: Path,
    roots: Sequence[Path] = (),
    packages: PackageFiles = PackageFiles(),
) -> None:
    """Copy the Python files of these names (as the log has them, relative to
    ``cwd``) into the capture: those of the project of ``cwd`` and those below
    ``roots``; then, while there is room, those of packages.

    ``index.json`` beside them has name -> copy. Files that cannot be read or
    written are left out: a report works without them.
    """
    index: dict[str, str] = {}
    size = 0
    folder = capture / SOURCES
    allowed = (project_root(cwd), *roots)
    installed = (packages.folder,) if packages.folder is not None else ()
    mine = set(files)
    wanted = [(name, allowed) for name in sorted(mine)]
    wanted += [(name, installed) for name in sorted(packages.names - mine)]
    for name, below in wanted:
        data = read_source(cwd / name, below)
        if data is None or size + len(data) > MOST_BYTES_IN_ALL:
            continue
        try:
            folder.mkdir(exist_ok=True)
            copy = f"{len(index)}.py"
            (folder / copy).write_bytes(data)
        except OSError:
            break
        index[name] = copy
        size += len(data)
    if index:
        try:
            (folder / INDEX).write_text(
                json.dumps(index, indent=1) + "\n", encoding="utf-8"
            )
        except OSError:
            return


def kept_source(capture: Path, name: str) -> str | None:
    """The copy of a file that ``keep_sources`` made; None without one, or if the
    capture is damaged."""
    folder = capture / SOURCES
    try:
        index = json.loads(read_within(folder / INDEX))
    except (OSError, ValueError, RecursionError):
        return None
    copy = index.get(name) if isinstance(index, dict) else None
    if not isinstance(copy, str) or Path(copy).name != copy:
        return None
    data = read_source(folder / copy, (folder,))
    if data is None:
        return None
    return text_of(data)


def read_source(path: Path, roots: Sequence[Path]) -> bytes | None:
    """Read a regular Python file of at most a megabyte that is below one of
    ``roots`` after resolving all links; None for anything else."""
    try:
        real = Path(os.path.realpath(path))
        inside = any(Path(os.path.realpath(root)) in real.parents for root in roots)
        if real.suffix != ".py" or not inside:
            return None
        return read_within(real, MOST_BYTES)
    except (OSError, ValueError, RuntimeError):
        return None


def text_of(data: bytes) -> str:
    return (
        data.decode("utf-8-sig", "replace")
        .replace("\r\n", "\n")
        .replace("\r", "\n")
    )


DUMP_FILES = "files"
OPTIONS = {
    "cuda_to_file": ".cu",
    "debug_info": ".cu",
    "ptx": ".ptx",
    "cubin": ".cubin",
}
"""Dumps that write files -> the extension of these."""

_DRAWING, _DRAWINGS = "draw_segmented_fusion", "segmented_fusion*.dot"
"""A dump whose files no line of the log names."""

_PRINTING = re.compile(rb"PRINTING: (__tmp_\w+)(\.\w+)")
_SLACK = 2.0
"""Seconds by which the clock of a file system may lag."""


def collect(capture: Capture) -> list[Path]:
    """Move files into the capture if they were requested, are named in the log, and
    were written since the run began."""
    requested = capture.request.options.dumps
    endings = set()
    for name in requested:
        if name in OPTIONS:
            endings.add(OPTIONS[name])
    if not endings and _DRAWING not in requested:
        return []
    here = Path(capture.request.cwd or ".")
    names = _named(capture.log_path) if endings else set()
    if _DRAWING in requested:
        endings.add(".dot")
        names |= {path.name for path in here.glob(_DRAWINGS)}
    began = (capture.path / "request.json").stat().st_mtime - _SLACK
    moved = []
    for name in sorted(names):
        path = here / name
        with contextlib.suppress(OSError):
            if (
                path.suffix in endings
                and not path.is_symlink()
                and path.stat().st_mtime >= began
            ):
                folder = capture.path / DUMP_FILES
                folder.mkdir(exist_ok=True)
                moved.append(Path(shutil.move(str(path), str(folder / name))))
    return moved


def texts(capture: Capture) -> dict[str, list[tuple[str, str]]]:
    """Kernel -> (dump, text) of the files in the capture; binary ones are left
    out."""
    found: dict[str, list[tuple[str, str]]] = {}
    for option in capture.request.options.dumps:
        if option not in OPTIONS:
            continue
        for path in sorted(
            (capture.path / DUMP_FILES).glob(f"__tmp_*{OPTIONS[option]}")
        ):
            with open_regular(path) as file:
                data = file.read()
            if b"\0" not in data.rstrip(b"\0"):
                text = data.rstrip(b"\0").decode("utf-8", "replace")
                found.setdefault(path.stem[len("__tmp_") :], []).append(
                    (option, text)
                )
    return found


def _named(log: Path) -> set[str]:
    names = set()
    with contextlib.suppress(OSError), open_regular(log) as lines:
        for line in lines:
            found = _PRINTING.search(line) if b"PRINTING: " in line else None
            if found is not None:
                names.add((found.group(1) + found.group(2)).decode("ascii"))
    return names
