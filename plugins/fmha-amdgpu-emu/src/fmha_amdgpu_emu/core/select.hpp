// Minimum, maximum and median of binary16, binary32 and binary64. All order numbers alike (-0 below +0). They differ in
// what a NaN does: by generation, and between the minimumNumber and the minimum of IEEE 754-2019. Of MODE's denormal
// settings only the input flush counts (RDNA4 16.7, V_MIN_NUM_F32's notes).
#pragma once

#include "floats.hpp"

namespace emu {

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
  bool ieee, first, number, propagate;
};

inline Rule rule_of(const Wave& w, Nans nans) {
  const bool number = nans == Nans::Number || (nans == Nans::ByArch && w.arch->min_is_min_num);
  return {ieee_of(w), w.arch->first_of_two_nans, number, nans == Nans::Propagate};
}

// One of a and b is NaN. CDNA4 12.7 V_MIN_F32, RDNA3 16.7 V_MIN_F32, RDNA4 16.7 V_MIN_NUM_F32, 16.12 V_MINIMUM_F32.
template <class T> inline typename T::Bits nan_of(const Rule& rule, typename T::Bits a, typename T::Bits b) {
  if (rule.number) return !T::nan(a) ? a : T::nan(b) ? T::quiet(a) : b;
  if (rule.propagate || rule.ieee) {
    if (T::signalling(a)) return T::quiet(a);
    if (T::signalling(b)) return T::quiet(b);
  }
  if (rule.propagate) return T::nan(a) ? a : b;
  if (rule.first) return T::nan(b) ? a : b;
  return T::nan(a) ? b : a;
}

template <class T, bool Max> inline typename T::Bits pick(typename T::Bits a, typename T::Bits b) {
  const bool first = Max ? T::key(a) >= T::key(b) : T::key(a) < T::key(b);
  return first ? a : b;
}

// Two ways to evaluate: with the rule for NaNs, and without it where no source has any.
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
// The larger of the other two, once the largest is known. Zeros of both signs count as equal (CDNA4 12.11 V_MED3_F32).
template <class T> struct Median {
  static constexpr int sources = 3;
  template <class How, class B> static B at(const How& how, B a, B b, B c) {
    if (how.any_nan(a, b, c)) return how.template two<false>(how.template two<false>(a, b), c);
    const B most = how.template two<true>(how.template two<true>(a, b), c);
    const bool is_a = (most == a) | !((most | a) & ~T::sign), is_b = (most == b) | !((most | b) & ~T::sign);
    const B bc = how.template two<true>(b, c), ac = how.template two<true>(a, c), ab = how.template two<true>(a, b);
    return is_a ? bc : is_b ? ac : ab;
  }
};

template <class T, class Op>
inline void evaluate(const Rule& rule, typename T::Bits* out, const typename T::Bits* a, const typename T::Bits* b,
                     const typename T::Bits* c, int lanes) {
  uint32_t any = 0;
  EMU_LANES_OF(lanes) any |= uint32_t(T::nan(a[l])) | uint32_t(T::nan(b[l])) | uint32_t(Op::sources > 2 && T::nan(c[l]));
  if (!any) {
    EMU_LANES_OF(lanes) out[l] = Op::at(Plain<T>{}, a[l], b[l], c[l]);
  } else {
    for (int l = 0; l < lanes; ++l) out[l] = Op::at(Careful<T>{rule}, a[l], b[l], c[l]);
  }
}

using Min3 = Nested<false, false>;
using Max3 = Nested<true, true>;
using MinMax = Nested<false, true>;
using MaxMin = Nested<true, false>;

}  // namespace emu
