// What a driver reads from a cubin: its kernels, the places of their parameters, registers, and static shared memory.
#include <elf.h>

#include <cstring>

#include "driver.hpp"

namespace ptx {

namespace {

// The numbers of .nv.info records, by cuobjdump's names (EIATTR_...).
constexpr unsigned kParameterInfo = 0x17, kParameterBytes = 0x19, kRegisters = 0x2f;
constexpr unsigned kShortValue = 3, kSizedValue = 4;  // formats of a record: two bytes of value; a size and that many bytes
constexpr uint16_t kMachine = 190;                    // EM_CUDA
constexpr unsigned char kNewFlags = 8;  // of the ABI's version: from CUDA 13 on, bits 8 to 15 of the flags have the architecture

template <class T> T at_byte(const char* from) {
  T out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

void read_info(const char* at, size_t bytes, LoadedFunction& out) {
  const char* end = at + bytes;
  while (at + 4 <= end) {
    const unsigned format = at_byte<uint8_t>(at), attribute = at_byte<uint8_t>(at + 1), value = at_byte<uint16_t>(at + 2);
    if (format == kShortValue && attribute == kParameterBytes) out.parameter_bytes = value;
    if (format == kSizedValue && attribute == kParameterInfo && value >= 12 && at + 16 <= end) {
      // index, ordinal, offset, flags: the upper 14 bits of the flags are the size
      const size_t ordinal = at_byte<uint16_t>(at + 8);
      if (out.parameters.size() <= ordinal) out.parameters.resize(ordinal + 1);
      out.parameters[ordinal] = {at_byte<uint16_t>(at + 10), at_byte<uint32_t>(at + 12) >> 18};
    }
    at += 4 + (format == kSizedValue ? value : 0);
  }
}

// Of the function with this symbol; 0 if no record has it. Up to CUDA 12 the upper byte of its section's sh_info is the number too.
int registers_in(const char* at, size_t bytes, uint32_t symbol) {
  const char* end = at + bytes;
  while (at + 4 <= end) {
    const unsigned format = at_byte<uint8_t>(at), attribute = at_byte<uint8_t>(at + 1), value = at_byte<uint16_t>(at + 2);
    if (format == kSizedValue && attribute == kRegisters && value == 8 && at + 12 <= end && at_byte<uint32_t>(at + 4) == symbol)
      return int(at_byte<uint32_t>(at + 8));
    at += 4 + (format == kSizedValue ? value : 0);
  }
  return 0;
}

// A cubin runs on devices of its own major number from its own minor one on; with the suffix "a" on its own device alone.
bool runs_on(const DeviceRow& row, int sm, bool exact) {
  return sm / 10 == row.major && sm % 10 <= row.minor && (!exact || sm % 10 == row.minor);
}

}  // namespace

int read_cubin(const char* image, LoadedModule& out) {
  const auto head = at_byte<Elf64_Ehdr>(image);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != kMachine)
    return fail(InvalidImage, "cuModuleLoadData: no ELF of machine EM_CUDA");
  const bool fresh = head.e_ident[EI_ABIVERSION] >= kNewFlags;
  const int sm = int(fresh ? head.e_flags >> 8 & 0xff : head.e_flags & 0xff);
  if (!runs_on(*driver().device, sm, fresh && head.e_flags & 8))
    return fail(NoBinaryForGpu, "cuModuleLoadData: a cubin for sm_" + std::to_string(sm));
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  std::memcpy(sections.data(), image + head.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  const auto name_of = [&](const Elf64_Shdr& s) { return std::string(image + sections[head.e_shstrndx].sh_offset + s.sh_name); };
  for (const Elf64_Shdr& code : sections) {
    const std::string text = name_of(code);
    if (text.rfind(".text.", 0) != 0) continue;
    LoadedFunction function;
    function.module = &out, function.name = text.substr(6), function.registers = int(code.sh_info >> 24);
    for (const Elf64_Shdr& other : sections) {
      const std::string name = name_of(other);
      const size_t reserved = sm >= 90 ? 1024 : 0;  // the driver's share, which ptxas includes from sm_90 on
      if (name == ".nv.shared." + function.name && other.sh_size > reserved) function.static_shared = other.sh_size - reserved;
      if (name == ".nv.info" && !function.registers) function.registers = registers_in(image + other.sh_offset, other.sh_size, code.sh_info & 0xffffff);
      if (name == ".nv.info." + function.name) read_info(image + other.sh_offset, other.sh_size, function);
    }
    out.functions.push_back(std::move(function));
  }
  return Success;
}

}  // namespace ptx
