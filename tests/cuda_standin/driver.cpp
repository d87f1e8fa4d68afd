// A stand-in for the CUDA driver (libcuda.so.1), for machines without one.
//
// cuda-python loads it unmodified: by its name through the loader's search path, or because it is already in the
// process. Device memory is host memory, addresses are real, copies and fills happen at once, kernels are recorded with
// their parameter bytes and run only if a hook is set. Time is a counter that kernels and fills advance.
//
// A missing function fails loudly: cuGetProcAddress does not find it, and cuda-python names it.
// It refuses what a real driver refuses: foreign pointers, oversized launches, wrong parameter sizes, a dead context.
//
// The device, its driver and planted faults are set as "key=value;key=value", with fmha_standin_configure or with the
// variable FMHA_CUDA_STANDIN, which is read at the first call:
//   devices=1 driver=13000 capability=9.0 units=132 memory=BYTES l2=BYTES shared=BYTES name=TEXT
//   kernel_ns=N      the time of a kernel; gap_ns=N: the time of the host to launch one, outside graphs
//   init=N           cuInit returns this error
//   fault=N@K        the K-th kernel from now on (from 1) ends with this error
//   once=PATH        the fault occurs only if this file is absent, and creates it: in one process of several
//   refuse=N         cuLaunchKernel returns this error

#include <elf.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
};

using Guard = std::lock_guard<std::recursive_mutex>;

struct Kernel {
  std::string symbol;
  size_t parameter_bytes;  // 0: the cubin does not state it
  size_t static_shared;
  int registers;
  size_t allowed_shared = 48 << 10;
};

struct Module {
  std::deque<Kernel> kernels;
};

struct Launch {
  Kernel* kernel;
  uint32_t grid[3], block[3];
  size_t shared;
  std::vector<unsigned char> parameters;
};

// One operation of a stream, kept by graphs.
struct Node {
  enum Kind { Run, Fill, Move, Mark } kind;
  Launch launch;
  char* to;
  const char* from;
  int value;
  size_t bytes;
  struct Event* event;
};

struct Event {
  bool recorded = false;
  uint64_t at = 0;
};

struct Stream {
  bool capturing = false, broken = false;
  std::vector<Node> captured;
};

struct Graph {
  std::vector<Node> nodes;
};

}  // namespace

struct FmhaStandinLaunch {
  const char* symbol;
  uint32_t grid[3];
  uint32_t block[3];
  uint64_t shared;
  const void* parameters;
  uint64_t parameter_bytes;
  uint32_t replayed;  // from a graph
};
// Does a kernel's work; returns 0 or the kernel's error.
using Hook = int (*)(const FmhaStandinLaunch*);

namespace {

struct Recorded {
  Launch launch;
  bool replayed;
  std::string symbol;
};

struct Driver {
  std::recursive_mutex mutex;
  bool started = false, configured = false;
  std::string complaint, name = "fmha recording stand-in", once;
  int devices = 1, version = 13000, major = 9, minor = 0, units = 132, init = 0;
  int shared = 232448, l2 = 50 << 20;
  size_t memory = size_t(16) << 30, used = 0;
  uint64_t clock = 0, kernel_ns = 100000, gap_ns = 0;
  int fault = 0, refuse = 0;
  uint64_t fault_at = 0, kernels_run = 0;
  int pending = 0, dead = 0;
  std::map<char*, size_t> blocks;
  std::set<Module*> modules;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Graph*> graphs, execs;
  std::deque<Recorded> launches;
  Hook hook = nullptr;
  int context = -1;
  uint64_t graph_launches = 0;
};

Driver& driver() {
  static Driver it;
  return it;
}

int fail(int error, const std::string& complaint) {
  driver().complaint = complaint;
  return error;
}

std::string number(uint64_t n) { return std::to_string(n); }

bool configure(const std::string& text) {
  Driver& d = driver();
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find(';', at);
    if (end == std::string::npos) end = text.size();
    const std::string pair = text.substr(at, end - at);
    at = end + 1;
    if (pair.empty()) continue;
    const size_t eq = pair.find('=');
    if (eq == std::string::npos) return false;
    const std::string key = pair.substr(0, eq), value = pair.substr(eq + 1);
    const unsigned long long n = std::strtoull(value.c_str(), nullptr, 0);
    if (key == "devices") d.devices = int(n);
    else if (key == "driver") d.version = int(n);
    else if (key == "capability") {
      if (std::sscanf(value.c_str(), "%d.%d", &d.major, &d.minor) != 2) return false;
    } else if (key == "units") d.units = int(n);
    else if (key == "memory") d.memory = n;
    else if (key == "l2") d.l2 = int(n);
    else if (key == "shared") d.shared = int(n);
    else if (key == "name") d.name = value;
    else if (key == "kernel_ns") d.kernel_ns = n;
    else if (key == "gap_ns") d.gap_ns = n;
    else if (key == "init") d.init = int(n);
    else if (key == "refuse") d.refuse = int(n);
    else if (key == "once") d.once = value;
    else if (key == "fault") {
      unsigned long long error = 0, which = 0;
      if (std::sscanf(value.c_str(), "%llu@%llu", &error, &which) != 2) return false;
      d.fault = int(error), d.fault_at = d.kernels_run + which;
    } else return false;
  }
  return true;
}

