// One decoded instruction: the disassembler's line, with registers resolved and constants materialised.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

namespace emu {

struct ArchTraits;  // arch_traits.hpp
struct Wave;
struct Inst;
using Handler = void (*)(Wave&, const Inst&);

// Register numbers inside the emulator. Scalars keep the hardware's numbers where all generations agree (0-105 SGPR,
// 106/107 VCC, 108-123 TTMP, 126/127 EXEC). M0 is 124 on every architecture. NULL has its own operand kind.
constexpr int kVcc = 106, kTtmp = 108, kM0 = 124, kExec = 126, kScalars = 128;
constexpr int kVgprs = 512;  // 0-255 are v0-v255, 256-511 are a0-a255
constexpr int kAgpr0 = 256;
constexpr int kLanes = 64;

// How an instruction reads a source operand: its width, and the meaning of an inline constant. 1.0 is 0x3c00 to an f16
// instruction, 0x3f800000 to a 32-bit one, and the double 1.0 to an f64 one. A literal of an f64 instruction is its
// high half.
enum class Type : uint8_t { None, B16, F16, BF16, B32, F32, PkF16, PkBF16, PkB16, B64, F64, PkF32, Wide };

inline bool is_half(Type t) { return t == Type::B16 || t == Type::F16 || t == Type::BF16; }

// What the instruction counts as.
enum class Class : uint8_t {
  Valu, Salu, Matrix, Transcendental, Lds, Global, Scratch, ScalarMemory, Atomic, Barrier, Wait, Branch, Message, Count
};

enum class Kind : uint8_t {
  None,      // absent
  Vgpr,      // reg 0-511
  Sgpr,      // reg 0-127, VCC, TTMP, M0 and EXEC included
  Constant,  // value
  Null,      // reads 0, writes nothing
  Scc, Vccz, Execz,
  Aperture,  // src_shared_base and its like; `value` is an Aperture
  Off,       // the word `off`
  Text       // anything else, kept in Inst::words (hwreg(...), sendmsg(...), labels)
};

enum Aperture : uint32_t { SharedBase, SharedLimit, PrivateBase, PrivateLimit };

struct Operand {
  Kind kind = Kind::None;
  uint8_t count = 1;        // registers: v[4:7] has 4
  uint16_t reg = 0;         // first register
  bool neg : 1 = false;     // -v0, neg(...)
  bool abs : 1 = false;     // |v0|
  bool sext : 1 = false;    // sext(v0), SDWA
  bool literal : 1 = false; // the constant was written as 0x...: a 32-bit literal, not an inline constant
  bool real : 1 = false;    // the constant was written with a point
  uint8_t half = 0;         // true16: 0 none, 1 v0.l, 2 v0.h
  uint64_t value = 0;       // the constant as the instruction sees it (low 32 bits of a 32-bit one); until the
                            // instruction is bound as written: an integer, or the bits of a double where `real`
};
static_assert(sizeof(Operand) == 16);

// DPP controls (ISA documents: "DPP: Data Parallel Primitives").
enum class Dpp : uint8_t {
  None, QuadPerm, RowShl, RowShr, RowRor, WaveShl, WaveRol, WaveShr, WaveRor, RowMirror, RowHalfMirror, RowBcast15,
  RowBcast31, RowShare, RowXmask, RowNewbcast, Dpp8
};

// SDWA selections (ISA documents: "SDWA").
enum class Sel : uint8_t { Byte0, Byte1, Byte2, Byte3, Word0, Word1, Dword };
enum class Unused : uint8_t { Pad, Sext, Preserve };

// The modifiers behind the operands. Absent ones keep their defaults.
struct Mods {
  bool clamp = false;
  uint8_t omod = 0;           // 1: mul:2, 2: mul:4, 3: div:2
  uint8_t op_sel = 0;         // bit k: operand k of the encoding's order (sources, then destination)
  uint8_t op_sel_hi = 0x7;    // VOP3P; all ones when the text does not say
  bool has_op_sel = false, has_op_sel_hi = false;
  uint8_t neg_lo = 0, neg_hi = 0;
  Dpp dpp = Dpp::None;
  uint32_t dpp_arg = 0;       // quad_perm: 2 bits a lane; row_*: the count; dpp8: 3 bits a lane
  uint8_t row_mask = 0xf, bank_mask = 0xf;
  bool bound_ctrl = false, fi = false;
  bool sdwa = false;
  Sel dst_sel = Sel::Dword, src0_sel = Sel::Dword, src1_sel = Sel::Dword;
  Unused dst_unused = Unused::Pad;
  int32_t offset = 0;         // global, flat, buffer, scratch, ds, s_load (immediate)
  uint8_t offset0 = 0, offset1 = 0;
  bool offen = false, idxen = false, addr64 = false, lds = false, gds = false;
  bool sc0 = false, sc1 = false, nt = false, glc = false, slc = false, dlc = false, tfe = false;
  bool th_return = false;     // gfx12: th:TH_ATOMIC_RETURN
  uint8_t cbsz = 0, abid = 0, blgp = 0;
  uint8_t matrix_a_fmt = 0, matrix_b_fmt = 0;
  uint8_t bitop3 = 0;
  uint32_t byte_sel = 0;
  bool index_key_set = false; uint8_t index_key = 0;
};

// Registers as sets: 512 vector ones, 128 scalar ones.
using VSet = std::bitset<kVgprs>;
using SSet = std::bitset<kScalars>;

struct Entry;

constexpr int kOperands = 8;

// Every execution reads this record, and all of a loop's records are more than the nearest cache holds, so what nearly
// every instruction needs comes first: three cache lines for the books and the way to the handler, one for four operands,
// and one for the modifiers.
struct alignas(64) Inst {
  // What the books look at before every instruction. The binder fills it from roles; special binders correct it.
  VSet v_reads, v_writes;
  SSet s_reads, s_writes;
  Handler run = nullptr;
  const Inst* next = nullptr;    // what follows in the text
  uint32_t extra = 0;      // what the entry's binder keeps (an immediate, a register id)
  Class cls = Class::Valu;
  uint8_t ops = 0;
  uint8_t dsts = 0;        // the number of destinations in `op`
  uint8_t dst_regs = 1;    // dwords of op[0]
  bool plain = true;       // no DPP, SDWA, op_sel, true16 half: sources and destination are whole registers
  bool vop3p = false;      // the handler reads op_sel and op_sel_hi (packed, mixed, dot, matrix)
  alignas(64) std::array<Operand, kOperands> op{};  // in the order of the text: destinations first
  Mods mod;
  const Entry* entry = nullptr;
  uint32_t size = 4;       // bytes of code
  uint64_t address = 0;    // in the code object
  const Inst* target = nullptr;  // of a branch
  const Inst* second = nullptr;  // Y half of a dual issue
  Handler alone = nullptr;       // of a dual issue: the X half's own handler
  uint64_t extra64 = 0;
  const char* mnemonic = "";     // as the disassembler spells it
  std::string text;              // the whole line, for people
  std::vector<std::string> words;  // operands as written
  std::string problem;             // why it cannot be executed; empty: it can

