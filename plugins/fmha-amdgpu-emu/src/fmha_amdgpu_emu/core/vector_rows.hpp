// Rows and handlers of the vector integer tables.
#pragma once

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>

#include "lanes.hpp"

namespace emu {

// One formula on raw 32-bit lanes a, b, c.
#define MAP1(name, ...) \
  void name(Wave& w, const Inst& i) { map1(w, i, [](uint32_t a) -> uint32_t __VA_ARGS__); }
#define MAP2(name, ...) \
  void name(Wave& w, const Inst& i) { map2(w, i, [](uint32_t a, uint32_t b) -> uint32_t __VA_ARGS__); }
#define MAP3(name, ...) \
  void name(Wave& w, const Inst& i) { map3(w, i, [](uint32_t a, uint32_t b, uint32_t c) -> uint32_t __VA_ARGS__); }

inline uint32_t sx8(uint32_t x) { return uint32_t(int32_t(int8_t(x))); }
inline int32_t sx16(uint32_t x) { return int16_t(x); }
inline int32_t sx24(uint32_t x) { return int32_t(x << 8) >> 8; }
inline uint32_t lo16(uint32_t x) { return x & 0xffff; }
inline uint32_t lo24(uint32_t x) { return x & 0xffffff; }

template <class T> inline T limited(T x, T least, T most) { return x < least ? least : x > most ? most : x; }

// A 64-bit source as two rows of dwords.
struct Wide {
  Row rooms[2];
  const uint32_t* lo;
  const uint32_t* hi;
  Wide(Wave& w, const Inst& i, int k) : lo(source(w, i, k, rooms[0], 0)), hi(source(w, i, k, rooms[1], 1)) {}
  uint64_t operator[](int l) const { return lo[l] | uint64_t(hi[l]) << 32; }
};

struct WideResult {
  Row lo, hi;
  void set(int l, uint64_t value) {
    lo.x[l] = uint32_t(value);
    hi.x[l] = uint32_t(value >> 32);
  }
  void commit_to(Wave& w, const Inst& i) const {
    commit(w, i, lo, 0);
    commit(w, i, hi, 1);
  }
};

using Types = std::array<Type, 6>;
constexpr Types kV32{Type::B32, Type::B32, Type::B32, Type::B32};
constexpr Types kV16{Type::B16, Type::B16, Type::B16, Type::B16};

// Integer clamp saturates. Where the documents give it no meaning, the instruction is refused.
inline std::string no_clamp(Inst& i, const ArchTraits&) {
  return i.mod.clamp ? "the ISA documents give clamp no meaning here" : "";
}
template <Handler saturating> std::string clampable(Inst& i, const ArchTraits&) {
  if (i.mod.clamp) i.run = saturating;
  return "";
}

constexpr Entry vop(const char* name, Handler run, const char* source, Types types = kV32, uint32_t flags = 0,
                    Binder bind = no_clamp) {
  return {name, run, 1, Class::Valu, Flow::Lane, flags, types, bind, source};
}
constexpr Entry vop1(const char* name, Handler run, Types types = kV32, uint32_t flags = 0, Binder bind = no_clamp) {
  return vop(name, run, "CDNA3 12.8, RDNA4 16.8 VOP1", types, flags, bind);
}
constexpr Entry vop2(const char* name, Handler run, Types types = kV32, uint32_t flags = 0, Binder bind = no_clamp) {
  return vop(name, run, "CDNA3 12.7, RDNA4 16.7 VOP2", types, flags, bind);
}
constexpr Entry vop3(const char* name, Handler run, Types types = kV32, uint32_t flags = 0, Binder bind = no_clamp) {
  return vop(name, run, "CDNA3 12.11, RDNA4 16.12 VOP3", types, flags, bind);
}

}  // namespace emu
