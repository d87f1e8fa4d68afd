// Control, barriers, and exchange between lanes. Source: PTX ISA 9.1, 9.7.12, 9.7.13 and 9.7.9.6.
#include "binding.hpp"
#include "inline.hpp"
#include "lanes.hpp"

namespace ptx {

namespace {

[[noreturn]] void stop(const Inst& i, const Warp& w, const std::string& why) {
  throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + " in " + w.block->kernel->name + ": " + why};
}

// The flow of a branch counts every lane: those that stay go on to the next instruction.
void branch(Warp& w, const Inst& i, uint32_t mask) { split(w, mask, i.target); }
Handler bind_bra(Binding& b) {
  b.take("uni");
  b.count(1, 1);
  if (b.operand(0).kind != Operand::Label) b.refuse("it needs a label");
  b.out.target = uint32_t(b.operand(0).value);
  return branch;
}

void branch_index(Warp& w, const Inst& i, uint32_t mask) {
  if (w.block->checks) require_defined(w, i, i.slots[0], mask, "a branch");
  const uint32_t* index = lanes_of<uint32_t>(w, i.slots[0]);
  uint32_t left = mask;
  while (left) {
    const uint32_t which = index[__builtin_ctz(left)];
    uint32_t same = 0;
    each_lane(left, [&](int l) { same |= uint32_t(index[l] == which) << l; });
    const std::vector<uint32_t>& targets = w.block->kernel->target_lists[i.targets - 1];
    if (which >= targets.size()) stop(i, w, "there is no label " + std::to_string(which));
    split(w, same, targets[which]);
    left &= ~same;
    if (!left) break;
  }
}
Handler bind_brx(Binding& b) {
  if (!b.take("idx")) return nullptr;
  b.take("uni");
  b.count(2, 2);
  b.source(0, Type::U32);
  const auto found = b.kernel.function->targets.find(b.operand(1).name);
  if (found == b.kernel.function->targets.end()) b.refuse("no .branchtargets " + b.operand(1).name);
  b.kernel.target_lists.emplace_back(found->second.begin(), found->second.end());
  b.out.targets = uint32_t(b.kernel.target_lists.size());
  b.out.own_flow = true;
  return branch_index;
}

void end(Warp& w, const Inst&, uint32_t mask) { leave(w, mask); }
Handler bind_end(Binding& b) {
  b.take("uni");
  b.count(0, 0);
  return end;
}
void trap(Warp& w, const Inst& i, uint32_t) { stop(i, w, "the kernel trapped"); }
Handler bind_trap(Binding& b) { return b.count(0, 0), trap; }
void call(Warp& w, const Inst& i, uint32_t) { stop(i, w, "a function that the module does not hold, a pointer, or more than " + std::to_string(kDeepestCall) + " nested calls"); }
Handler bind_call(Binding& b) { return b.take("uni"), call; }
void nothing(Warp&, const Inst&, uint32_t) {}
// What this warp did and knows is visible to the asynchronous proxy for whoever comes after it.
void proxy_fence(Warp& w, const Inst&, uint32_t) {
  std::copy(std::begin(w.known), std::end(w.known), std::begin(w.fenced));
  w.fenced[w.index] = w.time++;
}
Handler bind_proxy_fence(Binding& b) {
  if (b.take("alias")) return nothing;
  if (!b.take("async")) b.refuse("of the proxies, alias and async are implemented");
  if (b.take("global")) return nothing;  // global memory has no such books
  b.any({"shared::cta", "shared::cluster"});
  return proxy_fence;
}
// The mbarriers that this warp initialised are ordered by a barrier.cluster that it arrives at behind this, even .relaxed.
void init_fence(Warp& w, const Inst&, uint32_t) { w.inits_fenced = w.time++; }
Handler bind_fence(Binding& b) {  // what it orders is in order here
  if (b.take("proxy")) return bind_proxy_fence(b);
  if (b.take("mbarrier_init")) {
    if (!b.take("release") || !b.take("cluster")) b.refuse("it is fence.mbarrier_init.release.cluster");
    return init_fence;
  }
  b.any({"cta", "gl", "sys", "gpu", "cluster", "sc", "acq_rel", "acquire", "release"});
  return nothing;
}
Handler bind_nanosleep(Binding& b) {
  b.type();
  return nothing;
}
Handler bind_griddepcontrol(Binding& b) {  // launches follow each other
  b.any({"launch_dependents", "wait"});
  return nothing;
}

// ---- Barriers ----

void barrier(Warp& w, const Inst& i, uint32_t mask) {
  if (i.sign && !together(w, i, mask, w.alive, i.at->opcode.c_str())) return;
  const uint32_t* name = lanes_of<uint32_t>(w, i.slots[0]);
  w.barrier = name[__builtin_ctz(mask)];
  w.barrier_count = i.sources == 2 ? lanes_of<uint32_t>(w, i.slots[1])[__builtin_ctz(mask)] : 0;
  if (w.barrier > 15) stop(i, w, "there are 16 barriers");
  if (w.barrier_count % 32) stop(i, w, "a number of threads that is not a multiple of 32");
  ++w.block->counts.barriers;
  if (w.barrier_count) w.block->named.arrive(w, i, w.barrier, w.barrier_count, true);
  else w.going = Going::Barrier;
}
void barrier_arrive(Warp& w, const Inst& i, uint32_t mask) {
  if (i.sign && !together(w, i, mask, w.alive, i.at->opcode.c_str())) return;
  const int lane = __builtin_ctz(mask);
  const uint32_t name = lanes_of<uint32_t>(w, i.slots[0])[lane], wanted = lanes_of<uint32_t>(w, i.slots[1])[lane];
  if (name > 15) stop(i, w, "there are 16 barriers");
  if (!wanted || wanted % 32) stop(i, w, "a number of threads that is not a multiple of 32");
  ++w.block->counts.barriers;
  w.block->named.arrive(w, i, name, wanted, false);
}
// bar.red runs twice: it leaves the warp's contribution and waits, then joins the contributions of all warps. They lie in
// a row that every warp has for this instruction: the state (rounds so far, times two, plus one while it waits), and for
// even and odd rounds the round's number and the value. A warp cannot be two rounds ahead of one that still reads.
enum class Join { Count, And, Or };
template <Join how> void reducing_barrier(Warp& w, const Inst& i, uint32_t mask) {
  const Slot hidden = i.slots[i.dests + i.sources - 1], value = i.slots[i.dests + i.sources - 2];
  uint32_t* own = lanes_of<uint32_t>(w, hidden);
  if (own[0] == 0xCDCDCDCD) own[0] = 0;  // as a block begins
  const uint32_t round = own[0] / 2 + 1, at = 2 + round % 2 * 2;
  if (!(own[0] & 1)) {
    if (!together(w, i, mask, w.alive, i.at->opcode.c_str())) return;
    const uint32_t yes = (w.predicate(value) ^ (i.imm ? kAll : 0)) & mask;
    own[0] |= 1, own[at] = round;
    own[at + 1] = how == Join::Count ? uint32_t(__builtin_popcount(yes)) : how == Join::And ? yes == mask : yes != 0;
    if (w.block->checks) require_defined(w, i, value, mask, "what a barrier returns");
    const uint32_t* name = lanes_of<uint32_t>(w, i.slots[i.dests]);
    w.barrier = name[__builtin_ctz(mask)] & 15;
    w.barrier_count = i.sources == 4 ? lanes_of<uint32_t>(w, i.slots[i.dests + 1])[__builtin_ctz(mask)] : 0;
    ++w.block->counts.barriers;
    --w.block->executed[w.pc - 1];
    --w.pc;
    w.going = Going::Barrier;
    return;
  }
  own[0] = round * 2;
  uint32_t joined = how == Join::And ? 1 : 0;
  for (const auto& other : w.block->warps) {
    const uint32_t* theirs = lanes_of<uint32_t>(*other, hidden);
    if (theirs[at] != round) continue;  // it ended before, or takes no part
    joined = how == Join::Count ? joined + theirs[at + 1] : how == Join::And ? joined & theirs[at + 1] : joined | theirs[at + 1];
  }
  if (how == Join::Count) each_lane(mask, [&](int l) { lanes_of<uint32_t>(w, i.slots[0])[l] = joined; });
  else w.set_predicate(i.slots[0], joined ? kAll : 0, mask);
  w.define(i.slots[0], kAll, mask);
}
Handler bind_reducing(Binding& b) {
  const bool count = b.take("popc"), all = b.take("and"), any = b.take("or");
  const Type type = b.type();
  if (count != (type == Type::U32) || (!count && type != Type::Pred)) return nullptr;
  b.count(3, 4);
  const size_t last = b.s.operands.size() - 1;
  b.dest(0, type);
  for (size_t k = 1; k < last; ++k) b.source(k, Type::U32);
  b.source(last, Type::Pred);
  b.out.imm = b.operand(last).negated;
  b.sources.push_back({b.kernel.rows++, b.kernel.ids++});
  return count ? reducing_barrier<Join::Count> : all ? reducing_barrier<Join::And> : any ? reducing_barrier<Join::Or> : nullptr;
}
void warp_barrier(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t lanes = lanes_of<uint32_t>(w, i.slots[0])[__builtin_ctz(mask)] & w.alive;
  together(w, i, mask, lanes, "bar.warp.sync");
}
Handler bind_bar(Binding& b) {
  b.out.own_flow = true;
  if (b.take("warp")) {
    if (!b.take("sync")) return nullptr;
    b.count(1, 1);
    b.source(0, Type::B32);
    b.out.cls = Class::Shuffle;
    return warp_barrier;
  }
  if (b.take("cluster")) return bind_cluster_barrier(b);
  b.take("cta");
  const bool aligned = b.take("aligned") || b.s.root == "bar";
  if (aligned && b.take("red")) return bind_reducing(b);
  b.out.sign = true;  // without .aligned, the lanes of a warp are waited for all the same
  if (b.take("arrive")) {
    b.count(2, 2);
    b.source(0, Type::U32), b.source(1, Type::U32);
    return barrier_arrive;
  }
  if (!b.take("sync")) return nullptr;
  b.count(1, 2);
  b.source(0, Type::U32);
  if (b.s.operands.size() == 2) b.source(1, Type::U32);
  return barrier;
}

// ---- Lanes ----

enum class Shuffle { Up, Down, Butterfly, Index };

// slots: d, [p], a, b, c, members
template <Shuffle how> void shuffle(Warp& w, const Inst& i, uint32_t mask) {
  const Slot* s = i.slots + i.dests;
  const uint32_t members = lanes_of<uint32_t>(w, s[3])[__builtin_ctz(mask)];
  if (!together(w, i, mask, members & w.alive, "shfl.sync")) return;
  require_member(w, i, s[3], mask, "shfl.sync");
  const uint32_t *b = lanes_of<uint32_t>(w, s[1]), *c = lanes_of<uint32_t>(w, s[2]);
  uint32_t from[32], lane[32], *d = lanes_of<uint32_t>(w, i.slots[0]), found = 0, defined = 0;
  std::memcpy(from, w.row(s[0]), sizeof from);
  const uint32_t known = mask & w.defined[s[0].id];  // a lane that does not take part has no value to give
  for (uint32_t l = 0; l < 32; ++l) {
    const uint32_t by = b[l] & 31, segment = c[l] >> 8 & 31, last = (l & segment) | (c[l] & 31 & ~segment), first = l & segment;
    const int32_t j = how == Shuffle::Up ? int32_t(l) - int32_t(by) : how == Shuffle::Down ? int32_t(l + by) : how == Shuffle::Butterfly ? int32_t(l ^ by) : int32_t(first | (by & ~segment));
    const bool inside = how == Shuffle::Up ? j >= int32_t(last) : j <= int32_t(last);
    lane[l] = inside ? uint32_t(j) & 31 : l;
    found |= uint32_t(inside) << l;
    defined |= (known >> lane[l] & 1) << l;
  }
  each_lane(mask, [&](int l) { d[l] = from[lane[l]]; });
  w.define(i.slots[0], defined, mask);
  if (i.dests == 2) w.set_predicate(i.slots[1], found, mask), w.define(i.slots[1], kAll, mask);
}
Handler bind_shfl(Binding& b) {
  if (!b.take("sync")) b.refuse("it needs .sync");
  const bool up = b.take("up"), down = b.take("down"), fly = b.take("bfly"), index = b.take("idx");
  if (b.type() != Type::B32) return nullptr;
  b.count(5, 5);
  const Operand& d = b.operand(0);
  if (d.kind == Operand::Vector && d.parts.size() == 2) b.dest(d.parts[0], Type::B32), b.dest(d.parts[1], Type::Pred);
  else b.dest(d, Type::B32);
  for (size_t k = 1; k < 5; ++k) b.source(k, Type::B32);
  b.out.own_flow = true;
  return up ? shuffle<Shuffle::Up> : down ? shuffle<Shuffle::Down> : fly ? shuffle<Shuffle::Butterfly> : index ? shuffle<Shuffle::Index> : nullptr;
}

enum class Vote { All, Any, Uni, Ballot };
template <Vote how> void vote(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t members = lanes_of<uint32_t>(w, i.slots[2])[__builtin_ctz(mask)];
  if (!together(w, i, mask, members & w.alive, "vote.sync")) return;
  require_member(w, i, i.slots[2], mask, "vote.sync");
  const uint32_t yes = (w.predicate(i.slots[1]) ^ (i.imm ? kAll : 0)) & mask & members, among = mask & members;
  const bool defined = (w.defined[i.slots[1].id] & among) == among;
  if (how == Vote::Ballot) {
    uint32_t* d = lanes_of<uint32_t>(w, i.slots[0]);
    each_lane(mask, [&](int l) { d[l] = yes; });
  } else {
    const bool r = how == Vote::All ? yes == among : how == Vote::Any ? yes != 0 : yes == 0 || yes == among;
    w.set_predicate(i.slots[0], r ? kAll : 0, mask);
  }
  w.define(i.slots[0], defined ? kAll : 0, mask);
}
Handler bind_vote(Binding& b) {
  if (!b.take("sync")) b.refuse("it needs .sync");
  const bool all = b.take("all"), any = b.take("any"), uni = b.take("uni"), ballot = b.take("ballot");
  const Type type = b.type();
  b.count(3, 3);
  b.dest(0, type), b.source(1, Type::Pred), b.source(2, Type::B32);
  b.out.imm = b.operand(1).negated;
  b.out.own_flow = true;
  if ((type == Type::B32) != ballot) return nullptr;
  return all ? vote<Vote::All> : any ? vote<Vote::Any> : uni ? vote<Vote::Uni> : ballot ? vote<Vote::Ballot> : nullptr;
}

void active(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = lanes_of<uint32_t>(w, i.slots[0]);
  each_lane(mask, [&](int l) { d[l] = mask; });
}
Handler bind_activemask(Binding& b) {
  if (b.type() != Type::B32) return nullptr;
  b.count(1, 1);
  b.dest(0, Type::B32);
  return active;
}

template <class T, class F> void reduce(Warp& w, const Inst& i, uint32_t mask, F f) {
  const uint32_t members = lanes_of<uint32_t>(w, i.slots[2])[__builtin_ctz(mask)];
  if (!together(w, i, mask, members & w.alive, "redux.sync")) return;
  require_member(w, i, i.slots[2], mask, "redux.sync");
  const uint32_t *a = lanes_of<uint32_t>(w, i.slots[1]), among = mask & members;
  T out = T(a[__builtin_ctz(among)]);
  each_lane(among & (among - 1), [&](int l) { out = f(out, T(a[l])); });
  uint32_t* d = lanes_of<uint32_t>(w, i.slots[0]);
  each_lane(among, [&](int l) { d[l] = uint32_t(out); });
  w.define(i.slots[0], (w.defined[i.slots[1].id] & among) == among ? kAll : 0, among);
}
void redux_add(Warp& w, const Inst& i, uint32_t m) { reduce<uint32_t>(w, i, m, [](uint32_t a, uint32_t b) { return a + b; }); }
void redux_and(Warp& w, const Inst& i, uint32_t m) { reduce<uint32_t>(w, i, m, [](uint32_t a, uint32_t b) { return a & b; }); }
void redux_or(Warp& w, const Inst& i, uint32_t m) { reduce<uint32_t>(w, i, m, [](uint32_t a, uint32_t b) { return a | b; }); }
void redux_xor(Warp& w, const Inst& i, uint32_t m) { reduce<uint32_t>(w, i, m, [](uint32_t a, uint32_t b) { return a ^ b; }); }
template <class T> void redux_min(Warp& w, const Inst& i, uint32_t m) { reduce<T>(w, i, m, [](T a, T b) { return a < b ? a : b; }); }
template <class T> void redux_max(Warp& w, const Inst& i, uint32_t m) { reduce<T>(w, i, m, [](T a, T b) { return a > b ? a : b; }); }
// +0.0 is above -0.0; without .NaN only numbers count, and if there are none the result is the canonical NaN.
template <bool Abs, bool Nan, bool High> struct Extreme {
  uint32_t bits;
  explicit Extreme(uint32_t raw) : bits(Abs ? raw & 0x7fffffffu : raw) {}
  explicit operator uint32_t() const { return nan() ? 0x7fffffffu : bits; }
  bool nan() const { return (bits & 0x7fffffffu) > 0x7f800000u; }
  int32_t order() const { return int32_t(bits) ^ ((int32_t(bits) >> 31) & 0x7fffffff); }
  Extreme with(Extreme b) const {
    if (nan() || b.nan()) return nan() == Nan ? *this : b;
    return (order() > b.order()) == High ? *this : b;
  }
};
template <class T> void redux_extreme(Warp& w, const Inst& i, uint32_t m) { reduce<T>(w, i, m, [](T a, T b) { return a.with(b); }); }
template <bool Abs, bool Nan> Handler extreme_of(bool high) {
  return high ? redux_extreme<Extreme<Abs, Nan, true>> : redux_extreme<Extreme<Abs, Nan, false>>;
}
Handler bind_redux(Binding& b) {
  if (!b.take("sync")) b.refuse("it needs .sync");
  const bool add = b.take("add"), low = b.take("min"), high = b.take("max"), both = b.take("and"), either = b.take("or"), odd = b.take("xor");
  const bool abs = b.take("abs"), nan = b.take("NaN");
  const Type type = b.type();
  b.count(3, 3);
  b.dest(0, type), b.source(1, type), b.source(2, Type::B32);
  b.out.own_flow = true;
  if (type == Type::F32 && (low || high)) {
    if (abs) return nan ? extreme_of<true, true>(high) : extreme_of<true, false>(high);
    return nan ? extreme_of<false, true>(high) : extreme_of<false, false>(high);
  }
  if (abs || nan) return nullptr;
  const bool sign = type == Type::S32;
  if (bits_of(type) != 32 || is_float(type)) return nullptr;
  if (low) return sign ? redux_min<int32_t> : redux_min<uint32_t>;
  if (high) return sign ? redux_max<int32_t> : redux_max<uint32_t>;
  return add ? redux_add : both ? redux_and : either ? redux_or : odd ? redux_xor : nullptr;
}

// One lane of those that execute it: here the lowest.
void elect(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t members = lanes_of<uint32_t>(w, i.slots[2])[__builtin_ctz(mask)];
  if (!together(w, i, mask, members & w.alive, "elect.sync")) return;
  require_member(w, i, i.slots[2], mask, "elect.sync");
  const uint32_t leader = uint32_t(__builtin_ctz(mask & members ? mask & members : mask));
  each_lane(mask, [&](int l) { lanes_of<uint32_t>(w, i.slots[0])[l] = leader; });
  w.set_predicate(i.slots[1], 1u << leader, mask);
  w.define(i.slots[0], kAll, mask), w.define(i.slots[1], kAll, mask);
}
Handler bind_elect(Binding& b) {
  if (!b.take("sync")) return nullptr;
  b.count(2, 2);
  const Operand& d = b.operand(0);
  if (d.kind != Operand::Vector || d.parts.size() != 2) b.refuse("its destination is lane|predicate");
  b.dest(d.parts[0], Type::B32), b.dest(d.parts[1], Type::Pred);
  b.source(1, Type::B32);
  b.out.own_flow = true;
  return elect;
}

// What a warp releases another one may take, and that waits for it. Without a cubin and .maxnreg nothing says how many there are.
void set_registers(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "setmaxnreg") || !w.registers) return;
  const bool more = i.target;
  const uint32_t wanted = uint32_t(i.imm);
  if (more ? wanted <= w.registers : wanted >= w.registers) return;
  uint32_t& spare = w.block->spare_registers;
  if (more && wanted - w.registers > spare) {
    --w.block->executed[--w.pc];
    w.polled = kForRegisters;
    return yield_to_others(w);
  }
  spare += w.registers - wanted;
  w.registers = wanted, w.recent_poll = 0;
  w.block->events += !more;
}
Handler bind_setmaxnreg(Binding& b) {
  const bool more = b.take("inc");
  if (more == b.take("dec") || !b.take("sync") || !b.take("aligned")) return nullptr;
  if (b.type() != Type::U32) return nullptr;
  b.count(1, 1);
  const Operand& o = b.operand(0);
  if (o.kind != Operand::Integer || o.value < 24 || o.value > 256 || o.value % 8) b.refuse("it takes 24 to 256 registers, a multiple of 8");
  b.out.own_flow = true, b.out.target = more, b.out.imm = o.value;
  return set_registers;
}

