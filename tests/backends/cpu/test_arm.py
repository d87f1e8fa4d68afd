"""AArch64 kernels, executed under qemu-user: results on seeded random problems over the whole surface.

A small program for AArch64 loads a library as ``fmha build`` makes it, reads the argument block and the buffers, and calls the
kernel. It says nothing about speed.
"""

from __future__ import annotations

import signal
import subprocess
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from fmha_cli.backends.cpu.building import compile_flags
from fmha_cli.backends.cpu.inspection import inspect_library
from fmha_cli.backends.cpu.peaks import build_peak_loops
from fmha_cli.codegen.abi import part_floats
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.store import Cache
from fmha_cli.toolchain.cpp.find import cross_search
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind, zig_command
from fmha_cli.toolchain.elf import machine_of_file
from tests.backends.cpu.test_append import Appended
from tests.backends.cpu.test_backward import LONG
from tests.support.builds.arm_emulated import Emulator, emulator
from tests.support.builds.planted_cpu import planted
from tests.support.generators.cpu.backward_cases import (
    DTYPES,
    BackwardCase,
    backward_arguments,
    backward_complaints,
    make_backward,
    random_backward,
)
from tests.support.generators.cpu.cases import AttentionCase, arguments, complaints, kernel_of, make_data, random_case
from tests.support.generators.cpu.extreme_cases import EXTREMES, SHOWN_BY, extreme_case
from tests.support.models.faults import ExtremeFault, Fault

ARCHS = ("aarch64", "aarch64_bf16", "generic")
KINDS = ("prefill", "decode", "backward")
EACH, SAMPLE = 24, 3
SAMPLED = [
    *(("aarch64", "fp32", "prefill"), ("aarch64", "bf16", "decode"), ("aarch64", "fp16", "backward")),
    *(("aarch64_bf16", "bf16", "prefill"), ("aarch64_bf16", "bf16", "backward")),
]
"""Every kind, dtype and register tile, once."""


@pytest.fixture(scope="session")
def arm(shared_cache: Path) -> Emulator:
    return emulator(shared_cache)


def check(arm: Emulator, arch: str, dtype: str, kind: str, seeds: range, work: Path) -> None:
    kernel = kernel_of(arch, dtype, kind)
    library = arm.build(kernel)
    for seed in seeds:
        rng = np.random.default_rng([seed, len(arch), len(dtype), len(kind)])
        if kind == "backward":
            case = random_backward(rng, dtype)
            make_backward(case, rng)
            assert arm.run(kernel, library, backward_arguments(case), case.data, work) == 0
            found = backward_complaints(case)
        else:
            plain = random_case(rng, dtype, few_rows=kind == "decode")
            make_data(plain, rng)
            assert arm.run(kernel, library, arguments(plain), plain.data, work) == 0
            case, found = plain, complaints(plain)
        assert found == [], f"seed {seed}: {case}"


@pytest.mark.promise("README: C++ of this project")
@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize(("arch", "dtype", "kind"), SAMPLED)
def test_sample(arm: Emulator, arch: str, dtype: str, kind: str, tmp_path: Path) -> None:
    check(arm, arch, dtype, kind, range(SAMPLE), tmp_path)


@pytest.mark.promise("Kernels for Arm are built by a cross compiler, and pass under an emulator.")
@pytest.mark.ci
@pytest.mark.slow
def test_a_planted_fault_is_seen(arm: Emulator, tmp_path: Path) -> None:
    """The same problem with a kernel that drops the last key: the comparison would notice a wrong Arm kernel."""
    kernel, case = kernel_of("aarch64", "fp32", "prefill"), AttentionCase("fp32")
    make_data(case, np.random.default_rng(0))
    for fault, wrong in ((None, False), (Fault.LAST_KEY_DROPPED, True)):
        assert arm.run(kernel, arm.build(kernel, planted(kernel, fault)), arguments(case), case.data, tmp_path) == 0
        assert (complaints(case) != []) == wrong


