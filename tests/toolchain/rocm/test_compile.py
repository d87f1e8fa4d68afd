"""HIP texts through the cache: flags, keys, libraries, code objects, failures."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fmha_null.kernels import null_kernel

from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import EnvironmentProblem, KernelFailure
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Artifact
from fmha_cli.toolchain.cache.key import BuildKey, expand_places
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.compile import compile_library
from fmha_cli.toolchain.cpp.library import build_kernel
from fmha_cli.toolchain.elf import Elf
from fmha_cli.toolchain.rocm.candidates import RocmKind, RocmToolchain, llvm_tool
from fmha_cli.toolchain.rocm.compile import (
    HipProduct,
    hip_flags,
    hip_key,
    hip_places,
    kernel_flags,
    probed_flags,
    words,
)
from fmha_cli.toolchain.rocm.offload import code_objects
from fmha_cli.toolchain.rocm.root import RocmParts, RocmSupply
from fmha_cli.toolchain.rocm.toolchain import find_rocm
from tests.support.builds.rocm_here import say_nothing, toolchain_here

TEXT = """#include <hip/hip_runtime.h>
#include <tile.h>
__global__ void scale(float* x) { x[threadIdx.x] *= TILE; }
extern "C" __attribute__((visibility("default"))) int launch(float* x, hipStream_t stream)
{
    scale<<<1, 64, 0, stream>>>(x);
    return (int)hipGetLastError();
}
"""

ALL = frozenset(flag.text for flag in probed_flags())
FAKE = RocmToolchain(
    argv0=("/bin/hipcc",),
    version="clang version 22",
    kind=RocmKind.CLANG,
    rocm_path=Path("/rocm"),
    archs=("gfx942", "gfx1201"),
    hip_version="7.1.0",
    headers_digest="d",
    options=tuple(ALL),
)


def build_hip(
    cache: Cache, key: BuildKey, chain: RocmToolchain, *, headers: dict[str, tuple[Path, str]], **limits: Any
) -> Artifact:
    places = hip_places(chain, {name: folder for name, (folder, _) in headers.items()})
    return build_kernel(cache, key, chain, places=places, **limits)


@pytest.fixture
def kernel() -> KernelSpec:
    """A kernel, as if for gfx942."""
    return replace(null_kernel(DType.FP32, Family.FWD), arch="gfx942")


def headers_below(folder: Path) -> dict[str, tuple[Path, str]]:
    (folder / "include").mkdir()
    (folder / "include" / "tile.h").write_text("#define TILE 3.0f\n")
    return {"tiles": (folder / "include", "digest of tiles")}


@pytest.fixture
def headers(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    return headers_below(tmp_path)


@pytest.fixture(scope="module")
def library(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A library for gfx942, compiled once, in its own cache, with its own headers."""
    folder = tmp_path_factory.mktemp("library")
    chain, headers = toolchain_here(shared_cache, "gfx942"), headers_below(folder)
    kernel = replace(null_kernel(DType.FP32, Family.FWD), arch="gfx942")
    key = hip_key(kernel, TEXT, chain, load_arch("gfx942"), headers=headers)
    return build_hip(Cache(folder / "cache", say_nothing), key, chain, headers=headers)


@pytest.mark.parametrize(
    ("family", "define"),
    [
        ("fwd", "-DCK_TILE_FMHA_FWD_FAST_EXP2=1"),
        ("fwd_splitkv", "-DCK_TILE_FMHA_FWD_FAST_EXP2=1"),
        ("batch_prefill", "-DCK_TILE_FMHA_FWD_FAST_EXP2=1"),
        ("bwd_dq_dk_dv", "-DCK_TILE_FLOAT_TO_BFLOAT16_DEFAULT=3"),
    ],
)
def test_defines(family: str, define: str) -> None:
    found = words(kernel_flags(family, ALL))
    assert [word for word in found if word.startswith("-DCK_TILE")] == [define]


def test_every_flag_has_a_source_and_no_flag_hangs_llvm() -> None:
    for family in ("fwd", "bwd_dq_dk_dv"):
        flags = kernel_flags(family, ALL)
        assert all(flag.source for flag in flags)
        assert "-DNDEBUG" in words(flags)
        assert "-amdgpu-function-calls=false" not in words(flags)


def test_only_flags_that_the_compiler_takes(kernel: KernelSpec) -> None:
    some = replace(FAKE, options=("-mllvm -enable-post-misched=0",))
    found = hip_flags(some, load_arch("gfx942"), "fwd", HipProduct.LIBRARY, {})
    assert found.count("-mllvm") == 1
    assert found[found.index("-mllvm") + 1] == "-enable-post-misched=0"


