"""The history of models: which groups a run lost, changes of figures, and every
document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from command_line import ROOT, Run

from fusiondoc.errors import UsageError
from fusiondoc.model.history_answers import History, ModelHistory
from fusiondoc.model.run_lines import (
    BROKEN,
    FAILED,
    HOLDS,
    SCHEMA,
    GroupLine,
    OutsideLine,
    RunLine,
)
from fusiondoc.rendering.timelines import axis, sparkline
from fusiondoc.reports import history_documents as documents
from fusiondoc.workflows import history_moves
from fusiondoc.workflows.history import history
from fusiondoc.workflows.history_bisect import first_broken
from fusiondoc.workflows.history_losses import lost_groups
from fusiondoc.workflows.history_moves import moves
from fusiondoc.workflows.lines_of_runs import append_lines


def run(day: int, *groups: str, outside: str = "", **fields: object) -> RunLine:
    """A run of a day of November with groups such as ``mul add x2`` and operators
    outside, ``silu``."""
    made = []
    for text in groups:
        words = text.split()
        count = int(words.pop()[1:]) if words[-1][0] == "x" else 1
        made.append(
            GroupLine(
                "forward",
                tuple(f"aten::{word}" for word in words),
                ("m.py:3",),
                count,
            )
        )
    given = RunLine(
        schema=SCHEMA,
        model="shop/m.py",
        date=f"2026-11-{day:02}T10:00:00+00:00",
        commit=f"{day:02x}" + "0" * 10,
        status=HOLDS,
        groups=tuple(made),
        outside=tuple(
            OutsideLine("forward", f"aten::{word}", "FD201", 1)
            for word in outside.split()
        ),
    )
    return replace(given, **fields)  # type: ignore[arg-type]


def lost(*runs: RunLine) -> list[tuple[str, int, str | None]]:
    """The operators, the number and the commit of each loss."""
    names = [
        (" ".join(op[6:] for op in one.ops), one.count, one.commit)
        for one in lost_groups(runs)
    ]
    return sorted(names, key=str)


def test_a_group_whose_operators_are_outside_is_lost_by_the_first_run_without_it() -> (
    None
):
    runs = [
        run(1, "mul add relu"),
        run(2, "mul add relu"),
        run(3, "mul add", outside="relu"),
        run(4, "mul add"),
    ]
    (one,) = lost_groups(runs)
    assert (one.commit, one.last_commit) == (runs[2].commit, runs[1].commit)
    assert (
        one.why == ("relu FD201",) and one.at == "m.py:3" and one.back_date is None
    )


@pytest.mark.parametrize(
    "after",
    [
        ["add mul relu"],  # another order
        ["mul add relu sigmoid"],  # joined with more
        ["mul add", "relu"],  # split
        ["mul add relu x2"],  # more of it
    ],
)
def test_groups_in_another_form_are_not_lost(after: list[str]) -> None:
    assert lost(run(1, "mul add relu"), run(2, *after)) == []


@pytest.mark.parametrize(
    ("statuses", "ends"),
    [
        ([HOLDS, BROKEN, BROKEN], (0, 1)),
        ([HOLDS, BROKEN, HOLDS, FAILED, BROKEN], (2, 4)),
        ([HOLDS, BROKEN, HOLDS], None),
        ([BROKEN, BROKEN], None),
    ],
)
def test_without_a_loss_a_broken_expectation_is_bisected(
    statuses: list[str], ends: tuple[int, int] | None
) -> None:
    """A group that was split breaks the check, and is not lost."""
    runs = [
        run(day, "mul add", status=status) for day, status in enumerate(statuses, 1)
    ]
    found = History(
        (ModelHistory("shop/m.py", None, None, None, tuple(runs), (), ()),)
    )
    wanted = (
        []
        if ends is None
        else [(runs[ends[1]].date, runs[ends[0]].commit, runs[ends[1]].commit)]
    )
    assert list(first_broken(found)) == wanted


def test_of_equal_groups_as_many_as_are_missing_are_lost() -> None:
    assert lost(run(1, "mul add x12"), run(2, "mul add x5")) == [
        ("mul add", 7, "02" + "0" * 10)
    ]
    assert lost(run(1, "mul add x3"), run(2, "mul add", "mul add relu")) == [
        ("mul add", 1, "02" + "0" * 10)
    ]


def test_a_group_that_comes_back_has_the_run_in_which_it_did() -> None:
    runs = [run(1, "mul add"), run(2), run(3), run(4, "add mul"), run(5)]
    again, first = lost_groups(runs)
    assert (first.commit, first.back_commit) == (runs[1].commit, runs[3].commit)
    assert (again.commit, again.back_commit) == (runs[4].commit, None)


def test_a_run_that_shows_nothing_of_a_group_loses_none() -> None:
    whole = run(1, "mul add")
    assert (
        lost(
            whole,
            run(2, ended_early=True),
            run(3, status=FAILED),
            run(4, "mul add"),
        )
        == []
    )
    backward = replace(
        whole, groups=(replace(whole.groups[0], phase="backward"),), backward=True
    )
    assert lost(backward, run(2, backward=False)) == [] == lost(backward, run(2))
    assert lost(backward, run(2, backward=True)) == [
        ("mul add", 1, "02" + "0" * 10)
    ]


def test_another_torch_is_named_with_a_loss() -> None:
    (one,) = lost_groups([run(1, "mul add", torch="2.1.2"), run(2, torch="2.2.0")])
    assert one.changed == ("torch 2.1.2 to 2.2.0",) and one.why == ()


def times(*values: float) -> list[tuple[str, float, float, str | None]]:
    runs = [run(day, ms=value) for day, value in enumerate(values, 1)]
    return [(one.what, one.before, one.after, one.commit) for one in moves(runs)]


def test_step_times_move_where_all_runs_before_and_after_are_apart() -> None:
    assert times(10, 10.4, 9.9, 13, 12.8, 13.1) == [("ms", 10, 13, "04" + "0" * 10)]
    assert times(10, 10.4, 9.9, 13, 10.1, 10) == []  # one slow run
    assert times(10, 10.4, 9.9, 13) == []  # the last run alone proves nothing
    assert [one[1:3] for one in times(10, 10, 10, 20, 20, 20, 10, 10, 10)] == [
        (20, 10),
        (10, 20),
    ]


def test_limits_of_moves() -> None:
    assert (
        times(10, 10, 11.01, 11) == [] != times(10, 10, 11.01, 11.02)
    )  # 10 % of the median before
    least = history_moves.LEAST_COVERAGE
    for step, number in ((least, 1), (least / 2, 0)):
        found = moves([run(1, coverage=0.5), run(2, coverage=0.5 - step)])
        assert len(found) == number and all(one.is_worse for one in found)


def test_blocks_and_axes() -> None:
    assert (
        sparkline((1, 2, None, 3)) == "▁▅·█" or sparkline((1, 2, None, 3)) == "▁▄·█"
    )
    assert sparkline((5.0, 5.01)) == "▄▅" or len(set(sparkline((5.0, 5.01)))) == 1
    assert sparkline((1.0, None)) == "" and len(sparkline([1.0, 2.0] * 50)) == 12
    for high in (0.003, 0.9, 1, 7, 12.2, 49, 50, 51, 99_999):
        steps = axis(high)
        assert (
            steps[0] == 0
            and steps[-2] < high <= steps[-1] * (1 + 1e-9)
            and 3 <= len(steps) <= 7
        ), high


@pytest.fixture
def made(tmp_path: Path) -> Path:
    file = tmp_path / "history.jsonl"
    steady = [
        run(day, "mul add relu x2", coverage=0.9, ms=4 + day / 100)
        for day in range(1, 11)
    ]
    after = [
        run(day, "mul add", outside="relu", coverage=0.6, ms=6 + day / 100)
        for day in range(11, 15)
    ]
    others = [
        replace(one, model="shop/<b>x</b>.py", groups=one.groups[:1])
        for one in steady
    ]
    append_lines(file, [*steady, *others])
    append_lines(file, after)
    return file


def only(found: History, name: str) -> ModelHistory:
    (model,) = (model for model in found.models if model.model == name)
    return model


def test_every_line_is_a_run_or_is_named(made: Path, tmp_path: Path) -> None:
    made.write_bytes(
        made.read_bytes() + b'{"schema": "fusiondoc.run/1", "mod\n[]\n\n{}\n'
    )
    found = history([str(made)])
    assert sum(len(model.runs) for model in found.models) == 24
    assert [one.source.rpartition(":")[2] for one in found.unreadable] == [
        "25",
        "26",
        "28",
    ]
    with pytest.raises(UsageError, match="no run is of a model"):
        history([str(made)], model="nothing")
    with pytest.raises(UsageError, match="no runs in"):
        (tmp_path / "empty.jsonl").write_text("")
        history([str(tmp_path / "empty.jsonl")])


@pytest.mark.parametrize("name", ["shop/m.py", "m.py", "*/m*"])
def test_a_model_is_known_by_its_name_or_a_pattern(made: Path, name: str) -> None:
    assert [model.model for model in history([str(made)], model=name).models] == [
        "shop/m.py"
    ]


def test_since_and_base_leave_out_what_is_older(made: Path, tmp_path: Path) -> None:
    whole = only(history([str(made)]), "shop/m.py")
    assert (len(whole.lost), len(whole.moves)) == (1, 2)
    assert only(history([str(made)], since="2026-11-12"), "shop/m.py").lost == ()
    new = tmp_path / "new.jsonl"
    append_lines(new, [run(20, "mul", outside="relu add", coverage=0.2)])
    found = only(history([str(new)], base=[str(made)]), "shop/m.py")
    assert [one.commit for one in found.lost] == ["14" + "0" * 10] and len(
        found.moves
    ) == 1
    assert found.runs[-1].date > found.runs[0].date and len(found.runs) == 15


def test_every_format_names_the_loss_and_its_commit(
    made: Path, fusiondoc: Run
) -> None:
    text = fusiondoc("history", "--from", made)
    assert text.returncode == 0, text.stderr
    words = " ".join(text.stdout.split())
    assert (
        "shop/m.py: mul, add, relu ×2 at m.py:3 lost in 0b0000000 (2026-11-11), last with"
        in words
    )
    assert "outside now: relu FD201" in words and "████████▁▁▁▁" in words
    assert "2 models: 1 loss, 1 change of coverage, 1 change of step time" in words
    data = json.loads(
        fusiondoc("history", "--from", made, "--format", "json").stdout
    )
    jsonschema.validate(
        data, json.loads((ROOT / "docs" / "history.schema.json").read_text())
    )
    assert data["schema"] == "fusiondoc.history/1" and len(data["models"]) == 2
    comment = fusiondoc("history", "--from", made, "--format", "markdown").stdout
    assert (
        "shop/m.py" in comment
        and "1 further model: nothing lost" in comment
        and len(comment) < 3000
    )
    page = documents.as_page(history([str(made)]))
    assert (
        page.count("<polyline") >= 3
        and "<b>x</b>.py" not in page
        and 'class="event"' in page
    )
    assert (
        "http://" not in page.replace("http://www.w3.org", "")
        and "https://" not in page
    )


def test_the_exit_status_says_whether_what_is_named_was_found(
    made: Path, fusiondoc: Run
) -> None:
    for cause, words in (
        ("lost", "1 loss"),
        ("coverage", "1 fall"),
        ("slower", "1 rise"),
    ):
        done = fusiondoc("history", "--from", made, "--fail-on", cause)
        assert done.returncode == 1 and f"--fail-on {cause}: {words}" in done.stderr
        later = fusiondoc(
            "history", "--from", made, "--fail-on", cause, "--since", "2026-11-12"
        )
        assert later.returncode == 0 and "--fail-on" not in later.stderr


def test_wrong_usage_has_a_next_step(
    made: Path, tmp_path: Path, fusiondoc: Run
) -> None:
    for arguments in (
        ["--from", "branch:nothing"],
        ["--from", "nothing.jsonl"],
        ["--from", tmp_path / "none.jsonl"],
        ["m.py", "--from", made, "--", "m.py"],
        ["<b>x</b>.py", "--from", made, "--bisect"],
        ["m.py", "--from", made, "--bisect"],
    ):
        done = fusiondoc("history", *arguments)
        assert done.returncode == 2 and "next: " in done.stderr, (
            arguments,
            done.stderr,
        )
