// VOP3P: packed binary16, binary32 and 16-bit integers, mixed precision. op_sel chooses the part of each source for the
// low result, op_sel_hi the part for the high one. neg_lo and neg_hi negate them (CDNA4 12.10, RDNA4 16.10).
#include "arith.hpp"
#include "select.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// ---- 16-bit parts ----

// The part of source k for the low (0) or high (1) result.
void fetch_part(Wave& w, const Inst& i, int k, int high, Fetched& f) {
  const uint32_t* from = whole_source(w, i, k, f.room);
  const bool upper = (high ? i.mod.op_sel_hi : i.mod.op_sel) >> k & 1;
  if (upper) EMU_LANES f.room.x[l] = from[l] >> 16;
  else EMU_LANES f.room.x[l] = from[l] & 0xffff;
  f.x = f.room.x;
}

void fetch_half(Wave& w, const Inst& i, int k, int high, Fetched& f) {
  fetch_part(w, i, k, high, f);
  edit16(f, (high ? i.mod.neg_hi : i.mod.neg_lo) >> k & 1, false, w.mode.flush_in16_64());
}

void join(Wave& w, const Inst& i, const Row (&part)[2]) {
  Row out;
  EMU_LANES out.x[l] = part[0].x[l] | part[1].x[l] << 16;
  whole_commit(w, i, out.x);
}

template <class Op, int N> void half_arithmetic(Wave& w, const Inst& i) {
  Row part[2];
  for (int high = 0; high < 2; ++high) {
    Fetched in[N];
    for (int k = 0; k < N; ++k) fetch_half(w, i, k, high, in[k]);
    compute16<Op>(part[high].x, in, w.mode.round16_64(), fp16_overflow(w));
    finish16(w, i, part[high].x, w.mode.flush_out16_64(), true);
  }
  join(w, i, part);
}

// v_pk_fmac_f16 is VOP2: it has no selections, and the destination is the third source.
void half_fmac(Wave& w, const Inst& i) {
  Row part[2];
  for (int high = 0; high < 2; ++high) {
    Fetched in[3];
    for (int k = 0; k < 3; ++k) {
      const uint32_t* from = k < 2 ? whole_source(w, i, k, in[k].room) : w.v[i.op[0].reg].x;
      EMU_LANES in[k].room.x[l] = from[l] >> (16 * high) & 0xffff;
      in[k].x = in[k].room.x;
      edit16(in[k], false, false, w.mode.flush_in16_64());
    }
    compute16<Fma>(part[high].x, in, w.mode.round16_64(), fp16_overflow(w));
    finish16(w, i, part[high].x, w.mode.flush_out16_64(), true);
  }
  join(w, i, part);
}

template <class Op, Nans Rules> void half_select(Wave& w, const Inst& i) {
  Row part[2];
  for (int high = 0; high < 2; ++high) {
    Fetched in[3];
    for (int k = 0; k < Op::sources; ++k) fetch_half(w, i, k, high, in[k]);
    evaluate<Half, Op>(rule_of(w, Rules), part[high].x, in[0].x, in[1].x, in[Op::sources - 1].x, w.lanes);
    finish16(w, i, part[high].x, false, true);
  }
  join(w, i, part);
}

// Integers. `Signed` says how parts are widened and where clamp saturates.
template <class Op, int N, bool Signed> void part_integers(Wave& w, const Inst& i) {
  Row part[2];
  for (int high = 0; high < 2; ++high) {
    Fetched in[3];
    for (int k = 0; k < N; ++k) fetch_part(w, i, k, high, in[k]);
    const uint32_t *a = in[0].x, *b = in[1].x, *c = in[N - 1].x;
    uint32_t* to = part[high].x;
    const bool clamp = i.mod.clamp;
    EMU_LANES {
      const int64_t x = Signed ? int64_t(int16_t(a[l])) : int64_t(a[l]), y = Signed ? int64_t(int16_t(b[l])) : int64_t(b[l]),
                    z = Signed ? int64_t(int16_t(c[l])) : int64_t(c[l]);
      const int64_t result = Op::at(x, y, z), least = Signed ? -32768 : 0, most = Signed ? 32767 : 65535;
      const int64_t inside = result < least ? least : result > most ? most : result;
      to[l] = uint32_t(clamp ? inside : result) & 0xffff;
    }
  }
  join(w, i, part);
}

