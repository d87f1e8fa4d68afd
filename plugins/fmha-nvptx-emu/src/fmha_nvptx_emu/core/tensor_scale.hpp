// Block scales of tcgen05.mma. Source: PTX ISA 9.1, 9.7.16.10.7; places beyond one row of 32: CUTLASS, tmem_sf_frg of
// include/cute/atom/mma_traits_sm100.hpp. Sums: exact products with their scales, each added to binary32 with one rounding, in
// ascending k; or those of tensor cores as MMA-Sim (arXiv 2511.10909) states them.
#pragma once

#include "tensor_form.hpp"
#include "tensor_memory.hpp"

namespace ptx {

// The scales of sixteen rows of D, of which the lanes are neighbours, and of their columns.
struct Scales {
  uint8_t a[16][4], b[256][4];
  bool missing_a[16], missing_b[256];  // some of them were never written
};

// Where scales lie: addresses of both matrices. Bits 30 and 31 repeat the first byte of a word, which the descriptor has too.
struct ScalePlaces {
  uint32_t a, b;
  bool halves;  // lanes 64 and up have those of the second half of the columns
};

// Of all lanes: whether they lie inside of what is allocated; reports what is not in order, and scales that differ between quarters.
bool check_scales(Warp& w, const Inst& i, TensorMemory& memory, const TensorForm& f, const ScalePlaces& at, TensorMemory::By by);
// `lane`: the first of the sixteen, `row`: its row of A in the block; `columns` of B from the first of the lane's half.
void read_scales(TensorMemory& memory, const TensorForm& f, const ScalePlaces& at, unsigned lane, unsigned row, unsigned columns, Scales& out);

// sums[r][c] += of sixteen rows; `rows[r]`: of `a`, which has k elements along a row; b[k][c]. `hardware`: as tensor cores do.
void add_scaled(const TensorForm& f, const Scales& s, const float (*a)[64], const unsigned* rows, const float (*b)[256], unsigned n0, unsigned columns,
                float (*sums)[256], bool hardware);

}  // namespace ptx
