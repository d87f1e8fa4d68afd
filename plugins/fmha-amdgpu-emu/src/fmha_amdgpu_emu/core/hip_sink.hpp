// What stands behind the host API: who owns device memory, code objects and launches. The recorder writes launches
// down; an emulator executes them. Each library defines `sink()` once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hip_types.hpp"

namespace fmha::hip {

// A fat binary that host code registered, or a module that was loaded.
struct Module {
  const void* image = nullptr;       // a bundle, or a code object
  size_t bytes = 0;                  // 0: unknown, as registered binaries are
  bool live = true;
  std::vector<char> owned;           // the image, where it was read from a file or copied
  std::shared_ptr<void> code;        // the sink's own, once it was asked for
};

// A kernel of a module; its address is the hipFunction_t.
struct Function {
  std::string name;
  Module* module = nullptr;
  const void* host = nullptr;        // the host's stub; nullptr in modules
};

// A call of a kernel. Arguments come one by one, or packed as the kernel wants them.
struct Request {
  Dim3 grid, block;
  size_t dynamic_lds = 0;
  void* stream = nullptr;
  void** arguments = nullptr;
  const void* packed = nullptr;
  size_t packed_bytes = 0;
};

// What occupancy and attributes are made of.
struct KernelFacts {
  uint32_t lds_bytes = 0, scratch_bytes = 0, vgprs = 0, sgprs = 0, max_threads = 0;
};

// What became of something that was asked of a sink.
struct Outcome {
  Error error = Success;
  std::string why;
};

class Sink {
 public:
  virtual ~Sink() = default;

  virtual int devices() = 0;
  virtual const Properties& properties(int device) = 0;

  // `bytes` of device memory, at least 256 bytes aligned, filled with what no kernel may count on; nullptr: none left.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* address) = 0;
  // Memory of the host that kernels may use from now on, and no longer.
  virtual void adopted(void* address, size_t bytes) = 0;
  virtual void abandoned(void* address) = 0;
  // Host memory was copied to the device.
  virtual void copied_in(const void* host, void* device, size_t bytes) = 0;

  // Make a module's code ready for a device: what hipModuleLoad does at once.
  virtual Outcome open(Module& module, int device) = 0;
  virtual Outcome facts(Function& function, int device, KernelFacts& out) = 0;
  // A variable of a module.
  virtual Outcome global(Module& module, int device, const std::string& name, void** address, size_t* bytes) = 0;
  // The configuration is a valid one. What follows in the stream may assume that the launch is over.
  virtual Outcome launch(Function& function, int device, const Request& request) = 0;
  // A call was used wrongly, or failed: the sentence about it.
  virtual void complained(Error, const std::string&) {}
};

Sink& sink();

}  // namespace fmha::hip
