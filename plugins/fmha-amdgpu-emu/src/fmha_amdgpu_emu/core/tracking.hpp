// The books that are kept while a kernel runs: registers whose loads are outstanding, registers and LDS never written,
// LDS shared by two waves without a barrier between them.
//
// Loads deliver their data at once; the destination stays *pending* until a wait makes it safe. So numbers never depend
// on missing waits, and every missing wait is seen.
//
// Order between waves is that of barriers. Every LDS access of a wave has a sequence number. At each barrier arrival a
// wave writes down which of its accesses were complete by then (by its own waits). An access X of wave A comes before an
// access Y of wave B iff X was complete at an arrival of A that B has waited for:
//     A.done_at_arrival[B.waits] >= X.sequence
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "inst.hpp"

namespace emu {

// Counters of outstanding operations. CDNA and gfx11 have vm, lgkm, exp (and vs from gfx10 on); gfx12 splits them.
// One model serves all: an instruction adds to one counter, a wait names one and how many may remain.
enum class Counter : uint8_t { Load, Store, Ds, Scalar, Export, Count };

struct Outstanding {
  uint16_t first = 0;      // register
  uint8_t count = 0;       // dwords; 0: a store, nothing is pending
  bool scalar = false;     // SGPRs
  bool to_lds = false;     // a load that writes LDS
  uint32_t sequence = 0;   // of the LDS access, where it is one
};

struct Tracker {
  VSet v_pending;
  SSet s_pending;
  VSet defined;                   // defined in all lanes
  std::vector<uint64_t> lanes;    // per vector register: lanes that hold a value
  std::deque<Outstanding> queue[int(Counter::Count)];
  uint32_t sequence = 0;          // of LDS accesses issued
  uint32_t done = 0;              // all LDS accesses up to this one are complete
  uint32_t done_to_lds = 0;       // the same for loads that write LDS
  uint32_t arrivals = 0, waits = 0;
  std::vector<uint32_t> done_at_arrival, to_lds_at_arrival;
  bool any = false;               // something is pending
};

struct LdsBooks {
  struct Word {
    uint32_t writer_sequence = 0;
    uint8_t writer = 0xff;        // wave; 0xff nobody
    uint8_t written = 0;          // bytes ever written (4 bits); the bytes of the last writer's access above them
    bool to_lds = false;          // by a load that writes LDS
  };
  std::vector<Word> words;
  std::vector<uint32_t> readers;  // words x waves: sequence of the wave's last read, 0 none
};

struct Wave;

// Before an instruction runs: pending registers, and undefined sources of sinks, become findings; results become
// (un)defined. Called by the engine for every instruction when tracking is on.
void track_before(Wave& w, const Inst& i);
void track_after(Wave& w, const Inst& i);

// An operation was issued: its destination is pending until a wait.
void issue(Wave& w, Counter counter, const Outstanding& what);
// At most `remaining` operations of the counter may still be outstanding.
void wait_for(Wave& w, Counter counter, uint32_t remaining);

// An LDS access by the active lane(s): `address` in the workgroup's LDS.
uint32_t lds_access_begins(Wave& w);  // a new sequence number
void lds_read(Wave& w, const Inst& i, int lane, uint32_t address, uint32_t bytes, uint32_t sequence);
void lds_written(Wave& w, const Inst& i, int lane, uint32_t address, uint32_t bytes, uint32_t sequence, bool to_lds);

void barrier_arrived(Wave& w);
void barrier_passed(Wave& w);

}  // namespace emu
