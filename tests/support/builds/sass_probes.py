"""Kernels that together contain the instructions behind ``arch_specs/_cuda_sass.json``, and the expected counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

HEAD = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"


@dataclass(frozen=True)
class Probe:
    """A kernel: its body, its arguments, the mnemonics that its code must contain, and its architectures."""

    body: str
    arguments: str = "unsigned* a, float* f"
    holds: tuple[str, ...] = ()
    on: Callable[[str], bool] = lambda arch: True
    before: str = ""

    def text(self) -> str:
        """The whole translation unit; its kernel is ``probe``."""
        return f'{HEAD}{self.before}\nextern "C" __global__ void probe({self.arguments})\n{{\n{self.body}\n}}\n'


def capability(arch: str) -> int:
    """The capability as a number: 90 for ``sm_90a``."""
    return int(arch.removeprefix("sm_").rstrip("af"))


def _since(number: int) -> Callable[[str], bool]:
    return lambda arch: capability(arch) >= number


def _only(*archs: str) -> Callable[[str], bool]:
    return lambda arch: arch in archs


def _mma(instruction: str, a: int, b: int, *, kind: str = "f", accumulators: int = 4, more: str = "") -> str:
    """One ``mma`` on registers: ``a`` and ``b`` words, and accumulators with an asm constraint."""
    kinds = {"f": "float", "r": "unsigned", "d": "double"}
    n = accumulators
    first = ", ".join(f"%{i}" for i in range(n))
    left = ", ".join(f"%{n + i}" for i in range(a))
    right = ", ".join(f"%{n + a + i}" for i in range(b))
    outs = ", ".join(f'"+{kind}"(d[{i}])' for i in range(n))
    operand = "d" if kind == "d" else "r"
    words = "((double*)a)[t + {}]" if kind == "d" else "a[t + {}]"
    ins = ", ".join(f'"{operand}"({words.format(i)})' for i in range(a + b))
    asm = f"{instruction} {{{first}}}, {{{left}}}, {{{right}}}, {{{first}}}{more};"
    load = " ".join(f"d[{i}] = (({kinds[kind]}*)f)[t + {i}];" for i in range(n))
    keep = " ".join(f"(({kinds[kind]}*)f)[t + {i}] = d[{i}];" for i in range(n))
    return f'{{ {kinds[kind]} d[{n}]; {load} asm volatile("{asm}" : {outs} : {ins}); {keep} }}'


_SMEM = """
  __shared__ __align__(128) unsigned s[512];
  __shared__ __align__(8) unsigned long long bar;
  unsigned p = (unsigned)__cvta_generic_to_shared(s + t), b = (unsigned)__cvta_generic_to_shared(&bar);
  s[t] = a[t]; __syncthreads();
"""
_T = "  unsigned t = threadIdx.x;\n"

PROBES: Mapping[str, Probe] = MappingProxyType(
    {
        "memory": Probe(
            _T
            + """
  extern __shared__ float d[]; __shared__ char e[64];
  d[t] = f[t]; ((float4*)d)[t + n] = ((float4*)f)[t]; e[t & 63] = ((char*)a)[t]; __syncthreads();
  float l[40]; for (int k = 0; k < 40; k++) l[k] = d[k + n];
  for (int k = 0; k < n; k++) l[(k * 7) % 40] += l[k % 40];
  f[t] = l[n % 40]; ((float4*)f)[t] = ((float4*)d)[t]; ((char*)a)[t] = e[(t + 1) & 63]; ((short*)a)[t] = ((short*)d)[t];
  __threadfence(); __threadfence_system(); f[t + 1] = __ldg(f + t + 9) + __ldcs(f + t + 7);
