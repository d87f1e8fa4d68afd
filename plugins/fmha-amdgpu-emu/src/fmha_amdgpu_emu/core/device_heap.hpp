// Device memory: pages of the host, with guards before and behind each allocation that nobody may touch.
#pragma once

#include <cstddef>
#include <map>

namespace emu {

class DeviceHeap {
 public:
  // Filled with 0xFF, a NaN in every floating-point format but fp8's fnuz ones; nullptr: no memory.
  void* allocate(size_t bytes);
  void release(void* address);

 private:
  struct Mapping {
    void* start;
    size_t bytes;
  };
  std::map<void*, Mapping> mappings_;
  size_t count_ = 0;
};

}  // namespace emu
