// SMEM: scalar loads and stores (CDNA3 ISA 8 and 12.6, RDNA3 ISA 10 "Scalar memory operations", RDNA4 ISA 9).
#include <algorithm>

#include "access.hpp"
#include "lanes.hpp"
#include "tables.hpp"

namespace emu {

namespace {

constexpr const char* kLoad = "CDNA3 ISA 8.2, RDNA4 ISA 9.2 (S_LOAD)";
constexpr const char* kBuffer = "CDNA3 ISA 8.2.1, RDNA4 ISA 9.2 (S_BUFFER_LOAD)";
constexpr const char* kStore = "Vega ISA 7.2.1 (S_STORE)";
constexpr const char* kClock = "CDNA3 ISA 8.2.3 (S_MEMTIME, S_MEMREALTIME)";
constexpr const char* kCache = "CDNA3 ISA 8.2.2, RDNA4 ISA 9.5: caches are not modelled";

// Immediate or register offset (op[2]), and the immediate beside a register.
int64_t offset_of(const Wave& w, const Inst& i) {
  int64_t offset = i.mod.offset;
  if (i.ops > 2) {
    const Operand& op = i.op[2];
    if (op.kind == Kind::Constant) offset += int32_t(op.value);
    else offset += scalar32(w, op);
  }
  return offset;
}

void write_back(Wave& w, const Inst& i, const uint32_t* data, int n) {
  if (i.op[0].kind != Kind::Sgpr) return;
  std::memcpy(w.s + i.op[0].reg, data, size_t(n) * 4);
  issue(w, Counter::Scalar, {.first = i.op[0].reg, .count = uint8_t(n), .scalar = true});
}

// The two low bits of a dword's address are ignored ("the address is forced to dword alignment").
template <int N> void load(Wave& w, const Inst& i) {
  const uint64_t address = (w.pair(i.op[1].reg) + uint64_t(offset_of(w, i))) & ~3ull;
  uint32_t data[N] = {};
  if (reachable_one(w, i, 0, address, 4 * N, false)) std::memcpy(data, reinterpret_cast<const void*>(address), 4 * N);
  counts().scalar_read += 4 * N;
  write_back(w, i, data, N);
}

template <class T> void load_narrow(Wave& w, const Inst& i) {
  const uint64_t address = (w.pair(i.op[1].reg) + uint64_t(offset_of(w, i))) & ~uint64_t(sizeof(T) - 1);
  T data = 0;
  if (reachable_one(w, i, 0, address, sizeof(T), false)) data = host_read<T>(address);
  counts().scalar_read += sizeof(T);
  const uint32_t wide = uint32_t(int32_t(data));
  write_back(w, i, &wide, 1);
}

// Base and size of a buffer resource. Scalar accesses count in bytes: records x stride where it has a stride.
struct Range {
  uint64_t base, bytes;
};

Range range_of(const Wave& w, const Inst& i) {
  const uint32_t* const word = w.s + i.op[1].reg;
  const uint64_t stride = word[1] >> 16 & 0x3fff;
  return {uint64_t(word[1] & 0xffff) << 32 | word[0], stride ? stride * word[2] : word[2]};
}

// Dwords beyond the range read zero.
template <int N> void buffer_load(Wave& w, const Inst& i) {
  const Range range = range_of(w, i);
  const uint64_t offset = uint64_t(offset_of(w, i)) & 0xffffffffull & ~3ull;
  uint32_t data[N] = {};
  const uint64_t inside = offset < range.bytes ? std::min<uint64_t>((range.bytes - offset + 3) / 4, N) : 0;
  if (inside < N) ++counts().buffer_out_of_range;
  if (inside && reachable_one(w, i, 0, range.base + offset, uint32_t(4 * inside), false))
    std::memcpy(data, reinterpret_cast<const void*>(range.base + offset), 4 * inside);
  counts().scalar_read += 4 * inside;
  write_back(w, i, data, N);
}

template <class T> void buffer_load_narrow(Wave& w, const Inst& i) {
  const Range range = range_of(w, i);
  const uint64_t offset = uint64_t(offset_of(w, i)) & 0xffffffffull & ~uint64_t(sizeof(T) - 1);
  T data = 0;
  if (offset + sizeof(T) > range.bytes) ++counts().buffer_out_of_range;
  else if (reachable_one(w, i, 0, range.base + offset, sizeof(T), false)) data = host_read<T>(range.base + offset);
  counts().scalar_read += sizeof(T);
  const uint32_t wide = uint32_t(int32_t(data));
  write_back(w, i, &wide, 1);
}

template <int N> void store(Wave& w, const Inst& i) {
  const uint64_t address = (w.pair(i.op[1].reg) + uint64_t(offset_of(w, i))) & ~3ull;
  if (reachable_one(w, i, 0, address, 4 * N, true))
    std::memcpy(reinterpret_cast<void*>(address), w.s + i.op[0].reg, 4 * N);
  counts().global_written += 4 * N;
  issue(w, Counter::Scalar, {});
}

template <int N> void buffer_store(Wave& w, const Inst& i) {
  const Range range = range_of(w, i);
  const uint64_t offset = uint64_t(offset_of(w, i)) & 0xffffffffull & ~3ull;
  if (offset + 4 * N > range.bytes) ++counts().buffer_out_of_range;
  else if (reachable_one(w, i, 0, range.base + offset, 4 * N, true))
    std::memcpy(reinterpret_cast<void*>(range.base + offset), w.s + i.op[0].reg, 4 * N);
  counts().global_written += 4 * N;
  issue(w, Counter::Scalar, {});
}

// The emulator has no time to tell. Clocks count this thread's instructions, so they move forwards and repeat from run
// to run.
void clock(Wave& w, const Inst& i) {
  const uint64_t now = counts().instructions;
  uint32_t data[2];
  std::memcpy(data, &now, sizeof data);
  write_back(w, i, data, 2);
}

void nothing(Wave&, const Inst&) {}

std::string where_they_exist(Inst&, const ArchTraits& arch) {
  return arch.scalar_stores ? "" : "this architecture has no scalar stores";
}

#define LOAD(name, n) \
  {name, load<n>, 1, Class::ScalarMemory, Flow::Lane, 0, {Type::None, Type::None, Type::B32}, nullptr, kLoad}
#define NARROW(name, type) \
  {name, load_narrow<type>, 1, Class::ScalarMemory, Flow::Lane, 0, {Type::None, Type::None, Type::B32}, nullptr, kLoad}
#define BUFFER(name, n) \
  {name, buffer_load<n>, 1, Class::ScalarMemory, Flow::Lane, 0, {Type::None, Type::None, Type::B32}, nullptr, kBuffer}
#define BUFFER_NARROW(name, type)                                                                              \
  {name, buffer_load_narrow<type>, 1, Class::ScalarMemory, Flow::Lane, 0, {Type::None, Type::None, Type::B32}, \
   nullptr, kBuffer}
#define STORE(name, handler) \
  {name, handler, 0, Class::ScalarMemory, Flow::Lane, 0, {Type::None, Type::None, Type::B32}, where_they_exist, kStore}
#define CLOCK(name) {name, clock, 1, Class::ScalarMemory, Flow::Lane, 0, {}, nullptr, kClock}
#define NOTHING(name) {name, nothing, 0, Class::ScalarMemory, Flow::Defined, 0, {}, nullptr, kCache}

const Entry kEntries[] = {
    LOAD("s_load_dword", 1), LOAD("s_load_dwordx2", 2), LOAD("s_load_dwordx4", 4), LOAD("s_load_dwordx8", 8),
    LOAD("s_load_dwordx16", 16),
    LOAD("s_load_b32", 1), LOAD("s_load_b64", 2), LOAD("s_load_b96", 3), LOAD("s_load_b128", 4),
    LOAD("s_load_b256", 8), LOAD("s_load_b512", 16),
    NARROW("s_load_u8", uint8_t), NARROW("s_load_i8", int8_t), NARROW("s_load_u16", uint16_t),
    NARROW("s_load_i16", int16_t),
    BUFFER("s_buffer_load_dword", 1), BUFFER("s_buffer_load_dwordx2", 2), BUFFER("s_buffer_load_dwordx4", 4),
    BUFFER("s_buffer_load_dwordx8", 8), BUFFER("s_buffer_load_dwordx16", 16),
    BUFFER("s_buffer_load_b32", 1), BUFFER("s_buffer_load_b64", 2), BUFFER("s_buffer_load_b96", 3),
    BUFFER("s_buffer_load_b128", 4), BUFFER("s_buffer_load_b256", 8), BUFFER("s_buffer_load_b512", 16),
    BUFFER_NARROW("s_buffer_load_u8", uint8_t), BUFFER_NARROW("s_buffer_load_i8", int8_t),
    BUFFER_NARROW("s_buffer_load_u16", uint16_t), BUFFER_NARROW("s_buffer_load_i16", int16_t),
    STORE("s_store_dword", store<1>), STORE("s_store_dwordx2", store<2>), STORE("s_store_dwordx4", store<4>),
    STORE("s_buffer_store_dword", buffer_store<1>), STORE("s_buffer_store_dwordx2", buffer_store<2>),
    STORE("s_buffer_store_dwordx4", buffer_store<4>),
    CLOCK("s_memtime"), CLOCK("s_memrealtime"),
    NOTHING("s_dcache_inv"), NOTHING("s_dcache_inv_vol"), NOTHING("s_dcache_wb"), NOTHING("s_dcache_wb_vol"),
    NOTHING("s_dcache_discard"), NOTHING("s_dcache_discard_x2"), NOTHING("s_gl1_inv"), NOTHING("s_prefetch_inst"),
    NOTHING("s_prefetch_inst_pc_rel"), NOTHING("s_prefetch_data"), NOTHING("s_prefetch_data_pc_rel"),
    NOTHING("s_buffer_prefetch_data"), NOTHING("s_atc_probe"), NOTHING("s_atc_probe_buffer"),
};

}  // namespace

const Table kScalarMemoryTable{kEntries, sizeof kEntries / sizeof *kEntries};

}  // namespace emu
