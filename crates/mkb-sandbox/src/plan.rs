//! What a sandbox sees, as a list of steps that the child carries out without allocating.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use libc::{c_int, c_ulong};

use crate::error::{Error, Result, at};

/// Where the first process's program stands inside.
pub(crate) const INIT_PATH: &CStr = c"/.mkb-init";

/// Where the machine's own tree stands while the new one is made.
const OLD: &str = "/.old";

/// A file that not everybody may read is copied into the new tree up to this size.
const COPIED_BYTES: u64 = 1 << 20;

/// A folder that every machine has, to stand the new root on.
const BASE: &CStr = c"/tmp";

/// What a sandbox sees beside the system's programs and libraries. Everything else does not exist
/// inside. A file named here can be read inside even if only the driver may read it outside (up to
/// 1 MiB; it is then seen as it was at the start); files within a folder keep their own modes.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Files and folders to see at their own path, unchangeable: a Python environment, a problem.
    pub read_only: Vec<PathBuf>,
    /// Folders and files to see at another path, unchangeable: (outside, inside).
    pub read_only_at: Vec<(PathBuf, PathBuf)>,
    /// Folders to write to: (outside, inside).
    pub writable_at: Vec<(PathBuf, PathBuf)>,
}

/// One step of the set-up, executed in the child.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing mounted from here on reaches the machine.
    Private,
    /// `mount` of a file system of its own.
    Mount {
        kind: &'static CStr,
        target: CString,
        flags: c_ulong,
        options: CString,
    },
    /// A bind mount with all below it, then `attributes` set on all of it.
    Bind {
        source: CString,
        target: CString,
        attributes: u64,
    },
    /// `mkdir`; one that is there is right.
    Folder { path: CString, mode: libc::mode_t },
    /// A file with these bytes, `mode` exactly.
    File {
        path: CString,
        bytes: Vec<u8>,
        mode: libc::mode_t,
    },
    /// A symbolic link.
    Link { to: CString, path: CString },
    /// The new tree becomes the root; the machine's goes to `.old` in it.
    Pivot,
    /// The machine's tree goes away.
    Forget,
    /// Attributes of the root mount alone.
    Seal,
    /// The loopback interface, so that a program may talk to itself.
    Loopback,
    /// The host's name inside.
    HostName,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Private => write!(f, "making mounts private"),
            Step::Mount { kind, target, .. } => {
                write!(
                    f,
                    "mounting {} on {}",
                    kind.to_string_lossy(),
                    target.to_string_lossy()
                )
            }
            Step::Bind { source, target, .. } => {
                let source = source.to_string_lossy();
                let source = source.strip_prefix(OLD).unwrap_or(&source).to_owned();
                write!(f, "showing {source} as {}", target.to_string_lossy())
            }
            Step::Folder { path, .. } => write!(f, "making folder {}", path.to_string_lossy()),
            Step::File { path, .. } => write!(f, "writing {}", path.to_string_lossy()),
            Step::Link { path, .. } => write!(f, "linking {}", path.to_string_lossy()),
            Step::Pivot => write!(f, "changing the root"),
            Step::Forget => write!(f, "leaving the machine's file tree"),
            Step::Seal => write!(f, "making the root read-only"),
            Step::Loopback => write!(f, "bringing the loopback interface up"),
            Step::HostName => write!(f, "naming the host"),
        }
    }
}

/// `MOUNT_ATTR_*` of mount_setattr(2).
pub(crate) const READ_ONLY: u64 = 0x1;
const NO_SUID: u64 = 0x2;
const NO_DEV: u64 = 0x4;

/// What the tree of one sandbox is made from.
pub(crate) struct Tree<'a> {
    /// The caller's part.
    pub view: &'a View,
    /// Bytes of an in-memory `/tmp`; none: the view brings one.
    pub tmp_bytes: Option<u64>,
    /// User and group id as seen inside.
    pub id: u32,
    /// The first process's program.
    pub init: &'static [u8],
}

