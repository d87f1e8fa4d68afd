// Tensor maps: what cuTensorMapEncodeTiled writes into 128 bytes, and the boxes that copies move. The driver's content is
// not documented, so these bytes are the emulator's own. Source: CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA 9.1, 5.5.
#pragma once

#include <cstdint>
#include <string>

namespace ptx {

struct TensorMap {
  static constexpr uint64_t kMark = 0x70614d726f736e54;  // "TnsorMap"
  uint64_t mark, address;
  uint64_t strides[4];  // bytes from item to item along axes 1 to 4
  uint32_t last[5];     // elements along each axis, less one
  uint16_t box[5];
  uint8_t rank, type, element, swizzle, fill, promotion;  // element: bytes; swizzle: span in bytes, 16 for none
  uint8_t pad[128 - 16 - 32 - 20 - 10 - 6];

  uint32_t row_bytes() const { return uint32_t(box[0]) * element; }
  uint32_t rows() const { return uint32_t(box[1]) * box[2] * box[3] * box[4]; }
};
static_assert(sizeof(TensorMap) == 128);

// A row of a box: where its elements lie in the tensor, and which of them are inside of it.
struct BoxRow {
  uint64_t address;      // of the first element that is inside
  uint32_t skipped, bytes;  // of elements before it, and of those inside; bytes is 0 if none is
};
BoxRow row_of(const TensorMap& map, const int32_t* at, uint32_t row);

// The numbers of CUtensorMapDataType and so on. Empty, or why there is no such map.
struct TensorMapRequest {
  int type;
  uint32_t rank;
  uint64_t address;
  const uint64_t *sizes, *strides;
  const uint32_t *box, *steps;
  int interleave, swizzle, promotion, fill;
};
std::string encode(const TensorMapRequest& request, TensorMap& out);

}  // namespace ptx
