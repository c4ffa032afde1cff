"""``repro`` on logs that want to run something: it writes one file, which holds a
group and nothing else.

2,000 generated logs, some 10 s; FUSIONDOC_HOSTILE_LOGS=10000 in the environment
makes them 10,000.
"""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import sys
import threading
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import FIXTURES, ROOT
from hostile_logs import Hostile, real_bodies
from thorough import examples

from fusiondoc.captures.capture import REQUEST
from fusiondoc.captures.trust import sign
from fusiondoc.cli.repro import command
from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model import INIT
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs
from fusiondoc.rendering.drawing import rows_of_lines
from fusiondoc.repro import write as script_module
from fusiondoc.repro.judge import ReproOutcome
from fusiondoc.repro.permitted import WRITTEN
from fusiondoc.repro.write import Written, groups_of, listed, notes, write_script

HOW_MANY = int(os.environ.get("FUSIONDOC_HOSTILE_LOGS", examples(200)))
PACKAGE = str(ROOT / "fusiondoc") + os.sep
NAMES = ["FUSER", "DYNAMIC", "RUNS", "IR", "INPUTS", "OUTPUTS", "RANDOM"]
DATA = (
    ast.Constant,
    ast.List,
    ast.Load,
    ast.UnaryOp,
    ast.USub,
    ast.keyword,
    ast.Name,
    ast.Call,
)
FREE_OF_EFFECTS = (
    "array.__new__",
    "builtins.id",
    "compile",
    "object.__getattr__",
    "sys._getframe",
)

GROUP = """\
graph(%a : Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)):
  %out : Tensor = prim::TensorExprGroup_0(%a)
  return (%out)
with prim::TensorExprGroup_0 = graph(%a : Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)):
{}
  %b : Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu) = aten::relu(%a)
  return (%b)
"""

WHOLE_FILE = ("tempfile.mkstemp", "os.chmod", "os.rename")
"""Events of a file that is written whole or not at all."""


class Watch:
    """What this thread does while it is on, by Python's audit events. A hook cannot
    be removed."""

    def __init__(self) -> None:
        self.on = False
        self.output = self.log = ""
        self.seen: list[str] = []
        self._thread = threading.get_ident()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if (
            not self.on
            or threading.get_ident() != self._thread
            or event in FREE_OF_EFFECTS
        ):
            return
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int):
                return  # a descriptor, whose file was looked at when it was opened
            writes = set(str(mode)) & set("wax+") or int(flags or 0) & (
                os.O_WRONLY | os.O_RDWR | os.O_CREAT
            )
            allowed = self._is_output(path) if writes else str(path) == self.log
            if allowed or (not writes and str(path).startswith(PACKAGE)):
                return
        if event == "exec" and getattr(arguments[0], "co_filename", "") == INIT:
            return  # of our own fields, at the first object of a class
        if event in WHOLE_FILE and all(
            self._is_output(one) for one in arguments if isinstance(one, str)
        ):
            return
        self.seen.append(f"{event} {arguments!r:.200}")

    def _is_output(self, path: object) -> bool:
        """The output, or the file beside it that becomes it when all of it is
        written."""
        if isinstance(path, int):
            return True  # what mkstemp, which was looked at, has opened
        output, one = Path(self.output), Path(str(path))
        beside = (
            one.name.startswith(f".{output.name[:40]}.") and one.suffix == ".part"
        )
        return str(path) == self.output or (beside and one.parent == output.parent)


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


def write_group(log: Path, output: Path) -> Iterator[Written]:
    """Every group of a log, written in turn; what is refused raises."""
    logs = [LogInput(str(log), log)]
    known = groups_of(read_logs(logs)[0].groups, logs)
    rows_of_lines(listed(known))
    for group in known.groups:
        written = write_script(known, group.id, output, True, None)
        notes(written)
        yield written


def check_file(data: bytes) -> str:
    """Raises AssertionError if a written file is more than literals and the body of
    all files; its IR."""
    text = data.decode("utf-8")
    assert tokenize.detect_encoding(io.BytesIO(data).readline)[0] == "utf-8"
    body = script_module._body()
    assert text.endswith(body)
    head = text[: -len(body)]
    assert head.splitlines() == head.split("\n")[:-1], (
        "a line ends that Python or an editor sees elsewhere"
    )
    assert all(c.isprintable() for line in head.split("\n") for c in line)
    docstring, *rest = ast.parse(head, feature_version=(3, 7)).body
    assert isinstance(docstring, ast.Expr) and isinstance(
        docstring.value, ast.Constant
    )
    assert [one.targets[0].id for one in rest] == NAMES  # type: ignore[attr-defined]
    for one in rest:
        for node in ast.walk(one.value):  # type: ignore[attr-defined]
            assert isinstance(node, DATA), ast.dump(node)
            if isinstance(node, ast.Call):
                assert node.func.id in ("dict", "float"), ast.dump(node)  # type: ignore[attr-defined]
    ir = ast.literal_eval(rest[NAMES.index("IR")].value)  # type: ignore[attr-defined]
    lines = ir.split("\n")
    start = next(i for i, line in enumerate(lines) if line.endswith("):")) + 1
    for line in lines[start:-2]:
        node = re.fullmatch(
            r'  %[\w., %:?\[\]()]+ = (\w+::\w+)(\[[\w=", .:()\[\]+-]*\])?\((%[\w.%, ]+)?\)( # .*)?',
            line,
        )
        assert node is not None and node[1] in WRITTEN | {"prim::TupleConstruct"}, (
            line
        )
    assert re.fullmatch(r"  return \(%[\w.]+\)", lines[-2]) and not lines[-1]
    return str(ir)


