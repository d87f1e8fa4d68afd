// What the packet processor and the dispatcher do for a launch.
#include "dispatch.hpp"

#include <cstring>
#include <map>

#include "access.hpp"
#include "lanes.hpp"
#include "memory.hpp"
#include "program.hpp"

namespace emu {

namespace {

constexpr uint32_t kDynamicStackBytes = 16384;  // of a lane, where the kernel's need is not known beforehand
constexpr size_t kGuard = 64, kAlign = 64;
constexpr size_t kPacketBytes = 64, kQueueBytes = 256;

// Kernel code properties.
enum : uint32_t {
  kPrivateBuffer = 1, kDispatchPtr = 2, kQueuePtr = 4, kKernargPtr = 8, kDispatchId = 16, kFlatScratchInit = 32,
  kPrivateSize = 64, kWave32 = 1 << 10, kDynamicStack = 1 << 11
};

uint32_t bits(uint32_t word, int low, int count) { return word >> low & ((1u << count) - 1); }

uint32_t user_count(const Kernel& k) { return bits(k.rsrc2, 1, 5); }

int lanes_of(const Launch& launch) {
  if (!arch_of(*launch.program).wave32) return 64;
  return launch.kernel->properties & kWave32 ? 32 : 64;
}

Dim3 items_of(const Launch& l) {
  if (l.items.x || l.items.y || l.items.z) return l.items;
  return {l.grid.x * l.block.x, l.grid.y * l.block.y, l.grid.z * l.block.z};
}

uint32_t granules(const Kernel& k, uint32_t each) { return (bits(k.rsrc1, 0, 6) + 1) * each; }

uint32_t arch_vgprs(const Launch& l, int lanes) {
  if (arch_of(*l.program).agprs) return std::min<uint32_t>((bits(l.kernel->rsrc3, 0, 6) + 1) * 4, 256);
  return std::min<uint32_t>(granules(*l.kernel, lanes == 32 ? 8 : 4), 256);
}

uint32_t acc_vgprs(const Launch& l, uint32_t vgprs) {
  if (!arch_of(*l.program).agprs) return 0;
  const uint32_t all = granules(*l.kernel, 8);
  return all > vgprs ? std::min<uint32_t>(all - vgprs, 256) : 0;
}

// What MODE starts with (LLVM AMDGPU backend guide, compute_pgm_rsrc1).
Mode mode_of(const Kernel& k, const ArchTraits& arch) {
  Mode out;
  out.bits = bits(k.rsrc1, 12, 8);
  const bool fixed = !arch.mode_has_ieee;
  out.bits |= (fixed ? 1u : bits(k.rsrc1, 21, 1)) << 8 | (fixed ? 1u : bits(k.rsrc1, 23, 1)) << 9;
  out.bits |= bits(k.rsrc1, 26, 1) << 23;  // FP16_OVFL
  return out;
}

// A kernel that preloads arguments has two entries, 256 bytes apart. The first one loads the arguments itself, unless
// it only traps.
const Inst* entry_of(const Launch& l) {
  const Inst* entry = l.kernel->entry;
  if (!bits(l.kernel->preload, 0, 7) || std::strcmp(entry->mnemonic, "s_trap") != 0) return entry;
  const auto second = l.program->listing->at.find(entry->address + 256);
  return second == l.program->listing->at.end() ? entry : second->second;
}

size_t kernarg_bytes(const Launch& l) {
  return (std::max<size_t>(l.kernel->kernarg_bytes, l.kernargs.size()) + 15) & ~size_t(15);
}

}  // namespace

uint64_t aperture_of(const Wave&, uint32_t which) {
  const uint64_t base = which == PrivateBase || which == PrivateLimit ? kPrivateAperture : kSharedAperture;
  return which == SharedLimit || which == PrivateLimit ? base + kApertureBytes - 1 : base;
}

Block::Block(size_t bytes, const char* name) : room_(new uint8_t[bytes + 2 * kGuard + kAlign]) {
  const uint64_t start = reinterpret_cast<uint64_t>(room_.get()) + kGuard;
  data_ = reinterpret_cast<uint8_t*>((start + kAlign - 1) & ~uint64_t(kAlign - 1));
  std::memset(room_.get(), kPoison, bytes + 2 * kGuard + kAlign);
  std::memset(data_, 0, bytes);
  memory().allocated(address(), bytes, name, false);
}

Block::~Block() { memory().freed(address()); }

Dispatch::Dispatch(Launch& l)
    : launch(l), lanes(lanes_of(l)), work_items(l.block.x * l.block.y * l.block.z),
      lds_bytes(l.kernel->lds_bytes + l.dynamic_lds), entry(entry_of(l)), items(items_of(l)),
      groups(uint64_t(l.grid.x) * l.grid.y * l.grid.z), kernargs(kernarg_bytes(l), "kernel arguments"),
      packet(kPacketBytes, "dispatch packet"), queue(kQueueBytes, "queue") {
  waves = (work_items + uint32_t(lanes) - 1) / uint32_t(lanes);
  vgprs = arch_vgprs(l, lanes);
  agprs = acc_vgprs(l, vgprs);
  mode = mode_of(*l.kernel, arch_of(*l.program));
  const bool dynamic = l.kernel->dynamic_stack || l.kernel->properties & kDynamicStack;
  scratch_bytes = (l.kernel->scratch_bytes + (dynamic ? kDynamicStackBytes : 0) + 15) & ~15u;
  fill_kernargs();
  fill_packet();
  fill_user();
}

void Dispatch::fill_kernargs() {
  std::memcpy(kernargs.data(), launch.kernargs.data(), launch.kernargs.size());
  const auto extent = [](uint32_t all, uint32_t each) { return std::make_pair(all / each, all % each); };
  const auto [bx, rx] = extent(items.x, launch.block.x);
  const auto [by, ry] = extent(items.y, launch.block.y);
  const auto [bz, rz] = extent(items.z, launch.block.z);
  const uint64_t dimensions = launch.grid.z * launch.block.z > 1 ? 3 : launch.grid.y * launch.block.y > 1 ? 2 : 1;
  const std::map<std::string, uint64_t> values = {
      {"hidden_block_count_x", bx}, {"hidden_block_count_y", by}, {"hidden_block_count_z", bz},
      {"hidden_group_size_x", launch.block.x}, {"hidden_group_size_y", launch.block.y},
      {"hidden_group_size_z", launch.block.z},
      {"hidden_remainder_x", rx}, {"hidden_remainder_y", ry}, {"hidden_remainder_z", rz},
      {"hidden_global_offset_x", 0}, {"hidden_global_offset_y", 0}, {"hidden_global_offset_z", 0},
      {"hidden_grid_dims", dimensions}, {"hidden_dynamic_lds_size", launch.dynamic_lds},
      {"hidden_private_base", kPrivateAperture >> 32}, {"hidden_shared_base", kSharedAperture >> 32},
      {"hidden_queue_ptr", queue.address()},
      {"hidden_hostcall_buffer", kHostcallBuffer}, {"hidden_heap_v1", kDeviceHeap},
  };
  for (const Kernel::Argument& a : launch.kernel->arguments) {
    if (a.kind.rfind("hidden_", 0) != 0 || uint64_t(a.offset) + a.size > kernarg_bytes(launch)) continue;
    const auto known = values.find(a.kind);
    // The other hidden arguments (printf buffer, multigrid, ...) serve other languages and launches. They are null
    // pointers.
    const uint64_t value = known == values.end() ? 0 : known->second;
    std::memset(kernargs.data() + a.offset, 0, a.size);
    std::memcpy(kernargs.data() + a.offset, &value, std::min<size_t>(a.size, sizeof value));
  }
}

// HSA System Architecture Specification, "AQL kernel dispatch packet".
void Dispatch::fill_packet() {
  struct Packet {
    uint16_t header, setup, group_x, group_y, group_z, reserved0;
    uint32_t grid_x, grid_y, grid_z, private_bytes, group_bytes;
    uint64_t kernel_object, kernarg_address, reserved2, completion_signal;
  } p{};
  static_assert(sizeof p == kPacketBytes);
  p.header = 2;  // a kernel dispatch
  p.setup = launch.grid.z * launch.block.z > 1 ? 3 : launch.grid.y * launch.block.y > 1 ? 2 : 1;
  p.group_x = uint16_t(launch.block.x), p.group_y = uint16_t(launch.block.y), p.group_z = uint16_t(launch.block.z);
  p.grid_x = items.x, p.grid_y = items.y, p.grid_z = items.z;
  p.private_bytes = scratch_bytes;
  p.group_bytes = lds_bytes;
  p.kernel_object = launch.program->image->bias + launch.kernel->descriptor;
  p.kernarg_address = kernargs.address();
  std::memcpy(packet.data(), &p, sizeof p);
}

void Dispatch::fill_user() {
  const Kernel& k = *launch.kernel;
  const auto add = [&](uint64_t value, int words) {
    for (int w = 0; w < words; ++w) user.push_back(uint32_t(w < 2 ? value >> (32 * w) : 0));
  };
  if (k.properties & kPrivateBuffer) scratch_buffer = int(user.size()), add(0, 4);
  if (k.properties & kDispatchPtr) add(packet.address(), 2);
  if (k.properties & kQueuePtr) add(queue.address(), 2);
  if (k.properties & kKernargPtr) add(kernargs.address(), 2);
  if (k.properties & kDispatchId) add(1, 2);
  if (k.properties & kFlatScratchInit) flat_scratch = int(user.size()), add(0, 2);
  if (k.properties & kPrivateSize) add(scratch_bytes, 1);
  const uint32_t preload = bits(k.preload, 0, 7), offset = bits(k.preload, 7, 9);
  for (uint32_t w = 0; w < preload; ++w) {
    uint32_t word = 0;
    if (4 * size_t(offset + w) + 4 <= kernarg_bytes(launch)) std::memcpy(&word, kernargs.data() + 4 * (offset + w), 4);
    user.push_back(word);
  }
  first_system = std::max<uint32_t>(user_count(k), uint32_t(user.size()));
}

Dim3 Dispatch::group_id(uint64_t linear) const {
  const Dim3& g = launch.grid;
  return {uint32_t(linear % g.x), uint32_t(linear / g.x % g.y), uint32_t(linear / g.x / g.y)};
}

}  // namespace emu
