"""``check --update``: what changes, what stays byte for byte, and that the result
holds."""

# ruff: noqa: E501 - a case is a line

from __future__ import annotations

import difflib
import itertools
from pathlib import Path

import pytest
import yaml
from any_text import CHARACTERS
from conftest import FIXTURES, Run
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import every, examples, least

from fusiondoc.errors import UsageError
from fusiondoc.expectations.applies import applying
from fusiondoc.expectations.match import check
from fusiondoc.expectations.outcome import without_plan
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.update import quoted, updated
from fusiondoc.workflows.load import report_from

REJECTS = FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"
COMPOSITE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"

BEFORE = """\
# What we rely on.

groups:
  # the first
  - [mul, relu]          # stays
  - {contains: [softmax]}  # goes: nothing of it is there
  # the second
  - ops: [sigmoid, add, tanh]  # becomes what it is
    # in inference
    phase: forward

  - ops:
      - sum
      - add
  - {ops: ["add", 'mul'], dtype: int64, exactly: 3}   # the count changes
number_of_groups: {at_least: 2}
# none may fall back
max_fallbacks:   0
min_coverage: 95%   # too high
findings:
  forbid: [FD201, FD301]   # one of them occurs
"""

AFTER = """\
# What we rely on.

groups:
  # the first
  - [mul, relu]          # stays
  # the second
  - ops: [sigmoid, add]  # becomes what it is
    # in inference
    phase: forward

  - ops:
      - sum
      - add
  - {ops: ["add", 'mul'], dtype: int64, exactly: 1}   # the count changes
  - ops: [aten::tanh, aten::mul]
    phase: forward
number_of_groups: {at_least: 2}
# none may fall back
max_fallbacks:   0
min_coverage: 0.909   # too high
findings:
  forbid: [FD301]   # one of them occurs
"""


def test_only_what_changed_is_changed() -> None:
    assert updated(BEFORE, "f.yaml", report_from([str(REJECTS)])) == AFTER


def test_windows_line_ends_stay() -> None:
    text = updated(
        BEFORE.replace("\n", "\r\n"), "f.yaml", report_from([str(REJECTS)])
    )
    assert text == AFTER.replace("\n", "\r\n")


def test_the_command_shows_the_difference_and_the_file_holds(
    fusiondoc: Run, tmp_path: Path
) -> None:
    file = tmp_path / "fusions.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + BEFORE.encode())
    done = fusiondoc("check", REJECTS, "--expect", "fusions.yaml", "--update")
    assert done.returncode == 0, done.stderr
    assert file.read_bytes() == b"\xef\xbb\xbf" + AFTER.encode()
    shown = difflib.unified_diff(
        BEFORE.splitlines(), AFTER.splitlines(), lineterm=""
    )
    assert done.stdout.splitlines()[2:] == list(shown)[2:]
    assert fusiondoc("check", REJECTS, "--expect", "fusions.yaml").returncode == 0
    again = fusiondoc("check", REJECTS, "--expect", "fusions.yaml", "--update")
    assert (again.stdout, again.stderr) == ("", "fusions.yaml is up to date\n")


def test_a_new_file_and_a_section_more(fusiondoc: Run, tmp_path: Path) -> None:
    first = fusiondoc("check", COMPOSITE, "--expect", "fusions.yaml", "--update")
    assert first.returncode == 0, first.stderr
    text = (tmp_path / "fusions.yaml").read_text()
    data = yaml.safe_load(text)["sections"]
    assert data[0]["when"] == {
        "target": "examples/composite_layer_norm.py",
        "fuser": "nvfuser",
    }
    assert [len(g["ops"]) for g in data[0]["groups"]] == [4, 3]
    other = FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz"
    second = fusiondoc("check", other, "--expect", "fusions.yaml", "--update")
    assert second.returncode == 0, second.stderr
    assert (tmp_path / "fusions.yaml").read_text().startswith(text)
    assert (
        len(yaml.safe_load((tmp_path / "fusions.yaml").read_text())["sections"])
        == 2
    )
    for log in (COMPOSITE, other):
        assert fusiondoc("check", log, "--expect", "fusions.yaml").returncode == 0


def test_a_section_by_its_name(fusiondoc: Run, tmp_path: Path) -> None:
    text = "sections:\n- name: a\n  when: {gpu: H100}\n  number_of_groups: 9\n- name: b\n  number_of_groups: 8\n"
    (tmp_path / "f.yaml").write_text(text)
    done = fusiondoc(
        "check", REJECTS, "--expect", "f.yaml", "--update", "--section", "a"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "f.yaml").read_text() == text.replace("9", "5")


def test_a_report_beside_the_update_goes_to_stdout_alone(
    fusiondoc: Run, tmp_path: Path
) -> None:
    import json

    done = fusiondoc(
        "check", REJECTS, "--expect", "new.yaml", "--update", "-f", "json"
    )
    assert all(one["holds"] for one in json.loads(done.stdout)["expectations"])
    assert "+number_of_groups" in done.stderr.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nmax_fallbacks: *x\n", "unknown key 'a'"),
        (
            "sections:\n- &x {number_of_groups: 9}\n- *x\n",
            "line 3 repeats with *x what &x names in line 2",
        ),
        ("when: {fuser: nnc}\nmax_fallbacks: 0\n", "put it under 'sections:'"),
        ("{groups: [{ops: [tanh], source: nowhere.py}]}", "brackets"),
    ],
)
def test_what_cannot_be_edited_is_left_alone(
    text: str, said: str, fusiondoc: Run, tmp_path: Path
) -> None:
    (tmp_path / "f.yaml").write_text(text)
    done = fusiondoc("check", REJECTS, "--expect", "f.yaml", "--update")
    assert (
        done.returncode == 2 and said in done.stderr and "next: " in done.stderr
    ), done.stderr
    assert (tmp_path / "f.yaml").read_text() == text


