// A recording stand-in for the HIP runtime: the symbols that CK's host code and hip-python need, on host memory.
//
// Nothing is executed. Code objects, kernel symbols and launches are recorded; `fmha_standin_*` reads them. A symbol
// that is missing here is reported by the dynamic linker, by name; a call that is here and used wrongly fails with
// hipErrorInvalidValue and a sentence in fmha_standin_complaint().
//
// Interface facts (names, argument lists, enumerators, the layout of hipDeviceProp_tR0600) are those of HIP 7's
// hip/hip_runtime_api.h and of clang's HIP host-side code generation.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Error {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  InvalidConfiguration = 9,
  InvalidDeviceFunction = 98,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidHandle = 400,
  NotReady = 600
};

struct Dim3 {
  uint32_t x, y, z;
};

// hipDeviceProp_tR0600: only what is asked for has a name.
struct Properties {
  char name[256];
  char ids[32];
  size_t total_memory;
  size_t lds_per_block;
  int registers_per_block;
  int warp_size;
  size_t pitch;
  int max_threads;
  int max_block[3];
  int max_grid[3];
  int clock_khz;
  size_t constant_memory;
  int major;
  int minor;
  char between[20];
  int units;
  char middle[216];
  int memory_clock_khz;
  int memory_bus;
  int l2_bytes;
  int persisting_l2;
  int threads_per_unit;
  char later[532];
  char arch[256];
  char tail[56];
};
static_assert(offsetof(Properties, total_memory) == 288, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, warp_size) == 308, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, clock_khz) == 348, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, major) == 360, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, units) == 388, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, memory_clock_khz) == 608, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, l2_bytes) == 616, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, arch) == 1160, "hipDeviceProp_tR0600");
static_assert(sizeof(Properties) == 1472, "hipDeviceProp_tR0600");

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* binary;
  void* unused;
};
constexpr uint32_t fat_magic = 0x48495046;  // "HIPF"

struct Binary {
  const void* data;
  bool live;
};

struct Function {
  std::string name;
  size_t binary;
  std::vector<size_t> argument_bytes;  // known once the reader of the code object told them
  bool described;
};

struct Launch {
  std::string name;
  Dim3 grid, block;
  size_t dynamic_lds;
  void* stream;
  std::vector<unsigned char> arguments;
};

struct Configuration {
  Dim3 grid, block;
  size_t shared;
  void* stream;
};

struct Event {
  std::chrono::steady_clock::time_point at;
  bool recorded;
};

struct Runtime {
  std::mutex mutex;
  std::deque<Binary> binaries;
  std::map<const void*, Function> functions;
  std::vector<const void*> order;
  std::deque<Launch> launches;
  std::vector<Configuration> configurations;
  std::map<char*, size_t> blocks;
  std::map<void*, bool> streams;
  std::map<Event*, bool> events;
  std::string complaint;
  std::string calls;
  Error last = Success;
  int refuse_launch = 0;
  size_t used = 0;
  int devices = 1;
  Properties properties{};
};

Runtime& runtime() {
  static Runtime it;
  return it;
}

using Guard = std::lock_guard<std::mutex>;

Error fail(Error error, const std::string& complaint) {
  Runtime& r = runtime();
  r.complaint = complaint;
  r.last = error;
  return error;
}

std::string number(size_t n) { return std::to_string(n); }

// The allocation that holds [address, address + bytes), or nullptr.
char* holder(const void* address, size_t bytes) {
  Runtime& r = runtime();
  char* at = const_cast<char*>(static_cast<const char*>(address));
  auto it = r.blocks.upper_bound(at);
  if (it == r.blocks.begin()) return nullptr;
  --it;
  return at + bytes <= it->first + it->second ? it->first : nullptr;
}

// Whether the address lies in, or runs into, any allocation.
bool touches(const void* address, size_t bytes) {
  const char* at = static_cast<const char*>(address);
  for (const auto& [start, size] : runtime().blocks)
    if (at < start + size && start < at + bytes) return true;
  return false;
}

enum Kind { HostToHost = 0, HostToDevice = 1, DeviceToHost = 2, DeviceToDevice = 3, Default = 4 };

