// Atomics on memory: GLOBAL, FLAT and BUFFER (CDNA3 ISA 12.14 and 12.15, RDNA3 ISA 16.15, RDNA4 ISA 15). They are
// atomic on the host too, because workgroups run on several threads. The lanes of a wave act one after another, the
// lowest first.
#include <string>
#include <string_view>

#include "atomic_ops.hpp"
#include "buffer_address.hpp"
#include "global.hpp"
#include "tables.hpp"

namespace emu {

namespace {

using namespace atomic_op;

constexpr const char* kAtomic = "CDNA3 ISA 12.14 and 12.15, RDNA3 ISA 16.15, RDNA4 ISA 15 (atomics)";

template <size_t Bytes> struct Bits;
template <> struct Bits<4> { using type = uint32_t; };
template <> struct Bits<8> { using type = uint64_t; };

template <class T> T from_lane(const Wave& w, int reg, int lane) {
  typename Bits<sizeof(T)>::type bits = w.v[reg].x[lane];
  if constexpr (sizeof(T) == 8) bits |= uint64_t(w.v[reg + 1].x[lane]) << 32;
  return std::bit_cast<T>(bits);
}

// data, or new value and the value to compare with, the first dwords first.
template <class T, class F, int Data> T stored(const Wave& w, int reg, int lane, T old) {
  if constexpr (Data == 2)
    return F::of(old, from_lane<T>(w, reg, lane), from_lane<T>(w, reg + int(sizeof(T) / 4), lane));
  else return F::of(old, from_lane<T>(w, reg, lane));
}

// An operation of `bytes` bytes in one lane; -> the old value's bits.
struct Operation {
  uint32_t bytes;
  uint64_t (*act)(const Wave& w, int reg, int lane, uint64_t address);
};

template <class T, class F, int Data> uint64_t exchange(const Wave& w, int reg, int lane, uint64_t address) {
  using U = typename Bits<sizeof(T)>::type;
  U* const memory = reinterpret_cast<U*>(address);
  U old = __atomic_load_n(memory, __ATOMIC_RELAXED);
  U next;
  do next = std::bit_cast<U>(stored<T, F, Data>(w, reg, lane, std::bit_cast<T>(old)));
  while (!__atomic_compare_exchange_n(memory, &old, next, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return old;
}
template <class T, class F, int Data> constexpr Operation kOperation{sizeof(T), exchange<T, F, Data>};

// The device reports a memory violation for an address that is not a multiple of the size.
bool aligned(Wave& w, const Inst& i, int lane, uint64_t address, uint32_t bytes) {
  if (address % bytes == 0) return true;
  if (w.launch && w.launch->report)
    w.launch->report->add(Finding::OutOfBounds, w, i, lane, [&] {
      return "lane " + std::to_string(lane) + ": the atomic's address is not a multiple of " + std::to_string(bytes);
    });
  return false;
}

// Acts in the lanes of `addresses.mask`. The old value goes to `result` (-1: nowhere); it is zero where the memory may
// not be touched.
void act(Wave& w, const Inst& i, const Operation& does, const Addresses& addresses, uint64_t may, int data, int result) {
  each_lane(addresses.mask, [&](int l) {
    uint64_t old = 0;
    if ((may >> l & 1) && aligned(w, i, l, addresses.at[l], does.bytes)) old = does.act(w, data, l, addresses.at[l]);
    if (result < 0) return;
    w.v[result].x[l] = uint32_t(old);
    if (does.bytes == 8) w.v[result + 1].x[l] = uint32_t(old >> 32);
  });
  const uint64_t bytes = moved(addresses.mask & may, does.bytes);
  counts().global_read += bytes;
  counts().global_written += bytes;
}

Outstanding pending(const Operation& does, int result) {
  if (result < 0) return {};
  return {.first = uint16_t(result), .count = uint8_t(does.bytes / 4)};
}

// Operands: vdst where the old value is returned, vaddr, vdata, saddr.
void act_global(Wave& w, const Inst& i, const Operation& does) {
  Addresses a;
  global_addresses(w, i, i.op[i.dsts], i.op[i.dsts + 2], a);
  const int result = i.dsts ? i.op[0].reg : -1;
  act(w, i, does, a, reachable(w, i, a, does.bytes, true), i.op[i.dsts + 1].reg, result);
  issue(w, i.dsts ? Counter::Load : Counter::Store, pending(does, result));
}

const Operand kNoBase{.kind = Kind::Off};

void act_flat(Wave& w, const Inst& i, const Operation& does) {
  Addresses a;
  global_addresses(w, i, i.op[i.dsts], kNoBase, a);
  const int result = i.dsts ? i.op[0].reg : -1;
  act(w, i, does, a, reachable_flat(w, i, a, does.bytes, Touch::Change), i.op[i.dsts + 1].reg, result);
  Outstanding what = pending(does, result);
  what.sequence = w.track.sequence;
  issue_flat(w, i.dsts ? Counter::Load : Counter::Store, what);
}

// Operands: vdata, vaddr, resource, soffset. A returned old value replaces vdata.
void act_buffer(Wave& w, const Inst& i, const Operation& does) {
  const uint64_t exec = w.exec();
  if (i.mod.offen || i.mod.idxen) require_defined(w, i, i.op[1], exec);
  BufferAccess access;
  buffer_access(w, i, {&i.op[1], &i.op[2], &i.op[3]}, does.bytes, true, access);
  require_defined(w, i, i.op[0], access.every);
  Addresses& a = access.addresses;
  a.mask = access.every;
  const uint64_t may = reachable(w, i, a, does.bytes, true);
  const bool returns = i.v_writes.any();
  const int result = returns ? i.op[0].reg : -1;
  a.mask = exec;
  act(w, i, does, a, may, i.op[0].reg, result);
  if (returns)
    for (size_t d = 0; d < does.bytes / 4; ++d) define(w, result + int(d), exec);
  issue(w, returns ? Counter::Load : Counter::Store, pending(does, result));
}

template <class T, class F, int Data> void global_atomic(Wave& w, const Inst& i) { act_global(w, i, kOperation<T, F, Data>); }
template <class T, class F, int Data> void flat_atomic(Wave& w, const Inst& i) { act_flat(w, i, kOperation<T, F, Data>); }
template <class T, class F, int Data> void buffer_atomic(Wave& w, const Inst& i) { act_buffer(w, i, kOperation<T, F, Data>); }

// ---- binding ----

bool returns_old(const Inst& i) { return i.mod.sc0 || i.mod.glc || i.mod.th_return; }

std::string bind_addressed(Inst& i, int operands) {
  if (i.mod.lds) return "this form of atomics on LDS is not implemented";
  if (i.ops != operands && i.ops != operands + 1) return "its operands are not vdst, vaddr, vdata, saddr";
  set_roles(i, i.ops == operands + 1);
  return {};
}

std::string bind_global(Inst& i, const ArchTraits&) { return bind_addressed(i, 3); }
std::string bind_flat(Inst& i, const ArchTraits&) { return bind_addressed(i, 2); }

std::string bind_buffer(Inst& i, const ArchTraits&) {
  if (i.ops != 4 || i.op[2].kind != Kind::Sgpr || i.op[2].count != 4)
    return "its operands are not vdata, vaddr, resource, soffset";
  if (i.mod.idxen + i.mod.offen > 0 && i.op[1].kind != Kind::Vgpr) return "no register holds index or offset";
  set_roles(i, 0);
  if (returns_old(i)) {
    const bool compares = std::string_view(i.entry->name).find("cmpswap") != std::string_view::npos;
    for (int k = 0; k < i.op[0].count / (compares ? 2 : 1); ++k) i.v_writes.set(size_t(i.op[0].reg + k));
  }
  return refuse_buffer(i);
}

#define ATOMIC(name, type, op, data)                                                                                  \
  {"global_atomic_" name, global_atomic<type, op, data>, 0, Class::Atomic, Flow::Sink, 0, {}, bind_global, kAtomic},  \
  {"flat_atomic_" name, flat_atomic<type, op, data>, 0, Class::Atomic, Flow::Sink, 0, {}, bind_flat, kAtomic},        \
  {"buffer_atomic_" name, buffer_atomic<type, op, data>, 0, Class::Atomic, Flow::Custom, 0, {}, bind_buffer, kAtomic}
// The names of CDNA, then those of gfx11 and gfx12.
#define UNSIGNED(cdna, rdna, op)                                                                     \
  ATOMIC(cdna, uint32_t, op, 1), ATOMIC(cdna "_x2", uint64_t, op, 1), ATOMIC(rdna "32", uint32_t, op, 1), \
  ATOMIC(rdna "64", uint64_t, op, 1)
#define SIGNED(cdna, rdna, op)                                                                     \
  ATOMIC(cdna, int32_t, op, 1), ATOMIC(cdna "_x2", int64_t, op, 1), ATOMIC(rdna "32", int32_t, op, 1), \
  ATOMIC(rdna "64", int64_t, op, 1)

const Entry kEntries[] = {
    UNSIGNED("swap", "swap_b", Exchange), UNSIGNED("add", "add_u", Add), UNSIGNED("sub", "sub_u", Sub),
    UNSIGNED("umin", "min_u", Min), UNSIGNED("umax", "max_u", Max), SIGNED("smin", "min_i", Min),
    SIGNED("smax", "max_i", Max), UNSIGNED("and", "and_b", And), UNSIGNED("or", "or_b", Or),
    UNSIGNED("xor", "xor_b", Xor), UNSIGNED("inc", "inc_u", Inc), UNSIGNED("dec", "dec_u", Dec),
    ATOMIC("cmpswap", uint32_t, CompareSecond, 2), ATOMIC("cmpswap_x2", uint64_t, CompareSecond, 2),
    ATOMIC("cmpswap_b32", uint32_t, CompareSecond, 2), ATOMIC("cmpswap_b64", uint64_t, CompareSecond, 2),
    ATOMIC("cmpswap_f32", float, CompareSecond, 2),
    ATOMIC("csub_u32", uint32_t, SubClamp, 1), ATOMIC("sub_clamp_u32", uint32_t, SubClamp, 1),
    ATOMIC("cond_sub_u32", uint32_t, CondSub, 1),
    ATOMIC("add_f32", float, Add, 1), ATOMIC("add_f64", double, Add, 1),
    ATOMIC("min_f32", float, MinNum, 1), ATOMIC("max_f32", float, MaxNum, 1),
    ATOMIC("min_num_f32", float, MinNum, 1), ATOMIC("max_num_f32", float, MaxNum, 1),
    ATOMIC("min_f64", double, MinNum, 1), ATOMIC("max_f64", double, MaxNum, 1),
    ATOMIC("pk_add_f16", uint32_t, PackedAdd<kHalf>, 1), ATOMIC("pk_add_bf16", uint32_t, PackedAdd<kBrain>, 1),
};

}  // namespace

const Table kAtomicTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
