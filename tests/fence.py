"""Compare all that reports show with what another commit shows, byte for byte.

``python tests/fence.py REV`` renders every log under ``fixtures/``, the recordings
beside the checkout (where they are) and at least 20 captures as JSON, text, HTML,
Markdown and SARIF, and pairs of logs as comparisons: with the code of REV and with
that of the working tree. It prints which documents differ, with the first lines of
each difference, and ends with 1 if any does. What REV shows is kept under
``--cache`` by its commit.

Captures are made once, with the code of REV: the archives of ``fixtures/`` are
unpacked, and the examples run under NNC on the CPU where this interpreter has
torch.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(tempfile.gettempdir()) / "fusiondoc-fence"
RECORDINGS = ROOT.parent / "shared" / "recordings"
ENOUGH_CAPTURES = 20

RENDER = '''
import dataclasses, json, os, sys, traceback
from pathlib import Path
import fusiondoc

FORMATS = ("json", "text", "html", "markdown", "sarif")
answer, target = sys.stdout, Path(sys.argv[1])


def without_clock(report):
    """How long the parser took differs between two runs."""
    timing = {name: None if name == "parse" else value for name, value in report.timing.items()}
    return dataclasses.replace(
        report, parse=dataclasses.replace(report.parse, seconds=0.0), timing=timing
    )


def document(name, form, make):
    try:
        text = make()
    except Exception:
        text = traceback.format_exc(limit=0)
    if form == "html":
        text = text.replace("><", ">\\n<")
    (target / f"{name}.{form}").write_text(text, encoding="utf-8", errors="surrogateescape")


for line in sys.stdin:
    job = json.loads(line)
    os.chdir(job["folder"])
    try:
        shown = [without_clock(fusiondoc.parse(path)) for path in job["paths"]]
    except Exception:
        document(job["name"], "json", lambda: traceback.format_exc(limit=0))
        continue
    what = fusiondoc.compare(*shown) if len(shown) == 2 else shown[0]
    for form in FORMATS[: 4 if len(shown) == 2 else 5]:
        document(job["name"], form, lambda: fusiondoc.render(what, form))
'''
"""Runs with the code of either tree, and uses the Python API alone, which both
have."""


def main() -> int:
    arguments = options()
    commit = git("rev-parse", arguments.rev).strip()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    base = base_tree(commit, arguments.cache)
    jobs = all_jobs(base, arguments.cache)
    jobs = [job for job in jobs if arguments.only in job["name"]]
    digest = hashlib.sha256(json.dumps(jobs, sort_keys=True).encode()).hexdigest()[
        :12
    ]
    before = arguments.cache / f"documents-{commit[:12]}-{digest}"
    if not before.exists():
        unfinished = before.with_suffix(".part")
        render(base, jobs, unfinished)
        unfinished.rename(before)
    after = arguments.cache / f"documents-now-{os.getpid()}"
    render(ROOT, jobs, after)
    different = differences(before, after, arguments.lines)
    total = len(list(before.iterdir()))
    captures = sum(job["name"].startswith("capture-") for job in jobs)
    print(
        f"{len(jobs)} inputs ({captures} captures), {total} documents, {different} differ from {commit[:12]}"
    )
    print(f"before: {before}\nafter:  {after}")
    return 1 if different else 0


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rev",
        nargs="?",
        default="HEAD",
        help="the commit to compare with (default: HEAD)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        help="where documents and captures are kept",
    )
    parser.add_argument(
        "--only", default="", help="only inputs whose name contains this"
    )
    parser.add_argument(
        "--lines", type=int, default=12, help="lines shown of each difference"
    )
    return parser.parse_args()


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def base_tree(commit: str, cache: Path) -> Path:
    """The files of that commit, unpacked."""
    tree = cache / f"tree-{commit[:12]}"
    if not tree.exists():
        unfinished = tree.with_suffix(".part")
        unfinished.mkdir(exist_ok=True)
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
        ).stdout
        subprocess.run(
            ["tar", "-x", "-C", str(unfinished)], input=archive, check=True
        )
        unfinished.rename(tree)
    return tree


def all_jobs(base: Path, cache: Path) -> list[dict[str, object]]:
    """What is rendered: a name, the folder that it is read from, and one path, or
    two to compare."""
    fixtures = base / "fixtures"
    jobs = [
        job("log", fixtures, path)
        for path in sorted(fixtures.rglob("*.log*"))
        if path.is_file()
    ]
    if RECORDINGS.is_dir():
        recorded = sorted(
            path for path in RECORDINGS.rglob("*.log*") if path.is_file()
        )
        jobs += [job("recording", RECORDINGS, path) for path in recorded]
    unpacked = cache / "captures"
    for capture in all_captures(base, unpacked):
        # Captures of two archives can have one name.
        top = unpacked if capture.is_relative_to(unpacked) else fixtures
        name = job("capture", top, capture)["name"]
        jobs.append({**job("capture", capture.parent, capture), "name": name})
    logs = sorted((fixtures / "foreign").glob("*.log.xz"))
    logs += sorted((fixtures / "compare").glob("*.log*"))
    jobs += [
        job("comparison", fixtures, *pair) for pair in itertools.pairwise(logs)
    ]
    return jobs


def job(kind: str, folder: Path, *paths: Path) -> dict[str, object]:
    names = [path.relative_to(folder).as_posix() for path in paths]
    name = "-".join([kind, *names]).replace("/", "-")
    return {"name": name, "folder": str(folder), "paths": names}


def all_captures(base: Path, cache: Path) -> list[Path]:
    """Captures of the archives in ``fixtures/`` and of runs of the examples; made
    once."""
    if not cache.exists():
        unfinished = cache.with_suffix(".part")
        unfinished.mkdir(exist_ok=True)
        for archive in sorted((base / "fixtures").glob("*/*.tar.xz")):
            with tarfile.open(archive) as packed:
                packed.extractall(
                    unfinished / archive.name.partition(".tar")[0], filter="data"
                )
        run_examples(base, unfinished)
        unfinished.rename(cache)
    found = sorted({path.parent for path in cache.rglob("request.json")})
    found += sorted(
        {path.parent for path in (base / "fixtures").glob("*/*/request.json")}
    )
    if len(found) < ENOUGH_CAPTURES:
        print(
            f"only {len(found)} captures: this interpreter has no torch to run the examples",
            file=sys.stderr,
        )
    return found


def run_examples(base: Path, target: Path) -> None:
    """The examples under NNC, forward and with gradients; one that fails leaves a
    capture too."""
    command = [
        sys.executable,
        "-m",
        "fusiondoc",
        "diagnose",
        "--fuser",
        "nnc",
        "--output",
        os.devnull,
    ]
    for example in sorted((base / "examples").glob("*.py")):
        for phase, more in (("forward", []), ("backward", ["--backward"])):
            folder = target / f"{example.stem}-{phase}"
            folder.mkdir()
            run = [*command, *more, "--format", "json", str(example)]
            environment = {
                **os.environ,
                "PYTHONPATH": str(base),
                "OMP_NUM_THREADS": "1",
            }
            subprocess.run(
                run,
                cwd=folder,
                env=environment,
                capture_output=True,
                check=False,
                timeout=600,
            )


def render(tree: Path, jobs: Iterable[dict[str, object]], target: Path) -> None:
    """All documents of the jobs by the code of ``tree``, in as many processes as
    there are cores."""
    target.mkdir(exist_ok=True)
    jobs = list(jobs)
    workers = os.cpu_count() or 1
    shares = [jobs[first::workers] for first in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        for done in pool.map(
            lambda share: render_share(tree, share, target), shares
        ):
            if done.returncode:
                raise SystemExit(
                    f"rendering with {tree} ended with {done.returncode}:\n{done.stderr}"
                )


def render_share(
    tree: Path, jobs: list[dict[str, object]], target: Path
) -> subprocess.CompletedProcess[str]:
    given = "".join(json.dumps(job) + "\n" for job in jobs)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONHASHSEED": "0",
        "FUSIONDOC_CACHE": str(target),
    }
    command = [sys.executable, "-c", RENDER, str(target)]
    return subprocess.run(
        command,
        input=given,
        env=environment,
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


def differences(before: Path, after: Path, most_lines: int) -> int:
    """Print how the documents differ; the number of those that do."""
    names = sorted(
        {path.name for folder in (before, after) for path in folder.iterdir()}
    )
    different = 0
    for name in names:
        old, new = (lines_of(folder / name) for folder in (before, after))
        if old != new:
            different += 1
            print(f"--- {name}")
            for line in first_changes(old, new, most_lines):
                print(f"    {line[:200]}")
    return different


def lines_of(path: Path) -> list[str]:
    if not path.exists():
        return ["(this document is not there)"]
    return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()


def first_changes(old: list[str], new: list[str], most: int) -> Iterator[str]:
    changes = (
        line
        for line in difflib.unified_diff(old, new, lineterm="", n=0)
        if line[:3] not in ("---", "+++")
    )
    for _, line in zip(range(most), changes):
        yield line


if __name__ == "__main__":
    sys.exit(main())
