"""``fusiondoc bench``: real children that time a model in turns, and what is made
of their times."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import warm_torch
from command_line import ROOT, Run
from timed_child import TimedChild
from valid_json import validate

from fusiondoc.captures.request import parse_target
from fusiondoc.comparison.bench_changes import compare_benches
from fusiondoc.errors import UsageError
from fusiondoc.model.bench import (
    LEAST_ROUNDS,
    VARIANTS,
    Bench,
    BenchPhase,
    BenchShape,
    BenchVariant,
    ByPhase,
    Measured,
    Ratio,
    measured,
    measured_in,
    rank_of_interval,
    ratio,
)
from fusiondoc.reports.bench_documents import as_csv, as_markdown, as_page
from fusiondoc.reports.bench_documents import as_text as render
from fusiondoc.reports.json_format import as_json, read_bench
from fusiondoc.runner.interpreter import Interpreter
from fusiondoc.views.bench_words import of_processes
from fusiondoc.workflows import bench as workflow
from fusiondoc.workflows import bench_turns
from fusiondoc.workflows.bench import expanded
from fusiondoc.workflows.bench_turns import BenchRequest

SCHEMA = json.loads((ROOT / "docs" / "bench.schema.json").read_text())

MODEL = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.relu(self.linear(x)) * 2

model = Block().eval()
inputs = [(torch.randn(8, 16),), (torch.randn(4, 16),)]
"""


# -- statistics: against the binomial distribution and simulated rounds -----------------------------------


@pytest.mark.parametrize(
    ("rounds", "rank"), [(5, 0), (6, 1), (8, 1), (9, 2), (15, 4), (20, 6), (30, 10)]
)
def test_ranks_of_the_interval_of_a_median(rounds: int, rank: int) -> None:
    """The values are those of tables of the sign test at 5 %, two-sided (critical
    value plus one)."""
    assert rank_of_interval(rounds) == rank


def test_the_interval_holds_the_median_of_the_distribution_in_at_least_19_of_20_samples() -> (
    None
):
    draw = random.Random(5)
    inside = 0
    for _ in range(400):
        found = measured([draw.lognormvariate(0, 0.3) for _ in range(15)])
        inside += found.low <= 1 <= found.high
    assert 375 <= inside <= 399


def test_a_program_against_itself_differs_in_at_most_one_of_twenty_benches() -> (
    None
):
    """Rounds of a machine that slows down by half in the middle, with a tenth of
    noise."""
    draw = random.Random(7)
    wrong = 0
    for _ in range(300):
        load = [1.0 + 0.5 * (n > 7) for n in range(15)]
        eager = [slow * draw.lognormvariate(0, 0.1) for slow in load]
        same = [slow * draw.lognormvariate(0, 0.1) for slow in load]
        wrong += ratio(eager, same).differs
    assert wrong <= 15


def test_a_fifth_less_time_shows_through_a_tenth_of_noise() -> None:
    draw = random.Random(9)
    found = [
        ratio(
            [draw.lognormvariate(0, 0.1) for _ in range(15)],
            [0.8 * draw.lognormvariate(0, 0.1) for _ in range(15)],
        )
        for _ in range(100)
    ]
    assert sum(one.low > 1 for one in found) >= 85
    assert 1.2 < sorted(one.value for one in found)[50] < 1.3


def test_two_processes_may_differ_by_one_percent_for_good() -> None:
    assert not ratio([1.009] * 15, [1.0] * 15).differs
    assert ratio([1.02] * 15, [1.0] * 15).differs
    assert Ratio(0.9, 0.88, 0.92).differs and not Ratio(1.1, 0.99, 1.2).differs


def test_times_of_several_processes_hold_the_median_of_each() -> None:
    one, other = [1.0, 1.1, 0.9] * 3, [2.0, 2.1, 1.9] * 2
    both = measured_in([one, other, []])
    assert both.low <= 1.0 and both.high >= 2.0 and both.median == 1.1
    assert measured_in([one]) == measured(one)


def test_processes_share_the_rounds() -> None:
    request = BenchRequest(
        parse_target(str(ROOT / "examples" / "bias_gelu.py")), (), rounds=15
    )
    assert [request.rounds_of(number, 2) for number in range(2)] == [8, 7]
    assert [request.rounds_of(number, 4) for number in range(4)] == [4, 4, 4, 3]
    assert request.rounds_of(0, 1) == 15


