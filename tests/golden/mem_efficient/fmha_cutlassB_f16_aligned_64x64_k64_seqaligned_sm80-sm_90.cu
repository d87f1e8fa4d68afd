// mem_efficient:bwd_dq_dk_dv:sm_90:dtype=fp16,dtype_out=fp16,hdim=64,hdim_v=64,mask=any,bias=any,lse=any,gqa=any,deterministic=any,dbias=any:tag=80,aligned=yes,tile=64x64,max_k=64,preload=yes,seq_aligned=yes
// AttentionBackwardKernel<cutlass::arch::Sm80, cutlass::half_t, true, false, true, 64, 64, 64, true>

#include <fmha_memeff.h>
#include <kernel_backward.h>

using Kernel = AttentionBackwardKernel<cutlass::arch::Sm80, cutlass::half_t, true, false, true, 64, 64, 64, true>;
using Params = Kernel::Params;

extern "C" __global__ void __launch_bounds__(Kernel::kNumThreads, Kernel::kMinBlocksPerSm)
fmha_cutlassB_f16_aligned_64x64_k64_seqaligned_sm80(Params p)
{
  if (!p.advance_to_block()) {
    return;
  }
  Kernel::attention_kernel(p);
}

FMHA_EXPORT uint32_t fmha_cutlassB_f16_aligned_64x64_k64_seqaligned_sm80_facts[] = {(uint32_t)Kernel::kNumThreads, (uint32_t)Kernel::kMaxK, (uint32_t)Kernel::kIsAligned, (uint32_t)Kernel::kBlockSizeI, (uint32_t)Kernel::kBlockSizeJ, (uint32_t)Kernel::kOutputInRF, (uint32_t)Kernel::kNeedsAccumGradK, (uint32_t)Kernel::kKernelComputesDelta, (uint32_t)Kernel::kMinimumAlignment, (uint32_t)Kernel::kOptimalAlignement, sizeof(Kernel::SharedStorage)};
