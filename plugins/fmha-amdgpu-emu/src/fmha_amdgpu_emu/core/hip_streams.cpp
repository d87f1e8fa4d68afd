// Streams and events. Whatever is asked for has happened when the call returns, so that waiting is no work.
#include <chrono>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {

struct Stream {
  unsigned flags;
  int priority, device;
  uint64_t id;
};

struct Event {
  std::chrono::steady_clock::time_point at;
  unsigned flags;
  bool recorded;
};

constexpr unsigned kDisableTiming = 2;
constexpr int kLeastPriority = 1, kGreatestPriority = -1;
constexpr uintptr_t kPerThread = 2;  // hipStreamLegacy is 1

bool known_stream(const void* stream) {
  return uintptr_t(stream) <= kPerThread || host().streams.count(static_cast<Stream*>(const_cast<void*>(stream)));
}

namespace {

Error create_stream(Stream** out, unsigned flags, int priority, const char* call) {
  if (no_device(call)) return NoDevice;
  static uint64_t last = 0;  // under the host's lock, as all of it
  *out = new Stream{flags, priority, thread().device, ++last};
  host().streams.insert(*out);
  return Success;
}

// The stream that a handle means; the default one has no object of its own.
const Stream* stream_of(const void* handle) {
  static const Stream usual{0, 0, 0, 0};
  return uintptr_t(handle) <= kPerThread ? &usual : static_cast<const Stream*>(handle);
}

Error on_stream(const void* stream, const char* call) {
  return known_stream(stream) ? Success : fail(InvalidHandle, std::string(call) + ": no such stream");
}

Error with_event(Event* event, const char* call) {
  return host().events.count(event) ? Success : fail(InvalidHandle, std::string(call) + ": no such event");
}

using HostFunction = void (*)(void*);
using Callback = void (*)(void* stream, int status, void* data);

}  // namespace
}  // namespace fmha::hip

