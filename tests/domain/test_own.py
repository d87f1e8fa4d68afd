"""The methods that an upstream takes from modules of its package: they are there, and take what the interface says."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

from fmha_cli.backends.aiter_asm.upstream import UPSTREAM as AITER_ASM
from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.backends.cuda.small import SmallUpstream
from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM as CUDNN_OSS
from fmha_cli.backends.flash_attn.upstream import UPSTREAM as FLASH_ATTN
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM as FLASH_ATTN_3
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM as MEM_EFFICIENT
from fmha_cli.domain import counterpart, installation, invariance, measuring, protocols, tuning
from fmha_cli.domain.own import Own, own

OWNERS: tuple[Any, ...] = (FLASH_ATTN, FLASH_ATTN_3, MEM_EFFICIENT, CUDNN_OSS, AITER_ASM)


def owned(upstream: Any) -> list[str]:
    kind = type(upstream)
    return [name for name in dir(kind) if isinstance(getattr(kind, name), Own)]


@pytest.mark.parametrize("upstream", OWNERS, ids=lambda upstream: upstream.name)
def test_every_function_is_there_and_takes_what_the_interface_says(upstream: Any) -> None:
    names = owned(upstream)
    assert "params_of" in names
    assert len(names) > 5
    kind = type(upstream)
    for name in (name for name in names if name not in ("few", "_few")):
        theirs = inspect.signature(getattr(kind.__base__, name)).parameters
        ours = inspect.signature(getattr(kind, name).read(kind)).parameters
        required = [p.name for p in ours.values() if p.default is inspect.Parameter.empty]
        assert len(required) == len(theirs) - 1, name  # without self


@pytest.mark.parametrize("backend", [CpuBackend, CkTileBackend])
def test_a_backends_functions_take_what_its_protocols_say(backend: type) -> None:
    rooms = (protocols, measuring, tuning, installation, invariance, counterpart)
    methods = {
        name: method
        for room in rooms
        for protocol in vars(room).values()
        if isinstance(protocol, type) and getattr(protocol, "_is_protocol", False)
        for name, method in vars(protocol).items()
        if inspect.isfunction(method)
    }
    names = [name for name in dir(backend) if isinstance(getattr(backend, name), Own)]
    assert len(names) > 14
    for name in names:
        theirs = inspect.signature(methods[name]).parameters
        inspect.signature(getattr(backend, name).read(backend)).bind(
            *(p for p in list(theirs)[1:] if theirs[p].kind is not inspect.Parameter.KEYWORD_ONLY),
            **{p: None for p in theirs if theirs[p].kind is inspect.Parameter.KEYWORD_ONLY},
        )


def test_a_missing_module_or_function_is_an_error_when_it_is_asked_for() -> None:
    class Odd(SmallUpstream):
        emit = own("fmha_cli.backends.cuda.nowhere")
        scratch = own("fmha_cli.backends.cuda.upstream", "nothing")
        expect_exports = launch = params_of = own("fmha_cli.backends.cuda.upstream")

    class Bare(SmallUpstream):
        pass

    assert isinstance(Odd.emit, Own)
    assert not Odd.__abstractmethods__
    assert Bare.__abstractmethods__ == {"emit", "expect_exports", "launch", "params_of", "scratch"}
    odd = Odd()  # type: ignore[abstract]
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        odd.emit(None)
    with pytest.raises(AttributeError, match="nothing"):
        odd.scratch(None, None)


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


@pytest.mark.parametrize("backend", ["ck_tile", "triton"])
def test_asking_whether_a_backend_has_a_method_imports_nothing(backend: str) -> None:
    if (
        backend == "triton"
        and subprocess.run([sys.executable, "-c", "import fmha_triton"], stderr=subprocess.DEVNULL).returncode
    ):
        pytest.skip("plugins/fmha-triton is not installed")  # a test may have put it on this process's path
    names = {
        "ck_tile": "fmha_cli.backends.ck_tile import backend",
        "triton": "fmha_triton.backend import TritonBackend",
    }
    text = (
        f"import sys\nfrom {names[backend]} as made\nfrom fmha_cli.domain import protocols\n"
        "one = made() if isinstance(made, type) else made\n"
        "assert isinstance(one, protocols.Batched) and isinstance(one, protocols.Keyed)\n"
        "assert not {name for name in sys.modules if name.endswith(('.building', '.session', '.dry_run', 'numpy'))}"
    )
    subprocess.run([sys.executable, "-c", text], check=True)