/// The steps that make `tree`.
pub(crate) fn steps(tree: &Tree<'_>) -> Result<Vec<Step>> {
    let mut b = Builder::default();
    b.steps.push(Step::Private);
    let root_options = "size=32m,nr_inodes=4096,mode=0755";
    b.steps.push(mount(c"tmpfs", BASE.to_owned(), root_options));
    b.steps.push(Step::Pivot);

    b.system()?;
    b.etc(tree.id)?;
    b.folder(Path::new("/proc"))?;
    b.steps.push(Step::Mount {
        kind: c"proc",
        target: c"/proc".to_owned(),
        flags: libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
        options: CString::default(),
    });
    b.devices()?;
    if let Some(bytes) = tree.tmp_bytes {
        b.folder(Path::new("/tmp"))?;
        let options = format!("size={bytes},nr_inodes=65536,mode=1777");
        b.steps.push(mount(c"tmpfs", c"/tmp".to_owned(), &options));
    }
    b.view(tree.view)?;

    let init = Step::File {
        path: INIT_PATH.to_owned(),
        bytes: tree.init.to_vec(),
        mode: 0o111,
    };
    b.steps.extend([
        init,
        Step::Forget,
        Step::Seal,
        Step::Loopback,
        Step::HostName,
    ]);
    Ok(b.steps)
}

fn mount(kind: &'static CStr, target: CString, options: &str) -> Step {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let options = CString::new(options).expect("options are formatted numbers");
    Step::Mount {
        kind,
        target,
        flags,
        options,
    }
}

#[derive(Default)]
struct Builder {
    steps: Vec<Step>,
    folders: BTreeSet<PathBuf>,
    /// Read-only parts of the machine that stand at their own path.
    shown: Vec<PathBuf>,
}

