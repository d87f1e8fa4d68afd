// The product of one mma: D = A B + C with A 16 x k, B k x 8. Source of the fragments: PTX ISA 9.1, 9.7.14.5.8.
#pragma once

#include "widened.hpp"

namespace ptx {

struct Shape {
  unsigned d, a, b;  // registers of each fragment
};
constexpr Shape shape_of(Element element, unsigned k, bool half_sums) {
  return {half_sums ? 2u : 4u, 16 * k / 32 / elements_of(element), 8 * k / 32 / elements_of(element)};
}

// The rows of consecutive operands: an array of pointers would be filled for every product.
struct Rows {
  uint8_t* file;
  const Slot* slots;
  uint32_t* operator[](unsigned n) const { return reinterpret_cast<uint32_t*>(file + size_t(slots[n].row) * kRowBytes); }
  Rows operator+(unsigned n) const { return {file, slots + n}; }
};

// Register r of A: row g + 8(r%2), k E t + h + 4E(r/2); of B: column g, k E t + h + 4E r; of D: row g + 8(r/2), column
// 2t + r%2. g = lane / 4, t = lane % 4, E elements a register.
// `how`: the sums of tensor cores, or null for fma in ascending k.
template <Element element, unsigned k, bool half_sums, Element element_b = element>
void product_by_elements(Rows d, Rows in, const TensorSums* how = nullptr) {
  constexpr Shape shape = shape_of(element, k, half_sums);
  constexpr unsigned elements = elements_of(element);
  float a[k][16], b[8][k], sums[8][16];
  const Rows bs = in + shape.a;
  const Rows cs = bs + shape.b;
  for (unsigned r = 0; r < shape.a; ++r)
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned h = 0; h < elements; ++h)
        a[elements * (l % 4) + h + 4 * elements * (r / 2)][l / 4 + 8 * (r % 2)] = element_of<element>(in[r][l], h);
  for (unsigned r = 0; r < shape.b; ++r)
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned h = 0; h < elements; ++h) b[l / 4][elements * (l % 4) + h + 4 * elements * r] = element_of<element_b>(bs[r][l], h);
  for (unsigned r = 0; r < shape.d; ++r)
    for (unsigned l = 0; l < 32; ++l) {
      if constexpr (half_sums) {
        for (unsigned h = 0; h < 2; ++h) sums[2 * (l % 4) + h][l / 4 + 8 * r] = element_of<Element::F16>(cs[r][l], h);
      } else sums[2 * (l % 4) + r % 2][l / 4 + 8 * (r / 2)] = float_of(cs[r][l]);
    }
  if (how) truncating_tile<half_sums>(element, element_b, k, a, b[0], sums, *how);
  else for (unsigned n = 0; n < 8; ++n)
    for (unsigned at = 0; at < k; ++at)
      for (unsigned row = 0; row < 16; ++row) sums[n][row] = __builtin_fmaf(a[at][row], b[n][at], sums[n][row]);
  for (unsigned r = 0; r < shape.d; ++r)
    for (unsigned l = 0; l < 32; ++l) {
      if constexpr (half_sums) {
        uint32_t bits = 0;
        for (unsigned h = 0; h < 2; ++h) bits |= widen<f16>(f16(sums[2 * (l % 4) + h][l / 4 + 8 * r])) << 16 * h;
        d[r][l] = bits;
      } else d[r][l] = bits_of_float(sums[2 * (l % 4) + r % 2][l / 4 + 8 * (r / 2)]);
    }
}

#ifdef PTX_AVX512
// B by k: the elements of the even columns, then of the odd ones. Four lanes of D with one row use four columns, so that what all
// rows multiply is one broadcast. Register r has 4 E values of k, and `order` says where they are in it: by element, or by half.
using RightOperand = float[2][4];
template <unsigned elements> struct ColumnOrder {
  alignas(64) std::conditional_t<elements == 2, uint16_t, uint32_t> at[32 * (elements == 2 ? 2 : 1)];
  constexpr ColumnOrder() : at() {
    constexpr unsigned each = elements == 2 ? 8 : 4;  // a column's halves, or its lanes
    for (unsigned k = 0; k < each; ++k)
      for (unsigned c = 0; c < 2; ++c)
        for (unsigned n = 0; n < 4; ++n) at[8 * k + 4 * c + n] = each * (2 * n + c) + k;
  }
};
template <unsigned elements> inline constexpr ColumnOrder<elements> kColumnOrder;

