"""Where, and in which order, the search looks for HIP compilers. It starts none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fmha_cli.toolchain.rocm import candidates as module
from fmha_cli.toolchain.rocm import installed
from fmha_cli.toolchain.rocm.candidates import RocmKind, candidates, rocm_compiler, rocm_roots
from fmha_cli.toolchain.rocm.installed import installed_roots, runtimes


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def rocm(root: Path, compiler: str | None = "lib/llvm/bin/clang++") -> Path:
    header = root / "include" / "hip" / "hip_version.h"
    header.parent.mkdir(parents=True)
    header.write_text("")
    if compiler:
        program(root / compiler)
    return root


@pytest.fixture(autouse=True)
def _no_installed_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide anything that this machine has in /opt and in site-packages."""
    real = module.installed_roots
    monkeypatch.setattr(module, "installed_roots", lambda environ: [p for p in real(environ) if "/opt/" not in str(p)])
    monkeypatch.setattr(installed, "_WHEELS", ("_rocm_of_these_tests",))


def found(path: str = "/nonexistent", **environ: str) -> list[tuple[str, RocmKind, bool]]:
    return [(c.argv0[0], c.kind, c.wished) for c in candidates({"PATH": path, **environ})]


def test_nothing_is_there() -> None:
    assert found() == []


def test_the_order(tmp_path: Path) -> None:
    root = rocm(tmp_path / "rocm")
    for name in ("clang++", "clang++-9", "clang++-18", "clang++-19", "clang++-22", "clang++-101", "clang++-x"):
        program(tmp_path / "bin" / name)
    mine = program(tmp_path / "mine" / "hipcc")
    names = found(str(tmp_path / "bin"), ROCM_PATH=str(root), FMHA_HIPCC=str(mine))
    assert names == [
        (str(mine), RocmKind.CLANG, True),
        (str(root / "lib/llvm/bin/clang++"), RocmKind.ROCM, False),
        *((str(tmp_path / "bin" / f"clang++{n}"), RocmKind.CLANG, False) for n in ("-101", "-22", "-19", "")),
    ]


def test_a_program_by_two_names_is_given_once(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "clang++-22")
    (tmp_path / "bin" / "clang++").symlink_to("clang++-22")
    assert len(found(str(tmp_path / "bin"))) == 1


@pytest.mark.parametrize(
    "compiler", ["lib/llvm/bin/clang++", "llvm/bin/clang++", "lib64/rocm/llvm/bin/clang++", "bin/hipcc"]
)
def test_compilers_of_rocm(tmp_path: Path, compiler: str) -> None:
    root = rocm(tmp_path / "rocm", compiler)
    assert found(ROCM_PATH=str(root)) == [(str(root / compiler), RocmKind.ROCM, False)]


def test_the_rocm_behind_hipcc_on_the_path(tmp_path: Path) -> None:
    root = rocm(tmp_path / "rocm-6")
    program(root / "bin" / "hipcc")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hipcc").symlink_to(root / "bin" / "hipcc")
    assert rocm_roots({"PATH": str(tmp_path / "bin")}) == [root]


def test_a_rocm_without_headers_is_none(tmp_path: Path) -> None:
    program(tmp_path / "rocm" / "bin" / "hipcc")
    assert rocm_roots({"ROCM_PATH": str(tmp_path / "rocm"), "PATH": ""}) == []


def test_a_wished_compiler_below_a_rocm_uses_that_one(tmp_path: Path) -> None:
    root = rocm(tmp_path / "rocm", None)
    compiler = program(root / "somewhere" / "clang++")
    (candidate,) = candidates({"PATH": "/nonexistent", "FMHA_HIPCC": f"{compiler} --extra"})
    assert candidate.kind is RocmKind.ROCM
    assert candidate.rocm == root
    assert candidate.argv0 == (str(compiler), "--extra")


def test_a_wished_compiler_that_is_not_there() -> None:
    (candidate,) = candidates({"PATH": "/nonexistent", "FMHA_HIPCC": "hipcc-9000"})
    assert not candidate.found
    assert candidate.wished


def test_a_file_that_is_no_program_is_left_out(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "clang++-22").chmod(0o644)
    assert os.path.isfile(tmp_path / "bin" / "clang++-22")
    assert found(str(tmp_path / "bin")) == []


def test_hip_path_counts_like_rocm_path(tmp_path: Path) -> None:
    mine, other = rocm(tmp_path / "mine"), rocm(tmp_path / "other")
    environ = {"HIP_PATH": str(mine), "ROCM_PATH": str(other), "PATH": ""}
    assert rocm_roots(environ) == [other, mine]
    assert [path for path, *_ in found(HIP_PATH=str(mine))] == [str(rocm_compiler(mine))]


def wheel(site: Path, name: str, *libraries: str) -> Path:
    """A wheel of ROCm as pip unpacks it: a package with the folders of a ROCm, and no links."""
    (site / name / "lib").mkdir(parents=True)
    (site / name / "__init__.py").write_text("raise RuntimeError('a search imports nothing')\n")
    for library in libraries:
        (site / name / "lib" / library).write_text("")
    return site / name


def test_wheels_in_site_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_WHEELS", ("_rocm_of_these_tests_devel", "_rocm_of_these_tests"))
    core = wheel(tmp_path, "_rocm_of_these_tests", "libamdhip64.so.7", "libamdhip64.so.7.txt")
    devel = rocm(tmp_path / "_rocm_of_these_tests_devel")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [root for root in installed_roots({"PATH": ""}) if root.is_relative_to(tmp_path)] == [devel, core]
    assert runtimes(core)[0] == core / "lib" / "libamdhip64.so.7"
    assert [path for path, *_ in found()] == [str(rocm_compiler(devel))]


def test_the_newest_runtime_of_a_folder_comes_first(tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    for name in (
        "libamdhip64.so.6",
        "libamdhip64.so.10",
        "libamdhip64.so.7.1.25424",
        "libamdhip64.so.7",
        "libhip.so.11",
    ):
        (lib / name).write_text("")
    assert [path.name.partition(".so.")[2] for path in runtimes(tmp_path)] == ["10", "7.1.25424", "7", "6"]
    (lib / "libamdhip64.so").symlink_to("libamdhip64.so.6")
    assert runtimes(tmp_path)[0] == lib / "libamdhip64.so"
