"""The process that torch's launcher starts for each rank: ``rank_process.py
SPEC.json CAPTURE``.

It runs the probe in a child process, whose stdout and stderr are one log, and keeps
facts that the launcher does not report: the rank's exit status, and whether it
ended by itself. So each rank has a capture of its own, in ``CAPTURE/ranks/RANK``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any

START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    if text.isdigit():
        return int(text)
    return 0


def _make_room(folder: str, restarts: int) -> None:
    """Move an earlier attempt to a folder beside this one, where the report does
    not see it."""
    if os.path.isdir(folder):
        shutil.rmtree("%s.attempt-%d" % (folder, restarts - 1), ignore_errors=True)
        os.rename(folder, "%s.attempt-%d" % (folder, restarts - 1))
    os.makedirs(folder)


def _add(path: str, record: dict[str, Any]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, (json.dumps(record) + "\n").encode("utf-8"))
    os.close(file)


def main(spec: str, capture: str) -> int:
    """Run the rank. Return the exit status of its program, or 128 plus the number
    of the signal that ended it."""
    restarts = _number("TORCHELASTIC_RESTART_COUNT")
    folder = os.path.join(capture, "ranks", str(_number("RANK")))
    _make_room(folder, restarts)
    shutil.copyfile(
        os.path.join(capture, "request.json"), os.path.join(folder, "request.json")
    )
    records = os.path.join(folder, "records.jsonl")
    rank_record = {
        "record": "rank",
        "rank": _number("RANK"),
        "local_rank": _number("LOCAL_RANK"),
        "world_size": _number("WORLD_SIZE"),
        "host": socket.gethostname(),
        "restarts": restarts,
    }
    _add(records, rank_record)
    log = os.open(
        os.path.join(folder, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
    )
    received: list[int] = []

    def pass_on(number: int, frame: Any) -> None:
        # A terminal's Ctrl-C comes once from it and once from the launcher.
        if number not in received:
            received.append(number)
            if child is not None:
                child.send_signal(number)

    child: Any = None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    began = time.time()
    child = subprocess.Popen(
        [sys.executable, START, spec, records],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    for early in received:
        child.send_signal(early)
    status = int(child.wait())
    ended = time.time()
    names = [signal.Signals(number).name for number in received]
    _add(
        records,
        {
            "record": "rank",
            "asked": names[-1] if names else None,
            "ended_at": ended,
        },
    )
    result = {
        "exit_status": status if status >= 0 else None,
        "signal": signal.Signals(-status).name if status < 0 else None,
        "timed_out": False,
        "interrupted": False,
        "seconds": {"child": round(ended - began, 4)},
        "log_bytes": os.fstat(log).st_size,
        "stopped": None,
    }
    with open(os.path.join(folder, "result.json"), "w") as file:
        json.dump(result, file)
    if status >= 0:
        return status
    return 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
