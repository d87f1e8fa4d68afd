// v_mfma_i32_* (sums wrap) and v_mfma_f64_*.
#include "mfma.hpp"
#include "tables.hpp"

namespace emu {

namespace {

using namespace matrix;

// ---- i8: products are summed in float, where they are exact, and then added to C ----

void add_product_i8(Wave& w, const Inst& i, const Shape& shape) {
  const int pack = shape.pack(), results = shape.results();
  Row a[kMostPack], b[kMostPack], sum[kMostPack] = {};
  widen<Byte>(w, i.op[1].reg, pack / 4, a);
  widen<Byte>(w, i.op[2].reg, pack / 4, b);
  permute_lanes(b, pack, i.mod.blgp);
  multiply(i, shape, a, b, sum);
  accumulator(w, i.op[3], i.op[0].reg, results);
  for (int r = 0; r < results; ++r) {
    uint32_t* d = w.v[i.op[0].reg + r].x;
    const Float* more = floats(sum[r]);
    for (int l = 0; l < kLanes; ++l) d[l] += uint32_t(int32_t(more[l]));
  }
  counts().matrix_flops += 2ull * shape.n * shape.n * shape.k * shape.blocks;
}

template <int N, int K, int Blocks>
void product_i8(Wave& w, const Inst& i) {
  add_product_i8(w, i, {N, K, Blocks});
}

template <int N, int K, int Blocks>
std::string fits_i8(Inst& i, const ArchTraits&) {
  constexpr Shape shape{N, K, Blocks};
  if ((1 << i.mod.cbsz) > Blocks) return "cbsz is beyond the number of blocks";
  return misfit(i, shape.results(), shape.pack() / 4, shape.pack() / 4, shape.results());
}

// ---- f64: one element of A and B in a lane; fused multiply-adds, k ascending ----

struct Doubles {
  double x[kLanes];
};

void take(const Wave& w, int reg, bool negative, Doubles& to) {
  for (int l = 0; l < kLanes; ++l) {
    const uint64_t bits = w.v[reg].x[l] | uint64_t(w.v[reg + 1].x[l]) << 32;
    to.x[l] = as_double(bits ^ uint64_t(negative) << 63);
  }
}

void put(Wave& w, int reg, const Doubles& from) {
  for (int l = 0; l < kLanes; ++l) {
    const uint64_t bits = bits_of(from.x[l]);
    w.v[reg].x[l] = uint32_t(bits);
    w.v[reg + 1].x[l] = uint32_t(bits >> 32);
  }
}

// C has `count` doubles a lane; bit 2 of BLGP negates it.
void take_c(const Wave& w, const Inst& i, int count, Doubles* to) {
  const Operand& c = i.op[3];
  const bool negative = i.mod.blgp >> 2 & 1;
  for (int r = 0; r < count; ++r) {
    if (c.kind == Kind::Vgpr) {
      take(w, c.reg + 2 * r, negative, to[r]);
    } else {
      const double value = as_double(scalar64(w, c) ^ uint64_t(negative) << 63);
      for (int l = 0; l < kLanes; ++l) to[r].x[l] = value;
    }
  }
}

// 16 x 16 x 4: A in lane 16 k + i, B in lane 16 k + j, D[i][j] in lane 16 (i % 4) + j of double i / 4.
void product_f64_16(Wave& w, const Inst& i) {
  Doubles a, b, d[4];
  take(w, i.op[1].reg, i.mod.blgp & 1, a);
  take(w, i.op[2].reg, i.mod.blgp >> 1 & 1, b);
  take_c(w, i, 4, d);
  for (int row = 0; row < 16; ++row) {
    double* sum = d[row / 4].x + 16 * (row % 4);
    for (int k = 0; k < 4; ++k)
      for (int j = 0; j < 16; ++j) sum[j] = std::fma(a.x[16 * k + row], b.x[16 * k + j], sum[j]);
  }
  for (int r = 0; r < 4; ++r) put(w, i.op[0].reg + 2 * r, d[r]);
  counts().matrix_flops += 2 * 16 * 16 * 4;
}

// 4 blocks of 4 x 4 x 4: A in lane 16 k + 4 block + i, B in lane 16 k + 4 block + j, D in lane 16 i + 4 block + j.
void product_f64_4(Wave& w, const Inst& i) {
  Doubles a, b, d;
  take(w, i.op[1].reg, i.mod.blgp & 1, a);
  take(w, i.op[2].reg, i.mod.blgp >> 1 & 1, b);
  take_c(w, i, 1, &d);
  for (int k = 0; k < 4; ++k)
    for (int l = 0; l < kLanes; ++l) {
      const int row = l / 16, block = l / 4 % 4;
      d.x[l] = std::fma(a.x[16 * k + 4 * block + row], b.x[16 * k + l % 16], d.x[l]);
    }
  put(w, i.op[0].reg, d);
  counts().matrix_flops += 2 * 4 * 4 * 4 * 4;
}

template <int Results>
std::string fits_f64(Inst& i, const ArchTraits& arch) {
  if (!arch.mfma_f64_negates && i.mod.blgp) return "this architecture's f64 products have no blgp";
  return misfit(i, Results, 2, 2, Results);
}

constexpr const char* kSource = "CDNA3 ISA 7.1, 12.10 VOP3P-MAI";

#define INTEGER(NAME, N, K, BLOCKS)                                                    \
  {NAME, product_i8<N, K, BLOCKS>, 1, Class::Matrix, Flow::Cross, kIgnoresExec,        \
   {Type::Wide, Type::Wide, Type::Wide, Type::B32}, fits_i8<N, K, BLOCKS>, kSource}
#define DOUBLE(NAME, RUN, RESULTS)                                                     \
  {NAME, RUN, 1, Class::Matrix, Flow::Cross, kIgnoresExec,                             \
   {Type::Wide, Type::Wide, Type::Wide, Type::F64}, fits_f64<RESULTS>, kSource}

constexpr Entry kEntries[] = {
    INTEGER("v_mfma_i32_32x32x4i8", 32, 4, 2), INTEGER("v_mfma_i32_32x32x4_2b_i8", 32, 4, 2),
    INTEGER("v_mfma_i32_16x16x4i8", 16, 4, 4), INTEGER("v_mfma_i32_16x16x4_4b_i8", 16, 4, 4),
    INTEGER("v_mfma_i32_4x4x4i8", 4, 4, 16), INTEGER("v_mfma_i32_4x4x4_16b_i8", 4, 4, 16),
    INTEGER("v_mfma_i32_32x32x8i8", 32, 8, 1), INTEGER("v_mfma_i32_16x16x16i8", 16, 16, 1),
    INTEGER("v_mfma_i32_32x32x16i8", 32, 16, 1), INTEGER("v_mfma_i32_32x32x16_i8", 32, 16, 1),
    INTEGER("v_mfma_i32_16x16x32i8", 16, 32, 1), INTEGER("v_mfma_i32_16x16x32_i8", 16, 32, 1),
    INTEGER("v_mfma_i32_32x32x32i8", 32, 32, 1), INTEGER("v_mfma_i32_32x32x32_i8", 32, 32, 1),
    INTEGER("v_mfma_i32_16x16x64i8", 16, 64, 1), INTEGER("v_mfma_i32_16x16x64_i8", 16, 64, 1),
    DOUBLE("v_mfma_f64_16x16x4f64", product_f64_16, 8), DOUBLE("v_mfma_f64_16x16x4_f64", product_f64_16, 8),
    DOUBLE("v_mfma_f64_4x4x4f64", product_f64_4, 2), DOUBLE("v_mfma_f64_4x4x4_4b_f64", product_f64_4, 2),
};

}  // namespace

const Table kMfmaExactTable{kEntries, std::size(kEntries)};

}  // namespace emu
