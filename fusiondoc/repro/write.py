"""The work of ``fusiondoc repro`` once the report is there: choose a group, and
write its file.

The file has a head specific to the group, and a body that is the same for all.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fusiondoc.errors import INTERRUPTED, CannotRun, UsageError
from fusiondoc.fusers import FUSER_OF_KIND, FUSERS, at_work, titles
from fusiondoc.model import count, dataclass
from fusiondoc.model.report import Group
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.repro import Input, ReproRecipe, TensorSpec, ir_type
from fusiondoc.repro.judge import ReproOutcome, run_file
from fusiondoc.repro.minimise import RecipeSearch
from fusiondoc.repro.permitted import check, one_line
from fusiondoc.repro.rebuild import PrintedGroup, cached_graphs, find_group, rebuild
from fusiondoc.runner.child import Interruptions
from fusiondoc.version import __version__
from fusiondoc.whole_files import write_whole

_BODY = Path(__file__).parent / "body.py.txt"

_HEAD = '''\
"""{title}

Written by fusiondoc {version}; needs torch alone (1.12 or newer). It builds the group from its IR, runs it
unfused and fused, and compares the results:

    python {name} [{fusers}]

Exit status: 0 the results are the same, 1 they differ. An error of the fuser is raised as it is, not hidden
by a fallback.
"""
{remarks}
FUSER = {fuser!r}
DYNAMIC = {dynamic!r}  # compiled for any size ({any_size})
RUNS = 4  # the first profiles, the second compiles

IR = {ir}

# One a graph input, in order. Numbers in tensors are drawn anew: a log has none.
INPUTS = [
{inputs}
]

OUTPUTS = {outputs!r}
RANDOM = {random!r}  # outputs that depend on a random operator: they differ by design
'''


@functools.lru_cache(maxsize=1)
def _body() -> str:
    return _BODY.read_text(encoding="utf-8")


def script(
    recipe: ReproRecipe,
    title: str,
    name: str,
    remarks: Iterable[str] = (),
    printed: str = "",
) -> str:
    """Return the text of the file ``name``. ``remarks`` are sentences, ``printed``
    is the graph in the log.

    Raises:
        UsageError: the recipe holds an element that no fusion group can have.
    """
    check(recipe)
    comments = [*remarks, *recipe.problems]
    if printed:
        comments += ["", "The graph as the log prints it:", *printed.split("\n")]
    lines = [("# " + one_line(text)).rstrip() for text in comments]
    head = _HEAD.format(
        fusers="|".join(at_work()),
        any_size=titles(lambda fuser: fuser.limits.any_size),
        title=_literal_text(title),
        version=__version__,
        name=_literal_text(name),
        remarks="\n".join(["", *lines, ""]) if lines else "",
        fuser=recipe.fuser,
        dynamic=recipe.dynamic,
        ir=_block(ir_text(recipe)),
        inputs="\n".join(_input(input_) for input_ in recipe.inputs),
        outputs=list(recipe.outputs),
        random=list(recipe.random_outputs()),
    )
    return head + _body()


def _literal_text(text: str) -> str:
    """A text for use inside a docstring."""
    return one_line(text).replace("\\", "\\\\").replace('"', "'")


def _block(text: str) -> str:
    """A Python string over several lines."""
    lines = (one_line(line.replace("\\", "\\\\")) for line in text.split("\n"))
    escaped = "\n".join(lines).replace('"""', '\\"\\"\\"')
    return f'"""\\\n{escaped}"""'


def _input(input_: Input) -> str:
    spec = input_.spec
    comment = f"%{input_.name} : {input_.type}" + (
        f"  ({input_.note})" if input_.note else ""
    )
    lines = [f"    # {one_line(comment)}"]
    if isinstance(spec, TensorSpec):
        fields: dict[str, object] = {
            "dtype": spec.dtype,
            "size": list(spec.size),
            "stride": None if spec.stride is None else list(spec.stride),
            "requires_grad": spec.requires_grad,
            "device": spec.device,
            "fill": spec.fill,
        }
        if spec.constant:
            fields["constant"] = True
        if spec.data is not None:
            fields["data"] = list(spec.data)
        lines.append(
            "    dict("
            + ", ".join(f"{key}={_python(value)}" for key, value in fields.items())
            + "),"
        )
    else:
        lines.append(f"    dict(value={_python(spec.value)}),")
    return "\n".join(lines)


