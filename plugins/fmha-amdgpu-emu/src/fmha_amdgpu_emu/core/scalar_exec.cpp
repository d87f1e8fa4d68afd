// Scalar instructions that save and replace EXEC, and those that name a register through M0.
// CDNA3 12.3, RDNA3 and RDNA4 16.3 SOP1.

#include "lanes.hpp"
#include "report.hpp"
#include "scalar_rows.hpp"
#include "tables.hpp"

namespace emu {

namespace {

template <class T> T exec_of(const Wave& w) {
  if constexpr (sizeof(T) == 8) return w.pair(kExec);
  else return w.s[kExec];
}

template <class T> void set_exec_of(Wave& w, T value) {
  if constexpr (sizeof(T) == 8) w.set_pair(kExec, value);
  else w.s[kExec] = value;
  w.scc = value;
}

// D = EXEC, EXEC = f(S0, EXEC), SCC: EXEC is not zero.
#define SAVEEXEC(name, expression)                                  \
  template <class T> void name(Wave& w, const Inst& i) {            \
    const T a = get<T>(w, i, 0), exec = exec_of<T>(w);              \
    put<T>(w, i, exec);                                             \
    set_exec_of<T>(w, expression);                                  \
  }
// EXEC = f(S0, EXEC), D = the new EXEC.
#define WREXEC(name, expression)                                    \
  template <class T> void name(Wave& w, const Inst& i) {            \
    const T a = get<T>(w, i, 0), exec = exec_of<T>(w), r = expression; \
    put<T>(w, i, r);                                                \
    set_exec_of<T>(w, r);                                           \
  }

SAVEEXEC(and_saveexec, a & exec)
SAVEEXEC(or_saveexec, a | exec)
SAVEEXEC(xor_saveexec, a ^ exec)
SAVEEXEC(nand_saveexec, ~(a & exec))
SAVEEXEC(nor_saveexec, ~(a | exec))
SAVEEXEC(xnor_saveexec, ~(a ^ exec))
SAVEEXEC(and_not_exec, a & ~exec)    // andn2, and_not1
SAVEEXEC(or_not_exec, a | ~exec)     // orn2, or_not1
SAVEEXEC(and_not_source, ~a & exec)  // andn1, and_not0
SAVEEXEC(or_not_source, ~a | exec)   // orn1, or_not0
WREXEC(and_not_exec_write, a & ~exec)
WREXEC(and_not_source_write, ~a & exec)

// A register whose number M0 adds to. Beyond the SGPRs nothing is defined.
int relative(const Operand& op, uint32_t by, int registers) {
  const uint32_t reg = op.reg + by;
  if (op.kind != Kind::Sgpr || reg + uint32_t(registers) > uint32_t(kVcc)) throw Unexecutable{"M0 leads beyond the SGPRs"};
  return int(reg);
}

template <class T> void movrels(Wave& w, const Inst& i) {
  const int from = relative(i.src(0), w.s[kM0], sizeof(T) / 4);
  put<T>(w, i, sizeof(T) == 8 ? T(w.pair(from)) : T(w.s[from]));
}
template <class T> void movreld(Wave& w, const Inst& i) {
  const int to = relative(i.op[0], w.s[kM0], sizeof(T) / 4);
  const T value = get<T>(w, i, 0);
  std::memcpy(w.s + to, &value, sizeof value);
}
void movrelsd_2(Wave& w, const Inst& i) {
  const uint32_t value = w.s[relative(i.src(0), w.s[kM0] & 0x3ff, 1)];
  w.s[relative(i.op[0], w.s[kM0] >> 16 & 0x3ff, 1)] = value;
}

std::string uses_exec(Inst& i, const ArchTraits&) {
  i.s_reads.set(kExec).set(kExec + 1);
  i.s_writes.set(kExec).set(kExec + 1);
  return "";
}
std::string uses_m0(Inst& i, const ArchTraits&) {
  i.s_reads.set(kM0);
  return "";
}

#define SAVING(name, handler)                                                                      \
  sop1("s_" name "_b32", handler<uint32_t>, kB32, kReadsExec, uses_exec),                          \
      sop1("s_" name "_b64", handler<uint64_t>, kB64, kReadsExec, uses_exec)

const Entry kRows[] = {
    SAVING("and_saveexec", and_saveexec),
    SAVING("or_saveexec", or_saveexec),
    SAVING("xor_saveexec", xor_saveexec),
    SAVING("nand_saveexec", nand_saveexec),
    SAVING("nor_saveexec", nor_saveexec),
    SAVING("xnor_saveexec", xnor_saveexec),
    SAVING("andn2_saveexec", and_not_exec), SAVING("and_not1_saveexec", and_not_exec),
    SAVING("orn2_saveexec", or_not_exec), SAVING("or_not1_saveexec", or_not_exec),
    SAVING("andn1_saveexec", and_not_source), SAVING("and_not0_saveexec", and_not_source),
    SAVING("orn1_saveexec", or_not_source), SAVING("or_not0_saveexec", or_not_source),
    SAVING("andn2_wrexec", and_not_exec_write), SAVING("and_not1_wrexec", and_not_exec_write),
    SAVING("andn1_wrexec", and_not_source_write), SAVING("and_not0_wrexec", and_not_source_write),
    sop1("s_movrels_b32", movrels<uint32_t>, kB32, 0, uses_m0),
    sop1("s_movrels_b64", movrels<uint64_t>, kB64, 0, uses_m0),
    sop1("s_movreld_b32", movreld<uint32_t>, kB32, 0, uses_m0),
    sop1("s_movreld_b64", movreld<uint64_t>, kB64, 0, uses_m0),
    sop1("s_movrelsd_2_b32", movrelsd_2, kB32, 0, uses_m0),
};

}  // namespace

const Table kScalarExecTable{kRows, std::size(kRows)};

}  // namespace emu
