// mbarrier. Source: PTX ISA 9.1, 9.7.13.15. A try_wait that fails answers false, so whoever ignores the answer goes on too
// early; tried again, it suspends its warp until the phase is over, or nothing else can go on. A test_wait only answers.
// cp.async.mbarrier.arrive is described there too.
#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"

namespace ptx {

namespace {

constexpr int64_t kParity = 1, kDrop = 2, kExpect = 4, kRelaxed = 8, kSuspends = 16, kNoInc = 32;  // options, in `target`

// The lanes whose operand is an mbarrier in shared memory; their offsets, and blocks where they may be others'.
uint32_t places(Warp& w, const Inst& i, Slot slot, uint32_t mask, Lanes& a, Block** of = nullptr) {
  addresses(w, i, slot, mask, a);
  if (i.space == Space::Generic)
    each_lane(mask, [&](int l) {
      const Placed p = placed(Space::Generic, a.at[l]);
      a.at[l] = p.space == Space::Shared ? p.at : ~uint64_t(7);
    });
  if (of) each_lane(mask, [&](int l) { of[l] = a.at[l] == ~uint64_t(7) ? w.block : &block_of(w, i, a.at[l]); });
  return limited_lanes(w, i, mask, a, 8, w.block->shared.bytes(), "shared");
}
uint32_t value(const Warp& w, Slot slot, int lane) { return reinterpret_cast<const uint32_t*>(w.row(slot))[lane]; }

void init(Warp& w, const Inst& i, uint32_t mask) {
  Lanes a;
  each_lane(places(w, i, i.slots[0], mask, a), [&](int l) { w.block->mbarriers.init(w, i, l, uint32_t(a.at[l]), value(w, i.slots[1], l)); });
  if (w.block->checks) require_defined(w, i, i.slots[1], mask, "the count of an mbarrier");
}
void invalidate(Warp& w, const Inst& i, uint32_t mask) {
  Lanes a;
  each_lane(places(w, i, i.slots[0], mask, a), [&](int l) { w.block->mbarriers.invalidate(w, i, l, uint32_t(a.at[l])); });
}

template <bool completes> void transactions(Warp& w, const Inst& i, uint32_t mask) {
  Lanes a;
  Block* of[32];
  each_lane(places(w, i, i.slots[0], mask, a, of), [&](int l) {
    const int64_t bytes = value(w, i.slots[1], l);
    Mbarrier* m = of[l]->mbarriers.find(w, i, l, uint32_t(a.at[l]), of[l] != w.block);
    if (m && note_signal(w, i, l, *of[l])) of[l]->mbarriers.expect(w, i, l, *m, completes ? -bytes : bytes);
  });
}

// slots: [state], address, [count or bytes]. The state is the phase and what was pending before.
void arrive(Warp& w, const Inst& i, uint32_t mask) {
  Lanes a;
  const Slot* s = i.slots + i.dests;
  const bool expects = i.target & kExpect;
  Block* of[32];
  each_lane(places(w, i, s[0], mask, a, of), [&](int l) {
    Mbarriers& all = of[l]->mbarriers;
    const bool remote = of[l] != w.block;
    Mbarrier* m = all.find(w, i, l, uint32_t(a.at[l]), remote);
    const uint32_t operand = i.sources > 1 ? value(w, s[1], l) : 1;
    const uint64_t state = m ? uint64_t(m->phase) << 32 | m->pending : 0;
    if (i.dests) reinterpret_cast<uint64_t*>(w.row(i.slots[0]))[l] = state;
    if (!m || !note_signal(w, i, l, *of[l])) return;
    if (expects) m->bytes += operand, m->last = &i, m->warp = w.index;
    if (remote) {
      all.note_remote(w, *m, 0);
      if (w.block->kernel->tensor_pair && partners(*w.block, *of[l])) tell_partner(w, m->arriving, true), ++w.time;
    } else if (i.target & kRelaxed) m->arriving.gather_tensor(w);
    all.arrive(w, i, l, *m, expects ? 1 : operand, i.target & kDrop, !remote && !(i.target & kRelaxed));
  });
  if (i.dests) w.define(i.slots[0], kAll, mask);
}

// cp.async.mbarrier.arrive: the mbarrier counts the copies of each thread. Their data is there at once, so the thread arrives at
// once; the books show the data to those who waited for the phase. Without .noinc, it raises the count by the arrival itself.
void copies_arrive(Warp& w, const Inst& i, uint32_t mask) {
  Lanes a;
  Mbarrier* first = nullptr;
  each_lane(places(w, i, i.slots[0], mask, a), [&](int l) {
    Mbarrier* m = w.block->mbarriers.find(w, i, l, uint32_t(a.at[l]));
    if (!m) return;
    if (first && first != m) throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + ": lanes of one warp that name several mbarriers are not implemented"};
    if (!first) w.copies.arrive(m->agent, m->phase + 1, w.time);
    first = m;
    if (!(i.target & kNoInc)) ++m->pending;
    w.block->mbarriers.arrive(w, i, l, *m, 1, false, true);
  });
}

// slots: p, address, state or parity. The lanes of a warp that ask together go on together.
void wait(Warp& w, const Inst& i, uint32_t mask) {
  Lanes a;
  uint32_t done = 0;
  const uint64_t failed = w.polled;
  const Slot operand = i.slots[2];
  Mbarrier* m = nullptr;
  uint64_t at = 0;
  bool given = false;  // what lies before its last phase
  if (w.block->checks) require_defined(w, i, operand, mask, "which phase is waited for");
  each_lane(places(w, i, i.slots[1], mask, a), [&](int l) {
    const bool again = m && a.at[l] == at && Mbarriers::known(w, *m);  // mostly all lanes ask for one phase
    if (!again) m = w.block->mbarriers.find(w, i, l, uint32_t(at = a.at[l])), given = false;
    if (!m) return void(done |= 1u << l);  // reported; else nobody ever goes on
    bool over;
    if (i.target & kParity) over = (m->phase & 1) != (value(w, operand, l) & 1);
    else over = m->phase != uint32_t(reinterpret_cast<const uint64_t*>(w.row(operand))[l] >> 32);
    done |= uint32_t(over) << l;
    if (over && !given) i.target & kRelaxed ? m->complete.give_tensor(w) : m->complete.give(w);
    given |= over;
    if (!over) w.polled = uint64_t(m->phase + 1) << 32 | a.at[l];
  });
  if (done != mask && w.polled == failed && i.target & kSuspends && !w.block->cluster->late()) {
    --w.block->executed[--w.pc];
    return yield_to_others(w);
  }
  w.set_predicate(i.slots[0], done, mask);
  w.define(i.slots[0], kAll, mask);
  if (done != mask) yield_to_others(w);
  else w.recent_poll = 0, w.polled = 0;
}

void pending(Warp& w, const Inst& i, uint32_t mask) {
  each_lane(mask, [&](int l) { lanes_of<uint32_t>(w, i.slots[0])[l] = uint32_t(reinterpret_cast<const uint64_t*>(w.row(i.slots[1]))[l]); });
}

Handler bind_mbarrier(Binding& b) {
  const bool shared = b.any({"shared", "shared::cta", "shared::cluster"});
  b.out.space = shared ? Space::Shared : Space::Generic;
  if (b.take("relaxed")) b.out.target |= kRelaxed;
  b.any({"cta", "cluster", "acquire", "release"});
  b.out.own_flow = true;
  if (b.take("pending_count")) {
    if (b.type() != Type::B64) return nullptr;
    b.count(2, 2);
    b.dest(0, Type::B32), b.source(1, Type::B64);
    b.out.own_flow = false;
    return pending;
  }
  if (b.take("init") || b.take("inval")) {
    const bool first = b.s.operands.size() == 2;
    if (b.type() != Type::B64) return nullptr;
    b.count(1, 2);
    b.address(0);
    if (first) b.source(1, Type::U32);
    return first ? init : invalidate;
  }
  const bool arrives = b.take("arrive"), drops = b.take("arrive_drop"), expects = b.take("expect_tx");
  if (arrives || drops) {
    if (b.type() != Type::B64) return nullptr;
    b.take("noComplete");  // a promise; the arrival is the same
    b.out.target |= (drops ? kDrop : 0) | (expects ? kExpect : 0);
    size_t k = 0;
    b.count(1, 3);
    if (b.operand(0).kind != Operand::Address) {
      if (b.operand(0).kind != Operand::Sink) b.dest(0, Type::B64);
      ++k;
    }
    b.address(k++);
    if (k < b.s.operands.size()) b.source(k, Type::U32);
    else if (expects) b.refuse("it needs a number of bytes");
    return arrive;
  }
  const bool completes = b.take("complete_tx");
  if (expects || completes) {
    if (b.type() != Type::B64) return nullptr;
    b.count(2, 2);
    b.address(0), b.source(1, Type::U32);
    return completes ? transactions<true> : transactions<false>;
  }
  const bool suspends = b.take("try_wait");
  if (!suspends && !b.take("test_wait")) return nullptr;
  if (suspends) b.out.target |= kSuspends;
  const bool parity = b.take("parity");
  if (parity) b.out.target |= kParity;
  if (b.type() != Type::B64) return nullptr;
  b.count(3, 4);  // the fourth: how long it may wait
  b.dest(0, Type::Pred);
  b.address(1);
  b.source(2, parity ? Type::U32 : Type::B64);
  return wait;
}

constexpr Opcode rows[] = {{"mbarrier", "9.7.13.15", Class::Barrier, bind_mbarrier}};

}  // namespace

Handler bind_copies_arrive(Binding& b) {
  if (!b.take("arrive")) return nullptr;
  if (b.take("noinc")) b.out.target |= kNoInc;
  b.out.space = b.any({"shared", "shared::cta"}) ? Space::Shared : Space::Generic;
  if (b.type() != Type::B64) return nullptr;
  b.count(1, 1);
  b.address(0);
  b.out.own_flow = true;
  return copies_arrive;
}

extern const Table kMbarrierOpcodes{rows, std::size(rows)};

}  // namespace ptx
