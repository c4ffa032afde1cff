"""``fusiondoc bundle``: names and secrets replaced everywhere, the same report; and
archives of others."""

from __future__ import annotations

import io
import json
import lzma
import shutil
import tarfile
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from command_line import Run
from conftest import FIXTURES

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.trust import request_again
from fusiondoc.errors import UsageError
from fusiondoc.masking import KINDS
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
from fusiondoc.workflows import archives, bundle, more_secrets, source_of
from fusiondoc.workflows.names_replaced import names_in

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
PROJECT = "/home/qzuser.qzname/work/acme-model"
OTHERS = {
    PROJECT: "/project",
    "/home/qzuser.qzname": "/home/user",
    "qzuser.qzname": "user",
    "box-7": "host",
    SECRET: "***",
}
"""What a bundle has instead, in the order in which it is replaced."""


def changed(text: str) -> str:
    for name, other in OTHERS.items():
        text = text.replace(name, other)
    return text


@pytest.fixture
def capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """A real capture, as if qzuser.qzname had made it on box-7."""
    monkeypatch.setattr("platform.node", lambda: "box-7")
    monkeypatch.setattr("getpass.getuser", lambda: "qzuser.qzname")
    monkeypatch.setenv("HOME", "/home/qzuser.qzname")
    with tarfile.open(
        FIXTURES / "captures" / "encoder-layer-nvfuser-2.1.2.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / ".fusiondoc" / "20260101-000000-encoder"
    folder.parent.mkdir()
    (tmp_path / "encoder-layer").rename(folder)
    log = (folder / "log").read_text()
    said = f"qzuser.qzname@box-7:~$ from {PROJECT}/data, mail qzuser.qzname@acme.example.com, {SECRET}\n"
    log = (
        said
        + log.replace("examples/encoder_layer.py", f"{PROJECT}/encoder_layer.py")
        + f"RuntimeError: {SECRET}\n"
    )
    if "report" not in request.node.name:
        log = log[:60_000] + f"\nRuntimeError: {SECRET}\n"
    (folder / "log").write_text(log)
    asked = json.loads((folder / "request.json").read_text())
    asked.update(
        cwd=PROJECT,
        python="/home/qzuser.qzname/venv/bin/python",
        command=["x", "--token", "qzuser1"],
    )
    (folder / "request.json").write_text(json.dumps(asked))
    (folder / "sources").mkdir()
    (folder / "sources" / "0.py").write_text(
        f"# by qzuser.qzname\nkey = '{SECRET}'\n"
    )
    (folder / "sources" / "index.json").write_text(
        json.dumps({f"{PROJECT}/encoder_layer.py": "0.py"})
    )
    (folder / "model.pickle").write_bytes(b"weights")
    return folder


@pytest.mark.parametrize("ending", archives.ENDINGS)
def test_names_are_replaced_everywhere(
    capture: Path, tmp_path: Path, ending: str
) -> None:
    output = tmp_path / f"b{ending}"
    done = bundle.bundle(Capture(capture), output)
    source = source_of(str(output))
    assert source.path is not None
    files = {
        path.relative_to(source.path).as_posix(): path.read_bytes()
        for path in source.path.rglob("*.*")
    }
    files["log"] = (source.path / "log").read_bytes()
    for name, data in files.items():
        for secret in (*OTHERS, "qzname", "qzuser1", "acme"):
            assert secret.encode() not in data, (name, secret)
    assert files["log"].startswith(
        b"user@host:~$ from /project/data, mail name@example.com, ***\n"
    )
    assert json.loads(files["sources/index.json"]) == {
        "/project/encoder_layer.py": "0.py"
    }
    assert "model.pickle" in done.left_out and "model.pickle" not in files
    told = {one.name: one.replaced for one in done.files}
    assert (
        told["log"]["secret"] == 2
        and told["log"]["project"] > 10
        and told["request.json"]["home"] == 1
    )
    listed = json.loads(files["bundle.json"]) if "bundle.json" in files else {}
    assert not listed or listed["schema"] == bundle.SCHEMA


def test_the_report_is_the_same_but_for_names(
    capture: Path, tmp_path: Path, fusiondoc: Run
) -> None:
    assert fusiondoc("bundle", "-o", "b.tar.xz", cwd=tmp_path).returncode == 0

    def report(*arguments: str) -> Any:
        made = json.loads(
            changed(
                fusiondoc(
                    "parse", *arguments, "--format", "json", cwd=tmp_path
                ).stdout
            )
        )
        made["parse"].update(seconds=0, bytes=0)
        made["timing"]["parse"] = 0
        return made

    before, after = report(), report("b.tar.xz")
    assert len(before["groups"]) > 5 and before["kernels"]
    text = json.dumps(before).replace(
        ".fusiondoc/20260101-000000-encoder", "b.tar.xz"
    )
    assert json.loads(text) == after


def test_the_same_capture_gives_the_same_bytes(
    capture: Path, tmp_path: Path
) -> None:
    for ending in archives.ENDINGS:
        for name in ("a", "b"):
            bundle.bundle(Capture(capture), tmp_path / (name + ending))
        assert (tmp_path / f"a{ending}").read_bytes() == (
            tmp_path / f"b{ending}"
        ).read_bytes()
    with tarfile.open(tmp_path / "a.tar.xz") as archive:
        for one in archive:
            assert (one.mtime, one.uid, one.uname, one.mode) == (
                315532800,
                0,
                "",
                0o644,
            )


def test_the_command_shows_what_it_holds(
    capture: Path, tmp_path: Path, fusiondoc: Run
) -> None:
    done = fusiondoc("bundle", "--dry-run", "--no-source", cwd=tmp_path)
    assert (
        done.returncode == 0
        and "secret 2" in done.stdout
        and "sources/0.py" not in done.stdout
    )
    assert (
        "left out: model.pickle, sources/0.py" in done.stderr
        and "nothing was written" in done.stderr
    )
    assert not list(tmp_path.glob("*.xz"))
    done = fusiondoc("bundle", "encoder", cwd=tmp_path)
    assert (
        tmp_path / "20260101-000000-encoder.tar.xz"
    ).exists() and "fusiondoc parse" in done.stderr
    assert fusiondoc("bundle", "-o", "x.gz", cwd=tmp_path).returncode == 2
    assert fusiondoc("bundle", "-o", "no/x.zip", cwd=tmp_path).returncode == 2


def without_flag(capture: Path, folder: Path, ending: str) -> Path:
    """A bundle as a stranger would send it: it says that it is none, and names an
    interpreter of theirs."""
    marker = folder / "ran"
    (folder / "evil").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (folder / "evil").chmod(0o755)
    (folder / "m.py").touch()
    bundle.bundle(Capture(capture), folder / f"sent{ending}")
    unpacked = source_of(str(folder / f"sent{ending}"))
    assert unpacked.path is not None
    shutil.copytree(unpacked.path, folder / "top")
    asked = json.loads((folder / "top" / "request.json").read_text())
    assert asked.pop("bundled") is True
    target = {
        "text": "m.py",
        "kind": "file",
        "path": str(folder / "m.py"),
        "module": None,
        "name": None,
    }
    asked.update(python=str(folder / "evil"), cwd=str(folder), target=target)
    (folder / "top" / "request.json").write_text(json.dumps(asked))
    made = folder / f"b{ending}"
    if ending == ".zip":
        shutil.make_archive(str(folder / "b"), "zip", folder, "top")
    else:
        with tarfile.open(made, "w:xz", format=tarfile.USTAR_FORMAT) as archive:
            archive.add(folder / "top", "top")
    return made


@pytest.mark.parametrize("ending", [".zip", ".tar.xz"])
def test_a_bundle_is_never_run(
    capture: Path, tmp_path: Path, fusiondoc: Run, ending: str
) -> None:
    """Whatever it says of itself; and unpacked by hand it is a capture of somebody
    else."""
    path = without_flag(capture, tmp_path, ending)
    with pytest.raises(UsageError, match="never run"):
        request_again(source_of(str(path)).capture(), ())
    for name in (f"sent{ending}", path.name):
        for code in ("", "0123456789ab"):
            done = fusiondoc(
                "kernels",
                name,
                "--dump",
                "ptx",
                "--trust-capture",
                code,
                cwd=tmp_path,
            )
            assert done.returncode == 2 and "never run" in done.stderr
    done = fusiondoc(
        "kernels", "top", "--dump", "ptx", "--trust-capture", cwd=tmp_path
    )
    assert done.returncode == 2 and "not made here by you" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_key_over_chunks_and_a_line_without_end(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_CHUNK", 256)
    key = (
        "-----BEGIN PRIVATE KEY-----\n"
        + "MIIEvQ+Zm9v/YmFy\n" * 60
        + "-----END PRIVATE KEY-----\n"
    )
    (capture / "log").write_text("x\n" * 100 + key + "y\n" * 100 + "no end")
    made = capture.parent.parent / "b.zip"
    bundle.bundle(Capture(capture), made)
    with zipfile.ZipFile(made) as packed:
        log = packed.read("20260101-000000-encoder/log").decode()
    assert (
        "MIIE" not in log and log.count("***") == 60 and log.endswith("y\nno end")
    )


@pytest.mark.parametrize(
    "name", ["password = ", "api_key: ", "--api-key ", "https://bob:", "Bearer "]
)
def test_no_cut_of_a_long_line_goes_through_a_secret(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever in the line it stands."""
    monkeypatch.setattr(bundle, "_CHUNK", 400)
    monkeypatch.setattr(bundle, "_LONGEST_LINE", 400)
    monkeypatch.setattr(bundle, "_AROUND", 150)
    secret = "Xy7" + "q9Zt4" * 4
    names = names_in([], [])
    end = (
        "@x.com" if "://" in name else ""
    )  # an address of mail would be replaced all the same
    for word in ("ab ", "abcdefghijk"):  # with spaces and without
        for shift in range(590, 660, 2):
            line = (word * 400)[:shift] + f" {name}{secret}{end} " + word * 300
            parts = list(bundle._stretches(io.BytesIO(line.encode()), names))
            assert "".join(parts) == line and len(parts) > 1
            made = "".join(names.text(part, Counter()) for part in parts)
            assert secret not in made and secret[:8] not in made, (shift, made)


def test_a_secret_in_a_line_of_more_than_a_megabyte(
    capture: Path, tmp_path: Path
) -> None:
    secret = "Xy7" + "q9Zt4" * 4
    line = (
        "x" * ((1 << 20) + (1 << 19) - 11)
        + " password = "
        + secret
        + " "
        + "y" * 600_000
    )
    (capture / "log").write_text(line)
    bundle.bundle(Capture(capture), tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as packed:
        log = packed.read("20260101-000000-encoder/log").decode()
    assert "password = *** yyy" in log and secret not in log


def test_lines_that_are_one_secret_stay_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bundle, "_CHUNK", 300)
    names = names_in([], [])
    for shift in range(0, 60, 7):
        log = (
            "x" * shift
            + "\n"
            + "y y\n" * 70
            + "machine a.com\nlogin bob\npassword Hunter2x\n"
            + "z\n" * 300
        )
        made = "".join(
            names.text(part, Counter())
            for part in bundle._stretches(io.BytesIO(log.encode()), names)
        )
        assert "Hunter2x" not in made, shift


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("QZUSER.QZNAME on BOX-7, Box-7:29500", "user on host, host:29500"),
        ("ACME\\QZUSER.QZNAME", "ACME\\user"),
        ("master box-7.train.acme.internal:29500", "master host:29500"),
        (
            "mail Bob.Miller@Acme.COM. <bob@acme.cloud>",
            "mail name@example.com. <name@example.com>",
        ),
        ("bob+x@ml.acme.corp, a@b.gmbh", "name@example.com, name@example.com"),
        (
            "/opt/acme/lib/a.so /opt/acme/b.so /opt/other",
            "/opt/folder1/lib/a.so /opt/folder1/b.so /opt/folder2",
        ),
        (
            "/mnt/team-x/data /home/someone/x.py",
            "/mnt/folder1/data /home/folder2/x.py",
        ),
        (
            "/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py",
            None,
        ),
        (
            "x@w.T; q@k.transpose(-2, -1); x @ w.mT; /opt/python3.11/bin /data/model.py",
            None,
        ),
        ("aten::add %x.1 Float(8, 128, device=cuda:0) hostname username", None),
    ],
)
def test_names_in_capitals_addresses_and_folders(
    text: str, made: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "box-7")
    monkeypatch.setattr("getpass.getuser", lambda: "qzuser.qzname")
    assert names_in([], []).text(text, Counter()) == (
        text if made is None else made
    )


def test_a_bundle_says_which_kinds_of_secrets_were_looked_for(
    capture: Path, tmp_path: Path, fusiondoc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(more_secrets, "PACKAGE", "no_such_package")
    done = fusiondoc("bundle", "-o", "b.zip", cwd=tmp_path)
    assert (
        "private keys" in done.stderr
        and "pip install 'fusiondoc[secrets]'" in done.stderr
    )
    with zipfile.ZipFile(tmp_path / "b.zip") as packed:
        listed = json.loads(packed.read("20260101-000000-encoder/bundle.json"))
    assert tuple(listed["looked_for"]) == KINDS and len(KINDS) >= 6


def test_the_rules_of_detect_secrets_are_used_where_it_is_installed(
    capture: Path, tmp_path: Path, fusiondoc: Run
) -> None:
    pytest.importorskip("detect_secrets")
    assert len(more_secrets.kinds()) == len(more_secrets.DETECTORS)
    secret = (
        "AKC" + "b8Zk3Qw9Lm2Xv7"
    )  # of Artifactory, which fusiondoc's own rules do not know so short
    (capture / "log").write_text(f"fetch with {secret} now\n")
    done = fusiondoc("bundle", "-o", "b.zip", cwd=tmp_path)
    assert "Artifactory" in done.stderr and "pip install" not in done.stderr
    with zipfile.ZipFile(tmp_path / "b.zip") as packed:
        assert packed.read("20260101-000000-encoder/log") == b"fetch with *** now\n"


def test_the_rules_of_detect_secrets_find_nothing_in_real_logs() -> None:
    pytest.importorskip("detect_secrets")
    finder = more_secrets.finder()
    assert finder is not None
    for path in sorted(FIXTURES.glob("**/*.log*"))[::6]:
        for chunk in read_chunks(LogInput(path.name, path)):
            assert finder(chunk.decode("utf-8", "replace"))[1] == 0, path


@pytest.mark.parametrize(
    "name", ["nvfuser-2.1.2-rejects-full", "nnc-2.11-primitive-layer-norm"]
)
def test_a_real_log_loses_nothing_that_its_report_needs(
    name: str, tmp_path: Path, fusiondoc: Run
) -> None:
    """With all rules, those of detect-secrets too; but for folders of other
    machines."""
    data = lzma.decompress((FIXTURES / "logs" / f"{name}.log.xz").read_bytes())
    names = names_in([], [], more_secrets.finder())
    counts: Counter[str] = Counter()
    made = "".join(
        names.text(part, counts)
        for part in bundle._stretches(io.BytesIO(data), names)
    )
    (tmp_path / "before.log").write_bytes(data)
    (tmp_path / "after.log").write_text(made)

    def parsed(log: str) -> Any:
        read = json.loads(
            fusiondoc("parse", log, "--format", "json", cwd=tmp_path).stdout
        )
        groups = [(one["id"], one["ops"], one["kind"]) for one in read["groups"]]
        return groups, [(one["op"], one["reason"]) for one in read["unfused"]]

    assert counts["secret"] == 0
    assert parsed("before.log") == parsed("after.log") and parsed("after.log")[0]


# -- archives of others --------------------------------------------------------------------------------------


def tar(
    path: Path,
    *entries: tuple[tarfile.TarInfo, bytes],
    form: int = tarfile.USTAR_FORMAT,
) -> Path:
    with tarfile.open(path, "w:xz", format=form, preset=0) as archive:
        for entry, data in entries:
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


REQUEST = json.dumps({"schema": "fusiondoc.capture/1"}).encode()


def refused(path: Path, fusiondoc: Run, said: str) -> None:
    with (
        tempfile.TemporaryDirectory() as temporary,
        mock.patch.object(tempfile, "tempdir", temporary),
    ):
        done = fusiondoc("parse", path)
        left = list(Path(temporary).iterdir())
    assert (
        done.returncode == 2 and said in done.stderr and "next:" in done.stderr
    ), done.stderr
    assert not left


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([entry("c/../../x")], "outside of it"),
        ([entry("/etc/x")], "outside of it"),
        ([entry("c/log", tarfile.SYMTYPE, "/etc/passwd")], "link"),
        ([entry("c/log", tarfile.LNKTYPE, "/etc/passwd")], "link"),
        ([entry("c/log", tarfile.CHRTYPE)], "device"),
        ([entry("c/log", tarfile.FIFOTYPE)], "not a file"),
        ([entry("c/request.json"), entry("c/request.json")], "cannot be read"),
        ([entry("a/log"), entry("b/log")], "several captures"),
        ([entry("c/other.txt")], "no capture"),
        ([], "no capture"),
    ],
)
def test_tars_that_are_refused(
    tmp_path: Path, fusiondoc: Run, entries: list[tarfile.TarInfo], said: str
) -> None:
    content = [(one, REQUEST if one.isreg() else b"") for one in entries]
    refused(tar(tmp_path / "b.tar.xz", *content), fusiondoc, said)
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar.xz"]


def test_extended_headers_many_files_and_large_ones(
    tmp_path: Path, fusiondoc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = entry("c/" + "x" * 300)
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        refused(
            tar(tmp_path / "b.tar.xz", (long, b""), form=form),
            fusiondoc,
            "not a file",
        )
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    many = tar(tmp_path / "b.tar.xz", *((entry(f"c/{n}"), b"") for n in range(5)))
    refused(many, fusiondoc, "more than 3 files")
    monkeypatch.setattr(archives, "MOST_SMALL", 10)
    refused(
        tar(tmp_path / "b.tar.xz", (entry("c/request.json"), REQUEST)),
        fusiondoc,
        "larger than any such",
    )
    monkeypatch.setattr(archives, "LEAST_LIMIT", 1000)
    monkeypatch.setattr(archives, "LIMIT_RATIO", 1)
    refused(
        tar(tmp_path / "b.tar.xz", (entry("c/log"), bytes(1 << 20))),
        fusiondoc,
        "more than it may",
    )


def test_damaged_archives(tmp_path: Path, fusiondoc: Run) -> None:
    whole = tar(
        tmp_path / "w.tar.xz",
        (entry("c/request.json"), REQUEST),
        (entry("c/log"), b"x" * 9999),
    )
    content = lzma.decompress(whole.read_bytes())
    path = tmp_path / "b.tar.xz"
    negative = bytearray(content)
    negative[124:136] = b"-0000000001\0"
    for data in (content[:700], b"", b"x" * 1024, bytes(negative)):
        path.write_bytes(lzma.compress(data))
        refused(path, fusiondoc, "cannot be read as an archive")
    path.write_bytes(whole.read_bytes()[:-100])
    refused(path, fusiondoc, "cannot be read as an archive")
    path.write_bytes(b"no xz")
    refused(path, fusiondoc, "cannot be read as an archive")


def test_a_zip_of_many_files_is_refused_before_they_are_listed(
    tmp_path: Path, fusiondoc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of a zip is built whole by zipfile: its end tells how long it is."""
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as packed:
        for number in range(5):
            packed.writestr(f"c/{number}", b"")
    refused(tmp_path / "b.zip", fusiondoc, "more than 3 files")


def test_zips_that_are_refused(
    tmp_path: Path, fusiondoc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.zip"

    def made(
        name: str,
        data: bytes = REQUEST,
        mode: int = 0o100644,
        kind: int = zipfile.ZIP_DEFLATED,
    ) -> Path:
        with zipfile.ZipFile(path, "w", kind) as packed:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, kind
            packed.writestr(info, data)
        return path

    refused(made("c/log", b"/etc/passwd", 0o120777), fusiondoc, "a link")
    refused(made("../log"), fusiondoc, "outside of it")
    refused(made("c/log", kind=zipfile.ZIP_LZMA), fusiondoc, "not a file")
    data = bytearray(made("c/log").read_bytes())
    data[data.rfind(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    refused(path, fusiondoc, "not a file")
    path.write_bytes(b"PK\x03\x04 nothing more")
    refused(path, fusiondoc, "cannot be read as an archive")
    monkeypatch.setattr(archives, "LEAST_LIMIT", 1000)
    monkeypatch.setattr(archives, "LIMIT_RATIO", 1)
    refused(made("c/log", bytes(1 << 20)), fusiondoc, "more than it may")


def test_nothing_is_left_when_the_report_is_gone(
    capture: Path, tmp_path: Path
) -> None:
    bundle.bundle(Capture(capture), tmp_path / "b.zip")
    source = source_of(str(tmp_path / "b.zip"))
    folder = source.unpacked.folder.name if source.unpacked else ""
    assert Path(folder).is_dir()
    del source
    assert not Path(folder).exists()
    shutil.rmtree(capture)
