// The division macro: v_div_scale, v_div_fmas, v_div_fixup. v_div_scale keeps Newton's method away from denormals,
// v_div_fmas undoes the scaling, and v_div_fixup puts in the special cases (CDNA4 12.11 478 to 483, RDNA4 16.12 519 to
// 568).
#include "floats.hpp"
#include "host_rounding.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// What the macro knows about a binary format.
struct Single {
  using Bits = uint32_t;
  static constexpr int mantissa = 23, exponents = 0xff, scale = 64, far = 96, tiny = 23, gone = -150, middle = 127,
                       most = 128;
  static constexpr Bits nan = kNan32, infinity = kInfinity32, sign = 0x80000000;
  static bool is_nan(Bits x) { return is_nan32(x); }
  static Bits quiet(Bits x) { return quiet32(x); }
  static double value(Bits x) { return as_float(x); }
};
struct Double {
  using Bits = uint64_t;
  static constexpr int mantissa = 52, exponents = 0x7ff, scale = 128, far = 768, tiny = 53, gone = -1075,
                       middle = 1023, most = 1024;
  static constexpr Bits nan = kNan64, infinity = kInfinity64, sign = uint64_t(1) << 63;
  static bool is_nan(Bits x) { return is_nan64(x); }
  static Bits quiet(Bits x) { return quiet64(x); }
  static double value(Bits x) { return as_double(x); }
};
struct Half {
  using Bits = uint32_t;
  static constexpr int mantissa = 10, exponents = 0x1f, gone = -1000, most = 1000;  // nothing is scaled
  static constexpr Bits nan = kNan16, infinity = kInfinity16, sign = 0x8000;
  static bool is_nan(Bits x) { return is_nan16(x); }
  static Bits quiet(Bits x) { return quiet16(x); }
  static double value(Bits x) { return half_to_float(x); }
};

template <class T> int exponent(typename T::Bits x) { return int(x >> T::mantissa) & T::exponents; }
template <class T> bool is_denormal(typename T::Bits x) { return exponent<T>(x) == 0 && (x & ~T::sign) != 0; }
template <class T> bool is_zero(typename T::Bits x) { return (x & ~T::sign) == 0; }

// Whether n / d is denormal in the format, or would be if it were not rounded to zero. The computation cannot
// underflow.
template <class T> bool quotient_is_denormal(double n, double d) {
  int en, ed;
  const double quotient = std::frexp(n, &en) / std::frexp(d, &ed);  // in (1/2, 2)
  if (!std::isfinite(n) || !std::isfinite(d) || n == 0) return false;
  const int e = en - ed + (std::fabs(quotient) < 1 ? -1 : 0);
  return e < 1 - T::middle;
}

uint32_t scaled(uint32_t x, int by) { return bits_of(float(std::ldexp(double(as_float(x)), by))); }
uint64_t scaled(uint64_t x, int by) { return bits_of(std::ldexp(as_double(x), by)); }

// The scaled first source, and whether the quotient must be scaled back.
template <class T> typename T::Bits scale_one(typename T::Bits s0, typename T::Bits s1, typename T::Bits s2, bool& back) {
  back = false;
  const double n = T::value(s2), d = T::value(s1);
  const bool is_denominator = T::value(s0) == d, is_numerator = T::value(s0) == n;
  if (is_zero<T>(s2) || is_zero<T>(s1)) return T::nan;
  if (exponent<T>(s2) - exponent<T>(s1) >= T::far) {
    back = true;
    return is_denominator ? scaled(s0, T::scale) : s0;
  }
  if (is_denormal<T>(s1)) return scaled(s0, T::scale);
  const bool small_inverse = quotient_is_denormal<T>(1.0, d), small = quotient_is_denormal<T>(n, d);
  // The documents' text scales this denominator up. It is so large that it would become infinite, and 1 / 2^127 would
  // become a NaN. Scaled down, as below where only the inverse is denormal, the macro gives the quotient.
  if (small_inverse && small) {
    back = true;
    return is_denominator ? scaled(s0, -T::scale) : s0;
  }
  if (small_inverse) return scaled(s0, -T::scale);
  if (small) {
    back = true;
    return is_numerator ? scaled(s0, T::scale) : s0;
  }
  if (exponent<T>(s2) <= T::tiny) return scaled(s0, T::scale);
  return s0;
}

