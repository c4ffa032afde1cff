"""Captures on disk: made, found, cut off, of other versions, removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fusiondoc.captures import KEPT
from fusiondoc.captures.capture import SCHEMA, Capture
from fusiondoc.captures.ending import Result
from fusiondoc.captures.store import CaptureStore, while_writing
from fusiondoc.errors import UsageError


def make(
    store: CaptureStore,
    slug: str = "model",
    result: dict[str, object] | None = None,
    **request: object,
) -> Path:
    """``result``: how the run ended; None: it was killed with fusiondoc."""
    path = store.new(slug)
    content = {
        "schema": SCHEMA,
        "fusiondoc": "0.1.0",
        "target": {"text": f"{slug}.py"},
        **request,
    }
    with while_writing(path):
        (path / "request.json").write_text(json.dumps(content))
        if result is not None:
            (path / "result.json").write_text(json.dumps(result))
    store.done(path)
    return path


WELL: dict[str, object] = {"exit_status": 0}


def test_new_captures_have_names_of_their_own_and_the_newest_is_found(
    tmp_path: Path,
) -> None:
    store = CaptureStore(tmp_path)
    paths = [make(store, slug) for slug in ("a", "b", "a", "a")]
    assert len({path.name for path in paths}) == 4
    assert store.newest().path == paths[-1]
    assert [capture.path for capture in store.list()] == paths[::-1]
    assert (tmp_path / ".fusiondoc" / ".gitignore").read_text() == "*\n"


def test_only_the_newest_are_kept_and_nothing_else_is_touched(
    tmp_path: Path,
) -> None:
    store = CaptureStore(tmp_path)
    own = tmp_path / ".fusiondoc" / "notes"
    own.mkdir(parents=True)
    paths = [make(store, result=WELL) for _ in range(KEPT + 3)]
    assert [path.exists() for path in paths] == [False] * 3 + [True] * KEPT
    assert own.exists()


def test_a_cut_record_is_left_out(tmp_path: Path) -> None:
    path = make(CaptureStore(tmp_path))
    (path / "records.jsonl").write_bytes(
        b'{"record": "fuser", "effective": "nnc"}\n{"record": "environment", "gpu": null, "torch": "2.1.2"}\n'
        b'\xff\xfe\n[1]\n{"record": "environment", "gpu": "a GPU", "torch": null}\n{"record": "iterat'
    )
    capture = Capture(path)
    assert capture.records.fuser.effective == "nnc"
    assert capture.records.environment.texts == {"gpu": "a GPU", "torch": "2.1.2"}
    assert capture.records.passes == () and capture.records.error is None


def test_a_run_that_was_killed_with_fusiondoc_has_no_result(tmp_path: Path) -> None:
    path = make(CaptureStore(tmp_path))
    assert Capture(path).result == Result()
    (path / "result.json").write_text('{"exit_st')
    assert Capture(path).result == Result()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"schema": "fusiondoc.capture/2", "fusiondoc": "9.1.0"}',
            "made by fusiondoc 9.1.0 in the newer form",
        ),
        (
            '{"schema": "something else"}',
            "is not a capture: its schema is 'something else'",
        ),
        ("[]", "is not a capture"),
        ('{"schema": ', "cannot be read"),
    ],
)
def test_other_captures_are_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "request.json").write_text(content)
    with pytest.raises(UsageError, match=message):
        Capture(tmp_path)


def test_the_newer_form_says_what_to_do(tmp_path: Path, fusiondoc) -> None:
    path = make(CaptureStore(tmp_path), schema="fusiondoc.capture/3")
    shown = fusiondoc("captures", "show", path.name)
    assert shown.returncode == 2
    assert (
        "fusiondoc.capture/3" in shown.stderr
        and "pip install --upgrade fusiondoc" in shown.stderr
    )
    assert f"fusiondoc parse {path / 'log'}" in shown.stderr.replace("\n", " ")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".fusiondoc").write_text("a file, not a folder")
    with pytest.raises(UsageError, match="cannot write captures in") as raised:
        CaptureStore(tmp_path).new("model")
    assert "Run from a folder that you can write to" in str(raised.value.hint)


def test_names_may_be_parts_that_only_one_has(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    first, second = make(store, "gelu"), make(store, "norm")
    assert store.get("gelu").path == first
    assert store.get(second.name).path == second
    with pytest.raises(UsageError, match="means 2 captures"):
        store.get(first.name[:8])
    with pytest.raises(UsageError, match="no capture 'other'") as raised:
        store.get("other")
    assert f"the newest is {second.name}" in str(raised.value.hint)


def test_the_command_lists_shows_and_removes(tmp_path: Path, fusiondoc) -> None:
    store = CaptureStore(tmp_path)
    asked = {
        "fuser": "nnc",
        "runs": 5,
        "seed": 0,
        "trace": True,
        "script": False,
        "inputs": ["a b", "2"],
    }
    path = make(
        store,
        "gelu",
        torch="2.1.2",
        options={**asked, "knobs": {"single_node": "on"}},
    )
    (path / "result.json").write_text(
        '{"exit_status": null, "signal": "SIGSEGV", "seconds": {"child": 1.5}}'
    )
    make(store, "norm")
    listed = fusiondoc("captures")
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == [
        "TARGET",
        "norm.py",
        "gelu.py",
    ]
    assert "died of SIGSEGV" in listed.stdout and "not finished" in listed.stdout
    rows = json.loads(fusiondoc("captures", "list", "--format", "json").stdout)[
        "captures"
    ]
    assert [row["target"] for row in rows] == ["norm.py", "gelu.py"]
    shown = fusiondoc("captures", "show", "gelu").stdout
    assert (
        "fuser=nnc runs=5 trace=yes inputs='a b 2' seed=0 knobs=single_node=on\n"
        in shown
    )
    assert "1.50 in the model's process\n" in shown
    assert (
        json.loads(
            fusiondoc("captures", "show", "gelu", "--format", "json").stdout
        )["capture"]["torch"]
        == "2.1.2"
    )
    assert fusiondoc("captures", "remove").returncode == 2
    assert fusiondoc("captures", "remove", "gelu").returncode == 0
    assert not path.exists()
    assert fusiondoc("captures", "remove", "--all").returncode == 0
    assert store.list() == []
    assert fusiondoc("captures").returncode == 0


def test_the_list_fits_the_terminal(tmp_path: Path, fusiondoc) -> None:
    store = CaptureStore(tmp_path)
    make(
        store,
        "layer_norm",
        torch="2.13.0+cpu",
        target={"text": "models/of/the/library/layer_norm.py"},
    )
    listed = fusiondoc("captures", env={"COLUMNS": "80"}).stdout
    assert listed.rstrip().endswith("layer_norm.py") and "…" in listed
    assert max(map(len, listed.splitlines())) == 80


def test_what_makes_room_is_said_and_names_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSIONDOC_KEEP_LAST", "2")
    said: list[str] = []
    named = make(CaptureStore(tmp_path, name="before-rewrite"))
    kept = make(CaptureStore(tmp_path, keep=True))
    first, second, third = (
        make(CaptureStore(tmp_path, notify=said.append), slug, WELL)
        for slug in "abc"
    )
    assert [path.exists() for path in (named, kept, first, second, third)] == [
        True,
        True,
        False,
        True,
        True,
    ]
    (note,) = said
    assert first.name in note and "--keep-last" in note and len(note) <= 80
    store = CaptureStore(tmp_path)
    assert store.get("before-rewrite").path == named
    make(CaptureStore(tmp_path), "before_rewrite_model")
    assert store.get("before-rewrite").path == named
    for name, problem in (
        ("before-rewrite", "already exists"),
        ("latest", "cannot be the name"),
        ("a b", "cannot be the name"),
    ):
        with pytest.raises(UsageError, match=problem):
            CaptureStore(tmp_path, name=name).new("model")


def test_latest_counts_back_and_candidates_are_listed(
    tmp_path: Path, fusiondoc
) -> None:
    store = CaptureStore(tmp_path)
    old, mid, new = (make(store, slug) for slug in ("gelu", "norm", "gelu"))
    assert [
        store.get(name).path for name in ("latest", "latest~1", "latest~2")
    ] == [new, mid, old]
    assert [one.path for one in store.two_newest()] == [old, new]
    shown = fusiondoc("captures", "show", "gelu")
    assert (
        shown.returncode == 2 and f"\n  {new.name}\n  {old.name}\n" in shown.stderr
    )
    beyond = fusiondoc("captures", "show", "latest~3")
    assert beyond.returncode == 2 and "there are 3 captures" in beyond.stderr
    with pytest.raises(UsageError, match="no target has two captures"):
        store.remove(old.name)
        store.two_newest()


@pytest.mark.parametrize("by", ["option", "variable", "file"])
def test_the_place_is_said_by_an_option_a_variable_or_the_configuration(
    by: str, tmp_path: Path, fusiondoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "runs"
    monkeypatch.setenv("FUSIONDOC_CAPTURES", str(there))
    path = make(CaptureStore())
    monkeypatch.delenv("FUSIONDOC_CAPTURES")
    assert path.parent == there
    options, env = ("--captures-in", "runs") if by == "option" else (), {}
    if by == "variable":
        env = {"FUSIONDOC_CAPTURES": "runs"}
    if by == "file":
        (tmp_path / "fusiondoc.yaml").write_text(
            "captures-in: runs\nkeep-last: 5\n"
        )
    for command in (
        ("captures", "show"),
        ("parse", "latest"),
        ("bundle", "--dry-run", "latest"),
    ):
        done = fusiondoc(*command, *options, env=env)
        assert done.returncode == 0, (command, done.stderr)
    assert fusiondoc("captures", "show").returncode == (
        0 if by == "file" else 2
    )  # no call leaves it behind


def test_a_place_that_the_project_may_not_name(tmp_path: Path, fusiondoc) -> None:
    (tmp_path / "fusiondoc.yaml").write_text("captures-in: ../elsewhere\n")
    done = fusiondoc("captures")
    assert done.returncode == 2 and "outside the folder" in done.stderr
    (tmp_path / "fusiondoc.yaml").write_text("keep-last: none\n")
    done = fusiondoc("captures")
    assert (
        done.returncode == 2
        and "fusiondoc.yaml:1:1: 'none' is not a number of captures" in done.stderr
    )


def test_a_folder_with_other_things_gets_no_gitignore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "model.py").touch()
    monkeypatch.setenv("FUSIONDOC_CAPTURES", str(tmp_path / "work"))
    make(CaptureStore())
    assert not (tmp_path / "work" / ".gitignore").exists()


def test_compare_takes_the_two_newest_of_one_target(
    tmp_path: Path, fusiondoc
) -> None:
    store = CaptureStore(tmp_path)
    old, new, _ = (make(store, slug) for slug in ("gelu", "gelu", "norm"))
    for path in store.paths():
        (path / "log").write_text("")
    done = fusiondoc("compare")
    assert (
        f"A is {old.name}, B is {new.name}: the two newest captures of gelu.py"
        in done.stderr
    )
    assert old.name in done.stdout and new.name in done.stdout
    assert (
        f"B is {store.newest().name}, the newest"
        in fusiondoc("compare", old.name).stderr
    )
    assert (
        f"A        {new.name}" in fusiondoc("compare", "latest~1", "latest").stdout
    )


def test_a_folder_of_a_run_that_never_began_is_not_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CaptureStore(tmp_path)
    path = make(store)
    store.new("model")
    assert store.newest().path == store.get("latest").path == path
    monkeypatch.setenv("FUSIONDOC_KEEP_LAST", "many")
    before = store.paths()
    with pytest.raises(UsageError, match="'many' is not a number of captures"):
        store.new("model")
    assert store.paths() == before
