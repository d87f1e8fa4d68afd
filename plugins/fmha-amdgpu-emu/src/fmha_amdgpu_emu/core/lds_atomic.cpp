// ds_*: atomics that return the old value or do not. Lanes act one after another, the lowest first.
//
// Float additions round to nearest even and keep denormals (CDNA3 ISA 12.13: "handles NaN/INF/denormal values").
#include "atomic_ops.hpp"
#include "lds.hpp"
#include "tables.hpp"

namespace emu {

namespace {

using namespace lds;
using namespace atomic_op;

// ---- handlers ----

// What is at the address, and what the instruction stores there; -> the old value's bits.
using Step = uint64_t (*)(const Wave& w, const Operand* data, int lane, uint8_t* memory);

template <class T> T data_of(const Wave& w, const Operand& op, int lane) {
  uint64_t bits = w.v[op.reg].x[lane];
  if constexpr (sizeof(T) == 8) bits |= uint64_t(w.v[op.reg + 1].x[lane]) << 32;
  return from_bits<T>(bits);
}

template <class T> void put(Wave& w, int reg, int lane, T value) {
  uint32_t words[sizeof(T) / 4];
  std::memcpy(words, &value, sizeof value);
  for (size_t d = 0; d < sizeof(T) / 4; ++d) w.v[reg + d].x[lane] = words[d];
}

void count_atomic(const Wave& w, const Inst& i, const uint32_t* at, uint64_t mask, uint32_t bytes) {
  Counts& c = counts();
  const uint64_t moved = uint64_t(std::popcount(mask)) * bytes;
  c.lds_accesses += 1;
  c.lds_read += moved;
  c.lds_written += moved;
  c.lds_conflict_cycles += conflict_cycles(w, i, at, mask, bytes, false, Same::Costs);
}

template <class T, class F, int Data> uint64_t change(const Wave& w, const Operand* data, int lane, uint8_t* memory) {
  T old, stored;
  std::memcpy(&old, memory, sizeof old);
  if constexpr (Data == 2) stored = F::of(old, data_of<T>(w, data[0], lane), data_of<T>(w, data[1], lane));
  else stored = F::of(old, data_of<T>(w, data[0], lane));
  std::memcpy(memory, &stored, sizeof stored);
  uint64_t bits = 0;
  std::memcpy(&bits, &old, sizeof old);
  return bits;
}

void change_lanes(Wave& w, const Inst& i, bool returns, uint32_t bytes, Step step) {
  uint32_t at[kLanes];
  addresses(w, i, returns, uint32_t(i.mod.offset), at);
  Access access(w, i);
  const uint64_t mask = w.exec();
  const uint64_t inside = access.changes(mask, at, bytes);
  each_lane(mask, [&](int l) {
    const uint64_t old = inside >> l & 1 ? step(w, &i.op[returns + 1], l, access.bytes_at(at[l])) : 0;
    if (!returns) return;
    w.v[i.op[0].reg].x[l] = uint32_t(old);
    if (bytes == 8) w.v[i.op[0].reg + 1].x[l] = uint32_t(old >> 32);
  });
  count_atomic(w, i, at, mask, bytes);
  access.issued(returns ? &i.op[0] : nullptr, returns ? int(bytes / 4) : 0);
}

template <class T, class F, int Data, bool Return> void atomic(Wave& w, const Inst& i) {
  change_lanes(w, i, Return, sizeof(T), change<T, F, Data>);
}

// Two exchanges, at offset0 * step and offset1 * step; both old values are returned.
template <class T, int Stride> void exchange_two(Wave& w, const Inst& i) {
  constexpr uint32_t step = sizeof(T) * Stride;
  uint32_t at[2][kLanes];
  addresses(w, i, 1, i.mod.offset0 * step, at[0]);
  addresses(w, i, 1, i.mod.offset1 * step, at[1]);
  Access access(w, i);
  const uint64_t mask = w.exec();
  const uint64_t inside[2] = {access.changes(mask, at[0], sizeof(T)), access.changes(mask, at[1], sizeof(T))};
  each_lane(mask, [&](int l) {
    T old[2]{};
    for (int k = 0; k < 2; ++k) {
      const T data = data_of<T>(w, i.op[2 + k], l);
      if (inside[k] >> l & 1) {
        uint8_t* memory = access.bytes_at(at[k][l]);
        std::memcpy(&old[k], memory, sizeof old[k]);
        std::memcpy(memory, &data, sizeof data);
      }
    }
    for (int k = 0; k < 2; ++k) put(w, i.op[0].reg + k * int(sizeof(T) / 4), l, old[k]);
  });
  for (int k = 0; k < 2; ++k) count_atomic(w, i, at[k], mask, sizeof(T));
  access.issued(&i.op[0], int(2 * sizeof(T) / 4));
}

constexpr const char* kSource = "CDNA3 ISA 12.13 LDS & GDS, RDNA3 ISA 16.12, RDNA4 ISA 15.12";

template <class T, class F, int Data> constexpr Entry plain(const char* name) {
  constexpr int size = sizeof(T) / 4;
  constexpr Binder bind = Data == 2 ? Binder(fits<1, size, size>) : Binder(fits<1, size>);
  return {name, atomic<T, F, Data, false>, 0, Class::Lds, Flow::Sink, 0, {}, bind, kSource};
}
template <class T, class F, int Data> constexpr Entry returning(const char* name) {
  constexpr int size = sizeof(T) / 4;
  constexpr Binder bind = Data == 2 ? Binder(fits<size, 1, size, size>) : Binder(fits<size, 1, size>);
  return {name, atomic<T, F, Data, true>, 1, Class::Lds, Flow::Sink, 0, {}, bind, kSource};
}
template <class T, int Stride> constexpr Entry exchanging(const char* name) {
  constexpr int size = sizeof(T) / 4;
  return {name, exchange_two<T, Stride>, 1, Class::Lds, Flow::Sink, 0, {}, fits<2 * size, 1, size, size>, kSource};
}

#define BOTH(OP, TYPE, T, F, DATA) plain<T, F, DATA>("ds_" OP "_" TYPE), returning<T, F, DATA>("ds_" OP "_rtn_" TYPE)
#define UNSIGNED(OP, LETTER, F, DATA) BOTH(OP, LETTER "32", uint32_t, F, DATA), BOTH(OP, LETTER "64", uint64_t, F, DATA)
#define SIGNED(OP, F) BOTH(OP, "i32", int32_t, F, 1), BOTH(OP, "i64", int64_t, F, 1)
#define REAL(OP, F, DATA) BOTH(OP, "f32", float, F, DATA), BOTH(OP, "f64", double, F, DATA)

constexpr Entry kEntries[] = {
    UNSIGNED("add", "u", Add, 1), UNSIGNED("sub", "u", Sub, 1), UNSIGNED("rsub", "u", ReverseSub, 1),
    UNSIGNED("inc", "u", Inc, 1), UNSIGNED("dec", "u", Dec, 1), UNSIGNED("min", "u", Min, 1),
    UNSIGNED("max", "u", Max, 1), SIGNED("min", Min), SIGNED("max", Max), UNSIGNED("and", "b", And, 1),
    UNSIGNED("or", "b", Or, 1), UNSIGNED("xor", "b", Xor, 1), UNSIGNED("mskor", "b", MaskOr, 2),
    UNSIGNED("cmpst", "b", CompareFirst, 2), UNSIGNED("cmpstore", "b", CompareSecond, 2),
    REAL("cmpst", CompareFirst, 2), REAL("cmpstore", CompareSecond, 2), REAL("add", Add, 1), REAL("min", Min, 1),
    REAL("max", Max, 1), REAL("min_num", MinNum, 1), REAL("max_num", MaxNum, 1),
    BOTH("pk_add", "f16", uint32_t, PackedAdd<kHalf>, 1), BOTH("pk_add", "bf16", uint32_t, PackedAdd<kBrain>, 1),
    BOTH("sub_clamp", "u32", uint32_t, SubClamp, 1), BOTH("cond_sub", "u32", uint32_t, CondSub, 1),
    returning<uint32_t, Exchange, 1>("ds_wrxchg_rtn_b32"), returning<uint64_t, Exchange, 1>("ds_wrxchg_rtn_b64"),
    returning<uint32_t, Exchange, 1>("ds_storexchg_rtn_b32"), returning<uint64_t, Exchange, 1>("ds_storexchg_rtn_b64"),
    returning<uint32_t, Wrap, 2>("ds_wrap_rtn_b32"), returning<uint64_t, CondExchange, 1>("ds_condxchg32_rtn_b64"),
    exchanging<uint32_t, 1>("ds_wrxchg2_rtn_b32"), exchanging<uint64_t, 1>("ds_wrxchg2_rtn_b64"),
    exchanging<uint32_t, 64>("ds_wrxchg2st64_rtn_b32"), exchanging<uint64_t, 64>("ds_wrxchg2st64_rtn_b64"),
    exchanging<uint32_t, 1>("ds_storexchg_2addr_rtn_b32"), exchanging<uint64_t, 1>("ds_storexchg_2addr_rtn_b64"),
    exchanging<uint32_t, 64>("ds_storexchg_2addr_stride64_rtn_b32"),
    exchanging<uint64_t, 64>("ds_storexchg_2addr_stride64_rtn_b64"),
};

}  // namespace

const Table kLdsAtomicTable{kEntries, std::size(kEntries)};

}  // namespace emu
