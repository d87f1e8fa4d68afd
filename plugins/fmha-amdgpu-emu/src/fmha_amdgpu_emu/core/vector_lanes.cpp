// Vector data across lanes and registers chosen at run time: permutes within rows, swaps of rows and registers, moves
// through M0. CDNA4 VOP1 (V_PERMLANE*_SWAP), RDNA3 and RDNA4 16.8 VOP1 and 16.12 VOP3 (V_PERMLANE*).
// These handlers keep the books about defined lanes themselves (Flow::Custom).

#include "report.hpp"
#include "tables.hpp"
#include "vector_rows.hpp"

namespace emu {

namespace {

void become(Wave& w, int reg, uint64_t written, uint64_t defined) {
  if (!w.track.on) return;
  undefine(w, reg, written & ~defined);
  define(w, reg, written & defined);
}

uint64_t known_lanes(const Wave& w, int reg) { return w.track.on ? defined_lanes(w, reg) : w.full; }

// ---- gathers ----

// What a lane does when EXEC switches its source lane off: it reads the lane anyway, reads zero, or is not written.
struct Absent {
  bool fetch, zero;
};

// D[l] = S0[from(l)].
template <class F> void gather(Wave& w, const Inst& i, Absent absent, F from) {
  const Row data = w.v[i.src(0).reg];
  const uint64_t exec = w.exec(), known = known_lanes(w, i.src(0).reg);
  Row out;
  uint64_t written = 0, defined = 0;
  for (int l = 0; l < w.lanes; ++l) {
    const int at = from(l);
    const bool there = absent.fetch || exec >> at & 1;
    out.x[l] = there ? data.x[at] : 0;
    written |= uint64_t(there || absent.zero) << l;
    defined |= (there ? known >> at & 1 : 1) << l;
  }
  written &= exec;
  blend(w.v[i.op[0].reg].x, out.x, written);
  become(w, i.op[0].reg, written, defined);
}

// op_sel is FI and BOUND_CTRL here.
Absent by_op_sel(const Inst& i) { return {bool(i.mod.op_sel & 1), bool(i.mod.op_sel & 2)}; }

// Four bits of S1 and S2 for each lane of a row. `other`: the source is in the neighbouring row.
template <bool kOther> void permlane16(Wave& w, const Inst& i) {
  const uint64_t chosen = scalar32(w, i.src(1)) | uint64_t(scalar32(w, i.src(2))) << 32;
  gather(w, i, by_op_sel(i), [chosen](int l) {
    return ((l & ~15) ^ (kOther ? 16 : 0)) | int(chosen >> (4 * (l & 15)) & 15);
  });
}
// The same, with the lane's own choice in S1.
template <bool kOther> void permlane16_var(Wave& w, const Inst& i) {
  const Row chosen = w.v[i.src(1).reg];
  gather(w, i, by_op_sel(i), [&chosen](int l) {
    return ((l & ~15) ^ (kOther ? 16 : 0)) | int(chosen.x[l] & 15);
  });
}
// Exchanges lanes 0-31 with lanes 32-63; on wave32 nothing happens.
void permlane64(Wave& w, const Inst& i) {
  if (w.lanes == 64) gather(w, i, {true, true}, [](int l) { return l ^ 32; });
}

// ---- swaps between two registers ----

// Exchanges the upper `kRow` lanes of each pair of rows of op[0] with the lower ones of op[1].
template <int kRow> void permlane_swap(Wave& w, const Inst& i) {
  constexpr uint64_t kUpper = kRow == 16 ? 0xffff0000ffff0000 : 0xffffffff00000000;
  const int a = i.op[0].reg, b = i.op[1].reg;
  const uint64_t exec = w.exec(), there = i.mod.fi ? w.full : exec, known_a = known_lanes(w, a), known_b = known_lanes(w, b);
  Row out_a = w.v[a], out_b = w.v[b];
  for (int at = 0; at < kLanes; at += 2 * kRow) std::swap_ranges(out_a.x + at + kRow, out_a.x + at + 2 * kRow, out_b.x + at);
  // A lane whose partner is off reads zero with BOUND_CTRL, and without it is not written.
  const uint64_t partner = (there & kUpper) >> kRow | (there & ~kUpper) << kRow;
  const uint64_t written = exec & (i.mod.bound_ctrl ? ~uint64_t(0) : partner);
  if (i.mod.bound_ctrl && partner != w.full)
    for (int l = 0; l < kLanes; ++l)
      if (!(partner >> l & 1)) (kUpper >> l & 1 ? out_a : out_b).x[l] = 0;
  blend(w.v[a].x, out_a.x, written & kUpper);
  blend(w.v[b].x, out_b.x, written & ~kUpper);
  become(w, a, written & kUpper, (known_b & ~kUpper) << kRow | ~partner);
  become(w, b, written & ~kUpper, (known_a & kUpper) >> kRow | ~partner);
}

void exchange(Wave& w, int a, int b) {
  const Row old = w.v[a];
  const uint64_t exec = w.exec(), known_a = known_lanes(w, a), known_b = known_lanes(w, b);
  blend(w.v[a].x, w.v[b].x, exec);
  blend(w.v[b].x, old.x, exec);
  become(w, a, exec, known_b);
  become(w, b, exec, known_a);
}
void swap(Wave& w, const Inst& i) { exchange(w, i.op[0].reg, i.op[1].reg); }

// Halves of one or two registers. The books do not know definedness by halves.
void swap16(Wave& w, const Inst& i) {
  const int a = i.op[0].reg, b = i.op[1].reg, at_a = i.op[0].half == 2 ? 16 : 0, at_b = i.op[1].half == 2 ? 16 : 0;
  const uint64_t exec = w.exec(), known = known_lanes(w, a) & known_lanes(w, b);
  for (int l = 0; l < kLanes; ++l) {
    if (!(exec >> l & 1)) continue;
    const uint32_t x = w.v[a].x[l] >> at_a & 0xffff, y = w.v[b].x[l] >> at_b & 0xffff;
    w.v[a].x[l] = (w.v[a].x[l] & ~(0xffffu << at_a)) | y << at_a;
    w.v[b].x[l] = (w.v[b].x[l] & ~(0xffffu << at_b)) | x << at_b;
  }
  become(w, a, exec, known);
  become(w, b, exec, known);
}

// ---- registers through M0 ----

int relative(const Operand& op, uint32_t by) {
  const uint32_t reg = op.reg + by;
  if (op.kind != Kind::Vgpr || reg >= 256) throw Unexecutable{"M0 leads beyond the vector registers"};
  return int(reg);
}
void move_relative(Wave& w, const Inst& i, uint32_t to_by, uint32_t from_by) {
  Row room;
  uint64_t known = w.full;
  const Operand& op = i.src(0);
  if (op.kind == Kind::Vgpr) {
    const int from = relative(op, from_by);
    room = w.v[from];
    known = known_lanes(w, from);
  } else {
    fill(room.x, scalar32(w, op));
  }
  const int to = relative(i.op[0], to_by);
  blend(w.v[to].x, room.x, w.exec());
  become(w, to, w.exec(), known);
}
uint32_t lower_index(const Wave& w) { return w.s[kM0] & 0x3ff; }
uint32_t upper_index(const Wave& w) { return w.s[kM0] >> 16 & 0x3ff; }
void movrels(Wave& w, const Inst& i) { move_relative(w, i, 0, w.s[kM0]); }
void movreld(Wave& w, const Inst& i) { move_relative(w, i, w.s[kM0], 0); }
void movrelsd(Wave& w, const Inst& i) { move_relative(w, i, w.s[kM0], w.s[kM0]); }
void movrelsd_2(Wave& w, const Inst& i) { move_relative(w, i, upper_index(w), lower_index(w)); }
void swaprel(Wave& w, const Inst& i) {
  exchange(w, relative(i.op[0], upper_index(w)), relative(i.op[1], lower_index(w)));
}

// ---- what the text does not say ----

std::string registers_only(const Inst& i) {
  if (i.mod.dpp != Dpp::None || i.mod.sdwa) return "it is implemented only without DPP and SDWA";
  return i.op[0].kind == Kind::Vgpr ? "" : "its destination is not a vector register";
}
std::string gathers(Inst& i, const ArchTraits&) {
  if (i.src(0).kind != Kind::Vgpr) return "its source is not a vector register";
  return registers_only(i);
}
std::string varying(Inst& i, const ArchTraits& arch) {
  if (i.src(1).kind != Kind::Vgpr) return "its choice of lanes is not a vector register";
  return gathers(i, arch);
}
// Both registers are read and written.
std::string both_ways(Inst& i, const ArchTraits&) {
  for (int k = 0; k < 2; ++k) {
    if (i.op[k].kind != Kind::Vgpr) return "its operands are not both vector registers";
    i.v_reads.set(i.op[k].reg);
    i.v_writes.set(i.op[k].reg);
  }
  return "";
}
// The registers are known only at run time.
std::string through_m0(Inst& i, const ArchTraits&) {
  i.s_reads.set(kM0);
  return registers_only(i);
}

constexpr Entry row(const char* name, Handler run, Binder bind, const char* source, Types types = kV32) {
  return {name, run, 1, Class::Valu, Flow::Custom, kReadsExec, types, bind, source};
}
constexpr const char* kVop1 = "CDNA3 12.8, RDNA4 16.8 VOP1";
constexpr const char* kRdnaVop1 = "RDNA3 16.8, RDNA4 16.8 VOP1";
constexpr const char* kRdnaVop3 = "RDNA3 16.12, RDNA4 16.12 VOP3";

const Entry kRows[] = {
    row("v_permlane16_b32", permlane16<false>, gathers, kRdnaVop3),
    row("v_permlanex16_b32", permlane16<true>, gathers, kRdnaVop3),
    row("v_permlane16_var_b32", permlane16_var<false>, varying, "RDNA4 16.12 VOP3"),
    row("v_permlanex16_var_b32", permlane16_var<true>, varying, "RDNA4 16.12 VOP3"),
    row("v_permlane64_b32", permlane64, gathers, kRdnaVop1),
    row("v_permlane16_swap_b32", permlane_swap<16>, both_ways, "CDNA4 VOP1"),
    row("v_permlane32_swap_b32", permlane_swap<32>, both_ways, "CDNA4 VOP1"),
    row("v_swap_b32", swap, both_ways, kVop1),
    row("v_swap_b16", swap16, both_ways, kRdnaVop1, {Type::B16, Type::B16}),
    row("v_movrels_b32", movrels, through_m0, kRdnaVop1),
    row("v_movreld_b32", movreld, through_m0, kRdnaVop1),
    row("v_movrelsd_b32", movrelsd, through_m0, kRdnaVop1),
    row("v_movrelsd_2_b32", movrelsd_2, through_m0, kRdnaVop1),
    row("v_swaprel_b32", swaprel, through_m0, kRdnaVop1),
};

}  // namespace

const Table kVectorLanesTable{kRows, std::size(kRows)};

}  // namespace emu
