// The C interface that Python and the executor use. Every function returns 0, or writes a sentence and returns 1.
#pragma once

#include <cstddef>
#include <cstdint>

#define EMU_API extern "C" __attribute__((visibility("default")))

// The state of one wave, in and out (core.py mirrors this layout).
struct EmuState {
  uint32_t v[512][64];     // v0-v255, a0-a255
  uint64_t defined[512];   // lanes that hold a value; looked at when `track`
  uint32_t s[128];         // SGPRs; 106 VCC, 124 M0, 126 EXEC
  uint32_t scc, mode, lanes, track;
  uint32_t group[3];
  uint32_t wave;
  uint8_t* lds;
  uint8_t* scratch;        // 64 lanes, `scratch_bytes` each
  uint64_t scratch_va;
  uint32_t lds_bytes, scratch_bytes;
  uint64_t executed;       // out: instructions
};

// Runs straight-line or branching code (objdump's text) on one wave, from its first instruction to s_endpgm or the end
// of the text. `findings` receives JSON text.
EMU_API int emu_snippet(const char* arch, const char* listing, EmuState* state, char* message, size_t room, char* findings,
                        size_t findings_room);

// How each line of objdump's text was read and bound, as JSON text: a list of objects with address, mnemonic, entry
// (null where there is none), operands, modifiers that differ from their defaults, registers read and written, problem.
// Returns the bytes needed, including the final zero. Writes nothing when `room` is less.
EMU_API size_t emu_describe(const char* arch, const char* listing, char* out, size_t room);
// The same, but only what cannot be executed: {"instructions": N, "problems": {"MNEMONIC: WHY": COUNT}}.
EMU_API size_t emu_unexecutable(const char* arch, const char* listing, char* out, size_t room);
