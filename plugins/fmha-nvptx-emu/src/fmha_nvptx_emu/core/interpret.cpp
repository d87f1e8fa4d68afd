// The instructions of a warp. Lanes at different instructions are parts; the part with the lowest pc runs, and parts that
// meet become one. So no analysis of the control flow is needed, and irreducible flow is right too.
#include <algorithm>

#include "block.hpp"

namespace ptx {

void split(Warp& w, uint32_t taken, uint32_t target) {
  const uint32_t rest = w.mask & ~taken;
  if (!rest) {
    w.pc = target;
    return;
  }
  w.others.push_back({target, taken, Ready::Runs});
  w.mask = rest;
  w.next = std::min(w.next, target);
}

void leave(Warp& w, uint32_t mask) {
  w.alive &= ~mask;
  w.mask &= ~mask;
  if (w.mask) return;
  if (w.others.empty()) w.going = Going::Done;
  else regroup(w);
}

void regroup(Warp& w) {
  const auto merge = [&] {
    for (size_t k = 0; k < w.others.size();)
      if (w.mask && w.others[k].pc == w.pc) w.mask |= w.others[k].mask, w.others.erase(w.others.begin() + ptrdiff_t(k));
      else ++k;
  };
  merge();
  const auto before = [](const Part& a, const Part& b) { return a.ready != b.ready ? a.ready < b.ready : a.pc < b.pc; };
  const auto lowest = std::min_element(w.others.begin(), w.others.end(), before);
  if (lowest != w.others.end() && (!w.mask || (lowest->ready == Ready::Runs && lowest->pc < w.pc))) {
    const Part next = *lowest;
    w.others.erase(lowest);
    if (w.mask) w.others.push_back({w.pc, w.mask, Ready::Runs});
    w.pc = next.pc, w.mask = next.mask;
    merge();
  }
  w.next = kNever;
  for (const Part& part : w.others) w.next = std::min(w.next, part.pc);
}

bool together(Warp& w, const Inst& i, uint32_t mask, uint32_t lanes, const char* what) {
  if ((mask & lanes) == lanes) return true;
  const auto running = std::find_if(w.others.begin(), w.others.end(), [](const Part& p) { return p.ready != Ready::Waits; });
  if (running != w.others.end()) {
    --w.block->executed[w.pc - 1];
    w.others.push_back({w.pc - 1, w.mask, Ready::Waits});
    w.mask = 0;
    regroup(w);
    return false;
  }
  w.block->launch->report->add(Finding::DivergentBarrier, w, i, -1, [&] {
    return std::string(what) + " needs the lanes " + hex(lanes) + ", and only " + hex(mask) + " execute it";
  });
  return true;
}

void require_member(Warp& w, const Inst& i, Slot members, uint32_t mask, const char* what) {
  const auto* named = reinterpret_cast<const uint32_t*>(w.row(members));
  for (uint32_t left = mask; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (named[lane] >> lane & 1) continue;
    return w.block->launch->report->add(Finding::DivergentBarrier, w, i, lane, [&] {
      return of_lane(lane) + " executes " + what + ", and is not among the lanes that it names, " + hex(named[lane]);
    });
  }
}

void yield_to_others(Warp& w) {
  bool runs = false, polls = false;
  for (const Part& part : w.others) runs |= part.ready == Ready::Runs, polls |= part.ready == Ready::Polls;
  if (!runs) w.going = Going::Poll, w.recent_poll = 64;
  if (!runs && !polls) return;
  const Part self{w.pc, w.mask, Ready::Polls};
  w.mask = 0;
  regroup(w);
  w.others.push_back(self);
  w.next = std::min(w.next, self.pc);
}

void require_defined(Warp& w, const Inst& i, Slot slot, uint32_t mask, const char* what) {
  const uint32_t missing = mask & ~w.defined[slot.id];
  if (!missing) return;
  const int lane = __builtin_ctz(missing);
  w.block->launch->report->add(Finding::UninitialisedRegister, w, i, lane, [&] {
    return of_lane(lane) + ": a value that was never written decides " + what;
  });
}

void require_decided(Warp& w, const Inst& i, uint32_t mask) {
  if (!(w.tainted & mask)) return;
  const int lane = __builtin_ctz(w.tainted & mask);
  w.block->launch->report->add(Finding::UninitialisedRegister, w, i, lane, [&] {
    return of_lane(lane) + ": a value that was never written decides, in a branch before, whether it is executed";
  });
}

namespace {

void flow(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t defined = kAll;
  for (unsigned k = 0; k < i.sources; ++k) defined &= w.defined[i.slots[i.dests + k].id];
  for (unsigned k = 0; k < i.dests; ++k) {
    uint32_t& at = w.defined[i.slots[k].id];
    at = (at & ~mask) | (defined & mask);
    w.doubtful |= (mask & ~defined) != 0;
    if (!w.partly.empty()) w.forget_parts(i.slots[k], mask);
  }
}

}  // namespace

uint64_t interpret(Warp& w, uint64_t most) {
  Block& block = *w.block;
  const Inst* code = block.kernel->code.data();
  const uint8_t* plain = block.kernel->plain.data();
  uint64_t* executed = block.executed.data();
  const bool checks = block.checks;
  uint64_t n = 0;
  while (n < most) {
    if (w.pc >= w.next) regroup(w);
    if (w.tainted) meet(w);
    else if (plain[w.pc] && !w.doubtful && w.outstanding.empty() && w.written_at.empty()) {
      const uint64_t count = std::min({uint64_t(plain[w.pc]), most - n, uint64_t(w.next - w.pc)});
      const uint32_t mask = w.mask;
      for (const Inst *i = code + w.pc, *end = i + count; i != end; ++i) ++executed[i - code], i->run(w, *i, mask);
      w.pc += uint32_t(count), n += count;
      continue;
    }
    ++n;
    const Inst& i = code[w.pc];
    uint32_t mask = w.mask;
    const uint32_t active = mask;
    if (i.guarded) {
      const uint32_t p = w.predicate(i.guard);
      mask &= i.negated ? ~p : p;
    }
    ++executed[w.pc];
    w.inst = &i;
    ++w.pc;
    // A guard that was never written decides a branch or a store, or leaves the destinations undefined.
    const uint32_t unknown = i.guarded && checks ? active & ~w.defined[i.guard.id] : 0;
    if (unknown && !i.dests && !(i.cls == Class::Branch && taint(w, w.pc - 1, unknown)))
      require_defined(w, i, i.guard, active, i.cls == Class::Branch ? "a branch" : "whether it is executed");
    if (mask) {
      if (!w.outstanding.empty() && checks) touch_outstanding(w, i);
      i.run(w, i, mask);
      if (w.ahead && !w.doubtful && w.outstanding.empty()) {  // what is there already needs no books either
        const uint32_t count = uint32_t(std::min<uint64_t>(w.ahead, most - n));
        for (uint32_t k = 0; k < count; ++k) ++executed[w.pc + k];
        w.ahead -= count, w.pc += count, n += count;
      }
      if (!w.written_at.empty() && i.cls != Class::Matrix && i.cls != Class::Move) {
        ++w.instruction;
        for (unsigned k = 0; k < i.dests; ++k) w.written_at[i.slots[k].id] = w.instruction;
      }
      if (checks && !i.own_flow && (w.doubtful || !i.certain)) flow(w, i, mask);
    }
    if (unknown && w.mask == active)
      for (unsigned k = 0; k < i.dests; ++k) w.define(i.slots[k], 0, unknown);
    if ((w.tainted & mask) && i.cls == Class::Async) require_decided(w, i, mask);
    if (w.going != Going::On) break;
  }
  return n;
}

}  // namespace ptx
