// The registers of a wave before its first instruction.
#include <algorithm>
#include <cstring>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace emu {

namespace {

constexpr uint32_t kUndefinedScalar = 0xdead5000u;  // plus the register's number: seen where a kernel uses one unset

// Scratch buffer descriptor of gfx90a (CDNA2 ISA, "Buffer resource descriptor"): it swizzles elements of 4 bytes over
// 64 lanes, and the hardware adds the lane.
constexpr uint32_t kSwizzle = 1u << 31, kIndexStride64 = 3u << 21, kAddTid = 1u << 23;

uint32_t bits(uint32_t word, int low, int count) { return word >> low & ((1u << count) - 1); }

// Work-items of this workgroup along one axis. The last workgroup of a grid that does not divide has fewer.
uint32_t extent(uint32_t id, uint32_t block, uint32_t all) {
  const uint64_t from = uint64_t(id) * block;
  return uint32_t(std::min<uint64_t>(block, all > from ? all - from : 0));
}

Dim3 extents(const Dispatch& d, const Dim3& id) {
  const Dim3& block = d.launch.block;
  return {extent(id.x, block.x, d.items.x), extent(id.y, block.y, d.items.y), extent(id.z, block.z, d.items.z)};
}

// v0 holds all ids, 10 bits each ("Register Layout for Packed Work-Item ID Method"). Ids that the kernel does not
// request are zero.
void set_work_items(const Dispatch& d, Wave& w) {
  const Dim3 e = extents(d, w.group->id);
  const uint32_t components = std::min<uint32_t>(bits(d.launch.kernel->rsrc2, 11, 2), 2);
  const uint64_t present = uint64_t(e.x) * e.y * e.z;
  uint64_t exec = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t flat = uint64_t(w.index) * uint64_t(d.lanes) + uint64_t(lane);
    if (lane >= d.lanes || flat >= present) {
      w.v[0].x[lane] = 0;
      continue;
    }
    exec |= 1ull << lane;
    const Dim3 item{uint32_t(flat % e.x), uint32_t(flat / e.x % e.y), uint32_t(flat / e.x / e.y)};
    w.v[0].x[lane] = item.x | (components > 0 ? item.y << 10 : 0) | (components > 1 ? item.z << 20 : 0);
  }
  w.s[kExec] = uint32_t(exec);
  w.s[kExec + 1] = uint32_t(exec >> 32);
}

void set_scratch(const Dispatch& d, Wave& w) {
  if (d.scratch_buffer >= 0) {
    uint32_t* to = w.s + d.scratch_buffer;
    to[0] = uint32_t(w.scratch_va);
    to[1] = uint32_t(w.scratch_va >> 32 & 0xffff) | kSwizzle;
    to[2] = uint32_t(std::min<uint64_t>(uint64_t(d.scratch_bytes) * uint64_t(d.lanes), ~0u));
    to[3] = kIndexStride64 | kAddTid;
  }
  if (d.flat_scratch >= 0) w.set_pair(d.flat_scratch, w.scratch_va);
}

void set_system(const Dispatch& d, Wave& w) {
  const uint32_t rsrc2 = d.launch.kernel->rsrc2;
  const Dim3 id = w.group->id;
  if (w.arch->group_id_in_ttmp) {
    w.s[kTtmp + 9] = id.x;
    w.s[kTtmp + 7] = (id.y & 0xffff) | id.z << 16;
    w.s[kTtmp + 8] = uint32_t(w.index & 31) << 25;
    return;
  }
  uint32_t at = d.first_system;
  if (bits(rsrc2, 7, 1)) w.s[at++] = id.x;
  if (bits(rsrc2, 8, 1)) w.s[at++] = id.y;
  if (bits(rsrc2, 9, 1)) w.s[at++] = id.z;
  if (bits(rsrc2, 10, 1)) w.s[at++] = uint32_t(w.index == 0) << 31 | d.waves;
  if (bits(rsrc2, 0, 1) && !w.arch->sets_flat_scratch) w.s[at++] = 0;  // scratch wave offset: the base is the wave's own
}

}  // namespace

uint32_t Dispatch::waves_of(const Dim3& group) const {
  const Dim3 e = extents(*this, group);
  return uint32_t((uint64_t(e.x) * e.y * e.z + uint64_t(lanes) - 1) / uint64_t(lanes));
}

void Dispatch::start(Wave& w) const {
  for (uint32_t r = 0; r < vgprs; ++r) fill(w.v[r].x, kPoisonWord);
  for (uint32_t r = 0; r < agprs; ++r) fill(w.v[kAgpr0 + r].x, kPoisonWord);
  for (int r = 0; r < kScalars; ++r) w.s[r] = kUndefinedScalar + uint32_t(r);
  std::copy(user.begin(), user.end(), w.s);
  w.s[kM0] = kPoisonWord;
  w.set_pair(kVcc, 0);
  w.scc = false;
  w.mode = mode;
  w.dpp_mask = ~0ull;
  w.state = State::Running;
  w.pc = entry;
  w.signals = w.waited = 0;
  w.executed = 0;
  w.hw_id = uint32_t(w.index & 0xf) | uint32_t(w.index & 3) << 4;
  set_scratch(*this, w);
  set_system(*this, w);
  set_work_items(*this, w);
}

}  // namespace emu
