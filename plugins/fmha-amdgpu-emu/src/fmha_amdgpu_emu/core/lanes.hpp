// Reading sources and writing destinations of vector instructions, lane by lane, with DPP, SDWA, op_sel and EXEC.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "wave.hpp"

// Lanes are independent: rows that alias are the same row. EMU_LANES_OF is for what waves of 32 lanes do much: it leaves
// the other half of their rows alone.
#if defined(__GNUC__) && !defined(__clang__)
#define EMU_LANES _Pragma("GCC ivdep") for (int l = 0; l < kLanes; ++l)
#define EMU_LANES_OF(n) for (int begin = 0; begin < (n); begin += 32) _Pragma("GCC ivdep") for (int l = begin; l < begin + 32; ++l)
#else
#define EMU_LANES for (int l = 0; l < kLanes; ++l)
#define EMU_LANES_OF(n) for (int begin = 0; begin < (n); begin += 32) for (int l = begin; l < begin + 32; ++l)
#endif

namespace emu {

// ---- masks and rows ----

inline void blend(uint32_t* to, const uint32_t* from, uint64_t mask) {
#if defined(__AVX512F__)
  for (int k = 0; k < kLanes; k += 16)
    _mm512_mask_storeu_epi32(to + k, __mmask16(mask >> k), _mm512_loadu_si512(from + k));
#else
  for (int l = 0; l < kLanes; ++l) to[l] = mask >> l & 1 ? from[l] : to[l];
#endif
}

// Bit l is set where x[l] is not zero.
inline uint64_t nonzero(const uint32_t* x) {
  uint64_t bits = 0;
#if defined(__AVX512F__)
  for (int k = 0; k < kLanes; k += 16) {
    const __m512i row = _mm512_loadu_si512(x + k);
    bits |= uint64_t(_mm512_test_epi32_mask(row, row)) << k;
  }
#else
  for (int l = 0; l < kLanes; ++l) bits |= uint64_t(x[l] != 0) << l;
#endif
  return bits;
}

// The largest x[l] of the lanes of the mask; 0: there are none.
inline uint32_t largest(uint64_t mask, const uint32_t* x) {
#if defined(__AVX512F__)
  __m512i out = _mm512_setzero_si512();
  for (int k = 0; k < kLanes; k += 16)
    out = _mm512_max_epu32(out, _mm512_maskz_loadu_epi32(__mmask16(mask >> k), x + k));
  return _mm512_reduce_max_epu32(out);
#else
  uint32_t out = 0;
  for (int l = 0; l < kLanes; ++l) out = mask >> l & 1 && x[l] > out ? x[l] : out;
  return out;
#endif
}

// x[l] is bit l.
inline void spread(uint64_t bits, uint32_t* x) {
#if defined(__AVX512F__)
  for (int k = 0; k < kLanes; k += 16) _mm512_storeu_si512(x + k, _mm512_maskz_set1_epi32(__mmask16(bits >> k), 1));
#else
  for (int l = 0; l < kLanes; ++l) x[l] = bits >> l & 1;
#endif
}

// Bit l is set where the rows differ.
inline uint64_t different(const uint32_t* a, const uint32_t* b) {
  uint64_t bits = 0;
#if defined(__AVX512F__)
  for (int k = 0; k < kLanes; k += 16)
    bits |= uint64_t(_mm512_cmpneq_epi32_mask(_mm512_loadu_si512(a + k), _mm512_loadu_si512(b + k))) << k;
#else
  for (int l = 0; l < kLanes; ++l) bits |= uint64_t(a[l] != b[l]) << l;
#endif
  return bits;
}

// Dword d of the N dwords at at(l) becomes lane l of row d, for the first `lanes` lanes.
template <int N, class At> inline void dwords_to_rows(At at, int lanes, Row* rows) {
#if defined(__AVX512F__)
  if constexpr (N == 4) {
    const auto load = [&](int l) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at(l))); };
    for (int k = 0; k < lanes; k += 16) {
      __m512i four[4];  // [j]: of lanes j, 4 + j, 8 + j, 12 + j
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        four[j] = _mm512_zextsi128_si512(load(k + j));
        four[j] = _mm512_inserti32x4(four[j], load(k + j + 4), 1);
        four[j] = _mm512_inserti32x4(four[j], load(k + j + 8), 2);
        four[j] = _mm512_inserti32x4(four[j], load(k + j + 12), 3);
      }
      const __m512i low = _mm512_unpacklo_epi32(four[0], four[1]), low2 = _mm512_unpacklo_epi32(four[2], four[3]);
      const __m512i high = _mm512_unpackhi_epi32(four[0], four[1]), high2 = _mm512_unpackhi_epi32(four[2], four[3]);
      _mm512_storeu_si512(rows[0].x + k, _mm512_unpacklo_epi64(low, low2));
      _mm512_storeu_si512(rows[1].x + k, _mm512_unpackhi_epi64(low, low2));
      _mm512_storeu_si512(rows[2].x + k, _mm512_unpacklo_epi64(high, high2));
      _mm512_storeu_si512(rows[3].x + k, _mm512_unpackhi_epi64(high, high2));
    }
    return;
  }