// The environment's settings come first, so that a test's later settings override them.
void configure_by_environment() {
  if (driver().configured) return;
  driver().configured = true;
  const char* text = std::getenv("FMHA_CUDA_STANDIN");
  if (text && !configure(text)) {
    std::fprintf(stderr, "FMHA_CUDA_STANDIN is not understood: %s\n", text);
    std::abort();
  }
}

// Errors that end a context. Every call after one of them returns it again.
bool sticky(int error) { return error == 214 || (error >= 700 && error < 722 && error != 701 && error != 704 && error != 705); }

// The first check of every call that needs a context.
int alive(const char* name) {
  Driver& d = driver();
  if (!d.started) return fail(NotInitialized, std::string(name) + ": cuInit was not called");
  if (d.dead) return fail(d.dead, std::string(name) + ": the context is dead");
  if (d.context < 0) return fail(InvalidContext, std::string(name) + ": no context is current");
  return Success;
}

// The end of the work so far, where a kernel's error appears.
int settle() {
  Driver& d = driver();
  if (d.pending) {
    d.dead = sticky(d.pending) ? d.pending : 0;
    const int error = d.pending;
    d.pending = 0;
    return fail(error, "a kernel ended with an error");
  }
  return Success;
}

#define REQUIRE_CONTEXT(name)                          \
  Guard guard(driver().mutex);                         \
  if (const int error = alive(name); error) return error

// The allocation that holds [address, address + bytes), or nullptr.
char* holder(const void* address, size_t bytes) {
  char* at = const_cast<char*>(static_cast<const char*>(address));
  auto& blocks = driver().blocks;
  auto it = blocks.upper_bound(at);
  if (it == blocks.begin()) return nullptr;
  --it;
  return at + bytes <= it->first + it->second ? it->first : nullptr;
}

bool touches(const void* address, size_t bytes) {
  const char* at = static_cast<const char*>(address);
  for (const auto& [start, size] : driver().blocks)
    if (at < start + size && start < at + bytes) return true;
  return false;
}

// ---- Cubins ----

uint32_t word(const char* at) {
  uint32_t out;
  std::memcpy(&out, at, 4);
  return out;
}

