// Vector integers of 16 bits. CDNA3 12.7, 12.8, 12.11 and "16-bit"; RDNA3 and RDNA4 16.7, 16.8, 16.12. dpp.cpp decides
// which half of a register they read and write: a source arrives in the low 16 bits, with anything above it.

#include "tables.hpp"
#include "vector_rows.hpp"

namespace emu {

namespace {

uint32_t to_int16(int32_t x) { return uint32_t(limited(x, -32768, 32767)); }
uint32_t to_uint16(int64_t x) { return uint32_t(limited<int64_t>(x, 0, 65535)); }

MAP2(add, { return lo16(a + b); })
MAP2(sub, { return lo16(a - b); })
MAP2(subrev, { return lo16(b - a); })
MAP2(add_u_clamped, { return to_uint16(lo16(a) + lo16(b)); })
MAP2(sub_u_clamped, { return to_uint16(int32_t(lo16(a)) - int32_t(lo16(b))); })
MAP2(subrev_u_clamped, { return to_uint16(int32_t(lo16(b)) - int32_t(lo16(a))); })
MAP2(add_i_clamped, { return lo16(to_int16(sx16(a) + sx16(b))); })
MAP2(sub_i_clamped, { return lo16(to_int16(sx16(a) - sx16(b))); })
MAP2(mul_lo, { return lo16(a * b); })
MAP3(mad, { return lo16(a * b + c); })
MAP3(mad_u_clamped, { return to_uint16(int64_t(lo16(a)) * lo16(b) + lo16(c)); })
MAP3(mad_i_clamped, { return lo16(to_int16(sx16(a) * sx16(b) + sx16(c))); })
MAP3(mad_u32, { return lo16(a) * lo16(b) + c; })
MAP3(mad_i32, { return uint32_t(sx16(a) * sx16(b)) + c; })
MAP3(mad_u32_clamped, { return uint32_t(limited<int64_t>(int64_t(lo16(a)) * lo16(b) + c, 0, UINT32_MAX)); })
MAP3(mad_i32_clamped, {
  return uint32_t(limited<int64_t>(int64_t(sx16(a)) * sx16(b) + int32_t(c), INT32_MIN, INT32_MAX));
})

MAP1(not_, { return lo16(~a); })
MAP2(and_, { return lo16(a & b); })
MAP2(or_, { return lo16(a | b); })
MAP2(xor_, { return lo16(a ^ b); })
MAP2(lshlrev, { return lo16(b << (a & 15)); })
MAP2(lshrrev, { return lo16(b) >> (a & 15); })
MAP2(ashrrev, { return lo16(uint32_t(sx16(b) >> (a & 15))); })

int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }
int32_t middle(int32_t a, int32_t b, int32_t c) { return most(least(a, b), least(most(a, b), c)); }
int32_t ux16(uint32_t x) { return int32_t(x & 0xffff); }
MAP2(min_i, { return lo16(uint32_t(least(sx16(a), sx16(b)))); })
MAP2(max_i, { return lo16(uint32_t(most(sx16(a), sx16(b)))); })
MAP2(min_u, { return uint32_t(least(ux16(a), ux16(b))); })
MAP2(max_u, { return uint32_t(most(ux16(a), ux16(b))); })
MAP3(min3_i, { return lo16(uint32_t(least(least(sx16(a), sx16(b)), sx16(c)))); })
MAP3(max3_i, { return lo16(uint32_t(most(most(sx16(a), sx16(b)), sx16(c)))); })
MAP3(med3_i, { return lo16(uint32_t(middle(sx16(a), sx16(b), sx16(c)))); })
MAP3(min3_u, { return uint32_t(least(least(ux16(a), ux16(b)), ux16(c))); })
MAP3(max3_u, { return uint32_t(most(most(ux16(a), ux16(b)), ux16(c))); })
MAP3(med3_u, { return uint32_t(middle(ux16(a), ux16(b), ux16(c))); })

constexpr Types kMad32{Type::B32, Type::B16, Type::B16, Type::B32};
constexpr Binder kAddU = clampable<add_u_clamped>, kSubU = clampable<sub_u_clamped>,
                 kSubrevU = clampable<subrev_u_clamped>, kAddI = clampable<add_i_clamped>,
                 kSubI = clampable<sub_i_clamped>, kMadU = clampable<mad_u_clamped>, kMadI = clampable<mad_i_clamped>;

const Entry kRows[] = {
    vop2("v_add_u16", add, kV16, 0, kAddU), vop3("v_add_nc_u16", add, kV16, kKeepsUpper, kAddU),
    vop2("v_sub_u16", sub, kV16, 0, kSubU), vop3("v_sub_nc_u16", sub, kV16, kKeepsUpper, kSubU),
    vop2("v_subrev_u16", subrev, kV16, 0, kSubrevU),
    vop3("v_add_i16", add, kV16, kKeepsUpper, kAddI), vop3("v_add_nc_i16", add, kV16, kKeepsUpper, kAddI),
    vop3("v_sub_i16", sub, kV16, kKeepsUpper, kSubI), vop3("v_sub_nc_i16", sub, kV16, kKeepsUpper, kSubI),
    vop2("v_mul_lo_u16", mul_lo, kV16),
    vop3("v_mad_u16", mad, kV16, kKeepsUpper, kMadU), vop3("v_mad_i16", mad, kV16, kKeepsUpper, kMadI),
    vop3("v_mad_legacy_u16", mad, kV16, 0, kMadU), vop3("v_mad_legacy_i16", mad, kV16, 0, kMadI),
    vop3("v_mad_u32_u16", mad_u32, kMad32, 0, clampable<mad_u32_clamped>),
    vop3("v_mad_i32_i16", mad_i32, kMad32, 0, clampable<mad_i32_clamped>),

    vop1("v_not_b16", not_, kV16), vop3("v_and_b16", and_, kV16), vop3("v_or_b16", or_, kV16),
    vop3("v_xor_b16", xor_, kV16), vop2("v_lshlrev_b16", lshlrev, kV16), vop2("v_lshrrev_b16", lshrrev, kV16),
    vop2("v_ashrrev_i16", ashrrev, kV16),

    vop2("v_min_i16", min_i, kV16), vop2("v_max_i16", max_i, kV16), vop2("v_min_u16", min_u, kV16),
    vop2("v_max_u16", max_u, kV16),
    vop3("v_min3_i16", min3_i, kV16, kKeepsUpper), vop3("v_max3_i16", max3_i, kV16, kKeepsUpper),
    vop3("v_med3_i16", med3_i, kV16, kKeepsUpper), vop3("v_min3_u16", min3_u, kV16, kKeepsUpper),
    vop3("v_max3_u16", max3_u, kV16, kKeepsUpper), vop3("v_med3_u16", med3_u, kV16, kKeepsUpper),
};

}  // namespace

const Table kVectorInt16Table{kRows, std::size(kRows)};

}  // namespace emu
