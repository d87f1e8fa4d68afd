// What all matrix products share: operands as rows of floats, and the multiplication of one block.
//
// Lane l of an operand's register holds elements of row or column l mod N, for some k. `widen` turns each element
// position of the registers into a row of 64 floats; each lane keeps its place. Row q of A and row q of B then hold the
// same k in the same lane group l / N, for every shape (AMD matrix instruction calculator: A[i][k] and B[k][j] lie in
// the lanes g * N + i and g * N + j of the same register bits).
//
// AMD publishes no order of accumulation. Here a sum starts with C and adds one product at a time, lane group after
// lane group, element after element. Each step is one fused multiply-add in float, so no product is ever rounded.
#pragma once

#include <array>

#include "formats.hpp"
#include "lanes.hpp"
#include "launch.hpp"

namespace emu::matrix {

using Floats = float __attribute__((vector_size(64), aligned(4), may_alias));  // 16 columns
using Float = float __attribute__((may_alias));

inline const Floats& columns(const Row& row, int lane) { return *reinterpret_cast<const Floats*>(row.x + lane); }
inline Floats& columns(Row& row, int lane) { return *reinterpret_cast<Floats*>(row.x + lane); }
inline const Float* floats(const Row& row) { return reinterpret_cast<const Float*>(row.x); }
inline Float* floats(Row& row) { return reinterpret_cast<Float*>(row.x); }

// ---- elements: kPer in a dword; widen() lays one dword row into kPer rows of floats ----

struct F32 {
  static constexpr int kPer = 1;
  static constexpr float kLeastNormal = 0;
  static void widen(const Row& from, Row* to, const ArchTraits&, int) { to[0] = from; }
};

// 32-bit floats whose mantissa is rounded to 10 bits, nearest even.
struct Xf32 {
  static constexpr int kPer = 1;
  static constexpr float kLeastNormal = 0;
  static void widen(const Row& from, Row* to, const ArchTraits&, int lanes) {
    EMU_LANES_OF(lanes) {
      const uint32_t x = from.x[l], rounded = (x + 0xfffu + (x >> 13 & 1)) & ~0x1fffu;
      to[0].x[l] = (x & 0x7f800000u) == 0x7f800000u ? x : rounded;
    }
  }
};

struct F16 {
  static constexpr int kPer = 2;
  static constexpr float kLeastNormal = 0x1p-14f;
  static void widen(const Row& from, Row* to, const ArchTraits&, int lanes) {
#if defined(__AVX512F__)
    if (emulation::careful) return widen_plainly(from, to, lanes);
    // The zero-masked forms, because GCC 12 warns of the plain ones' undefined pass-through.
    constexpr __mmask16 all = 0xffff;
    for (int k = 0; k < lanes; k += 16) {
      const __m512i both = _mm512_loadu_si512(from.x + k), high = _mm512_maskz_srli_epi32(all, both, 16);
      _mm512_storeu_ps(to[0].x + k, _mm512_maskz_cvtph_ps(all, _mm512_maskz_cvtepi32_epi16(all, both)));
      _mm512_storeu_ps(to[1].x + k, _mm512_maskz_cvtph_ps(all, _mm512_maskz_cvtepi32_epi16(all, high)));
    }
#else
    widen_plainly(from, to, lanes);
#endif
  }

