// The state of a block and its warps while it executes.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emu_careful.hpp"
#include "launch.hpp"
#include "mbarrier.hpp"
#include "memory.hpp"
#include "named_barriers.hpp"
#include "shared.hpp"

namespace ptx {

constexpr uint32_t kAll = 0xffffffff;
constexpr uint32_t kNever = 0xffffffff;

// Generic addresses of the other spaces. User addresses of the host have 47 bits.
constexpr uint64_t kWindow = uint64_t(1) << 56;
constexpr uint64_t kSharedWindow = kWindow, kLocalWindow = 2 * kWindow, kParamWindow = 3 * kWindow;

struct Counts {
  uint64_t global_read = 0, global_written = 0, local_read = 0, local_written = 0, param_read = 0, shared_read = 0,
           shared_written = 0, shared_accesses = 0, conflicts = 0, sectors = 0, barriers = 0;
  uint64_t matrix_flops = 0;  // of products whose descriptor decides them; those of other instructions are in Inst
  void add(const Counts& o);
};

// Lanes of a warp at one instruction. Lanes that are at different instructions are different parts.
enum class Ready : uint8_t { Runs, Polls, Waits };  // Polls: a wait failed; Waits: an instruction needs other lanes too
struct Part {
  uint32_t pc, mask;
  Ready ready;
};

enum class Going : uint8_t { On, Barrier, Poll, Done };  // Poll: a wait for an mbarrier failed, so others run first

class Cluster;
class TensorMemory;

// Groups committed and complete, and when the last ones became so.
struct AsyncGroups {
  static constexpr uint32_t kKept = 64;
  uint32_t committed = 0, complete = 0, completed_at[kKept] = {};
  const Inst* last = nullptr;  // the last copy that read shared memory, and its group
  uint32_t newest = 0;
  void finish(uint32_t groups, uint32_t time) {
    while (complete < groups) completed_at[++complete % kKept] = time;
  }
};
// The copies of a warp by cp.async. A commit or an arrival at an mbarrier ends a batch; of the last kKept, what completes them.
struct CopyBatches {
  static constexpr uint32_t kKept = 256;
  struct Batch {
    uint32_t completed_at, agent, phase, arrived_at;  // agent: of the mbarrier whose phase completes it too; 0: none
  };
  uint32_t ended = 0, complete = 0, arrived = 0, groups = 0;  // batches: all, those waited for, those an arrival covers; groups
  Batch batches[kKept] = {};
  uint32_t group_ends[kKept] = {};                    // the last batch of each group

  uint32_t open() const { return ended + 1; }
  void begin() { ended = complete = arrived = groups = 0, batches[1] = {}; }
  void end() { batches[(++ended + 1) % kKept] = {}; }
  void commit() { end(), group_ends[++groups % kKept] = ended; }
  void wait(uint32_t left, uint32_t time) {
    const uint32_t done = groups > left ? group_ends[(groups - left) % kKept] : 0;
    while (complete < done) batches[++complete % kKept].completed_at = time;
  }
  void arrive(uint32_t agent, uint32_t phase, uint32_t time) {
    end();
    for (arrived = std::max(arrived, complete); arrived < ended;) {
      Batch& one = batches[++arrived % kKept];
      one.agent = agent, one.phase = phase, one.arrived_at = time;
    }
  }
};
struct Outstanding {
  uint32_t id, group;
  bool read_only;  // of A: it may be read
};

// A packed register that has lanes where some parts were never written: which lanes of each part hold a value.
struct Partly {
  uint32_t id, count, parts[4];
};

struct Warp {
  uint8_t* file = nullptr;
  uint32_t* defined = nullptr;  // by id: the lanes that hold a value
  std::vector<Partly> partly;   // few: what `defined` cannot say of packed registers
  bool fresh = true;            // it has executed nothing of any block
  bool doubtful = false;        // it met a value that never was written, so `defined` has holes in registers that are certain
  uint32_t pc = 0, mask = 0, alive = 0;
  uint32_t ahead = 0;           // so many of the next instructions are mma whose products are there already (op_matrix.cpp)
  uint32_t next = kNever;       // the lowest pc of the other parts that can run
  std::vector<Part> others;
  Going going = Going::On;
  uint32_t index = 0, barrier = 0, barrier_count = 0;
  Block* block = nullptr;
  const Inst* inst = nullptr;
  // Order of accesses to shared memory: this warp's own time, and the time of each warp that lies before it.
  // `fenced` is the same for the asynchronous proxy: what lies before a proxy fence that lies before this warp.
  uint32_t time = 1, floor = 0, early = 0, known[kAgents] = {}, fenced[kAgents] = {};
  // Order of accesses to tensor memory in kernels with tcgen05.fence, in the same terms: what a before_thread_sync of this warp
  // released, what reached it from others, and what lies before an after_thread_sync of this warp.
  uint32_t sent[kAgents] = {}, received[kAgents] = {}, fenced_tensor[kAgents] = {};
  uint32_t inits_fenced = 0;              // when the last fence.mbarrier_init was
  CopyBatches copies;                     // by cp.async
  // Stamps of cp.async that this warp met behind their wait, by the warp that copied, and what they became (together.hpp).
  uint32_t later[16] = {}, settled[16] = {};
  AsyncGroups bulk;                       // bulk copies from shared memory
  uint32_t wgmma_committed = 0, wgmma_complete = 0;  // groups
  std::vector<Outstanding> outstanding;   // registers of wgmma and tcgen05.ld that are not complete
  std::vector<uint8_t> held;              // by id: whether the register is among them
  std::vector<uint32_t> written_at;       // by id, of kernels with wgmma: when an instruction last wrote the register
  uint32_t instruction = 0, fence_at = 0; // counters of `written_at`
  uint64_t polled = 0;                    // the address of the mbarrier whose wait failed last, kForWarpgroup or kForCluster
  bool cluster_arrived = false;
  uint32_t cluster_phase = 0;             // of barrier.cluster, that it waits for
  uint32_t cluster_passed = 0;            // ... that it waited for
  uint32_t recent_poll = 0;               // turns since then count down
  uint32_t registers = 0;                 // of a thread, as setmaxnreg leaves them; 0: unknown
  std::vector<uint8_t> local, local_defined;
  // Lanes that branched on a value that was never written, and the instructions up to where their ways meet again.
  uint32_t tainted = 0, region_begin = 0, region_end = 0;
  std::vector<uint32_t> meetings;  // where ways of these branches meet before the end

