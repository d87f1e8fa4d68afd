#include "device_heap.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "memory.hpp"

namespace emu {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kGuard = 16 * kPage;  // farther than an access that runs over by a row of a tile
constexpr int kPoison = 0xFF;

}  // namespace

void* DeviceHeap::allocate(size_t bytes) {
  const size_t pages = (bytes + kPage - 1) / kPage * kPage, all = pages + 2 * kGuard;
  if (all < bytes) return nullptr;
  void* mapping = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* start = static_cast<char*>(mapping) + kGuard;
  if (mprotect(start, pages, PROT_READ | PROT_WRITE)) {
    munmap(mapping, all);
    return nullptr;
  }
  std::memset(start, kPoison, pages);
  mappings_[start] = {mapping, all};
  memory().allocated(reinterpret_cast<uint64_t>(start), bytes, "allocation " + std::to_string(++count_));
  return start;
}

void DeviceHeap::release(void* address) {
  const auto found = mappings_.find(address);
  if (found == mappings_.end()) return;
  memory().freed(reinterpret_cast<uint64_t>(address));
  munmap(found->second.start, found->second.bytes);
  mappings_.erase(found);
}

}  // namespace emu
