// Vector operations on 4 floats: Advanced SIMD of AArch64 (and BF16 dot products where PAIRS is set).
#include <arm_neon.h>

enum { NL = 4 };
typedef float32x4_t vf;
typedef uint32x4_t vm;
typedef uint32_t vu __attribute__((vector_size(16)));

INLINE vf exp2_fraction(vf f);
INLINE vf vset(float x) { return vdupq_n_f32(x); }
INLINE vf vload(const float* p) {
  vf x;
  memcpy(&x, p, sizeof x);  // as any type: words may be floats or pairs
  return x;
}
INLINE uint16x4_t load_bits(const void* p) {
  uint16x4_t x;
  memcpy(&x, p, sizeof x);
  return x;
}
INLINE vf vload(const f16* p) { return vcvt_f32_f16(vreinterpret_f16_u16(load_bits(p))); }
INLINE vf vload(const bf16* p) { return vreinterpretq_f32_u32(vshll_n_u16(load_bits(p), 16)); }
// Up to NL elements, zeros behind them, in pieces of fixed size: a copy of n bytes is a call, before which every vector goes to
// the stack.
template <class T>
INLINE vf vload_n(const T* p, i64 n) {
  if (n >= NL) return vload(p);
  uint64_t row = 0;
  if (n & 1) memcpy(&row, p + (n & 2), sizeof(T));
  if (n & 2) {
    uint32_t two;
    memcpy(&two, p, sizeof two);
    row = row << 32 | two;
  }
  return vload((const T*)&row);
}
INLINE vf vload_n(const float* p, i64 n) {
  if (n >= NL) return vload(p);
  float last = 0;
  if (n & 1) memcpy(&last, p + (n & 2), sizeof last);
  if (!(n & 2)) return vf{last};
  float32x2_t two;
  memcpy(&two, p, sizeof two);
  return vcombine_f32(two, float32x2_t{last});
}
INLINE void vstore(float* p, vf x) { memcpy(p, &x, sizeof x); }
INLINE uint16x4_t half_bits(vf x, const f16*) { return vreinterpret_u16_f16(vcvt_f16_f32(x)); }
#if PAIRS
INLINE uint16x4_t half_bits(vf x, const bf16*) { return vreinterpret_u16_bf16(vcvt_bf16_f32(x)); }
#else
INLINE uint16x4_t half_bits(vf x, const bf16*) {
  const uint32x4_t u = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  const uint32x4_t r = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), r, vorrq_u32(u, vdupq_n_u32(0x400000))), 16);
}
#endif
template <class T>
INLINE void vstore(T* p, vf x) {
  const uint16x4_t bits = half_bits(x, p);
  memcpy(p, &bits, sizeof bits);
}
template <class T>
INLINE void vstore_n(T* p, vf x, i64 n) {
  if (n >= NL) return vstore(p, x);
  uint64_t row = vget_lane_u64(vreinterpret_u64_u16(half_bits(x, p)), 0);
  if (n & 2) {
    memcpy(p, &row, 2 * sizeof(T));
    row >>= 32;
  }
  if (n & 1) memcpy(p + (n & 2), &row, sizeof(T));
}
INLINE void vstore_n(float* p, vf x, i64 n) {
  if (n >= NL) return vstore(p, x);
  float32x2_t part = vget_low_f32(x);
  if (n & 2) {
    memcpy(p, &part, sizeof part);
    part = vget_high_f32(x);
  }
  if (n & 1) memcpy(p + (n & 2), &part, sizeof(float));
}
INLINE vf vfma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
INLINE vf vpick(vm m, vf yes, vf no) { return vbslq_f32(m, yes, no); }
INLINE vm vabove(vf a, vf b) { return vcgtq_f32(a, b); }
// NaN in b is kept, NaN in a is not: fmax would keep both, fmaxnm neither.
INLINE vf vmax(vf a, vf b) { return vpick(vabove(a, b), a, b); }
INLINE vf vmin(vf a, vf b) { return vpick(vabove(b, a), a, b); }
INLINE vf vxor(vf a, uint32_t bits) { return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), vdupq_n_u32(bits))); }
INLINE vf vabs(vf a) { return vabsq_f32(a); }
INLINE uint32x4_t lane_numbers() { return (uint32x4_t){0, 1, 2, 3}; }
INLINE vu vlanes() { return (vu){0, 1, 2, 3}; }
INLINE vf viota() { return (vf){0, 1, 2, 3}; }
// Lanes lo <= lane < hi; both in [0, NL].
INLINE vm vrange(i64 lo, i64 hi) {
  const uint32x4_t lane = lane_numbers();
  return vandq_u32(vcgeq_u32(lane, vdupq_n_u32((uint32_t)lo)), vcltq_u32(lane, vdupq_n_u32((uint32_t)hi)));
}
INLINE float vsum(vf x) { return vaddvq_f32(x); }
INLINE float vtop(vf x) { return vmaxvq_f32(x); }
INLINE vf vquotient(vf p, vf q) { return vdivq_f32(p, q); }
// At -127 the sum of exponents is 0 and the fraction 1: exactly 0. A NaN converts to 0.
INLINE vf vexp2(vf x) {
  x = vmaxq_f32(x, vset(-127.0f));
  const vf whole = vrndmq_f32(x), p = exp2_fraction(vsubq_f32(x, whole));
  return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vcvtq_s32_f32(whole), 23)));
}
INLINE void vmul_wide(vu a, uint32_t m, vu& hi, vu& lo) {
  const uint32x4_t x = (uint32x4_t)a;
  const uint32x4_t left = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(x), m));
  const uint32x4_t right = vreinterpretq_u32_u64(vmull_n_u32(vget_high_u32(x), m));
  lo = (vu)vuzp1q_u32(left, right);
  hi = (vu)vuzp2q_u32(left, right);
}
INLINE vm vreaches(vu a, uint32_t least) { return vcgeq_u32((uint32x4_t)a, vdupq_n_u32(least)); }