def log_with(folder: Path, lines: str) -> Path:
    path = folder / "one.log"
    path.write_text(GROUP.format(lines), encoding="utf-8")
    return path


FROM_FILE = """\
  %c : str = prim::Constant[value="evil.py"]()
  %d : bool = prim::Constant[value=1]()
  %e : int = prim::Constant[value=32]()
  %f : NoneType = prim::Constant()
  %g : Tensor = aten::from_file(%c, %d, %e, %f, %f, %f, %f)"""


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (FROM_FILE, "aten::from_file"),
        ("  %c : Tensor = aten::copy_(%a, %a)", "aten::copy_"),
        ("  %c : Tensor = ^Evil(1)(%a)", "the Python function ^Evil"),
        ("  %c : Tensor = prim::PythonOp(%a)", "prim::PythonOp"),
        ("   = aten::save(%a)", "aten::save"),
        ("  %c : Tensor = prim::CallFunction(%a)", "prim::CallFunction"),
        ('  %c : Tensor = prim::CallMethod[name="f"](%a)', "prim::CallMethod"),
        ('  %c : Tensor = prim::GetAttr[name="weight"](%a)', "prim::GetAttr"),
        ("  %c : Tensor = aten::add.out(%a, %a)", "aten::add.out"),
        ("  %c : Tensor = aten::\u0430dd(%a, %a)", "aten::\u0430dd"),
        ('  %c : Tensor = aten::relu[file="x"](%a)', "'file'"),
        ("   = aten::relu(%a)", "gives no value"),
        (
            "  %c : Tensor = aten::relu(%a)\n    block0():\n      -> (%a)",
            "a graph of its own",
        ),
        (
            '  %c : str = prim::Constant[value="a b"]()\n  %d : Tensor = aten::gelu(%a, %c)',
            '"a b"',
        ),
        (
            '  %c : int = prim::Constant[value="1"]()\n  %d : Tensor = aten::add(%a, %a, %c)',
            "is no literal",
        ),
        (
            "  %c : int = prim::Constant[value=9223372036854775808]()\n  %d : Tensor = aten::add(%a, %a, %c)",
            "922337",
        ),
        ("  %c : __torch__.Evil = aten::relu(%a)", "__torch__.Evil"),
        ("  %c'; : Tensor = aten::relu(%a)", "c';"),
    ],
)
def test_what_no_group_holds_is_refused_by_name(
    tmp_path: Path, lines: str, named: str
) -> None:
    # The value is among the results, or nothing of it would be written anyhow.
    log = log_with(tmp_path, lines)
    last = re.findall(r"^  (%\S+) : ", lines, re.MULTILINE)[-1:]
    log.write_text(
        "".join(
            [
                log.read_text("utf-8").replace(
                    "return (%b)", f"return ({', '.join(['%b', *last])})"
                )
            ]
        )
    )
    output = tmp_path / "file.py"
    with pytest.raises(UsageError) as refused:
        list(write_group(log, output))
    assert named in refused.value.message
    assert "report it together with the log" in str(refused.value.hint)
    assert not output.exists()


def test_text_of_the_log_stays_in_comments(tmp_path: Path) -> None:
    log = log_with(
        tmp_path, '  %c : Tensor = aten::relu(%a) # a"""\\.py\u2028\x0c:1:2'
    )
    output = tmp_path / "file.py"
    assert len(list(write_group(log, output))) == 1
    check_file(output.read_bytes())
    text = output.read_text(encoding="utf-8")
    assert '#   %c : Tensor = aten::relu(%a) # a"""\\.py\\u2028\\x0c:1:2' in text


def test_no_operator_that_is_written_takes_the_name_of_a_file() -> None:
    """Held against the schemas of torch: the strings that operators on the list
    take choose a formula."""
    torch = pytest.importorskip("torch")
    schemas = [
        one for one in torch._C._jit_get_all_schemas() if one.name in WRITTEN
    ]
    assert len({one.name for one in schemas}) > 100
    strings = {
        argument.name
        for one in schemas
        for argument in one.arguments
        if str(argument.type) in ("str", "Optional[str]", "Any", "List[str]")
    }
    # a and b are two strings that are compared.
    assert strings <= {"rounding_mode", "approximate", "padding", "a", "b"}, strings


