// Atomic operations, on global and shared memory. Source: PTX ISA 9.1, 9.7.13.5 (atom), .6 (red).
#include "access.hpp"
#include "atomic_change.hpp"
#include "binding.hpp"
#include "cluster.hpp"

namespace ptx {

namespace {

template <class H> struct AddHalves {
  uint32_t operator()(uint32_t old, uint32_t b, uint32_t) const {
    const auto one = [](uint32_t x, uint32_t y) -> uint32_t {
      if constexpr (std::is_same_v<H, bf16>) return to_bf16(wide(bf16{uint16_t(x)}) + wide(bf16{uint16_t(y)})).bits;
      else return widen<f16>(f16(float(narrow<f16>(x)) + float(narrow<f16>(y))));
    };
    return one(old & 0xffff, b & 0xffff) | one(old >> 16, b >> 16) << 16;
  }
};

// imm keeps the address's offset; count: operands (1, or 2 of cas). Integer operations order blocks: locks and counters
// are integers. Sums of floats do not.
template <unsigned size, bool integral, bool returns> void atomic_by(Warp& w, const Inst& i, uint32_t mask, Change change_word) {
  using Word = std::conditional_t<size == 8, uint64_t, uint32_t>;
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
  Block* of[32];  // whose shared memory
  if (shared) each_lane(mask, [&](int l) { of[l] = &block_of(w, i, a.at[l]); });
  const uint32_t good = shared ? limited_lanes(w, i, mask, a, size, b.shared.bytes(), "shared") : global_lanes(w, i, mask, a, size, true);
  const uint64_t bytes = size * unsigned(__builtin_popcount(mask));
  if (shared) b.counts.shared_read += bytes, b.counts.shared_written += bytes;
  else b.counts.global_read += bytes, b.counts.global_written += bytes;
  each_lane(mask, [&](int l) {
    Word old{};
    if (good >> l & 1) {
      if (shared && !note_signal(w, i, l, *of[l])) return;
      uint8_t* at = shared ? of[l]->shared.data() + a.at[l] : reinterpret_cast<uint8_t*>(a.at[l]);
      const auto held = !b.checks || !shared ? SharedMemory::Held::Value
                        : of[l] == &b        ? b.shared.update(w, i, l, uint32_t(a.at[l]), size, known >> l & 1)
                                             : of[l]->shared.update_remote(uint32_t(a.at[l]), size, 0);
      if (held != SharedMemory::Held::Value) defined &= ~(1u << l);
      if (held == SharedMemory::Held::Nothing)
        b.launch->report->add(Finding::UninitialisedShared, w, i, l, [&] {
          return of_lane(l) + " updates shared word " + hex(a.at[l]) + ", which was never written";
        });
      if (b.checks && !shared && integral) b.launch->writers->meet(b.number, a.at[l]);
      old = Word(change_word(at, lanes_of<Word>(w, value)[l], lanes_of<Word>(w, other)[l], shared || b.launch->alone));
      if (b.checks && !shared && integral) b.launch->writers->meet(b.number, a.at[l]);
    }
    if (returns) lanes_of<Word>(w, i.slots[0])[l] = old;
  });
  if (returns) w.define(i.slots[0], defined, mask);
}

template <class T, class Op, bool returns> void atomic(Warp& w, const Inst& i, uint32_t mask) {
  atomic_by<sizeof(T), std::is_integral_v<T>, returns>(w, i, mask, change<T, Op>);
}

// Vectors of floats in global memory: each element is added on its own. count: elements.
template <bool returns> void add_vector(Warp& w, const Inst& i, uint32_t mask) {
  Block& b = *w.block;
  const unsigned n = i.count, first = returns ? n : 0, size = 4 * n;
  Lanes a;
  addresses(w, i, i.slots[first], mask, a);
  if (b.checks) {
    for (unsigned k = 0; k < n; ++k) require_defined(w, i, i.slots[first + 1 + k], mask, "data that is stored");
    require_decided(w, i, mask);
  }
  const uint32_t good = global_lanes(w, i, mask, a, size, true);
  const uint64_t bytes = size * unsigned(__builtin_popcount(mask));
  b.counts.global_read += bytes, b.counts.global_written += bytes;
  each_lane(mask, [&](int l) {
    uint32_t old[4] = {};  // a destination may be the next element's source
    for (unsigned k = 0; k < n && (good >> l & 1); ++k) {
      uint8_t* at = reinterpret_cast<uint8_t*>(a.at[l]) + 4 * k;
      old[k] = uint32_t(change<float, Add>(at, lanes_of<uint32_t>(w, i.slots[first + 1 + k])[l], 0, b.launch->alone));
    }
    for (unsigned k = 0; returns && k < n; ++k) lanes_of<uint32_t>(w, i.slots[k])[l] = old[k];
  });
  for (unsigned k = 0; returns && k < n; ++k) w.define(i.slots[k], mask, mask);
}

template <bool returns> Handler bind_vector(Binding& b, const std::string& op, unsigned n) {
  const Type type = b.type();
  if (op != "add" || type != Type::F32 || b.out.space != Space::Global) return nullptr;
  const unsigned own = returns ? 1 : 0;
  b.count(own + 2, own + 2);
  const auto parts = [&](size_t k) -> const std::vector<Operand>& {
    const Operand& o = b.operand(k);
    if (o.kind != Operand::Vector || o.parts.size() != n) b.refuse("it needs a vector of " + std::to_string(n) + " registers");
    return o.parts;
  };
  if (returns)
    for (const Operand& o : parts(0)) b.dest(o, type);
  b.address(own);
  for (const Operand& o : parts(own + 1)) b.source(o, type);
  b.out.count = uint8_t(n);
  b.out.own_flow = true;
  return add_vector<returns>;
}

template <class T, bool returns> Handler of_integer(const std::string& op) {
  return of_operation(op, [](auto change) -> Handler { return atomic<T, decltype(change), returns>; });
}

template <bool returns> Handler bind_atomic(Binding& b) {
  if (!returns && b.take("async")) return bind_reduce_async(b);
  b.out.space = b.take("global") ? Space::Global : b.any({"shared", "shared::cta", "shared::cluster"}) ? Space::Shared : Space::Generic;
  b.any({"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz", "L2::cache_hint"});
  std::string op;
  for (const char* one : {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"})
    if (op.empty() && b.take(one)) op = one;
  if (const unsigned n = b.take("v2") ? 2 : b.take("v4") ? 4 : 0) return bind_vector<returns>(b, op, n);
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
