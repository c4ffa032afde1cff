"""Captures, configuration and expectations of others: nothing that they name is
run, written or built."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from command_line import Run

from fusiondoc.captures.capture import REQUEST, SCHEMA, Capture
from fusiondoc.captures.store import CaptureStore, being_written
from fusiondoc.captures.trust import SIGNATURE, is_own, request_again, sign
from fusiondoc.errors import UsageError
from fusiondoc.expectations import yaml_text
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.runner.run_variables import run_environment


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "capture"
    folder.mkdir()
    (tmp_path / "m.py").touch()
    request = {
        "schema": SCHEMA,
        "target": {
            "text": "m.py",
            "kind": "file",
            "path": str(tmp_path / "m.py"),
            "module": None,
            "name": None,
        },
        "cwd": str(tmp_path),
        "python": "/bin/sh",
        "options": {"fuser": "nnc"},
        "environment_user": {
            "LD_PRELOAD": "evil.so",
            "PYTHONPATH": "evil",
            "PYTORCH_JIT_TYPE_VERBOSITY": "2",
        },
        "environment_set": {},
    }
    (folder / REQUEST).write_text(json.dumps(request))
    (folder / "log").touch()
    return folder


def test_only_a_capture_made_here_is_run_again(capture: Path) -> None:
    with pytest.raises(UsageError, match="not made here by you") as refused:
        request_again(Capture(capture), ("cuda_kernel",))
    code = code_in(refused.value.hint or "")
    assert request_again(Capture(capture), (), code=code).python == Path("/bin/sh")
    sign(capture, REQUEST)
    assert request_again(Capture(capture), ("cuda_kernel",)).dumps == (
        "cuda_kernel",
    )
    (capture / REQUEST).write_text(
        (capture / REQUEST).read_text().replace("/bin/sh", "/bin/bash")
    )
    with pytest.raises(UsageError, match="not made here by you"):
        request_again(Capture(capture), ())


def test_the_key_is_outside_and_of_one_user(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign(capture, REQUEST)
    assert is_own(capture, REQUEST)
    assert (tmp_path / "cache" / "captures.key").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "other"))
    assert not is_own(capture, REQUEST)
    sign(capture, REQUEST)  # another user's own key is another one
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    assert not is_own(capture, REQUEST)
    (capture / SIGNATURE).write_bytes(b"")
    assert not is_own(capture, REQUEST)


def test_variables_come_from_a_list(capture: Path) -> None:
    sign(capture, REQUEST)
    variables = request_again(Capture(capture), ()).variables
    assert variables == {"PYTORCH_JIT_TYPE_VERBOSITY": "2"}


def test_tokens_are_not_kept() -> None:
    user = {
        "TORCH_HUB_TOKEN": "x",
        "PYTORCH_TOKEN": "x",
        "NVFUSER_SECRET": "x",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert dict(run_environment("2.13.0", None, "nnc", (), user).user) == {
        "CUDA_VISIBLE_DEVICES": "0"
    }
    assert catalogue.is_kept("PYTORCH_NVFUSER_DUMP") and not catalogue.is_kept(
        "LD_PRELOAD"
    )


@pytest.mark.parametrize("name", [REQUEST, "log", "records.jsonl", "result.json"])
def test_links_inside_are_refused(capture: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").write_text((capture / REQUEST).read_text())
    if (capture / name).exists():
        (capture / name).unlink()
    (capture / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=f"its {name} is a link"):
        Capture(capture)


@pytest.mark.parametrize(
    "name",
    [
        "signature",
        "writing",
        "keep",
        "spec.json",
        "log.1",
        "sources/index.json",
        "files/__tmp_kernel1.ptx",
    ],
)
def test_a_pipe_inside_is_refused_and_not_waited_on(
    fusiondoc: Run, capture: Path, name: str
) -> None:
    store = CaptureStore(capture.parent)
    own = store.folder / "20260101-000000-m"
    store.folder.mkdir()
    capture.rename(own)
    (own / name).parent.mkdir(exist_ok=True)
    os.mkfifo(own / name)
    for line in (
        "parse",
        "kernels --dump ptx",
        "bundle",
        "captures show",
        "repro --group G1 --minimise",
    ):
        done = fusiondoc(*line.split(), cwd=capture.parent)
        assert done.returncode == 2 and "is a link, or not a file" in done.stderr, (
            line,
            done.stderr,
        )
    assert not being_written(own) and not is_own(own, REQUEST)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_the_name_of_a_capture_is_read_from_a_plain_file(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """A pipe is waited on for ever, and a link shows what it leads to."""
    (tmp_path / "secret").write_text("s3cr3t")
    for number in (1, 2):
        folder = tmp_path / ".fusiondoc" / f"20260101-00000{number}-x"
        folder.mkdir(parents=True)
        (folder / "request.json").write_text('{"schema": "fusiondoc.capture/1"}')
        (folder / "log").write_text("x\n")
        if number == 1:
            os.mkfifo(folder / "keep")
        else:
            (folder / "keep").symlink_to(tmp_path / "secret")
    done = fusiondoc("captures", "show", "20260101-000009", cwd=tmp_path)
    assert done.returncode == 2
    for arguments in (
        ["captures"],
        ["captures", "--format", "json"],
        ["captures", "show", "s3cr3t"],
    ):
        told = fusiondoc(*arguments, cwd=tmp_path)
        assert "s3cr3t" not in told.stdout, told.stdout


def test_links_to_files_of_proc_are_no_logs_of_a_folder(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("x\n")
    (tmp_path / "logs" / "b.log").symlink_to("/proc/self/environ")
    done = fusiondoc("parse", "logs", "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["parse"]["lines"] == 1


@pytest.mark.parametrize(
    "text",
    ["output = '../x.json'", "output = '/tmp/x.json'", "output = 'link/x.json'"],
)
def test_a_projects_file_names_outputs_of_the_project_only(
    fusiondoc: Run, tmp_path: Path, text: str
) -> None:
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "link").symlink_to(tmp_path.parent)
    (tmp_path / "pyproject.toml").write_text(f"[tool.fusiondoc]\n{text}\n")
    done = fusiondoc("parse", "a.log", cwd=tmp_path)
    assert done.returncode == 2
    assert "pyproject.toml:2" in done.stderr and "outside the folder" in done.stderr


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("diagnose", "trace_file = '../x.json'"),
        ("diagnose", "trace-file = '/x.json'"),
        *(("parse", "source-root = '/'"), ("diagnose", "captures-in = '../other'")),
    ],
)
def test_a_projects_file_leads_nowhere_else(
    fusiondoc: Run, tmp_path: Path, command: str, text: str
) -> None:
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.fusiondoc.{command}]\n{text}\n"
    )
    done = fusiondoc(command, "a.log", cwd=tmp_path)
    assert done.returncode == 2 and "outside the folder" in done.stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(
            ("kernels", "trust-capture"),
            ("repro", "trust-log"),
            ("repro", "trust_log"),
            ("repro", "force"),
        ),
        *(("fix", "apply"), ("fix", "force"), ("check", "update")),
    ],
)
def test_a_projects_file_trusts_nobody_for_the_user(
    fusiondoc: Run, tmp_path: Path, command: str, option: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.fusiondoc.{command}]\n{option} = true\n"
    )
    done = fusiondoc(command, "a.log", cwd=tmp_path)
    assert (
        done.returncode == 2
        and "is taken from the command line only" in done.stderr
    )


@pytest.mark.parametrize("command", ["knobs", "env"])
def test_a_projects_interpreter_counts_only_where_its_model_runs(
    fusiondoc: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.fusiondoc.{command}]\npython = './evil'\n"
    )
    (tmp_path / "evil").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "evil").chmod(0o755)
    done = fusiondoc(command, cwd=tmp_path)
    assert (
        done.returncode == 2
        and "python applies to commands that run your model" in done.stderr
    )
    assert not (tmp_path / "ran").exists()


def test_aliases_that_expand_are_refused_before_they_are_built() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [
        f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, 12)
    ]
    with pytest.raises(UsageError, match="aliases expand"):
        yaml_text.compose("\n".join(rows), "fusions.yaml")
    assert yaml_text.compose("a: &a [1]\nb: *a", "fusions.yaml") is not None


def code_in(said: str) -> str:
    found = re.search(r"--trust-capture ([0-9a-f]{12})$", said.strip())
    assert found is not None, said
    return found.group(1)


@pytest.fixture
def evil(capture: Path) -> Path:
    """What a run of the capture would start; it leaves ``ran`` beside it."""
    path = capture.parent / "evil"
    path.write_text(f"#!/bin/sh\ntouch {capture.parent / 'ran'}\n")
    path.chmod(0o755)
    request = json.loads((capture / REQUEST).read_text())
    (capture / REQUEST).write_text(json.dumps({**request, "python": str(path)}))
    return path


def test_kernels_runs_nothing_of_a_foreign_capture(
    fusiondoc: Run, capture: Path, evil: Path
) -> None:
    """The option alone runs nothing either: it shows what would run, and its
    code."""
    marker = capture.parent / "ran"
    for more in ((), ("--trust-capture",), ("--trust-capture", "0123456789ab")):
        done = fusiondoc("kernels", capture, "--dump", "nnc_ir", *more)
        assert done.returncode == 2 and not marker.exists()
        assert (
            f"{evil} {capture.parent / 'm.py'} in {capture.parent}"
            in done.stderr.replace("\n", " ")
        )
    fusiondoc(
        "kernels",
        capture,
        "--dump",
        "nnc_ir",
        "--trust-capture",
        code_in(done.stderr),
    )
    assert marker.exists()


def test_the_code_is_of_this_request_and_this_user(
    fusiondoc: Run, capture: Path, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError) as refused:
        request_again(Capture(capture), ())
    code = code_in(refused.value.hint or "")
    changed = (
        (capture / REQUEST).read_text().replace('"fuser": "nnc"', '"fuser": "none"')
    )
    (capture / REQUEST).write_text(changed)
    with pytest.raises(UsageError, match="not made here by you"):
        request_again(Capture(capture), (), code=code)
    monkeypatch.setenv("FUSIONDOC_CACHE", str(capture.parent / "other"))
    with pytest.raises(UsageError) as other:
        request_again(Capture(capture), ())
    assert code_in(other.value.hint or "") != code


def test_without_a_place_for_a_key_there_is_no_code(
    capture: Path, evil: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (capture.parent / "file").touch()
    monkeypatch.setenv("FUSIONDOC_CACHE", str(capture.parent / "file" / "cache"))
    for code in (None, "", "None", "0123456789ab"):
        with pytest.raises(UsageError) as refused:
            request_again(Capture(capture), (), code=code)
        assert "--trust-capture" not in (refused.value.hint or "")


def test_what_nobody_would_read_has_no_code(capture: Path, evil: Path) -> None:
    request = json.loads((capture / REQUEST).read_text())
    request["options"]["script_args"] = ["x" * 3000, "&& evil"]
    (capture / REQUEST).write_text(json.dumps(request))
    with pytest.raises(UsageError) as refused:
        request_again(Capture(capture), ())
    assert (
        "--trust-capture" not in (refused.value.hint or "")
        and "evil" not in refused.value.message
    )


def test_an_option_takes_no_capture_for_its_code(
    fusiondoc: Run, capture: Path, evil: Path
) -> None:
    done = fusiondoc("kernels", "--dump", "nnc_ir", "--trust-capture", capture)
    assert done.returncode == 2 and "takes a code of 12" in done.stderr
