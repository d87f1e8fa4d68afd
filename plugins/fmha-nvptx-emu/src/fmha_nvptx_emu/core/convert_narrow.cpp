// Pairs of 8-bit floats. To 8 bits: to nearest even, and a magnitude that is too large becomes the largest finite one (.satfinite
// is required); NaN becomes the NaN of the format. From 8 bits: exact.
#include "convert_narrow.hpp"

#include "floats.hpp"
#include "tensor_sum.hpp"

namespace ptx {

namespace {

template <Element e> constexpr int kBits = e == Element::E4M3 ? 3 : 2;          // of the mantissa
template <Element e> constexpr float kLargest = e == Element::E4M3 ? 448.0f : 57344.0f;

template <Element e> uint32_t narrowed(float x, bool relu) {
  if (x != x) return 0x7f;
  if (relu && !(x > 0)) return 0;
  const uint32_t sign = bits_of_float(x) >> 31 << 7;
  const float a = std::fabs(x);
  if (a == 0) return sign;
  constexpr int bits = kBits<e>, least = e == Element::E4M3 ? -6 : -14;
  const int exponent = std::max(std::ilogb(a), least);
  const double units = std::nearbyint(std::ldexp(double(a), bits - exponent));  // of the last place
  if (a > kLargest<e> || std::ldexp(units, exponent - bits) > kLargest<e>) return sign | (e == Element::E4M3 ? 0x7eu : 0x7bu);
  return sign | (uint32_t(units) + (uint32_t(exponent - least) << bits));
}

template <Element e> void pair_to_halves(Warp& w, const Inst& i, uint32_t mask) {
  map1<uint32_t, uint16_t>(w, i, mask, [](uint16_t a) {
    const auto one = [](uint32_t bits) {
      const float x = element_of<e>(bits, 0);
      const f16 h = f16(x);
      uint16_t out;
      std::memcpy(&out, &h, 2);
      return uint32_t(x != x ? kHalfNan : out);
    };
    return one(a & 0xff) | one(a >> 8) << 16;
  });
}
template <Element e, bool relu> void halves_to_pair(Warp& w, const Inst& i, uint32_t mask) {
  map1<uint32_t, uint32_t>(w, i, mask, [](uint32_t a) {
    return narrowed<e>(wide(narrow<f16>(a & 0xffff)), relu) | narrowed<e>(wide(narrow<f16>(a >> 16)), relu) << 8;
  });
}
template <Element e, bool relu> void floats_to_pair(Warp& w, const Inst& i, uint32_t mask) {  // the first source is the upper byte
  map2<uint32_t, float, float>(w, i, mask, [](float a, float b) { return narrowed<e>(a, relu) << 8 | narrowed<e>(b, relu); });
}

template <Element e> Handler to_pair(Binding& b, Type to, Type from, bool relu) {
  const bool floats = from == Type::F32;
  b.count(floats ? 3 : 2, floats ? 3 : 2);
  b.dest(0, to), b.source(1, from);
  if (floats) b.source(2, from);
  if (floats) return relu ? floats_to_pair<e, true> : floats_to_pair<e, false>;
  return relu ? halves_to_pair<e, true> : halves_to_pair<e, false>;
}

}  // namespace

Handler bind_narrow(Binding& b, Type to, Type from, bool finite, bool relu) {
  if (to == Type::F16x2 && (from == Type::E4M3x2 || from == Type::E5M2x2)) {
    if (finite || relu) return nullptr;
    b.count(2, 2);
    b.dest(0, to), b.source(1, from);
    return from == Type::E4M3x2 ? pair_to_halves<Element::E4M3> : pair_to_halves<Element::E5M2>;
  }
  if ((to == Type::E4M3x2 || to == Type::E5M2x2) && (from == Type::F32 || from == Type::F16x2)) {
    if (!finite) b.refuse("it needs .satfinite");
    return to == Type::E4M3x2 ? to_pair<Element::E4M3>(b, to, from, relu) : to_pair<Element::E5M2>(b, to, from, relu);
  }
  return nullptr;
}

}  // namespace ptx
