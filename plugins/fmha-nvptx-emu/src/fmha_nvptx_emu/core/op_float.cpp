// Floating point. Source: PTX ISA 9.1, 9.7.3 (f32, f64) and 9.7.4 (half precision). The approximations are rounded
// correctly, which their documented bounds allow. `.ftz` flushes the inputs and the result of its own instruction.
#include <bit>

#include "binding.hpp"
#include "contract.hpp"
#include "exponential.hpp"
#include "floats.hpp"

namespace ptx {

namespace {

struct Add { template <class T> T operator()(T a, T b) const { return a + b; } };
struct Sub { template <class T> T operator()(T a, T b) const { return a - b; } };
struct Mul { template <class T> T operator()(T a, T b) const { return a * b; } };
struct Div { template <class T> T operator()(T a, T b) const { return a / b; } };
template <bool nan, bool larger> struct Pick {  // without .NaN, a number wins over NaN; +0 > -0
  template <class T> T operator()(T a, T b) const {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    if (nan && (a != a || b != b)) return std::numeric_limits<T>::quiet_NaN();
    const Bits x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b);
    const Bits one = (larger ? a > b : a < b) | (b != b) ? x : y;
    return std::bit_cast<T>(a == b ? (larger ? x & y : x | y) : one);  // equal ones differ by the sign of zero alone
  }
};
struct Neg { template <class T> T operator()(T a) const { return -a; } };
struct Abs { template <class T> T operator()(T a) const { return std::fabs(a); } };
struct Rcp { template <class T> T operator()(T a) const { return T(1) / a; } };
struct Sqrt { template <class T> T operator()(T a) const { return std::sqrt(a); } };
struct Rsqrt { float operator()(float a) const { return float(1.0 / std::sqrt(double(a))); } };
struct Ex2 { float operator()(float a) const { return exp2_rounded(a); } };
struct Lg2 { float operator()(float a) const { return float(std::log2(double(a))); } };
struct Sin { float operator()(float a) const { return float(std::sin(double(a))); } };
struct Cos { float operator()(float a) const { return float(std::cos(double(a))); } };
struct Tanh { float operator()(float a) const { return float(std::tanh(double(a))); } };
struct Fma { template <class T> T operator()(T a, T b, T c) const { return std::fma(a, b, c); } };

template <class Op, bool ftz, bool sat> void f32_1(Warp& w, const Inst& i, uint32_t mask) {
  map1<float, float>(w, i, mask, [](float a) {
    const float r = canonical(flush<ftz>(Op{}(flush<ftz>(a))));
    return sat ? saturated(r) : r;
  });
}
template <bool ftz> void f32_ex2(Warp& w, const Inst& i, uint32_t mask) {
#ifdef PTX_AVX512
  if (mask == kAll && !emulation::careful) {
    for (unsigned z = 0; z < 2; ++z) {
      const __m512i bits = _mm512_castps_si512(exp2_rounded(_mm512_loadu_ps(w.row(i.slots[1]) + 64 * z)));
      const __mmask16 normal = ftz ? _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x7f800000)) : 0xffff;
      _mm512_storeu_si512(w.row(i.slots[0]) + 64 * z, _mm512_maskz_mov_epi32(normal, bits));
    }
    return;
  }
