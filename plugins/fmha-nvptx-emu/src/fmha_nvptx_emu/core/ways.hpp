// The ways through a kernel's instructions.
#pragma once

#include "program.hpp"

namespace ptx {

template <class F> void each_next(const Kernel& kernel, uint32_t pc, F f) {
  const Inst& i = kernel.code[pc];
  if (i.cls != Class::Branch || i.guarded) f(pc + 1);
  if (i.cls != Class::Branch) return;
  if (i.targets)
    for (const uint32_t target : kernel.target_lists[i.targets - 1]) f(target);
  else if (i.at->root == "bra") f(i.target);
}

template <class F> void each_read(const Inst& i, F f) {
  const bool adds = i.at->root == "wgmma";  // D may be C
  for (unsigned k = adds ? 0 : i.dests; k < unsigned(i.dests + i.sources); ++k) f(i.slots[k].id);
  if (i.guarded) f(i.guard.id);
}

// By instruction, and one more: whether it begins a stretch that is only executed as a whole.
inline std::vector<bool> leads_of(const Kernel& kernel) {
  std::vector<bool> out(kernel.code.size() + 1, false);
  out[0] = true;
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc)
    if (kernel.code[pc].cls == Class::Branch) {
      out[pc + 1] = true;
      each_next(kernel, pc, [&](uint32_t next) { out[next] = true; });
    }
  return out;
}

}  // namespace ptx