impl Builder {
    /// Programs and libraries.
    fn system(&mut self) -> Result<()> {
        for name in [
            "/usr",
            "/bin",
            "/sbin",
            "/lib",
            "/lib32",
            "/lib64",
            "/libx32",
            "/nix/store",
        ] {
            let path = Path::new(name);
            match fs::read_link(path) {
                Ok(to) => {
                    let (to, path) = (c_path(&to)?, c_path(path)?);
                    self.steps.push(Step::Link { to, path });
                }
                Err(_) if path.is_dir() => self.show(path)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The few files of `/etc` that programs need, and a user of the sandbox's own.
    fn etc(&mut self, id: u32) -> Result<()> {
        self.folder(Path::new("/etc"))?;
        let kept = [
            "ld.so.cache",
            "ld.so.conf",
            "ld.so.conf.d",
            "alternatives",
            "localtime",
        ];
        for name in kept {
            let path = Path::new("/etc").join(name);
            if path.exists() {
                self.bind(&path, &path, READ_ONLY | NO_SUID | NO_DEV)?;
            }
        }
        let own = [
            ("passwd", format!("user:x:{id}:{id}::/tmp:/bin/sh\n")),
            ("group", format!("user:x:{id}:\n")),
            ("hosts", "127.0.0.1 localhost sandbox\n".to_owned()),
            (
                "nsswitch.conf",
                "passwd: files\ngroup: files\nhosts: files\n".to_owned(),
            ),
        ];
        for (name, text) in own {
            let path = c_path(&Path::new("/etc").join(name))?;
            self.steps.push(Step::File {
                path,
                bytes: text.into_bytes(),
                mode: 0o444,
            });
        }
        Ok(())
    }

    fn devices(&mut self) -> Result<()> {
        self.folder(Path::new("/dev"))?;
        for name in ["null", "zero", "full", "random", "urandom"] {
            let path = Path::new("/dev").join(name);
            self.bind(&path, &path, NO_SUID)?;
        }
        for (name, to) in [
            ("fd", ""),
            ("stdin", "/0"),
            ("stdout", "/1"),
            ("stderr", "/2"),
        ] {
            let to = CString::new(format!("/proc/self/fd{to}")).expect("no NUL");
            self.steps.push(Step::Link {
                to,
                path: c_path(&Path::new("/dev").join(name))?,
            });
        }
        self.folder(Path::new("/dev/shm"))?;
        let options = "size=64m,nr_inodes=4096,mode=1777";
        self.steps
            .push(mount(c"tmpfs", c"/dev/shm".to_owned(), options));
        Ok(())
    }

    fn view(&mut self, view: &View) -> Result<()> {
        let mut own: Vec<&PathBuf> = view.read_only.iter().collect();
        own.sort_by_key(|p| p.components().count());
        for path in own {
            let real = path.canonicalize().map_err(at(path))?;
            self.show(&real)?;
            if real != *path && !self.is_shown(path) {
                check_inside(path)?;
                self.bind(&real, path, READ_ONLY | NO_SUID | NO_DEV)?;
            }
        }
        let read_only = view
            .read_only_at
            .iter()
            .map(|p| (p, READ_ONLY | NO_SUID | NO_DEV));
        let writable = view.writable_at.iter().map(|p| (p, NO_SUID | NO_DEV));
        for ((outside, inside), attributes) in read_only.chain(writable) {
            check_inside(inside)?;
            if self.is_shown(inside) {
                let why = "stands inside a read-only part of the sandbox";
                return Err(Error::BadPath {
                    path: inside.clone(),
                    why,
                });
            }
            let real = outside.canonicalize().map_err(at(outside))?;
            self.bind(&real, inside, attributes)?;
        }
        Ok(())
    }

    fn is_shown(&self, path: &Path) -> bool {
        self.shown.iter().any(|s| path.starts_with(s))
    }

    /// Shows `path` at its own place, unless a shown folder holds it already.
    fn show(&mut self, path: &Path) -> Result<()> {
        if self.is_shown(path) {
            return Ok(());
        }
        check_inside(path)?;
        self.bind(path, path, READ_ONLY | NO_SUID | NO_DEV)?;
        self.shown.push(path.to_owned());
        Ok(())
    }

    fn bind(&mut self, source: &Path, target: &Path, attributes: u64) -> Result<()> {
        let meta = fs::metadata(source).map_err(at(source))?;
        if meta.is_dir() {
            self.folder(target)?;
        } else {
            if let Some(parent) = target.parent() {
                self.folder(parent)?;
            }
            // The driver shows the file: whether the sandbox's user could open it decides nothing.
            let private = attributes & READ_ONLY != 0 && meta.is_file() && meta.mode() & 0o4 == 0;
            let copied = private && meta.len() <= COPIED_BYTES;
            let bytes = if copied {
                fs::read(source).map_err(at(source))?
            } else {
                vec![]
            };
            self.steps.push(Step::File {
                path: c_path(target)?,
                bytes,
                mode: 0o444,
            });
            if copied {
                return Ok(());
            }
        }
        let mut old = OLD.as_bytes().to_vec();
        // The way through a link would lead back into the new tree.
        let real = source.canonicalize().map_err(at(source))?;
        old.extend_from_slice(real.as_os_str().as_bytes());
        let source = c_path(Path::new(OsStr::from_bytes(&old)))?;
        self.steps.push(Step::Bind {
            source,
            target: c_path(target)?,
            attributes,
        });
        Ok(())
    }

    fn folder(&mut self, path: &Path) -> Result<()> {
        let mut so_far = PathBuf::new();
        for part in path.components() {
            so_far.push(part);
            if so_far.parent().is_some() && self.folders.insert(so_far.clone()) {
                self.steps.push(Step::Folder {
                    path: c_path(&so_far)?,
                    mode: 0o755,
                });
            }
        }
        Ok(())
    }
}

fn check_inside(path: &Path) -> Result<()> {
    let plain = path.is_absolute()
        && path
            .components()
            .all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
    let own = ["/proc", "/dev", "/etc", OLD];
    let why = if !plain {
        "a path in a sandbox is absolute, without `.` or `..`"
    } else if path.parent().is_none() {
        "the machine's root cannot be shown"
    } else if own.iter().any(|o| path.starts_with(o)) {
        "the sandbox makes this folder itself"
    } else {
        return Ok(());
    };
    Err(Error::BadPath {
        path: path.to_owned(),
        why,
    })
}

fn c_path(path: &Path) -> Result<CString> {
    let why = "a path cannot hold a NUL byte";
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::BadPath {
        path: path.to_owned(),
        why,
    })
}

/// Carries out `step`; the kernel's error number if that fails.
///
/// # Safety
/// Runs in a child after `clone`, before `execve`: it may call only what is safe there, and it
/// changes the calling process's whole file tree.
pub(crate) unsafe fn carry_out(step: &Step) -> std::result::Result<(), c_int> {
    const DETACH: c_int = libc::MNT_DETACH;
    // SAFETY: every pointer is to a NUL-ended string that the plan owns, or null where the call
    // allows it; no call here allocates.
    unsafe {
        match step {
            Step::Private => ok(libc::mount(
                std::ptr::null(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            )),
            Step::Mount {
                kind,
                target,
                flags,
                options,
            } => ok(libc::mount(
                kind.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                *flags,
                options.as_ptr().cast(),
            )),
            Step::Bind {
                source,
                target,
                attributes,
            } => {
                ok(libc::mount(
                    source.as_ptr(),
                    target.as_ptr(),
                    std::ptr::null(),
                    libc::MS_BIND | libc::MS_REC,
                    std::ptr::null(),
                ))?;
                set_attributes(target, *attributes, libc::AT_RECURSIVE)
            }
            Step::Folder { path, mode } => match ok(libc::mkdir(path.as_ptr(), *mode)) {
                Err(libc::EEXIST) => Ok(()),
                other => other,
            },
            Step::File { path, bytes, mode } => {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
                let fd = libc::open(path.as_ptr(), flags, *mode);
                ok(fd)?;
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let n = libc::write(fd, rest.as_ptr().cast(), rest.len());
                    let Ok(n) = usize::try_from(n) else {
                        return Err(errno());
                    };
                    rest = &rest[n.min(rest.len())..];
                }
                ok(libc::fchmod(fd, *mode))?;
                ok(libc::close(fd))
            }
            Step::Link { to, path } => ok(libc::symlink(to.as_ptr(), path.as_ptr())),
            Step::Pivot => {
                ok(libc::chdir(BASE.as_ptr()))?;
                ok(libc::mkdir(c".old".as_ptr(), 0o755))?;
                ok(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".old".as_ptr()) as c_int)?;
                ok(libc::chdir(c"/".as_ptr()))
            }
            Step::Forget => {
                ok(libc::umount2(c"/.old".as_ptr(), DETACH))?;
                ok(libc::rmdir(c"/.old".as_ptr()))
            }
            Step::Seal => set_attributes(c"/", READ_ONLY | NO_SUID | NO_DEV, 0),
            Step::Loopback => loopback(),
            Step::HostName => ok(libc::sethostname(c"sandbox".as_ptr(), 7)),
        }
    }
}

unsafe fn set_attributes(target: &CStr, set: u64, flags: c_int) -> std::result::Result<(), c_int> {
    let attr = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let path = target.as_ptr();
    let size = size_of::<libc::mount_attr>();
    // SAFETY: path is NUL-ended, attr lives and has the size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path,
            flags,
            &raw const attr,
            size,
        )
    };
    ok(result as c_int)
}

unsafe fn loopback() -> std::result::Result<(), c_int> {
    // SAFETY: ifreq is plain data; the name is within its 16 bytes and the union's flags are the
    // member that these two requests use.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        ok(socket)?;
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        let mut result = ok(libc::ioctl(socket, libc::SIOCGIFFLAGS, &raw mut request));
        if result.is_ok() {
            request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
            result = ok(libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw mut request));
        }
        libc::close(socket);
        result
    }
}

/// The C convention for failure: a negative result, the reason in `errno`.
pub(crate) fn ok(result: c_int) -> std::result::Result<(), c_int> {
    if result < 0 { Err(errno()) } else { Ok(()) }
}

pub(crate) fn errno() -> c_int {
    // SAFETY: the location of this thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}
