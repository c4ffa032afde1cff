"""Which file of a folder is the log of which rank, by names that launchers and people give them."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import PurePath
from typing import Sequence

from fusiondoc.parsers.lines.log_files import LogInput

_ATTEMPT = re.compile(r"(?P<above>.*/)?attempt_(?P<attempt>\d{1,6})/(?P<rank>\d{1,6})/[^/]+\Z")
"""``none_x8k/attempt_0/1/stderr.log``: torch's elastic launcher with --log-dir and --redirects
(``LocalElasticAgent._make_log_dir``, torch/distributed/elastic/agent/server/local_elastic_agent.py, 1.12 to
2.13). The number is the local one of that machine."""
_CAPTURED = re.compile(r"(?P<above>.*/)?ranks/(?P<rank>\d{1,6})/log\Z")
_NAMED = re.compile(r"(?:\A|[^a-z])(?:rank|task|worker|proc)[ ._=-]?(\d{1,9})(?![0-9])", re.IGNORECASE)
"""``rank0.log``, ``train-rank_3.txt``, and ``1/rank.0/stdout`` of mpirun --output-filename."""


def with_ranks(logs: Sequence[LogInput]) -> list[LogInput]:
    """The logs, each with the rank that its name says, if these are at least two; else as they are.

    Of a launcher that started the ranks again, the last attempt is kept. Local numbers of several machines'
    folders are counted on, in the order of the folders.
    """
    by_launcher = [_ATTEMPT.match(_posix(log)) for log in logs]
    if logs and all(by_launcher):
        return _of_launcher(logs, [one for one in by_launcher if one is not None])
    numbers = [_number(log) for log in logs]
    known = {number for number in numbers if number is not None}
    if len(known) < 2:
        return list(logs)
    return [replace(log, rank=number) for log, number in zip(logs, numbers)]


def _posix(log: LogInput) -> str:
    return "" if log.path is None else PurePath(log.path).as_posix()


def _number(log: LogInput) -> int | None:
    text = _posix(log)
    captured = _CAPTURED.match(text)
    if captured is not None:
        return int(captured["rank"])
    found = None
    for part in text.split("/")[-3:]:
        named = _NAMED.search(part)
        found = int(named[1]) if named else found
    return found


def _of_launcher(logs: Sequence[LogInput], names: Sequence[re.Match[str]]) -> list[LogInput]:
    last: dict[str, int] = defaultdict(int)
    most: dict[str, int] = defaultdict(int)
    for one in names:
        above = one["above"] or ""
        last[above] = max(last[above], int(one["attempt"]))
        most[above] = max(most[above], int(one["rank"]))
    before: dict[str, int] = {}
    number = 0
    for above in sorted(most):
        before[above] = number
        number += most[above] + 1
    kept = [
        replace(log, rank=before[one["above"] or ""] + int(one["rank"]))
        for log, one in zip(logs, names)
        if int(one["attempt"]) == last[one["above"] or ""]
    ]
    return kept if len({log.rank for log in kept}) > 1 else [replace(log, rank=None) for log in kept]
