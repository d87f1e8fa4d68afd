// Control flow, messages, sleep, and the other SOPP instructions that act on a wave rather than on its data.
#include "control.hpp"
#include "lanes.hpp"
#include "program.hpp"
#include "tables.hpp"

namespace emu {

namespace {

void nothing(Wave&, const Inst&) {}

void end(Wave& w, const Inst&) { w.state = State::Ended; }

void branch_to(Wave& w, const Inst& i) {
  if (!i.target) throw Unexecutable{"it jumps outside the code"};
  w.pc = i.target;
}

template <bool (*Taken)(const Wave&)> void branch_if(Wave& w, const Inst& i) {
  if (Taken(w)) branch_to(w, i);
}

bool scc0(const Wave& w) { return !w.scc; }
bool scc1(const Wave& w) { return w.scc; }
bool vccz(const Wave& w) { return w.vcc() == 0; }
bool vccnz(const Wave& w) { return w.vcc() != 0; }
bool execz(const Wave& w) { return w.exec() == 0; }
bool execnz(const Wave& w) { return w.exec() != 0; }

// Addresses of code are host addresses, so address arithmetic on them finds the image's data.
uint64_t after(const Wave& w, const Inst& i) { return bias_of(w) + i.address + i.size; }

void jump(Wave& w, uint64_t address) {
  const Inst* to = w.launch && w.launch->program ? code_at(*w.launch->program, address) : nullptr;
  if (!to) throw Unexecutable{"it jumps to an address outside the code"};
  w.pc = to;
}

void getpc(Wave& w, const Inst& i) { set_scalar64(w, i.op[0], after(w, i)); }

void setpc(Wave& w, const Inst& i) { jump(w, scalar64(w, i.op[0])); }

void swappc(Wave& w, const Inst& i) {
  const uint64_t to = scalar64(w, i.op[1]);
  set_scalar64(w, i.op[0], after(w, i));
  jump(w, to);
}

void call(Wave& w, const Inst& i) {
  set_scalar64(w, i.op[0], after(w, i));
  branch_to(w, i);
}

void sleep(Wave& w, const Inst&) { w.state = State::Yielded; }

void trap(Wave&, const Inst& i) {
  throw Unexecutable{"trap " + std::to_string(immediate(i)) + ": the kernel gave up (abort, assert or a debugger's stop)"};
}

void code_end(Wave&, const Inst&) { throw Unexecutable{"execution ran past the end of the kernel's code"}; }

enum : uint32_t { kRealtime = 1 };

void send_and_return(Wave& w, const Inst& i) {
  const uint64_t answer = i.extra == kRealtime ? ticks() : 0;
  if (i.op[0].count == 2) set_scalar64(w, i.op[0], answer);
  else set_scalar32(w, i.op[0], uint32_t(answer));
}

// ---- binders ----

bool says(const Inst& i, const char* word) { return i.text.find(word) != std::string::npos; }

std::string bind_branch(Inst& i, const ArchTraits&) {
  const std::string name = i.mnemonic;
  if (name.find("vcc") != std::string::npos) i.s_reads.set(kVcc), i.s_reads.set(kVcc + 1);
  return {};
}

std::string bind_immediate(Inst& i, const ArchTraits&) {
  i.extra = uint32_t(immediate(i));
  return {};
}

std::string bind_halt(Inst& i, const ArchTraits&) { return immediate(i) & 1 ? "it halts the wave" : ""; }

std::string bind_send(Inst& i, const ArchTraits&) {
  for (const char* harmless : {"MSG_DEALLOC_VGPRS", "MSG_INTERRUPT", "MSG_EARLY_PRIM_DEALLOC"})
    if (says(i, harmless)) return {};
  return "this message is not implemented";
}

std::string bind_send_and_return(Inst& i, const ArchTraits&) {
  if (says(i, "MSG_RTN_GET_REALTIME")) i.extra = kRealtime;
  else if (!says(i, "MSG_RTN_GET_DOORBELL") && !says(i, "MSG_RTN_GET_SE_AID_ID")) return "this message is not implemented";
  return {};
}

constexpr const char* kProgramFlow = "CDNA3 4, RDNA4 4: Program flow; SOPP";
constexpr const char* kWaits = "CDNA3 4.4, RDNA3 4.5, RDNA4 5.6: data dependency; SOPP, SOPK";
constexpr const char* kBarriers = "CDNA3 4.3, RDNA4 4.6: barriers";
constexpr const char* kRegisters = "CDNA3 3.5 to 3.12, RDNA4 3.4: MODE and hardware registers; SOPK";

#define SOPP(name, run, cls, flags, bind, source) {name, run, 0, Class::cls, Flow::Defined, flags, {}, bind, source}
#define SDST(name, run, cls, flags, bind, source) {name, run, 1, Class::cls, Flow::Defined, flags, {}, bind, source}

const Entry kEntries[] = {
    SOPP("s_endpgm", end, Branch, kEnds, nullptr, kProgramFlow),
    SOPP("s_endpgm_saved", end, Branch, kEnds, nullptr, kProgramFlow),
    SOPP("s_branch", branch_to, Branch, kEnds, bind_branch, kProgramFlow),
    SOPP("s_cbranch_scc0", branch_if<scc0>, Branch, 0, bind_branch, kProgramFlow),
    SOPP("s_cbranch_scc1", branch_if<scc1>, Branch, 0, bind_branch, kProgramFlow),
    SOPP("s_cbranch_vccz", branch_if<vccz>, Branch, 0, bind_branch, kProgramFlow),
    SOPP("s_cbranch_vccnz", branch_if<vccnz>, Branch, 0, bind_branch, kProgramFlow),
    SOPP("s_cbranch_execz", branch_if<execz>, Branch, kReadsExec, bind_branch, kProgramFlow),
    SOPP("s_cbranch_execnz", branch_if<execnz>, Branch, kReadsExec, bind_branch, kProgramFlow),
    SDST("s_getpc_b64", getpc, Branch, 0, nullptr, kProgramFlow),
    SOPP("s_setpc_b64", setpc, Branch, kEnds, nullptr, kProgramFlow),
    SDST("s_swappc_b64", swappc, Branch, kEnds, nullptr, kProgramFlow),
    SDST("s_call_b64", call, Branch, kEnds, nullptr, kProgramFlow),
    SOPP("s_trap", trap, Branch, kEnds, nullptr, kProgramFlow),
    SOPP("s_sethalt", nothing, Message, 0, bind_halt, kProgramFlow),
    SOPP("s_code_end", code_end, Branch, kEnds, nullptr, kProgramFlow),

    SOPP("s_nop", nothing, Wait, 0, nullptr, kProgramFlow),
    SOPP("s_sleep", sleep, Wait, 0, nullptr, kProgramFlow),
    SOPP("s_sleep_var", sleep, Wait, 0, nullptr, kProgramFlow),
    SOPP("s_wakeup", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_setprio", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_setprio_inc_wg", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_clause", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_delay_alu", nothing, Wait, 0, nullptr, kProgramFlow),
    SOPP("s_set_inst_prefetch_distance", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_inst_prefetch", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_icache_inv", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_incperflevel", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_decperflevel", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_ttracedata", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_ttracedata_imm", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_version", nothing, Message, 0, nullptr, kProgramFlow),
    SOPP("s_sendmsg", nothing, Message, 0, bind_send, kProgramFlow),
    SDST("s_sendmsg_rtn_b32", send_and_return, Message, 0, bind_send_and_return, kProgramFlow),
    SDST("s_sendmsg_rtn_b64", send_and_return, Message, 0, bind_send_and_return, kProgramFlow),

    SOPP("s_waitcnt", run_wait, Wait, 0, bind_waitcnt, kWaits),
    SOPP("s_waitcnt_vscnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_waitcnt_vmcnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_waitcnt_expcnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_waitcnt_lgkmcnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_waitcnt_depctr", nothing, Wait, 0, nullptr, kWaits),
    SOPP("s_wait_loadcnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_storecnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_samplecnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_bvhcnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_expcnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_dscnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_kmcnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_loadcnt_dscnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_storecnt_dscnt", run_wait, Wait, 0, bind_wait_one, kWaits),
    SOPP("s_wait_idle", run_wait, Wait, 0, bind_wait_idle, kWaits),
    SOPP("s_wait_alu", nothing, Wait, 0, nullptr, kWaits),
    SOPP("s_wait_event", nothing, Wait, 0, nullptr, kWaits),

    SOPP("s_barrier", run_barrier, Barrier, 0, nullptr, kBarriers),
    SOPP("s_barrier_signal", run_barrier_signal, Barrier, 0, bind_barrier, kBarriers),
    SOPP("s_barrier_signal_isfirst", run_barrier_signal_isfirst, Barrier, 0, bind_barrier, kBarriers),
    SOPP("s_barrier_wait", run_barrier_wait, Barrier, 0, bind_barrier, kBarriers),

    SDST("s_getreg_b32", run_getreg, Salu, 0, bind_getreg, kRegisters),
    SOPP("s_setreg_b32", run_setreg, Salu, 0, bind_setreg, kRegisters),
    SOPP("s_setreg_imm32_b32", run_setreg, Salu, 0, bind_setreg, kRegisters),
    SOPP("s_round_mode", run_round_mode, Salu, 0, bind_immediate, kRegisters),
    SOPP("s_denorm_mode", run_denorm_mode, Salu, 0, bind_immediate, kRegisters),
    SOPP("s_set_gpr_idx_on", run_gpr_index, Salu, 0, bind_gpr_index, "CDNA3 5.x: VGPR indexing; SOPC"),
    SOPP("s_set_gpr_idx_off", nothing, Salu, 0, nullptr, "CDNA3: VGPR indexing; SOPP"),
};

#undef SOPP
#undef SDST

}  // namespace

const Table kControlTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
