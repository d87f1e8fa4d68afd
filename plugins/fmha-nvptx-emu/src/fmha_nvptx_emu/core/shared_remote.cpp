// Accesses of other blocks of a cluster to this block's shared memory.
#include "block.hpp"
#include "together.hpp"

namespace ptx {

void SharedMemory::expect_peer(const Block& counts, uint32_t at, uint32_t bytes, uint32_t stamp) {
  landings_.resize(bytes_ / 16 + 1);
  for (uint32_t piece = at / 16; piece < landings_.size() && piece * 16 < at + bytes; ++piece) landings_[piece] = {&counts, stamp};
}

void SharedMemory::store_remote(uint32_t at, uint32_t bytes, const uint8_t* values) {
  std::memcpy(data_.data() + at, values, bytes);
  for (uint32_t at_word = at / 4, end = (at + bytes + 3) / 4; at_word < end; ++at_word) {
    const Word books = word(at_word);
    books.writer = 0, books.atomic = false;
    books.state |= bytes >= 4 ? 0xff : mask_of(at, bytes);
  }
}

SharedMemory::Held SharedMemory::update_remote(uint32_t at, uint32_t bytes, uint32_t stamp) {
  Held held = Held::Value;
  for (uint32_t at_word = at / 4, end = (at + bytes + 3) / 4; at_word < end; ++at_word) {
    const Word books = word(at_word);
    if (!holds(books.state)) held = std::max(held, books.state >> 4 == 0xf ? Held::Undefined : Held::Nothing);
    books.writer = stamp, books.atomic = true;
    books.state |= 0xf0;
  }
  return held;
}

}  // namespace ptx
