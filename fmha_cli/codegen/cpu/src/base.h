// Types, status codes and small helpers. No C++ library headers: they would double the compile time.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <malloc.h>
#define EXPORT __attribute__((dllexport, used))
#else
#define EXPORT __attribute__((visibility("default"), used))
#endif
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
// Called once in a launch, or hardly ever: made small, which takes less time to compile.
#define COLD static __attribute__((noinline, cold))
// Before a loop that is seldom run: GCC would repeat its body for each step, which takes longer to compile.
#define ROLLED _Pragma("GCC unroll 1")

typedef int64_t i64;

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};
struct byte8 {  // fp8 or int8: a table says what it means
  uint8_t bits;
};

// Memory that starts at a page; null when it is out.
#ifdef _WIN32
INLINE void* take_pages(size_t bytes) { return _aligned_malloc(bytes, 4096); }
INLINE void give_pages(void* memory) { _aligned_free(memory); }
#else
INLINE void* take_pages(size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, 4096, bytes) == 0 ? memory : nullptr;
}
INLINE void give_pages(void* memory) { free(memory); }
#endif

INLINE i64 min64(i64 a, i64 b) { return a < b ? a : b; }
INLINE i64 max64(i64 a, i64 b) { return a > b ? a : b; }
INLINE i64 clamp64(i64 x, i64 lo, i64 hi) { return x < lo ? lo : x > hi ? hi : x; }
INLINE i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

INLINE float as_float(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
INLINE uint32_t as_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
INLINE uint32_t load32(const void* p) {
  uint32_t u;
  memcpy(&u, p, 4);
  return u;
}

// Scalar conversions, for the ends of rows and for the row by row path.
INLINE float to_float(float x) { return x; }
INLINE float to_float(bf16 x) { return as_float((uint32_t)x.bits << 16); }
INLINE float to_float(f16 x) {
  uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16, body = (uint32_t)(x.bits & 0x7fff) << 13;
  if (body >= 0x0f800000u) return as_float(sign | (body + 0x70000000u));  // infinity and NaN
  return as_float(sign | as_bits(as_float(body) * 0x1p112f));             // exact, subnormals included
}
INLINE void from_float(float* p, float x) { *p = x; }
INLINE void from_float(bf16* p, float x) {
  uint32_t u = as_bits(x);
  p->bits = x != x ? (uint16_t)((u >> 16) | 0x40) : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
INLINE void from_float(f16* p, float x) {
  uint32_t u = as_bits(x), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff, out;
  if (a > 0x7f800000u)
    out = 0x7e00;
  else if (a >= 0x477ff000u)
    out = 0x7c00;
  else if (a < 0x38800000u)  // subnormal: the addition rounds to the spacing 2^-24
    out = as_bits(as_float(a) + 0.5f) - 0x3f000000u;
  else
    out = (a + 0xc8000fffu + ((a >> 13) & 1)) >> 13;
  p->bits = (uint16_t)(sign | out);
}
