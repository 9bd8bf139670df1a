// Our CUDA runtime: what torch's CUDA build asks of one, over the arena and host time.
//
// Written from the public CUDA Runtime API reference. Everything is synchronous: a stream is an
// identity, an event is a time. Kernels in machine code are refused by name. Symbols that torch
// links to and that are not here come from the generated stubs, which say "not supported".
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "arena.h"
#include "device_info.h"

namespace {

// cudaError_t, the values that we return.
enum Status : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kMemoryAllocation = 2,
  kInvalidDevice = 101,
  kInvalidResourceHandle = 400,
  kSymbolNotFound = 500,
  kNotReady = 600,
  kPeerAccessUnsupported = 217,
  kNotSupported = 801,
};

thread_local int last_error = kSuccess;
int fail(Status status) {
  last_error = status;
  return status;
}

// cudaDeviceProp of CUDA 13: a public structure, laid out as its reference page lists it.
struct DeviceProp {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_device_node_mask;
  size_t total_global_mem;
  size_t shared_mem_per_block;
  int regs_per_block;
  int warp_size;
  size_t mem_pitch;
  int max_threads_per_block;
  int max_threads_dim[3];
  int max_grid_size[3];
  size_t total_const_mem;
  int major;
  int minor;
  size_t texture_alignment;
  size_t texture_pitch_alignment;
  int multi_processor_count;
  int integrated;
  int can_map_host_memory;
  int textures_and_surfaces[39];
  size_t surface_alignment;
  int concurrent_kernels;
  int ecc_enabled;
  int pci_bus_id;
  int pci_device_id;
  int pci_domain_id;
  int tcc_driver;
  int async_engine_count;
  int unified_addressing;
  int memory_bus_width;
  int l2_cache_size;
  int persisting_l2_cache_max_size;
  int max_threads_per_multi_processor;
  int stream_priorities_supported;
  int global_l1_cache_supported;
  int local_l1_cache_supported;
  size_t shared_mem_per_multiprocessor;
  int regs_per_multiprocessor;
  int managed_memory;
  int is_multi_gpu_board;
  int multi_gpu_board_group_id;
  int host_native_atomic_supported;
  int pageable_memory_access;
  int concurrent_managed_access;
  int compute_preemption_supported;
  int can_use_host_pointer_for_registered_mem;
  int cooperative_launch;
  size_t shared_mem_per_block_optin;
  int pageable_memory_access_uses_host_page_tables;
  int direct_managed_mem_access_from_host;
  int max_blocks_per_multi_processor;
  int access_policy_max_window_size;
  size_t reserved_shared_mem_per_block;
  int host_register_supported;
  int sparse_cuda_array_supported;
  int host_register_read_only_supported;
  int timeline_semaphore_interop_supported;
  int memory_pools_supported;
  int gpu_direct_rdma_supported;
  unsigned gpu_direct_rdma_flush_writes_options;
  int gpu_direct_rdma_writes_ordering;
  unsigned memory_pool_supported_handle_types;
  int deferred_mapping_cuda_array_supported;
  int ipc_event_supported;
  int cluster_launch;
  int unified_function_pointers;
  int device_numa_config;
  int device_numa_id;
  int mps_enabled;
  int host_numa_id;
  unsigned gpu_pci_device_id;
  unsigned gpu_pci_subsystem_id;
  int host_numa_multinode_ipc_supported;
  int reserved[56];
};
static_assert(offsetof(DeviceProp, total_global_mem) == 288);
static_assert(offsetof(DeviceProp, major) == 360);

// cudaPointerAttributes of CUDA 13.
struct PointerAttributes {
  int type;  // 0 unregistered, 1 host, 2 device
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};

struct Dim3 {
  unsigned x, y, z;
};

struct Stream {
  int priority;
};

struct Event {
  std::atomic<int64_t> nanoseconds{-1};
};

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::atomic<void (*)(void)> synchronize_hook{nullptr};
int synchronized() {
  if (auto hook = synchronize_hook.load()) hook();
  return kSuccess;
}

