// Live allocations, the regions inside them, and where an access lies.
#include "emu_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>

namespace emulation {

namespace {

constexpr size_t kRemembered = 64;  // freed allocations that `nearest` can still name
constexpr int kWays = 4;            // regions that a thread remembers: q, k, v and o are in turn

struct Seen {
  const Memory* of = nullptr;
  uint64_t epoch = 0, start = 0, end = 0;
  bool writable = false;
};

struct Recent {
  Seen ways[kWays];
  int next = 0;
};

thread_local Recent recent;

std::string hex(uint64_t address) {
  char out[24];
  std::snprintf(out, sizeof out, "0x%llx", static_cast<unsigned long long>(address));
  return out;
}

std::string span(const std::string& name, uint64_t start, uint64_t end) {
  return name + " (" + hex(start) + " to " + hex(end) + ")";
}

// The distance of `address` from [start, end); 0 inside.
uint64_t distance(uint64_t address, uint64_t start, uint64_t end) {
  if (address < start) return start - address;
  return address < end ? 0 : address - end + 1;
}

std::string describe(uint64_t address, const std::string& name, uint64_t start, uint64_t end) {
  const std::string where = span(name, start, end);
  if (address < start) return std::to_string(start - address) + " bytes before the start of " + where;
  if (address < end) return std::to_string(address - start) + " bytes into " + where;
  if (address == end) return "at the end of " + where;
  return std::to_string(address - end) + " bytes behind the end of " + where;
}

}  // namespace

void Memory::allocated(uint64_t start, uint64_t bytes, const std::string& name, bool writable) {
  std::unique_lock lock(mutex_);
  allocations_[start] = {start, start + bytes, name, writable, {}};
  epoch_.fetch_add(1, std::memory_order_release);
}

bool Memory::freed(uint64_t start) {
  std::unique_lock lock(mutex_);
  const auto found = allocations_.find(start);
  if (found == allocations_.end()) return false;
  gone_.push_back({found->second.start, found->second.end, found->second.name, found->second.writable});
  if (gone_.size() > kRemembered) gone_.pop_front();
  allocations_.erase(found);
  epoch_.fetch_add(1, std::memory_order_release);
  return true;
}

void Memory::name_regions(uint64_t allocation, std::vector<Region> regions) {
  std::unique_lock lock(mutex_);
  const auto found = allocations_.find(allocation);
  if (found == allocations_.end()) return;
  std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) { return a.start < b.start; });
  found->second.regions = std::move(regions);
  epoch_.fetch_add(1, std::memory_order_release);
}

const Memory::Allocation* Memory::holding(uint64_t address) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  const Allocation& candidate = std::prev(after)->second;
  return address < candidate.end ? &candidate : nullptr;
}

Memory::Place Memory::place(uint64_t address, uint64_t bytes, bool write) const {
  const uint64_t end = address + bytes;
  if (end < address) return Place::Outside;
  const uint64_t epoch = epoch_.load(std::memory_order_acquire);
  for (const Seen& seen : recent.ways)
    if (address >= seen.start && end <= seen.end && seen.epoch == epoch && seen.of == this)
      return write && !seen.writable ? Place::ReadOnly : Place::Inside;
  return find(address, end, write);
}

Memory::Place Memory::find(uint64_t address, uint64_t end, bool write) const {
  std::shared_lock lock(mutex_);
  const Allocation* allocation = holding(address);
  if (!allocation) return Place::Outside;
  const auto inside = [&](uint64_t from, uint64_t to, bool writable) {
    recent.ways[recent.next] = {this, epoch_.load(std::memory_order_relaxed), from, to, writable};
    recent.next = (recent.next + 1) % kWays;
    return write && !writable ? Place::ReadOnly : Place::Inside;
  };
  const std::vector<Region>& regions = allocation->regions;
  if (regions.empty())
    return end <= allocation->end ? inside(allocation->start, allocation->end, allocation->writable) : Place::Outside;
  auto after = std::upper_bound(regions.begin(), regions.end(), address,
                                [](uint64_t a, const Region& region) { return a < region.start; });
  if (after != regions.begin()) {
    const Region& region = *std::prev(after);
    if (end <= region.end) return inside(region.start, region.end, region.writable && allocation->writable);
  }
  return end <= allocation->end ? Place::Guard : Place::Outside;
}

Range Memory::around(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const Allocation* a = holding(address);
  if (!a) return {};
  if (a->regions.empty()) return {a->start, a->end, a->writable, epoch_};
  for (const Region& r : a->regions)
    if (address >= r.start && address < r.end) return {r.start, r.end, r.writable && a->writable, epoch_};
  return {};
}

bool Memory::mapped(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  const Allocation* allocation = holding(address);
  return allocation && address + bytes >= address && address + bytes <= allocation->end;
}

std::string Memory::nearest(uint64_t address) const {
  std::shared_lock lock(mutex_);
  std::string past;
  for (const Region& gone : gone_)
    if (address >= gone.start && address < gone.end && !holding(address))
      past = "; " + span(gone.name, gone.start, gone.end) + " was there until it was freed";
  uint64_t best = ~0ull;
  const std::string* name = nullptr;
  uint64_t start = 0, end = 0;
  const auto offer = [&](const std::string& candidate, uint64_t from, uint64_t to) {
    const uint64_t away = distance(address, from, to);
    if (name && away >= best) return;
    best = away, name = &candidate, start = from, end = to;
  };
  for (const auto& [_, allocation] : allocations_) {
    if (allocation.regions.empty()) offer(allocation.name, allocation.start, allocation.end);
    for (const Region& region : allocation.regions) offer(region.name, region.start, region.end);
  }
  return (name ? describe(address, *name, start, end) : "nothing is allocated") + past;
}

Memory& memory() {
  static Memory* one = new Memory;  // never destroyed: code objects are given back while the process ends
  return *one;
}

}  // namespace emulation
