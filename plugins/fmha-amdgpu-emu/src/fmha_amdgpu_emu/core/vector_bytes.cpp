// Vector operations on the bytes of a register: permutes, sums of absolute differences, averages, saturating packs.
// CDNA3 12.11, CDNA4 VOP3, RDNA3 and RDNA4 16.12.

#include "tables.hpp"
#include "vector_rows.hpp"

namespace emu {

namespace {

uint32_t distance(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }
uint32_t byte(uint32_t x, int k) { return x >> (8 * k) & 0xff; }

// Sum of the four bytes' distances. `masked`: bytes where b is zero do not count.
template <bool masked = false> uint32_t sad4(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (int k = 0; k < 4; ++k) sum += masked && byte(b, k) == 0 ? 0 : distance(byte(a, k), byte(b, k));
  return sum;
}
uint32_t sad2(uint32_t a, uint32_t b) { return distance(lo16(a), lo16(b)) + distance(a >> 16, b >> 16); }

uint32_t saturated(uint64_t x) { return x > UINT32_MAX ? UINT32_MAX : uint32_t(x); }

MAP3(sad_u8, { return sad4(a, b) + c; })
MAP3(sad_hi_u8, { return (sad4(a, b) << 16) + c; })
MAP3(sad_u16, { return sad2(a, b) + c; })
MAP3(sad_u32, { return distance(a, b) + c; })
MAP3(msad_u8, { return sad4<true>(a, b) + c; })
MAP3(sad_u8_clamped, { return saturated(uint64_t(sad4(a, b)) + c); })
MAP3(sad_hi_u8_clamped, { return saturated((uint64_t(sad4(a, b)) << 16) + c); })
MAP3(sad_u16_clamped, { return saturated(uint64_t(sad2(a, b)) + c); })
MAP3(sad_u32_clamped, { return saturated(uint64_t(distance(a, b)) + c); })
MAP3(msad_u8_clamped, { return saturated(uint64_t(sad4<true>(a, b)) + c); })

// Four sums: S1 against the four dwords that begin at bytes 0 to 3 of S0 (64 bits), added to the words of S2.
template <bool masked> void quad_sad_words(Wave& w, const Inst& i) {
  Row room;
  WideResult out;
  const Wide a(w, i, 0), c(w, i, 2);
  const uint32_t* b = source(w, i, 1, room);
  for (int l = 0; l < kLanes; ++l) {
    uint64_t r = 0;
    for (int k = 0; k < 4; ++k) {
      const uint64_t sum = sad4<masked>(uint32_t(a[l] >> (8 * k)), b[l]) + (c[l] >> (16 * k) & 0xffff);
      r |= (i.mod.clamp && sum > 0xffff ? 0xffff : sum & 0xffff) << (16 * k);
    }
    out.set(l, r);
  }
  out.commit_to(w, i);
}

// The same with four dwords of S2 and D.
void quad_masked_sad_dwords(Wave& w, const Inst& i) {
  Row room, rc[4], out[4];
  const Wide a(w, i, 0);
  const uint32_t* b = source(w, i, 1, room);
  for (int k = 0; k < 4; ++k) {
    const uint32_t* c = source(w, i, 2, rc[k], k);
    for (int l = 0; l < kLanes; ++l) {
      const uint64_t sum = uint64_t(sad4<true>(uint32_t(a[l] >> (8 * k)), b[l])) + c[l];
      out[k].x[l] = i.mod.clamp ? saturated(sum) : uint32_t(sum);
    }
  }
  for (int k = 0; k < 4; ++k) commit(w, i, out[k], k);
}

// Bytes of {S0, S1}, chosen by the bytes of S2: 0-3 are S1's, 4-7 S0's, 8-11 signs of bytes 1, 3, 5, 7, 12 zero, above
// all ones.
uint32_t chosen_byte(uint32_t a, uint32_t b, uint32_t which) {
  const uint32_t place = which < 8 ? which : 2 * which - 15;  // a sign is that of an odd byte
  const uint32_t found = (place & 4 ? a : b) >> (8 * (place & 3)) & 0xff;
  const uint32_t sign = found & 0x80 ? 0xff : 0;
  return which < 8 ? found : which < 12 ? sign : which == 12 ? 0 : 0xff;
}
MAP3(perm_by_lane, {
  return chosen_byte(a, b, byte(c, 0)) | chosen_byte(a, b, byte(c, 1)) << 8 | chosen_byte(a, b, byte(c, 2)) << 16 |
         chosen_byte(a, b, byte(c, 3)) << 24;
})
// Usually all lanes make the same choice, of bytes that exist.
void perm(Wave& w, const Inst& i) {
  const uint32_t chosen = scalar32(w, i.src(2));
  if (i.src(2).kind == Kind::Vgpr || chosen & 0xf8f8f8f8) return perm_by_lane(w, i);
  Row ra, rb;
  const uint32_t* a = source(w, i, 0, ra);
  const uint32_t* b = source(w, i, 1, rb);
  const uint32_t* from[4];
  int at[4];
  for (int k = 0; k < 4; ++k) {
    from[k] = byte(chosen, k) & 4 ? a : b;
    at[k] = 8 * int(byte(chosen, k) & 3);
  }
  const uint32_t *f0 = from[0], *f1 = from[1], *f2 = from[2], *f3 = from[3];
  const int s0 = at[0], s1 = at[1], s2 = at[2], s3 = at[3];
  each_lane(w, i, [=](int l) {
    return (f0[l] >> s0 & 0xff) | (f1[l] >> s1 & 0xff) << 8 | (f2[l] >> s2 & 0xff) << 16 | f3[l] >> s3 << 24;
  });
}
MAP3(alignbyte, { return uint32_t((uint64_t(a) << 32 | b) >> (8 * (c & 3))); })
// Averages of bytes; bit 0 of S2's byte rounds up.
MAP3(lerp, {
  uint32_t r = 0;
  for (int k = 0; k < 4; ++k) r |= (byte(a, k) + byte(b, k) + (byte(c, k) & 1)) >> 1 << (8 * k);
  return r;
})

uint32_t to_u8(int32_t x) { return uint32_t(limited(x, 0, 255)); }
uint32_t to_i8(int32_t x) { return uint32_t(limited(x, -128, 127)) & 0xff; }
MAP1(sat_pk_u8_i16, { return to_u8(sx16(a)) | to_u8(sx16(a >> 16)) << 8; })
MAP3(ashr_pk_i8, { return to_i8(int32_t(a) >> (c & 31)) | to_i8(int32_t(b) >> (c & 31)) << 8; })
MAP3(ashr_pk_u8, { return to_u8(int32_t(a) >> (c & 31)) | to_u8(int32_t(b) >> (c & 31)) << 8; })

std::string any_clamp(Inst&, const ArchTraits&) { return ""; }

constexpr Types kQuad{Type::B64, Type::B64, Type::B32, Type::B64};
constexpr Types kQuadWide{Type::Wide, Type::B64, Type::B32, Type::Wide};
constexpr Types kToHalf{Type::B16, Type::B32, Type::B32, Type::B32};

const Entry kRows[] = {
    vop3("v_sad_u8", sad_u8, kV32, 0, clampable<sad_u8_clamped>),
    vop3("v_sad_hi_u8", sad_hi_u8, kV32, 0, clampable<sad_hi_u8_clamped>),
    vop3("v_sad_u16", sad_u16, kV32, 0, clampable<sad_u16_clamped>),
    vop3("v_sad_u32", sad_u32, kV32, 0, clampable<sad_u32_clamped>),
    vop3("v_msad_u8", msad_u8, kV32, 0, clampable<msad_u8_clamped>),
    vop3("v_qsad_pk_u16_u8", quad_sad_words<false>, kQuad, 0, any_clamp),
    vop3("v_mqsad_pk_u16_u8", quad_sad_words<true>, kQuad, 0, any_clamp),
    vop3("v_mqsad_u32_u8", quad_masked_sad_dwords, kQuadWide, 0, any_clamp),
    vop3("v_perm_b32", perm), vop3("v_alignbyte_b32", alignbyte), vop3("v_lerp_u8", lerp),
    vop1("v_sat_pk_u8_i16", sat_pk_u8_i16, {Type::B16, Type::B32}),
    vop("v_ashr_pk_i8_i32", ashr_pk_i8, "CDNA4 VOP3", kToHalf, kKeepsUpper),
    vop("v_ashr_pk_u8_i32", ashr_pk_u8, "CDNA4 VOP3", kToHalf, kKeepsUpper),
};

}  // namespace

const Table kVectorBytesTable{kRows, std::size(kRows)};

}  // namespace emu
