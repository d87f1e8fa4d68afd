// The C interface to whole launches, beside the HIP runtime: code objects, live memory, launches with all their
// options. Functions that return int return 0, or write a sentence to `message` and return 1.
#pragma once

#include "capi.hpp"

struct EmuLaunch {
  uint32_t grid[3], block[3];  // workgroups; work-items
  uint32_t items[3];           // work-items of the grid where the last workgroups are partial; all 0: full ones
  uint32_t dynamic_lds;
  const uint8_t* kernargs;     // explicit arguments, laid out as the kernel's metadata says
  uint64_t kernarg_bytes;
  uint64_t seed;
  int32_t threads, track;  // track: 0 off, 1 on, 2 on and strict (launch.hpp)
  uint64_t most_instructions;  // of one wave; 0: no limit
  uint64_t turn;               // instructions of a wave before another one's turn; 0: up to a barrier
};

EMU_API int emu_load(const uint8_t* elf, uint64_t bytes, void** program, char* message, size_t room);
EMU_API void emu_unload(void* program);
// {"arch": ..., "kernels": {NAME: {"lds": .., "scratch": .., "kernargs": .., "arguments": [[offset, size, kind], ...]}}}.
// Returns the bytes needed, the final zero included; nothing is written when `room` is less.
EMU_API size_t emu_kernels(const void* program, char* out, size_t room);
// Host address of a symbol's memory; 0 where there is none.
EMU_API uint64_t emu_symbol(const void* program, const char* name, uint64_t* bytes);
// Runs a kernel to its end. On failure `message` says why; `emu_observed` still gives what the kernel did until then.
EMU_API int emu_launch(void* program, const char* kernel, const EmuLaunch* launch, char* message, size_t room);
// What the launches of this thread did since the last call, as `fmha_cli` reads it: {"executed", "fault", "findings"}.
EMU_API const char* emu_observed();

// Makes host memory device memory of that name; emu_free undoes it.
EMU_API void emu_allocate(uint64_t start, uint64_t bytes, const char* name, int writable);
EMU_API int emu_free(uint64_t start);
struct EmuNamed {
  const char* name;
  uint64_t start, end;
  int writable;
};
EMU_API void emu_regions(uint64_t allocation, const EmuNamed* regions, uint64_t count);
// 0 inside, 1 guard, 2 outside, 3 read-only; `nearest` receives the nearest region in words.
EMU_API int emu_place(uint64_t address, uint64_t bytes, int write, char* nearest, size_t room);
