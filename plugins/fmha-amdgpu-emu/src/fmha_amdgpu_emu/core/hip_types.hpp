// What HIP's interface fixes: numbers, enumerators and layouts of HIP 7's hip/hip_runtime_api.h and of clang's HIP
// host-side code generation.
#pragma once

#include <cstddef>
#include <cstdint>

#define API extern "C" __attribute__((visibility("default")))

namespace fmha::hip {

enum Error : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  InvalidConfiguration = 9,
  InvalidPitchValue = 12,
  InvalidSymbol = 13,
  InvalidDevicePointer = 17,
  InvalidDeviceFunction = 98,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  FileNotFound = 301,
  SharedObjectSymbolNotFound = 302,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  HostMemoryAlreadyRegistered = 712,
  HostMemoryNotRegistered = 713,
  LaunchFailure = 719,
  NotSupported = 801,
  Unknown = 999
};

constexpr int kVersion = 70125424;  // 7.1.25424, whose interface this is

struct Dim3 {
  uint32_t x, y, z;
};

enum CopyKind { HostToHost = 0, HostToDevice = 1, DeviceToHost = 2, DeviceToDevice = 3, Default = 4 };

enum MemoryType { Unregistered = 0, HostMemory = 1, DeviceMemory = 2, ManagedMemory = 3, ArrayMemory = 10 };

// hipDeviceProp_tR0600, in its order.
struct Properties {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_mask;
  size_t total_memory;
  size_t lds_per_block;
  int registers_per_block;
  int warp_size;
  size_t pitch;
  int max_threads;
  int max_block[3];
  int max_grid[3];
  int clock_khz;
  size_t constant_memory;
  int major;
  int minor;
  size_t texture_alignment;
  size_t texture_pitch_alignment;
  int overlap;
  int units;
  int timeout;
  int integrated;
  int can_map_host;
  int compute_mode;
  int images[40];  // limits of textures and surfaces: none
  size_t surface_alignment;
  int concurrent_kernels;
  int ecc;
  int pci_bus;
  int pci_device;
  int pci_domain;
  int tcc;
  int async_engines;
  int unified_addressing;
  int memory_clock_khz;
  int memory_bus;
  int l2_bytes;
  int persisting_l2;
  int threads_per_unit;
  int stream_priorities;
  int global_l1;
  int local_l1;
  size_t lds_per_unit;
  int registers_per_unit;
  int managed_memory;
  int multi_board;
  int board_group;
  int host_atomics;
  int double_ratio;
  int pageable;
  int concurrent_managed;
  int preemption;
  int registered_pointers;
  int cooperative;
  int cooperative_multi;
  size_t lds_per_block_optin;
  int pageable_host_tables;
  int direct_managed;
  int blocks_per_unit;
  int access_window;
  size_t reserved_lds;
  int host_register;
  int sparse_arrays;
  int host_register_readonly;
  int timeline_semaphores;
  int memory_pools;
  int rdma;
  unsigned rdma_flush;
  int rdma_ordering;
  unsigned pool_handles;
  int deferred_arrays;
  int ipc_events;
  int clusters;
  int function_pointers;
  int reserved[63];
  int hip_reserved[32];
  char arch[256];
  size_t most_lds_per_unit;
  int clock_instruction_khz;
  unsigned features;  // hipDeviceArch_t
  unsigned* hdp_memory;
  unsigned* hdp_register;
  int unmatched_function;
  int unmatched_grid;
  int unmatched_block;
  int unmatched_lds;
  int large_bar;
  int revision;
};
static_assert(offsetof(Properties, total_memory) == 288, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, warp_size) == 308, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, clock_khz) == 348, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, major) == 360, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, units) == 388, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, memory_clock_khz) == 608, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, l2_bytes) == 616, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, threads_per_unit) == 624, "hipDeviceProp_tR0600");
static_assert(offsetof(Properties, arch) == 1160, "hipDeviceProp_tR0600");
static_assert(sizeof(Properties) == 1472, "hipDeviceProp_tR0600");

// hipFuncAttributes.
struct FunctionAttributes {
  int binary_version, cache_mode;
  size_t constant_bytes, local_bytes;
  int most_dynamic_lds, max_threads, registers, carveout, ptx_version;
  size_t lds_bytes;
};

// __CudaFatBinaryWrapper of clang's host code.
struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* binary;
  void* unused;
};
constexpr uint32_t kFatMagic = 0x48495046;  // "HIPF"

}  // namespace fmha::hip
