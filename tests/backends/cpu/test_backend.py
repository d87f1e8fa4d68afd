"""The CPU backend's answers: kernels, rules, decisions, facts of the machine, flags."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from fmha_cli.backends.cpu import arch_detect, backend
from fmha_cli.backends.cpu.arch_detect import ARCHS, VARIABLE, cpu_flags, find_accepted, take_for
from fmha_cli.backends.cpu.building import compile_flags, kernel_flags, machine_of
from fmha_cli.backends.cpu.inspection import summarise
from fmha_cli.backends.cpu.kernels import algorithm_of, cpu_kernels
from fmha_cli.codegen.cpu.algorithm import CpuAlgorithm, LoopKind
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.kernel import parse_kernel
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.toolchain.cpp.toolchain import ToolchainKind

AT_START = os.environ.get(VARIABLE)
DEVICE = DeviceFacts(id="cpu", archs=ARCHS)
KERNELS = [kernel for arch in ARCHS for kernel in cpu_kernels(load_arch(arch))]


def best(line: str) -> Supported:
    return min(
        (d for d in backend.decide(Problem.from_cli(line), DEVICE) if isinstance(d, Supported)), key=lambda d: d.rank
    )


def reason_ids(line: str) -> set[str]:
    decisions = list(backend.decide(Problem.from_cli(line), DEVICE))
    assert decisions
    assert all(isinstance(d, Unsupported) for d in decisions)
    return {r.id for d in decisions if isinstance(d, Unsupported) for r in d.reasons if r.hint}


def test_it_is_a_backend() -> None:
    assert isinstance(backend, Backend)
    assert backend.probe().devices[0].archs[-1] == "generic"


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.arch}-{k.digest[:8]}")
def test_names_read_back(kernel: object) -> None:
    assert parse_kernel(kernel.name, {"cpu": CpuAlgorithm}) == kernel  # type: ignore[attr-defined]


def test_few_kernels_and_all_different() -> None:
    assert len({k.digest for k in KERNELS}) == len(KERNELS) == 210


@pytest.mark.parametrize(
    ("line", "arch", "kind"),
    [
        ("-s 4096 -d 128 --dtype bf16 --causal", "x86_64_amx", LoopKind.PREFILL),
        ("-s 16 --seqlen-k 8192 -H 8 --dtype bf16", "x86_64_amx", LoopKind.DECODE),
        ("-s 1 --seqlen-k 8192 -H 48 --kv-heads 8 --dtype bf16", "x86_64_amx", LoopKind.DECODE),
        ("-s 1 --seqlen-k 8192 -H 40 --kv-heads 8 --dtype bf16", "x86_64_v4", LoopKind.DECODE),
        ("-s 1 --seqlen-k 8192 -H 40 --kv-heads 8 --dtype bf16 --splits 3", "x86_64_v4", LoopKind.SPLIT),
        ("-s 2 --seqlen-k 8192 -H 40 --kv-heads 8 --dtype bf16 --splits 3", "x86_64_amx", LoopKind.SPLIT),
        ("-s 1 --seqlen-k 8192 -H 64 --kv-heads 8 --dtype fp16", "x86_64_v4_bf16", LoopKind.DECODE),
        ("-s 8 --kv-cache paged:16 --cache-seqlens 8k --dtype bf16 --kv-dtype int8", "x86_64_amx", LoopKind.DECODE),
        ("-s 7 --kv-cache paged:16 --cache-seqlens 8k --dtype bf16 --kv-dtype int8", "x86_64_v4_bf16", LoopKind.DECODE),
        ("-s 100 --kv-cache paged:1 --cache-seqlens 8k --append 100 --dtype bf16", "x86_64_amx", LoopKind.PREFILL),
        ("-s 1 --seqlen-k 8192 -H 32 --kv-heads 8 --dtype fp16", "x86_64_v4_bf16", LoopKind.DECODE),
        ("-s 16 --seqlen-k 8192 -H 32 --kv-heads 8 --dtype fp32", "x86_64_v4_bf16", LoopKind.DECODE),
        ("-s 16 --seqlen-k 8192 -H 64 --kv-heads 8 --dtype fp32", "x86_64_v4_bf16", LoopKind.DECODE),
        ("-s 16 --seqlen-k 8192 -H 72 --kv-heads 8 --dtype fp32", "x86_64_v4_bf16", LoopKind.PREFILL),
        ("-s 17 --seqlen-k 8192 -H 8 --dtype fp32", "x86_64_v4_bf16", LoopKind.PREFILL),
        ("-s 1 --seqlen-k 64 -H 2 --dtype fp32 --splits 4 --softcap 3 --dropout 0.1", "x86_64_v4_bf16", LoopKind.SPLIT),
        ("-s 1 --kv-cache paged:16 --cache-seqlens 8k --dtype bf16", "x86_64_v4", LoopKind.DECODE),
        ("-s 100 --kv-cache paged:1 --cache-seqlens 8k --append 100", "x86_64_v4_bf16", LoopKind.PREFILL),
        (
            "-s 9 --kv-cache paged:7 --cache-seqlens 500 --append 9 --rotary 64 --splits 2",
            "x86_64_v4_bf16",
            LoopKind.SPLIT,
        ),
        ("-s 1 --kv-cache paged:16 --cache-seqlens 8k --dtype bf16 --kv-dtype int8", "x86_64_v4_bf16", LoopKind.DECODE),
        ("-s 64 --kv-cache linear --dtype bf16 --kv-dtype fp8_e4m3 --qscale head", "x86_64_amx", LoopKind.PREFILL),
        ("-s 64 --dtype fp8_e4m3:bf16 --qscale tensor", "x86_64_amx", LoopKind.PREFILL),
        ("-s 1 --dtype fp8_e5m2:fp32 --qscale kv-block --fp8-encoding fnuz", "x86_64_amx", LoopKind.PREFILL),
        ("-s 1 --seqlen-k 64 -H 2 --dtype bf16 --direction bwd", "x86_64_amx", LoopKind.BACKWARD),
        ("-s 64 -H 2 --dtype fp16 --direction bwd", "x86_64_v4_bf16", LoopKind.BACKWARD),
        ("-s 64 -H 2 --dtype bf16 --direction fwd+bwd", "x86_64_amx", LoopKind.BACKWARD),
        ("-s 64 -H 2 --bias elementwise --direction bwd --dbias --deterministic", "x86_64_v4_bf16", LoopKind.BACKWARD),
        ("-s 64 -H 2 --direction fwd+bwd --splits 1", "x86_64_v4_bf16", LoopKind.BACKWARD),
    ],
)
def test_the_best_kernel(line: str, arch: str, kind: LoopKind) -> None:
    chosen = best(line).kernel
    assert (chosen.arch, getattr(chosen.algorithm, "kind", None)) == (arch, kind)


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        ("-s 64 -H 2 --direction bwd --splits 3", {"K017"}),
        ("-s 64 --direction bwd --dropout 0.5 --offset 4294967296", {"K102"}),
        ("-s 129 -H 2 --direction fwd+bwd --splits 3", {"K017", "K103"}),
        ("-s 64 --direction fwd+bwd --dtype fp8_e4m3 -d 600", {"K001", "K012"}),
        ("-s 64 --dtype fp8_e4m3 --direction bwd", {"K001"}),
        ("-s 64 --dtype fp8_e4m3:bf16 --kv-cache linear --append 1", {"K015"}),
        ("-s 64 --dtype fp8_e4m3:bf16 --splits 2", {"K017"}),
        ("-s 64 --dtype fp8_e5m2:bf16 --bias elementwise", {"K104"}),
        ("-s 64 --dtype fp8_e4m3:bf16 --kv-cache linear --kv-dtype int8", {"K028"}),
        ("-s 64 --dtype bf16 --qscale tensor", {"K018"}),
        ("-s 64 -d 577", {"K012"}),
        ("-s 64 --dropout 0.5 --offset 4294967296", {"K102"}),
        ("-s 129 -H 2 --splits 3", {"K017", "K103"}),
        ("-s 64 --dtype fp8_e4m3 --direction bwd -d 600", {"K025", "K001", "K012"}),
    ],
)
def test_refusals_carry_all_reasons(line: str, ids: set[str]) -> None:
    assert ids <= reason_ids(line)


@pytest.mark.parametrize(("rows", "kind"), [(16, LoopKind.DECODE), (17, LoopKind.PREFILL)])
def test_both_passes_are_one_plan(rows: int, kind: LoopKind) -> None:
    """Every architecture pairs its own kernels; the forward kernel is the one that it would take alone."""
    problem = Problem.from_cli(f"-s {rows} -H 2 --dtype bf16 --direction fwd+bwd")
    found = [d for d in backend.decide(problem, DEVICE) if isinstance(d, Supported)]
    assert [d.arch for d in sorted(found, key=lambda d: d.rank)] == [*ARCHS]
    for decision in found:
        first, second = backend.plan(problem, decision.kernel, DEVICE).stages
        assert (dict(first.detail)["kind"], first.kernel.arch) == (kind, decision.arch)
        assert second.kernel == decision.kernel
        assert decision.note.endswith(f"; after fwd {first.kernel.digest[:8]}")


def test_archs_by_cpu_flags() -> None:
    flags = {arch: set(load_arch(arch).fact("cpu_flags")) for arch in ARCHS}
    assert find_accepted(()) == ("generic",)
    assert find_accepted(flags["x86_64_v3"]) == ("x86_64_v3", "generic")
    assert find_accepted(flags["x86_64_v4"]) == ("x86_64_v4", "x86_64_v3", "generic")
    assert find_accepted(flags["x86_64_v4_bf16"]) == ("x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "generic")
    assert find_accepted(flags["x86_64_amx"]) == ("x86_64_amx", *find_accepted(flags["x86_64_v4_bf16"]))
    assert find_accepted(flags["x86_64_amx"] - {"amx_bf16"}) == find_accepted(flags["x86_64_v4_bf16"])
    assert find_accepted(flags["x86_64_v4_bf16"] - {"fma"}) == ("generic",)
    assert find_accepted(flags["aarch64"]) == ("aarch64", "generic")
    assert find_accepted(flags["aarch64_bf16"]) == ("aarch64_bf16", "aarch64", "generic")


ARM_INFO = "processor\t: 0\nFeatures\t: fp asimd evtstrm aes bf16 i8mm\nCPU implementer\t: 0x41\n\nprocessor\t: 1\n"


def test_flags_of_a_processor() -> None:
    assert {"asimd", "bf16"} <= cpu_flags("aarch64", ARM_INFO, "linux")
    assert cpu_flags("x86_64", "flags\t\t: fma avx2\n") == {"fma", "avx2"}
    assert cpu_flags("x86_64", ARM_INFO) == cpu_flags("aarch64", "", "linux") == cpu_flags("riscv64", ARM_INFO) == set()


@pytest.mark.parametrize(("known", "archs"), [(1, ("aarch64_bf16", "aarch64", "generic")), (0, ("aarch64", "generic"))])
def test_flags_on_macos(known: int, archs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Apple processor has Advanced SIMD; the system is asked for BF16."""
    monkeypatch.setattr(arch_detect, "kernel_number", lambda name: known * (name == b"hw.optional.arm.FEAT_BF16"))
    assert find_accepted(cpu_flags("aarch64", "", "darwin")) == archs


