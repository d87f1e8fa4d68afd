// Scalar ALU: SOP2, SOPK, SOP1 and SOPC on integers and bits. Formulas and SCC follow CDNA3 12.1-12.4, RDNA3 and RDNA4
// 16.1-16.4. In all of them s_bfe_* write SCC (the result is not zero). scalar_exec.cpp has the saved EXEC masks.

#include <bit>

#include "lanes.hpp"
#include "scalar_rows.hpp"
#include "tables.hpp"

namespace emu {

namespace {

// ---- SOP2: carries and overflows ----

TWO32(add_u32, { scc = a + b < a; return a + b; })
TWO32(sub_u32, { scc = b > a; return a - b; })
TWO32(add_i32, { const uint32_t r = a + b; scc = (~(a ^ b) & (a ^ r)) >> 31; return r; })
TWO32(sub_i32, { const uint32_t r = a - b; scc = ((a ^ b) & (a ^ r)) >> 31; return r; })
TWO32(addc_u32, { const uint64_t r = uint64_t(a) + b + scc; scc = r >> 32; return uint32_t(r); })
TWO32(subb_u32, { const uint64_t r = uint64_t(a) - b - scc; scc = r >> 63; return uint32_t(r); })
TWO64(add_u64, { return a + b; })
TWO64(sub_u64, { return a - b; })
TWO32(min_i32, { scc = int32_t(a) < int32_t(b); return scc ? a : b; })
TWO32(min_u32, { scc = a < b; return scc ? a : b; })
TWO32(max_i32, { scc = int32_t(a) >= int32_t(b); return scc ? a : b; })
TWO32(max_u32, { scc = a >= b; return scc ? a : b; })
TWO32(absdiff_i32, { uint32_t r = a - b; if (r >> 31) r = -r; scc = r; return r; })
template <int N> void lshl_add(Wave& w, const Inst& i) {
  two<uint32_t>(w, i, [](uint32_t a, uint32_t b, bool& scc) {
    const uint64_t r = (uint64_t(a) << N) + b;
    scc = r >> 32;
    return uint32_t(r);
  });
}

// ---- SOP2: products ----

TWO32(mul_i32, { return a * b; })
TWO32(mul_hi_u32, { return uint32_t(uint64_t(a) * b >> 32); })
TWO32(mul_hi_i32, { return uint32_t(int64_t(int32_t(a)) * int32_t(b) >> 32); })
TWO64(mul_u64, { return a * b; })

// ---- SOP2: logic, 32 and 64 bits alike; SCC: not zero ----

BITS2(and_, a & b)
BITS2(or_, a | b)
BITS2(xor_, a ^ b)
BITS2(andn2, a & ~b)
BITS2(orn2, a | ~b)
BITS2(nand, ~(a & b))
BITS2(nor, ~(a | b))
BITS2(xnor, ~(a ^ b))
BITS2(lshl, a << (b & (8 * sizeof a - 1)))
BITS2(lshr, a >> (b & (8 * sizeof a - 1)))
BITS2(ashr, T(std::make_signed_t<T>(a) >> (b & (8 * sizeof a - 1))))

template <class T> void cselect(Wave& w, const Inst& i) {
  two<T>(w, i, [](T a, T b, bool& scc) { return scc ? a : b; });
}

template <class T> T bit_field_mask(uint32_t width) {
  return width >= 8 * sizeof(T) ? ~T(0) : (T(1) << width) - 1;
}

// A field of S0: offset in S1[5:0] (S1[4:0] for 32 bits), width in S1[22:16].
template <class T> void bfe_unsigned(Wave& w, const Inst& i) {
  two<T>(w, i, [](T a, T b, bool& scc) {
    const T r = (a >> (b & (8 * sizeof a - 1))) & bit_field_mask<T>(b >> 16 & 0x7f);
    scc = r;
    return r;
  });
}

template <class T> void bfe_signed(Wave& w, const Inst& i) {
  two<T>(w, i, [](T a, T b, bool& scc) {
    using S = std::make_signed_t<T>;
    const uint32_t bits = 8 * sizeof a, width = std::min<uint32_t>(b >> 16 & 0x7f, bits);
    const T field = T(S(a) >> (b & (bits - 1)));
    const T r = width ? T(S(field << (bits - width)) >> (bits - width)) : 0;
    scc = r;
    return r;
  });
}

template <class T> void bfm(Wave& w, const Inst& i) {
  const uint32_t last = 8 * sizeof(T) - 1;
  put<T>(w, i, bit_field_mask<T>(scalar32(w, i.src(0)) & last) << (scalar32(w, i.src(1)) & last));
}

TWO32(pack_ll, { return (a & 0xffff) | b << 16; })
TWO32(pack_lh, { return (a & 0xffff) | (b & 0xffff0000); })
TWO32(pack_hl, { return a >> 16 | b << 16; })
TWO32(pack_hh, { return a >> 16 | (b & 0xffff0000); })

// ---- SOP1 ----

template <class T> void mov(Wave& w, const Inst& i) { put<T>(w, i, get<T>(w, i, 0)); }
template <class T> void cmov(Wave& w, const Inst& i) {
  if (w.scc) put<T>(w, i, get<T>(w, i, 0));
}

BITS1(not_, ~a)
ONE(brev, { T r = 0; for (uint32_t k = 0; k < 8 * sizeof a; ++k) r |= (a >> k & 1) << (8 * sizeof a - 1 - k); return r; })
// A quad is four neighbouring bits, one for each lane.
template <class T> T any_in_quad(T a) {
  return (a | a >> 1 | a >> 2 | a >> 3) & T(0x1111111111111111);
}
BITS1(wqm, any_in_quad(a) * 15)
BITS1(quadmask, [](T q) { T r = 0; for (uint32_t k = 0; k < 2 * sizeof q; ++k) r |= (q >> (4 * k) & 1) << k; return r; }(any_in_quad(a)))
COUNT(bcnt0, { const uint32_t r = uint32_t(std::popcount(T(~a))); scc = r; return r; })
COUNT(bcnt1, { const uint32_t r = uint32_t(std::popcount(a)); scc = r; return r; })
COUNT(find_zero, { return a == T(~T(0)) ? ~0u : uint32_t(std::countr_one(a)); })
COUNT(find_one, { return a == 0 ? ~0u : uint32_t(std::countr_zero(a)); })
COUNT(leading_zeros, { return a == 0 ? ~0u : uint32_t(std::countl_zero(a)); })
// The first bit from the top that differs from the sign.
COUNT(leading_signs, {
  const T x = a >> (8 * sizeof a - 1) ? T(~a) : a;
  return x == 0 ? ~0u : uint32_t(std::countl_zero(x));
})
void sext8(Wave& w, const Inst& i) { put<uint32_t>(w, i, uint32_t(int32_t(int8_t(scalar32(w, i.src(0)))))); }
void sext16(Wave& w, const Inst& i) { put<uint32_t>(w, i, uint32_t(int32_t(int16_t(scalar32(w, i.src(0)))))); }
void abs_i32(Wave& w, const Inst& i) {
  const uint32_t a = scalar32(w, i.src(0)), r = a >> 31 ? -a : a;
  put<uint32_t>(w, i, r);
  w.scc = r;
}

template <class T, bool kSet> void bitset(Wave& w, const Inst& i) {
  const T bit = T(1) << (scalar32(w, i.src(0)) & (8 * sizeof(T) - 1));
  T old;
  if constexpr (sizeof(T) == 8) old = scalar64(w, i.op[0]);
  else old = scalar32(w, i.op[0]);
  put<T>(w, i, kSet ? old | bit : old & ~bit);
}

void bitreplicate(Wave& w, const Inst& i) {
  const uint32_t a = scalar32(w, i.src(0));
  uint64_t r = 0;
  for (int k = 0; k < 32; ++k) r |= uint64_t(a >> k & 1) * 3 << (2 * k);
  put<uint64_t>(w, i, r);
}

// ---- SOPK: the immediate is 16 bits; `number` was written with or without its sign ----

uint32_t immediate(const Inst& i, int k) { return uint32_t(int32_t(int16_t(i.src(k).value))); }
void movk(Wave& w, const Inst& i) { put<uint32_t>(w, i, immediate(i, 0)); }
void cmovk(Wave& w, const Inst& i) {
  if (w.scc) movk(w, i);
}
void addk(Wave& w, const Inst& i) {
  const uint32_t a = scalar32(w, i.op[0]), b = immediate(i, 0), r = a + b;
  put<uint32_t>(w, i, r);
  w.scc = (~(a ^ b) & (a ^ r)) >> 31;
}
void mulk(Wave& w, const Inst& i) { put<uint32_t>(w, i, scalar32(w, i.op[0]) * immediate(i, 0)); }

// ---- SOPC ----

// kWide: S1 is the SOPK immediate, sign extended for _i32 and zero extended for _u32.
enum class S1 { Operand, Signed, Unsigned };
template <class T, S1 kind> T second(const Wave& w, const Inst& i) {
  if constexpr (kind == S1::Signed) return T(immediate(i, 1));
  else if constexpr (kind == S1::Unsigned) return T(i.src(1).value & 0xffff);
  else return T(get<std::make_unsigned_t<T>>(w, i, 1));
}
#define COMPARE(name, op)                                                                 \
  template <class T, S1 kind = S1::Operand> void name(Wave& w, const Inst& i) {           \
    w.scc = T(get<std::make_unsigned_t<T>>(w, i, 0)) op second<T, kind>(w, i);            \
  }
COMPARE(eq, ==)
COMPARE(lg, !=)
COMPARE(gt, >)
COMPARE(ge, >=)
COMPARE(lt, <)
COMPARE(le, <=)
template <class T, bool kOne> void bitcmp(Wave& w, const Inst& i) {
  w.scc = bool(get<T>(w, i, 0) >> (scalar32(w, i.src(1)) & (8 * sizeof(T) - 1)) & 1) == kOne;
}

using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;

const Entry kRows[] = {
    // SOP2
    sop2("s_add_u32", add_u32), sop2("s_add_co_u32", add_u32),
    sop2("s_sub_u32", sub_u32), sop2("s_sub_co_u32", sub_u32),
    sop2("s_add_i32", add_i32), sop2("s_add_co_i32", add_i32),
    sop2("s_sub_i32", sub_i32), sop2("s_sub_co_i32", sub_i32),
    sop2("s_addc_u32", addc_u32), sop2("s_add_co_ci_u32", addc_u32),
    sop2("s_subb_u32", subb_u32), sop2("s_sub_co_ci_u32", subb_u32),
    sop2("s_add_nc_u64", add_u64, kB64), sop2("s_sub_nc_u64", sub_u64, kB64),
    sop2("s_min_i32", min_i32), sop2("s_min_u32", min_u32),
    sop2("s_max_i32", max_i32), sop2("s_max_u32", max_u32),
    sop2("s_absdiff_i32", absdiff_i32),
    sop2("s_lshl1_add_u32", lshl_add<1>), sop2("s_lshl2_add_u32", lshl_add<2>),
    sop2("s_lshl3_add_u32", lshl_add<3>), sop2("s_lshl4_add_u32", lshl_add<4>),
    sop2("s_mul_i32", mul_i32), sop2("s_mul_hi_u32", mul_hi_u32), sop2("s_mul_hi_i32", mul_hi_i32),
    sop2("s_mul_u64", mul_u64, kB64),
    sop2("s_and_b32", and_<u32>), sop2("s_and_b64", and_<u64>, kB64),
    sop2("s_or_b32", or_<u32>), sop2("s_or_b64", or_<u64>, kB64),
    sop2("s_xor_b32", xor_<u32>), sop2("s_xor_b64", xor_<u64>, kB64),
    sop2("s_andn2_b32", andn2<u32>), sop2("s_andn2_b64", andn2<u64>, kB64),
    sop2("s_and_not1_b32", andn2<u32>), sop2("s_and_not1_b64", andn2<u64>, kB64),
    sop2("s_orn2_b32", orn2<u32>), sop2("s_orn2_b64", orn2<u64>, kB64),
    sop2("s_or_not1_b32", orn2<u32>), sop2("s_or_not1_b64", orn2<u64>, kB64),
    sop2("s_nand_b32", nand<u32>), sop2("s_nand_b64", nand<u64>, kB64),
    sop2("s_nor_b32", nor<u32>), sop2("s_nor_b64", nor<u64>, kB64),
    sop2("s_xnor_b32", xnor<u32>), sop2("s_xnor_b64", xnor<u64>, kB64),
    sop2("s_lshl_b32", lshl<u32>), sop2("s_lshl_b64", lshl<u64>, kB64B32),
    sop2("s_lshr_b32", lshr<u32>), sop2("s_lshr_b64", lshr<u64>, kB64B32),
    sop2("s_ashr_i32", ashr<u32>), sop2("s_ashr_i64", ashr<u64>, kB64B32),
    sop2("s_cselect_b32", cselect<u32>), sop2("s_cselect_b64", cselect<u64>, kB64),
    sop2("s_bfe_u32", bfe_unsigned<u32>), sop2("s_bfe_i32", bfe_signed<u32>),
    sop2("s_bfe_u64", bfe_unsigned<u64>, kB64B32), sop2("s_bfe_i64", bfe_signed<u64>, kB64B32),
    sop2("s_bfm_b32", bfm<u32>), sop2("s_bfm_b64", bfm<u64>, {Type::B64, Type::B32, Type::B32}),
    sop2("s_pack_ll_b32_b16", pack_ll), sop2("s_pack_lh_b32_b16", pack_lh),
    sop2("s_pack_hl_b32_b16", pack_hl), sop2("s_pack_hh_b32_b16", pack_hh),
    // SOP1
    sop1("s_mov_b32", mov<u32>), sop1("s_mov_b64", mov<u64>, kB64),
    sop1("s_cmov_b32", cmov<u32>, kB32, kReadsDst), sop1("s_cmov_b64", cmov<u64>, kB64, kReadsDst),
    sop1("s_not_b32", not_<u32>), sop1("s_not_b64", not_<u64>, kB64),
    sop1("s_brev_b32", brev<u32>), sop1("s_brev_b64", brev<u64>, kB64),
    sop1("s_wqm_b32", wqm<u32>), sop1("s_wqm_b64", wqm<u64>, kB64),
    sop1("s_quadmask_b32", quadmask<u32>), sop1("s_quadmask_b64", quadmask<u64>, kB64),
    sop1("s_bcnt0_i32_b32", bcnt0<u32>), sop1("s_bcnt0_i32_b64", bcnt0<u64>, kOf64),
    sop1("s_bcnt1_i32_b32", bcnt1<u32>), sop1("s_bcnt1_i32_b64", bcnt1<u64>, kOf64),
    sop1("s_ff0_i32_b32", find_zero<u32>), sop1("s_ff0_i32_b64", find_zero<u64>, kOf64),
    sop1("s_ff1_i32_b32", find_one<u32>), sop1("s_ff1_i32_b64", find_one<u64>, kOf64),
    sop1("s_ctz_i32_b32", find_one<u32>), sop1("s_ctz_i32_b64", find_one<u64>, kOf64),
    sop1("s_flbit_i32_b32", leading_zeros<u32>), sop1("s_flbit_i32_b64", leading_zeros<u64>, kOf64),
    sop1("s_clz_i32_u32", leading_zeros<u32>), sop1("s_clz_i32_u64", leading_zeros<u64>, kOf64),
    sop1("s_flbit_i32", leading_signs<u32>), sop1("s_flbit_i32_i64", leading_signs<u64>, kOf64),
    sop1("s_cls_i32", leading_signs<u32>), sop1("s_cls_i32_i64", leading_signs<u64>, kOf64),
    sop1("s_sext_i32_i8", sext8), sop1("s_sext_i32_i16", sext16),
    sop1("s_abs_i32", abs_i32),
    sop1("s_bitset0_b32", bitset<u32, false>, kB32, kReadsDst), sop1("s_bitset1_b32", bitset<u32, true>, kB32, kReadsDst),
    sop1("s_bitset0_b64", bitset<u64, false>, kTo64, kReadsDst), sop1("s_bitset1_b64", bitset<u64, true>, kTo64, kReadsDst),
    sop1("s_bitreplicate_b64_b32", bitreplicate, kTo64),
    // SOPK
    sopk("s_movk_i32", movk), sopk("s_cmovk_i32", cmovk, kReadsDst),
    sopk("s_addk_i32", addk, kReadsDst), sopk("s_addk_co_i32", addk, kReadsDst), sopk("s_mulk_i32", mulk, kReadsDst),
    sopc("s_cmpk_eq_i32", eq<i32, S1::Signed>), sopc("s_cmpk_lg_i32", lg<i32, S1::Signed>),
    sopc("s_cmpk_gt_i32", gt<i32, S1::Signed>), sopc("s_cmpk_ge_i32", ge<i32, S1::Signed>),
    sopc("s_cmpk_lt_i32", lt<i32, S1::Signed>), sopc("s_cmpk_le_i32", le<i32, S1::Signed>),
    sopc("s_cmpk_eq_u32", eq<u32, S1::Unsigned>), sopc("s_cmpk_lg_u32", lg<u32, S1::Unsigned>),
    sopc("s_cmpk_gt_u32", gt<u32, S1::Unsigned>), sopc("s_cmpk_ge_u32", ge<u32, S1::Unsigned>),
    sopc("s_cmpk_lt_u32", lt<u32, S1::Unsigned>), sopc("s_cmpk_le_u32", le<u32, S1::Unsigned>),
    // SOPC
    sopc("s_cmp_eq_i32", eq<i32>), sopc("s_cmp_lg_i32", lg<i32>), sopc("s_cmp_gt_i32", gt<i32>),
    sopc("s_cmp_ge_i32", ge<i32>), sopc("s_cmp_lt_i32", lt<i32>), sopc("s_cmp_le_i32", le<i32>),
    sopc("s_cmp_eq_u32", eq<u32>), sopc("s_cmp_lg_u32", lg<u32>), sopc("s_cmp_gt_u32", gt<u32>),
    sopc("s_cmp_ge_u32", ge<u32>), sopc("s_cmp_lt_u32", lt<u32>), sopc("s_cmp_le_u32", le<u32>),
    sopc("s_cmp_eq_u64", eq<u64>, kB64), sopc("s_cmp_lg_u64", lg<u64>, kB64),
    sopc("s_bitcmp0_b32", bitcmp<u32, false>), sopc("s_bitcmp1_b32", bitcmp<u32, true>),
    sopc("s_bitcmp0_b64", bitcmp<u64, false>, {Type::B64, Type::B32}),
    sopc("s_bitcmp1_b64", bitcmp<u64, true>, {Type::B64, Type::B32}),
};

}  // namespace

const Table kScalarTable{kRows, std::size(kRows)};

}  // namespace emu
