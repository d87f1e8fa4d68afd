#include "memory.hpp"

#include "report.hpp"

namespace ptx {

Memory& memory() {
  static Memory* it = new Memory;  // never destroyed: programs unload modules while the process ends
  return *it;
}

void Memory::allocated(uint64_t start, uint64_t bytes, const std::string& name, bool writable) {
  std::lock_guard lock(mutex_);
  allocations_[start] = {start, start + bytes, name, writable, {}};
  ++epoch_;
}

bool Memory::freed(uint64_t start) {
  std::lock_guard lock(mutex_);
  ++epoch_;
  return allocations_.erase(start) != 0;
}

void Memory::name_regions(uint64_t allocation, std::vector<Region> regions) {
  std::lock_guard lock(mutex_);
  const auto found = allocations_.find(allocation);
  if (found != allocations_.end()) found->second.regions = std::move(regions);
  ++epoch_;
}

const Memory::Allocation* Memory::holding(uint64_t address) const {
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return nullptr;
  --it;
  return address < it->second.end ? &it->second : nullptr;
}

Range Memory::around(uint64_t address) const {
  std::lock_guard lock(mutex_);
  const Allocation* a = holding(address);
  if (!a) return {};
  if (a->regions.empty()) return {a->start, a->end, a->writable, epoch_};
  for (const Region& r : a->regions)
    if (address >= r.start && address < r.end) return {r.start, r.end, r.writable, epoch_};
  return {};
}

bool Memory::mapped(uint64_t address, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  const Allocation* a = holding(address);
  return a && bytes <= a->end - address;
}

std::string Memory::nearest(uint64_t address) const {
  std::lock_guard lock(mutex_);
  uint64_t best = ~uint64_t(0);
  std::string out = "there is no allocation";
  const auto consider = [&](uint64_t start, uint64_t end, const std::string& name) {
    const bool inside = address >= start && address < end;
    const uint64_t far = inside ? 0 : address < start ? start - address : address - end + 1;
    if (far >= best) return;
    best = far;
    const std::string range = name + " (" + hex(start) + " to " + hex(end) + ")";
    out = inside ? "inside " + range
                 : address < start ? std::to_string(start - address) + " bytes before " + range
                                   : std::to_string(address - end) + " bytes behind the end of " + range;
  };
  for (const auto& [_, a] : allocations_) {
    if (a.regions.empty()) consider(a.start, a.end, a.name);
    for (const Region& r : a.regions) consider(r.start, r.end, r.name);
  }
  return out;
}

}  // namespace ptx
