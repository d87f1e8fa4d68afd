// Devices, contexts, versions and what they say about themselves.
#include <cstring>
#include <iterator>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {
namespace {

bool wrong_device(const char* call, int device) {
  if (device >= 0 && device < sink().devices()) return false;
  fail(InvalidDevice, std::string(call) + ": no such device");
  return true;
}

enum class Width { Int, Size };

struct Attribute {
  int number;
  Width width;
  size_t offset;
};

#define INT(number, member) {number, Width::Int, offsetof(Properties, member)}
#define SIZE(number, member) {number, Width::Size, offsetof(Properties, member)}
// hipDeviceAttribute_t -> where the properties say it. Textures and surfaces: the limits are 0.
constexpr Attribute kAttributes[] = {
    INT(0, ecc), INT(1, access_window), INT(2, async_engines), INT(3, can_map_host), INT(4, registered_pointers),
    INT(5, clock_khz), INT(6, compute_mode), INT(7, preemption), INT(8, concurrent_kernels),
    INT(9, concurrent_managed), INT(10, cooperative), INT(11, cooperative_multi), INT(12, overlap),
    INT(13, direct_managed), INT(14, global_l1), INT(15, host_atomics), INT(16, integrated), INT(17, multi_board),
    INT(18, timeout), INT(19, l2_bytes), INT(20, local_l1), INT(23, major), INT(24, managed_memory),
    INT(25, blocks_per_unit), INT(26, max_block[0]), INT(27, max_block[1]), INT(28, max_block[2]),
    INT(29, max_grid[0]), INT(30, max_grid[1]), INT(31, max_grid[2]), INT(55, max_block[0]), INT(56, max_threads),
    INT(57, threads_per_unit), SIZE(58, pitch), INT(59, memory_bus), INT(60, memory_clock_khz), INT(61, minor),
    INT(62, board_group), INT(63, units), INT(65, pageable), INT(66, pageable_host_tables), INT(67, pci_bus),
    INT(68, pci_device), INT(69, pci_domain), INT(70, persisting_l2), INT(71, registers_per_block),
    INT(72, registers_per_unit), SIZE(73, reserved_lds), SIZE(74, lds_per_block), SIZE(75, lds_per_block_optin),
    SIZE(76, lds_per_unit), INT(77, double_ratio), INT(78, stream_priorities), INT(80, tcc),
    SIZE(83, constant_memory), INT(85, unified_addressing), INT(87, warp_size), INT(88, memory_pools),
    INT(90, host_register), INT(10000, clock_instruction_khz), SIZE(10002, most_lds_per_unit), INT(10011, large_bar),
    INT(10012, revision), INT(10015, units)};
#undef INT
#undef SIZE

constexpr int kImages[] = {32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48,
                           49, 50, 51, 52, 53, 54, 79, 81, 82, 10014};

}  // namespace
}  // namespace fmha::hip

API int hipInit(unsigned) { return no_device("hipInit") ? NoDevice : Success; }
API int hipGetDeviceCount(int* count) {
  *count = sink().devices();
  return no_device("hipGetDeviceCount") ? NoDevice : Success;
}
API int hipGetDevice(int* device) {
  *device = thread().device;
  return no_device("hipGetDevice") ? NoDevice : Success;
}
API int hipSetDevice(int device) {
  if (wrong_device("hipSetDevice", device)) return InvalidDevice;
  thread().device = device;
  return Success;
}
API int hipDeviceGet(int* device, int ordinal) {
  if (wrong_device("hipDeviceGet", ordinal)) return InvalidDevice;
  return *device = ordinal, Success;
}
API int hipGetDevicePropertiesR0600(void* out, int device) {
  if (wrong_device("hipGetDeviceProperties", device)) return InvalidDevice;
  std::memcpy(out, &sink().properties(device), sizeof(Properties));
  return Success;
}
API int hipDeviceGetAttribute(int* out, int attribute, int device) {
  if (wrong_device("hipDeviceGetAttribute", device)) return InvalidDevice;
  const char* from = reinterpret_cast<const char*>(&sink().properties(device));
  for (const Attribute& known : kAttributes)
    if (known.number == attribute) {
      size_t wide;
      if (known.width == Width::Int) std::memcpy(out, from + known.offset, sizeof *out);
      else std::memcpy(&wide, from + known.offset, sizeof wide), *out = int(wide < 0x7fffffff ? wide : 0x7fffffff);
      return Success;
    }
  for (int image : kImages)
    if (image == attribute) return *out = 0, Success;
  return fail(InvalidValue, "hipDeviceGetAttribute: attribute " + number(size_t(attribute)) + " is not known");
}
API int hipDeviceGetName(char* name, int room, int device) {
  if (wrong_device("hipDeviceGetName", device)) return InvalidDevice;
  if (room <= 0) return fail(InvalidValue, "hipDeviceGetName: no room");
  std::strncpy(name, sink().properties(device).name, size_t(room) - 1);
  return name[room - 1] = 0, Success;
}
API int hipDeviceGetUuid(char* out, int device) {
  if (wrong_device("hipDeviceGetUuid", device)) return InvalidDevice;
  std::memcpy(out, sink().properties(device).uuid, sizeof Properties::uuid);
  return Success;
}
API int hipDeviceTotalMem(size_t* bytes, int device) {
  if (wrong_device("hipDeviceTotalMem", device)) return InvalidDevice;
  return *bytes = sink().properties(device).total_memory, Success;
}
API int hipDeviceComputeCapability(int* major, int* minor, int device) {
  if (wrong_device("hipDeviceComputeCapability", device)) return InvalidDevice;
  return *major = sink().properties(device).major, *minor = sink().properties(device).minor, Success;
}
API int hipDeviceSynchronize() { return Success; }
API int hipRuntimeGetVersion(int* version) { return *version = kVersion, Success; }
API int hipDriverGetVersion(int* version) { return *version = kVersion, Success; }
API int hipGetDeviceFlags(unsigned* flags) { return *flags = 0, Success; }
API int hipSetDeviceFlags(unsigned) { return Success; }
API int hipDeviceSetCacheConfig(int) { return Success; }
API int hipDeviceGetCacheConfig(int* config) { return *config = 0, Success; }
API int hipDeviceSetSharedMemConfig(int) { return Success; }
API int hipDeviceGetSharedMemConfig(int* config) { return *config = 0, Success; }
API int hipFuncSetCacheConfig(const void*, int) { return Success; }
API int hipFuncSetSharedMemConfig(const void*, int) { return Success; }
API int hipDeviceCanAccessPeer(int* can, int device, int peer) {
  if (wrong_device("hipDeviceCanAccessPeer", device) || wrong_device("hipDeviceCanAccessPeer", peer)) return InvalidDevice;
  return *can = 0, Success;
}

// hip-python declares these two as functions that cannot fail: without them it would call a null pointer.
struct ChannelFormat {
  int x, y, z, w, kind;
};
API ChannelFormat hipCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }
API const char* hipApiName(unsigned) { return "unknown"; }
