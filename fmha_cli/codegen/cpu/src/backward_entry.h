// The one entry: 0, or a status of the ABI.
extern "C" EXPORT int fmha_cpu_bwd(const FmhaCpuBwdArgs* a) {
  const bool sizes = a->batch >= 0 && a->heads >= 1 && a->kv_heads >= 1 && a->heads % a->kv_heads == 0 &&
                     a->seqlen_q >= 0 && a->seqlen_k >= 0 && a->hdim >= 1 && a->hdim <= MAX_HDIM && a->hdim_v >= 1 &&
                     a->hdim_v <= MAX_HDIM && a->threads >= 1;
  if (!sizes || !a->q || !a->o || !a->dout || !a->dq || !a->dk || (!a->dv && (a->v != a->k || a->hdim_v > a->hdim)))
    return STATUS_BAD_ARGUMENT;
  return launch(a);
}
