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
// The lane of B that has the element of the column 2t + c, for each lane of D; `from` is the lane's place in its four.
struct ColumnLanes {
  alignas(64) int32_t at[4][2][16];
  constexpr ColumnLanes() : at() {
    for (int from = 0; from < 4; ++from)
      for (int c = 0; c < 2; ++c)
        for (int l = 0; l < 16; ++l) at[from][c][l] = 4 * (2 * (l % 4) + c) + from;
  }
};
inline constexpr ColumnLanes kColumnLanes;

// A in the lanes of D, by k: rows g in two vectors, then rows g + 8. Products with one A mostly follow each other.
template <Element element, unsigned k> void widen_left(LeftOperands::One& one, Rows in);
template <Element element, unsigned k> inline const float (*left_of(LeftOperands& kept, Rows in))[2][2][16] {
  constexpr unsigned registers = shape_of(element, k, false).a, elements = elements_of(element);
  LeftOperands::One& one = kept.of(in[0]);
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

// The same in the lanes of D, 16 at a time, so that no fragment changes its form; a column's element of B is in one lane for all
// rows (one permutation).
template <Element element, unsigned k, bool half_sums, Element element_b>
inline void product_by_lanes(Rows d, Rows in, LeftOperands& kept) {
  constexpr Shape shape = shape_of(element, k, half_sums);
  constexpr unsigned elements = elements_of(element);
  const float(*left)[2][2][16] = left_of<element, k>(kept, in);
  const Rows bs = in + shape.a;
  const Rows cs = bs + shape.b;
  __m512 sums[4][2];
  for (unsigned r = 0; r < 4; ++r)
    for (unsigned z = 0; z < 2; ++z) {
      const __m512i c = _mm512_loadu_si512(cs[half_sums ? r / 2 : r] + 16 * z);
      sums[r][z] = half_sums ? widened<Element::F16>(c, r % 2) : _mm512_castsi512_ps(c);
    }
  for (unsigned part = 0; part < shape.b; ++part) {  // four registers' worth of k
    __m512 b[elements][2];
    for (unsigned z = 0; z < 2; ++z)
      for (unsigned h = 0; h < elements; ++h) b[h][z] = widened<element_b>(_mm512_loadu_si512(bs[part] + 16 * z), h);
#pragma GCC unroll 1
    for (unsigned from = 0; from < 4; ++from)
      for (unsigned h = 0; h < elements; ++h, ++left) {
        __m512 right[2];
        for (unsigned c = 0; c < 2; ++c) right[c] = _mm512_permutex2var_ps(b[h][0], _mm512_load_si512(kColumnLanes.at[from][c]), b[h][1]);
        for (unsigned r = 0; r < 4; ++r) {
          __m512 a = _mm512_load_ps((*left)[r / 2][r % 2]);
          asm("" : "+v"(a));  // else it is loaded for each of the two products, and loads are what limits them
          for (unsigned c = 0; c < 2; ++c) sums[r / 2 * 2 + c][r % 2] = _mm512_fmadd_ps(a, right[c], sums[r / 2 * 2 + c][r % 2]);
        }
      }
  }
  for (unsigned r = 0; r < shape.d; ++r)
    for (unsigned z = 0; z < 2; ++z) {
      __m512i out = _mm512_castps_si512(sums[r][z]);
      if constexpr (half_sums) {
        const auto halves = [](__m512 x) { return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); };
        out = _mm512_or_si512(halves(sums[2 * r][z]), _mm512_slli_epi32(halves(sums[2 * r + 1][z]), 16));
      }
      _mm512_storeu_si512(d[r] + 16 * z, out);
    }
}
#endif

template <Element element, unsigned k, bool half_sums, Element element_b = element>
inline void product(Rows d, Rows in, [[maybe_unused]] LeftOperands& kept) {
#ifdef PTX_AVX512
  if (!emulation::careful) return product_by_lanes<element, k, half_sums, element_b>(d, in, kept);
#endif
  product_by_elements<element, k, half_sums, element_b>(d, in);
}

}  // namespace ptx
