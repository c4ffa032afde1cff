"""How many rows are lost when logs are cut: ``python fuzz/cuts.py [FILE or FOLDER
...] --seed 1 --cuts 200``.

Rejections that the log states before a cut at its end, against those that the whole
log shows; and groups of a plan whose first lines are cut off, against those that
the whole plan has. Status 1 if one is lost.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE.parent / "tests")]

from sweep import logs_in  # noqa: E402
from test_cut_logs import plans, rejections_shown, report  # noqa: E402

from fusiondoc.model.report import Group  # noqa: E402


def rejections(
    lines: list[bytes], draw: Random, cuts: int, folder: Path
) -> tuple[int, int]:
    """How many are stated before the cuts, and how many of them are lost."""
    whole = rejections_shown(report(lines, folder), lines)
    stated = lost = 0
    for cut in (
        sorted(draw.sample(range(len(lines)), min(cuts, len(lines))))
        if whole
        else ()
    ):
        before = {number for number in whole if number <= cut}
        stated += len(before)
        lost += len(before - rejections_shown(report(lines[:cut], folder), lines))
    return stated, lost


def _row(group: Group) -> tuple[object, ...]:
    """What makes groups one row of a report; its outputs are those of the first of
    them."""
    return group.kind, group.nodes, group.inputs


def groups(
    lines: list[bytes], draw: Random, cuts: int, folder: Path
) -> tuple[int, int]:
    """How many groups are whole behind the cuts, and how many of them are lost."""
    stated = lost = 0
    # The last one may be cut off at its end too.
    places = [
        (start, end)
        for start, end in plans(lines)
        if end - start > 5 and end < len(lines) - 1
    ]
    for _ in range(cuts if places else 0):
        start, end = draw.choice(places)
        cut = draw.randrange(start + 1, end)
        whole = report(lines[start:end], folder).groups
        left = {
            _row(group)
            for group in whole
            if start + group.evidence[0].line - 1 >= cut
        }
        stated += len(left)
        lost += (
            len(left - set(map(_row, report(lines[cut:end], folder).groups)))
            if left
            else 0
        )
    return stated, lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="logs and folders of logs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--cuts", type=int, default=3, help="of each log, of each kind"
    )
    asked = parser.parse_args()
    draw = Random(asked.seed)
    every = logs_in(asked.files or [str(HERE.parent / "fixtures")])
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for what, count in (("rejections", rejections), ("groups", groups)):
            found = [
                count(log.split(b"\n"), draw, asked.cuts, Path(folder))
                for log in every
            ]
            stated, lost = (sum(column) for column in zip(*found))
            failed = failed or lost > 0
            print(
                f"{what}: {stated} in what was left of {len(every)} logs, {lost} lost",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