def test_a_file_that_cannot_be_written(fusiondoc: Run, tmp_path: Path) -> None:
    done = fusiondoc("check", REJECTS, "--expect", "no/folder/f.yaml", "--update")
    assert done.returncode == 2 and "cannot write no/folder/f.yaml" in done.stderr


@settings(max_examples=examples(100), deadline=None)
@given(st.text(CHARACTERS, max_size=20))
def test_any_name_is_written_so_that_it_is_read(text: str) -> None:
    assert yaml.safe_load(f"name: {quoted(text)}")["name"] == text


REPORTS = [
    report_from([str(path)])
    for path in (REJECTS, COMPOSITE, FIXTURES / "logs" / "nnc-2.11-rejects.log.xz")
]
OPS = st.lists(
    st.sampled_from(["add", "mul", "relu", "tanh", "aten::sum", "softmax"]),
    min_size=1,
    max_size=4,
)
LIMITS = st.fixed_dictionaries(
    {"max_fallbacks": st.integers(0, 2)},
    optional={
        "number_of_groups": st.one_of(
            st.integers(0, 6),
            st.fixed_dictionaries({"at_least": st.integers(0, 9)}),
        ),
        "min_coverage": st.sampled_from([0.0, 0.5, 1.0]),
        "min_peak": st.sampled_from([0.1, 0.9]),
        "min_gb_per_s": st.sampled_from([10, 5000]),
    },
)
GROUP = st.one_of(
    OPS,
    st.builds(
        lambda key, ops, more: {key: ops, **more},
        st.sampled_from(["ops", "set", "contains"]),
        OPS,
        st.fixed_dictionaries(
            {},
            optional={
                "phase": st.sampled_from(["forward", "backward"]),
                "dtype": st.sampled_from(["float32", "int64"]),
                "exactly": st.integers(0, 3),
            },
        ),
    ),
)
FINDINGS = st.fixed_dictionaries(
    {}, optional={k: st.lists(st.sampled_from(["FD201", "FD2xx", "note", "FD301"]), min_size=1, max_size=3, unique=True)
                  for k in ("expect", "forbid", "allow")},
).filter(bool)  # fmt: skip


def written(data: dict, flow: bool | None, draw_comment: bool) -> str:
    text = yaml.safe_dump(data, sort_keys=False, default_flow_style=flow)
    if not draw_comment or flow is True:
        return text
    return "".join(
        f"# c{i}\n{line}  # t{i}\n" for i, line in enumerate(text.splitlines())
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    number=st.integers(0, 2),
    groups=st.lists(GROUP, max_size=4),
    limits=LIMITS,
    findings=st.one_of(st.none(), FINDINGS),
    flow=st.sampled_from([False, None]),
    comments=st.booleans(),
)
def test_the_result_holds_and_a_second_update_changes_nothing(
    number: int, groups: list, limits: dict, findings, flow, comments: bool
) -> None:
    report = REPORTS[number]
    data = {
        **({"groups": groups} if groups else {}),
        **limits,
        **({"findings": findings} if findings else {}),
    }
    text = written(data, flow, comments)
    try:
        after = updated(text, "f.yaml", report)
    except UsageError as error:
        assert "cannot edit" in error.message, (error.message, text)
        # Only a list in brackets that would have to take a mapping cannot be
        # edited.
        assert flow is not False, text
        return
    sections = applying(loads(after, "f.yaml"), report)
    assert sections and all(o.holds for s in sections for o in check(s, report)), (
        after
    )
    assert updated(after, "f.yaml", report) == after
    # A comment inside of something that goes, goes with it; those above keys of the
    # file stay, in order.
    lines = text.splitlines()
    above = [
        c
        for c, line in itertools.pairwise(lines)
        if c.startswith("# c") and line[0].isalpha()
    ]
    assert [c for c in after.splitlines() if c in above] == above


def test_files_written_from_every_recording_hold_and_are_brought_in_line_with_the_next(
    recordings: Path,
) -> None:
    before, checked = "", 0
    for log in every(8, sorted(recordings.glob("torch-*/**/*.log"))):
        if log.stat().st_size > 1_000_000:
            continue
        report = report_from([str(log)])
        if without_plan(report) is not None:
            with pytest.raises(UsageError, match="found nothing to write down"):
                updated(before, "f.yaml", report)
            continue
        written = updated("", "f.yaml", report)
        for text in (written, updated(before, "f.yaml", report)):
            sections = applying(loads(text, "f.yaml"), report)
            assert sections and all(
                o.holds for s in sections for o in check(s, report)
            ), log
        before, checked = written, checked + 1
    assert checked > least(100)


def test_a_call_into_python_can_be_outside_groups(tmp_path: Path) -> None:
    """``@torch.jit.ignore`` and functions of autograd are operators ``^name``: a
    file that was just written was broken, and could not be mended."""
    from dataclasses import replace

    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz")]
    )
    rows = tuple(
        replace(row, op=name)
        for row, name in zip(report.unfused, ("^eager", "^<lambda>", "^My.fn"))
    )
    assert len(rows) == 3
    report = replace(report, unfused=tuple(replace(row, ran=True) for row in rows))
    text = updated("", "f.yaml", report)
    (section,) = loads(text, "f.yaml").sections
    assert set(section.not_fused or ()) == {"^eager", "^<lambda>", "^My.fn"}
    assert all(outcome.holds for outcome in check(section, report))