@pytest.mark.parametrize("timeout", [600.0, -1.0], ids=["time", "no time"])
def test_of_two_processes_that_differ_there_is_no_difference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_progress, timeout: float
) -> None:
    """Seconds as seen of one program on a GPU that waits for the host: 0.84 times
    as fast, then 1.59."""
    steps = {
        "eager": [1.0, 1.0],
        "nvfuser": [1 / 0.84, 1 / 1.59],
        "none": [0.5, 0.5],
        "aot": [0.5, None],
    }
    started: list[str] = []

    def start(
        _request, name, interpreter, _phase, _folder
    ) -> bench_turns.VariantRun:
        step = steps[name][started.count(name)]
        started.append(name)
        return bench_turns.VariantRun(
            name, interpreter, TimedChild(step or 1.0, step is None)
        )

    interpreter = Interpreter(Path("python"), "3.11", "linux", "2.1", None, None)
    monkeypatch.setattr(workflow, "find_python", lambda path: path)
    monkeypatch.setattr(workflow, "inspect", lambda path: interpreter)
    monkeypatch.setattr(workflow, "start_variant", start)
    request = BenchRequest(
        parse_target(str(ROOT / "examples" / "bias_gelu.py")),
        (Path(sys.executable),),
        tuple(steps),
        timeout=timeout,
    )
    found = {
        one.name: one for one in workflow.run_bench(request, no_progress).variants
    }
    phases = {name: one.phases[0] for name, one in found.items()}
    if timeout < 0:  # a quarter of the limit is over at once
        assert started == list(steps) and {
            one.processes for one in phases.values()
        } == {1}
        assert phases["nvfuser"].ratio.high < 1 and phases["nvfuser"].rounds == 15
        return
    told = phases["nvfuser"].ratio
    assert told.low <= 0.84 and told.high >= 1.58 and not told.differs
    assert phases["nvfuser"].ms.low < 640 and phases["nvfuser"].ms.high > 1190
    assert phases["none"].ratio.low > 1.9 and (
        phases["none"].processes,
        phases["none"].rounds,
    ) == (2, 15)
    assert (phases["aot"].processes, phases["aot"].rounds) == (1, 8)
    assert (
        found["aot"].available
        and found["aot"].reason == "forward, a further process: out of memory"
    )
    assert of_processes(phases.values())[0].startswith(
        "1 to 2 processes of each variant"
    )


def test_a_bench_of_before_had_one_process() -> None:
    data = json.loads(as_json(_bench()))
    for one in data["variants"]:
        del one["phases"][0]["processes"]
    found = read_bench(json.dumps(data).encode(), "old.json")
    assert {one.phases[0].processes for one in found.variants} == {1}


def test_without_rounds_there_is_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        measured([])


# -- two benches ------------------------------------------------------------------------------------------


def _bench(
    torch: str = "2.1",
    interpreter: str = "Python 3.10, torch 2.1",
    **ms: tuple[float, float, float],
) -> Bench:
    """Made of medians and intervals; eager takes 1 ms unless given."""
    times = {"eager": (1.0, 0.99, 1.01), **ms}
    variants = tuple(
        BenchVariant(
            name,
            interpreter,
            True,
            None,
            (
                BenchPhase(
                    "forward", Measured(*one), 1e3 / one[0], None, None, None, 15, 9
                ),
            ),
        )
        for name, one in times.items()
    )
    shapes = (BenchShape(("float32[8]",)),)
    return Bench(
        {"torch": torch}, "model.py", ("float32[8]",), variants, shapes=shapes
    )


