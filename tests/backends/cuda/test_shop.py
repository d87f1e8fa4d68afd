"""The shop on a small wgmma kernel from a stub upstream: two compile routes, what is reported, what is kept.

The compiles by NVRTC and ptxas are real; each takes a second or less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fmha_cli.backends.cuda import inspect as inspections
from fmha_cli.backends.cuda import shop as shops
from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.inspect import inspect
from fmha_cli.backends.cuda.shop import Workshop, build, key_of, needs_assembler, text_of, workshop
from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.upstream import FlashAttention
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.report.documents.inspect import inspect_document
from fmha_cli.report.formats import view
from fmha_cli.report.lines import cell
from fmha_cli.toolchain.cache.layout import PTX
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.occupancy import Demand, occupancy_of
from fmha_cli.toolchain.cuda.probe import CudaKind
from tests.support.builds.nvrtc_wgmma import ARCH, wgmma_text

KERNEL = next(k for k in family_kernels(load_arch(ARCH), Family.FWD))


class Wgmma(FlashAttention):
    """Emits the text of ``nvrtc_wgmma`` for every kernel.

    Args:
        asserting: whether its assert is live. needing: instructions that its kernels contain.
        calls: external functions that they are expected to call.
    """

    symbol = "fmha_tiny"

    def __init__(self, *, asserting: bool = False, needing: str = "", calls: str = "") -> None:
        self.flags = {"nvrtc": ("-std=c++17", *(() if asserting else ("-DNDEBUG",)))}
        self.calls = frozenset(calls.split())
        self._needing = frozenset(needing.split())
        self.folders = {}

    def emit(self, kernel: KernelSpec) -> str:
        return wgmma_text(self.symbol)

    def instructions(self, kernel: KernelSpec) -> frozenset[str]:
        return self._needing


def exported(raw: bytes, kernel: KernelSpec, expected: object) -> SimpleNamespace:
    """The result that ``check_exports`` would give for a cubin that exports no tables."""
    found = Cubin(raw)
    demand = Demand(registers=found.kernels[0].registers, threads=128, shared_bytes=0)
    occupancy = occupancy_of(demand, load_arch(kernel.arch))
    return SimpleNamespace(
        arch=found.arch, tool_version=None, smem_bytes=0, threads=128, kernel=found.kernels[0], occupancy=occupancy
    )


@dataclass
class Bench:
    """A context with the real compiler and no sources; ``said`` collects its notices."""

    context: BuildContext
    said: list[str]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(inspections, "check_exports", exported)
    said: list[str] = []
    context = BuildContext(tmp_path / "cache", notify=said.append)
    made = workshop(Wgmma(), context)
    if made.toolchain is None or made.toolchain.kind is not CudaKind.NVRTC:
        pytest.skip("NVRTC does not work here")
    try:
        made.assembled()
    except EnvironmentProblem as fault:
        pytest.skip(f"no ptxas: {fault.why}")
    return Bench(replace(context, prepared=replace(made, tree=lambda: tmp_path)), said)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("needing", ["", "barrier_set_up"], ids=["nvrtc", "nvrtc+ptxas"])
def test_a_planted_assert_is_reported(bench: Bench, needing: str) -> None:
    made = build(Wgmma(asserting=True, needing=needing), KERNEL, bench.context)
    assert len(bench.said) == 2
    assert "the code calls __assertfail, which the cubin does not contain" in bench.said[0]
    assert "wgmma.mma_async instructions are serialized" in bench.said[1]
    assert all(text.startswith(KERNEL.name) for text in bench.said)
    found = inspect(Wgmma(), KERNEL, made)
    assert found["extern_calls"] == ["__assertfail"]
    document = inspect_document(KERNEL, found, made)
    assert document.extern_calls == ["__assertfail"]
    rows = view(document).rows
    assert ["extern calls", "__assertfail"] in rows
    assert [value for name, value in rows if name == "remarks"] == [cell(found["remarks"])]
    assert [text in bench.said[1] for text in found["remarks"]] == [True]  # type: ignore[attr-defined]


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("needing", ["", "barrier_set_up"], ids=["nvrtc", "nvrtc+ptxas"])
def test_without_it_nothing_is(bench: Bench, needing: str) -> None:
    upstream = Wgmma(needing=needing)
    made = build(upstream, KERNEL, bench.context)
    assert bench.said == []
    found = inspect(upstream, KERNEL, made)
    assert (found["extern_calls"], found["remarks"]) == ([], None)
    ptx = made.path.with_name(PTX)
    assert "wgmma.mma_async" in ptx.read_text()
    assert ".target sm_90a" in ptx.read_text()


class Measured(Wgmma):
    """Its compiles were measured."""

    def compile_seconds(self, family: Family) -> tuple[float, float]:
        return (1.0, 2.0)


def test_a_compile_costs_nothing_once_the_kernel_is_built(bench: Bench) -> None:
    upstream, stage = Measured(needing="barrier_set_up"), Stage(KERNEL)
    backend = CubinBackend(upstream, False)
    assert backend.compile_seconds(stage, bench.context) == (1.0, 2.0)
    build(upstream, KERNEL, bench.context)
    assert backend.compile_seconds(stage, bench.context) is None
    assert CubinBackend(Wgmma(asserting=True), False).compile_seconds(stage, bench.context) is None


def test_without_a_compiler_nothing_is_compiled(bench: Bench) -> None:
    shop = bench.context.prepared
    assert isinstance(shop, Workshop)
    assert not replace(shop, toolchain=None).must_compile(Wgmma(), KERNEL, bench.context)
    assert shop.must_compile(Wgmma(), KERNEL, bench.context)


@pytest.mark.slow
@pytest.mark.ci
def test_what_a_kernel_calls_on_purpose_is_no_notice(bench: Bench) -> None:
    build(Wgmma(asserting=True, calls="__assertfail vprintf"), KERNEL, bench.context)
    assert ["wgmma" in text for text in bench.said] == [True]


@pytest.mark.slow
@pytest.mark.ci
def test_text_without_a_pinned_source_needs_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> Path:
        raise AssertionError("the source is fetched")

    plain = Wgmma()
    sourced = key_of(plain, KERNEL, bench.context)
    monkeypatch.setattr(plain, "source", None)
    shop = workshop(plain, BuildContext(cache_root=bench.context.cache_root))
    assert shop.digests == ()
    context = replace(bench.context, prepared=replace(shop, tree=never))
    assert "flash-attn" not in text_of(plain, KERNEL)
    assert build(plain, KERNEL, context).digest == key_of(plain, KERNEL, context).digest != sourced.digest


@pytest.mark.slow
@pytest.mark.ci
def test_the_route_is_a_fact_of_the_architecture(bench: Bench) -> None:
    plain, needing = Wgmma(), Wgmma(needing="barrier_set_up wgmma")
    assert not needs_assembler(plain, KERNEL)
    assert needs_assembler(needing, KERNEL)
    assert not needs_assembler(needing, replace(KERNEL, arch="sm_80"))
    one, other = build(plain, KERNEL, bench.context), build(needing, KERNEL, bench.context)
    assert key_of(needing, KERNEL, bench.context).digest == other.digest != one.digest
    assert "ptxas" not in one.log.read_text().splitlines()[0]
    assert "ptxas info    : Used" in other.log.read_text()
    assert other.path.read_bytes() != one.path.read_bytes()
    assert Cubin(other.path.read_bytes()).kernels[0].code == Cubin(one.path.read_bytes()).kernels[0].code


@pytest.mark.slow
@pytest.mark.ci
def test_a_compiler_by_name_is_the_route(bench: Bench, tmp_path: Path) -> None:
    def named(name: str) -> str:
        made = workshop(Wgmma(), replace(bench.context, prepared=None, options={"compiler": name}))
        context = replace(bench.context, prepared=replace(made, tree=lambda: tmp_path), options={"compiler": name})
        return build(Wgmma(needing="barrier_set_up"), KERNEL, context).digest

    assert named("nvrtc") == key_of(Wgmma(), KERNEL, bench.context).digest
    assert named("nvrtc+ptxas") == key_of(Wgmma(needing="barrier_set_up"), KERNEL, bench.context).digest


@pytest.mark.slow
@pytest.mark.ci
def test_without_ptxas_the_kernels_that_need_it_are_refused(bench: Bench) -> None:
    """Kernels that do not need ptxas are still built."""

    def missing() -> None:
        raise EnvironmentProblem("no ptxas", code="B052", help="pip install 'fmha[cuda]'")

    made = bench.context.prepared
    assert isinstance(made, Workshop)
    context = replace(bench.context, prepared=replace(made, assembled=missing))  # type: ignore[arg-type]
    acts: tuple[Callable[..., object], ...] = (build, key_of)
    for act in acts:
        with pytest.raises(EnvironmentProblem) as caught:
            act(Wgmma(needing="barrier_set_up"), KERNEL, context)
        assert caught.value.code == "B052"
        assert act(Wgmma(), KERNEL, context)


def test_a_wished_ptxas_that_is_missing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise EnvironmentProblem("no ptxas", code="B052")

    monkeypatch.setattr(shops, "find_cuda", none)
    made = workshop(Wgmma(), replace(bench.context, prepared=None))
    with pytest.raises(EnvironmentProblem) as caught:
        build(Wgmma(), KERNEL, replace(bench.context, prepared=made))
    assert caught.value.code == "B052"


class Derived(Wgmma):
    """The same text, in a file that is made from the source when the kernel is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.flags = {"nvrtc": (*self.flags["nvrtc"], "-I.")}

    def emit(self, kernel: KernelSpec) -> str:
        return '#include "part.cuh"\n'

    def derive_files(self, kernel: KernelSpec, tree: Path) -> dict[str, str]:
        return {"part.cuh": (tree / "hidden.txt").read_text("utf-8")}


