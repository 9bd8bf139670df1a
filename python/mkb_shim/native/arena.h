// The arena: the one owner of device memory in this process, at a fixed address in shared memory.
//
// C interface, exported by our libcudart, so that the torch extension and Python (ctypes) share it.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

// Start of the arena in every worker: a device address is a virtual address at or above this.
inline constexpr uint64_t kArenaBase = 0x200000000000ull;

// One live allocation. `serial` counts allocations from 1 and is never used again.
struct mkb_allocation {
  uint64_t serial;
  uint64_t address;
  uint64_t size;
};

// Allocates `size` bytes, 512-byte aligned, at least 512 bytes from every other allocation.
// `poison` fills them with 0xFF; without it the bytes are whatever free memory holds (poison or
// zero, or what a large block held before). Null when the arena is full. A size of 0 gives null.
void* mkb_arena_alloc(size_t size, int poison);

// Frees an allocation by its address and poisons it; 0 if it was one, -1 if not (null is fine).
int mkb_arena_free(void* address);

// The same without poisoning: for scratch memory that nothing outside one operation ever saw.
int mkb_arena_free_scratch(void* address);

// Finds the live allocation that holds `address`; 1 if there is one, 0 if not. `found` may be null.
int mkb_arena_find(const void* address, mkb_allocation* found);

// Total size of the arena, bytes now allocated, and the most that ever were.
void mkb_arena_usage(uint64_t* total, uint64_t* allocated, uint64_t* peak);

// Gives the memory of large free blocks back to the system where they hold more than 768 MiB.
void mkb_arena_trim(void);

// Whether new and freed memory is poisoned where it is asked for (1 at first): 0 while a driver is to
// fill it, and for trusted work that another run of the same code has checked.
void mkb_arena_poison_new(int yes);

// The file descriptor that backs the arena (our own memfd where none was given).
int mkb_arena_fd(void);

// Called with the serial of each allocation after it was freed.
void mkb_arena_on_free(void (*hook)(uint64_t serial));

// Called at each device, stream or event synchronization of the program.
void mkb_on_synchronize(void (*hook)(void));

// What changed since the last drain, as (kind: 0 alloc, 1 free; address; size): first the frees,
// then the allocations that still live. An allocation that came and went in between is left out.
void mkb_arena_drain(void (*visit)(void* context, int kind, uint64_t address, uint64_t size),
                     void* context);
}