// Fills in the kernels of a cubin; an error if it is not a cubin or is for another architecture.
int read_cubin(const char* image, Module& out) {
  Driver& d = driver();
  const auto* head = reinterpret_cast<const Elf64_Ehdr*>(image);
  if (std::memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != 190)
    return fail(InvalidImage, "cuModuleLoadData: no ELF of machine EM_CUDA");
  // The architecture's number: from CUDA 13 on, bits 8 to 15 of the flags; before, the lowest byte.
  const uint32_t flags = head->e_flags;
  const int sm = head->e_ident[EI_ABIVERSION] >= 8 ? int(flags >> 8 & 0xff) : int(flags & 0xff);
  const bool exact = head->e_ident[EI_ABIVERSION] >= 8 && flags & 8;  // the suffix "a"
  if (sm / 10 != d.major || sm % 10 > d.minor || (exact && sm % 10 != d.minor))
    return fail(NoBinaryForGpu, "cuModuleLoadData: a cubin for sm_" + number(sm));
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image + head->e_shoff);
  const char* names = image + sections[head->e_shstrndx].sh_offset;
  for (int i = 0; i < head->e_shnum; ++i) {
    const std::string text = names + sections[i].sh_name;
    if (text.rfind(".text.", 0) != 0) continue;
    Kernel kernel{text.substr(6), 0, 0, int(sections[i].sh_info >> 24)};
    for (int j = 0; j < head->e_shnum; ++j) {
      const std::string other = names + sections[j].sh_name;
      // From sm_90 on, the compiler includes the driver's share of a block's shared memory.
      const size_t reserved = sm >= 90 ? 1024 : 0;
      if (other == ".nv.shared." + kernel.symbol && sections[j].sh_size > reserved)
        kernel.static_shared = sections[j].sh_size - reserved;
      if (other != ".nv.info." + kernel.symbol) continue;
      // Each record has a format, an attribute, and either two bytes of value, or a size and that many bytes.
      const char* at = image + sections[j].sh_offset;
      const char* end = at + sections[j].sh_size;
      while (at + 4 <= end) {
        const unsigned format = static_cast<unsigned char>(at[0]), attribute = static_cast<unsigned char>(at[1]);
        const unsigned value = word(at) >> 16;
        if (format == 3 && attribute == 0x19) kernel.parameter_bytes = value;  // CBANK_PARAM_SIZE
        at += 4 + (format == 4 ? value : 0);
      }
    }
    out.kernels.push_back(kernel);
  }
  return Success;
}

// ---- Work ----

void run(const Launch& launch, bool replayed) {
  Driver& d = driver();
  d.launches.push_back({launch, replayed, launch.kernel->symbol});
  d.clock += d.kernel_ns + (replayed ? 0 : d.gap_ns);
  ++d.kernels_run;
  if (d.pending) return;  // the context is already dead, but no call has reported it
  if (d.fault && d.kernels_run == d.fault_at) {
    bool strikes = true;
    if (!d.once.empty()) {
      std::FILE* mark = std::fopen(d.once.c_str(), "wx");
      strikes = mark != nullptr;
      if (mark) std::fclose(mark);
    }
    if (strikes) {
      d.pending = d.fault;
      return;
    }
  }
  if (d.hook) {
    const Launch& l = d.launches.back().launch;
    const FmhaStandinLaunch told{d.launches.back().symbol.c_str(),
                                 {l.grid[0], l.grid[1], l.grid[2]},
                                 {l.block[0], l.block[1], l.block[2]},
                                 l.shared,
                                 l.parameters.data(),
                                 l.parameters.size(),
                                 replayed};
    d.pending = d.hook(&told);
  }
}

void perform(const Node& node, bool replayed) {
  Driver& d = driver();
  switch (node.kind) {
    case Node::Run: run(node.launch, replayed); break;
    case Node::Fill:
      std::memset(node.to, node.value, node.bytes);
      d.clock += 1 + node.bytes / 4096;
      break;
    case Node::Move:
      std::memmove(node.to, node.from, node.bytes);
      d.clock += 1 + node.bytes / 4096;
      break;
    case Node::Mark: node.event->at = d.clock, node.event->recorded = true; break;
  }
}

int queue(void* handle, Node node, const char* name) {
  Driver& d = driver();
  auto* stream = static_cast<Stream*>(handle);
  if (stream && !d.streams.count(stream)) return fail(InvalidHandle, std::string(name) + ": no such stream");
  if (stream && stream->capturing) {
    stream->captured.push_back(std::move(node));
    return Success;
  }
  perform(node, false);
  return Success;
}

// Work that is forbidden while any stream captures.
int quiet(const char* name) {
  for (Stream* stream : driver().streams)
    if (stream->capturing) {
      stream->broken = true;
      return fail(StreamCaptureUnsupported, std::string(name) + ": a stream is capturing");
    }
  return Success;
}

// ---- The driver's functions ----

