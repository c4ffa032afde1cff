"""The examples of examples/why_not: each gives the reasons that it promises, and
fuses once it is fixed."""

from __future__ import annotations

import importlib.util
import json
import tarfile
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from conftest import FIXTURES, ROOT, Run

torch = pytest.importorskip("torch")

FOLDER = ROOT / "examples" / "why_not"
RUN_EXAMPLES = Path(__file__).parent / "live" / "run_examples.py"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
BY_OPTIONS = [
    name
    for name in NAMES
    if "FIX_OPTIONS" in (FOLDER / f"{name}.py").read_text(encoding="utf-8")
]

nvfuser_here = torch.cuda.is_available() and torch.__version__ < "2.2"
needs_nvfuser = pytest.mark.skipif(
    not nvfuser_here,
    reason="needs a GPU and a torch that has nvFuser (1.12 to 2.1)",
)
FUSERS = ["nnc", pytest.param("nvfuser", marks=needs_nvfuser)]


def load(name: str) -> ModuleType:
    module = load_anyway(name)
    if torch.cuda.device_count() < getattr(module, "GPUS", 0):
        pytest.skip(f"needs {module.GPUS} GPUs")
    return module


def load_anyway(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"why_not_{name}", FOLDER / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


def report(
    fusiondoc: Run, *args: object, env: dict[str, str] | None = None
) -> dict:
    done = fusiondoc("diagnose", "--format", "json", *args, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def diagnose(
    fusiondoc: Run,
    target: str,
    fuser: str,
    example: ModuleType,
    options: tuple,
    fixed: bool = False,
) -> dict:
    if "--fuser" not in options:
        options = (*options, "--fuser", fuser)
    env = {} if fixed else getattr(example, "ENVIRONMENT", {})
    return report(fusiondoc, *options, f"{FOLDER}/{target}", env=env)


def rows(found: dict, path: Path | None = None) -> set:
    """(operator, code) of every unfused row, and (None, code) of every finding;
    only the rows with a line of ``path``, if it is given."""
    unfused = {
        (row["op"], row["reason"]["code"])
        for row in found["unfused"]
        if path is None or str(path) in (row["user_source"] or "")
    }
    return (
        unfused
        if path is not None
        else unfused | {(None, finding["code"]) for finding in found["findings"]}
    )


def fused(example: ModuleType, fuser: str, unchanged: bool = False) -> list:
    """The operators of the group that the example promises once it is fixed, or as
    it is."""
    ops = example.FUSED[fuser] if isinstance(example.FUSED, dict) else example.FUSED
    if unchanged:
        ops = getattr(example, "UNCHANGED", {}).get(fuser, ops)
    return sorted(ops)


def groups(found: dict, path: Path | None = None) -> list:
    """The operators of each group that ran fused, sorted, since fusers order what
    is independent in their own ways; only of those with a line of ``path``, if it
    is given."""
    return [
        sorted(group["ops"])
        for group in found["groups"]
        if not group["fallback"]
        and (
            path is None
            or any(
                str(path) in (node["user_source"] or "") for node in group["nodes"]
            )
        )
    ]


def test_there_are_twenty_of_them_with_their_own_reasons() -> None:
    examples = {name: load_anyway(name) for name in NAMES}
    assert len(examples) >= 20
    expected = [
        row
        for example in examples.values()
        for rows in example.EXPECT.values()
        for row in rows
    ]
    assert len({code for _, code in expected}) >= 18
    for name, example in examples.items():
        assert set(example.EXPECT) == {"nnc", "nvfuser"}, name
        assert any(example.EXPECT.values()) or name == "cpu_scalar", (
            "that one has a reason with a GPU only"
        )
        assert f"examples/why_not/{name}.py" in (example.__doc__ or ""), name
        assert hasattr(example, "FUSED") or not hasattr(example, "fixed"), name


def on_its_own(name: str) -> bool:
    """Whether an example needs a process of its own: for its options, or as no
    operator shows it."""
    example = load_anyway(name)
    options = set(getattr(example, "OPTIONS", ())) - {"--backward"}
    rest = [
        op
        for expected in example.EXPECT.values()
        for op, _ in expected
        if op is None
    ]
    return bool(
        options
        or rest
        or hasattr(example, "ENVIRONMENT")
        or hasattr(example, "GPUS")
    )


ROWS_ELSEWHERE = {"batch_norm_training", "dropout_flag", "no_region"}
"""Their rows have lines of torch's own Python or none, so that no file tells them
apart."""
ON_THEIR_OWN = [
    name for name in NAMES if name in ROWS_ELSEWHERE or on_its_own(name)
]


@pytest.mark.parametrize("fuser", FUSERS)
def test_the_report_gives_the_reasons(fuser: str, fusiondoc: Run) -> None:
    examples = {
        name: load_anyway(name) for name in NAMES if name not in ON_THEIR_OWN
    }
    examples = {
        name: example for name, example in examples.items() if example.EXPECT[fuser]
    }
    assert len(examples) > 12
    found = run_together(fusiondoc, fuser, "model", examples)
    missing, needless = {}, []
    for name, example in examples.items():
        path = FOLDER / f"{name}.py"
        missing[name] = [
            row for row in example.EXPECT[fuser] if row not in rows(found, path)
        ]
        if hasattr(example, "FUSED") and fused(example, fuser) in groups(
            found, path
        ):
            needless.append(name)
    assert {name: rows for name, rows in missing.items() if rows} == {}
    assert not needless, "these need no fix"


@pytest.mark.parametrize("fuser", FUSERS)
@pytest.mark.parametrize("name", ON_THEIR_OWN)
def test_the_report_gives_the_reason(name: str, fuser: str, fusiondoc: Run) -> None:
    example = load(name)
    expected = example.EXPECT[fuser]
    if not expected:
        pytest.skip(f"{fuser} fuses all of it, which another test holds")
    found = diagnose(
        fusiondoc, f"{name}.py", fuser, example, getattr(example, "OPTIONS", ())
    )
    assert not [row for row in expected if row not in rows(found)]
    if name != "many_shapes" and hasattr(example, "FUSED"):
        assert fused(example, fuser) not in groups(found), (
            "the example needs no fix"
        )


def test_the_recorded_runs_under_nvfuser_give_the_reasons(
    tmp_path: Path, fusiondoc: Run
) -> None:
    """Captures of these examples from a GPU, so that nvFuser's reasons are held
    where there is none."""
    with tarfile.open(
        FIXTURES / "captures" / "why-not-nvfuser-2.1.2.tar.xz"
    ) as tar:
        tar.extractall(tmp_path)
    recorded = sorted(path.name for path in tmp_path.iterdir())
    assert set(NAMES) == set(recorded)
    unnamed = total = 0
    for name in recorded:
        done = fusiondoc("parse", str(tmp_path / name), "--format", "json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        example = load_anyway(name)
        assert not [
            row for row in example.EXPECT["nvfuser"] if row not in rows(found)
        ], name
        assert (
            found["environment"]["torch"] == "2.1.2+cu121"
            and not found["parse"]["unrecognised"]
        )
        codes = [
            row["reason"]["code"]
            for row in found["unfused"]
            if row["op"] != "prim::GetAttr"
        ]
        total += len(codes)
        unnamed += codes.count("FD299")
    assert total > 60 and unnamed / total <= 0.05, (
        f"{unnamed} of {total} rows have no reason"
    )


def run_together(fusiondoc: Run, fuser: str, function: str, examples: dict) -> dict:
    """The report on one function of each example, all run in one process; a row is
    told by its file."""
    targets = [f"{FOLDER}/{name}.py:{function}" for name in examples]
    return report(
        fusiondoc, "--script", RUN_EXAMPLES, "--fuser", fuser, "--", *targets
    )


def fused_together(
    fusiondoc: Run, fuser: str, function: str, examples: dict
) -> dict:
    """The groups of one function of each example."""
    found = run_together(fusiondoc, fuser, function, examples)
    return {name: groups(found, FOLDER / f"{name}.py") for name in examples}


@pytest.mark.parametrize("fuser", FUSERS)
def test_what_this_fuser_takes_fuses_unchanged(fuser: str, fusiondoc: Run) -> None:
    examples = {name: load_anyway(name) for name in NAMES if name != "many_shapes"}
    examples = {
        name: example
        for name, example in examples.items()
        if not example.EXPECT[fuser]
    }
    assert len(examples) > 2
    for name, found in fused_together(fusiondoc, fuser, "model", examples).items():
        assert fused(examples[name], fuser, unchanged=True) in found, name


@pytest.mark.parametrize("fuser", FUSERS)
def test_what_is_fixed_in_the_program_fuses(fuser: str, fusiondoc: Run) -> None:
    examples = {name: load_anyway(name) for name in NAMES if name not in BY_OPTIONS}
    examples = {
        name: example
        for name, example in examples.items()
        if hasattr(example, "fixed")
    }
    assert len(examples) > 15
    for name, found in fused_together(fusiondoc, fuser, "fixed", examples).items():
        assert fused(examples[name], fuser) in found, name


@pytest.mark.parametrize("fuser", FUSERS)
@pytest.mark.parametrize("name", BY_OPTIONS)
def test_what_options_or_other_inputs_fix_fuses(
    name: str, fuser: str, fusiondoc: Run
) -> None:
    example = load(name)
    if not example.EXPECT[fuser]:
        pytest.skip(f"{fuser} fuses all of it unchanged")
    target = f"{name}.py:{'fixed' if hasattr(example, 'fixed') else 'model'}"
    found = diagnose(
        fusiondoc, target, fuser, example, example.FIX_OPTIONS, fixed=True
    )
    assert fused(example, fuser) in groups(found)
    promised = {
        row for row in example.EXPECT[fuser] if row[0] in fused(example, fuser)
    }
    assert not promised & rows(found)
