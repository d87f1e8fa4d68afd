// Dot products within a lane, added to a third source or to the destination. Floating-point sums follow the order of
// the documents' text and round each step to nearest (CDNA4 12.10 26 and 35 to 43, 12.7 22 and 55 to 58; RDNA3 and
// RDNA4 16.10).
#include "narrow.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// The accumulator: the third source, or the destination.
const uint32_t* accumulator(Wave& w, const Inst& i, bool in_place, Row& room) {
  return in_place ? w.v[i.op[0].reg].x : whole_source(w, i, 2, room);
}

// ---- pairs of 16-bit numbers ----

// Element e (0, 1) of source k, negated where the instruction says.
template <bool InPlace> void fetch_element(Wave& w, const Inst& i, int k, int e, Fetched& f) {
  const uint32_t* from = whole_source(w, i, k, f.room);
  const bool upper = InPlace ? e == 1 : (e ? i.mod.op_sel_hi : i.mod.op_sel) >> k & 1;
  if (upper) EMU_LANES f.room.x[l] = from[l] >> 16;
  else EMU_LANES f.room.x[l] = from[l] & 0xffff;
  f.x = f.room.x;
  const Operand& op = i.src(k);
  const bool neg = op.neg != bool((e ? i.mod.neg_hi : i.mod.neg_lo) >> k & 1);
  edit16(f, neg, op.abs, false);
}

template <bool Brain> void to_floats(const Wave& w, Fetched& f, float* to) {
  if (Brain) {
    EMU_LANES to[l] = brain_to_float(f.x[l]);
  } else {
    edit16(f, false, false, w.mode.flush_in16_64());
    halves_to_floats(to, f.x);
  }
}

// Products are exact in binary32, except bfloat16 products that leave its range.
template <bool Brain, bool InPlace> void products(Wave& w, const Inst& i, float (&to)[2][kLanes]) {
  for (int e = 0; e < 2; ++e) {
    alignas(64) float a[kLanes], b[kLanes];
    Fetched in[2];
    fetch_element<InPlace>(w, i, 0, e, in[0]);
    fetch_element<InPlace>(w, i, 1, e, in[1]);
    to_floats<Brain>(w, in[0], a);
    to_floats<Brain>(w, in[1], b);
    EMU_LANES to[e][l] = a[l] * b[l];
  }
}

void quiet_row(uint32_t* x) {
  EMU_LANES x[l] = is_nan32(x[l]) ? quiet32(x[l]) : x[l];
}

// Adds the third source first, except where the architecture adds it last.
template <bool Brain, bool InPlace> void dot2_f32(Wave& w, const Inst& i) {
  alignas(64) float product[2][kLanes];
  products<Brain, InPlace>(w, i, product);
  Fetched c;
  c.x = accumulator(w, i, InPlace, c.room);
  const bool modifies = !InPlace && w.arch->dot2_negates_addend;
  edit32(c, modifies && (i.mod.neg_lo >> 2 & 1), modifies && (i.mod.neg_hi >> 2 & 1), w.mode.flush_in32(), w.lanes);
  const bool last = Brain && !InPlace && w.arch->dot2_bf16_adds_last;
  Row out;
  EMU_LANES {
    const float start = as_float(c.x[l]);
    const float sum = last ? (product[0][l] + product[1][l]) + start : (start + product[0][l]) + product[1][l];
    out.x[l] = bits_of(sum);
  }
  quiet_row(out.x);
  finish32(w, i, out.x, w.mode.flush_out32(), true);
  whole_commit(w, i, out.x);
}