""",
            "unsigned* a, float* f, int n",
            ("LDG", "STG", "LDS", "STS", "LDL", "STL", "BAR", "MEMBAR"),
        ),
        "atomics": Probe(
            _T
            + """
  __shared__ int s[8]; __shared__ float g[8]; int* b = (int*)a; s[t & 7] = 0; g[t & 7] = 0; __syncthreads();
  atomicAdd(s + (t & 3), t); atomicMax(s + (t & 3), t); f[t] = atomicAdd(g + (t & 3), 1.f); atomicAdd(f + 99, 1.f);
  f[t + 1] = atomicAdd(f + 98, 2.f); atomicAdd(b, 1); f[t + 3] = atomicCAS(b + 3, 1, 2); f[t + 4] = atomicExch(b + 5, 3);
  atomicAdd((__half2*)f + 9, __float2half2_rn(1.f)); atomicAdd((double*)f + 7, 1.0);
  ((unsigned long long*)f)[t] = atomicCAS((unsigned long long*)f + 7, 1ull, 2ull);
  f[t + 5] = atomicCAS(s + 1, 4, 5); __syncthreads(); f[t + 9] = s[1] + g[2]; f[t + 11] = atomicExch(s + 3, 4);
""",
            holds=("ATOMS", "ATOMG"),
        ),
        "arithmetic": Probe(
            _T
            + """
  int* c = (int*)a; double* q = (double*)f; long long* L = (long long*)a;
  f[t] = sinf(f[t]) + __expf(f[t + 1]) + __logf(f[t + 2]) + rsqrtf(f[t + 3]) + tanhf(f[t + 4]) + sqrtf(f[t + 5]);
  f[t + 6] = f[t + 6] / f[t + 7] + erff(f[t + 8]) + fmaxf(fmaxf(f[t + 9], f[t + 10]), f[t + 12]) + floorf(f[t + 13]);
  float u; asm("tanh.approx.f32 %0, %1;" : "=f"(u) : "f"(f[t + 20])); f[t + 21] = u + rintf(f[t + 14]);
  q[t] = q[t] * q[t + 1] + q[t + 2]; q[t + 3] = q[t + 3] + q[t + 4]; q[t + 5] = q[t] / q[t + 1]; q[t + 7] = sqrt(q[t + 8]);
  q[t + 6] = q[t + 6] * q[t + 9]; f[t + 30] = (float)q[t]; q[t + 30] = f[t]; c[t + 40] = q[t + 2] < q[t + 3];
  q[t + 31] = fmax(q[t + 1], q[t]); c[t + 41] = (int)q[t]; q[t + 32] = c[t];
  c[t] = __popc(c[t]) + __clz(c[t + 1]) + __brev(c[t + 2]) + __ffs(c[t + 3]) + c[t + 4] / c[t + 5] + c[t + 6] % 7;
  c[t + 1] = abs(c[t + 7]) + min(c[t + 8], c[t + 9]) + __dp4a(c[t], c[t + 1], c[t + 2]) + __mulhi(c[t], c[t + 7]);
  c[t + 2] = __byte_perm(c[t], c[t + 1], c[t + 2]) + __mul24(c[t], c[t + 3]) + __sad(c[t], c[t + 4], a[t]);
  a[t] = a[t] / a[t + 1] + __funnelshift_l(a[t], a[t + 1], a[t + 2]) + __umulhi(a[t], a[t + 1]);
  a[t + 3] = __vabsdiffu4(a[t], a[t + 1]) + __vmaxs2(a[t], a[t + 4]) + __viaddmax_s32(c[t], c[t + 1], c[t + 2]);
  L[t] = L[t] * L[t + 1] + L[t + 2] / L[t + 3] + __vimax3_s32(c[t], c[t + 1], c[t + 2]); f[t + 50] = (float)a[t];
  f[t + 51] = (float)c[t]; c[t + 60] = (int)f[t]; L[t + 9] = (long long)f[t]; f[t + 53] = (float)L[t + 1];
  c[t + 70] = f[t] > f[t + 1] && q[t] > 3.0; a[t + 9] = isnan(f[t]); f[t + 60] = a[t] >> (c[t] & 31);
  c[t + 80] = (int)clock(); L[t + 20] = clock64();