int init(unsigned) {
  Guard guard(driver().mutex);
  Driver& d = driver();
  configure_by_environment();
  if (d.init) return fail(d.init, "cuInit: refused, as was asked for");
  if (!d.devices) return fail(NoDevice, "cuInit: no device");
  d.started = true;
  return Success;
}
int driver_version(int* out) { return *out = driver().version, Success; }
int device_count(int* out) {
  if (!driver().started) return fail(NotInitialized, "cuDeviceGetCount: cuInit was not called");
  return *out = driver().devices, Success;
}
int device_get(int* out, int ordinal) {
  if (!driver().started) return fail(NotInitialized, "cuDeviceGet: cuInit was not called");
  if (ordinal < 0 || ordinal >= driver().devices) return fail(InvalidDevice, "cuDeviceGet: no device " + std::to_string(ordinal));
  return *out = ordinal, Success;
}
int device_name(char* out, int length, int) {
  if (length > 0) std::snprintf(out, size_t(length), "%s", driver().name.c_str());
  return Success;
}
int device_memory(size_t* out, int) { return *out = driver().memory, Success; }
int device_attribute(int* out, int attribute, int device) {
  Driver& d = driver();
  if (device < 0 || device >= d.devices) return fail(InvalidDevice, "cuDeviceGetAttribute: no such device");
  switch (attribute) {
    case 1: *out = 1024; break;             // MAX_THREADS_PER_BLOCK
    case 8: *out = 48 << 10; break;         // MAX_SHARED_MEMORY_PER_BLOCK
    case 10: *out = 32; break;              // WARP_SIZE
    case 16: *out = d.units; break;         // MULTIPROCESSOR_COUNT
    case 18: *out = 0; break;               // INTEGRATED
    case 38: *out = d.l2; break;            // L2_CACHE_SIZE
    case 75: *out = d.major; break;         // COMPUTE_CAPABILITY_MAJOR
    case 76: *out = d.minor; break;         // COMPUTE_CAPABILITY_MINOR
    case 81: *out = d.shared + 1024; break; // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    case 97: *out = d.shared; break;        // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    default: return fail(InvalidValue, "cuDeviceGetAttribute: attribute " + std::to_string(attribute) + " is not played");
  }
  return Success;
}
int context_retain(void** out, int device) {
  Guard guard(driver().mutex);
  if (driver().dead) return fail(driver().dead, "cuDevicePrimaryCtxRetain: the context is dead");
  if (device < 0 || device >= driver().devices) return fail(InvalidDevice, "cuDevicePrimaryCtxRetain: no such device");
  *out = reinterpret_cast<void*>(uintptr_t(device) + 1);
  return Success;
}
int context_current(void* context) {
  Guard guard(driver().mutex);
  if (driver().dead) return fail(driver().dead, "cuCtxSetCurrent: the context is dead");
  driver().context = int(reinterpret_cast<uintptr_t>(context)) - 1;
  return Success;
}

int memory_get(uint64_t* out, size_t bytes) {
  REQUIRE_CONTEXT("cuMemAlloc");
  Driver& d = driver();
  if (const int error = quiet("cuMemAlloc"); error) return error;
  if (!bytes) return fail(InvalidValue, "cuMemAlloc: no bytes");
  if (bytes > d.memory - d.used) return fail(OutOfMemory, "cuMemAlloc: " + number(bytes) + " bytes");
  const size_t rounded = (bytes + 4095) / 4096 * 4096;
  char* block = static_cast<char*>(std::aligned_alloc(4096, rounded));
  if (!block) return fail(OutOfMemory, "cuMemAlloc: " + number(bytes) + " bytes");
  if (bytes <= (size_t(1) << 28)) std::memset(block, 0xA5, rounded);
  d.blocks[block] = bytes;
  d.used += bytes;
  *out = reinterpret_cast<uint64_t>(block);
  return Success;
}
int memory_free(uint64_t address) {
  REQUIRE_CONTEXT("cuMemFree");
  Driver& d = driver();
  auto it = d.blocks.find(reinterpret_cast<char*>(address));
  if (it == d.blocks.end()) return fail(InvalidValue, "cuMemFree: not the start of an allocation");
  d.used -= it->second;
  std::free(it->first);
  d.blocks.erase(it);
  return settle();
}
int copy_in(uint64_t to, const void* from, size_t bytes) {
  REQUIRE_CONTEXT("cuMemcpyHtoD");
  if (const int error = quiet("cuMemcpyHtoD"); error) return error;
  if (const int error = settle(); error) return error;
  if (bytes && (!holder(reinterpret_cast<void*>(to), bytes) || touches(from, bytes)))
    return fail(InvalidValue, "cuMemcpyHtoD: " + number(bytes) + " bytes do not lie on the device, or come from it");
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return Success;
}
int copy_out(void* to, uint64_t from, size_t bytes) {
  REQUIRE_CONTEXT("cuMemcpyDtoH");
  if (const int error = quiet("cuMemcpyDtoH"); error) return error;
  if (const int error = settle(); error) return error;
  if (bytes && (!holder(reinterpret_cast<void*>(from), bytes) || touches(to, bytes)))
    return fail(InvalidValue, "cuMemcpyDtoH: " + number(bytes) + " bytes do not lie on the device, or go to it");
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return Success;
}
int copy_within(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  REQUIRE_CONTEXT("cuMemcpyDtoDAsync");
  if (bytes && (!holder(reinterpret_cast<void*>(to), bytes) || !holder(reinterpret_cast<void*>(from), bytes)))
    return fail(InvalidValue, "cuMemcpyDtoDAsync: " + number(bytes) + " bytes do not lie on the device");
  Node node{};
  node.kind = Node::Move, node.to = reinterpret_cast<char*>(to), node.from = reinterpret_cast<char*>(from), node.bytes = bytes;
  return queue(stream, std::move(node), "cuMemcpyDtoDAsync");
}
int fill(uint64_t to, unsigned char value, size_t bytes, void* stream) {
  REQUIRE_CONTEXT("cuMemsetD8Async");
  if (bytes && !holder(reinterpret_cast<void*>(to), bytes))
    return fail(InvalidValue, "cuMemsetD8Async: " + number(bytes) + " bytes do not lie on the device");
  Node node{};
  node.kind = Node::Fill, node.to = reinterpret_cast<char*>(to), node.value = value, node.bytes = bytes;
  return queue(stream, std::move(node), "cuMemsetD8Async");
}

