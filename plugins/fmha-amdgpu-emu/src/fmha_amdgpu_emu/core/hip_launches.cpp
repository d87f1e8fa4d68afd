// Launches of every form: a stub or a function, arguments one by one or packed.
#include <cstring>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {

Error launch(const char* call, const void* handle, const Request& request) {
  Function* known = function_of(handle);
  if (!known) return fail(InvalidDeviceFunction, std::string(call) + ": a function that nobody registered");
  if (!known->module->live) return fail(InvalidDeviceFunction, known->name + ": its code object is unloaded");
  if (no_device(call)) return NoDevice;
  const Dim3 &grid = request.grid, &block = request.block;
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  const Properties& limits = current();
  if (!grid.x || !grid.y || !grid.z || !threads || threads > uint64_t(limits.max_threads))
    return fail(InvalidConfiguration, known->name + ": an empty grid, or a block of " + number(threads) + " threads");
  if (block.x > unsigned(limits.max_block[0]) || block.y > unsigned(limits.max_block[1]) ||
      block.z > unsigned(limits.max_block[2]))
    return fail(InvalidConfiguration, known->name + ": a block longer than the device allows");
  if (!known_stream(request.stream)) return fail(InvalidHandle, known->name + ": no such stream");
  return fail(sink().launch(*known, thread().device, request));
}

namespace {

constexpr uintptr_t kBuffer = 1, kBufferBytes = 2, kEnd = 3;  // HIP_LAUNCH_PARAM_*

// `extra`: pairs of a number and a value, ended by HIP_LAUNCH_PARAM_END.
bool packed(void** extra, Request& request) {
  for (; reinterpret_cast<uintptr_t>(*extra) != kEnd; extra += 2) {
    const auto what = reinterpret_cast<uintptr_t>(extra[0]);
    if (what == kBuffer) request.packed = extra[1];
    else if (what == kBufferBytes) request.packed_bytes = *static_cast<const size_t*>(extra[1]);
    else return false;
  }
  return request.packed || !request.packed_bytes;
}

Error launch_either(const char* call, const void* function, Request request, void** arguments, void** extra) {
  request.arguments = arguments;
  if (extra && arguments) return fail(InvalidValue, std::string(call) + ": both kernelParams and extra are given");
  if (extra && !packed(extra, request)) return fail(InvalidValue, std::string(call) + ": extra is not a list of a buffer and its size");
  return launch(call, function, request);
}

struct LaunchConfig {  // hipLaunchConfig_t
  Dim3 grid, block;
  size_t shared;
  void* stream;
  void* attributes;
  unsigned count;
};

struct DriverLaunchConfig {  // HIP_LAUNCH_CONFIG
  uint32_t grid[3], block[3];
  uint32_t shared;
  void* stream;
  void* attributes;
  uint32_t count;
};

}  // namespace
}  // namespace fmha::hip

API int hipLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream) {
  Guard guard(host().mutex);
  return launch("hipLaunchKernel", function, {grid, block, shared, stream, arguments});
}

API int hipLaunchKernelExC(const LaunchConfig* config, const void* function, void** arguments) {
  Guard guard(host().mutex);
  return launch("hipLaunchKernelExC", function, {config->grid, config->block, config->shared, config->stream, arguments});
}

API int hipDrvLaunchKernelEx(const DriverLaunchConfig* config, const void* function, void** arguments, void** extra) {
  Guard guard(host().mutex);
  const Dim3 grid{config->grid[0], config->grid[1], config->grid[2]};
  const Dim3 block{config->block[0], config->block[1], config->block[2]};
  return launch_either("hipDrvLaunchKernelEx", function, {grid, block, config->shared, config->stream}, arguments, extra);
}

API int hipModuleLaunchKernel(const void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  Guard guard(host().mutex);
  return launch_either("hipModuleLaunchKernel", function, {{gx, gy, gz}, {bx, by, bz}, shared, stream}, arguments, extra);
}

// The grid is counted in work-items here, and the last group may be a part of one.
API int hipExtModuleLaunchKernel(const void* function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
                                 uint32_t bz, size_t shared, void* stream, void** arguments, void** extra, void* start,
                                 void* stop, uint32_t) {
  Guard guard(host().mutex);
  if (start || stop) return fail(NotSupported, "hipExtModuleLaunchKernel: with events");
  if (!bx || !by || !bz || gx % bx || gy % by || gz % bz)
    return fail(NotSupported, "hipExtModuleLaunchKernel: the grid is not a multiple of the block");
  return launch_either("hipExtModuleLaunchKernel", function, {{gx / bx, gy / by, gz / bz}, {bx, by, bz}, shared, stream},
                       arguments, extra);
}

