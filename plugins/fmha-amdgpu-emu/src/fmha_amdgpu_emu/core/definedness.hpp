// How definedness flows through an instruction that touches an undefined register (tracking.cpp decides when).
#pragma once

#include "wave.hpp"

namespace emu {

void flow_undefined(Wave& w, const Inst& i);

}  // namespace emu
