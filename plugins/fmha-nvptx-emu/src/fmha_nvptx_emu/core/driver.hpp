// The stand-in for the CUDA driver: what a process's calls made. A launch is over when its call returns, so streams and
// events only keep order; times are a counter.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "launch.hpp"
#include "memory.hpp"

namespace ptx {

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
  InvalidPtx = 218,
  InvalidHandle = 400,
  NotFound = 500,
  LaunchFailed = 719,
  NotSupported = 801,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
};

// The facts of a device: device_facts.py writes them from arch_specs/.
struct DeviceRow {
  const char* name;   // "sm_80"
  const char* title;
  int major, minor, units, shared_block, shared_optin, shared_unit, threads_unit, blocks_unit, registers_unit, l2_bytes;
};

struct LoadedModule;
struct LoadedFunction {
  LoadedModule* module;
  const Kernel* kernel;
  size_t allowed_shared = 48 << 10;
};
struct LoadedModule {
  std::unique_ptr<Program> program;
  std::deque<LoadedFunction> functions;
};

struct LaunchRequest {
  LoadedFunction* function;
  uint32_t grid[3], block[3], cluster[3];
  size_t shared;
  std::vector<uint8_t> parameters;
};
struct Event {
  bool recorded = false;
  uint64_t at = 0;
};
struct Node {  // an operation of a stream, kept by graphs
  enum Kind { Run, Fill, Move, Mark } kind;
  LaunchRequest launch;
  uint8_t* to;
  const uint8_t* from;
  uint32_t value;
  unsigned width;  // of a fill's element
  size_t bytes;
  Event* event;
};
struct Stream {
  bool capturing = false, broken = false;
  std::vector<Node> captured;
};
struct Graph {
  std::vector<Node> nodes;
};
struct Watch {
  uint64_t bytes;
  std::vector<Region> regions;  // relative to its start
};

struct Driver {
  std::recursive_mutex mutex;
  const DeviceRow* device = nullptr;
  bool started = false;
  std::string complaint;
  int context = -1, failed = 0;  // failed: every later call returns it
  uint64_t clock = 0, memory = 0, used = 0, launches = 0;
  Options options;
  std::map<uint8_t*, size_t> blocks;
  std::map<uint64_t, Watch> watches;  // by the host's address
  std::set<LoadedModule*> modules;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Graph*> graphs, execs;
  // What launches observed since the last `take`.
  std::vector<Found> findings;
  std::vector<std::string> executed;
  std::string fault, taken;
};

Driver& driver();
const DeviceRow* device_named(const std::string& name);
using Guard = std::lock_guard<std::recursive_mutex>;

int fail(int error, const std::string& complaint);
int alive(const char* call);              // 0, or the error of a call that needs a context
int quiet(const char* call);              // 0, or the error of a call that is forbidden while a stream captures
int queue(void* stream, Node node, const char* call);
int perform(const Node& node);
uint8_t* holder(const void* address, size_t bytes);
LoadedFunction* function_of(void* handle);
void observe(const LaunchRequest& request, std::vector<Found> findings, const Launch& launch);
void report_line(const std::string& json);

#define REQUIRE_CONTEXT(name)                  \
  Guard guard(driver().mutex);                 \
  if (const int error = alive(name); error) return error

struct Entry {
  const char* name;
  void* function;
};
#define ENTRY(name, function) {name, reinterpret_cast<void*>(&function)}
struct Entries {
  const Entry* rows;
  size_t count;
};
extern const Entries kDeviceEntries, kMemoryEntries, kStreamEntries, kModuleEntries, kTensorMapEntries;

}  // namespace ptx
