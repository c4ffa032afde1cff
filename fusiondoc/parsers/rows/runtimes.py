"""The kernels that each run of a group launched together, and the launches of
shared kernels by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fusiondoc.model.group_runs import GroupRuntime, LaunchesOfGroup
from fusiondoc.model.report import Group, Kernel
from fusiondoc.parsers.facts import Facts, KernelUse
from fusiondoc.parsers.jit.plan import GroupGraph
from fusiondoc.parsers.rows.finished_groups import MOST_INSTANCES
from fusiondoc.parsers.rows.group_rows import GroupRow, GroupTable

MOST_RUNTIMES = 1_000
"""Number of runtimes that a group lists: there is one for each of many shapes."""
MOST_OF_GRAPH = 4_000
"""Number of runtimes of one graph in all groups that have it. If there are many
groups and many runtimes, some groups list none."""


def runtimes_of(
    facts: Facts,
    groups: GroupTable,
    ids: Mapping[KernelUse, str],
    runs: Mapping[str, int],
) -> dict[str, tuple[GroupRuntime, ...]]:
    """Return the runtimes of each group, by its id, the first runtime first; {} for
    a log that is not in true order.

    Args:
        ids: ids of the kernels.
        runs: number of runs of each group, by its id.
    """
    if facts.disordered:
        return {}
    of_graphs: dict[bytes, dict[tuple[str, ...], int]] = {}
    graphs: dict[bytes, GroupGraph] = {}
    for (cache, kernels), number in facts.launched_together.items():
        if cache.graph is not None:
            graphs[cache.graph.canonical] = cache.graph
            own = of_graphs.setdefault(cache.graph.canonical, {})
            names = tuple(ids[kernel] for kernel in kernels if kernel in ids)
            if names in own or len(own) < MOST_RUNTIMES:
                own[names] = own.get(names, 0) + number
    found: dict[str, tuple[GroupRuntime, ...]] = {}
    for canonical, together in of_graphs.items():
        sharing = groups.of_graph(graphs[canonical])
        for row in sharing[: max(1, MOST_OF_GRAPH // len(together))]:
            only = runs.get(row.id) if len(together) == 1 else None
            nodes = _instances(row, canonical)[
                : max(1, MOST_INSTANCES // len(together))
            ]
            found[row.id] = found.get(row.id, ()) + tuple(
                GroupRuntime(kernels, number if len(sharing) == 1 else only, nodes)
                for kernels, number in together.items()
            )
    return found


def _instances(row: GroupRow, canonical: bytes) -> tuple[int, ...]:
    """Return the indexes of the nodes of a row that have this graph; all indexes if
    only a fallback function has it."""
    own = []
    for index, one in enumerate(row.members):
        if one.canonical == canonical:
            own.append(index)
    return tuple(own) or tuple(range(len(row.members)))


def with_launches_of_groups(
    kernels: Iterable[Kernel], groups: Sequence[Group]
) -> list[Kernel]:
    """Return the kernels; a kernel that several groups share gets its launches by
    group."""
    known = {group.id: group for group in groups}
    found = []
    for kernel in kernels:
        launches = _launches(kernel, known)
        if launches:
            found.append(replace(kernel, launches_of_groups=launches))
        else:
            found.append(kernel)
    return found


def _launches(
    kernel: Kernel, groups: Mapping[str, Group]
) -> tuple[LaunchesOfGroup, ...]:
    """Return the launches of a kernel by group: each run of a group launches all
    kernels of its only runtime. Return () if the runs of the groups are not known,
    or do not add up to the launches."""
    if len(kernel.groups) < 2 or kernel.groups_left_out:
        return ()
    made = []
    for name in kernel.groups:
        runtimes = groups[name].runtimes if name in groups else ()
        if len(runtimes) != 1 or runtimes[0].runs is None:
            return ()
        made.append(
            LaunchesOfGroup(
                name, runtimes[0].runs * runtimes[0].kernels.count(kernel.id)
            )
        )
    if sum(one.launches for one in made) == kernel.launches:
        return tuple(made)
    return ()
