// The instruction tables, one for each file of semantics.
#pragma once

#include "inst.hpp"

namespace emu {

extern const Table kScalarTable;        // scalar.cpp: SOP1, SOP2, SOPK, SOPC
extern const Table kScalarExecTable;    // scalar_exec.cpp: saved EXEC masks, registers through M0
extern const Table kControlTable;       // control.cpp: SOPP, branches, waits, barriers, setreg, messages
extern const Table kVectorIntTable;     // vector_int.cpp: integers and bits
extern const Table kVectorInt64Table;   // vector_int64.cpp
extern const Table kVectorInt16Table;   // vector_int16.cpp
extern const Table kVectorBytesTable;   // vector_bytes.cpp: permutes of bytes, absolute differences
extern const Table kVectorMoveTable;    // vector_move.cpp: moves, selects, lanes, permutes, accvgpr
extern const Table kVectorLanesTable;   // vector_lanes.cpp: permutes and swaps of lanes, registers through M0
extern const Table kCompareTable;       // compare.cpp: v_cmp, v_cmpx, v_cmp_class
extern const Table kFloatTable;         // float32.cpp: f32 arithmetic
extern const Table kFloat16Table;       // float16.cpp: f16, bf16, true16
extern const Table kFloat64Table;       // float64.cpp
extern const Table kSelectTable;        // select.cpp: minimum, maximum, median of floats
extern const Table kDivisionTable;      // division.cpp: v_div_scale, v_div_fmas, v_div_fixup
extern const Table kSaluFloatTable;     // salu_float.cpp: scalar floats of gfx11.5 and gfx12
extern const Table kDotTable;           // dot.cpp: dot products of VOP2, VOP3 and VOP3P
extern const Table kNarrowTable;        // convert_narrow.cpp: fp8, bf8 and what goes with them
extern const Table kScaledConvertTable; // convert_scaled.cpp: gfx950's v_cvt_scalef32
extern const Table kPackedTable;        // packed.cpp: VOP3P, mixed precision, dot products
extern const Table kConvertTable;       // convert.cpp: conversions, fp8 and bf8 included
extern const Table kTranscendentalTable;  // transcendental.cpp
extern const Table kMfmaTable;          // mfma.cpp: f32, xf32, f16, bf16, fp8, bf8
extern const Table kMfmaExactTable;     // mfma_exact.cpp: i8, f64
extern const Table kMfmaScaledTable;    // mfma_scaled.cpp: f8f6f4 with and without scales
extern const Table kSparseTable;        // sparse.cpp: v_smfmac, v_swmmac
extern const Table kWmmaTable;          // wmma.cpp
extern const Table kScalarMemoryTable;  // scalar_memory.cpp
extern const Table kGlobalTable;        // global.cpp: global, flat
extern const Table kScratchTable;       // scratch.cpp
extern const Table kBufferTable;        // buffer.cpp
extern const Table kAtomicTable;        // atomic.cpp: global, flat, buffer
extern const Table kLdsTable;           // lds.cpp: reads and writes
extern const Table kLdsAtomicTable;     // lds_atomic.cpp
extern const Table kLdsSpecialTable;    // lds_special.cpp: permutes, swizzles, transposed reads, counters

const Entry* find_entry(const char* name);  // tables.cpp; nullptr: not implemented

}  // namespace emu
