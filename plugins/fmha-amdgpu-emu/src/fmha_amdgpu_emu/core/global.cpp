// GLOBAL and FLAT loads and stores (CDNA3 ISA 9.3 "Flat memory instructions", RDNA3 ISA 11, RDNA4 ISA 11).
#include "access.hpp"
#include "global.hpp"
#include "tables.hpp"

namespace emu {

// address = vaddr (64 bits) + offset, or saddr + vaddr (32 bits, unsigned) + offset (CDNA3 ISA 9.3 "Addressing").
void global_addresses(const Wave& w, const Inst& i, const Operand& vaddr, const Operand& saddr, Addresses& a) {
  a.mask = w.exec();
  const uint64_t offset = uint64_t(int64_t(i.mod.offset));
  if (saddr.kind == Kind::Sgpr) {
    const uint64_t base = w.pair(saddr.reg) + offset;
    if (vaddr.kind != Kind::Vgpr) {
      for (int l = 0; l < kLanes; ++l) a.at[l] = base;
      return;
    }
    const uint32_t* const low = w.v[vaddr.reg].x;
    for (int l = 0; l < kLanes; ++l) a.at[l] = base + low[l];
    return;
  }
  const uint32_t* const low = w.v[vaddr.reg].x;
  const uint32_t* const high = w.v[vaddr.reg + 1].x;
  for (int l = 0; l < kLanes; ++l) a.at[l] = (uint64_t(high[l]) << 32 | low[l]) + offset;
}

namespace {

constexpr const char* kGlobal = "CDNA3 ISA 9.3, RDNA3 ISA 11.1, RDNA4 ISA 11 (GLOBAL)";
constexpr const char* kFlat = "CDNA3 ISA 9.3, RDNA3 ISA 11.1, RDNA4 ISA 11 (FLAT)";
constexpr const char* kToLds = "CDNA3 ISA 9.1.9 \"Memory to LDS\", CDNA4 ISA (GLOBAL_LOAD_LDS)";
constexpr const char* kCache = "RDNA3 ISA 5, RDNA4 ISA 5: caches are not modelled";

template <Part P> void global_load(Wave& w, const Inst& i) {
  Addresses a;
  global_addresses(w, i, i.op[1], i.op[2], a);
  load_lanes<P>(w, i.op[0].reg, a, reachable(w, i, a, bytes_of(P), false));
  counts().global_read += moved(a.mask, bytes_of(P));
  issue(w, Counter::Load, {.first = i.op[0].reg, .count = uint8_t(dwords_of(P)), .half = half_of(P)});
}

template <Part P> void global_store(Wave& w, const Inst& i) {
  Addresses a;
  global_addresses(w, i, i.op[0], i.op[2], a);
  store_lanes<P>(w, i.op[1].reg, a, reachable(w, i, a, bytes_of(P), true));
  counts().global_written += moved(a.mask, bytes_of(P));
  issue(w, Counter::Store, {});
}

const Operand kNoBase{.kind = Kind::Off};

const Operand& flat_base(const Inst& i, int k) { return k < i.ops ? i.op[k] : kNoBase; }

template <Part P> void flat_load(Wave& w, const Inst& i) {
  Addresses a;
  global_addresses(w, i, i.op[1], flat_base(i, 2), a);
  load_lanes<P>(w, i.op[0].reg, a, reachable_flat(w, i, a, bytes_of(P), Touch::Read));
  counts().global_read += moved(a.mask, bytes_of(P));
  issue_flat(w, Counter::Load, {.first = i.op[0].reg, .count = uint8_t(dwords_of(P)), .sequence = w.track.sequence});
}

template <Part P> void flat_store(Wave& w, const Inst& i) {
  Addresses a;
  global_addresses(w, i, i.op[0], flat_base(i, 2), a);
  store_lanes<P>(w, i.op[1].reg, a, reachable_flat(w, i, a, bytes_of(P), Touch::Write));
  counts().global_written += moved(a.mask, bytes_of(P));
  issue_flat(w, Counter::Store, {.sequence = w.track.sequence});
}

// LDS address = M0 + instruction offset + lane x size; the offset is part of the memory address too.
template <Part P> void global_to_lds(Wave& w, const Inst& i) {
  Addresses a;
  global_addresses(w, i, i.op[0], i.op[1], a);
  Row data[4];
  const uint64_t may = reachable(w, i, a, bytes_of(P), false);
  load_rows<P>(data, a, may);
  counts().global_read += moved(a.mask, bytes_of(P));
  rows_to_lds(w, i, data, dwords_of(P), a.mask);
}

void nothing(Wave&, const Inst&) {}

// gfx12 counts invalidations with loads and write-backs with stores (LLVM AMDGPU backend guide, memory model of gfx12).
void invalidate(Wave& w, const Inst&) { issue(w, Counter::Load, {}); }
void write_back(Wave& w, const Inst&) { issue(w, Counter::Store, {}); }

std::string bind_to_lds(Inst& i, const ArchTraits& arch) {
  if (!arch.loads_to_lds) return "this architecture has no loads straight to LDS";
  set_roles(i, 0);
  i.s_reads.set(kM0);
  return {};
}

std::string bind_load(Inst& i, const ArchTraits&) {
  if (i.mod.lds) return "a load with the lds flag is spelled global_load_lds here";
  return i.op[0].kind == Kind::Vgpr ? "" : "the destination is not a vector register";
}

#define GLOBAL_LOAD(name, part)                                                                              \
  {"global_load_" name, global_load<Part::part>, 1, Class::Global, Flow::Sink, 0, {}, bind_load, kGlobal},   \
  {"flat_load_" name, flat_load<Part::part>, 1, Class::Global, Flow::Sink, 0, {}, bind_load, kFlat}
#define GLOBAL_STORE(name, part)                                                                             \
  {"global_store_" name, global_store<Part::part>, 0, Class::Global, Flow::Sink, 0, {}, nullptr, kGlobal},   \
  {"flat_store_" name, flat_store<Part::part>, 0, Class::Global, Flow::Sink, 0, {}, nullptr, kFlat}
#define TO_LDS(name, part) \
  {"global_load_lds_" name, global_to_lds<Part::part>, 0, Class::Global, Flow::Sink, 0, {}, bind_to_lds, kToLds}
#define NOTHING(name, handler) {name, handler, 0, Class::Global, Flow::Defined, 0, {}, nullptr, kCache}

const Entry kEntries[] = {
    GLOBAL_LOAD("ubyte", U8), GLOBAL_LOAD("sbyte", I8), GLOBAL_LOAD("ushort", U16), GLOBAL_LOAD("sshort", I16),
    GLOBAL_LOAD("ubyte_d16", LowU8), GLOBAL_LOAD("sbyte_d16", LowI8), GLOBAL_LOAD("short_d16", Low16),
    GLOBAL_LOAD("ubyte_d16_hi", HighU8), GLOBAL_LOAD("sbyte_d16_hi", HighI8), GLOBAL_LOAD("short_d16_hi", High16),
    GLOBAL_LOAD("dword", B32), GLOBAL_LOAD("dwordx2", B64), GLOBAL_LOAD("dwordx3", B96), GLOBAL_LOAD("dwordx4", B128),
    GLOBAL_LOAD("u8", U8), GLOBAL_LOAD("i8", I8), GLOBAL_LOAD("u16", U16), GLOBAL_LOAD("i16", I16),
    GLOBAL_LOAD("d16_u8", LowU8), GLOBAL_LOAD("d16_i8", LowI8), GLOBAL_LOAD("d16_b16", Low16),
    GLOBAL_LOAD("d16_hi_u8", HighU8), GLOBAL_LOAD("d16_hi_i8", HighI8), GLOBAL_LOAD("d16_hi_b16", High16),
    GLOBAL_LOAD("b32", B32), GLOBAL_LOAD("b64", B64), GLOBAL_LOAD("b96", B96), GLOBAL_LOAD("b128", B128),

    GLOBAL_STORE("byte", U8), GLOBAL_STORE("short", U16), GLOBAL_STORE("byte_d16_hi", HighU8),
    GLOBAL_STORE("short_d16_hi", High16), GLOBAL_STORE("dword", B32), GLOBAL_STORE("dwordx2", B64),
    GLOBAL_STORE("dwordx3", B96), GLOBAL_STORE("dwordx4", B128),
    GLOBAL_STORE("b8", U8), GLOBAL_STORE("b16", U16), GLOBAL_STORE("d16_hi_b8", HighU8),
    GLOBAL_STORE("d16_hi_b16", High16), GLOBAL_STORE("b32", B32), GLOBAL_STORE("b64", B64), GLOBAL_STORE("b96", B96),
    GLOBAL_STORE("b128", B128),

    TO_LDS("ubyte", U8), TO_LDS("sbyte", I8), TO_LDS("ushort", U16), TO_LDS("sshort", I16), TO_LDS("dword", B32),
    TO_LDS("dwordx3", B96), TO_LDS("dwordx4", B128),

    NOTHING("global_inv", invalidate), NOTHING("global_wb", write_back), NOTHING("global_wbinv", write_back),
    NOTHING("global_prefetch_b8", nothing), NOTHING("flat_prefetch_b8", nothing),
};

}  // namespace

const Table kGlobalTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
