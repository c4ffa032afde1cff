"""Where the captures of a test go."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from fusiondoc.captures.store import cannot_write


def folder_name(nodeid: str) -> str:
    """A name for the folder of a test, readable and different for each: ``test_a.py-test_fused-1c291ca3``."""
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", nodeid.rpartition("/")[2]).strip("-.")[:80]
    return f"{readable}-{zlib.crc32(nodeid.encode('utf-8', 'replace')):08x}"


def numbered_folder(folder: Path, slug: str) -> Path:
    """A new folder ``1-name``, ``2-name`` ... for each run: the model is written into it before the run, and
    the run puts its capture there too, so the two stay together.

    Raises:
        UsageError: it cannot be written.
    """
    number = 0
    while True:
        number += 1
        path = folder / f"{number}-{slug}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise cannot_write(error, path) from None
