// A branch on a value that was never written. Its lanes go one way here and might go another elsewhere, so what the
// instructions up to the point where the ways meet would write is not defined for them. Kernels do this with rows that they
// compute and never store; a finding is due only where something is stored, or where the ways do not meet.
#include "block.hpp"

namespace ptx {

namespace {

// The end of the region behind a branch: its target, or what branches inside lead to. 0: it leads back, ends, or waits.
uint32_t end_of_region(const Kernel& kernel, uint32_t at) {
  uint32_t end = kernel.code[at].target;
  if (end <= at) return 0;
  for (uint32_t pc = at + 1; pc < end; ++pc) {
    const Inst& i = kernel.code[pc];
    if (i.cls == Class::Barrier || (i.cls == Class::Branch && i.at->root != "bra")) return 0;
    if (i.cls != Class::Branch) continue;
    if (i.target <= at) return 0;
    if (i.target > end) end = i.target;
  }
  return end;
}

}  // namespace

bool taint(Warp& w, uint32_t at, uint32_t lanes) {
  const Kernel& kernel = *w.block->kernel;
  if (kernel.code[at].at->root != "bra") return false;
  const uint32_t end = end_of_region(kernel, at);
  if (!end) return false;
  if (!w.tainted) w.region_begin = at;
  if (!w.tainted || end > w.region_end) w.region_end = end;
  w.tainted |= lanes;
  return true;
}

void meet_again(Warp& w) {
  const Kernel& kernel = *w.block->kernel;
  for (uint32_t pc = w.region_begin; pc < w.region_end; ++pc)
    for (unsigned k = 0; k < kernel.code[pc].dests; ++k) w.define(kernel.code[pc].slots[k], 0, w.tainted);
  w.tainted = 0;
}

}  // namespace ptx
