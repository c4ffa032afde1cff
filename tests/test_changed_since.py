"""``check --changed-since``: a model is left out only where nothing that it depends
on changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path

import pytest
from conftest import FIXTURES, Run
from running import write

import fusiondoc
from fusiondoc.captures.probe_records import ProgramInputs
from fusiondoc.captures.request import RunRequest, parse_target
from fusiondoc.errors import UsageError
from fusiondoc.expectations.read_file import loads
from fusiondoc.workflows.changed_sections import ChangedSections, Standing
from fusiondoc.workflows.check_cache import CachedReport, CheckCache
from fusiondoc.workflows.check_jobs import Job
from fusiondoc.workflows.program_names import names_in

EXPECT = """\
all:
  max_fallbacks: 0
  except:
    - {model: other*, reason: x, until: 2026-11-27, max_fallbacks: 1}
sections:
  - name: first
    run: {target: models/m.py, files: ['weights/*.bin']}
    number_of_groups: 1
  - name: other
    run: {target: models/n.py}
    number_of_groups: 1
"""
BEFORE, AFTER = date(2026, 11, 27), date(2026, 11, 28)

FILES = {
    "fusions.yaml": EXPECT,
    "models/m.py": (
        "import torch, json\nimport pkg.inner\nfrom pkg import names\nfrom wide import *\n"
        "import pkg.late as late\n"
        "with open('configs/a.json') as file:\n    sizes = json.load(file)\n"
        "module = __import__('by_name')\nmodel = inputs = None\n"
    ),
    "models/n.py": "model = inputs = None\n",
    "models/by_name.py": "",
    "src/pkg/__init__.py": "",
    "src/pkg/inner/__init__.py": "from ..beside import value\nfrom . import deep\n",
    "src/pkg/inner/deep.py": "def later():\n    import far.away\n",
    "src/pkg/beside.py": "value = 1\n",
    "src/pkg/names.py": "",
    "src/pkg/late.py": "",
    "src/pkg/unused.py": "",
    "src/wide/__init__.py": "__all__ = ['one']\n",
    "src/wide/one.py": "",
    "lib/far/away.py": "",
    "configs/a.json": "[1]",
    "configs/b.json": "[1]",
    "weights/a.bin": "1",
    "pyproject.toml": "[tool.fusiondoc]\n",
    "docs/torch.md": "",
    ".gitignore": "ignored*\n.venv/\n",
}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def repository(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder, name, text)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = repository(tmp_path_factory.mktemp("repository"), FILES)
    return folder, git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture
def folder(
    made: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    folder, commit = made
    monkeypatch.chdir(folder)
    yield folder
    git(folder, "reset", "-q", "--hard", commit)
    git(folder, "clean", "-ffdxq")


def standing(
    folder: Path,
    number: int = 0,
    today: date = BEFORE,
    rev: str = "HEAD",
    opened: str | None = None,
) -> Standing:
    """What is said of a section.

    Args:
        opened: a file that a kept result of its run states.
    """
    expectations = loads((folder / "fusions.yaml").read_text(), "fusions.yaml")
    section = expectations.sections[number]
    target = parse_target(str(section.run.target), folder)
    request = RunRequest(target=target, python=Path(sys.executable), cwd=folder)
    job = Job(request, False, (section,), section.run.files)
    cache = CheckCache(folder / "ignored", {})
    if opened is not None:
        report = fusiondoc.parse(
            FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"
        )
        inputs = ProgramInputs(files=(str(folder / opened),))
        cache.put(
            request,
            [],
            inputs,
            CachedReport(report, "2026-11-24T10:00:00+00:00"),
            began=1e11,
        )
    return ChangedSections(rev, expectations, cache, today).standing(job)


def move(folder: Path, old: str, new: str) -> None:
    (folder / new).parent.mkdir(parents=True, exist_ok=True)
    (folder / old).rename(folder / new)


def expects(old: str, new: str) -> Callable[[Path], object]:
    assert old in EXPECT
    return lambda folder: write(folder, "fusions.yaml", EXPECT.replace(old, new, 1))


def edits(name: str, text: str = "x = 2\n") -> Callable[[Path], object]:
    return lambda folder: write(folder, name, text)


def test_a_model_is_left_out_where_nothing_changed(folder: Path) -> None:
    found = standing(folder)
    assert found == Standing(
        False, f"13 files as at {git(folder, 'rev-parse', 'HEAD')[:12]}"
    )
    assert standing(folder, 1).needed is False


NEEDED: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "its own file": (
        edits("models/m.py", FILES["models/m.py"] + "# x\n"),
        "models/m.py changed",
    ),
    "a module": (edits("src/pkg/names.py"), "src/pkg/names.py changed"),
    "a package around a module": (
        edits("src/pkg/__init__.py"),
        "src/pkg/__init__.py changed",
    ),
    "a relative import": (edits("src/pkg/beside.py"), "src/pkg/beside.py changed"),
    "an import in a function": (
        edits("lib/far/away.py"),
        "lib/far/away.py changed",
    ),
    "a module of import *": (edits("src/wide/one.py"), "src/wide/one.py changed"),
    "an import by a literal name": (
        edits("models/by_name.py"),
        "models/by_name.py changed",
    ),
    "a file that it opens": (edits("configs/a.json"), "configs/a.json changed"),
    "a file of the section": (edits("weights/a.bin"), "weights/a.bin changed"),
    "one more of those": (edits("weights/b.bin"), "weights/b.bin changed"),
    "one of those gone": (
        lambda folder: (folder / "weights/a.bin").unlink(),
        "weights/a.bin changed",
    ),
    "a module gone": (
        lambda folder: (folder / "src/pkg/beside.py").unlink(),
        "src/pkg/beside.py changed",
    ),
    "a module moved": (
        lambda folder: move(folder, "lib/far/away.py", "x/far/away.py"),
        "far/away.py changed",
    ),
    "a module before another": (
        edits("models/torch.py"),
        "models/torch.py changed",
    ),
    "a package that was none": (
        edits("lib/far/__init__.py"),
        "lib/far/__init__.py changed",
    ),
    "what Python imports by itself": (
        edits("models/sitecustomize.py"),
        "models/sitecustomize.py changed",
    ),
    "its section": (
        expects("number_of_groups: 1", "number_of_groups: 2"),
        "fusions.yaml:6 changed",
    ),
    "the limits for all": (
        expects("max_fallbacks: 0", "max_fallbacks: 2"),
        "the limits for all models changed",
    ),
    "what is installed": (
        edits("requirements-dev.txt"),
        "requirements-dev.txt changed",
    ),
    "the configuration": (edits("pyproject.toml"), "pyproject.toml changed"),
}


@pytest.mark.parametrize("change", NEEDED)
def test_a_change_of_what_it_depends_on_runs_it(change: str, folder: Path) -> None:
    """In the work tree, staged and committed."""
    make, words = NEEDED[change]
    make(folder)
    first = standing(folder)
    assert first.needed and str(first.why).endswith(words), first
    for_all = (
        "requirements-dev.txt",
        "pyproject.toml",
        "all models",
        "sitecustomize",
    )
    assert standing(folder, 1).needed == any(one in words for one in for_all)
    git(folder, "add", "-A")
    assert standing(folder) == first
    git(folder, "commit", "-qm", "second")
    assert standing(folder, rev="HEAD~1") == first
    assert not standing(folder, rev="HEAD").needed


@pytest.mark.parametrize(
    "make",
    [
        edits("models/n.py"),
        edits("src/pkg/unused.py"),
        edits("configs/b.json"),
        edits("docs/torch.md"),
        edits("README.md"),
        edits("ignored.txt"),
        expects("target: models/n.py", "target: models/n.py, fuser: nnc"),
        expects("sections:", "# a comment\n\nsections:"),
        lambda folder: os.utime(folder / "models/m.py", (1, 1)),
        lambda folder: (folder / "models/m.py").write_bytes(
            FILES["models/m.py"].replace("\n", "\r\n").encode()
        ),
        lambda folder: git(folder, "commit", "-qm", "empty", "--allow-empty"),
    ],
)
def test_another_change_leaves_it_out(
    make: Callable[[Path], object], folder: Path
) -> None:
    make(folder)
    found = standing(folder)
    assert not found.needed, found


def test_an_exception_that_ends_changes_the_result_of_the_same_files(
    folder: Path,
) -> None:
    assert standing(folder, 1, AFTER) == Standing(
        True, "its exception ended on 2026-11-27"
    )
    assert not standing(folder, 0, AFTER).needed


def test_a_file_that_an_earlier_run_opened_is_one_of_its_files(
    folder: Path,
) -> None:
    assert not standing(folder, 1, opened="configs/b.json").needed
    write(folder, "configs/b.json", "[2]")
    assert standing(folder, 1) == Standing(True, "configs/b.json changed")
    assert not standing(folder, 0).needed
    git(folder, "clean", "-fdxq")
    write(folder, "ignored.npy", "")
    assert (
        standing(folder, 1, opened="ignored.npy").why
        == "ignored.npy is unknown to git"
    )


UNKNOWN = {
    "import importlib\nimportlib.import_module(name)\n": "it uses import_module",
    "from importlib import import_module as load\nload('a')\n": "it imports import_module under another name",
    "__import__(name)\n": "it uses __import__",
    "exec('import a')\n": "it uses exec",
    "import runpy\n": "it imports runpy",
    "import pickle\n": "it imports pickle",
    "import torch\ntorch.load('w.pt')\n": "it loads what may import modules",
    "import torch\ntorch.hub.load('a', 'b')\n": "it loads what may import modules",
    "from torch.utils import cpp_extension\ncpp_extension.load(sources=['a.c'])\n": "it calls load() with",
    "import json, sys\njson.load(open(sys.argv[1]))\n": "it calls load() with a name",
    "import os\nopen(os.environ.get('FILE'))\n": "it calls open() with a name",
    "def f(path):\n    return path.read_text()\n": "it calls read_text() with a name",
    "import os\nos.listdir('.')\n": "it calls listdir() on a folder",
    "from pathlib import Path\nlist(Path(__file__).parent.iterdir())\n": "it calls iterdir() on a folder",
    "from json import load as read\nread(x)\n": "it imports load under another name",
    "import numpy\nreader = numpy.load\nreader(x)\n": "it uses load under another name",
    "import os\nos.execvp('python', ['m.py'])\n": "it uses execvp",
    "import json\nbuild(f'configs/{size}.json')\n": "it puts the name of a .json file together",
    "build('configs/%s.json' % size)\n": "it puts the name of a .json file together",
    "build(name + '.json')\n": "it puts the name of a .json file together",
    "from pathlib import Path\nPath(__file__).with_suffix('.json').read_text()\n": "the name of a .json file",
    "import ignored_module\n": "names ignored_module.py, which git ignores",
    "import numpy\nnumpy.load('ignored.npy')\n": "names ignored.npy, which git ignores",
    "f = build('linked/x.json')\n": "linked is a symbolic link",
    "import linked.x\n": "linked is a symbolic link",
    "import compiled\n": "compiled.so is compiled",
    "import (\n": "it cannot be parsed",
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_cannot_be_known_runs_the_model(text: str, folder: Path) -> None:
    write(folder, "ignored_module.py", "")
    write(folder, "ignored.npy", "")
    write(folder, "models/compiled.so", "")
    (folder / "linked").symlink_to("configs")
    write(folder, "models/n.py", text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "second")
    found = standing(folder, 1)
    assert found.needed and UNKNOWN[text] in str(found.why), found


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nm = torch.load('w.pt', weights_only=True, map_location='cpu')\n",
        "from pathlib import Path\nPath(__file__).parent.joinpath('a', 'b.json').read_text()\n",
        "import os\nopen(os.path.join(os.path.dirname(__file__), 'a.json'))\n",
        "print(f'loss {x}. Next')\nm.load_state_dict(state)\nmodel.eval()\n",
        "from torch import nn\nclass M(nn.Module):\n    def forward(self, x):\n        return x * 0.5\n",
    ],
)
def test_what_is_written_is_known(text: str) -> None:
    assert names_in(text).unknown is None


def test_files_of_inner_repositories_are_not_known(folder: Path) -> None:
    inner = folder / "third"
    inner.mkdir()
    repository(inner, {"module_of_third.py": ""})
    write(folder, "models/n.py", "import module_of_third\n")
    git(folder, "add", "models")
    git(folder, "commit", "-qm", "second")
    assert standing(folder, 1) == Standing(
        True, "third/module_of_third.py is of another repository"
    )


def test_wrong_commits_and_folders_are_refused(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for rev in ("nowhere", "--all", "HEAD:models", ""):
        with pytest.raises(UsageError, match="has no such commit"):
            standing(folder, rev=rev)
    outside = tmp_path_factory.mktemp("outside")
    write(outside, "fusions.yaml", EXPECT)
    write(outside, "m.py", "")
    expectations = loads(EXPECT, str(outside / "fusions.yaml"))
    with pytest.raises(UsageError, match="is in no git repository"):
        ChangedSections("HEAD", expectations, None, BEFORE)


_OPENS = """\
import sys
def hook(name, arguments):
    if name == "open" and isinstance(arguments[0], str):
        print("OPENED", arguments[0], file=sys.stderr)
