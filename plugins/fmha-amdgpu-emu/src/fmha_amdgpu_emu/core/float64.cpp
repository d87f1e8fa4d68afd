// binary64 arithmetic, rounding to integers, exponents; segments of 2/pi.
#include "floats.hpp"
#include "host_rounding.hpp"
#include "tables.hpp"

namespace emu {

namespace {

struct Add {
  static double at(double a, double b, double) { return a + b; }
};
struct Mul {
  static double at(double a, double b, double) { return a * b; }
};
struct Fma {
  static double at(double a, double b, double c) { return std::fma(a, b, c); }
};
struct Fract {
  static double at(double a, double, double) {
    const double rest = a - std::floor(a), most = as_double(0x3fefffffffffffff);
    return rest > most ? most : rest;
  }
};

template <class Op, int N, bool Accumulates = false> void arithmetic(Wave& w, const Inst& i) {
  Doubles in[N], out;
  const bool flush = w.mode.flush_in16_64();
  for (int k = 0; k < N - Accumulates; ++k) fetch64(w, i, k, in[k], flush);
  if constexpr (Accumulates) {
    const uint32_t *low = w.v[i.op[0].reg].x, *high = w.v[i.op[0].reg + 1].x;
    for (int l = 0; l < kLanes; ++l) {
      const uint64_t x = uint64_t(high[l]) << 32 | low[l];
      in[N - 1].x[l] = flush ? flushed64(x) : x;
    }
  }
  const uint64_t *a = in[0].x, *b = in[N > 1 ? 1 : 0].x, *c = in[N - 1].x;
  if (w.mode.round16_64() == kNearest) {
    for (int l = 0; l < kLanes; ++l) out.x[l] = bits_of(Op::at(as_double(a[l]), as_double(b[l]), as_double(c[l])));
  } else {
    const HostRounding host(w.mode.round16_64());
    for (int l = 0; l < kLanes; ++l) {
      volatile double x = as_double(a[l]), y = as_double(b[l]), z = as_double(c[l]);
      volatile double result = Op::at(x, y, z);
      out.x[l] = bits_of(double(result));
    }
  }
  settle_nans64(out.x, in);
  finish64(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

// Operations whose result is exact.
template <class F> void exact(Wave& w, const Inst& i, F f) {
  Doubles in[1], out;
  fetch64(w, i, 0, in[0], w.mode.flush_in16_64());
  for (int l = 0; l < kLanes; ++l) out.x[l] = bits_of(double(f(as_double(in[0].x[l]))));
  settle_nans64(out.x, in);
  finish64(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

void trunc(Wave& w, const Inst& i) { exact(w, i, [](double x) { return std::trunc(x); }); }
void ceil(Wave& w, const Inst& i) { exact(w, i, [](double x) { return std::ceil(x); }); }
void floor(Wave& w, const Inst& i) { exact(w, i, [](double x) { return std::floor(x); }); }
void rndne(Wave& w, const Inst& i) { exact(w, i, [](double x) { return __builtin_roundeven(x); }); }
void frexp_significand(Wave& w, const Inst& i) {
  exact(w, i, [](double x) {
    int exponent;
    return std::isfinite(x) ? std::frexp(x, &exponent) : x;
  });
}

void frexp_exponent(Wave& w, const Inst& i) {
  Doubles in;
  fetch64(w, i, 0, in, w.mode.flush_in16_64());
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    int exponent = 0;
    const double x = as_double(in.x[l]);
    if (std::isfinite(x)) std::frexp(x, &exponent);
    out.x[l] = uint32_t(exponent);
  }
  commit(w, i, out);
}

void ldexp(Wave& w, const Inst& i) {
  Doubles in[1], out;
  fetch64(w, i, 0, in[0], w.mode.flush_in16_64());
  Row room;
  const uint32_t* power = source(w, i, 1, room);
  const HostRounding host(w.mode.round16_64());
  for (int l = 0; l < kLanes; ++l) {
    const int32_t n = int32_t(power[l]);
    volatile double result = std::ldexp(as_double(in[0].x[l]), n < -5000 ? -5000 : n > 5000 ? 5000 : n);
    out.x[l] = bits_of(double(result));
  }
  settle_nans64(out.x, in);
  finish64(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

// The first 1201 bits of 2/pi behind the point, then zeros.
constexpr uint64_t kTwoOverPi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b0000};
constexpr int kTwoOverPiBits = 64 * int(sizeof kTwoOverPi / sizeof *kTwoOverPi);

// 53 bits of it, from bit `at` behind the point on.
uint64_t two_over_pi(int at) {
  uint64_t bits = 0;
  for (int k = at; k < at + 53; ++k) bits = bits << 1 | (k < kTwoOverPiBits ? kTwoOverPi[k / 64] >> (63 - k % 64) & 1 : 0);
  return bits;
}

// Segment S1 of 2/pi, aligned for the exponent of S0 (CDNA4 12.11 V_TRIG_PREOP_F64).
void trig_preop(Wave& w, const Inst& i) {
  Doubles in, out;
  fetch64(w, i, 0, in, false);
  Row room;
  const uint32_t* segment = source(w, i, 1, room);
  for (int l = 0; l < kLanes; ++l) {
    const int exponent = int(in.x[l] >> 52) & 0x7ff;
    const int shift = int(segment[l] & 31) * 53 + (exponent > 1077 ? exponent - 1077 : 0);
    const int scale = -53 - shift + (exponent >= 1968 ? 128 : 0);
    out.x[l] = bits_of(std::ldexp(double(two_over_pi(shift)), scale));
  }
  finish64(w, i, out.x, false, !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

constexpr Type D = Type::F64, I = Type::B32;
using Types = std::array<Type, 6>;
constexpr Types k1{D, D}, k2{D, D, D}, k3{D, D, D, D};

#define ROW(name, run, flags, types, source) {name, run, 1, Class::Valu, Flow::Lane, flags, types, nullptr, source}

constexpr Entry kEntries[] = {
    ROW("v_add_f64", (arithmetic<Add, 2>), 0, k2, "CDNA4 12.11 VOP3 640, RDNA4 16.7 VOP2 2"),
    ROW("v_mul_f64", (arithmetic<Mul, 2>), 0, k2, "CDNA4 12.11 VOP3 641, RDNA4 16.7 VOP2 6"),
    ROW("v_fma_f64", (arithmetic<Fma, 3>), 0, k3, "CDNA4 12.11 VOP3 460, RDNA4 16.12 VOP3 532"),
    ROW("v_fmac_f64", (arithmetic<Fma, 3, true>), kReadsDst, k2, "CDNA4 12.7 VOP2 4"),
    ROW("v_fract_f64", (arithmetic<Fract, 1>), 0, k1, "CDNA4 12.8 VOP1 50, RDNA4 16.8 VOP1 62"),
    ROW("v_trunc_f64", trunc, 0, k1, "CDNA4 12.8 VOP1 23, RDNA4 16.8 VOP1 23"),
    ROW("v_ceil_f64", ceil, 0, k1, "CDNA4 12.8 VOP1 24, RDNA4 16.8 VOP1 24"),
    ROW("v_rndne_f64", rndne, 0, k1, "CDNA4 12.8 VOP1 25, RDNA4 16.8 VOP1 25"),
    ROW("v_floor_f64", floor, 0, k1, "CDNA4 12.8 VOP1 26, RDNA4 16.8 VOP1 26"),
    ROW("v_frexp_mant_f64", frexp_significand, 0, k1, "CDNA4 12.8 VOP1 49, RDNA4 16.8 VOP1 61"),
    ROW("v_frexp_exp_i32_f64", frexp_exponent, 0, (Types{I, D}), "CDNA4 12.8 VOP1 48, RDNA4 16.8 VOP1 60"),
    ROW("v_ldexp_f64", ldexp, 0, (Types{D, D, I}), "CDNA4 12.11 VOP3 644, RDNA4 16.12 VOP3 811"),
    ROW("v_trig_preop_f64", trig_preop, 0, (Types{D, D, I}), "CDNA4 12.11 VOP3 658, RDNA4 16.12 VOP3 815"),
};

}  // namespace

const Table kFloat64Table{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
