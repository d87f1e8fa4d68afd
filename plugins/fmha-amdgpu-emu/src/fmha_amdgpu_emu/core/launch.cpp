// A launch from its request to its end. It refuses what is impossible and spreads the rest over threads.
#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#include "program.hpp"
#include "scheduler.hpp"

namespace emu {

namespace {

std::string refusal(const Launch& l) {
  const uint64_t items = uint64_t(l.block.x) * l.block.y * l.block.z;
  const Kernel& k = *l.kernel;
  if (!items || !l.grid.x || !l.grid.y || !l.grid.z) return "the launch of " + k.name + " has an empty grid or block";
  const uint64_t most = k.most_workitems ? k.most_workitems : 1024;
  if (items > most)
    return "the launch of " + k.name + " has " + std::to_string(items) + " work-items in a workgroup; the kernel allows " +
           std::to_string(most);
  const uint64_t lds = uint64_t(k.lds_bytes) + l.dynamic_lds;
  const uint64_t room = uint64_t(arch_of(*l.program).facts.lds_of_group);
  if (lds > room)
    return "the launch of " + k.name + " needs " + std::to_string(lds) + " bytes of LDS; the architecture has " +
           std::to_string(room);
  return {};
}

}  // namespace

void Counts::add(const Counts& o) {
  instructions += o.instructions;
  for (size_t k = 0; k < size_t(Class::Count); ++k) classes[k] += o.classes[k];
  matrix_flops += o.matrix_flops;
  global_read += o.global_read, global_written += o.global_written;
  scratch_read += o.scratch_read, scratch_written += o.scratch_written;
  scalar_read += o.scalar_read;
  lds_read += o.lds_read, lds_written += o.lds_written;
  lds_accesses += o.lds_accesses, lds_conflict_cycles += o.lds_conflict_cycles;
  buffer_out_of_range += o.buffer_out_of_range;
  barriers += o.barriers;
}

void run(Launch& launch) {
  launch.fault = refusal(launch);
  if (!launch.fault.empty()) return;
  try {
    const Dispatch dispatch(launch);
    Shared shared(dispatch);
    const uint64_t count = std::clamp<uint64_t>(uint64_t(std::max(launch.options.threads, 1)), 1, dispatch.groups);
    std::vector<std::thread> others;
    try {
      for (uint64_t k = 1; k < count; ++k) others.emplace_back([&] { work(shared); });
    } catch (const std::system_error&) {
      // Fewer threads than requested do the same work.
    }
    work(shared);
    for (std::thread& one : others) one.join();
    launch.counts.add(shared.counts);
    launch.fault = shared.fault;
  } catch (const Unexecutable& stop) {
    launch.fault = launch.kernel->name + ": " + stop.why;
  } catch (const std::exception& error) {
    launch.fault = launch.kernel->name + ": the emulator failed: " + error.what();
  }
}

}  // namespace emu
