// Launches are recorded.
#pragma once
#include "cutlass/device_kernel.h"
#include "host/record.h"
namespace cutlass {
template <typename Kernel, typename Params>
void kernel_launch(dim3 grid, dim3 block, size_t shared, cudaStream_t, const Params &params, bool dependent) {
    note_launch(grid, block, dim3(1, 1, 1), shared, params, dependent);
}
}  // namespace cutlass
