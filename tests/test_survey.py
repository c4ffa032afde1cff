"""Many runs at once: the rows, the answers, engines, and what cannot be read."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import itertools
import json
import lzma
import os
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import ROOT, Run
from valid_json import validate

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model.survey_answers import MOST_SLOWEST, Survey, Work
from fusiondoc.reports import survey_documents as documents
from fusiondoc.reports.json_format import as_json, plain
from fusiondoc.views.survey_sections import verdict
from fusiondoc.workflows import survey as workflow
from fusiondoc.workflows import (
    survey_copies,
    survey_engines,
    survey_facts,
    survey_listing,
    survey_tallies,
)
from fusiondoc.workflows.survey import chunks_of, survey
from fusiondoc.workflows.survey_facts import digest
from fusiondoc.workflows.survey_listing import ListedRun, listed
from fusiondoc.workflows.survey_losses import order
from fusiondoc.workflows.survey_tallies import RunSums, read_chunk, survey_of

GOLDEN = ROOT / "fixtures" / "golden"
_SPEC = importlib.util.spec_from_file_location(
    "survey_fleet", ROOT / "benchmarks" / "survey_fleet.py"
)
assert _SPEC is not None and _SPEC.loader is not None
fleet = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fleet)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 reports of 40 models over 300 days."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet.make(folder, 120)
    return folder


@pytest.fixture(scope="module")
def found(reports: Path) -> Survey:
    return survey([str(reports)], workers=1)


def answer(made: Survey) -> dict[str, Any]:
    return {name: value for name, value in plain(made).items() if name != "work"}


def test_every_file_is_a_row_or_is_named(found: Survey, reports: Path) -> None:
    files = sorted(str(path) for path in reports.rglob("*.json"))
    named = [row.run for row in found.runs]
    named += [one.run for one in found.unreadable] + [
        one.run for one in found.duplicates
    ]
    assert sorted(named) == files
    assert (
        len(found.runs) == 118
        and len(found.unreadable) == 2
        and len(found.duplicates) == 4
    )
    whys = {one.why.partition(":")[0] for one in found.unreadable}
    assert whys == {"it is not a complete JSON file", "it is not a report"}
    for one in found.duplicates:
        assert Path(one.run).read_bytes() == Path(one.same_as).read_bytes()


def test_rows_are_what_the_reports_say(found: Survey) -> None:
    for row in random.Random(7).sample(found.runs, 20):
        data = json.loads(Path(row.run).read_text())
        assert row.groups == sum(
            len(group["instances"]) for group in data["groups"]
        )
        assert row.unfused == sum(
            one["count"] for one in data["unfused"] if one["ran"] is not False
        )
        assert (
            row.torch == data["environment"]["torch"]
            and row.driver == data["environment"]["driver"]
        )
        assert row.model == data["target"]["name"]
        assert (
            row.date is not None
            and row.date.replace("-", "") in data["target"]["capture"]
        )


@pytest.fixture(scope="module")
def losing(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Eighteen runs of each of 40 models: six with each release of torch."""
    folder = tmp_path_factory.mktemp("losing")
    fleet.make(folder, 720)
    return survey([str(folder)], workers=2)


def test_what_is_gone_since_which_release(losing: Survey) -> None:
    found = losing
    by_torch = [one for one in found.gone if one.by == "torch"]
    assert (
        len(by_torch)
        == len(found.gone)
        == len({one.model for one in by_torch})
        == 14
    )
    assert {(one.last, one.since) for one in by_torch} == {("2.0.1", "2.1.2")}
    assert all(
        int(str(one.model)[len("models/block") : -3]) % 3 == 0 for one in by_torch
    ), "fleet.make drops groups of these only"
    assert all(one.share_before == 1 for one in by_torch)
    shares = {one.id: one.share for one in found.groups}
    assert all(0 < shares[group] < 1 for one in found.gone for group in one.groups)
    assert all(
        str(one.date_from) < str(one.date) == one.date_to for one in by_torch
    )


