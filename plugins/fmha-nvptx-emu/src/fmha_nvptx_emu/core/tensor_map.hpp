// A TMA descriptor as the stand-in encodes it: what it describes, as packed numbers, then zeros.
//
// It refuses what the documentation of cuTensorMapEncodeTiled refuses. The real encoding is not documented.

#include <cstdint>
#include <cstring>
#include <initializer_list>

// Element sizes in bytes by CUtensorMapDataType, up to TFLOAT32_FTZ.
constexpr unsigned tensor_map_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
constexpr unsigned swizzle_bytes[] = {0, 32, 64, 128};

// Returns why the driver would refuse, or nullptr.
inline const char* encode_tensor_map(void* out, int type, uint32_t rank, uint64_t address, const uint64_t* shape,
                                     const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                                     int swizzle, int promotion, int fill) {
  if (reinterpret_cast<uintptr_t>(out) % 64) return "the descriptor is not aligned to 64 bytes";
  if (type < 0 || type > 12) return "the element type is not played";
  if (rank < 1 || rank > 5) return "the rank is not 1 to 5";
  if (address % 16) return "the address is not a multiple of 16";
  if (interleave) return "interleaved layouts are not played";
  if (swizzle < 0 || swizzle > 3) return "the swizzle is not played";
  if (promotion < 0 || promotion > 3 || fill < 0 || fill > 1) return "no such promotion or fill";
  if (fill == 1 && (type < 6 || type > 12)) return "NaN is no integer";
  const unsigned item = tensor_map_bytes[type];
  for (uint32_t i = 0; i < rank; ++i) {
    if (!shape[i] || shape[i] > uint64_t(1) << 32) return "an axis is empty or too long";
    if (!box[i] || box[i] > 256) return "a side of the box is not 1 to 256";
    if (!steps[i] || steps[i] > 8) return "a step is not 1 to 8";
    if (i + 1 < rank && (strides[i] % 16 || strides[i] >= uint64_t(1) << 40)) return "a stride is odd or too long";
  }
  if (box[0] * item % 16) return "the box's rows are not multiples of 16 bytes";
  if (swizzle && box[0] * item > swizzle_bytes[swizzle]) return "the box's rows are longer than the swizzle";
  unsigned char bytes[128] = {};
  unsigned char* at = bytes;
  const auto put = [&at](const auto& value) { std::memcpy(at, &value, sizeof value), at += sizeof value; };
  put(address);
  for (uint32_t i = 0; i < 4; ++i) put(i + 1 < rank ? strides[i] : uint64_t(0));
  for (uint32_t i = 0; i < 5; ++i) put(uint32_t(i < rank ? shape[i] : 0));
  for (uint32_t i = 0; i < 5; ++i) put(uint16_t(i < rank ? box[i] : 0));
  for (int value : {type, int(rank), swizzle, promotion, fill}) put(uint8_t(value));
  std::memcpy(out, bytes, sizeof bytes);
  return nullptr;
}