API int hipStreamCreate(Stream** out) {
  Guard guard(host().mutex);
  return create_stream(out, 0, 0, "hipStreamCreate");
}
API int hipStreamCreateWithFlags(Stream** out, unsigned flags) {
  Guard guard(host().mutex);
  return create_stream(out, flags, 0, "hipStreamCreateWithFlags");
}
API int hipStreamCreateWithPriority(Stream** out, unsigned flags, int priority) {
  Guard guard(host().mutex);
  priority = priority < kGreatestPriority ? kGreatestPriority : priority > kLeastPriority ? kLeastPriority : priority;
  return create_stream(out, flags, priority, "hipStreamCreateWithPriority");
}
API int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = kLeastPriority;
  if (greatest) *greatest = kGreatestPriority;
  return Success;
}
API int hipStreamDestroy(Stream* stream) {
  Guard guard(host().mutex);
  if (!host().streams.erase(stream)) return fail(InvalidHandle, "hipStreamDestroy: no such stream");
  delete stream;
  return Success;
}
API int hipStreamSynchronize(const void* stream) {
  Guard guard(host().mutex);
  return on_stream(stream, "hipStreamSynchronize");
}
API int hipStreamQuery(const void* stream) {
  Guard guard(host().mutex);
  return on_stream(stream, "hipStreamQuery");
}
API int hipStreamWaitEvent(const void* stream, Event* event, unsigned) {
  Guard guard(host().mutex);
  const Error error = on_stream(stream, "hipStreamWaitEvent");
  return error ? error : with_event(event, "hipStreamWaitEvent");
}
API int hipStreamGetFlags(const void* stream, unsigned* flags) {
  Guard guard(host().mutex);
  if (const Error error = on_stream(stream, "hipStreamGetFlags")) return error;
  return *flags = stream_of(stream)->flags, Success;
}
API int hipStreamGetPriority(const void* stream, int* priority) {
  Guard guard(host().mutex);
  if (const Error error = on_stream(stream, "hipStreamGetPriority")) return error;
  return *priority = stream_of(stream)->priority, Success;
}
API int hipStreamGetDevice(const void* stream, int* device) {
  Guard guard(host().mutex);
  if (const Error error = on_stream(stream, "hipStreamGetDevice")) return error;
  return *device = uintptr_t(stream) <= kPerThread ? thread().device : stream_of(stream)->device, Success;
}
API int hipGetStreamDeviceId(const void* stream) {
  int device = -1;
  return hipStreamGetDevice(stream, &device) ? -1 : device;
}
API int hipStreamGetId(const void* stream, unsigned long long* id) {
  Guard guard(host().mutex);
  if (const Error error = on_stream(stream, "hipStreamGetId")) return error;
  return *id = stream_of(stream)->id, Success;
}
API int hipStreamIsCapturing(const void* stream, int* status) {
  Guard guard(host().mutex);
  if (const Error error = on_stream(stream, "hipStreamIsCapturing")) return error;
  return *status = 0, Success;
}
API int hipExtStreamGetCUMask(const void* stream, uint32_t words, uint32_t* mask) {
  Guard guard(host().mutex);
  if (const Error error = on_stream(stream, "hipExtStreamGetCUMask")) return error;
  const uint32_t units = uint32_t(current().units);
  if (words * 32 < units) return fail(InvalidValue, "hipExtStreamGetCUMask: room for too few units");
  for (uint32_t w = 0; w < words; ++w)
    mask[w] = units >= (w + 1) * 32 ? ~0u : units > w * 32 ? (1u << (units - w * 32)) - 1 : 0;
  return Success;
}
// Host functions run at once, without the lock: the stream is idle, and they may not call HIP but may wait for others.
API int hipLaunchHostFunc(const void* stream, HostFunction function, void* data) {
  if (Guard guard(host().mutex); const Error error = on_stream(stream, "hipLaunchHostFunc")) return error;
  if (!function) return fail(InvalidValue, "hipLaunchHostFunc: no function");
  return function(data), Success;
}
API int hipStreamAddCallback(void* stream, Callback function, void* data, unsigned) {
  if (Guard guard(host().mutex); const Error error = on_stream(stream, "hipStreamAddCallback")) return error;
  if (!function) return fail(InvalidValue, "hipStreamAddCallback: no function");
  return function(stream, Success, data), Success;
}

API int hipEventCreateWithFlags(Event** out, unsigned flags) {
  Guard guard(host().mutex);
  if (no_device("hipEventCreate")) return NoDevice;
  *out = new Event{{}, flags, false};
  host().events.insert(*out);
  return Success;
}
API int hipEventCreate(Event** out) { return hipEventCreateWithFlags(out, 0); }
API int hipEventDestroy(Event* event) {
  Guard guard(host().mutex);
  if (!host().events.erase(event)) return fail(InvalidHandle, "hipEventDestroy: no such event");
  delete event;
  return Success;
}
API int hipEventRecord(Event* event, const void* stream) {
  Guard guard(host().mutex);
  if (const Error error = with_event(event, "hipEventRecord")) return error;
  if (const Error error = on_stream(stream, "hipEventRecord")) return error;
  event->at = std::chrono::steady_clock::now(), event->recorded = true;
  return Success;
}
API int hipEventRecordWithFlags(Event* event, const void* stream, unsigned) { return hipEventRecord(event, stream); }
API int hipEventSynchronize(Event* event) {
  Guard guard(host().mutex);
  return with_event(event, "hipEventSynchronize");
}
API int hipEventQuery(Event* event) {
  Guard guard(host().mutex);
  return with_event(event, "hipEventQuery");
}
API int hipEventElapsedTime(float* ms, Event* start, Event* stop) {
  Guard guard(host().mutex);
  if (const Error error = with_event(start, "hipEventElapsedTime")) return error;
  if (const Error error = with_event(stop, "hipEventElapsedTime")) return error;
  if (!start->recorded || !stop->recorded || (start->flags | stop->flags) & kDisableTiming)
    return fail(InvalidHandle, "hipEventElapsedTime: an event that was not recorded, or has no timing");
  *ms = std::chrono::duration<float, std::milli>(stop->at - start->at).count();
  return Success;
}