@pytest.mark.slow
@pytest.mark.ci
def test_files_made_from_the_source_lie_beside_the_text(bench: Bench, tmp_path: Path) -> None:
    """They are compiled, no path of theirs is in the key, and the cache keeps none of them."""
    (tmp_path / "hidden.txt").write_text(wgmma_text("fmha_tiny"), "utf-8")
    made = build(Derived(), KERNEL, bench.context)
    assert Cubin(made.path.read_bytes()).kernels[0].name == "fmha_tiny"
    assert {path.name for path in made.path.parent.iterdir()} == {
        "artifact",
        "build.log",
        "kernel.ptx",
        "meta.json",
        "source.cpp",
    }
    source = (made.path.parent / "source.cpp").read_text("utf-8")
    assert "wgmma" not in source
    assert str(tmp_path) not in source
    assert build(Derived(), KERNEL, bench.context).cached
    (tmp_path / "hidden.txt").unlink()
    assert build(Derived(), KERNEL, bench.context).cached  # a cached kernel needs no source


def test_a_compiler_that_cannot_read_the_text_is_not_used(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in place of a broken NVRTC, and not after NVRTC has refused the text."""
    found = workshop(Wgmma(), bench.context).toolchain
    assert found is not None
    nvcc = replace(found, kind=CudaKind.NVCC, version="nvcc 13.0.88")
    monkeypatch.setattr(shops, "find_cuda", lambda *_, **__: nvcc)
    shop = workshop(Derived(), replace(bench.context, prepared=None))
    assert shop.toolchain is None
    with pytest.raises(EnvironmentProblem, match="cannot compile the kernels of flash_attn") as caught:
        build(Derived(), KERNEL, replace(bench.context, prepared=replace(shop, tree=lambda: Path("nowhere"))))
    assert (caught.value.code, caught.value.why) == ("B050", "their text is for nvrtc alone")

    def never(root: Path) -> None:
        raise AssertionError("nvcc is looked for")

    monkeypatch.setattr(shops, "find_nvcc", never)
    wrong = Derived()
    monkeypatch.setattr(wrong, "derive_files", lambda kernel, tree: {"part.cuh": "this is no C++"})
    with pytest.raises(KernelFailure):
        build(wrong, KERNEL, bench.context)
