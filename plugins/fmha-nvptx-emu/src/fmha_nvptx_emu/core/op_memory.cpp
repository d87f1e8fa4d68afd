// Loads and stores. Source: PTX ISA 9.1, 9.7.9.8 (ld), 9.7.9.11 (st), 9.7.9.13 (prefetch). Cache operators and hints
// change no value.
#include <atomic>

#include "access.hpp"
#include "binding.hpp"
#include "cluster.hpp"

namespace ptx {

namespace {

uint64_t extended(uint64_t bits, const Inst& i, bool wide) {
  if (!i.sign) return bits;
  const unsigned n = i.width * 8;
  const uint64_t out = uint64_t(int64_t(bits << (64 - n)) >> (64 - n));
  return wide ? out : out & 0xffffffff;
}

// Puts element k of a lane into its register.
inline void put(Warp& w, const Inst& i, unsigned k, int lane, const uint8_t* from) {
  const bool wide = i.wide >> k & 1;
  if (i.width == 4 && !wide) return void(std::memcpy(w.row(i.slots[k]) + lane * 4, from, 4));
  if (i.width == 8) return void(std::memcpy(w.row(i.slots[k]) + lane * 8, from, 8));
  uint64_t bits = 0;
  std::memcpy(&bits, from, i.width);
  if (i.width < 4) bits = extended(bits, i, wide);
  else if (wide && i.width == 4) bits = extended(bits, i, true);
  if (wide) reinterpret_cast<uint64_t*>(w.row(i.slots[k]))[lane] = bits;
  else reinterpret_cast<uint32_t*>(w.row(i.slots[k]))[lane] = uint32_t(bits);
}
inline void fetch(const Warp& w, const Inst& i, unsigned k, Slot slot, int lane, uint8_t* to) {
  if (i.width == 4 && !(i.wide >> k & 1)) std::memcpy(to, w.row(slot) + lane * 4, 4);
  else if (i.wide >> k & 1) std::memcpy(to, w.row(slot) + lane * 8, i.width);
  else std::memcpy(to, w.row(slot) + lane * 4, i.width);
}

// Elements that fill their registers: 4 bytes, or 8.
bool plain(const Inst& i) { return i.width == 8 || (i.width == 4 && i.count <= 4 && !(i.wide & 0xf)); }
template <class T, unsigned n> void take_all(Warp& w, const Inst& i, uint32_t lanes, const Lanes& a, const uint8_t* base) {
  T* to[n];
  for (unsigned k = 0; k < n; ++k) to[k] = lanes_of<T>(w, i.slots[k]);
  const auto one = [&](int l) {
    T elements[n];
    std::memcpy(elements, base + a.at[l], sizeof elements);
    for (unsigned k = 0; k < n; ++k) to[k][l] = elements[k];
  };
  if (lanes != kAll) return each_lane(lanes, one);
  for (int l = 0; l < 32; ++l) one(l);
}
template <class T> bool take_some(Warp& w, const Inst& i, uint32_t lanes, const Lanes& a, const uint8_t* base) {
  if (i.count == 1) return take_all<T, 1>(w, i, lanes, a, base), true;
  if (i.count == 2) return take_all<T, 2>(w, i, lanes, a, base), true;
  return i.count == 4 && (take_all<T, 4>(w, i, lanes, a, base), true);
}
// From base + a.at of each lane into its registers.
void take(Warp& w, const Inst& i, uint32_t lanes, const Lanes& a, const uint8_t* base) {
  if (plain(i) && (i.width == 8 ? take_some<uint64_t>(w, i, lanes, a, base) : take_some<uint32_t>(w, i, lanes, a, base))) return;
  each_lane(lanes, [&](int l) {
    for (unsigned k = 0; k < i.count; ++k) put(w, i, k, l, base + a.at[l] + k * i.width);
  });
}
// The values that a store has, from the registers behind the address.
template <class T> void gather_element(const T* from, unsigned k, uint8_t (*values)[32]) {
  for (int l = 0; l < 32; ++l) std::memcpy(values[l] + sizeof(T) * k, from + l, sizeof(T));
}
void gather(const Warp& w, const Inst& i, uint32_t lanes, uint8_t (*values)[32]) {
  for (unsigned k = 0; k < i.count; ++k) {
    const Slot slot = i.slots[1 + k];
    if (!plain(i)) each_lane(lanes, [&](int l) { fetch(w, i, k, slot, l, values[l] + k * i.width); });
    else if (i.width == 8) gather_element(lanes_of<uint64_t>(w, slot), k, values);
    else gather_element(lanes_of<uint32_t>(w, slot), k, values);
  }
}

void define_all(Warp& w, const Inst& i, uint32_t defined, uint32_t mask) {
  for (unsigned k = 0; k < i.count; ++k) w.define(i.slots[k], defined, mask);
}

void load_global(Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes) {
  const uint32_t good = global_lanes(w, i, mask, a, bytes, false);
  w.block->counts.global_read += uint64_t(bytes) * unsigned(__builtin_popcount(mask));
  count_sectors(w, mask, a, bytes);
  take(w, i, good, a, nullptr);
  const uint8_t none[32] = {};
  each_lane(mask & ~good, [&](int l) {
    for (unsigned k = 0; k < i.count; ++k) put(w, i, k, l, none);
  });
  define_all(w, i, kAll, mask);
}

void load_shared(Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes) {
  SharedMemory& shared = w.block->shared;
  const uint32_t good = limited_lanes(w, i, mask, a, bytes, shared.bytes(), "shared");
  w.block->counts.shared_read += uint64_t(bytes) * unsigned(__builtin_popcount(mask));
  count_conflicts(w, mask, a, bytes);
  const uint32_t whole = w.block->checks ? shared.read_lanes(w, i, good, a.at, bytes) : good;
  take(w, i, good, a, shared.data());
  define_all(w, i, whole | (mask & ~good), mask);
}

void load_local(Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes) {
  const uint64_t size = w.block->kernel->local_bytes;
  const uint32_t good = limited_lanes(w, i, mask, a, bytes, size, "local");
  w.block->counts.local_read += uint64_t(bytes) * unsigned(__builtin_popcount(mask));
  uint32_t defined = mask & ~good;
  each_lane(good, [&](int l) {
    const size_t at = size_t(l) * size + a.at[l];
    bool whole = true;
    for (uint32_t k = 0; k < bytes; ++k) whole &= w.local_defined[at + k] != 0;
    defined |= uint32_t(whole) << l;
    for (unsigned k = 0; k < i.count; ++k) put(w, i, k, l, w.local.data() + at + k * i.width);
  });
  define_all(w, i, defined, mask);
}

void load_param(Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes) {
  const std::vector<uint8_t>& parameters = w.block->launch->parameters;
  const uint32_t good = limited_lanes(w, i, mask, a, bytes, parameters.size(), "parameter");
  w.block->counts.param_read += bytes;
  const uint64_t first = a.at[__builtin_ctz(mask)];
  uint64_t apart = ~uint64_t(mask & good) & kAll;
  for (int l = 0; l < 32; ++l) apart |= a.at[l] ^ first;
  for (unsigned k = 0; !apart && k < i.count; ++k) {  // mostly all lanes read one parameter
    put(w, i, k, 0, parameters.data() + first + k * i.width);
    if (i.width == 8 || i.wide >> k & 1) std::fill_n(lanes_of<uint64_t>(w, i.slots[k]), 32, lanes_of<uint64_t>(w, i.slots[k])[0]);
    else std::fill_n(lanes_of<uint32_t>(w, i.slots[k]), 32, lanes_of<uint32_t>(w, i.slots[k])[0]);
  }
  if (!apart) return define_all(w, i, kAll, mask);
  const uint8_t none[32] = {};
  each_lane(mask, [&](int l) {
    for (unsigned k = 0; k < i.count; ++k) put(w, i, k, l, (good >> l & 1 ? parameters.data() + a.at[l] : none) + k * i.width);
  });
  define_all(w, i, kAll, mask);
}

void load_in(Space space, Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes) {
  switch (space) {
    case Space::Shared: return load_shared(w, i, mask, a, bytes);
    case Space::Local: return load_local(w, i, mask, a, bytes);
    case Space::Param: return load_param(w, i, mask, a, bytes);
    default: return load_global(w, i, mask, a, bytes);
  }
}

// Whether all bytes of a lane's stored values are defined, and whether they are stored at all.
uint32_t stored_defined(const Warp& w, const Inst& i) {
  uint32_t defined = ~w.tainted;
  for (unsigned k = 0; k < i.count; ++k) defined &= w.defined[i.slots[1 + k].id];
  return defined;
}

void store_in(Space space, Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes) {
  Block& b = *w.block;
  const uint64_t total = uint64_t(bytes) * unsigned(__builtin_popcount(mask));
  uint8_t values[32][32];
  gather(w, i, mask, values);
  if (space == Space::Shared) {
    const uint32_t good = limited_lanes(w, i, mask, a, bytes, b.shared.bytes(), "shared"), defined = stored_defined(w, i);
    b.counts.shared_written += total;
    count_conflicts(w, mask, a, bytes);
    if (b.checks) b.shared.write_lanes(w, i, good, a.at, bytes, values, defined);
    else each_lane(good, [&](int l) { std::memcpy(b.shared.data() + a.at[l], values[l], bytes); });
  } else if (space == Space::Local) {
    const uint64_t size = b.kernel->local_bytes;
    const uint32_t good = limited_lanes(w, i, mask, a, bytes, size, "local"), defined = stored_defined(w, i);
    b.counts.local_written += total;
    each_lane(good, [&](int l) {
      std::memcpy(w.local.data() + size_t(l) * size + a.at[l], values[l], bytes);
      std::memset(w.local_defined.data() + size_t(l) * size + a.at[l], int(defined >> l & 1), bytes);
    });
  } else if (space == Space::Param) {
    throw Fault{"line " + std::to_string(i.at->line) + ": " + std::string(i.at->text) + ": a kernel's parameters are read-only"};
  } else {
    const uint32_t good = global_lanes(w, i, mask, a, bytes, true);
    b.counts.global_written += total;
    count_sectors(w, mask, a, bytes);
    if (b.checks)
      for (unsigned k = 0; k < i.count; ++k)
        if (mask & ~w.defined[i.slots[1 + k].id]) require_defined(w, i, i.slots[1 + k], mask, "data that is stored");
    if (b.checks) require_decided(w, i, mask);
    write_global(w, i, good, a.at, bytes, values);
  }
}

// The lanes whose address lies in another block of the cluster are served here, without books; the others are returned.
template <bool write> uint32_t distributed(Warp& w, const Inst& i, uint32_t mask, Lanes& a, uint32_t bytes) {
  uint32_t own = 0;
  each_lane(mask, [&](int l) {
    Block& of = block_of(w, i, a.at[l]);
    if (&of == w.block) return void(own |= 1u << l);
    if (!limited_lanes(w, i, 1u << l, a, bytes, of.shared.bytes(), "another block's shared")) return;
    uint8_t values[32];
    for (unsigned k = 0; write && k < i.count; ++k) fetch(w, i, k, i.slots[1 + k], l, values + k * i.width);
    if (write) of.shared.store_remote(uint32_t(a.at[l]), bytes, values);
    for (unsigned k = 0; !write && k < i.count; ++k) put(w, i, k, l, of.shared.data() + a.at[l] + k * i.width);
  });
  if (!write) define_all(w, i, kAll, mask & ~own);
  return own;
}

// All lanes load a parameter from one place, into registers of its size. False: nothing was done.
bool load_one_parameter(Warp& w, const Inst& i, uint32_t bytes) {
  const Slot base = i.slots[i.count];
  const std::vector<uint8_t>& parameters = w.block->launch->parameters;
  if (emulation::careful || base.id || !plain(i)) return false;  // no register: a constant of 64 bits, the same in all lanes
  const uint64_t at = lanes_of<uint64_t>(w, base)[0] + uint64_t(i.imm);
  if (at & (bytes - 1) || bytes > parameters.size() || at > parameters.size() - bytes) return false;
  w.block->counts.param_read += bytes;
  for (unsigned k = 0; k < i.count; ++k) {
    uint64_t value = 0;
    std::memcpy(&value, parameters.data() + at + k * i.width, i.width);
    if (i.width == 8) std::fill_n(lanes_of<uint64_t>(w, i.slots[k]), 32, value);
    else std::fill_n(lanes_of<uint32_t>(w, i.slots[k]), 32, uint32_t(value));
    w.define(i.slots[k], kAll, kAll);
  }
  return true;
}

template <bool write> void access(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t bytes = uint32_t(i.width) * i.count;
  if (!write && i.space == Space::Param && mask == kAll && load_one_parameter(w, i, bytes)) return;
  Lanes a;
  addresses(w, i, i.slots[write ? 0 : i.count], mask, a);
  const auto go = [&](Space space, uint32_t lanes) { write ? store_in(space, w, i, lanes, a, bytes) : load_in(space, w, i, lanes, a, bytes); };
  if (i.target && i.space == Space::Shared && !(mask = distributed<write>(w, i, mask, a, bytes))) return;
  if (i.space != Space::Generic) return go(i.space == Space::Const ? Space::Global : i.space, mask);
  for (const Space space : {Space::Global, Space::Shared, Space::Local, Space::Param}) {
    uint32_t lanes = 0;
    each_lane(mask, [&](int l) { lanes |= uint32_t(placed(Space::Generic, a.at[l]).space == space) << l; });
    if (!lanes) continue;
    each_lane(lanes, [&](int l) { a.at[l] = placed(Space::Generic, a.at[l]).at; });
    if (space == Space::Shared) lanes = distributed<write>(w, i, lanes, a, bytes);
    if (lanes) go(space, lanes);
  }
}

// A load or store that orders others takes part in the order of blocks.
template <bool write> void ordering(Warp& w, const Inst& i, uint32_t mask) {
  Lanes a;
  addresses(w, i, i.slots[write ? 0 : i.count], mask, a);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (w.block->checks) each_lane(mask, [&](int l) { w.block->launch->writers->meet(w.block->number, a.at[l]); });
  access<write>(w, i, mask);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void hints(Binding& b) {
  b.any({"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
         "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "L2::evict_last", "L2::evict_first", "L2::evict_normal"});
  b.any({"cta", "cluster", "gpu", "sys"});
}

Space space_of(Binding& b) {
  if (b.take("global")) return Space::Global;
  if (b.take("const")) return Space::Const;
  if (b.take("shared") || b.take("shared::cta")) return Space::Shared;
  if (b.take("local")) return Space::Local;
  if (b.any({"param", "param::entry", "param::func"})) return Space::Param;
  return Space::Generic;
}

template <bool write> Handler bind_access(Binding& b) {
  if (write && b.take("async")) return bind_store_async(b);
  if (b.take("shared::cluster")) b.out.space = Space::Shared, b.out.target = 1;
  else b.out.space = space_of(b);
  const Operand& place = b.operand(write ? 0 : 1);
  if (b.out.space == Space::Param && place.variable && place.variable->space == Space::Local) b.out.space = Space::Local;  // of a call
  const bool ordered = b.any({"volatile", "relaxed", "acquire", "release"});
  hints(b);
  const unsigned n = b.take("v2") ? 2 : b.take("v4") ? 4 : b.take("v8") ? 8 : 1;
  const Type type = b.type();
  b.count(2, 2);
  b.out.width = uint8_t(bits_of(type) / 8), b.out.count = uint8_t(n), b.out.sign = false;
  if (!b.out.width || b.out.width > 8 || b.out.width * n > 32) return nullptr;
  const Operand& data = b.operand(write ? 1 : 0);
  if (write) b.address(0);
  uint8_t wide = 0;
  const auto element = [&](unsigned k, const Operand& o) {  // a register may be wider than the type
    Type as = type;
    if (o.kind == Operand::Reg) {
      as = o.reg->type;
      if (as == Type::Pred || bits_of(as) < bits_of(type)) b.refuse("the register " + o.name + " is too narrow");
    } else if (bits_of(type) < 32 && !is_float(type)) as = Type::U32;
    wide |= uint8_t((bits_of(as) == 64) << k);
    if (write) b.source(o, as);
    else b.dest(o, as);
  };
  if (n == 1) element(0, data.kind == Operand::Vector && data.parts.size() == 1 ? data.parts[0] : data);
  else {
    if (data.kind != Operand::Vector || data.parts.size() != n) b.refuse("it needs a vector of " + std::to_string(n) + " registers");
    for (unsigned k = 0; k < n; ++k) element(k, data.parts[k]);
  }
  if (!write) b.address(1);
  b.out.wide |= wide;
  b.out.sign = !write && is_signed(type);
  b.out.own_flow = true;
  const Class classes[] = {Class::Global, Class::Global, Class::Global, Class::Shared, Class::Local, Class::Param};
  b.out.cls = classes[size_t(b.out.space)];
  return ordered ? ordering<write> : access<write>;
}

void nothing(Warp&, const Inst&, uint32_t) {}
Handler bind_prefetch(Binding& b) {
  b.any({"global", "local", "const", "param", "tensormap", "L1", "L2", "L2::evict_last", "L2::evict_normal"});
  return nothing;
}

constexpr Opcode rows[] = {
    {"ld", "9.7.9.8", Class::Global, bind_access<false>},
    {"ldu", "9.7.9.10", Class::Global, bind_access<false>},
    {"st", "9.7.9.11", Class::Global, bind_access<true>},
    {"prefetch", "9.7.9.13", Class::Global, bind_prefetch},
};

}  // namespace

extern const Table kMemoryOpcodes{rows, std::size(rows)};

}  // namespace ptx
