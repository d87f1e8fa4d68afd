// flash_attn:fwd_splitkv_combine:sm_80:dtype=fp16,dtype_out=fp16,hdim=96,hdim_v=96,mode=any,mask=any,bias=any,softcap=any,dropout=any,lse=any,gqa=any,cache=any,append=any,rotary=any,split=yes,deterministic=any:tile=64x128,warps=4,even_k=yes,combine_rows=16,log_max_splits=2
// flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<96, 64, 128, 4, false, false, cutlass::half_t>, 16, 2, true>

#include <fmha_fa2.h>
#include <namespace_config.h>
#include <flash.h>
#include <flash_fwd_kernel.h>

using Traits = Flash_fwd_kernel_traits<96, 64, 128, 4, false, false, cutlass::half_t>;
using Params = FLASH_NAMESPACE::Flash_fwd_params;

extern "C" __global__ void fmha_fa2(const __grid_constant__ Params params)
{
  FLASH_NAMESPACE::combine_attn_seqk_parallel<Traits, 16, 2, true>(params);
}

FMHA_EXPORT uint32_t fmha_fa2_facts[] = {(uint32_t)Traits::kBlockM, (uint32_t)Traits::kBlockN, (uint32_t)Traits::kHeadDim, (uint32_t)Traits::kNThreads, 0};
