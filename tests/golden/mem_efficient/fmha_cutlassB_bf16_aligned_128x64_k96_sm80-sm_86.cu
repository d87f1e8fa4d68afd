// mem_efficient:bwd_dq_dk_dv:sm_86:dtype=bf16,dtype_out=bf16,hdim=96,hdim_v=96,mode=any,mask=any,bias=any,lse=any,gqa=any,deterministic=any,dbias=any:tag=80,aligned=yes,tile=128x64,max_k=96,preload=yes
// AttentionBackwardKernel<cutlass::arch::Sm80, cutlass::bfloat16_t, true, false, true, 128, 64, 96>

#include <fmha_memeff.h>
#include <kernel_backward.h>

using Kernel = AttentionBackwardKernel<cutlass::arch::Sm80, cutlass::bfloat16_t, true, false, true, 128, 64, 96>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::kNumThreads, Kernel::kMinBlocksPerSm)
fmha_cutlassB_bf16_aligned_128x64_k96_sm80(Params p)
{
  if (!p.advance_to_block()) {
    return;
  }
  Kernel::attention_kernel(p);
}

FMHA_EXPORT uint32_t fmha_cutlassB_bf16_aligned_128x64_k96_sm80_facts[] = {(uint32_t)Kernel::kNumThreads, (uint32_t)Kernel::kMaxK, (uint32_t)Kernel::kIsAligned, (uint32_t)Kernel::kBlockSizeI, (uint32_t)Kernel::kBlockSizeJ, (uint32_t)Kernel::kOutputInRF, (uint32_t)Kernel::kNeedsAccumGradK, (uint32_t)Kernel::kKernelComputesDelta, (uint32_t)Kernel::kMinimumAlignment, (uint32_t)Kernel::kOptimalAlignement, sizeof(Kernel::SharedStorage)};
