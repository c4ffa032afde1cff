"""``fusiondoc check`` as a user meets it: real runs and real logs, exit statuses,
wrong input."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT, Run
from valid_json import validate

REJECTS = FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"
COMPOSITE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"

MODEL = """\
import torch

def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = torch.relu(x + y)
    b = torch.cumsum(a, 0)
    return torch.tanh(b) * a

inputs = (torch.rand(4, 8), torch.rand(4, 8))
"""


def expect(folder: Path, text: str, name: str = "fusions.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.torch
def test_a_run_that_holds_and_one_that_is_broken(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    expect(
        tmp_path,
        "groups:\n- ops: [add, relu]\n  source: model.py:4\n  function: model\n- [tanh, mul]\n",
    )
    done = fusiondoc(
        "check", "model.py", "--expect", "fusions.yaml", "--fuser", "nnc"
    )
    assert (done.returncode, done.stdout.count(" holds ")) == (0, 2), (
        done.stdout + done.stderr
    )
    expect(tmp_path, "# one group\ngroups:\n- [add, relu, cumsum, tanh, mul]\n")
    broken = fusiondoc(
        "check",
        "model.py",
        "--expect",
        "fusions.yaml",
        "--fuser",
        "nnc",
        env={"COLUMNS": "1000"},
    )
    assert broken.returncode == 1
    assert (
        "fusions.yaml:3: expected add, relu, cumsum, tanh, mul; found add, relu (G1): cumsum is not fused: NNC has"
        " no lowering for it (FD211), model.py:5; tanh, mul are in G2 (model.py:6), split off by cumsum\n"
    ) in broken.stdout
    # The capture of the run is the newest, so it can be checked again without
    # running.
    again = fusiondoc("check", "--expect", "fusions.yaml", env={"COLUMNS": "1000"})
    assert (again.returncode, again.stdout) == (1, broken.stdout)


@pytest.mark.torch
def test_specialisations_count_once(fusiondoc: Run, tmp_path: Path) -> None:
    text = MODEL.replace("inputs = ", "inputs = [").replace(
        "8))\n", "8)), (torch.rand(3, 5), torch.rand(3, 5))]\n"
    )
    (tmp_path / "model.py").write_text(text)
    run = ["model.py", "--fuser", "nnc", "--knob", "fusion_strategy=STATIC:4"]
    report = json.loads(fusiondoc("diagnose", *run, "-f", "json").stdout)
    assert (
        [g["respecialises"] for g in report["groups"]].count(None)
        == 2
        < len(report["groups"])
    )
    expect(
        tmp_path, "groups: [{ops: [add, relu], exactly: 1}]\nnumber_of_groups: 2\n"
    )
    done = fusiondoc("check", "--expect", "fusions.yaml")
    assert done.returncode == 0, done.stdout


@pytest.mark.torch
@pytest.mark.parametrize(
    ("example", "options"),
    [
        ("bias_gelu", []),
        ("rms_norm", ["--backward"]),
        ("composite_layer_norm", ["--backward"]),
    ],
)
def test_the_examples_fuse_as_their_file_says(
    example: str, options: list, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run = [
        f"examples/{example}.py",
        "--expect",
        "examples/fusions.yaml",
        "--fuser",
        "nnc",
        *options,
    ]
    done = fusiondoc("check", *run)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.torch
def test_the_example_broken_on_purpose(fusiondoc: Run, tmp_path: Path) -> None:
    source = (ROOT / "examples" / "bias_gelu.py").read_text()
    (tmp_path / "bias_gelu.py").write_text(
        source.replace("y = x + self.bias", "y = torch.cumsum(x + self.bias, 0)")
    )
    run = [
        "bias_gelu.py",
        "--expect",
        ROOT / "examples" / "fusions.yaml",
        "--fuser",
        "nnc",
    ]
    done = fusiondoc("check", *run, env={"COLUMNS": "1000"})
    assert done.returncode == 1
    assert "BROKEN" in done.stdout and "a coverage of 100%; found " in done.stdout
    assert "cumsum (FD211, bias_gelu.py:18)" in done.stdout


def test_the_section_on_nvfuser_holds_for_what_was_recorded(fusiondoc: Run) -> None:
    done = fusiondoc(
        "check", COMPOSITE, "--expect", ROOT / "examples" / "fusions.yaml"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("composite layer norm, nvFuser\n")


def test_a_log(fusiondoc: Run, tmp_path: Path) -> None:
    expect(tmp_path, "groups: [[mul, relu], [mul, relu, cumsum]]\n")
    done = fusiondoc("check", REJECTS, "--expect", "fusions.yaml")
    assert done.returncode == 1
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "cumsum is not fused: nvFuser has no" in done.stdout
    assert "1 of 2 expectations hold, 1 broken" in done.stdout


def test_json_has_the_expectations(fusiondoc: Run, tmp_path: Path) -> None:

    expect(tmp_path, "groups: [[mul, relu], [mul, relu, cumsum]]\n")
    done = fusiondoc("check", REJECTS, "--expect", "fusions.yaml", "-f", "json")
    report = json.loads(done.stdout)
    validate(report, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    assert [one["holds"] for one in report["expectations"]] == [True, False]
    assert report["expectations"][0]["groups"] == ["G1"]
    assert (
        report["expectations"][1]["line"],
        report["expectations"][1]["column"],
    ) == (1, 23)


def test_sections_hold_for_their_runs(fusiondoc: Run, tmp_path: Path) -> None:
    expect(
        tmp_path,
        "sections:\n"
        "- name: old\n  when: {fuser: nvfuser, torch: '<2.0'}\n  number_of_groups: 99\n"
        "- name: new\n  when: {fuser: [nvfuser, nnc], torch: '>=2.1, <2.2', gpu: h200}\n  number_of_groups: 2\n",
    )
    done = fusiondoc("check", COMPOSITE, "--expect", "fusions.yaml")
    assert done.returncode == 0 and done.stdout.startswith("new\n")
    # A plain log does not tell its torch: no section is for it, and that is no
    # silent success.
    none = fusiondoc("check", REJECTS, "--expect", "fusions.yaml")
    assert none.returncode == 2
    assert (
        "new: it is for torch >=2.1, <2.2, and torch is unknown" in none.stderr
        and "--section" in none.stderr
    )
    chosen = fusiondoc(
        "check", REJECTS, "--expect", "fusions.yaml", "--section", "old"
    )
    assert chosen.returncode == 1 and "expected 99 groups; found 5" in chosen.stdout
    wrong = fusiondoc(
        "check", REJECTS, "--expect", "fusions.yaml", "--section", "olt"
    )
    assert wrong.returncode == 2 and "Did you mean 'old'" in wrong.stderr


@pytest.mark.parametrize(
    ("torch", "wanted", "fits"),
    [
        ("2.1.2+cu121", "2.1", True), ("2.10.0", "2.1", False), ("2.1.2", "==2.1.2", True), ("2.1.2", "!=2.1", False),
        ("2.1.2", "<=2.1", False), ("2.1.0a0+git12", ">=1.12, <2.2", True), ("2.2.0", ">=1.12,<2.2", False),
        ("2.13.0+cpu", ">2.2", True), ("1.13", ">=1.13.0", True), ("nonsense", "2", False),
    ],
)  # fmt: skip
def test_versions(torch: str, wanted: str, fits: bool) -> None:
    from fusiondoc.expectations.applies import version_fits

    assert version_fits(torch, wanted) is fits


@pytest.mark.parametrize(
    ("argument", "target"),
    [
        ("model.py", True), ("no/such/model.py", True), ("model.py:block", True), ("model.pt", True),
        ("package.module:name", True), ("train.log", False), ("-", False), ("package.module", False),
        (".fusiondoc/20260101-000000-model", False), ("C:/logs/train.log", False), ("folder.py", False),
        ("log:x", False), ("model.py.log", False), ("logs/a:b", False), ("", False),
    ],
)  # fmt: skip
def test_what_is_a_target_and_what_a_log(
    argument: str, target: bool, tmp_path: Path, monkeypatch
) -> None:
    from fusiondoc.workflows import is_target

    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "log:x").write_text("")
    assert is_target(argument) is target


def test_a_log_with_the_name_of_a_module_is_told(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "log:x").write_text("")
    expect(tmp_path, "max_fallbacks: 0\n")
    done = fusiondoc("check", "log:x", "--expect", "fusions.yaml")
    assert done.returncode == 1 and "note: 'log:x' is read as a log" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["train.log"], "check needs --expect FILE.yaml"),
        (["train.log", "--expect", "none.yaml"], "cannot read none.yaml"),
        (["trian.log", "--expect", "good.yaml"], "nor a target"),
        (["trian.log", "--expect", "good.yaml"], "Did you mean train.log"),
        (["none.py", "--expect", "good.yaml"], "there is no file 'none.py'"),
        (["train.log", "--expect", "bad.yaml"], "bad.yaml:2:1: unknown key 'gruops' in the file. Did you mean 'groups'?"),
        (["train.log", "--expect", "good.yaml", "--backward"], "--backward is for running a model, but 'train.log' is a log"),
        (["--expect", "good.yaml", "--runs", "3"], "--runs is for running a model, but without a TARGET"),
        (["--expect", "good.yaml"], "there is no capture"),
        (["train.log", "--expect", "latin.yaml"], "latin.yaml is not UTF-8"),
        (["train.log", "--expect", "empty.yaml"], "empty.yaml is empty"),
        (["train.log", "--expect", "good.yaml", "--fail-on", "eror"], "Did you mean 'error'"),
    ],
)  # fmt: skip
def test_wrong_usage(args: list, said: str, fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("")
    expect(tmp_path, "max_fallbacks: 0\n", "good.yaml")
    expect(tmp_path, "# top\ngruops: []\n", "bad.yaml")
    expect(tmp_path, "# nothing\n", "empty.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9\n")
    done = fusiondoc("check", *args)
    assert done.returncode == 2 and done.stdout == ""
    assert (
        said in done.stderr
        and "next: " in done.stderr
        and "Traceback" not in done.stderr
    )


@pytest.mark.torch
def test_a_model_that_fails_is_no_broken_expectation(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\nmodel = torch.nn.Linear(2, 2)\ninputs = (torch.rand(3, 3),)\n"
    )
    expect(tmp_path, "max_fallbacks: 0\n")
    done = fusiondoc(
        "check", "model.py", "--expect", "fusions.yaml", "--fuser", "nnc"
    )
    assert done.returncode == 3 and "mat1 and mat2" in done.stderr
    expect(tmp_path, "when: {fuser: nvfuser}\nmax_fallbacks: 0\n", "other.yaml")
    other = fusiondoc(
        "check",
        "model.py",
        "--expect",
        "other.yaml",
        "--fuser",
        "nnc",
        "-f",
        "json",
    )
    assert other.returncode == 3 and json.loads(other.stdout)["expectations"] == []
    update = fusiondoc(
        "check", "model.py", "--expect", "new.yaml", "--update", "--fuser", "nnc"
    )
    assert update.returncode == 3 and not (tmp_path / "new.yaml").exists()


def test_fail_on_beside_expectations(fusiondoc: Run, tmp_path: Path) -> None:
    expect(tmp_path, "max_fallbacks: 0\n")
    assert (
        fusiondoc(
            "check", REJECTS, "--expect", "fusions.yaml", "--fail-on", "note"
        ).returncode
        == 1
    )
    assert (
        fusiondoc(
            "check", REJECTS, "--expect", "fusions.yaml", "--fail-on", "error"
        ).returncode
        == 0
    )


def test_several_logs_and_stdin(fusiondoc: Run, tmp_path: Path) -> None:
    import raw_log

    log = raw_log.read(REJECTS).decode()
    expect(tmp_path, "number_of_groups: 5\n")
    assert (
        fusiondoc("check", "-", "--expect", "fusions.yaml", input=log).returncode
        == 0
    )
    lines = log.splitlines(keepends=True)
    (tmp_path / "a.log").write_text("".join(lines[:100]))
    (tmp_path / "b.log").write_text("".join(lines[100:]))
    both = fusiondoc("check", "a.log", "b.log", "--expect", "fusions.yaml")
    count = len(
        json.loads(fusiondoc("parse", "a.log", "b.log", "-f", "json").stdout)[
            "groups"
        ]
    )
    assert f"expected 5 groups; found {count}" in both.stdout or (
        count == 5 and both.returncode == 0
    )


def test_a_file_of_a_training_run_says_in_one_line_that_there_was_no_backward(
    fusiondoc: Run, tmp_path: Path
) -> None:
    log = FIXTURES / "logs" / "nnc-2.13-split-helper.log.xz"
    text = "groups:\n- [mul, relu]\n- {ops: [mul], phase: backward}\n- {ops: [neg], phase: backward}\n"
    text += "number_of_groups: 4\n"
    (tmp_path / "f.yaml").write_text(text + "not_fused: []\n")
    done = fusiondoc("check", log, "--expect", "f.yaml")
    assert done.returncode == 1
    told = [line for line in done.stdout.splitlines() if "BROKEN" in line]
    assert (
        len(told) == 1
        and "f.yaml:3, 4, 5, 6: expect a backward pass, and this run had" in told[0]
    )
    # The command stands on a line of its own: in a column it would be broken over
    # two.
    assert (
        "         $ fusiondoc check TARGET --backward --expect f.yaml"
        in done.stdout.splitlines()
    )
    assert "1 of 5 expectations hold, 4 broken" in done.stdout
    update = fusiondoc("check", log, "--expect", "f.yaml", "--update")
    assert (
        update.returncode == 2
        and "it has groups of backward passes" in update.stderr
    )
    assert (tmp_path / "f.yaml").read_text().startswith(text)


def test_a_file_with_aliases_is_refused_before_anything_runs(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "f.yaml").write_text("groups:\n- &g [mul, relu]\n- *g\n")
    (tmp_path / "m.py").write_text("raise SystemExit('it ran')\n")
    done = fusiondoc("check", "m.py", "--expect", "f.yaml", "--update")
    assert done.returncode == 2 and "it ran" not in done.stderr
    assert "line 3 repeats with *g what &g names in line 2" in done.stderr


def test_what_nothing_was_seen_of_does_not_hold(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """A log without a plan has no fallback and no operator outside groups, as it
    has none in groups."""
    (tmp_path / "run.log").write_text("")
    expect(
        tmp_path,
        "groups: [{ops: [mul], exactly: 0}]\nnumber_of_groups: {at_most: 3}\nmax_fallbacks: 0\nnot_fused: []\n",
    )
    done = fusiondoc(
        "check", "run.log", "--expect", "fusions.yaml", env={"COLUMNS": "200"}
    )
    assert (
        done.returncode,
        done.stdout.count("found unknown: The log is empty (FD901)\n"),
    ) == (1, 4), done.stdout
    before = (tmp_path / "fusions.yaml").read_bytes()
    done = fusiondoc("check", "run.log", "--expect", "fusions.yaml", "--update")
    assert (
        done.returncode == 2
        and "found nothing to write down: The log is empty (FD901)" in done.stderr
    )
    assert (tmp_path / "fusions.yaml").read_bytes() == before


def test_a_cut_log_is_told_beside_what_holds(
    fusiondoc: Run, tmp_path: Path
) -> None:
    import lzma

    whole = lzma.decompress(REJECTS.read_bytes())
    (tmp_path / "run.log").write_bytes(whole[: whole.rindex(b"graph(") + 200])
    expect(tmp_path, "max_fallbacks: 0\n")
    done = fusiondoc(
        "check", "run.log", "--expect", "fusions.yaml", env={"COLUMNS": "200"}
    )
    assert done.returncode == 0
    assert (
        "1 of 1 expectations hold\nwarning FD902: 1 graph or kernel is cut off"
        in done.stdout
    )


def test_the_log_of_a_job_says_what_broke_where_the_report_is_a_file(
    fusiondoc: Run, tmp_path: Path
) -> None:
    expect(tmp_path, "number_of_groups: {at_least: 90}\nmax_fallbacks: 0\n")
    run = ("check", REJECTS, "--expect", "fusions.yaml", "-o", "fusions.xml")
    done = fusiondoc(*run, env={"GITHUB_ACTIONS": ""})
    assert done.returncode == 1 and done.stdout == ""
    assert (
        "BROKEN fusions.yaml:1: expected at least 90 groups; found " in done.stderr
    )
    assert done.stderr.endswith("1 of 2 expectations hold, 1 broken\n")
    annotated = fusiondoc(
        *run, env={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "s.md"}
    ).stderr
    assert (
        "::error file=fusions.yaml,line=1" in annotated
        and "BROKEN" not in annotated
    )


def test_a_merge_conflict_is_named(fusiondoc: Run, tmp_path: Path) -> None:
    text = "max_fallbacks: 0\n<<<<<<< HEAD\nnumber_of_groups: 2\n=======\nnumber_of_groups: 3\n>>>>>>> topic\n"
    for ends in (text, text.replace("\n", "\r\n")):
        (tmp_path / "fusions.yaml").write_bytes(ends.encode())
        for more in ((), ("--update",)):
            done = fusiondoc("check", REJECTS, "--expect", "fusions.yaml", *more)
            assert done.returncode == 2
            assert (
                "error: fusions.yaml:2: a merge left both sides here (<<<<<<<)\n"
                in done.stderr
            )


def test_captures_of_several_runs_are_refused(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """They were read as parts of one run, in which a group that one of them lost is
    there."""
    for name in ("one", "two"):
        (tmp_path / "kept").mkdir(exist_ok=True)
        (tmp_path / "kept" / name).symlink_to(COMPOSITE)
    expect(tmp_path, "max_fallbacks: 0\n")
    for named in (("kept/one", "kept/two"), ("kept",)):
        done = fusiondoc("check", *named, "--expect", "fusions.yaml")
        assert (
            done.returncode == 2
            and "one, two are captures of runs of their own" in done.stderr
        )
    assert (
        fusiondoc("check", "kept/one", "--expect", "fusions.yaml").returncode == 0
    )


@pytest.mark.torch
def test_the_capture_of_a_run_that_failed_fails_too(
    fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(
        MODEL.replace("inputs = ", "inputs = [").rstrip()
        + ", (torch.rand(4, 8), torch.rand(9, 9))]\n"
    )
    expect(tmp_path, "groups: [[add, relu]]\n")
    assert (
        fusiondoc(
            "check", "model.py", "--expect", "fusions.yaml", "--fuser", "nnc"
        ).returncode
        == 3
    )
    again = fusiondoc("check", "--expect", "fusions.yaml")
    assert again.returncode == 3 and "1 of 1 expectations hold" in again.stdout
    assert "model.py failed in the forward pass" in again.stderr
    before = (tmp_path / "fusions.yaml").read_bytes()
    assert (
        fusiondoc("check", "--expect", "fusions.yaml", "--update").returncode == 3
    )
    assert (tmp_path / "fusions.yaml").read_bytes() == before


def test_a_section_holds_from_every_folder_that_its_target_can_be_named_from() -> (
    None
):
    from dataclasses import replace

    from fusiondoc.expectations import When
    from fusiondoc.expectations.applies import why_not
    from fusiondoc.workflows.load import report_from

    report = report_from([str(COMPOSITE)])
    when = When(target=("models/block.py",))

    def holds(name: str, folder: str) -> bool:
        return (
            why_not(
                when,
                replace(
                    report, target=replace(report.target, name=name, folder=folder)
                ),
            )
            is None
        )

    assert holds("models/block.py", "/repo") and holds("block.py", "/repo/models")
    assert holds("../models/block.py", "/repo/tests") and holds(
        "/repo/models/block.py", "/repo"
    )
    assert not holds("block.py", "/repo") and not holds(
        "block.py:other", "/repo/models"
    )
