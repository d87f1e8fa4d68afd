// Lane permutes, swizzles, transposed reads and the counters of append and consume.
//
// Permutes move data only between registers, but through the LDS hardware. They count as LDS reads, and a wave must
// wait for their results.
#include "definedness.hpp"
#include "lds.hpp"
#include "tables.hpp"

namespace emu {

namespace {

using namespace lds;

// ---- permutes ----

void moved(Wave& w, const Inst& i) {
  if (!w.launch->options.track) return;
  Outstanding what;
  what.first = i.op[0].reg;
  what.count = 1;
  issue(w, Counter::Ds, what);
}

// Writes to the active lanes what the lanes `from[l]` hold (-1: zero). Each active lane becomes as defined as its
// source.
void fetch(Wave& w, const Inst& i, const Operand& data, const int8_t* from) {
  const uint64_t exec = w.exec();
  const bool track = w.launch->options.track;
  const uint64_t known = track ? defined_lanes(w, data.reg) : ~0ull;
  Row out;
  uint64_t defined = 0;
  for (int l = 0; l < w.lanes; ++l) {
    const int lane = from[l];
    out.x[l] = lane < 0 ? 0 : w.v[data.reg].x[lane];
    defined |= uint64_t(lane < 0 || (known >> lane & 1)) << l;
  }
  blend(w.v[i.op[0].reg].x, out.x, exec);
  if (track) {
    undefine(w, i.op[0].reg, exec & ~defined);
    define(w, i.op[0].reg, exec & defined);
  }
  moved(w, i);
}

// Which lane an address names: bits 7:2 of it (6:2 in a wave of 32).
int named_lane(const Wave& w, uint32_t address) { return int(address / 4 & uint32_t(w.lanes - 1)); }

// An undefined address in an active lane is a finding; these handlers keep the books themselves. Waves of 64 lanes that
// permute each half by itself are refused.
void check_addresses(Wave& w, const Inst& i, const Operand& address) {
  if (w.arch->permutes_by_halves && w.lanes == 64) throw Unexecutable{"permutes of waves of 64 lanes are not implemented on this architecture"};
  if (w.launch->options.track) sink_undefined(w, i, address.reg, w.exec());
}

// result[l] = data[lane named by l]. A source lane that is off gives zero; with Fetches it gives what it holds.
template <bool Fetches> void bpermute(Wave& w, const Inst& i) {
  check_addresses(w, i, i.op[1]);
  const uint64_t exec = w.exec();
  int8_t from[kLanes];
  for (int l = 0; l < w.lanes; ++l) {
    const int lane = named_lane(w, w.v[i.op[1].reg].x[l] + uint32_t(i.mod.offset));
    from[l] = int8_t(Fetches || (exec >> lane & 1) ? lane : -1);
  }
  fetch(w, i, i.op[2], from);
}

// result[lane named by l] = data[l]. If two lanes name the same one, the higher wins. A lane that nobody names gets
// zero.
void permute(Wave& w, const Inst& i) {
  check_addresses(w, i, i.op[1]);
  int8_t from[kLanes];
  std::memset(from, -1, sizeof from);
  each_lane(w.exec(), [&](int l) { from[named_lane(w, w.v[i.op[1].reg].x[l] + uint32_t(i.mod.offset))] = int8_t(l); });
  fetch(w, i, i.op[2], from);
}

// The lane that lane `l` of a group of 32 reads (pseudocode of DS_SWIZZLE_B32): offset's top bits choose the mode.
int swizzled(uint32_t offset, int l) {
  const int mask = int(offset & 0x1f);
  if (offset >= 0xe000) {  // butterflies of FFTs: the lane's bits reversed above those of the mask
    int reversed = 0;
    for (int bit = 0; bit < 5; ++bit) reversed |= (l >> bit & 1) << (4 - bit);
    return (reversed >> std::popcount(unsigned(mask)) | (l & mask)) & 0x1f;
  }
  if (offset >= 0xc000) {  // rotation of the bits outside of the mask
    const int by = int(offset >> 5 & 0x1f);
    return (l & mask) | ((l + (offset >> 10 & 1 ? -by : by)) & ~mask & 0x1f);
  }
  if (offset & 0x8000) return (l & ~3) | int(offset >> 2 * (l & 3) & 3);  // within quads
  return (((l & mask) | int(offset >> 5 & 0x1f)) ^ int(offset >> 10 & 0x1f)) & 0x1f;
}

void swizzle(Wave& w, const Inst& i) {
  const uint64_t exec = w.exec();
  int8_t from[kLanes];
  for (int l = 0; l < w.lanes; ++l) {
    const int lane = (l & 32) | swizzled(uint32_t(i.mod.offset), l & 31);
    from[l] = int8_t(exec >> lane & 1 ? lane : -1);
  }
  fetch(w, i, i.op[1], from);
}

// ---- transposed reads (CDNA4 ISA, "LDS transpose reads") ----

// Groups of 16 lanes read a matrix of 16 columns: a lane's bytes are 64 or 96 bits of one row, 16 columns make a row.
// Lane l of the group receives column l: element e of it is in row e.
#if defined(__AVX512F__)
// Four rows of 16 bits, of four lanes each, for each group. With all lanes inside, they need no room of their own.
void transpose_halves(Wave& w, const Inst& i, const uint8_t* lds, const uint32_t* at) {
  const auto row = [&](int lane) {
    uint64_t part[4];
    for (int l = 0; l < 4; ++l) std::memcpy(part + l, lds + at[lane + l], sizeof part[l]);
    return _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_setr_epi64x(int64_t(part[0]), int64_t(part[1]), int64_t(part[2]), int64_t(part[3])));
  };
  for (int group = 0; group < kLanes; group += 16)
    for (int d = 0; d < 2; ++d)
      _mm512_storeu_si512(w.v[i.op[0].reg + d].x + group,
                          _mm512_or_si512(row(group + 8 * d), _mm512_maskz_slli_epi32(0xffff, row(group + 8 * d + 4), 16)));
}
#endif
template <int Bits, int Dwords> void read_transposed(Wave& w, const Inst& i) {
  constexpr int elements = 32 * Dwords / Bits;  // in a lane: rows
  constexpr int lanes_a_row = 16 / elements;
  uint32_t at[kLanes];
  addresses(w, i, 1, uint32_t(i.mod.offset), at);
  Access access(w, i);
  const uint64_t mask = w.exec(), inside = access.reads(mask, at, 4 * Dwords);
#if defined(__AVX512F__)
  if (Bits == 16 && Dwords == 2 && inside == ~0ull && !emulation::careful) {
    transpose_halves(w, i, access.bytes_at(0), at);
    count_read(w, i, at, mask, 4 * Dwords);
    return access.issued(&i.op[0], Dwords);
  }
#endif
  uint32_t read[kLanes][Dwords] = {};
  each_lane(inside, [&](int l) { std::memcpy(read[l], access.bytes_at(at[l]), sizeof read[l]); });
  if constexpr (Bits == 8 || Bits == 16) {  // elements of the 16 columns lie side by side, row after row
    using Element = std::conditional_t<Bits == 8, uint8_t, uint16_t>;
    Row out[Dwords] = {};
    for (int group = 0; group < kLanes; group += 16) {
      Element rows[elements][16];
      std::memcpy(rows, read[group], sizeof rows);
      for (int row = 0; row < elements; ++row)
        for (int l = 0; l < 16; ++l) out[row * Bits / 32].x[group + l] |= uint32_t(rows[row][l]) << row * Bits % 32;
    }
    for (int d = 0; d < Dwords; ++d) blend(w.v[i.op[0].reg + d].x, out[d].x, mask);
  } else each_lane(mask, [&](int l) {
    const int column = l % 16, group = l - column;
    uint32_t out[Dwords + 1] = {};  // an element of 6 bits may reach into the next dword
    for (int row = 0; row < elements; ++row) {
      const uint32_t* from = read[group + row * lanes_a_row + column / elements];
      const int bit = column % elements * Bits, to = row * Bits;
      uint64_t value = from[bit / 32];
      if (bit % 32 + Bits > 32) value |= uint64_t(from[bit / 32 + 1]) << 32;
      value = value >> bit % 32 & ((1u << Bits) - 1);
      const uint64_t placed = value << to % 32;
      out[to / 32] |= uint32_t(placed);
      out[to / 32 + 1] |= uint32_t(placed >> 32);
    }
    for (int d = 0; d < Dwords; ++d) w.v[i.op[0].reg + d].x[l] = out[d];
  });
  count_read(w, i, at, mask, 4 * Dwords);
  access.issued(&i.op[0], Dwords);
}

// ---- counters ----

// Adds or subtracts the number of active lanes to or from the dword at M0[15:0] + offset. All active lanes get its old
// value.
template <bool Append> void count_lanes(Wave& w, const Inst& i) {
  uint32_t at[kLanes];
  fill(at, (w.s[kM0] & 0xffff) + uint32_t(i.mod.offset));
  Access access(w, i);
  const uint64_t exec = w.exec();
  const uint32_t lanes = uint32_t(std::popcount(exec));
  uint32_t old = 0;
  if (access.changes(1, at, 4)) {
    std::memcpy(&old, access.bytes_at(at[0]), 4);
    const uint32_t now = Append ? old + lanes : old - lanes;
    std::memcpy(access.bytes_at(at[0]), &now, 4);
  }
  Row row;
  fill(row.x, old);
  blend(w.v[i.op[0].reg].x, row.x, exec);
  Counts& c = counts();
  c.lds_accesses += 1, c.lds_read += 4, c.lds_written += 4;
  access.issued(&i.op[0], 1);
}

void nothing(Wave&, const Inst&) {}

// ---- the table ----

std::string fits_counter(Inst& i, const ArchTraits& arch) {
  i.s_reads.set(kM0);
  return fits<1>(i, arch);
}

constexpr const char* kPermutes = "CDNA3 ISA 12.13.1, RDNA3 ISA 16.12 DS_PERMUTE_B32, RDNA4 ISA 15.12";
constexpr const char* kTransposed = "CDNA4 ISA 11.4, DS_READ_B64_TR_B16 and its like";

constexpr Entry kEntries[] = {
    {"ds_bpermute_b32", bpermute<false>, 1, Class::Lds, Flow::Custom, kReadsExec, {}, fits<1, 1, 1>, kPermutes},
    {"ds_bpermute_fi_b32", bpermute<true>, 1, Class::Lds, Flow::Custom, 0, {}, fits<1, 1, 1>, kPermutes},
    {"ds_permute_b32", permute, 1, Class::Lds, Flow::Custom, kReadsExec, {}, fits<1, 1, 1>, kPermutes},
    {"ds_swizzle_b32", swizzle, 1, Class::Lds, Flow::Custom, kReadsExec, {}, fits<1, 1>, kPermutes},
    {"ds_read_b64_tr_b16", read_transposed<16, 2>, 1, Class::Lds, Flow::Sink, 0, {}, fits<2, 1>, kTransposed},
    {"ds_read_b64_tr_b8", read_transposed<8, 2>, 1, Class::Lds, Flow::Sink, 0, {}, fits<2, 1>, kTransposed},
    {"ds_read_b64_tr_b4", read_transposed<4, 2>, 1, Class::Lds, Flow::Sink, 0, {}, fits<2, 1>, kTransposed},
    {"ds_read_b96_tr_b6", read_transposed<6, 3>, 1, Class::Lds, Flow::Sink, 0, {}, fits<3, 1>, kTransposed},
    {"ds_append", count_lanes<true>, 1, Class::Lds, Flow::Sink, kReadsExec, {}, fits_counter, "CDNA3 ISA 12.13 DS_APPEND"},
    {"ds_consume", count_lanes<false>, 1, Class::Lds, Flow::Sink, kReadsExec, {}, fits_counter, "CDNA3 ISA 12.13 DS_CONSUME"},
    {"ds_nop", nothing, 0, Class::Lds, Flow::Defined, 0, {}, nullptr, "CDNA3 ISA 12.13 DS_NOP"},
};

}  // namespace

const Table kLdsSpecialTable{kEntries, std::size(kEntries)};

}  // namespace emu
