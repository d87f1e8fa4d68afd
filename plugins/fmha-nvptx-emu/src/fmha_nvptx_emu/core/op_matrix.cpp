// Matrix loads and products. Source: PTX ISA 9.1, 9.7.14.5: fragments .8, mma .14, ldmatrix .15. Sums: exact products, binary32 fma
// in ascending k (docs/explanation/emulation.md, Arithmetic).
#include "access.hpp"
#include "binding.hpp"
#include "floats.hpp"
#include "product.hpp"
#include "together.hpp"

namespace ptx {

namespace {

// ldmatrix: lane 8j+r gives the address of row r of matrix j. Without .trans lane l gets elements 2(l%4), 2(l%4)+1 of row
// l/4; with it, of column l/4.
// Lane l gets column l/4 of the rows 2(l%4) and 2(l%4) + 1.
#ifdef PTX_AVX512
void across_by_vectors(__m512i upper, __m512i lower, uint32_t* d) {
  static const auto places = [] {
    struct Table {
      alignas(64) uint16_t at[64];
    } out{};
    for (unsigned n = 0; n < 64; ++n) out.at[n] = uint16_t((n / 2 % 4 * 2 + n % 2) * 8 + n / 8);
    return out;
  }();
  for (unsigned z = 0; z < 2; ++z)
    _mm512_storeu_si512(d + 16 * z, _mm512_permutex2var_epi16(upper, _mm512_load_si512(places.at + 32 * z), lower));
}

// Four matrices whose rows all are there, in one pass. False: something is to be reported or looked at by lanes, and nothing is done
// but that the books may have the reads.
template <bool transposed> bool load_whole(Warp& w, const Inst& i) {
  Block& b = *w.block;
  const Slot base = i.slots[i.count];
  if (emulation::careful || i.count != 4 || !(i.wide & 0x80) || b.clustered || (b.checks && w.defined[base.id] != kAll)) return false;
  Together all;
  bool apart = true;
  uint32_t held = kAll;
  if (!all.take_pieces(lanes_of<uint32_t>(w, base), uint32_t(i.imm), b.shared.bytes(), apart)) return false;
  if (b.checks && (!b.shared.read_together(w, all, held) || held != kAll)) return false;
  if (apart) ++b.counts.shared_accesses;
  else {
    Lanes a;
    addresses(w, i, base, kAll, a);
    count_conflicts(w, kAll, a, 16);
  }
  b.counts.shared_read += 512;
  const auto* pieces = reinterpret_cast<const __m128i*>(b.shared.data());
  const auto four = [&](const uint32_t* of) {
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(pieces + of[0])), _mm_loadu_si128(pieces + of[1]), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(pieces + of[2])), _mm_loadu_si128(pieces + of[3]), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  };
  for (unsigned j = 0; j < 4; ++j) {
    uint32_t* d = lanes_of<uint32_t>(w, i.slots[j]);
    const __m512i upper = four(all.piece + 8 * j), lower = four(all.piece + 8 * j + 4);
    if (transposed) across_by_vectors(upper, lower, d);
    else _mm512_storeu_si512(d, upper), _mm512_storeu_si512(d + 16, lower);
    if (w.doubtful || !i.certain) w.define(i.slots[j], kAll, kAll);
  }
  return true;
}
#endif
void across(const uint16_t (*rows)[8], uint32_t* d) {
  for (int l = 0; l < 32; ++l) d[l] = uint32_t(rows[l % 4 * 2][l / 4]) | uint32_t(rows[l % 4 * 2 + 1][l / 4]) << 16;
}

template <bool transposed> void load_matrix(Warp& w, const Inst& i, uint32_t mask) {
  if (!together(w, i, mask, w.alive, "ldmatrix")) return;
#ifdef PTX_AVX512
  if (load_whole<transposed>(w, i)) return;
#endif
  Block& b = *w.block;
  const uint32_t sources = i.count == 4 ? kAll : (1u << 8 * i.count) - 1;
  Lanes a;
  addresses(w, i, i.slots[i.count], sources, a);
  const uint32_t good = limited_lanes(w, i, sources, a, 16, b.shared.bytes(), "shared");
  count_conflicts(w, sources, a, 16);
  b.counts.shared_read += 128u * i.count;
  alignas(64) uint16_t rows[32][8] = {};
  const uint32_t defined = b.checks ? b.shared.read_lanes(w, i, good, a.at, 16) : good;
  const uint8_t* from = b.shared.data();
  each_lane(good, [&](int l) { std::memcpy(rows[l], from + a.at[l], 16); });
  for (unsigned j = 0; j < i.count; ++j) {
    uint32_t* d = lanes_of<uint32_t>(w, i.slots[j]);
    const uint32_t here = defined >> 8 * j & 0xff;
    if (!transposed) {
      std::memcpy(d, rows[8 * j], 128);  // row l/4 is 16 bytes of 4 lanes
    } else {
      across(rows + 8 * j, d);
    }
    uint32_t lanes = kAll;
    if (here != 0xff) {
      lanes = 0;
      for (int l = 0; l < 32; ++l) {
        const uint32_t needs = transposed ? 3u << l % 4 * 2 : 1u << l / 4;
        lanes |= uint32_t((here & needs) == needs) << l;
      }
    }
    w.define(i.slots[j], lanes, kAll);
  }
}

