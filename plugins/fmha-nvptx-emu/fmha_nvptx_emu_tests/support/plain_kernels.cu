// Plain CUDA kernels, at least one for each kind of instruction; plain_cases.py has the expected results. NVRTC and clang
// compile this text without any header.
#ifdef __clang__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define BLOCK __nvvm_read_ptx_sreg_ctaid_x()
#define WIDTH __nvvm_read_ptx_sreg_ntid_x()
#define SYNC __syncthreads()
#define BRING_X(v, lane) __nvvm_shfl_sync_bfly_i32(~0u, v, lane, 31)
#define BRING_UP(v, by) __nvvm_shfl_sync_up_i32(~0u, v, by, 0)
#define BALLOT(p) __nvvm_vote_ballot_sync(~0u, p)
#define ADD(p, v) __nvvm_atom_add_gen_i((int*)(p), v)
#define MOST(p, v) __nvvm_atom_max_gen_i((int*)(p), v)
#define SWAP(p, old, v) __nvvm_atom_cas_gen_i((int*)(p), old, v)
#define HIGH(a, b) u32((u64(a) * u64(b)) >> 32)
#define COUNT(v) __builtin_popcount(v)
#define MIRRORED(v) __builtin_bitreverse32(v)
#define ROOT(v) __nvvm_sqrt_rn_f(v)
#define FUSED(a, b, c) __nvvm_fma_rn_f(a, b, c)
#define LEADING(v) ((v) ? __builtin_clz(v) : 32)
#else
#define THREAD threadIdx.x
#define BLOCK blockIdx.x
#define WIDTH blockDim.x
#define SYNC __syncthreads()
#define BRING_X(v, lane) __shfl_xor_sync(~0u, v, lane)
#define BRING_UP(v, by) __shfl_up_sync(~0u, v, by)
#define BALLOT(p) __ballot_sync(~0u, p)
#define ADD(p, v) atomicAdd((int*)(p), v)
#define MOST(p, v) atomicMax((int*)(p), v)
#define SWAP(p, old, v) atomicCAS((int*)(p), old, v)
#define HIGH(a, b) __umulhi(a, b)
#define COUNT(v) __popc(v)
#define LEADING(v) __clz(v)
#define MIRRORED(v) __brev(v)
#define ROOT(v) __fsqrt_rn(v)
#define FUSED(a, b, c) __fmaf_rn(a, b, c)
#endif

typedef unsigned int u32;
typedef unsigned long long u64;
#define KERNEL extern "C" __global__ void
#define ID (BLOCK * WIDTH + THREAD)

// Shared memory and barriers: the sum of each block of 256.
KERNEL reduce_shared(const int* x, int* out) {
  __shared__ int part[256];
  part[THREAD] = x[ID];
  SYNC;
  for (u32 half = WIDTH / 2; half > 0; half /= 2) {
    if (THREAD < half) part[THREAD] += part[THREAD + half];
    SYNC;
  }
  if (THREAD == 0) out[BLOCK] = part[0];
}

// Shuffles and votes: the sum of each warp, the sum of the lanes before, and which lanes hold an odd value.
KERNEL warp_lanes(const int* x, int* sums, int* before, u32* odd) {
  const int own = x[ID];
  int sum = own, run = own;
  for (u32 lane = 16; lane > 0; lane /= 2) sum += BRING_X(sum, lane);
  for (u32 by = 1; by < 32; by *= 2) {
    const int got = BRING_UP(run, by);
    if (THREAD % 32 >= by) run += got;
  }
  sums[ID] = sum, before[ID] = run - own, odd[ID] = BALLOT(own & 1);
}

// Atomic operations: a histogram of 16 classes, the largest value, and a sum through compare-and-swap.
KERNEL atomics(const int* x, int* classes, int* most, int* sum) {
  const int own = x[ID];
  ADD(classes + (own & 15), 1);
  MOST(most, own);
  int seen = *(volatile int*)sum, old;
  do {
    old = seen;
    seen = SWAP(sum, old, old + (own & 255));
  } while (seen != old);
}

