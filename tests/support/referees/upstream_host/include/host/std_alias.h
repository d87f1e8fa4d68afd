// CUTLASS uses CUDA's standard library; on the host, the compiler's own replaces it.
#pragma once
#include <type_traits>
namespace cuda {
namespace std = ::std;
}
