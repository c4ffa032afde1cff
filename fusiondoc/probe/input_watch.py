"""The inputs of a program beside its arguments: the files that it reads, the
modules that it imports, and whether it goes beyond them.

Python reports each file that it opens, each folder that it lists, and each process
and connection to audit hooks (PEP 578, Python 3.8). Files of Python, of torch and
of other installed packages are left out: which packages are installed stands
elsewhere. A file that the program wrote itself is no input.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
import sysconfig
import tempfile
from typing import Any, Dict, List, Set, Tuple

_LISTS = ("os.listdir", "os.scandir", "glob.glob", "glob.glob/2")
_BEYOND = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "socket.connect",
    "ctypes.dlopen",
    "urllib.Request",
    "sqlite3.connect",
    "mmap.__new__",
)
_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")
_NATIVE_READERS = ("safetensors", "h5py", "onnx", "sentencepiece", "pyarrow", "cv2")
"""Packages that open files without Python, where no hook sees it."""


def _folders_of_python() -> Tuple[str, ...]:
    """The folders of the standard library, with a separator at their ends."""
    found = {os.path.dirname(os.__file__)}
    found.update(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
    return tuple(sorted(os.path.realpath(folder) + os.sep for folder in found))


class InputWatch:
    """Watches from its start to the end of the process.

    Args:
        own: fusiondoc's own folders: the probe's and the capture's.
    """

    def __init__(self, own: Tuple[str, ...]) -> None:
        self._python = _folders_of_python()
        self._own = tuple(os.path.realpath(folder) + os.sep for folder in own)
        beginning = re.escape(os.path.join(tempfile.gettempdir(), "torch"))
        self._of_compilers = re.compile(
            beginning + r"[a-z]+_%s/" % re.escape(getpass.getuser())
        )
        self._opened: Set[str] = set()
        self._written: Set[str] = set()
        self._listed: Set[str] = set()
        self._imported: Set[str] = set()
        self._beyond: Set[str] = set()
        self._ended = False

    def start(self) -> None:
        """Start watching; a hook cannot be removed again."""
        add = getattr(sys, "addaudithook", None)
        if add is None:
            self._beyond.add(
                "Python %d.%d does not report them" % sys.version_info[:2]
            )
            return
        add(self._event)

    def _event(self, name: str, arguments: Any) -> None:
        if self._ended:
            return
        if name == "open":
            self._open(arguments)
        elif name == "import":
            self._imported.add(str(arguments[0]).split(".")[0])
        elif name in _LISTS:
            if self._by_program():
                self._listed.add(name)
        elif name in _BEYOND and self._by_program():
            self._beyond.add(name)

    def _open(self, arguments: Any) -> None:
        path, mode, flags = arguments[0], arguments[1], arguments[2]
        if isinstance(path, int):
            return
        name = os.path.abspath(os.fsdecode(path))
        writes = (
            mode is not None and any(letter in mode for letter in "wax+")
        ) or (
            mode is None
            and isinstance(flags, int)
            and flags & (os.O_WRONLY | os.O_RDWR)
        )
        (self._written if writes else self._opened).add(name)

    def _by_program(self) -> bool:
        """True if the program itself does it, and not a package for its own
        purposes."""
        frame: Any = sys._getframe(2)
        library = os.path.dirname(os.__file__) + os.sep
        while frame is not None:
            file = frame.f_code.co_filename
            if "-packages" + os.sep in file or file.startswith("<frozen importlib"):
                return False
            if not file.startswith((library, "<")):
                return not os.path.realpath(file).startswith(self._own)
            frame = frame.f_back
        return False

    def found(self) -> Dict[str, List[str]]:
        """Return all inputs seen: files, names of imported modules, and inputs that
        are no files."""
        self._ended = True
        files = set()
        for path in self._opened - self._written:
            if self._is_input(path):
                files.add(path)
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and self._is_input(os.path.abspath(file)):
                files.add(os.path.abspath(file))
        beyond = self._beyond | self._listed
        for name in _NATIVE_READERS:
            if name in sys.modules:
                beyond.add("%s is imported" % name)
        names = self._imported | {name.split(".")[0] for name in sys.modules}
        entries = []
        for folder in sys.path:
            if os.path.isdir(folder):
                entries.append(os.path.abspath(folder))
        return {
            "files": sorted(files),
            "names": sorted(names),
            "folders": sorted(
                {
                    folder
                    for folder in entries
                    if self._is_input(os.path.join(folder, "module"))
                }
            ),
            "packages": sorted(
                {folder for folder in entries if folder.endswith("-packages")}
            ),
            "beyond": sorted(beyond),
        }

    def _is_input(self, path: str) -> bool:
        if (
            path.startswith(_OF_THE_SYSTEM)
            or path.endswith(".pyc")
            or self._of_compilers.match(path)
        ):
            return False
        real = os.path.realpath(path)
        return "-packages" + os.sep not in real and not real.startswith(
            self._python + self._own
        )
