// A branch on a value that was never written. Its lanes go one way here and might go another elsewhere. Within a way, an
// instruction computes what it computes whichever way is right, so its result is as well defined as its operands. Where the
// ways meet, the branch decides which instructions lie before: there everything that the region writes is undefined for these
// lanes. Kernels do this with rows that they compute and never store; a finding is due only where something is stored to
// global memory, or where the ways do not meet.
#include <algorithm>

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

template <class F> void each_next(const Inst& i, uint32_t pc, F f) {
  if (i.cls == Class::Branch) f(i.target);
  if (i.cls != Class::Branch || i.guarded) f(pc + 1);
}

// Marks what a way reaches before the end of the region.
void reach(const Kernel& kernel, uint32_t at, uint32_t end, uint32_t from, uint8_t way, std::vector<uint8_t>& ways) {
  std::vector<uint32_t> open{from};
  while (!open.empty()) {
    const uint32_t pc = open.back();
    open.pop_back();
    if (pc <= at || pc >= end || ways[pc - at] & way) continue;
    ways[pc - at] |= way;
    each_next(kernel.code[pc], pc, [&](uint32_t next) { open.push_back(next); });
  }
}

// Where the ways of the branch at `at` meet before the end: instructions of both ways that are reached from one way alone.
void add_meetings(const Kernel& kernel, uint32_t at, uint32_t end, std::vector<uint32_t>& out) {
  std::vector<uint8_t> ways(end - at, 0);
  reach(kernel, at, end, at + 1, 1, ways);
  reach(kernel, at, end, kernel.code[at].target, 2, ways);
  for (uint32_t pc = at; pc < end; ++pc) {
    if (ways[pc - at] == 3) continue;
    each_next(kernel.code[pc], pc, [&](uint32_t next) {
      if (next > at && next < end && ways[next - at] == 3 && std::find(out.begin(), out.end(), next) == out.end()) out.push_back(next);
    });
  }
}

void forget(Warp& w, uint32_t lanes) {
  const Kernel& kernel = *w.block->kernel;
  for (uint32_t pc = w.region_begin; pc < w.region_end; ++pc)
    for (unsigned k = 0; k < kernel.code[pc].dests; ++k) w.define(kernel.code[pc].slots[k], 0, lanes);
}

}  // namespace

bool taint(Warp& w, uint32_t at, uint32_t lanes) {
  const Kernel& kernel = *w.block->kernel;
  if (kernel.code[at].at->root != "bra") return false;
  const uint32_t end = end_of_region(kernel, at);
  if (!end) return false;
  if (!w.tainted) w.meetings.clear();
  if (!w.tainted || at < w.region_begin) w.region_begin = at;
  if (!w.tainted || end > w.region_end) w.region_end = end;
  w.tainted |= lanes;
  add_meetings(kernel, at, end, w.meetings);
  return true;
}

void meet(Warp& w) {
  if (w.pc >= w.region_end) {
    forget(w, w.tainted);
    w.tainted = 0;
  } else if (std::find(w.meetings.begin(), w.meetings.end(), w.pc) != w.meetings.end()) {
    forget(w, w.tainted & w.mask);
  }
}

}  // namespace ptx