Error copy(void* to, const void* from, size_t bytes, int kind, const char* name) {
  if (kind < 0 || kind > Default) return fail(InvalidValue, std::string(name) + ": no such kind of copy");
  if (bytes == 0) return Success;
  const bool to_device = kind == HostToDevice || kind == DeviceToDevice;
  const bool from_device = kind == DeviceToHost || kind == DeviceToDevice;
  if (kind != Default && (to_device != (holder(to, bytes) != nullptr) || from_device != (holder(from, bytes) != nullptr)))
    return fail(InvalidValue, std::string(name) + ": " + number(bytes) + " bytes do not lie where the kind says");
  if (kind == Default && ((touches(to, bytes) && !holder(to, bytes)) || (touches(from, bytes) && !holder(from, bytes))))
    return fail(InvalidValue, std::string(name) + ": " + number(bytes) + " bytes run over the end of an allocation");
  std::memmove(to, from, bytes);
  return Success;
}

Error launch(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream) {
  Runtime& r = runtime();
  auto it = r.functions.find(function);
  if (it == r.functions.end()) return fail(InvalidDeviceFunction, "hipLaunchKernel: a function that nobody registered");
  const Function& known = it->second;
  if (!r.binaries[known.binary].live) return fail(InvalidDeviceFunction, known.name + ": its code object is unloaded");
  if (!known.described) return fail(InvalidDeviceFunction, known.name + ": the code object's argument sizes were not told");
  if (r.refuse_launch) return fail(static_cast<Error>(r.refuse_launch), known.name + ": refused, as was asked for");
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || !threads || threads > uint64_t(r.properties.max_threads))
    return fail(InvalidConfiguration, known.name + ": an empty grid, or a block of " + number(threads) + " threads");
  if (stream && !r.streams.count(stream)) return fail(InvalidHandle, known.name + ": no such stream");
  Launch record{known.name, grid, block, shared, stream, {}};
  for (size_t i = 0; i < known.argument_bytes.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(arguments[i]);
    record.arguments.insert(record.arguments.end(), bytes, bytes + known.argument_bytes[i]);
  }
  r.launches.push_back(std::move(record));
  return Success;
}

}  // namespace

// ---- What the test or the dry run reads and sets ----

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
  Guard guard(runtime().mutex);
  Runtime& r = runtime();
  Properties& p = r.properties;
  p = Properties{};
  r.devices = devices;
  std::strncpy(p.name, "fmha recording stand-in", sizeof p.name - 1);
  std::strncpy(p.arch, arch, sizeof p.arch - 1);
  p.total_memory = memory;
  p.major = major, p.minor = minor, p.warp_size = warp, p.units = units;
  p.l2_bytes = l2_bytes, p.max_threads = threads_per_block;
  p.max_block[0] = p.max_block[1] = p.max_block[2] = threads_per_block;
  p.max_grid[0] = p.max_grid[1] = p.max_grid[2] = 0x7fffffff;
}

API uint64_t fmha_standin_binaries() { return runtime().binaries.size(); }
API const void* fmha_standin_binary(uint64_t index) { return runtime().binaries.at(index).data; }
API int fmha_standin_binary_live(uint64_t index) { return runtime().binaries.at(index).live; }
API uint64_t fmha_standin_functions() { return runtime().order.size(); }
API const char* fmha_standin_function(uint64_t index, uint64_t* binary) {
  const Function& function = runtime().functions.at(runtime().order.at(index));
  *binary = function.binary;
  return function.name.c_str();
}
// Sizes of a function's explicit arguments, as its code object's metadata states them.
API void fmha_standin_describe(uint64_t index, const uint64_t* bytes, uint64_t count) {
  Function& function = runtime().functions.at(runtime().order.at(index));
  function.argument_bytes.assign(bytes, bytes + count);
  function.described = true;
}
API uint64_t fmha_standin_launches() { return runtime().launches.size(); }
API void fmha_standin_launch(uint64_t index, FmhaStandinLaunch* out) {
  const Launch& it = runtime().launches.at(index);
  *out = {it.name.c_str(),
          {it.grid.x, it.grid.y, it.grid.z},
          {it.block.x, it.block.y, it.block.z},
          it.dynamic_lds,
          it.arguments.data(),
          it.arguments.size()};
}
API void fmha_standin_forget_launches() { runtime().launches.clear(); }
API const char* fmha_standin_complaint() { return runtime().complaint.c_str(); }
API uint64_t fmha_standin_bytes_in_use() { return runtime().used; }
// The next launches fail with this HIP error; 0 ends it.
API void fmha_standin_refuse(int error) { runtime().refuse_launch = error; }

