// Minimum, maximum, median of binary16, binary32 and binary64. Numbers are ordered alike everywhere (-0 below +0); what
// a NaN does differs: by generation, and between the minimumNumber and the minimum of IEEE 754-2019.
// Denormals: only MODE's input flush counts (RDNA4 16.7, V_MIN_NUM_F32's notes).
#include "floats.hpp"
#include "tables.hpp"

namespace emu {

namespace {

struct Single {
  using Bits = uint32_t;
  static constexpr Bits sign = 0x80000000;
  static bool nan(Bits x) { return is_nan32(x); }
  static bool signalling(Bits x) { return is_signalling32(x); }
  static Bits quiet(Bits x) { return quiet32(x); }
  static int32_t key(Bits x) { return int32_t(x ^ (uint32_t(int32_t(x) >> 31) >> 1)); }
};
struct Half {
  using Bits = uint32_t;  // in the low half
  static constexpr Bits sign = 0x8000;
  static bool nan(Bits x) { return is_nan16(x); }
  static bool signalling(Bits x) { return is_signalling16(x); }
  static Bits quiet(Bits x) { return quiet16(x); }
  static int32_t key(Bits x) { return Single::key(x << 16); }
};
struct Double {
  using Bits = uint64_t;
  static constexpr Bits sign = uint64_t(1) << 63;
  static bool nan(Bits x) { return is_nan64(x); }
  static bool signalling(Bits x) { return is_signalling64(x); }
  static Bits quiet(Bits x) { return quiet64(x); }
  static int64_t key(Bits x) { return int64_t(x ^ (uint64_t(int64_t(x) >> 63) >> 1)); }
};

enum class Nans : uint8_t {
  ByArch,     // v_min_f32: the number, but a signalling NaN first in IEEE mode
  Number,     // v_min_num_f32: the number, always
  Propagate,  // v_minimum_f32: the NaN
};

struct Rule {
  bool ieee, rdna, number, propagate;
};

Rule rule_of(const Wave& w, Nans nans) {
  const bool number = nans == Nans::Number || (nans == Nans::ByArch && w.arch == Arch::gfx1201);
  return {ieee_of(w), is_rdna(w.arch), number, nans == Nans::Propagate};
}

// One of a and b is NaN. CDNA4 12.7 V_MIN_F32, RDNA3 16.7 V_MIN_F32, RDNA4 16.7 V_MIN_NUM_F32, 16.12 V_MINIMUM_F32.
template <class T> typename T::Bits nan_of(const Rule& rule, typename T::Bits a, typename T::Bits b) {
  if (rule.number) return !T::nan(a) ? a : T::nan(b) ? T::quiet(a) : b;
  if (rule.propagate || rule.ieee) {
    if (T::signalling(a)) return T::quiet(a);
    if (T::signalling(b)) return T::quiet(b);
  }
  if (rule.propagate) return T::nan(a) ? a : b;
  if (rule.rdna) return T::nan(b) ? a : b;
  return T::nan(a) ? b : a;
}

template <class T, bool Max> typename T::Bits pick(typename T::Bits a, typename T::Bits b) {
  const bool first = Max ? T::key(a) >= T::key(b) : T::key(a) < T::key(b);
  return first ? a : b;
}

// The two ways to evaluate: with the rule for NaNs, and without where no source has any.
template <class T> struct Careful {
  using Bits = typename T::Bits;
  Rule rule;
  template <bool Max> Bits two(Bits a, Bits b) const {
    return T::nan(a) || T::nan(b) ? nan_of<T>(rule, a, b) : pick<T, Max>(a, b);
  }
  bool any_nan(Bits a, Bits b, Bits c) const { return T::nan(a) || T::nan(b) || T::nan(c); }
};
template <class T> struct Plain {
  using Bits = typename T::Bits;
  template <bool Max> Bits two(Bits a, Bits b) const { return pick<T, Max>(a, b); }
  bool any_nan(Bits, Bits, Bits) const { return false; }
};

struct Min {
  static constexpr int sources = 2;
  template <class How, class B> static B at(const How& how, B a, B b, B) { return how.template two<false>(a, b); }
};
struct Max {
  static constexpr int sources = 2;
  template <class How, class B> static B at(const How& how, B a, B b, B) { return how.template two<true>(a, b); }
};
// Inner and outer operation: min3 is min of min, minmax is max of min.
template <bool Inner, bool Outer> struct Nested {
  static constexpr int sources = 3;
  template <class How, class B> static B at(const How& how, B a, B b, B c) {
    return how.template two<Outer>(how.template two<Inner>(a, b), c);
  }
};
// The larger of the other two where the largest is named; zeros of both signs count as equal (CDNA4 12.11 V_MED3_F32).
template <class T> struct Median {
  static constexpr int sources = 3;
  template <class How, class B> static B at(const How& how, B a, B b, B c) {
    if (how.any_nan(a, b, c)) return how.template two<false>(how.template two<false>(a, b), c);
    const B most = how.template two<true>(how.template two<true>(a, b), c);
    const bool is_a = most == a || !((most | a) & ~T::sign), is_b = most == b || !((most | b) & ~T::sign);
    const B bc = how.template two<true>(b, c), ac = how.template two<true>(a, c), ab = how.template two<true>(a, b);
    return is_a ? bc : is_b ? ac : ab;
  }
};

template <class T, class Op> void evaluate(const Rule& rule, typename T::Bits* out, const typename T::Bits* a,
                                           const typename T::Bits* b, const typename T::Bits* c) {
  uint32_t any = 0;
  EMU_LANES any |= uint32_t(T::nan(a[l])) | uint32_t(T::nan(b[l])) | uint32_t(Op::sources > 2 && T::nan(c[l]));
  if (!any) {
    EMU_LANES out[l] = Op::at(Plain<T>{}, a[l], b[l], c[l]);
  } else {
    for (int l = 0; l < kLanes; ++l) out[l] = Op::at(Careful<T>{rule}, a[l], b[l], c[l]);
  }
}

template <class Op, Nans N> void select32(Wave& w, const Inst& i) {
  Fetched in[3];
  for (int k = 0; k < Op::sources; ++k) fetch32(w, i, k, in[k], w.mode.flush_in32());
  Row out;
  evaluate<Single, Op>(rule_of(w, N), out.x, in[0].x, in[1].x, in[Op::sources - 1].x);
  finish32(w, i, out.x, false, !w.mode.flush_out32());
  commit(w, i, out);
}

template <class Op, Nans N> void select16(Wave& w, const Inst& i) {
  Fetched in[3];
  for (int k = 0; k < Op::sources; ++k) fetch16(w, i, k, in[k], w.mode.flush_in16_64());
  Row out;
  evaluate<Half, Op>(rule_of(w, N), out.x, in[0].x, in[1].x, in[Op::sources - 1].x);
  finish16(w, i, out.x, false, !w.mode.flush_out16_64());
  commit(w, i, out);
}

template <class Op, Nans N> void select64(Wave& w, const Inst& i) {
  Doubles in[2], out;
  for (int k = 0; k < 2; ++k) fetch64(w, i, k, in[k], w.mode.flush_in16_64());
  evaluate<Double, Op>(rule_of(w, N), out.x, in[0].x, in[1].x, in[1].x);
  finish64(w, i, out.x, false, !w.mode.flush_out16_64());
  commit64(w, i, out.x);
}

using Min3 = Nested<false, false>;
using Max3 = Nested<true, true>;
using MinMax = Nested<false, true>;
using MaxMin = Nested<true, false>;
constexpr Nans A = Nans::ByArch, N = Nans::Number, P = Nans::Propagate;
constexpr Type F = Type::F32, H = Type::F16, D = Type::F64;
using Types = std::array<Type, 6>;

#define ROW32(name, op, nans, source) \
  {name, select32<op, nans>, 1, Class::Valu, Flow::Lane, 0, Types{F, F, F, F}, nullptr, source}
#define ROW16(name, op, nans, source) \
  {name, select16<op, nans>, 1, Class::Valu, Flow::Lane, 0, Types{H, H, H, H}, nullptr, source}
#define ROW16_KEEPS(name, op, nans, source)                                                            \
  {name, select16<op, nans>, 1, Class::Valu, Flow::Lane, kKeepsUpper, Types{H, H, H, H}, keeps_other_half, source}
#define ROW64(name, op, nans, source) \
  {name, select64<op, nans>, 1, Class::Valu, Flow::Lane, 0, Types{D, D, D}, nullptr, source}

constexpr Entry kEntries[] = {
    ROW32("v_min_f32", Min, A, "CDNA4 12.7 VOP2 10, RDNA3 16.7 VOP2 15"),
    ROW32("v_max_f32", Max, A, "CDNA4 12.7 VOP2 11, RDNA3 16.7 VOP2 16"),
    ROW32("v_min3_f32", Min3, A, "CDNA4 12.11 VOP3 464"),
    ROW32("v_max3_f32", Max3, A, "CDNA4 12.11 VOP3 467"),
    ROW32("v_med3_f32", Median<Single>, A, "CDNA4 12.11 VOP3 470"),
    ROW32("v_minmax_f32", MinMax, A, "RDNA3 16.12 VOP3 607"),
    ROW32("v_maxmin_f32", MaxMin, A, "RDNA3 16.12 VOP3 606"),
    ROW32("v_min_num_f32", Min, N, "RDNA4 16.7 VOP2 21"),
    ROW32("v_max_num_f32", Max, N, "RDNA4 16.7 VOP2 22"),
    ROW32("v_min3_num_f32", Min3, N, "RDNA4 16.12 VOP3"),
    ROW32("v_max3_num_f32", Max3, N, "RDNA4 16.12 VOP3"),
    ROW32("v_med3_num_f32", Median<Single>, N, "RDNA4 16.12 VOP3"),
    ROW32("v_minmax_num_f32", MinMax, N, "RDNA4 16.12 VOP3"),
    ROW32("v_maxmin_num_f32", MaxMin, N, "RDNA4 16.12 VOP3"),
    ROW32("v_minimum_f32", Min, P, "RDNA4 16.12 VOP3"),
    ROW32("v_maximum_f32", Max, P, "RDNA4 16.12 VOP3"),
    ROW32("v_minimum3_f32", Min3, P, "CDNA4 12.11 VOP3 680, RDNA4 16.12 VOP3"),
    ROW32("v_maximum3_f32", Max3, P, "CDNA4 12.11 VOP3 681, RDNA4 16.12 VOP3"),
    ROW32("v_minimummaximum_f32", MinMax, P, "RDNA4 16.12 VOP3"),
    ROW32("v_maximumminimum_f32", MaxMin, P, "RDNA4 16.12 VOP3"),
    ROW16("v_min_f16", Min, A, "CDNA4 12.7 VOP2 46, RDNA3 16.7 VOP2 58"),
    ROW16("v_max_f16", Max, A, "CDNA4 12.7 VOP2 45, RDNA3 16.7 VOP2 57"),
    ROW16("v_min_num_f16", Min, N, "RDNA4 16.7 VOP2 48"),
    ROW16("v_max_num_f16", Max, N, "RDNA4 16.7 VOP2 49"),
    ROW16("v_minimum_f16", Min, P, "RDNA4 16.12 VOP3"),
    ROW16("v_maximum_f16", Max, P, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_min3_f16", Min3, A, "CDNA4 12.11 VOP3 500"),
    ROW16_KEEPS("v_max3_f16", Max3, A, "CDNA4 12.11 VOP3 503"),
    ROW16_KEEPS("v_med3_f16", Median<Half>, A, "CDNA4 12.11 VOP3 506"),
    ROW16_KEEPS("v_minmax_f16", MinMax, A, "RDNA3 16.12 VOP3 609"),
    ROW16_KEEPS("v_maxmin_f16", MaxMin, A, "RDNA3 16.12 VOP3 608"),
    ROW16_KEEPS("v_min3_num_f16", Min3, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_max3_num_f16", Max3, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_med3_num_f16", Median<Half>, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_minmax_num_f16", MinMax, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_maxmin_num_f16", MaxMin, N, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_minimum3_f16", Min3, P, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_maximum3_f16", Max3, P, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_minimummaximum_f16", MinMax, P, "RDNA4 16.12 VOP3"),
    ROW16_KEEPS("v_maximumminimum_f16", MaxMin, P, "RDNA4 16.12 VOP3"),
    ROW64("v_min_f64", Min, A, "CDNA4 12.11 VOP3 642"),
    ROW64("v_max_f64", Max, A, "CDNA4 12.11 VOP3 643"),
    ROW64("v_min_num_f64", Min, N, "RDNA4 16.7 VOP2 13"),
    ROW64("v_max_num_f64", Max, N, "RDNA4 16.7 VOP2 14"),
    ROW64("v_minimum_f64", Min, P, "RDNA4 16.12 VOP3"),
    ROW64("v_maximum_f64", Max, P, "RDNA4 16.12 VOP3"),
};

}  // namespace

const Table kSelectTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
