// Runs of instructions that are executed with less ado: products that do not depend on each other, and instructions that change
// nothing but values.
#include <algorithm>

#include "block.hpp"

namespace ptx {

namespace {

constexpr unsigned kLongest = 255;

// Whether a product uses a row that one before writes.
bool depends(const Inst& product, const Inst& before) {
  const Slot *used = product.slots + product.dests, *written = before.slots;
  return std::any_of(used, used + product.sources, [&](const Slot& in) {
    return std::any_of(written, written + before.dests, [&](const Slot& out) { return in.row == out.row; });
  });
}

// Without a guard, and of registers that always hold a value, so that it needs no books before its warp meets one that does not.
bool only_values(const Inst& i) {
  if (i.guarded || !i.certain) return false;
  const std::string& root = i.at->root;
  return i.cls == Class::Integer || i.cls == Class::Float || i.cls == Class::Convert || i.cls == Class::Special || root == "mov" || root == "selp";
}

}  // namespace

void find_runs(Kernel& kernel) {
  const size_t size = kernel.code.size();
  kernel.plain.assign(size, 0);
  if (emulation::careful) return;
  for (size_t pc = size; pc-- > 0;) {
    Inst& i = kernel.code[pc];
    if (only_values(i)) kernel.plain[pc] = uint8_t(std::min(kLongest, 1u + (pc + 1 < size ? kernel.plain[pc + 1] : 0u)));
    if (i.at->root != "mma") continue;
    const bool joins = pc + 1 < size && kernel.code[pc + 1].run == i.run && !kernel.code[pc + 1].guarded && i.certain && kernel.code[pc + 1].certain;
    unsigned count = 1;
    const unsigned most = joins ? std::min(kernel.code[pc + 1].count + 1u, kMostProducts) : 1;
    while (count < most && !depends(kernel.code[pc + count], i)) ++count;
    i.count = uint8_t(count);
  }
}

}  // namespace ptx
