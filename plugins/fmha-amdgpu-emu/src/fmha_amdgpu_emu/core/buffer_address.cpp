#include "buffer_address.hpp"

#include <algorithm>
#include <string>

#include "lanes.hpp"

namespace emu {

namespace {

// OOB_SELECT (RDNA3 ISA 10.1.5.2 "Range checking"; RDNA4 ISA 10 has the same four).
enum Bounds : uint32_t { kStructured = 0, kIndexOnly = 1, kEmptyOnly = 2, kRaw = 3 };

// Addresses of the scratch resource lie in [scratch_va, scratch_va + lanes x bytes of a lane). The lanes' dwords lie
// side by side there.
bool is_scratch(const Wave& w, const Resource& r) { return w.scratch && w.scratch_va && r.add_tid && r.swizzle; }

// The byte offset in lane l's own memory, from an address in the wave's interleaved scratch.
uint64_t scratch_offset(const Wave& w, uint64_t address, int lane) {
  const uint64_t raw = address - w.scratch_va;
  const uint64_t row = raw / (4ull * uint32_t(w.lanes));
  return uint32_t(raw / 4 % uint32_t(w.lanes)) == uint32_t(lane) ? row * 4 + raw % 4 : ~0ull;
}

// Whether one component of `payload` bytes is in range. `offset` is its offset within the buffer, before soffset; `sum`
// is the linear or swizzled sum of that and the index.
//
// Without OOB_SELECT (CDNA): with an index and a stride, NUM_RECORDS counts structures, and only the index is checked.
// Otherwise NUM_RECORDS counts bytes and is reduced by soffset (CDNA3 ISA 9.1.5.3). IDXEN tells the two apart on gfx9,
// not SWIZZLE_ENABLE: compiled and hand-written kernels rely on that, and LLVM documents it for its raw and struct
// buffer intrinsics.
bool in_range(const Wave& w, const Inst& i, const Resource& r, uint64_t index, uint64_t offset, uint64_t sum,
              uint64_t soffset, uint32_t payload) {
  const uint64_t limit = r.records > soffset ? r.records - soffset : 0;
  if (!w.arch->oob_select) return i.mod.idxen && r.stride ? index < r.records : sum < limit;
  switch (r.bounds) {
    case kStructured: return index < r.records && (!r.stride || offset + payload <= r.stride);
    case kIndexOnly: return index < r.records;
    case kEmptyOnly: return r.records != 0;
    default:
      if (r.swizzle && r.stride) return index < r.records && offset + payload <= r.stride;
      return sum + payload <= limit;
  }
}

// For a linear buffer: whether even the largest index and the largest end (soffset included) are in range.
bool all_in_range(const Wave& w, const Inst& i, const Resource& r, uint64_t index, uint64_t end) {
  if (!w.arch->oob_select) return i.mod.idxen && r.stride ? index < r.records : end <= r.records;
  if (r.bounds == kRaw) return end <= r.records;
  return r.bounds == kIndexOnly ? index < r.records : r.bounds == kEmptyOnly && r.records != 0;
}

// CDNA3 ISA 9.1.5.4 "Swizzled buffer addressing".
uint64_t swizzled(const Resource& r, uint64_t index, uint64_t offset) {
  const uint64_t index_high = index / r.index_stride, index_low = index % r.index_stride;
  const uint64_t offset_high = offset / r.element, offset_low = offset % r.element;
  return (index_high * r.stride + offset_high * r.element) * r.index_stride + index_low * r.element + offset_low;
}

}  // namespace

// gfx9: CDNA3 ISA 9.1.6 "Buffer resource"; gfx11: RDNA3 ISA 10.1.6; gfx12: RDNA4 ISA 10. Where the thread id is added,
// CDNA uses the four bits of the data format for a wider stride.
Resource resource_of(const Wave& w, const Operand& srsrc) {
  const uint32_t* const word = w.s + srsrc.reg;
  Resource r;
  r.base = uint64_t(word[1] & 0xffff) << 32 | word[0];
  r.stride = word[1] >> 16 & 0x3fff;
  r.records = word[2];
  r.index_stride = 8u << (word[3] >> 21 & 3);
  r.add_tid = word[3] >> 23 & 1;
  if (!w.arch->oob_select) {
    r.swizzle = word[1] >> 31;
    if (r.add_tid) r.stride |= (word[3] >> 15 & 0xf) << 14;
    return r;
  }
  const uint32_t swizzle = word[1] >> 30;
  r.swizzle = swizzle != 0;
  r.element = swizzle ? 2u << swizzle : 4;
  r.bounds = word[3] >> 28 & 3;
  return r;
}

void buffer_access(Wave& w, const Inst& i, const BufferPlace& place, uint32_t bytes, bool whole, BufferAccess& out) {
  const Resource r = resource_of(w, *place.srsrc);
  const uint64_t soffset = scalar32(w, *place.soffset);
  const uint64_t exec = w.exec();
  const uint64_t base = r.base + soffset;
  const bool indexed = i.mod.idxen, offset_given = i.mod.offen;
  const uint32_t* const vindex = indexed ? w.v[place.vaddr->reg].x : nullptr;
  const uint32_t* const voffset = offset_given ? w.v[place.vaddr->reg + indexed].x : nullptr;
  const int dwords = whole || bytes < 4 ? 1 : int(bytes / 4);
  const uint32_t payload = whole || bytes < 4 ? bytes : 4;
  out.addresses.mask = exec;
  out.scratch = is_scratch(w, r);
  const uint64_t fixed = uint32_t(i.mod.offset);

  const auto everything = [&] {
    out.in_range[0] = out.in_range[1] = out.in_range[2] = out.in_range[3] = out.every = exec;
  };
  // Most buffers are linear. If the largest index or sum is in range, every lane is.
  if (!r.swizzle && !r.add_tid) {
    uint64_t last = 0, last_index = 0;
    if (vindex) {
      for (int l = 0; l < kLanes; ++l) {
        const uint64_t index = vindex[l];
        const uint64_t sum = fixed + (voffset ? voffset[l] : 0) + r.stride * index;
        out.addresses.at[l] = base + sum;
        if (exec >> l & 1) last = std::max(last, sum), last_index = std::max(last_index, index);
      }
    } else {
      last = fixed + (voffset ? largest(exec, voffset) : 0);
      if (voffset) for (int l = 0; l < kLanes; ++l) out.addresses.at[l] = base + fixed + voffset[l];
      else for (int l = 0; l < kLanes; ++l) out.addresses.at[l] = base + fixed;
    }
    if (all_in_range(w, i, r, last_index, last + bytes + soffset)) return everything();
  }
  // Spilling: the lanes' dwords lie side by side, so every lane has the same offset in its own memory.
  const uint64_t behind = base - w.scratch_va;
  if (out.scratch && !indexed && r.index_stride == uint32_t(w.lanes) && behind % (4ull * r.index_stride) == 0) {
    const uint64_t start = behind / r.index_stride + fixed;
    const uint64_t last = fixed + (voffset ? largest(exec, voffset) : 0);
    out.offsets.mask = exec;
    for (int l = 0; l < kLanes; ++l) out.offsets.at[l] = start + (voffset ? voffset[l] : 0);
    if ((last + bytes + 3) / 4 * 4 * r.index_stride + soffset <= r.records) return everything();
  }
  uint64_t any_outside = 0;
  for (int d = 0; d < 4; ++d) out.in_range[d] = 0;
  out.offsets.mask = exec;
  each_lane(exec, [&](int l) {
    const uint64_t index = (vindex ? vindex[l] : 0) + (r.add_tid ? uint64_t(l) : 0);
    const uint64_t first = fixed + (voffset ? voffset[l] : 0);
    for (int d = 0; d < dwords; ++d) {
      const uint64_t offset = first + 4 * uint64_t(d);
      const uint64_t sum = r.swizzle ? swizzled(r, index, offset) : offset + uint64_t(r.stride) * index;
      out.dword[d][l] = base + sum;
      if (in_range(w, i, r, index, offset, sum, soffset, payload)) out.in_range[d] |= 1ull << l;
      else any_outside |= 1ull << l;
    }
    out.addresses.at[l] = out.dword[0][l];
    if (out.scratch) out.offsets.at[l] = scratch_offset(w, out.dword[0][l], l);
  });
  out.together = !r.swizzle;
  out.every = exec & ~any_outside;
  counts().buffer_out_of_range += uint64_t(std::popcount(any_outside));
}

std::string refuse_buffer(const Inst& i) {
  if (i.mod.addr64) return "no emulated architecture has addr64";
  if (i.mod.tfe) return "tfe is not implemented";
  if (i.mod.gds) return "gds is not implemented";
  return {};
}

}  // namespace emu