// ---- Code objects, as clang's host code registers them ----

API void** __hipRegisterFatBinary(const void* data) {
  Guard guard(runtime().mutex);
  const auto* wrapper = static_cast<const Wrapper*>(data);
  if (wrapper->magic != fat_magic) {
    fail(InvalidValue, "__hipRegisterFatBinary: no HIPF wrapper");
    std::abort();
  }
  runtime().binaries.push_back({wrapper->binary, true});
  return reinterpret_cast<void**>(&runtime().binaries.back());
}

API void __hipUnregisterFatBinary(void** modules) {
  Guard guard(runtime().mutex);
  reinterpret_cast<Binary*>(modules)->live = false;
}

API void __hipRegisterFunction(void** modules, const void* host, char*, const char* name, unsigned, void*, void*, void*,
                               void*, int*) {
  Guard guard(runtime().mutex);
  Runtime& r = runtime();
  size_t index = 0;
  while (&r.binaries[index] != reinterpret_cast<Binary*>(modules)) ++index;
  if (!r.functions.count(host)) r.order.push_back(host);
  r.functions[host] = Function{name, index, {}, false};
}

API void __hipRegisterVar(void**, void*, char*, char*, int, size_t, int, int) {}

API int __hipPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void* stream) {
  Guard guard(runtime().mutex);
  runtime().configurations.push_back({grid, block, shared, stream});
  return Success;
}

API int __hipPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared, void** stream) {
  Guard guard(runtime().mutex);
  auto& stack = runtime().configurations;
  if (stack.empty()) return fail(InvalidValue, "__hipPopCallConfiguration: nothing was pushed");
  *grid = stack.back().grid, *block = stack.back().block;
  *shared = stack.back().shared, *stream = stack.back().stream;
  stack.pop_back();
  return Success;
}

API int hipLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream) {
  Guard guard(runtime().mutex);
  return launch(function, grid, block, arguments, shared, stream);
}

struct LaunchConfig {
  Dim3 grid, block;
  size_t shared;
  void* stream;
  void* attributes;
  unsigned count;
};
API int hipLaunchKernelExC(const LaunchConfig* config, const void* function, void** arguments) {
  Guard guard(runtime().mutex);
  return launch(function, config->grid, config->block, arguments, config->shared, config->stream);
}

// ---- Devices ----

API int hipInit(unsigned) { return runtime().devices ? Success : fail(NoDevice, "hipInit: no device"); }
API int hipGetDeviceCount(int* count) {
  *count = runtime().devices;
  return *count ? Success : fail(NoDevice, "hipGetDeviceCount: no device");
}
API int hipGetDevice(int* device) {
  *device = 0;
  return runtime().devices ? Success : fail(NoDevice, "hipGetDevice: no device");
}
API int hipSetDevice(int device) {
  return device >= 0 && device < runtime().devices ? Success : fail(InvalidDevice, "hipSetDevice: no such device");
}
API int hipGetDevicePropertiesR0600(void* out, int device) {
  if (device < 0 || device >= runtime().devices) return fail(InvalidDevice, "hipGetDeviceProperties: no such device");
  std::memcpy(out, &runtime().properties, sizeof(Properties));
  return Success;
}
API int hipDeviceSynchronize() { return Success; }
API int hipRuntimeGetVersion(int* version) { return *version = 70125424, Success; }
API int hipDriverGetVersion(int* version) { return *version = 70125424, Success; }

// ---- Errors ----

API const char* hipGetErrorName(int error) {
  switch (error) {
    case Success: return "hipSuccess";
    case InvalidValue: return "hipErrorInvalidValue";
    case OutOfMemory: return "hipErrorOutOfMemory";
    case InvalidConfiguration: return "hipErrorInvalidConfiguration";
    case InvalidDeviceFunction: return "hipErrorInvalidDeviceFunction";
    case NoDevice: return "hipErrorNoDevice";
    case InvalidDevice: return "hipErrorInvalidDevice";
    case InvalidHandle: return "hipErrorInvalidHandle";
    case NotReady: return "hipErrorNotReady";
    default: return "hipErrorUnknown";
  }
}
API const char* hipGetErrorString(int error) {
  switch (error) {
    case Success: return "no error";
    case InvalidValue: return "invalid argument";
    case OutOfMemory: return "out of memory";
    case InvalidConfiguration: return "invalid configuration argument";
    case InvalidDeviceFunction: return "invalid device function";
    case NoDevice: return "no ROCm-capable device is detected";
    case InvalidDevice: return "invalid device ordinal";
    case InvalidHandle: return "invalid resource handle";
    case NotReady: return "device not ready";
    default: return "unknown error";
  }
}
API int hipPeekAtLastError() { return runtime().last; }
API int hipGetLastError() {
  const Error error = runtime().last;
  runtime().last = Success;
  return error;
}