// Integers: quotients, remainders, high words, counts of bits.
KERNEL integers(const u32* x, const u32* y, u32* out) {
  const u32 a = x[ID], b = y[ID] | 1;
  u32* o = out + ID * 8;
  o[0] = a / b, o[1] = a % b, o[2] = u32(int(a) / int(b >> 1 | 1)), o[3] = HIGH(a, b);
  o[4] = COUNT(a), o[5] = LEADING(a), o[6] = MIRRORED(a), o[7] = a << 7 | b >> 25;
}

// 64 bits.
KERNEL wide_integers(const u64* x, const u64* y, u64* out) {
  const u64 a = x[ID], b = y[ID] | 1;
  u64* o = out + ID * 4;
  o[0] = a * b, o[1] = a / b, o[2] = a % b, o[3] = u64((long long)a >> 9);
}

// Floats: operations that are rounded to nearest, and conversions.
KERNEL floats(const float* x, const float* y, float* out, int* whole) {
  const float a = x[ID], b = y[ID];
  float* o = out + ID * 6;
  o[0] = a + b, o[1] = a * b, o[2] = a / b, o[3] = ROOT(a < 0 ? -a : a), o[4] = FUSED(a, b, a), o[5] = a < b ? a : b;
  whole[ID] = int(a * 100.f);
}
KERNEL doubles(const double* x, const double* y, double* out) { out[ID] = x[ID] * y[ID] + x[ID] / y[ID]; }

// Divergence: each lane takes as many steps as its number needs.
KERNEL steps(const u32* x, u32* out) {
  u32 n = x[ID], count = 0;
  while (n != 1) n = n & 1 ? 3 * n + 1 : n / 2, ++count;
  out[ID] = count;
}

// A switch over many cases, which may become a table of branches.
KERNEL choices(const u32* x, u32* out) {
  const u32 a = x[ID];
  u32 r;
  switch (a % 9) {
    case 0: r = a * 3; break;
    case 1: r = a ^ 0x5a5a; break;
    case 2: r = a >> 3; break;
    case 3: r = a + 17; break;
    case 4: r = ~a; break;
    case 5: r = a * a; break;
    case 6: r = a - 99; break;
    case 7: r = a | 0xff; break;
    default: r = 0;
  }
  out[ID] = r;
}

// Local memory: an array that is indexed by data.
KERNEL local_array(const u32* x, u32* out) {
  u32 kept[32];
  for (u32 k = 0; k < 32; ++k) kept[k] = x[(ID + k) % 64] * (k + 1);
  u32 at = x[ID] & 31, sum = 0;
  for (u32 k = 0; k < 8; ++k) sum += kept[at], at = (at + kept[at]) & 31;
  out[ID] = sum;
}

// Vectors of 16 bytes, transposed through shared memory without bank conflicts.
struct alignas(16) Four { float a, b, c, d; };
KERNEL transpose(const Four* x, float* out) {
  __shared__ float tile[32][33];
  const u32 row = THREAD / 8, column = THREAD % 8 * 4;
  const Four own = x[BLOCK * 256 + THREAD];
  tile[row][column] = own.a, tile[row][column + 1] = own.b, tile[row][column + 2] = own.c, tile[row][column + 3] = own.d;
  SYNC;
  for (u32 k = THREAD; k < 1024; k += 256) out[BLOCK * 1024 + k] = tile[k % 32][k / 32];
}

// A product of 16x8x16 by the tensor core, one fragment.
KERNEL tensor_core(const u32* a, const u32* b, float* out) {
  const u32 lane = THREAD;
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
               : "r"(a[lane * 4]), "r"(a[lane * 4 + 1]), "r"(a[lane * 4 + 2]), "r"(a[lane * 4 + 3]), "r"(b[lane * 2]), "r"(b[lane * 2 + 1]));
#endif
  out[lane * 4] = d0, out[lane * 4 + 1] = d1, out[lane * 4 + 2] = d2, out[lane * 4 + 3] = d3;
}
