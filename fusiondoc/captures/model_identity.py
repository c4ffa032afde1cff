"""The name of a run's model, by which runs on many machines and days are recognised
as runs of one model. It is the label that the user gave (``--model-name``,
``model-name`` in the configuration), else ``PROJECT/PATH:ENTRY``: where the file of
the model is in its project, with the name of that project, which is the same in
every checkout: ``team/shop/resnet/model.py:Net`` for ``resnet/model.py`` of a clone
of ``git@host:team/shop.git``, whatever folder that clone is in. A file of no
project is known by the path that the user named. The name of the file alone is
never
enough: many models are called ``model.py``.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from fusiondoc.captures.request import ARCHIVE_ENDINGS, KeptTarget, TargetSpec
from fusiondoc.captures.trust import project_root
from fusiondoc.errors import UsageError
from fusiondoc.masking import masked
from fusiondoc.whole_files import read_within

MOST_NAME = 200
"""Most characters of a label."""
USUAL_ENTRY = "model"
"""Name in a file that is run if the target names none."""

_HERE = ("", ".")


def check_model_name(text: str) -> str:
    """Return the label with its white space normalised.

    Raises:
        UsageError: it is empty, too long, or holds characters that cannot be
            printed.
    """
    label = " ".join(text.split())
    if not label or len(label) > MOST_NAME or not label.isprintable():
        raise UsageError(
            f"--model-name {text[:40]!r}: 1 to {MOST_NAME} printable characters are needed",
            "For example: --model-name resnet50-train",
        )
    return label


def model_of(target: TargetSpec | KeptTarget, cwd: Path) -> str | None:
    """Return the model's name for a target, equal on all machines that have its
    project.

    Args:
        cwd: the folder in which it runs, from which modules are imported.
    """
    entry = _entry(target.name, target.call)
    if target.path:
        return of_file(Path(target.path), entry, target.text or "", cwd)
    if target.module:
        file = cwd.joinpath(*target.module.split(".")).with_suffix(".py")
        name = target.module + entry
        if file.is_file():
            return of_file(file, entry, name, cwd)
        return of_name(name, cwd)
    if target.text:
        return of_name(target.text, cwd)
    return None


def of_file(file: Path, entry: str, text: str, cwd: Path) -> str:
    """Return the name of a target in a file.

    Args:
        entry: the text after the name of the file, such as ``:Net``.
        text: the target as the user wrote it.
    """
    real = Path(os.path.realpath(file))
    root = _project(real.parent)
    if root is None:
        return recorded_model(text or str(file) + entry, str(cwd))
    return masked(
        f"{_name_of_project(root)}/{real.relative_to(root).as_posix()}{entry}"
    )


def of_name(name: str, cwd: Path) -> str:
    """The name of a target that is a module, in the folder in which it runs."""
    folder = Path(os.path.realpath(cwd))
    root = _project(folder)
    if root is None:
        return recorded_model(name, str(cwd))
    below = folder.relative_to(root).as_posix()
    inside = name if below in _HERE else f"{below}/{name}"
    return masked(f"{_name_of_project(root)}/{inside}")


def recorded_model(name: str, folder: str | None) -> str:
    """The model's name for a target whose project is not known: its path below the
    folder in which it ran; a name without folders is prefixed with that
    folder's. Args: folder: the folder in which it ran, if known.
    """
    path = name.replace("\\", "/")
    above = (folder or "").replace("\\", "/").rstrip("/")
    if path.endswith(f".py:{USUAL_ENTRY}"):
        path = path[: -len(USUAL_ENTRY) - 1]
    if above and path.startswith(above + "/"):
        path = path[len(above) + 1 :]
    if not path.startswith("../"):
        path = str(PurePosixPath(path))
    last = above.rpartition("/")[2]
    if "/" not in path and last not in _HERE and not _in_package(path):
        path = f"{last}/{path}"
    return masked(path)


def _in_package(name: str) -> bool:
    """True for ``package.module`` or a name in it, False for a file."""
    module = name.partition(":")[0]
    return _MODULE.match(module) is not None and not module.endswith(
        (".py", *ARCHIVE_ENDINGS)
    )


_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+\Z")


def _entry(name: str | None, call: str | None) -> str:
    if name is None or (name == USUAL_ENTRY and not call):
        return ""
    return f":{name}{call or ''}"


def _project(folder: Path) -> Path | None:
    """The top folder of the repository that a folder is in, else of its project;
    None if there is neither. A user's home folder is no project."""
    home = Path(os.path.realpath(Path.home()))
    for parent in (folder, *folder.parents):
        if parent in (home, *home.parents):
            break
        if (parent / ".git").exists():
            return parent
    root = project_root(folder)
    marked = any(
        (root / name).exists()
        for name in ("pyproject.toml", "setup.cfg", "setup.py", ".hg")
    )
    if marked:
        return root
    return None