#endif
  f32_1<Ex2, ftz, false>(w, i, mask);
}
template <class Op, bool ftz, bool sat> void f32_2(Warp& w, const Inst& i, uint32_t mask) {
  map2<float, float, float>(w, i, mask, [](float a, float b) {
    const float r = canonical(flush<ftz>(Op{}(flush<ftz>(a), flush<ftz>(b))));
    return sat ? saturated(r) : r;
  });
}
template <bool ftz, bool sat> void f32_fma(Warp& w, const Inst& i, uint32_t mask) {
  map3<float, float, float, float>(w, i, mask, [](float a, float b, float c) {
    const float r = canonical(flush<ftz>(__builtin_fmaf(flush<ftz>(a), flush<ftz>(b), flush<ftz>(c))));
    return sat ? saturated(r) : r;
  });
}
template <bool ftz, int product, int addend> void f32_contracted(Warp& w, const Inst& i, uint32_t mask) {  // signs of what a subtraction takes
  map3<float, float, float, float>(w, i, mask, [](float a, float b, float c) {
    return canonical(flush<ftz>(__builtin_fmaf(product * flush<ftz>(a), flush<ftz>(b), addend * flush<ftz>(c))));
  });
}
template <bool nan, bool larger, bool ftz> void f32_pick3(Warp& w, const Inst& i, uint32_t mask) {
  map3<float, float, float, float>(w, i, mask, [](float a, float b, float c) {
    const Pick<nan, larger> pick;
    return canonical(pick(pick(flush<ftz>(a), flush<ftz>(b)), flush<ftz>(c)));
  });
}
// Two floats in 64 bits, from sm_100 on.
template <class Op, bool ftz> uint64_t f32_half(uint64_t a, uint64_t b) {
  return bits_of_float(canonical(flush<ftz>(Op{}(flush<ftz>(float_of(uint32_t(a))), flush<ftz>(float_of(uint32_t(b)))))));
}
template <class Op, bool ftz> void f32x2_2(Warp& w, const Inst& i, uint32_t mask) {
  map2<uint64_t, uint64_t, uint64_t>(w, i, mask, [](uint64_t a, uint64_t b) {
    return f32_half<Op, ftz>(a, b) | f32_half<Op, ftz>(a >> 32, b >> 32) << 32;
  });
}
template <bool ftz> void f32x2_fma(Warp& w, const Inst& i, uint32_t mask) {
  map3<uint64_t, uint64_t, uint64_t, uint64_t>(w, i, mask, [](uint64_t a, uint64_t b, uint64_t c) {
    const auto one = [](uint64_t x, uint64_t y, uint64_t z) {
      const float r = __builtin_fmaf(flush<ftz>(float_of(uint32_t(x))), flush<ftz>(float_of(uint32_t(y))), flush<ftz>(float_of(uint32_t(z))));
      return uint64_t(bits_of_float(canonical(flush<ftz>(r))));
    };
    return one(a, b, c) | one(a >> 32, b >> 32, c >> 32) << 32;
  });
}
template <class Op> void f64_1(Warp& w, const Inst& i, uint32_t mask) { map1<double, double>(w, i, mask, Op{}); }
template <class Op> void f64_2(Warp& w, const Inst& i, uint32_t mask) { map2<double, double, double>(w, i, mask, Op{}); }
void f64_fma(Warp& w, const Inst& i, uint32_t mask) { map3<double, double, double, double>(w, i, mask, Fma{}); }
// Sign changes are bit operations: NaNs keep their bits.
template <bool keep> void sign_f32(Warp& w, const Inst& i, uint32_t mask) {
  map1<uint32_t, uint32_t>(w, i, mask, [](uint32_t a) { return keep ? a & 0x7fffffff : a ^ 0x80000000; });
}
template <bool keep> void sign_f32_ftz(Warp& w, const Inst& i, uint32_t mask) {
  map1<float, float>(w, i, mask, [](float a) { return float_of(keep ? bits_of_float(flushed(a)) & 0x7fffffff : bits_of_float(flushed(a)) ^ 0x80000000); });
}
template <uint32_t bits, bool keep> void sign_bits(Warp& w, const Inst& i, uint32_t mask) {
  map1<uint32_t, uint32_t>(w, i, mask, [](uint32_t a) { return keep ? a & ~bits : a ^ bits; });
}

