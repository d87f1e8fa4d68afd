// Vector operands that are not simply a register: DPP, SDWA, op_sel, halves of registers, scalars and constants. ISA
// documents: CDNA3 "SDWA and DPP" (chapter 6 and 13.4/13.5), RDNA3 and RDNA4 chapter 7 ("Data Parallel Processing",
// "16-bit math and VGPRs", "OPSEL").

#include <unordered_map>

#include "lanes.hpp"

namespace emu {

namespace {

bool is_double_type(Type t) { return t == Type::B64 || t == Type::F64 || t == Type::PkF32; }

Type type_of_source(const Inst& i, int k) {
  const size_t at = size_t(i.entry->dsts) + size_t(k);  // not i.dsts: v_cmpx loses its destination on RDNA
  return at < i.entry->types.size() ? i.entry->types[at] : Type::None;
}

// The lane that lane l reads, or -1.
int lane_of(Dpp control, uint32_t arg, int l, int lanes) {
  const int row = l & ~15, at = l & 15, n = int(arg);
  switch (control) {
    case Dpp::QuadPerm: return (l & ~3) | (arg >> (2 * (l & 3)) & 3);
    case Dpp::RowShl: return at + n < 16 ? l + n : -1;
    case Dpp::RowShr: return at >= n ? l - n : -1;
    case Dpp::RowRor: return row | ((at - n) & 15);
    case Dpp::WaveShl: return l + 1 < lanes ? l + 1 : -1;
    case Dpp::WaveRol: return (l + 1) & (lanes - 1);
    case Dpp::WaveShr: return l - 1;
    case Dpp::WaveRor: return (l - 1) & (lanes - 1);
    case Dpp::RowMirror: return row | (15 - at);
    case Dpp::RowHalfMirror: return (l & ~7) | (7 - (l & 7));
    case Dpp::RowBcast15: return row - 1;                // lane 15 of the row before
    case Dpp::RowBcast31: return l >= 32 ? 31 : -1;      // rows 2 and 3
    case Dpp::RowShare:
    case Dpp::RowNewbcast: return row | (n & 15);
    case Dpp::RowXmask: return l ^ (n & 15);
    case Dpp::Dpp8: return (l & ~7) | (arg >> (3 * (l & 7)) & 7);
    case Dpp::None: break;
  }
  return l;
}

DppMap make_map(const Inst& i, int lanes) {
  DppMap map{};
  for (int l = 0; l < kLanes; ++l) {
    const int from = l < lanes ? lane_of(i.mod.dpp, i.mod.dpp_arg, l, lanes) : -1;
    map.from[l] = int8_t(from);
    map.valid |= uint64_t(from >= 0) << l;
    const bool row = i.mod.row_mask >> (l / 16) & 1, bank = i.mod.bank_mask >> (l / 4 % 4) & 1;
    map.rows |= uint64_t(row && bank) << l;
  }
  return map;
}

// The half of a dword that a 16-bit operand uses: the written one (v0.h), otherwise the one that op_sel chooses.
bool upper_half(const Inst& i, const Operand& op, int bit) {
  if (op.half) return op.half == 2;
  return i.mod.op_sel >> bit & 1;
}

uint32_t scalar_dword(const Wave& w, const Inst& i, const Operand& op, int k, int d) {
  if (op.kind == Kind::Sgpr) return w.s[op.reg + d];
  if (op.kind == Kind::Constant) return uint32_t(op.value >> (32 * d));
  if (is_double_type(type_of_source(i, k))) return uint32_t(scalar64(w, op) >> (32 * d));
  return d ? 0 : scalar32(w, op);
}

uint32_t insert(uint32_t old, uint32_t value, Sel sel, Unused unused) {
  if (sel == Sel::Dword) return value;
  const bool word = sel >= Sel::Word0;
  const int bits = word ? 16 : 8, at = word ? 16 * (int(sel) - int(Sel::Word0)) : 8 * int(sel);
  const uint32_t mask = ((1u << bits) - 1) << at, placed = value << at & mask;
  if (unused == Unused::Preserve) return placed | (old & ~mask);
  if (unused == Unused::Pad || !(value >> (bits - 1) & 1)) return placed;
  return placed | uint32_t(~uint64_t(0) << (at + bits));
}

}  // namespace

const DppMap& dpp_map(const Inst& i, int lanes) {
  thread_local std::unordered_map<uint64_t, DppMap> maps;
  thread_local uint64_t last_key = ~uint64_t(0);
  thread_local const DppMap* last = nullptr;
  const uint64_t key = uint64_t(i.mod.dpp_arg) << 16 | uint64_t(lanes == 64) << 15 | uint64_t(i.mod.dpp) << 8 |
                       uint64_t(i.mod.row_mask) << 4 | i.mod.bank_mask;
  if (key != last_key) {
    const auto known = maps.find(key);
    last = known != maps.end() ? &known->second : &maps.emplace(key, make_map(i, lanes)).first->second;
    last_key = key;
  }
  return *last;
}

// CDNA3 13.4 "DPP": a source lane may be out of the row, or switched off by EXEC (unless FI lets it count). The reading
// lane then gets zero with BOUND_CTRL, and without it is not written. DPP8 has no BOUND_CTRL and reads zero.
void apply_dpp(Wave& w, const Inst& i, const uint32_t* from, uint32_t* to) {
  const DppMap& map = dpp_map(i, w.lanes);
  uint64_t valid = map.valid;
  const uint64_t exec = w.exec();
  if (!i.mod.fi && exec != w.full)
    for (int l = 0; l < kLanes; ++l)
      if (!(exec >> (map.from[l] & 63) & 1)) valid &= ~(uint64_t(1) << l);
#if defined(__AVX512F__)
  for (int k = 0; k < kLanes; k += 16) {
    const __m512i index = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(map.from + k)));
    _mm512_storeu_si512(to + k, _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), __mmask16(valid >> k), index, from, 4));
  }