def _name_of_project(root: Path) -> str:
    """The project's name: the same for all its checkouts if the repository has a
    remote or the project a name."""
    return _of_remote(root) or _of_pyproject(root) or root.name or "project"


def _of_remote(root: Path) -> str | None:
    """``team/shop`` from the address of the remote that a repository was cloned
    from: its ``origin``, else its only one. The configuration is read as a file,
    since git would start programs that somebody else's configuration names."""
    parser = configparser.RawConfigParser(
        strict=False, allow_no_value=True, delimiters=("=",)
    )
    try:
        parser.read_string(_read(_git_folder(root) / "config"))
    except (OSError, configparser.Error):
        return None
    remotes = []
    for section in parser.sections():
        if _REMOTE.match(section):
            remotes.append(section)
    if 'remote "origin"' in remotes:
        chosen = 'remote "origin"'
    elif len(remotes) == 1:
        chosen = remotes[0]
    else:
        chosen = None
    url = parser.get(chosen, "url", fallback=None) if chosen is not None else None
    if url:
        return name_of_remote(url)
    return None


_REMOTE = re.compile(r'remote "[^"]+"\Z')


def _git_folder(root: Path) -> Path:
    """Return the folder that has the configuration; for a worktree, that of the
    repository it belongs to.

    Raises:
        OSError: a file with the path of the folder cannot be read.
    """
    git = root / ".git"
    if git.is_dir():
        return git
    content = _read(git).strip()
    if content.startswith("gitdir:"):
        folder = root / content[len("gitdir:") :].strip()
    else:
        folder = git
    with contextlib.suppress(OSError):
        return folder / _read(folder / "commondir").strip()
    return folder


def _read(file: Path) -> str:
    return read_within(file, 1 << 20).decode("utf-8", "replace")


def name_of_remote(url: str) -> str | None:
    """The path of a repository on its host (``team/shop``), which is the same for
    every protocol; for a repository in a folder its name alone, since machines
    mount it in different folders."""
    text = url.strip().replace("\\", "/").rstrip("/")
    text = text[: -len(".git")] if text.endswith(".git") else text
    by_protocol = re.match(
        r"(?P<protocol>[a-z][a-z0-9+.-]*)://[^/]*/(?P<path>.+)\Z",
        text,
        re.IGNORECASE,
    )
    by_ssh = re.match(r"[^/:]{2,}:(?P<path>.+)\Z", text)  # one letter is a drive
    if by_protocol is not None and by_protocol["protocol"].lower() != "file":
        path = by_protocol["path"]
    elif by_protocol is None and by_ssh is not None:
        path = by_ssh["path"]
    else:
        path = text.rpartition("/")[2]
    return path.strip("/") or None


def _of_pyproject(root: Path) -> str | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data: Any = tomllib.loads(_read(root / "pyproject.toml"))
        name = data.get("project", {}).get("name") or data.get("tool", {}).get(
            "poetry", {}
        ).get("name")
    except (OSError, ValueError, RecursionError, AttributeError):
        return None
    if isinstance(name, str) and name.isprintable():
        return name
    return None
