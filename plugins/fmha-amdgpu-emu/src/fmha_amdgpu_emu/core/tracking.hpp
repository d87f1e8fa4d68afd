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
// For a read X it is enough that A had issued it, unless the launch is `strict`. LLVM's memory model says both that a CU
// performs LDS operations in one global order, and that its several request queues may reorder those of different waves;
// code that its rules write waits before a barrier. CK-Tile's qr_async has a bare barrier there (its readers wait behind
// it, and hundreds of instructions lie before the overwriting store), so the rule is an option and no finding by default.
// A write must have been waited for.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "inst.hpp"

namespace emu {

struct Wave;
struct Group;

// Counters of outstanding operations. Callers name the kind of an operation. Where an architecture counts two kinds
// with one counter (stores with loads, scalar memory with LDS), the books do so too.
enum class Counter : uint8_t { Load, Store, Ds, Scalar, Export, Count };

struct Outstanding {
  uint16_t first = 0;      // register
  uint8_t count = 0;       // dwords; 0: a store, nothing is pending
  bool scalar = false;     // SGPRs
  bool to_lds = false;     // a load that writes LDS
  uint32_t sequence = 0;   // of the LDS access, where it is one
  uint8_t half = 3;        // of the register: 1 low, 2 high, 3 both (d16 loads keep the other one)
  bool unordered = false;  // may complete before older ones of its counter (scalar memory, flat): set by issue()
};

// What one counter counts, oldest first. Outstanding operations never exceed what the counter can count, except those
// whose order is unknown (`unordered`): there is room for twice the largest count.
struct Pending {
  static constexpr uint32_t kRoom = 128;
  std::array<Outstanding, kRoom> items;
  uint32_t first = 0, size = 0, unordered = 0;
  Outstanding& at(uint32_t k) { return items[(first + k) % kRoom]; }
};

struct Tracker {
  bool on = false;
  bool any = false;               // something is pending
  VSet v_pending;
  SSet s_pending;
  VSet defined;                   // defined in all lanes
  std::array<uint64_t, kVgprs> lanes{};       // per vector register: lanes that hold a value
  std::array<uint8_t, kVgprs> v_loads{};      // outstanding loads that write the register
  std::array<uint8_t, kScalars> s_loads{};
  std::array<Pending, size_t(Counter::Count)> queue;
  uint32_t sequence = 0;          // of LDS accesses issued
  uint32_t done = 0;              // all LDS accesses up to this one are complete
  uint32_t done_to_lds = 0;       // the same for loads that write LDS
  uint32_t arrivals = 0, waits = 0;
  std::vector<uint32_t> done_at_arrival, to_lds_at_arrival, issued_at_arrival;  // [0]: before the first arrival
  // What comes before this wave's next LDS access, by wave. Writes, up to these sequence numbers: [0] LDS operations,
  // also kNobody's, [1] loads into LDS. Reads, up to these stamps (LdsBooks::readers). All of its own LDS operations do.
  std::array<std::array<uint32_t, 256>, 2> written_before{};
  std::array<uint32_t, 64> read_before{};
  std::array<uint32_t, 2> all_before{};  // the least of the other waves' `written_before`
  uint32_t wave = 0;
  std::vector<uint64_t> scratch;  // per dword of private memory: lanes that hold a value
};

constexpr uint8_t kNobody = 0xff;

struct LdsBooks {
  struct Word {
    uint32_t writer_sequence = 0;
    uint8_t writer = kNobody;     // wave
    bool to_lds = false;          // by a load that writes LDS
    uint8_t written = 0;          // bytes ever written; kApart: of a piece without an entry of its own
    uint8_t last = 0;             // bytes of the last writer's access
    bool atomic = false;          // by an atomic
    uint32_t same = 0;            // waves that stored the same value again since
    bool operator==(const Word&) const = default;
  };
  static constexpr uint8_t kApart = 0xf0;

  // Nearly all accesses are of whole pieces of 16 bytes. As long as the four words of a piece are alike, they have one
  // entry, and a wave's read of them all one stamp. Of a word's two stamps, the later one counts.
  std::vector<Word> pieces;             // empty: nothing is tracked
  std::vector<Word> words;              // of pieces that are apart
  std::vector<uint32_t> readers;        // per piece all waves: sequence of the wave's last read << 4 | 0xf; 0 none
  std::vector<uint32_t> word_readers;   // per wave all words, with the bytes read; only of pieces in `read_apart`
  std::vector<uint8_t> read_apart;      // per piece: a wave read less than all of it
  uint32_t size = 0;                    // in words
  uint32_t waves = 0;                   // of a piece in `readers`: a multiple of four
};

// A new workgroup: its waves know of nothing written yet. Call it once waves and LDS are allocated, then `define` the
// registers that the dispatcher fills. Without this call nothing is tracked.
void track_begin(Group& group);
void track_begin(Wave& w);  // of a wave without a workgroup

// Turns pending registers, and undefined sources of sinks, into findings before an instruction runs, and marks its
// results as defined or not. The engine calls it for every instruction while tracking is on.
inline void track_before(Wave& w, const Inst& i);  // wave.hpp
void track_closely(Wave& w, const Inst& i);        // what it does where it has to look at single registers

// Lanes of a vector register that hold a value. Handlers with Flow::Custom, and loads that deliver undefined words,
// call these.
uint64_t defined_lanes(const Wave& w, int reg);
void define(Wave& w, int reg, uint64_t lanes);
void undefine(Wave& w, int reg, uint64_t lanes);

// An operation was issued: its destination is pending until a wait. Every LDS instruction, including a store, passes
// its sequence number; only a wait for it completes it.
void issue(Wave& w, Counter counter, uint16_t first, uint8_t count, uint32_t sequence, uint32_t how);
// Takes the record apart: built of small fields and copied whole, it would have to wait for its own stores.
inline void issue(Wave& w, Counter counter, const Outstanding& what) {
  issue(w, counter, what.first, what.count, what.sequence, uint32_t(what.scalar) | uint32_t(what.to_lds) << 1 | uint32_t(what.half) << 2);
}
// The same for a FLAT operation, which two counters count: Load or Store, and Ds.
void issue_flat(Wave& w, Counter counter, const Outstanding& what);
// A wait: at most `remaining` operations of the counter may still be outstanding.
void wait_for(Wave& w, Counter counter, uint32_t remaining);

// An LDS access by the lanes of `mask`, whose bytes all lie in the workgroup's LDS.
uint32_t lds_access_begins(Wave& w);  // a new sequence number
void lds_read(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence);
void lds_written(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence,
                 bool to_lds);
// The addresses of the pieces (LdsBooks) that the lanes of the mask have as wholes, each its own or neighbours one together;
// their number, 0: other parts.
uint32_t pieces_of(uint64_t mask, const uint32_t* addresses, uint32_t bytes, const uint32_t*& at, uint32_t (&room)[kLanes]);
// A write of whole pieces. False: nothing was done, lds_written has to look at their words.
bool lds_pieces_written(Wave& w, const uint32_t* at, uint32_t count, uint32_t sequence);
// A write of the bytes that are there already: no race, whoever wrote them.
void lds_rewritten(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence,
                   bool to_lds = false);
// Atomics read and write. The hardware orders them among each other, whichever waves issue them.
void lds_changed(Wave& w, const Inst& i, uint64_t mask, const uint32_t* addresses, uint32_t bytes, uint32_t sequence);

void barrier_arrived(Wave& w);
void barrier_passed(Wave& w);

inline void track_after(Wave&, const Inst&) {}

}  // namespace emu
