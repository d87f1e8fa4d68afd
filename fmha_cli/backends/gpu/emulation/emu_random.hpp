// Random numbers from a seed: splitmix64 (Steele, Lea, Flood 2014).
#pragma once

#include <cstdint>

namespace emulation {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;

inline uint64_t mixed(uint64_t x) {
  x += kGolden;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

struct Random {
  uint64_t state;
  uint64_t next() {
    const uint64_t out = mixed(state);
    state += kGolden;
    return out;
  }
};

}  // namespace emulation
