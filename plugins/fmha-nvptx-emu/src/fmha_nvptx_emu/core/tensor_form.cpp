#include "tensor_form.hpp"

#include "widened.hpp"

namespace ptx {

void stop(const Inst& i, const Warp& w, const std::string& why) {
  throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + " in " + w.block->kernel->name + ": " + why};
}

namespace {

constexpr unsigned kMostColumns = 256;

bool has_scales(TensorKind kind) { return kind >= TensorKind::MXF8F6F4; }

Element element_named(const Inst& i, const Warp& w, TensorKind kind, unsigned format) {
  constexpr Element bytes[] = {Element::E4M3, Element::E5M2, Element::E4M3, Element::E2M3, Element::E3M2, Element::E2M1};
  const bool any = kind == TensorKind::F8F6F4 || kind == TensorKind::MXF8F6F4;
  if (kind == TensorKind::F16 && format < 2) return format ? Element::BF16 : Element::F16;
  if (kind == TensorKind::TF32 && format == 2) return Element::TF32;
  if (kind == TensorKind::I8 && format < 2) return format ? Element::S8 : Element::U8;
  if (any && format < 6 && format != 2) return bytes[format];
  if (kind >= TensorKind::MXF4 && format == 1) return Element::E2M1;
  stop(i, w, "the format " + std::to_string(format) + " of a matrix in its instruction descriptor is not implemented");
}

void shape(TensorForm& f, const Inst& i, const Warp& w, const TensorMode& mode, uint32_t bits) {
  const bool pair = mode.pair;
  f.n = (bits >> 17 & 63) * 8, f.m = (bits >> 24 & 31) * 16;
  if (mode.stationary) {
    if ((f.m == 32 || f.m == 64 || f.m == 128) && (f.n == 64 || f.n == 128 || f.n == 256)) return;
    stop(i, w, "its instruction descriptor has the shape m" + std::to_string(f.m) + "n" + std::to_string(f.n) + ", which .ws does not have");
  }
  const bool small = f.m == 64 && !pair && !f.scales, whole = f.m == 128 || (f.m == 256 && pair);
  const unsigned step = !f.whole ? (small || (f.scales && !pair) ? 8 : 16) : pair ? 32 : f.n < 32 ? 8 : 16;
  if (!(small || whole) || !f.n || f.n > kMostColumns || f.n % step)
    stop(i, w, "its instruction descriptor has the shape m" + std::to_string(f.m) + "n" + std::to_string(f.n) + ", which cta_group::" + (pair ? "2" : "1") + " does not have");
}

void scaling(TensorForm& f, const Inst& i, const Warp& w, TensorKind kind, uint32_t bits) {
  const bool bytes = kind == TensorKind::MXF8F6F4;
  f.packed = !bytes, f.powers = bits >> 23 & 1, f.first_a = bits >> 29 & 3, f.first_b = bits >> 4 & 3;
  if (bits & 0x0700004bu || (bits >> 12 & 1 && !bytes)) stop(i, w, "its instruction descriptor has bits that are reserved");
  if (bits >> 31) stop(i, w, bytes ? "its instruction descriptor has bits that are reserved" : "its instruction descriptor asks for K = 96, which is not implemented");
  if (!f.powers && !(kind == TensorKind::MXF4NVF4 && f.scales == 4)) stop(i, w, "its instruction descriptor has scales of ue4m3, which need kind::mxf4nvf4 and four of a row");
  for (const unsigned first : {f.first_a, f.first_b})
    if (first % f.scales) stop(i, w, "its instruction descriptor begins " + std::to_string(f.scales) + " scales of a row at byte " + std::to_string(first) + " of a word");
}

// Of `x` bits of exponent and `m` of mantissa behind a sign.
float small_number(unsigned bits, unsigned x, unsigned m) {
  const unsigned field = bits >> m & ((1u << x) - 1), rest = bits & ((1u << m) - 1);
  const int bias = (1 << (x - 1)) - 1;
  const float size = std::ldexp(float(field ? rest + (1u << m) : rest), int(field ? field : 1) - bias - int(m));
  return bits >> (x + m) & 1 ? -size : size;
}

struct Small {  // all numbers of 4 and 6 bits
  float e2m1[16], e2m3[64], e3m2[64];
  Small() {
    for (unsigned bits = 0; bits < 64; ++bits) e2m3[bits] = small_number(bits, 2, 3), e3m2[bits] = small_number(bits, 3, 2), e2m1[bits % 16] = small_number(bits % 16, 2, 1);
  }
};
const Small& small() {
  static const Small all;
  return all;
}
float element_at(Element e, const uint8_t* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, 4 / elements_of(e));
  switch (e) {
    case Element::F16: return element_of<Element::F16>(bits, 0);
    case Element::BF16: return element_of<Element::BF16>(bits, 0);
    case Element::TF32: return element_of<Element::TF32>(bits, 0);
    case Element::E4M3: return element_of<Element::E4M3>(bits, 0);
    case Element::E5M2: return element_of<Element::E5M2>(bits, 0);
    case Element::U8: return float(uint8_t(bits));
    case Element::S8: return float(int8_t(bits));
    case Element::E2M3: return small().e2m3[bits & 63];
    case Element::E3M2: return small().e3m2[bits & 63];
    default: return small().e2m1[bits >> 2 & 15];
  }
}
float nibble(const uint8_t* from, unsigned index) { return small().e2m1[from[index / 2] >> index % 2 * 4 & 15]; }

}  // namespace

