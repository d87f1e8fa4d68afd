// Integer arithmetic. Source: PTX ISA 9.1, 9.7.1; without saturation, results are modulo 2^n.
#include <algorithm>

#include "binding.hpp"
#include "lanes.hpp"

namespace ptx {

// Of float.cpp: the same roots serve floats.
Handler bind_float(Binding& b, Type type);

namespace {

template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> using Wider = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                                    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                                                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

struct Add { template <class T> T operator()(T a, T b) const { return T(Unsigned<T>(a) + Unsigned<T>(b)); } };
struct Sub { template <class T> T operator()(T a, T b) const { return T(Unsigned<T>(a) - Unsigned<T>(b)); } };
struct Mul {
  template <class T> T operator()(T a, T b) const {
    if constexpr (sizeof(T) == 8) return T(Unsigned<T>(a) * Unsigned<T>(b));
    else return T(Wider<Unsigned<T>>(Unsigned<T>(a)) * Unsigned<T>(b));
  }
};
struct High { template <class T> T operator()(T a, T b) const { return T(Wider<T>(a) * Wider<T>(b) >> sizeof(T) * 8); } };
struct Min { template <class T> T operator()(T a, T b) const { return a < b ? a : b; } };
struct Max { template <class T> T operator()(T a, T b) const { return a > b ? a : b; } };
// Division by zero is undefined in PTX; the GPU gives all ones.
struct Div {
  template <class T> T operator()(T a, T b) const {
    if constexpr (sizeof(T) == 4) return b ? T(int64_t(double(a) / double(b))) : T(-1);  // exact, and made of vectors
    if (b == 0) return T(-1);
    if constexpr (std::is_signed_v<T>) if (b == T(-1)) return T(-Unsigned<T>(a));
    return T(a / b);
  }
};
struct Rem {
  template <class T> T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) if (b == T(-1)) return 0;
    return T(a % b);
  }
};
template <class Op> struct Relu { template <class T> T operator()(T a, T b) const { return std::max(Op{}(a, b), T(0)); } };
struct Neg { template <class T> T operator()(T a) const { return T(-Unsigned<T>(a)); } };
struct Abs { template <class T> T operator()(T a) const { return a < 0 ? T(-Unsigned<T>(a)) : a; } };

template <class T, class Op> void one(Warp& w, const Inst& i, uint32_t mask) { map1<T, T>(w, i, mask, Op{}); }
template <class T, class Op> void two(Warp& w, const Inst& i, uint32_t mask) { map2<T, T, T>(w, i, mask, Op{}); }
template <class T, class Op> void mad(Warp& w, const Inst& i, uint32_t mask) {
  map3<T, T, T, T>(w, i, mask, [](T a, T b, T c) { return Add{}(Op{}(a, b), c); });
}
template <class T> void mul_wide(Warp& w, const Inst& i, uint32_t mask) {
  map2<Wider<T>, T, T>(w, i, mask, [](T a, T b) { return Wider<T>(a) * Wider<T>(b); });
}
template <class T> void mad_wide(Warp& w, const Inst& i, uint32_t mask) {
  map3<Wider<T>, T, T, Wider<T>>(w, i, mask, [](T a, T b, Wider<T> c) {
    return Wider<T>(Unsigned<Wider<T>>(Wider<T>(a) * Wider<T>(b)) + Unsigned<Wider<T>>(c));
  });
}

template <class Op> Handler two_of(Type type) {
  switch (type) {
    case Type::U16: case Type::B16: return two<uint16_t, Op>;
    case Type::S16: return two<int16_t, Op>;
    case Type::U32: case Type::B32: return two<uint32_t, Op>;
    case Type::S32: return two<int32_t, Op>;
    case Type::U64: case Type::B64: return two<uint64_t, Op>;
    case Type::S64: return two<int64_t, Op>;
    default: return nullptr;
  }
}
template <class Op> Handler mad_of(Type type) {
  switch (type) {
    case Type::U16: return mad<uint16_t, Op>;
    case Type::S16: return mad<int16_t, Op>;
    case Type::U32: return mad<uint32_t, Op>;
    case Type::S32: return mad<int32_t, Op>;
    case Type::U64: return mad<uint64_t, Op>;
    case Type::S64: return mad<int64_t, Op>;
    default: return nullptr;
  }
}
template <class Op> Handler signed_of(Type type) {
  switch (type) {
    case Type::S16: return one<int16_t, Op>;
    case Type::S32: return one<int32_t, Op>;
    case Type::S64: return one<int64_t, Op>;
    default: return nullptr;
  }
}

