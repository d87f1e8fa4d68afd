// v_wmma_*: 16 x 16 products of gfx11 and gfx12.
//
// gfx11: lane i holds all k of row i, and lane i + 16 must hold the same. gfx12: lanes i and i + 16 share the row. A
// and B are split alike, so which lane holds which k matters only to the order of the sum. These instructions ignore
// EXEC. Sums are in float, whatever the result is; a result of 16 bits is rounded once, at the end.
#include "tables.hpp"
#include "wmma.hpp"

namespace emu {

namespace {

using namespace matrix;

// C: registers, or a constant in every element. Bit 2 of NEG_HI takes its absolute value, then bit 2 of NEG_LO negates
// it.
void take_c(Wave& w, const Inst& i, Out out, int upper, Results& to) {
  if (i.op[3].kind == Kind::Vgpr) {
    take({w, i.op[3].reg, out, upper}, to);
  } else {
    for (auto& row : to.x)
      for (uint32_t& x : row) x = scalar32(w, i.op[3]);
  }
  if (out == Out::Int || !((i.mod.neg_lo | i.mod.neg_hi) >> 2 & 1)) return;
  const uint32_t sign = out == Out::Float ? 0x80000000u : 0x8000u;
  for (auto& row : to.x)
    for (uint32_t& x : row) {
      if (i.mod.neg_hi >> 2 & 1) x &= ~sign;
      if (i.mod.neg_lo >> 2 & 1) x ^= sign;
    }
}

// `a` and `b`: rows of one lane group with k elements where the halves of a wave repeat each other, else of two groups
// with k / 2.
void finish(Wave& w, const Inst& i, int k, const Row* a, const Row* b, Out out) {
  const int upper = i.mod.op_sel >> 2 & 1;
  const auto multiply = [&](auto from, auto to) {
    multiply_rows<16>(w.arch->wmma_repeats ? Depth{1, k} : Depth{2, k / 2}, a, b, 0, 0, from, to);
  };
  // Floats can stay where they are.
  if (out == Out::Float && !((i.mod.neg_lo | i.mod.neg_hi) >> 2 & 1)) {
    const Tile from{w, i.op[3].reg, out, upper}, to{w, i.op[0].reg, out, upper};
    uint32_t constant[16];
    const bool held = i.op[3].kind == Kind::Vgpr;
    if (!held) std::fill_n(constant, 16, scalar32(w, i.op[3]));
    return multiply([&](int, int m, int) { return reinterpret_cast<const Floats*>(held ? from.row(m) : constant); },
                    [&](int, int m, int) { return reinterpret_cast<Floats*>(to.row(m)); });
  }
  Results c;
  take_c(w, i, out, upper, c);
  Row sum[4] = {};
  if (out != Out::Int) to_sum(c, out, sum);
  const auto place = [&](int, int m, int) { return &columns(sum[m % 4], 16 * (m / 4)); };
  multiply(place, place);
  put_results(i, {w, i.op[0].reg, out, upper}, sum, c);
}

// Elements of A or B that a lane holds.
int held(const ArchTraits& arch, int k) { return arch.wmma_repeats ? k : k / 2; }

template <int K, class A, class B, Out Result>
void product(Wave& w, const Inst& i) {
  only_32(w);
  const int count = held(*w.arch, K);
  Row a[K], b[K];
  widen<A>(w, i.op[1].reg, count / A::kPer, a);
  widen<B>(w, i.op[2].reg, count / B::kPer, b);
  negate(i, 0, count, a);
  negate(i, 1, count, b);
  finish(w, i, K, a, b, Result);
  counts().matrix_flops += 2 * 16 * 16 * K;
}

template <int K, int Bits>
void product_integer(Wave& w, const Inst& i) {
  only_32(w);
  Row a[K], b[K];
  widen_integer<Bits>(w, i, 0, held(*w.arch, K), a);
  widen_integer<Bits>(w, i, 1, held(*w.arch, K), b);
  finish(w, i, K, a, b, Out::Int);
  counts().matrix_flops += 2 * 16 * 16 * K;
}

template <int K, int Bits, Out Result>
std::string fits(Inst& i, const ArchTraits& arch) {
  const bool wide = Result == Out::Float || Result == Out::Int;
  const int sources = held(arch, K) * Bits / 32, results = wide || arch.wmma_repeats ? 8 : 4;
  if (Bits == 8 && Result == Out::Float && (i.mod.neg_lo | i.mod.neg_hi) & 3) return "fp8 and bf8 have no negation";
  return misfit(i, results, sources, sources, results);
}

constexpr const char* kSource = "RDNA3 ISA 7.9 WMMA, RDNA4 ISA 7.12 WMMA, 15.10 VOP3P";

// gfx11's 16-bit results keep half of D.
#define PRODUCT(NAME, K, A, B, OUT, TYPE, FLAGS)                                      \
  {NAME, product<K, A, B, OUT>, 1, Class::Matrix, Flow::Cross, FLAGS,                 \
   {Type::Wide, Type::Wide, Type::Wide, TYPE}, fits<K, 32 / A::kPer, OUT>, kSource}
#define INTEGER(NAME, K, BITS)                                                        \
  {NAME, product_integer<K, BITS>, 1, Class::Matrix, Flow::Cross, kIgnoresExec,       \
   {Type::Wide, Type::Wide, Type::Wide, Type::B32}, fits<K, BITS, Out::Int>, kSource}

constexpr Entry kEntries[] = {
    PRODUCT("v_wmma_f32_16x16x16_f16", 16, F16, F16, Out::Float, Type::F32, kIgnoresExec),
    PRODUCT("v_wmma_f32_16x16x16_bf16", 16, Bf16, Bf16, Out::Float, Type::F32, kIgnoresExec),
    PRODUCT("v_wmma_f16_16x16x16_f16", 16, F16, F16, Out::Half, Type::F16, kIgnoresExec),
    PRODUCT("v_wmma_bf16_16x16x16_bf16", 16, Bf16, Bf16, Out::Brain, Type::BF16, kIgnoresExec),
    PRODUCT("v_wmma_f32_16x16x16_fp8_fp8", 16, Fp8, Fp8, Out::Float, Type::F32, kIgnoresExec),
    PRODUCT("v_wmma_f32_16x16x16_fp8_bf8", 16, Fp8, Bf8, Out::Float, Type::F32, kIgnoresExec),
    PRODUCT("v_wmma_f32_16x16x16_bf8_fp8", 16, Bf8, Fp8, Out::Float, Type::F32, kIgnoresExec),
    PRODUCT("v_wmma_f32_16x16x16_bf8_bf8", 16, Bf8, Bf8, Out::Float, Type::F32, kIgnoresExec),
    INTEGER("v_wmma_i32_16x16x16_iu8", 16, 8),
    INTEGER("v_wmma_i32_16x16x16_iu4", 16, 4),
    INTEGER("v_wmma_i32_16x16x32_iu4", 32, 4),
};

}  // namespace

const Table kWmmaTable{kEntries, std::size(kEntries)};

}  // namespace emu
