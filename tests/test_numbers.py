"""Numbers of logs, records, traces and names: beyond all bounds they are not known,
and end nothing."""

from __future__ import annotations

import ast
import gzip
import json
import lzma
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT
from thorough import THOROUGH, every

from fusiondoc.numbers import (
    BITS_64,
    LARGEST,
    all_whole,
    as_count,
    figure,
    in_natural_order,
    pair_of,
    whole_number,
    whole_numbers,
)
from fusiondoc.reports.json_format import read_report

LONG = "9" * 5000
"""More digits than ``int`` takes (4300 from Python 3.11 on)."""

OTHERS_NUMBERS = (
    *(
        "captures",
        "cli",
        "comparison",
        "diagnosis",
        "expectations",
        "fuser_knobs",
        "fusers",
    ),
    *(
        "model",
        "operators",
        "parsers",
        "rendering",
        "reports",
        "views",
        "repro",
        "workflows",
    ),
)
"""Folders whose code reads what others wrote. ``probe`` and ``suites`` run beside
torch and import nothing of fusiondoc; ``runner`` reads what fusiondoc's own
processes send."""

OF_NUMBERS = {
    "alignment.py": {"float(a[i] == b[j])"},
    # Of the environment, where what is no number is expected; every start imports
    # this file.
    "cli/__init__.py": {"int(columns)"},
    "expectations/gate.py": {"int(outcome.path[-1])"},  # an index
    "expectations/moved.py": {"int(cluster.a[0].group.id)"},  # of its own
    # Of the caller in Python, who gets the error.
    "captures/python_options.py": {
        "_number(option, value, float, 'a number of seconds')"
    },
    # yaml_text.number gives a finite number below 1e15; the others are indices.
    "expectations/read_file.py": {"int(value)"},
    "expectations/sections_of_file.py": {"int(path[-1])"},
    "expectations/yaml_text.py": {
        "float(value)",
        "int(index)",
        "int(node.end_mark.index)",
    },
    "numbers.py": {"float(written)", "int(written)"},
    # Of a JSON number; what overflows is damaged.
    "model/typed_fields.py": {"float(value)"},
    # _timed takes events with bounded numbers only.
    "parsers/profiler_trace.py": {
        "float(event['dur'])",
        "float(event['ts'])",
        "float(first)",
        "float(last)",
        "int(event['dur'])",
        "int(event['ts'])",
    },
    "parsers/kernels/code_traits.py": {
        "int(aligned)",
        "int(width)",
    },  # three digits at most
    # _MARK takes a bounded count of digits.
    "parsers/jit/patterns.py": {"int(found.group(1) or found.group(2))"},
    "parsers/rows/kernel_rows.py": {
        "float(median(use.first_ms))",
        "float(median(values))",
    },
    "rendering/plots.py": {"float(HEIGHT - _BOTTOM)"},
    "rendering/hues.py": {"int(code[2:])"},
    "rendering/layered_drawing.py": {"float(p)"},
    "views/report_times.py": {"float(median(known))"},
    "reports/markdown.py": {"int((LIMIT - _SPARE) * _SHARES[section.key])"},
    "rendering/drawing.py": {
        "int((log(value) - low) / span * (len(LEVELS) - 1) + 0.5)"
    },
    # Constants of a program are what they are: infinities too.
    "repro/__init__.py": {"float(value)"},
    "repro/rebuild.py": {"float(text)"},
    # Octal fields of a tar, of twelve bytes.
    "workflows/archives.py": {
        "int(header[124:136].strip(b' \\x00') or b'0', 8)",
        "int(header[148:156].strip(b' \\x00') or b'0', 8)",
    },
    "workflows/follow_ups.py": {"float(median(rates))"},
    "workflows/survey_engines.py": {
        "int(ray.cluster_resources().get('CPU', 0))",
        "int(ray.cluster_resources().get('CPU', 1))",
    },
    "views/history_sections.py": {"float(run.number_of_groups)"},
    "workflows/history_bisect.py": {"int(author[2])"},  # eleven digits at most
    "workflows/survey_since.py": {  # eleven digits at most
        "int(digits[:4])",
        "int(digits[4:6])",
        "int(digits[6:])",
        "int(found[1])",
    },
    "workflows/loss_causes.py": {"int(left.has[run] or 0)", "int(has[run] or 0)"},
    "workflows/share_explanations.py": {"float(share == 0)", "int(has[run] or 0)"},
    "workflows/survey_listing.py": {"int(listed)"},
    "workflows/survey_losses.py": {
        "int(bool(plan.backward))",
        "int(has[run] or 0)",
        "int(number >= least)",
    },
    "workflows/survey_successors.py": {"int(item.group.id)"},  # of its own
}
"""Calls that take a number already, or that say why they may take a text."""

