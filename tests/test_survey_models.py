"""Which runs of a survey are of one model: labels, projects and paths; never the
name of a file alone."""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Run
from running import python_apart, uses_forks

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.model_identity import (
    model_of,
    name_of_remote,
    recorded_model,
)
from fusiondoc.captures.request import KeptTarget, parse_target
from fusiondoc.errors import UsageError
from fusiondoc.model.survey_answers import Survey
from fusiondoc.workflows.bundle import bundle
from fusiondoc.workflows.survey import survey

GOLDEN = ROOT / "fixtures" / "golden"
CAPTURE = ROOT / "fixtures" / "captures" / "nvfuser-2.1.2-composite"
LOG = ROOT / "fixtures" / "logs" / "nnc-2.11-add-relu.log.xz"


def models(made: Survey) -> list[str | None]:
    return [row.model for row in made.runs]


def reports_of(
    folder: Path, targets: dict[str, dict[str, Any]], days: int, lost: str
) -> None:
    """A report a day of each target; from the middle on one of them is without its
    last group."""
    data = json.loads((GOLDEN / "capture.json").read_text())
    groups = data["groups"]
    folder.mkdir(exist_ok=True)
    for name, target in targets.items():
        for day in range(1, days + 1):
            gone = name == lost and day > days // 2
            data["groups"] = groups[:-1] if gone else groups
            captured = f".fusiondoc/202501{day:02}-000000-model"
            data["target"] = {
                "options": {},
                "capture": captured,
                "folder": "/ci/work",
                **target,
            }
            (folder / f"{name}-{day:02}.json").write_text(json.dumps(data))


@pytest.mark.parametrize("recorded", ["name", "model", "folder"])
def test_three_files_of_one_name_are_three_models(
    recorded: str, tmp_path: Path
) -> None:
    """Also of reports that hold the path, or the folder, alone."""
    targets: dict[str, dict[str, Any]] = {}
    for one in ("resnet", "bert", "gpt"):
        targets[one] = {
            "name": {"name": f"{one}/model.py"},
            "model": {"name": "model.py", "model": f"team/shop/{one}/model.py"},
            "folder": {"name": "model.py", "folder": f"/ci/{one}"},
        }[recorded]
    reports_of(tmp_path, targets, 10, "bert")
    made = survey(tmp_path)
    of = {
        one.rpartition("/model.py")[0].rpartition("/")[2]
        for one in models(made)
        if one is not None
    }
    assert of == {"resnet", "bert", "gpt"} and len(made.models) == 3
    assert [one.share for one in made.groups if one.share < 1] == [0.5]
    (gone,) = made.gone
    assert str(gone.model).endswith("bert/model.py")
    assert (gone.last, gone.since, gone.runs_before) == (
        "2025-01-05",
        "2025-01-06",
        5,
    )


def checkout(
    folder: Path, remote: str | None = None, name: str | None = None
) -> Path:
    """A project with a model in a folder: a repository, or a package with a
    name."""
    (folder / "resnet").mkdir(parents=True)
    (folder / "resnet" / "model.py").write_text("")
    if remote is not None:
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        subprocess.run(
            ["git", "-C", str(folder), "remote", "add", "origin", remote],
            check=True,
        )
    if name is not None:
        (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    return folder


def identity(cwd: Path, text: str) -> str | None:
    return model_of(parse_target(text, cwd), cwd)


def test_checkouts_of_one_repository_are_one_model(tmp_path: Path) -> None:
    """In any folder, from any folder, by any address, named as a file or as a
    module."""
    one = checkout(
        tmp_path / "a" / "shop",
        "https://someone:glpat-12345678901234567890@host/team/shop.git",
    )
    two = checkout(tmp_path / "b" / "job-17", "git@other-host:team/shop")
    other = checkout(tmp_path / "c" / "shop", "git@host:team/bakery.git")
    same = "team/shop/resnet/model.py"
    assert (
        identity(one, "resnet/model.py")
        == identity(two / "resnet", "./model.py")
        == same
    )
    assert identity(two, str(one / "resnet" / "model.py")) == same
    assert identity(one, "resnet/model.py:model") == same
    assert (
        identity(one, "resnet.model:model")
        == identity(one / "resnet", "model:model")
        == same
    )
    assert identity(one, "resnet/model.py:Net(8)") == same + ":Net(8)"
    assert identity(other, "resnet/model.py") == "team/bakery/resnet/model.py"


def test_a_worktree_is_a_checkout_of_its_repository(tmp_path: Path) -> None:
    git = [
        "git",
        "-C",
        str(checkout(tmp_path / "shop", "ssh://git@host:2222/team/shop.git/")),
    ]
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, *who, "commit", "-q", "-m", "a"], check=True)
    subprocess.run(
        [*git, "worktree", "add", "-q", "--detach", str(tmp_path / "beside")],
        check=True,
    )
    assert (
        identity(tmp_path / "beside", "resnet/model.py")
        == "team/shop/resnet/model.py"
    )


