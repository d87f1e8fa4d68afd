// Workgroups over threads, waves of a workgroup in turn until a barrier, a sleep or their end.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "dispatch.hpp"
#include "launch.hpp"

namespace emu {

// What the threads of a launch share.
struct Shared {
  explicit Shared(const Dispatch& d) : dispatch(d) {}

  const Dispatch& dispatch;
  std::atomic<uint64_t> next{0};      // workgroup to begin
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::string fault;
  uint64_t faulted = ~0ull;           // workgroup of `fault`: the first one in the grid's order wins
  Counts counts;
};

// Executes workgroups on this thread until none is left or one has stopped the launch. Never throws.
void work(Shared& shared);

}  // namespace emu
