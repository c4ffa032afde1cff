"""What was dumped of kernels, as one file a kernel and dump, with an index."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Sequence

from fusiondoc.errors import UsageError
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import Dump, Evidence, Group, Kernel, Report
from fusiondoc.model.typed_fields import as_json
from fusiondoc.reports.json_format import as_dict
from fusiondoc.reports.text.kernel_listing import chosen, ending, narrowed, render
from fusiondoc.whole_files import read_within, write_whole

SCHEMA = "fusiondoc.kernels/1"
INDEX = "index.json"
TABLE = "index.txt"


@dataclass(frozen=True)
class SavedDump:
    """A file, as the index names it."""

    file: str
    kernel: str
    name: str
    """Of the kernel, as the fuser calls it."""
    dump: str
    groups: tuple[str, ...]
    sources: tuple[str, ...]
    """Lines of the program whose operators are in the groups."""
    evidence: tuple[Evidence, ...]


def save(report: Report, kernels: Sequence[Kernel], options: Sequence[str], folder: Path) -> list[Path]:
    """Write the dumps of these kernels into ``folder``; returns the files.

    ``index.json`` names each file with its kernel, groups, dump and lines of the log; ``index.txt`` is the
    table.
    Files of an earlier ``save`` are written over or removed, if nobody has changed them since.

    Raises:
        UsageError: a file that is not one of those stands in the way, or the folder cannot be written.
    """
    files: dict[str, bytes] = {}
    rows: list[SavedDump] = []
    groups = {group.id: group for group in report.groups}
    for kernel in kernels:
        for dump in chosen(kernel, options):
            name = _file_name(kernel, dump, files)
            text = dump.text if dump.text.endswith("\n") else dump.text + "\n"
            files[name] = text.encode("utf-8", "backslashreplace")
            rows.append(_row(name, kernel, dump, groups))
    files[TABLE] = _table(report, kernels, rows).encode("utf-8", "backslashreplace")
    shown = as_dict(narrowed(report, kernels, ()))["kernels"]
    content = {
        "schema": SCHEMA,
        "target": report.target.name,
        "files": [as_json(row) for row in rows],
        "kernels": [{key: value for key, value in one.items() if key not in _TEXTS} for one in shown],
        "sha256": {name: sha256(data).hexdigest() for name, data in files.items()},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        old = _own_files(folder)
        for name in (*files, INDEX):
            if (folder / name).exists() and name not in old:
                raise _foreign(folder / name)
        for name in old:
            if name not in files and name != INDEX:
                (folder / name).unlink()
        for name, data in files.items():
            write_whole(folder / name, data)
        index = json.dumps(content, indent=1) + "\n"
        write_whole(folder / INDEX, index.encode("utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot save into {folder}: {error.strerror}", "Choose another folder with --save."
        ) from None
    return [folder / name for name in (*files, INDEX)]


_TEXTS = ("code", "dumps")


def _row(name: str, kernel: Kernel, dump: Dump, groups: dict[str, Group]) -> SavedDump:
    nodes = [node for one in kernel.groups if one in groups for node in groups[one].nodes]
    sources = {node.user_source or node.source or "" for node in nodes} - {""}
    evidence = tuple(Evidence(one.file, one.line) for one in dump.evidence)
    return SavedDump(
        name, kernel.id, kernel.name, dump.option, tuple(kernel.groups), tuple(sorted(sources)), evidence
    )


def _file_name(kernel: Kernel, dump: Dump, taken: dict[str, bytes]) -> str:
    """``K1-kernel1.cuda_kernel.cu``. Names of kernels come from a log: only plain characters stay."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", kernel.name)[:60]
    option = re.sub(r"[^A-Za-z0-9_]+", "_", dump.option)[:40]
    end = ending(dump.option)
    stem = f"{kernel.id}-{plain}" + ("" if end == f".{option}" else f".{option}")
    name, number = stem + end, 1
    while name in taken:
        number += 1
        name = f"{stem}.{number}{end}"
    return name


def _table(report: Report, kernels: Sequence[Kernel], rows: Sequence[SavedDump]) -> str:
    text = render(report, kernels, (), width=120)
    files = "\n".join(f"{row.file}  {row.kernel} {row.name}, {row.dump}" for row in rows)
    return f"{text.rstrip()}\n\nFiles\n{files or 'none'}\n"


def _own_files(folder: Path) -> set[str]:
    """The files there that an earlier ``save`` wrote and that are as it wrote them."""
    try:
        index = json.loads(read_within(folder / INDEX))
    except FileNotFoundError:
        return set()
    except (ValueError, RecursionError):
        raise _foreign(folder / INDEX) from None
    sums = index.get("sha256") if isinstance(index, dict) and index.get("schema") == SCHEMA else None
    if not isinstance(sums, dict):
        raise _foreign(folder / INDEX)
    own = {INDEX}
    for name, known in sums.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            continue
        if sha256(path.read_bytes()).hexdigest() != known:
            raise _foreign(path, "was changed since fusiondoc saved it")
        own.add(name)
    return own


def _foreign(path: Path, why: str = "already exists, and fusiondoc did not write it") -> UsageError:
    return UsageError(f"{path} {why}", "Save into another folder, or move the file away.")