@pytest.mark.ci
@pytest.mark.slow
def test_a_processor_without_bf16_is_no_place_for_its_kernels(arm: Emulator, tmp_path: Path) -> None:
    """A negative test of the emulator too: it does not execute what the processor lacks."""
    old, case = arm.on("cortex-a76"), AttentionCase("bf16")
    make_data(case, np.random.default_rng(0))
    statuses = {}
    for arch in ("aarch64", "aarch64_bf16"):
        kernel = kernel_of(arch, "bf16", "prefill")
        statuses[arch] = old.run(kernel, arm.build(kernel), arguments(case), case.data, tmp_path)
    assert statuses == {"aarch64": 0, "aarch64_bf16": -signal.SIGILL}


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"left": 300, "right": 10, "hdim": 64, "hdim_v": 80},
        {"left": 100, "sink": 500, "heads": 4, "right": 3},
        {"softcap": 5.0, "alibi": 1, "with_lse": False},
        {"bias": (1, 1), "dbias": True, "heads": 4, "dropout": 0.3, "hdim": 7, "hdim_v": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize(("arch", "dtype"), [("aarch64", "fp32"), ("aarch64_bf16", "bf16")])
def test_many_blocks_of_keys(arm: Emulator, arch: str, dtype: str, change: dict[str, object], tmp_path: Path) -> None:
    case = replace(LONG, dtype=dtype, data={}, **change)
    make_backward(case, np.random.default_rng(5))
    kernel = kernel_of(arch, dtype, "backward")
    assert arm.run(kernel, arm.build(kernel), backward_arguments(case), case.data, tmp_path) == 0
    assert backward_complaints(case) == []
    for kind in ("prefill", "decode"):
        plain = replace(AttentionCase(**{f.name: getattr(case, f.name) for f in fields(AttentionCase)}), data={})
        if kind == "decode":
            plain = replace(plain, q_len=(11,))
        make_data(plain, np.random.default_rng(6))
        kernel = kernel_of(arch, dtype, kind)
        assert arm.run(kernel, arm.build(kernel), arguments(plain), plain.data, tmp_path) == 0
        assert complaints(plain) == [], kind


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["aarch64", "aarch64_bf16"])
def test_peak_loops_build(arm: Emulator, arch: str) -> None:
    built = build_peak_loops(DeviceFacts(id="cpu", archs=(arch,)), BuildContext(cache_root=arm.cache))
    assert machine_of_file(built.path) == "aarch64"
    counts = inspect_library(built.path)["instructions"]
    assert isinstance(counts, dict)
    assert {name for name in ("fmla", "bfdot") if counts.get(name, 0) >= 24} >= {"fmla"} | (
        {"bfdot"} if arch == "aarch64_bf16" else set()
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_split_keys(arm: Emulator, arch: str, dtype: str, tmp_path: Path) -> None:
    """The split kernel's parts, NaN before, and the combine kernel's rows."""
    for seed in range(6):
        rng = np.random.default_rng([seed, len(dtype), 98])
        case = replace(random_case(rng, dtype, few_rows=True), splits=(1, 2, 3, 64)[seed % 4])
        make_data(case, rng)
        floats = part_floats(max(case.q_len) * (case.heads // case.kv_heads), case.hdim_v)
        parts = np.full(case.batch * case.kv_heads * case.splits * floats, np.nan, np.float32)
        block = replace(arguments(case), parts=parts.ctypes.data, part_floats=floats)
        for kernel in (kernel_of(arch, dtype, kind) for kind in ("split", "combine")):
            assert arm.run(kernel, arm.build(kernel), block, {**case.data, "parts": parts}, tmp_path) == 0
        assert complaints(case) == [], f"seed {seed}: {case}"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_appended_keys(arm: Emulator, arch: str, dtype: str, tmp_path: Path) -> None:
    kernel = kernel_of(arch, dtype, "append")
    for page, rotary, interleaved in ((0, 0, False), (1, 8, False), (16, 8, True), (0, 20, True)):
        case = Appended(dtype, page, rotary, interleaved)
        before, block = {name: array.copy() for name, array in case.data.items()}, case.block()
        arrays = {**case.data, "lengths": case.lengths, "table": case.table}
        assert arm.run(kernel, arm.build(kernel), block, arrays, tmp_path) == 0
        assert case.wrong(before) == [], case


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_hidden_numbers_do_not_leak(arm: Emulator, arch: str, dtype: str, tmp_path: Path) -> None:
    """Keys that no row sees are NaN or infinite."""
    for kind in ("prefill", "decode"):
        kernel = kernel_of(arch, dtype, kind)
        for hdim in (64, 33):
            case = AttentionCase(
                dtype, q_len=(7,), k_len=(100,), capacity=100, hdim=hdim, hdim_v=hdim, left=20, right=0, sink=4
            )
            make_data(case, np.random.default_rng(hdim))
            for name, value in (("k", np.nan), ("v", np.inf)):
                case.data[name][:, :, 4:73] = value
            assert arm.run(kernel, arm.build(kernel), arguments(case), case.data, tmp_path) == 0
            assert np.isfinite(case.data["o"].astype(np.float32)).all()
            assert complaints(case) == [], (kind, hdim)


def extreme(
    arm: Emulator, arch: str, kind: str, case: AttentionCase, work: Path, fault: ExtremeFault | None = None
) -> list[str]:
    """What the formula says against a launch."""
    if isinstance(case, BackwardCase):
        kernel = kernel_of(arch, case.dtype, kind)
        assert (
            arm.run(kernel, arm.build(kernel, planted(kernel, fault)), backward_arguments(case), case.data, work) == 0
        )
        return backward_complaints(case)
    floats = part_floats(max(case.q_len) * (case.heads // case.kv_heads), case.hdim_v)
    parts = np.full(case.batch * case.kv_heads * max(case.splits, 1) * floats, np.nan, np.float32)
    block = replace(arguments(case), parts=parts.ctypes.data, part_floats=floats) if case.splits else arguments(case)
    for name in ("split", "combine") if case.splits else (kind,):
        kernel = kernel_of(arch, case.dtype, name)
        assert (
            arm.run(kernel, arm.build(kernel, planted(kernel, fault)), block, {**case.data, "parts": parts}, work) == 0
        )
    return complaints(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "dtype", "kind"),
    [
        pytest.param(
            *case, marks=pytest.mark.ci if case[:2] == ("aarch64_bf16", "bf16") and case[2] != "backward" else ()
        )
        for case in product(ARCHS, DTYPES, (*KINDS, "split"))
    ],
)
def test_extremes(arm: Emulator, arch: str, dtype: str, kind: str, tmp_path: Path) -> None:
    """CI leaves the backward pass, which takes qemu five seconds, to the slow suite."""
    wrong = {str(e): extreme(arm, arch, kind, extreme_case(e, dtype, kind), tmp_path) for e in EXTREMES}
    assert {name: said for name, said in wrong.items() if said} == {}


@pytest.mark.slow
@pytest.mark.parametrize("fault", ExtremeFault)
@pytest.mark.parametrize("kind", [*KINDS, "split"])
@pytest.mark.parametrize(("arch", "dtype"), [("aarch64", "fp32"), ("aarch64_bf16", "bf16")])
def test_faults_of_extremes_show(
    arm: Emulator, arch: str, dtype: str, kind: str, fault: ExtremeFault, tmp_path: Path
) -> None:
    assert extreme(arm, arch, kind, extreme_case(SHOWN_BY[fault], dtype, kind), tmp_path, fault) != []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("arch", "dtype"), [("aarch64", "fp32"), ("aarch64_bf16", "bf16")])
@pytest.mark.parametrize("compiler", [ToolchainKind.CLANG, ToolchainKind.ZIG])
def test_another_compiler(
    arm: Emulator, compiler: str, arch: str, dtype: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = cross_search("aarch64", Cache(arm.cache).layout)
    tools = [search.examine(candidate).toolchain for candidate in search.candidates]
    found = next((one for one in tools if one is not None and one.kind is compiler), None)
    if found is None:
        pytest.skip(f"no {compiler} that builds for AArch64")
    monkeypatch.setenv("FMHA_CXX_AARCH64", found.identity)
    check(arm, arch, dtype, kind, range(500, 506), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("arch", "dtype"), [("aarch64", "fp32"), ("aarch64_bf16", "bf16")])
def test_kernels_compile_for_macos(arch: str, dtype: str, kind: str, tmp_path: Path) -> None:
    """zig has Apple's headers. Without OpenMP; nothing here runs the result."""
    zig = zig_command()
    if zig is None:
        pytest.skip("no ziglang package")
    (tmp_path / "k.cpp").write_text(emit(kernel_of(arch, dtype, kind)))
    flags = compile_flags(load_arch(arch), ToolchainKind.ZIG)
    command = [*zig, "-target", "aarch64-macos", *flags, "k.cpp", "-o", "k.dylib"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=600)
    assert (tmp_path / "k.dylib").read_bytes()[:4] == bytes.fromhex("cffaedfe"), "no 64-bit Mach-O file"


@pytest.mark.promise("Kernels for Arm are built by a cross compiler, and pass under an emulator.")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
def test_many(arm: Emulator, arch: str, dtype: str, kind: str, tmp_path: Path) -> None:
    check(arm, arch, dtype, kind, range(1000, 1000 + EACH), tmp_path)