def test_an_architecture_that_the_compiler_does_not_know() -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        hip_flags(FAKE, load_arch("gfx950"), "fwd", HipProduct.LIBRARY, {})
    assert caught.value.code == "B032"
    assert "gfx942" in (caught.value.why or "")


def test_keys_hold_no_places(kernel: KernelSpec, headers: dict[str, tuple[Path, str]]) -> None:
    arch = load_arch("gfx942")
    key = hip_key(kernel, TEXT, FAKE, arch, headers=headers)
    elsewhere = hip_key(
        kernel, TEXT, replace(FAKE, rocm_path=Path("/other")), arch, headers={"tiles": (Path("/x"), "digest of tiles")}
    )
    assert key.digest == elsewhere.digest
    assert not any(str(headers["tiles"][0]) in flag or "/rocm" in flag for flag in key.flags)
    places = hip_places(FAKE, {"tiles": headers["tiles"][0]})
    assert f"-I{headers['tiles'][0]}" in expand_places(key.flags, places)
    assert "--rocm-path=/rocm" in expand_places(key.flags, places)
    with pytest.raises(KeyError):
        expand_places(key.flags, {})


@pytest.mark.parametrize(
    "change",
    [
        {"version": "clang version 23"},
        {"argv0": ("/usr/bin/hipcc",)},
        {"headers_digest": "e"},
        {"options": ()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_keys_follow_the_compiler(
    kernel: KernelSpec, headers: dict[str, tuple[Path, str]], change: dict[str, object]
) -> None:
    arch = load_arch("gfx942")
    keys = [hip_key(kernel, TEXT, chain, arch, headers=headers) for chain in (FAKE, replace(FAKE, **change))]  # type: ignore[arg-type]
    assert keys[0].digest != keys[1].digest


def test_keys_follow_headers_and_product(kernel: KernelSpec, headers: dict[str, tuple[Path, str]]) -> None:
    arch, folder = load_arch("gfx942"), headers["tiles"][0]
    digests = {
        hip_key(kernel, TEXT, FAKE, arch, headers=headers).digest,
        hip_key(kernel, TEXT, FAKE, arch, headers={"tiles": (folder, "another")}).digest,
        hip_key(kernel, TEXT, FAKE, arch, headers=headers, product=HipProduct.CODE_OBJECT).digest,
        hip_key(kernel, TEXT + " ", FAKE, arch, headers=headers).digest,
    }
    assert len(digests) == 4


@pytest.mark.parametrize(
    "arch",
    [
        "gfx1201",
        *(
            pytest.param(arch, marks=pytest.mark.slow)
            for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1250")
        ),
    ],
)
def test_a_library_and_its_code_object(
    shared_cache: Path, tmp_path: Path, kernel: KernelSpec, headers: dict[str, tuple[Path, str]], arch: str
) -> None:
    chain = toolchain_here(shared_cache, arch)
    key = hip_key(replace(kernel, arch=arch), TEXT, chain, load_arch(arch), headers=headers)
    cache = Cache(tmp_path / "cache", say_nothing)
    built = build_hip(cache, key, chain, headers=headers)
    assert not built.cached
    assert build_hip(cache, key, chain, headers=headers).cached
    (device,) = code_objects(built.path.read_bytes())
    assert device.arch == arch
    assert b"scale" in device.data
    log = built.log.read_text()
    assert f"--offload-arch={arch}" in log
    assert chain.version in log
    assert "peak memory" in log
    symbols = {symbol.name for symbol in Elf(built.path.read_bytes()).symbols}
    assert "launch" in symbols


def test_hip_stays_undefined(shared_cache: Path, library: Artifact) -> None:
    """A real runtime, a recording one or an emulator may be loaded before the library."""
    chain = toolchain_here(shared_cache, "gfx942")
    assert [device.arch for device in code_objects(library.path.read_bytes())] == ["gfx942"]
    readelf = llvm_tool("llvm-readelf", Path(chain.argv0[0]))
    if readelf is None:
        pytest.skip("there is no llvm-readelf")
    said = subprocess.run(
        [readelf, "--dyn-syms", "--dynamic", library.path], capture_output=True, text=True, check=True
    ).stdout
    undefined = [line.split()[-1].partition("@")[0] for line in said.splitlines() if " UND " in line]
    assert {"__hipRegisterFatBinary", "hipLaunchKernel", "hipGetLastError"} <= set(undefined)
    assert "amdhip64" not in said


def test_the_same_bytes_from_two_caches(
    shared_cache: Path, tmp_path: Path, kernel: KernelSpec, headers: dict[str, tuple[Path, str]], library: Artifact
) -> None:
    """The headers of the other one are elsewhere, too."""
    chain = toolchain_here(shared_cache, "gfx942")
    key = hip_key(kernel, TEXT, chain, load_arch("gfx942"), headers=headers)
    built = build_hip(Cache(tmp_path / "cache", say_nothing), key, chain, headers=headers)
    assert not built.cached
    assert built.path != library.path
    assert (built.digest, built.sha256) == (library.digest, library.sha256)


def test_a_text_that_does_not_compile(
    shared_cache: Path, tmp_path: Path, kernel: KernelSpec, headers: dict[str, tuple[Path, str]]
) -> None:
    chain = toolchain_here(shared_cache, "gfx942")
    text = TEXT.replace("TILE", "NO_TILE")
    key = hip_key(kernel, text, chain, load_arch("gfx942"), headers=headers)
    with pytest.raises(KernelFailure) as caught:
        build_hip(Cache(tmp_path / "cache", say_nothing), key, chain, headers=headers)
    assert "NO_TILE" in caught.value.what
    log = Path(caught.value.where or "").read_text()
    assert log.startswith(f"$ {shlex.quote(chain.argv0[0])}")


def test_a_code_object_outside_the_cache(
    shared_cache: Path, tmp_path: Path, headers: dict[str, tuple[Path, str]]
) -> None:
    chain = toolchain_here(shared_cache, "gfx942")
    folders = {name: folder for name, (folder, _) in headers.items()}
    flags = hip_flags(chain, load_arch("gfx942"), "fwd", HipProduct.CODE_OBJECT, folders)
    work = tmp_path / "work"
    work.mkdir()
    plain = expand_places(flags, hip_places(chain, folders))
    done = compile_library(chain, TEXT, plain, work / "out.co", 120, work / "log")
    (device,) = code_objects((work / "out.co").read_bytes())
    assert device.arch == "gfx942"
    assert done.peak_bytes is None or done.peak_bytes > 1 << 20


def test_a_compile_that_takes_too_long(
    shared_cache: Path, tmp_path: Path, kernel: KernelSpec, headers: dict[str, tuple[Path, str]]
) -> None:
    chain = toolchain_here(shared_cache, "gfx942")
    key = hip_key(kernel, TEXT, chain, load_arch("gfx942"), headers=headers)
    # On a busy machine the clock's limit, which is ten times as long, may come first.
    with pytest.raises(KernelFailure, match=r"limit of 0\.(05 s of processor time|5 s from its start)"):
        build_hip(Cache(tmp_path / "cache", say_nothing), key, chain, headers=headers, timeout=0.05)


@pytest.mark.slow
@pytest.mark.ci
def test_an_installed_rocm_comes_first(
    shared_cache: Path, tmp_path: Path, kernel: KernelSpec, headers: dict[str, tuple[Path, str]]
) -> None:
    """With the cached root and the system's LLVM laid out as a ROCm, nothing is fetched or assembled."""
    here = toolchain_here(shared_cache, "gfx942")
    root = tmp_path / "rocm"
    shutil.copytree(here.rocm_path, root)
    (root / "lib").mkdir()
    (root / "lib" / "llvm").symlink_to(Path(here.argv0[0]).resolve().parent.parent)

    def no_parts() -> RocmParts:
        raise AssertionError("an installed ROCm needs no parts")

    environ = {**os.environ, "ROCM_PATH": str(root)}
    cache = Cache(tmp_path / "cache", say_nothing)
    chain = find_rocm(cache.layout.root, parts=RocmSupply("", no_parts), notify=say_nothing, environ=environ)
    assert (chain.kind, chain.rocm_path) == (RocmKind.ROCM, root)
    assert chain.argv0 == (str(root / "lib" / "llvm" / "bin" / "clang++"),)
    assert chain.headers_digest != here.headers_digest
    key = hip_key(kernel, TEXT, chain, load_arch("gfx942"), headers=headers)
    built = build_hip(cache, key, chain, headers=headers)
    assert [item.arch for item in code_objects(built.path.read_bytes())] == ["gfx942"]
    # With a changed header, the search reports a different compiler.
    (root / "include" / "hip" / "hip_fp16.h").write_text("#include <assert.h>\n#define NEW 1\n")
    again = find_rocm(cache.layout.root, parts=RocmSupply("", no_parts), notify=say_nothing, environ=environ)
    assert again.headers_digest != chain.headers_digest