int stream_create(void** out, unsigned) {
  REQUIRE_CONTEXT("cuStreamCreate");
  auto* stream = new Stream;
  driver().streams.insert(stream);
  return *out = stream, Success;
}
int stream_destroy(void* handle) {
  REQUIRE_CONTEXT("cuStreamDestroy");
  auto* stream = static_cast<Stream*>(handle);
  if (!driver().streams.erase(stream)) return fail(InvalidHandle, "cuStreamDestroy: no such stream");
  delete stream;
  return Success;
}
int stream_wait(void* handle) {
  REQUIRE_CONTEXT("cuStreamSynchronize");
  auto* stream = static_cast<Stream*>(handle);
  if (stream && !driver().streams.count(stream)) return fail(InvalidHandle, "cuStreamSynchronize: no such stream");
  if (const int error = quiet("cuStreamSynchronize"); error) return error;
  return settle();
}

int event_create(void** out, unsigned) {
  REQUIRE_CONTEXT("cuEventCreate");
  auto* event = new Event;
  driver().events.insert(event);
  return *out = event, Success;
}
int event_destroy(void* handle) {
  REQUIRE_CONTEXT("cuEventDestroy");
  auto* event = static_cast<Event*>(handle);
  if (!driver().events.erase(event)) return fail(InvalidHandle, "cuEventDestroy: no such event");
  delete event;
  return Success;
}
int mark(void* handle, void* stream, bool external, const char* name) {
  auto* event = static_cast<Event*>(handle);
  if (!driver().events.count(event)) return fail(InvalidHandle, std::string(name) + ": no such event");
  auto* on = static_cast<Stream*>(stream);
  if (on && driver().streams.count(on) && on->capturing && !external) return Success;  // a dependency, not a time stamp
  Node node{};
  node.kind = Node::Mark, node.event = event;
  return queue(stream, std::move(node), name);
}
int event_record(void* event, void* stream) {
  REQUIRE_CONTEXT("cuEventRecord");
  return mark(event, stream, false, "cuEventRecord");
}
int event_record_flags(void* event, void* stream, unsigned flags) {
  REQUIRE_CONTEXT("cuEventRecordWithFlags");
  return mark(event, stream, flags & 1, "cuEventRecordWithFlags");
}
int event_elapsed(float* out, void* start, void* stop) {
  REQUIRE_CONTEXT("cuEventElapsedTime");
  auto *a = static_cast<Event*>(start), *b = static_cast<Event*>(stop);
  if (!driver().events.count(a) || !driver().events.count(b) || !a->recorded || !b->recorded)
    return fail(InvalidHandle, "cuEventElapsedTime: an event that was not recorded");
  if (const int error = settle(); error) return error;
  *out = float(double(b->at) - double(a->at)) / 1e6f;
  return Success;
}