template <class Op> Handler arithmetic(Binding& b) {
  const Type type = b.type();
  if (is_float(type)) return bind_float(b, type);
  b.three(type, 2);
  return two_of<Op>(type);
}
template <class Op> Handler extremum(Binding& b) {
  if (!b.take("relu")) return arithmetic<Op>(b);
  const Type type = b.type();
  if (type != Type::S32) return nullptr;
  b.three(type, 2);
  return two<int32_t, Relu<Op>>;
}
template <class Op> Handler unary(Binding& b) {
  const Type type = b.type();
  if (is_float(type)) return bind_float(b, type);
  b.three(type, 1);
  return signed_of<Op>(type);
}

Type doubled(Type t) {
  switch (t) {
    case Type::U16: return Type::U32;
    case Type::S16: return Type::S32;
    case Type::U32: return Type::U64;
    case Type::S32: return Type::S64;
    default: return Type::None;
  }
}

Handler bind_mul(Binding& b) {
  const bool wide = b.take("wide"), high = b.take("hi"), low = b.take("lo");
  const Type type = b.type();
  if (is_float(type)) return bind_float(b, type);
  if (wide) {
    b.count(3, 3);
    b.dest(0, doubled(type)), b.source(1, type), b.source(2, type);
    switch (type) {
      case Type::U16: return mul_wide<uint16_t>;
      case Type::S16: return mul_wide<int16_t>;
      case Type::U32: return mul_wide<uint32_t>;
      case Type::S32: return mul_wide<int32_t>;
      default: return nullptr;
    }
  }
  b.three(type, 2);
  return high ? two_of<High>(type) : low ? two_of<Mul>(type) : nullptr;
}

Handler bind_mad(Binding& b) {
  const bool wide = b.take("wide"), high = b.take("hi"), low = b.take("lo");
  const Type type = b.type();
  if (is_float(type)) return bind_float(b, type);
  if (wide) {
    b.count(4, 4);
    b.dest(0, doubled(type)), b.source(1, type), b.source(2, type), b.source(3, doubled(type));
    switch (type) {
      case Type::U16: return mad_wide<uint16_t>;
      case Type::S16: return mad_wide<int16_t>;
      case Type::U32: return mad_wide<uint32_t>;
      case Type::S32: return mad_wide<int32_t>;
      default: return nullptr;
    }
  }
  b.three(type, 3);
  return high ? mad_of<High>(type) : low ? mad_of<Mul>(type) : nullptr;
}

constexpr Opcode rows[] = {
    {"add", "9.7.1.1", Class::Integer, arithmetic<Add>}, {"sub", "9.7.1.2", Class::Integer, arithmetic<Sub>},
    {"mul", "9.7.1.3", Class::Integer, bind_mul},        {"mad", "9.7.1.4", Class::Integer, bind_mad},
    {"div", "9.7.1.8", Class::Integer, arithmetic<Div>}, {"rem", "9.7.1.9", Class::Integer, arithmetic<Rem>},
    {"abs", "9.7.1.10", Class::Integer, unary<Abs>},     {"neg", "9.7.1.11", Class::Integer, unary<Neg>},
    {"min", "9.7.1.12", Class::Integer, extremum<Min>},  {"max", "9.7.1.13", Class::Integer, extremum<Max>},
};

}  // namespace

extern const Table kIntegerOpcodes{rows, std::size(rows)};

}  // namespace ptx
