// The disassembler's text as instructions: parses once for each code object what `llvm-objdump -d` prints for AMDGPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "inst.hpp"

namespace emu {

// A symbol's line: `0000000000002800 <name>:`.
struct Label {
  std::string name;
  uint64_t address;
};

// Instructions in the order of the text, bound to their handlers, with `next` and `target` set. Lines that cannot be
// executed are included, with `problem` set. They stop a launch only when it reaches them.
struct Listing {
  std::vector<Inst> code;  // never moved once read: instructions point to each other
  std::unordered_map<uint64_t, const Inst*> at;
  std::vector<Label> labels;
  std::vector<std::unique_ptr<Inst>> seconds;  // Y halves of dual issues
};

std::unique_ptr<Listing> read_listing(std::string_view text, const ArchTraits& arch);

// One line of code: mnemonic, operands, modifiers, address, size and words of code. Nothing is bound yet. False: the
// line holds no instruction. `second` receives the text of the Y half of a dual issue.
struct Line {
  std::string mnemonic;
  std::vector<uint32_t> code;
};
bool parse_line(std::string_view text, Inst& inst, Line& line, std::string* second);

// A string that lives as long as the process, one for each spelling.
const char* interned(const std::string& text);

}  // namespace emu
