// A sink that executes nothing: it plays a device, and writes down code objects, kernel symbols and launches, which
// `fmha_standin_*` read. A symbol that is missing is reported by the dynamic linker, by name; a call that is used
// wrongly fails with HIP's own error and a sentence in fmha_standin_complaint().

#include <cstdlib>
#include <cstring>
#include <deque>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {
namespace {

struct Recorded {
  std::string name;
  Dim3 grid, block;
  size_t dynamic_lds;
  std::vector<unsigned char> arguments;
};

constexpr size_t kPage = 4096;
constexpr int kFill = 0xA5;

class Recorder final : public Sink {
 public:
  std::map<const void*, std::vector<size_t>> argument_bytes;  // by the host's stub, once somebody told them
  std::deque<Recorded> launches;
  Properties played{};
  int count = 1;
  int refusal = 0;

  int devices() override { return count; }
  const Properties& properties(int) override { return played; }

  void* allocate(size_t bytes) override {
    const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    void* out = std::aligned_alloc(kPage, rounded);
    return out ? std::memset(out, kFill, rounded) : nullptr;
  }
  void release(void* address) override { std::free(address); }
  void adopted(void*, size_t) override {}
  void abandoned(void*) override {}
  void copied_in(const void*, void*, size_t) override {}

  Outcome open(Module&, int) override { return {NotSupported, "the recording stand-in loads no modules"}; }
  Outcome facts(Function& function, int, KernelFacts&) override {
    return {NotSupported, function.name + ": the recording stand-in reads no code objects"};
  }
  Outcome global(Module&, int, const std::string& name, void**, size_t*) override {
    return {NotSupported, name + ": the recording stand-in has no variables"};
  }

  Outcome launch(Function& function, int, const Request& request) override {
    auto known = argument_bytes.find(function.host);
    if (known == argument_bytes.end())
      return {InvalidDeviceFunction, function.name + ": the code object's argument sizes were not told"};
    if (refusal) return {Error(refusal), function.name + ": refused, as was asked for"};
    Recorded record{function.name, request.grid, request.block, request.dynamic_lds, {}};
    for (size_t i = 0; i < known->second.size(); ++i) {
      const auto* bytes = static_cast<const unsigned char*>(request.arguments[i]);
      record.arguments.insert(record.arguments.end(), bytes, bytes + known->second[i]);
    }
    launches.push_back(std::move(record));
    return {};
  }
};

Recorder& recorder() {
  static Recorder* it = new Recorder;
  return *it;
}

Module& registered(uint64_t index) {
  auto it = host().modules.begin();
  std::advance(it, long(index));
  return *it;
}

}  // namespace

Sink& sink() { return recorder(); }

}  // namespace fmha::hip

struct FmhaStandinLaunch {
  const char* kernel;
  uint32_t grid[3];
  uint32_t block[3];
  uint64_t dynamic_lds;
  const void* arguments;
  uint64_t argument_bytes;
};

// The device to play. `devices` may be 0.
API void fmha_standin_device(const char* arch, int devices, int major, int minor, int warp, int units, uint64_t memory,
                             int l2_bytes, int threads_per_block) {
  Guard guard(host().mutex);
  Properties& p = recorder().played;
  p = Properties{};
  recorder().count = devices;
  std::strncpy(p.name, "fmha recording stand-in", sizeof p.name - 1);
  std::strncpy(p.arch, arch, sizeof p.arch - 1);
  p.total_memory = memory;
  p.major = major, p.minor = minor, p.warp_size = warp, p.units = units;
  p.l2_bytes = l2_bytes, p.max_threads = threads_per_block;
  p.max_block[0] = p.max_block[1] = p.max_block[2] = threads_per_block;
  p.max_grid[0] = p.max_grid[1] = p.max_grid[2] = 0x7fffffff;
}

API uint64_t fmha_standin_binaries() { return host().modules.size(); }
API const void* fmha_standin_binary(uint64_t index) { return registered(index).image; }
API int fmha_standin_binary_live(uint64_t index) { return registered(index).live; }
API uint64_t fmha_standin_functions() { return host().order.size(); }
API const char* fmha_standin_function(uint64_t index, uint64_t* binary) {
  const Function& function = host().functions.at(host().order.at(index));
  *binary = 0;
  for (const Module& module : host().modules) {
    if (&module == function.module) break;
    ++*binary;
  }
  return function.name.c_str();
}
// Sizes of a function's explicit arguments, as its code object's metadata states them.
API void fmha_standin_describe(uint64_t index, const uint64_t* bytes, uint64_t count) {
  recorder().argument_bytes[host().order.at(index)].assign(bytes, bytes + count);
}
API uint64_t fmha_standin_launches() { return recorder().launches.size(); }
API void fmha_standin_launch(uint64_t index, FmhaStandinLaunch* out) {
  const Recorded& it = recorder().launches.at(index);
  *out = {it.name.c_str(),
          {it.grid.x, it.grid.y, it.grid.z},
          {it.block.x, it.block.y, it.block.z},
          it.dynamic_lds,
          it.arguments.data(),
          it.arguments.size()};
}
API void fmha_standin_forget_launches() { recorder().launches.clear(); }
API const char* fmha_standin_complaint() { return host().complaint.c_str(); }
API uint64_t fmha_standin_bytes_in_use() { return host().used; }
// The next launches fail with this HIP error; 0 ends it.
API void fmha_standin_refuse(int error) { recorder().refusal = error; }
