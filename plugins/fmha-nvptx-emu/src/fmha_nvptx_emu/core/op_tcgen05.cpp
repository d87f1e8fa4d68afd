// tcgen05 but for its products, loads, stores and copies. Source: PTX ISA 9.1, 9.7.16: allocation, commits and fences. What is asynchronous is done at once; the books of tensor_memory.hpp say what is outstanding.
#include <algorithm>

#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"
#include "tensor_form.hpp"
#include "tensor_memory.hpp"

namespace ptx {

namespace {

constexpr uint32_t kPair = 1, kCast = 2;  // options, in `target`

uint32_t value(const Warp& w, Slot slot, int lane) { return lanes_of<uint32_t>(w, slot)[lane]; }

uint32_t columns_of(Warp& w, const Inst& i, Slot slot, int lane) {
  if (w.block->checks) require_defined(w, i, slot, 1u << lane, "a number of columns");
  const uint32_t n = value(w, slot, lane);
  if (n < 32 || n > TensorMemory::kColumns || (n & (n - 1))) stop(i, w, std::to_string(n) + " columns; it is a power of 2 from 32 to 512");
  return n;
}

void allocate(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "tcgen05.alloc")) return;
  const int lane = __builtin_ctz(mask);
  Lanes a;
  addresses(w, i, i.slots[0], mask, a);
  if (i.space == Space::Generic) a.at[lane] = placed(Space::Generic, a.at[lane]).at;
  if (!limited_lanes(w, i, 1u << lane, a, 4, w.block->shared.bytes(), "shared")) return;
  uint32_t at;
  if (!w.block->tensor->allocate(w, i, columns_of(w, i, i.slots[1], lane), at)) {
    --w.block->executed[--w.pc];
    w.polled = kForTensorMemory;
    return yield_to_others(w);
  }
  w.recent_poll = 0;
  ++w.block->events;
  if (w.block->checks) w.block->shared.write(w, i, lane, uint32_t(a.at[lane]), 4, reinterpret_cast<const uint8_t*>(&at), true);
  std::memcpy(w.block->shared.data() + a.at[lane], &at, 4);
}
void deallocate(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "tcgen05.dealloc")) return;
  const int lane = __builtin_ctz(mask);
  if (w.block->checks) require_defined(w, i, i.slots[0], 1u << lane, "an address in tensor memory");
  w.block->tensor->free(w, i, value(w, i.slots[0], lane), columns_of(w, i, i.slots[1], lane));
  ++w.block->events;
}
void relinquish(Warp& w, const Inst& i, uint32_t mask) {
  if (together(w, i, mask, w.alive, "tcgen05.relinquish_alloc_permit")) w.block->tensor->relinquish();
}
// What this warp did and knows may be relied on behind the next synchronisation; what reached it may be relied on from here.
void before_sync(Warp& w, const Inst&, uint32_t) {
  for (unsigned k = 0; k < kAgents; ++k) w.sent[k] = std::max(w.sent[k], w.known[k]);
  w.sent[w.index] = w.time++;
}
void after_sync(Warp& w, const Inst&, uint32_t) {
  for (unsigned k = 0; k < kAgents; ++k) w.fenced_tensor[k] = std::max(w.fenced_tensor[k], w.received[k]);
}

