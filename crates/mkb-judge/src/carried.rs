//! What a call brings in from the host besides the data of torch's own operations: launch arguments
//! and modules of kernels that change from draw to draw.
//!
//! The inputs lie in memory that the submission's process can read, so it could compute the answer
//! on the host and hand it over in a kernel's arguments, or as constants in its text. What is the
//! same in every draw tells nothing about one; so what differs is counted, and what is new in a
//! module by the bytes that it does not share with the modules before it.

use std::collections::HashSet;

use mkb_device::tape::{Entry, Launch};
use sha2::{Digest, Sha256};

/// Level at which a module's new content is packed; a higher one takes longer and finds little more.
const LEVEL: i32 = 9;
/// The end of the earlier modules, against which a new one is packed, in bytes.
const REMEMBERED: usize = 4 << 20;

/// What one call brought in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes of launch arguments, addresses left out, that differ from the last call's.
    pub argument_bytes: u64,
    /// Bytes of new modules that earlier ones do not have.
    pub module_bytes: u64,
    /// Modules that no earlier call had.
    pub new_modules: u64,
}

/// What one process's calls have brought in so far.
#[derive(Debug, Default)]
pub struct Carrying {
    modules: HashSet<[u8; 32]>,
    texts: Vec<u8>,
    last: Option<Vec<Configuration>>,
}

/// A launch without its addresses.
#[derive(Debug, PartialEq, Eq)]
struct Configuration {
    kernel: String,
    bytes: Vec<u8>,
}

impl Carrying {
    /// What the import brought in: nothing of it can depend on a draw.
    pub fn import(&mut self, entries: &[Entry]) {
        self.new_modules(entries);
    }

    /// What a call brought in, beside the calls before it. The first call's kernels are compiled in
    /// it, and its arguments have nothing to differ from: it counts nothing.
    pub fn call(&mut self, entries: &[Entry]) -> Carried {
        let (new_modules, module_bytes) = self.new_modules(entries);
        let launches: Vec<Configuration> = entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Launch(launch) => Some(configuration(launch)),
                _ => None,
            })
            .collect();
        let Some(last) = self.last.replace(Vec::new()) else {
            self.last = Some(launches);
            return Carried::default();
        };
        let argument_bytes = launches
            .iter()
            .enumerate()
            .map(|(place, launch)| differing(launch, last.get(place)))
            .sum();
        self.last = Some(launches);
        Carried {
            argument_bytes,
            module_bytes,
            new_modules,
        }
    }

    /// How many modules are new, and the bytes of them that are.
    fn new_modules(&mut self, entries: &[Entry]) -> (u64, u64) {
        let (mut count, mut bytes) = (0, 0);
        for entry in entries {
            let Entry::Module { source, .. } = entry else {
                continue;
            };
            if self.modules.insert(Sha256::digest(source).into()) {
                count += 1;
                bytes += new_bytes(source, &self.texts);
                self.texts.extend_from_slice(source);
                let over = self.texts.len().saturating_sub(REMEMBERED);
                self.texts.drain(..over);
            }
        }
        (count, bytes)
    }
}

/// Bytes of `text` once packed with `known` at hand.
fn new_bytes(text: &[u8], known: &[u8]) -> u64 {
    let packed = zstd::bulk::Compressor::with_dictionary(LEVEL, known)
        .and_then(|mut packer| packer.compress(text));
    // Packing in memory does not fail; if it did, all of it would count.
    packed.map_or(text.len() as u64, |packed| packed.len() as u64)
}

fn configuration(launch: &Launch) -> Configuration {
    let mut bytes = Vec::new();
    for size in [launch.grid, launch.block, launch.cluster].concat() {
        bytes.extend(size.to_le_bytes());
    }
    bytes.extend(launch.dynamic_shared_bytes.to_le_bytes());
    for argument in &launch.arguments {
        let start = bytes.len();
        bytes.extend_from_slice(argument.bytes);
        for pointer in &argument.pointers {
            let at = start + pointer.position as usize;
            if let Some(address) = bytes.get_mut(at..at + 8) {
                address.fill(0);
            }
            // An offset into an allocation is chosen by the host as well.
            bytes.extend(pointer.offset.to_le_bytes());
        }
    }
    Configuration {
        kernel: launch.kernel.to_owned(),
        bytes,
    }
}