// Half precision: each operation in double, where products and sums of halves are exact or nearly so, rounded once.
template <class H> double value_of(uint16_t bits);
template <> inline double value_of<f16>(uint16_t bits) { return double(narrow<f16>(bits)); }
template <> inline double value_of<bf16>(uint16_t bits) { return double(wide(bf16{bits})); }
template <class H> uint16_t half_of(double x);
template <> inline uint16_t half_of<f16>(double x) { return x != x ? kHalfNan : uint16_t(widen<f16>(f16(x))); }
template <> inline uint16_t half_of<bf16>(double x) {
  // Through float with the rounding bit sticky, so that the value is rounded once.
  float f = float(x);
  if (double(f) != x && std::isfinite(f)) {
    uint32_t b = bits_of_float(f);
    if (std::fabs(double(f)) > std::fabs(x)) --b;
    f = float_of(b | 1);
  }
  return to_bf16(f).bits;
}
template <class H, class Op> uint16_t half_op(uint16_t a, uint16_t b) { return half_of<H>(Op{}(value_of<H>(a), value_of<H>(b))); }

// Of one half or of two, as imm masks the result.
template <class H, class Op> void half_2(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t kept = uint32_t(i.imm);
  map2<uint32_t, uint32_t, uint32_t>(w, i, mask, [=](uint32_t a, uint32_t b) {
    return (half_op<H, Op>(uint16_t(a), uint16_t(b)) | uint32_t(half_op<H, Op>(uint16_t(a >> 16), uint16_t(b >> 16))) << 16) & kept;
  });
}
template <class H> uint16_t half_fma(uint16_t a, uint16_t b, uint16_t c) {
  return half_of<H>(std::fma(value_of<H>(a), value_of<H>(b), value_of<H>(c)));
}
template <class H> void half_3(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t kept = uint32_t(i.imm);
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(w, i, mask, [=](uint32_t a, uint32_t b, uint32_t c) {
    return (half_fma<H>(uint16_t(a), uint16_t(b), uint16_t(c)) | uint32_t(half_fma<H>(uint16_t(a >> 16), uint16_t(b >> 16), uint16_t(c >> 16))) << 16) & kept;
  });
}
template <class H, class Op> void half_1(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t kept = uint32_t(i.imm);
  map1<uint32_t, uint32_t>(w, i, mask, [=](uint32_t a) {
    const auto one = [](uint16_t x) { return half_of<H>(double(Op{}(float(value_of<H>(x))))); };
    return (one(uint16_t(a)) | uint32_t(one(uint16_t(a >> 16))) << 16) & kept;
  });
}
Handler of_halves(Binding& b, Type type, Handler f16s, Handler bf16s) {
  b.out.imm = bits_of(type) == 16 ? 0xffff : 0xffffffff;
  return type == Type::F16 || type == Type::F16x2 ? f16s : type == Type::BF16 || type == Type::BF16x2 ? bf16s : nullptr;
}

template <class Op> Handler f32_two(bool ftz, bool sat) {
  return ftz ? (sat ? f32_2<Op, true, true> : f32_2<Op, true, false>) : (sat ? f32_2<Op, false, true> : f32_2<Op, false, false>);
}
template <class Op> Handler f32_one(bool ftz) {
  if constexpr (std::is_same_v<Op, Ex2>) return ftz ? f32_ex2<true> : f32_ex2<false>;
  return ftz ? f32_1<Op, true, false> : f32_1<Op, false, false>;
}