#endif
  for (int l = 0; l < lanes; ++l)
    for (int d = 0; d < N; ++d) std::memcpy(&rows[d].x[l], static_cast<const uint8_t*>(at(l)) + 4 * d, 4);
}

// The reverse: N dwords of each lane, lane after lane.
template <int N> inline void rows_to_dwords(const Row* rows, int lanes, uint32_t* to) {
#if defined(__AVX512F__)
  if constexpr (N == 4) {
    for (int k = 0; k < lanes; k += 16) {
      __m512i row[4];
#pragma GCC unroll 4
      for (int d = 0; d < 4; ++d) row[d] = _mm512_loadu_si512(rows[d].x + k);
      const __m512i low = _mm512_unpacklo_epi32(row[0], row[1]), low2 = _mm512_unpacklo_epi32(row[2], row[3]);
      const __m512i high = _mm512_unpackhi_epi32(row[0], row[1]), high2 = _mm512_unpackhi_epi32(row[2], row[3]);
      const __m512i four[4] = {_mm512_unpacklo_epi64(low, low2), _mm512_unpackhi_epi64(low, low2),
                               _mm512_unpacklo_epi64(high, high2), _mm512_unpackhi_epi64(high, high2)};
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const auto place = [&](int l) { return reinterpret_cast<__m128i*>(to + 4 * (k + j + l)); };
        _mm_storeu_si128(place(0), _mm512_castsi512_si128(four[j]));
        _mm_storeu_si128(place(4), _mm512_extracti32x4_epi32(four[j], 1));
        _mm_storeu_si128(place(8), _mm512_extracti32x4_epi32(four[j], 2));
        _mm_storeu_si128(place(12), _mm512_extracti32x4_epi32(four[j], 3));
      }
    }
    return;
  }
#endif
  for (int l = 0; l < lanes; ++l)
    for (int d = 0; d < N; ++d) to[N * l + d] = rows[d].x[l];
}

inline void fill(uint32_t* row, uint32_t value) {
  EMU_LANES row[l] = value;
}

// ---- scalars ----

inline uint32_t scalar32(const Wave& w, const Operand& op);
inline uint64_t scalar64(const Wave& w, const Operand& op);
inline void set_scalar32(Wave& w, const Operand& op, uint32_t value);
inline void set_scalar64(Wave& w, const Operand& op, uint64_t value);

// Base and limit of an aperture (dispatch.cpp).
uint64_t aperture_of(const Wave& w, uint32_t which);

inline uint32_t scalar32(const Wave& w, const Operand& op) {
  switch (op.kind) {
    case Kind::Sgpr: return w.s[op.reg];
    case Kind::Constant: return uint32_t(op.value);
    case Kind::Scc: return w.scc;
    case Kind::Vccz: return w.vcc() == 0;
    case Kind::Execz: return w.exec() == 0;
    case Kind::Aperture: return uint32_t(aperture_of(w, uint32_t(op.value)) >> 32);
    default: return 0;
  }
}

inline uint64_t scalar64(const Wave& w, const Operand& op) {
  switch (op.kind) {
    case Kind::Sgpr: return w.pair(op.reg);
    case Kind::Constant: return op.value;
    case Kind::Aperture: return aperture_of(w, uint32_t(op.value));
    default: return scalar32(w, op);
  }
}

