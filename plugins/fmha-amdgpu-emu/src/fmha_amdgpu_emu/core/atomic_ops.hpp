// What an atomic operation stores: f(memory, data) or f(memory, data, second data). LDS and memory share these
// operations.
//
// Float additions round to nearest even and keep denormals (CDNA3 ISA 12.13: "handles NaN/INF/denormal values").
#pragma once

#include <cmath>
#include <cstring>

#include "formats.hpp"

namespace emu::atomic_op {

template <class T> T from_bits(uint64_t bits) {
  T out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

struct Add { template <class T> static T of(T m, T d) { return m + d; } };
struct Sub { template <class T> static T of(T m, T d) { return m - d; } };
struct ReverseSub { template <class T> static T of(T m, T d) { return d - m; } };
struct SubClamp { template <class T> static T of(T m, T d) { return m < d ? 0 : m - d; } };
struct CondSub { template <class T> static T of(T m, T d) { return m >= d ? m - d : m; } };
struct Inc { template <class T> static T of(T m, T d) { return m >= d ? 0 : m + 1; } };
struct Dec { template <class T> static T of(T m, T d) { return m == 0 || m > d ? d : m - 1; } };
struct Min { template <class T> static T of(T m, T d) { return d < m ? d : m; } };
struct Max { template <class T> static T of(T m, T d) { return d > m ? d : m; } };
struct And { template <class T> static T of(T m, T d) { return m & d; } };
struct Or { template <class T> static T of(T m, T d) { return m | d; } };
struct Xor { template <class T> static T of(T m, T d) { return m ^ d; } };
struct Exchange { template <class T> static T of(T, T d) { return d; } };
// IEEE 754-2019 minimumNumber and maximumNumber: a number wins over NaN, -0 is below 0 (RDNA4 ISA 15.12).
struct MinNum {
  template <class T> static T of(T m, T d) {
    if (m != m || d != d) return m != m ? d : m;
    return d < m || (d == m && std::signbit(d)) ? d : m;
  }
};
struct MaxNum {
  template <class T> static T of(T m, T d) {
    if (m != m || d != d) return m != m ? d : m;
    return d > m || (d == m && !std::signbit(d)) ? d : m;
  }
};
struct MaskOr { template <class T> static T of(T m, T d, T e) { return (m & ~d) | e; } };
struct Wrap { template <class T> static T of(T m, T d, T e) { return m >= d ? m - d : m + e; } };
// DS_CMPST takes the value to compare first (CDNA3 ISA 12.13), DS_CMPSTORE second (RDNA3 ISA 16.12).
struct CompareFirst { template <class T> static T of(T m, T compared, T stored) { return m == compared ? stored : m; } };
struct CompareSecond { template <class T> static T of(T m, T stored, T compared) { return m == compared ? stored : m; } };

template <const Format& F> struct PackedAdd {
  static uint32_t of(uint32_t m, uint32_t d) {
    uint32_t out = 0;
    for (int half = 0; half < 32; half += 16) {
      const double sum = odd_sum(decode(F, m >> half & 0xffff), decode(F, d >> half & 0xffff));
      out |= uint32_t(encode(F, sum)) << half;
    }
    return out;
  }
};

// The data's lower 31 bits replace each dword of memory where the data's top bit is set.
struct CondExchange {
  static uint64_t of(uint64_t m, uint64_t d) {
    uint64_t out = 0;
    for (int half = 0; half < 64; half += 32) {
      const uint32_t word = uint32_t(d >> half);
      out |= uint64_t(word >> 31 ? word & 0x7fffffffu : uint32_t(m >> half)) << half;
    }
    return out;
  }
};

}  // namespace emu::atomic_op
