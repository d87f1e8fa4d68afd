// v_mfma_f32_*: dense matrix products of f32, xf32, f16, bf16, fp8 and bf8 that are summed in float.
//
// These instructions ignore EXEC. gfx942 and gfx950 keep and produce denormals of f16, bf16 and float, whatever MODE
// says. The f16 and bf16 products of gfx90a replace denormals by zeros on both sides (ROCm documentation, MIOpen,
// "MI200 MFMA behavior specifics": MFMA_F16, MFMA_BF16 and MFMA_BF16_1K flush subnormal input and output data to zero).
#include "mfma.hpp"
#include "tables.hpp"

namespace emu {

namespace {

using namespace matrix;

template <int N, int K, int Blocks, class A, class B>
void product(Wave& w, const Inst& i) {
  using S = Shape<N, K, Blocks>;
  Row a[S::kPack], b[S::kPack];
  widen<A>(w, i.op[1].reg, S::kPack / A::kPer, a);
  widen<B>(w, i.op[2].reg, S::kPack / B::kPer, b);
  const bool flushes = A::kLeastNormal > 0 && w.arch->facts.matrix_flushes_halves;
  Row* d = &w.v[i.op[0].reg];
  accumulator(w, i.op[3], i.op[0].reg, S::kResults);
  if (flushes) {
    for (int q = 0; q < S::kPack; ++q) flush(a[q], A::kLeastNormal);
    for (int q = 0; q < S::kPack; ++q) flush(b[q], B::kLeastNormal);
    for (int r = 0; r < S::kResults; ++r) flush(d[r], 0x1p-126f);
  }
  permute_lanes(b, S::kPack, i.mod.blgp);
  multiply<N, K, Blocks>(i, a, b, d);
  if (flushes)
    for (int r = 0; r < S::kResults; ++r) flush(d[r], 0x1p-126f);
  counts().matrix_flops += 2ull * N * N * K * Blocks;
}

template <int N, int K, int Blocks, class A, class B>
std::string fits(Inst& i, const ArchTraits&) {
  using S = Shape<N, K, Blocks>;
  if ((1 << i.mod.cbsz) > Blocks) return "cbsz is beyond the number of blocks";
  return misfit(i, S::kResults, S::kPack / A::kPer, S::kPack / B::kPer, S::kResults);
}

#define PRODUCT2(NAME, N, K, BLOCKS, A, B)                                                                  \
  {NAME, product<N, K, BLOCKS, A, B>, 1, Class::Matrix, Flow::Cross, kIgnoresExec,                          \
   {Type::Wide, Type::Wide, Type::Wide, Type::F32}, fits<N, K, BLOCKS, A, B>, "CDNA3 ISA 7.1, 12.10 VOP3P-MAI"}
#define PRODUCT(NAME, N, K, BLOCKS, E) PRODUCT2(NAME, N, K, BLOCKS, E, E)

constexpr Entry kEntries[] = {
    PRODUCT("v_mfma_f32_32x32x1f32", 32, 1, 2, F32), PRODUCT("v_mfma_f32_32x32x1_2b_f32", 32, 1, 2, F32),
    PRODUCT("v_mfma_f32_16x16x1f32", 16, 1, 4, F32), PRODUCT("v_mfma_f32_16x16x1_4b_f32", 16, 1, 4, F32),
    PRODUCT("v_mfma_f32_4x4x1f32", 4, 1, 16, F32), PRODUCT("v_mfma_f32_4x4x1_16b_f32", 4, 1, 16, F32),
    PRODUCT("v_mfma_f32_32x32x2f32", 32, 2, 1, F32), PRODUCT("v_mfma_f32_32x32x2_f32", 32, 2, 1, F32),
    PRODUCT("v_mfma_f32_16x16x4f32", 16, 4, 1, F32), PRODUCT("v_mfma_f32_16x16x4_f32", 16, 4, 1, F32),
    PRODUCT("v_mfma_f32_16x16x8xf32", 16, 8, 1, Xf32), PRODUCT("v_mfma_f32_16x16x8_xf32", 16, 8, 1, Xf32),
    PRODUCT("v_mfma_f32_32x32x4xf32", 32, 4, 1, Xf32), PRODUCT("v_mfma_f32_32x32x4_xf32", 32, 4, 1, Xf32),
    PRODUCT("v_mfma_f32_32x32x4f16", 32, 4, 2, F16), PRODUCT("v_mfma_f32_32x32x4_2b_f16", 32, 4, 2, F16),
    PRODUCT("v_mfma_f32_16x16x4f16", 16, 4, 4, F16), PRODUCT("v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, F16),
    PRODUCT("v_mfma_f32_4x4x4f16", 4, 4, 16, F16), PRODUCT("v_mfma_f32_4x4x4_16b_f16", 4, 4, 16, F16),
    PRODUCT("v_mfma_f32_32x32x8f16", 32, 8, 1, F16), PRODUCT("v_mfma_f32_32x32x8_f16", 32, 8, 1, F16),
    PRODUCT("v_mfma_f32_16x16x16f16", 16, 16, 1, F16), PRODUCT("v_mfma_f32_16x16x16_f16", 16, 16, 1, F16),
    PRODUCT("v_mfma_f32_32x32x16f16", 32, 16, 1, F16), PRODUCT("v_mfma_f32_32x32x16_f16", 32, 16, 1, F16),
    PRODUCT("v_mfma_f32_16x16x32f16", 16, 32, 1, F16), PRODUCT("v_mfma_f32_16x16x32_f16", 16, 32, 1, F16),
    // bf16, the first kind (gfx90a): half the k, and one register of A.
    PRODUCT("v_mfma_f32_32x32x2bf16", 32, 2, 2, Bf16), PRODUCT("v_mfma_f32_16x16x2bf16", 16, 2, 4, Bf16),
    PRODUCT("v_mfma_f32_4x4x2bf16", 4, 2, 16, Bf16), PRODUCT("v_mfma_f32_16x16x8bf16", 16, 8, 1, Bf16),
    PRODUCT("v_mfma_f32_32x32x4bf16", 32, 4, 1, Bf16),
    // bf16, the second kind; gfx90a says _1k, gfx942 says _bf16.
    PRODUCT("v_mfma_f32_32x32x4bf16_1k", 32, 4, 2, Bf16), PRODUCT("v_mfma_f32_32x32x4_2b_bf16", 32, 4, 2, Bf16),
    PRODUCT("v_mfma_f32_16x16x4bf16_1k", 16, 4, 4, Bf16), PRODUCT("v_mfma_f32_16x16x4_4b_bf16", 16, 4, 4, Bf16),
    PRODUCT("v_mfma_f32_4x4x4bf16_1k", 4, 4, 16, Bf16), PRODUCT("v_mfma_f32_4x4x4_16b_bf16", 4, 4, 16, Bf16),
    PRODUCT("v_mfma_f32_32x32x8bf16_1k", 32, 8, 1, Bf16), PRODUCT("v_mfma_f32_32x32x8_bf16", 32, 8, 1, Bf16),
    PRODUCT("v_mfma_f32_16x16x16bf16_1k", 16, 16, 1, Bf16), PRODUCT("v_mfma_f32_16x16x16_bf16", 16, 16, 1, Bf16),
    PRODUCT("v_mfma_f32_32x32x16_bf16", 32, 16, 1, Bf16), PRODUCT("v_mfma_f32_16x16x32_bf16", 16, 32, 1, Bf16),
    PRODUCT2("v_mfma_f32_16x16x32_fp8_fp8", 16, 32, 1, Fp8, Fp8), PRODUCT2("v_mfma_f32_16x16x32_fp8_bf8", 16, 32, 1, Fp8, Bf8),
    PRODUCT2("v_mfma_f32_16x16x32_bf8_fp8", 16, 32, 1, Bf8, Fp8), PRODUCT2("v_mfma_f32_16x16x32_bf8_bf8", 16, 32, 1, Bf8, Bf8),
    PRODUCT2("v_mfma_f32_32x32x16_fp8_fp8", 32, 16, 1, Fp8, Fp8), PRODUCT2("v_mfma_f32_32x32x16_fp8_bf8", 32, 16, 1, Fp8, Bf8),
    PRODUCT2("v_mfma_f32_32x32x16_bf8_fp8", 32, 16, 1, Bf8, Fp8), PRODUCT2("v_mfma_f32_32x32x16_bf8_bf8", 32, 16, 1, Bf8, Bf8),
};

}  // namespace

const Table kMfmaTable{kEntries, std::size(kEntries)};

}  // namespace emu