#else
  for (int l = 0; l < kLanes; ++l) to[l] = valid >> l & 1 ? from[map.from[l] & 63] : 0;
#endif
  const bool zero = i.mod.bound_ctrl || i.mod.dpp == Dpp::Dpp8;
  w.dpp_mask = map.rows & (zero ? ~uint64_t(0) : valid);
}

void apply_sdwa(const uint32_t* from, uint32_t* to, Sel sel, bool sext) {
  const bool word = sel >= Sel::Word0;
  const int at = word ? 16 * (int(sel) - int(Sel::Word0)) : 8 * int(sel), room = word ? 16 : 24;
  if (sel == Sel::Dword)
    for (int l = 0; l < kLanes; ++l) to[l] = from[l];
  else if (sext)
    for (int l = 0; l < kLanes; ++l) to[l] = uint32_t(int32_t(from[l] >> at << room) >> room);
  else
    for (int l = 0; l < kLanes; ++l) to[l] = from[l] >> at << room >> room;
}

const uint32_t* special_source(Wave& w, const Inst& i, int k, int d, Row& room) {
  const Operand& op = i.src(k);
  const bool half = op.half || (is_half(type_of_source(i, k)) && !i.vop3p);
  if (op.kind != Kind::Vgpr) {
    uint32_t value = scalar_dword(w, i, op, k, d);
    if (half && !i.plain && upper_half(i, op, k)) value >>= 16;
    fill(room.x, value);
  } else {
    const uint32_t* from = w.v[op.reg + d].x;
    if (k == 0 && i.mod.dpp != Dpp::None) apply_dpp(w, i, from, room.x);
    else std::memcpy(room.x, from, sizeof room.x);
    if (half) {
      const int shift = upper_half(i, op, k) ? 16 : 0;
      if (!i.mod.sdwa)
        for (int l = 0; l < kLanes; ++l) room.x[l] = room.x[l] >> shift & 0xffff;
    }
  }
  if (i.mod.sdwa && k < 2) {
    const Sel sel = k == 0 ? i.mod.src0_sel : i.mod.src1_sel;
    if (sel != Sel::Dword) apply_sdwa(room.x, room.x, sel, op.sext);
  }
  return room.x;
}

// A 16-bit result goes into the half that is named, or that the last bit of op_sel chooses; the other half stays. Where
// nothing chooses a half, VOP1, VOP2 and VOPC operations of CDNA write zeros above the result (they are not RDNA3's
// true16). CDNA's VOP3-only operations (kKeepsUpper) and all of RDNA's leave the upper half as it is.
void commit_part(Wave& w, const Inst& i, const uint32_t* row, int d) {
  const Operand& op = i.op[0];
  uint32_t* to = w.v[op.reg + d].x;
  uint64_t mask = w.exec();
  if (i.plain) return blend(to, row, mask);
  if (i.mod.dpp != Dpp::None) mask &= w.dpp_mask;
  const bool half = op.half || (is_half(i.entry->types[0]) && !i.vop3p);
  Row out;
  if (i.mod.sdwa) {
    const uint32_t kept = half ? 0xffff : ~0u;
    for (int l = 0; l < kLanes; ++l) out.x[l] = insert(to[l], row[l] & kept, i.mod.dst_sel, i.mod.dst_unused);
    row = out.x;
  } else if (half) {
    if (upper_half(i, op, i.ops - i.dsts))
      for (int l = 0; l < kLanes; ++l) out.x[l] = (to[l] & 0xffff) | row[l] << 16;
    else if (op.half || w.arch->keeps_upper_half || i.entry->flags & kKeepsUpper)
      for (int l = 0; l < kLanes; ++l) out.x[l] = (to[l] & 0xffff0000) | (row[l] & 0xffff);
    else
      for (int l = 0; l < kLanes; ++l) out.x[l] = row[l] & 0xffff;
    row = out.x;
  }
  blend(to, row, mask);
}

}  // namespace emu
