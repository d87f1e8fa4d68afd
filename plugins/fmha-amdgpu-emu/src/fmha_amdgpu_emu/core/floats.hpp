// What all floating-point instructions share: predicates on bits, denormals by MODE, modifiers of sources (neg, abs),
// of results (omod, clamp), conversions of whole rows.
// ISA documents: CDNA3 6.2.1/6.2.4, CDNA4 6.2, RDNA3 7.2.2/7.2.3, RDNA4 7.2 ("Input modifiers", "Output modifiers").
#pragma once

#include "formats.hpp"
#include "lanes.hpp"

namespace emu {

// ---- single values: binary32 as bits, binary16 in the low half, binary64 ----

constexpr uint32_t kNan32 = 0xffc00000, kInfinity32 = 0x7f800000;
constexpr uint64_t kNan64 = 0xfff8000000000000, kInfinity64 = 0x7ff0000000000000;
constexpr uint32_t kNan16 = 0xfe00, kInfinity16 = 0x7c00;

inline bool is_nan32(uint32_t x) { return (x & 0x7fffffff) > kInfinity32; }
inline bool is_nan16(uint32_t x) { return (x & 0x7fff) > kInfinity16; }
inline bool is_nan64(uint64_t x) { return (x & ~(uint64_t(1) << 63)) > kInfinity64; }
inline bool is_signalling32(uint32_t x) { return is_nan32(x) && !(x & 0x00400000); }
inline bool is_signalling16(uint32_t x) { return is_nan16(x) && !(x & 0x0200); }
inline bool is_signalling64(uint64_t x) { return is_nan64(x) && !(x & 0x0008000000000000); }
inline uint32_t quiet32(uint32_t x) { return x | 0x00400000; }
inline uint32_t quiet16(uint32_t x) { return x | 0x0200; }
inline uint64_t quiet64(uint64_t x) { return x | 0x0008000000000000; }

// A denormal becomes the zero of its sign.
inline uint32_t flushed32(uint32_t x) { return x & (x & kInfinity32 ? 0xffffffffu : 0x80000000u); }
inline uint32_t flushed16(uint32_t x) { return x & (x & kInfinity16 ? 0xffffu : 0x8000u); }
inline uint64_t flushed64(uint64_t x) { return x & (x & kInfinity64 ? ~uint64_t(0) : uint64_t(1) << 63); }

// Exact; quiets a NaN.
inline float half_to_float(uint32_t h) {
  const uint32_t size = h & 0x7fff, sign = (h & 0x8000) << 16;
  const uint32_t normal = (size << 13) + (112u << 23), special = (size << 13) | kInfinity32;
  const uint32_t tiny = bits_of(as_float((size << 13) + (113u << 23)) - as_float(113u << 23));
  const uint32_t quiet = size > kInfinity16 ? 0x00400000 : 0;
  return as_float((size >= kInfinity16 ? special | quiet : size < 0x0400 ? tiny : normal) | sign);
}

// To nearest even; quiets a NaN and keeps the upper part of its payload.
inline uint32_t float_to_half(float x) {
  const uint32_t bits = bits_of(x);
  if (is_nan32(bits)) return (bits >> 16 & 0x8000) | 0x7e00 | (bits >> 13 & 0x3ff);
  return uint32_t(encode(kHalf, double(x)));
}

inline float brain_to_float(uint32_t b) { return as_float(b << 16); }

// To nearest even; quiets a NaN.
inline uint32_t float_to_brain(float x) {
  const uint32_t bits = bits_of(x), even = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return is_nan32(bits) ? (bits >> 16) | 0x40 : even;
}

// Chooses bits without a branch. A compiler that honours floating-point traps would compute the operand of a branch
// inside it, and then not vectorise.
[[gnu::always_inline]] inline uint32_t choose(bool first, uint32_t a, uint32_t b) {
  const uint32_t mask = -uint32_t(first);
  return (a & mask) | (b & ~mask);
}

// ---- rows ----

#if defined(__AVX512F__)
// The masked forms, because g++ 12 warns of the others' undefined upper parts.
constexpr __mmask16 kAll = 0xffff;
#endif

inline void halves_to_floats(float* to, const uint32_t* halves) {
#if defined(__AVX512F__)
  for (int k = 0; k < kLanes; k += 16) {
    const __m256i codes = _mm512_maskz_cvtepi32_epi16(kAll, _mm512_loadu_si512(halves + k));
    _mm512_storeu_ps(to + k, _mm512_maskz_cvtph_ps(kAll, codes));
  }
#else
  EMU_LANES to[l] = half_to_float(halves[l] & 0xffff);
#endif
}

#if defined(__AVX512F__)
template <int R> inline void floats_to_halves_as(uint32_t* to, const float* x) {
  for (int k = 0; k < kLanes; k += 16) {
    const __m256i codes = _mm512_maskz_cvtps_ph(kAll, _mm512_loadu_ps(x + k), R | _MM_FROUND_NO_EXC);
    _mm512_storeu_si512(to + k, _mm512_maskz_cvtepu16_epi32(kAll, codes));
  }
}
#endif

// Round 64 numbers to binary16 codes with zeros above.
inline void floats_to_halves(uint32_t* to, const float* x, int round = kNearest) {
#if defined(__AVX512F__)
  if (round == kNearest) floats_to_halves_as<_MM_FROUND_TO_NEAREST_INT>(to, x);
  else if (round == kUp) floats_to_halves_as<_MM_FROUND_TO_POS_INF>(to, x);
  else if (round == kDown) floats_to_halves_as<_MM_FROUND_TO_NEG_INF>(to, x);
  else floats_to_halves_as<_MM_FROUND_TO_ZERO>(to, x);
#else
  for (int l = 0; l < kLanes; ++l) {
    const bool nan = std::isnan(x[l]);
    to[l] = nan ? float_to_half(x[l]) : uint32_t(encode(kHalf, double(x[l]), round));
  }
#endif
}

inline bool any_nan32(const uint32_t* x, int lanes) {
  uint32_t any = 0;
#if defined(__AVX512F__)
  for (int k = 0; k < lanes; k += 16) {
    const __m512 row = _mm512_loadu_ps(x + k);
    any |= _mm512_cmp_ps_mask(row, row, _CMP_UNORD_Q);
  }
#else
  EMU_LANES_OF(lanes) any |= uint32_t((x[l] & 0x7fffffff) > kInfinity32);
#endif
  return any;
}

inline bool any_nan16(const uint32_t* x) {
  uint32_t any = 0;
  EMU_LANES any |= uint32_t((x[l] & 0x7fff) > kInfinity16);
  return any;
}

// ---- MODE ----

// Where MODE has neither IEEE nor DX10_CLAMP, the architecture behaves as if both were set.
inline bool ieee_of(const Wave& w) { return !w.arch->mode_has_ieee || w.mode.ieee(); }
inline bool clamps_nan(const Wave& w) { return !w.arch->mode_has_ieee || w.mode.dx10_clamp(); }
// MODE.FP16_OVFL: a finite result beyond binary16 (or an 8-bit format) becomes the largest number.
inline bool fp16_overflow(const Wave& w) { return w.mode.bits >> 23 & 1; }

// Output modifiers have no effect where results may be denormal, and none in IEEE mode, except where the architecture
// always applies them (CDNA4 6.2, RDNA3 7.2.3.1). They turn -0 into +0 and flush denormals.
inline int omod_of(const Wave& w, const Inst& i, bool denormals) {
  if (!i.mod.omod) return 0;
  if (w.arch->omod_always) return i.mod.omod;
  return w.mode.ieee() || denormals ? 0 : i.mod.omod;
}

inline double omod_factor(int omod) { return omod == 1 ? 2.0 : omod == 2 ? 4.0 : omod == 3 ? 0.5 : 1.0; }

// ---- sources ----

struct Fetched {
  Row room;
  const uint32_t* x;
};

// For a row that will change: copies a source that is a register first.
inline uint32_t* own(Fetched& f) {
  if (f.x != f.room.x) std::memcpy(f.room.x, f.x, sizeof f.room.x);
  f.x = f.room.x;
  return f.room.x;
}

inline void edit32(Fetched& f, bool neg, bool abs, bool flush, int lanes) {
  if (!neg && !abs && !flush) return;
  const uint32_t keep = abs ? 0x7fffffff : 0xffffffff, turn = neg ? 0x80000000 : 0;
  const uint32_t* from = f.x;
  uint32_t* to = f.room.x;
  if (flush) EMU_LANES_OF(lanes) to[l] = flushed32((from[l] & keep) ^ turn);
  else EMU_LANES_OF(lanes) to[l] = (from[l] & keep) ^ turn;
  f.x = to;
}

// binary16 in the low half; the upper half is cleared.
inline void edit16(Fetched& f, bool neg, bool abs, bool flush) {
  const uint32_t keep = abs ? 0x7fff : 0xffff, turn = neg ? 0x8000 : 0;
  const uint32_t* from = f.x;
  uint32_t* to = f.room.x;
  if (flush) EMU_LANES to[l] = flushed16((from[l] & keep) ^ turn);
  else EMU_LANES to[l] = (from[l] & keep) ^ turn;
  f.x = to;
}

inline void fetch32(Wave& w, const Inst& i, int k, Fetched& f, bool flush) {
  f.x = source(w, i, k, f.room);
  const Operand& op = i.src(k);
  edit32(f, op.neg, op.abs, flush, w.lanes);
}

inline void fetch16(Wave& w, const Inst& i, int k, Fetched& f, bool flush) {
  f.x = source(w, i, k, f.room);
  const Operand& op = i.src(k);
  edit16(f, op.neg, op.abs, flush);
}

// binary64: two dwords of a source, joined.
struct Doubles {
  alignas(64) uint64_t x[kLanes];
};

inline void fetch64(Wave& w, const Inst& i, int k, Doubles& to, bool flush) {
  Row rooms[2];
  const uint32_t *low = source(w, i, k, rooms[0], 0), *high = source(w, i, k, rooms[1], 1);
  const Operand& op = i.src(k);
  const uint64_t keep = op.abs ? ~uint64_t(0) >> 1 : ~uint64_t(0), turn = op.neg ? uint64_t(1) << 63 : 0;
  EMU_LANES to.x[l] = ((uint64_t(high[l]) << 32 | low[l]) & keep) ^ turn;
  if (flush) EMU_LANES to.x[l] = flushed64(to.x[l]);
}

// Source k as it is in its register: DPP is done, op_sel is left to the caller.
inline const uint32_t* whole_source(Wave& w, const Inst& i, int k, Row& room, int d = 0) {
  const Operand& op = i.src(k);
  if (op.kind == Kind::Vgpr) {
    if (k != 0 || i.mod.dpp == Dpp::None) return w.v[op.reg + d].x;
    apply_dpp(w, i, w.v[op.reg + d].x, room.x);
  } else if (op.kind == Kind::Sgpr) {
    fill(room.x, w.s[op.reg + (op.count > 1 ? d : 0)]);
  } else {
    fill(room.x, d ? uint32_t(op.value >> 32) : scalar32(w, op));
  }
  return room.x;
}

// ---- results ----

// Whole dwords of op[0], whatever op_sel says.
inline void whole_commit(Wave& w, const Inst& i, const uint32_t* row, int d = 0) {
  uint64_t mask = w.exec();
  if (i.mod.dpp != Dpp::None) mask &= w.dpp_mask;
  blend(w.v[i.op[0].reg + d].x, row, mask);
}

inline uint32_t clamped32(uint32_t x, bool nan_to_zero) {
  const uint32_t inside = int32_t(x) < 0 ? 0 : x > 0x3f800000 ? 0x3f800000 : x;
  return is_nan32(x) ? (nan_to_zero ? 0 : x) : inside;
}

// omod, clamp and denormals of 64 results. `flush`: denormals of the result become zero. `denormals`: MODE lets results
// be denormal, which disables omod.
inline void finish32(const Wave& w, const Inst& i, uint32_t* x, bool flush, bool denormals) {
  if (const int omod = omod_of(w, i, denormals)) {
    const float factor = float(omod_factor(omod));
    EMU_LANES_OF(w.lanes) {
      const uint32_t scaled = flushed32(bits_of(as_float(flushed32(x[l])) * factor));
      const uint32_t value = scaled == 0x80000000 && !(x[l] & 0x7fffffff) ? 0 : scaled;
      x[l] = is_nan32(x[l]) ? x[l] : value;
    }
  } else if (flush) {
    EMU_LANES_OF(w.lanes) x[l] = flushed32(x[l]);
  }
  if (i.mod.clamp) {
    const bool nan_to_zero = clamps_nan(w);
    EMU_LANES_OF(w.lanes) x[l] = clamped32(x[l], nan_to_zero);
  }
}

inline void finish16(const Wave& w, const Inst& i, uint32_t* x, bool flush, bool denormals) {
  if (const int omod = omod_of(w, i, denormals)) {
    const float factor = float(omod_factor(omod));
    for (int l = 0; l < kLanes; ++l) {
      if (is_nan16(x[l])) continue;
      const bool zero = !(x[l] & 0x7fff);
      x[l] = flushed16(float_to_half(half_to_float(flushed16(x[l])) * factor));
      if (zero) x[l] = 0;
    }
  } else if (flush) {
    EMU_LANES x[l] = flushed16(x[l]);
  }
  if (i.mod.clamp) {
    const bool nan_to_zero = clamps_nan(w);
    EMU_LANES {
      const bool nan = is_nan16(x[l]), above = !(x[l] & 0x8000) && x[l] > 0x3c00, below = (x[l] & 0x8000) != 0;
      x[l] = nan ? (nan_to_zero ? 0 : x[l]) : above ? 0x3c00 : below ? 0 : x[l];
    }
  }
}

// In lanes whose result is a NaN: a NaN operand, quieted, is the result; without one it is the NaN of an invalid
// operation.
template <int N> inline void settle_nans32(uint32_t* out, const Fetched (&in)[N], int lanes) {
  if (!any_nan32(out, lanes)) return;
  for (int l = 0; l < lanes; ++l) {
    if (!is_nan32(out[l])) continue;
    out[l] = kNan32;
    for (int k = N - 1; k >= 0; --k)
      if (is_nan32(in[k].x[l])) out[l] = quiet32(in[k].x[l]);
  }
}

template <int N> inline void settle_nans16(uint32_t* out, const Fetched (&in)[N]) {
  if (!any_nan16(out)) return;
  for (int l = 0; l < kLanes; ++l) {
    if (!is_nan16(out[l])) continue;
    out[l] = kNan16;
    for (int k = N - 1; k >= 0; --k)
      if (is_nan16(in[k].x[l])) out[l] = quiet16(in[k].x[l]) & 0xffff;
  }
}

inline void finish64(const Wave& w, const Inst& i, uint64_t* x, bool flush, bool denormals) {
  const int omod = omod_of(w, i, denormals);
  const bool nan_to_zero = clamps_nan(w);
  if (!omod && !flush && !i.mod.clamp) return;
  for (int l = 0; l < kLanes; ++l) {
    uint64_t value = flush || omod ? flushed64(x[l]) : x[l];
    if (omod && !is_nan64(value)) {
      const bool zero = !(x[l] << 1);
      value = zero ? 0 : flushed64(bits_of(as_double(value) * omod_factor(omod)));
    }
    if (i.mod.clamp) {
      if (is_nan64(value)) value = nan_to_zero ? 0 : value;
      else value = int64_t(value) < 0 ? 0 : value > 0x3ff0000000000000 ? 0x3ff0000000000000 : value;
    }
    x[l] = value;
  }
}

template <int N> inline void settle_nans64(uint64_t* out, const Doubles (&in)[N]) {
  for (int l = 0; l < kLanes; ++l) {
    if (!is_nan64(out[l])) continue;
    out[l] = kNan64;
    for (int k = N - 1; k >= 0; --k)
      if (is_nan64(in[k].x[l])) out[l] = quiet64(in[k].x[l]);
  }
}

inline void commit64(Wave& w, const Inst& i, const uint64_t* x) {
  Row low, high;
  EMU_LANES {
    low.x[l] = uint32_t(x[l]);
    high.x[l] = uint32_t(x[l] >> 32);
  }
  commit(w, i, low, 0);
  commit(w, i, high, 1);
}

}  // namespace emu
