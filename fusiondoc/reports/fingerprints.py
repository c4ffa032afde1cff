"""Names of findings that stay the same from run to run, so that a service can tell old from new."""

from __future__ import annotations

import hashlib
import re
from typing import Sequence

from fusiondoc.reports.locations import Problem


def fingerprints(problems: Sequence[Problem]) -> list[str]:
    """One for each, all different. Made of code, file and message without numbers, not of the line: code that
    moves keeps its findings. Equal ones are numbered in order."""
    seen: dict[str, int] = {}
    found = []
    for problem in problems:
        file = problem.location.file if problem.location else ""
        text = "\0".join((problem.code, file, re.sub(r"\d+", "0", problem.message)))
        seen[text] = seen.get(text, 0) + 1
        found.append(hashlib.sha256(f"{text}\0{seen[text]}".encode("utf-8", "replace")).hexdigest())
    return found
