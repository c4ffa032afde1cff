"""Files that Inductor writes for a graph: of a ``torch_compile_debug`` folder
(TORCH_COMPILE_DEBUG=1; ``torch/_inductor/debug.py``, 2.11 and 2.13), and the
modules of its cache."""

from __future__ import annotations

from pathlib import Path

from fusiondoc.whole_files import open_regular

DEBUG_FILES = frozenset(
    (
        "output_code.py",
        "fx_graph_transformed.py",
        "ir_post_fusion.txt",
        "inductor_provenance_tracking_node_mappings.json",
    )
)
"""Files of a ``torch_compile_debug`` folder that are read."""

MODULE = b"# AOT ID: ['"
"""The start of a generated module, after empty lines."""


def is_debug_file(path: Path) -> bool:
    """True if a file is one that Inductor writes for a graph, by its name, or a
    generated module."""
    packed = path.suffix.lower() in (".gz", ".xz", ".bz2", ".zst")
    if (path.stem if packed else path.name) in DEBUG_FILES:
        return True
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        with open_regular(path) as file:
            return file.read(200).lstrip().startswith(MODULE)
    except OSError:
        return False
