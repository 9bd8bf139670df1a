//! Global memory: bytes that the host owns, the device addresses that they stand at, and the table of
//! live allocations that every access is checked against.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// How many freed allocations are remembered, for messages.
const REMEMBERED_FREES: usize = 4096;

/// What an address is near to, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbour {
    /// It lies in an allocation that was freed: start and size.
    Freed(u64, u64),
    /// The nearest live allocation begins after it: start, size, bytes between.
    Before(u64, u64, u64),
    /// The nearest live allocation ends before it: start, size, bytes past its end.
    After(u64, u64, u64),
    /// There is no allocation at all.
    Nothing,
}

/// The memory of a device.
#[derive(Debug)]
pub struct GlobalMemory {
    base: u64,
    host: NonNull<u8>,
    bytes: u64,
    owned: Option<Layout>,
    live: BTreeMap<u64, u64>,
    freed: Vec<(u64, u64)>,
    next: u64,
}

// SAFETY: the memory behind `host` is either owned or, by `from_raw`'s contract, usable from any
// thread for as long as this value lives.
unsafe impl Send for GlobalMemory {}

/// Why an allocation was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// It overlaps a live one.
    #[error(
        "allocation of {size} bytes at {address:#x} overlaps the live one of {other_size} bytes at {other:#x}"
    )]
    Overlap {
        /// Requested start.
        address: u64,
        /// Requested bytes.
        size: u64,
        /// Start of the other.
        other: u64,
        /// Its bytes.
        other_size: u64,
    },
    /// It does not lie in the memory.
    #[error("{size} bytes at {address:#x} do not lie in the device's memory")]
    Outside {
        /// Requested start.
        address: u64,
        /// Requested bytes.
        size: u64,
    },
    /// No live allocation begins there.
    #[error("no live allocation begins at {address:#x}")]
    NotAllocated {
        /// The address.
        address: u64,
    },
    /// Out of memory.
    #[error("out of device memory: {size} bytes asked for")]
    Exhausted {
        /// Requested bytes.
        size: u64,
    },
}

impl GlobalMemory {
    /// Device address of the first byte of memories that [`GlobalMemory::new`] makes.
    pub const DEFAULT_BASE: u64 = 0x2000_0000_0000;

    /// Zeroed memory of its own, `bytes` long (rounded up to 4,096).
    ///
    /// # Errors
    /// [`MemoryError::Exhausted`] where the host has not that much.
    pub fn new(bytes: u64) -> Result<Self, MemoryError> {
        let exhausted = MemoryError::Exhausted { size: bytes };
        let rounded = bytes.max(1).checked_next_multiple_of(4096);
        let size = rounded.and_then(|bytes| usize::try_from(bytes).ok());
        let layout = size.and_then(|size| Layout::from_size_align(size, 4096).ok());
        let layout = layout.ok_or(exhausted.clone())?;
        // SAFETY: the layout's size is not zero.
        let host = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(exhausted)?;
        Ok(Self {
            base: Self::DEFAULT_BASE,
            host,
            bytes: layout.size() as u64,
            owned: Some(layout),
            live: BTreeMap::new(),
            freed: Vec::new(),
            next: Self::DEFAULT_BASE,
        })
    }

    /// Memory that someone else owns: `bytes` bytes at `host`, standing at device address `base`.
    ///
    /// # Safety
    /// The bytes must stay mapped, readable and writable for as long as the value lives. No Rust
    /// reference to them may be live while a launch runs; other processes may change them.
    ///
    /// # Panics
    /// Where `base` is no multiple of 4,096, or `base + bytes` overflows.
    pub unsafe fn from_raw(host: NonNull<u8>, bytes: u64, base: u64) -> Self {
        assert!(base.is_multiple_of(4096) && base.checked_add(bytes).is_some());
        Self {
            base,
            host,
            bytes,
            owned: None,
            live: BTreeMap::new(),
            freed: Vec::new(),
            next: base,
        }
    }

    /// Device address of the first byte.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Bytes in all.
    pub const fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether there is no memory at all.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Makes a fresh allocation of `size` bytes (at least one), 512-byte aligned, with a gap of 512
    /// bytes or more before the next; addresses are never used again.
    ///
    /// # Errors
    /// [`MemoryError::Exhausted`].
    pub fn allocate(&mut self, size: u64) -> Result<u64, MemoryError> {
        let size = size.max(1);
        let address = self.next;
        let end = address.checked_add(size);
        let Some(end) = end.filter(|&end| end <= self.base + self.bytes) else {
            return Err(MemoryError::Exhausted { size });
        };
        self.insert(address, size)?;
        self.next = end.next_multiple_of(512) + 512;
        Ok(address)
    }