// 16-bit results of RDNA3 and RDNA4 are summed in binary32 and rounded once. Bit 2 of op_sel chooses the half of the
// third source. Bit 3 chooses the half of the destination, which keeps its other half.
template <bool Brain> void dot2_16(Wave& w, const Inst& i) {
  alignas(64) float product[2][kLanes], wide[kLanes];
  products<Brain, true>(w, i, product);
  Fetched c;
  const uint32_t* from = whole_source(w, i, 2, c.room);
  const Operand &op = i.src(2), &dst = i.op[0];
  const int at = (op.half ? op.half == 2 : i.mod.op_sel >> 2 & 1) ? 16 : 0;
  EMU_LANES c.room.x[l] = from[l] >> at;
  c.x = c.room.x;
  edit16(c, op.neg, op.abs, false);
  to_floats<Brain>(w, c, wide);
  EMU_LANES wide[l] = (wide[l] + product[0][l]) + product[1][l];
  Row out;
  if (Brain) EMU_LANES out.x[l] = float_to_brain(wide[l]);
  else floats_to_halves(out.x, wide);
  if (!Brain) finish16(w, i, out.x, w.mode.flush_out16_64(), true);
  const uint32_t* old = w.v[dst.reg].x;
  const bool upper = dst.half ? dst.half == 2 : i.mod.op_sel >> 3 & 1;
  EMU_LANES out.x[l] = upper ? (old[l] & 0xffff) | out.x[l] << 16 : (old[l] & 0xffff0000) | out.x[l];
  whole_commit(w, i, out.x);
}

// ---- four 8-bit floats (gfx12) ----

template <bool WideA, bool WideB> void dot4_f32(Wave& w, const Inst& i) {
  const float *left = numbers_of(WideA ? kBf8 : kFp8), *right = numbers_of(WideB ? kBf8 : kFp8);
  Row ra, rb, out;
  Fetched c;
  const uint32_t *a = whole_source(w, i, 0, ra), *b = whole_source(w, i, 1, rb);
  c.x = whole_source(w, i, 2, c.room);
  edit32(c, i.mod.neg_lo >> 2 & 1, i.mod.neg_hi >> 2 & 1, w.mode.flush_in32(), w.lanes);
  for (int l = 0; l < kLanes; ++l) {
    float sum = as_float(c.x[l]);
    for (int at = 0; at < 32; at += 8) sum += left[a[l] >> at & 0xff] * right[b[l] >> at & 0xff];
    out.x[l] = bits_of(sum);
  }
  quiet_row(out.x);
  finish32(w, i, out.x, w.mode.flush_out32(), true);
  whole_commit(w, i, out.x);
}

// ---- integers ----

template <int Bits> int64_t element(uint32_t x, int at, bool is_signed) {
  const uint32_t part = x >> at << (32 - Bits);
  return is_signed ? int64_t(int32_t(part) >> (32 - Bits)) : int64_t(part >> (32 - Bits));
}

// op_sel exchanges halves of 16-bit pairs only.
uint32_t with_halves_chosen(const Inst& i, int k, uint32_t x) {
  const uint32_t low = i.mod.op_sel >> k & 1 ? x >> 16 : x & 0xffff, high = i.mod.op_sel_hi >> k & 1 ? x >> 16 : x & 0xffff;
  return low | high << 16;
}

template <int Bits, bool InPlace>
void dot_integers(Wave& w, const Inst& i, bool signed_a, bool signed_b, bool signed_result) {
  Row ra, rb, rc, out;
  const uint32_t *a = whole_source(w, i, 0, ra), *b = whole_source(w, i, 1, rb), *c = accumulator(w, i, InPlace, rc);
  for (int l = 0; l < kLanes; ++l) {
    const bool chosen = Bits == 16 && !InPlace;
    const uint32_t x = chosen ? with_halves_chosen(i, 0, a[l]) : a[l], y = chosen ? with_halves_chosen(i, 1, b[l]) : b[l];
    int64_t sum = signed_result ? int64_t(int32_t(c[l])) : int64_t(c[l]);
    for (int at = 0; at < 32; at += Bits) sum += element<Bits>(x, at, signed_a) * element<Bits>(y, at, signed_b);
    if (i.mod.clamp) {
      const int64_t least = signed_result ? INT32_MIN : 0, most = signed_result ? INT32_MAX : UINT32_MAX;
      sum = sum < least ? least : sum > most ? most : sum;
    }
    out.x[l] = uint32_t(sum);
  }
  whole_commit(w, i, out.x);
}

template <int Bits, bool Signed, bool InPlace> void dot_fixed(Wave& w, const Inst& i) {
  dot_integers<Bits, InPlace>(w, i, Signed, Signed, Signed);
}

