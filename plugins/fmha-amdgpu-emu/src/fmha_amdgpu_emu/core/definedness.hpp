// How definedness flows through an instruction that touches an undefined register (tracking.cpp decides when).
#pragma once

#include "wave.hpp"

namespace emu {

void flow_undefined(Wave& w, const Inst& i);

// Undefined lanes of the register among `active` become a finding.
void sink_undefined(Wave& w, const Inst& i, int reg, uint64_t active);

}  // namespace emu
