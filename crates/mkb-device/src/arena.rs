//! A worker's device memory: a memory file that the driver makes, hands to processes and maps itself.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};

/// Device address of an arena's first byte; the same in every process that maps it for torch.
pub const ARENA_BASE: u64 = 0x2000_0000_0000;

/// Bytes that an arena spans where nothing else is asked; only what is touched takes memory.
pub const ARENA_BYTES: u64 = 64 << 30;

/// An arena, mapped. Its file cannot shrink, so that no process can take the ground from another.
#[derive(Debug)]
pub struct Arena {
    file: File,
    map: MmapRaw,
}

impl Arena {
    /// Makes one of `bytes` bytes, all zero and none of them in memory yet.
    ///
    /// # Errors
    /// Where the system refuses a memory file or the mapping.
    pub fn create(bytes: u64) -> io::Result<Self> {
        let fd = memfd_create("mkb-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, bytes)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::open(fd)
    }

    /// Maps one that another process made.
    ///
    /// # Errors
    /// Where the file is none whose size is sealed, or cannot be mapped.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the arena's file can shrink",
            ));
        }
        let bytes = usize::try_from(fstat(&fd)?.st_size).map_err(io::Error::other)?;
        let file = File::from(fd);
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        Ok(Self { file, map })
    }

    /// The file, to hand to a process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Bytes that it spans.
    pub fn len(&self) -> u64 {
        self.map.len() as u64
    }

    /// Whether it spans nothing.
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// The mapping's first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    fn offset(&self, address: u64, len: usize) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(ARENA_BASE)?).ok()?;
        (offset.checked_add(len)? <= self.map.len()).then_some(offset)
    }

    /// `len` bytes at a device address, or `None` where they do not all lie inside.
    ///
    /// Other processes map the same bytes: the worker must be standing still (it has answered its
    /// last request, and is trusted not to write between requests) while the slice is in use.
    pub fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let offset = self.offset(address, len)?;
        // SAFETY: the range lies in the mapping, which lives as long as `self` and cannot shrink.
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(offset), len) })
    }

    /// Copies `data` to a device address; `None`, and nothing is written, where it does not all lie inside.
    pub fn write(&self, address: u64, data: &[u8]) -> Option<()> {
        let offset = self.offset(address, data.len())?;
        // SAFETY: the range lies in the mapping; `data` is a Rust slice of other memory, or of
        // another arena's mapping.
        unsafe { std::ptr::copy(data.as_ptr(), self.map.as_mut_ptr().add(offset), data.len()) };
        Some(())
    }
}

/// A file in memory that grows as it is written: a tape.
///
/// # Errors
/// Where the system refuses.
pub fn memory_file(name: &str) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_writes_the_other_reads() {
        let ours = Arena::create(1 << 20).unwrap();
        let theirs = Arena::open(ours.fd().try_clone_to_owned().unwrap()).unwrap();
        ours.write(ARENA_BASE + 4096, b"hello").unwrap();
        assert_eq!(theirs.bytes(ARENA_BASE + 4096, 5), Some(&b"hello"[..]));
    }

    #[test]
    fn addresses_outside_are_none_of_its() {
        let arena = Arena::create(4096).unwrap();
        assert!(arena.bytes(ARENA_BASE + 4090, 7).is_none());
        assert!(arena.bytes(ARENA_BASE - 1, 1).is_none());
        assert!(arena.bytes(u64::MAX, 1).is_none());
        assert!(arena.write(ARENA_BASE + 4095, &[1, 2]).is_none());
        assert_eq!(arena.bytes(ARENA_BASE + 4096, 0), Some(&[][..]));
    }

    #[test]
    fn the_file_cannot_shrink_or_grow() {
        let arena = Arena::create(8192).unwrap();
        assert!(ftruncate(arena.fd(), 0).is_err());
        assert!(ftruncate(arena.fd(), 1 << 20).is_err());
    }

    #[test]
    fn a_file_that_can_shrink_is_refused() {
        let file = memory_file("x").unwrap();
        assert!(Arena::open(file.into()).is_err());
    }
}
