// The stand-in for the CUDA driver: what a process's calls made. A launch is over when its call returns, so streams and
// events only keep order; times are a counter. It executes launches, or records them (recording.hpp).
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
#include "recording.hpp"

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
  LaunchOutOfResources = 701,
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
struct Parameter {
  size_t offset, bytes;
};
struct LoadedFunction {
  LoadedModule* module = nullptr;
  const Kernel* kernel = nullptr;  // of a PTX text; a cubin has none, so it is recorded and never executed
  std::string name;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;      // of a cubin, 0: it does not state them
  size_t static_shared = 0, local_bytes = 0;
  int registers = 0;               // 0: unknown, because ptxas assigns them
  size_t allowed_shared = 48 << 10;
};
struct LoadedModule {
  std::unique_ptr<Program> program;  // of a PTX text
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
  int devices = 1, version = 13000;
  int context = -1, failed = 0;  // failed: every later call returns it
  uint64_t clock = 0, gap_ns = 0;      // gap_ns: of the host between launches, outside of graphs
  uint64_t kernel_ns = 1000000;        // so long that no program repeats an executed launch to time it better
  uint64_t memory = 0, used = 0, launches = 0;
  Recording recording;
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
int settle();                             // 0, or the error of a recorded kernel, which appears where the host waits
int perform(const Node& node, bool replayed);
uint8_t* holder(const void* address, size_t bytes);
LoadedFunction* function_of(void* handle);
bool runs(const std::string& target);         // whether the device runs PTX for it ("sm_80")
bool is_fatbin(const char* image);
struct NoTextForDevice : Unusable {};
std::string ptx_in_fatbin(const char* image);  // the best text for the device; raises these, or Unusable for a damaged one
std::map<std::string, int> registers_in_fatbin(const char* image);  // by kernel, of its cubins for the device
int read_cubin(const char* image, LoadedModule& out);
int resident_blocks(const LoadedFunction& f, int threads, size_t dynamic_shared);  // that a multiprocessor holds at once
int record(const LaunchRequest& request, bool replayed);
void observe(const LaunchRequest& request, std::vector<Found> findings, const Launch& launch);

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
