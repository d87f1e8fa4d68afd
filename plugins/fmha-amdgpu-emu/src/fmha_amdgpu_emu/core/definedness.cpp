// Which lanes of which registers hold a value, and what happens where one does not.
//
// A lane of a result is defined where the lanes of all its sources are. Compilers move undefined words, select between
// them and spill them, with values that nobody uses. None of that is a finding. An undefined word is a finding where it
// decides something: an address, stored data, a comparison (Flow::Sink), or lanes that EXEC holds.
#include "definedness.hpp"

#include <bit>
#include <string>

#include "bind.hpp"
#include "lanes.hpp"
#include "launch.hpp"
#include "sets.hpp"

namespace emu {

namespace {

uint64_t lanes_of(const Wave& w, const Operand& op) {
  if (op.kind != Kind::Vgpr) return w.full;
  uint64_t lanes = w.full;
  for (int k = 0; k < op.count; ++k) lanes &= defined_lanes(w, op.reg + k);
  return lanes;
}

// Definedness of a source's lanes as DPP fetches them. `allowed`: the lanes that may be written at all.
uint64_t fetched(const Wave& w, const Inst& i, uint64_t lanes, uint64_t& allowed) {
  const DppMap& map = dpp_map(i, w.lanes);
  uint64_t out = 0;
  for (int l = 0; l < w.lanes; ++l)
    if (map.from[l] >= 0) out |= (lanes >> map.from[l] & 1) << l;
  allowed = map.rows;
  if (i.mod.bound_ctrl) out |= ~map.valid & w.full;  // zero comes where there is no source lane
  else allowed &= map.valid;
  return out;
}

// The registers that the instruction itself names (the sets of a dual issue cover both halves). Where the instruction
// keeps a half of its destination, that half is no source: it stays as defined as it was.
struct Sets {
  VSet reads, writes;
};

Sets sets_of(const Inst& i) {
  Sets out;
  SSet scalars;
  for (int k = 0; k < i.ops; ++k) add_registers(i.op[k], k < i.dsts ? out.writes : out.reads, scalars);
  if (i.entry->flags & kReadsDst) add_registers(i.op[0], out.reads, scalars);
  return out;
}

void report_undefined(Wave& w, const Inst& i, uint64_t bad, int reg) {
  define(w, reg, bad);  // one finding for a register, not one for everything that follows from it
  if (!w.launch || !w.launch->report) return;
  const int lane = std::countr_zero(bad);
  w.launch->report->add(Finding::UninitialisedRegister, w, i, lane, [&] {
    const std::string name = reg < kAgpr0 ? "v" + std::to_string(reg) : "a" + std::to_string(reg - kAgpr0);
    return name + " is used in lane " + std::to_string(lane) + ", where it holds no defined value";
  });
}

void sink(Wave& w, const Inst& i, const VSet& reads, uint64_t active) {
  each(reads, [&](int reg) { sink_undefined(w, i, reg, active); });
}

struct Result {
  uint64_t defined, written;
};

Result flow_of(Wave& w, const Inst& i, const Sets& sets) {
  const Entry& entry = *i.entry;
  const uint64_t active = entry.flags & kIgnoresExec ? w.full : w.exec();
  Result out{w.full, active};
  switch (entry.flow) {
    case Flow::Lane:
      if (i.mod.dpp != Dpp::None) {
        uint64_t allowed = w.full;
        out.defined = fetched(w, i, lanes_of(w, i.src(0)), allowed);
        for (int k = i.dsts + 1; k < i.ops; ++k) out.defined &= lanes_of(w, i.op[k]);
        if (entry.flags & kReadsDst) out.defined &= lanes_of(w, i.op[0]);
        out.written &= allowed;
      } else {
        each(sets.reads, [&](int reg) { out.defined &= defined_lanes(w, reg); });
      }
      break;
    case Flow::Cross:
      each(sets.reads, [&](int reg) {
        if (active & ~defined_lanes(w, reg)) out.defined = 0;
      });
      break;
    case Flow::Sink: sink(w, i, sets.reads, active); break;
    case Flow::Select: {
      uint64_t allowed = w.full, first = lanes_of(w, i.src(0));
      if (i.mod.dpp != Dpp::None) first = fetched(w, i, first, allowed);
      const uint64_t chosen = mask_of(w, i.src(2));
      out.defined = (chosen & lanes_of(w, i.src(1))) | (~chosen & first);
      out.written &= allowed;
      break;
    }
    case Flow::ReadLane: {
      const uint64_t exec = w.exec();
      const uint32_t lane = i.ops > i.dsts + 1 ? scalar32(w, i.src(1)) & uint32_t(w.lanes - 1)
                            : exec             ? uint32_t(std::countr_zero(exec))
                                               : 0;
      sink(w, i, sets.reads, 1ull << lane);
      break;
    }
    case Flow::WriteLane: out.written = 1ull << (scalar32(w, i.src(1)) & uint32_t(w.lanes - 1)); break;
    case Flow::Custom:
    case Flow::Defined: break;
  }
  return out;
}

// Lanes in which the first register of every source holds a value.
uint64_t low_defined(const Wave& w, const Inst& i) {
  uint64_t lanes = w.full;
  for (int k = i.dsts; k < i.ops; ++k)
    if (i.op[k].kind == Kind::Vgpr) lanes &= defined_lanes(w, i.op[k].reg);
  return lanes;
}

void apply(Wave& w, const Sets& sets, const Result& result) {
  each(sets.writes, [&](int reg) {
    undefine(w, reg, result.written & ~result.defined);
    define(w, reg, result.written & result.defined);
  });
}

}  // namespace

uint64_t defined_lanes(const Wave& w, int reg) {
  return w.track.defined.test(reg) ? w.full : w.track.lanes[reg];
}

void define(Wave& w, int reg, uint64_t lanes) {
  Tracker& t = w.track;
  if (t.defined.test(reg)) return;
  t.lanes[reg] |= lanes & w.full;
  if (t.lanes[reg] == w.full) t.defined.set(reg);
}

void undefine(Wave& w, int reg, uint64_t lanes) {
  Tracker& t = w.track;
  lanes &= w.full;
  if (!lanes) return;
  t.lanes[reg] = defined_lanes(w, reg) & ~lanes;
  t.defined.reset(reg);
}

void sink_undefined(Wave& w, const Inst& i, int reg, uint64_t active) {
  if (const uint64_t bad = active & ~defined_lanes(w, reg)) report_undefined(w, i, bad, reg);
}

void flow_undefined(Wave& w, const Inst& i) {
  if (i.entry->flow == Flow::Custom) return;
  if (i.entry->flags & kCarriesUp) {
    const uint64_t low = low_defined(w, i);
    const Sets sets = sets_of(i);
    const Result result = flow_of(w, i, sets);
    apply(w, sets, result);
    return define(w, i.op[0].reg, result.written & low);
  }
  if (!i.second) {
    // Loads and stores name what they read in their register sets, because binders correct what the order of the text
    // does not say.
    const bool named = i.entry->flow == Flow::Sink || (i.entry->flags & kNamesReads);
    const Sets sets = named ? Sets{i.v_reads, i.v_writes} : sets_of(i);
    return apply(w, sets, flow_of(w, i, sets));
  }
  const Sets x = sets_of(i), y = sets_of(*i.second);
  const Result of_x = flow_of(w, i, x), of_y = flow_of(w, *i.second, y);
  apply(w, x, of_x);
  apply(w, y, of_y);
}

}  // namespace emu
