"""What the code of a kernel shows of it, against the text of the log and against
what dumps of the same model state of its scheduler."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from conftest import FIXTURES
from raw_log import read

from fusiondoc.api import parse
from fusiondoc.model.report import Report

LOGS = (
    "convnext.script.train",
    "functions.trace.train",
    "mobilenet_v3.trace.train",
    "shapes.script.train",
)
FRAME = re.compile(
    rb"Codegen output for kernel: (kernel\d+) =+\n(.*?)\n={38}\n", re.S
)


def schedulers(report: Report) -> Counter[str | None]:
    return Counter(kernel.scheduler for kernel in report.kernels)


def test_the_scheduler_of_a_code_is_the_one_that_the_fuser_states() -> None:
    """One model, run twice: once its log names the schedulers, once it has the code
    alone."""
    stated = parse(
        FIXTURES / "dumps" / "nvfuser-2.1.2-segmented.perf_debug_verbose.log.xz"
    )
    by_code = parse(FIXTURES / "dumps" / "nvfuser-2.1.2-segmented.figures.log.xz")
    assert all(kernel.code is None for kernel in stated.kernels)
    assert all(kernel.code is not None for kernel in by_code.kernels)
    assert (
        schedulers(by_code)
        == schedulers(stated)
        == {"persistent": 2, "reduction": 1}
    )


@pytest.mark.parametrize("name", LOGS)
def test_code_without_a_sum_is_pointwise(name: str) -> None:
    """A sum begins as ``T2[0] = T2[0] + ...`` or with Welford's formula; so none of
    the others is one."""
    path = FIXTURES / "foreign" / f"{name}.nvfuser.log.xz"
    sources: dict[str, set[bytes]] = {}
    for kernel, code in FRAME.findall(read(path)):
        sources.setdefault(kernel.decode(), set()).add(code)
    kernels = [
        kernel
        for kernel in parse(path).kernels
        if len(sources.get(kernel.name, ())) == 1
    ]
    for kernel in kernels:
        (text,) = sources[kernel.name]
        sums = any(
            b"elfordCombine" in text or re.search(rb"(T\d+)\[0\]\s+= \1\[0\]", text)
            for _ in "1"
        )
        assert (kernel.scheduler == "pointwise") is not sums
    assert kernels and all(kernel.scheduler is not None for kernel in kernels)


@pytest.mark.parametrize("name", LOGS)
def test_traits_are_those_of_the_text(name: str) -> None:
    path = FIXTURES / "foreign" / f"{name}.nvfuser.log.xz"
    sources: dict[str, set[bytes]] = {}
    for kernel, code in FRAME.findall(read(path)):
        sources.setdefault(kernel.decode(), set()).add(code)
    checked = 0
    for kernel in parse(path).kernels:
        if kernel.traits is None or len(sources.get(kernel.name, ())) != 1:
            continue
        (text,) = sources[kernel.name]
        reductions = tuple(
            name
            for name, words in (
                ("block", (b"blockReduce<", b"blockWelford<")),
                ("grid", (b"gridReduce<",)),
            )
            if any(word in text for word in words)
        )
        wide = any(
            b"float, %d" % width in text
            for width in (2, 4, 8)
            if b"<float, %d, " % width in text
        )
        assert kernel.traits.reductions == reductions
        assert (kernel.traits.vector_width == 4) is (
            b"loadGlobalToLocal<float, 4" in text or aligned(text)
        )
        assert wide or kernel.traits.vector_width == 1
        assert (kernel.traits.index_type == "int") is (
            re.search(rb"\bint i\d+;", text) is not None
        )
        used_again = b"blockBroadcast<" in text if reductions else None
        assert kernel.traits.persistent is used_again
        checked += 1
    assert checked


def aligned(text: bytes) -> bool:
    return b"Array<float, 4, 4>" in text or b"loadLocalToGlobal<float, 4" in text


def test_the_command_and_the_page_show_them(fusiondoc) -> None:
    log = str(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz")
    text = " ".join(fusiondoc("kernels", log).stdout.split())
    assert (
        "persistent scheduler, vectors of 4, int indices, block reduction" in text
    )
    assert "reduction scheduler, no vectors, int indices, grid reduction" in text
    page = fusiondoc("parse", log, "--format", "html").stdout
    assert "vectors of 4, int indices, block reduction" in page
