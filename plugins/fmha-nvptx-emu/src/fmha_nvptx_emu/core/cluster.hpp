// A cluster: blocks that run together. Source: PTX ISA 9.1, 2.2.2, 9.7.9.23 (mapa), 9.7.13.3 (barrier.cluster).
//
// In a program, an address in shared memory has the block's rank in bits 24 and up, of one's own block too: kernels clear bit 24
// to reach the first block of their pair. In handlers, behind seen_from, one's own address has no rank, and another's has it plus 1.
// The books of shared memory are each block's own: what another block writes or reads there is not ordered with anything, but
// for the products of a pair.
#pragma once

#include <memory>
#include <vector>

#include "block.hpp"

namespace ptx {

class Cluster {
 public:
  explicit Cluster(const Launch& launch);
  void begin(uint32_t number);
  bool run();  // false: it did not end within kLongRun instructions, and goes on at the next call; raises Fault
  Block* at(uint32_t rank) { return rank < blocks_.size() ? blocks_[rank].get() : nullptr; }
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }

  void arrive(Warp& w, const Inst& i, bool releases);
  bool passed(Warp& w);  // whether all arrived; takes over what they released
  uint32_t phase() const { return phase_; }  // of barrier.cluster: how many are over
  bool late() const { return late_; }  // nothing can go on: the time limits of suspended waits pass

 private:
  void settle();
  const Launch& launch_;
  std::vector<std::unique_ptr<Block>> blocks_;
  uint32_t phase_ = 0;
  uint64_t random_ = 0;
  bool late_ = false;
  unsigned idle_ = 0;  // turns in a row in which warps only asked again
};

constexpr unsigned kRankBit = 24;
uint64_t seen_from(const Block& block, uint64_t at);  // of an address in shared memory, or a generic one in its window
// The block whose shared memory holds the address, which loses its rank. Raises Fault if there is no such block.
Block& block_of(Warp& w, const Inst& i, uint64_t& at);

// Before a block signals another one, copies to it or computes for it: false, with a finding, if that block has ended.
bool note_signal(Warp& w, const Inst& i, int lane, const Block& to);
// What the warp knows of the warps and products of both blocks of a pair becomes an order in the other block's terms; of a .relaxed
// operation, what tcgen05 fences pass on.
void tell_partner(const Warp& w, Order& order, bool releases);
bool partners(const Block& a, const Block& b);  // of a pair
void no_such_block(Warp& w, const Inst& i, int lane, uint32_t rank);  // a finding: the cluster does not have this block

}  // namespace ptx