template <class Op> Handler pair_of(bool ftz, bool sat) { return sat ? nullptr : ftz ? f32x2_2<Op, true> : f32x2_2<Op, false>; }
template <class Op> Handler other_two(Binding& b, Type type, bool ftz, bool sat) {
  if (type == Type::F64) return ftz || sat ? nullptr : f64_2<Op>;
  return ftz || sat ? nullptr : of_halves(b, type, half_2<f16, Op>, half_2<bf16, Op>);
}
template <class Op> Handler two_of(Binding& b, Type type, bool ftz, bool sat) {
  return type == Type::F32 ? f32_two<Op>(ftz, sat) : other_two<Op>(b, type, ftz, sat);
}
template <class Op> Handler picked(Binding& b, Type type, bool ftz) {
  if (type != Type::F32) return other_two<Op>(b, type, ftz, false);
  return ftz ? f32_2<Op, true, false> : f32_2<Op, false, false>;
}
template <bool larger> Handler pick_of(Binding& b, Type type, bool ftz, bool nan) {
  if (b.s.operands.size() == 4) {  // of f32 alone, from sm_100 on
    b.three(type, 3);
    if (type != Type::F32) return nullptr;
    return nan ? (ftz ? f32_pick3<true, larger, true> : f32_pick3<true, larger, false>)
               : (ftz ? f32_pick3<false, larger, true> : f32_pick3<false, larger, false>);
  }
  b.three(type, 2);
  return nan ? picked<Pick<true, larger>>(b, type, ftz) : picked<Pick<false, larger>>(b, type, ftz);
}
template <bool keep> Handler sign_of(Type type, bool ftz) {
  if (type == Type::F32) return ftz ? sign_f32_ftz<keep> : sign_f32<keep>;
  if (type == Type::F64) return f64_1<std::conditional_t<keep, Abs, Neg>>;
  if (ftz) return nullptr;
  return type == Type::F16 || type == Type::BF16 ? sign_bits<0x8000, keep> : sign_bits<0x80008000, keep>;
}

// Mixed precision (9.7.5), from sm_100 on: the factors of fma, and the first operand of add and sub, are halves; the rest is f32.
template <class H, class Op, bool sat> void mixed_2(Warp& w, const Inst& i, uint32_t mask) {
  map2<float, uint32_t, float>(w, i, mask, [](uint32_t a, float c) {
    const float r = canonical(Op{}(float(value_of<H>(uint16_t(a))), c));
    return sat ? saturated(r) : r;
  });
}
template <class H, bool sat> void mixed_fma(Warp& w, const Inst& i, uint32_t mask) {
  map3<float, uint32_t, uint32_t, float>(w, i, mask, [](uint32_t a, uint32_t b, float c) {
    const float r = canonical(__builtin_fmaf(float(value_of<H>(uint16_t(a))), float(value_of<H>(uint16_t(b))), c));
    return sat ? saturated(r) : r;
  });
}
template <class H> Handler mixed_of(const std::string& root, bool sat) {
  if (root == "add") return sat ? mixed_2<H, Add, true> : mixed_2<H, Add, false>;
  if (root == "sub") return sat ? mixed_2<H, Sub, true> : mixed_2<H, Sub, false>;
  return sat ? mixed_fma<H, true> : mixed_fma<H, false>;
}
Handler mixed(Binding& b, bool sat) {  // behind .f32
  const Type half = b.type();
  const unsigned halves = b.s.root == "fma" ? 2 : 1;
  b.count(halves + 2, halves + 2);
  b.dest(0, Type::F32);
  for (unsigned k = 1; k <= halves; ++k) b.source(k, half);
  b.source(halves + 1, Type::F32);
  return half == Type::F16 ? mixed_of<f16>(b.s.root, sat) : half == Type::BF16 ? mixed_of<bf16>(b.s.root, sat) : nullptr;
}

Handler bind_fma(Binding& b) {
  b.out.cls = Class::Float;
  const Type type = b.type();
  b.take("rn");
  const bool ftz = b.take("ftz"), sat = b.take("sat");
  if (type == Type::F32 && !ftz && b.has_type()) return mixed(b, sat);
  b.three(type, 3);
  if (b.take(kMinusProduct)) return ftz ? f32_contracted<true, -1, 1> : f32_contracted<false, -1, 1>;
  if (b.take(kMinusAddend)) return ftz ? f32_contracted<true, 1, -1> : f32_contracted<false, 1, -1>;
  if (type == Type::F32)
    return ftz ? (sat ? f32_fma<true, true> : f32_fma<true, false>) : (sat ? f32_fma<false, true> : f32_fma<false, false>);
  if (type == Type::F32x2 && !sat) return ftz ? f32x2_fma<true> : f32x2_fma<false>;
  if (ftz || sat) return nullptr;
  return type == Type::F64 ? f64_fma : of_halves(b, type, half_3<f16>, half_3<bf16>);
}

