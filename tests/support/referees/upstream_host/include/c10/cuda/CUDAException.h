#pragma once
#include <stdexcept>

#include "cuda_runtime_api.h"
#define C10_CUDA_CHECK(CALL)                                                         \
    do {                                                                             \
        if ((CALL) != cudaSuccess) throw std::runtime_error("CUDA call failed: " #CALL); \
    } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() \
    do {                               \
    } while (0)
