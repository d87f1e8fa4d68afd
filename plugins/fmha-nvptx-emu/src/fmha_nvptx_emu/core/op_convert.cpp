// Conversions. Source: PTX ISA 9.1, 9.7.9.21. A float that does not fit saturates to the integer's range; NaN gives 0 in 32
// bits and fewer, and the largest magnitude negative in 64 bits; half precision overflows to infinity unless satfinite.
#include "binding.hpp"
#include "convert_narrow.hpp"
#include "floats.hpp"
#include "widened.hpp"

namespace ptx {

namespace {

enum class Round { Nearest, Zero, Down, Up, Away };

inline double rounded(double x, Round how) {
  switch (how) {
    case Round::Nearest: return std::nearbyint(x);
    case Round::Zero: return std::trunc(x);
    case Round::Down: return std::floor(x);
    case Round::Up: return std::ceil(x);
    case Round::Away: return std::round(x);
  }
  return x;
}

// d = f(source) where speed does not matter: one loop for all masks, because each loop of a conversion costs a compile.
template <class R, class A, class F> inline void any1(Warp& w, const Inst& i, uint32_t mask, F f) {
  Lane<R>* d = lanes_of<R>(w, i.slots[0]);
  const Lane<A>* a = lanes_of<A>(w, i.slots[1]);
#pragma GCC ivdep
  for (int l = 0; l < 32; ++l) {
    const Lane<R> r = widen<R>(f(narrow<A>(a[l])));
    d[l] = mask >> l & 1 ? r : d[l];
  }
}

// Integers. The destination register may be wider than the type: its value is extended by the type's sign.
template <class To, class From> void int_to_int(Warp& w, const Inst& i, uint32_t mask) {
  if constexpr (sizeof(To) == 1) any1<uint32_t, From>(w, i, mask, [](From a) { return std::is_signed_v<To> ? uint32_t(int32_t(To(a))) & 0xffff : uint32_t(To(a)); });
  else map1<To, From>(w, i, mask, [](From a) { return To(a); });
}
// To the range of the destination: imm has its type.
template <class Out, class From> void int_saturating(Warp& w, const Inst& i, uint32_t mask) {
  const unsigned bits = bits_of(Type(i.imm));
  const bool sign = is_signed(Type(i.imm));
  const __int128 one = 1, low = sign ? -(one << (bits - 1)) : 0, high = (one << (bits - sign)) - 1;
  any1<Out, From>(w, i, mask, [=](From a) {
    const __int128 v = a, kept = v < low ? low : v > high ? high : v;
    return bits == 8 ? Out(uint16_t(kept)) : Out(kept);
  });
}
template <class To, class From> void float_to_int(Warp& w, const Inst& i, uint32_t mask) {  // imm: the rounding, 8 for ftz
  const Round how = Round(i.imm & 7);
  const bool ftz = i.imm & 8;
  any1<To, From>(w, i, mask, [=](From a) {
    double x = double(a);
    if constexpr (std::is_same_v<From, float>) x = ftz ? double(flushed(a)) : x;
    if (x != x) return sizeof(To) < 8 ? To(0) : std::numeric_limits<To>::min() ? std::numeric_limits<To>::min() : To(1ull << 63);
    const double r = rounded(x, how);
    constexpr double low = double(std::numeric_limits<To>::min());
    const double high = std::ldexp(1.0, int(sizeof(To) * 8) - (std::is_signed_v<To> ? 1 : 0));
    return r <= low ? std::numeric_limits<To>::min() : r >= high ? std::numeric_limits<To>::max() : To(r);
  });
}
[[gnu::noinline]] float float_from(uint64_t magnitude, bool negative, Round how) {
  float f = float(magnitude);  // to nearest
  const Round way = !negative ? how : how == Round::Down ? Round::Up : how == Round::Up ? Round::Down : how;
  if (way != Round::Nearest && magnitude) {
    const long double exact = magnitude, got = f;
    if (got > exact && (way == Round::Zero || way == Round::Down)) f = std::nextafterf(f, 0.0f);
    if (got < exact && way == Round::Up) f = std::nextafterf(f, std::numeric_limits<float>::infinity());
  }
  return negative ? -f : f;
}
template <class To, class From> void int_to_float(Warp& w, const Inst& i, uint32_t mask) {
  map1<To, From>(w, i, mask, [](From a) {
    if constexpr (std::is_same_v<To, f16>) return f16(float(a));
    else return To(a);
  });
}
template <class From> void int_to_float_directed(Warp& w, const Inst& i, uint32_t mask) {  // imm: the rounding
  const Round how = Round(i.imm);
  any1<float, From>(w, i, mask, [=](From a) { return float_from(a < 0 ? -uint64_t(int64_t(a)) : uint64_t(a), a < 0, how); });
}

// f with a value of the C++ type of an integer's; nullptr for other types.
template <class F> Handler by_integer(Type type, F f) {
  switch (type) {
    case Type::U8: return f(uint8_t());
    case Type::S8: return f(int8_t());
    case Type::U16: return f(uint16_t());
    case Type::S16: return f(int16_t());
    case Type::U32: return f(uint32_t());
    case Type::S32: return f(int32_t());
    case Type::U64: return f(uint64_t());
    case Type::S64: return f(int64_t());
    default: return nullptr;
  }
}
// A result's sign matters in 8 bits alone, and a source's sign where the result is wider.
template <class To> Handler int_from(Type from) {
  const auto bits = 8 * sizeof(To);
  if (bits_of(from) >= bits) return bits_of(from) == 64 ? int_to_int<To, uint64_t> : int_to_int<To, uint32_t>;
  return by_integer(from, []<class From>(From) -> Handler {
    if constexpr (sizeof(From) < sizeof(To)) return int_to_int<To, From>;
    return nullptr;
  });
}
Handler int_to(Type to, Type from) {
  switch (bits_of(to)) {
    case 8: return is_signed(to) ? int_from<int8_t>(from) : int_from<uint8_t>(from);
    case 16: return int_from<uint16_t>(from);
    case 32: return int_from<uint32_t>(from);
    default: return int_from<uint64_t>(from);
  }
}
Handler saturating_to(Type to, Type from) {
  return by_integer(from, [&]<class From>(From) -> Handler {
    const unsigned bits = bits_of(to);
    return bits == 64 ? int_saturating<uint64_t, From> : bits == 16 ? int_saturating<uint16_t, From> : int_saturating<uint32_t, From>;
  });
}
// A source register of 64 bits with a narrower type is chopped (PTX ISA 9.1, 9.4.1).
template <class To, class From> void chopped(Warp& w, const Inst& i, uint32_t mask) {
  any1<To, uint64_t>(w, i, mask, [](uint64_t a) { return To(From(a)); });
}
Handler chopped_to(Type to, Type from) {
  if (bits_of(to) < 32) return nullptr;
  return by_integer(from, [&]<class From>(From) -> Handler {
    if constexpr (sizeof(From) < 8) return bits_of(to) == 64 ? chopped<uint64_t, From> : chopped<uint32_t, From>;
    return nullptr;
  });
}
template <class To> Handler float_from_int(Type from) {
  return by_integer(from, []<class From>(From) -> Handler { return int_to_float<To, From>; });
}
template <class From> Handler int_from_float(Type to) {
  return by_integer(to, []<class To>(To) -> Handler {
    if constexpr (sizeof(To) > 1) return float_to_int<To, From>;
    return nullptr;
  });
}

// Floats.
template <Round how, bool ftz, bool sat> void integral_f32(Warp& w, const Inst& i, uint32_t mask) {
  map1<float, float>(w, i, mask, [](float a) {
    const float x = flush<ftz>(a), r = canonical(float(rounded(double(x), how)));
    return sat ? saturated(r) : r;
  });
}
template <bool ftz, bool sat> void same_f32(Warp& w, const Inst& i, uint32_t mask) {
  map1<float, float>(w, i, mask, [](float a) { return sat ? saturated(flush<ftz>(a)) : flush<ftz>(a); });
}
template <class H> void f32_from_half(Warp& w, const Inst& i, uint32_t mask) {
  map1<float, H>(w, i, mask, [](H a) { return canonical(wide(a)); });
}
template <> void f32_from_half<f16>(Warp& w, const Inst& i, uint32_t mask) {  // by the exponent's shift, which compilers make vectors of
  map1<float, uint16_t>(w, i, mask, [](uint16_t a) {
    const uint32_t size = uint32_t(a & 0x7fff) << 13, sign = uint32_t(a & 0x8000) << 16;
    const uint32_t number = bits_of_float(float_of(size) * 0x1p112f);
    return float_of(size > 0x0f800000 ? kNan : sign | (size == 0x0f800000 ? 0x7f800000 : number));
  });
}
template <> void f32_from_half<bf16>(Warp& w, const Inst& i, uint32_t mask) {
  map1<float, uint16_t>(w, i, mask, [](uint16_t a) { return float_of(uint32_t(a) << 16); });
}
// imm: 1 relu, 2 toward zero, 4 satfinite.
template <class H> inline uint32_t half_bits(float x, int64_t how);
template <> inline uint32_t half_bits<f16>(float x, int64_t how) {
  if (how & 1 && !(x > 0)) x = x != x ? x : 0.0f;
  if (x != x) return kHalfNan;
  uint16_t b;
  const f16 h = f16(x);
  std::memcpy(&b, &h, 2);
  if (how & 2 && std::fabs(double(h)) > std::fabs(double(x))) --b;
  if (how & 4 && (b & 0x7fff) == 0x7c00) --b;
  return b;
}
template <> inline uint32_t half_bits<bf16>(float x, int64_t how) {
  if (how & 1 && !(x > 0)) x = x != x ? x : 0.0f;
  if (x != x) return kHalfNan;
  uint16_t b = how & 2 ? uint16_t(bits_of_float(x) >> 16) : to_bf16(x).bits;
  if (how & 4 && (b & 0x7fff) == 0x7f80) --b;
  return b;
}
template <class H> void half_from_f32(Warp& w, const Inst& i, uint32_t mask) {
  const int64_t how = i.imm;
  if (how == 0) map1<uint32_t, float>(w, i, mask, [](float a) { return half_bits<H>(a, 0); });
  else map1<uint32_t, float>(w, i, mask, [how](float a) { return half_bits<H>(a, how); });
}
#ifdef PTX_AVX512
void halves_by_vectors(Warp& w, const Inst& i) {
  const auto half = [&](unsigned source, unsigned z) {
    const __m512 x = _mm512_loadu_ps(lanes_of<float>(w, i.slots[source]) + 16 * z);
    const __m512i bits = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    return _mm512_mask_mov_epi32(bits, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(kHalfNan));
  };
  for (unsigned z = 0; z < 2; ++z) {
    const __m512i low = half(2, z);
    _mm512_storeu_si512(lanes_of<uint32_t>(w, i.slots[0]) + 16 * z, _mm512_or_si512(_mm512_slli_epi32(half(1, z), 16), low));
  }
}
#endif
template <class H> void halves_from_f32(Warp& w, const Inst& i, uint32_t mask) {  // the first source is the upper half
  const int64_t how = i.imm;
#ifdef PTX_AVX512
  if (std::is_same_v<H, f16> && how == 0 && mask == kAll && !emulation::careful) return halves_by_vectors(w, i);
#endif
  if (how == 0) map2<uint32_t, float, float>(w, i, mask, [](float a, float b) { return half_bits<H>(a, 0) << 16 | half_bits<H>(b, 0); });
  else map2<uint32_t, float, float>(w, i, mask, [how](float a, float b) { return half_bits<H>(a, how) << 16 | half_bits<H>(b, how); });
}
template <bool ftz> void f64_from_f32(Warp& w, const Inst& i, uint32_t mask) {
  map1<double, float>(w, i, mask, [](float a) { return double(flush<ftz>(a)); });
}
template <bool ftz> void f32_from_f64(Warp& w, const Inst& i, uint32_t mask) {
  map1<float, double>(w, i, mask, [](double a) { return canonical(flush<ftz>(float(a))); });
}
void tf32_away(Warp& w, const Inst& i, uint32_t mask) {  // ties away from zero, 13 bits dropped
  map1<uint32_t, uint32_t>(w, i, mask, [](uint32_t a) {
    return (a & 0x7f800000) == 0x7f800000 ? (a & 0x7fffff ? kNan : a) : (a + 0x1000) & 0xffffe000;
  });
}
void tf32_nearest(Warp& w, const Inst& i, uint32_t mask) {
  map1<uint32_t, uint32_t>(w, i, mask, [](uint32_t a) {
    return (a & 0x7f800000) == 0x7f800000 ? (a & 0x7fffff ? kNan : a) : (a + 0xfff + (a >> 13 & 1)) & 0xffffe000;
  });
}

bool integer(Type t) { return t == Type::U8 || t == Type::S8 || t == Type::U16 || t == Type::S16 || t == Type::U32 || t == Type::S32 || t == Type::U64 || t == Type::S64; }

Handler bind_cvt(Binding& b) {
  Round how = Round::Nearest;
  const bool integral = b.any({"rni", "rzi", "rmi", "rpi"});
  const auto had = [&](const char* name) {
    for (const std::string& m : b.s.mods)
      if (m == name) return true;
    return false;
  };
  if (had("rzi")) how = Round::Zero;
  if (had("rmi")) how = Round::Down;
  if (had("rpi")) how = Round::Up;
  if (b.take("rz")) how = Round::Zero;
  if (b.take("rm")) how = Round::Down;
  if (b.take("rp")) how = Round::Up;
  if (b.take("rna")) how = Round::Away;
  b.take("rn");
  const bool ftz = b.take("ftz"), sat = b.take("sat"), finite = b.take("satfinite"), relu = b.take("relu");
  const Type to = b.type(), from = b.type();
  const int64_t half = int64_t(relu) | (how == Round::Zero ? 2 : 0) | (finite ? 4 : 0);
  b.out.imm = half;
  const bool plain = how == Round::Nearest && !integral && !ftz && !sat;
  if (const Handler pairs = plain ? bind_narrow(b, to, from, finite, relu) : nullptr) return pairs;
  if (to == Type::F16x2 || to == Type::BF16x2) {
    b.count(3, 3);
    b.dest(0, to), b.source(1, Type::F32), b.source(2, Type::F32);
    if (from != Type::F32 || sat || ftz || (how != Round::Nearest && how != Round::Zero)) return nullptr;
    return to == Type::F16x2 ? halves_from_f32<f16> : halves_from_f32<bf16>;
  }
  b.count(2, 2);
  // Sizes may differ from the registers': 8 bits live in 16 or 32, and a wider register is extended.
  const Operand &d = b.operand(0), &a = b.operand(1);
  const auto fits = [](const Operand& o, Type t) {
    return o.kind == Operand::Reg && o.reg->type != Type::Pred && (bits_of(o.reg->type) == 64) == (bits_of(t) == 64) ? o.reg->type : t;
  };
  const Type into = fits(d, to);
  if (bits_of(into) > bits_of(to) && bits_of(to) > 8 && !integer(to) && to != Type::F16 && to != Type::BF16) b.refuse("its destination is too wide");
  if (integer(to) && integer(from) && a.kind == Operand::Reg && bits_of(a.reg->type) == 64 && bits_of(from) < 64) {
    b.dest(d, into), b.source(a, a.reg->type);
    return sat ? nullptr : chopped_to(to, from);
  }
  b.dest(d, into), b.source(a, fits(a, from));
  if (finite && to != Type::F16 && to != Type::BF16 && to != Type::TF32) return nullptr;
  if (relu && to != Type::F16 && to != Type::BF16) return nullptr;
  if (integer(to) && integer(from)) {
    // A destination of 32 bits is extended by the sign of its type.
    if (bits_of(into) == 32 && bits_of(to) < 32 && !sat && bits_of(from) <= 32) {
      if (is_signed(to)) b.refuse("a signed conversion into a wider register is not implemented");
    }
    if (!sat) return int_to(to, from);
    b.out.imm = int64_t(to);
    return saturating_to(to, from);
  }
  if (integer(to)) {
    if (!integral) b.refuse("it needs the way of rounding to an integer");
    if (how == Round::Away) return nullptr;
    b.out.imm = int64_t(how) | (ftz ? 8 : 0);
    if (from == Type::F32) return int_from_float<float>(to);
    if (from == Type::F64) return int_from_float<double>(to);
    return from == Type::F16 ? int_from_float<f16>(to) : nullptr;
  }
  if (integer(from)) {
    if (sat || ftz) return nullptr;
    if (to == Type::F32 && how != Round::Nearest && how != Round::Away) {
      b.out.imm = int64_t(how);
      return by_integer(from, []<class From>(From) -> Handler { return int_to_float_directed<From>; });
    }
    if (how != Round::Nearest) return nullptr;
    return to == Type::F32 ? float_from_int<float>(from) : to == Type::F64 ? float_from_int<double>(from) : to == Type::F16 ? float_from_int<f16>(from) : nullptr;
  }
  if (to == Type::F32 && from == Type::F32) {
    if (!integral) return ftz ? (sat ? same_f32<true, true> : same_f32<true, false>) : (sat ? same_f32<false, true> : same_f32<false, false>);
    if (sat) return nullptr;
    switch (how) {
      case Round::Nearest: return ftz ? integral_f32<Round::Nearest, true, false> : integral_f32<Round::Nearest, false, false>;
      case Round::Zero: return ftz ? integral_f32<Round::Zero, true, false> : integral_f32<Round::Zero, false, false>;
      case Round::Down: return ftz ? integral_f32<Round::Down, true, false> : integral_f32<Round::Down, false, false>;
      case Round::Up: return ftz ? integral_f32<Round::Up, true, false> : integral_f32<Round::Up, false, false>;
      default: return nullptr;
    }
  }
  if (integral || sat) return nullptr;
  if (to == Type::F32 && from == Type::F16) return f32_from_half<f16>;  // .ftz does not apply to half inputs
  if (to == Type::F32 && from == Type::BF16) return f32_from_half<bf16>;
  if (to == Type::F64 && from == Type::F32) return ftz ? f64_from_f32<true> : f64_from_f32<false>;
  if (to == Type::F32 && from == Type::F64 && how == Round::Nearest) return ftz ? f32_from_f64<true> : f32_from_f64<false>;
  if (ftz) return nullptr;
  if (to == Type::TF32 && from == Type::F32) return how == Round::Away ? tf32_away : how == Round::Nearest ? tf32_nearest : nullptr;
  if (how != Round::Nearest && how != Round::Zero) return nullptr;
  if (to == Type::F16 && from == Type::F32) return half_from_f32<f16>;
  if (to == Type::BF16 && from == Type::F32) return half_from_f32<bf16>;
  if (how != Round::Nearest) return nullptr;
  return nullptr;
}

constexpr Opcode rows[] = {{"cvt", "9.7.9.21", Class::Convert, bind_cvt}};

}  // namespace

extern const Table kConvertOpcodes{rows, std::size(rows)};

}  // namespace ptx
