// The caller's parts into O and LSE.
static int launch(const FmhaCpuArgs* args) {
  Job job;
  if (!measure_job(job, args) || args->splits < 1 || !args->parts) return STATUS_BAD_ARGUMENT;
  if (args->part_floats != part_floats(*args, job.rows)) return STATUS_BAD_ARGUMENT;
  if (!job.groups || !job.rows) return STATUS_OK;
  job.splits = args->splits;
  job.parts = args->parts;
  job.threads = min64(clamp64(min64(args->threads, 1 + (all_parts(job) >> 17)), 1, MAX_THREADS), job.groups);
  Lease lease = lease_scratch(sizeof(float));
  if (!lease.memory) {
    end_lease(lease);
    return STATUS_OUT_OF_MEMORY;
  }
  run_on(job.threads, lease.pooled, merge_task, &job);
  end_lease(lease);
  return STATUS_OK;
}
