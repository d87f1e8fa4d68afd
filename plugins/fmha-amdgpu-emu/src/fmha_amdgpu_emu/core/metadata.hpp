// The metadata note of a code object (LLVM AMDGPU backend guide, "Code Object Metadata"): kernels and their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch.hpp"

namespace emu {

struct KernelMetadata {
  std::string name, symbol;  // NAME, NAME.kd
  uint32_t lds_bytes = 0, scratch_bytes = 0, kernarg_bytes = 0, wavefront = 0, most_workitems = 0;
  uint32_t vgprs = 0, agprs = 0;
  bool dynamic_stack = false;
  std::vector<Kernel::Argument> arguments;
};

// Throws LoadError where the note is damaged. Skips unknown keys.
std::vector<KernelMetadata> read_metadata(const std::vector<uint8_t>& msgpack);

}  // namespace emu
