// Tensor memory of a block, with its books. Source: PTX ISA 9.1, 9.7.16.1 (128 lanes of 512 columns of 32 bits, addresses) and
// 9.7.16.7 (allocation).
//
// A stamp is that of shared.hpp: a warp with its time, or the tensor pipe of a warpgroup (what its warps issued) with the
// number of its commits. Bit 31: a tcgen05.ld or st that no tcgen05.wait has waited for.
#pragma once

#include <cstdint>
#include <vector>

#include "block.hpp"

namespace ptx {

constexpr uint64_t kForTensorMemory = ~uint64_t(2);  // in place of an mbarrier's address: what a warp waits for are columns
constexpr uint32_t kLoadGroup = 0xfffffff0;          // of `Warp::outstanding`: registers of a tcgen05.ld

class TensorMemory {
 public:
  static constexpr uint32_t kLanes = 128, kColumns = 512;
  enum class By : uint8_t { Warp, Pipe, Peer };  // Peer: the tensor pipe of the other block

  TensorMemory();
  uint32_t* row(uint32_t lane) { return data_.data() + size_t(lane) * kColumns; }

  // False if no `columns` neighbours are free now.
  bool allocate(Warp& w, const Inst& i, uint32_t columns, uint32_t& at);
  void free(Warp& w, const Inst& i, uint32_t at, uint32_t columns);
  void relinquish() { relinquished_ = true; }
  // Whether all of them are allocated; reports them if not.
  bool inside(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t count);

  // Columns of one lane; the caller has asked `inside`. Both report what is not in order; `read`: whether all were written.
  bool read(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t count, By by);
  void write(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t count, By by);
  bool defined(uint32_t lane, uint32_t column) const { return defined_[place(lane, column)]; }
  void define(uint32_t lane, uint32_t column, bool is) { defined_[place(lane, column)] = is; }
  bool defined_row(uint32_t lane, uint32_t column, uint32_t count) const;  // all of them

  void waited(const Warp& w, bool loads);  // tcgen05.wait::ld, tcgen05.wait::st
  void end(Block& block) const;   // what was never freed

 private:
  struct Allocation {
    uint32_t at, columns, warp;
    const Inst* by;
  };
  struct Piece {
    uint32_t warp, lane, column, count;
    bool load;
  };
  size_t alike(size_t at, size_t end) const;
  static size_t place(uint32_t lane, uint32_t column) { return size_t(lane) * kColumns + column; }
  void ordered(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t stamp, By by, bool reads, bool written) const;
  void unordered(Warp& w, const Inst& i, uint32_t lane, uint32_t column, uint32_t stamp, By by, bool reads, bool written) const;

  std::vector<uint32_t> data_, writer_, reader_;
  std::vector<uint8_t> defined_;
  std::vector<Allocation> allocations_;
  std::vector<Piece> pending_;  // of tcgen05.ld and st
  bool taken_[kColumns] = {};
  bool relinquished_ = false;
};

}  // namespace ptx
