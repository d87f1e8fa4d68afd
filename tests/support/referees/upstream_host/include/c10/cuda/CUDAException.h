#pragma once
#include "cuda_runtime_api.h"
// Not inline: upstream checks a call for each of 2,000 kernels.
namespace host {
[[noreturn]] void call_failed(const char *call);
}
#define C10_CUDA_CHECK(CALL)                                   \
    do {                                                       \
        if ((CALL) != cudaSuccess) ::host::call_failed(#CALL); \
    } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() \
    do {                               \
    } while (0)
