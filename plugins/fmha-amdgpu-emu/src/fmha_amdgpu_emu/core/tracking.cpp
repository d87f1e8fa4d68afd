// Waits and definedness of registers. Single lanes are examined only where something is undefined.
#include "tracking.hpp"

#include <bit>
#include <string>
#include <string_view>

#include "definedness.hpp"
#include "launch.hpp"
#include "sets.hpp"

namespace emu {

namespace {

std::string register_name(int reg, bool scalar) {
  if (!scalar) return reg < kAgpr0 ? "v" + std::to_string(reg) : "a" + std::to_string(reg - kAgpr0);
  if (reg == kVcc || reg == kVcc + 1) return reg == kVcc ? "vcc_lo" : "vcc_hi";
  if (reg == kM0) return "m0";
  if (reg >= kTtmp && reg < kTtmp + 16) return "ttmp" + std::to_string(reg - kTtmp);
  return "s" + std::to_string(reg);
}

// The counter that the architecture uses for the operation: stores may share that of loads (CDNA3 ISA 4.4 "Data
// dependency resolution"), scalar memory that of LDS (RDNA4 ISA, "S_WAIT_*", has a counter for each).
Pending& queue_of(Wave& w, Counter counter) {
  if (counter == Counter::Store && !w.arch->store_counter) counter = Counter::Load;
  if (counter == Counter::Scalar && !w.arch->most_scalar) counter = Counter::Ds;
  return w.track.queue[size_t(counter)];
}

// The most that the counter counts (the widths of the fields of s_waitcnt and s_wait_*). The device does not issue an
// instruction that would exceed it until an older one completes. Hand-written kernels omit waits where more loads than
// that follow.
uint32_t most_of(const ArchTraits& arch, Counter counter) {
  if (counter == Counter::Load || counter == Counter::Store) return 63;
  return counter == Counter::Scalar && arch.most_scalar ? arch.most_scalar : arch.most_ds;
}

void completed(Tracker& t, const Outstanding& what) {
  if (what.sequence) {
    uint32_t& done = what.to_lds ? t.done_to_lds : t.done;
    done = std::max(done, what.sequence);
    t.written_before[1][t.wave] = t.done_to_lds;
  }
  for (int k = 0; k < what.count; ++k) {
    const int reg = what.first + k;
    if (what.scalar) {
      if (t.s_loads[reg] && --t.s_loads[reg] == 0) t.s_pending.reset(reg);
    } else if (t.v_loads[reg] && --t.v_loads[reg] == 0) {
      t.v_pending.reset(reg);
    }
  }
}

void complete_all(Tracker& t, Pending& queue) {
  for (uint32_t k = 0; k < queue.size; ++k) completed(t, queue.at(k));
  queue.first = queue.size = queue.unordered = 0;
}

// Completes the oldest `count` of those that complete in order.
void complete_ordered(Tracker& t, Pending& queue, uint32_t count) {
  if (queue.unordered == 0) {
    for (uint32_t k = 0; k < count; ++k) completed(t, queue.at(k));
    queue.first = (queue.first + count) % Pending::kRoom;
    queue.size -= count;
    return;
  }
  uint32_t kept = 0;
  for (uint32_t k = 0; k < queue.size; ++k) {
    const Outstanding what = queue.at(k);
    if (!what.unordered && count > 0) --count, completed(t, what);
    else queue.at(kept++) = what;
  }
  queue.size = kept;
}

void complete(Tracker& t, Pending& queue, uint32_t remaining) {
  if (queue.size <= remaining) return;
  if (remaining == 0) return complete_all(t, queue);
  // Nobody knows which unordered operations are among the completed ones. Assume all of them, so that the fewest
  // ordered ones count as complete.
  const uint32_t count = queue.size - remaining;
  if (count > queue.unordered) complete_ordered(t, queue, count - queue.unordered);
}

bool anything(const Tracker& t) { return any(t.v_pending) || t.s_pending.any(); }

Outstanding& next_of(Wave& w, Counter counter) {
  Pending& queue = queue_of(w, counter);
  if (const uint32_t most = most_of(*w.arch, counter); queue.size >= most) complete(w.track, queue, most - 1);
  if (queue.size == Pending::kRoom) complete_all(w.track, queue);  // all of them unordered
  return queue.at(queue.size++);
}

void mark(Wave& w, Counter counter, const Outstanding& what) {
  Tracker& t = w.track;
  queue_of(w, counter).unordered += what.unordered;
  for (int k = 0; k < what.count; ++k) {
    const int reg = what.first + k;
    if (what.scalar) t.s_pending[reg] = true, ++t.s_loads[reg];
    else t.v_pending[reg] = true, ++t.v_loads[reg];
  }
  t.any |= what.count > 0;
}

// Results of one kind of vector load arrive in the order of issue. So a register, or its other half, may be loaded
// again while an older load of that kind is outstanding.
bool loads_again(Wave& w, const Inst& i, int reg) {
  const bool ds = i.cls == Class::Lds;
  if (!ds && i.cls != Class::Global && i.cls != Class::Scratch && i.cls != Class::Atomic) return false;
  uint32_t covered = 0;
  Pending& queue = queue_of(w, ds ? Counter::Ds : Counter::Load);
  for (uint32_t k = 0; k < queue.size; ++k) {
    const Outstanding& what = queue.at(k);
    covered += !what.scalar && !what.unordered && reg >= what.first && reg < what.first + what.count;
  }
  return covered == w.track.v_loads[reg];
}

// The halves of a register that an instruction reads: 1 low, 2 high, 3 both. Narrow stores and true16 operands read
// one.
uint32_t halves_read(const Inst& i, int reg) {
  const std::string_view name = i.entry ? i.entry->name : "";
  const auto has = [&](const char* part) { return name.find(part) != name.npos; };
  const bool store = has("store_") || has("ds_write_b");
  const bool narrow = store && (has("b8") || has("b16") || has("byte") || has("short"));
  uint32_t halves = 0;
  for (int k = 0; k < i.ops; ++k) {
    const Operand& op = i.op[size_t(k)];
    if (op.kind != Kind::Vgpr || reg < op.reg || reg >= op.reg + op.count) continue;
    if (k < i.dsts && !(i.entry && (i.entry->flags & kReadsDst))) continue;
    const bool data = narrow && k == (has("buffer_") ? 0 : 1);
    halves |= op.half ? op.half : data ? (has("d16_hi") ? 2u : 1u) : 3u;
  }
  return halves ? halves : 3;
}

// Whether every outstanding load into the register writes a half other than these.
bool other_half(Wave& w, int reg, uint32_t halves) {
  if (halves == 3) return false;
  for (Pending& queue : w.track.queue)
    for (uint32_t k = 0; k < queue.size; ++k) {
      const Outstanding& what = queue.at(k);
      if (!what.scalar && reg >= what.first && reg < what.first + what.count && (what.half & halves)) return false;
    }
  return true;
}

void report_pending(Wave& w, const Inst& i, int reg, bool scalar, bool write) {
  if (scalar) w.track.s_pending.reset(reg);
  else w.track.v_pending.reset(reg);
  if (!w.launch || !w.launch->report) return;
  w.launch->report->add(Finding::MissingWait, w, i, -1, [&] {
    return register_name(reg, scalar) + (write ? " is written" : " is read") +
           " while a load into it is still outstanding: no wait before this instruction covers it";
  });
}

void check_pending(Wave& w, const Inst& i) {
  Tracker& t = w.track;
  const VSet reads = i.v_reads & t.v_pending, writes = i.v_writes & t.v_pending;
  each(reads, [&](int reg) {
    if (!other_half(w, reg, halves_read(i, reg))) report_pending(w, i, reg, false, false);
  });
  each(writes, [&](int reg) {
    const uint32_t halves = i.op[0].half && i.op[0].reg == reg ? i.op[0].half : 3u;
    if (t.v_pending.test(reg) && !loads_again(w, i, reg) && !other_half(w, reg, halves))
      report_pending(w, i, reg, false, true);
  });
  const SSet s_reads = i.s_reads & t.s_pending, s_writes = i.s_writes & t.s_pending;
  for (int reg = 0; reg < kScalars; ++reg) {
    if (s_reads.test(reg)) report_pending(w, i, reg, true, false);
    else if (s_writes.test(reg)) report_pending(w, i, reg, true, true);
  }
}

}  // namespace

void track_begin(Wave& w) {
  w.track = Tracker();
  w.track.on = true;
  w.track.done_at_arrival = w.track.to_lds_at_arrival = w.track.issued_at_arrival = {0};
  w.track.wave = uint32_t(w.index);
  w.track.written_before[0][kNobody] = ~0u;
  w.track.written_before[0][w.track.wave] = w.track.read_before[w.track.wave] = ~0u;
  w.track.scratch.assign(w.scratch_bytes / 4, 0);
}

void track_closely(Wave& w, const Inst& i) {
  Tracker& t = w.track;
  if (meets_pending(t, i)) check_pending(w, i);
  if ((emulation::careful && i.entry) || !within(i.v_reads, t.defined)) return flow_undefined(w, i);
  if (within(i.v_writes, t.defined)) return;
  if (i.mod.dpp != Dpp::None || i.entry->flow == Flow::Custom || i.entry->flow == Flow::WriteLane)
    return flow_undefined(w, i);
  const uint64_t active = i.entry->flags & kIgnoresExec ? w.full : w.exec();
  if (active == w.full) t.defined |= i.v_writes;
  else each(i.v_writes, [&](int reg) { define(w, reg, active); });
}

void issue(Wave& w, Counter counter, uint16_t first, uint8_t count, uint32_t sequence, uint32_t how) {
  if (!w.track.on) return;
  Outstanding& one = next_of(w, counter);
  one.first = first;
  one.count = count;
  one.scalar = how & 1;
  one.to_lds = how >> 1 & 1;
  one.sequence = sequence;
  one.half = uint8_t(how >> 2);
  one.unordered = counter == Counter::Scalar;
  mark(w, counter, one);
}

void issue_flat(Wave& w, Counter counter, const Outstanding& what) {
  if (!w.track.on) return;
  Outstanding one = what;
  one.unordered = w.arch->flat_unordered;
  mark(w, Counter::Ds, next_of(w, Counter::Ds) = one);
  one.sequence = 0;  // the LDS part is complete when the counter of LDS says so
  mark(w, counter, next_of(w, counter) = one);
}

void wait_for(Wave& w, Counter counter, uint32_t remaining) {
  Tracker& t = w.track;
  if (!t.on) return;
  complete(t, queue_of(w, counter), remaining);
  t.any = anything(t);
}

void barrier_arrived(Wave& w) {
  Tracker& t = w.track;
  if (!t.on) return;
  ++t.arrivals;
  t.done_at_arrival.push_back(t.done);
  t.to_lds_at_arrival.push_back(t.done_to_lds);
  const bool strict = w.launch && w.launch->options.strict;
  t.issued_at_arrival.push_back(strict ? t.done : t.sequence);
}

void barrier_passed(Wave& w) {
  Tracker& t = w.track;
  if (!t.on || !w.group) return;
  ++t.waits;
  t.all_before = {~0u, ~0u};
  for (const auto& wave : w.group->waves) {
    const Tracker& other = wave->track;
    if (other.wave == t.wave) continue;
    // A wave that has fewer arrivals ended before this barrier was complete. Everything that it did came before.
    const bool ended = other.arrivals < t.waits;
    t.written_before[0][other.wave] = ended ? ~0u : other.done_at_arrival[t.waits];
    t.written_before[1][other.wave] = ended ? ~0u : other.to_lds_at_arrival[t.waits];
    for (const int k : {0, 1}) t.all_before[k] = std::min(t.all_before[k], t.written_before[k][other.wave]);
    const uint32_t read = ended ? ~0u : other.issued_at_arrival[t.waits];
    t.read_before[other.wave] = read >> 28 ? ~0u : read << 4 | 0xf;
  }
}

}  // namespace emu
