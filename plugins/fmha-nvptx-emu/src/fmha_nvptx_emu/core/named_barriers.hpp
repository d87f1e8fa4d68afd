// Barriers with a number of threads, where some warps only arrive. Source: PTX ISA 9.1, 9.7.13.1.
#pragma once

#include <vector>

#include "mbarrier.hpp"

namespace ptx {

class NamedBarriers {
 public:
  static constexpr unsigned kCount = 16;
  void begin();
  // The warp's threads arrive; `waits`: it goes on only when all `wanted` threads arrived.
  void arrive(Warp& w, const Inst& i, uint32_t name, uint32_t wanted, bool waits);

 private:
  struct Named {
    uint32_t threads = 0, wanted = 0;
    std::vector<Warp*> waiting;
    Order order;
  };
  Named all_[kCount];
};

}  // namespace ptx