TensorForm form_of(const Inst& i, const Warp& w, const TensorMode& mode, uint32_t bits) {
  const TensorKind kind = mode.kind;
  TensorForm f{};
  f.scales = mode.scales;
  if (bits & 7) stop(i, w, "its instruction descriptor asks for sparse matrices, which are not implemented");
  f.a = element_named(i, w, kind, bits >> 7 & 7), f.b = element_named(i, w, kind, bits >> 10 & (kind >= TensorKind::MXF4 ? 3 : 7));
  if (has_scales(kind)) scaling(f, i, w, kind, bits);
  else {
    f.whole = kind == TensorKind::I8, f.saturates = bits >> 3 & 1;
    if ((f.saturates && !f.whole) || bits >> 30) stop(i, w, f.whole ? "its instruction descriptor asks to shift, which is not implemented" : "its instruction descriptor asks to saturate or to shift, which is not implemented");
    if (f.whole && bits >> 13 & 3) stop(i, w, "its instruction descriptor negates a matrix of integers");
    if (kind == TensorKind::F16 && f.a != f.b) stop(i, w, "its instruction descriptor has matrices of f16 and of bf16");
    const unsigned sums = bits >> 4 & 3;
    f.half = sums == 0;
    if (f.whole ? sums != 2 : sums > 1 || (f.half && (f.a == Element::BF16 || f.a == Element::TF32))) stop(i, w, "the format " + std::to_string(sums) + " of D in its instruction descriptor does not fit");
  }
  f.k = f.packed ? 64 : 8 * elements_of(f.a);
  f.sign_a = bits >> 13 & 1 ? -1.0f : 1.0f, f.sign_b = bits >> 14 & 1 ? -1.0f : 1.0f;
  f.across_a = bits >> 15 & 1, f.across_b = bits >> 16 & 1;
  shape(f, i, w, mode, bits);
  const auto turned = [&](Element e, bool across) { return across && (e == Element::TF32 || is_narrow(e)); };
  if (turned(f.a, f.across_a) || turned(f.b, f.across_b))
    stop(i, w, std::string("matrices of ") + (kind == TensorKind::TF32 ? "tf32" : "4 and 6 bits") + " whose m or n is contiguous are not implemented");
  const bool sums_known = f.packed || (!is_narrow(f.a) && !is_narrow(f.b));
  if (w.block->launch->options.hardware && !sums_known) stop(i, w, "nobody has measured how hardware sums elements of 4 and 6 bits in this kind");
  return f;
}

namespace {

float element_of_chunk(Element e, bool packed, const uint8_t* chunk, unsigned index) {
  if (packed || e == Element::E2M1) return nibble(chunk, index);
  if (!is_narrow(e)) return element_at(e, chunk + index * (4 / elements_of(e)));
  uint16_t two = 0;
  std::memcpy(&two, chunk + 6 * index / 8, 2);
  const unsigned bits = two >> 6 * index % 8 & 63;
  return e == Element::E3M2 ? small().e3m2[bits] : small().e2m3[bits];
}

// Sixteen bytes of elements that are whole bytes, in vectors. False: it has no vectors for them.
bool read_sixteen(Element e, const uint8_t* at, float sign, float* out) {
#ifdef PTX_AVX512
  if (emulation::careful) return false;
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  const auto put = [&](__m512 elements, unsigned count) {
    _mm512_mask_storeu_ps(out, __mmask16((1u << count) - 1), _mm512_mul_ps(elements, _mm512_set1_ps(sign)));
  };
  const __m512i halves = _mm512_castsi256_si512(_mm256_cvtepu16_epi32(bytes)), words = _mm512_castsi128_si512(bytes), all = _mm512_cvtepu8_epi32(bytes);
  switch (e) {
    case Element::F16: return put(widened<Element::F16>(halves, 0), 8), true;
    case Element::BF16: return put(widened<Element::BF16>(halves, 0), 8), true;
    case Element::TF32: return put(widened<Element::TF32>(words, 0), 4), true;
    case Element::E4M3: return put(widened<Element::E4M3>(all, 0), 16), true;
    case Element::E5M2: return put(widened<Element::E5M2>(all, 0), 16), true;
    default: return false;
  }
#else
  return false;
#endif
}

}  // namespace

void read_chunk(Element e, bool packed, const uint8_t* chunk, float sign, float* out) {
  if (!packed && read_sixteen(e, chunk, sign, out)) return;
  for (unsigned index = 0; index < elements_of_chunk(e, packed); ++index) out[index] = sign * element_of_chunk(e, packed, chunk, index);
}

void read_row(Element e, bool packed, const uint8_t* row, unsigned k, float sign, float* out) {
  for (unsigned at = 0; at < k;) {
    const unsigned count = packed ? 2 * k : 4 * elements_of(e);  // of 16 bytes
    if (packed || !read_sixteen(e, row + 16 * (at / count), sign, out + at))
      for (unsigned index = at; index < at + count && index < k; ++index)
        out[index] = sign * (packed ? nibble(row, index) : element_at(e, row + index * (4 / elements_of(e))));
    at += count;
  }
}

}  // namespace ptx