struct IntAdd {
  static int64_t at(int64_t a, int64_t b, int64_t) { return a + b; }
};
struct IntSub {
  static int64_t at(int64_t a, int64_t b, int64_t) { return a - b; }
};
struct IntMul {
  static int64_t at(int64_t a, int64_t b, int64_t) { return a * b; }
};
struct IntMad {
  static int64_t at(int64_t a, int64_t b, int64_t c) { return a * b + c; }
};
struct IntMin {
  static int64_t at(int64_t a, int64_t b, int64_t) { return a < b ? a : b; }
};
struct IntMax {
  static int64_t at(int64_t a, int64_t b, int64_t) { return a > b ? a : b; }
};
// The count is the first source.
struct ShiftLeft {
  static int64_t at(int64_t a, int64_t b, int64_t) { return (b & 0xffff) << (a & 15) & 0xffff; }
};
struct ShiftRight {
  static int64_t at(int64_t a, int64_t b, int64_t) { return b >> (a & 15); }
};

// ---- binary32 pairs ----

void fetch_single(Wave& w, const Inst& i, int k, int high, bool flush, Fetched& f) {
  const bool second = (high ? i.mod.op_sel_hi : i.mod.op_sel) >> k & 1;
  f.x = whole_source(w, i, k, f.room, second);
  edit32(f, (high ? i.mod.neg_hi : i.mod.neg_lo) >> k & 1, false, flush, w.lanes);
}

template <class Op, int N> void pair_arithmetic(Wave& w, const Inst& i) {
  Row part[2];
  const bool all = flushes_all32(w, i);
  for (int high = 0; high < 2; ++high) {
    Fetched in[N];
    for (int k = 0; k < N; ++k) fetch_single(w, i, k, high, !all && w.mode.flush_in32(), in[k]);
    compute32<Op>(part[high].x, in, w.mode.round32(), w.lanes, all);
    finish32(w, i, part[high].x, !all && w.mode.flush_out32(), true);
  }
  whole_commit(w, i, part[0].x, 0);
  whole_commit(w, i, part[1].x, 1);
}

// The low result comes from the first source, the high one from the second. op_sel chooses the dword of each.
void pair_move(Wave& w, const Inst& i) {
  Row part[2], room;
  for (int k = 0; k < 2; ++k) std::memcpy(part[k].x, whole_source(w, i, k, room, i.mod.op_sel >> k & 1), sizeof room.x);
  whole_commit(w, i, part[0].x, 0);
  whole_commit(w, i, part[1].x, 1);
}

// The instruction reads only the dwords of a pair that op_sel and op_sel_hi name. Compilers leave the others unwritten.
template <bool Move> std::string bind_pairs(Inst& i, const ArchTraits&) {
  for (int k = 0; k < i.ops - i.dsts; ++k) {
    const Operand& op = i.src(k);
    if (op.kind != Kind::Vgpr) continue;
    for (int d = 0; d < op.count; ++d) i.v_reads.reset(op.reg + d);
  }
  for (int k = 0; k < i.ops - i.dsts; ++k) {
    const Operand& op = i.src(k);
    if (op.kind != Kind::Vgpr) continue;
    i.v_reads.set(op.reg + (i.mod.op_sel >> k & 1));
    if (!Move) i.v_reads.set(op.reg + (i.mod.op_sel_hi >> k & 1));
  }
  return {};
}

// ---- mixed precision ----