  static void widen_plainly(const Row& from, Row* to, int lanes) {
    // Read as a float, the magnitude's bits are 2^-112 of it, denormals included. Infinities and NaNs need the top
    // exponent.
    for (int half = 0; half < 2; ++half)
      EMU_LANES_OF(lanes) {
        const uint32_t h = from.x[l] >> 16 * half & 0xffff, magnitude = (h & 0x7fff) << 13;
        const uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
        const uint32_t top = magnitude >= 0x0f800000u ? (magnitude | 0x7f800000u) : bits;
        to[half].x[l] = top | (h & 0x8000) << 16;
      }
  }
};

struct Bf16 {
  static constexpr int kPer = 2;
  static constexpr float kLeastNormal = 0x1p-126f;
  static void widen(const Row& from, Row* to, const ArchTraits&, int lanes) {
    EMU_LANES_OF(lanes) to[0].x[l] = from.x[l] << 16;
    EMU_LANES_OF(lanes) to[1].x[l] = from.x[l] & 0xffff0000u;
  }
};

// The numbers of a narrow format's codes.
template <int Codes>
inline std::array<float, Codes> numbers_of(const Format& format) {
  std::array<float, Codes> out;
  for (int code = 0; code < Codes; ++code) out[code] = float(decode(format, uint64_t(code)));
  return out;
}
// Widens four codes of 8 bits in a dword, by arithmetic on rows. The digits and exponent of a normal number move up. A
// denormal number is the difference of two floats of one exponent.
template <int Mantissa, int Bias, bool Fnuz>
inline void widen_bytes(const Row& from, Row* to, int lanes) {
  constexpr uint32_t up = 23 - Mantissa, one = uint32_t(127 - Bias) << 23, least = uint32_t(128 - Bias) << 23;
  for (int byte = 0; byte < 4; ++byte)
    EMU_LANES_OF(lanes) {
      const uint32_t code = from.x[l] >> 8 * byte & 0xff, size = code & 0x7f, sign = (code & 0x80) << 24;
      const uint32_t normal = (size << up) + one;
      const uint32_t tiny = bits_of(as_float((size << up) + least) - as_float(least));
      const uint32_t number = (size < (1u << Mantissa) ? tiny : normal) | sign;
      const bool nan = Fnuz ? code == 0x80 : Mantissa == 3 ? size == 0x7f : size > 0x7c;
      const bool infinite = !Fnuz && Mantissa == 2 && size == 0x7c;
      to[byte].x[l] = nan ? 0x7fc00000u : infinite ? 0x7f800000u | sign : number;
    }
}

// fp8 and bf8 are the FNUZ formats or those of OCP, as the architecture has them.
struct Fp8 {
  static constexpr int kPer = 4;
  static constexpr float kLeastNormal = 0;
  static void widen(const Row& from, Row* to, const ArchTraits& arch, int lanes) {
    arch.facts.fnuz ? widen_bytes<3, 8, true>(from, to, lanes) : widen_bytes<3, 7, false>(from, to, lanes);
  }
};

struct Bf8 {
  static constexpr int kPer = 4;
  static constexpr float kLeastNormal = 0;
  static void widen(const Row& from, Row* to, const ArchTraits& arch, int lanes) {
    arch.facts.fnuz ? widen_bytes<2, 16, true>(from, to, lanes) : widen_bytes<2, 15, false>(from, to, lanes);
  }
};

// Integers as floats. Their products, and sums of up to 128 of those, are below 2^24, so they are exact.
template <int Bits, bool Signed>
struct Integer {
  static constexpr int kPer = 32 / Bits;
  static constexpr float kLeastNormal = 0;
  static void widen(const Row& from, Row* to, const ArchTraits&, int lanes) {
    for (int e = 0; e < kPer; ++e) {
      Float* out = floats(to[e]);
      EMU_LANES_OF(lanes) {
        const uint32_t top = from.x[l] << (32 - Bits - Bits * e);
        out[l] = Signed ? float(int32_t(top) >> (32 - Bits)) : float(int32_t(top >> (32 - Bits)));
      }
    }
  }
};

// `count` registers from `first` on as rows. One copy of each suffices: rows take longer than a call.
template <class E>
[[gnu::noinline]] void widen(const Wave& w, int first, int count, Row* to) {
  for (int r = 0; r < count; ++r) E::widen(w.v[first + r], to + r * E::kPer, *w.arch, w.lanes);
}
using Byte = Integer<8, true>;
extern template void widen<F16>(const Wave&, int, int, Row*);  // mfma.cpp
extern template void widen<Bf16>(const Wave&, int, int, Row*);
extern template void widen<Fp8>(const Wave&, int, int, Row*);
extern template void widen<Bf8>(const Wave&, int, int, Row*);
extern template void widen<Byte>(const Wave&, int, int, Row*);

// ---- products ----

// One step of 16 sums.
inline Floats fused(float left, const Floats& right, const Floats& sum) {
#if defined(__AVX512F__)
  return Floats(_mm512_fmadd_ps(_mm512_set1_ps(left), __m512(right), __m512(sum)));
#else
  Floats out;
  for (int j = 0; j < 16; ++j) out[j] = __builtin_fmaf(left, right[j], sum[j]);
  return out;
#endif
}

// The lane groups that have different k, and the elements of each lane.
struct Depth {
  int groups, pack;
};

// The next function element by element, with the vectors of C and D in the order of rows (mfma.cpp).
void multiply_elements(int n, Depth depth, const Row* a, const Row* b, int from_a, int from_b, const Floats* const* c,
                       Floats* const* d);

// D += A B of one block of N x N, N 16 or 32. `a` and `b` are `pack` rows; lane group g (lanes from + g * N) of them has
// the elements k = g * pack ... of column (row) l mod N. `d`: N = 32: 16 rows, row 8 * (r / 4) + 4 * (lane / 32) + r % 4;
// N = 16: 4 rows, row 4 * (lane / 16) + r; column lane mod N (CDNA3 ISA 7.1 "Matrix Arithmetic Instructions").
//
// Sixteen vectors of sums stay in registers for all k, which is only so where the loops over them are unrolled. They are
// a part of D: kRows rows. c(p, m, v) and d(p, m, v) are where vector v of row m of part p of C and D lies; the same
// place, or all of C is read first (N = 16).
template <int N, class C, class D>
inline void multiply_rows(Depth depth, const Row* a, const Row* b, int from_a, int from_b, C c, D d) {
  static_assert(N == 16 || N == 32);
  constexpr int kWide = N / 16, kRows = 16 / kWide, kParts = N / kRows;
  if (emulation::careful) {
    const Floats* from[N * kWide];
    Floats* to[N * kWide];
    for (int s = 0; s < N * kWide; ++s)
      from[s] = c(s / 16, s % 16 / kWide, s % kWide), to[s] = d(s / 16, s % 16 / kWide, s % kWide);
    return multiply_elements(N, depth, a, b, from_a, from_b, from, to);
  }
  for (int part = 0; part < kParts; ++part) {
    Floats sum[16];
#pragma GCC unroll 16
    for (int s = 0; s < 16; ++s) sum[s] = *c(part, s / kWide, s % kWide);
    for (int g = 0; g < depth.groups; ++g) {
      const Float *left = floats(a[0]) + from_a + g * N + kRows * part, *right = floats(b[0]) + from_b + g * N;
      for (int q = 0; q < depth.pack; ++q, left += kLanes, right += kLanes) {
#pragma GCC unroll 16
        for (int s = 0; s < 16; ++s)
          sum[s] = fused(left[s / kWide], *reinterpret_cast<const Floats*>(right + 16 * (s % kWide)), sum[s]);
      }
    }
#pragma GCC unroll 16
    for (int s = 0; s < 16; ++s) *d(part, s / kWide, s % kWide) = sum[s];
  }
}

// D += A B of one block of 16 x 16 or 32 x 32, with `d` as MFMA has it (mfma.cpp).
void multiply_block(int n, Depth depth, const Row* a, const Row* b, int from_a, int from_b, Row* d);

// Puts C into `count` registers of D from `to` on. C may be a constant, D itself, or overlap it.
inline void accumulator(Wave& w, const Operand& c, int to, int count) {
  if (c.kind != Kind::Vgpr) {
    for (int r = 0; r < count; ++r) fill(w.v[to + r].x, scalar32(w, c));
  } else if (c.reg != to) {
    std::memmove(&w.v[to], &w.v[c.reg], size_t(count) * sizeof(Row));
  }
}

// Says why operands are not registers of the shape's size; empty: they fit. Sizes are in dwords; 0 for c allows any.
inline std::string misfit(const Inst& i, int d, int a, int b, int c) {
  const auto is = [](const Operand& op, int dwords) { return op.kind == Kind::Vgpr && op.count == dwords; };
  if (i.ops < 4) return "a matrix instruction needs a result, A, B and a third operand";
  if (!is(i.op[0], d)) return "the result does not have " + std::to_string(d) + " registers";
  if (!is(i.op[1], a)) return "A does not have " + std::to_string(a) + " registers";
  if (!is(i.op[2], b)) return "B does not have " + std::to_string(b) + " registers";
  if (c && i.op[3].kind == Kind::Vgpr && i.op[3].count != c) return "C does not have " + std::to_string(c) + " registers";
  if (i.op[3].kind != Kind::Vgpr && i.op[3].kind != Kind::Constant) return "C is neither registers nor a constant";
  return "";
}

}  // namespace emu::matrix
