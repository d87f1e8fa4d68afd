// A parsed PTX module: variables, and functions as statements with resolved names.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "types.hpp"

namespace ptx {

enum class Space : uint8_t { Generic, Global, Const, Shared, Local, Param };

struct Variable {
  std::string name;
  Space space = Space::Global;
  uint64_t bytes = 0, align = 1;
  bool dynamic = false;  // `.extern .shared name[]`: the dynamic part of shared memory
  std::vector<uint8_t> values;  // empty: zeros
  struct Pointer {
    uint64_t at, offset;
    std::string to;
    unsigned bytes;
  };
  std::vector<Pointer> pointers;  // addresses of other variables inside the values
  uint64_t address = 0;           // of global and const variables, once loaded; the offset of parameters
};

struct Register {
  std::string name;
  Type type;
  uint32_t row = 0, id = 0;  // where a warp keeps it: set by the binder
};

struct Operand {
  enum Kind : uint8_t { Reg, Integer, Float, Special, Symbol, Label, Sink, Address, Vector, Name } kind = Sink;
  bool negated = false;               // !%p
  const Register* reg = nullptr;      // Reg; Address with a register as its base
  const Variable* variable = nullptr; // Symbol; Address with a variable as its base
  int64_t value = 0;                  // Integer; Address: the offset; Label: the statement
  uint64_t bits = 0;                  // Float: of the value as it was written
  bool single = false;                // Float: 0f..., else a double
  std::string name;                   // Special ("tid.x"), Label, Name
  std::vector<Operand> parts;         // Vector; a pair d|p has two parts
};

struct Statement {
  unsigned line = 0;
  std::string_view text;
  const Register* guard = nullptr;
  bool negated = false;
  std::string opcode, root;       // "ld.global.v2.b32", "ld"
  std::vector<std::string> mods;  // "global", "v2", "b32", in their order
  std::vector<Operand> operands;
};

struct Function {
  std::string name;
  bool entry = false;
  std::deque<Variable> parameters;
  uint64_t parameter_bytes = 0;
  std::deque<Register> registers;
  std::deque<Variable> variables;                       // .shared and .local of its body
  std::map<std::string, std::vector<int64_t>> targets;  // of .branchtargets: statements
  std::vector<Statement> statements;
  uint32_t max_threads = 0, required[3] = {0, 0, 0}, cluster[3] = {0, 0, 0}, max_registers = 0;
};

struct Module {
  std::string text;
  std::string version, target;
  std::deque<Variable> variables;
  std::map<std::string, Variable*> names;
  std::deque<Function> functions;
};

// Raises Unusable.
std::unique_ptr<Module> parse(std::string text);

}  // namespace ptx
