// Comparison and selection. Source: PTX ISA 9.1, 9.7.6 and 9.7.7. Unordered comparisons (equ, ltu, ...) are true for NaN.
#include "binding.hpp"
#include "floats.hpp"

namespace ptx {

namespace {

enum class Rel { Eq, Ne, Lt, Le, Gt, Ge };

template <Rel rel, class T> inline bool holds(T a, T b) {
  if constexpr (rel == Rel::Eq) return a == b;
  if constexpr (rel == Rel::Ne) return !(a != a || b != b) && a != b;
  if constexpr (rel == Rel::Lt) return a < b;
  if constexpr (rel == Rel::Le) return a <= b;
  if constexpr (rel == Rel::Gt) return a > b;
  return a >= b;
}

// imm: 0 no combination, 1 and, 2 or, 3 xor with source 3; 4: source 3 is complemented; 8: the sources are exchanged; 16: so is
// the truth.
template <class T, Rel rel, bool ftz> void compare(Warp& w, const Inst& i, uint32_t mask) {
  const unsigned exchanged = i.imm >> 3 & 1;
  const Lane<T>*a = lanes_of<T>(w, i.slots[i.dests + exchanged]), *b = lanes_of<T>(w, i.slots[i.dests + 1 - exchanged]);
  uint32_t bits[32], result = i.imm & 16 ? kAll : 0;
  for (int l = 0; l < 32; ++l) {
    T x = narrow<T>(a[l]), y = narrow<T>(b[l]);
    if constexpr (std::is_same_v<T, float> && ftz) x = flushed(x), y = flushed(y);
    bits[l] = uint32_t(holds<rel>(x, y)) << l;
  }
  for (int l = 0; l < 32; ++l) result ^= bits[l];
  uint32_t other = ~result;
  if (const auto how = i.imm & 3) {
    const uint32_t c = w.predicate(i.slots[i.dests + 2]) ^ (i.imm & 4 ? kAll : 0);
    const auto joined = [&](uint32_t r) { return how == 1 ? r & c : how == 2 ? r | c : r ^ c; };
    result = joined(result), other = joined(other);
  }
  w.set_predicate(i.slots[0], result, mask);
  if (i.dests == 2) w.set_predicate(i.slots[1], other, mask);
}

struct Comparison {
  Rel rel;
  bool unordered = false;
  bool unsigned_only = false;
};
const std::pair<const char*, Comparison> comparisons[] = {
    {"eq", {Rel::Eq}}, {"ne", {Rel::Ne}}, {"lt", {Rel::Lt}}, {"le", {Rel::Le}}, {"gt", {Rel::Gt}}, {"ge", {Rel::Ge}},
    {"lo", {Rel::Lt, false, true}}, {"ls", {Rel::Le, false, true}}, {"hi", {Rel::Gt, false, true}}, {"hs", {Rel::Ge, false, true}},
    {"equ", {Rel::Eq, true}}, {"neu", {Rel::Ne, true}}, {"ltu", {Rel::Lt, true}}, {"leu", {Rel::Le, true}},
    {"gtu", {Rel::Gt, true}}, {"geu", {Rel::Ge, true}},
};

// An unordered relation is the opposite of an ordered one, and greater is less with the sources exchanged: compiles of four
// relations serve all.
template <class T, bool ftz = false> Handler by_relation(Binding& b, const Comparison& how) {
  constexpr Rel opposites[] = {Rel::Ne, Rel::Eq, Rel::Ge, Rel::Gt, Rel::Le, Rel::Lt};
  b.out.imm |= how.unordered ? 16 : 0;
  const Rel rel = how.unordered ? opposites[int(how.rel)] : how.rel;
  if (rel == Rel::Gt || rel == Rel::Ge) b.out.imm |= 8;
  switch (rel) {
    case Rel::Eq: return compare<T, Rel::Eq, ftz>;
    case Rel::Ne: return compare<T, Rel::Ne, ftz>;
    case Rel::Lt: case Rel::Gt: return compare<T, Rel::Lt, ftz>;
    case Rel::Le: case Rel::Ge: return compare<T, Rel::Le, ftz>;
  }
  return nullptr;
}

template <bool number> void ordered(Warp& w, const Inst& i, uint32_t mask) {  // .num and .nan of f32
  const float *a = reinterpret_cast<const float*>(w.row(i.slots[1])), *b = reinterpret_cast<const float*>(w.row(i.slots[2]));
  uint32_t result = 0;
  for (int l = 0; l < 32; ++l) result |= uint32_t((a[l] == a[l] && b[l] == b[l]) == number) << l;
  w.set_predicate(i.slots[0], result, mask);
}

const Comparison* take_comparison(Binding& b) {
  for (const auto& [name, comparison] : comparisons)
    if (b.take(name)) return &comparison;
  return nullptr;
}

Handler bind_setp(Binding& b) {
  bool num = b.take("num"), nan = b.take("nan");
  const Comparison* how = take_comparison(b);
  int64_t combine = b.take("and") ? 1 : b.take("or") ? 2 : b.take("xor") ? 3 : 0;
  const bool ftz = b.take("ftz");
  const Type type = b.type();
  const Operand& d = b.operand(0);
  if (d.kind == Operand::Vector) {
    for (const Operand& part : d.parts) b.dest(part, Type::Pred);
  } else b.dest(d, Type::Pred);
  b.source(1, type), b.source(2, type);
  b.count(combine ? 4 : 3, combine ? 4 : 3);
  if (combine) {
    b.source(3, Type::Pred);
    if (b.operand(3).negated) combine |= 4;
  }
  b.out.imm = combine;
  if (num || nan) return combine || type != Type::F32 || b.dests.size() != 1 ? nullptr : num ? ordered<true> : ordered<false>;
  if (!how || (how->unordered && !is_float(type)) || (ftz && type != Type::F32)) return nullptr;
  switch (type) {
    case Type::B16: case Type::U16: return by_relation<uint16_t>(b, *how);
    case Type::S16: return by_relation<int16_t>(b, *how);
    case Type::B32: case Type::U32: return by_relation<uint32_t>(b, *how);
    case Type::S32: return by_relation<int32_t>(b, *how);
    case Type::B64: case Type::U64: return by_relation<uint64_t>(b, *how);
    case Type::S64: return by_relation<int64_t>(b, *how);
    case Type::F16: return by_relation<f16>(b, *how);
    case Type::F64: return by_relation<double>(b, *how);
    case Type::F32: return ftz ? by_relation<float, true>(b, *how) : by_relation<float>(b, *how);
    default: return nullptr;
  }
}

// set writes a number for the truth: all ones or 1.0, in each half for a pair. imm: the relation, 8 for unordered, the number from bit 8 on.
template <class T> inline bool related(int64_t how, T a, T b) {
  if (how & 8 && (a != a || b != b)) return true;
  switch (Rel(how & 7)) {
    case Rel::Eq: return holds<Rel::Eq>(a, b);
    case Rel::Ne: return holds<Rel::Ne>(a, b);
    case Rel::Lt: return holds<Rel::Lt>(a, b);
    case Rel::Le: return holds<Rel::Le>(a, b);
    case Rel::Gt: return holds<Rel::Gt>(a, b);
    case Rel::Ge: return holds<Rel::Ge>(a, b);
  }
  return false;
}

template <class T, bool ftz = false> void set_number(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t truth = uint32_t(i.imm >> 8);
  map2<uint32_t, T, T>(w, i, mask, [&](T x, T y) {
    if constexpr (ftz) x = flushed(x), y = flushed(y);
    return related(i.imm, x, y) ? truth : 0u;
  });
}

void set_pair(Warp& w, const Inst& i, uint32_t mask) {  // of f16x2
  const uint32_t truth = uint32_t(i.imm >> 8);
  map2<uint32_t, uint32_t, uint32_t>(w, i, mask, [&](uint32_t x, uint32_t y) {
    const bool low = related(i.imm, narrow<f16>(x & 0xffff), narrow<f16>(y & 0xffff));
    return (low ? truth & 0xffff : 0u) | (related(i.imm, narrow<f16>(x >> 16), narrow<f16>(y >> 16)) ? truth & 0xffff0000 : 0u);
  });
}

// The forms without a combination with a predicate; of halves, pairs of f16 alone.
Handler bind_set(Binding& b) {
  const Comparison* how = take_comparison(b);
  const bool ftz = b.take("ftz");
  const Type to = b.type(), from = b.type();
  b.count(3, 3);
  b.dest(0, to), b.source(1, from), b.source(2, from);
  const bool pair = from == Type::F16x2, number = to == (pair ? Type::F16x2 : Type::F32);
  if (!how || (how->unordered && !is_float(from) && !pair) || (ftz && from != Type::F32)) return nullptr;
  if (!number && to != Type::U32 && to != Type::S32) return nullptr;
  const int64_t truth = !number ? 0xffffffff : pair ? 0x3c003c00 : 0x3f800000;
  b.out.imm = int64_t(how->rel) | (how->unordered ? 8 : 0) | truth << 8;
  switch (from) {
    case Type::B16: case Type::U16: return set_number<uint16_t>;
    case Type::S16: return set_number<int16_t>;
    case Type::B32: case Type::U32: return set_number<uint32_t>;
    case Type::S32: return set_number<int32_t>;
    case Type::B64: case Type::U64: return set_number<uint64_t>;
    case Type::S64: return set_number<int64_t>;
    case Type::F64: return set_number<double>;
    case Type::F32: return ftz ? set_number<float, true> : set_number<float>;
    case Type::F16x2: return set_pair;
    default: return nullptr;
  }
}

// A lane is defined if its predicate and the chosen source are.
template <class T> void select(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t p = w.predicate(i.slots[3]) ^ (i.imm ? kAll : 0);
  const T *a = reinterpret_cast<const T*>(w.row(i.slots[1])), *b = reinterpret_cast<const T*>(w.row(i.slots[2]));
  T* d = reinterpret_cast<T*>(w.row(i.slots[0]));
#pragma GCC ivdep
  for (int l = 0; l < 32; ++l) {
    const T r = p >> l & 1 ? a[l] : b[l];
    d[l] = mask >> l & 1 ? r : d[l];
  }
  const uint32_t da = w.defined[i.slots[1].id], db = w.defined[i.slots[2].id], dp = w.defined[i.slots[3].id];
  w.define(i.slots[0], dp & ((p & da) | (~p & db)), mask);
}
Handler bind_selp(Binding& b) {
  const Type type = b.type();
  b.count(4, 4);
  b.dest(0, type), b.source(1, type), b.source(2, type), b.source(3, Type::Pred);
  b.out.imm = b.operand(3).negated;
  b.out.own_flow = true;
  return bits_of(type) == 64 ? select<uint64_t> : select<uint32_t>;
}

constexpr Opcode rows[] = {
    {"set", "9.7.6.1", Class::Integer, bind_set},
    {"setp", "9.7.6.2", Class::Integer, bind_setp},
    {"selp", "9.7.6.3", Class::Move, bind_selp},
};

}  // namespace

extern const Table kCompareOpcodes{rows, std::size(rows)};

}  // namespace ptx