CAPTURE = "20240102-030405-model"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that --minimise would have run."""
    files: list[Path] = []

    def run(_python: Path, file: Path, *_others: object) -> ReproOutcome:
        files.append(file)
        return ReproOutcome("same", "comparison", "", "verdict: same")

    monkeypatch.setattr("fusiondoc.repro.write.run_file", run)
    return files


def minimise(*arguments: str) -> BaseException | None:
    """What ``repro --minimise`` raises in the current folder."""
    return (
        CliRunner()
        .invoke(command, [*arguments, "--group", "G1", "--minimise", "--force"])
        .exception
    )


def test_files_of_a_log_run_only_if_the_user_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = str(log_with(tmp_path, ""))
    for argument in (log, "-"):
        refused = minimise(argument)
        assert isinstance(refused, UsageError) and "--trust-log" in str(
            refused.hint
        )
        assert argument in refused.message
    assert not started and not list(tmp_path.glob("*.py"))
    assert isinstance(minimise(log, "--trust-log"), CannotRun)
    assert len(started) == 1


def test_files_of_a_capture_run_only_if_it_is_of_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    real = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
    own = tmp_path / ".fusiondoc" / CAPTURE
    shutil.copytree(real, own)
    assert "--trust-log" in str(
        getattr(minimise(str(own)), "hint", "")
    )  # it came with a checkout, say
    monkeypatch.setenv("FUSIONDOC_CACHE", str(tmp_path / "cache"))
    sign(own, REQUEST)
    for arguments in (
        (),
        (str(own),),
        (f".fusiondoc/{CAPTURE}",),
        (str(own / "log"),),
    ):
        assert isinstance(minimise(*arguments), CannotRun), arguments
    assert len(started) == 4
    sent = tmp_path / "sent" / ".fusiondoc" / CAPTURE
    shutil.copytree(real, sent)
    assert "--trust-log" in str(getattr(minimise(str(sent)), "hint", ""))
    assert "--trust-log" in str(getattr(minimise(str(own), str(sent)), "hint", ""))
    (own / "log").unlink()
    (own / "log").symlink_to(sent / "log")
    for arguments in ((), (str(own),)):
        assert isinstance(minimise(*arguments), UsageError)
    assert len(started) == 4


def test_every_protection_of_the_security_page_has_its_test() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)\.py::(test_\w+)`", page)
    assert len(named) > 5
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / f"{file}.py").read_text(
            encoding="utf-8"
        ), (file, test)


def test_generated_logs_write_groups_and_nothing_else(
    watch: Watch, tmp_path: Path
) -> None:
    bodies = [*real_bodies(FIXTURES / "logs"), *real_bodies(FIXTURES / "ir")]
    hostile = Hostile(bodies, seed=20240607)
    folder = tmp_path / "out"
    folder.mkdir()
    names = [
        "plain.log",
        'a"""b.log',
        "a\nimport os\n#.log",
        "a\\.log",
        "a\u2028b\udcff.log",
        "# coding: x.log",
    ]
    output = watch.output = str(folder / "file.py")
    parsed = _torch_kinds()
    refused = written = 0
    outcomes: list[bytes] = [b"\n".join(body.encode() for body in bodies)]
    for number in range(HOW_MANY + 1):
        log = tmp_path / names[number % len(names)]
        # The first is warm-up: it imports what is imported later.
        log.write_bytes(hostile.log() if number else outcomes[0])
        watch.log = str(log)
        watch.on = number > 0
        try:
            for _ in write_group(log, Path(output)):
                watch.on = False
                parsed(check_file(Path(output).read_bytes()))
                Path(output).unlink()
                written += 1
                watch.on = number > 0
        except UsageError as error:
            assert error.hint and error.message.isprintable(), error.message
            refused += 1
        finally:
            watch.on = False
        assert not watch.seen, (number, watch.seen)
        assert not list(folder.iterdir()), number
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["out", *names]
    )
    assert written > HOW_MANY / 10 and refused > HOW_MANY / 10, (written, refused)


def _torch_kinds():  # type: ignore[no-untyped-def]
    """Torch's own parser, where it is here: it sees no other operators in the IR
    than we do."""
    try:
        import torch
    except ImportError:
        return lambda ir: None

    def kinds(ir: str) -> None:
        try:
            graph = torch._C.parse_ir(ir)
        except RuntimeError:
            return
        assert {node.kind() for node in graph.nodes()} <= WRITTEN | {
            "prim::TupleConstruct"
        }

    return kinds
