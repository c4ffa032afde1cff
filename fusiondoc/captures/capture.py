"""A capture: a folder with the log of a run, the probe's records, what was asked for and how it ended."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Iterator

from fusiondoc.errors import UsageError
from fusiondoc.version import __version__

SCHEMA = "fusiondoc.capture/1"
_SCHEMA_NUMBER = re.compile(r"fusiondoc\.capture/(\d+)\Z")


class Capture:
    """Reads a capture folder. Every file but ``request.json`` may be missing or cut off: the run may have
    been killed at any moment.

    Raises:
        UsageError: the folder is no capture, or one of a newer fusiondoc.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise UsageError(f"there is no capture '{path}'", "fusiondoc captures lists them.")
        try:
            request = json.loads((path / "request.json").read_bytes())
        except FileNotFoundError:
            raise UsageError(
                f"'{path}' is no capture: it has no request.json", "fusiondoc captures lists them."
            ) from None
        except ValueError as error:
            raise UsageError(f"{path / 'request.json'} cannot be read: {error}", "Run it again.") from None
        _check_schema(path, request)
        for part in ("target", "options", "environment_set"):
            if not isinstance(request.get(part) or {}, dict):
                raise UsageError(
                    f"{path / 'request.json'} is damaged: its {part} is no object",
                    f"Its log can be read all the same: fusiondoc parse {path / 'log'}",
                )
        self.request: dict[str, Any] = request

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def log_path(self) -> Path:
        """The log, byte for byte as the child wrote it; may be missing."""
        return self.path / "log"

    @property
    def result(self) -> dict[str, Any]:
        """How the run ended; empty while it runs and if fusiondoc itself was killed."""
        try:
            result = json.loads((self.path / "result.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return result if isinstance(result, dict) else {}

    def records(self) -> Iterator[dict[str, Any]]:
        """The probe's records in order; lines that are no JSON object (a cut last one) are left out."""
        try:
            data = (self.path / "records.jsonl").read_bytes()
        except OSError:
            return
        for line in data.split(b"\n"):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and "record" in record:
                yield record

    def record(self, kind: str) -> dict[str, Any]:
        """All records of one kind merged, later values over earlier ones that are not None; {} without
        any."""
        merged: dict[str, Any] = {}
        for record in self.records():
            if record["record"] == kind:
                merged.update({k: v for k, v in record.items() if v is not None or k not in merged})
        merged.pop("record", None)
        return merged

    @property
    def environment(self) -> dict[str, Any]:
        """Python, torch, GPU ... as the probe found them."""
        return self.record("environment")

    @property
    def rerun(self) -> dict[str, Any] | None:
        """What the rerun without fallback showed (``rerun.json``); None if there was none."""
        return self._part("rerun.json")

    @property
    def tries(self) -> dict[str, Any] | None:
        """The runs of ``--try`` (``tries.json``); None if there were none."""
        return self._part("tries.json")

    @property
    def peak(self) -> dict[str, Any] | None:
        """The memory bandwidth that was given or measured for the run (``peak.json``); None if none was."""
        return self._part("peak.json")

    @property
    def timing(self) -> dict[str, Any] | None:
        """The run of ``--time`` (``timing.json``); None if there was none."""
        return self._part("timing.json")

    def _part(self, name: str) -> dict[str, Any] | None:
        try:
            part = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return None
        return part if isinstance(part, dict) else None

    def add(self, name: str, content: dict[str, Any]) -> None:
        """Write a file on further runs that belong to this one.

        Raises:
            OSError: it cannot be written.
        """
        (self.path / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @property
    def error(self) -> dict[str, Any] | None:
        """The error that the probe told of, or None."""
        return self.record("error") or None


def _check_schema(path: Path, request: Any) -> None:
    schema = request.get("schema") if isinstance(request, dict) else None
    if schema == SCHEMA:
        return
    number = _SCHEMA_NUMBER.match(str(schema))
    if number and int(number.group(1)) > 1:
        raise UsageError(
            f"the capture '{path.name}' was made by fusiondoc {request.get('fusiondoc', '?')} in the newer "
            f"form {schema}; this is fusiondoc {__version__}, which reads {SCHEMA}",
            "Upgrade: pip install --upgrade fusiondoc. Its log can be read all the same: "
            f"fusiondoc parse {path / 'log'}",
        )
    raise UsageError(
        f"'{path}' is no capture: its schema is {schema!r}, not {SCHEMA!r}",
        "fusiondoc captures lists captures; a log in it can be read: fusiondoc parse LOG",
    )