template <Element element> inline void widen_right(const uint32_t* in, RightOperand* to) {
  constexpr unsigned elements = elements_of(element);
  const __m512i low = _mm512_loadu_si512(in), high = _mm512_loadu_si512(in + 16);
  if constexpr (elements == 2) {
    for (unsigned z = 0; z < 2; ++z) {
      const __m512i halves = _mm512_permutex2var_epi16(low, _mm512_load_si512(kColumnOrder<2>.at + 32 * z), high);
      _mm512_store_ps(to[4 * z], widened_halves<element>(_mm512_castsi512_si256(halves)));
      _mm512_store_ps(to[4 * z + 2], widened_halves<element>(_mm512_extracti64x4_epi64(halves, 1)));
    }
  } else
    for (unsigned h = 0; h < elements; ++h)
      for (unsigned z = 0; z < 2; ++z) {
        const __m512i order = _mm512_load_si512(kColumnOrder<1>.at + 16 * z);
        const __m512 two = _mm512_permutex2var_ps(widened<element>(low, h), order, widened<element>(high, h));
        _mm256_store_ps(to[elements * 2 * z + h][0], _mm512_castps512_ps256(two));
        _mm256_store_ps(to[elements * (2 * z + 1) + h][0], _mm512_extractf32x8_ps(two, 1));
      }
}

// A in the lanes of D, by k: rows g in two vectors, then rows g + 8. Products with one A mostly follow each other.
template <Element element, unsigned k> void widen_left(LeftOperands::One& one, Rows in);
template <Element element, unsigned k> inline const float (*left_of(LeftOperands::One& one, Rows in))[2][2][16] {
  constexpr unsigned registers = shape_of(element, k, false).a, elements = elements_of(element);
  __m512i apart = _mm512_setzero_si512();
  for (unsigned r = 0; r < registers; ++r)
    for (unsigned z = 0; z < 2; ++z)
      apart = _mm512_or_si512(apart, _mm512_xor_si512(_mm512_load_si512(one.bits[r] + 16 * z), _mm512_loadu_si512(in[r] + 16 * z)));
  if (one.element != unsigned(element) || one.k != k || _mm512_test_epi32_mask(apart, apart)) widen_left<element, k>(one, in);
  return one.rows;
}
template <Element element, unsigned k> [[gnu::noinline]] void widen_left(LeftOperands::One& one, Rows in) {
  constexpr unsigned registers = shape_of(element, k, false).a, elements = elements_of(element);
  one.element = unsigned(element), one.k = k;
  for (unsigned r = 0; r < registers; ++r) {
    std::memcpy(one.bits[r], in[r], sizeof one.bits[r]);
    for (unsigned z = 0; z < 2; ++z)
      for (unsigned h = 0; h < elements; ++h) {  // a row's element is in one of its four lanes
        const __m512 a = widened<element>(_mm512_loadu_si512(in[r] + 16 * z), h);
        const auto put = [&](unsigned from, __m512 all) { _mm512_store_ps(one.rows[elements * (from + 4 * (r / 2)) + h][r % 2][z], all); };
        put(0, _mm512_permute_ps(a, 0)), put(1, _mm512_permute_ps(a, 0x55)), put(2, _mm512_permute_ps(a, 0xaa)), put(3, _mm512_permute_ps(a, 0xff));
      }
  }
}

