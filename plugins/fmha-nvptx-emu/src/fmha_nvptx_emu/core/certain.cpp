// Registers that always hold a value where they are read: on every way from the kernel's begin to a read of theirs lies a write
// that no guard leaves out. Their lanes count as defined from the begin, and until a warp meets a value that never was written,
// no books are kept about instructions that use these registers alone.
#include "ways.hpp"

namespace ptx {

namespace {

using Set = std::vector<uint64_t>;  // of registers, by id

// What is written when the instructions from `first` were executed, up to one that others follow or that a branch leads to.
template <class F> uint32_t walk(const Kernel& kernel, const std::vector<bool>& leads, uint32_t first, Set& written, F at) {
  uint32_t pc = first;
  for (;; ++pc) {
    const Inst& i = kernel.code[pc];
    at(i);
    for (unsigned k = 0; !i.guarded && k < i.dests; ++k) written[i.slots[k].id / 64] |= uint64_t(1) << i.slots[k].id % 64;
    if (i.cls == Class::Branch || pc + 1 == kernel.code.size() || leads[pc + 1]) return pc;
  }
}

}  // namespace

void find_certain(Kernel& kernel) {
  const uint32_t size = uint32_t(kernel.code.size());
  const std::vector<bool> leads = leads_of(kernel);
  const Set all((kernel.ids + 63) / 64, ~uint64_t(0)), none(all.size(), 0);
  std::vector<Set> before(size);  // of the first instruction of a stretch; empty: not reached yet
  before[0] = none;
  std::vector<uint32_t> open{0};
  while (!open.empty()) {
    const uint32_t first = open.back();
    open.pop_back();
    Set written = before[first];
    const uint32_t last = walk(kernel, leads, first, written, [](const Inst&) {});
    each_next(kernel, last, [&](uint32_t next) {
      if (next >= size) return;
      Set& there = before[next];
      if (there.empty()) return void((there = written, open.push_back(next)));
      bool changed = false;
      for (size_t k = 0; k < there.size(); ++k) changed |= (there[k] & ~written[k]) != 0, there[k] &= written[k];
      if (changed) open.push_back(next);
    });
  }
  Set doubtful = none;
  for (uint32_t first = 0; first < size; ++first) {
    if (!leads[first] || before[first].empty()) continue;
    Set written = before[first];
    walk(kernel, leads, first, written, [&](const Inst& i) {
      each_read(i, [&](uint32_t id) { doubtful[id / 64] |= ~written[id / 64] & uint64_t(1) << id % 64; });
    });
  }
  kernel.defined_at_first.assign(kernel.ids, 0);
  const auto certain = [&](uint32_t id) { return !id || (!emulation::careful && !(doubtful[id / 64] >> id % 64 & 1)); };
  for (uint32_t id = 0; id < kernel.ids; ++id)
    if (certain(id)) kernel.defined_at_first[id] = ~uint32_t(0);
    else kernel.uncertain.push_back(id);
  for (Inst& i : kernel.code) {
    i.certain = true;
    for (unsigned k = 0; k < unsigned(i.dests + i.sources); ++k) i.certain &= certain(i.slots[k].id);
  }
}

}  // namespace ptx
