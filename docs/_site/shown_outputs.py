"""Runs the commands whose output the documentation shows, and writes what they
print into the pages.

    python docs/_site/shown_outputs.py [PAGE.md ...]

A block is marked ``<!-- output: COMMAND -->``, or ``<!-- output: COMMAND | parts:
first, Findings -->`` for some parts of a report: ``first`` is what comes before the
first heading. It needs the torch that the README names. ``docs/encoder-layer.html``
is made too, unless pages are named.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"<!-- output: (?P<command>.*?)(?: \| parts: (?P<parts>.*?))? -->\n```text\n(?P<shown>.*?)```",
    re.S,
)


_FIRST = (
    *("Do this first", "Nothing to do", "Nothing to do about fusion"),
    *("No change is known that helps", "Not known without trying"),
)
"""Headings of the first screen, and not of a part of the report."""


def parts_of(text: str, names: list[str]) -> str:
    """The named parts of a text report, with dots where one is left out."""
    parts: dict[str, str] = {}
    for block in re.split(r"\n\n(?=\S[^\n]*\n )|\n\n(?=\S)", text.rstrip("\n")):
        title = block.split("\n", 1)[0] if parts else "first"
        if list(parts) == ["first"] and (title in _FIRST or "  " in title):
            parts["first"] += "\n\n" + block
        else:
            parts[title] = block
    absent = [name for name in names if name not in parts]
    if absent:
        raise SystemExit(f"no part {absent} in the output; there are {list(parts)}")
    left_out, shown = False, []
    for title, block in parts.items():
        if title in names:
            shown.append(("...\n\n" if left_out else "") + block)
        left_out = title not in names
    return "\n\n".join(shown) + ("\n\n...\n" if left_out else "\n")


def run(command: str, folder: Path) -> str:
    """What a command prints to a terminal of 80 columns, without the folder; else
    its notes."""
    words = [sys.executable, "-m", *shlex.split(command)]
    places = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "COLUMNS": "80",
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
    }
    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: exit status {done.returncode}\n{done.stderr}")
    return (done.stdout or done.stderr).replace(f"{folder}{os.sep}", "")


def prepared(folder: Path) -> Path:
    """A folder as the pages have it: that of the repository, with its recorded
    captures unpacked."""
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    # A copy: reports show lines of files beneath the current folder only, and a
    # link leads out of it.
    shutil.copytree(
        ROOT / "examples",
        folder / "examples",
        ignore=shutil.ignore_patterns(".fusiondoc"),
    )
    for name in ("encoder-layer-nvfuser-2.1.2", "two-gpus-ddp-nvfuser-2.1.2"):
        with tarfile.open(
            ROOT / "fixtures" / "captures" / f"{name}.tar.xz"
        ) as archive:
            archive.extractall(folder)
    return folder


def renew(page: Path) -> None:
    """Bring every marked block of a page up to date."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = prepared(Path(name))

        def block(found: re.Match[str]) -> str:
            shown = run(found["command"], folder)
            if found["parts"]:
                shown = parts_of(shown, found["parts"].split(", "))
            start = found.group().split("```text\n", 1)[0]
            return f"{start}```text\n{shown.rstrip()}\n```"

        new = BLOCK.sub(block, text)
    if new != text:
        page.write_text(new, encoding="utf-8")
        print(f"{page.relative_to(ROOT)} is new")


def main(names: list[str]) -> None:
    pages = [Path(name).resolve() for name in names]
    for page in pages or [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]:
        if "<!-- output:" in page.read_text(encoding="utf-8"):
            renew(page)
    if not pages:
        with tempfile.TemporaryDirectory() as name:
            run(
                f"fusiondoc parse encoder-layer --output {ROOT / 'docs' / 'encoder-layer.html'}",
                prepared(Path(name)),
            )


if __name__ == "__main__":
    main(sys.argv[1:])
