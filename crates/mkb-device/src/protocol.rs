//! Frames between a worker and its virtual GPU: `u32 length of the rest, u8 kind, body`, little-endian.

use std::io::{self, Read, Write};

/// The longest frame that is read; a module's text is the largest thing that is sent.
pub const MAX_FRAME: u32 = 256 << 20;

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Compile a module.
    Module {
        /// How it is written.
        format: ModuleFormat,
        /// Its bytes.
        source: Vec<u8>,
    },
    /// Run a kernel.
    Launch(Launch),
}

/// How a module is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleFormat {
    /// The device IR's text form.
    Text,
    /// TVM's lowered device module, as JSON.
    Tirx,
}

/// Device memory that a worker has taken or given back since its last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryEvent {
    /// An allocation begins.
    Alloc {
        /// Device address.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// It ends.
    Free {
        /// Device address.
        address: u64,
    },
}

/// One launch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Launch {
    /// Memory events that come before it.
    pub events: Vec<MemoryEvent>,
    /// The module's handle.
    pub module: u64,
    /// The kernel's name.
    pub kernel: String,
    /// CTAs along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y, z.
    pub block: [u32; 3],
    /// CTAs of a cluster along x, y, z.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a CTA.
    pub dynamic_shared: u32,
    /// Each parameter's bytes.
    pub arguments: Vec<Vec<u8>>,
}

/// What the virtual GPU answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A module's handle, and its kernels with their parameters' sizes.
    Module {
        /// Names it in launches.
        handle: u64,
        /// Kernels.
        kernels: Vec<(String, Vec<u8>)>,
    },
    /// A launch has run; what it printed.
    Launched {
        /// Text of the kernel's `printf`.
        printed: String,
    },
    /// It failed.
    Failed {
        /// Which kind.
        class: FailureClass,
        /// Why, for a person.
        message: String,
    },
}

/// Kinds of failure, numbered as they stand in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureClass {
    /// The kernel did something wrong.
    Fault = 1,
    /// The kernel needs what is not modelled.
    Incomplete = 2,
    /// The request is wrong.
    Bad = 3,
}

/// A frame that is none.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not as the protocol says.
    #[error("bad frame: {0}")]
    Bad(&'static str),
}

const MODULE: u8 = 1;
const LAUNCH: u8 = 2;
const MODULE_REPLY: u8 = 129;
const LAUNCH_REPLY: u8 = 130;
const FAILURE: u8 = 255;

/// Reads one request; `None` at a clean end of the stream.
///
/// # Errors
/// Where the stream fails or holds something that is no request.
pub fn read_request(stream: &mut impl Read) -> Result<Option<Request>, FrameError> {
    let Some(frame) = read_frame(stream)? else {
        return Ok(None);
    };
    let (&kind, body) = frame.split_first().ok_or(FrameError::Bad("it is empty"))?;
    let mut fields = Fields(body);
    let request = match kind {
        MODULE => Request::Module {
            format: match fields.u8()? {
                0 => ModuleFormat::Text,
                1 => ModuleFormat::Tirx,
                _ => return Err(FrameError::Bad("unknown module format")),
            },
            source: fields.long_bytes()?.to_vec(),
        },
        LAUNCH => Request::Launch(launch(&mut fields)?),
        _ => return Err(FrameError::Bad("unknown kind")),
    };
    if !fields.0.is_empty() {
        return Err(FrameError::Bad("bytes are left over"));
    }
    Ok(Some(request))
}

fn launch(fields: &mut Fields) -> Result<Launch, FrameError> {
    let mut launch = Launch::default();
    for _ in 0..fields.u32()? {
        let (kind, address, size) = (fields.u8()?, fields.u64()?, fields.u64()?);
        launch.events.push(match kind {
            0 => MemoryEvent::Alloc { address, size },
            1 => MemoryEvent::Free { address },
            _ => return Err(FrameError::Bad("unknown memory event")),
        });
    }
    launch.module = fields.u64()?;
    launch.kernel = fields.text()?;
    launch.grid = fields.triple()?;
    launch.block = fields.triple()?;
    launch.cluster = fields.triple()?;
    launch.dynamic_shared = fields.u32()?;
    for _ in 0..fields.u32()? {
        let size = usize::from(fields.u8()?);
        launch.arguments.push(fields.take(size)?.to_vec());
    }
    Ok(launch)
}

