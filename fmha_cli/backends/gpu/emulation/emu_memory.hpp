// Device memory: host memory, with its live allocations and the regions inside them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

namespace emulation {

struct Region {
  uint64_t start, end;   // addresses
  std::string name;      // "q", "allocation 3", "code of NAME", "kernel arguments"
  bool writable = true;
};

// A range that a lookup found. Threads may keep some: until the epoch changes, a repeated lookup costs no lock.
struct Range {
  uint64_t start = 1, end = 0;
  bool writable = false;
  uint64_t epoch = 0;
};

// Allocations, and the named regions inside them (tensors between guards). If an allocation has regions, an access must
// lie in one of them; otherwise it must lie in the allocation. Device addresses are host addresses.
class Memory {
 public:
  void allocated(uint64_t start, uint64_t bytes, const std::string& name, bool writable = true);
  bool freed(uint64_t start);
  void name_regions(uint64_t allocation, std::vector<Region> regions);

  enum class Place { Inside, Guard, Outside, ReadOnly };
  // Where [address, address + bytes) lies. Inside: in a region. Guard: in an allocation, outside its regions. Outside:
  // in neither. Each thread keeps the regions that it found last, so a repeated lookup costs no lock.
  Place place(uint64_t address, uint64_t bytes, bool write) const;
  // The region (or allocation without regions) that holds the address; an empty range if there is none.
  Range around(uint64_t address) const;
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  // Whether the host may touch every byte: inside one allocation, guards included.
  bool mapped(uint64_t address, uint64_t bytes) const;
  // "16 bytes behind the end of q (0x7f.. to 0x7f..)": the nearest region or allocation.
  std::string nearest(uint64_t address) const;

 private:
  struct Allocation {
    uint64_t start, end;
    std::string name;
    bool writable;
    std::vector<Region> regions;  // sorted
  };
  const Allocation* holding(uint64_t address) const;
  Place find(uint64_t address, uint64_t end, bool write) const;

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Allocation> allocations_;
  std::deque<Region> gone_;            // the last ones freed, for `nearest`
  std::atomic<uint64_t> epoch_{1};     // of the books: what threads remember of an older one is void
};

Memory& memory();

}  // namespace emulation
