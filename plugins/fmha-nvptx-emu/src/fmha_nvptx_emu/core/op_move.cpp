// Moves, packing, addresses. Source: PTX ISA 9.1, 9.7.9.3, 9.7.9.4, 9.7.9.20, 9.7.9.19.
#include "binding.hpp"
#include "lanes.hpp"
#include "partly.hpp"

namespace ptx {

namespace {

template <class T> void move(Warp& w, const Inst& i, uint32_t mask) {
  T* d = reinterpret_cast<T*>(w.row(i.slots[0]));
  const T* a = reinterpret_cast<const T*>(w.row(i.slots[1]));
  if (mask == kAll) std::memcpy(d, a, 32 * sizeof(T));
  else
    for (int l = 0; l < 32; ++l) d[l] = mask >> l & 1 ? a[l] : d[l];
}
void move_predicate(Warp& w, const Inst& i, uint32_t mask) {
  w.set_predicate(i.slots[0], w.predicate(i.slots[1]) ^ (i.imm ? kAll : 0), mask);
}

void flow_pack(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t known[4] = {};
  for (unsigned k = 0; k < i.sources; ++k) known[k] = w.defined[i.slots[1 + k].id];
  define_parts(w, i.slots[0], known, i.sources, mask);
}
void flow_unpack(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t known[4] = {};
  for (unsigned k = 0; k < i.dests; ++k) known[k] = known_part(w, i.slots[i.dests], k, i.dests);
  for (unsigned k = 0; k < i.dests; ++k) w.define(i.slots[k], known[k], mask);
}

// One register to or from parts of equal widths: 16 in 32, 16 or 32 in 64.
template <class Whole, unsigned bits> void pack(Warp& w, const Inst& i, uint32_t mask) {
  Whole* d = reinterpret_cast<Whole*>(w.row(i.slots[0]));
  if (mask == kAll && i.sources == 2) {
    const uint32_t *low = lanes_of<uint32_t>(w, i.slots[1]), *high = lanes_of<uint32_t>(w, i.slots[2]);
    for (int l = 0; l < 32; ++l) d[l] = Whole(bits == 16 ? low[l] & 0xffff : low[l]) | Whole(high[l]) << bits;
  } else each_lane(mask, [&](int l) {
    Whole out = 0;
    for (unsigned k = 0; k < i.sources; ++k) {
      const uint32_t part = lanes_of<uint32_t>(w, i.slots[1 + k])[l];
      out |= Whole(bits == 16 ? part & 0xffff : part) << (bits * k);
    }
    d[l] = out;
  });
  flow_pack(w, i, mask);
}
template <class Whole, unsigned bits> void unpack(Warp& w, const Inst& i, uint32_t mask) {
  const Whole* a = reinterpret_cast<const Whole*>(w.row(i.slots[i.dests]));
  if (mask == kAll && i.dests == 2) {
    uint32_t *low = lanes_of<uint32_t>(w, i.slots[0]), *high = lanes_of<uint32_t>(w, i.slots[1]);
    for (int l = 0; l < 32; ++l) {
      const Whole from = a[l];
      low[l] = bits == 16 ? uint32_t(from) & 0xffff : uint32_t(from), high[l] = uint32_t(from >> bits) & (bits == 16 ? 0xffffu : ~0u);
    }
  } else each_lane(mask, [&](int l) {
    const Whole from = a[l];
    for (unsigned k = 0; k < i.dests; ++k) {
      const uint32_t part = uint32_t(from >> (bits * k));
      lanes_of<uint32_t>(w, i.slots[k])[l] = bits == 16 ? part & 0xffff : part;
    }
  });
  flow_unpack(w, i, mask);
}

Type part_of(Binding& b, Type whole, size_t parts) {
  const unsigned bits = bits_of(whole) / unsigned(parts);
  if (bits != 16 && bits != 32) b.refuse("parts of " + std::to_string(bits) + " bits are not implemented");
  return bits == 16 ? Type::B16 : Type::B32;
}

uint64_t window(Space space) {
  return space == Space::Shared ? kSharedWindow : space == Space::Local ? kLocalWindow : space == Space::Param ? kParamWindow : 0;
}

// 128 bits: a register's lower halves and its upper halves are like two registers of 64 bits.
Slot upper(Slot slot) { return {slot.row + 2, slot.id}; }
void move_whole(Warp& w, const Inst& i, uint32_t mask) {
  const unsigned d = i.dests == 2 ? 1 : 0, a = i.dests + (i.sources == 2 ? 1u : 0u);
  const Slot to[2] = {i.slots[0], d ? i.slots[1] : upper(i.slots[0])}, from[2] = {i.slots[i.dests], a > i.dests ? i.slots[a] : upper(i.slots[a])};
  for (unsigned half = 0; half < 2; ++half)
    each_lane(mask, [&](int l) { lanes_of<uint64_t>(w, to[half])[l] = lanes_of<uint64_t>(w, from[half])[l]; });
}
Handler bind_whole(Binding& b) {
  const Operand &d = b.operand(0), &a = b.operand(1);
  for (const Operand* o : {&d, &a})
    if (o->kind == Operand::Vector && o->parts.size() != 2) b.refuse("128 bits have two parts of 64 bits here");
  if (d.kind == Operand::Vector)
    for (const Operand& o : d.parts) b.dest(o, Type::B64);
  else b.dest(d, Type::B128);
  if (a.kind == Operand::Vector)
    for (const Operand& o : a.parts) b.source(o, Type::B64);
  else b.source(a, Type::B128);
  return move_whole;
}

Handler bind_mov(Binding& b) {
  const Type type = b.type();
  b.count(2, 2);
  if (type == Type::B128) return bind_whole(b);
  const Operand &d = b.operand(0), &a = b.operand(1);
  b.out.own_flow = d.kind == Operand::Vector || a.kind == Operand::Vector;
  if (d.kind == Operand::Vector) {
    const Type part = part_of(b, type, d.parts.size());
    for (const Operand& o : d.parts) b.dest(o, part);
    b.source(a, type);
    return bits_of(type) == 32 ? unpack<uint32_t, 16> : part == Type::B16 ? unpack<uint64_t, 16> : unpack<uint64_t, 32>;
  }
  b.dest(d, type);
  if (a.kind == Operand::Vector) {
    const Type part = part_of(b, type, a.parts.size());
    for (const Operand& o : a.parts) b.source(o, part);
    return bits_of(type) == 32 ? pack<uint32_t, 16> : part == Type::B16 ? pack<uint64_t, 16> : pack<uint64_t, 32>;
  }
  b.source(a, type);
  if (type == Type::Pred) return b.out.imm = a.negated, move_predicate;
  return bits_of(type) == 64 ? move<uint64_t> : move<uint32_t>;
}

// Generic addresses of shared, local and param memory lie in windows; global ones are the same.
template <class T> void offset(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t by = uint64_t(i.imm);
  map1<T, T>(w, i, mask, [by](T a) { return T(a + by); });
}
Handler bind_cvta(Binding& b) {
  const bool back = b.take("to");
  const Space space = b.take("shared") || b.take("shared::cta") ? Space::Shared : b.take("local") ? Space::Local : b.take("param") ? Space::Param : Space::Global;
  if (space == Space::Global) b.any({"global", "const"});
  const Type type = b.type();
  b.three(type, 1);
  b.out.imm = int64_t(back ? -window(space) : window(space));
  return type == Type::U64 ? offset<uint64_t> : nullptr;
}

template <unsigned which> void is_space(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t* a = reinterpret_cast<const uint64_t*>(w.row(i.slots[1]));
  uint32_t out = 0;
  each_lane(mask, [&](int l) { out |= uint32_t(a[l] >> 56 == which) << l; });
  w.set_predicate(i.slots[0], out, mask);
}
Handler bind_isspacep(Binding& b) {
  b.count(2, 2);
  b.dest(0, Type::Pred), b.source(1, Type::U64);
  return b.take("global") ? is_space<0> : b.take("shared") ? is_space<1> : b.take("local") ? is_space<2> : nullptr;
}

constexpr Opcode rows[] = {
    {"mov", "9.7.9.3", Class::Move, bind_mov},
    {"isspacep", "9.7.9.19", Class::Move, bind_isspacep},
    {"cvta", "9.7.9.20", Class::Move, bind_cvta},
};

}  // namespace

extern const Table kMoveOpcodes{rows, std::size(rows)};

}  // namespace ptx
