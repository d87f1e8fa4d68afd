// Devices, contexts and errors of the driver. Numbers of attributes and errors: cuda.h of CUDA 13.0.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "device_rows.hpp"
#include "driver.hpp"

namespace ptx {

Driver& driver() {
  static Driver* it = new Driver;  // never destroyed: programs call it while the process ends
  return *it;
}

const DeviceRow* device_named(const std::string& name) {
  for (const DeviceRow& row : kDeviceRows)
    if (name == row.name) return &row;
  return nullptr;
}

int fail(int error, const std::string& complaint) {
  driver().complaint = complaint;
  return error;
}

int alive(const char* call) {
  Driver& d = driver();
  if (!d.started) return fail(NotInitialized, std::string(call) + ": cuInit was not called");
  if (d.failed) return fail(d.failed, std::string(call) + ": an earlier kernel failed: " + d.fault);
  if (d.context < 0) return fail(InvalidContext, std::string(call) + ": no context is current");
  return Success;
}

namespace {

int init(unsigned) {
  Guard guard(driver().mutex);
  Driver& d = driver();
  if (d.recording.init) return fail(d.recording.init, "cuInit: refused, as was asked for");
  if (!d.device) return fail(NoDevice, "cuInit: FMHA_EMU_ARCH names no device");
  if (!d.devices) return fail(NoDevice, "cuInit: no device");
  d.started = true;
  if (!d.memory) d.memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  return Success;
}
int driver_version(int* out) { return *out = driver().version, Success; }
int device_count(int* out) {
  if (!driver().started) return fail(NotInitialized, "cuDeviceGetCount: cuInit was not called");
  return *out = driver().devices, Success;
}
bool is_device(int ordinal) { return ordinal >= 0 && ordinal < driver().devices; }
int device_get(int* out, int ordinal) {
  if (!driver().started) return fail(NotInitialized, "cuDeviceGet: cuInit was not called");
  if (!is_device(ordinal)) return fail(InvalidDevice, "cuDeviceGet: no device " + std::to_string(ordinal));
  return *out = ordinal, Success;
}
int device_name(char* out, int length, int) {
  const char* form = driver().recording.on ? "%s" : "NVIDIA %s (emulated)";
  if (length > 0) std::snprintf(out, size_t(length), form, driver().device->title);
  return Success;
}
int device_uuid(char* out, int) {
  std::memset(out, 0, 16);
  std::snprintf(out, 16, "emu-%s", driver().device->name);
  return Success;
}
int device_memory(size_t* out, int) { return *out = driver().memory, Success; }
int device_attribute(int* out, int attribute, int device) {
  const DeviceRow& row = *driver().device;
  if (!is_device(device)) return fail(InvalidDevice, "cuDeviceGetAttribute: no such device");
  switch (attribute) {
    case 1: case 2: case 3: *out = 1024; break;        // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, _Y
    case 4: *out = 64; break;                          // MAX_BLOCK_DIM_Z
    case 5: *out = 0x7fffffff; break;                  // MAX_GRID_DIM_X
    case 6: case 7: *out = 65535; break;               // MAX_GRID_DIM_Y, _Z
    case 8: *out = row.shared_block; break;            // MAX_SHARED_MEMORY_PER_BLOCK
    case 9: *out = 65536; break;                       // TOTAL_CONSTANT_MEMORY
    case 10: *out = 32; break;                         // WARP_SIZE
    case 12: *out = row.registers_unit; break;         // MAX_REGISTERS_PER_BLOCK
    case 16: *out = row.units; break;                  // MULTIPROCESSOR_COUNT
    case 18: case 35: *out = 0; break;                 // INTEGRATED, ECC_ENABLED
    case 31: case 41: *out = 1; break;                 // CONCURRENT_KERNELS, UNIFIED_ADDRESSING
    case 38: *out = row.l2_bytes; break;               // L2_CACHE_SIZE
    case 39: *out = row.threads_unit; break;           // MAX_THREADS_PER_MULTIPROCESSOR
    case 75: *out = row.major; break;                  // COMPUTE_CAPABILITY_MAJOR
    case 76: *out = row.minor; break;                  // COMPUTE_CAPABILITY_MINOR
    case 81: *out = row.shared_unit; break;            // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    case 82: *out = row.registers_unit; break;         // MAX_REGISTERS_PER_MULTIPROCESSOR
    case 95: case 98: case 115: *out = 0; break;       // COOPERATIVE_LAUNCH, HOST_REGISTER, MEMORY_POOLS_SUPPORTED
    case 97: *out = row.shared_optin; break;           // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    case 106: *out = row.blocks_unit; break;           // MAX_BLOCKS_PER_MULTIPROCESSOR
    case 111: *out = row.major >= 8 ? 1024 : 0; break; // RESERVED_SHARED_MEMORY_PER_BLOCK
    case 120: *out = row.major >= 9; break;            // CLUSTER_LAUNCH
    default: return fail(InvalidValue, "cuDeviceGetAttribute: attribute " + std::to_string(attribute) + " is not emulated");
  }
  return Success;
}
int context_retain(void** out, int device) {
  Guard guard(driver().mutex);
  if (driver().failed) return fail(driver().failed, "cuDevicePrimaryCtxRetain: an earlier kernel failed: " + driver().fault);
  if (!is_device(device)) return fail(InvalidDevice, "cuDevicePrimaryCtxRetain: no such device");
  return *out = reinterpret_cast<void*>(uintptr_t(device) + 1), Success;
}
int context_release(int) { return Success; }
int context_current(void* context) {
  Guard guard(driver().mutex);
  if (driver().failed) return fail(driver().failed, "cuCtxSetCurrent: an earlier kernel failed: " + driver().fault);
  driver().context = int(reinterpret_cast<uintptr_t>(context)) - 1;
  return Success;
}
int context_get(void** out) {
  Guard guard(driver().mutex);
  return *out = reinterpret_cast<void*>(uintptr_t(driver().context + 1)), Success;
}
int context_device(int* out) {
  REQUIRE_CONTEXT("cuCtxGetDevice");
  return *out = driver().context, Success;
}
int context_wait() {
  REQUIRE_CONTEXT("cuCtxSynchronize");
  if (const int error = quiet("cuCtxSynchronize"); error) return error;
  return settle();
}

struct Word {
  int number;
  const char *name, *text;
};
constexpr Word words[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
};
// The text of the error. The emulator adds what the last refusal said; a recording has the driver's words alone.
int error_string(int error, const char** out) {
  static thread_local std::string said;
  for (const Word& it : words)
    if (it.number == error) {
      Guard guard(driver().mutex);
      said = it.text;
      if (error && !driver().recording.on && !driver().complaint.empty()) said += ": " + driver().complaint;
      return *out = said.c_str(), Success;
    }
  return *out = nullptr, InvalidValue;
}
int error_name(int error, const char** out) {
  for (const Word& it : words)
    if (it.number == error) return *out = it.name, Success;
  return *out = nullptr, InvalidValue;
}

const Entry device_rows[] = {
    ENTRY("cuInit", init),
    ENTRY("cuDriverGetVersion", driver_version),
    ENTRY("cuDeviceGetCount", device_count),
    ENTRY("cuDeviceGet", device_get),
    ENTRY("cuDeviceGetName", device_name),
    ENTRY("cuDeviceGetUuid", device_uuid),
    ENTRY("cuDeviceTotalMem", device_memory),
    ENTRY("cuDeviceGetAttribute", device_attribute),
    ENTRY("cuDevicePrimaryCtxRetain", context_retain),
    ENTRY("cuDevicePrimaryCtxRelease", context_release),
    ENTRY("cuCtxSetCurrent", context_current),
    ENTRY("cuCtxGetCurrent", context_get),
    ENTRY("cuCtxGetDevice", context_device),
    ENTRY("cuCtxSynchronize", context_wait),
    ENTRY("cuGetErrorString", error_string),
    ENTRY("cuGetErrorName", error_name),
};

}  // namespace

extern const Entries kDeviceEntries{device_rows, std::size(device_rows)};

}  // namespace ptx
