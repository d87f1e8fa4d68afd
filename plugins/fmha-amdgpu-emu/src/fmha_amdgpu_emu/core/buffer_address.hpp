// Buffer resources, and the addresses that they make from index and offset (CDNA3 ISA 9.1.5 "Buffer addressing", RDNA3
// ISA 10.1.5, RDNA4 ISA 10).
#pragma once

#include "access.hpp"

namespace emu {

// A buffer resource ("V#") in the layout of its generation.
struct Resource {
  uint64_t base = 0;
  uint32_t stride = 0, records = 0;
  bool swizzle = false, add_tid = false;
  uint32_t element = 4;       // bytes that swizzling keeps together
  uint32_t index_stride = 8;  // indices that swizzling interleaves
  uint32_t bounds = 0;        // OOB_SELECT, gfx10 on
};

Resource resource_of(const Wave& w, const Operand& srsrc);

// The lanes' accesses: the address of the first byte of each, and which of its dwords are in range.
struct BufferAccess {
  Addresses addresses;         // mask: EXEC
  uint64_t in_range[4];        // per dword: lanes
  uint64_t every = 0;          // lanes all of whose dwords are in range
  bool together = true;        // a lane's dwords lie side by side; else `dword` says where each is
  bool scratch = false;        // private memory through the scratch resource (gfx90a): `offsets` are into it
  Addresses offsets;
  uint64_t dword[4][kLanes];
};

struct BufferPlace {
  const Operand* vaddr;
  const Operand* srsrc;
  const Operand* soffset;
};

// `whole`: the access is in range as a whole or not at all, as atomics are.
void buffer_access(Wave& w, const Inst& i, const BufferPlace& place, uint32_t bytes, bool whole, BufferAccess& out);

// Refuses what no compiler emits: addr64, tfe, gds.
std::string refuse_buffer(const Inst& i);

}  // namespace emu
