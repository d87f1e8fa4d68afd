// Every split of every group into the caller's parts.
static int launch(const FmhaCpuArgs* args) {
  Job job;
  if (!measure_job(job, args) || args->splits < 1 || !args->parts) return STATUS_BAD_ARGUMENT;
  if (args->part_floats != part_floats(*args, job.rows)) return STATUS_BAD_ARGUMENT;
  if (!job.groups || !job.rows) return STATUS_OK;
  if (!tiles_permitted()) return STATUS_NOT_PERMITTED;
  job.splits = args->splits;
  job.parts = args->parts;
  job.threads = min64(threads_for(job), items_of(job));
  Lease lease = lease_scratch((size_t)(job.threads * scratch_floats(job)) * sizeof(float));
  if (!lease.memory) {
    end_lease(lease);
    return STATUS_OUT_OF_MEMORY;
  }
  job.scratch = (float*)lease.memory;
  run_on(job.threads, lease.pooled, attend_task, &job);
  end_lease(lease);
  return STATUS_OK;
}
