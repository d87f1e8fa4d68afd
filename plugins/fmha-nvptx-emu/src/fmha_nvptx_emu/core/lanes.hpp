// Values of 32 lanes: how handlers read and write rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "block.hpp"

namespace ptx {

using f16 = _Float16;

template <class T> using Lane = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;  // what a row keeps of a T

template <class T> inline T narrow(Lane<T> bits) {
  if constexpr (sizeof(T) == sizeof(Lane<T>)) {
    T out;
    std::memcpy(&out, &bits, sizeof out);
    return out;
  } else if constexpr (std::is_integral_v<T>) {
    return T(bits);
  } else {
    const uint16_t half = uint16_t(bits);
    T out;
    std::memcpy(&out, &half, sizeof out);
    return out;
  }
}

template <class T> inline Lane<T> widen(T value) {
  if constexpr (sizeof(T) == sizeof(Lane<T>)) {
    Lane<T> out;
    std::memcpy(&out, &value, sizeof out);
    return out;
  } else if constexpr (sizeof(T) == 1) {
    return uint8_t(value);
  } else {
    uint16_t half;
    std::memcpy(&half, &value, sizeof half);
    return half;
  }
}

template <class T> inline Lane<T>* lanes_of(const Warp& w, Slot slot) { return reinterpret_cast<Lane<T>*>(w.row(slot)); }

// d = f(source 0), ... for the lanes of the mask. The loops are written for the compiler's vectoriser.
template <class R, class A, class F> inline void map1(Warp& w, const Inst& i, uint32_t mask, F f) {
  Lane<R>* d = lanes_of<R>(w, i.slots[0]);
  const Lane<A>* a = lanes_of<A>(w, i.slots[1]);
  if (mask == kAll) {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) d[l] = widen<R>(f(narrow<A>(a[l])));
  } else {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) {
      const Lane<R> r = widen<R>(f(narrow<A>(a[l])));
      d[l] = mask >> l & 1 ? r : d[l];
    }
  }
}

template <class R, class A, class B, class F> inline void map2(Warp& w, const Inst& i, uint32_t mask, F f) {
  Lane<R>* d = lanes_of<R>(w, i.slots[0]);
  const Lane<A>* a = lanes_of<A>(w, i.slots[1]);
  const Lane<B>* b = lanes_of<B>(w, i.slots[2]);
  if (mask == kAll) {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) d[l] = widen<R>(f(narrow<A>(a[l]), narrow<B>(b[l])));
  } else {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) {
      const Lane<R> r = widen<R>(f(narrow<A>(a[l]), narrow<B>(b[l])));
      d[l] = mask >> l & 1 ? r : d[l];
    }
  }
}

template <class R, class A, class B, class C, class F> inline void map3(Warp& w, const Inst& i, uint32_t mask, F f) {
  Lane<R>* d = lanes_of<R>(w, i.slots[0]);
  const Lane<A>* a = lanes_of<A>(w, i.slots[1]);
  const Lane<B>* b = lanes_of<B>(w, i.slots[2]);
  const Lane<C>* c = lanes_of<C>(w, i.slots[3]);
  if (mask == kAll) {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) d[l] = widen<R>(f(narrow<A>(a[l]), narrow<B>(b[l]), narrow<C>(c[l])));
  } else {
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) {
      const Lane<R> r = widen<R>(f(narrow<A>(a[l]), narrow<B>(b[l]), narrow<C>(c[l])));
      d[l] = mask >> l & 1 ? r : d[l];
    }
  }
}

template <class F> inline void each_lane(uint32_t mask, F f) {
  for (uint32_t left = mask; left; left &= left - 1) f(__builtin_ctz(left));
}

}  // namespace ptx
