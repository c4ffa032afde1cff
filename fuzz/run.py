"""Fuzz one target under atheris: ``python fuzz/run.py TARGET [OPTIONS OF
LIBFUZZER]``.

``pip install atheris`` first (CPython 3.11 to 3.13 on Linux). A crash is written to
``crash-*`` in the current folder: put it into fuzz/corpus/TARGET/ with the fix.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

with atheris.instrument_imports(include=["fusiondoc"]):
    from targets import TARGETS


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(
            f"usage: python fuzz/run.py {{{','.join(TARGETS)}}} [-max_total_time=600 ...]"
        )
    name = sys.argv.pop(1)
    # New inputs go to the first folder, so that the corpus of the repository stays
    # small.
    sys.argv[1:] = [*sys.argv[1:], tempfile.mkdtemp(), str(HERE / "corpus" / name)]
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
