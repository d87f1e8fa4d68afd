// NVRTC as upstream's engines call it. It "compiles" every text to one byte and remembers the last one.
#pragma once

#include <cstddef>

#include "../../cudnn_frontend_shim.h"

using nvrtcProgram = const char*;
enum nvrtcResult { NVRTC_SUCCESS };

extern const char* compiled_text;

namespace cudnn_frontend::experimental::detail {
inline bool nvrtc_is_loaded() { return true; }
inline nvrtcResult nvrtc_create_program(nvrtcProgram* out, const char* text, const char*, int, const char* const*,
                                        const char* const*) {
  return *out = compiled_text = text, NVRTC_SUCCESS;
}
inline nvrtcResult nvrtc_compile_program(nvrtcProgram, int, const char* const*) { return NVRTC_SUCCESS; }
inline nvrtcResult nvrtc_get_ptx_size(nvrtcProgram, size_t* out) { return *out = 1, NVRTC_SUCCESS; }
inline nvrtcResult nvrtc_get_ptx(nvrtcProgram, char*) { return NVRTC_SUCCESS; }
inline nvrtcResult nvrtc_get_program_log_size(nvrtcProgram, size_t* out) { return *out = 1, NVRTC_SUCCESS; }
inline nvrtcResult nvrtc_get_program_log(nvrtcProgram, char*) { return NVRTC_SUCCESS; }
inline nvrtcResult nvrtc_get_cubin_size(nvrtcProgram, size_t* out) { return *out = 1, NVRTC_SUCCESS; }
inline nvrtcResult nvrtc_get_cubin(nvrtcProgram, char* out) { return *out = 0, NVRTC_SUCCESS; }
inline nvrtcResult nvrtc_destroy_program(nvrtcProgram*) { return NVRTC_SUCCESS; }
}  // namespace cudnn_frontend::experimental::detail
