// binary32 arithmetic: sums, products, fused and unfused multiply-adds, rounding to integers, exponents. All of them
// obey MODE's rounding and denormals, except v_mad_f32 and v_mac_f32, which never have denormals.
#include "arith.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// DX9's rule: zero times anything is +0, even infinity and NaN.
void zero_wins(Fetched& a, Fetched& b) {
  uint32_t *x = own(a), *y = own(b);
  EMU_LANES {
    const uint32_t keep = (x[l] & 0x7fffffff) && (y[l] & 0x7fffffff) ? 0xffffffff : 0;
    x[l] &= keep;
    y[l] &= keep;
  }
}

// Sources 0 to N-1; the last one is the destination where the instruction accumulates.
template <int N, bool Accumulates> void fetch_all(Wave& w, const Inst& i, Fetched (&in)[N], bool flush) {
  for (int k = 0; k < N - Accumulates; ++k) fetch32(w, i, k, in[k], flush);
  if constexpr (Accumulates) {
    in[N - 1].x = w.v[i.op[0].reg].x;
    edit32(in[N - 1], false, false, flush, w.lanes);
  }
}

template <class Op, int N, bool Accumulates = false, bool Dx9 = false> void arithmetic(Wave& w, const Inst& i) {
  Fetched in[N];
  const bool all = !Dx9 && flushes_all32(w, i);
  fetch_all<N, Accumulates>(w, i, in, !all && w.mode.flush_in32());
  if constexpr (Dx9) zero_wins(in[0], in[1]);
  Row out;
  compute32<Op>(out.x, in, w.mode.round32(), w.lanes, all);
  finish32(w, i, out.x, !all && w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

// The product is rounded before the sum, and denormals are zero everywhere. The product goes through double, which is
// exact, so no compiler can fuse the two operations.
template <bool Accumulates, bool Dx9 = false> void mad(Wave& w, const Inst& i) {
  Fetched in[3];
  fetch_all<3, Accumulates>(w, i, in, true);
  if constexpr (Dx9) zero_wins(in[0], in[1]);
  Row out;
  const int round = w.mode.round32();
  const uint32_t *a = in[0].x, *b = in[1].x, *c = in[2].x;
  if (round == kNearest) {
    EMU_LANES {
      const float product = float(double(as_float(a[l])) * double(as_float(b[l])));
      out.x[l] = bits_of(as_float(flushed32(bits_of(product))) + as_float(c[l]));
    }
  } else {
    for (int l = 0; l < kLanes; ++l) {
      const float product = round_to_single(double(as_float(a[l])) * double(as_float(b[l])), round);
      const double sum = odd_sum(as_float(flushed32(bits_of(product))), as_float(c[l]), round);
      out.x[l] = bits_of(round_to_single(sum, round));
    }
  }
  settle_nans32(out.x, in, w.lanes);
  finish32(w, i, out.x, true, false);
  commit(w, i, out);
}

// ---- rounding to an integer, fraction ----

struct Trunc {
  static float at(float x) { return __builtin_truncf(x); }
};
struct Ceil {
  static float at(float x) { return __builtin_ceilf(x); }
};
struct Floor {
  static float at(float x) { return __builtin_floorf(x); }
};
struct RoundEven {
  static float at(float x) { return __builtin_roundevenf(x); }
};

template <class Op> void to_integer(Wave& w, const Inst& i) {
  Fetched in[1];
  fetch32(w, i, 0, in[0], w.mode.flush_in32());
  const uint32_t* a = in[0].x;
  Row out;
  EMU_LANES out.x[l] = bits_of(Op::at(as_float(a[l])));
  settle_nans32(out.x, in, w.lanes);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

// x - floor(x), at most the number before one. For a small negative x the difference would round to one.
void fract(Wave& w, const Inst& i) {
  Fetched in[1];
  fetch32(w, i, 0, in[0], w.mode.flush_in32());
  const uint32_t* a = in[0].x;
  const int round = w.mode.round32();
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    const float x = as_float(a[l]), below = __builtin_floorf(x);
    const float rest = round == kNearest ? x - below : round_to_single(odd_sum(x, -double(below), round), round);
    out.x[l] = rest >= 1.0f ? 0x3f7fffff : bits_of(rest);
  }
  settle_nans32(out.x, in, w.lanes);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

// ---- exponents ----

// Normalised: the number is significand x 2^exponent with the significand in [0.5, 1); zero has exponent 0.
void frexp_exponent(Wave& w, const Inst& i) {
  Fetched in;
  fetch32(w, i, 0, in, w.mode.flush_in32());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    int exponent = 0;
    const float x = as_float(in.x[l]);
    if (std::isfinite(x)) std::frexp(x, &exponent);
    out.x[l] = uint32_t(exponent);
  }
  commit(w, i, out);
}

void frexp_significand(Wave& w, const Inst& i) {
  Fetched in[1];
  fetch32(w, i, 0, in[0], w.mode.flush_in32());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    int exponent;
    const float x = as_float(in[0].x[l]);
    out.x[l] = std::isfinite(x) ? bits_of(std::frexp(x, &exponent)) : in[0].x[l];
  }
  settle_nans32(out.x, in, w.lanes);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

// x 2^n: exact in double for every n that matters, then rounded once.
void ldexp(Wave& w, const Inst& i) {
  Fetched in[1], power;
  fetch32(w, i, 0, in[0], w.mode.flush_in32());
  power.x = source(w, i, 1, power.room);
  const int round = w.mode.round32();
  const uint32_t *a = in[0].x, *n = power.x;
  Row out;
  alignas(64) double scaled[kLanes];
  EMU_LANES {
    const int32_t wanted = int32_t(n[l]), bounded = wanted < -400 ? -400 : wanted > 400 ? 400 : wanted;
    scaled[l] = double(as_float(a[l])) * as_double(uint64_t(int64_t(bounded) + 1023) << 52);
  }
  if (round == kNearest) {
    EMU_LANES out.x[l] = bits_of(float(scaled[l]));
  } else {
    for (int l = 0; l < kLanes; ++l) out.x[l] = bits_of(round_to_single(scaled[l], round));
  }
  settle_nans32(out.x, in, w.lanes);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

constexpr Type F = Type::F32, I = Type::B32;
constexpr std::array<Type, 6> k1{F, F}, k2{F, F, F}, k3{F, F, F, F};

#define ROW(name, run, flags, types, source) {name, run, 1, Class::Valu, Flow::Lane, flags, types, nullptr, source}

constexpr Entry kEntries[] = {
    ROW("v_add_f32", (arithmetic<Add, 2>), 0, k2, "CDNA3 12.7 VOP2 1, RDNA4 16.7 VOP2 3"),
    ROW("v_sub_f32", (arithmetic<Sub, 2>), 0, k2, "CDNA3 12.7 VOP2 2, RDNA4 16.7 VOP2 4"),
    ROW("v_subrev_f32", (arithmetic<SubRev, 2>), 0, k2, "CDNA3 12.7 VOP2 3, RDNA4 16.7 VOP2 5"),
    ROW("v_mul_f32", (arithmetic<Mul, 2>), 0, k2, "CDNA3 12.7 VOP2 5, RDNA4 16.7 VOP2 8"),
    ROW("v_mul_legacy_f32", (arithmetic<Mul, 2, false, true>), 0, k2, "CDNA3 12.11 VOP3 673"),
    ROW("v_mul_dx9_zero_f32", (arithmetic<Mul, 2, false, true>), 0, k2, "RDNA3 16.7 VOP2 7"),
    ROW("v_fma_f32", (arithmetic<Fma, 3>), 0, k3, "CDNA3 12.11 VOP3 459, RDNA4 16.12 VOP3 531"),
    ROW("v_fmac_f32", (arithmetic<Fma, 3, true>), kReadsDst, k2, "CDNA3 12.7 VOP2 59, RDNA4 16.7 VOP2 43"),
    ROW("v_fmamk_f32", (arithmetic<Fma, 3>), 0, k3, "CDNA3 12.7 VOP2 23, RDNA4 16.7 VOP2 44"),
    ROW("v_fmaak_f32", (arithmetic<Fma, 3>), 0, k3, "CDNA3 12.7 VOP2 24, RDNA4 16.7 VOP2 45"),
    ROW("v_fma_legacy_f32", (arithmetic<Fma, 3, false, true>), 0, k3, "RDNA3 16.12 VOP3 521"),
    ROW("v_fma_dx9_zero_f32", (arithmetic<Fma, 3, false, true>), 0, k3, "RDNA3 16.12 VOP3 521"),
    ROW("v_fmac_legacy_f32", (arithmetic<Fma, 3, true, true>), kReadsDst, k2, "RDNA3 16.7 VOP2 6"),
    ROW("v_fmac_dx9_zero_f32", (arithmetic<Fma, 3, true, true>), kReadsDst, k2, "RDNA3 16.7 VOP2 6"),
    ROW("v_mad_f32", mad<false>, 0, k3, "CDNA2 12.11 VOP3 449"),
    ROW("v_mac_f32", mad<true>, kReadsDst, k2, "CDNA2 12.7 VOP2 22"),
    ROW("v_madmk_f32", mad<false>, 0, k3, "CDNA2 12.7 VOP2 23"),
    ROW("v_madak_f32", mad<false>, 0, k3, "CDNA2 12.7 VOP2 24"),
    ROW("v_mad_legacy_f32", (mad<false, true>), 0, k3, "CDNA2 12.11 VOP3 448"),
    ROW("v_trunc_f32", to_integer<Trunc>, 0, k1, "CDNA3 12.8 VOP1 28, RDNA4 16.8 VOP1 33"),
    ROW("v_ceil_f32", to_integer<Ceil>, 0, k1, "CDNA3 12.8 VOP1 29, RDNA4 16.8 VOP1 34"),
    ROW("v_rndne_f32", to_integer<RoundEven>, 0, k1, "CDNA3 12.8 VOP1 30, RDNA4 16.8 VOP1 35"),
    ROW("v_floor_f32", to_integer<Floor>, 0, k1, "CDNA3 12.8 VOP1 31, RDNA4 16.8 VOP1 36"),
    ROW("v_fract_f32", fract, 0, k1, "CDNA3 12.8 VOP1 27, RDNA4 16.8 VOP1 32"),
    ROW("v_frexp_exp_i32_f32", frexp_exponent, 0, (std::array<Type, 6>{I, F}), "CDNA3 12.8 VOP1 51, RDNA4 VOP1 63"),
    ROW("v_frexp_mant_f32", frexp_significand, 0, k1, "CDNA3 12.8 VOP1 52, RDNA4 VOP1 64"),
    ROW("v_ldexp_f32", ldexp, 0, (std::array<Type, 6>{F, F, I}), "CDNA3 12.11 VOP3 648, RDNA4 16.12 VOP3 796"),
};

}  // namespace

const Table kFloatTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