bool in_arena(const void* pointer) {
  mkb_allocation found;
  return reinterpret_cast<uint64_t>(pointer) >= kArenaBase && mkb_arena_find(pointer, &found) == 1;
}

// Pinned host memory, so that its pointers can be told from others.
struct Pinned {
  std::mutex mutex;
  std::unordered_map<const void*, size_t> ranges;
};
Pinned& pinned() {
  static Pinned* all = new Pinned();
  return *all;
}

// Kernels that torch registers when it is loaded: host stub -> device name, for messages alone.
struct Kernels {
  std::mutex mutex;
  std::vector<std::pair<const void*, const char*>> all;
  std::set<std::string> said;
};
Kernels& kernels() {
  static Kernels* all = new Kernels();
  return *all;
}

int refuse_kernel(const void* function) {
  Kernels& known = kernels();
  std::lock_guard<std::mutex> lock(known.mutex);
  const char* name = "(unknown)";
  for (auto& [stub, device_name] : known.all)
    if (stub == function) name = device_name;
  if (known.said.insert(name).second) {
    std::fprintf(stderr, "mkb: torch's CUDA kernel %s has no stand-in on the virtual GPU\n", name);
    if (std::getenv("MKB_TRACE_KERNELS") != nullptr) {
      void* frames[48];
      backtrace_symbols_fd(frames, backtrace(frames, 48), 2);
    }
  }
  return fail(kNotSupported);
}

}  // namespace

extern "C" {

void mkb_on_synchronize(void (*hook)(void)) { synchronize_hook.store(hook); }

// ---- errors ----
int cudaGetLastError(void) {
  int error = last_error;
  last_error = kSuccess;
  return error;
}
int cudaPeekAtLastError(void) { return last_error; }
const char* cudaGetErrorName(int error) {
  switch (error) {
    case kSuccess: return "cudaSuccess";
    case kInvalidValue: return "cudaErrorInvalidValue";
    case kMemoryAllocation: return "cudaErrorMemoryAllocation";
    case kInvalidDevice: return "cudaErrorInvalidDevice";
    case kInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case kSymbolNotFound: return "cudaErrorSymbolNotFound";
    case kNotReady: return "cudaErrorNotReady";
    case kNotSupported: return "cudaErrorNotSupported";
    default: return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(int error) {
  switch (error) {
    case kSuccess: return "no error";
    case kInvalidValue: return "invalid argument";
    case kMemoryAllocation: return "out of memory";
    case kInvalidDevice: return "invalid device ordinal: the virtual GPU is device 0";
    case kInvalidResourceHandle: return "invalid resource handle";
    case kSymbolNotFound: return "named symbol not found";
    case kNotReady: return "device not ready";
    case kNotSupported:
      return "operation not supported on the virtual GPU (no machine code runs there)";
    default: return "unrecognized error code";
  }
}

// ---- device ----
int cudaGetDeviceCount(int* count) {
  *count = 1;
  return kSuccess;
}
int cudaGetDevice(int* device) {
  *device = 0;
  return kSuccess;
}
int cudaSetDevice(int device) { return device == 0 ? kSuccess : fail(kInvalidDevice); }
int cudaDeviceSynchronize(void) { return synchronized(); }
int cudaDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return kSuccess;
}
int cudaDeviceEnablePeerAccess(int, unsigned) { return fail(kPeerAccessUnsupported); }
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kSuccess;
}
int cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (device != 0) return fail(kInvalidDevice);
  std::snprintf(text, static_cast<size_t>(length), "0000:01:00.0");
  return kSuccess;
}