/// Bytes of a launch that are not those of the launch at the same place in the last call.
fn differing(launch: &Configuration, last: Option<&Configuration>) -> u64 {
    let Some(last) =
        last.filter(|last| last.kernel == launch.kernel && last.bytes.len() == launch.bytes.len())
    else {
        return launch.bytes.len() as u64;
    };
    let pairs = launch.bytes.iter().zip(&last.bytes);
    pairs.filter(|(now, before)| now != before).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use mkb_device::tape::{Argument, Pointer};

    fn launch(kernel: &'static str, bytes: &'static [u8], offset: u64) -> Entry<'static> {
        Entry::Launch(Launch {
            module: 1,
            kernel,
            dsl: "tirx",
            grid: [4, 1, 1],
            block: [128, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared_bytes: 0,
            arguments: vec![Argument {
                bytes,
                pointers: vec![Pointer {
                    position: 0,
                    allocation: 7,
                    offset,
                }],
            }],
        })
    }

    fn module(source: &[u8]) -> Entry<'_> {
        Entry::Module {
            module: 1,
            format: 0,
            source,
        }
    }

    #[test]
    fn arguments_count_where_they_differ_from_the_last_call() {
        let mut carrying = Carrying::default();
        let first = [launch("k", b"........abcd", 0)];
        assert_eq!(carrying.call(&first), Carried::default());
        assert_eq!(carrying.call(&first), Carried::default());
        // The address itself means nothing; two scalars' bytes and an offset's do.
        let other = [launch("k", b"########abXY", 256)];
        assert_eq!(carrying.call(&other).argument_bytes, 3);
    }

    #[test]
    fn another_kernel_or_one_more_launch_counts_whole() {
        let mut carrying = Carrying::default();
        carrying.call(&[launch("k", b"........abcd", 0)]);
        // Eleven sizes of four bytes, the argument's twelve and an offset's eight.
        let whole = 10 * 4 + 12 + 8;
        let other = [launch("other", b"........abcd", 0)];
        assert_eq!(carrying.call(&other).argument_bytes, whole);
        let two = [
            launch("other", b"........abcd", 0),
            launch("k", b"........abcd", 0),
        ];
        assert_eq!(carrying.call(&two).argument_bytes, whole);
    }

    #[test]
    fn a_module_counts_once_and_by_what_is_new_in_it() {
        let text: String = (0..2000)
            .map(|i| format!("add.s32 %r{i}, %r{}, 7\n", i + 1))
            .collect();
        let mut carrying = Carrying::default();
        carrying.import(&[module(text.as_bytes())]);
        carrying.call(&[]);
        assert_eq!(
            carrying.call(&[module(text.as_bytes())]),
            Carried::default()
        );
        let changed = text.replace("add.s32 %r77, %r78, 7", "add.s32 %r77, %r78, 8");
        let carried = carrying.call(&[module(changed.as_bytes())]);
        assert_eq!(carried.new_modules, 1);
        assert!(carried.module_bytes < 200, "{carried:?}");
    }

    #[test]
    fn answers_as_constants_count_in_full() {
        // Numbers that no packing shortens: a multiplicative generator's high halves.
        let answers = |seed: u64| {
            let mut state = seed | 1;
            let mut text = String::from("mov.b32 %a, 0\n");
            for _ in 0..4096 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                text += &format!("mov.b32 %a, {}\n", state >> 32);
            }
            text
        };
        let mut carrying = Carrying::default();
        carrying.call(&[module(answers(1).as_bytes())]);
        let carried = carrying.call(&[module(answers(2).as_bytes())]);
        assert!(carried.module_bytes >= 4096 * 4, "{carried:?}");
    }
}
