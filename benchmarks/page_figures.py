"""How long pages and their sentences are, at a commit and now.

    python benchmarks/page_figures.py 7db7796f README.md docs/commands/check.md

Lines are those of the file; words and sentences those of its prose: no code, table,
heading or comment.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Figures(NamedTuple):
    lines: int
    words: int
    sentences: int
    longest: int
    """Words of the longest sentence."""


def figures(text: str) -> Figures:
    prose = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.M | re.S)
    prose = re.sub(r"^(#|\|).*$", "", prose, flags=re.M)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose)
    sentences = [
        one
        for part in paragraphs
        for one in re.split(r"(?<=[.:;?])\s+", part.strip())
        if one
    ]
    lengths = [len(one.split()) for one in sentences]
    return Figures(
        text.count("\n"), sum(lengths), len(lengths), max(lengths, default=0)
    )


def main() -> None:
    revision, *pages = sys.argv[1:]
    print(
        "| page | lines | words | sentences | words a sentence | longest |\n|---|--:|--:|--:|--:|--:|"
    )
    for page in pages:
        shown = subprocess.run(
            ["git", "show", f"{revision}:{page}"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        before, after = (
            figures(shown.stdout.decode()),
            figures((ROOT / page).read_text("utf-8")),
        )
        pairs = [
            f"{one:,} → {other:,}" for one, other in zip(before, after, strict=True)
        ]
        pairs.insert(
            3,
            f"{before.words / before.sentences:.1f} → {after.words / after.sentences:.1f}",
        )
        print(f"| {page} | {' | '.join(pairs)} |")


if __name__ == "__main__":
    main()
