"""What the tests share: where the real logs are, and how to run the command line as
a user does."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from command_line import ROOT, Run, runs_in_this_process, runs_of_processes
from thorough import THOROUGH

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

FIXTURES = ROOT / "fixtures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the reports of fixtures/golden as they are now",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: object
) -> object | None:
    """With ``--dist loadgroup``, the tests of a file that share a run (a fixture
    made once a module, or the mark ``xdist_group``) stay in one process: spread,
    every process would make the run again.

    The mark alone does nothing under pytest 9: xdist 3.8 sets a name of a test that
    it does not read.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = (
        False  # the order is that of pytest_collection_modifyitems
    )
    from xdist.scheduler import LoadScopeScheduling

    class FilesThatShare(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if _shares(file) else nodeid

        def _pending_of(self, workload: Mapping[str, Mapping[str, bool]]) -> int:
            """Asked at every test. A worker does its scopes in order, so those
            before one that is done are too; xdist (3.8) looks through all that the
            worker ever had."""
            pending = 0
            for scope in reversed(workload.values()):
                left = list(scope.values()).count(False)
                if not left:
                    break
                pending += left
            return pending

    return FilesThatShare(config, log)


@functools.cache
def _shares(file: str) -> bool:
    text = (ROOT / file).read_text(encoding="utf-8")
    return 'fixture(scope="module")' in text or "xdist_group(" in text


_LONG = (
    "inductor_run recipes inductor_knobs rank_failures whose_error pytest_plugin history_live timing "
    "repro_hostile check_compiled ranks inductor_apart compare_compiled models_as_people_have_them bench "
    "repro_compiled ci_pieces run_cut_short layers ends_of_the_process installed promises inductor_failures "
    "check_moved try kernels_run groups_of_executors diagnose_process plan aot bench_progress captures_kept "
    "switched_off fork_servers survey_models suites files_of_others compare_properties numbers run_options "
    "html_browser module_tree proofs near_miss survey"
)
long_files = tuple(f"test_{name}" for name in _LONG.split())
"""Files with a test or a shared run of five seconds or more, the longest first."""


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Among several processes, what takes long begins first: at the end none works
    alone on a long test."""
    if not hasattr(config, "workerinput"):
        return
    place = {name: number for number, name in enumerate(long_files)}

    def order(item: pytest.Item) -> int:
        shares = _shares(item.nodeid.partition("::")[0])
        return place.get(item.path.stem, len(place) + (not shares))

    items.sort(key=order)


_MEASURED = (
    "aot bundle captures changed_since check_command check_compiled check_layers check_many check_moved "
    "compare_command compare_compiled compare_match completion configuration cuda_support dump_formats "
    "dump_names expectations_file explain foreign_captures formats golden_reports history hostile_json "
    "inductor_causes inductor_files inductor_live_facts inductor_readers inductor_report inductor_views "
    "ir_grammar json_text kernels_command kernels_files kernels_save limits_of_changes limits_of_checks "
    "limits_of_comparison limits_of_reasons log_ends near_miss no_log nvfuser_rules openmetrics "
    "pasted_logs plan plan_statements rank_failures ranks read_errors read_in_chunks reasons_in_models "
    "refused_arguments regions_dissolved report_sections repro_command repro_minimise rewrites "
    "run_endings run_lines run_targets secrets segments standalone_nvfuser step_time switched_off "
    "te_command try whole_files whose_error "
)
"""Files whose tests run under coverage, where that is asked for: together they
reach the floor, and are short or do their work in children, which are not measured.
The others run without it, in half the time."""
measured = frozenset(f"test_{name}" for name in _MEASURED.split())


def pytest_configure(config: pytest.Config) -> None:
    """In each worker pytest-cov (7.1) starts a measurement when it reads the
    arguments, and then that of the worker. The first is for nothing, and would go
    on where the second one is paused."""
    coverage = sys.modules.get("coverage")
    running = coverage and coverage.Coverage.current()
    if hasattr(config, "workerinput") and running is not None:
        running.stop()


def _measure(config: pytest.Config, on: bool) -> None:
    """From now on, or not, where coverage is asked for."""
    controller = getattr(
        config.pluginmanager.getplugin("_cov"), "cov_controller", None
    )
    if controller is not None and controller.started != on:
        (controller.resume if on else controller.pause)()


def _measure_imports(config: pytest.Config) -> None:
    """What the package does when it is imported is measured in one worker, and
    nothing of collecting, which takes three times as long when it is watched."""
    worker = getattr(config, "workerinput", {"workerid": None})["workerid"]
    here = worker == "gw0" or (
        worker is None and not config.getoption("numprocesses", None)
    )
    if here and config.getoption("--cov", None):
        for one in pkgutil.walk_packages([str(ROOT / "fusiondoc")], "fusiondoc."):
            if one.name.split(".")[1] not in (
                "probe",
                "suites",
                "testing",
                "pytest_plugin",
                "__main__",
            ):
                importlib.import_module(one.name)
    _measure(config, False)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _measure(item.config, item.path.stem in measured)
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """A file in one worker at a time: the first rewrites its assertions and keeps
    the bytecode, which takes longer than all else, and the others find it."""
    one_writes = (
        hasattr(collector.config, "workerinput") and not sys.dont_write_bytecode
    )
    if fcntl is None or not one_writes or not isinstance(collector, pytest.Module):
        yield
        return
    with collector.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _without_constants_of_the_package() -> None:
    """Hypothesis tries numbers and texts that stand in local modules, for which
    each worker parses all of them. At night it does."""
    from hypothesis.internal.conjecture import providers

    if hasattr(providers, "_local_constants") and hasattr(
        providers, "_get_local_constants"
    ):
        providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    _measure_imports(session.config)
    if not THOROUGH and importlib.util.find_spec("hypothesis") is not None:
        _without_constants_of_the_package()
    import parsed_once  # not at the top nor before pytest-cov's hook: what is imported there is not measured

    parsed_once.use()
    if importlib.util.find_spec("torch") is not None:
        import warm_torch

        warm_torch.use()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there before the first test stays: looking through it again took a
    tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``torch`` skip where this interpreter has none; torch itself is
    not imported for that.

    Those marked ``nightly`` run where all cases do.
    """
    if item.get_closest_marker("nightly") and not THOROUGH:
        pytest.skip("dear: at night (FUSIONDOC_THOROUGH=1)")
    if "warm_torch" in sys.modules:
        sys.modules["warm_torch"].allowed = item.get_closest_marker("cold") is None
    if (
        item.get_closest_marker("torch")
        and importlib.util.find_spec("torch") is None
    ):
        pytest.skip("needs torch in this interpreter")


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of real logs beside a development checkout; tests that need all of
    them skip without it."""
    folder = ROOT.parent / "shared" / "recordings"
    if not folder.is_dir():
        pytest.skip("the full set of recordings is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What fusiondoc remembers of this interpreter ($FUSIONDOC_CACHE), one for all
    processes of the tests.

    It is keyed by all that decides it, so one test cannot mislead another; each
    would only look again.
    """
    base = tmp_path_factory.getbasetemp()
    return (
        base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    ) / "cache"


@pytest.fixture
def fusiondoc(tmp_path: Path, cache: Path) -> Run:
    """Run ``fusiondoc ARGS`` in this process, in an empty folder unless ``cwd``
    says otherwise."""
    return runs_in_this_process(tmp_path, cache)


@pytest.fixture
def fusiondoc_process(tmp_path: Path, cache: Path) -> Run:
    """The same in a process of its own, for what only a process has
    (tests/command_line.py)."""
    return runs_of_processes(tmp_path, cache)