// Products in the lanes of D, 16 at a time, so that the sums never change their form. Two that do not depend on
// each other keep both units of a processor busy that multiply and add: one alone would wait for its own sums.
template <Element element, unsigned k, bool half_sums, Element element_b, unsigned products>
inline void product_by_lanes(const Slot* const (&slots)[products], uint8_t* file, const float (*const (&lefts)[products])[2][2][16],
                             const RightOperand (*rights)[k]) {
  constexpr Shape shape = shape_of(element, k, half_sums);
  __m512 sums[products][4][2];
  for (unsigned p = 0; p < products; ++p) {
    const Rows cs{file, slots[p] + shape.d + shape.a + shape.b};
    for (unsigned r = 0; r < 4; ++r)
      for (unsigned z = 0; z < 2; ++z) {
        const __m512i c = _mm512_loadu_si512(cs[half_sums ? r / 2 : r] + 16 * z);
        sums[p][r][z] = half_sums ? widened<Element::F16>(c, r % 2) : _mm512_castsi512_ps(c);
      }
  }
#pragma GCC unroll 1
  for (unsigned at = 0; at < k; ++at)
#pragma GCC unroll 2
    for (unsigned p = 0; p < products; ++p) {
      __m512 right[2];
      for (unsigned c = 0; c < 2; ++c) right[c] = _mm512_broadcast_f32x4(_mm_load_ps(rights[p][at][c]));
      for (unsigned r = 0; r < 4; ++r) {
        __m512 a = _mm512_load_ps(lefts[p][at][r / 2][r % 2]);
        asm("" : "+v"(a));  // else it is loaded for each of the two products, and loads are what limits them
        for (unsigned c = 0; c < 2; ++c) sums[p][r / 2 * 2 + c][r % 2] = _mm512_fmadd_ps(a, right[c], sums[p][r / 2 * 2 + c][r % 2]);
      }
    }
  for (unsigned p = 0; p < products; ++p)
    for (unsigned r = 0; r < shape.d; ++r)
      for (unsigned z = 0; z < 2; ++z) {
        __m512i out = _mm512_castps_si512(sums[p][r][z]);
        if constexpr (half_sums) {
          const auto halves = [](__m512 x) { return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); };
          out = _mm512_or_si512(halves(sums[p][2 * r][z]), _mm512_slli_epi32(halves(sums[p][2 * r + 1][z]), 16));
        }
        _mm512_storeu_si512(Rows{file, slots[p]}[r] + 16 * z, out);
      }
}

// Consecutive products that use nothing that one of them writes (find_runs).
template <Element element, unsigned k, bool half_sums, Element element_b>
void products_by_lanes(const Inst* first, unsigned count, uint8_t* file, LeftOperands& kept) {
  constexpr Shape shape = shape_of(element, k, half_sums);
  const Slot* loaded[LeftOperands::kPlaces] = {};  // those that these products have already found or put there
  const auto in = [&](unsigned n) { return Rows{file, first[n].slots + shape.d}; };
  const auto same = [&](const Slot* a, const Slot* b) {
    bool out = a && b;
    for (unsigned r = 0; out && r < shape.a; ++r) out &= a[r].row == b[r].row;
    return out;
  };
  const auto left = [&](unsigned n) -> const float (*)[2][2][16] {
    const unsigned place = LeftOperands::place(in(n)[0]);
    if (same(loaded[place], in(n).slots)) return kept.all[place].rows;
    loaded[place] = in(n).slots;
    return left_of<element, k>(kept.all[place], in(n));
  };
  const auto both_kept = [&](unsigned n) {
    return LeftOperands::place(in(n)[0]) != LeftOperands::place(in(n + 1)[0]) || same(in(n).slots, in(n + 1).slots);
  };
  alignas(64) RightOperand rights[kMostProducts][k];  // of all, before one waits for another
  for (unsigned n = 0; n < count; ++n)
    for (unsigned r = 0; r < shape.b; ++r) widen_right<element_b>(in(n)[shape.a + r], rights[n] + 4 * elements_of(element) * r);
  for (unsigned n = 0; n < count; ++n) {
    if constexpr (!half_sums && elements_of(element) < 4)
      if (n + 1 < count && both_kept(n)) {
        product_by_lanes<element, k, half_sums, element_b, 2>({first[n].slots, first[n + 1].slots}, file, {left(n), left(n + 1)}, rights + n);
        ++n;
        continue;
      }
    product_by_lanes<element, k, half_sums, element_b, 1>({first[n].slots}, file, {left(n)}, rights + n);
  }
}
#endif

}  // namespace ptx
