// Vector integers and bits of 32 bits: VOP1 and VOP2, sums with carry, three-operand forms.
// CDNA3 12.7, 12.8, 12.11; RDNA3 and RDNA4 16.7, 16.8, 16.12. 64-bit, 16-bit and bytewise ones: vector_int64.cpp,
// vector_int16.cpp, vector_bytes.cpp.

#include "tables.hpp"
#include "vector_rows.hpp"

namespace emu {

namespace {

// ---- sums ----

MAP2(add, { return a + b; })
MAP2(sub, { return a - b; })
MAP2(subrev, { return b - a; })
MAP2(add_u_clamped, { return a + b < a ? ~0u : a + b; })
MAP2(sub_u_clamped, { return a < b ? 0 : a - b; })
MAP2(subrev_u_clamped, { return b < a ? 0 : b - a; })
int32_t to_int32(int64_t x) { return int32_t(limited<int64_t>(x, INT32_MIN, INT32_MAX)); }
uint32_t to_uint32(int64_t x) { return uint32_t(limited<int64_t>(x, 0, UINT32_MAX)); }
MAP2(add_i_clamped, { return uint32_t(to_int32(int64_t(int32_t(a)) + int32_t(b))); })
MAP2(sub_i_clamped, { return uint32_t(to_int32(int64_t(int32_t(a)) - int32_t(b))); })

// op[1] receives the carry or borrow of the active lanes, and zeros elsewhere. S2 is the incoming carry.
template <bool kIn, class F> void with_carry(Wave& w, const Inst& i, F f) {
  Row ra, rb, in, out, carry;
  const uint32_t* a = source(w, i, 0, ra);
  const uint32_t* b = source(w, i, 1, rb);
  if constexpr (kIn) {
    spread(mask_of(w, i.src(2)), in.x);
    EMU_LANES out.x[l] = f(a[l], b[l], in.x[l], carry.x[l]);
  } else {
    EMU_LANES out.x[l] = f(a[l], b[l], 0u, carry.x[l]);
  }
  const uint64_t exec = w.exec();
  commit(w, i, out);
  set_mask_of(w, i.op[1], nonzero(carry.x) & exec);
}
uint32_t sum(uint32_t a, uint32_t b, uint32_t in, uint32_t& carry) {
  const uint32_t part = a + b, r = part + in;
  carry = (part < a) + (r < part);
  return r;
}
uint32_t difference(uint32_t a, uint32_t b, uint32_t in, uint32_t& borrow) {
  const uint32_t part = a - b;
  borrow = (a < b) + (part < in);
  return part - in;
}
#define CARRY(name, in, expression)                                                                        \
  void name(Wave& w, const Inst& i) {                                                                      \
    with_carry<in>(w, i, [](uint32_t a, uint32_t b, uint32_t c, uint32_t& carry) { return expression; });  \
  }
CARRY(add_co, false, sum(a, b, c, carry))
CARRY(sub_co, false, difference(a, b, c, carry))
CARRY(subrev_co, false, difference(b, a, c, carry))
CARRY(add_co_ci, true, sum(a, b, c, carry))
CARRY(sub_co_ci, true, difference(a, b, c, carry))
CARRY(subrev_co_ci, true, difference(b, a, c, carry))

// ---- products ----

MAP2(mul_lo, { return a * b; })
MAP2(mul_hi_u32, { return uint32_t(uint64_t(a) * b >> 32); })
MAP2(mul_hi_i32, { return uint32_t(int64_t(int32_t(a)) * int32_t(b) >> 32); })
MAP2(mul_u24, { return lo24(a) * lo24(b); })
MAP2(mul_i24, { return uint32_t(sx24(a)) * uint32_t(sx24(b)); })
MAP2(mul_hi_u24, { return uint32_t(uint64_t(lo24(a)) * lo24(b) >> 32); })
MAP2(mul_hi_i24, { return uint32_t(int64_t(sx24(a)) * sx24(b) >> 32); })
MAP3(mad_u24, { return lo24(a) * lo24(b) + c; })
MAP3(mad_i24, { return uint32_t(sx24(a)) * uint32_t(sx24(b)) + c; })
MAP3(mad_u24_clamped, { return to_uint32(int64_t(lo24(a)) * lo24(b) + c); })
MAP3(mad_i24_clamped, { return uint32_t(to_int32(int64_t(sx24(a)) * sx24(b) + int32_t(c))); })

// ---- bits ----

MAP1(not_, { return ~a; })
MAP2(and_, { return a & b; })
MAP2(or_, { return a | b; })
MAP2(xor_, { return a ^ b; })
MAP2(xnor, { return ~(a ^ b); })
MAP2(lshlrev, { return b << (a & 31); })
MAP2(lshrrev, { return b >> (a & 31); })
MAP2(ashrrev, { return uint32_t(int32_t(b) >> (a & 31)); })
MAP2(bfm, { return ((1u << (a & 31)) - 1) << (b & 31); })
MAP2(bcnt, { return uint32_t(std::popcount(a)) + b; })
MAP1(clz, { return a ? uint32_t(std::countl_zero(a)) : ~0u; })
MAP1(ctz, { return a ? uint32_t(std::countr_zero(a)) : ~0u; })
// The first bit from the top that differs from the sign.
MAP1(cls, { const uint32_t x = a ^ uint32_t(int32_t(a) >> 31); return x ? uint32_t(std::countl_zero(x)) : ~0u; })
MAP1(bfrev, {
  a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
  a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
  a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
  a = (a >> 8 & 0x00ff00ff) | (a & 0x00ff00ff) << 8;
  return a >> 16 | a << 16;
})
// CDNA4: one step of a linear feedback shift register.
MAP1(prng, { return a << 1 ^ (a >> 31 ? 197 : 0); })

MAP3(bfe_u32, { return a >> (b & 31) & ((1u << (c & 31)) - 1); })
MAP3(bfe_i32, {
  const uint32_t width = c & 31, field = uint32_t(int32_t(a) >> (b & 31)), room = (32 - width) & 31;
  return width ? uint32_t(int32_t(field << room) >> room) : 0;
})
MAP3(bfi, { return (a & b) | (~a & c); })
MAP3(alignbit, { return uint32_t((uint64_t(a) << 32 | b) >> (c & 31)); })
MAP3(and_or, { return (a & b) | c; })
MAP3(or3, { return a | b | c; })
MAP3(xor3, { return a ^ b ^ c; })
MAP3(xad, { return (a ^ b) + c; })
MAP3(lshl_or, { return a << (b & 31) | c; })
MAP3(lshl_add, { return (a << (b & 31)) + c; })
MAP3(add_lshl, { return (a + b) << (c & 31); })
MAP3(add3, { return a + b + c; })

// CDNA4: bit by bit, the table's entry at index {S0, S1, S2}.
void bitop3(Wave& w, const Inst& i) {
  uint32_t table[8];
  for (int k = 0; k < 8; ++k) table[k] = i.mod.bitop3 >> k & 1 ? ~0u : 0;
  map3(w, i, [&table](uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t zero = (~c & ((~b & table[0]) | (b & table[2]))) | (c & ((~b & table[1]) | (b & table[3])));
    const uint32_t one = (~c & ((~b & table[4]) | (b & table[6]))) | (c & ((~b & table[5]) | (b & table[7])));
    return (~a & zero) | (a & one);
  });
}

// ---- least, greatest, middle ----

uint32_t smin(uint32_t a, uint32_t b) { return int32_t(a) < int32_t(b) ? a : b; }
uint32_t smax(uint32_t a, uint32_t b) { return int32_t(a) > int32_t(b) ? a : b; }
uint32_t umin(uint32_t a, uint32_t b) { return a < b ? a : b; }
uint32_t umax(uint32_t a, uint32_t b) { return a > b ? a : b; }
MAP2(min_i32, { return smin(a, b); })
MAP2(max_i32, { return smax(a, b); })
MAP2(min_u32, { return umin(a, b); })
MAP2(max_u32, { return umax(a, b); })
MAP3(min3_i32, { return smin(smin(a, b), c); })
MAP3(max3_i32, { return smax(smax(a, b), c); })
MAP3(min3_u32, { return umin(umin(a, b), c); })
MAP3(max3_u32, { return umax(umax(a, b), c); })
MAP3(med3_i32, { return smax(smin(a, b), smin(smax(a, b), c)); })
MAP3(med3_u32, { return umax(umin(a, b), umin(umax(a, b), c)); })
MAP3(maxmin_i32, { return smin(smax(a, b), c); })
MAP3(minmax_i32, { return smax(smin(a, b), c); })
MAP3(maxmin_u32, { return umin(umax(a, b), c); })
MAP3(minmax_u32, { return umax(umin(a, b), c); })

constexpr Entry carries(const char* name, Handler run) {
  return {name, run, 2, Class::Valu, Flow::Lane, 0, {Type::B32, Type::B64, Type::B32, Type::B32, Type::B64}, no_clamp,
          "CDNA3 12.7, RDNA4 16.7 VOP2"};
}

constexpr Binder kAddU = clampable<add_u_clamped>, kSubU = clampable<sub_u_clamped>,
                 kSubrevU = clampable<subrev_u_clamped>, kAddI = clampable<add_i_clamped>,
                 kSubI = clampable<sub_i_clamped>;

const Entry kRows[] = {
    vop2("v_add_u32", add, kV32, 0, kAddU), vop2("v_add_nc_u32", add, kV32, 0, kAddU),
    vop2("v_sub_u32", sub, kV32, 0, kSubU), vop2("v_sub_nc_u32", sub, kV32, 0, kSubU),
    vop2("v_subrev_u32", subrev, kV32, 0, kSubrevU), vop2("v_subrev_nc_u32", subrev, kV32, 0, kSubrevU),
    vop3("v_add_i32", add, kV32, 0, kAddI), vop3("v_add_nc_i32", add, kV32, 0, kAddI),
    vop3("v_sub_i32", sub, kV32, 0, kSubI), vop3("v_sub_nc_i32", sub, kV32, 0, kSubI),
    carries("v_add_co_u32", add_co), carries("v_sub_co_u32", sub_co), carries("v_subrev_co_u32", subrev_co),
    carries("v_addc_co_u32", add_co_ci), carries("v_add_co_ci_u32", add_co_ci),
    carries("v_subb_co_u32", sub_co_ci), carries("v_sub_co_ci_u32", sub_co_ci),
    carries("v_subbrev_co_u32", subrev_co_ci), carries("v_subrev_co_ci_u32", subrev_co_ci),

    vop3("v_mul_lo_u32", mul_lo), vop3("v_mul_lo_i32", mul_lo),
    vop3("v_mul_hi_u32", mul_hi_u32), vop3("v_mul_hi_i32", mul_hi_i32),
    vop2("v_mul_u32_u24", mul_u24), vop2("v_mul_i32_i24", mul_i24),
    vop2("v_mul_hi_u32_u24", mul_hi_u24), vop2("v_mul_hi_i32_i24", mul_hi_i24),
    vop3("v_mad_u32_u24", mad_u24, kV32, 0, clampable<mad_u24_clamped>),
    vop3("v_mad_i32_i24", mad_i24, kV32, 0, clampable<mad_i24_clamped>),

    vop1("v_not_b32", not_), vop2("v_and_b32", and_), vop2("v_or_b32", or_), vop2("v_xor_b32", xor_),
    vop2("v_xnor_b32", xnor), vop2("v_lshlrev_b32", lshlrev), vop2("v_lshrrev_b32", lshrrev),
    vop2("v_ashrrev_i32", ashrrev), vop3("v_bfm_b32", bfm), vop3("v_bcnt_u32_b32", bcnt),
    vop1("v_ffbh_u32", clz), vop1("v_clz_i32_u32", clz), vop1("v_ffbl_b32", ctz), vop1("v_ctz_i32_b32", ctz),
    vop1("v_ffbh_i32", cls), vop1("v_cls_i32", cls), vop1("v_bfrev_b32", bfrev),
    vop("v_prng_b32", prng, "CDNA4 VOP1"),

    vop3("v_bfe_u32", bfe_u32), vop3("v_bfe_i32", bfe_i32), vop3("v_bfi_b32", bfi), vop3("v_alignbit_b32", alignbit),
    vop3("v_and_or_b32", and_or), vop3("v_or3_b32", or3), vop3("v_xor3_b32", xor3), vop3("v_xad_u32", xad),
    vop3("v_lshl_or_b32", lshl_or), vop3("v_lshl_add_u32", lshl_add), vop3("v_add_lshl_u32", add_lshl),
    vop3("v_add3_u32", add3),
    vop("v_bitop3_b32", bitop3, "CDNA4 VOP3"), vop("v_bitop3_b16", bitop3, "CDNA4 VOP3", kV16, kKeepsUpper),

    vop2("v_min_i32", min_i32), vop2("v_max_i32", max_i32), vop2("v_min_u32", min_u32), vop2("v_max_u32", max_u32),
    vop3("v_min3_i32", min3_i32), vop3("v_max3_i32", max3_i32), vop3("v_med3_i32", med3_i32),
    vop3("v_min3_u32", min3_u32), vop3("v_max3_u32", max3_u32), vop3("v_med3_u32", med3_u32),
    vop3("v_maxmin_i32", maxmin_i32), vop3("v_minmax_i32", minmax_i32),
    vop3("v_maxmin_u32", maxmin_u32), vop3("v_minmax_u32", minmax_u32),
};

}  // namespace

const Table kVectorIntTable{kRows, std::size(kRows)};

}  // namespace emu
