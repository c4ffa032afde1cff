"""An exception that nobody foresaw ends with status 70, and says what to report."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusiondoc.cli import main


def test_it_ends_with_70_and_keeps_the_traceback(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("not foreseen")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("FUSIONDOC_DEBUG", raising=False)
    monkeypatch.setattr("fusiondoc.workflows.load.read_logs", fail)
    log = tmp_path / "a.log"
    log.write_text("x\n")
    with pytest.raises(SystemExit) as ended:
        main(["parse", str(log)])
    assert ended.value.code == 70
    told = capsys.readouterr().err
    assert "Traceback" not in told and "not foreseen" in told
    (kept,) = tmp_path.glob("fusiondoc-*.txt")
    assert str(kept) in told
    assert "Traceback" in kept.read_text() and "not foreseen" in kept.read_text()