def test_a_project_without_a_remote_has_the_name_that_it_gives_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = checkout(tmp_path / "one", name="shop")
    assert identity(named, "resnet/model.py") == "shop/resnet/model.py"
    (named / "pyproject.toml").write_text("[project\n")
    assert identity(named, "resnet/model.py") == "one/resnet/model.py"
    bare = tmp_path / "two" / "bert"
    bare.mkdir(parents=True)
    (bare / "model.py").write_text("")
    assert (
        identity(bare, "model.py")
        == identity(bare.parent, "bert/model.py")
        == "bert/model.py"
    )
    monkeypatch.setenv("HOME", str(named))  # a user's files in git are no project
    assert identity(named / "resnet", "model.py") == "resnet/model.py"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://host/team/shop.git", "team/shop"),
        ("https://host/group/sub/shop/", "group/sub/shop"),
        ("ssh://git@host:22/team/shop", "team/shop"),
        ("git@host:team/shop.git", "team/shop"),
        ("/srv/git/shop.git", "shop"),
        ("file:///srv/git/shop.git", "shop"),
        ("C:\\git\\shop.git", "shop"),
        ("../shop", "shop"),
        ("", None),
    ],
)
def test_the_name_of_a_remote(url: str, name: str | None) -> None:
    assert name_of_remote(url) == name


@pytest.mark.parametrize(
    ("name", "folder", "model"),
    [
        ("resnet/model.py", "/ci/a", "resnet/model.py"),
        ("./resnet/model.py:model", "/ci/a", "resnet/model.py"),
        ("model.py:net", "/ci/resnet", "resnet/model.py:net"),
        ("/ci/a/resnet/model.py", "/ci/a", "resnet/model.py"),
        ("/data/resnet/model.py", "/ci/a", "/data/resnet/model.py"),
        ("resnet\\model.py", "C:\\ci", "resnet/model.py"),
        ("package.resnet:model", "/ci/a", "package.resnet:model"),
        ("model.py", None, "model.py"),
    ],
)
def test_a_target_as_it_was_recorded(
    name: str, folder: str | None, model: str
) -> None:
    assert recorded_model(name, folder) == model


def test_a_capture_keeps_its_model_through_report_and_bundle(
    tmp_path: Path, fusiondoc: Run
) -> None:
    for name, model in (("a", "resnet50"), ("b", "bert")):
        shutil.copytree(CAPTURE, tmp_path / name)
        request = json.loads((tmp_path / name / "request.json").read_text())
        (tmp_path / name / "request.json").write_text(
            json.dumps({**request, "model": model})
        )
    assert models(survey(tmp_path)) == ["resnet50", "bert"]
    done = fusiondoc("parse", tmp_path / "a", "--format", "json")
    assert json.loads(done.stdout)["target"]["model"] == "resnet50"
    shown = fusiondoc("captures", "show", "--captures-in", tmp_path, "a")
    assert shown.returncode == 2 or "resnet50" in shown.stdout
    bundle(Capture(tmp_path / "a"), tmp_path / "a.tar.xz")
    made = survey(tmp_path / "a.tar.xz")
    assert models(made) != ["resnet50"], "the name of a project is not for others"


def test_the_label_is_kept_in_the_capture(tmp_path: Path, fusiondoc: Run) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\ndef model(x):\n    return x + 1\ninputs = (torch.ones(2),)\n"
    )
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "shop"\n')
    plain = ["diagnose", "model.py", "--runs", "1", "--format", "json"]
    told = []
    for arguments in (plain, [*plain, "--model-name", "resnet50"]):
        done = fusiondoc(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout)["target"]["model"])
    project.write_text('[tool.fusiondoc]\nmodel-name = "bert"\n')
    told.append(
        json.loads(fusiondoc(*plain, cwd=tmp_path).stdout)["target"]["model"]
    )
    assert told == ["shop/model.py", "resnet50", "bert"]
    assert sorted(map(str, models(survey(tmp_path / ".fusiondoc")))) == sorted(told)
    for wrong in ("", "a\x1bb", "x" * 201):
        done = fusiondoc(
            "diagnose", "model.py", "--model-name", wrong, cwd=tmp_path
        )
        assert done.returncode == 2 and "--model-name" in done.stderr


