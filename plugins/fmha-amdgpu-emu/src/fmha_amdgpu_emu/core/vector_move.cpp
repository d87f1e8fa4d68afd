// Vector moves: copies, selects by a mask, exchanges with scalars and accumulators, counts of lanes before this one.
// CDNA3 12.7, 12.8, 12.10, 12.11; RDNA3 and RDNA4 16.7, 16.8, 16.12. Permutes of lanes: vector_lanes.cpp.

#include "tables.hpp"
#include "vector_rows.hpp"

namespace emu {

namespace {

void nothing(Wave&, const Inst&) {}

// A source is a whole row, the register's own or a copy.
const Row& row_of(const uint32_t* lanes) { return *reinterpret_cast<const Row*>(lanes); }

void mov(Wave& w, const Inst& i) {
  Row room;
  commit(w, i, row_of(source(w, i, 0, room)));
}

void mov64(Wave& w, const Inst& i) {
  const Wide a(w, i, 0);
  const Row hi = row_of(a.hi);  // the destination may begin where the source ends
  commit(w, i, row_of(a.lo), 0);
  commit(w, i, hi, 1);
}

// ---- selects ----

// Input modifiers of a select change only the sign bit (CDNA3 12.7 V_CNDMASK_B32: "floating-point modifiers are valid
// in VOP3 and SDWA"); `sign` is that bit.
void modified(const Operand& op, const uint32_t*& from, Row& room, uint32_t sign) {
  if (!op.neg && !op.abs) return;
  const uint32_t keep = op.abs ? ~sign : ~0u, flip = op.neg ? sign : 0;
  for (int l = 0; l < kLanes; ++l) room.x[l] = (from[l] & keep) ^ flip;
  from = room.x;
}

void cndmask(Wave& w, const Inst& i) {
  Row ra, rb, out;
  const uint32_t* a = source(w, i, 0, ra);
  const uint32_t* b = source(w, i, 1, rb);
  const uint32_t sign = is_half(i.entry->types[0]) ? 0x8000 : 0x80000000;
  modified(i.src(0), a, ra, sign);
  modified(i.src(1), b, rb, sign);
  const uint64_t mask = mask_of(w, i.src(2));
  std::memcpy(out.x, a, sizeof out.x);
  blend(out.x, b, mask);
  commit(w, i, out);
}

// ---- between lanes and scalars ----

// The first active lane; lane 0 when there is none (CDNA3 12.8 V_READFIRSTLANE_B32).
void readfirstlane(Wave& w, const Inst& i) {
  const uint64_t exec = w.exec();
  Row room;
  const uint32_t* a = source(w, i, 0, room);
  set_scalar32(w, i.op[0], a[exec ? std::countr_zero(exec) : 0]);
}

void readlane(Wave& w, const Inst& i) {
  Row room;
  const uint32_t* a = source(w, i, 0, room);
  set_scalar32(w, i.op[0], a[scalar32(w, i.src(1)) & uint32_t(w.lanes - 1)]);
}

void writelane(Wave& w, const Inst& i) {
  w.v[i.op[0].reg].x[scalar32(w, i.src(1)) & uint32_t(w.lanes - 1)] = scalar32(w, i.src(0));
}

std::string scalar_destination(Inst& i, const ArchTraits&) {
  return i.op[0].kind == Kind::Sgpr || i.op[0].kind == Kind::Null ? "" : "its destination is not a scalar register";
}

// ---- lanes before this one ----

struct Below {
  uint32_t x[2][kLanes];
};
// The lanes below each lane: of 0-31, of 32-63.
constexpr Below kBelow = [] {
  Below out{};
  for (int l = 0; l < kLanes; ++l)
    for (int k = 0; k < 2; ++k) out.x[k][l] = uint32_t(((uint64_t(1) << l) - 1) >> (32 * k));
  return out;
}();

// D = bits of S0 below this lane's, in lanes 0-31 (lo) or 32-63 (hi), + S1. S0 is a mask, or each lane's own.
template <int kHalf> void mbcnt(Wave& w, const Inst& i) {
  Row ra, rb;
  const uint32_t* a = source(w, i, 0, ra);
  const uint32_t* b = source(w, i, 1, rb);
  each_lane(w, i, [=](int l) { return uint32_t(std::popcount(a[l] & kBelow.x[kHalf][l])) + b[l]; });
}

constexpr Types kB16{Type::B16, Type::B16, Type::B16, Type::B64};

constexpr Entry row(const char* name, Handler run, Flow flow, uint32_t flags, Types types, Binder bind, const char* source) {
  return {name, run, 1, Class::Valu, flow, flags, types, bind, source};
}
constexpr const char* kVop1 = "CDNA3 12.8, RDNA4 16.8 VOP1";
constexpr const char* kVop2 = "CDNA3 12.7, RDNA4 16.7 VOP2";
constexpr const char* kVop3 = "CDNA3 12.11, RDNA4 16.12 VOP3";

const Entry kRows[] = {
    {"v_nop", nothing, 0, Class::Valu, Flow::Defined, 0, {}, nullptr, kVop1},
    {"v_clrexcp", nothing, 0, Class::Valu, Flow::Defined, 0, {}, nullptr, kVop1},
    {"v_pipeflush", nothing, 0, Class::Valu, Flow::Defined, 0, {}, nullptr, kVop1},
    vop1("v_mov_b32", mov),
    vop1("v_mov_b16", mov, {Type::B16, Type::B16}),
    vop("v_mov_b64", mov64, "CDNA3 12.8 VOP1", {Type::B64, Type::B64}),
    // AccVGPRs are registers 256 to 511 here. CDNA3 12.10 (VOP3P) and 12.8.
    row("v_accvgpr_read_b32", mov, Flow::Lane, 0, kV32, nullptr, "CDNA3 12.10 VOP3P"),
    row("v_accvgpr_write_b32", mov, Flow::Lane, 0, kV32, nullptr, "CDNA3 12.10 VOP3P"),
    row("v_accvgpr_mov_b32", mov, Flow::Lane, 0, kV32, nullptr, "CDNA3 12.8 VOP1"),
    row("v_cndmask_b32", cndmask, Flow::Select, 0, {Type::B32, Type::F32, Type::F32, Type::B64}, no_clamp, kVop2),
    row("v_cndmask_b16", cndmask, Flow::Select, 0, kB16, no_clamp, "RDNA3 16.12, RDNA4 16.12 VOP3"),
    row("v_readfirstlane_b32", readfirstlane, Flow::ReadLane, kReadsExec, kV32, scalar_destination, kVop1),
    row("v_readlane_b32", readlane, Flow::ReadLane, kIgnoresExec, kV32, scalar_destination, kVop3),
    row("v_writelane_b32", writelane, Flow::WriteLane, kIgnoresExec, kV32, nullptr, kVop3),
    vop3("v_mbcnt_lo_u32_b32", mbcnt<0>), vop3("v_mbcnt_hi_u32_b32", mbcnt<1>),
};

}  // namespace

const Table kVectorMoveTable{kRows, std::size(kRows)};

}  // namespace emu