void div_scale_f32(Wave& w, const Inst& i) {
  Fetched in[3];
  for (int k = 0; k < 3; ++k) fetch32(w, i, k, in[k], false);
  Row out;
  uint64_t backs = 0;
  for (int l = 0; l < kLanes; ++l) {
    bool back;
    out.x[l] = scale_one<Single>(in[0].x[l], in[1].x[l], in[2].x[l], back);
    backs |= uint64_t(back) << l;
  }
  const uint64_t exec = w.exec();
  commit(w, i, out);
  set_mask_of(w, i.op[1], backs & exec);
}

void div_scale_f64(Wave& w, const Inst& i) {
  Doubles in[3], out;
  for (int k = 0; k < 3; ++k) fetch64(w, i, k, in[k], false);
  uint64_t backs = 0;
  for (int l = 0; l < kLanes; ++l) {
    bool back;
    out.x[l] = scale_one<Double>(in[0].x[l], in[1].x[l], in[2].x[l], back);
    backs |= uint64_t(back) << l;
  }
  const uint64_t exec = w.exec();
  commit64(w, i, out.x);
  set_mask_of(w, i.op[1], backs & exec);
}

// The fused product and sum, rounded once. In lanes that VCC names it is multiplied by 2^64 where the quotient so far
// is large, and by 2^-64 elsewhere. The quotient is large only where the denominator was scaled. Denormal sources keep
// their values.
void div_fmas_f32(Wave& w, const Inst& i) {
  Fetched in[3];
  for (int k = 0; k < 3; ++k) fetch32(w, i, k, in[k], false);
  const uint64_t vcc = w.vcc();
  const int round = w.mode.round32();
  Row out;
  for (int l = 0; l < kLanes; ++l) {
    const double a = as_float(in[0].x[l]), b = as_float(in[1].x[l]), c = as_float(in[2].x[l]);
    const int by = vcc >> l & 1 ? (exponent<Single>(in[2].x[l]) > 127 ? 64 : -64) : 0;
    out.x[l] = bits_of(round_to_single(std::ldexp(odd_sum(a * b, c, round), by), round));
  }
  settle_nans32(out.x, in, w.lanes);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

void div_fmas_f64(Wave& w, const Inst& i) {
  Doubles in[3], out;
  for (int k = 0; k < 3; ++k) fetch64(w, i, k, in[k], false);
  const uint64_t vcc = w.vcc();
  const HostRounding host(w.mode.round16_64());
  for (int l = 0; l < kLanes; ++l) {
    volatile double a = as_double(in[0].x[l]), b = as_double(in[1].x[l]), c = as_double(in[2].x[l]);
    const int by = vcc >> l & 1 ? (exponent<Double>(in[2].x[l]) > 1023 ? 128 : -128) : 0;
    volatile double result = std::fma(a, b, c);
    if (by) result = std::ldexp(result, by);
    out.x[l] = bits_of(double(result));
  }
  settle_nans64(out.x, in);
  finish64(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

// q: quotient, d: denominator, n: numerator.
template <class T> typename T::Bits fixed(typename T::Bits q, typename T::Bits d, typename T::Bits n, int round) {
  using Bits = typename T::Bits;
  const Bits sign = (d ^ n) & T::sign, size_d = d & ~T::sign, size_n = n & ~T::sign;
  if (T::is_nan(n)) return T::quiet(n);
  if (T::is_nan(d)) return T::quiet(d);
  if (size_d == 0 && size_n == 0) return T::nan;
  if (size_d == T::infinity && size_n == T::infinity) return T::nan;
  if (size_d == 0 || size_n == T::infinity) return sign | T::infinity;
  if (size_d == T::infinity || size_n == 0) return sign;
  // Less than half of the smallest denormal.
  const bool away = round == (sign ? kDown : kUp);
  const int distance = exponent<T>(n) - exponent<T>(d);
  if (distance < T::gone) return sign | Bits(away ? 1 : 0);
  // The quotient exceeds the largest number: the quotient so far is then a NaN made of infinities. The documents'
  // condition for "overflow" (an exponent of S1 that only infinities and NaNs have) cannot hold here, but divisions on
  // hardware overflow all the same.
  if (distance > T::most) return sign | (T::infinity - (away || round == kNearest ? 0 : 1));
  return sign | (q & ~T::sign);
}

void div_fixup_f32(Wave& w, const Inst& i) {
  Fetched in[3];
  for (int k = 0; k < 3; ++k) fetch32(w, i, k, in[k], k > 0 && w.mode.flush_in32());
  Row out;
  for (int l = 0; l < kLanes; ++l) out.x[l] = fixed<Single>(in[0].x[l], in[1].x[l], in[2].x[l], w.mode.round32());
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  commit(w, i, out);
}

void div_fixup_f16(Wave& w, const Inst& i) {
  Fetched in[3];
  for (int k = 0; k < 3; ++k) fetch16(w, i, k, in[k], k > 0 && w.mode.flush_in16_64());
  Row out;
  for (int l = 0; l < kLanes; ++l) out.x[l] = fixed<Half>(in[0].x[l], in[1].x[l], in[2].x[l], w.mode.round16_64());
  finish16(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit(w, i, out);
}

void div_fixup_f64(Wave& w, const Inst& i) {
  Doubles in[3], out;
  for (int k = 0; k < 3; ++k) fetch64(w, i, k, in[k], k > 0 && w.mode.flush_in16_64());
  for (int l = 0; l < kLanes; ++l) out.x[l] = fixed<Double>(in[0].x[l], in[1].x[l], in[2].x[l], w.mode.round16_64());
  finish64(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

constexpr Type F = Type::F32, H = Type::F16, D = Type::F64, M = Type::B64;
using Types = std::array<Type, 6>;

constexpr Entry kEntries[] = {
    {"v_div_scale_f32", div_scale_f32, 2, Class::Valu, Flow::Lane, 0, Types{F, M, F, F, F}, nullptr, "CDNA4 12.11 480"},
    {"v_div_scale_f64", div_scale_f64, 2, Class::Valu, Flow::Lane, 0, Types{D, M, D, D, D}, nullptr, "CDNA4 12.11 481"},
    {"v_div_fmas_f32", div_fmas_f32, 1, Class::Valu, Flow::Lane, 0, Types{F, F, F, F}, nullptr, "CDNA4 12.11 482"},
    {"v_div_fmas_f64", div_fmas_f64, 1, Class::Valu, Flow::Lane, 0, Types{D, D, D, D}, nullptr, "CDNA4 12.11 483"},
    {"v_div_fixup_f32", div_fixup_f32, 1, Class::Valu, Flow::Lane, 0, Types{F, F, F, F}, nullptr, "CDNA4 12.11 478"},
    {"v_div_fixup_f64", div_fixup_f64, 1, Class::Valu, Flow::Lane, 0, Types{D, D, D, D}, nullptr, "CDNA4 12.11 479"},
    {"v_div_fixup_f16", div_fixup_f16, 1, Class::Valu, Flow::Lane, kKeepsUpper, Types{H, H, H, H}, nullptr,
     "CDNA4 12.11 519"},
    {"v_div_fixup_legacy_f16", div_fixup_f16, 1, Class::Valu, Flow::Lane, 0, Types{H, H, H, H}, nullptr,
     "CDNA4 12.11 495"},
};

}  // namespace

const Table kDivisionTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
