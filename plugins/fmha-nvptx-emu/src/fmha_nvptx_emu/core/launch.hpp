// One launch: its shape, its parameters, and what came of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "program.hpp"
#include "report.hpp"

namespace ptx {

struct Block;

struct Options {
  uint64_t seed = 0, turn = 0;
  int threads = 1;
  bool checks = true;
  bool hardware = false;  // tensor_sum.hpp, contract.hpp
};

// Which block wrote which half word of global memory, and which blocks an atomic operation orders before which.
class Writers {
 public:
  explicit Writers(uint32_t blocks) : known_(blocks) {}
  // Stores the values. Returns another block that wrote other values and is not ordered before this one; -1 if there is none.
  // Blocks run on several threads, so to look, to compare and to store are one step.
  int64_t write(uint32_t block, uint64_t address, uint64_t bytes, const uint8_t* values);
  // The same for lanes with 32 bytes of room each. Returns those that another block wrote, which `other` names.
  uint32_t write_lanes(uint32_t block, uint32_t lanes, const uint64_t* at, uint32_t bytes, const uint8_t (*values)[32], int64_t (&other)[32]);
  void meet(uint32_t block, uint64_t address);  // an atomic operation on a lock or counter

 private:
  bool write_pieces(uint32_t block, uint64_t address, uint64_t bytes);
  int64_t write_one(uint32_t block, uint64_t address, uint64_t bytes, const uint8_t* values);

  std::mutex mutex_;
  static constexpr uint32_t kByHalves = 0xffffffff;
  struct Page {  // of 4 KiB: block + 1 by 16 bytes; by half words, where those differ
    uint32_t pieces[256] = {};
    std::vector<uint32_t> halves;
  };
  Page* page_ = nullptr;  // the last one, and its number
  uint64_t page_number_ = 0;
  std::unordered_map<uint64_t, Page> pages_;
  std::unordered_map<uint64_t, std::set<uint32_t>> met_;
  std::vector<std::set<uint32_t>> known_;
};

struct Launch {
  const Kernel* kernel = nullptr;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
  uint32_t dynamic_shared = 0;
  uint32_t registers = 0;  // of a thread at first, a multiple of 8; 0: unknown
  std::vector<uint8_t> parameters;
  Options options;
  uint32_t units = 1, resident = 1;  // multiprocessors, and the clusters that all of them hold at once
  int major = 8, minor = 0;  // compute capability of the device
  Report* report = nullptr;
  std::unique_ptr<Writers> writers;
  std::unique_ptr<std::atomic<uint32_t>> next;  // the cluster that begins next, and how many there are
  uint32_t clusters = 0;
  bool alone = false;  // one thread executes it
  // Results.
  std::string fault;
  std::string json;  // one element of `executed`
};

void run(Launch& launch);

}  // namespace ptx
