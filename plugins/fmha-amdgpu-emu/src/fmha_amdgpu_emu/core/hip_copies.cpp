// Copies: linear, by rows, by planes, and to and from variables of a module.
#include <cstring>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {

namespace {

bool on_device(std::map<char*, Block>::iterator it) { return it != host().blocks.end(); }
// Memory that only the device owns: a copy must not call it the host's.
bool device_only(std::map<char*, Block>::iterator it) {
  return it != host().blocks.end() && it->second.type == DeviceMemory;
}

bool misplaced(const void* address, size_t bytes, bool device) {
  auto it = holder(address, bytes);
  return device ? !on_device(it) : device_only(it) || (touches(address, bytes) && !on_device(it));
}

}  // namespace

Error copy(void* to, const void* from, size_t bytes, int kind, const char* name) {
  if (kind < 0 || kind > Default) return fail(InvalidValue, std::string(name) + ": no such kind of copy");
  if (bytes == 0) return Success;
  if (!to || !from) return fail(InvalidValue, std::string(name) + ": a null pointer");
  const bool to_device = kind == HostToDevice || kind == DeviceToDevice;
  const bool from_device = kind == DeviceToHost || kind == DeviceToDevice;
  if (kind != Default && (misplaced(to, bytes, to_device) || misplaced(from, bytes, from_device)))
    return fail(InvalidValue, std::string(name) + ": " + number(bytes) + " bytes do not lie where the kind says");
  const bool into = on_device(holder(to, bytes)), out_of = on_device(holder(from, bytes));
  if (kind == Default && ((touches(to, bytes) && !into) || (touches(from, bytes) && !out_of)))
    return fail(InvalidValue, std::string(name) + ": " + number(bytes) + " bytes run over the end of an allocation");
  std::memmove(to, from, bytes);
  if (into && !out_of) sink().copied_in(from, to, bytes);
  return Success;
}

namespace {

struct Rows {
  char* to;
  const char* from;
  size_t to_pitch, from_pitch, to_plane, from_plane;  // bytes from a row to the next, from a plane to the next
  size_t width, height, depth;
};

Error copy_rows(const Rows& r, int kind, const char* name) {
  if (r.height > 1 && (r.width > r.to_pitch || r.width > r.from_pitch))
    return fail(InvalidPitchValue, std::string(name) + ": rows are longer than the pitch");
  for (size_t z = 0; z < r.depth; ++z)
    for (size_t y = 0; y < r.height; ++y) {
      const Error error = copy(r.to + z * r.to_plane + y * r.to_pitch, r.from + z * r.from_plane + y * r.from_pitch,
                               r.width, kind, name);
      if (error) return error;
    }
  return Success;
}

struct Extent {
  size_t width, height, depth;
};
struct Position {
  size_t x, y, z;
};
struct PitchedPointer {
  char* pointer;
  size_t pitch, width, height;
};
struct Copy3D {  // hipMemcpy3DParms
  const void* from_array;
  Position from_at;
  PitchedPointer from;
  const void* to_array;
  Position to_at;
  PitchedPointer to;
  Extent extent;
  int kind;
};

Error copy_3d(const Copy3D* it, const char* name) {
  if (it->from_array || it->to_array) return fail(NotSupported, std::string(name) + ": arrays (textures) are not provided");
  const size_t to_plane = it->to.pitch * it->to.height, from_plane = it->from.pitch * it->from.height;
  return copy_rows({it->to.pointer + it->to_at.z * to_plane + it->to_at.y * it->to.pitch + it->to_at.x,
                    it->from.pointer + it->from_at.z * from_plane + it->from_at.y * it->from.pitch + it->from_at.x,
                    it->to.pitch, it->from.pitch, to_plane, from_plane, it->extent.width, it->extent.height,
                    it->extent.depth},
                   it->kind, name);
}

// A range inside a variable of a registered module.
Error symbol_range(const void* symbol, size_t offset, size_t bytes, char** out, const char* name) {
  auto it = host().variables.find(symbol);
  if (it == host().variables.end()) return fail(InvalidSymbol, std::string(name) + ": a variable that nobody registered");
  void* address = nullptr;
  size_t size = 0;
  if (const Error error = variable(*it->second.module, it->second.name, &address, &size)) return error;
  if (offset > size || bytes > size - offset)
    return fail(InvalidValue, std::string(name) + ": beyond the " + number(size) + " bytes of " + it->second.name);
  *out = static_cast<char*>(address) + offset;
  return Success;
}

Error to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, const char* name) {
  char* place = nullptr;
  if (kind != HostToDevice && kind != DeviceToDevice && kind != Default)
    return fail(InvalidValue, std::string(name) + ": a variable lies on the device");
  if (const Error error = symbol_range(symbol, offset, bytes, &place, name)) return error;
  if (kind == DeviceToDevice && misplaced(from, bytes, true)) return fail(InvalidValue, std::string(name) + ": the source is not the device's");
  std::memcpy(place, from, bytes);
  return Success;
}

