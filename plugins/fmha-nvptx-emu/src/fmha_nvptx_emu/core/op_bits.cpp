// Logic, shifts and bit fields. Source: PTX ISA 9.1, 9.7.1.14 to 9.7.1.21, 9.7.8 and 9.7.9.7.
#include "binding.hpp"
#include "lanes.hpp"
#include "partly.hpp"

namespace ptx {

namespace {

struct And { template <class T> T operator()(T a, T b) const { return T(a & b); } };
struct Or { template <class T> T operator()(T a, T b) const { return T(a | b); } };
struct Xor { template <class T> T operator()(T a, T b) const { return T(a ^ b); } };

template <class T, class Op> void two(Warp& w, const Inst& i, uint32_t mask) { map2<T, T, T>(w, i, mask, Op{}); }

// Predicates are masks of lanes, with a complement of sources that are written `!%p`.
template <class Op> void predicates(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t a = w.predicate(i.slots[1]) ^ (i.imm & 1 ? kAll : 0), c = w.predicate(i.slots[2]) ^ (i.imm & 2 ? kAll : 0);
  w.set_predicate(i.slots[0], Op{}(a, c), mask);
}
void not_predicate(Warp& w, const Inst& i, uint32_t mask) {
  w.set_predicate(i.slots[0], ~(w.predicate(i.slots[1]) ^ (i.imm & 1 ? kAll : 0)), mask);
}
template <class T> void complement(Warp& w, const Inst& i, uint32_t mask) {
  map1<T, T>(w, i, mask, [](T a) { return T(~a); });
}
template <class T> void logical_not(Warp& w, const Inst& i, uint32_t mask) {
  map1<T, T>(w, i, mask, [](T a) { return T(!a); });
}

template <class Op> Handler logic(Binding& b) {
  const Type type = b.type();
  b.three(type, 2);
  switch (type) {
    case Type::Pred:
      b.out.imm = int64_t(b.s.operands[1].negated) | int64_t(b.s.operands[2].negated) << 1;
      return predicates<Op>;
    case Type::B16: return two<uint16_t, Op>;
    case Type::B32: return two<uint32_t, Op>;
    case Type::B64: return two<uint64_t, Op>;
    default: return nullptr;
  }
}
Handler bind_not(Binding& b) {
  const Type type = b.type();
  b.three(type, 1);
  switch (type) {
    case Type::Pred: b.out.imm = b.s.operands[1].negated; return not_predicate;
    case Type::B16: return complement<uint16_t>;
    case Type::B32: return complement<uint32_t>;
    case Type::B64: return complement<uint64_t>;
    default: return nullptr;
  }
}
Handler bind_cnot(Binding& b) {
  const Type type = b.type();
  b.three(type, 1);
  return type == Type::B16 ? logical_not<uint16_t> : type == Type::B32 ? logical_not<uint32_t> : type == Type::B64 ? logical_not<uint64_t> : nullptr;
}

// Amounts above the width act as the width (9.7.8.7 and .8).
template <class T> void shl(Warp& w, const Inst& i, uint32_t mask) {
  map2<T, T, uint32_t>(w, i, mask, [](T a, uint32_t n) { return n >= sizeof(T) * 8 ? T(0) : T(a << n); });
}
template <class T> void shr(Warp& w, const Inst& i, uint32_t mask) {
  map2<T, T, uint32_t>(w, i, mask, [](T a, uint32_t n) {
    constexpr uint32_t width = sizeof(T) * 8;
    if constexpr (std::is_signed_v<T>) return T(a >> (n >= width ? width - 1 : n));
    else return n >= width ? T(0) : T(a >> n);
  });
}
Handler bind_shl(Binding& b) {
  const Type type = b.type();
  b.count(3, 3);
  b.dest(0, type), b.source(1, type), b.source(2, Type::U32);
  return type == Type::B16 ? shl<uint16_t> : type == Type::B32 ? shl<uint32_t> : type == Type::B64 ? shl<uint64_t> : nullptr;
}
Handler bind_shr(Binding& b) {
  const Type type = b.type();
  b.count(3, 3);
  b.dest(0, type), b.source(1, type), b.source(2, Type::U32);
  switch (type) {
    case Type::B16: case Type::U16: return shr<uint16_t>;
    case Type::S16: return shr<int16_t>;
    case Type::B32: case Type::U32: return shr<uint32_t>;
    case Type::S32: return shr<int32_t>;
    case Type::B64: case Type::U64: return shr<uint64_t>;
    case Type::S64: return shr<int64_t>;
    default: return nullptr;
  }
}

// A shift of 64 bits [b:a]: left keeps the upper half, right the lower.
template <bool left, bool wrap> void funnel(Warp& w, const Inst& i, uint32_t mask) {
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(w, i, mask, [](uint32_t a, uint32_t c, uint32_t n) {
    const uint32_t by = wrap ? n & 31 : n > 32 ? 32 : n;
    const uint64_t both = uint64_t(c) << 32 | a;
    return left ? uint32_t(both << by >> 32) : uint32_t(both >> by);
  });
}
Handler bind_shf(Binding& b) {
  const bool left = b.take("l"), right = b.take("r"), wrap = b.take("wrap"), clamp = b.take("clamp");
  if (left == right || wrap == clamp || b.type() != Type::B32) return nullptr;
  b.three(Type::B32, 3);
  return left ? (wrap ? funnel<true, true> : funnel<true, false>) : (wrap ? funnel<false, true> : funnel<false, false>);
}

template <class T> void extract(Warp& w, const Inst& i, uint32_t mask) {
  map3<T, T, uint32_t, uint32_t>(w, i, mask, [](T a, uint32_t at, uint32_t length) {
    constexpr uint32_t width = sizeof(T) * 8;
    using U = std::make_unsigned_t<T>;
    at &= 0xff, length &= 0xff;
    const uint32_t last = at + length - 1 < width - 1 ? at + length - 1 : width - 1;
    const bool sign = std::is_signed_v<T> && length && (U(a) >> last & 1);
    U out = sign ? ~U(0) : U(0);
    if (length && at < width) {
      const uint32_t bits = length < width - at ? length : width - at;
      const U field = bits >= width ? ~U(0) : (U(1) << bits) - 1;
      out = (out & ~field) | (U(a) >> at & field);
    }
    return T(out);
  });
}
Handler bind_bfe(Binding& b) {
  const Type type = b.type();
  b.count(4, 4);
  b.dest(0, type), b.source(1, type), b.source(2, Type::U32), b.source(3, Type::U32);
  switch (type) {
    case Type::U32: return extract<uint32_t>;
    case Type::S32: return extract<int32_t>;
    case Type::U64: return extract<uint64_t>;
    case Type::S64: return extract<int64_t>;
    default: return nullptr;
  }
}

template <class T> void insert(Warp& w, const Inst& i, uint32_t mask) {
  const Lane<T>*f = lanes_of<T>(w, i.slots[1]), *into = lanes_of<T>(w, i.slots[2]);
  const uint32_t *at = lanes_of<uint32_t>(w, i.slots[3]), *length = lanes_of<uint32_t>(w, i.slots[4]);
  Lane<T>* d = lanes_of<T>(w, i.slots[0]);
  each_lane(mask, [&](int l) {
    constexpr uint32_t width = sizeof(T) * 8;
    const uint32_t from = at[l] & 0xff, n = length[l] & 0xff;
    if (from >= width || !n) return void(d[l] = into[l]);
    const T field = n >= width ? ~T(0) : (T(1) << n) - 1;
    d[l] = (into[l] & ~(field << from)) | (f[l] & field) << from;
  });
}
Handler bind_bfi(Binding& b) {
  const Type type = b.type();
  b.count(5, 5);
  b.dest(0, type), b.source(1, type), b.source(2, type), b.source(3, Type::U32), b.source(4, Type::U32);
  return type == Type::B32 ? insert<uint32_t> : type == Type::B64 ? insert<uint64_t> : nullptr;
}

void lop3(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t table = uint32_t(i.imm);
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(w, i, mask, [table](uint32_t a, uint32_t c, uint32_t e) {
    uint32_t out = 0;
    for (uint32_t k = 0; k < 8; ++k)
      if (table >> k & 1) out |= (k & 4 ? a : ~a) & (k & 2 ? c : ~c) & (k & 1 ? e : ~e);
    return out;
  });
}
Handler bind_lop3(Binding& b) {
  if (b.type() != Type::B32) return nullptr;
  b.count(5, 5);
  b.dest(0, Type::B32);
  for (size_t k = 1; k < 4; ++k) b.source(k, Type::B32);
  if (b.operand(4).kind != Operand::Integer) b.refuse("the table of lop3 is a number");
  b.out.imm = b.operand(4).value;
  return lop3;
}

// Bytes of the result are as well defined as the bytes that they come from.
void flow_prmt(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t chosen = w.defined[i.slots[3].id];
  if (!(mask & ~(w.defined[i.slots[1].id] & w.defined[i.slots[2].id] & chosen))) return w.define(i.slots[0], kAll, mask);
  uint32_t bytes[8], known[4] = {};
  for (unsigned k = 0; k < 8; ++k) bytes[k] = known_part(w, i.slots[1 + k / 4], k % 4, 4);
  const uint32_t* selectors = lanes_of<uint32_t>(w, i.slots[3]);
  each_lane(mask & chosen, [&](int l) {
    for (unsigned k = 0; k < 4; ++k) known[k] |= bytes[selectors[l] >> 4 * k & 7] & 1u << l;
  });
  define_parts(w, i.slots[0], known, 4, mask);
}
void prmt(Warp& w, const Inst& i, uint32_t mask) {
  if (w.block->checks) flow_prmt(w, i, mask);
  map3<uint32_t, uint32_t, uint32_t, uint32_t>(w, i, mask, [](uint32_t a, uint32_t c, uint32_t selector) {
    const uint64_t both = uint64_t(c) << 32 | a;
    uint32_t out = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t choice = selector >> (4 * k) & 0xf, byte = uint32_t(both >> (8 * (choice & 7)) & 0xff);
      out |= (choice & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << (8 * k);
    }
    return out;
  });
}
Handler bind_prmt(Binding& b) {
  if (b.type() != Type::B32) return nullptr;
  b.out.own_flow = true;
  b.three(Type::B32, 3);
  return prmt;
}

struct Popc { template <class T> uint32_t operator()(T a) const { return uint32_t(__builtin_popcountll(a)); } };
struct Clz { template <class T> uint32_t operator()(T a) const { return a ? uint32_t(__builtin_clzll(a)) - (64 - sizeof(T) * 8) : uint32_t(sizeof(T) * 8); } };
template <class T, class Op> void count(Warp& w, const Inst& i, uint32_t mask) { map1<uint32_t, T>(w, i, mask, Op{}); }
template <class Op> Handler counting(Binding& b) {
  const Type type = b.type();
  b.count(2, 2);
  b.dest(0, Type::U32), b.source(1, type);
  return type == Type::B32 ? count<uint32_t, Op> : type == Type::B64 ? count<uint64_t, Op> : nullptr;
}
template <class T> void reverse(Warp& w, const Inst& i, uint32_t mask) {
  map1<T, T>(w, i, mask, [](T a) {
    T out = 0;
    for (unsigned k = 0; k < sizeof(T) * 8; ++k) out |= (a >> k & 1) << (sizeof(T) * 8 - 1 - k);
    return out;
  });
}
Handler bind_brev(Binding& b) {
  const Type type = b.type();
  b.three(type, 1);
  return type == Type::B32 ? reverse<uint32_t> : type == Type::B64 ? reverse<uint64_t> : nullptr;
}

constexpr Opcode rows[] = {
    {"popc", "9.7.1.14", Class::Integer, counting<Popc>}, {"clz", "9.7.1.15", Class::Integer, counting<Clz>},
    {"brev", "9.7.1.18", Class::Integer, bind_brev},      {"bfe", "9.7.1.19", Class::Integer, bind_bfe},
    {"bfi", "9.7.1.20", Class::Integer, bind_bfi},        {"and", "9.7.8.1", Class::Integer, logic<And>},
    {"or", "9.7.8.2", Class::Integer, logic<Or>},         {"xor", "9.7.8.3", Class::Integer, logic<Xor>},
    {"not", "9.7.8.4", Class::Integer, bind_not},         {"cnot", "9.7.8.5", Class::Integer, bind_cnot},
    {"lop3", "9.7.8.6", Class::Integer, bind_lop3},       {"shf", "9.7.8.7", Class::Integer, bind_shf},
    {"shl", "9.7.8.8", Class::Integer, bind_shl},         {"shr", "9.7.8.9", Class::Integer, bind_shr},
    {"prmt", "9.7.9.7", Class::Integer, bind_prmt},
};

}  // namespace

extern const Table kBitOpcodes{rows, std::size(rows)};

}  // namespace ptx
