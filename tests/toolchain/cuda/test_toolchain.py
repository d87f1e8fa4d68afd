"""The search for an NVIDIA GPU compiler: what it finds, what it remembers, and what it reports if there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, UsageError
from fmha_cli.toolchain.cuda import packages, probe, toolchain
from fmha_cli.toolchain.cuda.nvrtc import BUILTINS, LIBRARY
from fmha_cli.toolchain.cuda.packages import (
    ASSEMBLER,
    CCCL,
    COMPILER,
    RUNTIME,
    CudaHeaders,
    WheelProblem,
    packaged_headers,
    wheel,
)
from fmha_cli.toolchain.cuda.toolchain import (
    COMPILERS,
    NEWER_NVVM,
    CudaKind,
    find_cuda,
    find_nvcc,
    survey_cuda,
    with_ptxas,
)
from fmha_cli.toolchain.notice import Notice, NoticeKind
from tests.support.fakes.played_cuda import BIN, INCLUDE, LIB, VERSIONS, WITH_PTXAS, nvcc, site


@pytest.fixture(autouse=True)
def _no_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide any nvcc of this machine."""
    seen = probe.nvcc_candidates
    monkeypatch.setattr(
        toolchain, "nvcc_candidates", lambda: [p for p in seen() if not str(p).startswith(("/usr/", "/opt/"))]
    )
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def headers_of(folder: Path) -> CudaHeaders:
    """The headers of the wheels below a folder."""
    return packaged_headers(wheel(RUNTIME, [str(folder)]), wheel(CCCL, [str(folder)]))


def test_nvrtc_of_the_wheels(tmp_path: Path, shared_cache: Path, root: Path) -> None:
    there = site(tmp_path / "site", shared_cache)
    found = find_cuda(root, folders=[str(there.folder)])
    assert (found.kind, found.identity, found.version) == (CudaKind.NVRTC, "nvrtc", "NVRTC 13.0.48")
    assert found.capabilities == (80, 90, 100)
    assert found.places == {
        "nvrtc_library": str(there.folder / LIB),
        "cuda": str(there.folder / INCLUDE),
        "cccl": str(there.folder / INCLUDE / "cccl"),
    }
    assert len(there.calls) == 1
    assert there.calls[0].startswith("fmha.cu ")


