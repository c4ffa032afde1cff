"""The variables of a run, and how they go together with the user's own."""

from __future__ import annotations

import pytest

from fusiondoc.errors import UsageError
from fusiondoc.runner.run_variables import run_environment


def levels(value: str) -> dict[str, int]:
    """File -> level, read as torch does: the first of two equal names wins
    (jit_log.cpp)."""
    found: dict[str, int] = {}
    for token in value.split(":"):
        found.setdefault(token.lstrip(">"), token.count(">"))
    return found


def test_nvfuser_gets_its_log_and_dumps() -> None:
    made = run_environment("2.1.2+cu121", "12.1", "nvfuser", (), {})
    assert made.set["PYTORCH_JIT_LOG_LEVEL"] == (
        "profiling_graph_executor_impl:>partition:graph_fuser:>>kernel_cache:manager"
    )
    assert (
        made.set["PYTORCH_NVFUSER_DUMP"]
        == "cuda_kernel,launch_param,dump_eff_bandwidth,ptxas_verbose"
    )
    assert made.merged == ()


def test_auto_gets_both_where_the_run_will_decide() -> None:
    made = run_environment("1.13.1+cu117", "11.7", "auto", (), {})
    both = levels(made.set["PYTORCH_JIT_LOG_LEVEL"])
    assert (
        both["kernel_cache"] == 2
        and both["tensorexpr_fuser"] == 2
        and both["partition"] == 1
    )


@pytest.mark.parametrize(
    ("torch", "cuda"),
    [("2.13.0+cpu", None), ("2.5.1+cu124", "12.4"), ("2.1.2+cpu", None)],
)
def test_without_nvfuser_nothing_of_it_is_set(torch: str, cuda: str | None) -> None:
    made = run_environment(
        torch, cuda, "auto", (), {"PYTORCH_NVFUSER_DUMP": "not_an_option"}
    )
    assert dict(made.set) == {
        "PYTORCH_JIT_LOG_LEVEL": "profiling_graph_executor_impl:>>tensorexpr_fuser"
    }


def test_the_users_log_level_is_kept_and_the_higher_level_wins() -> None:
    mine = ">>profiling_graph_executor_impl:tensorexpr_fuser:>autodiff"
    made = run_environment(
        "2.13.0+cpu", None, "nnc", (), {"PYTORCH_JIT_LOG_LEVEL": mine}
    )
    merged = levels(made.set["PYTORCH_JIT_LOG_LEVEL"])
    assert merged == {
        "profiling_graph_executor_impl": 2,
        "tensorexpr_fuser": 2,
        "autodiff": 1,
    }
    assert made.merged == ("PYTORCH_JIT_LOG_LEVEL",)
    assert made.user == {"PYTORCH_JIT_LOG_LEVEL": mine}
    assert any("tensorexpr_fuser" in note for note in made.notes)


def test_the_users_dumps_and_extra_ones_are_added() -> None:
    made = run_environment(
        "2.0.1",
        "11.7",
        "auto",
        ("kernel_ir",),
        {"PYTORCH_NVFUSER_DUMP": "fusion_ir,cuda_kernel"},
    )
    names = made.set["PYTORCH_NVFUSER_DUMP"].split(",")
    assert sorted(names) == sorted(
        [
            "cuda_kernel",
            "launch_param",
            "dump_eff_bandwidth",
            "ptxas_verbose",
            "kernel_ir",
            "fusion_ir",
        ]
    )
    assert made.merged == ("PYTORCH_NVFUSER_DUMP",)


@pytest.mark.parametrize(
    ("torch", "dumps", "user", "message"),
    [
        ("2.0.1", ("cuda_kernl",), {}, "Did you mean 'cuda_kernel'"),
        # In the README of nvFuser, but an option of 1.11 only: every group would
        # fall back, silently.
        ("2.1.2", (), {"PYTORCH_NVFUSER_DUMP": "print_args"}, "print_args"),
        (
            "1.13.1",
            (),
            {"PYTORCH_NVFUSER_DISABLE": "falback"},
            "Did you mean 'fallback'",
        ),
        (
            "2.1.2",
            (),
            {"PYTORCH_JIT_LOG_LEVEL": ">>tensorexpr_fusr"},
            "Did you mean 'tensorexpr_fuser'",
        ),
        (
            "2.1.2",
            (),
            {"PYTORCH_JIT_LOG_LEVEL": "graph_fuser,partition"},
            "prints nothing",
        ),
        ("2.1.2", (), {"PYTORCH_JIT": "0"}, "switches TorchScript off"),
    ],
)
def test_what_torch_would_silently_ignore_is_refused(
    torch: str, dumps: tuple[str, ...], user: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        run_environment(torch, "11.8", "auto", dumps, user)
    assert message in f"{raised.value.message} {raised.value.hint}"


def test_too_low_a_verbosity_is_raised() -> None:
    made = run_environment(
        "2.13.0", None, "nnc", (), {"PYTORCH_JIT_TYPE_VERBOSITY": "1"}
    )
    assert made.set["PYTORCH_JIT_TYPE_VERBOSITY"] == "3" and made.notes
