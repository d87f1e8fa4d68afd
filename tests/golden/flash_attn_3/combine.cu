// flash_attn_3:fwd_splitkv_combine:sm_90a:dtype=fp16,dtype_out=fp16,hdim=64,hdim_v=64,mode=any,mask=any,softcap=any,lse=any,gqa=any,cache=any,append=any,rotary=any,split=yes,qscale=any,deterministic=any:tile=16x64,log_max_splits=4
// run_flash_fwd_combine<90, 16, 64, 4, false, false, cutlass::half_t, float>

#include <fmha_fa3.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/arch/arch.h>
#include <flash_fwd_combine_kernel.h>

using Kernel = flash::FlashAttnFwdCombine<cute::Shape<cute::Int<16>, cute::Int<64>>, 4, 256, 1, false, false, cutlass::half_t, float, cutlass::arch::Sm90>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, Kernel::MinBlocksPerMultiprocessor)
fmha_fa3(const __grid_constant__ Params params)
{
  extern __shared__ char smem[];
  Kernel kernel;
  kernel(params, smem);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)Kernel::kBlockM, (uint32_t)Kernel::kBlockK, (uint32_t)Kernel::kMaxSplits, (uint32_t)Kernel::MaxThreadsPerBlock, (uint32_t)Kernel::SharedStorageSize};
