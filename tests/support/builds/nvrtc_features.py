"""The instructions that NVRTC assembles for an architecture: one small kernel each, compiled to a cubin."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

_SHARED = "__shared__ alignas(128) unsigned long long s[64]; unsigned a = (unsigned)__cvta_generic_to_shared(s);"
_MMA = "unsigned r[10] = {p[0], p[1], p[2], p[3], p[4], p[5], p[6]}; float d[4] = {};"


def _mma(instruction: str, words_a: int, words_b: int) -> str:
    places = [f"%{4 + i}" for i in range(words_a + words_b)]
    a, b = ", ".join(places[:words_a]), ", ".join(places[words_a:])
    accumulators = ", ".join(f'"+f"(d[{i}])' for i in range(4))
    inputs = ", ".join(f'"r"(r[{i}])' for i in range(words_a + words_b))
    text = f"{instruction} {{%0, %1, %2, %3}}, {{{a}}}, {{{b}}}, {{%0, %1, %2, %3}};"
    return f'{_MMA} asm volatile("{text}" : {accumulators} : {inputs}); p[0] = d[0] + d[1] + d[2] + d[3];'


def _block_scaled() -> str:
    text = (
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%4}, {%10, %10}, {%5}, {%10, %10};"
    )
    inputs = ", ".join(f'"r"(r[{i}])' for i in range(6))
    return (
        f'{_MMA} asm volatile("{text}" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : {inputs}, "h"((short)0)); '
        "p[0] = d[0];"
    )


def _wgmma() -> str:
    d = ", ".join(f"%{i}" for i in range(4))
    text = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{d}}}, %4, %5, 1, 1, 1, 0, 0;"
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(4))
    return f'float d[4] = {{}}; asm volatile("{text}" : {outs} : "l"(q[0]), "l"(q[1])); p[0] = d[0];'


BODIES: Mapping[str, str] = MappingProxyType(
    {
        "mma_m16n8k8_f16": _mma("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1),
        "mma_m16n8k16_f16": _mma("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2),
        "mma_m16n8k16_bf16": _mma("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2),
        "mma_m16n8k8_tf32": _mma("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2),
        "mma_m16n8k32_fp8_e4m3": _mma("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2),
        "mma_mxf8f6f4_block_scale": _block_scaled(),
        "cp_async": _SHARED + 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(a), "l"(p));',
        "ldmatrix": _SHARED
        + 'unsigned r; asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(a)); p[0] = r;',
        "stmatrix": _SHARED
        + 'asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(a), "r"(p[0])); p[1] = s[threadIdx.x];',
        "tma_tensor_2d": _SHARED
        + 'asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes '
        '[%0], [%1, {%2, %3}], [%4];" :: "r"(a), "l"(p), "r"(0), "r"(0), "r"(a));',
        "cluster_barrier": 'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");',
        "setmaxnreg": 'asm volatile("setmaxnreg.inc.sync.aligned.u32 64;");',
        "wgmma": _wgmma(),
        "tcgen05": _SHARED
        + 'asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(a));',
        "packed_f32x2_fma": 'unsigned long long r; asm volatile("fma.rn.f32x2 %0, %1, %2, %1;" : "=l"(r) : "l"(q[0]), "l"(q[1]));'
        "q[0] = r;",
        "ex2_f16x2": 'unsigned r; asm volatile("ex2.approx.f16x2 %0, %1;" : "=r"(r) : "r"(p[0])); p[0] = r;',
        "ex2_bf16x2": 'unsigned r; asm volatile("ex2.approx.ftz.bf16x2 %0, %1;" : "=r"(r) : "r"(p[0])); p[0] = r;',
        "tanh_f32": 'float r; asm volatile("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"((float)p[0])); p[0] = r;',
        "clc_try_cancel": _SHARED
        + 'asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 '
        '[%0], [%1];" :: "r"(a), "r"(a + 64));',
        "griddepcontrol": 'asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");',
    }
)
"""Instruction -> body of a kernel that contains it; ``p`` and ``q`` point to 32-bit and 64-bit words."""
HEAD = 'extern "C" __global__ void __launch_bounds__(128) f(unsigned *p, unsigned long long *q)'


def assembles(body: str, arch: str) -> bool:
    """Whether NVRTC makes a cubin of a kernel for an architecture (``sm_90a``).

    Raises:
        ImportError: cuda-python is not installed.
        RuntimeError: NVRTC refuses the architecture or the C++ itself; that does not concern the instruction.
    """
    nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")
    ok = nvrtc.nvrtcResult.NVRTC_SUCCESS
    made, program = nvrtc.nvrtcCreateProgram(f"{HEAD} {{ {body} }}".encode(), b"f.cu", 0, [], [])
    if made != ok:
        raise RuntimeError(str(made))
    try:
        options = [f"-arch={arch}".encode(), b"-default-device"]
        done = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
        log = _log(nvrtc, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    if done != ok and "ptxas" not in log:
        raise RuntimeError(f"{arch}: {done}: {log}")
    return bool(done == ok)


def _log(nvrtc: Any, program: Any) -> str:
    size = nvrtc.nvrtcGetProgramLogSize(program)[1]
    # NVRTC writes into this buffer. The interpreter shares bytes objects of length 1, and an empty log is one byte
    # long.
    buffer = bytes(size + 1)
    nvrtc.nvrtcGetProgramLog(program, buffer)
    return str(buffer.rstrip(b"\0").decode(errors="replace"))


def instructions(arch: str, names: Sequence[str] = tuple(BODIES)) -> tuple[str, ...]:
    """The given instructions that NVRTC assembles for an architecture."""
    return tuple(name for name in names if assembles(BODIES[name], arch))