def test_of_two_benches_each_variant_is_slower_faster_or_no_different() -> None:
    a = _bench(
        nvfuser=(1.0, 0.98, 1.02),
        nnc=(1.0, 0.9, 1.1),
        none=(1.0, 0.99, 1.01),
        onednn=(1, 1, 1),
    )
    b = _bench(
        "2.2",
        "Python 3.10, torch 2.2",
        nvfuser=(1.2, 1.18, 1.22),
        nnc=(1.1, 1.0, 1.2),
        none=(0.5, 0.49, 0.51),
    )
    found = compare_benches(a, b, ("a.json", "b.json"))
    assert {one.variant: one.change for one in found.changes} == {
        "eager": "no difference",
        "nvfuser": "slower",
        "nnc": "no difference",
        "none": "faster",
    }, "the only interpreter of B stands for that of A"
    ratio_of = next(one.ratio for one in found.changes if one.variant == "nvfuser")
    assert (
        ratio_of.value == pytest.approx(1 / 1.2)
        and 0.80 < ratio_of.low < 0.815
        and 0.85 < ratio_of.high < 0.87
    )
    assert found.only_a == ("onednn, forward, float32[8]",)
    assert [(one.name, one.a, one.b) for one in found.environment][-1] == (
        "torch",
        "2.1",
        "2.2",
    )
    large = compare_benches(a, b, ("a.json", "b.json"), least=0.25)
    assert {one.variant for one in large.having("faster")} == {
        "none"
    } and not large.having("slower")


def test_eager_that_changed_too_is_said_and_fails_nothing(
    fusiondoc: Run, tmp_path: Path
) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(as_json(_bench(nnc=(1.0, 0.99, 1.01))))
    b.write_text(as_json(_bench(eager=(2.0, 1.99, 2.01), nnc=(1.0, 0.99, 1.01))))
    done = fusiondoc("compare", a, b, "--fail-on", "slower")
    assert done.returncode == 0 and "eager too is slower (0.50×)" in " ".join(
        done.stdout.split()
    )
    slower = fusiondoc("compare", b, a, "--fail-on", "any", "-f", "markdown")
    assert slower.returncode == 1 and "| eager | 2" in slower.stdout
    data = json.loads(fusiondoc("compare", a, b, "-f", "json").stdout)
    validate(
        data,
        json.loads((ROOT / "docs" / "bench-comparison.schema.json").read_text()),
    )
    assert data["changes"][0]["change"] == "slower"


def test_a_bench_is_compared_with_a_bench_alone(
    fusiondoc: Run, tmp_path: Path
) -> None:
    a, log = tmp_path / "a.json", tmp_path / "b.log"
    a.write_text(as_json(_bench()))
    log.write_text("nothing\n")
    other = fusiondoc("compare", a, log)
    assert (
        other.returncode == 2
        and "is a result of fusiondoc bench, and" in other.stderr
    )
    page = fusiondoc("compare", a, a, "-o", tmp_path / "page.html")
    assert page.returncode == 2 and "text, json, markdown" in page.stderr
    word = fusiondoc("compare", a, a, "--fail-on", "split")
    assert word.returncode == 2 and "slower, environment, any" in word.stderr
    a.write_text(as_json(_bench()).replace('"median": 1.0', '"median": "fast"'))
    damaged = fusiondoc("compare", a, a)
    assert (
        damaged.returncode == 2
        and "variants[0].phases[0].ms.median is not a number" in damaged.stderr
    )


def test_a_variant_that_is_slower_than_eager_is_named() -> None:
    slow = BenchPhase(
        "forward", Measured(2, 2, 2), 500, Ratio(0.5, 0.45, 0.55), None, None, 15, 9
    )
    unsure = replace(slow, ratio=Ratio(0.9, 0.7, 1.1))
    rows = tuple(
        BenchVariant(name, "", True, None, (one,))
        for name, one in (("nnc", slow), ("none", unsure))
    )
    assert replace(_bench(), variants=rows).slower() == ["nnc"]


