// Exponential, logarithm, reciprocals, roots, sine and cosine of binary16, binary32 and binary64, and the scalar forms
// of gfx12. The documents promise 1 ULP (2^29 ULP in binary64). These are within 0.51 ULP, so they need not match
// silicon bit by bit. binary32 results round to nearest whatever MODE says, and denormals are flushed on both sides
// (CDNA4 12.8, RDNA4 16.8: "1ULP accuracy, denormals are flushed"); sine and cosine accept denormals.
#include "floats.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// Fused where the host can fuse. After rounding to binary32, the results almost never depend on it.
[[gnu::always_inline]] inline double madd(double a, double b, double c) {
#if defined(__FMA__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// c[0] + c[1] x + ... + c[N] x^N, without a loop, so that the loop over lanes is the one to vectorise.
template <int N> [[gnu::always_inline]] inline double horner(const double* c, double x) {
  if constexpr (N == 0) return c[0];
  else return madd(horner<N - 1>(c + 1, x), x, c[0]);
}

// 2^x for |x| <= 0.5: Taylor's polynomial of degree 9, relative error below 2^-36.
[[gnu::always_inline]] inline double exp2_small(double x) {
  constexpr double c[] = {1.0, 0.69314718055994531, 0.24022650695910071, 0.055504108664821580, 0.0096181291076284772,
                          0.0013333558146428443, 0.00015403530393381608, 1.5252733804059841e-05, 1.3215486790144307e-06,
                          1.0178086009239699e-07};
  return horner<9>(c, x);
}

// 1.5 x 2^52: adding and subtracting it rounds a small double to an integer, to nearest even.
constexpr double kShift = 6755399441055744.0;

[[gnu::always_inline]] inline float exp2_of(float a) {
  const uint32_t bits = bits_of(a);
  const bool high = int32_t(bits) > 0x43010000, low = bits > 0xc3480000;  // above 129, below -200
  const double x = as_float(choose(high | low, 0, bits)), shifted = x + kShift, whole = shifted - kShift;
  const double scale = as_double((bits_of(shifted) + 1023) << 52);  // the low bits of `shifted` are the integer
  const uint32_t result = bits_of(float(exp2_small(x - whole) * scale)), outside = choose(high, kInfinity32, 0);
  return as_float(choose(is_nan32(bits), quiet32(bits), choose(high | low, outside, result)));
}

// log2 of a positive normal number: e + log2(m) with m in [sqrt(1/2), sqrt(2)), by the series of artanh.
[[gnu::always_inline]] inline double log2_of_normal(double x) {
  const uint64_t bits = bits_of(x), offset = 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  const int64_t e = int64_t(bits - offset) >> 52;
  const double m = as_double(bits - (uint64_t(e) << 52)), s = (m - 1.0) / (m + 1.0), z = s * s;
  constexpr double k = 2.8853900817779268;  // 2 / ln 2
  constexpr double c[] = {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15};
  return double(int32_t(e)) + k * s * horner<7>(c, z);
}

[[gnu::always_inline]] inline float log2_of(float a) {
  const uint32_t bits = bits_of(a), size = bits & 0x7fffffff;
  const bool finite = bits - 1 < kInfinity32 - 1;  // positive, neither zero nor infinite
  const uint32_t result = bits_of(float(log2_of_normal(double(as_float(choose(finite, bits, 0x3f800000))))));
  const uint32_t negative = choose(size == 0, 0xff800000, kNan32), other = choose(bits == kInfinity32, bits, negative);
  return as_float(choose(finite, result, choose(is_nan32(bits), quiet32(bits), other)));
}

// sin or cos of a whole number of turns: exact where the angle is a multiple of a quarter.
double circular(double turns, bool cosine) {
  constexpr double kTurn = 6.283185307179586;
  const double rest = turns - std::nearbyint(turns);
  const int quarter = int(std::nearbyint(rest * 4));
  const double angle = (rest - quarter * 0.25) * kTurn;
  const int place = (quarter + (cosine ? 1 : 0)) & 3;
  const double value = place & 1 ? std::cos(angle) : std::sin(angle);
  const double signed_value = place & 2 ? -value : value;
  if (signed_value != 0) return signed_value;
  return turns == 0 && !cosine ? turns : 0.0;  // zero keeps its sign in sin(-0) only
}

struct Exp {
  [[gnu::always_inline]] static float at(float a) { return exp2_of(a); }
};
struct Log {
  [[gnu::always_inline]] static float at(float a) { return log2_of(a); }
};
struct Rcp {
  static float at(float a) { return 1.0f / a; }
};
struct Rsq {
  static float at(float a) {
    const uint32_t value = bits_of(float(1.0 / __builtin_sqrt(double(a)))), sign = bits_of(a) & 0x80000000;
    return as_float(choose((bits_of(a) & 0x7fffffff) == 0, kInfinity32 | sign, value));
  }
};
struct Sqrt {
  static float at(float a) { return __builtin_sqrtf(a); }
};
struct Sin {
  static float at(float a) { return std::isfinite(a) ? float(circular(a, false)) : as_float(kNan32); }
};
struct Cos {
  static float at(float a) { return std::isfinite(a) ? float(circular(a, true)) : as_float(kNan32); }
};

template <class Op> void row32(uint32_t* out, const Fetched (&in)[1], int lanes) {
  const uint32_t* a = in[0].x;
  EMU_LANES_OF(lanes) out[l] = bits_of(Op::at(as_float(a[l])));
  settle_nans32(out, in, lanes);
}

template <class Op, bool Denormals = false> void transcendental32(Wave& w, const Inst& i) {
  Fetched in[1];
  fetch32(w, i, 0, in[0], Denormals ? w.mode.flush_in32() : true);
  Row out;
  row32<Op>(out.x, in, w.lanes);
  finish32(w, i, out.x, Denormals ? w.mode.flush_out32() : true, !w.mode.flush_out32());
  commit(w, i, out);
}

// Computes binary16 through binary32, where the function's error lies far below the last place of binary16. Rounds to
// nearest.
template <class Op> void row16(const Wave& w, uint32_t* out, const Fetched (&in)[1]) {
  alignas(64) float x[kLanes];
  halves_to_floats(x, in[0].x);
  EMU_LANES x[l] = Op::at(x[l]);
  floats_to_halves(out, x);
  settle_nans16(out, in);
  if (!fp16_overflow(w)) return;
  for (int l = 0; l < kLanes; ++l)
    if ((out[l] & 0x7fff) == kInfinity16 && std::isfinite(x[l])) out[l] -= 1;
}

template <class Op> void transcendental16(Wave& w, const Inst& i) {
  Fetched in[1];
  fetch16(w, i, 0, in[0], w.mode.flush_in16_64());
  Row out;
  row16<Op>(w, out.x, in);
  finish16(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit(w, i, out);
}

struct Rcp64 {
  static double at(double a) { return 1.0 / a; }
};
struct Rsq64 {
  static double at(double a) { return a == 0 ? std::copysign(HUGE_VAL, a) : 1.0 / std::sqrt(a); }
};
struct Sqrt64 {
  static double at(double a) { return std::sqrt(a); }
};

template <class Op> void transcendental64(Wave& w, const Inst& i) {
  Doubles in[1], out;
  fetch64(w, i, 0, in[0], w.mode.flush_in16_64());
  for (int l = 0; l < kLanes; ++l) out.x[l] = bits_of(Op::at(as_double(in[0].x[l])));
  settle_nans64(out.x, in);
  finish64(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

// gfx12's v_s_*: one scalar in, one scalar out, EXEC ignored. A row of copies keeps one definition of each function.
uint32_t edited(const Wave& w, const Operand& op, uint32_t sign) {
  const uint32_t x = scalar32(w, op);
  return (op.abs ? x & ~sign : x) ^ (op.neg ? sign : 0);
}

template <class Op> void scalar_form32(Wave& w, const Inst& i) {
  Fetched in[1];
  fill(in[0].room.x, flushed32(edited(w, i.src(0), 0x80000000)));
  in[0].x = in[0].room.x;
  Row out;
  row32<Op>(out.x, in, w.lanes);
  finish32(w, i, out.x, true, !w.mode.flush_out32());
  set_scalar32(w, i.op[0], out.x[0]);
}

template <class Op> void scalar_form16(Wave& w, const Inst& i) {
  Fetched in[1];
  uint32_t x = edited(w, i.src(0), 0x8000);
  if (i.src(0).half == 2 || i.mod.op_sel & 1) x = edited(w, i.src(0), 0x80000000) >> 16;
  x &= 0xffff;
  fill(in[0].room.x, w.mode.flush_in16_64() ? flushed16(x) : x);
  in[0].x = in[0].room.x;
  Row out;
  row16<Op>(w, out.x, in);
  finish16(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  set_scalar32(w, i.op[0], out.x[0]);
}

constexpr Type F = Type::F32, H = Type::F16, D = Type::F64;
using Types = std::array<Type, 6>;

#define ROW(name, run, type, source) \
  {name, run, 1, Class::Transcendental, Flow::Lane, 0, Types{type, type}, nullptr, source}
#define SCALAR_ROW(name, run, type, source) \
  {name, run, 1, Class::Transcendental, Flow::Lane, kIgnoresExec, Types{type, type}, nullptr, source}

constexpr Entry kEntries[] = {
    ROW("v_exp_f32", transcendental32<Exp>, F, "CDNA4 12.8 VOP1 32, RDNA4 16.8 VOP1 37"),
    ROW("v_exp_legacy_f32", transcendental32<Exp>, F, "CDNA3 12.8 VOP1 75"),
    ROW("v_log_f32", transcendental32<Log>, F, "CDNA4 12.8 VOP1 33, RDNA4 16.8 VOP1 39"),
    ROW("v_log_legacy_f32", transcendental32<Log>, F, "CDNA3 12.8 VOP1 76"),
    ROW("v_rcp_f32", transcendental32<Rcp>, F, "CDNA4 12.8 VOP1 34, RDNA4 16.8 VOP1 42"),
    ROW("v_rcp_iflag_f32", transcendental32<Rcp>, F, "CDNA4 12.8 VOP1 35, RDNA4 16.8 VOP1 43"),
    ROW("v_rsq_f32", transcendental32<Rsq>, F, "CDNA4 12.8 VOP1 36, RDNA4 16.8 VOP1 46"),
    ROW("v_sqrt_f32", transcendental32<Sqrt>, F, "CDNA4 12.8 VOP1 39, RDNA4 16.8 VOP1 51"),
    ROW("v_sin_f32", (transcendental32<Sin, true>), F, "CDNA4 12.8 VOP1 41, RDNA4 16.8 VOP1 53"),
    ROW("v_cos_f32", (transcendental32<Cos, true>), F, "CDNA4 12.8 VOP1 42, RDNA4 16.8 VOP1 54"),
    ROW("v_exp_f16", transcendental16<Exp>, H, "CDNA4 12.8 VOP1 65, RDNA4 16.8 VOP1 88"),
    ROW("v_log_f16", transcendental16<Log>, H, "CDNA4 12.8 VOP1 64, RDNA4 16.8 VOP1 87"),
    ROW("v_rcp_f16", transcendental16<Rcp>, H, "CDNA4 12.8 VOP1 61, RDNA4 16.8 VOP1 84"),
    ROW("v_rsq_f16", transcendental16<Rsq>, H, "CDNA4 12.8 VOP1 63, RDNA4 16.8 VOP1 86"),
    ROW("v_sqrt_f16", transcendental16<Sqrt>, H, "CDNA4 12.8 VOP1 62, RDNA4 16.8 VOP1 85"),
    ROW("v_sin_f16", transcendental16<Sin>, H, "CDNA4 12.8 VOP1 73, RDNA4 16.8 VOP1 96"),
    ROW("v_cos_f16", transcendental16<Cos>, H, "CDNA4 12.8 VOP1 74, RDNA4 16.8 VOP1 97"),
    ROW("v_rcp_f64", transcendental64<Rcp64>, D, "CDNA4 12.8 VOP1 37, RDNA4 16.8 VOP1 47"),
    ROW("v_rsq_f64", transcendental64<Rsq64>, D, "CDNA4 12.8 VOP1 38, RDNA4 16.8 VOP1 49"),
    ROW("v_sqrt_f64", transcendental64<Sqrt64>, D, "CDNA4 12.8 VOP1 40, RDNA4 16.8 VOP1 52"),
    SCALAR_ROW("v_s_exp_f32", scalar_form32<Exp>, F, "RDNA4 16.12 VOP3 640"),
    SCALAR_ROW("v_s_exp_f16", scalar_form16<Exp>, H, "RDNA4 16.12 VOP3 641"),
    SCALAR_ROW("v_s_log_f32", scalar_form32<Log>, F, "RDNA4 16.12 VOP3 642"),
    SCALAR_ROW("v_s_log_f16", scalar_form16<Log>, H, "RDNA4 16.12 VOP3 643"),
    SCALAR_ROW("v_s_rcp_f32", scalar_form32<Rcp>, F, "RDNA4 16.12 VOP3 644"),
    SCALAR_ROW("v_s_rcp_f16", scalar_form16<Rcp>, H, "RDNA4 16.12 VOP3 645"),
    SCALAR_ROW("v_s_rsq_f32", scalar_form32<Rsq>, F, "RDNA4 16.12 VOP3 646"),
    SCALAR_ROW("v_s_rsq_f16", scalar_form16<Rsq>, H, "RDNA4 16.12 VOP3 647"),
    SCALAR_ROW("v_s_sqrt_f32", scalar_form32<Sqrt>, F, "RDNA4 16.12 VOP3 648"),
    SCALAR_ROW("v_s_sqrt_f16", scalar_form16<Sqrt>, H, "RDNA4 16.12 VOP3 649"),
};

}  // namespace

const Table kTranscendentalTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