Error from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, int kind, const char* name) {
  char* place = nullptr;
  if (kind != DeviceToHost && kind != DeviceToDevice && kind != Default)
    return fail(InvalidValue, std::string(name) + ": a variable lies on the device");
  if (const Error error = symbol_range(symbol, offset, bytes, &place, name)) return error;
  if (kind == DeviceToDevice && misplaced(to, bytes, true)) return fail(InvalidValue, std::string(name) + ": the target is not the device's");
  std::memcpy(to, place, bytes);
  return Success;
}

}  // namespace
}  // namespace fmha::hip

API int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  Guard guard(host().mutex);
  return copy(to, from, bytes, kind, "hipMemcpy");
}
API int hipMemcpyWithStream(void* to, const void* from, size_t bytes, int kind, void* stream) {
  Guard guard(host().mutex);
  if (!known_stream(stream)) return fail(InvalidHandle, "hipMemcpyWithStream: no such stream");
  return copy(to, from, bytes, kind, "hipMemcpyWithStream");
}
API int hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  Guard guard(host().mutex);
  if (!known_stream(stream)) return fail(InvalidHandle, "hipMemcpyAsync: no such stream");
  return copy(to, from, bytes, kind, "hipMemcpyAsync");
}
API int hipMemcpyHtoD(void* to, const void* from, size_t bytes) {
  Guard guard(host().mutex);
  return copy(to, from, bytes, HostToDevice, "hipMemcpyHtoD");
}
API int hipMemcpyDtoH(void* to, const void* from, size_t bytes) {
  Guard guard(host().mutex);
  return copy(to, from, bytes, DeviceToHost, "hipMemcpyDtoH");
}
API int hipMemcpyDtoD(void* to, const void* from, size_t bytes) {
  Guard guard(host().mutex);
  return copy(to, from, bytes, DeviceToDevice, "hipMemcpyDtoD");
}
API int hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, void*) { return hipMemcpyHtoD(to, from, bytes); }
API int hipMemcpyDtoHAsync(void* to, const void* from, size_t bytes, void*) { return hipMemcpyDtoH(to, from, bytes); }
API int hipMemcpyDtoDAsync(void* to, const void* from, size_t bytes, void*) { return hipMemcpyDtoD(to, from, bytes); }

API int hipMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, int kind) {
  Guard guard(host().mutex);
  return copy_rows({static_cast<char*>(to), static_cast<const char*>(from), to_pitch, from_pitch, 0, 0, width, height, 1},
                   kind, "hipMemcpy2D");
}
API int hipMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         int kind, void*) {
  return hipMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
API int hipMemcpy3D(const Copy3D* it) {
  Guard guard(host().mutex);
  return copy_3d(it, "hipMemcpy3D");
}
API int hipMemcpy3DAsync(const Copy3D* it, void*) {
  Guard guard(host().mutex);
  return copy_3d(it, "hipMemcpy3DAsync");
}

API int hipMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, int kind) {
  Guard guard(host().mutex);
  return to_symbol(symbol, from, bytes, offset, kind, "hipMemcpyToSymbol");
}
API int hipMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset, int kind, void*) {
  return hipMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
API int hipMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, int kind) {
  Guard guard(host().mutex);
  return from_symbol(to, symbol, bytes, offset, kind, "hipMemcpyFromSymbol");
}
API int hipMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, int kind, void*) {
  return hipMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
API int hipGetSymbolAddress(void** out, const void* symbol) {
  Guard guard(host().mutex);
  char* place = nullptr;
  const Error error = symbol_range(symbol, 0, 0, &place, "hipGetSymbolAddress");
  return *out = place, error;
}
API int hipGetSymbolSize(size_t* out, const void* symbol) {
  Guard guard(host().mutex);
  auto it = host().variables.find(symbol);
  if (it == host().variables.end()) return fail(InvalidSymbol, "hipGetSymbolSize: a variable that nobody registered");
  void* address = nullptr;
  return variable(*it->second.module, it->second.name, &address, out);
}