  uint8_t* row(Slot slot) const { return file + size_t(slot.row) * kRowBytes; }
  uint32_t predicate(Slot slot) const { return *reinterpret_cast<const uint32_t*>(row(slot)); }
  void set_predicate(Slot slot, uint32_t value, uint32_t lanes) const {
    uint32_t& at = *reinterpret_cast<uint32_t*>(row(slot));
    at = (at & ~lanes) | (value & lanes);
  }
  void hold(const Outstanding& one) {
    outstanding.push_back(one);
    held[one.id] = 1;
  }
  template <class F> void release(F complete) {
    std::erase_if(outstanding, complete);
    std::fill(held.begin(), held.end(), uint8_t(0));
    for (const Outstanding& one : outstanding) held[one.id] = 1;
  }
  void define(Slot slot, uint32_t value, uint32_t lanes) {
    if (slot.id) defined[slot.id] = (defined[slot.id] & ~lanes) | (value & lanes);
    doubtful |= (lanes & ~value) != 0;
    if (!partly.empty()) forget_parts(slot, lanes);
  }
  // Lanes of a register were written as a whole.
  void forget_parts(Slot slot, uint32_t lanes) {
    for (Partly& p : partly)
      if (p.id == slot.id)
        for (uint32_t& part : p.parts) part &= ~lanes;
  }
};

enum class Turn : uint8_t { Done, On, Polls, Stuck };  // Polls: warps only asked again; Stuck: not even that

// Operands A of the last products of mma, as registers and as floats in the lanes that use them (product.hpp).
struct LeftOperands {
  struct alignas(64) One {
    float rows[32][2][2][16];
    uint32_t bits[4][32];
    unsigned element = 0, k = 0;
  };
  static constexpr unsigned kPlaces = 4;
  One all[kPlaces];
  static unsigned place(const uint32_t* first) { return unsigned(reinterpret_cast<uintptr_t>(first) / kRowBytes ^ reinterpret_cast<uintptr_t>(first) / kRowBytes / 4) % kPlaces; }
};

struct Block {
  const Launch* launch = nullptr;
  const Kernel* kernel = nullptr;
  uint32_t id[3] = {0, 0, 0}, number = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<uint8_t> registers;
  std::vector<uint32_t> defined;
  SharedMemory shared;
  Mbarriers mbarriers;
  NamedBarriers named;
  uint32_t spare_registers = 0;              // of a thread of one warp, that setmaxnreg released
  std::shared_ptr<TensorMemory> tensor;      // of blocks that use tcgen05
  Cluster* cluster = nullptr;
  uint32_t rank = 0;                         // in the cluster
  bool clustered = false;                    // it has other blocks
  Order cluster_arriving, cluster_complete;  // of barrier.cluster: what this block's warps released
  uint64_t events = 0;             // what lets a waiting warp go on
  uint64_t spent = 0;              // instructions of its warps
  Counts counts;
  std::vector<uint64_t> executed;  // by instruction
  Range ranges[4];                 // of global memory, the last ones found
  unsigned last_range = 0;
  bool checks = true;
  LeftOperands left_operands;

  explicit Block(const Launch& launch);
  void join(Cluster& cluster, uint32_t rank);  // of several blocks
  void begin(uint32_t number);
  Turn turn();                    // each runnable warp runs once, in a drawn order; raises Fault
  std::string waiting() const;    // what its warps wait for

 private:
  void start(Warp& w, uint32_t index);
  bool release();
  uint64_t random_ = 0;
  std::vector<Warp*> order_;
};

// A launch stops: an instruction that cannot be executed, or a deadlock. `why` says all.
struct Fault {
  std::string why;
};

void split(Warp& w, uint32_t taken, uint32_t target);  // lanes that branch
void leave(Warp& w, uint32_t mask);                    // lanes that end
// For an instruction that needs all of `lanes`: false if this part has to wait for the others first.
bool together(Warp& w, const Inst& i, uint32_t mask, uint32_t lanes, const char* what);
// Reports lanes that are not among those that their own mask names, as they would have to be.
void require_member(Warp& w, const Inst& i, Slot members, uint32_t mask, const char* what);
void yield_to_others(Warp& w);  // these lanes wait for an mbarrier: other lanes or warps run before they try again
void regroup(Warp& w);
void touch_outstanding(Warp& w, const Inst& i);  // reports a use of registers of a wgmma that is not complete
bool taint(Warp& w, uint32_t at, uint32_t lanes);  // false: the ways of this branch do not meet soon
void meet(Warp& w);  // before an instruction that lanes behind such a branch execute
uint64_t interpret(Warp& w, uint64_t most);  // returns the number of instructions, `most` at most

inline std::string of_lane(int lane) { return "lane " + std::to_string(lane); }

// Whether values decide something: reports lanes whose value is not defined.
void require_defined(Warp& w, const Inst& i, Slot slot, uint32_t mask, const char* what);
// Reports lanes whose store a branch on a value that was never written decides.
void require_decided(Warp& w, const Inst& i, uint32_t mask);

}  // namespace ptx