int module_load(void** out, const void* image) {
  REQUIRE_CONTEXT("cuModuleLoadData");
  auto* module = new Module;
  if (const int error = read_cubin(static_cast<const char*>(image), *module); error) {
    delete module;
    return error;
  }
  driver().modules.insert(module);
  return *out = module, Success;
}
int module_unload(void* handle) {
  REQUIRE_CONTEXT("cuModuleUnload");
  auto* module = static_cast<Module*>(handle);
  if (!driver().modules.erase(module)) return fail(InvalidHandle, "cuModuleUnload: no such module");
  delete module;
  return Success;
}
int module_function(void** out, void* handle, const char* name) {
  REQUIRE_CONTEXT("cuModuleGetFunction");
  auto* module = static_cast<Module*>(handle);
  if (!driver().modules.count(module)) return fail(InvalidHandle, "cuModuleGetFunction: no such module");
  for (Kernel& kernel : module->kernels)
    if (kernel.symbol == name) return *out = &kernel, Success;
  return fail(NotFound, std::string("cuModuleGetFunction: no kernel ") + name);
}
Kernel* known(void* handle) {
  for (Module* module : driver().modules)
    for (Kernel& kernel : module->kernels)
      if (&kernel == handle) return &kernel;
  return nullptr;
}
int function_get(int* out, int attribute, void* handle) {
  REQUIRE_CONTEXT("cuFuncGetAttribute");
  Kernel* kernel = known(handle);
  if (!kernel) return fail(InvalidHandle, "cuFuncGetAttribute: no such function");
  switch (attribute) {
    case 0: *out = 1024; break;                         // MAX_THREADS_PER_BLOCK
    case 1: *out = int(kernel->static_shared); break;   // SHARED_SIZE_BYTES
    case 3: *out = 0; break;                            // LOCAL_SIZE_BYTES
    case 4: *out = kernel->registers; break;            // NUM_REGS
    case 8: *out = int(kernel->allowed_shared); break;  // MAX_DYNAMIC_SHARED_SIZE_BYTES
    default: return fail(InvalidValue, "cuFuncGetAttribute: attribute " + std::to_string(attribute) + " is not played");
  }
  return Success;
}
int function_set(void* handle, int attribute, int value) {
  REQUIRE_CONTEXT("cuFuncSetAttribute");
  Kernel* kernel = known(handle);
  if (!kernel) return fail(InvalidHandle, "cuFuncSetAttribute: no such function");
  if (attribute != 8) return fail(InvalidValue, "cuFuncSetAttribute: attribute " + std::to_string(attribute));
  if (value < 0 || value + int(kernel->static_shared) > driver().shared)
    return fail(InvalidValue, "cuFuncSetAttribute: " + std::to_string(value) + " bytes of shared memory");
  kernel->allowed_shared = size_t(value);
  return Success;
}

int launch(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
           void* stream, void** parameters, void** extra) {
  REQUIRE_CONTEXT("cuLaunchKernel");
  Driver& d = driver();
  Kernel* kernel = known(function);
  if (!kernel) return fail(InvalidHandle, "cuLaunchKernel: no such function");
  if (d.refuse) return fail(d.refuse, kernel->symbol + ": refused, as was asked for");
  if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535)
    return fail(InvalidValue, kernel->symbol + ": a grid of " + number(gx) + ", " + number(gy) + ", " + number(gz));
  const uint64_t threads = uint64_t(bx) * by * bz;
  if (!threads || threads > 1024 || bz > 64) return fail(InvalidValue, kernel->symbol + ": a block of " + number(threads) + " threads");
  if (shared > kernel->allowed_shared)
    return fail(InvalidValue, kernel->symbol + ": " + number(shared) + " bytes of shared memory without consent");
  if (parameters || !extra) return fail(InvalidValue, kernel->symbol + ": only packed parameters are played");
  const void* data = nullptr;
  size_t bytes = 0;
  for (void** at = extra; *at; at += 2) {
    if (*at == reinterpret_cast<void*>(1)) data = at[1];
    else if (*at == reinterpret_cast<void*>(2)) bytes = *static_cast<size_t*>(at[1]);
    else return fail(InvalidValue, kernel->symbol + ": an unknown entry in the launch's extra");
  }
  if (!data || (kernel->parameter_bytes && bytes != kernel->parameter_bytes))
    return fail(InvalidValue, kernel->symbol + ": " + number(bytes) + " bytes of parameters, it takes " + number(kernel->parameter_bytes));
  const auto* first = static_cast<const unsigned char*>(data);
  Node node{};
  node.kind = Node::Run;
  node.launch = {kernel, {gx, gy, gz}, {bx, by, bz}, shared, {first, first + bytes}};
  return queue(stream, std::move(node), "cuLaunchKernel");
}