// ---- Memory ----

API int hipMalloc(void** out, size_t bytes) {
  Guard guard(runtime().mutex);
  Runtime& r = runtime();
  *out = nullptr;
  if (bytes == 0) return Success;
  if (bytes > r.properties.total_memory - r.used) return fail(OutOfMemory, "hipMalloc: " + number(bytes) + " bytes");
  const size_t rounded = (bytes + 4095) / 4096 * 4096;
  *out = std::aligned_alloc(4096, rounded);
  if (!*out) return fail(OutOfMemory, "hipMalloc: " + number(bytes) + " bytes");
  std::memset(*out, 0xA5, rounded);
  r.blocks[static_cast<char*>(*out)] = bytes;
  r.used += bytes;
  return Success;
}
API int hipFree(void* address) {
  Guard guard(runtime().mutex);
  if (!address) return Success;
  Runtime& r = runtime();
  auto it = r.blocks.find(static_cast<char*>(address));
  if (it == r.blocks.end()) return fail(InvalidValue, "hipFree: not the start of an allocation");
  r.used -= it->second;
  r.blocks.erase(it);
  std::free(address);
  return Success;
}
API int hipMemGetInfo(size_t* free_bytes, size_t* total) {
  *total = runtime().properties.total_memory;
  *free_bytes = *total - runtime().used;
  return Success;
}
API int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  Guard guard(runtime().mutex);
  return copy(to, from, bytes, kind, "hipMemcpy");
}
API int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void*) {
  Guard guard(runtime().mutex);
  return copy(to, from, bytes, kind, "hipMemcpyAsync");
}
API int hipMemset(void* to, int value, size_t bytes) {
  Guard guard(runtime().mutex);
  if (bytes && !holder(to, bytes)) return fail(InvalidValue, "hipMemset: " + number(bytes) + " bytes of no allocation");
  std::memset(to, value, bytes);
  return Success;
}
API int hipMemsetAsync(void* to, int value, size_t bytes, void*) { return hipMemset(to, value, bytes); }

// ---- Streams and events ----

API int hipStreamCreate(void** out) {
  Guard guard(runtime().mutex);
  *out = std::malloc(1);
  runtime().streams[*out] = true;
  return Success;
}
API int hipStreamDestroy(void* stream) {
  Guard guard(runtime().mutex);
  if (!runtime().streams.erase(stream)) return fail(InvalidHandle, "hipStreamDestroy: no such stream");
  std::free(stream);
  return Success;
}
API int hipStreamSynchronize(void*) { return Success; }

API int hipEventCreate(Event** out) {
  Guard guard(runtime().mutex);
  *out = new Event{};
  runtime().events[*out] = true;
  return Success;
}
API int hipEventDestroy(Event* event) {
  Guard guard(runtime().mutex);
  if (!runtime().events.erase(event)) return fail(InvalidHandle, "hipEventDestroy: no such event");
  delete event;
  return Success;
}
API int hipEventRecord(Event* event, void*) {
  Guard guard(runtime().mutex);
  if (!runtime().events.count(event)) return fail(InvalidHandle, "hipEventRecord: no such event");
  event->at = std::chrono::steady_clock::now(), event->recorded = true;
  return Success;
}
API int hipEventSynchronize(Event* event) {
  Guard guard(runtime().mutex);
  return runtime().events.count(event) ? Success : fail(InvalidHandle, "hipEventSynchronize: no such event");
}
API int hipEventElapsedTime(float* ms, Event* start, Event* stop) {
  Guard guard(runtime().mutex);
  if (!runtime().events.count(start) || !runtime().events.count(stop) || !start->recorded || !stop->recorded)
    return fail(InvalidHandle, "hipEventElapsedTime: an event that was not recorded");
  *ms = std::chrono::duration<float, std::milli>(stop->at - start->at).count();
  return Success;
}