// A source is binary32, or with op_sel_hi the half of a register that op_sel names.
void fetch_mixed(Wave& w, const Inst& i, int k, Fetched& f, bool always_flush) {
  const Operand& op = i.src(k);
  f.x = whole_source(w, i, k, f.room);
  if (i.mod.op_sel_hi >> k & 1) {
    const int shift = i.mod.op_sel >> k & 1 ? 16 : 0;
    const uint32_t* from = f.x;
    EMU_LANES f.room.x[l] = from[l] >> shift;
    f.x = f.room.x;
    edit16(f, op.neg, op.abs, always_flush || w.mode.flush_in16_64());
    alignas(64) float wide[kLanes];
    halves_to_floats(wide, f.room.x);
    std::memcpy(f.room.x, wide, sizeof wide);
  } else {
    edit32(f, op.neg, op.abs, always_flush || w.mode.flush_in32(), w.lanes);
  }
}

void mixed_fma(Wave& w, const Inst& i, Row& out) {
  Fetched in[3];
  for (int k = 0; k < 3; ++k) fetch_mixed(w, i, k, in[k], false);
  compute32<Fma>(out.x, in, w.mode.round32(), w.lanes);
}

void fma_mix(Wave& w, const Inst& i) {
  Row out;
  mixed_fma(w, i, out);
  finish32(w, i, out.x, w.mode.flush_out32(), !w.mode.flush_out32());
  whole_commit(w, i, out.x);
}

// The binary32 result is rounded once more, to binary16, and goes into one half. The other half stays.
template <bool High> void fma_mix_half(Wave& w, const Inst& i) {
  Row out;
  mixed_fma(w, i, out);
  if (w.mode.flush_out32()) EMU_LANES out.x[l] = flushed32(out.x[l]);
  alignas(64) float wide[kLanes];
  std::memcpy(wide, out.x, sizeof wide);
  floats_to_halves(out.x, wide, w.mode.round16_64());
  if (fp16_overflow(w))
    for (int l = 0; l < kLanes; ++l)
      if ((out.x[l] & 0x7fff) == kInfinity16 && std::isfinite(wide[l])) out.x[l] -= 1;
  finish16(w, i, out.x, w.mode.flush_out16_64(), !w.mode.flush_out16_64());
  const uint32_t* old = w.v[i.op[0].reg].x;
  if (High) EMU_LANES out.x[l] = (old[l] & 0xffff) | out.x[l] << 16;
  else EMU_LANES out.x[l] = (old[l] & 0xffff0000) | out.x[l];
  whole_commit(w, i, out.x);
}

// No document says how to read a constant that op_sel_hi calls binary16.
std::string bind_mixed(Inst& i, const ArchTraits&) {
  for (int k = 0; k < 3; ++k)
    if (i.src(k).kind == Kind::Constant && i.src(k).value && (i.mod.op_sel_hi >> k & 1))
      return "a constant as a 16-bit source of a mixed-precision operation";
  return {};
}

constexpr Type H = Type::PkF16, I = Type::PkB16, S = Type::PkF32, F = Type::F32;
using Types = std::array<Type, 6>;
constexpr Types kHalves{H, H, H, H}, kInts{I, I, I, I}, kSingles{S, S, S, S}, kMixed{F, F, F, F};

#define ROW(name, run, flags, types, bind, source) {name, run, 1, Class::Valu, Flow::Lane, flags, types, bind, source}