int tensor_map(void* out, int type, uint32_t rank, uint64_t address, const uint64_t* shape, const uint64_t* strides,
               const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
  Guard guard(driver().mutex);
  const char* why = driver().major < 9 ? "the device has no TMA"
                                       : encode_tensor_map(out, type, rank, address, shape, strides, box, steps, interleave,
                                                           swizzle, promotion, fill);
  return why ? fail(InvalidValue, std::string("cuTensorMapEncodeTiled: ") + why) : int(Success);
}

int capture_begin(void* handle, int) {
  REQUIRE_CONTEXT("cuStreamBeginCapture");
  auto* stream = static_cast<Stream*>(handle);
  if (!driver().streams.count(stream)) return fail(StreamCaptureUnsupported, "cuStreamBeginCapture: the default stream");
  if (stream->capturing) return fail(InvalidValue, "cuStreamBeginCapture: it is capturing");
  stream->capturing = true, stream->broken = false;
  stream->captured.clear();
  return Success;
}
int capture_end(void* handle, void** out) {
  REQUIRE_CONTEXT("cuStreamEndCapture");
  auto* stream = static_cast<Stream*>(handle);
  *out = nullptr;
  if (!driver().streams.count(stream) || !stream->capturing) return fail(InvalidValue, "cuStreamEndCapture: not capturing");
  stream->capturing = false;
  if (stream->broken) return fail(StreamCaptureInvalidated, "cuStreamEndCapture: the capture was broken");
  auto* graph = new Graph{std::move(stream->captured)};
  driver().graphs.insert(graph);
  return *out = graph, Success;
}
int graph_instantiate(void** out, void* handle, unsigned long long) {
  REQUIRE_CONTEXT("cuGraphInstantiateWithFlags");
  auto* graph = static_cast<Graph*>(handle);
  if (!driver().graphs.count(graph)) return fail(InvalidValue, "cuGraphInstantiateWithFlags: no such graph");
  auto* exec = new Graph{graph->nodes};
  driver().execs.insert(exec);
  return *out = exec, Success;
}
int graph_launch(void* handle, void* stream) {
  REQUIRE_CONTEXT("cuGraphLaunch");
  auto* exec = static_cast<Graph*>(handle);
  if (!driver().execs.count(exec)) return fail(InvalidValue, "cuGraphLaunch: no such graph");
  if (!driver().streams.count(static_cast<Stream*>(stream))) return fail(InvalidHandle, "cuGraphLaunch: no such stream");
  ++driver().graph_launches;
  driver().clock += driver().gap_ns;
  for (const Node& node : exec->nodes) perform(node, true);
  return Success;
}
int graph_destroy(void* handle) {
  REQUIRE_CONTEXT("cuGraphDestroy");
  auto* graph = static_cast<Graph*>(handle);
  if (!driver().graphs.erase(graph)) return fail(InvalidValue, "cuGraphDestroy: no such graph");
  delete graph;
  return Success;
}
int exec_destroy(void* handle) {
  REQUIRE_CONTEXT("cuGraphExecDestroy");
  auto* exec = static_cast<Graph*>(handle);
  if (!driver().execs.erase(exec)) return fail(InvalidValue, "cuGraphExecDestroy: no such graph");
  delete exec;
  return Success;
}

struct Word {
  int number;
  const char *name, *text;
};
constexpr Word words[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
};
int error_string(int error, const char** out) {
  for (const Word& it : words)
    if (it.number == error) return *out = it.text, Success;
  return *out = nullptr, InvalidValue;
}
int error_name(int error, const char** out) {
  for (const Word& it : words)
    if (it.number == error) return *out = it.name, Success;
  return *out = nullptr, InvalidValue;
}

}  // namespace

API int cuGetProcAddress_v2(const char* name, void** out, int, uint64_t, int* status);