""",
            holds=(
                "MUFU",
                "FFMA",
                "FADD",
                "FMUL",
                "DFMA",
                "DADD",
                "DMUL",
                "IMAD",
                "LOP3",
                "POPC",
                "I2F",
                "F2I",
                "ISETP",
            ),
        ),
        "halves": Probe(
            _T
            + """
  __half2* h = (__half2*)a; __nv_bfloat162* b = (__nv_bfloat162*)(a + 4096); __half* s = (__half*)(a + 8192);
  h[t] = __hfma2(h[t], h[t + 1], h[t + 2]); h[t + 3] = __hadd2(h[t + 3], h[t + 4]); h[t + 5] = __hmul2(h[t + 5], h[t + 6]);
  h[t + 7] = __hmax2(h[t + 7], h[t + 8]); h[t + 9] = h2exp2(h[t + 9]); h[t + 20] = __hgt2(h[t + 1], h[t + 2]);
  b[t] = __hfma2(b[t], b[t + 1], b[t + 2]); b[t + 3] = __hadd2(b[t + 3], b[t + 4]); b[t + 5] = __hmul2(b[t + 5], b[t + 6]);
  b[t + 7] = __hmax2(b[t + 7], b[t + 8]); f[t] = __half2float(s[t]); s[t + 1] = __float2half(f[t + 1]);
  s[t + 5] = hexp(s[t + 4]); if (__hgt(s[t], s[t + 1])) f[t + 9] = 1; s[t + 9] = __int2half_rn(threadIdx.y);
  f[t + 30] = __half2int_rn(s[t + 3]); s[t + 20] = hrint(s[t + 3]); ((__nv_bfloat16*)a)[t] = __float2bfloat16(f[t + 2]);
  ((__nv_fp8_e4m3*)f)[t + 99] = __nv_fp8_e4m3(f[t + 40]); f[t + 50] = float(((__nv_fp8_e4m3*)f)[t]);
""",
            holds=("HFMA2", "HADD2", "HMUL2", "HMNMX2", "F2FP"),
            on=_since(80),
        ),
        "warps": Probe(
            _T
            + """
  int* c = (int*)f; c[t] = __shfl_xor_sync(~0u, c[t], 1) + __shfl_sync(~0u, c[t + 1], t) + __shfl_down_sync(~0u, c[t], 3);
  a[t] = __ballot_sync(~0u, c[t] > 3) + __any_sync(~0u, c[t + 2] > 4) + __activemask() + __match_any_sync(~0u, c[t]);
  a[t + 1] = __reduce_add_sync(~0u, a[t + 1]) + __reduce_max_sync(~0u, a[t + 4]) + __all_sync(~0u, a[t + 9]);
  __syncwarp(); if (c[t] > 100) __nanosleep(20); c[t + 1] = __syncthreads_or(c[t]); c[t + 7] = __syncthreads_count(c[t]);
  asm volatile("bar.sync 1, 64;"); asm volatile("bar.arrive 2, 64;"); if (a[t] == 3) __trap();
  if (a[t] == 4) asm volatile("brkpt;"); if (c[t + 40]) asm volatile("exit;"); __prof_trigger(1);
""",
            holds=("SHFL", "VOTE", "BAR", "REDUX", "NANOSLEEP", "MATCH"),
            on=_since(80),
        ),
        "control": Probe(
            _T
            + """
  int* c = (int*)a;
  switch (c[t]) { case 0: c[t + 1] = 3; break; case 1: c[t + 2] = c[t] * 7; break; case 2: c[t + 3] = 9; break;
    case 3: c[t + 4] = __popc(c[t]); break; case 4: c[t + 9] = 1; break; case 5: c[t + 8] = c[t + 2]; break;
    case 6: c[t] = 33; break; case 7: c[t + 2] ^= 5; break; }
  c[t + 20] = twice(n, c); c[t + 21] = table[n & 1](n, c); if (n == 7) asm volatile("trap;"); printf("%d", n);
  for (int k = 0; k < n; k++) if (c[k]) break;
  asm volatile("discard.global.L2 [%0], 128;" :: "l"(a)); asm volatile("prefetch.global.L2 [%0];" :: "l"(a));
