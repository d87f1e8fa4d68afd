// SCRATCH loads and stores: private memory of each lane (CDNA3 ISA 9.3 "Scratch", RDNA3 ISA 11.1, RDNA4 ISA 11).
#include "access.hpp"
#include "lanes.hpp"
#include "tables.hpp"

namespace emu {

namespace {

constexpr const char* kScratch = "CDNA3 ISA 9.3, RDNA3 ISA 11.1, RDNA4 ISA 11 (SCRATCH)";

// offset = vaddr + saddr + immediate, both optional. The sum has 32 bits and is an offset into the lane's own memory.
void scratch_offsets(const Wave& w, const Inst& i, const Operand& vaddr, const Operand& saddr, Addresses& a) {
  a.mask = w.exec();
  const uint32_t fixed = uint32_t(i.mod.offset) + (saddr.kind == Kind::Sgpr ? scalar32(w, saddr) : 0);
  if (vaddr.kind != Kind::Vgpr) {
    for (int l = 0; l < kLanes; ++l) a.at[l] = fixed;
    return;
  }
  for (int l = 0; l < kLanes; ++l) a.at[l] = uint32_t(w.v[vaddr.reg].x[l] + fixed);
}

// Spilling moves undefined words too, so the books follow the data through private memory.
template <Part P> void scratch_load(Wave& w, const Inst& i) {
  Addresses a, offsets;
  scratch_offsets(w, i, i.op[1], i.op[2], offsets);
  require_defined(w, i, i.op[1], offsets.mask);
  a = offsets;
  load_lanes<P>(w, i.op[0].reg, a, reachable_scratch(w, i, a, bytes_of(P), false));
  counts().scratch_read += moved(a.mask, bytes_of(P));
  if (!w.track.on) return;
  scratch_loaded(w, a.mask, offsets.at, bytes_of(P), i.op[0].reg);
  issue(w, Counter::Load, {.first = i.op[0].reg, .count = uint8_t(dwords_of(P)), .half = half_of(P)});
}

template <Part P> void scratch_store(Wave& w, const Inst& i) {
  Addresses a, offsets;
  scratch_offsets(w, i, i.op[0], i.op[2], offsets);
  require_defined(w, i, i.op[0], offsets.mask);
  a = offsets;
  const uint64_t may = reachable_scratch(w, i, a, bytes_of(P), true);
  store_lanes<P>(w, i.op[1].reg, a, may);
  counts().scratch_written += moved(a.mask, bytes_of(P));
  if (!w.track.on) return;
  scratch_stored(w, may, offsets.at, bytes_of(P), i.op[1].reg);
  issue(w, Counter::Store, {});
}

std::string bind_load(Inst& i, const ArchTraits&) {
  if (i.mod.lds) return "scratch loads straight to LDS are not implemented";
  return i.op[0].kind == Kind::Vgpr ? "" : "the destination is not a vector register";
}

#define LOAD(name, part) \
  {"scratch_load_" name, scratch_load<Part::part>, 1, Class::Scratch, Flow::Custom, 0, {}, bind_load, kScratch}
#define STORE(name, part) \
  {"scratch_store_" name, scratch_store<Part::part>, 0, Class::Scratch, Flow::Custom, 0, {}, nullptr, kScratch}

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
};

}  // namespace

const Table kScratchTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