namespace {

struct Entry {
  const char* name;
  void* function;
};

#define ENTRY(name, function) {name, reinterpret_cast<void*>(&function)}

const Entry entries[] = {
    ENTRY("cuInit", init),
    ENTRY("cuDriverGetVersion", driver_version),
    ENTRY("cuDeviceGetCount", device_count),
    ENTRY("cuDeviceGet", device_get),
    ENTRY("cuDeviceGetName", device_name),
    ENTRY("cuDeviceTotalMem", device_memory),
    ENTRY("cuDeviceGetAttribute", device_attribute),
    ENTRY("cuDevicePrimaryCtxRetain", context_retain),
    ENTRY("cuCtxSetCurrent", context_current),
    ENTRY("cuMemAlloc", memory_get),
    ENTRY("cuMemFree", memory_free),
    ENTRY("cuMemcpyHtoD", copy_in),
    ENTRY("cuMemcpyDtoH", copy_out),
    ENTRY("cuMemcpyDtoDAsync", copy_within),
    ENTRY("cuMemsetD8Async", fill),
    ENTRY("cuStreamCreate", stream_create),
    ENTRY("cuStreamDestroy", stream_destroy),
    ENTRY("cuStreamSynchronize", stream_wait),
    ENTRY("cuEventCreate", event_create),
    ENTRY("cuEventDestroy", event_destroy),
    ENTRY("cuEventRecord", event_record),
    ENTRY("cuEventRecordWithFlags", event_record_flags),
    ENTRY("cuEventElapsedTime", event_elapsed),
    ENTRY("cuModuleLoadData", module_load),
    ENTRY("cuModuleUnload", module_unload),
    ENTRY("cuModuleGetFunction", module_function),
    ENTRY("cuFuncGetAttribute", function_get),
    ENTRY("cuFuncSetAttribute", function_set),
    ENTRY("cuLaunchKernel", launch),
    ENTRY("cuStreamBeginCapture", capture_begin),
    ENTRY("cuStreamEndCapture", capture_end),
    ENTRY("cuGraphInstantiateWithFlags", graph_instantiate),
    ENTRY("cuGraphLaunch", graph_launch),
    ENTRY("cuGraphDestroy", graph_destroy),
    ENTRY("cuGraphExecDestroy", exec_destroy),
    ENTRY("cuTensorMapEncodeTiled", tensor_map),
    ENTRY("cuGetProcAddress", cuGetProcAddress_v2),
    ENTRY("cuGetErrorString", error_string),
    ENTRY("cuGetErrorName", error_name),
};

}  // namespace

API int cuGetProcAddress_v2(const char* name, void** out, int, uint64_t, int* status) {
  *out = nullptr;
  for (const Entry& entry : entries)
    if (!std::strcmp(entry.name, name)) *out = entry.function;
  if (status) *status = *out ? 0 : 1;
  return *out ? Success : NotFound;
}

// ---- The tests' interface ----

// Returns false if the text is not understood.
API int fmha_standin_configure(const char* text) {
  Guard guard(driver().mutex);
  configure_by_environment();
  return configure(text);
}
API void fmha_standin_hook(Hook hook) {
  Guard guard(driver().mutex);
  driver().hook = hook;
}
API uint64_t fmha_standin_launches() { return driver().launches.size(); }
API void fmha_standin_launch(uint64_t index, FmhaStandinLaunch* out) {
  Guard guard(driver().mutex);
  const Recorded& it = driver().launches.at(index);
  const Launch& l = it.launch;
  *out = {it.symbol.c_str(), {l.grid[0], l.grid[1], l.grid[2]}, {l.block[0], l.block[1], l.block[2]}, l.shared,
          l.parameters.data(), l.parameters.size(), it.replayed};
}
// Whether these bytes lie in one allocation.
API int fmha_standin_holds(uint64_t address, uint64_t bytes) {
  Guard guard(driver().mutex);
  return holder(reinterpret_cast<void*>(address), bytes) != nullptr;
}
API void fmha_standin_forget() { driver().launches.clear(); }
API const char* fmha_standin_complaint() { return driver().complaint.c_str(); }
API uint64_t fmha_standin_bytes_in_use() { return driver().used; }
// Streams, events, modules, graphs and their executables that were not destroyed.
API uint64_t fmha_standin_objects() {
  const Driver& d = driver();
  return d.streams.size() + d.events.size() + d.modules.size() + d.graphs.size() + d.execs.size();
}
API uint64_t fmha_standin_graph_launches() { return driver().graph_launches; }
