// Device memory of the driver: host memory with real addresses. Copies and fills happen at once.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver.hpp"

namespace ptx {

uint8_t* holder(const void* address, size_t bytes) {
  uint8_t* at = const_cast<uint8_t*>(static_cast<const uint8_t*>(address));
  auto& blocks = driver().blocks;
  auto it = blocks.upper_bound(at);
  if (it == blocks.begin()) return nullptr;
  --it;
  return at + bytes <= it->first + it->second ? it->first : nullptr;
}

namespace {

bool on_device(uint64_t address, size_t bytes) {
  return !bytes || holder(reinterpret_cast<void*>(address), bytes) || memory().mapped(address, bytes);
}

// Whether a recorded program passes the device's memory where the host's belongs. Unified addressing would hide the mistake.
bool mistaken(const void* host, size_t bytes) {
  if (!driver().recording.on) return false;
  const auto* at = static_cast<const uint8_t*>(host);
  for (const auto& [start, size] : driver().blocks)
    if (at < start + size && start < at + bytes) return true;
  return false;
}

int memory_get(uint64_t* out, size_t bytes) {
  REQUIRE_CONTEXT("cuMemAlloc");
  Driver& d = driver();
  if (const int error = quiet("cuMemAlloc"); error) return error;
  if (!bytes) return fail(InvalidValue, "cuMemAlloc: no bytes");
  if (bytes > d.memory - d.used) return fail(OutOfMemory, "cuMemAlloc: " + std::to_string(bytes) + " bytes");
  auto* block = static_cast<uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (!block) return fail(OutOfMemory, "cuMemAlloc: " + std::to_string(bytes) + " bytes");
  if (bytes <= (size_t(1) << 28)) std::memset(block, 0xA5, bytes);
  d.blocks[block] = bytes;
  d.used += bytes;
  memory().allocated(reinterpret_cast<uint64_t>(block), bytes, "an allocation of " + std::to_string(bytes) + " bytes");
  return *out = reinterpret_cast<uint64_t>(block), Success;
}
int memory_free(uint64_t address) {
  REQUIRE_CONTEXT("cuMemFree");
  Driver& d = driver();
  const auto it = d.blocks.find(reinterpret_cast<uint8_t*>(address));
  if (it == d.blocks.end()) return fail(InvalidValue, "cuMemFree: not the start of an allocation");
  d.used -= it->second;
  memory().freed(address);
  std::free(it->first);
  d.blocks.erase(it);
  return settle();
}
int memory_info(size_t* free, size_t* total) {
  REQUIRE_CONTEXT("cuMemGetInfo");
  *total = driver().memory, *free = driver().memory - driver().used;
  return Success;
}

int copy_in(uint64_t to, const void* from, size_t bytes) {
  REQUIRE_CONTEXT("cuMemcpyHtoD");
  if (const int error = quiet("cuMemcpyHtoD"); error) return error;
  if (const int error = settle(); error) return error;
  if (mistaken(from, bytes)) return fail(InvalidValue, "cuMemcpyHtoD: the source lies on the device");
  if (!on_device(to, bytes)) return fail(InvalidValue, "cuMemcpyHtoD: " + std::to_string(bytes) + " bytes do not lie on the device");
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  const auto watch = driver().watches.find(reinterpret_cast<uint64_t>(from));
  if (watch != driver().watches.end() && watch->second.bytes == bytes) {
    std::vector<Region> regions = watch->second.regions;
    for (Region& region : regions) region.start += to, region.end += to;
    memory().name_regions(reinterpret_cast<uint64_t>(holder(reinterpret_cast<void*>(to), bytes)), std::move(regions));
  }
  return Success;
}
int copy_out(void* to, uint64_t from, size_t bytes) {
  REQUIRE_CONTEXT("cuMemcpyDtoH");
  if (const int error = quiet("cuMemcpyDtoH"); error) return error;
  if (const int error = settle(); error) return error;
  if (mistaken(to, bytes)) return fail(InvalidValue, "cuMemcpyDtoH: the destination lies on the device");
  if (!on_device(from, bytes)) return fail(InvalidValue, "cuMemcpyDtoH: " + std::to_string(bytes) + " bytes do not lie on the device");
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return Success;
}
int copy_in_later(uint64_t to, const void* from, size_t bytes, void*) { return copy_in(to, from, bytes); }
int copy_out_later(void* to, uint64_t from, size_t bytes, void*) { return copy_out(to, from, bytes); }

int move(uint64_t to, uint64_t from, size_t bytes, void* stream, const char* call) {
  if (!on_device(to, bytes) || !on_device(from, bytes)) return fail(InvalidValue, std::string(call) + ": " + std::to_string(bytes) + " bytes do not lie on the device");
  Node node{};
  node.kind = Node::Move, node.to = reinterpret_cast<uint8_t*>(to), node.from = reinterpret_cast<uint8_t*>(from), node.bytes = bytes;
  return queue(stream, std::move(node), call);
}
int copy_within(uint64_t to, uint64_t from, size_t bytes) {
  REQUIRE_CONTEXT("cuMemcpyDtoD");
  return move(to, from, bytes, nullptr, "cuMemcpyDtoD");
}
int copy_within_later(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  REQUIRE_CONTEXT("cuMemcpyDtoDAsync");
  return move(to, from, bytes, stream, "cuMemcpyDtoDAsync");
}

int fill(uint64_t to, uint32_t value, unsigned width, size_t count, void* stream, const char* call) {
  if (!on_device(to, count * width)) return fail(InvalidValue, std::string(call) + ": " + std::to_string(count * width) + " bytes do not lie on the device");
  Node node{};
  node.kind = Node::Fill, node.to = reinterpret_cast<uint8_t*>(to), node.value = value, node.width = width, node.bytes = count * width;
  return queue(stream, std::move(node), call);
}
int fill_bytes(uint64_t to, unsigned char value, size_t count) {
  REQUIRE_CONTEXT("cuMemsetD8");
  return fill(to, value, 1, count, nullptr, "cuMemsetD8");
}
int fill_bytes_later(uint64_t to, unsigned char value, size_t count, void* stream) {
  REQUIRE_CONTEXT("cuMemsetD8Async");
  return fill(to, value, 1, count, stream, "cuMemsetD8Async");
}
int fill_words(uint64_t to, unsigned value, size_t count) {
  REQUIRE_CONTEXT("cuMemsetD32");
  return fill(to, value, 4, count, nullptr, "cuMemsetD32");
}
int fill_words_later(uint64_t to, unsigned value, size_t count, void* stream) {
  REQUIRE_CONTEXT("cuMemsetD32Async");
  return fill(to, value, 4, count, stream, "cuMemsetD32Async");
}

const Entry memory_rows[] = {
    ENTRY("cuMemAlloc", memory_get),
    ENTRY("cuMemFree", memory_free),
    ENTRY("cuMemGetInfo", memory_info),
    ENTRY("cuMemcpyHtoD", copy_in),
    ENTRY("cuMemcpyDtoH", copy_out),
    ENTRY("cuMemcpyHtoDAsync", copy_in_later),
    ENTRY("cuMemcpyDtoHAsync", copy_out_later),
    ENTRY("cuMemcpyDtoD", copy_within),
    ENTRY("cuMemcpyDtoDAsync", copy_within_later),
    ENTRY("cuMemsetD8", fill_bytes),
    ENTRY("cuMemsetD8Async", fill_bytes_later),
    ENTRY("cuMemsetD32", fill_words),
    ENTRY("cuMemsetD32Async", fill_words_later),
};

}  // namespace

extern const Entries kMemoryEntries{memory_rows, std::size(memory_rows)};

}  // namespace ptx