def test_a_system_without_sysctl_knows_no_name() -> None:
    if sys.platform == "linux":
        assert arch_detect.kernel_number(b"hw.optional.arm.FEAT_BF16") == 0


def test_every_architecture_names_its_machine() -> None:
    machines = {arch: machine_of(load_arch(arch)) for arch in ARCHS}
    assert {arch: machine for arch, machine in machines.items() if not arch.startswith(machine)} == {"generic": "any"}


@pytest.mark.parametrize("kind", ToolchainKind)
@pytest.mark.parametrize("arch", ARCHS)
def test_flags(arch: str, kind: ToolchainKind) -> None:
    flags = compile_flags(load_arch(arch), kind)
    assert "-shared" in flags
    assert not any("fast-math" in flag or "native" in flag for flag in flags)


@pytest.mark.parametrize("compiler", ToolchainKind)
def test_only_forward_kernels_are_compiled_without_known_bits(compiler: ToolchainKind) -> None:
    arch = load_arch("x86_64_v3")
    without = {algorithm_of(k).kind for k in backend.kernels(arch) if "-fno-tree-bit-ccp" in kernel_flags(k, compiler)}
    assert without == ({*LoopKind} - {LoopKind.BACKWARD} if compiler is ToolchainKind.GCC else set())
    assert all(kernel_flags(k, compiler)[: len(f := compile_flags(arch, compiler))] == f for k in backend.kernels(arch))


