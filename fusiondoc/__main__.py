"""``fusiondoc`` and ``python -m fusiondoc``: the entry point. The work is done in
``cli/__init__.py``."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from typing import Any, NoReturn


def main() -> None:
    """Run the command line and exit with the status of the contract."""
    # A report has very many objects that live long and form no cycles. With
    # Python's default of a collection every 700 allocations, the collector takes a
    # tenth of the time for a long log.
    gc.set_threshold(200_000, 20, 20)
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from fusiondoc.version import __version__

        # Worded as click does it, without importing click. If nothing can be
        # written, the command line reports it.
        with contextlib.suppress(OSError):
            print(f"fusiondoc, version {__version__}", flush=True)
            return
    before = _interrupts_end_at_once()
    from fusiondoc.cli import main as run

    try:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        run()
    except KeyboardInterrupt:
        _end_now()
    finally:
        gc.freeze()  # when Python ends it looks for cycles once more, in the whole report


def _interrupts_end_at_once() -> Any:
    """Let Ctrl-C end the process at once while the command line is imported:
    nothing has to be cleaned up, and an exception would show a traceback of the
    import. Return the former handler, or None if nothing was changed."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return None  # ignored (nohup), or somebody else's
    with contextlib.suppress(ValueError):  # not in the main thread
        return signal.signal(signal.SIGINT, lambda number, frame: _end_now())
    return None


def _end_now() -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
