// Shared memory of a block with its books: which warp wrote and read each word, and when.
//
// A stamp is 31: asynchronous, 30 to 8: time of the warp (of an asynchronous access: its group), 7 to 0: the warp. At a
// barrier, a warp learns the times of the others; an access with a stamp that it does not know is unordered with its own.
// Words that a wgmma read, or that a bulk copy with an mbarrier wrote, have the warpgroup or the mbarrier in place of the
// warp (mbarrier.hpp).
#pragma once

#include <cstdint>
#include <vector>

namespace ptx {

struct Warp;
struct Inst;
struct Block;

// The books of 16 bytes, as long as they are the same for the four words: their last writer, and the last readers, of which the
// second is another one's. State: bits 0 to 3 the bytes of a word that hold a value, 4 to 7 those of the last writer; kByWords: the
// words have books of their own.
constexpr uint32_t kByWords = 0x100;
struct alignas(16) Books {
  uint32_t writer, reader, before, state;
};
struct Together;

class SharedMemory {
 public:
  void begin(uint32_t bytes);
  uint32_t bytes() const { return bytes_; }
  uint8_t* data() { return data_.data(); }

  // Lane `lane` reads bytes; whether all of them were written. Also reports races and outstanding writes.
  bool read(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes);
  // The same for lanes: those for which all bytes were written.
  uint32_t read_lanes(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes);
  // The same for pieces: which are whole. False if they have to be read by lanes.
  bool read_together(Warp& w, const Together& all, uint32_t& whole);
  // Called before the bytes are stored, with their new values.
  void write(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, const uint8_t* values, bool defined);
  // The same for lanes, with room for 32 bytes each.
  void write_lanes(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes, const uint8_t (*values)[32], uint32_t defined);
  // An atomic operation with a value: no race with another one. What the bytes held before: a value, one that never was
  // written in its own place (it stays so, whatever is added), or nothing.
  enum class Held : uint8_t { Value, Undefined, Nothing };
  Held update(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, bool defined);
  // By the asynchronous proxy: wgmma, or a bulk copy from shared memory. Whether all bytes were written.
  bool read_later(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, bool copies);
  // The same for `count` pieces of 16 bytes that a product reads; `whole`: of each piece.
  void read_pieces(Warp& w, const Inst& i, int lane, const uint32_t* at, uint32_t count, bool* whole);
  // By a bulk copy whose completion an mbarrier counts; `stamp` is the mbarrier's.
  // The same for `count` pieces of 16 bytes, by this block.
  void write_pieces(Warp& w, const Inst& i, int lane, const uint32_t* at, uint32_t count, uint32_t stamp);
  void write_bulk(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes, uint32_t stamp, bool remote);  // remote: by another block
  // By a product of the other block of a pair. Whether all bytes were written, and no copy to them is under way that its warp
  // would have to wait for.
  bool read_peer(Warp& w, const Inst& i, int lane, uint32_t at, uint32_t bytes);
  // A copy lands here, and an mbarrier of another block counts it.
  void expect_peer(const Block& counts, uint32_t at, uint32_t bytes, uint32_t stamp);
  void store_remote(uint32_t at, uint32_t bytes, const uint8_t* values);  // by another block
  // An atomic operation by another block, or one that an mbarrier counts: `stamp` is the mbarrier's, or 0.
  Held update_remote(uint32_t at, uint32_t bytes, uint32_t stamp);
  void write_later(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes);  // by cp.async
  // The same for pieces. False if they have to be written by lanes.
  bool write_later(Warp& w, const Together& all);

 private:
  static constexpr uint32_t kLater = uint32_t(1) << 31;
  struct Words {
    uint32_t writer[4], reader[4], before[4];
    uint8_t state[4], atomic[4];  // atomic: the last write was an atomic operation
  };
  struct Word {
    uint32_t &writer, &reader, &before;
    uint8_t &state, &atomic;
  };
  Word word(uint32_t at);
  bool one(uint32_t piece);
  bool join(uint32_t piece);
  uint32_t plain(const Warp& w, uint32_t& stamp);
  bool readable(Warp& w, uint32_t piece);
  bool written_earlier(const Warp& w, uint32_t at, uint32_t bytes) const;
  static bool read_before(const Warp& w, uint32_t stamp);
  bool writable(const Warp& w, uint32_t piece, uint32_t stamp);
  bool write_together(Warp& w, const Together& all, uint32_t stamp, uint32_t state);
  template <class Whole, class Each> void over(uint32_t at, uint32_t bytes, const Whole& whole, const Each& each);
  void settle(Warp& w, const Inst& i, int lane, uint32_t word, bool reads, bool same);
  void readers(Warp& w, const Inst& i, int lane, uint32_t word);
  uint32_t settled_reader(Warp& w, const Inst& i, int lane, uint32_t word, uint32_t stamp);

  struct Landing {
    const Block* counts = nullptr;
    uint32_t stamp = 0;
  };
  std::vector<Landing> landings_;  // by pieces of 16 bytes; empty until the first one
  uint32_t bytes_ = 0;
  std::vector<uint8_t> data_;
  std::vector<Books> room_;
  Books* pieces_ = nullptr;  // in it, from a cache line's begin
  std::vector<Words> words_;  // of the pieces that are kept by words; the others are not valid
};

}  // namespace ptx
