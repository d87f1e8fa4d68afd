// AMDGPU code objects: ELF shared objects laid into host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "inst.hpp"

namespace emu {

struct Symbol {
  std::string name;
  uint64_t address = 0, bytes = 0;  // in the code object
  uint8_t type = 0;                 // STT_*
};

// The segments of a code object at their addresses plus `bias`. The image frees its memory when it is destroyed.
struct Image {
  Image() = default;
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image();

  const ArchTraits* arch = nullptr;
  uint8_t abi = 0;                  // EI_ABIVERSION: 2 is code object v4, 3 is v5, 4 is v6
  uint64_t bias = 0;                // host address of address 0
  uint64_t low = 0, high = 0;       // addresses that the segments span
  struct Segment { uint64_t start, end; bool writable, executable; };
  std::vector<Segment> segments;
  std::vector<Symbol> symbols;
  std::vector<uint8_t> metadata;    // msgpack of the NT_AMDGPU_METADATA note
  void* mapping = nullptr;
  size_t mapped_bytes = 0;

  const Symbol* find(const std::string& name) const;
  bool holds(uint64_t address, uint64_t bytes) const;  // inside one segment
  const uint8_t* at(uint64_t address) const { return reinterpret_cast<const uint8_t*>(bias + address); }
};

// Maps and relocates the image, and names its regions in `memory()` "code of NAME", "data of NAME". Throws LoadError
// with a sentence for a file that is damaged or is not an AMDGPU code object of a known architecture.
void load_image(Image& image, const uint8_t* elf, size_t bytes, const std::string& name);

}  // namespace emu