def test_listing_needs_no_numpy_and_no_ctypes_library() -> None:
    code = (
        "import sys;from fmha_cli.backends.cpu import backend;from fmha_cli.domain.arch import load_arch;"
        "print(len([k.digest for k in backend.kernels(load_arch('x86_64_v4'))]), 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["33", "False"]


def test_inspection_of_a_listing() -> None:
    listing = """
0000000000001100 <f>:
    1100:	vmovups 0x40(%rdi),%zmm1
    1106:	vmovaps %zmm1,-0x50(%rsp)
    110c:	vdpbf16ps %zmm1,%zmm2,%zmm3
    1112:	vmovaps -0x50(%rsp),%zmm1
    1118:	ret
"""
    seen = summarise(listing)
    assert seen["instructions"] == {"ret": 1, "vdpbf16ps": 1, "vmovaps": 2, "vmovups": 1}
    assert (seen["matrix_instructions"], seen["spills"], seen["vector_bits"]) == (1, 2, 512)


def test_every_tile_row_has_a_source() -> None:
    for arch in ARCHS:
        table = load_arch(arch).backends["cpu"]
        assert table["compile"]["source"]
        assert all(row["source"] for row in table["kernels"])
        names = {f.name for f in dataclasses.fields(CpuAlgorithm)} | {"dtype", "source"}
        assert all(set(row) | {"blocks"} == names for row in table["kernels"])


def test_a_processor_is_taken_for_a_lesser_one(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = frozenset(load_arch("x86_64_v4_bf16").fact("cpu_flags"))
    assert take_for("", flags) == ("x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "generic")
    assert take_for("x86_64_v4", flags) == ("x86_64_v4", "x86_64_v3", "generic")
    assert take_for("generic", flags) == ("generic",)
    monkeypatch.setenv(VARIABLE, "generic")
    assert backend.probe().devices[0].archs == ("generic",)


def test_the_level_of_the_run_holds_in_tests() -> None:
    assert not AT_START or backend.probe().devices[0].archs[0] == AT_START


def test_a_processor_is_never_taken_for_a_greater_one() -> None:
    """Its kernels would end the worker."""
    flags = frozenset(load_arch("x86_64_v4_bf16").fact("cpu_flags"))
    for level, lacks in (("x86_64_amx", "it lacks amx_bf16, amx_tile"), ("aarch64", "it lacks asimd")):
        with pytest.raises(EnvironmentProblem, match="executes no such kernels") as caught:
            take_for(level, flags)
        assert (caught.value.code, caught.value.why) == ("K116", lacks)
    with pytest.raises(UsageError, match="no CPU architecture") as mistaken:
        take_for("x86-64-v4", flags)
    assert mistaken.value.help == "did you mean x86_64_v4?"
