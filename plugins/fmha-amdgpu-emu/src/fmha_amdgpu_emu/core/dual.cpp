// Dual issue (RDNA3 ISA 7.6 "Dual Issue VALU", RDNA4 ISA, VOPD): X and Y read all their sources before either one
// writes.
#include "bind.hpp"
#include "report.hpp"
#include "wave.hpp"

namespace emu {

namespace {

void x_then_y(Wave& w, const Inst& i) {
  i.alone(w, i);
  i.second->run(w, *i.second);
}

void y_then_x(Wave& w, const Inst& i) {
  i.second->run(w, *i.second);
  i.alone(w, i);
}

// Each half reads what the other writes, so X's result waits while Y reads the old value.
void crossed(Wave& w, const Inst& i) {
  uint32_t* const x = w.v[i.op[0].reg].x;
  Row before, result;
  std::memcpy(before.x, x, sizeof before.x);
  i.alone(w, i);
  std::memcpy(result.x, x, sizeof result.x);
  std::memcpy(x, before.x, sizeof before.x);
  i.second->run(w, *i.second);
  std::memcpy(x, result.x, sizeof result.x);
}

}  // namespace

void bind_dual(Inst& x, const Inst& y) {
  if (x.problem.empty() && !y.problem.empty()) {
    x.problem = y.problem + " (second half)";
    x.run = y.run;  // which refuses, with the problem of the instruction it is given
  }
  if (!x.problem.empty()) return;
  const bool y_needs_x = (y.v_reads & x.v_writes).any(), x_needs_y = (x.v_reads & y.v_writes).any();
  x.alone = x.run;
  x.run = !y_needs_x ? x_then_y : !x_needs_y ? y_then_x : crossed;
  x.second = &y;
  x.v_reads |= y.v_reads;
  x.v_writes |= y.v_writes;
  x.s_reads |= y.s_reads;
  x.s_writes |= y.s_writes;
}

}  // namespace emu