inline void set_scalar32(Wave& w, const Operand& op, uint32_t value) {
  if (op.kind == Kind::Sgpr) w.s[op.reg] = value;
}

inline void set_scalar64(Wave& w, const Operand& op, uint64_t value) {
  if (op.kind == Kind::Sgpr) w.set_pair(op.reg, value);
}

// A lane mask operand (VCC, EXEC, an SGPR pair; a single SGPR on wave32).
inline uint64_t mask_of(const Wave& w, const Operand& op) {
  if (op.kind == Kind::Sgpr) return w.mask(op.reg);
  return (op.kind == Kind::Constant ? op.value : scalar64(w, op)) & w.full;
}

inline void set_mask_of(Wave& w, const Operand& op, uint64_t value) {
  if (op.kind == Kind::Sgpr) w.set_mask(op.reg, value & w.full);
}

// ---- sources ----

// The lanes that a DPP control reads: from[l] is the source lane of lane l, or -1 (dpp.cpp).
struct DppMap {
  int8_t from[kLanes];
  uint64_t valid;  // lanes with a source
  uint64_t rows;   // lanes that row_mask and bank_mask allow
};
const DppMap& dpp_map(const Inst& i, int lanes);
void apply_dpp(Wave& w, const Inst& i, const uint32_t* from, uint32_t* to);  // sets w.dpp_mask
void apply_sdwa(const uint32_t* from, uint32_t* to, Sel sel, bool sext);

// Dword `d` of source k as a row. Whole registers are not copied; everything else goes into `room`. This function
// applies sext of SDWA, DPP, op_sel halves and true16 halves. The arithmetic applies neg and abs, because it knows the
// type. A 16-bit source arrives in the low half, with zeros above.
const uint32_t* special_source(Wave& w, const Inst& i, int k, int d, Row& room);

inline const uint32_t* source(Wave& w, const Inst& i, int k, Row& room, int d = 0) {
  const Operand& op = i.src(k);
  if (i.plain && op.kind == Kind::Vgpr) return w.v[op.reg + d].x;
  return special_source(w, i, k, d, room);
}

// ---- destinations ----

// Writes dword `d` of op[0] in the lanes that EXEC (and DPP) allow. With op_sel, true16 or SDWA it writes only the
// selected part (dpp.cpp).
void commit_part(Wave& w, const Inst& i, const uint32_t* row, int d);

inline bool commits_all(const Wave& w, const Inst& i) { return i.plain && w.exec() == w.full; }

inline void commit(Wave& w, const Inst& i, const Row& row, int d = 0) {
  if (commits_all(w, i)) std::memcpy(w.v[i.op[0].reg + d].x, row.x, sizeof row.x);
  else commit_part(w, i, row.x, d);
}

// result[l] = f(l). With all lanes on, it goes straight into the register, so f may read only lane l of its sources.
template <class F> inline void each_lane(Wave& w, const Inst& i, F f) {
  Row out;
  const bool all = commits_all(w, i);
  uint32_t* const to = all ? w.v[i.op[0].reg].x : out.x;
  EMU_LANES_OF(w.lanes) to[l] = f(l);
  if (!all) commit_part(w, i, out.x, 0);
}

// result = f(a), f(a, b), f(a, b, c) on raw 32-bit lanes.
template <class F> inline void map1(Wave& w, const Inst& i, F f) {
  Row ra;
  const uint32_t* a = source(w, i, 0, ra);
  each_lane(w, i, [=](int l) { return f(a[l]); });
}

template <class F> inline void map2(Wave& w, const Inst& i, F f) {
  Row ra, rb;
  const uint32_t* a = source(w, i, 0, ra);
  const uint32_t* b = source(w, i, 1, rb);
  each_lane(w, i, [=](int l) { return f(a[l], b[l]); });
}

template <class F> inline void map3(Wave& w, const Inst& i, F f) {
  Row ra, rb, rc;
  const uint32_t* a = source(w, i, 0, ra);
  const uint32_t* b = source(w, i, 1, rb);
  const uint32_t* c = source(w, i, 2, rc);
  each_lane(w, i, [=](int l) { return f(a[l], b[l], c[l]); });
}

}  // namespace emu
