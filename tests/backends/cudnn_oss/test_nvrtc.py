"""Real compiles with NVRTC: upstream's text and our checks of it, no toolkit, no driver. Figures agree with NVIDIA's tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cuda.inspect import inspect
from fmha_cli.backends.cuda.shop import build
from fmha_cli.backends.cuda.tables import check_exports
from fmha_cli.backends.cudnn_oss.upstream import UPSTREAM
from fmha_cli.codegen.cudnn_oss import emit as emitter
from fmha_cli.codegen.cudnn_oss.facts import facts_of, kernels
from fmha_cli.codegen.cudnn_oss.params import BLOCKS
from fmha_cli.codegen.struct import host_layout
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.entry import EntryMeta, read_meta
from fmha_cli.toolchain.cuda.cubin import Cubin
from tests.support.builds.nvrtc_context import nvrtc_context
from tests.support.referees.cubins import compared

pytestmark = pytest.mark.promise(
    "GPU backends list upstream's kernels and choose among them as upstream does.",
    "Kernels are built from pinned sources, and NVRTC needs no GPU.",
)

ARCHS = ("sm_90a", "sm_100a", "sm_103a")
QUICK, *SLOW = (kernel for arch in ARCHS for kernel in kernels(arch))
FIGURES = {
    # registers, most bytes of stack, matrix instructions, threads
    ("sm90", 64): (168, 0, 12, 384),
    ("sm90", 128): (168, 0, 16, 384),
    ("sm100", 64): (128, 0, 48, 512),
    ("sm100", 128): (128, 8, 64, 512),
}


@pytest.fixture(scope="module")
def context(shared_cache: Path) -> BuildContext:
    return nvrtc_context(UPSTREAM, shared_cache)


def name_of(kernel: KernelSpec) -> str:
    return f"{kernel.arch}-d{kernel.signature.hdim}"


@pytest.mark.parametrize("kernel", [QUICK, *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW)], ids=name_of)
def test_a_kernel_compiles(context: BuildContext, kernel: KernelSpec) -> None:
    made, facts = build(UPSTREAM, kernel, context), facts_of(kernel)
    raw = made.path.read_bytes()
    abi = check_exports(raw, kernel, UPSTREAM.expect_exports(kernel))
    assert [(name, size) for name, _, size in abi.fields] == [
        (name, size) for name, _, size in host_layout(BLOCKS[facts.engine])
    ]
    bank = abi.kernel.parameter_offset
    assert bank is not None
    for name, offset, _ in abi.fields:
        assert not name.startswith("tma_") or (bank + offset) % 64 == 0
    assert abi.kernel.most_threads == abi.threads == facts.threads
    found: dict[str, Any] = inspect(UPSTREAM, kernel, made)
    registers, stack, matrix, threads = FIGURES[facts.engine, kernel.signature.hdim]
    assert (found["registers"], found["matrix_instructions"], found["work_group"]) == (
        {"gpr": registers},
        matrix,
        threads,
    )
    assert found["scratch_bytes"] <= stack
    assert found["spills"]["store_bytes"] <= stack
    assert (found["unknown_instructions"], found["extern_calls"], found["remarks"]) == (None, [], None)
    faults, tools = compared(made, found, facts.symbol)
    assert faults == []
    assert len(tools) in (0, 2)
    log = made.log.read_text("utf-8")
    assert "exit status 0" in log
    meta = read_meta(made.path.parent, made.digest)
    assert isinstance(meta, EntryMeta)
    # The peak counts what Python itself had before it started the compiler, so it may be unknown here.
    assert meta.peak_bytes is None or meta.peak_bytes <= UPSTREAM.compile_bytes[kernel.family] < 1 << 30
    again = build(UPSTREAM, kernel, context)
    assert (again.cached, again.sha256) == (True, made.sha256)


def test_the_cache_holds_none_of_upstreams_text(context: BuildContext) -> None:
    entry = build(UPSTREAM, QUICK, context).path.parent
    assert "asm volatile" not in (entry / "source.cpp").read_text("utf-8")
    assert not list(entry.glob("*.cuh"))
    assert Cubin((entry / "artifact").read_bytes()).kernels[0].name == facts_of(QUICK).symbol


def test_other_facts_do_not_compile(context: BuildContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile that is not the text's own, and less shared memory than the text uses."""
    right = emitter.emit(QUICK)
    wrong = right.replace("TILE_M_1 * 2 == 128", "TILE_M_1 * 2 == 64").replace("<= 122880", "<= 117759")
    assert wrong != right
    monkeypatch.setattr(emitter, "emit", lambda kernel: wrong)
    with pytest.raises(KernelFailure, match="static assertion failed") as caught:
        build(UPSTREAM, QUICK, context)
    log = Path(str(caught.value.where)).read_text("utf-8")
    assert log.count("static assertion failed") == 2
