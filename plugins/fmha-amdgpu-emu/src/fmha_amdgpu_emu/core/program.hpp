// A loaded code object: its image in host memory, its decoded instructions, its kernels and symbols.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "elf.hpp"
#include "launch.hpp"
#include "listing.hpp"

namespace emu {

struct Program {
  std::string name;
  const ArchTraits* arch = nullptr;
  std::unique_ptr<Image> image;      // host address = image->bias + address in the code object
  std::unique_ptr<Listing> listing;
  Inst outside;                      // stands behind the code's end and stops the launch
  std::map<std::string, Kernel> kernels;
};

// The instruction at a host address (s_getpc results and function pointers are host addresses); nullptr where there is
// none.
const Inst* code_at(const Program& program, uint64_t host_address);

// Difference of host addresses and addresses in the code object; 0 for a wave without a program.
uint64_t bias_of(const Wave& w);

}  // namespace emu
