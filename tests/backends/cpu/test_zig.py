"""zig, the compiler of last resort: every default kernel built and run here by it, and kernels for other systems."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.building import compile_flags
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind, zig_command
from fmha_cli.toolchain.process import TimeLimits, run_group
from tests.support.builds.compilers import kernels_run
from tests.support.generators.cpu.cases import kernel_of

ZIG = zig_command() or ()
pytestmark = [
    pytest.mark.skipif(not ZIG, reason="no ziglang package"),
    pytest.mark.xdist_group("zig"),  # the first compile for a system also compiles its C library
]
COMPILE_S = 600
TARGETS = {
    "x86_64-windows-gnu": b"MZ",
    "aarch64-macos": bytes.fromhex("cffaedfe"),
    "x86_64-macos": bytes.fromhex("cffaedfe"),
}
"""Target -> the first bytes of its libraries."""


def cross_compiled(target: str, arch: str, dtype: str, kind: str, folder: Path, text: str | None = None) -> Path:
    """A kernel's library for another system; or that of another text."""
    return by_zig(
        words_for(target, arch, text or emit(kernel_of(arch, dtype, kind)), folder), folder / "kernel.library"
    )


def words_for(target: str, arch: str, text: str, folder: Path) -> list[str]:
    """What zig is asked, as a kernel's build asks it."""
    (folder / "k.cpp").write_text(text, "utf-8")
    flags = [f for f in compile_flags(load_arch(arch), ToolchainKind.ZIG) if "windows" not in target or f != "-fPIC"]
    return ["-target", target, *flags, "k.cpp"]


def by_zig(words: Sequence[str], out: Path) -> Path:
    """What zig makes of the words. The limit is processor time: the first compile for a system is long on a busy machine."""
    with out.with_suffix(".log").open("wb") as log:
        command = [*ZIG, *words, "-o", str(out)]
        ended = run_group(
            command, cwd=out.parent, env=dict(os.environ), output=log, limits=TimeLimits.of_compile(COMPILE_S)
        )
    assert ended.returncode == 0, out.with_suffix(".log").read_text("utf-8", "replace")[-2000:]
    return out


@pytest.mark.promise("README: `pip install ziglang` provides one")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("arch", detect().archs)
def test_every_default_kernel_runs_as_built_by_zig(arch: str, dtype: str, shared_cache: Path) -> None:
    assert (
        len(kernels_run(shlex.join(ZIG), arch, dtype, shared_cache)) == 6
    )  # prefill, decode, split, combine, append, backward


SAMPLE = [
    ("x86_64-windows-gnu", "x86_64_v3", "fp32", "decode", bytes.fromhex("6486")),
    ("aarch64-macos", "aarch64", "bf16", "prefill", TARGETS["aarch64-macos"]),
    ("x86_64-macos", "generic", "fp16", "backward", TARGETS["x86_64-macos"]),
]
"""The last are the first bytes of object files. For a library, zig first builds the libraries of the system, for minutes."""
ALL = [
    (target, arch, dtype, kind)
    for target in TARGETS
    for arch in (("aarch64", "generic") if target.startswith("aarch64") else ("x86_64_v3", "x86_64_v4_bf16", "generic"))
    for dtype, kind in (("fp32", "prefill"), ("bf16", "decode"), ("fp16", "backward"))
]


def check_library(target: str, arch: str, dtype: str, kind: str, folder: Path) -> None:
    made = cross_compiled(target, arch, dtype, kind, folder).read_bytes()
    assert made.startswith(TARGETS[target])
    assert b"fmha_cpu_fwd" in made or b"fmha_cpu_bwd" in made


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(("target", "arch", "dtype", "kind", "first"), SAMPLE, ids=[row[0] for row in SAMPLE])
def test_a_sample_compiles_for_other_systems(
    target: str, arch: str, dtype: str, kind: str, first: bytes, tmp_path: Path
) -> None:
    words = words_for(target, arch, emit(kernel_of(arch, dtype, kind)), tmp_path)
    made = by_zig([*(word for word in words if word != "-shared"), "-c"], tmp_path / "kernel.o").read_bytes()
    assert made.startswith(first)
    assert b"fmha_cpu_fwd" in made or b"fmha_cpu_bwd" in made


@pytest.mark.slow
@pytest.mark.parametrize("asked", ALL, ids=lambda asked: "-".join(asked))
def test_kernels_compile_for_other_systems(asked: tuple[str, str, str, str], tmp_path: Path) -> None:
    check_library(*asked, tmp_path)
