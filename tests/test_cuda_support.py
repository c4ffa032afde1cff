"""Which CUDA knows which GPU, and FD306."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

from fusiondoc.fuser_knobs.catalogue import (
    FIRST_CUDA,
    first_cuda,
    knows,
    parse_pair,
)


def test_known_pairs() -> None:
    # Pairs that users reported: an RTX 4090 with 11.3 fails, with 11.8 it works; an
    # RTX 3090 with 11.0 fails.
    assert knows((11, 3), (8, 9)) is False and knows((11, 8), (8, 9)) is True
    assert knows((11, 0), (8, 6)) is False and knows((11, 1), (8, 6)) is True
    assert knows((10, 2), (9, 0)) is False and knows((12, 1), (9, 0)) is True
    assert knows((13, 0), (7, 0)) is False and knows((13, 0), (7, 5)) is True
    assert knows((12, 1), (99, 0)) is None
    assert first_cuda((9, 1)) == FIRST_CUDA[(9, 0)]


def test_newer_gpus_need_no_older_cuda() -> None:
    # 8.8 came three years after 8.9.
    for major in {capability[0] for capability in FIRST_CUDA}:
        row = [
            FIRST_CUDA[one]
            for one in sorted(FIRST_CUDA)
            if one[0] == major and one != (8, 8)
        ]
        assert row == sorted(row), major


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("[9, 0]", (9, 0)),
        ("11.7", (11, 7)),
        ("12.1.105", (12, 1)),
        ("", None),
        (None, None),
    ],
)
def test_pairs_in_text(text: str | None, pair: tuple[int, int] | None) -> None:
    assert parse_pair(text) == pair


def capture(
    folder: Path,
    message: str | None,
    result: dict[str, object],
    capability: list[int],
    cuda: str,
) -> Path:
    """A capture of a run on a GPU, as it is on disk."""
    folder.mkdir()
    request = {
        "schema": "fusiondoc.capture/1",
        "target": {"text": "model.py"},
        "torch": "1.13.1",
        "options": {},
    }
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "result.json").write_text(json.dumps(result))
    records = [
        {
            "record": "environment",
            "torch": "1.13.1",
            "cuda": cuda,
            "gpu": "GPU",
            "capability": capability,
        }
    ]
    if message:
        records.append(
            {
                "record": "error",
                "stage": "forward",
                "type": "RuntimeError",
                "message": message,
            }
        )
    (folder / "records.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in records)
    )
    (folder / "log").write_text("")
    return folder


def test_the_finding_names_the_cuda_that_knows_the_gpu(
    fusiondoc: Run, tmp_path: Path
) -> None:
    message = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n\nnvrtc compilation failed:"
    path = capture(tmp_path / "a", message, {"exit_status": 3}, [8, 9], "11.3")
    report = json.loads(fusiondoc("parse", path, "--format", "json").stdout)
    first = report["findings"][0]
    assert first["code"] == "FD306" and first["severity"] == "error"
    assert (
        "CUDA 11.3 of this torch does not know GPU (compute capability 8.9)"
        in first["message"]
    )
    assert "CUDA 11.8 or newer" in first["advice"]


def test_a_crash_on_a_gpu_that_cuda_does_not_know(
    fusiondoc: Run, tmp_path: Path
) -> None:
    crash: dict[str, object] = {"signal": "SIGFPE"}
    for name, capability, there in (
        ("new", [9, 0], True),
        ("known", [7, 5], False),
    ):
        path = capture(tmp_path / name, None, crash, capability, "10.2")
        report = json.loads(fusiondoc("parse", path, "--format", "json").stdout)
        assert ("FD306" in [f["code"] for f in report["findings"]]) == there, name


def test_an_ordinary_error_is_not_one_of_cuda(
    fusiondoc: Run, tmp_path: Path
) -> None:
    path = capture(
        tmp_path / "a",
        "mat1 and mat2 shapes cannot be multiplied",
        {"exit_status": 3},
        [8, 9],
        "11.3",
    )
    report = json.loads(fusiondoc("parse", path, "--format", "json").stdout)
    assert "FD306" not in [f["code"] for f in report["findings"]]


def test_in_a_plain_log(fusiondoc: Run, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "Traceback (most recent call last):\n  File 'x.py', line 1\n"
        "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)\n"
    )
    report = json.loads(fusiondoc("parse", log, "--format", "json").stdout)
    (found,) = [f for f in report["findings"] if f["code"] == "FD306"]
    assert found["evidence"] == [{"file": str(log), "line": 3}]
