// Allocations of every kind, and what is known of a pointer.
#include <cstdlib>
#include <cstring>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {
namespace {

Error allocate(void** out, size_t bytes, MemoryType type, unsigned flags, const char* call) {
  if (!out) return fail(InvalidValue, std::string(call) + ": no place for the address");
  *out = nullptr;
  if (no_device(call)) return NoDevice;
  if (bytes == 0) return Success;
  Host& h = host();
  const std::string what = std::string(call) + ": " + number(bytes) + " bytes";
  const size_t total = current().total_memory;
  if (h.used > total || bytes > total - h.used) return fail(OutOfMemory, what);
  void* address = sink().allocate(bytes);
  if (!address) return fail(OutOfMemory, what);
  *out = address;
  h.blocks[static_cast<char*>(address)] = {bytes, type, flags, thread().device, nullptr};
  h.used += bytes;
  return Success;
}

// What hipHostRegister adopted is not ours to free; everything else that starts here is.
Error release(void* address, const char* call) {
  if (!address) return Success;
  Host& h = host();
  auto it = h.blocks.find(static_cast<char*>(address));
  if (it == h.blocks.end() || it->second.type == Unregistered || it->second.owner)
    return fail(InvalidValue, std::string(call) + ": not the start of an allocation");
  h.used -= it->second.bytes;
  h.blocks.erase(it);
  sink().release(address);
  return Success;
}

struct PointerAttributes {  // hipPointerAttribute_t
  int type;
  int device;
  void *device_pointer, *host_pointer;
  int managed;
  unsigned flags;
};

size_t pitch_of(size_t width) { return (width + 255) / 256 * 256; }

}  // namespace
}  // namespace fmha::hip

#define ALLOCATOR(NAME, TYPE)                                    \
  API int NAME(void** out, size_t bytes) {                       \
    Guard guard(host().mutex);                                   \
    return allocate(out, bytes, TYPE, 0, #NAME);                 \
  }
#define FLAGGED_ALLOCATOR(NAME, TYPE)                            \
  API int NAME(void** out, size_t bytes, unsigned flags) {       \
    Guard guard(host().mutex);                                   \
    return allocate(out, bytes, TYPE, flags, #NAME);             \
  }
#define RELEASER(NAME)                                           \
  API int NAME(void* address) {                                  \
    Guard guard(host().mutex);                                   \
    return release(address, #NAME);                              \
  }
ALLOCATOR(hipMalloc, DeviceMemory)
ALLOCATOR(hipMallocHost, HostMemory)
ALLOCATOR(hipMemAllocHost, HostMemory)
FLAGGED_ALLOCATOR(hipExtMallocWithFlags, DeviceMemory)
FLAGGED_ALLOCATOR(hipHostMalloc, HostMemory)
FLAGGED_ALLOCATOR(hipHostAlloc, HostMemory)
FLAGGED_ALLOCATOR(hipMallocManaged, ManagedMemory)
RELEASER(hipFree)
RELEASER(hipHostFree)
RELEASER(hipFreeHost)
#undef ALLOCATOR
#undef FLAGGED_ALLOCATOR
#undef RELEASER

API int hipMallocAsync(void** out, size_t bytes, void* stream) {
  Guard guard(host().mutex);
  if (!known_stream(stream)) return fail(InvalidHandle, "hipMallocAsync: no such stream");
  return allocate(out, bytes, DeviceMemory, 0, "hipMallocAsync");
}
API int hipFreeAsync(void* address, void* stream) {
  Guard guard(host().mutex);
  if (!known_stream(stream)) return fail(InvalidHandle, "hipFreeAsync: no such stream");
  return release(address, "hipFreeAsync");
}
API int hipMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  Guard guard(host().mutex);
  *pitch = pitch_of(width);
  return allocate(out, *pitch * height, DeviceMemory, 0, "hipMallocPitch");
}
API int hipMemAllocPitch(void** out, size_t* pitch, size_t width, size_t height, unsigned) {
  return hipMallocPitch(out, pitch, width, height);
}

API int hipHostRegister(void* address, size_t bytes, unsigned flags) {
  Guard guard(host().mutex);
  if (!address || !bytes) return fail(InvalidValue, "hipHostRegister: nothing to register");
  if (touches(address, bytes)) return fail(HostMemoryAlreadyRegistered, "hipHostRegister: already known memory");
  host().blocks[static_cast<char*>(address)] = {bytes, Unregistered, flags, thread().device, nullptr};
  sink().adopted(address, bytes);
  return Success;
}
API int hipHostUnregister(void* address) {
  Guard guard(host().mutex);
  auto it = host().blocks.find(static_cast<char*>(address));
  if (it == host().blocks.end() || it->second.type != Unregistered)
    return fail(HostMemoryNotRegistered, "hipHostUnregister: not registered");
  host().blocks.erase(it);
  sink().abandoned(address);
  return Success;
}
API int hipHostGetDevicePointer(void** out, void* address, unsigned) {
  Guard guard(host().mutex);
  auto it = holder(address, 1);
  if (it == host().blocks.end() || it->second.type == DeviceMemory)
    return fail(InvalidValue, "hipHostGetDevicePointer: no pinned memory");
  return *out = address, Success;
}
API int hipHostGetFlags(unsigned* flags, void* address) {
  Guard guard(host().mutex);
  auto it = holder(address, 1);
  if (it == host().blocks.end() || it->second.type == DeviceMemory)
    return fail(InvalidValue, "hipHostGetFlags: no pinned memory");
  return *flags = it->second.flags, Success;
}

API int hipMemGetInfo(size_t* free_bytes, size_t* total) {
  Guard guard(host().mutex);
  if (no_device("hipMemGetInfo")) return NoDevice;
  *total = current().total_memory;
  *free_bytes = *total > host().used ? *total - host().used : 0;
  return Success;
}
API int hipMemGetAddressRange(void** base, size_t* bytes, void* address) {
  Guard guard(host().mutex);
  auto it = holder(address, 1);
  if (it == host().blocks.end()) return fail(NotFound, "hipMemGetAddressRange: no allocation");
  if (base) *base = it->first;
  if (bytes) *bytes = it->second.bytes;
  return Success;
}
API int hipMemPtrGetInfo(void* address, size_t* bytes) {
  Guard guard(host().mutex);
  auto it = host().blocks.find(static_cast<char*>(address));
  if (it == host().blocks.end()) return fail(InvalidValue, "hipMemPtrGetInfo: not the start of an allocation");
  return *bytes = it->second.bytes, Success;
}
API int hipPointerGetAttributes(PointerAttributes* out, const void* address) {
  Guard guard(host().mutex);
  auto it = holder(address, 1);
  void* at = const_cast<void*>(address);
  if (it == host().blocks.end()) {  // since HIP 6.0 plain host memory is no error
    *out = {Unregistered, -2, nullptr, nullptr, 0, 0};
    return address ? Success : fail(InvalidValue, "hipPointerGetAttributes: a null pointer");
  }
  const Block& block = it->second;
  const MemoryType type = block.type == Unregistered ? HostMemory : block.type;
  *out = {type, block.device, at, type == DeviceMemory ? nullptr : at, type == ManagedMemory, block.flags};
  return Success;
}
API int hipMemAdvise(const void*, size_t, int, int) { return Success; }
API int hipMemPrefetchAsync(const void*, size_t, int, void*) { return Success; }