Handler bind_ldmatrix(Binding& b) {
  if (!b.take("sync") || !b.take("aligned") || !b.take("m8n8")) return nullptr;
  b.out.count = b.take("x4") ? 4 : b.take("x2") ? 2 : b.take("x1") ? 1 : 0;
  const bool transposed = b.take("trans");
  b.any({"shared", "shared::cta"});
  if (!b.out.count || b.type() != Type::B16) return nullptr;
  b.out.space = Space::Shared;
  const Operand& d = b.operand(0);
  b.count(2, 2);
  if (d.kind == Operand::Vector) {
    if (d.parts.size() != b.out.count) b.refuse("a vector of another length");
    for (const Operand& part : d.parts) b.dest(part, Type::B32);
  } else b.dest(d, Type::B32);
  b.address(1);
  b.out.own_flow = true;
  b.out.cls = Class::Shared;
  return transposed ? load_matrix<true> : load_matrix<false>;
}

// Lanes of a fragment with a hole: rows of A (two halves of 8) and columns of B whose elements are all defined.
uint32_t groups(uint32_t lanes) {  // bit g: lanes 4g to 4g+3
  uint32_t out = 0;
  for (int g = 0; g < 8; ++g) out |= uint32_t((lanes >> 4 * g & 0xf) == 0xf) << g;
  return out;
}
void matrix_flow(Warp& w, const Inst& i, const Shape& shape) {
  const Slot *a = i.slots + shape.d, *b = a + shape.a, *c = b + shape.b;
  uint32_t low = kAll, high = kAll, columns = kAll, sums = kAll;
  for (unsigned k = 0; k < shape.a; ++k) (k & 1 ? high : low) &= w.defined[a[k].id];
  for (unsigned k = 0; k < shape.b; ++k) columns &= w.defined[b[k].id];
  for (unsigned k = 0; k < shape.d; ++k) sums &= w.defined[c[k].id];
  if ((low & high & columns & sums) == kAll) {
    for (unsigned k = 0; k < shape.d; ++k) w.define(i.slots[k], kAll, kAll);
    return;
  }
  const uint32_t rows[2] = {groups(low), groups(high)}, n = groups(columns);
  for (unsigned k = 0; k < shape.d; ++k) {
    uint32_t lanes = 0;
    for (int l = 0; l < 32; ++l) {
      const unsigned half = shape.d == 4 ? k >> 1 : k, column = unsigned(l % 4 * 2);
      const uint32_t needs = shape.d == 4 ? 1u << (column + (k & 1)) : 3u << column;
      lanes |= uint32_t((rows[half] >> l / 4 & 1) && (n & needs) == needs) << l;
    }
    w.define(i.slots[k], lanes & w.defined[c[k].id], kAll);
  }
}

// With all of a warp's lanes here, the instructions behind this one are the next ones of the warp, so this one may do what they do.
template <Element element, unsigned k, bool half_sums, Element element_b> [[gnu::noinline]] void multiply_now(Warp& w, const Inst& i, uint32_t mask) {
  constexpr Shape shape = shape_of(element, k, half_sums);
  const Launch& launch = *w.block->launch;
  TensorSums how{};
  if (launch.options.hardware) {
    how = mma_sums(launch.major, launch.minor, element, k);
    if (!how.fraction)
      throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + " in " + w.block->kernel->name +
                  ": nobody has measured how this architecture sums here; the arithmetic of the document can execute it"};
  }
#ifdef PTX_AVX512
  if (!emulation::careful && !launch.options.hardware) {
    const unsigned count = mask == w.alive ? i.count : 1;
    w.ahead = count - 1;
    return products_by_lanes<element, k, half_sums, element_b>(&i, count, w.file, w.block->left_operands);
  }
