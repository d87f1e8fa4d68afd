// Atomic operations, on global and shared memory. Source: PTX ISA 9.1, 9.7.13.5 (atom), .6 (red).
#include <atomic>

#include "access.hpp"
#include "binding.hpp"
#include "floats.hpp"

namespace ptx {

namespace {

struct Add { template <class T> T operator()(T old, T b, T) const { if constexpr (std::is_integral_v<T>) return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(b)); else return old + b; } };
struct Min { template <class T> T operator()(T old, T b, T) const { return old < b ? old : b; } };
struct Max { template <class T> T operator()(T old, T b, T) const { return old > b ? old : b; } };
struct And { template <class T> T operator()(T old, T b, T) const { return T(old & b); } };
struct Or { template <class T> T operator()(T old, T b, T) const { return T(old | b); } };
struct Xor { template <class T> T operator()(T old, T b, T) const { return T(old ^ b); } };
struct Exch { template <class T> T operator()(T, T b, T) const { return b; } };
struct Inc { template <class T> T operator()(T old, T b, T) const { return old >= b ? T(0) : T(old + 1); } };
struct Dec { template <class T> T operator()(T old, T b, T) const { return old == 0 || old > b ? b : T(old - 1); } };
struct Cas { template <class T> T operator()(T old, T b, T c) const { return old == b ? c : old; } };
template <class H> struct AddHalves {
  uint32_t operator()(uint32_t old, uint32_t b, uint32_t) const {
    const auto one = [](uint32_t x, uint32_t y) -> uint32_t {
      if constexpr (std::is_same_v<H, bf16>) return to_bf16(wide(bf16{uint16_t(x)}) + wide(bf16{uint16_t(y)})).bits;
      else return widen<f16>(f16(float(narrow<f16>(x)) + float(narrow<f16>(y))));
    };
    return one(old & 0xffff, b & 0xffff) | one(old >> 16, b >> 16) << 16;
  }
};

template <class T, class Op> T changed(uint8_t* at, T b, T c) {
  using Word = Lane<T>;
  std::atomic_ref<Word> word(*reinterpret_cast<Word*>(at));
  Word old = word.load();
  while (!word.compare_exchange_weak(old, widen<T>(Op{}(narrow<T>(old), b, c)))) {}
  return narrow<T>(old);
}

// imm keeps the address's offset; count: operands (1, or 2 of cas). Integer operations order blocks: locks and counters
// are integers. Sums of floats do not.
template <class T, class Op, bool returns> void atomic(Warp& w, const Inst& i, uint32_t mask) {
  Block& b = *w.block;
  const unsigned first = returns ? 1 : 0;
  Lanes a;
  addresses(w, i, i.slots[first], mask, a);
  const Slot value = i.slots[first + 1], other = i.slots[first + (i.count == 2 ? 2 : 1)];
  const Space space = i.space == Space::Generic ? placed(Space::Generic, a.at[__builtin_ctz(mask)]).space : i.space;
  if (i.space == Space::Generic) each_lane(mask, [&](int l) { a.at[l] = placed(Space::Generic, a.at[l]).at; });
  const bool shared = space == Space::Shared;
  const uint32_t known = w.defined[value.id] & w.defined[other.id] & ~w.tainted;
  uint32_t defined = mask;  // of what was there
  if (b.checks && !shared) {
    require_defined(w, i, value, mask, "data that is stored");
    require_defined(w, i, other, mask, "data that is stored");
    require_decided(w, i, mask);
  }
  const uint32_t good = shared ? limited_lanes(w, i, mask, a, sizeof(T), b.shared.bytes(), "shared") : global_lanes(w, i, mask, a, sizeof(T), true);
  const uint64_t bytes = sizeof(T) * unsigned(__builtin_popcount(mask));
  if (shared) b.counts.shared_read += bytes, b.counts.shared_written += bytes;
  else b.counts.global_read += bytes, b.counts.global_written += bytes;
  each_lane(mask, [&](int l) {
    T old{};
    if (good >> l & 1) {
      uint8_t* at = shared ? b.shared.data() + a.at[l] : reinterpret_cast<uint8_t*>(a.at[l]);
      const auto held = b.checks && shared ? b.shared.update(w, i, l, uint32_t(a.at[l]), sizeof(T), known >> l & 1) : SharedMemory::Held::Value;
      if (held != SharedMemory::Held::Value) defined &= ~(1u << l);
      if (held == SharedMemory::Held::Nothing)
        b.launch->report->add(Finding::UninitialisedShared, w, i, l, [&] {
          return of_lane(l) + " updates shared word " + hex(a.at[l]) + ", which was never written";
        });
      if (b.checks && !shared && std::is_integral_v<T>) b.launch->writers->meet(b.number, a.at[l]);
      old = changed<T, Op>(at, narrow<T>(lanes_of<T>(w, value)[l]), narrow<T>(lanes_of<T>(w, other)[l]));
      if (b.checks && !shared && std::is_integral_v<T>) b.launch->writers->meet(b.number, a.at[l]);
    }
    if (returns) lanes_of<T>(w, i.slots[0])[l] = widen<T>(old);
  });
  if (returns) w.define(i.slots[0], defined, mask);
}

template <class T, bool returns> Handler of_integer(const std::string& op) {
  if (op == "add") return atomic<T, Add, returns>;
  if (op == "min") return atomic<T, Min, returns>;
  if (op == "max") return atomic<T, Max, returns>;
  if (op == "and") return atomic<T, And, returns>;
  if (op == "or") return atomic<T, Or, returns>;
  if (op == "xor") return atomic<T, Xor, returns>;
  if (op == "exch") return atomic<T, Exch, returns>;
  if (op == "cas") return atomic<T, Cas, returns>;
  if (op == "inc") return atomic<T, Inc, returns>;
  if (op == "dec") return atomic<T, Dec, returns>;
  return nullptr;
}

template <bool returns> Handler bind_atomic(Binding& b) {
  b.out.space = b.take("global") ? Space::Global : b.take("shared") || b.take("shared::cta") ? Space::Shared : Space::Generic;
  b.any({"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz", "L2::cache_hint"});
  std::string op;
  for (const char* one : {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"})
    if (op.empty() && b.take(one)) op = one;
  const Type type = b.type();
  size_t k = 0;
  b.count((returns ? 3 : 2) + (op == "cas"), (returns ? 3 : 2) + (op == "cas"));
  if (returns) b.dest(k++, type);
  b.address(k++);
  b.out.count = 0;
  while (k < b.s.operands.size()) b.source(k++, type), ++b.out.count;
  b.out.own_flow = true;
  switch (type) {
    case Type::U32: case Type::B32: return of_integer<uint32_t, returns>(op);
    case Type::S32: return of_integer<int32_t, returns>(op);
    case Type::U64: case Type::B64: return of_integer<uint64_t, returns>(op);
    case Type::S64: return of_integer<int64_t, returns>(op);
    case Type::F32: return op == "add" ? atomic<float, Add, returns> : nullptr;
    case Type::F64: return op == "add" ? atomic<double, Add, returns> : nullptr;
    case Type::F16x2: return op == "add" ? atomic<uint32_t, AddHalves<f16>, returns> : nullptr;
    case Type::BF16x2: return op == "add" ? atomic<uint32_t, AddHalves<bf16>, returns> : nullptr;
    default: return nullptr;
  }
}

constexpr Opcode rows[] = {
    {"atom", "9.7.13.5", Class::Atomic, bind_atomic<true>},
    {"red", "9.7.13.6", Class::Atomic, bind_atomic<false>},
};

}  // namespace

extern const Table kAtomicOpcodes{rows, std::size(rows)};

}  // namespace ptx
