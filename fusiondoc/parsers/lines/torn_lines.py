"""Lines of torch in a log that several processes write, torn apart by lines of another one."""

from __future__ import annotations

import re
from typing import Iterator

from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.tagged_lines import TaggedLog

_MARK = rb"\[(?:DUMP|UPDATE|DEBUG) [\w.+-]+:\d+\]"
_TORN = re.compile(_MARK + rb"[^\n]*?" + _MARK)
"""torch begins every line of a message with its mark, and writes none anywhere else."""


def torn_lines(log: LogInput) -> Iterator[int]:
    """Numbers of lines in which a second message begins; where only the rest of one does, nothing tells."""
    number = 1
    for _, text in TaggedLog(log).stretches():
        done = 0
        for found in _TORN.finditer(text):
            number += text.count(b"\n", done, found.start())
            done = found.start()
            yield number
        number += text.count(b"\n", done)
