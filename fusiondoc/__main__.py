"""``fusiondoc`` and ``python -m fusiondoc``: where the process starts. What it does is in
``cli/__init__.py``.
"""

from __future__ import annotations

import contextlib
import gc
import sys


def main() -> None:
    """Run the command line and exit with the status of the contract."""
    # A report is very many objects that stay and form no cycles: at every 700 allocations, as is usual, the
    # collector takes a tenth of the time of a long log.
    gc.set_threshold(50_000, 20, 20)
    if sys.argv[1:] == ["--version"]:
        from fusiondoc.version import __version__

        # As click words it, without importing click. Where nothing can be written, the command line says so.
        with contextlib.suppress(OSError):
            print(f"fusiondoc, version {__version__}", flush=True)
            return
    from fusiondoc.cli import main as run

    try:
        run()
    finally:
        gc.freeze()  # when Python ends it looks for cycles once more, in the whole report


if __name__ == "__main__":
    main()