constexpr Opcode rows[] = {
    {"bra", "9.7.12.3", Class::Branch, bind_bra},
    {"brx", "9.7.12.4", Class::Branch, bind_brx},
    {"call", "9.7.12.5", Class::Branch, bind_call},
    {"ret", "9.7.12.6", Class::Branch, bind_end},
    {"exit", "9.7.12.7", Class::Branch, bind_end},
    {"bar", "9.7.13.1", Class::Barrier, bind_bar},
    {"barrier", "9.7.13.1", Class::Barrier, bind_bar},
    {"membar", "9.7.13.4", Class::Barrier, bind_fence},
    {"fence", "9.7.13.4", Class::Barrier, bind_fence},
    {"vote", "9.7.13.8", Class::Shuffle, bind_vote},
    {"activemask", "9.7.13.10", Class::Shuffle, bind_activemask},
    {"redux", "9.7.13.11", Class::Shuffle, bind_redux},
    {"elect", "9.7.13.14", Class::Shuffle, bind_elect},
    {"setmaxnreg", "9.7.19.5", Class::Barrier, bind_setmaxnreg},
    {"griddepcontrol", "9.7.13.12", Class::Barrier, bind_griddepcontrol},
    {"shfl", "9.7.9.6", Class::Shuffle, bind_shfl},
    {"trap", "9.7.19.3", Class::Branch, bind_trap},
    {"nanosleep", "9.7.19.2", Class::Branch, bind_nanosleep},
};

}  // namespace

extern const Table kControlOpcodes{rows, std::size(rows)};

}  // namespace ptx