/// Writes one reply.
///
/// # Errors
/// Where the stream fails.
pub fn write_reply(stream: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let mut body = Vec::new();
    let text = |body: &mut Vec<u8>, text: &str| {
        body.extend((text.len() as u32).to_le_bytes());
        body.extend(text.as_bytes());
    };
    match reply {
        Reply::Module { handle, kernels } => {
            body.push(MODULE_REPLY);
            body.extend(handle.to_le_bytes());
            body.extend((kernels.len() as u32).to_le_bytes());
            for (name, sizes) in kernels {
                text(&mut body, name);
                body.extend((sizes.len() as u32).to_le_bytes());
                body.extend(sizes);
            }
        }
        Reply::Launched { printed } => {
            body.push(LAUNCH_REPLY);
            text(&mut body, printed);
        }
        Reply::Failed { class, message } => {
            body.push(FAILURE);
            body.push(*class as u8);
            text(&mut body, message);
        }
    }
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend(body);
    stream.write_all(&frame)
}

fn read_frame(stream: &mut impl Read) -> Result<Option<Vec<u8>>, FrameError> {
    let mut length = [0u8; 4];
    let mut filled = 0;
    while filled < 4 {
        match stream.read(&mut length[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(FrameError::Bad("it ends within its length")),
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    let length = u32::from_le_bytes(length);
    if length > MAX_FRAME {
        return Err(FrameError::Bad("it is longer than 256 MiB"));
    }
    // Grows as bytes arrive, so that a length alone takes no memory.
    let mut frame = Vec::new();
    let read = stream.take(u64::from(length)).read_to_end(&mut frame)?;
    if read < length as usize {
        return Err(FrameError::Bad("it ends before its length"));
    }
    Ok(Some(frame))
}

/// The rest of a frame.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], FrameError> {
        let (taken, rest) = self
            .0
            .split_at_checked(size)
            .ok_or(FrameError::Bad("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(FrameError::Bad("it is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, FrameError> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn triple(&mut self) -> Result<[u32; 3], FrameError> {
        Ok([self.u32()?, self.u32()?, self.u32()?])
    }

    fn long_bytes(&mut self) -> Result<&'a [u8], FrameError> {
        let size = self.u32()? as usize;
        self.take(size)
    }

    fn text(&mut self) -> Result<String, FrameError> {
        let bytes = self.long_bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| FrameError::Bad("a name is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend(body);
        frame
    }

    #[test]
    fn a_launch_reads_back_as_it_was_written() {
        let mut body = vec![LAUNCH];
        body.extend(2u32.to_le_bytes());
        body.push(0);
        body.extend(0x2000_0000_0000u64.to_le_bytes());
        body.extend(64u64.to_le_bytes());
        body.push(1);
        body.extend(0x2000_0000_1000u64.to_le_bytes());
        body.extend(0u64.to_le_bytes());
        body.extend(7u64.to_le_bytes());
        body.extend(1u32.to_le_bytes());
        body.push(b'k');
        for n in [1u32, 2, 3, 32, 1, 1, 1, 1, 1, 1024] {
            body.extend(n.to_le_bytes());
        }
        body.extend(1u32.to_le_bytes());
        body.extend([4, 1, 2, 3, 4]);
        let request = read_request(&mut framed(&body).as_slice())
            .unwrap()
            .unwrap();
        let Request::Launch(launch) = request else {
            panic!("{request:?}")
        };
        assert_eq!(
            launch,
            Launch {
                events: vec![
                    MemoryEvent::Alloc {
                        address: 0x2000_0000_0000,
                        size: 64
                    },
                    MemoryEvent::Free {
                        address: 0x2000_0000_1000
                    }
                ],
                module: 7,
                kernel: "k".to_owned(),
                grid: [1, 2, 3],
                block: [32, 1, 1],
                cluster: [1, 1, 1],
                dynamic_shared: 1024,
                arguments: vec![vec![1, 2, 3, 4]],
            }
        );
    }

    #[test]
    fn the_end_of_the_stream_is_no_error_between_frames_and_one_within() {
        assert!(read_request(&mut [].as_slice()).unwrap().is_none());
        assert!(read_request(&mut [1u8, 0].as_slice()).is_err());
        assert!(read_request(&mut [9u8, 0, 0, 0, 1].as_slice()).is_err());
        assert!(read_request(&mut u32::MAX.to_le_bytes().as_slice()).is_err());
    }

    proptest! {
        #[test]
        fn hostile_frames_give_an_error_and_no_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_request(&mut framed(&body).as_slice());
        }
    }
}
