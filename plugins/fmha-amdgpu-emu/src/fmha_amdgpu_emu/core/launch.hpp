// A launch: a kernel of a loaded program, a grid, arguments, and the outcome.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "emu_careful.hpp"
#include "report.hpp"
#include "wave.hpp"

namespace emu {

// A kernel as its descriptor and the metadata describe it (LLVM AMDGPU backend guide, "Kernel Descriptor").
struct Kernel {
  std::string name;
  const Inst* entry = nullptr;
  uint32_t lds_bytes = 0, scratch_bytes = 0, kernarg_bytes = 0;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0, properties = 0, preload = 0;
  uint32_t most_workitems = 0;         // of a workgroup, by the metadata; 0: not stated
  uint64_t descriptor = 0;             // address of NAME.kd in the code object
  bool dynamic_stack = false;
  struct Argument { uint32_t offset, size; std::string kind; };  // metadata .args, hidden ones included
  std::vector<Argument> arguments;
};

// A loaded code object: decoded instructions, data segments in host memory, kernels by name.
struct Program;
std::shared_ptr<Program> load_program(const uint8_t* elf, size_t bytes);  // throws LoadError
const Kernel* find_kernel(const Program& program, const std::string& name);
std::vector<std::string> kernel_names(const Program& program);
const ArchTraits& arch_of(const Program& program);
uint64_t symbol_address(const Program& program, const std::string& name, uint64_t* bytes);  // 0: no such symbol

struct LoadError {
  std::string why;
};

struct Options {
  uint64_t seed = 0;        // order of waves between barriers
  uint64_t turn = 0;        // instructions of a wave before another one's turn; 0: up to a barrier
  int threads = 1;          // workgroups at once
  bool track = true;        // pending, undefined, races
  bool strict = false;      // LDS reads that are outstanding at a barrier are not ordered by it
  uint64_t most_instructions = 0;  // of one wave; 0: no limit (the supervisor ends an endless loop)
};

// What a launch did; summed over waves.
struct Counts {
  uint64_t instructions = 0;
  uint64_t classes[int(Class::Count)] = {};
  uint64_t matrix_flops = 0;           // 2 x multiply-adds of matrix instructions
  uint64_t global_read = 0, global_written = 0, scratch_read = 0, scratch_written = 0, scalar_read = 0;  // bytes
  uint64_t lds_read = 0, lds_written = 0;
  uint64_t lds_accesses = 0, lds_conflict_cycles = 0;  // cycles beyond the conflict-free ones
  uint64_t buffer_out_of_range = 0;    // lanes beyond num_records: read zero or dropped, by the ISA
  uint64_t barriers = 0;               // wave arrivals
  void add(const Counts& other);
};

struct Launch {
  const Program* program = nullptr;
  const Kernel* kernel = nullptr;
  Dim3 grid, block;                    // workgroups; work-items
  Dim3 items{0, 0, 0};                 // work-items of the whole grid, where the last workgroups are partial; 0: full ones
  uint32_t dynamic_lds = 0;
  std::vector<uint8_t> kernargs;       // packed, hidden arguments filled
  Options options;
  Report* report = nullptr;
  // Filled by run():
  Counts counts;
  std::string fault;                   // why it stopped; empty: it reached its end
};

// Executes. Never throws; `fault` says what stopped it (an unimplemented instruction with mnemonic, address, kernel).
void run(Launch& launch);

// A clock that only moves forwards: the instructions that this thread has executed. It is not the time of any device.
uint64_t ticks();

// The counters of the wave that runs on this thread. Memory, LDS and matrix handlers add to them.
Counts& counts();

}  // namespace emu