def _python(value: object) -> str:
    """``repr``, in a form that Python reads back."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_python, value)) + "]"
    if isinstance(value, float) and (
        value != value or value in (float("inf"), float("-inf"))
    ):
        return f'float("{value}")'
    return repr(value)


def ir_text(recipe: ReproRecipe) -> str:
    """The text of the graph. It returns one value: several are packed into a tuple,
    because only the last value on the stack of a function reaches Python
    (torch/csrc/jit/python/pybind_utils.h, runAndInsertCall)."""
    params = []
    for input_ in recipe.inputs:
        params.append(f"%{input_.name} : {ir_type(input_.type)}")
    lines = ["graph(" + ",\n      ".join(params) + "):"]
    types = {name: ir_type(text) for name, text in recipe.types().items()}
    for step in recipe.steps:
        outputs = ", ".join(f"%{name} : {types[name]}" for name, _ in step.outputs)
        attributes = f"[{step.attributes}]" if step.attributes else ""
        inputs = ", ".join(f"%{name}" for name in step.inputs)
        equals = f"{outputs} = " if outputs else ""
        # A comment that begins with `type:` would be an annotation to the lexer.
        shown = (
            step.source
            and step.source.isprintable()
            and not step.source.lstrip().startswith("type:")
        )
        lines.append(
            f"  {equals}{step.kind}{attributes}({inputs})"
            + (f" # {step.source}" if shown else "")
        )
    returned = f"%{recipe.outputs[0]}" if len(recipe.outputs) == 1 else "%returned"
    if len(recipe.outputs) != 1:
        packed = ", ".join(f"%{name}" for name in recipe.outputs)
        tuple_ = ", ".join(types[name] for name in recipe.outputs)
        lines.append(f"  {returned} : ({tuple_}) = prim::TupleConstruct({packed})")
    lines.append(f"  return ({returned})")
    return "\n".join(lines) + "\n"


_SHOWN_OPS = 6
_SHOWN_IDS = 20


@dataclass(frozen=True)
class Groups:
    """The groups of some logs. ``graphs``: by id, where the log prints GraphCaches
    alone. ``shown``: the displayed name of a log, if not its own name."""

    groups: tuple[Group, ...]
    logs: Sequence[LogInput]
    graphs: Mapping[str, PrintedGroup]
    shown: Mapping[str, str]

    def position(self, file: str, line: int) -> str:
        """``file:line`` as shown to users, on one line."""
        return one_line(f"{self.shown.get(file, file)}:{line}")


@dataclass(frozen=True)
class Written:
    path: Path
    recipe: ReproRecipe
    title: str
    remarks: tuple[str, ...]


def _levels() -> str:
    """Log levels that print the graphs of groups, each with its fuser."""
    parts = []
    for fuser in FUSERS.values():
        if fuser.switches.plan_log is not None:
            parts.append(f"{fuser.switches.plan_log} ({fuser.title})")
    return " or ".join(parts)


def groups_of(
    groups: tuple[Group, ...],
    logs: Sequence[LogInput],
    shown: Mapping[str, str] | None = None,
) -> Groups:
    """The groups of a report, or else those of the GraphCaches; UsageError if there
    are none."""
    if groups:
        return Groups(groups, logs, {}, shown or {})
    graphs = {found.group.id: found for found in cached_graphs(logs)}
    if not graphs:
        raise UsageError(
            "there is no fusion group in this log: it holds no graph of a plan, or nothing was fused",
            f"Record it with PYTORCH_JIT_LOG_LEVEL={_levels()}; fusiondoc parse shows what the log has.",
        )
    return Groups(
        tuple(found.group for found in graphs.values()), logs, graphs, shown or {}
    )


class ListedGroup(NamedTuple):
    """A group in the list of ``fusiondoc repro``."""

    id: str
    kind: str
    phase: str
    operators: str
    position: str
    """The first line of the log that shows it, and whether it fell back."""


def listed(known: Groups) -> list[ListedGroup]:
    """All groups, in the order of the log."""
    rows = []
    for group in known.groups:
        names = [op.rpartition("::")[2] for op in group.ops]
        shown = ", ".join(names[:_SHOWN_OPS]) + (
            ", ..." if len(names) > _SHOWN_OPS else ""
        )
        total = count(len(names), "operator")
        position = _position(group, known) + (
            "  FELL BACK" if group.fallback else ""
        )
        operators = one_line(f"{total}: {shown}")
        rows.append(
            ListedGroup(
                group.id, group.kind, group.phase or "?", operators, position
            )
        )
    return rows


def _position(group: Group, known: Groups) -> str:
    found = known.graphs.get(group.id)
    if found is not None:
        return known.position(found.file, found.line)
    if group.evidence:
        return known.position(group.evidence[0].file, group.evidence[0].line)
    return ""


def pick(known: Groups, name: str) -> PrintedGroup:
    """The printed graph of the group ``name``."""
    group = next(
        (group for group in known.groups if group.id.lower() == name.lower()), None
    )
    if group is None:
        ids = [group.id for group in known.groups]
        there = ", ".join(ids[:_SHOWN_IDS]) + (
            ", ..." if len(ids) > _SHOWN_IDS else ""
        )
        raise UsageError(
            f"there is no group '{name}'. There are: {there}",
            "Name one with --group; without it, fusiondoc repro lists them with their operators.",
        )
    found = known.graphs.get(group.id) or find_group(group, known.logs)
    if found is None:
        raise UsageError(
            f"the graph of group {group.id} is not found again in {_position(group, known)}",
            "Was the log changed or read from a pipe? Give the file itself.",
        )
    return found


def _hints(found: PrintedGroup, known: Groups) -> tuple[str, ...]:
    """Input types of another group with the same operators and with all sizes."""
    for group in known.groups:
        if group.nodes == found.group.nodes and not any(
            "*" in t or "SS(" in t for t in group.inputs
        ):
            return group.inputs
    return ()


def write_script(
    known: Groups, name: str, output: Path | None, force: bool, fuser: str | None
) -> Written:
    """Write the file of a group; UsageError if the file exists already."""
    found = pick(known, name)
    group = found.group
    path = output if output is not None else Path(f"repro_{group.id}.py")
    refuse_existing(path, force)
    recipe = rebuild(found, _hints(found, known), fuser)
    if not recipe.outputs:
        why = one_line("; ".join(recipe.problems)) or "it is empty"
        raise UsageError(
            f"nothing of group {group.id} can be rebuilt: {why}",
            f"See {known.position(found.file, found.line)}.",
        )
    title = _title(found, known)
    remarks = []
    if fuser is not None and fuser != FUSER_OF_KIND[group.kind].name:
        remarks.append(
            f"The log has it under {FUSER_OF_KIND[group.kind].name}; {fuser} was requested."
        )
    if group.fallback:
        remarks.append("In the log this group fell back to its unfused operators.")
    write_file(path, script(recipe, title, path.name, remarks, found.text))
    return Written(path, recipe, title, tuple(remarks))


def _title(found: PrintedGroup, known: Groups) -> str:
    group = found.group
    total = count(group.size, "operator")
    phase = f"{group.phase}, " if group.phase else ""
    return f"Group {group.id} ({group.kind}, {phase}{total}) of {known.position(found.file, found.line)}."


def notes(written: Written) -> list[str]:
    """Notes for the user of a file: parts that are not rebuilt, and values that
    were chosen."""
    notes = list(written.recipe.problems)
    for input_ in written.recipe.inputs:
        if input_.note:
            notes.append(f"%{input_.name} : {input_.type}: {input_.note}")
    return [one_line(text) for text in notes]


def minimised_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.min.py")


def write_minimised(
    written: Written,
    python: Path,
    force: bool,
    timeout: float,
    tries: int,
    notify: Callable[[str], None],
) -> int:
    """Make a written file smaller as long as it fails in the same way, in a file
    beside it; return the exit status. Raises: CannotRun: it does not fail here,
    so that a smaller file cannot be tested.
    """
    path = minimised_path(written.path)
    refuse_existing(path, force)
    # An interruption between two children must not lose the progress, either.
    with Interruptions() as interruptions:
        first = run_file(python, written.path.absolute(), [], timeout)
        if first.interrupted:
            return INTERRUPTED
        if not first.fails:
            raise CannotRun(
                f"{written.path} does not fail on this machine ({first.text}): nothing to minimise",
                "Run it where it failed: the same torch, the same GPU (--python chooses the interpreter).",
            )
        notify(f"it fails: {first.text}")
        search = smaller(
            written,
            first,
            python,
            timeout,
            tries,
            notify,
            lambda: interruptions.count > 0,
        )
    smallest = search.best
    before, after = written.recipe.operators, smallest.operators
    remarks = [
        *written.remarks,
        f"Made smaller: {before} operators before, {after} after, {search.tries} tries.",
        f"What stays the same: {first.text}",
    ]
    write_file(path, script(smallest, written.title, path.name, remarks))
    notify(
        f"{before} operators before, {after} after, {search.tries} tries; wrote {path}"
    )
    if search.interrupted:
        notify("interrupted; this is how far it got")
        return INTERRUPTED
    if search.over:
        notify(f"stopped after {search.tries} tries; --tries gives it more")
    return 0


def smaller(
    written: Written,
    first: ReproOutcome,
    python: Path,
    timeout: float,
    tries: int,
    notify: Callable[[str], None],
    stop: Callable[[], bool],
    operators_alone: bool = False,
) -> RecipeSearch:
    """Search for the smallest part of a written file that fails as the whole did;
    return the finished search.

    Args:
        first: the outcome of the whole file.
        timeout: of one run, in seconds.
        tries: maximum number of runs.
        stop: called after each run; True ends the search with its best result so
            far.
        operators_alone: leave inputs and outputs as they are.
    """
    with tempfile.TemporaryDirectory(prefix="fusiondoc-repro-") as folder:
        file = Path(folder) / written.path.name

        def run(recipe: ReproRecipe, describe: bool) -> ReproOutcome:
            file.write_text(
                script(recipe, written.title, file.name), encoding="utf-8"
            )
            outcome = run_file(
                python, file, ["--describe"] if describe else [], timeout
            )
            if stop():
                return replace(outcome, interrupted=True)
            return outcome

        search = RecipeSearch(written.recipe, first, run, tries, notify)
        if operators_alone:
            search.smallest_part()
        else:
            search.minimise()
    return search


def refuse_existing(path: Path, force: bool) -> None:
    """Raise UsageError if the file exists, unless the user wants it overwritten."""
    if path.exists() and not force:
        raise UsageError(
            f"{path} already exists",
            "Choose another file with --output, or give --force.",
        )


def write_file(path: Path, text: str) -> None:
    """Write a file; UsageError if it cannot be."""
    try:
        write_whole(path, text.encode("utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}",
            "Choose another file with --output.",
        ) from None
