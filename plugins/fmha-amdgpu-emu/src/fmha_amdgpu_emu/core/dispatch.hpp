// What a launch gives its waves before their first instruction: kernel arguments with the hidden ones, the dispatch
// packet, user and system SGPRs, work-item ids, MODE (LLVM AMDGPU backend guide, "Initial Kernel Execution State").
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "launch.hpp"
#include "wave.hpp"

namespace emu {

// Every byte of undefined registers, LDS and scratch holds this: a NaN in every floating-point format of 16 bits or
// more.
constexpr uint8_t kPoison = 0xff;
constexpr uint32_t kPoisonWord = 0xffffffffu;

// Device memory that lives as long as a launch: 16-byte aligned, read-only for the kernel, poisoned beyond its end.
class Block {
 public:
  Block(size_t bytes, const char* name);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  uint8_t* data() { return data_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }

 private:
  std::unique_ptr<uint8_t[]> room_;
  uint8_t* data_;
};

// What all waves of a launch share. Throws Unexecutable where the kernel requests something that is not implemented.
struct Dispatch {
  explicit Dispatch(Launch& launch);

  Launch& launch;
  int lanes;                     // of a wave
  uint32_t waves, work_items;    // of a full workgroup
  uint32_t lds_bytes;            // static and dynamic
  uint32_t scratch_bytes;        // of a lane
  uint32_t vgprs, agprs;         // registers that the kernel's descriptor allocates
  Mode mode;
  const Inst* entry;
  Dim3 items;                    // of the grid
  uint64_t groups;               // number of workgroups
  Block kernargs, packet, queue;
  std::vector<uint32_t> user;    // user SGPRs from s0 on, without what differs from wave to wave
  int scratch_buffer = -1, flat_scratch = -1;  // where in `user` those stand, to be filled for each wave
  uint32_t first_system;         // first system SGPR

  Dim3 group_id(uint64_t linear) const;
  uint32_t waves_of(const Dim3& group) const;  // fewer in a partial workgroup
  // Registers, EXEC and MODE of a wave whose group, index and scratch are set.
  void start(Wave& w) const;

 private:
  void fill_kernargs();
  void fill_packet();
  void fill_user();
};

// Apertures of the flat address space: an address in one is LDS or private memory, never host memory.
constexpr uint64_t kSharedAperture = 1ull << 48, kPrivateAperture = 2ull << 48, kApertureBytes = 1ull << 32;

}  // namespace emu
