// The exact sums of a wgmma in the lanes of D, as product.hpp makes those of an mma.
#pragma once

#include "widened.hpp"

#ifdef PTX_AVX512
namespace ptx {

inline void store_in_fours(const __m512 (&rows)[4], float (&to)[4][16]) {
  __m512 out[4];
  in_fours(rows, out);
  for (unsigned j = 0; j < 4; ++j) _mm512_store_ps(to[j], out[j]);
}

// D = A B + C of a warp; the tiles' rows are 32 bytes along k, `d` the rows of D's registers. Eight columns at a time: for each k,
// the lanes take A by rows from `left` and B by columns from `right`, whose four elements are those of 2t + c for t = lane % 4.
template <Element kind, Element kind_b>
void multiply_by_lanes(const uint8_t (*tile_a)[32], const uint8_t (*tile_b)[32], float sign_a, float sign_b, uint32_t* const* registers, unsigned n, bool adds) {
  constexpr unsigned K = 8 * elements_of(kind), parts = (K + 15) / 16, bytes = 32 / parts;
  alignas(64) float left[K][2][2][16], right[2][parts][4][16];
  const __m512i by_row = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  for (unsigned part = 0; part < parts; ++part)
    for (unsigned four = 0; four < 4; ++four) {  // rows 4 * four and the next three
      __m512 rows[4];
      for (unsigned r = 0; r < 4; ++r) rows[r] = _mm512_mul_ps(widened_row<kind>(tile_a[4 * four + r] + bytes * part), _mm512_set1_ps(sign_a));
      alignas(64) float fours[4][16];
      store_in_fours(rows, fours);
      for (unsigned k = 0; k < 16 && k < K; ++k) {
        const __m512 four_rows = _mm512_broadcast_f32x4(_mm_load_ps(fours[k % 4] + k / 4 * 4));
        _mm512_store_ps(left[16 * part + k][four / 2][four % 2], _mm512_permutevar_ps(four_rows, by_row));
      }
    }
  for (unsigned tile = 0; tile < n / 8; ++tile) {
    for (unsigned c = 0; c < 2; ++c)
      for (unsigned part = 0; part < parts; ++part) {
        __m512 rows[4];
        for (unsigned t = 0; t < 4; ++t) rows[t] = _mm512_mul_ps(widened_row<kind_b>(tile_b[8 * tile + 2 * t + c] + bytes * part), _mm512_set1_ps(sign_b));
        store_in_fours(rows, right[c][part]);
      }
    uint32_t* const* d = registers + 4 * tile;
    __m512 sums[4][2];
    for (unsigned r = 0; r < 4; ++r)
      for (unsigned z = 0; z < 2; ++z) sums[r][z] = adds ? _mm512_loadu_ps(d[r] + 16 * z) : _mm512_setzero_ps();
    for (unsigned k = 0; k < K; ++k) {
      __m512 b[2];
      for (unsigned c = 0; c < 2; ++c) b[c] = _mm512_broadcast_f32x4(_mm_load_ps(right[c][k / 16][k % 4] + k % 16 / 4 * 4));
      for (unsigned side = 0; side < 2; ++side)
        for (unsigned z = 0; z < 2; ++z) {
          __m512 a = _mm512_load_ps(left[k][side][z]);
          asm("" : "+v"(a));  // else it is loaded for each of the two products, and loads are what limits them
          for (unsigned c = 0; c < 2; ++c) sums[2 * side + c][z] = _mm512_fmadd_ps(a, b[c], sums[2 * side + c][z]);
        }
    }
    for (unsigned r = 0; r < 4; ++r)
      for (unsigned z = 0; z < 2; ++z) _mm512_storeu_ps(d[r] + 16 * z, sums[r][z]);
  }
}

}  // namespace ptx
#endif
