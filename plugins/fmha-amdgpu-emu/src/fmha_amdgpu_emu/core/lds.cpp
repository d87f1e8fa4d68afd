// ds_read, ds_load, ds_write, ds_store: bytes to four dwords, one address or two, and the thread's own dword (addtid).
#include "lds.hpp"
#include "tables.hpp"

namespace emu {

namespace {

using namespace lds;

// How a loaded element fills its register.
enum class Fill : uint8_t { Zero, Sign, Low, High };

template <class T, Fill F> uint32_t filled(T value, uint32_t old) {
  if constexpr (F == Fill::Zero) return uint32_t(value);
  if constexpr (F == Fill::Sign) return uint32_t(int32_t(value));
  const uint32_t half = uint16_t(int16_t(value));
  return F == Fill::Low ? (old & 0xffff0000u) | half : (old & 0xffffu) | half << 16;
}

// 8 and 16 bits. D16 loads keep the other half of their register.
template <class T, Fill F> void read_part(Wave& w, const Inst& i) {
  uint32_t at[kLanes];
  addresses(w, i, 1, uint32_t(i.mod.offset), at);
  Access access(w, i);
  const uint64_t mask = w.exec();
  Row& to = w.v[i.op[0].reg];
  const uint64_t inside = access.reads(mask, at, sizeof(T));
  each_lane(mask, [&](int l) {
    T value = 0;
    if (inside >> l & 1) std::memcpy(&value, access.bytes_at(at[l]), sizeof value);
    to.x[l] = filled<T, F>(value, to.x[l]);
  });
  count_read(w, i, at, mask, sizeof(T));
  access.issued(&i.op[0], 1, F == Fill::Low ? 1 : F == Fill::High ? 2 : 3);
}

template <int Dwords> void read_lanes(Wave& w, const Inst& i, Access& access, const uint32_t* at, int reg, uint64_t mask) {
  const uint64_t inside = access.reads(mask, at, 4 * Dwords);
  if (inside == w.full) {
    dwords_to_rows<Dwords>([&](int l) { return access.bytes_at(at[l]); }, w.lanes, &w.v[reg]);
  } else {
    each_lane(inside, [&](int l) {
      uint32_t value[Dwords];
      std::memcpy(value, access.bytes_at(at[l]), sizeof value);
      for (int d = 0; d < Dwords; ++d) w.v[reg + d].x[l] = value[d];
    });
  }
  each_lane(mask & ~inside, [&](int l) {
    for (int d = 0; d < Dwords; ++d) w.v[reg + d].x[l] = 0;
  });
  count_read(w, i, at, mask, 4 * Dwords);
}

template <int Dwords> void read(Wave& w, const Inst& i) {
  uint32_t at[kLanes];
  addresses(w, i, 1, uint32_t(i.mod.offset), at);
  Access access(w, i);
  read_lanes<Dwords>(w, i, access, at, i.op[0].reg, w.exec());
  access.issued(&i.op[0], Dwords);
}

// Two elements, at address + offset0 * step and address + offset1 * step.
template <int Dwords, int Stride> void read_two(Wave& w, const Inst& i) {
  constexpr uint32_t step = 4 * Dwords * Stride;
  uint32_t first[kLanes], second[kLanes];
  addresses(w, i, 1, i.mod.offset0 * step, first);
  addresses(w, i, 1, i.mod.offset1 * step, second);
  Access access(w, i);
  read_lanes<Dwords>(w, i, access, first, i.op[0].reg, w.exec());
  read_lanes<Dwords>(w, i, access, second, i.op[0].reg + Dwords, w.exec());
  access.issued(&i.op[0], 2 * Dwords);
}

// Bytes above the stored ones do not matter. Shift 16 stores the high half.
template <class T, int Shift> void write_part(Wave& w, const Inst& i) {
  uint32_t at[kLanes];
  addresses(w, i, 0, uint32_t(i.mod.offset), at);
  Access access(w, i);
  const uint64_t mask = w.exec();
  const Row& from = w.v[i.op[1].reg];
  T values[kLanes];
  for (int l = 0; l < kLanes; ++l) values[l] = T(from.x[l] >> Shift);
  access.write<sizeof(T)>(mask, at, values);
  count_written(w, i, at, mask, sizeof(T));
  access.issued(nullptr, 0);
}

template <int Dwords> void write_lanes(Wave& w, const Inst& i, Access& access, const uint32_t* at, int reg, uint64_t mask) {
  uint32_t values[kLanes * Dwords];
  rows_to_dwords<Dwords>(&w.v[reg], w.lanes, values);
  access.write<4 * Dwords>(mask, at, values);
  count_written(w, i, at, mask, 4 * Dwords);
}

template <int Dwords> void write(Wave& w, const Inst& i) {
  uint32_t at[kLanes];
  addresses(w, i, 0, uint32_t(i.mod.offset), at);
  Access access(w, i);
  write_lanes<Dwords>(w, i, access, at, i.op[1].reg, w.exec());
  access.issued(nullptr, 0);
}

template <int Dwords, int Stride> void write_two(Wave& w, const Inst& i) {
  constexpr uint32_t step = 4 * Dwords * Stride;
  uint32_t first[kLanes], second[kLanes];
  addresses(w, i, 0, i.mod.offset0 * step, first);
  addresses(w, i, 0, i.mod.offset1 * step, second);
  Access access(w, i);
  write_lanes<Dwords>(w, i, access, first, i.op[1].reg, w.exec());
  write_lanes<Dwords>(w, i, access, second, i.op[2].reg, w.exec());
  access.issued(nullptr, 0);
}

// LDS address: offset + M0[15:0] + 4 * lane.
void own_addresses(const Wave& w, const Inst& i, uint32_t* at) {
  for (int l = 0; l < kLanes; ++l) at[l] = uint32_t(i.mod.offset) + (w.s[kM0] & 0xffff) + 4 * uint32_t(l);
}

void read_own(Wave& w, const Inst& i) {
  uint32_t at[kLanes];
  own_addresses(w, i, at);
  Access access(w, i);
  read_lanes<1>(w, i, access, at, i.op[0].reg, w.exec());
  access.issued(&i.op[0], 1);
}

void write_own(Wave& w, const Inst& i) {
  uint32_t at[kLanes];
  own_addresses(w, i, at);
  Access access(w, i);
  write_lanes<1>(w, i, access, at, i.op[0].reg, w.exec());
  access.issued(nullptr, 0);
}

std::string with_m0(Inst& i, const ArchTraits& arch) {
  i.s_reads.set(kM0);
  return fits<1>(i, arch);
}

constexpr const char* kSource = "CDNA3 ISA 12.13 LDS & GDS, RDNA3 ISA 16.12 LDS & GDS";

constexpr Entry reads(const char* name, Handler run, Binder bind) {
  return {name, run, 1, Class::Lds, Flow::Sink, 0, {}, bind, kSource};
}
constexpr Entry writes(const char* name, Handler run, Binder bind) {
  return {name, run, 0, Class::Lds, Flow::Sink, 0, {}, bind, kSource};
}

constexpr Entry kEntries[] = {
    reads("ds_read_u8", read_part<uint8_t, Fill::Zero>, fits<1, 1>),
    reads("ds_load_u8", read_part<uint8_t, Fill::Zero>, fits<1, 1>),
    reads("ds_read_i8", read_part<int8_t, Fill::Sign>, fits<1, 1>),
    reads("ds_load_i8", read_part<int8_t, Fill::Sign>, fits<1, 1>),
    reads("ds_read_u16", read_part<uint16_t, Fill::Zero>, fits<1, 1>),
    reads("ds_load_u16", read_part<uint16_t, Fill::Zero>, fits<1, 1>),
    reads("ds_read_i16", read_part<int16_t, Fill::Sign>, fits<1, 1>),
    reads("ds_load_i16", read_part<int16_t, Fill::Sign>, fits<1, 1>),
    reads("ds_read_u8_d16", read_part<uint8_t, Fill::Low>, fits<1, 1>),
    reads("ds_load_u8_d16", read_part<uint8_t, Fill::Low>, fits<1, 1>),
    reads("ds_read_u8_d16_hi", read_part<uint8_t, Fill::High>, fits<1, 1>),
    reads("ds_load_u8_d16_hi", read_part<uint8_t, Fill::High>, fits<1, 1>),
    reads("ds_read_i8_d16", read_part<int8_t, Fill::Low>, fits<1, 1>),
    reads("ds_load_i8_d16", read_part<int8_t, Fill::Low>, fits<1, 1>),
    reads("ds_read_i8_d16_hi", read_part<int8_t, Fill::High>, fits<1, 1>),
    reads("ds_load_i8_d16_hi", read_part<int8_t, Fill::High>, fits<1, 1>),
    reads("ds_read_u16_d16", read_part<uint16_t, Fill::Low>, fits<1, 1>),
    reads("ds_load_u16_d16", read_part<uint16_t, Fill::Low>, fits<1, 1>),
    reads("ds_read_u16_d16_hi", read_part<uint16_t, Fill::High>, fits<1, 1>),
    reads("ds_load_u16_d16_hi", read_part<uint16_t, Fill::High>, fits<1, 1>),
    reads("ds_read_b32", read<1>, fits<1, 1>),
    reads("ds_load_b32", read<1>, fits<1, 1>),
    reads("ds_read_b64", read<2>, fits<2, 1>),
    reads("ds_load_b64", read<2>, fits<2, 1>),
    reads("ds_read_b96", read<3>, fits<3, 1>),
    reads("ds_load_b96", read<3>, fits<3, 1>),
    reads("ds_read_b128", read<4>, fits<4, 1>),
    reads("ds_load_b128", read<4>, fits<4, 1>),
    reads("ds_read2_b32", read_two<1, 1>, fits<2, 1>),
    reads("ds_load_2addr_b32", read_two<1, 1>, fits<2, 1>),
    reads("ds_read2_b64", read_two<2, 1>, fits<4, 1>),
    reads("ds_load_2addr_b64", read_two<2, 1>, fits<4, 1>),
    reads("ds_read2st64_b32", read_two<1, 64>, fits<2, 1>),
    reads("ds_load_2addr_stride64_b32", read_two<1, 64>, fits<2, 1>),
    reads("ds_read2st64_b64", read_two<2, 64>, fits<4, 1>),
    reads("ds_load_2addr_stride64_b64", read_two<2, 64>, fits<4, 1>),
    reads("ds_read_addtid_b32", read_own, with_m0),
    reads("ds_load_addtid_b32", read_own, with_m0),
    writes("ds_write_b8", write_part<uint8_t, 0>, fits<1, 1>),
    writes("ds_store_b8", write_part<uint8_t, 0>, fits<1, 1>),
    writes("ds_write_b8_d16_hi", write_part<uint8_t, 16>, fits<1, 1>),
    writes("ds_store_b8_d16_hi", write_part<uint8_t, 16>, fits<1, 1>),
    writes("ds_write_b16", write_part<uint16_t, 0>, fits<1, 1>),
    writes("ds_store_b16", write_part<uint16_t, 0>, fits<1, 1>),
    writes("ds_write_b16_d16_hi", write_part<uint16_t, 16>, fits<1, 1>),
    writes("ds_store_b16_d16_hi", write_part<uint16_t, 16>, fits<1, 1>),
    writes("ds_write_b32", write<1>, fits<1, 1>),
    writes("ds_store_b32", write<1>, fits<1, 1>),
    writes("ds_write_b64", write<2>, fits<1, 2>),
    writes("ds_store_b64", write<2>, fits<1, 2>),
    writes("ds_write_b96", write<3>, fits<1, 3>),
    writes("ds_store_b96", write<3>, fits<1, 3>),
    writes("ds_write_b128", write<4>, fits<1, 4>),
    writes("ds_store_b128", write<4>, fits<1, 4>),
    writes("ds_write2_b32", write_two<1, 1>, fits<1, 1, 1>),
    writes("ds_store_2addr_b32", write_two<1, 1>, fits<1, 1, 1>),
    writes("ds_write2_b64", write_two<2, 1>, fits<1, 2, 2>),
    writes("ds_store_2addr_b64", write_two<2, 1>, fits<1, 2, 2>),
    writes("ds_write2st64_b32", write_two<1, 64>, fits<1, 1, 1>),
    writes("ds_store_2addr_stride64_b32", write_two<1, 64>, fits<1, 1, 1>),
    writes("ds_write2st64_b64", write_two<2, 64>, fits<1, 2, 2>),
    writes("ds_store_2addr_stride64_b64", write_two<2, 64>, fits<1, 2, 2>),
    writes("ds_write_addtid_b32", write_own, with_m0),
    writes("ds_store_addtid_b32", write_own, with_m0),
};

}  // namespace

const Table kLdsTable{kEntries, std::size(kEntries)};

}  // namespace emu