sys.addaudithook(hook)
sys.dont_write_bytecode = True
sys.path[0] = "models"
sys.path.insert(1, "src")
sys.path.insert(2, "lib")
exec(compile(open("models/m.py").read().replace("import torch, json", "import json"), "models/m.py", "exec"))
import pkg.inner.deep
pkg.inner.deep.later()
"""


def test_all_that_python_opens_is_found(folder: Path) -> None:
    """Python's own word: each file of the repository that it opened is one whose
    change runs the model."""
    done = subprocess.run(
        [sys.executable, "-c", _OPENS],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    opened = {
        line.partition(" ")[2]
        for line in done.stderr.splitlines()
        if line.startswith("OPENED ")
    }
    own = {
        os.path.relpath(folder / name, folder)
        for name in opened
        if (folder / name).is_relative_to(folder)
    }
    own = {
        name
        for name in own
        if (folder / name).is_file() and not name.endswith(".pyc")
    }
    assert {
        "models/m.py",
        "src/wide/one.py",
        "lib/far/away.py",
        "configs/a.json",
    } <= own
    for name in own:
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(before + b"\n")
        assert standing(folder) == Standing(True, f"{name} changed")
        (folder / name).write_bytes(before)


MODEL = "import torch\ndef model(x):\n    return torch.tanh(x + 1) * x\ninputs = (torch.ones(8),)\n"
TWO = """\
sections:
  - {name: one, run: {target: one.py, fuser: nnc, runs: 3}, groups: [[add, tanh, mul]]}
  - {name: two, run: {target: two.py, fuser: nnc, runs: 3}, groups: [[add, tanh, mul]]}
