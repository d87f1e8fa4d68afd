// flash_attn:fwd_splitkv:sm_80:dtype=bf16,dtype_out=bf16,hdim=96,hdim_v=96,mode=any,mask=window,softcap=yes,lse=any,gqa=any,cache=any,append=yes,rotary=any,split=yes,deterministic=any:tile=64x128,warps=4,even_k=yes
// flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<96, 64, 128, 4, false, false, cutlass::bfloat16_t>, false, true, false, false, true, true, true, true>

#include <fmha_fa2.h>
#include <namespace_config.h>
#include <flash.h>
#include <flash_fwd_kernel.h>

using Traits = Flash_fwd_kernel_traits<96, 64, 128, 4, false, false, cutlass::bfloat16_t>;
using Params = FLASH_NAMESPACE::Flash_fwd_params;

extern "C" __global__ void fmha_fa2(const __grid_constant__ Params params)
{
  FLASH_NAMESPACE::compute_attn_splitkv<Traits, false, true, false, false, true, true, true, true>(params);
}

FMHA_EXPORT uint32_t fmha_fa2_facts[] = {(uint32_t)Traits::kBlockM, (uint32_t)Traits::kBlockN, (uint32_t)Traits::kHeadDim, (uint32_t)Traits::kNThreads, (uint32_t)Traits::kSmemSize};