#endif
  const Rows out{w.file, i.slots};
  product_by_elements<element, k, half_sums, element_b>(out, out + shape.d, launch.options.hardware ? &how : nullptr);
}
template <Element element, unsigned k, bool half_sums, Element element_b = element> void multiply(Warp& w, const Inst& i, uint32_t mask) {
  if (w.ahead) --w.ahead;
  else {
    if (!together(w, i, mask, w.alive, "mma")) return;
    multiply_now<element, k, half_sums, element_b>(w, i, mask);
  }
  if (w.block->checks && (w.doubtful || !i.certain)) matrix_flow(w, i, shape_of(element, k, half_sums));
}

template <Element a, Element b> Handler bytes_of(unsigned k, bool half) {
  if (k == 32) return half ? multiply<a, 32, true, b> : multiply<a, 32, false, b>;
  if (k == 16) return half ? multiply<a, 16, true, b> : multiply<a, 16, false, b>;
  return nullptr;
}
Handler byte_product(Type a, Type b, unsigned k, bool half) {
  if (a == Type::E4M3) return b == Type::E4M3 ? bytes_of<Element::E4M3, Element::E4M3>(k, half) : b == Type::E5M2 ? bytes_of<Element::E4M3, Element::E5M2>(k, half) : nullptr;
  if (a == Type::E5M2) return b == Type::E4M3 ? bytes_of<Element::E5M2, Element::E4M3>(k, half) : b == Type::E5M2 ? bytes_of<Element::E5M2, Element::E5M2>(k, half) : nullptr;
  return nullptr;
}

Handler bind_mma(Binding& b) {
  if (!b.take("sync") || !b.take("aligned")) return nullptr;
  unsigned k = 0;
  for (const auto& [name, depth] : {std::pair{"m16n8k4", 4u}, {"m16n8k8", 8u}, {"m16n8k16", 16u}, {"m16n8k32", 32u}})
    if (b.take(name)) k = depth;
  b.any({"kind::f8f6f4"});
  if (!k || !b.take("row") || !b.take("col")) return nullptr;
  const Type d = b.type(), a = b.type(), bt = b.type(), c = b.type();
  const bool half = d == Type::F16;
  if (d != c || (d != Type::F32 && !half)) return nullptr;
  Handler out = nullptr;
  Shape shape{};
  const auto choose = [&](Handler handler, Element element) { out = handler, shape = shape_of(element, k, half); };
  if (a == Type::F16 && bt == a && k == 16) choose(half ? multiply<Element::F16, 16, true> : multiply<Element::F16, 16, false>, Element::F16);
  if (a == Type::F16 && bt == a && k == 8) choose(half ? multiply<Element::F16, 8, true> : multiply<Element::F16, 8, false>, Element::F16);
  if (a == Type::BF16 && bt == a && !half && k == 16) choose(multiply<Element::BF16, 16, false>, Element::BF16);
  if (a == Type::BF16 && bt == a && !half && k == 8) choose(multiply<Element::BF16, 8, false>, Element::BF16);
  if (a == Type::TF32 && bt == a && !half && k == 8) choose(multiply<Element::TF32, 8, false>, Element::TF32);
  if (a == Type::TF32 && bt == a && !half && k == 4) choose(multiply<Element::TF32, 4, false>, Element::TF32);
  if (const Handler bytes = byte_product(a, bt, k, half)) choose(bytes, Element::E4M3);
  if (!out) return nullptr;
  b.count(4, 4);
  const unsigned sizes[4] = {shape.d, shape.a, shape.b, shape.d};
  for (size_t o = 0; o < 4; ++o) {
    const Operand& operand = b.operand(o);
    const bool vector = operand.kind == Operand::Vector;
    if ((vector ? operand.parts.size() : 1) != sizes[o]) b.refuse("a fragment of another length");
    for (unsigned part = 0; part < sizes[o]; ++part) {
      const Operand& one = vector ? operand.parts[part] : operand;
      const Type type = one.kind == Operand::Float ? Type::F32 : Type::B32;
      if (o == 0) b.dest(one, type);
      else b.source(one, type);
    }
  }
  b.out.own_flow = true;
  b.out.flops = 2 * 16 * 8 * k;
  return out;
}

constexpr Opcode rows[] = {
    {"mma", "9.7.14.5.14", Class::Matrix, bind_mma},
    {"ldmatrix", "9.7.14.5.15", Class::Shared, bind_ldmatrix},
};

}  // namespace

extern const Table kMatrixOpcodes{rows, std::size(rows)};

}  // namespace ptx
