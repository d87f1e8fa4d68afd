"""A small kernel of two ``wgmma`` instructions, with an ``assert`` between them that is live without ``-DNDEBUG``."""

from __future__ import annotations

ARCH = "sm_90a"


def _mma(how: str, scale: int) -> str:
    registers = ", ".join(f"%{i}" for i in range(4))
    outputs = ", ".join(f'"{how}f"(d[{i}])' for i in range(4))
    shape = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
    return f'asm volatile("{shape} {{{registers}}}, %4, %5, {scale}, 1, 1, 0, 0;" : {outputs} : "l"(a), "l"(b));'


def wgmma_text(symbol: str = "fmha_tiny") -> str:
    """The translation unit. ``a`` and ``b`` are descriptors of matrices in shared memory; it is never run."""
    held = ", ".join(f'"+f"(d[{i}])' for i in range(4))
    return f"""
extern "C" __global__ void __launch_bounds__(128) {symbol}(float* x, unsigned long long a, unsigned long long b)
{{
  float d[4];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  {_mma("=", 0)}
  assert(a != b);
  {_mma("+", 1)}
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : {held} :: "memory");
  x[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}}
"""
