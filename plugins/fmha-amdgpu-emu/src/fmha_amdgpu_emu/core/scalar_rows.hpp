// Rows and handlers of the scalar ALU's tables, for scalar.cpp and scalar_exec.cpp.
#pragma once

#include <iterator>
#include <type_traits>

#include "lanes.hpp"

namespace emu {

template <class T> inline T get(const Wave& w, const Inst& i, int k) {
  if constexpr (sizeof(T) == 8) return scalar64(w, i.src(k));
  else return scalar32(w, i.src(k));
}

template <class T> inline void put(Wave& w, const Inst& i, T value) {
  if constexpr (sizeof(T) == 8) set_scalar64(w, i.op[0], value);
  else set_scalar32(w, i.op[0], value);
}

// D = f(S0, S1, SCC); f may change SCC, which is written after D.
template <class T, class F> inline void two(Wave& w, const Inst& i, F f) {
  bool scc = w.scc;
  const T r = f(get<T>(w, i, 0), get<T>(w, i, 1), scc);
  put<T>(w, i, r);
  w.scc = scc;
}

#define TWO32(name, ...)                                                                                       \
  void name(Wave& w, const Inst& i) {                                                                          \
    two<uint32_t>(w, i, [](uint32_t a, uint32_t b, [[maybe_unused]] bool& scc) -> uint32_t __VA_ARGS__);       \
  }
#define TWO64(name, ...)                                                                                       \
  void name(Wave& w, const Inst& i) {                                                                          \
    two<uint64_t>(w, i, [](uint64_t a, uint64_t b, [[maybe_unused]] bool& scc) -> uint64_t __VA_ARGS__);       \
  }
// SCC: the result is not zero.
#define BITS2(name, expression)                                     \
  template <class T> void name(Wave& w, const Inst& i) {            \
    two<T>(w, i, [](T a, T b, bool& scc) -> T {                     \
      const T r = expression;                                       \
      scc = r;                                                      \
      return r;                                                     \
    });                                                             \
  }
#define BITS1(name, ...)                                            \
  template <class T> void name(Wave& w, const Inst& i) {            \
    const T a = get<T>(w, i, 0), r = __VA_ARGS__;                   \
    put<T>(w, i, r);                                                \
    w.scc = r;                                                      \
  }
#define ONE(name, ...)                                              \
  template <class T> void name(Wave& w, const Inst& i) {            \
    put<T>(w, i, [](T a) -> T __VA_ARGS__(get<T>(w, i, 0)));        \
  }
// Wraps a 32-bit result in a T.
#define COUNT(name, ...)                                                                        \
  template <class T> void name(Wave& w, const Inst& i) {                                        \
    bool scc = w.scc;                                                                           \
    const T from = get<T>(w, i, 0);                                                             \
    put<uint32_t>(w, i, [](T a, [[maybe_unused]] bool& scc) -> uint32_t __VA_ARGS__(from, scc)); \
    w.scc = scc;                                                                                \
  }

using Types = std::array<Type, 6>;
constexpr Types kB32{Type::B32, Type::B32, Type::B32}, kB64{Type::B64, Type::B64, Type::B64},
    kB64B32{Type::B64, Type::B64, Type::B32}, kOf64{Type::B32, Type::B64}, kTo64{Type::B64, Type::B32};

constexpr Entry sop2(const char* name, Handler run, Types types = kB32) {
  return {name, run, 1, Class::Salu, Flow::Lane, 0, types, nullptr, "CDNA3 12.1, RDNA4 16.1 SOP2"};
}
constexpr Entry sop1(const char* name, Handler run, Types types = kB32, uint32_t flags = 0, Binder bind = nullptr) {
  return {name, run, 1, Class::Salu, Flow::Lane, flags, types, bind, "CDNA3 12.3, RDNA4 16.3 SOP1"};
}
constexpr Entry sopk(const char* name, Handler run, uint32_t flags = 0) {
  return {name, run, 1, Class::Salu, Flow::Lane, flags, kB32, nullptr, "CDNA3 12.2, RDNA4 16.2 SOPK"};
}
constexpr Entry sopc(const char* name, Handler run, Types types = kB32) {
  return {name, run, 0, Class::Salu, Flow::Lane, 0, types, nullptr, "CDNA3 12.4, RDNA4 16.4 SOPC"};
}

}  // namespace emu
