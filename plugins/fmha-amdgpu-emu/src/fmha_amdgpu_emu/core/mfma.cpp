// v_mfma_f32_*: dense matrix products of f32, xf32, f16, bf16, fp8 and bf8 that are summed in float.
//
// These instructions ignore EXEC. gfx942 and gfx950 keep and produce denormals of f16, bf16 and float, whatever MODE
// says. The f16 and bf16 products of gfx90a replace denormals by zeros on both sides (ROCm documentation, MIOpen,
// "MI200 MFMA behavior specifics": MFMA_F16, MFMA_BF16 and MFMA_BF16_1K flush subnormal input and output data to zero).
#include "mfma.hpp"
#include "tables.hpp"

namespace emu {

namespace matrix {

template void widen<F16>(const Wave&, int, int, Row*);
template void widen<Bf16>(const Wave&, int, int, Row*);
template void widen<Fp8>(const Wave&, int, int, Row*);
template void widen<Bf8>(const Wave&, int, int, Row*);
template void widen<Byte>(const Wave&, int, int, Row*);

void multiply_elements(int n, Depth depth, const Row* a, const Row* b, int from_a, int from_b, const Floats* const* c,
                       Floats* const* d) {
  float sums[32 * 32];
  for (int e = 0; e < n * n; ++e) sums[e] = (*c[e / 16])[e % 16];
  for (int e = 0; e < n * n; ++e) {
    for (int g = 0; g < depth.groups; ++g)
      for (int q = 0; q < depth.pack; ++q)
        sums[e] = __builtin_fmaf(floats(a[q])[from_a + g * n + e / n], floats(b[q])[from_b + g * n + e % n], sums[e]);
    (*d[e / 16])[e % 16] = sums[e];
  }
}

template <int N>
void multiply_block_of(Depth depth, const Row* a, const Row* b, int from_a, int from_b, Row* d) {
  const auto place = [=](int part, int m, int v) { return &columns((d + 4 * part)[m % 4], N * (m / 4) + 16 * v); };
  multiply_rows<N>(depth, a, b, from_a, from_b, place, place);
}

void multiply_block(int n, Depth depth, const Row* a, const Row* b, int from_a, int from_b, Row* d) {
  if (n == 32) multiply_block_of<32>(depth, a, b, from_a, from_b, d);
  else multiply_block_of<16>(depth, a, b, from_a, from_b, d);
}

// 16 blocks of 4 x 4: block lane / 4, row r, column lane % 4.
static void multiply_small(const Inst& i, int pack, const Row* a, const Row* b, Row* d) {
  for (int r = 0; r < 4; ++r) {
    Float* sum = floats(d[r]);
    for (int q = 0; q < pack; ++q) {
      const Float *left = floats(a[q]), *right = floats(b[q]);
      for (int block = 0; block < 16; ++block) {
        const float x = left[4 * block_of_a(i, block) + r];
        for (int j = 0; j < 4; ++j) sum[4 * block + j] = sum[4 * block + j] + x * right[4 * block + j];
      }
    }
  }
}

void multiply(const Inst& i, const Shape& shape, const Row* a, const Row* b, Row* d) {
  const int n = shape.n;
  if (n == 4) return multiply_small(i, shape.pack(), a, b, d);
  for (int block = 0; block < shape.blocks; ++block)
    multiply_block(n, shape.depth(), a, b, n * block_of_a(i, block), n * block, d + block * (n * n / 64));
}

}  // namespace matrix

namespace {

using namespace matrix;

// Turns numbers below the least normal one into zeros of their sign.
void flush(Row* rows, int count, float least) {
  for (int r = 0; r < count; ++r)
    for (int l = 0; l < kLanes; ++l) {
      const uint32_t x = rows[r].x[l];
      rows[r].x[l] = std::bit_cast<float>(x & 0x7fffffffu) < least ? x & 0x80000000u : x;
    }
}

// `least`: the least normal number of A and B where denormals are flushed, else 0.
void add_product(Wave& w, const Inst& i, const Shape& shape, float least, Row* a, Row* b) {
  Row* d = &w.v[i.op[0].reg];
  const int results = shape.results();
  accumulator(w, i.op[3], i.op[0].reg, results);
  if (least > 0) {
    flush(a, shape.pack(), least);
    flush(b, shape.pack(), least);
    flush(d, results, 0x1p-126f);
  }
  permute_lanes(b, shape.pack(), i.mod.blgp);
  multiply(i, shape, a, b, d);
  if (least > 0) flush(d, results, 0x1p-126f);
  counts().matrix_flops += 2ull * shape.n * shape.n * shape.k * shape.blocks;
}

template <int N, int K, int Blocks, class A, class B>
void product(Wave& w, const Inst& i) {
  constexpr Shape shape{N, K, Blocks};
  Row a[shape.pack()], b[shape.pack()];
  static_assert(A::kLeastNormal == B::kLeastNormal);
  widen<A>(w, i.op[1].reg, shape.pack() / A::kPer, a);
  widen<B>(w, i.op[2].reg, shape.pack() / B::kPer, b);
  add_product(w, i, shape, w.arch->facts.matrix_flushes_halves ? A::kLeastNormal : 0, a, b);
}

// `a` and `b`: elements in a dword.
std::string misfit_of(const Inst& i, const Shape& shape, int a, int b) {
  if ((1 << i.mod.cbsz) > shape.blocks) return "cbsz is beyond the number of blocks";
  return misfit(i, shape.results(), shape.pack() / a, shape.pack() / b, shape.results());
}

template <int N, int K, int Blocks, class A, class B>
std::string fits(Inst& i, const ArchTraits&) {
  return misfit_of(i, {N, K, Blocks}, A::kPer, B::kPer);
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
