"""CUDA texts through the cache: keys of exactly what decides the bytes, logs, time limits, stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem, Interrupted, KernelFailure
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import Signature
from fmha_cli.toolchain.cache.entry import EntryMeta, read_meta
from fmha_cli.toolchain.cache.key import BuildKey, expand_places
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.library import build_kernel
from fmha_cli.toolchain.cuda.compile import cuda_flags, cuda_key, knows
from fmha_cli.toolchain.cuda.probe import CudaKind, CudaToolchain
from fmha_cli.toolchain.cuda.toolchain import find_cuda
from tests.support.builds.cubin_tiny import tiny_cubin
from tests.support.fakes.played_cuda import site

KERNEL = KernelSpec(
    backend="flash_attn",
    family=Family.FWD,
    arch="sm_90",
    signature=Signature(dtype=DType.BF16, dtype_out=DType.BF16, hdim=64, hdim_v=64),
    algorithm=FaAlgorithm(tile=(128, 128), warps=4),
)
PLAYED = CudaToolchain(
    kind=CudaKind.NVRTC,
    path=Path("/here/libnvrtc.so.13"),
    version="NVRTC 13.0.88",
    capabilities=(80, 90, 100),
    headers_digest="c" * 64,
    places={"nvrtc_library": "/here", "cuda": "/here/include", "cccl": "/here/include/cccl"},
)
FOLDERS = ("shims", "flash")
OWN = ("-std=c++17", "-DNDEBUG")
PTXAS = replace(PLAYED, ptxas=Path("/here/ptxas"), version="NVRTC 13.0.88, ptxas 13.0.88")
NVCC = replace(PLAYED, kind=CudaKind.NVCC)


def key(
    kernel: KernelSpec = KERNEL, text: str = "text", digests: tuple[str, ...] = ("1", "2"), **chain: object
) -> BuildKey:
    return cuda_key(kernel, text, replace(PLAYED, **chain), OWN, FOLDERS, digests)  # type: ignore[arg-type]


def test_the_flags_in_their_order() -> None:
    rest = ("-arch=sm_90a", *OWN, "-I${shims}", "-I${flash}", "-I${cuda}", "-I${cccl}")
    assert cuda_flags(PLAYED, "sm_90a", OWN, FOLDERS) == ("--nvrtc=${nvrtc_library}", *rest)
    assert cuda_flags(PTXAS, "sm_90a", OWN, FOLDERS) == ("--nvrtc=${nvrtc_library}", "--ptxas=${ptxas}", *rest)
    nvcc = cuda_flags(NVCC, "sm_90a", OWN, FOLDERS)
    assert nvcc == ("--nvcc=${nvcc}", "-arch=sm_90a", "-cubin", "-x", "cu", *OWN, "-I${shims}", "-I${flash}")


@pytest.mark.parametrize("chain", [PLAYED, PTXAS, NVCC], ids=["nvrtc", "nvrtc+ptxas", "nvcc"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_no_flag_asks_for_ptx(chain: CudaToolchain, arch: str) -> None:
    flags = cuda_flags(chain, arch, OWN, FOLDERS)
    assert f"-arch={arch}" in flags
    assert not any("compute_" in flag or flag.startswith(("-ptx", "--ptx=")) for flag in flags)
    assert not any("code=" in flag for flag in flags)


@pytest.mark.parametrize("flag", ["-c", "-dc", "-rdc=true", "--relocatable-device-code=true", "-dlto"])
def test_no_kernel_is_relocatable(flag: str) -> None:
    """For a later link, ptxas would ignore setmaxnreg and serialise wgmma."""
    with pytest.raises(ValueError, match=f"never relocatable: {flag}"):
        cuda_flags(PTXAS, "sm_90a", (*OWN, flag), FOLDERS)


def test_a_key_holds_no_place_of_this_machine() -> None:
    elsewhere = key(path=Path("/there/lib"), places={})
    assert elsewhere.digest == key().digest
    assert not any("/here" in flag for flag in key().flags)
    assert key().toolchain_path == "nvrtc"
    places = {**PLAYED.places, "shims": "/shims", "flash": "/flash"}
    assert expand_places(key().flags, places)[-4:] == (
        "-I/shims",
        "-I/flash",
        "-I/here/include",
        "-I/here/include/cccl",
    )


@pytest.mark.parametrize(
    "other",
    [
        lambda: key(replace(KERNEL, arch="sm_90a")),
        lambda: key(replace(KERNEL, arch="sm_100")),
        lambda: key(text="another text"),
        lambda: key(digests=("1", "3")),
        lambda: key(digests=("2", "1")),
        lambda: key(version="NVRTC 13.0.48"),
        lambda: key(headers_digest="d" * 64),
        lambda: key(kind=CudaKind.NVCC),
        lambda: key(ptxas=Path("/here/ptxas")),
        lambda: key(extra=("-nvvm-version=nvvm-latest",)),
        lambda: replace(key(), flags=tuple(reversed(key().flags))),
        lambda: replace(key(), flags=(*key().flags, "-G")),
    ],
    ids=[
        "suffix",
        "arch",
        "text",
        "headers",
        "order-of-headers",
        "compiler",
        "cuda-headers",
        "nvcc",
        "assembler",
        "code-generator",
        "order-of-options",
        "option",
    ],
)
def test_whatever_decides_the_bytes_is_in_the_key(other: Callable[[], BuildKey]) -> None:
    assert other().digest != key().digest


def test_the_suffix_alone_makes_two_kernels() -> None:
    """With the same text but another architecture, both the key and the flags differ."""
    plain, suffixed = key(), key(replace(KERNEL, arch="sm_90a"))
    assert (plain.spec.arch, suffixed.spec.arch) == ("sm_90", "sm_90a")
    assert plain.spec.source == suffixed.spec.source
    assert {flag for flag in plain.flags if flag not in suffixed.flags} == {"-arch=sm_90"}


@pytest.mark.parametrize("arch", ["sm_120", "sm_75", "gfx942", "sm_9", "sm_90b"])
def test_an_architecture_that_the_compiler_does_not_know(arch: str) -> None:
    assert not knows(PLAYED, arch)
    with pytest.raises(EnvironmentProblem, match=arch) as caught:
        key(replace(KERNEL, arch=arch))
    assert caught.value.code == "B051"
    assert "sm_80, sm_90, sm_100" in (caught.value.why or "")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def chain(tmp_path: Path, shared_cache: Path, cache: Cache) -> CudaToolchain:
    return find_cuda(cache.layout.root, folders=[str(site(tmp_path / "site", shared_cache).folder)])


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "cubin").write_bytes(tiny_cubin("fmha_fa2", (8,)))
    return f"// cubin {tmp_path / 'cubin'}\n"


def build(cache: Cache, chain: CudaToolchain, text: str, **limits: object) -> tuple[bytes, EntryMeta]:
    made = cuda_key(KERNEL, text, chain, ("-std=c++17",), ("shims",), ("1",))
    artifact = build_kernel(cache, made, chain, places={**chain.places, "shims": "/shims"}, **limits)  # type: ignore[arg-type]
    meta = read_meta(cache.layout.entry(made.digest), made.digest)
    assert isinstance(meta, EntryMeta)
    return artifact.path.read_bytes(), meta


def test_a_cubin_comes_from_the_cache(cache: Cache, chain: CudaToolchain, text: str, tmp_path: Path) -> None:
    first, _ = build(cache, chain, text)
    again, _ = build(cache, chain, text)
    assert first == again == (tmp_path / "cubin").read_bytes()
    calls = [call for call in (tmp_path / "site/nvidia/cu13/lib/calls.txt").read_text().splitlines() if "shims" in call]
    assert len(calls) == 1
    assert calls[0].startswith("fmha.cu -arch=sm_90 -std=c++17")


def test_time_memory_and_log_are_kept(cache: Cache, chain: CudaToolchain, text: str) -> None:
    grown = 300 << 20
    _, meta = build(cache, chain, f"// grow {grown}\n{text}")
    assert meta.build_ns > 0
    assert meta.peak_bytes is None or meta.peak_bytes >= grown
    log = (cache.layout.entry(meta.digest) / "build.log").read_text()
    assert log.startswith("$ ")
    assert f"# {chain.version}\n" in log
    assert "touched 1\n" in log
    assert "exit status 0; wall" in log


def test_a_compile_that_fails_keeps_its_log(cache: Cache, chain: CudaToolchain) -> None:
    with pytest.raises(KernelFailure, match=r"fmha\.cu\(7\): error: no such template") as caught:
        build(cache, chain, "// fail no such template\n")
    assert caught.value.code == "B010"
    log = Path(str(caught.value.where)).read_text()
    assert "a first line" in log
    assert "more of it" in log
    assert "-arch=sm_90" in log


def test_a_compiler_that_crashes(cache: Cache, chain: CudaToolchain) -> None:
    with pytest.raises(KernelFailure) as caught:
        build(cache, chain, "// crash\n")
    assert "signal 6" in (caught.value.why or "")


def test_a_cubin_for_another_architecture_is_never_kept(cache: Cache, chain: CudaToolchain, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(tiny_cubin("fmha_fa2", (8,), accelerated=True))
    with pytest.raises(KernelFailure, match="a cubin for sm_90a, not for sm_90"):
        build(cache, chain, f"// cubin {tmp_path / 'other'}\n")


def test_the_time_limit(cache: Cache, chain: CudaToolchain) -> None:
    with pytest.raises(KernelFailure, match=r"killed after its limit of "):
        build(cache, chain, "// hang\n", timeout=0.5)


def test_a_stop(cache: Cache, chain: CudaToolchain) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        build(cache, chain, "// hang\n", cancel=stop)