int cudaGetDeviceProperties(DeviceProp* prop, int device) {
  if (device != 0) return fail(kInvalidDevice);
  const mkb::DeviceInfo& info = mkb::device_info();
  std::memset(prop, 0, sizeof *prop);
  std::snprintf(prop->name, sizeof prop->name, "%s", info.name.c_str());
  std::memcpy(prop->uuid, "mkb-virtual-gpu0", 16);
  prop->total_global_mem = static_cast<size_t>(info.total_memory);
  prop->shared_mem_per_block = static_cast<size_t>(info.shared_per_block);
  prop->regs_per_block = static_cast<int>(info.registers_per_block);
  prop->warp_size = static_cast<int>(info.warp_size);
  prop->mem_pitch = 0x7fffffff;
  prop->max_threads_per_block = static_cast<int>(info.threads_per_block);
  prop->max_threads_dim[0] = prop->max_threads_dim[1] = static_cast<int>(info.threads_per_block);
  prop->max_threads_dim[2] = 64;
  prop->max_grid_size[0] = 0x7fffffff;
  prop->max_grid_size[1] = prop->max_grid_size[2] = 65535;
  prop->total_const_mem = 65536;
  prop->major = static_cast<int>(info.major);
  prop->minor = static_cast<int>(info.minor);
  prop->texture_alignment = 512;
  prop->texture_pitch_alignment = 32;
  prop->multi_processor_count = static_cast<int>(info.sm_count);
  prop->can_map_host_memory = 1;
  prop->surface_alignment = 512;
  prop->concurrent_kernels = 1;
  prop->ecc_enabled = 1;
  prop->pci_bus_id = 1;
  prop->async_engine_count = 1;
  prop->unified_addressing = 1;
  prop->memory_bus_width = static_cast<int>(info.memory_bus_bits);
  prop->l2_cache_size = static_cast<int>(info.l2_bytes);
  prop->max_threads_per_multi_processor = static_cast<int>(info.threads_per_sm);
  prop->stream_priorities_supported = 1;
  prop->global_l1_cache_supported = 1;
  prop->local_l1_cache_supported = 1;
  prop->shared_mem_per_multiprocessor = static_cast<size_t>(info.shared_per_sm);
  prop->regs_per_multiprocessor = static_cast<int>(info.registers_per_sm);
  prop->compute_preemption_supported = 1;
  prop->cooperative_launch = 1;
  prop->shared_mem_per_block_optin = static_cast<size_t>(info.shared_per_block_optin);
  prop->max_blocks_per_multi_processor = static_cast<int>(info.blocks_per_sm);
  prop->reserved_shared_mem_per_block = static_cast<size_t>(info.shared_reserved_per_block);
  prop->cluster_launch = info.major >= 9 ? 1 : 0;
  prop->unified_function_pointers = 1;
  prop->device_numa_id = -1;
  prop->host_numa_id = -1;
  return kSuccess;
}

// The numbers are those of `enum cudaDeviceAttr`.
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  if (device != 0) return fail(kInvalidDevice);
  const mkb::DeviceInfo& info = mkb::device_info();
  auto give = [value](int64_t v) {
    *value = static_cast<int>(v);
    return static_cast<int>(kSuccess);
  };
  switch (attribute) {
    case 1: return give(info.threads_per_block);
    case 2: case 3: return give(info.threads_per_block);
    case 4: return give(64);
    case 5: return give(0x7fffffff);
    case 6: case 7: return give(65535);
    case 8: return give(info.shared_per_block);
    case 9: return give(65536);
    case 10: return give(info.warp_size);
    case 11: return give(0x7fffffff);
    case 12: return give(info.registers_per_block);
    case 13: return give(info.clock_khz);
    case 14: return give(512);
    case 15: return give(1);
    case 16: return give(info.sm_count);
    case 19: return give(1);
    case 31: return give(1);
    case 32: return give(1);
    case 33: return give(1);
    case 36: return give(info.memory_clock_khz);
    case 37: return give(info.memory_bus_bits);
    case 38: return give(info.l2_bytes);
    case 39: return give(info.threads_per_sm);
    case 40: return give(1);
    case 41: return give(1);
    case 75: return give(info.major);
    case 76: return give(info.minor);
    case 78: return give(1);
    case 79: case 80: return give(1);
    case 81: return give(info.shared_per_sm);
    case 82: return give(info.registers_per_sm);
    case 90: return give(1);
    case 95: return give(1);
    case 97: return give(info.shared_per_block_optin);
    case 106: return give(info.blocks_per_sm);
    case 111: return give(info.shared_reserved_per_block);
    case 120: return give(info.major >= 9 ? 1 : 0);
    default:
      // Everything else that the enumeration names is a feature that the virtual GPU does not have.
      return attribute > 0 && attribute < 150 ? give(0) : fail(kInvalidValue);
  }
}

