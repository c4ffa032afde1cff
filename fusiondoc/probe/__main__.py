"""The start of the probe: ``python .../probe/__main__.py SPEC.json RECORDS.jsonl``;
or, with ``--serve DESCRIPTOR RUNNER``, of a server from which probes start as forks
(``fork_server.py``).

Any Python since 2.7 can parse it, so that one that is too old gets a clear message.
The probe's folder leaves ``sys.path`` and its files load as the private package
``_fusiondoc_probe``: a user's ``targets.py`` or ``models.py`` is never shadowed.
"""

import os
import sys
import time

PACKAGE = "_fusiondoc_probe"


def load(name):  # type: ignore[no-untyped-def]
    """Load a module of the probe, in a package that no user's ``import`` can
    find."""
    import importlib
    import importlib.util

    if PACKAGE in sys.modules:
        return importlib.import_module(PACKAGE + "." + name)
    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == folder:
        del sys.path[0]
    spec = importlib.util.spec_from_file_location(
        PACKAGE,
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    return importlib.import_module(PACKAGE + "." + name)


if __name__ == "__main__":
    if sys.version_info < (3, 7):
        sys.stderr.write(
            "fusiondoc: Python 3.7 or newer is needed, this is %s\n"
            % sys.version.split()[0]
        )
        sys.exit(2)
    end = sys.exit
    if sys.argv[1] == "--serve":
        server = load("fork_server")  # type: ignore[no-untyped-call]
        sys.argv[1:] = server.serve(int(sys.argv[2]), sys.argv[3])
        end = server.end
    started = time.perf_counter()
    end(load("actions").main(sys.argv[1], sys.argv[2], started))  # type: ignore[no-untyped-call]
