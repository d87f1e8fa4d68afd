// Tensor maps of the driver. They are made on the host and need no context.
#include "driver.hpp"
#include "tensor_map.hpp"

namespace ptx {

namespace {

int encode_tiled(TensorMap* out, int type, uint32_t rank, uint64_t address, const uint64_t* sizes, const uint64_t* strides,
                 const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
  Guard guard(driver().mutex);
  if (!driver().device || driver().device->major < 9) return fail(NotSupported, "cuTensorMapEncodeTiled: the device has no tensor maps");
  if (!out || reinterpret_cast<uintptr_t>(out) % 64) return fail(InvalidValue, "cuTensorMapEncodeTiled: the map's address is not a multiple of 64");
  const std::string why = encode({type, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill}, *out);
  return why.empty() ? int(Success) : fail(InvalidValue, "cuTensorMapEncodeTiled: " + why);
}
int replace_address(TensorMap* map, uint64_t address) {
  Guard guard(driver().mutex);
  if (map->mark != TensorMap::kMark || address % 16) return fail(InvalidValue, "cuTensorMapReplaceAddress: no tensor map, or an address that is not a multiple of 16");
  return map->address = address, Success;
}

const Entry tensor_map_rows[] = {
    ENTRY("cuTensorMapEncodeTiled", encode_tiled),
    ENTRY("cuTensorMapReplaceAddress", replace_address),
};

}  // namespace

extern const Entries kTensorMapEntries{tensor_map_rows, std::size(tensor_map_rows)};

}  // namespace ptx