// slots: mbarrier, [blocks]. Later waiters for the phase know what the warpgroup's pipe was given up to here.
void commit(Warp& w, const Inst& i, uint32_t mask) {
  Lanes a;
  addresses(w, i, i.slots[0], mask, a);
  const uint32_t pipe = kWarps + w.index / 4;
  each_lane(mask, [&](int lane) {
    const auto& warps = w.block->warps;
    for (size_t k = w.index / 4 * 4; k < warps.size() && k < w.index / 4 * 4 + 4; ++k) ++warps[k]->wgmma_committed;
    uint64_t at = placed(Space::Generic, a.at[lane]).space == Space::Shared ? placed(Space::Generic, a.at[lane]).at : a.at[lane];
    Block& to = block_of(w, i, at);
    Lanes b;
    b.at[lane] = at;
    if (!limited_lanes(w, i, 1u << lane, b, 8, w.block->shared.bytes(), "shared")) return;
    const auto arrive = [&](Block& block) {
      const bool remote = &block != w.block;
      if (remote && !note_signal(w, i, lane, block)) return;
      Mbarrier* m = block.mbarriers.find(w, i, lane, uint32_t(at), remote);
      if (!m) return;
      Order& order = m->arriving;
      uint32_t as = pipe;  // the pipe in the other block's terms
      if (!remote) {  // what lay before the products lies before the waiter; what this warp itself did does not
        const uint32_t own = order.known[w.index];
        order.gather(w);
        order.known[w.index] = own;
      } else if (i.target & kPair && partners(*w.block, block)) as += kPeerPipes - kWarps, tell_partner(w, order, true);
      else as = 0;
      if (as) order.known[as] = order.fenced[as] = order.sent[as] = w.wgmma_committed;
      if (remote) block.mbarriers.note_remote(w, *m, as ? w.wgmma_committed << 8 | as : 0);
      block.mbarriers.arrive(w, i, lane, *m, 1, false, false);
      ++block.events;
    };
    if (!(i.target & kCast)) return arrive(to);
    const uint32_t cast = value(w, i.slots[1], lane) & 0xffff;
    if (w.block->checks) require_defined(w, i, i.slots[1], 1u << lane, "the blocks of a multicast");
    for (uint32_t rank = 0; cast >> rank; ++rank)
      if (cast >> rank & 1) {
        Block* block = w.block->cluster->at(rank);
        if (block) arrive(*block);
        else no_such_block(w, i, lane, rank);
      }
  });
}

Handler bind_tcgen05(Binding& b) {
  b.out.own_flow = true;
  b.kernel.tensor_memory = true;
  const bool before = b.take("fence::before_thread_sync");
  if (before || b.take("fence::after_thread_sync")) return b.kernel.tensor_fences = true, b.count(0, 0), before ? before_sync : after_sync;
  const bool load = std::find(b.s.mods.begin(), b.s.mods.end(), "ld") != b.s.mods.end(), store = std::find(b.s.mods.begin(), b.s.mods.end(), "st") != b.s.mods.end();
  const bool waits = std::any_of(b.s.mods.begin(), b.s.mods.end(), [](const std::string& mod) { return mod.rfind("wait::", 0) == 0; });
  if (load || store || waits) return bind_tensor_move(b);
  const bool one = b.take("cta_group::1"), pair = b.take("cta_group::2");
  if (one == pair) b.refuse("it needs .cta_group::1 or .cta_group::2");
  b.out.target = pair ? kPair : 0;
  b.kernel.tensor_pair |= pair;
  if (b.take("mma")) return bind_tensor_product(b);
  if (b.take("cp")) return bind_tensor_fill(b);
  if (b.take("shift")) return bind_tensor_shift(b);
  if (b.take("commit")) {
    if (b.take("shared::cluster")) b.out.space = Space::Shared;
    if (!b.take("mbarrier::arrive::one") || b.type() != Type::B64) return nullptr;
    const bool cast = b.take("multicast::cluster");
    b.count(cast ? 2 : 1, cast ? 2 : 1);
    b.address(0);
    if (cast) b.source(1, Type::U16), b.out.target |= kCast;
    return commit;
  }
  b.out.cls = Class::Barrier;
  const bool allocates = b.take("alloc"), frees = b.take("dealloc");
  if (!b.take("sync") || !b.take("aligned")) return nullptr;
  if (b.take("relinquish_alloc_permit")) return b.count(0, 0), relinquish;
  if (b.type() != Type::B32) return nullptr;
  b.count(2, 2);
  if (allocates) {
    b.out.space = b.any({"shared::cta"}) ? Space::Shared : Space::Generic;
    b.address(0), b.source(1, Type::U32);
    return allocate;
  }
  b.source(0, Type::B32), b.source(1, Type::U32);
  return frees ? deallocate : nullptr;
}

constexpr Opcode rows[] = {{"tcgen05", "9.7.16", Class::Matrix, bind_tcgen05}};

}  // namespace

extern const Table kTensorMemoryOpcodes{rows, std::size(rows)};

}  // namespace ptx
