// The emulated architectures: one row each. A handler asks a trait for what the hardware does; no other C++ file names an
// architecture.
//
// Two sources feed a row. `facts` holds numbers that fmha states for every architecture, whether emulated or not: wave
// size, LDS, compute units, the encoding of fp8. They stand in arch_specs/ with their sources, and device_facts.py writes
// arch_facts.hpp from them when the library is built. Everything else is behaviour that only an executor needs, and
// stands here with its source. device_facts.py reads the names of the rows from this file.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace emu {

struct ArchFacts {
  int major, minor;            // of the ISA version
  int wave;                    // lanes of a wave by default
  int units;                   // as HIP counts them: compute units; on RDNA workgroup processors of two
  int lds_of_group;            // bytes, at most
  int lds_of_unit;             // bytes
  int lds_banks;               // of one dword
  int group_threads;           // at most
  int unit_threads;            // resident in one unit
  int unit_registers;          // VGPRs of all lanes of a unit
  int unit_groups;             // resident in one unit
  bool fnuz;                   // fp8 and bf8 are the FNUZ formats, not OCP's
  bool matrix_flushes_halves;  // matrix products of f16 and bf16 take and make zeros for subnormal numbers
};

}  // namespace emu

#include "arch_facts.hpp"

namespace emu {

// "LLVM feature" is a name that `llvm-mc -triple=amdgcn -mattr=help` lists; "LLVM guide" is the AMDGPU backend's user guide.
struct ArchTraits {
  const char* name;
  const char* target;  // with the features that the emulated device is set up with (LLVM guide, "Target ID")
  uint8_t machine;     // EF_AMDGPU_MACH_AMDGCN_* (LLVM guide, "ELF Header")
  ArchFacts facts;

  // ---- waves and registers ----

  // A kernel chooses 32 or 64 lanes (LLVM guide, "Kernel Descriptor": ENABLE_WAVEFRONT_SIZE32); else a wave has 64.
  bool wave32;
  // a0-a255 exist, and the kernel descriptor says where they begin (LLVM guide, compute_pgm_rsrc3: ACCUM_OFFSET).
  bool agprs;
  // Operands name halves of registers, as v0.h (LLVM feature real-true16).
  bool true16;
  // A 16-bit result leaves the other half of its register as it is; else zeros go there (see dpp.cpp).
  bool keeps_upper_half;
  // The flat scratch base is a register that the hardware sets (LLVM feature architected-flat-scratch); else an SGPR
  // holds the wave's offset.
  bool sets_flat_scratch;
  // Workgroup ids come in TTMP7 and TTMP9 (LLVM feature architected-sgprs); else in SGPRs.
  bool group_id_in_ttmp;
  // v_cmpx has no destination operand and writes EXEC alone (RDNA3 and RDNA4 16.9); else both (CDNA3 12.9).
  bool cmpx_writes_exec_alone;
  // ds_permute in a wave of 64 lanes permutes each half by itself (RDNA3 16.12 DS_PERMUTE_B32).
  bool permutes_by_halves;

  // ---- numbers ----

  // MODE has IEEE and DX10_CLAMP; else both always hold (LLVM guide, compute_pgm_rsrc1; RDNA4 3.4).
  bool mode_has_ieee;
  // Output modifiers apply in every mode; else not in IEEE mode, and not where results may be denormal (CDNA4 6.2,
  // RDNA3 7.2.3.1).
  bool omod_always;
  // v_min and v_max return the number beside a signalling NaN in IEEE mode too (RDNA4 16.7 V_MIN_NUM_F32); else the NaN
  // (CDNA4 12.7, RDNA3 16.7 V_MIN_F32).
  bool min_is_min_num;
  // v_min and v_max return the first of two NaNs where neither of the above decides (RDNA3 16.7); else the second
  // (CDNA4 12.7).
  bool first_of_two_nans;
  // v_dot2_f32: NEG_LO and NEG_HI change the third source (RDNA3 and RDNA4 16.10).
  bool dot2_negates_addend;
  // v_dot2_f32_bf16 adds the third source after both products (CDNA4 12.10); else before (RDNA3 and RDNA4 16.10).
  bool dot2_bf16_adds_last;
  // v_cvt_sr_fp8 and v_cvt_sr_bf8 choose the byte by byte_sel (RDNA4 16.12); else by op_sel (CDNA4 12.11).
  bool byte_sel;

  // ---- matrix products ----

  // BLGP of f64 products negates operands (CDNA3 7.1); else they have no BLGP.
  bool mfma_f64_negates;
  // Each half of a wave holds all of A and of B, D interleaves rows, and a 16-bit result takes half a register (RDNA3
  // 7.9); else the halves share A, B and the rows of D, and two 16-bit results share a register (RDNA4 7.12).
  bool wmma_repeats;

  // ---- memory ----

  // The buffer resource has OOB_SELECT and two bits of swizzle (RDNA3 10.1, RDNA4 10); else ranges and swizzle are those
  // of CDNA3 9.1.5.
  bool oob_select;
  // buffer_load and global_load write LDS straight (CDNA3 9.1.9; LLVM feature vmem-to-lds-load-insts).
  bool loads_to_lds;
  // They do so with three and four dwords a lane too (CDNA4, GLOBAL_LOAD_LDS).
  bool wide_loads_to_lds;
  // Bits of M0 that hold the LDS address of such a load (CDNA3 9.1.9: 16; CDNA4's LDS needs 18).
  int m0_lds_bits;
  // ds_read_b128 takes lanes 0-3 with 20-23, 4-7 with 16-19 and so on (ROCm documentation, CK Tile, "LDS bank
  // conflicts"); else lanes in order.
  bool pairs_b128_phases;
  // s_store_dword and its like exist (Vega 7.2.1; LLVM feature scalar-stores).
  bool scalar_stores;

