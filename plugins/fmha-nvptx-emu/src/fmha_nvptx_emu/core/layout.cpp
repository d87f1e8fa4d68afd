#include "binding.hpp"

#include <algorithm>
#include <cstring>

namespace ptx {

Slot Layout::reg(const Register& r) {
  const auto known = registers_.find(&r);
  if (known != registers_.end()) return known->second;
  const Slot slot{kernel_.rows, kernel_.ids++};
  // 128 bits: the lower halves of all lanes, then the upper ones. A predicate has three rows, as nothing else has: its word is that
  // of lane 0, and other lanes write it while lane 0 is elsewhere, so it may share rows with predicates alone.
  kernel_.rows += r.type == Type::Pred ? 3 : std::max(1u, bits_of(r.type) / 32);
  return registers_[&r] = slot;
}

Slot Layout::keep(const Constant& constant) {
  const auto [known, fresh] = constants_.insert({constant, constant_rows_});
  if (fresh) constant_rows_ += constant.wide ? 2 : 1;
  return {kConstantRow + known->second, 0};
}

uint64_t Layout::value_of(const Constant& constant) const {
  return constant.bits + (constant.variable && constant.variable->dynamic ? kernel_.static_shared : 0);
}

Slot Layout::constant(uint64_t bits, bool wide) { return keep({wide ? bits : bits & 0xffffffff, nullptr, wide}); }

// The offset of a shared, local or param variable in its space; the address of a global one.
uint64_t Layout::place(const Variable& v) {
  if (v.space == Space::Global || v.space == Space::Const || v.space == Space::Param) return v.address;
  const auto known = places_.find(&v);
  if (known != places_.end()) return known->second;
  uint32_t& bytes = v.space == Space::Shared ? kernel_.static_shared : kernel_.local_bytes;
  const uint64_t at = (bytes + v.align - 1) / v.align * v.align;
  bytes = uint32_t(at + v.bytes);
  return places_[&v] = at;
}

Slot Layout::address(const Variable& v, int64_t offset, bool wide) {
  if (v.dynamic) {
    dynamic_.insert(&v);
    if (v.align > kernel_.shared_align) kernel_.shared_align = uint32_t(v.align);
    return keep({uint64_t(offset), &v, wide});
  }
  const uint64_t at = place(v) + uint64_t(offset);
  return v.space == Space::Shared ? keep({at, &v, wide}) : constant(at, wide);
}

Slot Layout::special(const std::string& name, bool wide) {
  const std::string key = name + (wide ? "/64" : "");
  const auto [known, fresh] = specials_.insert({key, constant_rows_});
  if (fresh) {
    constant_rows_ += wide ? 2 : 1;
    kernel_.specials.push_back({key, kConstantRow + known->second});
  }
  return {kConstantRow + known->second, 0};
}

void Layout::finish() {
  kernel_.first_constant = kernel_.rows;
  kernel_.rows += constant_rows_;
  kernel_.constants.assign(size_t(constant_rows_) * kRowBytes, 0);
  const uint64_t align = kernel_.shared_align;
  kernel_.static_shared = uint32_t((kernel_.static_shared + align - 1) / align * align);
  for (const auto& [constant, row] : constants_) {
    const uint64_t value = value_of(constant);
    const unsigned bytes = constant.wide ? 8 : 4;
    if (constant.variable) kernel_.shared_addresses.push_back({kernel_.first_constant + row, constant.wide});
    for (unsigned lane = 0; lane < 32; ++lane)
      std::memcpy(kernel_.constants.data() + size_t(row) * kRowBytes + lane * bytes, &value, bytes);
  }
  const auto fix = [&](Slot& slot) {
    if (slot.row >= kConstantRow) slot.row = slot.row - kConstantRow + kernel_.first_constant;
  };
  for (Slot& slot : kernel_.slots) fix(slot);
  for (Kernel::SpecialRow& special : kernel_.specials) special.row = special.row - kConstantRow + kernel_.first_constant;
}

}  // namespace ptx