ABOUT_TYPES = {"isinstance", "issubclass", "cast", "defaultdict", "Counter", "dict"}


def conversions(tree: ast.Module) -> Iterator[str]:
    """Calls of ``int`` and ``float``, and calls that are handed one of them
    (``map(int, ...)``)."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = (
            call.func.id
            if isinstance(call.func, ast.Name)
            else getattr(call.func, "attr", "")
        )
        handed = [
            *call.args,
            *(one.value for one in call.keywords if one.arg != "type"),
        ]
        constant = bool(call.args) and isinstance(call.args[0], ast.Constant)
        if (name in ("int", "float", "Decimal", "Fraction") and not constant) or (
            name not in ABOUT_TYPES
            and any(
                isinstance(one, ast.Name) and one.id in ("int", "float")
                for one in handed
            )
        ):
            yield ast.unparse(call)


@pytest.mark.skipif(
    not hasattr(ast, "unparse"), reason="ast.unparse is of Python 3.9"
)
def test_one_module_makes_numbers_of_what_others_wrote() -> None:
    """A new ``int(text)`` raises for 5000 digits: ``whole_number`` and ``figure``
    are for that."""
    package = ROOT / "fusiondoc"
    files = [
        package / "alignment.py",
        package / "testing.py",
        package / "api.py",
        package / "numbers.py",
    ]
    files += [
        file
        for folder in OTHERS_NUMBERS
        for file in sorted((package / folder).rglob("*.py"))
    ]
    texts = {
        str(file.relative_to(package)): file.read_text(encoding="utf-8")
        for file in files
    }
    words = re.compile(r"\b(?:int|float|Decimal|Fraction)\b")
    found = {
        name: set(conversions(ast.parse(text)))
        for name, text in texts.items()
        if words.search(text)
    }
    known = {
        name: {ast.unparse(ast.parse(call)) for call in calls}
        for name, calls in OF_NUMBERS.items()
    }
    assert {name: calls for name, calls in found.items() if calls} == known


def test_the_search_for_conversions_finds_them() -> None:
    code = "int(a)\nmap(float, b)\nfloat('inf')\nisinstance(c, int)\nsorted(d, key=int)\nclick.option(type=int)"
    assert list(conversions(ast.parse(code))) == [
        "int(a)",
        "map(float, b)",
        "sorted(d, key=int)",
    ]


@pytest.mark.parametrize(
    "text, number",
    [
        ("0", 0),
        ("-12", -12),
        (b"12", 12),
        ("007", 7),
        (str(LARGEST - 1), LARGEST - 1),
        (str(-LARGEST), -LARGEST),
        *(
            (one, None)
            for one in (
                str(LARGEST),
                str(-LARGEST - 1),
                LONG,
                LONG.encode(),
                "-" + LONG,
            )
        ),
        *(
            (one, None)
            for one in (
                "",
                "-",
                "--1",
                "+1",
                " 1",
                "1 ",
                "1_0",
                "1.0",
                "1e3",
                "0x1",
                "nan",
            )
        ),
        *((one, None) for one in ("\u0663", "\u00b2", "\u0663".encode(), b"\xff")),
    ],
)
def test_whole_numbers(text: str | bytes, number: int | None) -> None:
    assert whole_number(text) == number


def test_numbers_without_a_sign_have_a_bit_more() -> None:
    assert whole_number(str(BITS_64 - 1), BITS_64) == BITS_64 - 1
    assert whole_number(str(BITS_64), BITS_64) is None


def test_several_numbers() -> None:
    assert whole_numbers(["1", LONG, b"2", ""]) == [1, 2]
    assert all_whole(["1", "2"]) == (1, 2)
    assert all_whole(["1", LONG]) is None
    assert pair_of(re.match(r"(\d+)\.(\d+)", "2.13.1")) == (2, 13)
    assert pair_of(re.match(r"(\d+)\.(\d+)", f"2.{LONG}")) is None
    assert pair_of(None) is None


@pytest.mark.parametrize(
    "text, number",
    [
        ("0.25", 0.25),
        (b"1.5e-05", 1.5e-5),
        ("-3", -3.0),
        (".5", 0.5),
        ("0", 0.0),
        ("1e15", 1e15),
        *(
            (one, None)
            for one in (
                "1e16",
                "1e200",
                "1e400",
                "-1e200",
                "1e-200",
                "5e-324",
                LONG,
                "0." + LONG,
            )
        ),
        *(
            (one, None)
            for one in (
                "",
                ".",
                "inf",
                "nan",
                "-inf",
                "1_0",
                "1e",
                " 1",
                "\u0663",
                b"\xff",
            )
        ),
    ],
)
def test_figures(text: str | bytes, number: float | None) -> None:
    assert figure(text) == number


def test_what_is_too_large_to_count_is_no_count() -> None:
    assert as_count(2.6) == 3
    assert (
        as_count(1e36) is as_count(float("inf")) is as_count(float("nan")) is None
    )


def test_names_in_order() -> None:
    names = [
        "kernel10",
        "kernel9",
        f"kernel{LONG}",
        "kernel010",
        "a",
        "10",
        "9",
        "kernel",
    ]
    assert sorted(names, key=in_natural_order) == [
        *("9", "10", "a", "kernel", "kernel9", "kernel10", "kernel010"),
        f"kernel{LONG}",
    ]


BANDWIDTH = "kernel1 run in {ms} ms, achieved: {rate} GB/s\n"
LAUNCH = (
    "Launch Parameters: BlockDim.x = {n}, BlockDim.y = 1, BlockDim.z = 1, GridDim.x = 1, GridDim.y = 1, "
    "GridDim.z = 1, Smem Size = {n}\n"
)
GRAPH = (
    "graph(%x.1 : Float({sizes}, requires_grad=0, device=cuda:{device})):\n"
    "  %3 : Float({sizes}, requires_grad=0, device=cuda:{device}) = prim::CudaFusionGroup_0(%x.1)\n"
    "  return (%3)\n"
    "with prim::CudaFusionGroup_0 = graph(%x.1 : Float({sizes}, requires_grad=0, device=cuda:{device})):\n"
    "  %2 : Float({sizes}, requires_grad=0, device=cuda:{device}) = aten::relu(%x.1),"
    " scope: Net::/Block::layers.{layer} # m.py:{line}:2\n"
    "  return (%2)\n"
)


def of_ranks(*logs: str) -> str:
    return "".join(
        f"[rank{rank}]:{line}\n"
        for rank, log in enumerate(logs)
        for line in log.rstrip("\n").split("\n")
    )


def graph(
    device: str = "0",
    layer: str = "0",
    sizes: str = "8, strides=[1]",
    line: str = "1",
) -> str:
    return GRAPH.format(device=device, layer=layer, sizes=sizes, line=line)


LOGS = {
    "two launches that overflow": BANDWIDTH.format(ms="1e200", rate="1e200") * 2,
    "launches that underflow": BANDWIDTH.format(ms="1e-200", rate="1e200") * 2,
    "a long time": BANDWIDTH.format(ms=LONG, rate=LONG) * 2,
    "a kernel with a long number": BANDWIDTH.replace(
        "kernel1", f"kernel{LONG}"
    ).format(ms=1, rate=1),
    "a launch of many": LAUNCH.format(n="9" * 18) + BANDWIDTH.format(ms=1, rate=1),
    "a device with a long number": graph(device=LONG) + graph(),
    "a layer with a long number": graph(layer=LONG) + graph(layer=LONG[1:]),
    "digits of another script": of_ranks(
        graph(device="\u0663", layer="\u00b2"), graph(layer="\u0663")
    ),
    "a long line number": graph(line=LONG),
    "sizes of 64 bits": graph(sizes=", ".join([str(LARGEST - 1)] * 30)),
    "sizes that fill the memory of the world": graph(sizes=f"{10**13}, strides=[1]")
    * 2,
    "a long size": graph(sizes=LONG),
    "a rank that no job has": of_ranks(graph(), graph()).replace(
        "[rank1]", "[rank999999999]"
    ),
    "a device that no machine has": of_ranks(graph(device="999999999"), graph()),
    "a long rank": graph().replace("graph(", f"[rank{LONG}]:graph("),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_with_numbers_beyond_all_bounds_gives_a_report(
    name: str, fusiondoc, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOGS[name], encoding="utf-8")
    for more in ([], ["--peak", "4800"], ["--format", "html"], ["--verbose"]):
        assert fusiondoc("parse", log, *more).returncode == 0
    done = fusiondoc("parse", log, "--format", "json")
    report = read_report(done.stdout.encode(), "saved.json")
    assert report.parse.lines == LOGS[name].count("\n")
    assert not re.search(
        r"\b(inf|nan|Infinity|NaN)\b", fusiondoc("parse", log).stdout
    )


def test_a_launch_out_of_bounds_is_a_launch_of_unknown_time(
    fusiondoc, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        BANDWIDTH.format(ms="1e200", rate="1e200")
        + BANDWIDTH.format(ms=2, rate=30) * 3,
        encoding="utf-8",
    )
    (kernel,) = json.loads(fusiondoc("parse", log, "--format", "json").stdout)[
        "kernels"
    ]
    assert kernel["launches"] == 4
    assert (kernel["ms"]["max"], kernel["gb_per_s"]["max"]) == (2, 30)


NUMBER = re.compile(rb"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?|(?<=[A-Za-z_])\d+")


BEYOND = [b"9" * 20, b"1e200", b"1e-200", b"0", "\u0663".encode(), b"9" * 4400]


@pytest.mark.parametrize("number", BEYOND)
def test_all_numbers_of_real_logs_out_of_bounds(
    number: bytes, fusiondoc, tmp_path: Path
) -> None:
    """At a push one of the logs has a number, the other the next one."""
    logs = (
        "nvfuser-2.1.2-ordered-layer-norm",
        "nvfuser-2.1.2-ordered-encoder-layer",
    )
    for name in every(2, logs[0 if THOROUGH else BEYOND.index(number) % 2 :]):
        with lzma.open(FIXTURES / "logs" / f"{name}.log.xz") as file:
            lines = file.read().split(b"\n")
        # Marks of torch keep their number: else the lines are no longer of torch.
        changed = [
            line[: line.find(b"]") + 1]
            + NUMBER.sub(number, line[line.find(b"]") + 1 :])
            for line in lines
        ]
        log = tmp_path / f"{name}.log"
        log.write_bytes(
            b"\n".join(changed[:1200] if len(number) > 100 else changed)
        )
        done = fusiondoc("parse", log, "--format", "json")
        assert done.returncode == 0, done.stderr
        read_report(done.stdout.encode(), "saved.json")


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    made = tmp_path / "capture"
    shutil.copytree(FIXTURES / "captures" / "nvfuser-2.1.2-composite", made)
    return made


def test_records_with_numbers_beyond_all_bounds(capture: Path, fusiondoc) -> None:
    records = capture / "records.jsonl"
    text = records.read_text(encoding="utf-8")
    for number in (LONG, "1e400", "1e308", "-9e307", "18446744073709551616"):
        records.write_text(
            re.sub(r"(?<=[:\[ ])-?\d+(?:\.\d+)?(?=[,}\]])", number, text),
            encoding="utf-8",
        )
        done = fusiondoc("parse", capture, "--format", "json")
        assert done.returncode == 0, done.stderr
        read_report(done.stdout.encode(), "saved.json")
    records.write_text(
        text.replace('"torch": "2.1.2', f'"torch": "{LONG}.{LONG}'),
        encoding="utf-8",
    )
    assert fusiondoc("parse", capture).returncode == 0


@pytest.mark.parametrize("name", ["\u00b2", "\u0663", "9" * 200])
def test_a_folder_of_a_rank_whose_name_is_no_number(
    name: str, capture: Path, fusiondoc
) -> None:
    rank = capture / "ranks" / name
    rank.mkdir(parents=True)
    for file in ("request.json", "records.jsonl", "log"):
        shutil.copy(capture / file, rank / file)
    assert fusiondoc("parse", capture).returncode == 0


@pytest.mark.parametrize(
    "number", [LONG, "1e400", "1e308", "1e200", "18446744073709551616"]
)
def test_a_saved_report_with_numbers_beyond_all_bounds(
    number: str, fusiondoc, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text(BANDWIDTH.format(ms=2, rate=30) * 2 + graph(), encoding="utf-8")
    text = fusiondoc("parse", log, "--format", "json").stdout
    for what in (
        r'"(?:min|median|max)": *[\d.]+',
        r'"\w*bytes\w*": *[\d.]+',
        r'"launches": *\d+',
    ):
        saved = tmp_path / "saved.json"
        changed = re.sub(
            what, lambda found: found.group().split(":")[0] + ": " + number, text
        )
        assert changed != text
        saved.write_text(changed, encoding="utf-8")
        for command in (
            ("parse", saved, "--peak", 4800),
            ("compare", saved, log),
            ("compare", saved, saved),
        ):
            done = fusiondoc(*command)
            assert done.returncode in (0, 2), done.stderr
            assert done.returncode == 0 or "next: " in done.stderr


@pytest.mark.parametrize("number", [LONG, "1e400", "1e200", "5e-324"])
def test_a_trace_with_numbers_beyond_all_bounds(
    number: str, fusiondoc, tmp_path: Path
) -> None:
    with tarfile.open(
        FIXTURES / "profiles" / "nvfuser-2.1-layer-norm.tar.xz"
    ) as archive:
        archive.extractall(tmp_path)
    capture = tmp_path / "layer-norm"
    trace = capture / "profile" / "trace.json.gz"
    text = gzip.decompress(trace.read_bytes()).decode()
    for what in ("ts", "dur", "correlation", "External id"):
        changed = re.sub(
            rf'"{what}": *[\d.]+', f'"{what}": {number}', text, count=400
        )
        trace.write_bytes(gzip.compress(changed.encode(), 1))
        done = fusiondoc("parse", capture, "--format", "json")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "text",
    [
        f"groups: [{{ops: [add], count: {LONG}}}]",
        f"groups: [{{ops: [add], layer: 'a.[0-{LONG}]'}}]",
        f"groups: [{{ops: [add], source: 'm.py:{LONG}'}}]",
        f"number_of_groups: {LONG}",
        "min_coverage: 1e400",
        f"when: {{torch: '>={LONG}'}}",
    ],
)
def test_expectations_with_numbers_beyond_all_bounds(
    text: str, fusiondoc, tmp_path: Path
) -> None:
    (tmp_path / "fusions.yaml").write_text(text + "\n", encoding="utf-8")
    log = tmp_path / "train.log"
    log.write_text(graph(), encoding="utf-8")
    done = fusiondoc("check", log, "--expect", "fusions.yaml", cwd=tmp_path)
    assert done.returncode in (1, 2), done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("explain", LONG),
        ("explain", "FD\u00b2"),
        ("knobs", "--torch", f"{LONG}.1"),
        ("env", "--export", "m.py", "--knob", f"fusion_strategy=STATIC:{LONG}"),
        ("compare", "a.log", "a.log", "--slower-than", LONG),
        ("diagnose", "m.py", "--nproc-per-node", "\u00b2"),
        ("diagnose", "m.py", "--nproc-per-node", LONG),
        ("captures", "--keep-last", LONG),
    ],
)
def test_arguments_with_numbers_beyond_all_bounds(
    command: tuple[str, ...], fusiondoc, tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "a.log").write_text(graph(), encoding="utf-8")
    assert fusiondoc(*command, cwd=tmp_path).returncode == 2
