inline int report(FmhaCkFault* fault, int status, int field = NO_FIELD, int hip_error = 0) {
  if (fault != nullptr) *fault = FmhaCkFault{field, hip_error};
  return status;
}

// The host's constants are those of 64 lanes; a kernel that is laid out in waves takes half the threads on 32 lanes.
template <typename Chosen>
dim3 block_size() {
  return dim3(WAVE32 && BLOCK_IS_IN_WAVES ? Chosen::kBlockSize / 2 : Chosen::kBlockSize);
}

// Checks the block, chooses the instance that it asks for, and hands `use` its arguments and grid.
template <typename Use>
int with_instance(const Args* args, FmhaCkFault* fault, Use use) {
  if (args == nullptr) return report(fault, STATUS_BAD_ARGUMENT);
  try {
    const Args& a = *args;
    Checks checks;
    check(a, checks);
    if (checks.status != STATUS_OK) return report(fault, checks.status, checks.field);
    return choose(a, [&](auto tag) {
      using Chosen = typename decltype(tag)::type;
      static_assert(std::is_trivially_copyable_v<typename Chosen::Kargs>, "the runtime copies the arguments as bytes");
      const Prepared<Chosen> ready = prepare<Chosen>(a, checks);
      if (checks.status != STATUS_OK) return report(fault, checks.status, checks.field);
      return use(ready);
    });
  } catch (...) {
    return report(fault, STATUS_EXCEPTION);
  }
}

extern "C" EXPORT int fmha_ck_launch(const Args* args, void* stream, FmhaCkFault* fault) {
  return with_instance(args, fault, [&]<typename Chosen>(const Prepared<Chosen>& ready) {
    (void)hipGetLastError();  // an earlier call's error is not this launch's
    ck_tile::make_kernel<Chosen::kBlockPerCu, ArchTag>(Chosen{}, ready.grid, block_size<Chosen>(), 0, ready.kargs)(
        ck_tile::stream_config{static_cast<hipStream_t>(stream)});
    const hipError_t error = hipGetLastError();
    if (error != hipSuccess) return report(fault, STATUS_LAUNCH_FAILED, NO_FIELD, static_cast<int>(error));
    return report(fault, STATUS_OK);
  });
}

extern "C" EXPORT int fmha_ck_describe(const Args* args, FmhaCkLaunch* out, FmhaCkFault* fault) {
  if (out == nullptr) return report(fault, STATUS_BAD_ARGUMENT);
  return with_instance(args, fault, [&]<typename Chosen>(const Prepared<Chosen>& ready) {
    const dim3 block = block_size<Chosen>();
    out->grid_x = ready.grid.x;
    out->grid_y = ready.grid.y;
    out->grid_z = ready.grid.z;
    out->block_x = block.x;
    out->block_y = block.y;
    out->block_z = block.z;
    out->lds_bytes = 0;
    out->blocks_per_cu = Chosen::kBlockPerCu;
    out->kargs_bytes = sizeof(ready.kargs);
    out->field_count = 0;
    write_members(ready.kargs, *out);
    const bool short_kargs = out->kargs != nullptr && out->kargs_room < out->kargs_bytes;
    const bool short_fields = out->fields != nullptr && out->fields_room < out->field_count;
    return report(fault, short_kargs || short_fields ? STATUS_NO_ROOM : STATUS_OK);
  });
}

extern "C" EXPORT int64_t fmha_ck_kernel_name(char* out, int64_t room) {
  try {
    std::string name;
    if constexpr (requires { Kernel::GetName(); }) name = Kernel::GetName();
    if (static_cast<size_t>(room > 0 ? room : 0) > name.size()) std::memcpy(out, name.c_str(), name.size() + 1);
    return static_cast<int64_t>(name.size());
  } catch (...) {
    return -1;
  }
}
