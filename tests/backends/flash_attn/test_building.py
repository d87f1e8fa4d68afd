"""Building FlashAttention kernels on simulated NVRTC and nvcc: the units that are compiled, their compilers, and the
units that are not.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fmha_cli.backends.cuda import shop as shops
from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.cuda.shop import Workshop, build, key_of, text_of, workshop
from fmha_cli.backends.cuda.tables import check_exports
from fmha_cli.backends.flash_attn.catalogue import FAMILIES, family_kernels
from fmha_cli.backends.flash_attn.launches import expect_exports
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import State
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, KernelFailure, UnsupportedError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.protocols import Backend, Batched, BuildContext, DryRun, Keyed
from fmha_cli.sources import store
from fmha_cli.toolchain.cuda.probe import CudaKind
from fmha_cli.toolchain.cuda.toolchain import find_cuda, find_nvcc
from tests.support.fakes.flash_attn.cubins import fake_cubin
from tests.support.fakes.played_cuda import Site, nvcc, site

pytestmark = pytest.mark.promise("Kernels are built from pinned sources, and NVRTC needs no GPU.")

BACKEND = CubinBackend(UPSTREAM, driven=False)
SM90 = load_arch("sm_90")


def first(family: Family = Family.FWD) -> KernelSpec:
    return family_kernels(SM90, family)[0]


@dataclass
class Shop:
    """A context with a simulated NVRTC and no sources to fetch; ``said`` collects its notices."""

    site: Site
    context: BuildContext
    said: list[str]

    @property
    def calls(self) -> list[str]:
        """The compiles of kernels, without the one that tested the compiler."""
        return [call for call in self.site.calls if "-std=" in call]


@pytest.fixture
def shop(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    there = site(tmp_path / "site", shared_cache)
    root, said = tmp_path / "cache", list[str]()
    found = find_cuda(root, folders=[str(there.folder)])
    (there.folder / "nvidia/cu13/lib/default.cubin").write_bytes(fake_cubin(first()))
    monkeypatch.setattr(shops, "find_nvcc", lambda root: None)
    context = BuildContext(root, notify=said.append)
    made = replace(workshop(UPSTREAM, context), toolchain=found, fault=None, tree=lambda: tmp_path / "tree")
    return Shop(there, replace(context, prepared=made), said)


def prepared(shop: Shop) -> Workshop:
    made = shop.context.prepared
    assert isinstance(made, Workshop)
    return made


def test_it_is_registered_and_implements_the_protocols() -> None:
    found = build_registry().backend("flash_attn")
    for protocol in (Backend, Batched, DryRun, Keyed):
        assert isinstance(found, protocol), protocol
    assert found.dropout_stream == "fa2"


def test_without_a_driver_the_answer_starts_no_worker() -> None:
    assert BACKEND.probes_in_parent
    answer = BACKEND.probe()
    assert answer.state is State.NO_DEVICE
    assert "driver" in (answer.why or "")


@pytest.mark.slow
@pytest.mark.ci
def test_a_kernel_is_compiled_once(shop: Shop, tmp_path: Path) -> None:
    kernel = first()
    made, again = build(UPSTREAM, kernel, shop.context), build(UPSTREAM, kernel, shop.context)
    assert (made.cached, again.cached, len(shop.calls)) == (False, True, 1)
    assert made.digest == again.digest == key_of(UPSTREAM, kernel, shop.context).digest
    check_exports(made.path.read_bytes(), kernel, expect_exports(kernel))
    words = shop.calls[0].split()
    assert words[:6] == ["fmha.cu", "-arch=sm_90", "-std=c++17", "-use_fast_math", "-default-device", "-DNDEBUG"]
    folders = [word.removeprefix("-I") for word in words if word.startswith("-I")]
    assert [Path(folder).name for folder in folders] == ["common", "nvrtc", "src", "include", "include", "cccl"]
    assert folders[2] == str(tmp_path / "tree/csrc/flash_attn/src")
    assert folders[3] == str(tmp_path / "tree/csrc/cutlass/include")


@pytest.mark.slow
@pytest.mark.ci
def test_sources_are_asked_for_only_to_compile(shop: Shop) -> None:
    build(UPSTREAM, first(), shop.context)
    asked: list[bool] = []
    made = replace(prepared(shop), tree=lambda: asked.append(True))  # type: ignore[arg-type, return-value]
    assert build(UPSTREAM, first(), replace(shop.context, prepared=made)).cached
    assert key_of(UPSTREAM, first(), replace(shop.context, prepared=made))
    assert not asked


def test_compiles_side_by_side_fetch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []

    def slow(*_: object, **__: object) -> Path:
        running.append(1)
        time.sleep(0.2)  # long enough for every thread to request it
        return tmp_path

    monkeypatch.setattr(store, "fetch_source", slow)
    made = workshop(UPSTREAM, BuildContext(tmp_path / "cache"))
    with ThreadPoolExecutor(4) as pool:
        assert {future.result() for future in [pool.submit(made.tree) for _ in range(4)]} == {tmp_path}
    assert len(running) == 1


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("change", ["digest", "shims", "compiler"])
def test_other_headers_and_compilers_are_other_kernels(
    shop: Shop, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, made = key_of(UPSTREAM, first(), shop.context), prepared(shop)
    assert made.toolchain is not None
    if change == "digest":
        made = replace(made, digests=("0" * 64,))
    elif change == "compiler":
        made = replace(made, toolchain=replace(made.toolchain, version="NVRTC 13.0.1"))
    else:
        monkeypatch.setattr(shops, "_tree_digest", lambda folder: "1")
    assert key_of(UPSTREAM, first(), replace(shop.context, prepared=made)).digest != before.digest


def test_the_text_names_what_it_includes(shop: Shop) -> None:
    lines = text_of(UPSTREAM, first()).splitlines()
    assert lines[0] == f"// flash-attn {prepared(shop).digests[0]}"
    assert lines[1].startswith("// shims ")
    assert lines[2] == f"// {first().name}"


def test_what_a_rule_refuses_is_never_compiled(shop: Shop) -> None:
    kernel = first()
    refused = replace(kernel, signature=replace(kernel.signature, hdim=80, hdim_v=80))
    for act in (build, key_of):
        with pytest.raises(UnsupportedError) as caught:
            act(UPSTREAM, refused, shop.context)
        assert caught.value.code.startswith("K4")
    assert not shop.calls


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise EnvironmentProblem("no compiler", code="B050", help="pip install 'fmha[cuda]'")

    monkeypatch.setattr(shops, "find_cuda", none)
    context = BuildContext(tmp_path / "cache")
    context = replace(context, prepared=BACKEND.prepare(context))
    for act in (build, key_of):
        with pytest.raises(EnvironmentProblem) as caught:
            act(UPSTREAM, first(), context)
        assert (caught.value.code, caught.value.exit_code) == ("B050", ExitCode.ENVIRONMENT)


FAILS = "fail no instance of function template"


def broken(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setattr(UPSTREAM, "emit", lambda kernel: f"// {kernel.name}\n// {words}\n")


@pytest.mark.slow
@pytest.mark.ci
def test_a_compile_that_fails(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, FAILS)
    with pytest.raises(KernelFailure, match="no instance of function template") as caught:
        build(UPSTREAM, first(), shop.context)
    assert caught.value.code == "B010"
    assert "NVRTC 13.0.48" in Path(str(caught.value.where)).read_text()


@pytest.fixture
def with_nvcc(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Artifact]:
    """Builds a text with a simulated nvcc alongside the simulated NVRTC."""
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    nvcc(tmp_path / "cuda")
    monkeypatch.setattr(shops, "find_nvcc", find_nvcc)
    (tmp_path / "by-nvcc").write_bytes(fake_cubin(first()))

    def made(words: str) -> Artifact:
        broken(monkeypatch, words + f"\n// nvcc-cubin {tmp_path / 'by-nvcc'}")
        return build(UPSTREAM, first(), shop.context)

    return made


@pytest.mark.slow
@pytest.mark.ci
def test_nvcc_compiles_what_nvrtc_refuses(shop: Shop, with_nvcc: Callable[[str], Artifact]) -> None:
    made = with_nvcc(FAILS)
    assert "nvcc 13.0.88" in made.log.read_text()
    assert len(shop.said) == 1
    assert "NVRTC does not compile" in shop.said[0]
    assert "nvcc 13.0.88" in shop.said[0]


@pytest.mark.slow
@pytest.mark.ci
def test_nvcc_is_not_asked_for_what_crashes_or_is_refused_by_both(
    shop: Shop, with_nvcc: Callable[[str], Artifact]
) -> None:
    with pytest.raises(KernelFailure, match="signal 6"):
        with_nvcc("crash\n")
    assert not shop.said
    with pytest.raises(KernelFailure, match="neither"):
        with_nvcc(f"{FAILS}\n// nvcc-fails neither")
    assert len(shop.said) == 1


@pytest.mark.slow
@pytest.mark.ci
def test_a_compiler_by_name_is_the_only_one(
    shop: Shop, with_nvcc: Callable[[str], Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.context = replace(shop.context, options={"compiler": "nvrtc"})
    with pytest.raises(KernelFailure, match="no instance of function template"):
        with_nvcc(FAILS)
    assert not shop.said
    seen: list[object] = []
    monkeypatch.setattr(shops, "find_cuda", lambda root, **given: seen.append(given["wished"]))
    workshop(UPSTREAM, replace(shop.context, prepared=None))
    assert seen == ["nvrtc"]


@pytest.mark.slow
@pytest.mark.ci
def test_nvcc_alone(tmp_path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    nvcc(tmp_path / "cuda")
    (tmp_path / "cuda" / "header.h").write_bytes(fake_cubin(first()))
    chain = find_cuda(tmp_path / "cache", folders=[])
    assert chain.kind is CudaKind.NVCC
    made = replace(shop.context, prepared=replace(prepared(shop), toolchain=chain))
    build(UPSTREAM, first(), made)
    command = (tmp_path / "cuda" / "nvcc-calls.txt").read_text().splitlines()[-1].split()
    assert command[:2] == ["-arch=sm_90", "-cubin"]
    assert [Path(word).name for word in command if word.startswith("-I")] == ["common", "src", "include"]


@pytest.mark.slow
@pytest.mark.ci
def test_memory_and_preparation(shop: Shop) -> None:
    assert BACKEND.prepare(shop.context) is shop.context.prepared
    assert BACKEND.build(Stage(first()), shop.context).cached is False
    sizes = {family: BACKEND.compile_bytes(first(family)) for family in FAMILIES}
    assert min(sizes.values()) >= 1000 << 20
    assert max(sizes, key=lambda family: sizes[family]) is Family.BWD_DQ_DK_DV


@pytest.mark.slow
@pytest.mark.ci
def test_a_cubin_from_the_cache_needs_few_modules(shop: Shop) -> None:
    """Slow modules are imported only to compile or to run, so a second process starts in 0.3 s."""
    code = (
        "import sys; from pathlib import Path; from fmha_cli.backends.cuda.cubin_backend import CubinBackend\n"
        "from fmha_cli.domain.protocols import BuildContext; from fmha_cli.discovery.registry import build_registry\n"
        "kernel = build_registry().parse_kernel(sys.argv[2])\n"
        "context = BuildContext(Path(sys.argv[1]))\n"
        "from fmha_cli.backends.cuda import shop\n"
        "from fmha_cli.backends.flash_attn.upstream import UPSTREAM\n"
        "shop.text_of(UPSTREAM, kernel)\n"
        "shop.workshop(UPSTREAM, context)\n"
        "heavy = ('numpy', 'cuda', 'requests', 'urllib.request', 'ssl')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(shop.context.cache_root), first().name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "[]\n"