def test_shares_and_reasons_are_counted_by_run(found: Survey) -> None:
    for one in found.groups:
        assert one.runs_of_model == sum(
            row.model == one.model for row in found.runs
        )
        assert one.share == pytest.approx(one.runs / one.runs_of_model, abs=1e-6)
    assert sum(one.nodes for one in found.reasons) == sum(
        row.unfused for row in found.runs
    )
    assert sum(one.bytes for one in found.reasons) == sum(
        row.unfused_bytes for row in found.runs
    )
    costs = [(one.ms, one.bytes) for one in found.reasons]
    assert costs == sorted(costs, reverse=True)


def test_why_a_group_is_gone_is_what_its_operators_have_since(
    tmp_path: Path,
) -> None:
    data = json.loads((GOLDEN / "capture.json").read_text())
    group = data["groups"][0]
    for number in range(6):
        data["target"] = {
            "name": "a/m.py",
            "options": {},
            "capture": f".fusiondoc/2025010{number + 1}-000000-m",
        }
        data["groups"] = [group] if number < 4 else []
        data["unfused"] = (
            [] if number < 4 else [_outside(group["nodes"][0], "FD230")]
        )
        (tmp_path / f"{number}.json").write_text(json.dumps(data))
    (gone,) = survey([str(tmp_path)]).gone
    assert (gone.by, gone.last, gone.since, gone.runs_since) == (
        "date",
        "2025-01-04",
        "2025-01-05",
        2,
    )
    assert gone.why == ("FD230 in 2 runs",)


