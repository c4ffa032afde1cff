"""The texts that torch.compile printed about a whole graph, as dumps of its first
kernel, for ``fusiondoc kernels``."""

from __future__ import annotations

import zlib
from dataclasses import replace

from fusiondoc.model.report import Dump, Report
from fusiondoc.parsers.observed import Observed


def with_graph_texts(report: Report, observed: Observed) -> Report:
    """Return the report with the texts of each compiled graph added to its first
    kernel."""
    compilation = observed.compilation
    kernels = list(report.kernels)
    at = 0
    for graph in compilation.graphs if compilation is not None else ():
        names = {kernel.name for kernel in graph.kernels}
        at = next(
            (
                index
                for index in range(at, len(kernels))
                if kernels[index].name in names
            ),
            at,
        )
        if names and kernels[at].name in names:
            dumps = []
            for option, text in graph.texts:
                dumps.append(
                    Dump(
                        option,
                        zlib.decompress(text).decode("utf-8"),
                        kernels[at].evidence,
                    )
                )
            kernels[at] = replace(kernels[at], dumps=(*kernels[at].dumps, *dumps))
            at += len(names)
    return replace(report, kernels=tuple(kernels))