int cudaPointerGetAttributes(PointerAttributes* out, const void* pointer) {
  std::memset(out, 0, sizeof *out);
  out->device = -1;
  if (in_arena(pointer)) {
    out->type = 2;
    out->device = 0;
    out->device_pointer = const_cast<void*>(pointer);
    return kSuccess;
  }
  Pinned& all = pinned();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (auto& [base, size] : all.ranges) {
    auto offset = reinterpret_cast<uint64_t>(pointer) - reinterpret_cast<uint64_t>(base);
    if (offset < size) {
      out->type = 1;
      out->device = 0;
      out->device_pointer = out->host_pointer = const_cast<void*>(pointer);
      return kSuccess;
    }
  }
  out->host_pointer = const_cast<void*>(pointer);
  return kSuccess;
}

int cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                     int* result) {
  // There is no driver: nothing of its API is found.
  *function = nullptr;
  if (result != nullptr) *result = 1;
  return kSuccess;
}

// ---- memory ----
int cudaMalloc(void** out, size_t size) {
  *out = mkb_arena_alloc(size, 1);
  return *out != nullptr || size == 0 ? kSuccess : fail(kMemoryAllocation);
}
int cudaFree(void* pointer) {
  return mkb_arena_free(pointer) == 0 ? kSuccess : fail(kInvalidValue);
}
int cudaMallocAsync(void** out, size_t size, Stream*) { return cudaMalloc(out, size); }
int cudaFreeAsync(void* pointer, Stream*) { return cudaFree(pointer); }
int cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  uint64_t total, allocated, peak;
  mkb_arena_usage(&total, &allocated, &peak);
  auto device = static_cast<uint64_t>(mkb::device_info().total_memory);
  *total_bytes = device;
  *free_bytes = std::min(device - std::min(device, allocated), total - allocated);
  return kSuccess;
}
int cudaMemcpy(void* to, const void* from, size_t size, int) {
  std::memmove(to, from, size);
  return kSuccess;
}
int cudaMemcpyAsync(void* to, const void* from, size_t size, int, Stream*) {
  std::memmove(to, from, size);
  return kSuccess;
}
int cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, Stream*) {
  std::memmove(to, from, size);
  return kSuccess;
}
int cudaMemset(void* to, int value, size_t size) {
  std::memset(to, value, size);
  return kSuccess;
}
int cudaMemsetAsync(void* to, int value, size_t size, Stream*) {
  std::memset(to, value, size);
  return kSuccess;
}
int cudaHostAlloc(void** out, size_t size, unsigned) {
  *out = nullptr;
  if (size == 0) return kSuccess;
  if (posix_memalign(out, 4096, size) != 0) return fail(kMemoryAllocation);
  Pinned& all = pinned();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.ranges[*out] = size;
  return kSuccess;
}
int cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return kSuccess;
  {
    Pinned& all = pinned();
    std::lock_guard<std::mutex> lock(all.mutex);
    if (all.ranges.erase(pointer) == 0) return fail(kInvalidValue);
  }
  std::free(pointer);
  return kSuccess;
}
int cudaHostRegister(void* pointer, size_t size, unsigned) {
  Pinned& all = pinned();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.ranges[pointer] = size;
  return kSuccess;
}
int cudaHostUnregister(void* pointer) {
  Pinned& all = pinned();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.ranges.erase(pointer) == 1 ? kSuccess : fail(kInvalidValue);
}

