// Global memory: host memory, with its live allocations and the regions inside them. Device addresses are host addresses.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace ptx {

struct Region {
  uint64_t start, end;
  std::string name;
  bool writable = true;
};

// A range that the last lookup found. Threads keep some, so a repeated lookup costs no lock.
struct Range {
  uint64_t start = 1, end = 0;
  bool writable = false;
  uint64_t epoch = 0;
};

class Memory {
 public:
  void allocated(uint64_t start, uint64_t bytes, const std::string& name, bool writable = true);
  bool freed(uint64_t start);
  void name_regions(uint64_t allocation, std::vector<Region> regions);

  // The region (or allocation without regions) that holds the address; an empty range if there is none.
  Range around(uint64_t address) const;
  bool mapped(uint64_t address, uint64_t bytes) const;  // inside one allocation, guards included
  std::string nearest(uint64_t address) const;          // "16 bytes behind the end of q (0x7f.. to 0x7f..)"
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

 private:
  struct Allocation {
    uint64_t start, end;
    std::string name;
    bool writable;
    std::vector<Region> regions;
  };
  const Allocation* holding(uint64_t address) const;

  mutable std::mutex mutex_;
  std::map<uint64_t, Allocation> allocations_;
  std::atomic<uint64_t> epoch_{1};
};

Memory& memory();

}  // namespace ptx
