// CUTLASS names the standard library of CUDA; on the host it is the compiler's own.
#pragma once
#include <type_traits>
namespace cuda {
namespace std = ::std;
}