    /// Records a live allocation that someone else made.
    ///
    /// # Errors
    /// [`MemoryError::Outside`], [`MemoryError::Overlap`].
    pub fn insert(&mut self, address: u64, size: u64) -> Result<(), MemoryError> {
        let end = address.checked_add(size);
        let inside = end.is_some_and(|end| address >= self.base && end <= self.base + self.bytes);
        if !inside || size == 0 {
            return Err(MemoryError::Outside { address, size });
        }
        let before = self.live.range(..address + size).next_back();
        if let Some((&other, &other_size)) = before
            && other + other_size > address
        {
            return Err(MemoryError::Overlap {
                address,
                size,
                other,
                other_size,
            });
        }
        self.live.insert(address, size);
        Ok(())
    }

    /// Ends the allocation that begins at `address`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`].
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let size = self
            .live
            .remove(&address)
            .ok_or(MemoryError::NotAllocated { address })?;
        if self.freed.len() == REMEMBERED_FREES {
            self.freed.drain(..REMEMBERED_FREES / 2);
        }
        self.freed.push((address, size));
        Ok(())
    }

    /// Live allocations, start and size, by address.
    pub fn allocations(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.live.iter().map(|(&address, &size)| (address, size))
    }

    /// The live allocation that `address` lies in: start and size.
    pub fn allocation_at(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, &size) = self.live.range(..=address).next_back()?;
        (address - start < size).then_some((start, size))
    }

    /// What `address` is near to.
    pub fn neighbour(&self, address: u64) -> Neighbour {
        let below = self.live.range(..=address).next_back();
        let above = self.live.range(address..).next();
        let past = below.map(|(&start, &size)| (start, size, address.saturating_sub(start + size)));
        let ahead = above.map(|(&start, &size)| (start, size, start - address));
        let mut freed = self.freed.iter().rev();
        let freed = freed.find(|(start, size)| (*start..start + size).contains(&address));
        // Addresses may be used again: what is live counts.
        let freed = freed.filter(|_| self.allocation_at(address).is_none());
        match (freed, past, ahead) {
            (Some(&(start, size)), ..) => Neighbour::Freed(start, size),
            (None, None, None) => Neighbour::Nothing,
            (None, Some((start, size, gap)), None) => Neighbour::After(start, size, gap),
            (None, None, Some((start, size, gap))) => Neighbour::Before(start, size, gap),
            (None, Some(past), Some(ahead)) => {
                if past.2 <= ahead.2 {
                    Neighbour::After(past.0, past.1, past.2)
                } else {
                    Neighbour::Before(ahead.0, ahead.1, ahead.2)
                }
            }
        }
    }

    /// Host pointer of `size` bytes at a device address; `None` outside the memory.
    pub fn host_pointer(&self, address: u64, size: u64) -> Option<NonNull<u8>> {
        let offset = address.checked_sub(self.base)?;
        let end = offset.checked_add(size)?;
        if end > self.bytes {
            return None;
        }
        // SAFETY: `offset` lies within the memory.
        Some(unsafe { self.host.add(offset as usize) })
    }

    /// Copies `data` to a device address.
    ///
    /// # Panics
    /// Where the bytes do not lie in the memory.
    pub fn write(&mut self, address: u64, data: &[u8]) {
        let to = self
            .host_pointer(address, data.len() as u64)
            .expect("the bytes lie in the memory");
        // SAFETY: checked to lie within; `data` cannot overlap memory that this value owns, and
        // for foreign memory `from_raw` forbids live references.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.as_ptr(), data.len()) }
    }

    /// Copies `size` bytes from a device address.
    ///
    /// # Panics
    /// Where the bytes do not lie in the memory.
    pub fn read(&self, address: u64, size: u64) -> Vec<u8> {
        let from = self
            .host_pointer(address, size)
            .expect("the bytes lie in the memory");
        let mut data = vec![0u8; size as usize];
        // SAFETY: checked to lie within; `data` is fresh.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), data.as_mut_ptr(), data.len()) }
        data
    }
}

impl Drop for GlobalMemory {
    fn drop(&mut self) {
        if let Some(layout) = self.owned {
            // SAFETY: allocated in `new` with this layout.
            unsafe { std::alloc::dealloc(self.host.as_ptr(), layout) }
        }
    }
}
