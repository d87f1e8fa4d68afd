"""The methods that an upstream takes from modules of its package: they are there, and take what the interface says."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

from fmha_cli.backends.cuda.packaged import Own, PackagedUpstream, own
from fmha_cli.backends.cuda.upstream import Upstream
from fmha_cli.backends.flash_attn.upstream import UPSTREAM as FLASH_ATTN
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM as MEM_EFFICIENT

OWNERS: tuple[Any, ...] = (FLASH_ATTN, MEM_EFFICIENT)


def owned(upstream: Any) -> list[str]:
    kind = type(upstream)
    return [name for name in dir(kind) if isinstance(getattr(kind, name), Own)]


@pytest.mark.parametrize("upstream", OWNERS, ids=lambda upstream: upstream.name)
def test_every_function_is_there_and_takes_what_the_interface_says(upstream: Any) -> None:
    names = [name for name in owned(upstream) if not name.startswith("_")]
    assert {"kernels", "decide", "plan_of", "params_of", "launch_of", "expected", "emit"} <= set(names)
    for name in names:
        theirs = inspect.signature(getattr(Upstream, name)).parameters
        ours = inspect.signature(getattr(upstream, name)).parameters
        required = [p.name for p in ours.values() if p.default is inspect.Parameter.empty]
        assert len(required) == len(theirs) - 1, name  # without self


@pytest.mark.parametrize("upstream", OWNERS, ids=lambda upstream: upstream.name)
def test_rules_are_those_of_both_modules(upstream: Any) -> None:
    ids = [rule.id for rule in upstream.rules()]
    assert len(ids) == len(set(ids))
    assert set(upstream._kernel_rules) < set(upstream.rules()) > set(upstream._problem_rules)


def test_a_missing_module_or_function_is_an_error_when_it_is_asked_for() -> None:
    class Odd(PackagedUpstream):
        emit = own("fmha_cli.backends.cuda.nowhere")
        template = own("fmha_cli.backends.cuda.packaged", "nothing")

    class Bare(PackagedUpstream):
        pass

    assert isinstance(Odd.emit, Own)
    assert not Odd.__abstractmethods__
    assert Bare.__abstractmethods__ == {"emit", "template"}
    odd = Odd()  # type: ignore[abstract]
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        odd.emit(None)
    with pytest.raises(AttributeError, match="nothing"):
        odd.template(None)


def test_listing_kernels_imports_neither_numpy_nor_rules_about_problems() -> None:
    text = (
        "import sys\nfrom fmha_cli.domain.arch import load_arch\n"
        "from fmha_cli.backends.mem_efficient import backend\n"
        "print(len(list(backend.kernels(load_arch('sm_80')))), *sorted(sys.modules))"
    )
    count, *modules = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.split()
    assert count == "55"
    loaded = [name for name in modules if name.startswith("fmha_cli.backends.mem_efficient.")]
    assert loaded == [f"fmha_cli.backends.mem_efficient.{name}" for name in ("catalogue", "upstream")]
    assert "numpy" not in modules
