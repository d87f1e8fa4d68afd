// TMA descriptors of the driver.
#include <string>

#include "driver.hpp"
#include "tensor_map.hpp"

namespace ptx {

namespace {

int encode_tiled(void* out, int type, uint32_t rank, uint64_t address, const uint64_t* shape, const uint64_t* strides,
                 const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
  Guard guard(driver().mutex);
  const char* why = driver().device->major < 9 ? "the device has no TMA"
                                               : encode_tensor_map(out, type, rank, address, shape, strides, box, steps,
                                                                   interleave, swizzle, promotion, fill);
  return why ? fail(InvalidValue, std::string("cuTensorMapEncodeTiled: ") + why) : int(Success);
}

const Entry rows[] = {ENTRY("cuTensorMapEncodeTiled", encode_tiled)};

}  // namespace

extern const Entries kTensorMapEntries{rows, std::size(rows)};

}  // namespace ptx
