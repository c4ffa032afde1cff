"""Starting the probe: its command line, and short calls that only ask for facts."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.runner.child import signal_name

PROBE = Path(__file__).resolve().parent.parent / "probe"


def probe_command(python: Path, spec: Path, records: Path) -> list[str]:
    """The command that runs the probe in ``python``."""
    return [str(python), str(PROBE / "__main__.py"), str(spec), str(records)]


def call_probe(python: Path, spec: dict[str, Any], timeout: float) -> list[dict[str, Any]]:
    """The records of an action that runs no program of the user's; if a signal ended the probe, the last
    one is ``{"record": "died", "signal": name}``.

    Raises:
        UsageError: it is no Python, or one that is too old.
        CannotRun: the probe says that it cannot.
    """
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as folder:
        spec_path, records_path = Path(folder) / "spec.json", Path(folder) / "records.jsonl"
        spec_path.write_text(json.dumps({**spec, "parent": os.getpid()}), encoding="utf-8")
        try:
            done = subprocess.run(
                probe_command(python, spec_path, records_path),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except OSError as error:
            raise UsageError(
                f"{python} cannot be run: {error.strerror}", "Give the path of a python."
            ) from None
        except subprocess.TimeoutExpired:
            raise CannotRun(
                f"{python} did not answer in {timeout:g} s", "Try importing torch there by hand."
            ) from None
        lines = records_path.read_bytes().split(b"\n") if records_path.exists() else []
    records = [json.loads(line) for line in lines if line.endswith(b"}")]
    for record in records:
        if record["record"] == "error":
            raise CannotRun(record["message"], record.get("hint"))
    if done.returncode < 0 and records:
        return [*records, {"record": "died", "signal": signal_name(-done.returncode)}]
    if done.returncode != 0:
        last = done.stdout.decode("utf-8", "replace").strip().split("\n")[-1]
        said = f": {last}" if last else f" (exit status {done.returncode})"
        raise UsageError(f"{python} cannot run the probe{said}", "It needs Python 3.7 or newer (--python).")
    return records