def test_what_was_proven_is_remembered(
    tmp_path: Path, shared_cache: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = site(tmp_path / "site", shared_cache)
    first = find_cuda(root, folders=[str(there.folder)])
    with monkeypatch.context() as patched:
        patched.setattr(probe, "ask", lambda *_, **__: pytest.fail("a compiler was started"))
        patched.setattr(packages, "sha256_of", lambda path: pytest.fail(f"{path} was hashed"))
        assert find_cuda(root, folders=[str(there.folder)]) == first
    os.utime(there.folder / LIB / LIBRARY, ns=(1, 1))
    assert find_cuda(root, folders=[str(there.folder)]) == first
    assert len(there.calls) == 2  # a changed library is queried again


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("name", ["cuda_fp16.h", "cccl/cuda/std/tuple", "cccl/nv/target"])
def test_headers_are_part_of_the_key(tmp_path: Path, shared_cache: Path, root: Path, name: str) -> None:
    there = site(tmp_path / "site", shared_cache)
    first = find_cuda(root, folders=[str(there.folder)])
    (there.folder / INCLUDE / name).write_text("// changed\n")
    other = find_cuda(root, folders=[str(there.folder)])
    assert other.headers_digest != first.headers_digest
    assert other.version == first.version


def test_headers_elsewhere_are_the_same_headers(tmp_path: Path, shared_cache: Path, root: Path) -> None:
    digests = {headers_of(site(tmp_path / name, shared_cache).folder).digest for name in ("one", "two")}
    assert len(digests) == 1


def test_what_no_kernel_includes_does_not_count(tmp_path: Path, shared_cache: Path, root: Path) -> None:
    there = site(tmp_path / "site", shared_cache)
    first = headers_of(there.folder)
    (there.folder / INCLUDE / "cccl/thrust/sort.h").write_text("// changed\n")
    (there.folder / INCLUDE / "of_another_wheel.h").write_text("// new\n")
    assert headers_of(there.folder) == first


def test_a_header_that_is_gone(tmp_path: Path, shared_cache: Path, root: Path) -> None:
    there = site(tmp_path / "site", shared_cache)
    (there.folder / INCLUDE / "vector_types.h").unlink()
    with pytest.raises(WheelProblem, match=r"vector_types\.h is missing"):
        headers_of(there.folder)


def test_ptxas_of_the_wheel(tmp_path: Path, shared_cache: Path, root: Path) -> None:
    """NVRTC's toolchain with another assembler has another name, another version and another key."""
    folders = [str(site(tmp_path / "site", shared_cache, WITH_PTXAS).folder)]
    plain, found = find_cuda(root, folders=folders), find_cuda(root, folders=folders, wished="nvrtc+ptxas")
    assert found == with_ptxas(plain, root, folders=folders)
    assert (found.kind, found.identity, found.version) == (
        CudaKind.NVRTC,
        "nvrtc+ptxas",
        "NVRTC 13.0.48, ptxas 13.0.88",
    )
    assert found.places["ptxas"] == str(tmp_path / "site" / BIN / "ptxas") == str(found.ptxas)
    assert plain.ptxas is None


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("fault", ["missing", "release", "empty", "silent", "forbidden"])
def test_without_ptxas(tmp_path: Path, shared_cache: Path, root: Path, fault: str) -> None:
    versions = VERSIONS if fault == "missing" else WITH_PTXAS | ({ASSEMBLER: "13.5.37"} if fault == "release" else {})
    there = site(tmp_path / "site", shared_cache, versions)
    program = there.folder / BIN / "ptxas"
    if fault == "empty":
        record = there.folder / "nvidia_cuda_nvcc-13.0.88.dist-info" / "RECORD"
        record.write_text(record.read_text().replace("bin/ptxas", "bin/nvlink"))
    elif fault == "silent":
        program.write_text("#!/bin/sh\n")
    elif fault == "forbidden":
        program.chmod(0o644)
    with pytest.raises(EnvironmentProblem) as caught:
        find_cuda(root, folders=[str(there.folder)], wished="nvrtc+ptxas")
    assert (caught.value.code, caught.value.exit_code) == ("B052", ExitCode.ENVIRONMENT)
    said = {
        "missing": "nvidia-cuda-nvcc is not installed",
        "release": "nvidia-cuda-nvcc is 13.5.37, not 13.0.*",
        "empty": "nvidia-cuda-nvcc 13.0.88 holds no ptxas",
        "silent": "does not report its version",
        "forbidden": "cannot be started",
    }
    assert said[fault] in (caught.value.why or "")
    assert "pip install 'fmha[cuda]'" in (caught.value.help or "")


@pytest.mark.parametrize("missing", [COMPILER, RUNTIME, CCCL])
def test_a_missing_wheel(tmp_path: Path, shared_cache: Path, root: Path, missing: str) -> None:
    there = site(tmp_path / "site", shared_cache, {k: v for k, v in VERSIONS.items() if k != missing})
    with pytest.raises(EnvironmentProblem) as caught:
        find_cuda(root, folders=[str(there.folder)])
    assert (caught.value.code, caught.value.exit_code) == ("B050", ExitCode.ENVIRONMENT)
    assert f"nvrtc: {missing} is not installed" in (caught.value.why or "")
    assert "pip install 'fmha[cuda]'" in (caught.value.help or "")


@pytest.mark.parametrize("name", [COMPILER, RUNTIME, CCCL])
def test_a_wheel_of_another_release(tmp_path: Path, shared_cache: Path, root: Path, name: str) -> None:
    there = site(tmp_path / "site", shared_cache, VERSIONS | {name: "13.3.27"})
    with pytest.raises(EnvironmentProblem) as caught:
        find_cuda(root, folders=[str(there.folder)])
    assert f"{name} is 13.3.27, not 13.0.*" in (caught.value.why or "")
    assert "pip install 'fmha[cuda]'" in (caught.value.help or "")


def test_a_library_that_does_not_load(tmp_path: Path, shared_cache: Path, root: Path) -> None:
    there = site(tmp_path / "site", shared_cache)
    (there.folder / LIB / BUILTINS).write_bytes(b"no library")
    with pytest.raises(EnvironmentProblem, match="no compiler for NVIDIA GPUs") as caught:
        find_cuda(root, folders=[str(there.folder)])
    assert "does not load" in (caught.value.why or "")


def test_a_library_that_gives_ptx(tmp_path: Path, shared_cache: Path, root: Path) -> None:
    there = site(tmp_path / "site", shared_cache)
    (there.folder / LIB / "default.cubin").write_bytes(b"//\n.version 9.0\n.target sm_90\n")
    with pytest.raises(EnvironmentProblem) as caught:
        find_cuda(root, folders=[str(there.folder)])
    assert "gave PTX instead of a cubin" in (caught.value.why or "")


def test_nvcc_where_nvrtc_cannot(
    tmp_path: Path, shared_cache: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Notice] = []
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    program = nvcc(tmp_path / "cuda")
    found = find_cuda(root, notify=said.append, folders=[])
    assert (found.kind, found.path, found.version) == (CudaKind.NVCC, program, "nvcc 13.0.88")
    assert (found.capabilities, found.identity, found.places) == ((80, 90, 100), "nvcc", {"nvcc": str(program)})
    assert [notice.kind for notice in said] == [NoticeKind.TOOLCHAIN]
    assert str(program) in said[0].text
    assert "nvidia-cuda-nvrtc is not installed" in said[0].text
    assert find_nvcc(root) == found
    (tmp_path / "cuda" / "header.h").write_text("// changed\n")
    other = find_nvcc(root)
    assert other is not None
    assert other.headers_digest != found.headers_digest


def test_nvrtc_comes_before_nvcc(
    tmp_path: Path, shared_cache: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    nvcc(tmp_path / "cuda")
    there = site(tmp_path / "site", shared_cache)
    assert [finding.candidate for finding in survey_cuda(root, folders=[str(there.folder)])] == [CudaKind.NVRTC]


def test_an_nvcc_that_does_not_work(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))
    nvcc(tmp_path / "cuda").write_text("#!/bin/sh\necho 'nvcc: error: out of order'; exit 1\n")
    with pytest.raises(EnvironmentProblem) as caught:
        find_cuda(root, folders=[])
    assert "out of order" in (caught.value.why or "")
    assert find_nvcc(root) is None


def test_a_compiler_by_name(tmp_path: Path, shared_cache: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    nvcc(tmp_path / "cuda")
    where = [str(site(tmp_path / "site", shared_cache, WITH_PTXAS).folder)]
    found = {name: find_cuda(root, folders=where, wished=name) for name in COMPILERS}
    assert [(chain.kind, chain.extra) for chain in found.values()] == list(COMPILERS.values())
    assert find_cuda(root, folders=where) == found["nvrtc"]
    with pytest.raises(EnvironmentProblem) as caught:
        find_cuda(root, folders=[], wished=NEWER_NVVM)  # the available nvcc is not the requested compiler
    assert caught.value.code == "B050"
    with pytest.raises(UsageError, match="clang"):
        find_cuda(root, folders=where, wished="clang")
