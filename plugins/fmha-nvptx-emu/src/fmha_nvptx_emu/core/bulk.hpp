// Operands of asynchronous operations that have several addresses, and the places that they name.
//
// Offsets of addresses: of the first in the lower half of imm, of the second in the upper half. Bits 0 to 2 of `wide`: the base
// of the first, second or third address has 32 bits.
#pragma once

#include <string>

#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"

namespace ptx {

// Adds the base of the address that is operand k; its offset, and whether the base has 32 bits, under number `which`.
void bulk_address(Binding& b, size_t k, unsigned which);
uint64_t bulk_place(const Warp& w, const Inst& i, Slot slot, unsigned which, int lane);
// The offset of an address in shared memory, with room for `bytes` at a multiple of `align`.
bool shared_place(Warp& w, const Inst& i, int lane, uint64_t& at, uint32_t bytes, uint32_t align);
[[noreturn]] void bulk_stop(const Inst& i, const Warp& w, const std::string& why);

// Bytes of a block of the cluster, which may be one's own, and its mbarrier, which counts them.
struct Counted {
  Block* block;
  uint32_t at;
  Mbarrier* m;
  uint32_t stamp() const { return block->mbarriers.stamp(*m); }
};
// False, with a finding, if there is no such place; raises Fault if the two lie in different blocks.
bool counted_place(Warp& w, const Inst& i, int lane, uint64_t at, uint64_t bar, uint32_t bytes, uint32_t align, Counted& out);

Handler bind_bulk_between(Binding& b);  // from shared memory to that of a block of the cluster

}  // namespace ptx
