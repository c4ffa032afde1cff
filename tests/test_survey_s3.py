"""A survey of a bucket of a real object server (moto's, over HTTP): the answer is
that of a local folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT

from fusiondoc.errors import UsageError
from fusiondoc.model.survey_answers import Survey
from fusiondoc.reports.json_format import plain
from fusiondoc.workflows.survey import survey

pytest.importorskip("moto.server")
pytest.importorskip("s3fs")
boto3: Any = pytest.importorskip("boto3")
pytestmark = pytest.mark.xdist_group("survey s3")
GOLDEN = ROOT / "fixtures" / "golden"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server that holds nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "moto.server",
        "-H",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    names = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        _wait_for(address)
        yield address
    finally:
        process.terminate()
        process.wait(30)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _wait_for(address: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{address}/moto-api/", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError("the object server does not answer")


def answers(found: Survey, top: str) -> dict[str, Any]:
    """The answers without how they were made, with names below the folder or
    bucket."""
    content = {
        name: value for name, value in plain(found).items() if name != "work"
    }
    text = repr(content)
    return {"text": text.replace(top, ""), "runs": len(found.runs)}


def test_a_bucket_has_the_answer_of_a_folder(server: str, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    (folder / "2026-11-01").mkdir(parents=True)
    for file in GOLDEN.glob("*.json"):
        shutil.copy(file, folder / "2026-11-01" / file.name)
    (folder / "damaged.json").write_text('{"schema": ')
    (folder / "notes.csv").write_text("a,b\n")
    shutil.copy(folder / "2026-11-01" / "nnc-cuda.json", folder / "copy.json")
    client = boto3.client("s3")
    client.create_bucket(Bucket="fleet")
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        client.upload_file(
            str(file), "fleet", f"reports/{file.relative_to(folder).as_posix()}"
        )
    local = survey([str(folder)], workers=1)
    for workers in (1, 2):
        stored = survey(["s3://fleet/reports"], workers=workers)
        assert answers(stored, "s3://fleet/reports") == answers(local, str(folder))
    assert (
        len(local.unreadable) == 1
        and len(local.duplicates) == 1
        and local.ignored == 1
    )
    assert len(local.runs) == len(list(GOLDEN.glob("*.json")))


def test_a_bucket_that_is_not_there(server: str) -> None:
    with pytest.raises(
        UsageError,
        match=r"cannot list s3://nowhere|there is nothing at s3://nowhere",
    ):
        survey(["s3://nowhere/reports"])