def test_a_report_of_a_log_gets_a_label(tmp_path: Path, fusiondoc: Run) -> None:
    shutil.copy(LOG, tmp_path / "train.log.xz")
    for arguments, model in (((), None), (("--model-name", "bert"), "bert")):
        done = fusiondoc(
            "parse", tmp_path / "train.log.xz", "--format", "json", *arguments
        )
        assert json.loads(done.stdout)["target"]["model"] == model
    (tmp_path / "fusiondoc.yaml").write_text("model-name: gpt\n")
    done = fusiondoc("parse", "train.log.xz", "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["target"]["model"] == "gpt"
    shutil.copytree(CAPTURE, tmp_path / "a")
    request = json.loads((tmp_path / "a" / "request.json").read_text())
    (tmp_path / "a" / "request.json").write_text(
        json.dumps({**request, "model": "resnet50"})
    )
    for arguments, model in (((), "resnet50"), (("--model-name", "bert"), "bert")):
        done = fusiondoc("parse", "a", "--format", "json", *arguments, cwd=tmp_path)
        assert json.loads(done.stdout)["target"]["model"] == model, (
            "a project's file changes no label"
        )


def test_model_from_takes_it_from_the_path(tmp_path: Path, fusiondoc: Run) -> None:
    for one in ("resnet", "bert"):
        (tmp_path / "runs" / one).mkdir(parents=True)
        shutil.copy(LOG, tmp_path / "runs" / one / "train.log.xz")
        shutil.copy(GOLDEN / "capture.json", tmp_path / "runs" / one)
        shutil.copytree(CAPTURE, tmp_path / "runs" / one / "captured")
    shutil.copy(GOLDEN / "onednn.json", tmp_path / "other.json")
    made = survey(tmp_path, model_from=r"runs/([^/]+)/")
    assert not made.duplicates, "a copy below another model is a run of that model"
    named = {
        Path(row.run).relative_to(tmp_path).as_posix(): row.model
        for row in made.runs
    }
    assert {
        model for path, model in named.items() if path.startswith("runs/bert")
    } == {"bert"}
    assert {
        model for path, model in named.items() if path.startswith("runs/resnet")
    } == {"resnet"}
    assert all(
        one.runs_of_model == 3
        for one in made.groups
        if one.model in ("bert", "resnet")
    )
    found = survey(tmp_path, model_from=r"runs/(?P<model>\w+)/(train)")
    assert {row.model for row in found.runs if row.kind == "log"} == {
        "resnet",
        "bert",
    }
    assert survey(
        tmp_path / "runs" / "bert", model_from=r"(runs)/(\w+)"
    ).models == ("runs/bert",)
    for pattern, said in (
        ("runs/[^/]+", "it has no group"),
        ("runs/(", "--model-from runs/("),
        ("nowhere/(.*)", "no path of 7 runs matches"),
    ):
        done = fusiondoc("survey", tmp_path, "--model-from", pattern)
        assert (
            done.returncode == 2 and said in done.stderr and "next: " in done.stderr
        ), done.stderr
    with pytest.raises(UsageError):
        survey(tmp_path, model_from="(")


def test_a_log_that_nothing_tells_of_is_known_by_its_folders(
    tmp_path: Path,
) -> None:
    for place in ("resnet/2026-11-22", "resnet/2026-11-23", "bert/20261122", "."):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(LOG, tmp_path / place / "train.log.xz")
        with (tmp_path / place / "train.log.xz").open(
            "ab"
        ) as file:  # else two are copies
            file.write(lzma.compress(place.encode() + b"\n"))
    found = {
        Path(row.run).parent.relative_to(tmp_path).as_posix(): row.model
        for row in survey(tmp_path).runs
    }
    assert found == {
        "resnet/2026-11-22": "resnet",
        "resnet/2026-11-23": "resnet",
        "bert/20261122": "bert",
        ".": None,
    }
    assert set(models(survey([tmp_path / "resnet", tmp_path / "bert"]))) == {
        "resnet",
        "bert",
    }
    assert set(models(survey(tmp_path / "resnet"))) == {None}, (
        "what is named together is together"
    )


def test_packed_copies_below_other_models_in_any_order(tmp_path: Path) -> None:
    for one in ("resnet", "bert"):
        (tmp_path / one).mkdir()
        shutil.copy(LOG, tmp_path / one / "a.log.xz")
        shutil.copy(LOG, tmp_path / one / "2026-01-02.log.xz")
    made = survey(tmp_path)
    assert (
        sorted(map(str, models(made))) == ["bert", "resnet"]
        and len(made.duplicates) == 2
    )
    assert all("2026-01-02" in row.run for row in made.runs)
    assert all(one.runs == one.runs_of_model == 1 for one in made.groups)


def test_models_of_the_running_process(tmp_path: Path) -> None:
    """An object by its class in the file of its code; a block by its function."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\n')
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "resnet.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    )
    (tmp_path / "train.py").write_text(
        f"{uses_forks()}import sys, torch, fusiondoc\nsys.path.insert(0, 'nets')\nfrom resnet import Net\n"
        "def main():\n    with fusiondoc.capture() as run:\n        torch.ones(2) + 1\n"
        "    with fusiondoc.capture(model_name='bert') as named:\n        torch.ones(2) + 1\n"
        "    report = fusiondoc.diagnose(Net(), (torch.ones(2),), runs=1)\n"
        "    print([one.target.model for one in (run.report, named.report, report)])\n"
        "main()\n"
    )
    done = python_apart(tmp_path / "train.py", cwd=tmp_path)
    assert (
        "['shop/train.py:main', 'bert', 'shop/nets/resnet.py:Net']" in done.stdout
    ), done.stderr


def test_what_does_not_say_its_target_has_no_model() -> None:
    assert model_of(KeptTarget(), Path.cwd()) is None
