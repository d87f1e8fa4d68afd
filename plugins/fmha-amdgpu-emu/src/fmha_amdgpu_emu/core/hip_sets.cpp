// Fills: bytes, 16-bit and 32-bit words, rows and planes of them.
#include <cstring>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {
namespace {

// `count` words of `word` bytes.
Error fill(void* to, uint32_t value, size_t word, size_t count, const char* name) {
  const size_t bytes = word * count;
  if (bytes && holder(to, bytes) == host().blocks.end())
    return fail(InvalidValue, std::string(name) + ": " + number(bytes) + " bytes of no allocation");
  if (word == 1) return bytes ? std::memset(to, int(value), bytes) : to, Success;
  for (size_t k = 0; k < count; ++k) std::memcpy(static_cast<char*>(to) + k * word, &value, word);
  return Success;
}

Error fill_rows(void* to, size_t pitch, uint32_t value, size_t word, size_t width, size_t height, const char* name) {
  if (height > 1 && width * word > pitch) return fail(InvalidPitchValue, std::string(name) + ": rows are longer than the pitch");
  for (size_t y = 0; y < height; ++y)
    if (const Error error = fill(static_cast<char*>(to) + y * pitch, value, word, width, name)) return error;
  return Success;
}

struct SetPointer {  // hipPitchedPtr
  char* pointer;
  size_t pitch, width, height;
};
struct SetExtent {  // hipExtent
  size_t width, height, depth;
};

}  // namespace
}  // namespace fmha::hip

#define FILL(NAME, VALUE, WORD)                                             \
  API int NAME(void* to, VALUE value, size_t count) {                       \
    Guard guard(host().mutex);                                              \
    return fill(to, uint32_t(value), WORD, count, #NAME);                   \
  }                                                                         \
  API int NAME##Async(void* to, VALUE value, size_t count, void* stream) {  \
    Guard guard(host().mutex);                                              \
    if (!known_stream(stream)) return fail(InvalidHandle, #NAME "Async: no such stream"); \
    return fill(to, uint32_t(value), WORD, count, #NAME "Async");           \
  }
FILL(hipMemset, int, 1)
FILL(hipMemsetD8, unsigned char, 1)
FILL(hipMemsetD16, unsigned short, 2)
FILL(hipMemsetD32, int, 4)
#undef FILL

#define FILL_ROWS(NAME, VALUE, WORD)                                                       \
  API int NAME(void* to, size_t pitch, VALUE value, size_t width, size_t height) {         \
    Guard guard(host().mutex);                                                             \
    return fill_rows(to, pitch, uint32_t(value), WORD, width, height, #NAME);              \
  }                                                                                        \
  API int NAME##Async(void* to, size_t pitch, VALUE value, size_t width, size_t height, void*) { \
    return NAME(to, pitch, value, width, height);                                          \
  }
FILL_ROWS(hipMemset2D, int, 1)
FILL_ROWS(hipMemsetD2D8, unsigned char, 1)
FILL_ROWS(hipMemsetD2D16, unsigned short, 2)
FILL_ROWS(hipMemsetD2D32, unsigned, 4)
#undef FILL_ROWS

API int hipMemset3D(SetPointer to, int value, SetExtent extent) {
  Guard guard(host().mutex);
  for (size_t z = 0; z < extent.depth; ++z) {
    char* plane = to.pointer + z * to.pitch * to.height;
    if (const Error error = fill_rows(plane, to.pitch, uint32_t(value), 1, extent.width, extent.height, "hipMemset3D"))
      return error;
  }
  return Success;
}
API int hipMemset3DAsync(SetPointer to, int value, SetExtent extent, void*) { return hipMemset3D(to, value, extent); }