constexpr Entry kEntries[] = {
    ROW("v_pk_add_f16", (half_arithmetic<Add, 2>), 0, kHalves, nullptr, "CDNA4 12.10 VOP3P 15"),
    ROW("v_pk_mul_f16", (half_arithmetic<Mul, 2>), 0, kHalves, nullptr, "CDNA4 12.10 VOP3P 16"),
    ROW("v_pk_fma_f16", (half_arithmetic<Fma, 3>), 0, kHalves, nullptr, "CDNA4 12.10 VOP3P 14"),
    ROW("v_pk_fmac_f16", half_fmac, kReadsDst, kHalves, nullptr, "CDNA4 12.7 VOP2 60, RDNA4 16.7 VOP2 60"),
    ROW("v_pk_min_f16", (half_select<Min, Nans::ByArch>), 0, kHalves, nullptr, "CDNA4 12.10 VOP3P 17"),
    ROW("v_pk_max_f16", (half_select<Max, Nans::ByArch>), 0, kHalves, nullptr, "CDNA4 12.10 VOP3P 18"),
    ROW("v_pk_min_num_f16", (half_select<Min, Nans::Number>), 0, kHalves, nullptr, "RDNA4 16.10 VOP3P 27"),
    ROW("v_pk_max_num_f16", (half_select<Max, Nans::Number>), 0, kHalves, nullptr, "RDNA4 16.10 VOP3P 28"),
    ROW("v_pk_minimum_f16", (half_select<Min, Nans::Propagate>), 0, kHalves, nullptr, "RDNA4 16.10 VOP3P 29"),
    ROW("v_pk_maximum_f16", (half_select<Max, Nans::Propagate>), 0, kHalves, nullptr, "RDNA4 16.10 VOP3P 30"),
    ROW("v_pk_minimum3_f16", (half_select<Min3, Nans::Propagate>), 0, kHalves, nullptr, "CDNA4 12.10 VOP3P 27"),
    ROW("v_pk_maximum3_f16", (half_select<Max3, Nans::Propagate>), 0, kHalves, nullptr, "CDNA4 12.10 VOP3P 28"),
    ROW("v_pk_mad_i16", (part_integers<IntMad, 3, true>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 0"),
    ROW("v_pk_mul_lo_u16", (part_integers<IntMul, 2, false>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 1"),
    ROW("v_pk_add_i16", (part_integers<IntAdd, 2, true>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 2"),
    ROW("v_pk_sub_i16", (part_integers<IntSub, 2, true>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 3"),
    ROW("v_pk_lshlrev_b16", (part_integers<ShiftLeft, 2, false>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 4"),
    ROW("v_pk_lshrrev_b16", (part_integers<ShiftRight, 2, false>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 5"),
    ROW("v_pk_ashrrev_i16", (part_integers<ShiftRight, 2, true>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 6"),
    ROW("v_pk_max_i16", (part_integers<IntMax, 2, true>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 7"),
    ROW("v_pk_min_i16", (part_integers<IntMin, 2, true>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 8"),
    ROW("v_pk_mad_u16", (part_integers<IntMad, 3, false>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 9"),
    ROW("v_pk_add_u16", (part_integers<IntAdd, 2, false>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 10"),
    ROW("v_pk_sub_u16", (part_integers<IntSub, 2, false>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 11"),
    ROW("v_pk_max_u16", (part_integers<IntMax, 2, false>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 12"),
    ROW("v_pk_min_u16", (part_integers<IntMin, 2, false>), 0, kInts, nullptr, "CDNA4 12.10 VOP3P 13"),
    ROW("v_pk_fma_f32", (pair_arithmetic<Fma, 3>), kNamesReads, kSingles, bind_pairs<false>, "CDNA4 12.10 VOP3P 48"),
    ROW("v_pk_mul_f32", (pair_arithmetic<Mul, 2>), kNamesReads, kSingles, bind_pairs<false>, "CDNA4 12.10 VOP3P 49"),
    ROW("v_pk_add_f32", (pair_arithmetic<Add, 2>), kNamesReads, kSingles, bind_pairs<false>, "CDNA4 12.10 VOP3P 50"),
    ROW("v_pk_mov_b32", pair_move, kNamesReads, kSingles, bind_pairs<true>, "CDNA4 12.10 VOP3P 51"),
    ROW("v_fma_mix_f32", fma_mix, 0, kMixed, bind_mixed, "CDNA3 12.10 VOP3P 32, RDNA4 16.10 VOP3P 32"),
    ROW("v_fma_mixlo_f16", fma_mix_half<false>, 0, kMixed, bind_mixed, "CDNA3 12.10 VOP3P 33, RDNA4 16.10 VOP3P 33"),
    ROW("v_fma_mixhi_f16", fma_mix_half<true>, 0, kMixed, bind_mixed, "CDNA3 12.10 VOP3P 34, RDNA4 16.10 VOP3P 34"),
};

}  // namespace

const Table kPackedTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