  const Operand& src(int k) const { return op[dsts + k]; }
};

// How definedness flows through an instruction (tracking.hpp).
enum class Flow : uint8_t {
  Lane,    // a result lane is defined where all its sources' lanes are
  Cross,   // results are defined when every source lane is (matrix products, permutes)
  Sink,    // undefined sources are a finding: addresses, stored data, decisions
  Custom,  // the handler keeps the books
  Defined,  // results are always defined, whatever the sources are (v_mov of constants, zero idioms)
  Select,    // src(2) is a lane mask that chooses between src(1), where it is set, and src(0) (v_cndmask)
  ReadLane,  // a sink for one lane: src(1)'s, or the first active one (v_readlane, v_readfirstlane)
  WriteLane  // one lane of op[0] becomes defined: src(1)'s (v_writelane)
};

enum : uint32_t {
  kReadsDst = 1,      // op[0] is a source too (fmac, dot with accumulate in place)
  kReadsExec = 2,     // EXEC decides more than which lanes are written
  kIgnoresExec = 4,   // runs on all lanes (matrix instructions, v_readlane, v_writelane)
  kEnds = 8,          // control flow: never falls through
  kKeepsUpper = 16,   // a 16-bit result leaves the other half of its register as it is, on CDNA too (VOP3-only
                      // operations, v_mac_f16 and its kin); the binder must not call such an instruction plain
  kNamesReads = 32,   // the entry's binder corrected v_reads
};

struct Program;  // program.hpp

// Runs after the operands are parsed. It chooses a handler and resolves constants. It refuses what is not implemented
// by returning a sentence (empty: nothing to refuse).
using Binder = std::string (*)(Inst&, const ArchTraits&);

struct Entry {
  const char* name;        // without _e32, _e64, _dpp, _sdwa
  Handler run;
  uint8_t dsts;
  Class cls;
  Flow flow;
  uint32_t flags;
  std::array<Type, 6> types;  // of op[0], op[1], ... (destinations first); None: as wide as written
  Binder bind;             // may be nullptr
  const char* source;      // the ISA document's section, e.g. "CDNA3 12.8 VOP2"
};

struct Table {
  const Entry* entries;
  size_t count;
};

}  // namespace emu
