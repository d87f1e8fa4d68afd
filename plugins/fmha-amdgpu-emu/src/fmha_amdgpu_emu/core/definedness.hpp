// How definedness flows through an instruction that touches an undefined register (tracking.cpp decides when).
#pragma once

#include "wave.hpp"

namespace emu {

// A flag of entries: only the low dwords of the sources decide the low dword of the 64-bit result. Compilers leave the
// upper half of a sum undefined where they use only the lower one.
constexpr uint32_t kCarriesUp = 1u << 16;

void flow_undefined(Wave& w, const Inst& i);

// Undefined lanes of the register among `active` become a finding.
void sink_undefined(Wave& w, const Inst& i, int reg, uint64_t active);

}  // namespace emu
