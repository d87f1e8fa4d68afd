// Addresses of the lanes of a memory instruction, and their checks.
#pragma once

#include "lanes.hpp"

namespace ptx {

struct Lanes {
  uint64_t at[32];
};

// base + offset for every lane; reports a base that was never written.
void addresses(Warp& w, const Inst& i, Slot base, uint32_t mask, Lanes& out);

// The lanes whose access is inside of what is allocated. The others are reported, as are misaligned ones.
uint32_t global_lanes(Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes, bool write);
// Whether they are aligned, and inside of what was found last. Reports nothing.
bool plainly_global(const Block& b, uint32_t mask, const Lanes& a, uint32_t bytes, bool write);
uint32_t limited_lanes(Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes, uint64_t size, const char* space,
                       uint32_t align = 0);

void count_sectors(Warp& w, uint32_t mask, const Lanes& a, uint32_t bytes);
void count_conflicts(Warp& w, uint32_t mask, const Lanes& a, uint32_t bytes);

// The address of a lane in its own space: of generic addresses, the window decides.
struct Placed {
  Space space;
  uint64_t at;
};
inline Placed placed(Space space, uint64_t at) {
  if (space != Space::Generic) return {space == Space::Const ? Space::Global : space, at};
  switch (at >> 56) {
    case 1: return {Space::Shared, at & (kWindow - 1)};
    case 2: return {Space::Local, at & (kWindow - 1)};
    case 3: return {Space::Param, at & (kWindow - 1)};
    default: return {Space::Global, at};
  }
}

// Stores the bytes; a finding if another block wrote others there before, and nothing orders the two.
void write_global(Warp& w, const Inst& i, int lane, uint64_t at, uint32_t bytes, const uint8_t* values);

// The same for lanes, with room for 32 bytes each.
void write_global(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes, const uint8_t (*values)[32]);

}  // namespace ptx
