// binary16 arithmetic, rounding to integers, exponents. Sources arrive in the low half of a row (lanes.hpp). commit
// decides where the result goes and what happens to the other half.
#include "arith.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// The accumulator of v_fmac_f16 and v_mac_f16: the half of the destination that the result will be written to.
void fetch_accumulator(Wave& w, const Inst& i, Fetched& f, bool flush) {
  const Operand& op = i.op[0];
  const bool upper = op.half ? op.half == 2 : i.mod.op_sel >> (i.ops - i.dsts) & 1;
  const uint32_t* from = w.v[op.reg].x;
  EMU_LANES f.room.x[l] = upper ? from[l] >> 16 : from[l];
  f.x = f.room.x;
  edit16(f, false, false, flush);
}

template <int N, bool Accumulates> void fetch_all(Wave& w, const Inst& i, Fetched (&in)[N], bool flush) {
  for (int k = 0; k < N - Accumulates; ++k) fetch16(w, i, k, in[k], flush);
  if constexpr (Accumulates) fetch_accumulator(w, i, in[N - 1], flush);
}

template <class Op, int N, bool Accumulates = false> void arithmetic(Wave& w, const Inst& i) {
  Fetched in[N];
  fetch_all<N, Accumulates>(w, i, in, w.mode.flush_in16_64());
  Row out;
  compute16<Op>(out.x, in, w.mode.round16_64(), fp16_overflow(w));
  finish16(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit(w, i, out);
}

// Unfused: the product is rounded to binary16 before the sum; denormals are zero everywhere.
template <bool Accumulates> void mad(Wave& w, const Inst& i) {
  Fetched in[3], product[2];
  fetch_all<3, Accumulates>(w, i, in, true);
  const Fetched(&factors)[2] = reinterpret_cast<const Fetched(&)[2]>(in);
  const int round = w.mode.round16_64();
  compute16<Mul>(product[0].room.x, factors, round, false);
  product[0].x = product[0].room.x;
  edit16(product[0], false, false, true);
  product[1].x = in[2].x;
  Row out;
  compute16<Add>(out.x, product, round, false);
  settle_nans16(out.x, in);
  if (fp16_overflow(w)) saturate16(out.x, in);
  finish16(w, i, out.x, true, false);
  commit(w, i, out);
}

// ---- rounding to an integer, fraction, exponents ----

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
struct Significand {
  static float at(float x) {
    int exponent;
    return std::isfinite(x) ? std::frexp(x, &exponent) : x;
  }
};

template <class Op> void unary(Wave& w, const Inst& i) {
  Fetched in[1];
  fetch16(w, i, 0, in[0], w.mode.flush_in16_64());
  alignas(64) float x[kLanes];
  halves_to_floats(x, in[0].x);
  for (int l = 0; l < kLanes; ++l) x[l] = Op::at(x[l]);
  Row out;
  floats_to_halves(out.x, x);
  settle_nans16(out.x, in);
  finish16(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit(w, i, out);
}

// x - floor(x), kept below one where the difference of a small negative number would round to it.
void fract(Wave& w, const Inst& i) {
  Fetched in[1];
  fetch16(w, i, 0, in[0], w.mode.flush_in16_64());
  const int round = w.mode.round16_64();
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    const double x = half_to_float(in[0].x[l]);
    const uint32_t rest = uint32_t(encode(kHalf, odd_sum(x, -std::floor(x), round), round));
    out.x[l] = rest == 0x3c00 ? 0x3bff : rest;
  }
  settle_nans16(out.x, in);
  finish16(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit(w, i, out);
}

void frexp_exponent(Wave& w, const Inst& i) {
  Fetched in;
  fetch16(w, i, 0, in, w.mode.flush_in16_64());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    int exponent = 0;
    const float x = half_to_float(in.x[l]);
    if (std::isfinite(x)) std::frexp(x, &exponent);
    out.x[l] = uint32_t(exponent) & 0xffff;
  }
  commit(w, i, out);
}

void ldexp(Wave& w, const Inst& i) {
  Fetched in[1], power;
  fetch16(w, i, 0, in[0], w.mode.flush_in16_64());
  power.x = source(w, i, 1, power.room);
  const int round = w.mode.round16_64();
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    const int wanted = int16_t(power.x[l]), bounded = wanted < -200 ? -200 : wanted > 200 ? 200 : wanted;
    out.x[l] = uint32_t(encode(kHalf, std::ldexp(double(half_to_float(in[0].x[l])), bounded), round));
  }
  settle_nans16(out.x, in);
  if (fp16_overflow(w)) saturate16(out.x, in);
  finish16(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit(w, i, out);
}

// Puts two halves side by side. Modifiers apply, but there is no arithmetic (CDNA4 12.11 V_PACK_B32_F16).
void pack(Wave& w, const Inst& i) {
  Fetched low, high;
  fetch16(w, i, 0, low, false);
  fetch16(w, i, 1, high, false);
  Row out;
  EMU_LANES out.x[l] = low.x[l] | high.x[l] << 16;
  commit(w, i, out);
}

constexpr Type H = Type::F16, I = Type::B16;
using Types = std::array<Type, 6>;
constexpr Types k1{H, H}, k2{H, H, H}, k3{H, H, H, H};

#define ROW(name, run, flags, types, source) {name, run, 1, Class::Valu, Flow::Lane, flags, types, nullptr, source}

constexpr Entry kEntries[] = {
    ROW("v_add_f16", (arithmetic<Add, 2>), 0, k2, "CDNA4 12.7 VOP2 31, RDNA4 16.7 VOP2 50"),
    ROW("v_sub_f16", (arithmetic<Sub, 2>), 0, k2, "CDNA4 12.7 VOP2 32, RDNA4 16.7 VOP2 51"),
    ROW("v_subrev_f16", (arithmetic<SubRev, 2>), 0, k2, "CDNA4 12.7 VOP2 33, RDNA4 16.7 VOP2 52"),
    ROW("v_mul_f16", (arithmetic<Mul, 2>), 0, k2, "CDNA4 12.7 VOP2 34, RDNA4 16.7 VOP2 53"),
    ROW("v_mac_f16", mad<true>, kReadsDst, k2, "CDNA4 12.7 VOP2 35"),
    ROW("v_madmk_f16", mad<false>, 0, k3, "CDNA3 12.7 VOP2 36"),
    ROW("v_madak_f16", mad<false>, 0, k3, "CDNA3 12.7 VOP2 37"),
    ROW("v_mad_f16", mad<false>, kKeepsUpper, k3, "CDNA4 12.11 VOP3 515"),
    ROW("v_mad_legacy_f16", mad<false>, 0, k3, "CDNA4 12.11 VOP3 490"),
    ROW("v_fma_f16", (arithmetic<Fma, 3>), kKeepsUpper, k3, "CDNA4 12.11 VOP3 518, RDNA4 16.12 VOP3 584"),
    ROW("v_fma_legacy_f16", (arithmetic<Fma, 3>), 0, k3, "CDNA4 12.11 VOP3 494"),
    ROW("v_fmac_f16", (arithmetic<Fma, 3, true>), kReadsDst, k2, "RDNA4 16.7 VOP2 54"),
    ROW("v_fmamk_f16", (arithmetic<Fma, 3>), 0, k3, "RDNA4 16.7 VOP2 55"),
    ROW("v_fmaak_f16", (arithmetic<Fma, 3>), 0, k3, "RDNA4 16.7 VOP2 56"),
    ROW("v_trunc_f16", unary<Trunc>, 0, k1, "CDNA4 12.8 VOP1 70, RDNA4 16.8 VOP1 93"),
    ROW("v_ceil_f16", unary<Ceil>, 0, k1, "CDNA4 12.8 VOP1 69, RDNA4 16.8 VOP1 92"),
    ROW("v_rndne_f16", unary<RoundEven>, 0, k1, "CDNA4 12.8 VOP1 71, RDNA4 16.8 VOP1 94"),
    ROW("v_floor_f16", unary<Floor>, 0, k1, "CDNA4 12.8 VOP1 68, RDNA4 16.8 VOP1 91"),
    ROW("v_fract_f16", fract, 0, k1, "CDNA4 12.8 VOP1 72, RDNA4 16.8 VOP1 95"),
    ROW("v_frexp_mant_f16", unary<Significand>, 0, k1, "CDNA4 12.8 VOP1 66, RDNA4 16.8 VOP1 89"),
    ROW("v_frexp_exp_i16_f16", frexp_exponent, 0, (Types{I, H}), "CDNA4 12.8 VOP1 67, RDNA4 16.8 VOP1 90"),
    ROW("v_ldexp_f16", ldexp, 0, (Types{H, H, I}), "CDNA4 12.7 VOP2 51, RDNA4 16.7 VOP2 59"),
    ROW("v_pack_b32_f16", pack, 0, (Types{Type::B32, H, H}), "CDNA4 12.11 VOP3 672, RDNA4 16.12 VOP3 785"),
};

}  // namespace

const Table kFloat16Table{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
