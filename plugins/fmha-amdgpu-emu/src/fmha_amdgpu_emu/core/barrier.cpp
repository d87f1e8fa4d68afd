// The workgroup's barrier. A wave *signals* (arrives) and *waits*; s_barrier does both, gfx12 splits them (RDNA4 ISA,
// "Barriers"). A phase is complete when every wave that has not ended has signalled it. The scheduler (scheduler.cpp)
// then wakes the waves that wait for it.
#include "control.hpp"
#include "launch.hpp"

namespace emu {

namespace {

constexpr int kWorkgroup = -1, kTrap = -2;  // barrier ids

void signal(Wave& w, const Inst& i) {
  ++w.signals;
  ++counts().barriers;
  barrier_arrived(w);
  if (!w.group) return;
  ++w.group->arrived;
  if (complete_phase(*w.group)) report_divergence(w, i);
}

// Sleeps until the phase that the wave signalled is complete.
void wait(Wave& w) {
  if (w.group && w.group->phase < w.signals) w.state = State::AtBarrier;
  else barrier_passed(w);
}

bool waited_for_last(const Wave& w) { return !w.group || w.group->phase >= w.signals; }

}  // namespace

bool complete_phase(Group& group) {
  if (group.arrived == 0 || group.arrived < group.live) return false;
  group.arrived = 0;
  ++group.phase;
  return true;
}

void report_divergence(const Wave& w, const Inst& i) {
  const Group& g = *w.group;
  if (g.live >= g.started || !w.launch || !w.launch->report) return;
  w.launch->report->add(Finding::DivergentBarrier, w, i, -1, [&] {
    return "the barrier was passed by " + std::to_string(g.live) + " of the workgroup's " + std::to_string(g.started) +
           " waves: the others had ended";
  });
}

void run_barrier(Wave& w, const Inst& i) {
  signal(w, i);
  w.waited = w.signals;
  wait(w);
}

// A second signal without a wait in between would count twice in a phase that other waves have not reached, and the
// waves would pass each other. It is a finding. The wave then goes on as if it had waited, so that results do not
// depend on it.
void run_barrier_signal(Wave& w, const Inst& i) {
  if (w.waited < w.signals && w.launch && w.launch->report)
    w.launch->report->add(Finding::DivergentBarrier, w, i, -1, [] {
      return std::string("the wave signals the workgroup's barrier again without having waited for the phase that it "
                         "signalled before");
    });
  if (waited_for_last(w)) {
    if (w.waited < w.signals) w.waited = w.signals, barrier_passed(w);
    return signal(w, i);
  }
  w.waited = w.signals;
  w.pc = &i;  // once the phase is complete
  wait(w);
}

// SCC says whether this wave is the first to signal in this phase.
void run_barrier_signal_isfirst(Wave& w, const Inst& i) {
  const bool first = !w.group || w.group->arrived == 0, waits = !waited_for_last(w);
  run_barrier_signal(w, i);
  if (!waits) w.scc = first;
}

void run_barrier_wait(Wave& w, const Inst& i) {
  if (w.launch && w.launch->report && w.waited == w.signals)
    w.launch->report->add(Finding::DivergentBarrier, w, i, -1, [] {
      return std::string("the wave waits for the workgroup's barrier without having signalled it");
    });
  w.waited = w.signals;
  wait(w);
}

std::string bind_barrier(Inst& i, const ArchTraits&) {
  for (int k = 0; k < i.ops; ++k) {
    const Operand& op = i.op[k];
    if (op.kind == Kind::Constant) {
      const int id = int16_t(op.value);
      if (id == kWorkgroup) return {};
      return id == kTrap ? "the trap handler's barrier is not the kernel's" : "named barriers are not implemented";
    }
    if (op.kind == Kind::Sgpr && op.reg == kM0) return "named barriers are not implemented";
  }
  return {};
}

}  // namespace emu
