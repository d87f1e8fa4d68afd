// From the written instruction to the executable one: entry, constants, registers read and written, including implicit
// ones.
#pragma once

#include <string>

#include "listing.hpp"

namespace emu {

// Finds the entry of `mnemonic`, chooses the handler and fills everything that depends on it. An instruction that
// cannot be executed gets `problem` and a handler that throws Unexecutable with it.
void bind(Inst& inst, const std::string& mnemonic, const ArchTraits& arch);

// The Y half of a dual issue joins its X half (dual.cpp): both read before either writes.
void bind_dual(Inst& x, const Inst& y);

// Sets of registers from one operand.
void add_registers(const Operand& op, VSet& v, SSet& s);

// The bits of a constant as an operand of `type` sees it.
uint64_t constant_bits(const Operand& op, Type type);

}  // namespace emu