@pytest.mark.parametrize(
    ("lines", "gone", "moved"),
    [((0, 7, 7), 0, 2), ((0, 7, None), 2, 2), ((0, None, 7), 0, 2)],
)
def test_groups_at_other_lines_are_not_gone(
    lines: tuple[int | None, ...], gone: int, moved: int, tmp_path: Path
) -> None:
    """Every change of a file moves what is below it. ``lines``: of three stretches
    of days, by how much the lines are further down; None is without the group."""
    text = (GOLDEN / "capture.json").read_text()
    data = json.loads(text)
    (first, *_) = data["groups"]
    for day in range(6):
        further = lines[day // 2]
        data["groups"] = []
        for nth in range(
            2 if further is not None else 0
        ):  # two equal groups, 40 lines apart
            nodes = [
                dict(one, user_source=f"/a/m.py:{20 + 40 * nth + (further or 0)}")
                for one in first["nodes"]
            ]
            data["groups"].append(dict(first, id=f"G{nth + 1}", nodes=nodes))
        data["target"] = {
            "name": "a/m.py",
            "options": {},
            "capture": f".fusiondoc/2025010{day + 1}-000000-m",
        }
        (tmp_path / f"{day}.json").write_text(json.dumps(data))
    made = survey([str(tmp_path)])
    assert sum(len(one.groups) for one in made.gone) == gone and made.moved == moved
    assert len(made.gone) == (gone > 0), "what was lost at one time is one loss"


def test_of_equal_groups_that_move_the_one_without_new_lines_is_gone(
    tmp_path: Path,
) -> None:
    (first, *_) = (data := json.loads((GOLDEN / "capture.json").read_text()))[
        "groups"
    ]
    for day in range(4):
        data["groups"] = [
            dict(
                first,
                id=f"G{line}",
                nodes=[
                    dict(one, user_source=f"/a/m.py:{line}")
                    for one in first["nodes"]
                ],
            )
            for line in ((20, 60) if day < 2 else (62,))
        ]
        data["target"] = {
            "name": "a/m.py",
            "options": {},
            "capture": f".fusiondoc/2025010{day + 1}-000000-m",
        }
        (tmp_path / f"{day}.json").write_text(json.dumps(data))
    (gone,) = survey([str(tmp_path)]).gone
    assert gone.text.endswith("at m.py:20")


def _outside(node: dict[str, Any], code: str) -> dict[str, Any]:
    reason = {"code": code, "text": "in place", "stated": False}
    return {
        **node,
        "phase": "forward",
        "count": 1,
        "ran": True,
        "reason": reason,
        "evidence": [],
        "time": None,
    }


def test_a_kernel_that_is_slow_in_one_run(tmp_path: Path) -> None:
    data = json.loads((GOLDEN / "capture.json").read_text())
    timed = next(kernel for kernel in data["kernels"] if kernel["ms"] is not None)
    usual = timed["ms"]["median"]
    for number in range(8):
        timed["ms"]["median"] = usual * (3 if number == 5 else 1 + number / 100)
        (tmp_path / f"{number}.json").write_text(json.dumps(data))
    (slow,) = survey([str(tmp_path)]).outliers
    assert (
        slow.run.endswith("5.json")
        and slow.runs == 8
        and slow.ratio == pytest.approx(2.88, abs=0.1)
    )


def test_slow_runs_that_are_not_listed_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the median is of a sample of the runs."""
    data = json.loads((GOLDEN / "capture.json").read_text())
    timed = next(kernel for kernel in data["kernels"] if kernel["ms"] is not None)
    usual, slow = timed["ms"]["median"], MOST_SLOWEST + 3
    for number in range(3 * slow):
        timed["ms"]["median"] = usual * (
            5 + number / 100 if number < slow else 1 + number / 1000
        )
        (tmp_path / f"{number:03}.json").write_text(json.dumps(data))
    for most in (5_000, 2 * slow):
        monkeypatch.setattr(survey_tallies, "MOST_SAMPLES", most)
        made = survey([str(tmp_path)], workers=1)
        assert len(made.outliers) == MOST_SLOWEST and made.outliers_left_out == 3
        assert made.outliers[0].run.endswith(f"{slow - 1:03}.json")
        assert {one.left_out for one in made.outliers} == {3}
        said = f"the {MOST_SLOWEST} slowest runs of each, 3 more are left out"
        assert said in " ".join(
            documents.as_text(made).split()
        ) and said in documents.as_page(made)
        assert f"{slow} slow kernels" in verdict(made)
        assert json.loads(as_json(made))["outliers_left_out"] == 3
        assert (
            documents.as_csv(made, "outliers")
            .partition("\n")[0]
            .endswith(",left_out")
        )


def test_times_of_a_run_of_several_ranks(tmp_path: Path) -> None:
    """All kernels of all ranks count, and the slowest of equal ones is held against
    other runs."""
    data = json.loads((GOLDEN / "capture.json").read_text())
    of_rank_1 = json.loads(json.dumps([data["kernels"], data["groups"]]))
    data["kernels"] += [
        {**kernel, "id": kernel["id"] + "b", "rank": 1} for kernel in of_rank_1[0]
    ]
    for group in of_rank_1[1]:
        data["groups"].append(
            {**group, "kernels": [one + "b" for one in group["kernels"]], "rank": 1}
        )
    slow = data["kernels"][-1]["ms"]
    usual = slow["median"]
    total = {}
    for number in range(8):
        slow["median"] = usual * (3 if number == 5 else 1 - number / 100)
        total[f"{number}.json"] = sum(
            k["ms"]["median"] for k in data["kernels"] if k["ms"] is not None
        )
        (tmp_path / f"{number}.json").write_text(json.dumps(data))
    made = survey([str(tmp_path)])
    assert {
        Path(row.run).name: row.kernel_ms for row in made.runs
    } == pytest.approx(total, abs=1e-5)
    (found,) = made.outliers
    assert found.run.endswith("5.json") and found.ratio == pytest.approx(
        3, abs=0.01
    )


@pytest.mark.parametrize(
    "versions",
    [
        (
            "2.0.1",
            "2.1.0.dev20230701+cu121",
            "2.1.0a0+git12",
            "2.1.0rc2",
            "2.1.0",
            "2.1.2+cpu",
            "2.9.1",
            "2.13.0",
        ),
        ("535.54.03", "535.129.03", "550.54.14"),
        ("2025-12-31", "2026-01-02", "2026-01-10", "2026-02-01"),
    ],
)
def test_values_have_the_order_in_which_they_came(
    versions: tuple[str, ...],
) -> None:
    shuffled = random.Random(3).sample(versions, len(versions))
    assert sorted(shuffled, key=order) == list(versions)


def test_builds_of_one_release_are_no_order(tmp_path: Path) -> None:
    data = json.loads((GOLDEN / "capture.json").read_text())
    data["target"] = {"name": "a/m.py", "options": {}, "capture": None}
    group = data["groups"][0]
    for number, version in enumerate(
        ("2.1.2+cpu", "2.1.2+cu118", "2.1.2+cu121", "2.1.2+cu121")
    ):
        data["environment"] = {"torch": version, "driver": str(number)}
        data["groups"] = [group] if number < 1 else []
        (tmp_path / f"{number}.json").write_text(json.dumps(data))
    made = survey([str(tmp_path)])
    assert (
        not [one for one in made.gone if one.by == "torch"]
        and made.groups[0].share == 0.25
    )
    assert [row.torch for row in made.runs][1] == "2.1.2+cu118"


def test_links_and_closed_folders_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, outside = tmp_path / "reports", tmp_path / "outside"
    for folder in (top / "a", top / "closed", outside):
        folder.mkdir(parents=True)
    shutil.copy(GOLDEN / "capture.json", top / "a" / "one.json")
    shutil.copy(GOLDEN / "capture.json", outside / "two.json")
    try:
        (top / "gone.json").symlink_to(tmp_path / "nowhere")
        (top / "loop.json").symlink_to("loop.json")
        (top / "elsewhere").symlink_to(outside)
        (top / "a" / "again").symlink_to(top)
    except OSError:
        pytest.skip("no links here")

    def is_capture(path: Path) -> bool:
        if path.name == "closed":
            raise PermissionError(
                13, "Permission denied", str(path / "request.json")
            )
        return False

    monkeypatch.setattr(survey_listing, "is_capture", is_capture)
    made = survey([str(top)])
    assert [Path(row.run).name for row in made.runs] == [
        "one.json"
    ] and not made.ignored
    named = {Path(one.run).name: one.why for one in made.unreadable}
    assert set(named) == {"gone.json", "loop.json", "elsewhere", "closed"}
    assert (
        "Permission denied" in named["closed"] and "name it" in named["elsewhere"]
    )


def test_dates_of_paths() -> None:
    assert survey_facts._date("", "runs/2026-11-30/a.json") == "2026-11-30"
    assert survey_facts._date("", "a-20240229T235959.json") == "2024-02-29"
    for text in ("job-20261100.json", "a-20261301.json", "a-2026112212.json"):
        assert survey_facts._date("", text) is None, text


def test_the_answer_depends_on_no_order_and_on_no_engine(
    found: Survey, reports: Path
) -> None:
    copies = {one.run for one in found.duplicates}
    items = [
        item for item in listed([str(reports)]).items if item.name not in copies
    ]
    choose = random.Random(5)
    part = RunSums()
    for chunk in sorted(chunks_of(items, most=7), key=lambda _: choose.random()):
        other = read_chunk(chunk)
        part, other = (part, other) if choose.random() < 0.5 else (other, part)
        part.merge(other)
    made = survey_of(part, found.duplicates, found.ignored, Work("", None, 0, 0))
    assert answer(made) == answer(found)
    pooled = survey([str(reports)], workers=2)
    assert pooled.work.engine == "local" and pooled.work.workers == 2
    assert answer(pooled) == answer(found)


def dying(chunk: Sequence[ListedRun]) -> RunSums:
    """Dies over one file each time, over another once."""
    for item in chunk:
        if item.name.endswith("run-000007.json"):
            os._exit(9)
        once = Path(item.name).parent.parent / "died"
        if item.name.endswith("run-000100.json") and not once.exists():
            once.touch()
            os._exit(9)
    return read_chunk(chunk)


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forks here")
def test_a_worker_that_dies_loses_nothing_but_the_file_that_kills_it(
    found: Survey, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "fleet"
    shutil.copytree(reports, folder)
    monkeypatch.setattr(workflow, "read_chunk", dying)
    said: list[str] = []
    made = survey([str(folder)], workers=2, notify=said.append)
    assert made.work.lost_workers >= 2 and any(
        "a worker died" in line for line in said
    )
    (lost,) = [one for one in made.unreadable if "the worker died" in one.why]
    assert lost.run.endswith("run-000007.json")
    rows = {Path(row.run).name for row in made.runs}
    assert rows == {Path(row.run).name for row in found.runs} - {"run-000007.json"}


def test_logs_and_captures_are_runs_too(tmp_path: Path) -> None:
    shutil.copy(
        ROOT / "fixtures" / "logs" / "nnc-2.11-add-relu.log.xz",
        tmp_path / "2026-03-04.log.xz",
    )
    shutil.copy(GOLDEN / "onednn.json", tmp_path)
    (tmp_path / "notes.pdf").write_text("")
    capture = next(
        one.parent for one in (ROOT / "fixtures" / "captures").rglob("request.json")
    )
    shutil.copytree(capture, tmp_path / "kept" / "20260102-030405-m")
    made = survey([str(tmp_path)])
    assert not made.unreadable and made.ignored == 1
    assert {(row.kind, row.date) for row in made.runs} == {
        ("log", "2026-03-04"),
        ("report", None),
        ("capture", "2026-01-02"),
    }
    log = next(row for row in made.runs if row.kind == "log")
    assert log.groups == 1 and log.model is None


def test_a_renamed_capture_has_the_day_when_it_was_made(tmp_path: Path) -> None:
    capture = next(
        one.parent for one in (ROOT / "fixtures" / "captures").rglob("request.json")
    )
    day = json.loads((capture / "request.json").read_text())["created"][:10]
    for name in ("baseline", "2020-01-02/baseline", "20200304-050607-m"):
        shutil.copytree(capture, tmp_path / name)
        (tmp_path / name / "log").write_text(name)  # else they are copies
    made = survey([str(tmp_path)])
    dates = {
        Path(row.run).relative_to(tmp_path).as_posix(): row.date
        for row in made.runs
    }
    assert dates == {
        "baseline": day,
        "2020-01-02/baseline": day,
        "20200304-050607-m": "2020-03-04",
    }


def _copies(folder: Path) -> dict[str, bytes]:
    """Reports of two contents, plain and packed; of each a path names a day."""
    data = json.loads((GOLDEN / "capture.json").read_text())
    data["target"] = {"name": "a/m.py", "options": {}, "capture": None}
    one, two = (
        json.dumps({**data, "more": number}).encode() for number in range(2)
    )
    files = {
        "a/x.json": one,
        "a/y.json": one,
        "b/x.json.gz": gzip.compress(one, 1),
        "b/2026-01-02.json.xz": lzma.compress(one),
        "c/20260304/x.json": two,
        "c/20260304/x.json.gz": gzip.compress(two),
        "a/two.json.gz": gzip.compress(two, 1),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return files


_KEPT = {"b/2026-01-02.json.xz": "2026-01-02", "c/20260304/x.json": "2026-03-04"}


def test_packed_copies_are_copies(tmp_path: Path) -> None:
    """The one with a day in its path is the run, and the answer is that of the kept
    files alone."""
    files = _copies(tmp_path / "all")
    for name in _KEPT:
        (tmp_path / "kept" / name).parent.mkdir(parents=True)
        (tmp_path / "kept" / name).write_bytes(files[name])
    made, alone = survey([str(tmp_path / "all")]), survey([str(tmp_path / "kept")])

    def below(name: str) -> str:
        return Path(name).relative_to(tmp_path / "all").as_posix()

    assert {below(row.run): row.date for row in made.runs} == _KEPT
    told = {below(one.run): below(one.same_as) for one in made.duplicates}
    of_two = {"c/20260304/x.json.gz", "a/two.json.gz"}
    assert told == {
        name: list(_KEPT)[name in of_two] for name in files.keys() - _KEPT.keys()
    }
    assert (
        made.groups == alone.groups
        and made.gone == alone.gone
        and made.reasons == alone.reasons
    )
    log = ROOT / "fixtures" / "logs" / "nnc-2.11-add-relu.log.xz"
    shutil.copy(log, tmp_path / "b.log.xz")
    (tmp_path / "a.log").write_bytes(lzma.decompress(log.read_bytes()))
    made = survey([str(tmp_path / "a.log"), str(tmp_path / "b.log.xz")])
    assert [Path(row.run).name for row in made.runs] == ["a.log"] and len(
        made.duplicates
    ) == 1


def test_tallies_of_a_copy_that_takes_the_place_of_a_run(tmp_path: Path) -> None:
    """In any order, also if all are packed: sums are as of the kept file alone, and
    so are its days."""
    _copies(tmp_path)
    items = [
        item
        for item in listed([str(tmp_path)]).items
        if "two" not in item.name and "c/" not in item.name
    ]
    (kept,) = (item for item in items if item.name.endswith(".xz"))
    alone = read_chunk([kept])
    for one_order in itertools.permutations(items):
        contents = survey_copies.Contents(part := RunSums(), ())
        for item in one_order:
            contents.take(survey_copies.read_apart([item]))
        assert part.rows == alone.rows and len(contents.duplicates) == 3
        assert part.groups == alone.groups and part.times == alone.times
        assert (
            part.plans.of_run == alone.plans.of_run
            and part.plans.by_digest == alone.plans.by_digest
        )
        assert part.reasons == alone.reasons and part.kernels == alone.kernels
        assert {one.same_as for one in contents.duplicates} == {kept.name}


def test_packed_files_of_a_store_are_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for name, content in _copies(tmp_path).items():
        store.pipe(f"/packed/{name}", content)
    fetched: list[str] = []
    get = type(store).get

    def counted(self: Any, path: str, *arguments: Any, **options: Any) -> Any:
        fetched.append(path)
        return get(self, path, *arguments, **options)

    monkeypatch.setattr(type(store), "get", counted)
    made = survey(["memory://packed"])
    assert [row.run for row in made.runs] == [
        f"memory:///packed/{name}" for name in _KEPT
    ]
    packed = [name for name in fetched if not name.endswith(".json")]
    assert len(packed) == len(set(packed)) == 4


def test_object_stores(reports: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for path in sorted(reports.rglob("*.json"))[:10]:
        store.pipe(f"/fleet/{path.parent.name}/{path.name}", path.read_bytes())
    made = survey(["memory://fleet"])
    assert len(made.runs) == 10 and made.runs[0].run.startswith("memory://")
    assert made.runs[0].digest == digest(sorted(reports.rglob("*.json"))[0], False)
    with pytest.raises(UsageError):
        survey(["memory://nothing"])
    with pytest.raises((UsageError, CannotRun)):
        survey(["nosuchstore://bucket"])


def test_copies_in_a_store_that_tells_no_sizes(
    reports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a plain web server."""
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    files = sorted((reports / "node0").glob("*.json"))[:4]
    for path in files:
        store.pipe(f"/nosizes/{path.name}", path.read_bytes())
    find = type(store).find

    def without_sizes(*arguments: Any, **options: Any) -> Any:
        return {
            name: {**told, "size": None}
            for name, told in find(*arguments, **options).items()
        }

    monkeypatch.setattr(type(store), "find", without_sizes)
    made = survey([*map(str, files), "memory://nosizes"])
    assert len(made.runs) == len(made.duplicates) == 4 and not made.unreadable


def test_what_is_wrong_is_said(
    tmp_path: Path, fusiondoc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, said in (
        (("nowhere",), "no such file or folder: nowhere"),
        ((tmp_path,), "no reports, logs or captures"),
        ((GOLDEN, "--address", "x"), "--address is for"),
        ((GOLDEN, "-o", tmp_path / "a.xyz"), "no format has the ending .xyz"),
        ((GOLDEN, "--format", "parquet"), "--output runs.parquet"),
    ):
        done = fusiondoc("survey", *arguments)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "ray", None)
    for engine in ("dask", "ray"):
        done = fusiondoc("survey", GOLDEN, "--engine", engine)
        assert (
            done.returncode == 4
            and f"pip install 'fusiondoc[{engine}]'" in done.stderr
        )
    for text in (
        '{"coverage": {"fraction": 1e999}',
        '{"kernels": [{"id": 1, "name": 1, "ms": {"median": 1e999}}]',
    ):
        (tmp_path / "b.json").write_text(
            '{"schema": "fusiondoc.report/1", ' + text[1:] + "}"
        )
        assert len(survey([str(tmp_path)]).unreadable) == 1, text
    (tmp_path / "b.json").unlink()
    (tmp_path / "a.json").write_text(
        '{"schema": "fusiondoc.report/1", "groups": [{"nodes": 3}]}'
    )
    made = survey([str(tmp_path)])
    assert (
        not made.runs
        and made.unreadable[0].why == "it is damaged: groups[0].kind is missing"
    )


def test_half_of_a_character_in_a_report_can_be_written(tmp_path: Path) -> None:
    data = json.loads((GOLDEN / "capture.json").read_text())
    data["groups"][0]["nodes"][0]["op"] = "aten::\ud800"
    (tmp_path / "a.json").write_text(json.dumps(data))
    made = survey([str(tmp_path)])
    assert "aten::?" in as_json(made).encode("utf-8").decode("utf-8")


def test_the_documents(
    found: Survey, losing: Survey, reports: Path, fusiondoc: Run, tmp_path: Path
) -> None:
    text = " ".join(documents.as_text(losing).split())
    assert "in 100 %" in text and "from torch 2.1.2" in text
    page = documents.as_page(losing)
    assert "Why operators are in no group" in page and "<script" not in page
    assert "torch 2.0.1 to 2.1.2" in page
    schema = json.loads((ROOT / "docs" / "survey.schema.json").read_text())
    validate(json.loads(as_json(found)), schema)
    for table in documents.TABLES:
        rows = list(csv.reader(io.StringIO(documents.as_csv(found, table))))
        assert len(rows) == len(getattr(found, table)) + 1
    done = fusiondoc(
        "survey",
        reports / "node0",
        "-o",
        tmp_path / "groups.csv",
        "--table",
        "groups",
    )
    assert done.returncode == 0 and (
        tmp_path / "groups.csv"
    ).read_text().startswith("id,model,phase,ops")


def test_parquet_has_the_rows(found: Survey) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for table in documents.TABLES:
        rows = parquet.read_table(
            io.BytesIO(documents.as_parquet(found, table))
        ).to_pylist()
        assert len(rows) == len(getattr(found, table))
    assert rows is not None


def test_workers_without_fusiondoc_are_told(
    reports: Path, fusiondoc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can load no task: of Dask such a worker ends without a word, of Ray each
    task fails."""

    class RayError(Exception):
        pass

    def get(task: object) -> None:
        print("(raylet) A worker died")  # as Ray does, whatever it was told
        raise RayError("System error: No module named 'fusiondoc'")

    names = ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError")
    kinds = {name: type(name, (RayError,), {}) for name in names}
    ray = SimpleNamespace(
        is_initialized=lambda: True,
        cluster_resources=dict,
        remote=lambda **_: (
            lambda work: SimpleNamespace(remote=lambda chunk: chunk[0].name)
        ),
        wait=lambda tasks, num_returns, timeout: (tasks[:1], tasks[1:]),
        get=get,
        exceptions=SimpleNamespace(RayError=RayError, **kinds),
    )
    client = SimpleNamespace(
        nthreads=lambda: {"tcp://a:1": 1, "tcp://b:2": 1},
        run=lambda call, text, **_: {"tcp://a:1": call(text), "tcp://b:2": False},
        close=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(
        sys.modules, "distributed", SimpleNamespace(Client=lambda *_, **__: client)
    )
    said = {
        "ray": "The workers of that cluster",
        "dask": "1 worker of that cluster, first tcp://b:2,",
    }
    for engine, who in said.items():
        done = fusiondoc("survey", reports, "--engine", engine, "--address", "x")
        assert (
            done.returncode == 4 and f"{who} cannot import fusiondoc" in done.stderr
        ), done.stderr
        assert not done.stdout


class _Cluster:
    """Stands for a Dask or Ray client that answers out of order: what the engine
    does with it is real."""

    def __init__(self) -> None:
        self.lost = 0
        self.name, self.workers = "dask", 2

    def outcomes(
        self, work: survey_engines.Job, chunks: Sequence[survey_engines.Chunk]
    ) -> Iterator[survey_engines.ChunkResult]:
        for number, chunk in enumerate(reversed(chunks)):
            dies = number == 1 and not self.lost
            self.lost += dies
            yield survey_engines.ChunkResult(chunk, None if dies else work(chunk))

    def close(self) -> None:
        return None


def test_a_cluster_that_loses_a_chunk_gives_the_same_answer(
    found: Survey, reports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "engine_of", lambda *_: _Cluster())
    made = survey([str(reports)], engine="dask", address="tcp://x")
    assert made.work.lost_workers == 1 and answer(made) == answer(found)


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "\n=1+1",
        "\r\n\t =1+1",
        "\u00a0=1+1",
        "+1",
        " -1",
        "\n\n@SUM(A1)",
        "\t1",
        "\n1",
        "\uff1d1+1",
        "\u3000=1",
    ],
)
def test_no_cell_of_a_csv_is_calculated(text: str, found: Survey) -> None:
    """Whatever white space a spreadsheet takes away before the sign."""
    first, *others = found.groups
    made = replace(
        found, groups=(replace(first, phase=text, ops=("aten::mul", text)), *others)
    )
    head, row, *_ = csv.reader(io.StringIO(documents.as_csv(made, "groups")))
    cells = dict(zip(head, row))
    assert cells["phase"].startswith("'"), cells["phase"]
    assert all(
        not one.strip().startswith(tuple("=+-@\uff1d"))
        for one in cells["ops"].split("; ")
    )
    assert len(row) == len(head) and cells["runs"] == str(first.runs), (
        "numbers are numbers"
    )


def test_a_csv_is_no_command_to_a_terminal(tmp_path: Path, fusiondoc: Run) -> None:
    bad = "a\x1b]0;title\x07\x9b31m\u202eb\rc"
    data = json.loads((GOLDEN / "capture.json").read_text())
    data["target"] = {"name": f"{bad}/m.py", "options": {}, "capture": None}
    data["groups"][0]["nodes"][0]["op"] = bad
    data["environment"]["gpu"] = bad
    (tmp_path / "a.json").write_text(json.dumps(data))
    (tmp_path / f"{bad}.json").write_text("no report")
    for table in documents.TABLES:
        done = fusiondoc("survey", tmp_path, "--format", "csv", "--table", table)
        assert done.returncode == 0, done.stderr
        assert not any(one in done.stdout for one in "\x1b\x07\x9b\u202e\r"), table
        if table in ("runs", "groups", "unreadable"):
            assert "a\\x1b]0;title" in done.stdout