// A register of 4 words, of which one is multiplied with all lanes of x.
template <int LANE>
INLINE vf vfma_word(vf acc, vf words, vf x) {
  return vfmaq_laneq_f32(acc, x, words, LANE);
}

#if PAIRS
// Lanes hold pairs of bf16; products are exact, sums are fp32.
INLINE bfloat16x8_t as_pairs(vf x) { return vreinterpretq_bf16_f32(x); }
INLINE vf vpair(uint32_t x) { return vreinterpretq_f32_u32(vdupq_n_u32(x)); }
INLINE vf vdot(vf acc, vf a, vf b) { return vbfdotq_f32(acc, as_pairs(a), as_pairs(b)); }
template <int LANE>
INLINE vf vdot_word(vf acc, vf words, vf x) {
  // clang makes two instructions of vbfdotq_laneq_f32, and GCC 12 copies words until registers run out.
  __asm__("bfdot %0.4s, %1.8h, %2.2h[%3]" : "+w"(acc) : "w"(x), "w"(words), "i"(LANE));
  return acc;
}
// Adds the products of two blocks, each two rows of 4 bf16: 2 x 2 sums.
INLINE vf vblock(vf acc, vf a, vf b) {
  __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(acc) : "w"(a), "w"(b));  // GCC 12 copies the intrinsic's accumulators
  return acc;
}
INLINE vf rows_low(vf a, vf b) {
  return vreinterpretq_f32_u64(vzip1q_u64(vreinterpretq_u64_f32(a), vreinterpretq_u64_f32(b)));
}
INLINE vf rows_high(vf a, vf b) {
  return vreinterpretq_f32_u64(vzip2q_u64(vreinterpretq_u64_f32(a), vreinterpretq_u64_f32(b)));
}
INLINE vf words_low(vf a, vf b) { return vzip1q_f32(a, b); }
INLINE vf words_high(vf a, vf b) { return vzip2q_f32(a, b); }
// Up to 2 * NL elements as NL pairs, zeros behind them.
INLINE vf vload_pairs(const bf16* p, i64 n) {
  if (n >= 2 * NL) return vload((const float*)p);
  float row[NL] = {};
  memcpy(row, p, (size_t)n * sizeof(bf16));
  return vload(row);
}
// Rounds two vectors to bf16 and pairs them lane by lane: a in the low halves.
INLINE vf vjoin(vf a, vf b) {
  const uint16x4_t low = half_bits(a, (const bf16*)0), high = half_bits(b, (const bf16*)0);
  return vreinterpretq_f32_u16(vcombine_u16(vzip1_u16(low, high), vzip2_u16(low, high)));
}
// Rows a and b of V as they lie in memory, 8 columns, as pairs: the first 4 columns, and the last.
INLINE vf vweave_low(vf a, vf b) {
  return vreinterpretq_f32_u16(vzip1q_u16(vreinterpretq_u16_f32(a), vreinterpretq_u16_f32(b)));
}
INLINE vf vweave_high(vf a, vf b) {
  return vreinterpretq_f32_u16(vzip2q_u16(vreinterpretq_u16_f32(a), vreinterpretq_u16_f32(b)));
}
// Rows a and b of V as pairs, 4 columns.
INLINE vf vzip(vf a, vf b) { return vreinterpretq_f32_u32(vsriq_n_u32(vreinterpretq_u32_f32(b), vreinterpretq_u32_f32(a), 16)); }
#endif
