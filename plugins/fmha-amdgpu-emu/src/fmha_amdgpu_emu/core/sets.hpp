// Fast questions about the 512-bit sets of vector registers.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <bit>

#include "inst.hpp"

namespace emu {

static_assert(sizeof(VSet) == 64);

#if defined(__AVX512F__)

inline __m512i words_of(const VSet& set) { return _mm512_loadu_si512(&set); }
inline bool meet(const VSet& a, const VSet& b) { return _mm512_test_epi64_mask(words_of(a), words_of(b)) != 0; }
inline bool any(const VSet& a) { return _mm512_test_epi64_mask(words_of(a), words_of(a)) != 0; }

// Every register of `a` is in `b`.
inline bool within(const VSet& a, const VSet& b) {
  const __m512i rest = _mm512_andnot_si512(words_of(b), words_of(a));
  return _mm512_test_epi64_mask(rest, rest) == 0;
}

#else

inline bool meet(const VSet& a, const VSet& b) { return (a & b).any(); }
inline bool any(const VSet& a) { return a.any(); }
inline bool within(const VSet& a, const VSet& b) { return (a & ~b).none(); }

#endif

// Calls f(register) for each member of the set.
template <class F> inline void each(const VSet& set, F f) {
  uint64_t words[8];
  __builtin_memcpy(words, &set, sizeof words);
  for (int k = 0; k < 8; ++k)
    for (uint64_t bits = words[k]; bits; bits &= bits - 1) f(64 * k + std::countr_zero(bits));
}

}  // namespace emu
