#include "bulk_reduce.hpp"

#include <atomic>

#include "atomic_change.hpp"

namespace ptx {

namespace {

template <class Word, class F> void each(uint8_t* to, const uint8_t* from, uint32_t bytes, F f) {
  for (uint32_t at = 0; at < bytes; at += sizeof(Word)) {
    Word value;
    std::memcpy(&value, from + at, sizeof value);
    std::atomic_ref<Word> word(*reinterpret_cast<Word*>(to + at));
    Word old = word.load();
    while (!word.compare_exchange_weak(old, f(old, value))) {}
  }
}

template <Reduction> struct Change;
template <> struct Change<Reduction::Add> : Add {};
template <> struct Change<Reduction::Min> : Min {};
template <> struct Change<Reduction::Max> : Max {};
template <> struct Change<Reduction::Inc> : Inc {};
template <> struct Change<Reduction::Dec> : Dec {};
template <> struct Change<Reduction::And> : And {};
template <> struct Change<Reduction::Or> : Or {};
template <> struct Change<Reduction::Xor> : Xor {};

template <class Word, Reduction op> void integers(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += sizeof(Word)) {
    Word value;
    std::memcpy(&value, from + at, sizeof value);
    changed<Word, Change<op>>(to + at, value, Word{}, false);
  }
}

template <class Float, class Word, bool flushes> void sums(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  each<Word>(to, from, bytes, [](Word a, Word b) {
    Float x, y;
    std::memcpy(&x, &a, sizeof x), std::memcpy(&y, &b, sizeof y);
    Float sum;
    if constexpr (flushes) sum = canonical(flushed(flushed(x) + flushed(y)));
    else sum = x + y;
    Word out;
    std::memcpy(&out, &sum, sizeof out);
    return out;
  });
}

template <class H> float wide_half(uint16_t bits) {
  if constexpr (std::is_same_v<H, bf16>) return wide(bf16{bits});
  else return float(narrow<f16>(bits));
}
template <class H> uint16_t half_of(float x) {
  if (x != x) return kHalfNan;
  if constexpr (std::is_same_v<H, bf16>) return to_bf16(x).bits;
  else return uint16_t(widen<f16>(to_f16(x)));
}
template <class H, Reduction op> void halves(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  each<uint16_t>(to, from, bytes, [](uint16_t a, uint16_t b) -> uint16_t {
    const float x = wide_half<H>(a), y = wide_half<H>(b);
    if (op == Reduction::Add) return half_of<H>(x + y);
    if (x != x || y != y) return x == x ? a : y == y ? b : kHalfNan;  // as of min and max: NaN is left out
    if (x == y) return op == Reduction::Max ? a & b : a | b;          // zeros differ by their sign
    return (x < y) == (op == Reduction::Min) ? a : b;
  });
}

template <Reduction op> Reduce ordered(Type type, bool flushes) {
  constexpr bool add = op == Reduction::Add;
  switch (type) {
    case Type::U32: return integers<uint32_t, op>;
    case Type::S32: return integers<int32_t, op>;
    case Type::U64: return integers<uint64_t, op>;
    case Type::S64: return add ? nullptr : integers<int64_t, op>;
    case Type::F16: return halves<f16, op>;
    case Type::BF16: return halves<bf16, op>;
    case Type::F32: return !add ? nullptr : flushes ? sums<float, uint32_t, true> : sums<float, uint32_t, false>;
    case Type::F64: return add ? sums<double, uint64_t, false> : nullptr;
    default: return nullptr;
  }
}
template <Reduction op> Reduce logical(Type type) {
  switch (type) {
    case Type::B32: case Type::U32: case Type::S32: return integers<uint32_t, op>;
    case Type::B64: case Type::U64: case Type::S64: return integers<uint64_t, op>;
    default: return nullptr;
  }
}

}  // namespace

Reduce reducer(Reduction op, Type type, bool flushes) {
  switch (op) {
    case Reduction::Add: return ordered<Reduction::Add>(type, flushes);
    case Reduction::Min: return ordered<Reduction::Min>(type, flushes);
    case Reduction::Max: return ordered<Reduction::Max>(type, flushes);
    case Reduction::Inc: return type == Type::U32 ? integers<uint32_t, Reduction::Inc> : nullptr;
    case Reduction::Dec: return type == Type::U32 ? integers<uint32_t, Reduction::Dec> : nullptr;
    case Reduction::And: return logical<Reduction::And>(type);
    case Reduction::Or: return logical<Reduction::Or>(type);
    case Reduction::Xor: return logical<Reduction::Xor>(type);
    default: return nullptr;
  }
}

Type type_of_map(uint32_t type) {
  switch (type) {
    case 2: return Type::U32;
    case 3: return Type::S32;
    case 4: return Type::U64;
    case 5: return Type::S64;
    case 6: return Type::F16;
    case 7: return Type::F32;
    case 9: return Type::BF16;
    default: return Type::None;
  }
}

}  // namespace ptx