// ---- streams: identities; all work is done when a call returns ----
int cudaStreamCreateWithPriority(Stream** out, unsigned, int priority) {
  *out = new Stream{priority};
  return kSuccess;
}
int cudaStreamCreateWithFlags(Stream** out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
int cudaStreamCreate(Stream** out) { return cudaStreamCreateWithPriority(out, 0, 0); }
int cudaStreamDestroy(Stream* stream) {
  delete stream;
  return kSuccess;
}
int cudaStreamQuery(Stream*) { return kSuccess; }
int cudaStreamSynchronize(Stream*) { return synchronized(); }
int cudaStreamWaitEvent(Stream*, Event*, unsigned) { return kSuccess; }
int cudaStreamGetPriority(Stream* stream, int* priority) {
  // 0, 1 and 2 name the default streams.
  *priority = reinterpret_cast<uintptr_t>(stream) > 2 ? stream->priority : 0;
  return kSuccess;
}
int cudaStreamIsCapturing(Stream*, int* status) {
  *status = 0;
  return kSuccess;
}
int cudaStreamGetCaptureInfo(Stream*, int* status, unsigned long long* id, void**, const void***,
                             const void**, size_t* count) {
  if (status != nullptr) *status = 0;
  if (id != nullptr) *id = 0;
  if (count != nullptr) *count = 0;
  return kSuccess;
}
int cudaThreadExchangeStreamCaptureMode(int*) { return kSuccess; }
int cudaStreamAddCallback(Stream* stream, void (*call)(Stream*, int, void*), void* data, unsigned) {
  call(stream, kSuccess, data);
  return kSuccess;
}
int cudaLaunchHostFunc(Stream*, void (*call)(void*), void* data) {
  call(data);
  return kSuccess;
}

// ---- events: host times ----
int cudaEventCreateWithFlags(Event** out, unsigned) {
  *out = new Event();
  return kSuccess;
}
int cudaEventCreate(Event** out) { return cudaEventCreateWithFlags(out, 0); }
int cudaEventDestroy(Event* event) {
  delete event;
  return kSuccess;
}
int cudaEventRecord(Event* event, Stream*) {
  event->nanoseconds.store(now());
  return kSuccess;
}
int cudaEventRecordWithFlags(Event* event, Stream* stream, unsigned) {
  return cudaEventRecord(event, stream);
}
int cudaEventQuery(Event*) { return kSuccess; }
int cudaEventSynchronize(Event*) { return synchronized(); }
int cudaEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  int64_t from = start->nanoseconds.load(), to = end->nanoseconds.load();
  if (from < 0 || to < 0) return fail(kInvalidResourceHandle);
  *milliseconds = static_cast<float>(static_cast<double>(to - from) * 1e-6);
  return kSuccess;
}

// ---- kernels in machine code: registered by torch's static initializers, never run ----
void** __cudaRegisterFatBinary(void* binary) { return static_cast<void**>(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, void*, void*,
                            void*, void*, int*) {
  kernels().all.emplace_back(stub, name);
}
unsigned __cudaPushCallConfiguration(Dim3, Dim3, size_t, void*) { return 0; }
int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared, void* stream) {
  *grid = *block = Dim3{1, 1, 1};
  *shared = 0;
  *static_cast<void**>(stream) = nullptr;
  return kSuccess;
}
int __cudaGetKernel(const void** kernel, const void* stub) {
  *kernel = stub;
  return kSuccess;
}
int __cudaLaunchKernel(const void* kernel, Dim3, Dim3, void**, size_t, Stream*) {
  return refuse_kernel(kernel);
}
int cudaLaunchKernel(const void* kernel, Dim3, Dim3, void**, size_t, Stream*) {
  return refuse_kernel(kernel);
}
int cudaLaunchKernelExC(const void*, const void* kernel, void**) { return refuse_kernel(kernel); }
int cudaProfilerStart(void) { return kSuccess; }
int cudaProfilerStop(void) { return kSuccess; }
}
