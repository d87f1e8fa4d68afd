// Vector integers of 64 bits: shifts, sums, products of 32-bit factors. CDNA3 12.11, RDNA3 and RDNA4 16.12 VOP3.

#include "definedness.hpp"
#include "tables.hpp"
#include "vector_rows.hpp"

namespace emu {

namespace {

// D = S1 shifted by S0[5:0].
template <class F> void shift64(Wave& w, const Inst& i, F f) {
  Row room;
  WideResult out;
  const uint32_t* by = source(w, i, 0, room);
  const Wide b(w, i, 1);
  EMU_LANES out.set(l, f(b[l], by[l] & 63));
  out.commit_to(w, i);
}
void lshlrev(Wave& w, const Inst& i) {
  shift64(w, i, [](uint64_t x, uint32_t by) { return x << by; });
}
void lshrrev(Wave& w, const Inst& i) {
  shift64(w, i, [](uint64_t x, uint32_t by) { return x >> by; });
}
void ashrrev(Wave& w, const Inst& i) {
  shift64(w, i, [](uint64_t x, uint32_t by) { return uint64_t(int64_t(x) >> by); });
}

// CDNA3: D = (S0 << S1[2:0]) + S2; only shifts of 0 to 4 are defined.
void lshl_add(Wave& w, const Inst& i) {
  Row room;
  WideResult out;
  const Wide a(w, i, 0), c(w, i, 2);
  const uint32_t* by = source(w, i, 1, room);
  EMU_LANES out.set(l, (a[l] << (by[l] & 7)) + c[l]);
  out.commit_to(w, i);
}

// {carry, D} = S0 * S1 + S2 in 65 bits; the carry goes to a lane mask.
template <class F> void mad64(Wave& w, const Inst& i, F f) {
  Row ra, rb, carry;
  WideResult out;
  const uint32_t* a = source(w, i, 0, ra);
  const uint32_t* b = source(w, i, 1, rb);
  const Wide c(w, i, 2);
  EMU_LANES {
    bool beyond;
    out.set(l, f(a[l], b[l], c[l], beyond));
    carry.x[l] = beyond;
  }
  const uint64_t exec = w.exec();
  out.commit_to(w, i);
  set_mask_of(w, i.op[1], nonzero(carry.x) & exec);
}
void mad_u64_u32(Wave& w, const Inst& i) {
  mad64(w, i, [](uint32_t a, uint32_t b, uint64_t c, bool& beyond) {
    const uint64_t r = uint64_t(a) * b + c;
    beyond = r < c;
    return r;
  });
}
void mad_i64_i32(Wave& w, const Inst& i) {
  mad64(w, i, [](uint32_t a, uint32_t b, uint64_t c, bool& beyond) {
    const uint64_t product = uint64_t(int64_t(int32_t(a)) * int32_t(b)), r = product + c;
    beyond = (product >> 63 ^ c >> 63 ^ uint64_t(r < c)) & 1;  // bit 64 of the sign-extended sum
    return r;
  });
}

constexpr Types kMad{Type::B64, Type::B64, Type::B32, Type::B32, Type::B64};
constexpr Types kShift{Type::B64, Type::B32, Type::B64};

constexpr Entry mad(const char* name, Handler run) {
  return {name, run, 2, Class::Valu, Flow::Lane, kCarriesUp, kMad, no_clamp, "CDNA3 12.11, RDNA4 16.12 VOP3"};
}

const Entry kRows[] = {
    vop3("v_lshlrev_b64", lshlrev, kShift, kCarriesUp), vop3("v_lshrrev_b64", lshrrev, kShift),
    vop3("v_ashrrev_i64", ashrrev, kShift),
    vop("v_lshl_add_u64", lshl_add, "CDNA3 12.11 VOP3", {Type::B64, Type::B64, Type::B32, Type::B64}, kCarriesUp),
    mad("v_mad_u64_u32", mad_u64_u32), mad("v_mad_co_u64_u32", mad_u64_u32),
    mad("v_mad_i64_i32", mad_i64_i32), mad("v_mad_co_i64_i32", mad_i64_i32),
};

}  // namespace

const Table kVectorInt64Table{kRows, std::size(kRows)};

}  // namespace emu
