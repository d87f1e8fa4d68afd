#include "named_barriers.hpp"

#include "block.hpp"

namespace ptx {

void NamedBarriers::begin() {
  for (Named& one : all_)
    if (one.threads) one = {};
}

void NamedBarriers::arrive(Warp& w, const Inst& i, uint32_t name, uint32_t wanted, bool waits) {
  Named& b = all_[name];
  if (b.threads && b.wanted != wanted)
    throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + " in " + w.block->kernel->name + ": barrier " +
                std::to_string(name) + " has a number of " + std::to_string(wanted) + " threads here, and " + std::to_string(b.wanted) +
                " where others arrived"};
  b.wanted = wanted, b.threads += 32;
  b.order.gather(w);
  ++w.time;
  ++w.block->events;
  if (waits) b.waiting.push_back(&w), w.going = Going::Barrier, w.barrier = kCount + name;
  if (b.threads < wanted) return;
  for (Warp* one : b.waiting) {
    b.order.give(*one);
    one->going = Going::On;
  }
  b = {};
}

}  // namespace ptx