""",
            "unsigned* a, float* f, int n",
            ("CALL", "BRA", "EXIT", "BSSY", "BSYNC", "CCTL"),
            _since(80),
            before="""
__device__ __noinline__ int twice(int n, int* p) { return n < 2 ? p[n] : twice(n - 1, p) + twice(n - 2, p); }
__device__ int (*table[2])(int, int*) = {twice, twice};
""",
        ),
        "matrices": Probe(
            _T
            + _mma("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2)
            + _mma("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2)
            + _mma("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1)
            + _mma("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 4, 2, kind="r", accumulators=2)
            + _mma("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2)
            + _mma("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, kind="r")
            + _mma("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", 4, 2, kind="r")
            + _mma("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 1, 1, kind="d", accumulators=2)
            + _mma("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 4, 4, more=", %5, 0x0"),
            holds=("HMMA", "IMMA", "DMMA"),
            on=_since(80),
        ),
        "turing": Probe(
            _T
            + _SMEM
            + _mma("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1)
            + _mma("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", 1, 1, kind="r", accumulators=2)
            + """
  __half2* h = (__half2*)a; int* c = (int*)f; unsigned r0, r1;
  h[t] = __hfma2(h[t], h[t + 1], h[t + 2]); h[t + 3] = __hadd2(h[t + 3], h[t + 4]); h[t + 5] = __hmul2(h[t + 5], h[t + 6]);
  c[t] = __shfl_xor_sync(~0u, c[t], 1) + __shfl_sync(~0u, c[t + 1], t); a[t] = __ballot_sync(~0u, c[t] > 3);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(p)); a[t + 9] = r0 + r1;
""",
            holds=("HMMA", "IMMA", "HFMA2", "HADD2", "HMUL2", "SHFL", "VOTE", "LDSM"),
            on=_only("sm_75"),
        ),
        "bytes": Probe(
            _T + _mma("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2),
            holds=("QMMA",),
            on=_only("sm_89", "sm_120", "sm_120a"),
        ),
        "copies": Probe(
            _T
            + _SMEM
            + """
  unsigned r0, r1, r2, r3;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(p));
  a[t] = r0 + r1 + r2 + r3; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r0) : "r"(r1)); a[t + 9] = r0;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(p));
  a[t + 3] = r0 + r1 + r2 + r3; asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(p), "l"(a + t * 4));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(p), "l"(a + t * 4), "r"(t));
  asm volatile("cp.async.commit_group; cp.async.wait_group 1; cp.async.wait_all;");
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(b)); asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(b));
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(b)); asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(b));
  __syncthreads(); a[t + 5] = s[t];
