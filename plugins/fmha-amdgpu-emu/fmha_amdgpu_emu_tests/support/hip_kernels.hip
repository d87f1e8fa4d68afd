// Plain HIP kernels, one or more for each kind of instruction; hip_cases.py has the expected results.
#include <hip/hip_runtime.h>

#define KERNEL extern "C" __global__
typedef unsigned int u32;
typedef unsigned long long u64;
typedef _Float16 f16;
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef short s16x2 __attribute__((ext_vector_type(2)));

__device__ inline u32 flat_id() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ---- Reductions ----

KERNEL void reduce_lds(const int* x, u64* out, u32 n) {
  __shared__ u64 part[256];
  u64 sum = 0;
  for (u32 i = flat_id(); i < n; i += gridDim.x * blockDim.x) sum += (long long)x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

KERNEL void reduce_shuffle(const float* x, float* sum, float* most, u32 n) {
  const u32 i = flat_id();
  float a = i < n ? x[i] : 0.f, b = i < n ? x[i] : -1e30f;
  for (int d = warpSize / 2; d > 0; d /= 2) {
    a += __shfl_xor(a, d);
    b = fmaxf(b, __shfl_down(b, d));
  }
  if (threadIdx.x % warpSize == 0) sum[i / warpSize] = a, most[i / warpSize] = b;
}

// The last block to arrive adds the results of all blocks, which tests memory order between blocks.
KERNEL void reduce_last_block(const u32* x, u32* parts, u32* arrived, u32* out, u32 n) {
  __shared__ u32 total, last;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const u32 i = flat_id();
  if (i < n) atomicAdd(&total, x[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = total;
    __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    u32 sum = 0;
    for (u32 b = 0; b < gridDim.x; ++b) sum += __hip_atomic_load(parts + b, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    *out = sum;
  }
}

KERNEL __launch_bounds__(1024) void scan_block(const u32* x, u32* out) {
  __shared__ u32 row[2][1024];
  const u32 t = threadIdx.x;
  row[0][t] = x[t];
  __syncthreads();
  int from = 0;
  for (u32 d = 1; d < blockDim.x; d *= 2, from ^= 1) {
    row[from ^ 1][t] = row[from][t] + (t >= d ? row[from][t - d] : 0);
    __syncthreads();
  }
  out[t] = row[from][t];
}

// ---- Transposes ----

KERNEL void transpose_f32(const float* x, float* y, u32 rows, u32 columns) {
  __shared__ float tile[16][17];
  const u32 c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < columns) tile[threadIdx.y][threadIdx.x] = x[r * columns + c];
  __syncthreads();
  const u32 tc = blockIdx.y * 16 + threadIdx.x, tr = blockIdx.x * 16 + threadIdx.y;
  if (tr < columns && tc < rows) y[tr * rows + tc] = tile[threadIdx.x][threadIdx.y];
}

template <class T> __device__ void transpose_of(const T* x, T* y) {
  extern __shared__ char room[];
  T* tile = reinterpret_cast<T*>(room);
  const u32 t = threadIdx.x, n = blockDim.x;
  for (u32 r = 0; r < n; ++r) tile[r * n + t] = x[r * n + t];
  __syncthreads();
  for (u32 r = 0; r < n; ++r) y[r * n + t] = tile[t * n + r];
}
KERNEL void transpose_u8(const unsigned char* x, unsigned char* y) { transpose_of(x, y); }
KERNEL void transpose_u16(const unsigned short* x, unsigned short* y) { transpose_of(x, y); }
KERNEL void transpose_f64(const double* x, double* y) { transpose_of(x, y); }
KERNEL void transpose_f32x4(const float4* x, float4* y) { transpose_of(x, y); }

KERNEL void grid_3d(u32* out) {
  const u32 bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
  const u32 block = (bz * gridDim.y + by) * gridDim.x + bx;
  const u32 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] =
      bx | by << 4 | bz << 8 | threadIdx.x << 12 | threadIdx.y << 18 | threadIdx.z << 24;
}

// ---- Atomics ----

KERNEL void atomics_u32(u32* a, u32* old) {
  const u32 t = flat_id();
  old[t] = atomicAdd(a + 0, 3u);
  atomicSub(a + 1, 2u);
  atomicMin(a + 2, t ^ 0x55u);
  atomicMax(a + 3, t ^ 0x55u);
  atomicAnd(a + 4, ~(1u << (t % 31)));
  atomicOr(a + 5, 1u << (t % 29));
  atomicXor(a + 6, t * 2654435761u);
  atomicInc(a + 7, 100u);
  atomicDec(a + 8, 90u);
  atomicMin(reinterpret_cast<int*>(a) + 9, int(t) - 500);
  atomicMax(reinterpret_cast<int*>(a) + 10, int(t) - 500);
  atomicExch(a + 11 + t % 4, t);
  u32 seen = a[15];
  for (u32 want; (want = atomicCAS(a + 15, seen, seen * 5 + 1)) != seen;) seen = want;
}

KERNEL void atomics_u64(u64* a, u64* old) {
  const u64 t = flat_id();
  old[t] = atomicAdd(a + 0, t << 33 | 1);
  atomicMin(a + 1, (t ^ 0x2a) << 40);
  atomicMax(a + 2, (t ^ 0x2a) << 40);
  atomicAnd(a + 3, ~(1ull << (t % 63)));
  atomicOr(a + 4, 1ull << (t % 61));
  atomicXor(a + 5, t * 0x9e3779b97f4a7c15ull);
  u64 seen = a[6];
  for (u64 want; (want = atomicCAS(a + 6, seen, seen + (1ull << 32) + 1)) != seen;) seen = want;
  atomicExch(a + 7 + t % 2, t << 35);
}

KERNEL void atomics_float(float* a, double* b) {
  const u32 t = flat_id();
  atomicAdd(a + t % 8, float(t % 17));
  unsafeAtomicAdd(a + 8 + t % 8, float(t % 13));
  atomicAdd(b + t % 8, double(t) * 0.25);
  unsafeAtomicAdd(b + 8 + t % 8, double(t) * 0.5);
  atomicMax(a + 16, float(t % 301) - 150.f);
  atomicMin(a + 17, float(t % 301) - 150.f);
}

KERNEL void histogram_lds(const unsigned char* x, u32* bins, u32 n) {
  __shared__ u32 own[256];
  for (u32 i = threadIdx.x; i < 256; i += blockDim.x) own[i] = 0;
  __syncthreads();
  for (u32 i = flat_id(); i < n; i += gridDim.x * blockDim.x) atomicAdd(own + x[i], 1u);
  __syncthreads();
  for (u32 i = threadIdx.x; i < 256; i += blockDim.x)
    if (own[i]) atomicAdd(bins + i, own[i]);
}

KERNEL void atomics_lds(u32* out, u64* wide, float* real) {
  __shared__ u32 a[10];
  __shared__ u64 b[3];
  __shared__ float f[2];
  const u32 t = threadIdx.x;
  if (t < 10) a[t] = t == 1 || t == 3 ? ~0u : 0;
  if (t < 3) b[t] = 0;
  if (t < 2) f[t] = 0;
  __syncthreads();
  atomicAdd(a + 0, t);
  atomicMin(a + 1, 1000 - t);
  atomicMax(a + 2, t * 7 % 101);
  atomicAnd(a + 3, ~(1u << t % 32));
  atomicOr(a + 4, 1u << t % 16);
  atomicXor(a + 5, t << 3);
  atomicInc(a + 6, 40u);
  atomicMax(reinterpret_cast<int*>(a) + 7, -int(t));
  u32 seen = 0;  // a guess: a plain read alongside the atomics would be a race
  for (u32 want; (want = atomicCAS(a + 8, seen, seen * 3 + 1)) != seen;) seen = want;
  out[16 + t] = atomicAdd(a + 9, 1u);
  atomicAdd(b + 0, u64(t) << 31);
  atomicMax(b + 1, u64(t) << 40);
  atomicXor(b + 2, u64(t) * 0x100000001ull);
  atomicAdd(f + 0, float(t));
  unsafeAtomicAdd(f + 1, float(t) * 0.5f);
  __syncthreads();
  if (t < 10) out[t] = a[t];
  if (t < 3) wide[t] = b[t];
  if (t < 2) real[t] = f[t];
}

// ---- Conversions ----

KERNEL void convert_f32(const float* x, f16* h, __bf16* b, double* d, int* i, u32* u, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  h[t] = f16(x[t]);
  b[t] = __bf16(x[t]);
  d[t] = double(x[t]);
  i[t] = __builtin_elementwise_max(-2147483648.f, x[t]) >= 2147483648.f ? 7 : int(fminf(fmaxf(x[t], -2e9f), 2e9f));
  u[t] = u32(fminf(fmaxf(x[t], 0.f), 4e9f));
}
KERNEL void convert_f16(const f16* h, const __bf16* b, float* f, float* g, int* i, f16* back, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  f[t] = float(h[t]);
  g[t] = float(b[t]);
  i[t] = int(float(h[t]));
  back[t] = f16(short(t * 37));
}
KERNEL void convert_int(const int* x, float* f, double* d, float* uf, double* ud, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  f[t] = float(x[t]);
  d[t] = double(x[t]);
  uf[t] = float(u32(x[t]));
  ud[t] = double(u32(x[t]));
}
KERNEL void convert_64(const long long* x, float* f, double* d, float* uf, double* ud, long long* back, u64* uback, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  f[t] = float(x[t]);
  d[t] = double(x[t]);
  uf[t] = float(u64(x[t]));
  ud[t] = double(u64(x[t]));
  back[t] = (long long)(double(x[t]) * 0.5);
  uback[t] = u64(double(u64(x[t])) * 0.5);
}
KERNEL void convert_f64(const double* x, float* f, int* i, double* floors, double* rounds, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  f[t] = float(x[t]);
  i[t] = int(fmin(fmax(x[t], -2e9), 2e9));
  floors[t] = floor(x[t]);
  rounds[t] = rint(x[t]);
}
KERNEL void convert_bytes(const u32* x, float* out, u32* packed, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  for (int k = 0; k < 4; ++k) out[t * 4 + k] = float(x[t] >> 8 * k & 0xff) * 0.5f;
  u32 word = 0;
  for (int k = 0; k < 4; ++k) word |= u32((signed char)(x[t] >> 8 * k) / 2 & 0xff) << 8 * k;
  packed[t] = word;
}
#if defined(__gfx942__) || defined(__gfx950__) || defined(__gfx1201__)
KERNEL void convert_fp8(const float* x, u32* fp8, u32* bf8, float* back, float* bback, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  u32 p = __builtin_amdgcn_cvt_pk_fp8_f32(x[4 * t], x[4 * t + 1], 0, false);
  p = __builtin_amdgcn_cvt_pk_fp8_f32(x[4 * t + 2], x[4 * t + 3], p, true);
  u32 q = __builtin_amdgcn_cvt_pk_bf8_f32(x[4 * t], x[4 * t + 1], 0, false);
  q = __builtin_amdgcn_cvt_pk_bf8_f32(x[4 * t + 2], x[4 * t + 3], q, true);
  fp8[t] = p, bf8[t] = q;
  back[4 * t + 0] = __builtin_amdgcn_cvt_f32_fp8(p, 0);
  back[4 * t + 1] = __builtin_amdgcn_cvt_f32_fp8(p, 1);
  const f32x2 high = __builtin_amdgcn_cvt_pk_f32_fp8(p, true);
  back[4 * t + 2] = high[0], back[4 * t + 3] = high[1];
  bback[4 * t + 2] = __builtin_amdgcn_cvt_f32_bf8(q, 2);
  bback[4 * t + 3] = __builtin_amdgcn_cvt_f32_bf8(q, 3);
  const f32x2 low = __builtin_amdgcn_cvt_pk_f32_bf8(q, false);
  bback[4 * t + 0] = low[0], bback[4 * t + 1] = low[1];
}
#endif

// ---- Lanes of a wave ----

KERNEL void lanes(const u32* x, u32* out, u32 n) {
  const u32 t = threadIdx.x, lane = t % warpSize, v = x[t];
  u32* to = out + t;
  to[0 * n] = __shfl(v, (lane * 7 + 3) % warpSize);
  to[1 * n] = __shfl_up(v, 3);
  to[2 * n] = __shfl_down(v, 5);
  to[3 * n] = __shfl_xor(v, 9);
  to[4 * n] = __shfl(v, 1, 8);
  const u64 votes = __ballot(v & 1);
  to[5 * n] = u32(votes);
  to[6 * n] = u32(votes >> 32);
  to[7 * n] = __any(v == 0xffffffffu) << 1 | __all(v < 0xffffffffu);
  to[8 * n] = __popcll(votes & ((1ull << lane) - 1));
  to[9 * n] = __builtin_amdgcn_readfirstlane(v);
  to[10 * n] = __builtin_amdgcn_readlane(v, 5);
  to[11 * n] = __builtin_amdgcn_mbcnt_lo(0x0f0f0f0fu, 100);
  to[12 * n] = __builtin_amdgcn_ds_bpermute(4 * (warpSize - 1 - lane), v);
  to[13 * n] = __builtin_amdgcn_ds_permute(4 * (warpSize - 1 - lane), v);
  to[14 * n] = __builtin_amdgcn_ds_swizzle(v, 0x041f);            // lanes xor 1 within 32
  to[15 * n] = __builtin_amdgcn_update_dpp(77, v, 0x1b, 0xf, 0xf, false);   // quad_perm 3,2,1,0
  to[16 * n] = __builtin_amdgcn_update_dpp(77, v, 0x111, 0xf, 0xf, false);  // row_shr:1
  to[17 * n] = __builtin_amdgcn_update_dpp(77, v, 0x102, 0xf, 0xf, true);   // row_shl:2, shifts in zero
  to[18 * n] = __builtin_amdgcn_update_dpp(77, v, 0x124, 0xf, 0xf, false);  // row_ror:4
  to[19 * n] = __builtin_amdgcn_update_dpp(77, v, 0x140, 0xf, 0xf, false);  // row_mirror
  to[20 * n] = __builtin_amdgcn_update_dpp(77, v, 0x141, 0xf, 0xf, false);  // row_half_mirror
  to[21 * n] = __builtin_amdgcn_update_dpp(77, v, 0x1b, 0x5, 0x3, false);   // rows 0 and 2, banks 0 and 1
}

KERNEL void lanes_64(const u64* x, u64* out, const double* d, double* dout) {
  const u32 t = threadIdx.x;
  out[t] = __shfl_xor(x[t], 5);
  dout[t] = __shfl_down(d[t], 2);
}

// ---- Scratch ----

KERNEL void scratch_sort(const u32* x, u32* out) {
  u32 own[24];
  const u32 t = flat_id();
  for (int k = 0; k < 24; ++k) own[k] = x[t * 24 + k];
  for (int a = 1; a < 24; ++a) {
    const u32 key = own[a];
    int b = a - 1;
    for (; b >= 0 && own[b] > key; --b) own[b + 1] = own[b];
    own[b + 1] = key;
  }
  for (int k = 0; k < 24; ++k) out[t * 24 + k] = own[(k + t) % 24];
}

KERNEL void scratch_bytes(const unsigned char* x, unsigned char* out, u64* sums) {
  unsigned char own[32];
  const u32 t = flat_id();
  for (int k = 0; k < 32; ++k) own[x[t * 32 + k] % 32] = 0;
  for (int k = 0; k < 32; ++k) own[k] = (unsigned char)(k * 3 + t);
  for (int k = 0; k < 32; ++k) own[x[t * 32 + k] % 32] ^= x[t * 32 + k];
  u64 sum = 0;
  for (int k = 0; k < 32; ++k) out[t * 32 + k] = own[(k * 5) % 32], sum = sum * 31 + own[k];
  sums[t] = sum;
}

__device__ __attribute__((noinline)) double called(double x, int depth, const double* table) {
  double sum = x;
  for (int k = 0; k < depth; ++k) sum = sum * 0.5 + table[(k + depth) % 8];
  return sum;
}
__device__ __attribute__((noinline)) double calls_twice(double x, int depth, const double* table) {
  return called(x, depth, table) - called(x * 2, depth / 2 + 1, table);
}
KERNEL void function_calls(const double* x, double* out, const double* table) {
  const u32 t = flat_id();
  out[t] = calls_twice(x[t], t % 7, table) + called(x[t], 3, table);
}

// ---- Generic pointers ----

KERNEL void flat_pointers(const u32* x, u32* out) {
  __shared__ u32 shared[256];
  const u32 t = threadIdx.x;
  u32 own[4] = {t, t * 3, t * 5, t * 7};
  shared[t] = x[t] + 1;
  __syncthreads();
  const u32* from = t % 3 == 0 ? x + (t ^ 1) : t % 3 == 1 ? shared + (t ^ 2) : own + t % 4;
  out[t] = *from;
}

// ---- Mathematics ----

KERNEL void math_f32(const float* x, const float* y, float* out, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const float a = x[t], b = y[t];
  float* to = out + t;
  to[0 * n] = a + b, to[1 * n] = a * b, to[2 * n] = a / b, to[3 * n] = sqrtf(fabsf(a));
  to[4 * n] = fmaf(a, b, a), to[5 * n] = floorf(a), to[6 * n] = truncf(a), to[7 * n] = rintf(a);
  to[8 * n] = fminf(a, b), to[9 * n] = fmaxf(a, b), to[10 * n] = fmodf(a, b), to[11 * n] = ldexpf(a, int(t % 9) - 4);
  to[12 * n] = copysignf(a, b), to[13 * n] = ceilf(b);
  to[14 * n] = expf(a * 0.125f), to[15 * n] = logf(fabsf(a)), to[16 * n] = sinf(a), to[17 * n] = cosf(b);
  to[18 * n] = tanhf(a * 0.25f), to[19 * n] = erff(a), to[20 * n] = powf(fabsf(a), b * 0.05f), to[21 * n] = rsqrtf(fabsf(a));
  to[22 * n] = exp2f(b), to[23 * n] = log2f(fabsf(b)), to[24 * n] = atan2f(a, b), to[25 * n] = cbrtf(a);
}
KERNEL void math_f64(const double* x, const double* y, double* out, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const double a = x[t], b = y[t];
  double* to = out + t;
  to[0 * n] = a + b, to[1 * n] = a * b, to[2 * n] = a / b, to[3 * n] = sqrt(fabs(a));
  to[4 * n] = fma(a, b, a), to[5 * n] = floor(a), to[6 * n] = trunc(a), to[7 * n] = rint(a);
  to[8 * n] = fmin(a, b), to[9 * n] = fmax(a, b), to[10 * n] = fmod(a, b), to[11 * n] = ldexp(a, int(t % 9) - 4);
  to[12 * n] = copysign(a, b), to[13 * n] = ceil(b);
  to[14 * n] = exp(a * 0.125), to[15 * n] = log(fabs(a)), to[16 * n] = sin(a), to[17 * n] = cos(b);
  to[18 * n] = tanh(a * 0.25), to[19 * n] = rsqrt(fabs(a));
}
KERNEL void math_f16(const f16* x, const f16* y, f16* out, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const f16 a = x[t], b = y[t];
  f16* to = out + t;
  to[0 * n] = a + b, to[1 * n] = a - b, to[2 * n] = a * b, to[3 * n] = a / b;
  to[4 * n] = __builtin_fmaf16(a, b, a), to[5 * n] = __builtin_elementwise_min(a, b);
  to[6 * n] = __builtin_elementwise_max(a, b), to[7 * n] = __builtin_elementwise_abs(a);
  to[8 * n] = __builtin_elementwise_floor(a), to[9 * n] = __builtin_elementwise_rint(b);
  to[10 * n] = f16(a < b ? 1 : a == b ? 2 : 3);
}
KERNEL void math_f16x2(const f16x2* x, const f16x2* y, f16x2* out, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const f16x2 a = x[t], b = y[t];
  out[t] = a + b, out[n + t] = a * b, out[2 * n + t] = a * b + a, out[3 * n + t] = __builtin_elementwise_max(a, b.yx);
  out[4 * n + t] = -a.yx - b;
}
KERNEL void math_bf16(const __bf16* x, const __bf16* y, __bf16* out, float* dot, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const __bf16 a = x[t], b = y[t];
  out[t] = a + b, out[n + t] = a * b, out[2 * n + t] = a - b;
  dot[t] = float(a) * float(b) + float(b);
}
KERNEL void math_classes(const float* x, u32* out, int* exponents, float* fractions, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const float a = x[t];
  out[t] = isnan(a) | isinf(a) << 1 | bool(isfinite(a)) << 2 | bool(signbit(a)) << 3 | bool(__builtin_isnormal(a)) << 4;
  fractions[t] = frexpf(a, exponents + t);
}

// ---- Integers ----

KERNEL void integers_32(const u32* x, const u32* y, u32* out, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const u32 a = x[t], b = y[t], c = b | 1;
  const int sa = int(a), sc = int(c);
  u32* to = out + t;
  to[0 * n] = a + b, to[1 * n] = a - b, to[2 * n] = a * b, to[3 * n] = __umulhi(a, b), to[4 * n] = u32(__mulhi(sa, int(b)));
  to[5 * n] = a / c, to[6 * n] = a % c, to[7 * n] = u32(sa / (sc == -1 ? 3 : sc)), to[8 * n] = u32(sa % (sc == -1 ? 3 : sc));
  to[9 * n] = a << (b & 31), to[10 * n] = a >> (b & 31), to[11 * n] = u32(sa >> (b & 31));
  to[12 * n] = __popc(a), to[13 * n] = __clz(int(a)), to[14 * n] = u32(__ffs(int(a))), to[15 * n] = __brev(a);
  to[16 * n] = min(a, b), to[17 * n] = max(a, b), to[18 * n] = u32(min(sa, int(b))), to[19 * n] = u32(max(sa, int(b)));
  to[20 * n] = __builtin_amdgcn_alignbit(a, b, 11), to[21 * n] = __builtin_amdgcn_perm(a, b, 0x07020500u);
  to[22 * n] = __builtin_amdgcn_ubfe(a, 5, 9), to[23 * n] = u32(__builtin_amdgcn_sbfe(sa, 5, 9));
  to[24 * n] = __builtin_amdgcn_sad_u8(a, b, 9), to[25 * n] = (a & b) | (~a & c), to[26 * n] = a ^ b ^ c;
  to[27 * n] = __builtin_elementwise_add_sat(a, b), to[28 * n] = __builtin_elementwise_sub_sat(a, b);
  to[29 * n] = u32(__builtin_elementwise_add_sat(sa, int(b))), to[30 * n] = u32(abs(sa)), to[31 * n] = __builtin_rotateleft32(a, b & 31);
}
KERNEL void integers_64(const u64* x, const u64* y, u64* out, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const u64 a = x[t], b = y[t], c = b | 1;
  const long long sa = (long long)a, sc = (long long)c;
  u64* to = out + t;
  to[0 * n] = a + b, to[1 * n] = a - b, to[2 * n] = a * b, to[3 * n] = __umul64hi(a, b), to[4 * n] = u64(__mul64hi(sa, (long long)b));
  to[5 * n] = a / c, to[6 * n] = a % c, to[7 * n] = u64(sa / (sc == -1 ? 3 : sc)), to[8 * n] = u64(sa % (sc == -1 ? 3 : sc));
  to[9 * n] = a << (b & 63), to[10 * n] = a >> (b & 63), to[11 * n] = u64(sa >> (b & 63));
  to[12 * n] = __popcll(a), to[13 * n] = __clzll((long long)a), to[14 * n] = u64(__ffsll(a)), to[15 * n] = __brevll(a);
  to[16 * n] = a < b ? a : b, to[17 * n] = sa > (long long)b ? a : b, to[18 * n] = (a & b) ^ ~c;
}
KERNEL void integers_16(const short* x, const short* y, short* out, s16x2* pairs, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  const short a = x[t], b = y[t];
  short* to = out + t;
  to[0 * n] = a + b, to[1 * n] = a - b, to[2 * n] = a * b, to[3 * n] = a << (b & 15), to[4 * n] = a >> (b & 15);
  to[5 * n] = min(a, b), to[6 * n] = max(a, b), to[7 * n] = (unsigned short)a >> (b & 15);
  to[8 * n] = __builtin_elementwise_add_sat(a, b);
  const s16x2 p = {a, b}, q = {b, short(a + 1)};
  pairs[t] = p + q, pairs[n + t] = p * q, pairs[2 * n + t] = __builtin_elementwise_max(p, q), pairs[3 * n + t] = p << (q & s16x2{15, 15});
}

// ---- Control flow ----

KERNEL void collatz(const u32* x, u32* steps, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  u32 v = x[t], count = 0;
  while (v != 1) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    if (++count >= 500) break;
  }
  steps[t] = count;
}

