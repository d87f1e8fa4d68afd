// v_mfma_f32_*_f8f6f4 and v_mfma_scale_f32_*_f8f6f4 (gfx950). A and B each have their own format of 8, 6 or 4 bits. The
// second instruction multiplies every 32 elements of a row of A or a column of B by a power of two.
//
// CBSZ is the format of A, BLGP that of B: 0 fp8 (E4M3), 1 bf8 (E5M2), 2 fp6 (E2M3), 3 bf6 (E3M2), 4 fp4 (E2M1), all as
// OCP defines them. Lane g * N + i holds 32 elements of row i. Elements of 6 and 4 bits have k = 32 g + e and are
// packed from bit 0 on. The first 16 elements of 8 bits have k = 16 g + e; the others have that plus 16 times the
// number of groups. A byte (E8M0) of lane s * N + i is the scale of elements 32 s to 32 s + 31 of row i; OP_SEL and
// OP_SEL_HI name the byte (CDNA4 ISA 7.2.1).
#include "matrix.hpp"
#include "tables.hpp"

namespace emu {

namespace {

using namespace matrix;

const auto kFp8Numbers = numbers_of<256>(kFp8), kBf8Numbers = numbers_of<256>(kBf8);
const auto kFp6Numbers = numbers_of<64>(kFp6), kBf6Numbers = numbers_of<64>(kBf6);
const auto kFp4Numbers = numbers_of<16>(kFp4);

struct Narrow {
  int bits;
  const float* numbers;
  int dwords() const { return bits; }  // 32 elements
};

Narrow format_of(int code) {
  switch (code) {
    case 0: return {8, kFp8Numbers.data()};
    case 1: return {8, kBf8Numbers.data()};
    case 2: return {6, kFp6Numbers.data()};
    case 3: return {6, kBf6Numbers.data()};
    default: return {4, kFp4Numbers.data()};
  }
}

// Elements as rows in the order of k: row q of lane group g has k = 32 g + q.
template <int N>
void take(const Wave& w, int reg, const Narrow& format, Row* to) {
  constexpr int groups = 64 / N;
  const int bits = format.bits;
  for (int l = 0; l < kLanes; ++l) {
    const int group = l / N, place = l % N;
    for (int e = 0; e < 32; ++e) {
      const int bit = e * bits;
      uint64_t word = w.v[reg + bit / 32].x[l];
      if (bit % 32 + bits > 32) word |= uint64_t(w.v[reg + bit / 32 + 1].x[l]) << 32;
      const float x = format.numbers[word >> bit % 32 & ((1u << bits) - 1)];
      const int k = bits == 8 ? 16 * group + e % 16 + e / 16 * 16 * groups : 32 * group + e;
      floats(to[k % 32])[k / 32 * N + place] = x;
    }
  }
}

// The powers of two in byte `select` of the scales' register, lane by lane.
void take_scales(const Wave& w, const Operand& scales, int select, double* to) {
  for (int l = 0; l < kLanes; ++l) {
    const uint32_t word = scales.kind == Kind::Vgpr ? w.v[scales.reg].x[l] : scalar32(w, scales);
    const uint32_t code = word >> 8 * select & 0xff;
    to[l] = code == 255 ? as_double(0x7ff8000000000000) : std::ldexp(1.0, int(code) - 127);
  }
}

int select(const Inst& i, int operand) {
  return (i.mod.op_sel >> operand & 1) | (i.mod.has_op_sel_hi ? (i.mod.op_sel_hi >> operand & 1) << 1 : 0);
}

// D += the products of each 32 elements, times both scales. It computes in double, so that neither factor alone leaves
// the range of float.
template <int N>
void multiply_scaled(const Row* a, const Row* b, const double* scale_a, const double* scale_b, Row* d) {
  constexpr int results = N * N / 64;
  for (int g = 0; g < 64 / N; ++g) {
    Row part[results] = {};
    multiply_block(N, {1, 32}, a, b, g * N, g * N, part);
    for (int r = 0; r < results; ++r)
      for (int l = 0; l < kLanes; ++l) {
        const int row = N == 32 ? 8 * (r / 4) + 4 * (l / 32) + r % 4 : 4 * (l / 16) + r;
        Float& sum = floats(d[r])[l];
        sum = float(sum + floats(part[r])[l] * (scale_a[g * N + row] * scale_b[g * N + l % N]));
      }
  }
}

template <int N, int K, bool Scaled>
void product(Wave& w, const Inst& i) {
  constexpr int results = N * N / 64;
  Row a[32], b[32];
  take<N>(w, i.op[1].reg, format_of(i.mod.cbsz), a);
  take<N>(w, i.op[2].reg, format_of(i.mod.blgp), b);
  double scales[2][kLanes];
  if constexpr (Scaled) {
    take_scales(w, i.op[4], select(i, 0), scales[0]);
    take_scales(w, i.op[5], select(i, 1), scales[1]);
  }
  accumulator(w, i.op[3], i.op[0].reg, results);
  Row* d = &w.v[i.op[0].reg];
  if constexpr (Scaled) multiply_scaled<N>(a, b, scales[0], scales[1], d);
  else multiply_block(N, {64 / N, 32}, a, b, 0, 0, d);
  counts().matrix_flops += 2ull * N * N * K;
}

template <int N, int K, bool Scaled>
std::string fits(Inst& i, const ArchTraits&) {
  if (i.mod.cbsz > 4 || i.mod.blgp > 4) return "A or B has an unknown format";
  const std::string bad = misfit(i, N * N / 64, format_of(i.mod.cbsz).dwords(), format_of(i.mod.blgp).dwords(), N * N / 64);
  if (!bad.empty() || !Scaled) return bad;
  if (i.ops != 6) return "a scaled product has two scales";
  for (int k = 4; k < 6; ++k)
    if (!(i.op[k].kind == Kind::Vgpr || i.op[k].kind == Kind::Sgpr || i.op[k].kind == Kind::Constant) || i.op[k].count != 1)
      return "a scale is one register or a constant";
  return "";
}

#define SCALED(NAME, N, K, WITH)                                                                           \
  {NAME, product<N, K, WITH>, 1, Class::Matrix, Flow::Cross, kIgnoresExec,                                 \
   {Type::Wide, Type::Wide, Type::Wide, Type::F32, Type::B32, Type::B32}, fits<N, K, WITH>, "CDNA4 ISA 7.2.1"}

constexpr Entry kEntries[] = {
    SCALED("v_mfma_f32_16x16x128_f8f6f4", 16, 128, false),
    SCALED("v_mfma_f32_32x32x64_f8f6f4", 32, 64, false),
    SCALED("v_mfma_scale_f32_16x16x128_f8f6f4", 16, 128, true),
    SCALED("v_mfma_scale_f32_32x32x64_f8f6f4", 32, 64, true),
};

}  // namespace

const Table kMfmaScaledTable{kEntries, std::size(kEntries)};

}  // namespace emu
