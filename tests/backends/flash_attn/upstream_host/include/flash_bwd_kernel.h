// Stands where upstream's kernels stand: the traits are upstream's own, the device functions have nothing to do.
#pragma once
#include "kernel_traits.h"
