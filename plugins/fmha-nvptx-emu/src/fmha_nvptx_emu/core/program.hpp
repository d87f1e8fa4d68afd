// A kernel as decoded instructions: a handler, and the rows of a warp's register file that it reads and writes.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "syntax.hpp"

namespace ptx {

struct Warp;
struct Inst;
using Handler = void (*)(Warp&, const Inst&, uint32_t mask);  // mask: the lanes that execute it; never 0

constexpr unsigned kMostProducts = 16;  // of mma that one handler makes
constexpr unsigned kRowBytes = 128;  // 32 lanes of 4 bytes; a 64-bit register has two rows, a predicate the first word

struct Slot {
  uint32_t row, id;  // id: index of the mask of defined lanes; 0 belongs to all constants
};

enum class Class : uint8_t {
  Integer, Float, Convert, Special, Move, Matrix, Shared, Global, Local, Param, Async, Atomic, Barrier, Shuffle, Branch, Count
};

struct alignas(64) Inst {  // a line of the cache: a kernel's loops have thousands
  Handler run = nullptr;
  const Slot* slots = nullptr;  // destinations first, then sources
  uint8_t dests = 0, sources = 0;
  bool guarded = false, negated = false;
  bool own_flow = false;  // the handler itself says which lanes of its destinations are defined
  bool certain = false;   // all its registers are (certain.cpp)
  Class cls = Class::Integer;
  Space space = Space::Generic;
  uint8_t width = 0;      // memory: bytes of an element
  uint8_t count = 1;      // memory: elements of a lane; mma: products from this one on that one handler can make together
  uint8_t wide = 0;       // memory: bit k: the register of element k has 64 bits
  bool sign = false;      // memory: loads extend the sign
  Slot guard{0, 0};
  uint32_t target = 0;
  int64_t imm = 0;        // memory: the offset of the address
  const Statement* at = nullptr;
  uint32_t flops = 0;     // of a warp
  uint32_t targets = 0;   // brx: the number of its list, counted from 1
};
static_assert(sizeof(Inst) == 64);

struct Kernel {
  std::string name;
  const Function* function = nullptr;
  std::vector<Inst> code;
  std::vector<Slot> slots;  // of all instructions, one behind the other
  std::vector<std::vector<uint32_t>> target_lists;
  std::vector<uint8_t> plain;  // by instruction: how many from there on only change values of registers (interpret.cpp)
  uint32_t rows = 0, ids = 1;
  std::vector<uint32_t> defined_at_first;  // by id: all lanes of registers that are certain
  std::vector<uint32_t> uncertain;         // the other ones
  uint32_t first_constant = 0;      // row
  std::vector<uint8_t> constants;   // the rows from there on
  struct SpecialRow {
    std::string name;
    uint32_t row;
  };
  std::vector<SpecialRow> specials;
  struct SharedAddress {
    uint32_t row;
    bool wide;
  };
  std::vector<SharedAddress> shared_addresses;  // constants that name a place in the block's shared memory
  uint32_t static_shared = 0, local_bytes = 0, parameter_bytes = 0;
  uint32_t shared_align = 1;
  bool asynchronous_matrix = false;  // it has wgmma
  bool tensor_memory = false;        // it has tcgen05
  bool tensor_fences = false;        // it has tcgen05.fence
  bool tensor_pair = false;          // it has tcgen05 with cta_group::2
};

// A module in memory: its variables have addresses and its kernels are decoded.
struct Program {
  std::unique_ptr<Module> module;
  std::deque<std::vector<uint8_t>> storage;  // of .global and .const variables
  std::deque<Kernel> kernels;
  ~Program();
};

void find_certain(Kernel& kernel);
void share_rows(Kernel& kernel);
void find_runs(Kernel& kernel);  // once rows are shared

// Raises Unusable, with the line and its text. `hardware`: as the assembler reads it (contract.hpp).
std::unique_ptr<Program> load(std::string text, bool hardware);

}  // namespace ptx
