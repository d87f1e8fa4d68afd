// Handlers and binders of the control table that stand in other files: waits (waits.cpp) and hardware registers
// (hwreg.cpp).
#pragma once

#include <string>

#include "inst.hpp"
#include "wave.hpp"

namespace emu {

// waits.cpp: counters of outstanding operations, parsed from the line (`vmcnt(3) lgkmcnt(0)`).
void run_wait(Wave& w, const Inst& i);
std::string bind_waitcnt(Inst& i, const ArchTraits& arch);
std::string bind_wait_one(Inst& i, const ArchTraits& arch);
std::string bind_wait_idle(Inst& i, const ArchTraits& arch);

// hwreg.cpp: MODE and the other registers that `hwreg(NAME, offset, size)` names.
void run_getreg(Wave& w, const Inst& i);
void run_setreg(Wave& w, const Inst& i);
void run_round_mode(Wave& w, const Inst& i);
void run_denorm_mode(Wave& w, const Inst& i);
std::string bind_getreg(Inst& i, const ArchTraits& arch);
std::string bind_setreg(Inst& i, const ArchTraits& arch);

// barrier.cpp: the workgroup's barrier, whole and split.
void run_barrier(Wave& w, const Inst& i);
void run_barrier_signal(Wave& w, const Inst& i);
void run_barrier_signal_isfirst(Wave& w, const Inst& i);
void run_barrier_wait(Wave& w, const Inst& i);
std::string bind_barrier(Inst& i, const ArchTraits& arch);

// Ends the phase if every live wave has signalled it. Called by signals, and when a wave ends.
bool complete_phase(Group& group);
// Reports a phase that is complete without every wave of the workgroup.
void report_divergence(const Wave& w, const Inst& i);

// gpr_index.cpp: CDNA's relative addressing of vector registers between s_set_gpr_idx_on and _off.
void run_gpr_index(Wave& w, const Inst& i);
std::string bind_gpr_index(Inst& i, const ArchTraits& arch);

// The immediate of a SOPP or SOPK line: the last operand that is a constant.
inline int64_t immediate(const Inst& i) {
  for (int k = i.ops; k-- > 0;)
    if (i.op[k].kind == Kind::Constant) return int32_t(i.op[k].value);
  return 0;
}

}  // namespace emu
