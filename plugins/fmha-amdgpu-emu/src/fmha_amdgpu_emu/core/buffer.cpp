// MUBUF and VBUFFER: untyped buffer loads and stores, loads straight to LDS (CDNA3 ISA 9.1, RDNA3 ISA 10.1, RDNA4 ISA
// 10 "Vector memory buffer instructions"). Operands: vdata, vaddr or `off`, resource, soffset; `lds` has no vdata.
#include "buffer_address.hpp"
#include "global.hpp"
#include "tables.hpp"

#include <algorithm>

namespace emu {

namespace {

constexpr const char* kBuffer = "CDNA3 ISA 9.1, RDNA3 ISA 10.1, RDNA4 ISA 10 (MUBUF, VBUFFER)";
constexpr const char* kCache = "CDNA3 ISA 12.14, RDNA3 ISA 5: caches are not modelled";

BufferPlace place_of(const Inst& i, int first) { return {&i.op[first], &i.op[first + 1], &i.op[first + 2]}; }

void require_address(Wave& w, const Inst& i, const Operand& vaddr, uint64_t mask) {
  if (i.mod.offen || i.mod.idxen) require_defined(w, i, vaddr, mask);
}

// Dword `d` of the lanes that are in range there.
void dword_addresses(const BufferAccess& access, int d, Addresses& a) {
  a.mask = access.in_range[d];
  if (access.together) {
    for (int l = 0; l < kLanes; ++l) a.at[l] = access.addresses.at[l] + 4 * uint64_t(d);
  } else {
    std::memcpy(a.at, access.dword[d], sizeof a.at);
  }
}

// Asks the host's memory for what a load reads in the loop's next round, as far beyond as this round is beyond the last one: a
// round later it has come. In the first round, for what it reads now. Of neighbours that share 16 bytes, one lane asks.
void read_ahead(const Wave& w, const Inst& i, const Addresses& a, int dwords) {
  struct Last {
    const Inst* inst;
    uint64_t first;
  };
  static thread_local Last rounds[256][4];  // four waves
  Last& last = rounds[reinterpret_cast<uintptr_t>(&i) / sizeof(Inst) % 256][w.index % 4];
  const uint64_t ahead = last.inst == &i ? a.at[0] - last.first : 0;
  last = {&i, a.at[0]};
  for (int l = 0; l < w.lanes; l += std::max(1, 4 / dwords)) __builtin_prefetch(reinterpret_cast<const void*>(a.at[l] + ahead));
}

// Moves whole lanes where it can, and dword by dword where ranges or swizzling divide a lane. move(d, dwords,
// addresses, may) moves `dwords` dwords from dword `d` on. Lanes of addresses.mask that are not in `may` read zero or
// write nothing.
template <Part P, class F> void moves(Wave& w, const Inst& i, BufferAccess& access, bool write, F move) {
  const uint64_t exec = access.addresses.mask;
  if (!write) read_ahead(w, i, access.addresses, dwords_of(P));
  if (access.scratch) {
    Addresses a = access.offsets;
    a.mask = access.every;
    const uint64_t may = reachable_scratch(w, i, a, bytes_of(P), write);
    a.mask = exec;
    return move(0, dwords_of(P), a, may);
  }
  if (bytes_of(P) <= 4 || (access.together && access.every == exec)) {
    Addresses& a = access.addresses;
    a.mask = access.every;
    const uint64_t may = reachable(w, i, a, bytes_of(P), write);
    a.mask = exec;
    return move(0, dwords_of(P), a, may);
  }
  for (int d = 0; d < dwords_of(P); ++d) {
    Addresses a;
    dword_addresses(access, d, a);
    const uint64_t may = reachable(w, i, a, 4, write);
    a.mask = exec;
    move(d, 1, a, may);
  }
}

template <Part P> void buffer_load(Wave& w, const Inst& i) {
  const int reg = i.op[0].reg;
  BufferAccess access;
  require_address(w, i, i.op[1], w.exec());
  buffer_access(w, i, place_of(i, 1), bytes_of(P), false, access);
  moves<P>(w, i, access, false, [&](int d, int dwords, const Addresses& a, uint64_t may) {
    if (dwords == dwords_of(P)) load_lanes<P>(w, reg, a, may);
    else load_lanes<Part::B32>(w, reg + d, a, may);
  });
  const uint64_t exec = access.addresses.mask;
  (access.scratch ? counts().scratch_read : counts().global_read) += moved(access.every, bytes_of(P));
  if (!w.track.on) return;
  if (access.scratch) scratch_loaded(w, exec, access.offsets.at, bytes_of(P), reg);
  else for (int d = 0; d < dwords_of(P); ++d) define(w, reg + d, exec);
  issue(w, Counter::Load, {.first = uint16_t(reg), .count = uint8_t(dwords_of(P)), .half = half_of(P)});
}

template <Part P> void buffer_store(Wave& w, const Inst& i) {
  const int reg = i.op[0].reg;
  BufferAccess access;
  require_address(w, i, i.op[1], w.exec());
  buffer_access(w, i, place_of(i, 1), bytes_of(P), false, access);
  if (!access.scratch) {
    Operand data = i.op[0];
    data.count = 1;
    for (int d = 0; d < dwords_of(P); ++d, ++data.reg) require_defined(w, i, data, access.in_range[d]);
  }
  moves<P>(w, i, access, true, [&](int d, int dwords, const Addresses& a, uint64_t may) {
    if (dwords == dwords_of(P)) store_lanes<P>(w, reg, a, may);
    else store_lanes<Part::B32>(w, reg + d, a, may);
  });
  (access.scratch ? counts().scratch_written : counts().global_written) += moved(access.every, bytes_of(P));
  if (!w.track.on) return;
  if (access.scratch) scratch_stored(w, access.every, access.offsets.at, bytes_of(P), reg);
  issue(w, Counter::Store, {});
}

template <Part P> void buffer_to_lds(Wave& w, const Inst& i) {
  BufferAccess access;
  require_address(w, i, i.op[0], w.exec());
  buffer_access(w, i, place_of(i, 0), bytes_of(P), false, access);
  Row rows[4];
  moves<P>(w, i, access, false, [&](int d, int dwords, const Addresses& a, uint64_t may) {
    if (dwords == dwords_of(P)) load_rows<P>(rows, a, may);
    else load_rows<Part::B32>(rows + d, a, may);
  });
  counts().global_read += moved(access.every, bytes_of(P));
  rows_to_lds(w, i, rows, dwords_of(P), access.addresses.mask);
}

std::string well_formed(const Inst& i, int first) {
  if (i.ops != first + 3) return "its operands are not vaddr, resource, soffset";
  if (i.op[first + 1].kind != Kind::Sgpr || i.op[first + 1].count != 4) return "the resource is not in four scalar registers";
  if (i.mod.idxen + i.mod.offen > 0 && i.op[first].kind != Kind::Vgpr) return "no register holds index or offset";
  return refuse_buffer(i);
}

template <Part P> std::string bind_load(Inst& i, const ArchTraits& arch) {
  constexpr bool to_lds_anywhere = P == Part::U8 || P == Part::I8 || P == Part::U16 || P == Part::I16 || P == Part::B32;
  if (!i.mod.lds) return i.op[0].kind == Kind::Vgpr ? well_formed(i, 1) : "the destination is not a vector register";
  if (!arch.loads_to_lds) return "loads straight to LDS are not implemented for this architecture";
  if (!to_lds_anywhere && !(arch.wide_loads_to_lds && (P == Part::B96 || P == Part::B128)))
    return "this width does not go straight to LDS on this architecture";
  set_roles(i, 0);
  i.s_reads.set(kM0);
  i.run = buffer_to_lds<P>;
  return well_formed(i, 0);
}

std::string bind_store(Inst& i, const ArchTraits&) {
  if (i.mod.lds) return "stores from LDS are not implemented";
  return well_formed(i, 1);
}

void nothing(Wave&, const Inst&) {}

// vmcnt counts write-backs, not invalidations (LLVM AMDGPU backend guide, memory models of gfx90a and gfx942).
void write_back(Wave& w, const Inst&) { issue(w, Counter::Store, {}); }

#define LOAD(name, part) \
  {"buffer_load_" name, buffer_load<Part::part>, 1, Class::Global, Flow::Custom, 0, {}, bind_load<Part::part>, kBuffer}
#define STORE(name, part) \
  {"buffer_store_" name, buffer_store<Part::part>, 0, Class::Global, Flow::Custom, 0, {}, bind_store, kBuffer}
#define NOTHING(name, handler) {name, handler, 0, Class::Global, Flow::Defined, 0, {}, nullptr, kCache}

const Entry kEntries[] = {
    LOAD("ubyte", U8), LOAD("sbyte", I8), LOAD("ushort", U16), LOAD("sshort", I16), LOAD("ubyte_d16", LowU8),
    LOAD("sbyte_d16", LowI8), LOAD("short_d16", Low16), LOAD("ubyte_d16_hi", HighU8), LOAD("sbyte_d16_hi", HighI8),
    LOAD("short_d16_hi", High16), LOAD("dword", B32), LOAD("dwordx2", B64), LOAD("dwordx3", B96),
    LOAD("dwordx4", B128),
    LOAD("u8", U8), LOAD("i8", I8), LOAD("u16", U16), LOAD("i16", I16), LOAD("d16_u8", LowU8), LOAD("d16_i8", LowI8),
    LOAD("d16_b16", Low16), LOAD("d16_hi_u8", HighU8), LOAD("d16_hi_i8", HighI8), LOAD("d16_hi_b16", High16),
    LOAD("b32", B32), LOAD("b64", B64), LOAD("b96", B96), LOAD("b128", B128),

    STORE("byte", U8), STORE("short", U16), STORE("byte_d16_hi", HighU8), STORE("short_d16_hi", High16),
    STORE("dword", B32), STORE("dwordx2", B64), STORE("dwordx3", B96), STORE("dwordx4", B128),
    STORE("b8", U8), STORE("b16", U16), STORE("d16_hi_b8", HighU8), STORE("d16_hi_b16", High16), STORE("b32", B32),
    STORE("b64", B64), STORE("b96", B96), STORE("b128", B128),

    NOTHING("buffer_wbl2", write_back), NOTHING("buffer_inv", nothing), NOTHING("buffer_invl2", nothing),
    NOTHING("buffer_wbinvl1", nothing), NOTHING("buffer_wbinvl1_vol", nothing), NOTHING("buffer_gl0_inv", nothing),
    NOTHING("buffer_gl1_inv", nothing),
};

}  // namespace

const Table kBufferTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