__constant__ u32 kTable[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ u32 changeable[4] = {10, 20, 30, 40};

KERNEL void switches(const u32* x, u32* out, u32 n) {
  const u32 t = flat_id();
  if (t >= n) return;
  u32 v = x[t], r = 0;
  for (int k = 0; k < 6; ++k, v = v * 1664525u + 1013904223u) {
    switch (v >> 28) {
      case 0: r += kTable[v & 15]; break;
      case 1: r ^= v; break;
      case 2: r = r * 3 + 1; [[fallthrough]];
      case 3: r -= 7; break;
      case 5: if (r & 1) continue; r <<= 1; break;
      case 8: r += changeable[v & 3]; break;
      case 11: r = ~r; break;
      case 13: k += 1; break;
      default: r += k;
    }
  }
  out[t] = r;
}

KERNEL void nested_divergence(u32* out) {
  const u32 t = threadIdx.x;
  u32 r = 0;
  for (u32 a = 0; a < t % 5 + 1; ++a) {
    if (a == 3 && t & 1) return;
    for (u32 b = t % 3; b < 4; ++b) {
      if (b == 2 && a == 1) continue;
      r = r * 7 + a * 5 + b;
      if (r % 11 == 3) goto next;
    }
    r ^= 0x100;
  next:;
  }
  out[t] = r;
}

KERNEL void uniform_branches(const u32* x, u32* out, u32 n) {
  u32 r = 0;
  for (u32 k = 0; k < n; ++k) {  // all uniform: scalar loads, scalar arithmetic, scalar branches
    const u32 v = x[k];
    if (v % 3 == 0) r += v * 5;
    else if (v > 1000) r ^= v >> 3;
    else r = (r << 1) | (v & 1);
  }
  out[flat_id()] = r + threadIdx.x;
}

// ---- Arguments and memory ----

struct Mixed {
  char a;
  short b;
  double c;
  u32 d[5];
  unsigned char e;
};
KERNEL void arguments(char a, short b, Mixed m, double c, unsigned char d, long long e, float* out, bool f) {
  out[0] = a, out[1] = b, out[2] = m.a, out[3] = m.b, out[4] = float(m.c);
  for (int k = 0; k < 5; ++k) out[5 + k] = float(m.d[k]);
  out[10] = m.e, out[11] = float(c), out[12] = d, out[13] = float(e), out[14] = f ? 1.f : 2.f;
}

KERNEL void vector_loads(const float4* a, const float2* b, const float* c, float4* out, float* out3) {
  const u32 t = flat_id();
  const float4 v = a[t];
  const float2 w = b[t];
  out[t] = make_float4(v.w + w.x, v.z - w.y, v.y * w.x, v.x * w.y);
  struct Three { float x, y, z; };
  const Three three = reinterpret_cast<const Three*>(c)[t];
  reinterpret_cast<Three*>(out3)[t] = {three.z, three.x, three.y};
}

KERNEL void narrow_memory(const signed char* a, const unsigned short* b, signed char* c, unsigned short* d, int* sums) {
  const u32 t = flat_id();
  const int sum = a[t] * 3 + b[t];
  sums[t] = sum, c[t] = (signed char)(sum >> 2), d[t] = (unsigned short)(sum * 5);
}

KERNEL void read_globals(u32* out) {
  if (threadIdx.x < 4) out[threadIdx.x] = changeable[threadIdx.x]++;
  else if (threadIdx.x < 20) out[threadIdx.x] = kTable[threadIdx.x - 4];
}

KERNEL void beyond(float* y, u32 shift) { y[threadIdx.x + shift] = 1.f; }

KERNEL void races(u32* out) {
  __shared__ u32 row[256];
  row[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = row[(threadIdx.x + 64) % 256];
}

KERNEL void never_written(u32* out) {
  __shared__ u32 row[256];
  if (threadIdx.x > 1000) row[threadIdx.x % 256] = 1;
  __syncthreads();
  out[threadIdx.x] = row[threadIdx.x];
}

KERNEL void trap() { __builtin_trap(); }
