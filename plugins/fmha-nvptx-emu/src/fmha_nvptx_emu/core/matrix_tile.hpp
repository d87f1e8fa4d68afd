// Operands of wgmma in shared memory. Source: PTX ISA 9.1, 9.7.15.5.1 (descriptors, layouts and swizzles).
#pragma once

#include <cstdint>

namespace ptx {

// A descriptor's fields, in bytes. `span`: of a swizzled row, 16 where nothing is swizzled.
struct Descriptor {
  uint32_t start, leading, stride, span;
  bool based;  // it has a base offset
  explicit Descriptor(uint64_t bits)
      : start(uint32_t(bits & 0x3fff) << 4), leading(uint32_t(bits >> 16 & 0x3fff) << 4), stride(uint32_t(bits >> 32 & 0x3fff) << 4),
        span(bits >> 62 == 0 ? 16 : 256u >> (bits >> 62)), based(bits >> 49 & 7) {}
};

// The address whose bits 4 and up are exclusive-or'ed with bits 7 and up: 3 of them at 128 bytes, 2 at 64, 1 at 32.
inline uint32_t swizzled(uint32_t at, uint32_t span) { return at ^ ((at >> 7 & (span / 16 - 1)) << 4); }

// Where the 16 bytes begin that hold element (row, byte) of a tile whose rows lie along k; `byte` is one along k.
inline uint32_t place_along_k(const Descriptor& d, uint32_t row, uint32_t byte) {
  const uint32_t chunk = byte / 16;
  const uint32_t at = d.start + row / 8 * d.stride + row % 8 * d.span + (d.span == 16 ? chunk * d.leading : chunk * 16);
  return swizzled(at, d.span);
}
// The same where m or n is contiguous; `byte` is one along it, of 2-byte elements.
inline uint32_t block_across_k(const Descriptor& d, uint32_t byte) {
  return d.span == 16 ? d.start + byte / 16 * d.stride : d.start + byte / d.span * d.leading + byte % d.span / 16 * 16;
}
inline uint32_t step_across_k(const Descriptor& d, uint32_t k) { return k % 8 * d.span + k / 8 * (d.span == 16 ? d.leading : d.stride); }
inline uint32_t place_across_k(const Descriptor& d, uint32_t byte, uint32_t k) {
  return swizzled(block_across_k(d, byte) + step_across_k(d, k), d.span);
}

}  // namespace ptx
