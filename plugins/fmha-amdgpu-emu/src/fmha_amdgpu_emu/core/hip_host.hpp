// The state of the host API, and what its parts share.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "hip_sink.hpp"

namespace fmha::hip {

// An allocation, host memory that was registered (type Unregistered), or a variable of a module (owner).
struct Block {
  size_t bytes;
  MemoryType type;
  unsigned flags;
  int device;
  const Module* owner = nullptr;
};

struct Configuration {
  Dim3 grid, block;
  size_t shared;
  void* stream;
};

struct Variable {
  std::string name;
  Module* module;
};

struct Stream;
struct Event;

struct Host {
  std::recursive_mutex mutex;
  std::list<Module> modules;                       // addresses are handles
  std::map<const void*, Function> functions;       // by the host's stub
  std::vector<const void*> order;                  // of registration
  std::map<std::pair<Module*, std::string>, Function> loaded;  // of modules
  std::map<const void*, Variable> variables;       // by the host's shadow
  std::map<char*, Block> blocks;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::string complaint;
  size_t used = 0;
};

Host& host();
using Guard = std::lock_guard<std::recursive_mutex>;

// This thread's device, last error and pushed configurations.
struct Thread {
  int device = 0;
  Error last = Success;
  std::deque<Configuration> configurations;
};
Thread& thread();

// Remember the error and the sentence; returns the error.
Error fail(Error error, const std::string& complaint);
Error fail(const Outcome& outcome);
std::string number(size_t n);

// The device that calls on this thread mean, or an error.
bool no_device(const char* call);
const Properties& current();

// The allocation that holds [address, address + bytes), or end(); whether the bytes touch any allocation.
std::map<char*, Block>::iterator holder(const void* address, size_t bytes);
bool touches(const void* address, size_t bytes);

// A variable of a module: its place, which counts as device memory from now on.
Error variable(Module& module, const std::string& name, void** address, size_t* bytes);
void forget_variables(const Module& module);

// The kernel that a stub or a handle means; nullptr: none.
Function* function_of(const void* stub_or_handle);
Module* module_of(const void* handle);

bool known_stream(const void* stream);

// One linear copy, checked against what the kind says.
Error copy(void* to, const void* from, size_t bytes, int kind, const char* name);
Error launch(const char* call, const void* function, const Request& request);

}  // namespace fmha::hip
