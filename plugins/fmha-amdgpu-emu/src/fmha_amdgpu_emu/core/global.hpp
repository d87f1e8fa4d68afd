// Global addresses, and loads that go straight to LDS: shared by global.cpp, atomic.cpp and buffer.cpp.
#pragma once

#include "access.hpp"

namespace emu {

// Addresses of the lanes in EXEC.
void global_addresses(const Wave& w, const Inst& i, const Operand& vaddr, const Operand& saddr, Addresses& a);

// Data for LDS: narrow values are extended to a dword.
template <Part P> inline void load_rows(Row* rows, const Addresses& a, uint64_t may) {
  constexpr int n = dwords_of(P);
  if (bytes_of(P) >= 4 && may == ~0ull) return dwords_at<n>(a.at, kLanes, rows);
  each_lane(a.mask, [&](int l) {
    const bool reads = may >> l & 1;
    for (int d = 0; d < n; ++d)
      rows[d].x[l] = !reads ? 0 : bytes_of(P) < 4 ? narrow<P>(a.at[l], 0) : host_read<uint32_t>(a.at[l] + 4 * d);
  });
}

// Puts lane l's dwords into LDS at M0 + offset + l x (4 x dwords). The load is outstanding until a wait (to_lds.cpp).
void rows_to_lds(Wave& w, const Inst& i, const Row* rows, int dwords, uint64_t mask);

}  // namespace emu
