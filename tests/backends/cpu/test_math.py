"""exp2 and tanh in isolation, because a softmax would hide a wrong coefficient."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.building import compile_flags, machine_of
from fmha_cli.codegen.cpu.algorithm import Simd
from fmha_cli.codegen.cpu.parts import source_text
from fmha_cli.codegen.struct import ArgumentBlock, ConstPointer, Int64, Pointer, Rows, pack, struct_text
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.processor import machine_here
from fmha_cli.toolchain.cache.key import BuildKind, BuildSpec
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind
from tests.support.builds.arm_emulated import emulator

PROBE = """
extern "C" EXPORT void probe_exp2(const float* x, float* y, i64 n) {
  for (i64 i = 0; i < n; i += NL) vstore(y + i, vexp2(vload(x + i)));
}
extern "C" EXPORT void probe_tanh(const float* x, float* y, i64 n) {
  for (i64 i = 0; i < n; i += NL) vstore(y + i, vtanh(vload(x + i)));
}
extern "C" EXPORT void probe_short_tanh(const float* x, float* y, i64 n) {
  for (i64 i = 0; i < n; i += NL) vstore(y + i, tanh_by<true>(vload(x + i), SHORT_TANH));
}
extern "C" EXPORT void probe_near_tanh(const float* x, float* y, i64 n) {
  for (i64 i = 0; i < n; i += NL) vstore(y + i, vload(x + i) * near_tanh_by<false>(vload(x + i), NEAR_TANH));
}
extern "C" EXPORT void probe_short_near_tanh(const float* x, float* y, i64 n) {
  for (i64 i = 0; i < n; i += NL) vstore(y + i, vload(x + i) * near_tanh_by<true>(vload(x + i), SHORT_NEAR_TANH));
}
extern "C" EXPORT void probe_f16(const float* x, float* y, i64 n) {
  f16 half[NL];
  for (i64 i = 0; i < n; i += NL) vstore(half, vload(x + i)), vstore(y + i, vload(half));
}
extern "C" EXPORT void probe_f16_scalar(const float* x, float* y, i64 n) {
  f16 half;
  for (i64 i = 0; i < n; ++i) from_float(&half, x[i]), y[i] = to_float(half);
}
"""
SIMD = {"x86_64_v4": Simd.AVX512, "x86_64_v3": Simd.AVX2, "aarch64": Simd.NEON, "generic": Simd.GENERIC}
NAMES = ("exp2", "tanh", "short_tanh", "near_tanh", "short_near_tanh", "f16", "f16_scalar")
Array = npt.NDArray[Any]
Call = Callable[[str, Array], Array]
"""``call(name, x)``: one of the functions, of every element."""


class ProbeArgs(ArgumentBlock):
    """What a function takes: its n arguments and results."""

    rows: ClassVar[Rows] = ((ConstPointer, "x"), (Pointer, "y"), (Int64, "n"))


@pytest.fixture(
    scope="module", params=[pytest.param(a, marks=pytest.mark.slow if a == "aarch64" else ()) for a in SIMD]
)
def call(request: pytest.FixtureRequest, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Call:
    arch: str = request.param
    folder: Path = tmp_path_factory.mktemp(arch)
    parts = ["base.h", *SIMD[arch].headers, "scalars.h", "exp2.h", "vmath.h", "near_tanh.h"]
    entries = "".join(
        f'extern "C" EXPORT int probe_{n}_of(const {ProbeArgs.__name__}* a) {{\n'
        f"  probe_{n}((const float*)a->x, (float*)a->y, a->n);\n  return 0;\n}}\n"
        for n in NAMES
    )
    text = (
        "".join(source_text(p) for p in parts).replace("#if PAIRS", "#if 0") + PROBE + struct_text(ProbeArgs) + entries
    )
    launch: Callable[[str, ProbeArgs, dict[str, Array]], int]
    if machine_of(load_arch(arch)) in ("any", machine_here()):
        if arch not in backend.probe().devices[0].archs:
            pytest.skip(f"this machine does not run {arch}")
        (folder / "p.cpp").write_text(text)
        flags = compile_flags(load_arch(arch), ToolchainKind.GCC)
        subprocess.run(["c++", *flags, "p.cpp", "-o", "p.so"], cwd=folder, check=True)
        library = ctypes.CDLL(str(folder / "p.so"))

        def launch(entry: str, block: ProbeArgs, arrays: dict[str, Array]) -> int:
            return int(library[entry](ctypes.byref(pack(block))))
    elif arch == "aarch64":
        arm = emulator(shared_cache)
        spec = BuildSpec(BuildKind.HOST_LIBRARY, "tests:math", arch, {}, text)
        built = arm.library(spec, lambda tools: compile_flags(load_arch(arch), tools.kind))

        def launch(entry: str, block: ProbeArgs, arrays: dict[str, Array]) -> int:
            return arm.call(built, entry, block, arrays, folder)
    else:
        pytest.skip(f"nothing runs {arch} here")

    def call(name: str, x: Array) -> Array:
        x = np.ascontiguousarray(x, np.float32)
        padded = np.concatenate([x, np.zeros(-len(x) % 16, np.float32)])
        y = np.empty_like(padded)
        block = ProbeArgs(x=padded.ctypes.data, y=y.ctypes.data, n=len(padded))
        assert launch(f"{name}_of", block, {"x": padded, "y": y}) == 0
        return y[: len(x)]

    return call


@pytest.mark.sampled(1, ci="all")
def test_exp2_is_within_its_bound(call: Call) -> None:
    x = np.concatenate([np.linspace(-126, 0, 1_000_003), np.linspace(-1, 0.25, 500_009)]).astype(np.float32)
    exact = np.exp2(x.astype(np.float64))
    assert np.abs(call("probe_exp2", x) / exact - 1).max() <= 2.5e-7


def test_exp2_at_the_ends(call: Call) -> None:
    nan = np.array([0x7FC00001, 0xFFC12345], np.uint32).view(np.float32)
    y = call("probe_exp2", np.concatenate([[0, -np.inf, -1e30, -300, 1, -1], nan]))
    assert y[:6].tolist() == [1, 0, 0, 0, 2, 0.5]
    assert np.isnan(y[6:]).all()


@pytest.mark.parametrize(("name", "bound"), [("probe_tanh", 5e-7), ("probe_short_tanh", 2e-5)])
def test_tanh_is_within_its_bound(call: Call, name: str, bound: float) -> None:
    x = np.concatenate([np.linspace(-12, 12, 500_009), np.geomspace(1e-30, 1, 100_003)]).astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    y = call(name, x).astype(np.float64)
    some = x != 0
    assert np.abs(y[some] / exact[some] - 1).max() <= bound
    assert np.abs(y).max() <= 1 + bound
    ends = call(name, np.array([np.inf, -np.inf, np.nan, 0]))
    assert np.abs(ends[:2] - [1, -1]).max() <= max(bound, 1e-6)
    assert np.isnan(ends[2])
    assert ends[3] == 0


@pytest.mark.parametrize(
    ("name", "end", "bound"), [("probe_near_tanh", 0.6, 3e-7), ("probe_short_near_tanh", 0.4, 7e-6)]
)
def test_tanh_near_0_is_within_its_bound(call: Call, name: str, end: float, bound: float) -> None:
    x = np.concatenate([np.linspace(-end, end, 500_009), np.geomspace(1e-30, end, 100_003)]).astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    y = call(name, x).astype(np.float64)
    some = x != 0
    assert np.abs(y[some] / exact[some] - 1).max() <= bound
    assert np.isnan(call(name, np.array([np.nan]))).all()


@pytest.mark.parametrize("name", ["probe_f16", "probe_f16_scalar"])
def test_half_precision_rounds_to_nearest_even(call: Call, name: str) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    every = every[np.isfinite(every)]
    between = (np.sort(every)[1:] + np.sort(every)[:-1]) / 2
    x = np.concatenate([every, between, np.nextafter(between, np.float32(np.inf)), [1e-9, 65519, 65520, 1e9, -1e9]])
    with np.errstate(over="ignore"):
        exact = x.astype(np.float32).astype(np.float16).astype(np.float32)
    assert np.array_equal(call(name, x.astype(np.float32)), exact)
