// The kernels around the backward pass have no host guard, so the functions that they call must exist.
#pragma once
#include "kernel_traits.h"

namespace FLASH_NAMESPACE {
template <bool, typename, typename Params>
__device__ void compute_dot_do_o(const Params &) {}
template <typename, typename Params>
__device__ void clear_dKVaccum(const Params &) {}
template <typename, typename Params>
__device__ void convert_dQ(const Params &, int) {}
template <typename, typename Params>
__device__ void convert_dKV(const Params &) {}
}  // namespace FLASH_NAMESPACE