// neg_lo says which of the two sources is signed (RDNA3 16.10 V_DOT4_I32_IU8).
template <int Bits> void dot_iu(Wave& w, const Inst& i) {
  dot_integers<Bits, false>(w, i, i.mod.neg_lo & 1, i.mod.neg_lo >> 1 & 1, true);
}

constexpr Type F = Type::F32, H = Type::PkF16, B = Type::PkBF16, I = Type::B32, S = Type::PkB16;
using Types = std::array<Type, 6>;

#define ROW(name, run, flags, to, from, source) \
  {name, run, 1, Class::Valu, Flow::Lane, flags, Types{to, from, from, to}, nullptr, source}

constexpr Entry kEntries[] = {
    ROW("v_dot2_f32_f16", (dot2_f32<false, false>), 0, F, H, "CDNA4 12.10 35, RDNA4 16.10 19"),
    ROW("v_dot2_f32_bf16", (dot2_f32<true, false>), 0, F, B, "CDNA4 12.10 26, RDNA4 16.10 26"),
    ROW("v_dot2c_f32_f16", (dot2_f32<false, true>), kReadsDst, F, H, "CDNA4 12.7 55"),
    ROW("v_dot2acc_f32_f16", (dot2_f32<false, true>), kReadsDst, F, H, "RDNA3 16.7 2"),
    ROW("v_dot2c_f32_bf16", (dot2_f32<true, true>), kReadsDst, F, B, "CDNA4 12.7 22"),
    ROW("v_dot2acc_f32_bf16", (dot2_f32<true, true>), kReadsDst, F, B, "RDNA3 VOPD 13"),
    {"v_dot2_f16_f16", dot2_16<false>, 1, Class::Valu, Flow::Lane, 0, Types{H, H, H, Type::F16}, nullptr,
     "RDNA4 16.12 614"},
    {"v_dot2_bf16_bf16", dot2_16<true>, 1, Class::Valu, Flow::Lane, 0, Types{B, B, B, Type::BF16}, nullptr,
     "RDNA4 16.12 615"},
    ROW("v_dot4_f32_fp8_bf8", (dot4_f32<false, true>), 0, F, I, "RDNA4 16.10 36"),
    ROW("v_dot4_f32_bf8_fp8", (dot4_f32<true, false>), 0, F, I, "RDNA4 16.10 37"),
    ROW("v_dot4_f32_fp8_fp8", (dot4_f32<false, false>), 0, F, I, "RDNA4 16.10 38"),
    ROW("v_dot4_f32_bf8_bf8", (dot4_f32<true, true>), 0, F, I, "RDNA4 16.10 39"),
    ROW("v_dot2_i32_i16", (dot_fixed<16, true, false>), 0, I, S, "CDNA4 12.10 38"),
    ROW("v_dot2_u32_u16", (dot_fixed<16, false, false>), 0, I, S, "CDNA4 12.10 39"),
    ROW("v_dot4_i32_i8", (dot_fixed<8, true, false>), 0, I, I, "CDNA4 12.10 40"),
    ROW("v_dot4_u32_u8", (dot_fixed<8, false, false>), 0, I, I, "CDNA4 12.10 41"),
    ROW("v_dot8_i32_i4", (dot_fixed<4, true, false>), 0, I, I, "CDNA4 12.10 42"),
    ROW("v_dot8_u32_u4", (dot_fixed<4, false, false>), 0, I, I, "CDNA4 12.10 43"),
    ROW("v_dot4_i32_iu8", dot_iu<8>, 0, I, I, "RDNA4 16.10 22"),
    ROW("v_dot8_i32_iu4", dot_iu<4>, 0, I, I, "RDNA4 16.10 24"),
    ROW("v_dot2c_i32_i16", (dot_fixed<16, true, true>), kReadsDst, I, S, "CDNA4 12.7 56"),
    ROW("v_dot4c_i32_i8", (dot_fixed<8, true, true>), kReadsDst, I, I, "CDNA4 12.7 57"),
    ROW("v_dot8c_i32_i4", (dot_fixed<4, true, true>), kReadsDst, I, I, "CDNA4 12.7 58"),
};

}  // namespace

const Table kDotTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
