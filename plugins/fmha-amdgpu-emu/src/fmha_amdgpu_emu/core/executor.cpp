// The sink of the HIP host API that executes kernels. It loads a code object when a caller first needs it. A launch is
// over when the call returns.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "arch_traits.hpp"
#include "device_heap.hpp"
#include "hip_bundles.hpp"
#include "hip_host.hpp"
#include "memory.hpp"
#include "observed.hpp"

#define EXECUTOR_API extern "C" __attribute__((visibility("default")))

struct EmuRegion {
  const char* name;
  uint64_t start, end;  // relative to the watched memory
  int writable;
};

namespace emu {

using fmha::hip::Error;
using fmha::hip::Function;
using fmha::hip::KernelFacts;
using fmha::hip::Module;
using fmha::hip::Outcome;
using fmha::hip::Properties;
using fmha::hip::Request;

namespace {

Properties properties_of(const ArchTraits& arch) {
  const ArchFacts& row = arch.facts;
  Properties p{};
  std::snprintf(p.name, sizeof p.name, "AMD %s (emulated)", arch.name);
  std::snprintf(p.arch, sizeof p.arch, "%s", arch.target);
  std::snprintf(p.uuid, sizeof p.uuid, "emu-%s", arch.name);
  p.total_memory = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  p.lds_per_block = p.lds_per_block_optin = size_t(row.lds_of_group);
  p.lds_per_unit = p.most_lds_per_unit = size_t(row.lds_of_unit);
  p.registers_per_block = p.registers_per_unit = row.unit_registers;
  p.warp_size = row.wave;
  p.pitch = p.constant_memory = 0x7fffffff;
  p.max_threads = p.max_block[0] = p.max_block[1] = p.max_block[2] = row.group_threads;
  p.max_grid[0] = 0x7fffffff, p.max_grid[1] = p.max_grid[2] = 65536;
  p.major = row.major, p.minor = row.minor;
  p.units = row.units;
  p.threads_per_unit = row.unit_threads;
  p.blocks_per_unit = row.unit_groups;
  p.can_map_host = p.unified_addressing = p.managed_memory = p.host_register = p.registered_pointers = 1;
  p.memory_pools = p.stream_priorities = p.large_bar = 1;
  return p;
}

uint64_t number_in(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

uint32_t vgprs_of(const Kernel& kernel, const ArchTraits& arch) {
  const bool wave32 = arch.wave32 && (kernel.properties >> 10 & 1);  // ENABLE_WAVEFRONT_SIZE32
  return ((kernel.rsrc1 & 63) + 1) * (arch.wave32 && !wave32 ? 4 : 8);  // GRANULATED_WORKITEM_VGPR_COUNT
}

bool hidden(const Kernel::Argument& argument) { return argument.kind.compare(0, 7, "hidden_") == 0; }

struct Watch {
  uint64_t bytes;
  std::vector<Region> regions;  // relative to its start
};

class Executor final : public fmha::hip::Sink {
 public:
  Executor() {
    if (const char* name = std::getenv("FMHA_EMU_ARCH")) play(name);
    options_.seed = number_in("FMHA_EMU_SEED", 0);
    options_.turn = number_in("FMHA_EMU_TURN", 0);
    options_.threads = int(number_in("FMHA_EMU_THREADS", 1));
    options_.track = number_in("FMHA_EMU_CHECKS", 1) != 0;
    options_.strict = number_in("FMHA_EMU_STRICT", 0) != 0;
  }

  bool play(const std::string& name) {
    device_ = arch_named(name);
    if (device_) properties_ = properties_of(*device_);
    else std::fprintf(stderr, "fmha-emu: there is no emulated device %s\n", name.c_str());
    return device_;
  }

  void choose(uint64_t seed, int threads, bool checks) {
    options_.seed = seed, options_.threads = threads, options_.track = checks;
    own_seeds_ = true;
  }

  void take_turns(uint64_t instructions) { options_.turn = instructions; }

  void watch(uint64_t start, uint64_t bytes, std::vector<Region> regions) {
    if (regions.empty()) watches_.erase(start);
    else watches_[start] = {bytes, std::move(regions)};
  }

  const std::string& take() {
    taken_ = observed_.json();
    observed_ = Observed();
    return taken_;
  }
  const std::string& fault() const { return observed_.fault(); }

  int devices() override { return device_ ? 1 : 0; }
  const Properties& properties(int) override { return properties_; }

  void* allocate(size_t bytes) override { return heap_.allocate(bytes); }
  void release(void* address) override { heap_.release(address); }
  void adopted(void* address, size_t bytes) override {
    memory().allocated(reinterpret_cast<uint64_t>(address), bytes, "registered host memory");
  }
  void abandoned(void* address) override { memory().freed(reinterpret_cast<uint64_t>(address)); }

  void copied_in(const void* host, void* device, size_t bytes) override {
    const auto found = watches_.find(reinterpret_cast<uint64_t>(host));
    if (found == watches_.end() || found->second.bytes != bytes) return;
    const auto block = fmha::hip::holder(device, bytes);
    std::vector<Region> regions = found->second.regions;
    for (Region& region : regions) {
      region.start += reinterpret_cast<uint64_t>(device);
      region.end += reinterpret_cast<uint64_t>(device);
    }
    memory().name_regions(reinterpret_cast<uint64_t>(block->first), std::move(regions));
  }

  Outcome open(Module& module, int) override {
    if (module.code) return {};
    const auto chosen = fmha::hip::choose_code(module.image, module.bytes, device_->target);
    if (!chosen.data) return {chosen.none_fits ? fmha::hip::NoBinaryForGpu : fmha::hip::InvalidImage, chosen.why};
    try {
      auto program = load_program(reinterpret_cast<const uint8_t*>(chosen.data), chosen.bytes);
      if (&arch_of(*program) != device_)
        return {fmha::hip::NoBinaryForGpu, "the code object is not for " + std::string(device_->name)};
      module.code = program;
    } catch (const LoadError& error) {
      return {fmha::hip::InvalidImage, error.why};
    }
    return {};
  }

  Outcome facts(Function& function, int device, KernelFacts& out) override {
    const Kernel* kernel = nullptr;
    const Outcome found = find(function, device, kernel);
    if (found.error) return found;
    out = {kernel->lds_bytes, kernel->scratch_bytes, vgprs_of(*kernel, *device_), 0, kernel->most_workitems};
    return {};
  }

  Outcome global(Module& module, int device, const std::string& name, void** address, size_t* bytes) override {
    const Outcome opened = open(module, device);
    if (opened.error) return opened;
    uint64_t size = 0;
    const uint64_t place = symbol_address(program_of(module), name, &size);
    if (!place) return {fmha::hip::NotFound, "the code object has no variable " + name};
    *address = reinterpret_cast<void*>(place), *bytes = size;
    return {};
  }

  Outcome launch(Function& function, int device, const Request& request) override {
    const Kernel* kernel = nullptr;
    Outcome outcome = find(function, device, kernel);
    if (outcome.error) return outcome;
    if (size_t(kernel->lds_bytes) + request.dynamic_lds > properties_.lds_per_block)
      return {fmha::hip::OutOfMemory, kernel->name + ": more LDS than a workgroup may have"};
    const uint64_t threads = uint64_t(request.block.x) * request.block.y * request.block.z;
    if (kernel->most_workitems && threads > kernel->most_workitems)
      return {fmha::hip::LaunchFailure, kernel->name + ": a block of " + std::to_string(threads) + " threads, but it was compiled for " +
                                            std::to_string(kernel->most_workitems)};
    Launch launch;
    outcome = pack(*kernel, request, launch.kernargs);
    if (outcome.error) return outcome;
    Report report;
    launch.program = &program_of(*function.module);
    launch.kernel = kernel;
    launch.grid = {request.grid.x, request.grid.y, request.grid.z};
    launch.block = {request.block.x, request.block.y, request.block.z};
    launch.dynamic_lds = uint32_t(request.dynamic_lds);
    launch.options = options_;
    if (!own_seeds_) launch.options.seed += launches_;
    ++launches_;
    launch.report = &report;
    run(launch);
    Observed now;
    const std::vector<Found> findings = report.take();
    now.add(kernel->name, launch.counts, findings, launch.fault);
    observed_.add(kernel->name, launch.counts, findings, launch.fault);
    report_line(now.json());
    if (!launch.fault.empty()) return {fmha::hip::LaunchFailure, launch.fault};
    return {};
  }

  // Prints what a caller could hardly find out otherwise, because programs keep only HIP's error number.
  void complained(Error error, const std::string& complaint) override {
    switch (error) {
      case fmha::hip::LaunchFailure: case fmha::hip::InvalidImage: case fmha::hip::NoBinaryForGpu:
      case fmha::hip::NotSupported: case fmha::hip::InvalidDeviceFunction: case fmha::hip::NoDevice:
        std::fprintf(stderr, "fmha-emu: %s\n", complaint.c_str());
        break;
      default: break;
    }
  }

 private:
  static const Program& program_of(const Module& module) { return *static_cast<const Program*>(module.code.get()); }

  Outcome find(Function& function, int device, const Kernel*& out) {
    const Outcome opened = open(*function.module, device);
    if (opened.error) return {opened.error, function.name + ": " + opened.why};
    out = find_kernel(program_of(*function.module), function.name);
    if (!out) return {fmha::hip::NotFound, "the code object has no kernel " + function.name};
    return {};
  }

  // Puts the explicit arguments at their offsets. The launch fills in the hidden ones.
  static Outcome pack(const Kernel& kernel, const Request& request, std::vector<uint8_t>& out) {
    size_t wanted = 0, most = kernel.kernarg_bytes;
    for (const Kernel::Argument& argument : kernel.arguments) {
      const size_t end = size_t(argument.offset) + argument.size;
      most = end > most ? end : most;
      if (!hidden(argument)) wanted = end > wanted ? end : wanted;
    }
    out.assign(most, 0);
    if (request.packed) {
      if (request.packed_bytes < wanted)
        return {fmha::hip::InvalidValue, kernel.name + ": " + std::to_string(request.packed_bytes) + " bytes of arguments, " +
                                             std::to_string(wanted) + " are needed"};
      std::memcpy(out.data(), request.packed, request.packed_bytes < out.size() ? request.packed_bytes : out.size());
      return {};
    }
    size_t index = 0;
    for (const Kernel::Argument& argument : kernel.arguments) {
      if (hidden(argument)) continue;
      if (!request.arguments || !request.arguments[index])
        return {fmha::hip::InvalidValue, kernel.name + ": argument " + std::to_string(index) + " is not given"};
      std::memcpy(out.data() + argument.offset, request.arguments[index++], argument.size);
    }
    return {};
  }

  const ArchTraits* device_ = nullptr;
  Properties properties_{};
  DeviceHeap heap_;
  Options options_;
  bool own_seeds_ = false;
  uint64_t launches_ = 0;
  std::map<uint64_t, Watch> watches_;  // by the host's address
  Observed observed_;
  std::string taken_;
};

Executor& executor() {
  static Executor* it = new Executor;  // never destroyed: libraries unregister their binaries while the process ends
  return *it;
}

}  // namespace
}  // namespace emu

namespace fmha::hip {
Sink& sink() { return emu::executor(); }
}  // namespace fmha::hip

EXECUTOR_API int emu_device(const char* arch) {
  fmha::hip::Guard guard(fmha::hip::host().mutex);
  return emu::executor().play(arch) ? 0 : 1;
}

EXECUTOR_API void emu_options(uint64_t seed, int threads, int checks) {
  fmha::hip::Guard guard(fmha::hip::host().mutex);
  emu::executor().choose(seed, threads < 1 ? 1 : threads, checks != 0);
}

EXECUTOR_API void emu_turn(uint64_t instructions) {
  fmha::hip::Guard guard(fmha::hip::host().mutex);
  emu::executor().take_turns(instructions);
}

EXECUTOR_API void emu_watch(const void* start, uint64_t bytes, const EmuRegion* regions, uint64_t count) {
  fmha::hip::Guard guard(fmha::hip::host().mutex);
  std::vector<emu::Region> named;
  for (uint64_t k = 0; k < count; ++k)
    named.push_back({regions[k].start, regions[k].end, regions[k].name, regions[k].writable != 0});
  emu::executor().watch(reinterpret_cast<uint64_t>(start), bytes, std::move(named));
}

EXECUTOR_API const char* emu_take() {
  fmha::hip::Guard guard(fmha::hip::host().mutex);
  return emu::executor().take().c_str();
}

EXECUTOR_API const char* emu_last_fault() {
  fmha::hip::Guard guard(fmha::hip::host().mutex);
  return emu::executor().fault().c_str();
}