  // ---- wait counters ----

  // Stores have a counter of their own (LLVM feature vscnt); else vmcnt counts them (CDNA3 4.4).
  bool store_counter;
  // What lgkmcnt or dscnt counts to (the width of the field of s_waitcnt or s_wait_dscnt).
  uint32_t most_ds;
  // What kmcnt counts to (the width of the field of s_wait_kmcnt); 0: scalar memory shares the counter of LDS.
  uint32_t most_scalar;
  // Flat accesses complete in no order within a counter (CDNA3 4.4); else in order.
  bool flat_unordered;
};

inline constexpr ArchTraits kArchs[] = {
    {
        .name = "gfx90a", .target = "gfx90a:sramecc+:xnack-", .machine = 0x3f, .facts = facts::gfx90a,
        .wave32 = false, .agprs = true, .true16 = false, .keeps_upper_half = false, .sets_flat_scratch = false,
        .group_id_in_ttmp = false, .cmpx_writes_exec_alone = false, .permutes_by_halves = false,
        .mode_has_ieee = true, .omod_always = false, .min_is_min_num = false, .first_of_two_nans = false,
        .dot2_negates_addend = false, .dot2_bf16_adds_last = true, .byte_sel = false,
        .mfma_f64_negates = false, .wmma_repeats = false,
        .oob_select = false, .loads_to_lds = true, .wide_loads_to_lds = false, .m0_lds_bits = 16,
        .pairs_b128_phases = true, .scalar_stores = true,
        .store_counter = false, .most_ds = 15, .most_scalar = 0, .flat_unordered = true,
    },
    {
        .name = "gfx942", .target = "gfx942:sramecc+:xnack-", .machine = 0x4c, .facts = facts::gfx942,
        .wave32 = false, .agprs = true, .true16 = false, .keeps_upper_half = false, .sets_flat_scratch = true,
        .group_id_in_ttmp = false, .cmpx_writes_exec_alone = false, .permutes_by_halves = false,
        .mode_has_ieee = true, .omod_always = false, .min_is_min_num = false, .first_of_two_nans = false,
        .dot2_negates_addend = false, .dot2_bf16_adds_last = true, .byte_sel = false,
        .mfma_f64_negates = true, .wmma_repeats = false,
        .oob_select = false, .loads_to_lds = true, .wide_loads_to_lds = false, .m0_lds_bits = 16,
        .pairs_b128_phases = true, .scalar_stores = false,
        .store_counter = false, .most_ds = 15, .most_scalar = 0, .flat_unordered = true,
    },
    {
        .name = "gfx950", .target = "gfx950:sramecc+:xnack-", .machine = 0x4f, .facts = facts::gfx950,
        .wave32 = false, .agprs = true, .true16 = false, .keeps_upper_half = false, .sets_flat_scratch = true,
        .group_id_in_ttmp = false, .cmpx_writes_exec_alone = false, .permutes_by_halves = false,
        .mode_has_ieee = true, .omod_always = false, .min_is_min_num = false, .first_of_two_nans = false,
        .dot2_negates_addend = false, .dot2_bf16_adds_last = true, .byte_sel = false,
        .mfma_f64_negates = true, .wmma_repeats = false,
        .oob_select = false, .loads_to_lds = true, .wide_loads_to_lds = true, .m0_lds_bits = 18,
        .pairs_b128_phases = false, .scalar_stores = false,
        .store_counter = false, .most_ds = 15, .most_scalar = 0, .flat_unordered = true,
    },
    {
        .name = "gfx1100", .target = "gfx1100", .machine = 0x41, .facts = facts::gfx1100,
        .wave32 = true, .agprs = false, .true16 = true, .keeps_upper_half = true, .sets_flat_scratch = true,
        .group_id_in_ttmp = false, .cmpx_writes_exec_alone = true, .permutes_by_halves = true,
        .mode_has_ieee = true, .omod_always = false, .min_is_min_num = false, .first_of_two_nans = true,
        .dot2_negates_addend = true, .dot2_bf16_adds_last = false, .byte_sel = true,
        .mfma_f64_negates = false, .wmma_repeats = true,
        .oob_select = true, .loads_to_lds = false, .wide_loads_to_lds = false, .m0_lds_bits = 0,
        .pairs_b128_phases = false, .scalar_stores = false,
        .store_counter = true, .most_ds = 63, .most_scalar = 0, .flat_unordered = false,
    },
    {
        .name = "gfx1201", .target = "gfx1201", .machine = 0x4e, .facts = facts::gfx1201,
        .wave32 = true, .agprs = false, .true16 = true, .keeps_upper_half = true, .sets_flat_scratch = true,
        .group_id_in_ttmp = true, .cmpx_writes_exec_alone = true, .permutes_by_halves = true,
        .mode_has_ieee = false, .omod_always = true, .min_is_min_num = true, .first_of_two_nans = true,
        .dot2_negates_addend = true, .dot2_bf16_adds_last = false, .byte_sel = true,
        .mfma_f64_negates = false, .wmma_repeats = false,
        .oob_select = true, .loads_to_lds = false, .wide_loads_to_lds = false, .m0_lds_bits = 0,
        .pairs_b128_phases = false, .scalar_stores = false,
        .store_counter = true, .most_ds = 63, .most_scalar = 31, .flat_unordered = false,
    },
};

// nullptr: there is no such row.
inline const ArchTraits* arch_named(std::string_view name) {
  for (const ArchTraits& arch : kArchs)
    if (name == arch.name) return &arch;
  return nullptr;
}

}  // namespace emu