"""


@pytest.mark.torch
def test_the_command_runs_what_changed_and_names_the_rest(
    fusiondoc: Run, tmp_path: Path
) -> None:
    repository(
        tmp_path,
        {
            "fusions.yaml": TWO,
            "one.py": MODEL,
            "two.py": MODEL,
            ".gitignore": "/kept\n",
        },
    )
    every = [
        "check",
        "--expect",
        "fusions.yaml",
        "-j",
        "2",
        "--changed-since",
        "HEAD",
        "--cache",
        "kept",
    ]
    done = fusiondoc(*every)
    assert done.returncode == 0, done.stderr
    assert (
        "no model was run, 2 unchanged" in done.stdout and "left out" in done.stdout
    )
    write(tmp_path, "two.py", MODEL.replace("x + 1", "torch.cumsum(x + 1, 0)"))
    found = json.loads(fusiondoc(*every, "-f", "json").stdout)
    rows = [
        (row["section"], row["outcome"], row["changed"]) for row in found["models"]
    ]
    assert rows == [("one", "unchanged", None), ("two", "broken", "two.py changed")]
    assert found["changed_since"] == git(tmp_path, "rev-parse", "HEAD")[:12]
    only = fusiondoc(*every, "--only", "one", "-f", "junit")
    assert only.returncode == 0 and "skipped" in only.stdout
    refused = fusiondoc(
        "check", "one.py", "--expect", "fusions.yaml", "--changed-since", "HEAD"
    )
    assert (
        refused.returncode == 2
        and "--changed-since is for a check of all sections" in refused.stderr
    )