""",
            holds=("LDSM", "MOVM", "LDGSTS", "LDGDEPBAR", "DEPBAR", "BAR"),
            on=_since(80),
        ),
        "clusters": Probe(
            _T
            + _SMEM
            + """
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(p), "r"(a[t]), "r"(a[t + 1]), "r"(a[t + 2]), "r"(a[t + 3]));
  unsigned e; asm volatile("{ .reg .pred q; elect.sync _|q, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(e)); a[t + 4] = e;
  asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
  asm volatile("fence.proxy.async; fence.mbarrier_init.release.cluster;");
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 32;" :: "r"(b)); unsigned o;
  asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared.b64 q, [%1], %2; selp.u32 %0, 1, 0, q; }" : "=r"(o) : "r"(b), "r"(t & 1));
  a[t + 7] = o; unsigned m; asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(m) : "r"(p));
  asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(m), "r"(t));
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" :: "r"(m), "r"(t), "r"(m));
""",
            holds=("STSM", "ELECT", "SYNCS", "UCGABAR_ARV", "UCGABAR_WAIT", "FENCE", "STAS"),
            on=_since(90),
        ),
        "tensors": Probe(
            _T
            + _SMEM
            + """
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(p), "l"(f), "r"(1), "r"(2), "r"(b));
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" :: "l"(f), "r"(1), "r"(2), "r"(p));
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" :: "l"(f), "r"(1), "r"(2), "r"(p));
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];" :: "r"(p), "l"(a), "r"(b));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" :: "l"(a), "r"(p));
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.bulk.wait_group.read 0;");
  asm volatile("prefetch.tensormap [%0];" :: "l"(f)); asm volatile("cp.async.bulk.prefetch.L2.global [%0], 64;" :: "l"(a));
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], 64;" :: "l"(a), "r"(p));
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" :: "l"(f), "r"(1), "r"(2));
""",
            holds=("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UTMACMDFLUSH", "UTMAPF"),
            on=_since(90),
        ),
        "packed": Probe(
            _T
            + """
  unsigned long long *q = (unsigned long long*)a, x = q[t], y = q[t + 1], z = q[t + 2], r;
  asm volatile("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(r) : "l"(x), "l"(y), "l"(z)); q[t + 3] = r;
  asm volatile("mul.rn.f32x2 %0, %1, %2;" : "=l"(r) : "l"(x), "l"(y)); q[t + 4] = r;
  asm volatile("add.rn.f32x2 %0, %1, %2;" : "=l"(r) : "l"(x), "l"(y)); q[t + 5] = r;
""",
            holds=("STG",),
            on=_since(100),
        ),
        "uniform": Probe(
            """
  float r[64];
#pragma unroll
  for (int i = 0; i < 64; i++) asm volatile("add.f32 %0, %1, 0f3f800000;" : "=f"(r[i]) : "f"(f[i * n]));
  for (int k = 0; k < n; k++)
#pragma unroll
    for (int i = 0; i < 64; i++) r[i] = r[i] * r[(i + 7) % 64] + (i % 2 ? f[k] : x * y);
#pragma unroll
  for (int i = 0; i < 64; i++) f[i * n + 1] = r[i] > y ? r[i] : (float)(int)r[i];
  __syncthreads(); if (n > 1000) asm volatile("bar.sync 1, 64;");
""",
            # More values than registers, all uniform over the threads, so uniform registers are used.
            "unsigned* a, float* f, int n, float x, float y",
            before="#define probe __launch_bounds__(1024, 2) probe",
        ),
        "warpgroups": Probe(
            """
  float c[4] = {f[0], f[1], f[2], f[3]}; int s[4] = {}; unsigned long long* d = (unsigned long long*)a;
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(d[0]), "l"(d[1]));
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, 1, 1, 1;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "l"(d[0]), "l"(d[1]));
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0, %1, %2, %3}, %4, %5, 1;" : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3]) : "l"(d[0]), "l"(d[1]));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
  for (int k = 0; k < 4; k++) f[k] = c[k] + s[k];
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
""",
            holds=("HGMMA", "QGMMA", "IGMMA", "WARPGROUP"),
            on=_only("sm_90a"),
        ),
        "tensor_memory": Probe(
            _T
            + _SMEM
            + """
  unsigned long long* d = (unsigned long long*)f; unsigned r0;
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" :: "r"(p)); __syncthreads(); unsigned m = s[0];
  asm volatile("{ .reg .pred q; setp.ne.u32 q, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, q; }" :: "r"(m), "l"(d[0]), "l"(d[1]), "r"(a[3]), "r"(a[4]));
  asm volatile("{ .reg .pred q; setp.ne.u32 q, %4, 0; tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, q; }" :: "r"(m), "l"(d[0]), "l"(d[1]), "r"(a[3]), "r"(a[4]));
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(b));
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(r0) : "r"(m)); asm volatile("tcgen05.wait::ld.sync.aligned;");
  a[5] = r0; asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(m), "r"(r0)); asm volatile("tcgen05.wait::st.sync.aligned;");
  asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" :: "r"(m), "l"(d[2])); asm volatile("tcgen05.shift.cta_group::1.down [%0];" :: "r"(m));
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" :: "r"(m)); asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
""",
            holds=("UTCMMA", "LDTM", "STTM", "UTCCP", "UTCBAR"),
            on=_only("sm_100a", "sm_103a"),
        ),
    }
)
