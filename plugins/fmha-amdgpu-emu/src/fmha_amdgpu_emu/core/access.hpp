// What vector memory instructions share: the lanes' addresses, which of them may be touched, and moving data between
// memory and the lanes of registers.
#pragma once

#include <bit>
#include <cstring>

#include "lanes.hpp"
#include "launch.hpp"
#include "wave.hpp"

namespace emu {

// What a lane moves: a number of dwords, or less than one. A d16 form reads or writes one half of the register and
// keeps the other (CDNA3 ISA 9.1.8 "D16", RDNA3 ISA 10.6.1 "Data returned": "16-bit memory operations").
enum class Part : uint8_t { U8, I8, U16, I16, LowU8, LowI8, Low16, HighU8, HighI8, High16, B32, B64, B96, B128 };

constexpr uint32_t bytes_of(Part part) {
  switch (part) {
    case Part::U8: case Part::I8: case Part::LowU8: case Part::LowI8: case Part::HighU8: case Part::HighI8: return 1;
    case Part::U16: case Part::I16: case Part::Low16: case Part::High16: return 2;
    case Part::B64: return 8;
    case Part::B96: return 12;
    case Part::B128: return 16;
    default: return 4;
  }
}

// Half of the register that a load writes: 1 low, 2 high, 3 both.
constexpr uint8_t half_of(Part part) {
  if (part == Part::LowU8 || part == Part::LowI8 || part == Part::Low16) return 1;
  return part == Part::HighU8 || part == Part::HighI8 || part == Part::High16 ? 2 : 3;
}

constexpr int dwords_of(Part part) { return bytes_of(part) < 4 ? 1 : int(bytes_of(part) / 4); }

// Where each lane's data lies on the host; only lanes of `mask` have an address.
struct Addresses {
  alignas(64) uint64_t at[kLanes];
  uint64_t mask;
};

template <class T> inline T host_read(uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

template <class T> inline void host_write(uint64_t address, T value) {
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
}

template <class F> inline void each_lane(uint64_t mask, F f) {
  if (mask == ~0ull) {
    for (int l = 0; l < kLanes; ++l) f(l);
  } else {
    for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
  }
}

// A loaded value narrower than a dword, as the register holds it.
template <Part P> inline uint32_t narrow(uint64_t address, uint32_t old) {
  switch (P) {
    case Part::U8: return host_read<uint8_t>(address);
    case Part::I8: return uint32_t(int32_t(host_read<int8_t>(address)));
    case Part::U16: return host_read<uint16_t>(address);
    case Part::I16: return uint32_t(int32_t(host_read<int16_t>(address)));
    case Part::LowU8: return (old & 0xffff0000u) | host_read<uint8_t>(address);
    case Part::LowI8: return (old & 0xffff0000u) | uint16_t(int16_t(host_read<int8_t>(address)));
    case Part::Low16: return (old & 0xffff0000u) | host_read<uint16_t>(address);
    case Part::HighU8: return (old & 0xffffu) | uint32_t(host_read<uint8_t>(address)) << 16;
    case Part::HighI8: return (old & 0xffffu) | uint32_t(uint16_t(int16_t(host_read<int8_t>(address)))) << 16;
    case Part::High16: return (old & 0xffffu) | uint32_t(host_read<uint16_t>(address)) << 16;
    default: return host_read<uint32_t>(address);
  }
}

// The value for a lane that may not read.
template <Part P> inline uint32_t zero(uint32_t old) {
  if (P == Part::LowU8 || P == Part::LowI8 || P == Part::Low16) return old & 0xffff0000u;
  if (P == Part::HighU8 || P == Part::HighI8 || P == Part::High16) return old & 0xffffu;
  return 0;
}

// Dwords of the first `lanes` lanes at any addresses. Those of 16 lanes often lie side by side and are read at once: read one
// by one, whoever wants the row next would wait for all sixteen writes.
template <int N> inline void dwords_at(const uint64_t* at, int lanes, Row* rows) {
  if constexpr (N > 1) return dwords_to_rows<N>([=](int l) { return reinterpret_cast<const void*>(at[l]); }, lanes, rows);
  for (int k = 0; k < lanes; k += 16) {
    uint64_t apart = 0;
    for (int l = 1; l < 16; ++l) apart |= at[k + l] ^ (at[k] + 4 * uint64_t(l));
    if (!apart) std::memcpy(rows->x + k, reinterpret_cast<const void*>(at[k]), 64);
    else for (int l = k; l < k + 16; ++l) rows->x[l] = host_read<uint32_t>(at[l]);
  }
}

// Fills registers from `reg` on in the lanes of `addresses.mask`: with memory where `may` allows, else with zero.
template <Part P> inline void load_lanes(Wave& w, int reg, const Addresses& addresses, uint64_t may) {
  constexpr int n = dwords_of(P);
  if (bytes_of(P) >= 4 && (addresses.mask & may) == w.full)
    return dwords_at<n>(addresses.at, w.lanes, &w.v[reg]);
  each_lane(addresses.mask & may, [&](int l) {
    if constexpr (bytes_of(P) < 4) {
      w.v[reg].x[l] = narrow<P>(addresses.at[l], w.v[reg].x[l]);
    } else {
      for (int d = 0; d < n; ++d) w.v[reg + d].x[l] = host_read<uint32_t>(addresses.at[l] + 4 * d);
    }
  });
  if (const uint64_t rest = addresses.mask & ~may)
    each_lane(rest, [&](int l) {
      for (int d = 0; d < n; ++d) w.v[reg + d].x[l] = zero<P>(w.v[reg + d].x[l]);
    });
}

template <Part P> inline void store_lanes(const Wave& w, int reg, const Addresses& addresses, uint64_t may) {
  constexpr int n = dwords_of(P);
  constexpr int shift = P == Part::HighU8 || P == Part::High16 ? 16 : 0;
  each_lane(addresses.mask & may, [&](int l) {
    if constexpr (bytes_of(P) == 1) {
      host_write<uint8_t>(addresses.at[l], uint8_t(w.v[reg].x[l] >> shift));
    } else if constexpr (bytes_of(P) == 2) {
      host_write<uint16_t>(addresses.at[l], uint16_t(w.v[reg].x[l] >> shift));
    } else {
      for (int d = 0; d < n; ++d) host_write<uint32_t>(addresses.at[l] + 4 * d, w.v[reg + d].x[l]);
    }
  });
}

// Addresses of services that a host would offer a kernel and that do not exist here. Touching one stops the launch.
constexpr uint64_t kHostcallBuffer = 3ull << 48, kDeviceHeap = kHostcallBuffer + (1ull << 40), kServicesEnd = 4ull << 48;

inline uint64_t moved(uint64_t mask, uint32_t bytes) { return uint64_t(std::popcount(mask)) * bytes; }

// Lanes whose [address, address + bytes) in global memory the host may touch. An access outside every region is a
// finding. One that lies in an allocation's guard is made all the same, as the device would make it.
uint64_t reachable(Wave& w, const Inst& i, const Addresses& addresses, uint32_t bytes, bool write);
bool reachable_one(Wave& w, const Inst& i, int lane, uint64_t address, uint32_t bytes, bool write);

// Turns offsets into the lanes' private memory into host addresses. Returns the lanes within bounds.
uint64_t reachable_scratch(Wave& w, const Inst& i, Addresses& offsets, uint32_t bytes, bool write);

// Turns FLAT addresses into host addresses, in the apertures of LDS or private memory or in neither (CDNA3 ISA 9.4
// "Flat", RDNA3 ISA 11.2 "Apertures"). Keeps the books of LDS and of private memory. Returns the lanes within bounds.
enum class Touch : uint8_t { Read, Write, Change };  // Change: an atomic
uint64_t reachable_flat(Wave& w, const Inst& i, Addresses& addresses, uint32_t bytes, Touch touch);

// Definedness of private memory for accesses of the lanes at byte `offsets`, with registers from `reg` on.
void scratch_stored(Wave& w, uint64_t mask, const uint64_t* offsets, uint32_t bytes, int reg);
void scratch_loaded(Wave& w, uint64_t mask, const uint64_t* offsets, uint32_t bytes, int reg);

// Makes undefined lanes of an operand a finding, for handlers that keep the books themselves.
void require_defined(Wave& w, const Inst& i, const Operand& op, uint64_t active);

// Sets roles by the places of operands: op[0..dsts) are written, the others read.
void set_roles(Inst& i, int dsts);

}  // namespace emu
