// Streams, events and graphs of the driver. Work happens when it is queued, unless the stream is capturing.
#include <cstring>

#include "driver.hpp"

namespace ptx {

int quiet(const char* call) {
  for (Stream* stream : driver().streams)
    if (stream->capturing) {
      stream->broken = true;
      return fail(StreamCaptureUnsupported, std::string(call) + ": a stream is capturing");
    }
  return Success;
}

int perform(const Node& node, bool replayed) {
  Driver& d = driver();
  if (node.kind == Node::Run) d.clock += d.kernel_ns + (replayed ? 0 : d.gap_ns);
  if (node.kind == Node::Fill || node.kind == Node::Move) d.clock += 1 + node.bytes / 4096;
  switch (node.kind) {
    case Node::Fill:
      if (node.width == 1) std::memset(node.to, int(node.value), node.bytes);
      else for (size_t at = 0; at < node.bytes; at += node.width) std::memcpy(node.to + at, &node.value, node.width);
      return Success;
    case Node::Move: std::memmove(node.to, node.from, node.bytes); return Success;
    case Node::Mark: node.event->at = d.clock, node.event->recorded = true; return Success;
    case Node::Run: break;
  }
  const LaunchRequest& request = node.launch;
  if (d.recording.on) return record(request, replayed);
  Report report;
  Launch launch;
  launch.kernel = request.function->kernel;
  std::memcpy(launch.grid, request.grid, sizeof launch.grid);
  std::memcpy(launch.block, request.block, sizeof launch.block);
  std::memcpy(launch.cluster, request.cluster, sizeof launch.cluster);
  launch.dynamic_shared = uint32_t(request.shared);
  launch.parameters = request.parameters;
  launch.registers = uint32_t(request.function->registers + 7) / 8 * 8;
  launch.options = d.options;
  launch.options.seed += d.launches++;
  launch.units = uint32_t(d.device->units);
  const uint32_t *b = request.block, *c = request.cluster;
  launch.resident = launch.units * uint32_t(resident_blocks(*request.function, int(b[0] * b[1] * b[2]), request.shared)) / (c[0] * c[1] * c[2]);
  launch.major = d.device->major, launch.minor = d.device->minor;
  launch.report = &report;
  run(launch);
  observe(request, report.take(), launch);
  if (launch.fault.empty()) return Success;
  d.fault = launch.fault, d.failed = LaunchFailed;
  return fail(LaunchFailed, launch.fault);
}

int queue(void* handle, Node node, const char* call) {
  auto* stream = static_cast<Stream*>(handle);
  const bool special = reinterpret_cast<uintptr_t>(handle) <= 2;  // the default streams
  if (!special && !driver().streams.count(stream)) return fail(InvalidHandle, std::string(call) + ": no such stream");
  if (!special && stream->capturing) return stream->captured.push_back(std::move(node)), Success;
  return perform(node, false);
}

namespace {

int stream_create(void** out, unsigned) {
  REQUIRE_CONTEXT("cuStreamCreate");
  auto* stream = new Stream;
  driver().streams.insert(stream);
  return *out = stream, Success;
}
int stream_destroy(void* handle) {
  REQUIRE_CONTEXT("cuStreamDestroy");
  auto* stream = static_cast<Stream*>(handle);
  if (!driver().streams.erase(stream)) return fail(InvalidHandle, "cuStreamDestroy: no such stream");
  delete stream;
  return Success;
}
int stream_wait(void* handle) {
  REQUIRE_CONTEXT("cuStreamSynchronize");
  if (reinterpret_cast<uintptr_t>(handle) > 2 && !driver().streams.count(static_cast<Stream*>(handle)))
    return fail(InvalidHandle, "cuStreamSynchronize: no such stream");
  if (const int error = quiet("cuStreamSynchronize"); error) return error;
  return settle();
}
int stream_query(void* handle) { return stream_wait(handle); }
int stream_wait_event(void*, void*, unsigned) {
  REQUIRE_CONTEXT("cuStreamWaitEvent");
  return Success;
}

int event_create(void** out, unsigned) {
  REQUIRE_CONTEXT("cuEventCreate");
  auto* event = new Event;
  driver().events.insert(event);
  return *out = event, Success;
}
int event_destroy(void* handle) {
  REQUIRE_CONTEXT("cuEventDestroy");
  auto* event = static_cast<Event*>(handle);
  if (!driver().events.erase(event)) return fail(InvalidHandle, "cuEventDestroy: no such event");
  delete event;
  return Success;
}
int mark(void* handle, void* stream, bool external, const char* call) {
  auto* event = static_cast<Event*>(handle);
  if (!driver().events.count(event)) return fail(InvalidHandle, std::string(call) + ": no such event");
  auto* on = static_cast<Stream*>(stream);
  if (driver().streams.count(on) && on->capturing && !external) return Success;  // a dependency, not a time stamp
  Node node{};
  node.kind = Node::Mark, node.event = event;
  return queue(stream, std::move(node), call);
}
int event_record(void* event, void* stream) {
  REQUIRE_CONTEXT("cuEventRecord");
  return mark(event, stream, false, "cuEventRecord");
}
int event_record_flags(void* event, void* stream, unsigned flags) {
  REQUIRE_CONTEXT("cuEventRecordWithFlags");
  return mark(event, stream, flags & 1, "cuEventRecordWithFlags");
}
int event_wait(void* handle) {
  REQUIRE_CONTEXT("cuEventSynchronize");
  return driver().events.count(static_cast<Event*>(handle)) ? settle() : fail(InvalidHandle, "cuEventSynchronize: no such event");
}
int event_elapsed(float* out, void* start, void* stop) {
  REQUIRE_CONTEXT("cuEventElapsedTime");
  auto *a = static_cast<Event*>(start), *b = static_cast<Event*>(stop);
  if (!driver().events.count(a) || !driver().events.count(b) || !a->recorded || !b->recorded)
    return fail(InvalidHandle, "cuEventElapsedTime: an event that was not recorded");
  if (const int error = settle(); error) return error;
  *out = float(double(b->at) - double(a->at)) / 1e6f;
  return Success;
}

int capture_begin(void* handle, int) {
  REQUIRE_CONTEXT("cuStreamBeginCapture");
  auto* stream = static_cast<Stream*>(handle);
  if (!driver().streams.count(stream)) return fail(StreamCaptureUnsupported, "cuStreamBeginCapture: the default stream");
  if (stream->capturing) return fail(InvalidValue, "cuStreamBeginCapture: it is capturing");
  stream->capturing = true, stream->broken = false;
  stream->captured.clear();
  return Success;
}
int capture_end(void* handle, void** out) {
  REQUIRE_CONTEXT("cuStreamEndCapture");
  auto* stream = static_cast<Stream*>(handle);
  *out = nullptr;
  if (!driver().streams.count(stream) || !stream->capturing) return fail(InvalidValue, "cuStreamEndCapture: not capturing");
  stream->capturing = false;
  if (stream->broken) return fail(StreamCaptureInvalidated, "cuStreamEndCapture: the capture was broken");
  auto* graph = new Graph{std::move(stream->captured)};
  driver().graphs.insert(graph);
  return *out = graph, Success;
}
int graph_instantiate(void** out, void* handle, unsigned long long) {
  REQUIRE_CONTEXT("cuGraphInstantiateWithFlags");
  auto* graph = static_cast<Graph*>(handle);
  if (!driver().graphs.count(graph)) return fail(InvalidValue, "cuGraphInstantiateWithFlags: no such graph");
  auto* exec = new Graph{graph->nodes};
  driver().execs.insert(exec);
  return *out = exec, Success;
}
int graph_launch(void* handle, void* stream) {
  REQUIRE_CONTEXT("cuGraphLaunch");
  auto* exec = static_cast<Graph*>(handle);
  if (!driver().execs.count(exec)) return fail(InvalidValue, "cuGraphLaunch: no such graph");
  if (!driver().streams.count(static_cast<Stream*>(stream))) return fail(InvalidHandle, "cuGraphLaunch: no such stream");
  ++driver().recording.graph_launches;
  driver().clock += driver().gap_ns;
  for (const Node& node : exec->nodes)
    if (const int error = perform(node, true); error) return error;
  return Success;
}
int graph_destroy(void* handle) {
  REQUIRE_CONTEXT("cuGraphDestroy");
  auto* graph = static_cast<Graph*>(handle);
  if (!driver().graphs.erase(graph)) return fail(InvalidValue, "cuGraphDestroy: no such graph");
  delete graph;
  return Success;
}
int exec_destroy(void* handle) {
  REQUIRE_CONTEXT("cuGraphExecDestroy");
  auto* exec = static_cast<Graph*>(handle);
  if (!driver().execs.erase(exec)) return fail(InvalidValue, "cuGraphExecDestroy: no such graph");
  delete exec;
  return Success;
}

const Entry streams_rows[] = {
    ENTRY("cuStreamCreate", stream_create),
    ENTRY("cuStreamDestroy", stream_destroy),
    ENTRY("cuStreamSynchronize", stream_wait),
    ENTRY("cuStreamQuery", stream_query),
    ENTRY("cuStreamWaitEvent", stream_wait_event),
    ENTRY("cuEventCreate", event_create),
    ENTRY("cuEventDestroy", event_destroy),
    ENTRY("cuEventRecord", event_record),
    ENTRY("cuEventRecordWithFlags", event_record_flags),
    ENTRY("cuEventSynchronize", event_wait),
    ENTRY("cuEventElapsedTime", event_elapsed),
    ENTRY("cuStreamBeginCapture", capture_begin),
    ENTRY("cuStreamEndCapture", capture_end),
    ENTRY("cuGraphInstantiateWithFlags", graph_instantiate),
    ENTRY("cuGraphLaunch", graph_launch),
    ENTRY("cuGraphDestroy", graph_destroy),
    ENTRY("cuGraphExecDestroy", exec_destroy),
};

}  // namespace

extern const Entries kStreamEntries{streams_rows, std::size(streams_rows)};

}  // namespace ptx