# -- real runs --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "block.py"
    path.write_text(MODEL, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def no_progress():
    from contextlib import contextmanager

    class Progress:
        def say(self, doing: str, done: int, total: int) -> None: ...

    @contextmanager
    def progress():
        yield Progress()

    return progress


@pytest.fixture(scope="module")
def bench(model: Path, tmp_path_factory: pytest.TempPathFactory):
    """One run for all tests of its result."""
    from contextlib import contextmanager

    from fusiondoc.workflows.bench import run_bench

    pytest.importorskip("torch")
    said: list[str] = []

    class Progress:
        def say(self, doing: str, done: int, total: int) -> None:
            said.append(f"{doing} {done}/{total}")

    @contextmanager
    def progress():
        yield Progress()

    request = BenchRequest(
        parse_target(str(model)),
        (Path(sys.executable),),
        variants=("eager", "nvfuser", "nnc", "onednn", "none", "aot"),
        backward=True,
        rounds=LEAST_ROUNDS,
        processes=1,
        round_seconds=0.02,
    )
    found = run_bench(request, progress)
    return found, said


@pytest.mark.torch
def test_every_variant_is_in_the_table_or_has_its_reason(bench) -> None:
    found, _ = bench
    rows = {one.name: one for one in found.variants}
    assert [one for one in VARIANTS if one in rows] == list(rows)
    for name in ("eager", "none", "aot"):
        assert rows[name].available, rows[name]
    for name in ("eager", "none"):
        timed = [(one.phase, one.shape) for one in rows[name].phases]
        assert timed == [
            ("forward", 0),
            ("forward", 1),
            ("forward+backward", 0),
            ("forward+backward", 1),
        ]
        assert rows[name].reason is None
    assert [one.phase for one in rows["onednn"].phases] == ["forward", "forward"]
    # Its backward graph has the sizes of the first inputs in it: the other shape
    # fails, and only that.
    assert [(one.phase, one.shape) for one in rows["aot"].phases][:3] == timed[:3]
    assert rows["aot"].reason.startswith(
        "forward+backward, float32[4,16]: RuntimeError: The size of tensor a"
    )
    assert "no backward pass" in rows["onednn"].reason
    assert (
        not rows["nvfuser"].available
        and "torch 1.12 to 2.1" in rows["nvfuser"].reason
    )
    assert not rows["nnc"].available and "no LLVM" in rows["nnc"].reason


@pytest.mark.torch
def test_groups_numbers_and_rounds_are_those_of_torch(bench) -> None:
    found, _ = bench
    rows = {one.name: one for one in found.variants}
    assert rows["onednn"].groups.forward == 1, (
        "linear, relu and mul in one partition"
    )
    assert rows["none"].groups.forward == 0
    assert (
        rows["eager"].max_difference == 0
        and 0 <= rows["onednn"].max_difference < 1e-4
    )
    assert rows["aot"].max_difference < 1e-4 and rows["aot"].recompiles == 0
    one, other = rows["onednn"].phases
    assert (one.recompiles, other.recompiles) == (0, 1), "a plan for each shape"
    assert (one.guard_failures, other.guard_failures) == (0, 1), (
        "the first plan is asked and left"
    )
    assert rows["onednn"].recompiles == 1 and rows["eager"].recompiles is None
    assert all(phase.first_ms > 0 for row in found.variants for phase in row.phases)
    for row in found.variants:
        for phase in row.phases:
            assert (
                phase.rounds == LEAST_ROUNDS
                and phase.ms.low <= phase.ms.median <= phase.ms.high
            )
            assert phase.steps_per_s == pytest.approx(1e3 / phase.ms.median)
            assert phase.device_ms is None and phase.busy is None, (
                "the CPU has no device time"
            )
    eager = rows["eager"].phases[0]
    assert eager.ratio == Ratio(1, 1, 1)
    assert found.inputs == ("float32[8,16]",)
    assert [one.label for one in found.shapes] == ["float32[8,16]", "float32[4,16]"]


@pytest.mark.torch
def test_its_documents(bench) -> None:
    found, said = bench
    text = render(found, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert (
        "float32[8,16]" in text
        and "Could not run" in text
        and "nvFuser is in TorchScript" in text
    )
    assert said[:2] == ["forward: loading 0/24", "forward: eager warms up 0/24"]
    assert said[-1] == "forward+backward: round 6 of 6 23/24", (
        "of both phases, for the time left"
    )
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    of_none = [
        (row["phase"], row["inputs"]) for row in rows if row["variant"] == "none"
    ]
    assert of_none[1:3] == [
        ("forward", "float32[4,16]"),
        ("forward+backward", "float32[8,16]"),
    ]
    assert (
        "→ onednn: compiled once more for other sizes" in text and "guards" in text
    )
    assert [row["ms_median"] for row in rows if row["variant"] == "nnc"] == [""]
    assert "no LLVM" in next(
        row["reason"] for row in rows if row["variant"] == "nnc"
    )
    page = as_markdown(found)
    assert "| eager |" in page and page.count("**forward") == 2
    alone = "one process of each variant: the intervals do not show how processes of one program differ"
    for document in (text, page, as_page(found)):
        assert alone in " ".join(document.split())
    assert {row["processes"] for row in rows if row["ms_median"]} == {"1"}


@pytest.mark.torch
def test_each_variant_tells_where_its_time_goes(bench) -> None:
    found, _ = bench
    rows = {one.name: one for one in found.variants if one.available}
    kinds = {}
    for name, row in rows.items():
        for phase in row.phases:
            assert phase.parts, (name, phase.phase, phase.shape)
            assert sum(part.share for part in phase.parts) == pytest.approx(
                1, abs=1e-3
            )
            assert [part.ms for part in phase.parts] == sorted(
                (p.ms for p in phase.parts), reverse=True
            )
            kinds[name, phase.phase, phase.shape] = {
                part.what for part in phase.parts
            }
    # Linear, relu and mul are one partition; elsewhere each is an operator.
    fused = kinds["onednn", "forward", 0]
    assert "groups" in fused and not fused & {
        "matmul",
        "unfused operators that could fuse",
    }
    for name in ("eager", "none"):
        unfused = kinds[name, "forward", 1]
        assert "groups" not in unfused and unfused > {
            "matmul",
            "unfused operators that could fuse",
        }
        assert "gradients added up" in kinds[name, "forward+backward", 0]
    text = render(found, width=80, full=True)
    assert max(
        map(len, text.splitlines())
    ) <= 80 and "Where the time goes" not in render(found)
    # On a loaded machine a step takes anything, and the line is broken anywhere.
    step = r"[\d.,]+ [mu]?s a step: [^*]*?groups (< )?\d+ %"
    assert re.search(
        r"onednn, forward, float32\[8,16\] " + step, " ".join(text.split())
    )
    assert re.search(
        r"\*\*Where the time goes\*\*\n(.*\n)*- onednn, forward, .* a step: .*groups (< )?\d+ %",
        as_markdown(found).replace("&lt;", "<"),
    )
    for row in csv.DictReader(io.StringIO(as_csv(found))):
        told = json.loads(row["parts_ms"]) if row["parts_ms"] else None
        timed = (
            [
                one
                for one in rows[row["variant"]].phases
                if one.phase == row["phase"]
            ]
            if told
            else []
        )
        assert told is None or told in [
            {part.what: part.ms for part in one.parts} for one in timed
        ]
        assert (told is None) == (not row["ms_median"])
    data = json.loads(as_json(found))
    validate(data, SCHEMA)
    assert set(data["variants"][0]["phases"][0]["parts"][0]) == {
        "what",
        "ms",
        "share",
    }


@pytest.mark.torch
def test_the_command_writes_json_that_its_schema_describes(
    model: Path, fusiondoc: Run, tmp_path: Path
) -> None:
    out = tmp_path / "bench.json"
    done = fusiondoc(
        "bench",
        model,
        "--variant",
        "none",
        "--rounds",
        6,
        "--shapes",
        "float32[4,16]",
        "--random-sizes",
        "-o",
        out,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(out.read_text())
    validate(data, SCHEMA)
    assert (
        data["schema"] == "fusiondoc.bench/1" and data["shapes"][0]["sizes"] == 20
    )
    assert data["inputs"] == data["shapes"][0]["inputs"] and data["inputs"][
        0
    ].endswith(",16]")
    assert [one["name"] for one in data["variants"]] == ["eager", "none"]
    for one in data["variants"]:
        (phase,) = one["phases"]
        assert (phase["processes"], phase["rounds"]) == (2, 6), (
            "the processes share the rounds"
        )
    low, high = (
        data["variants"][1]["phases"][0]["ratio"][end] for end in ("low", "high")
    )
    assert low < data["variants"][1]["phases"][0]["ratio"]["value"] < high
    assert not list(tmp_path.glob("**/.fusiondoc")), "a bench leaves no capture"


@pytest.mark.torch
def test_a_model_that_fails_everywhere_is_the_users(
    fusiondoc: Run, tmp_path: Path
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(
        "import torch\ninputs = (torch.ones(2),)\ndef model(x):\n    raise ValueError('no')\n"
    )
    done = fusiondoc("bench", path, "--variant", "none", "--rounds", 6)
    assert done.returncode == 3
    assert (
        "failed in every variant" in done.stderr and "Traceback" not in done.stderr
    )


@pytest.mark.torch
def test_the_table_in_the_page_is_what_bench_prints(no_progress) -> None:
    """Made by this test: FUSIONDOC_WRITE_PAGE=1 runs every variant and writes it.
    Without that, those that start quickly run, and their rows and reasons must
    stand there, but for numbers."""
    from fusiondoc.workflows.bench import run_bench

    pytest.importorskip("torch")
    writing = bool(os.environ.get("FUSIONDOC_WRITE_PAGE"))
    page = ROOT / "docs" / "commands" / "bench.md"
    text = page.read_text(encoding="utf-8")
    shown = re.search(
        r"(<!-- bench: fusiondoc bench (\S+) --eval --processes 1 -->\n```text\n)(.*?)```",
        text,
        flags=re.S,
    )
    assert shown is not None
    request = BenchRequest(
        parse_target(str(ROOT / shown[2])),
        (Path(sys.executable),),
        variants=VARIANTS
        if writing
        else ("eager", "nvfuser", "nnc", "onednn", "none"),
        rounds=15 if writing else LEAST_ROUNDS,
        processes=1,
        round_seconds=0.2 if writing else 0.01,
        eval=True,
    )
    printed = render(run_bench(request, no_progress), width=80)
    if writing:
        page.write_text(
            text.replace(shown[0], f"{shown[1]}{printed}```"), encoding="utf-8"
        )
        return
    assert _rows(printed).items() <= _rows(shown[3]).items()
    assert set(_rows(shown[3])) >= set(VARIANTS), (
        "a variant that cannot run stays there with its reason"
    )


def _rows(text: str) -> dict[str, str]:
    """Variant -> what its lines say, without numbers, verdicts, spaces and cells of
    columns for others."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        word = line.split()[0] if line.strip() else ""
        if " is fastest: " in line:  # the verdict begins with the name of a variant
            name = ""
        elif word.rstrip(":") in VARIANTS:
            name = word
        elif not line.startswith("          "):
            name = ""
        if name:
            loose = re.sub(
                r"no difference|[\d.,]+× \([\d.]+ to [\d.]+\)", "V", line
            )
            loose = re.sub(r"\d[\d.,]*(e-\d+)?", "0", loose).replace(" - ", " ")
            found[name] = " ".join(f"{found.get(name, '')} {loose}".split())
    return found


@pytest.mark.torch
def test_random_sizes_change_alike_what_is_equal() -> None:
    torch = pytest.importorskip("torch")
    from fusiondoc.probe.benchmark_steps import random_sizes

    x = torch.arange(6 * 5 * 4).reshape(6, 5, 4)
    mask, weight = torch.ones(6, 1, 5), torch.randn(4, requires_grad=True)
    given = random_sizes(torch, lambda: (x, mask, weight, 0.5), seed=3, count=10)
    first = given.example()
    sets = [given.arguments() for _ in range(20)]
    assert sets[0] is sets[10] is first and given.sizes == 10 and given.fixed
    assert len({one[0].shape for one in sets}) > 5
    for new, new_mask, same, half in sets:
        assert (
            abs(new.size(0) - 6) <= 2
            and abs(new.size(1) - 5) <= 2
            and new.size(2) == 4
        )
        assert new_mask.shape == (new.size(0), 1, 5), (
            "the last size is shared with parameters"
        )
        assert same is weight and half == 0.5
        assert int(new.max()) < x.numel() and new.dtype == x.dtype, (
            "indexes stay in range"
        )


def test_sets_of_sizes_that_are_alike_vary_together() -> None:
    one = expanded(["float32[8,{64,128},16]", "float32[ {64, 128} ]:grad", "0.5"])
    assert one == (
        ("float32[8,64,16]", "float32[ 64 ]:grad", "0.5"),
        ("float32[8,128,16]", "float32[ 128 ]:grad", "0.5"),
    )
    crossed = expanded(["float32[{2,3},{8,9}]"])
    assert crossed == (
        ("float32[2,8]",),
        ("float32[2,9]",),
        ("float32[3,8]",),
        ("float32[3,9]",),
    )
    assert expanded([]) == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("float32[{2,x}]", "found 'x'"),
        ("float32[{2,}]", "found nothing"),
        ("flaot32[{2,3}]", "did you mean float32"),
        ("float32[{1,2,3,4,5,6,7,8,9},{10,11,12,13,14,15,16,17}]", "72 shapes"),
    ],
)
def test_shapes_that_cannot_be_read_say_what_was_expected(
    text: str, says: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        expanded([text])


def test_wrong_usage_is_refused_before_anything_starts(
    model: Path, fusiondoc: Run, tmp_path: Path
) -> None:
    many = fusiondoc("bench", model, "--rounds", 8, "--processes", 3)
    assert (
        many.returncode == 2
        and "8 rounds are enough for 1 to 2 processes" in many.stderr
    )
    few = fusiondoc("bench", model, "--rounds", 3)
    assert few.returncode == 2 and "at least 6" in few.stderr
    unknown = fusiondoc("bench", model, "--variant", "nvfusr")
    assert unknown.returncode == 2 and "nvfuser" in unknown.stderr
    knob = fusiondoc("bench", model, "--knob", "single_nod=on")
    assert knob.returncode == 2 and "single_node" in knob.stderr


@pytest.mark.torch
def test_an_interruption_keeps_the_rounds_that_are_done(
    model: Path, tmp_path: Path
) -> None:
    """A real process, because signals are the point; many rounds, of which it is
    not let do all."""
    out = tmp_path / "bench.json"
    command = [
        *warm_torch.command(),
        "bench",
        str(model),
        "--variant",
        "none",
        "--rounds",
        "5000",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FUSIONDOC_CACHE": str(tmp_path / "cache"),
    }
    process = subprocess.Popen(
        [*command, "-o", str(out)],
        cwd=str(tmp_path),
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore it, and so do their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 120
        while _rounds_of_children(process.pid) < 4 and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, said
    data = json.loads(out.read_text())
    assert data["interrupted"] and all(
        one["phases"][0]["rounds"] >= 1 for one in data["variants"]
    )
    assert not _children_of_folder(tmp_path)


def _bench_folders() -> list[Path]:
    import tempfile

    return list(Path(tempfile.gettempdir()).glob("fusiondoc-bench-*"))


def _rounds_of_children(pid: int) -> int:
    """Rounds that the children of this bench have told of."""
    told = 0
    for folder in _bench_folders():
        for records in folder.glob("*/*/records.jsonl"):
            spec = json.loads((records.parent / "spec.json").read_text())
            if spec["parent"] == pid:
                told += records.read_text().count('"record": "round"')
    return told


def _children_of_folder(folder: Path) -> list[str]:
    """Command lines of processes that still work there (Linux)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str((entry / "cwd").readlink()) == str(folder):
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_a_table_with_gpu_times_and_shapes_fits_80_columns() -> None:
    ratio_of = Ratio(11.02, 10.87, 11.15)
    ms = Measured(0.215, 0.2, 0.23)
    times = BenchPhase(
        "forward", ms, 4651, ratio_of, 0.2, 0.97, 15, 9, 0, 20171.1, 1, 1
    )
    shapes = (
        BenchShape(("float32[4096,4096]",)),
        BenchShape(("float32[512,4096]",) * 3),
    )
    phases = (times, replace(times, shape=1))
    rows = [
        BenchVariant(name, "Python 3.10", True, None, phases)
        for name in ("eager", "aot-default")
    ]
    text = render(replace(_bench(), variants=tuple(rows), shapes=shapes), width=80)
    assert (
        "…" not in text
        and "11.02× (10.87 to 11.15)" in text
        and max(map(len, text.splitlines())) <= 80
    )


def test_two_interpreters_are_told_apart_and_what_moving_brings_is_said() -> None:
    old, new = "Python 3.10, torch 2.1.2", "Python 3.12, torch 2.11.0"

    def timed(name: str, python: str, ms: float, memory: int) -> BenchVariant:
        ratio_of = Ratio(0.5 / ms, 0.49 / ms, 0.51 / ms)
        found = BenchPhase(
            "forward",
            Measured(ms, ms * 0.99, ms * 1.01),
            1e3 / ms,
            ratio_of,
            0.2,
            0.8,
            15,
            9,
        )
        groups_of = ByPhase(1, None) if name == "nvfuser" else None
        note = "frozen" if python == new else None
        return BenchVariant(
            name,
            python,
            True,
            None,
            (found,),
            1.0,
            0.9,
            3,
            memory,
            groups_of,
            2,
            0.0,
            note,
        )

    rows = [
        timed("eager", old, 0.5, 100_000_000),
        timed("nvfuser", old, 0.25, 50_000_000),
    ]
    rows += [
        timed("eager", new, 0.5, 100_000_000),
        timed("inductor", new, 0.125, 75_000_000),
    ]
    rows.append(timed("aot-default", new, 0.5, 1_000_000_000))
    bench = replace(_bench(), variants=tuple(rows))
    text = render(bench, width=80)
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert text.count(f" {old}\n") == 2 and text.count(f" {new}\n") == 2, (
        "above the speeds, and the details"
    )
    said = " ".join(text.split())
    assert (
        "from nvfuser (torch 2.1.2), 0.25 ms, 50 MB, groups 1 to inductor (torch 2.11.0), 0.125 ms"
        in said
    )
    assert "the fastest of each: 2.00× (1.95 to 2.05) as fast" in said
    assert (
        "eager (torch 2.11.0), inductor (torch 2.11.0), aot-default (torch 2.11.0): frozen"
        in said
    )
    head = next(line for line in text.splitlines() if "recompiles" in line)
    names = "variant warm-up compile recompiles fallbacks memory of eager off by"
    assert head.split() == names.split()
    assert "GPU ms" in text and "| GPU ms |" in as_markdown(bench)
    slow = replace(
        rows[3], phases=(replace(rows[3].phases[0], ms=Measured(0.25, 0.2, 0.3)),)
    )
    unsure = " ".join(
        render(replace(bench, variants=(*rows[:3], slow)), width=80).split()
    )
    assert "the fastest of each: no difference in speed" in unsure
    unknown = replace(
        rows[0], note="frozen", why_no_difference="no outputs; not one"
    )
    listed = " ".join(
        render(replace(bench, variants=(unknown, *rows[1:])), width=80).split()
    )
    assert (
        "eager (torch 2.1.2): no difference from eager is known: no outputs; not one"
        in listed
    )


def test_the_python_function_refuses_what_the_command_refuses_and_renders(
    tmp_path: Path,
) -> None:
    import fusiondoc

    (tmp_path / "model.py").write_text("model = None\n")
    with pytest.raises(UsageError, match="unknown variant 'nvfusr'"):
        fusiondoc.bench(tmp_path / "model.py", variants=["nvfusr"])
    with pytest.raises(UsageError, match="at least 6"):
        fusiondoc.bench(tmp_path / "model.py", rounds=3)
    with pytest.raises(UsageError, match="there is no knob 'single_nod'"):
        fusiondoc.bench(tmp_path / "model.py", knobs={"single_nod": True})
    with pytest.raises(TypeError, match="'bakward'"):
        fusiondoc.bench(tmp_path / "model.py", bakward=True)
    assert fusiondoc.render(_bench(), "csv").startswith("interpreter,variant,")
    assert "eager" in fusiondoc.render(_bench()) and "eager" in fusiondoc.render(
        _bench(), "html"
    )
    with pytest.raises(UsageError, match="no format 'sarif' of a bench"):
        fusiondoc.render(_bench(), "sarif")


def test_an_error_of_torchscripts_interpreter_without_a_word_names_the_line_it_marks() -> (
    None
):
    """As torch 2.13 prints it of a graph of AOTAutograd: the message behind
    ``RuntimeError:`` is empty."""
    from fusiondoc.runner.bench_child import _reason

    message = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "<eval_with_key>.10", line 31, in forward
    eq = torch.ops.aten.eq(primals_14, 0);  primals_14 = None
    where = torch.ops.aten.where(eq, scalar_tensor, div);  scalar_tensor = div = None
            ~~~~~~~~~~~~~~~~~~~~ <--- HERE
    _softmax = torch.ops.aten._softmax(where, -1, False);  where = None
RuntimeError:
"""
    assert _reason("RuntimeError", message) == (
        "RuntimeError: TorchScript's interpreter fails without a word at where = torch.ops.aten.where(eq,"
        " scalar_tensor, div);  scalar_tensor = div = None"
    )
    assert (
        _reason("RuntimeError", "could not add op\nValueError: x")
        == "RuntimeError: ValueError: x"
    )