// One source; `approx` needs to be written, or `rn` where the root has both.
template <class Op, bool exact> Handler special(Binding& b) {
  const bool approx = b.take("approx"), rn = exact && b.take("rn");
  const bool ftz = b.take("ftz");
  const Type type = b.type();
  if (!approx && !rn) b.refuse("it needs .approx or .rn");
  b.three(type, 1);
  if (type == Type::F32) return f32_one<Op>(ftz);
  if constexpr (exact)
    if (type == Type::F64 && rn) return f64_1<Op>;
  return nullptr;
}
template <class Op> Handler special_or_half(Binding& b) {
  const bool approx = b.take("approx"), ftz = b.take("ftz");
  const Type type = b.type();
  if (!approx) b.refuse("it needs .approx");
  b.three(type, 1);
  return type == Type::F32 ? f32_one<Op>(ftz) : of_halves(b, type, half_1<f16, Op>, half_1<bf16, Op>);
}

constexpr Opcode rows[] = {
    {"fma", "9.7.3.6", Class::Float, bind_fma},
    {"rcp", "9.7.3.13", Class::Special, special<Rcp, true>},
    {"sqrt", "9.7.3.15", Class::Special, special<Sqrt, true>},
    {"rsqrt", "9.7.3.16", Class::Special, special<Rsqrt, false>},
    {"sin", "9.7.3.18", Class::Special, special<Sin, false>},
    {"cos", "9.7.3.19", Class::Special, special<Cos, false>},
    {"lg2", "9.7.3.20", Class::Special, special<Lg2, false>},
    {"ex2", "9.7.3.21", Class::Special, special_or_half<Ex2>},
    {"tanh", "9.7.3.22", Class::Special, special_or_half<Tanh>},
};

}  // namespace

// The roots that integers have too: add, sub, mul, mad, div, min, max, neg, abs.
Handler bind_float(Binding& b, Type type) {
  const std::string& root = b.s.root;
  b.out.cls = Class::Float;
  const bool ftz = b.take("ftz"), sat = b.take("sat"), nan = b.take("NaN");
  if (root == "neg" || root == "abs") {
    b.three(type, 1);
    return sat || nan ? nullptr : root == "abs" ? sign_of<true>(type, ftz) : sign_of<false>(type, ftz);
  }
  if (root == "min" || root == "max") {
    if (sat) return nullptr;
    return root == "max" ? pick_of<true>(b, type, ftz, nan) : pick_of<false>(b, type, ftz, nan);
  }
  if (nan) return nullptr;
  if (root == "div") b.any({"rn", "full", "approx"});
  else b.take("rn");
  if (root == "mad") {
    b.three(type, 3);
    return type == Type::F32 ? (ftz ? f32_fma<true, false> : f32_fma<false, false>) : nullptr;
  }
  if ((root == "add" || root == "sub") && type == Type::F32 && !ftz && b.has_type()) return mixed(b, sat);
  b.three(type, 2);
  if (type == Type::F32x2) {
    if (root == "add") return pair_of<Add>(ftz, sat);
    if (root == "sub") return pair_of<Sub>(ftz, sat);
    return root == "mul" ? pair_of<Mul>(ftz, sat) : nullptr;
  }
  if (root == "add") return two_of<Add>(b, type, ftz, sat);
  if (root == "sub") return two_of<Sub>(b, type, ftz, sat);
  if (root == "mul") return two_of<Mul>(b, type, ftz, sat);
  if (root == "div") return b.out.cls = Class::Special, two_of<Div>(b, type, ftz, sat);
  return nullptr;
}

extern const Table kFloatOpcodes{rows, std::size(rows)};

}  // namespace ptx
