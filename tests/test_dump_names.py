"""Names for --dump: which run can print which, and what is set for it."""

from __future__ import annotations

import pytest

from fusiondoc.errors import UsageError
from fusiondoc.fuser_knobs import catalogue
from fusiondoc.fuser_knobs.checks import check_dumps, how_to_set, is_set, together
from fusiondoc.runner.run_variables import run_environment

NVFUSER = ("2.1.2+cu121", "12.1")
NONE = ("2.13.0+cpu", None)


def variables(
    where: tuple[str, str | None], fuser: str, *dumps: str, **user: str
) -> dict[str, str]:
    return dict(run_environment(*where, fuser, dumps, user).set)


@pytest.mark.parametrize("name", catalogue.dump_options("2.1.2"))
def test_every_option_of_this_torch_is_set_and_seen_as_set(name: str) -> None:
    made = variables(NVFUSER, "nvfuser", name)
    assert name in made["PYTORCH_NVFUSER_DUMP"].split(",")
    assert is_set(name, made)


@pytest.mark.parametrize(
    ("name", "fuser"),
    [
        ("nnc_ir", "nnc"),
        ("nnc_ir", "auto"),
        ("nnc_stages", "nnc"),
        ("nnc_cuda", "nnc"),
        ("onednn_verbose", "onednn"),
    ],
)
def test_the_dumps_of_other_fusers_are_set_and_seen_as_set(
    name: str, fuser: str
) -> None:
    made = variables(NONE, fuser, name)
    # A run under oneDNN Graph sets its own without being asked.
    assert is_set(name, made) and is_set(name, variables(NONE, fuser)) is (
        fuser == "onednn"
    )
    assert "PYTORCH_NVFUSER_DUMP" not in made


def test_a_higher_level_of_the_users_stays() -> None:
    made = variables(NONE, "nnc", "nnc_cuda", PYTORCH_JIT_LOG_LEVEL=">>kernel")
    assert made["PYTORCH_JIT_LOG_LEVEL"].split(":")[0] == ">>kernel"
    assert is_set("nnc_ir", made) and is_set("nnc_cuda", made)
    assert "ONEDNN_VERBOSE" not in variables(
        NONE, "onednn", "onednn_verbose", ONEDNN_VERBOSE="2"
    )


def test_what_nvfuser_would_hide_is_not_asked_for_beside_it() -> None:
    made = variables(NVFUSER, "nvfuser", "cuda_full")["PYTORCH_NVFUSER_DUMP"].split(
        ","
    )
    assert (
        "cuda_full" in made and "cuda_kernel" not in made and "launch_param" in made
    )
    with pytest.raises(UsageError, match="no cuda_full where cuda_kernel"):
        variables(NVFUSER, "nvfuser", "cuda_full", "cuda_kernel")
    assert not is_set(
        "cuda_full", {"PYTORCH_NVFUSER_DUMP": "cuda_kernel,cuda_full"}
    )


@pytest.mark.parametrize(
    ("had", "asked", "expected"),
    [
        (("kernel_ir",), ("ptx",), ("kernel_ir", "ptx")),
        (("kernel_ir",), ("kernel_ir", "ptx"), ("kernel_ir", "ptx")),
        (("fusion_ir", "halo"), ("fusion_ir_math",), ("halo", "fusion_ir_math")),
        (("cuda_full",), ("cuda_kernel",), ("cuda_kernel",)),
        (("cuda_full",), ("fusion_ir",), ("cuda_full", "fusion_ir")),
    ],
)
def test_a_run_again_keeps_earlier_dumps_that_go_with_the_new(
    had: tuple[str, ...], asked: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert together(had, asked) == expected
    check_dumps(expected, "nvfuser", "2.1.2", True)


@pytest.mark.parametrize(
    ("name", "fuser", "torch", "said"),
    [
        ("cuda_kernl", "nvfuser", "2.1.2", "Did you mean 'cuda_kernel'"),
        ("print_args", "auto", "2.0.1", "kernel_args"),
        ("bank_conflict", "nvfuser", "1.13.1", "2.0 to 2.1"),
        ("cuda_kernel", "nnc", "2.1.2", "dump of nvFuser"),
        ("cuda_kernel", "auto", "2.13.0", "no nvFuser"),
        ("cuda_kernel", "nvfuser", "2.13.0", "PYTORCH_NVFUSER_DUMP"),
        ("nnc_ri", "nnc", "2.1.2", "Did you mean 'nnc_ir'"),
        ("nnc_ir", "nvfuser", "2.1.2", "dump of NNC"),
        ("onednn_verbose", "auto", "2.13.0", "dump of oneDNN Graph"),
        ("onednn_verbose", "onednn", "1.11.0", "1.12 to 2.13"),
        ("nnc_ir", "none", "2.13.0", "dump of NNC"),
        ("whatever", "legacy", "2.13.0", "nothing to dump"),
    ],
)
def test_the_others_are_refused_with_a_way_on(
    name: str, fuser: str, torch: str, said: str
) -> None:
    with pytest.raises(UsageError) as error:
        check_dumps([name], fuser, torch, torch.startswith(("1.1", "2.0", "2.1.")))
    assert said in f"{error.value.message} {error.value.hint}"


@pytest.mark.parametrize(
    "dump", catalogue.fuser_dumps(), ids=lambda dump: dump.name
)
def test_how_to_set_is_for_a_shell(dump) -> None:
    import shlex

    words = dict(
        word.split("=", 1) for word in shlex.split(how_to_set([dump.name]))
    )
    assert words == dict(dump.needs) and is_set(dump.name, words)


def test_how_to_set_several() -> None:
    said = how_to_set(["kernel_ir", "nnc_cuda", "nnc_ir", "ptx"])
    assert (
        said
        == "PYTORCH_NVFUSER_DUMP=cuda_kernel,kernel_ir,ptx PYTORCH_JIT_LOG_LEVEL='>>kernel:>>cuda_codegen'"
    )
    assert how_to_set(["cuda_full"]) == "PYTORCH_NVFUSER_DUMP=cuda_full"


def test_log_files_of_the_dumps_are_in_the_catalogue() -> None:
    from fusiondoc.fuser_knobs.checks import check_log_level, log_level_notes

    for dump in catalogue.fuser_dumps():
        for variable, value in dump.needs:
            if variable == "PYTORCH_JIT_LOG_LEVEL":
                for span in dump.live:
                    check_log_level(value, ".".join(map(str, span.first)))
                    assert not log_level_notes(value)
