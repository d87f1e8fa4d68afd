// Bounds of vector memory accesses: which lanes may read and write, and the findings for those that may not.
#include "access.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "bind.hpp"
#include "definedness.hpp"
#include "lanes.hpp"
#include "memory.hpp"

namespace emu {

namespace {

std::string hex(uint64_t value) {
  char out[24];
  std::snprintf(out, sizeof out, "0x%llx", static_cast<unsigned long long>(value));
  return out;
}

template <class F> void report_bounds(Wave& w, const Inst& i, int lane, F text) {
  if (w.launch && w.launch->report) w.launch->report->add(Finding::OutOfBounds, w, i, lane, text);
}

std::string access_text(int lane, uint32_t bytes, bool write, const std::string& where) {
  return "lane " + std::to_string(lane) + (write ? " writes " : " reads ") + std::to_string(bytes) +
         (bytes == 1 ? " byte at " : " bytes at ") + where;
}

// The address within an aperture (its base is a multiple of 4 GiB).
inline uint32_t aperture_word(const Wave& w, Aperture which) { return uint32_t(aperture_of(w, which) >> 32); }

// LDS by FLAT addresses: books, bounds, host addresses.
uint64_t flat_lds(Wave& w, const Inst& i, Addresses& a, uint64_t mask, uint32_t bytes, Touch touch) {
  uint64_t may = 0;
  uint32_t offsets[kLanes];
  const size_t size = w.group ? w.group->lds.size() : 0;
  each_lane(mask, [&](int l) {
    offsets[l] = uint32_t(a.at[l]);
    if (uint64_t(offsets[l]) + bytes <= size) {
      a.at[l] = reinterpret_cast<uint64_t>(w.group->lds.data() + offsets[l]);
      may |= 1ull << l;
    } else {
      report_bounds(w, i, l, [&] {
        return access_text(l, bytes, touch != Touch::Read, std::to_string(offsets[l])) + " of the workgroup's LDS, which has " +
               std::to_string(size) + " bytes";
      });
    }
  });
  const uint32_t sequence = lds_access_begins(w);
  if (touch == Touch::Change) lds_changed(w, i, may, offsets, bytes, sequence);
  else if (touch == Touch::Write) lds_written(w, i, may, offsets, bytes, sequence, false);
  else lds_read(w, i, may, offsets, bytes, sequence);
  return may;
}

}  // namespace

bool reachable_one(Wave& w, const Inst& i, int lane, uint64_t address, uint32_t bytes, bool write) {
  const Memory::Place place = memory().place(address, bytes, write);
  if (place == Memory::Place::Inside) return true;
  if (address >= kHostcallBuffer && address < kServicesEnd)
    throw Unexecutable{address < kDeviceHeap ? "the kernel calls the host (printf or assert), and hostcalls are not offered"
                                             : "the kernel allocates memory (malloc or new), and a device heap is not offered"};
  report_bounds(w, i, lane, [&] {
    return access_text(lane, bytes, write, hex(address)) +
           (place == Memory::Place::ReadOnly ? ", which is read-only: " : ": ") + memory().nearest(address);
  });
  return place == Memory::Place::Guard && memory().mapped(address, bytes);
}

namespace {

struct Range {
  uint64_t low = ~0ull, high = 0;
};

Range range_of(const Addresses& addresses) {
  Range out;
#if defined(__AVX512F__)
  __m512i low = _mm512_set1_epi64(-1), high = _mm512_setzero_si512();
  for (int k = 0; k < kLanes; k += 8) {
    const __m512i at = _mm512_loadu_si512(addresses.at + k);
    low = _mm512_mask_min_epu64(low, __mmask8(addresses.mask >> k), low, at);
    high = _mm512_mask_max_epu64(high, __mmask8(addresses.mask >> k), high, at);
  }
  out = {_mm512_reduce_min_epu64(low), _mm512_reduce_max_epu64(high)};
#else
  each_lane(addresses.mask, [&](int l) {
    out.low = std::min(out.low, addresses.at[l]);
    out.high = std::max(out.high, addresses.at[l]);
  });
#endif
  return out;
}

}  // namespace

uint64_t reachable(Wave& w, const Inst& i, const Addresses& addresses, uint32_t bytes, bool write) {
  if (!addresses.mask) return 0;
  const auto [low, high] = range_of(addresses);
  if (memory().place(low, high - low + bytes, write) == Memory::Place::Inside) return addresses.mask;
  uint64_t may = 0;
  each_lane(addresses.mask, [&](int l) {
    may |= uint64_t(reachable_one(w, i, l, addresses.at[l], bytes, write)) << l;
  });
  return may;
}

uint64_t reachable_scratch(Wave& w, const Inst& i, Addresses& offsets, uint32_t bytes, bool write) {
  const uint64_t last = range_of(offsets).high;
  if (w.scratch && last <= w.scratch_bytes && last + bytes <= w.scratch_bytes) {
    const uint64_t base = reinterpret_cast<uint64_t>(w.scratch);
    each_lane(offsets.mask, [&](int l) { offsets.at[l] += base + uint64_t(l) * w.scratch_bytes; });
    return offsets.mask;
  }
  uint64_t may = 0;
  each_lane(offsets.mask, [&](int l) {
    const uint64_t offset = offsets.at[l];
    if (w.scratch && offset <= w.scratch_bytes && offset + bytes <= w.scratch_bytes) {
      offsets.at[l] = reinterpret_cast<uint64_t>(w.scratch + uint64_t(l) * w.scratch_bytes + offset);
      may |= 1ull << l;
    } else {
      report_bounds(w, i, l, [&] {
        return access_text(l, bytes, write, std::to_string(int64_t(offset))) + " of its private memory, which has " +
               std::to_string(w.scratch_bytes) + " bytes";
      });
    }
  });
  return may;
}

uint64_t reachable_flat(Wave& w, const Inst& i, Addresses& a, uint32_t bytes, Touch touch) {
  const bool write = touch != Touch::Read;
  const uint32_t shared = aperture_word(w, SharedBase), priv = aperture_word(w, PrivateBase);
  uint64_t in_lds = 0, in_scratch = 0;
  each_lane(a.mask, [&](int l) {
    const uint32_t high = uint32_t(a.at[l] >> 32);
    if (shared && high == shared) in_lds |= 1ull << l;
    else if (priv && high == priv) in_scratch |= 1ull << l;
  });
  if (!(in_lds | in_scratch)) return reachable(w, i, a, bytes, write);
  const uint64_t all = a.mask;
  a.mask = all & ~(in_lds | in_scratch);
  uint64_t may = reachable(w, i, a, bytes, write);
  if (in_lds) may |= flat_lds(w, i, a, in_lds, bytes, touch);
  if (in_scratch) {
    a.mask = in_scratch;
    uint64_t offsets[kLanes];
    each_lane(in_scratch, [&](int l) { offsets[l] = a.at[l] = uint32_t(a.at[l]); });
    const uint64_t inside = reachable_scratch(w, i, a, bytes, write);
    if (touch == Touch::Write && w.track.on) scratch_stored(w, inside, offsets, bytes, i.op[1].reg);
    may |= inside;
  }
  a.mask = all;
  return may;
}

namespace {

// Spilling: an access touches the same dwords in every lane.
bool uniform(uint64_t mask, const uint64_t* offsets, uint32_t bytes) {
  if (bytes % 4 || !mask) return false;
  const uint64_t first = offsets[std::countr_zero(mask)];
  if (first % 4) return false;
  bool same = true;
  each_lane(mask, [&](int l) { same &= offsets[l] == first; });
  return same;
}

// Calls f(dword of private memory, register) for everything that one lane's access touches.
template <class F> void each_dword(const Wave& w, uint64_t offset, uint32_t bytes, int reg, F f) {
  for (uint64_t at = offset; at < offset + bytes; at = (at | 3) + 1)
    if (at / 4 < w.track.scratch.size()) f(size_t(at / 4), reg + int((at - offset) / 4));
}

}  // namespace

void scratch_stored(Wave& w, uint64_t mask, const uint64_t* offsets, uint32_t bytes, int reg) {
  std::vector<uint64_t>& books = w.track.scratch;
  const auto store = [&](uint64_t lanes, uint64_t offset) {
    each_dword(w, offset, bytes, reg, [&](size_t dword, int from) {
      const uint64_t holds = lanes & defined_lanes(w, from);
      books[dword] = bytes < 4 ? books[dword] | holds : (books[dword] & ~lanes) | holds;
    });
  };
  if (uniform(mask, offsets, bytes)) return store(mask, offsets[std::countr_zero(mask)]);
  each_lane(mask, [&](int l) { store(1ull << l, offsets[l]); });
}

void scratch_loaded(Wave& w, uint64_t mask, const uint64_t* offsets, uint32_t bytes, int reg) {
  const std::vector<uint64_t>& books = w.track.scratch;
  const auto load = [&](uint64_t lanes, uint64_t offset) {
    each_dword(w, offset, bytes, reg, [&](size_t dword, int to) {
      undefine(w, to, lanes & ~books[dword]);
      define(w, to, lanes & books[dword]);
    });
  };
  if (uniform(mask, offsets, bytes)) return load(mask, offsets[std::countr_zero(mask)]);
  each_lane(mask, [&](int l) { load(1ull << l, offsets[l]); });
}

void require_defined(Wave& w, const Inst& i, const Operand& op, uint64_t active) {
  if (!w.track.on || op.kind != Kind::Vgpr) return;
  for (int k = 0; k < op.count; ++k)
    if (!w.track.defined.test(op.reg + k)) sink_undefined(w, i, op.reg + k, active);
}

void set_roles(Inst& i, int dsts) {
  i.dsts = uint8_t(dsts);
  i.dst_regs = dsts ? i.op[0].count : 0;
  i.v_reads.reset(), i.v_writes.reset(), i.s_reads.reset(), i.s_writes.reset();
  for (int k = 0; k < i.ops; ++k) {
    if (k < dsts) add_registers(i.op[k], i.v_writes, i.s_writes);
    else add_registers(i.op[k], i.v_reads, i.s_reads);
  }
}

}  // namespace emu
