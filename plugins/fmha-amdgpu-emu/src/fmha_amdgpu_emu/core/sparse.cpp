// v_smfmac_* (gfx942, gfx950) and v_swmmac_* (gfx1201): D += A B, where A stores two of every four elements of a row.
//
// A lane's stored elements 2 q and 2 q + 1 belong to two of the elements 4 q to 4 q + 3 of B that the lanes of the same
// group hold. Four bits of the index register say which two: bits 4 q and 4 q + 1 for the first, the next two for the
// second (CDNA3 ISA 7.1.3 "Sparse matrices"; AMD matrix instruction calculator, "compression"). Elements that A does
// not store do not contribute: no product with zero is added.
#include "wmma.hpp"
#include "tables.hpp"

namespace emu {

namespace {

using namespace matrix;

// `a`: `stored` rows; `b`: twice as many; `d` as multiply_block has it. `index`: in each lane of A two bits per element.
template <int N>
void multiply_sparse(int groups, int stored, const Row* a, const Row* b, const uint32_t* index, Row* d) {
  for (int row = 0; row < N; ++row) {
    Row& to = d[N == 32 ? 4 * (row / 8) + row % 4 : row % 4];
    const int lane = N == 32 ? 32 * (row / 4 % 2) : 16 * (row / 4);
    Floats sum[N / 16];
    for (int c = 0; c < N / 16; ++c) sum[c] = columns(to, lane + 16 * c);
    for (int g = 0; g < groups; ++g)
      for (int e = 0; e < stored; ++e) {
        const float x = floats(a[e])[g * N + row];
        const Row& from = b[e / 2 * 4 + (index[g * N + row] >> 2 * e & 3)];
        for (int c = 0; c < N / 16; ++c) sum[c] = sum[c] + x * columns(from, g * N + 16 * c);
      }
    for (int c = 0; c < N / 16; ++c) columns(to, lane + 16 * c) = sum[c];
  }
}

// The index set of each lane: `bits` of the register, set number `which`.
void take_index(const Wave& w, const Operand& op, int bits, int which, uint32_t* to) {
  const uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  for (int l = 0; l < kLanes; ++l) to[l] = w.v[op.reg].x[l] >> (bits == 32 ? 0 : bits * which) & mask;
}

void add_integers(Row& to, const Row& sum) {
  for (int l = 0; l < kLanes; ++l) to.x[l] += uint32_t(int32_t(floats(sum)[l]));
}

// ---- CDNA ----

template <int N>
void add_product(Wave& w, const Inst& i, int k, bool ints, const Row* a, const Row* b) {
  constexpr int groups = 64 / N, results = N * N / 64;
  const int stored = k / groups / 2, bits = 2 * stored;
  uint32_t index[kLanes];
  take_index(w, i.op[3], bits, i.mod.cbsz ? 0 : i.mod.abid & (32 / bits - 1), index);
  Row* d = &w.v[i.op[0].reg];
  if (ints) {
    Row sum[results] = {};
    multiply_sparse<N>(groups, stored, a, b, index, sum);
    for (int r = 0; r < results; ++r) add_integers(d[r], sum[r]);
  } else {
    multiply_sparse<N>(groups, stored, a, b, index, d);
  }
  counts().matrix_flops += 2ull * N * N * (k / 2);
}

template <int N, int K, class A, class B, bool Ints>
void smfmac(Wave& w, const Inst& i) {
  constexpr int stored = K * N / 128;
  Row a[stored], b[2 * stored];
  widen<A>(w, i.op[1].reg, stored / A::kPer, a);
  widen<B>(w, i.op[2].reg, 2 * stored / B::kPer, b);
  add_product<N>(w, i, K, Ints, a, b);
}

template <int N, int K, class A, class B, bool Ints>
std::string fits_smfmac(Inst& i, const ArchTraits&) {
  constexpr int stored = K * N / 128;
  const std::string bad = misfit(i, N * N / 64, stored / A::kPer, 2 * stored / B::kPer, 1);
  return bad.empty() && i.op[3].kind != Kind::Vgpr ? "the index is not a vector register" : bad;
}

// ---- gfx1201: waves of 32 lanes ----

// `a` and `b` in lane groups of 16, two of them.
void finish(Wave& w, const Inst& i, int stored, const Row* a, const Row* b, Out out) {
  const int bits = 2 * stored;
  uint32_t index[kLanes];
  take_index(w, i.op[3], bits, bits == 32 ? 0 : i.mod.index_key, index);
  const Tile tile{w, i.op[0].reg, out, 0};
  Results c;
  take(tile, c);
  Row sum[4] = {};
  if (out != Out::Int) to_sum(c, out, sum);
  multiply_sparse<16>(2, stored, a, b, index, sum);
  put_results(i, tile, sum, c);
}

template <int K, class A, class B, Out Result>
void swmmac(Wave& w, const Inst& i) {
  only_32(w);
  constexpr int stored = K / 4;
  Row a[stored], b[2 * stored];
  widen<A>(w, i.op[1].reg, stored / A::kPer, a);
  widen<B>(w, i.op[2].reg, 2 * stored / B::kPer, b);
  negate(i, 0, stored, a);
  negate(i, 1, 2 * stored, b);
  finish(w, i, stored, a, b, Result);
  counts().matrix_flops += 2ull * 16 * 16 * (K / 2);
}

template <int K, int Bits>
void swmmac_integer(Wave& w, const Inst& i) {
  only_32(w);
  constexpr int stored = K / 4;
  Row a[stored], b[2 * stored];
  widen_integer<Bits>(w, i, 0, stored, a);
  widen_integer<Bits>(w, i, 1, 2 * stored, b);
  finish(w, i, stored, a, b, Out::Int);
  counts().matrix_flops += 2ull * 16 * 16 * (K / 2);
}

template <int K, int Bits, int Results>
std::string fits_swmmac(Inst& i, const ArchTraits&) {
  const std::string bad = misfit(i, Results, K / 4 * Bits / 32, K / 2 * Bits / 32, 1);
  if (!bad.empty()) return bad;
  return i.op[3].kind != Kind::Vgpr ? "the index is not a vector register" : "";
}

constexpr uint32_t kFlags = kReadsDst | kIgnoresExec;
constexpr const char* kCdna = "CDNA3 ISA 7.1.3, CDNA4 ISA 7.1";
constexpr const char* kRdna = "RDNA4 ISA 7.12 WMMA, 15.10 VOP3P";

#define SMFMAC(NAME, N, K, A, B, INTS)                                     \
  {NAME, smfmac<N, K, A, B, INTS>, 1, Class::Matrix, Flow::Cross, kFlags,  \
   {Type::Wide, Type::Wide, Type::Wide, Type::B32}, fits_smfmac<N, K, A, B, INTS>, kCdna}
#define SMFMAC_F8(SHAPE, N, K)                                                                    \
  SMFMAC("v_smfmac_f32_" SHAPE "_fp8_fp8", N, K, Fp8, Fp8, false),                                \
      SMFMAC("v_smfmac_f32_" SHAPE "_fp8_bf8", N, K, Fp8, Bf8, false),                            \
      SMFMAC("v_smfmac_f32_" SHAPE "_bf8_fp8", N, K, Bf8, Fp8, false),                            \
      SMFMAC("v_smfmac_f32_" SHAPE "_bf8_bf8", N, K, Bf8, Bf8, false)
#define SWMMAC(NAME, K, A, B, OUT, RESULTS)                                \
  {NAME, swmmac<K, A, B, OUT>, 1, Class::Matrix, Flow::Cross, kFlags,      \
   {Type::Wide, Type::Wide, Type::Wide, Type::B32}, fits_swmmac<K, 32 / A::kPer, RESULTS>, kRdna}
#define SWMMAC_INT(NAME, K, BITS)                                          \
  {NAME, swmmac_integer<K, BITS>, 1, Class::Matrix, Flow::Cross, kFlags,   \
   {Type::Wide, Type::Wide, Type::Wide, Type::B32}, fits_swmmac<K, BITS, 8>, kRdna}

constexpr Entry kEntries[] = {
    SMFMAC("v_smfmac_f32_16x16x32_f16", 16, 32, F16, F16, false),
    SMFMAC("v_smfmac_f32_32x32x16_f16", 32, 16, F16, F16, false),
    SMFMAC("v_smfmac_f32_16x16x64_f16", 16, 64, F16, F16, false),
    SMFMAC("v_smfmac_f32_32x32x32_f16", 32, 32, F16, F16, false),
    SMFMAC("v_smfmac_f32_16x16x32_bf16", 16, 32, Bf16, Bf16, false),
    SMFMAC("v_smfmac_f32_32x32x16_bf16", 32, 16, Bf16, Bf16, false),
    SMFMAC("v_smfmac_f32_16x16x64_bf16", 16, 64, Bf16, Bf16, false),
    SMFMAC("v_smfmac_f32_32x32x32_bf16", 32, 32, Bf16, Bf16, false),
    SMFMAC("v_smfmac_i32_16x16x64_i8", 16, 64, Byte, Byte, true),
    SMFMAC("v_smfmac_i32_32x32x32_i8", 32, 32, Byte, Byte, true),
    SMFMAC("v_smfmac_i32_16x16x128_i8", 16, 128, Byte, Byte, true),
    SMFMAC("v_smfmac_i32_32x32x64_i8", 32, 64, Byte, Byte, true),
    SMFMAC_F8("16x16x64", 16, 64), SMFMAC_F8("32x32x32", 32, 32),
    SMFMAC_F8("16x16x128", 16, 128), SMFMAC_F8("32x32x64", 32, 64),
    SWMMAC("v_swmmac_f32_16x16x32_f16", 32, F16, F16, Out::Float, 8),
    SWMMAC("v_swmmac_f32_16x16x32_bf16", 32, Bf16, Bf16, Out::Float, 8),
    SWMMAC("v_swmmac_f16_16x16x32_f16", 32, F16, F16, Out::Half, 4),
    SWMMAC("v_swmmac_bf16_16x16x32_bf16", 32, Bf16, Bf16, Out::Brain, 4),
    SWMMAC("v_swmmac_f32_16x16x32_fp8_fp8", 32, Fp8, Fp8, Out::Float, 8),
    SWMMAC("v_swmmac_f32_16x16x32_fp8_bf8", 32, Fp8, Bf8, Out::Float, 8),
    SWMMAC("v_swmmac_f32_16x16x32_bf8_fp8", 32, Bf8, Fp8, Out::Float, 8),
    SWMMAC("v_swmmac_f32_16x16x32_bf8_bf8", 32, Bf8, Bf8, Out::Float, 8),
    SWMMAC_INT("v_swmmac_i32_16x16x32_iu8", 32, 8),
    SWMMAC_INT("v_swmmac_i32_16x16x32_iu4", 32, 4),
    SWMMAC_INT("v_swmmac_i32_16x16x64_iu4", 64, 4),
};

}  // namespace

const Table kSparseTable{kEntries, std::size(kEntries)};

}  // namespace emu
