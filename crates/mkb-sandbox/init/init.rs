//! The first process of a sandbox: starts the target, reaps, obeys the driver, and ends everything.
//!
//! A stand-alone program without a runtime, so that nothing of the driver's memory is left in the
//! sandbox. `build.rs` compiles it; the library embeds it. Arguments:
//! `init MODE COMMAND-FD STATUS-FD PROGRAM [ARG...]`, `MODE` being `n` inside namespaces of its
//! own (process 1) or `g` without (it then adopts orphans and ends them itself).
//!
//! It reads one-byte commands (`S` stop all, `C` continue all) from the command pipe; the end of
//! that pipe means that the driver is gone. It writes records of nine bytes to the status pipe:
//! tag, two little-endian i32. Tags: 1 the target runs, 2 the target could not be executed
//! (errno), 3 the target ended (wait status), 4 a command was carried out.
#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym main,
);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(101)
}

/// What the compiler calls to clear an array; there is no C library here to bring it.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller owns `count` bytes at `to`.
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, inout("rcx") count => _, in("al") value as u8);
    }
    to
}

const READ: usize = 0;
const WRITE: usize = 1;
const OPEN: usize = 2;
const CLOSE: usize = 3;
const POLL: usize = 7;
const SIGPROCMASK: usize = 14;
const GETPID: usize = 39;
const FORK: usize = 57;
const EXECVE: usize = 59;
const WAIT4: usize = 61;
const KILL: usize = 62;
const FCNTL: usize = 72;
const SETSID: usize = 112;
const PRCTL: usize = 157;
const EXIT_GROUP: usize = 231;
const SIGNALFD4: usize = 289;
const PIPE2: usize = 293;

const F_SETFD: usize = 2;
const FD_CLOEXEC: usize = 1;
const O_CLOEXEC: usize = 0o2000000;
const SIGKILL: usize = 9;
const SIGPIPE: usize = 13;
const SIGCHLD: usize = 17;
const SIGCONT: usize = 18;
const SIGSTOP: usize = 19;
const PR_SET_DUMPABLE: usize = 4;
const PR_SET_CHILD_SUBREAPER: usize = 36;
const WNOHANG: usize = 1;
const POLLIN: i16 = 1;

/// One system call of up to four arguments.
fn call(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the x86-64 system call convention; every pointer passed by a caller below is to a
    // live object of the size that the call expects.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b,
            in("rdx") c, in("r10") d, lateout("rcx") _, lateout("r11") _);
    }
    result
}

fn exit(code: usize) -> ! {
    loop {
        call(EXIT_GROUP, code, 0, 0, 0);
    }
}

fn report(fd: usize, tag: u8, value: i32) {
    let v = value.to_le_bytes();
    let record = [tag, v[0], v[1], v[2], v[3], 0, 0, 0, 0];
    call(WRITE, fd, record.as_ptr() as usize, record.len(), 0);
}

/// A decimal argument; the library formats it, so anything else ends the process.
unsafe fn number(mut text: *const u8) -> usize {
    let mut value = 0usize;
    // SAFETY: the kernel hands over arguments that end in NUL.
    unsafe {
        while *text != 0 {
            if !(*text).is_ascii_digit() {
                exit(102);
            }
            value = value * 10 + (*text - b'0') as usize;
            text = text.add(1);
        }
    }
    value
}

#[repr(C)]
struct PollFd {
    fd: i32,
    events: i16,
    revents: i16,
}

extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: the stack of a fresh process holds argc, then argv and its null, then envp.
    let (argc, argv) = unsafe { (*stack, stack.add(1)) };
    if argc < 5 {
        exit(103);
    }
    // SAFETY: as above; indices 1 to 3 are below argc.
    let (alone, commands, status) = unsafe {
        (
            **(argv.add(1) as *const *const u8) == b'n',
            number(*argv.add(2) as *const u8),
            number(*argv.add(3) as *const u8),
        )
    };
    // Signals go to every process that may be signalled; only process 1 of a namespace may do so.
    if alone && call(GETPID, 0, 0, 0, 0) != 1 {
        exit(104);
    }
    call(PRCTL, PR_SET_DUMPABLE, 0, 0, 0);
    if !alone {
        call(PRCTL, PR_SET_CHILD_SUBREAPER, 1, 0, 0);
    }
    for fd in [commands, status] {
        call(FCNTL, fd, F_SETFD, FD_CLOEXEC, 0);
    }
    // SIGPIPE comes when there is no driver any more to report to: the command pipe tells that.
    let (chld, both) = (
        1u64 << (SIGCHLD - 1),
        1u64 << (SIGCHLD - 1) | 1u64 << (SIGPIPE - 1),
    );
    let mask = &raw const both as usize;
    call(SIGPROCMASK, 0, mask, 0, 8);
    let signals = call(
        SIGNALFD4,
        usize::MAX,
        &raw const chld as usize,
        8,
        O_CLOEXEC,
    );
    let mut ends = [0i32; 2];
    if signals < 0 || call(PIPE2, ends.as_mut_ptr() as usize, O_CLOEXEC, 0, 0) < 0 {
        exit(105);
    }

    let target = call(FORK, 0, 0, 0, 0);
    if target < 0 {
        report(status, 2, -target as i32);
        exit(0);
    }
    if target == 0 {
        call(SETSID, 0, 0, 0, 0);
        call(SIGPROCMASK, 1, mask, 0, 8);
        // SAFETY: argv has argc entries and a null; the environment follows.
        let (args, env) = unsafe { (argv.add(4), argv.add(argc + 1)) };
        // SAFETY: index 4 is below argc.
        let program = unsafe { *args };
        let error = (-call(EXECVE, program, args as usize, env as usize, 0)) as i32;
        let bytes = error.to_le_bytes();
        call(WRITE, ends[1] as usize, bytes.as_ptr() as usize, 4, 0);
        exit(127);
    }
    call(CLOSE, ends[1] as usize, 0, 0, 0);
    let mut error = [0u8; 4];
    if call(READ, ends[0] as usize, error.as_mut_ptr() as usize, 4, 0) == 4 {
        report(status, 2, i32::from_le_bytes(error));
        exit(0);
    }
    call(CLOSE, ends[0] as usize, 0, 0, 0);
    // The target has its own copies; an open end here would keep its pipes from closing.
    for fd in 0..commands.min(status) {
        call(CLOSE, fd, 0, 0, 0);
    }
    report(status, 1, 0);
    watch(alone, commands, status, signals as usize, target as usize)
}

fn watch(alone: bool, commands: usize, status: usize, signals: usize, target: usize) -> ! {
    let everyone = if alone {
        usize::MAX
    } else {
        target.wrapping_neg()
    };
    loop {
        let mut fds = [
            PollFd {
                fd: commands as i32,
                events: POLLIN,
                revents: 0,
            },
            PollFd {
                fd: signals as i32,
                events: POLLIN,
                revents: 0,
            },
        ];
        call(POLL, fds.as_mut_ptr() as usize, 2, usize::MAX, 0);
        if fds[0].revents != 0 {
            let mut command = 0u8;
            if call(READ, commands, &raw mut command as usize, 1, 0) != 1 {
                finish(alone, everyone);
            }
            let signal = if command == b'S' { SIGSTOP } else { SIGCONT };
            call(KILL, everyone, signal, 0, 0);
            report(status, 4, command as i32);
        }
        if fds[1].revents != 0 {
            let mut info = [0u8; 128];
            call(READ, signals, info.as_mut_ptr() as usize, info.len(), 0);
            loop {
                let mut ended = 0i32;
                let pid = call(WAIT4, usize::MAX, &raw mut ended as usize, WNOHANG, 0);
                if pid <= 0 {
                    break;
                }
                if pid as usize == target {
                    report(status, 3, ended);
                    finish(alone, everyone);
                }
            }
        }
    }
}

/// Ends every process that is left. Process 1 takes its namespace with it; elsewhere the orphans
/// have come to this process, which ends them until none is left.
fn finish(alone: bool, everyone: usize) -> ! {
    if !alone {
        call(KILL, everyone, SIGKILL, 0, 0);
        for _ in 0..100_000 {
            let path = c"/proc/thread-self/children";
            let fd = call(OPEN, path.as_ptr() as usize, O_CLOEXEC, 0, 0);
            if fd < 0 {
                break;
            }
            let mut text = [0u8; 4096];
            let n = call(READ, fd as usize, text.as_mut_ptr() as usize, text.len(), 0);
            call(CLOSE, fd as usize, 0, 0, 0);
            if n <= 0 {
                break;
            }
            let mut pid = 0usize;
            for &byte in text.iter().take(n as usize) {
                if byte.is_ascii_digit() {
                    pid = pid * 10 + (byte - b'0') as usize;
                } else if pid > 1 {
                    call(KILL, pid, SIGKILL, 0, 0);
                    pid = 0;
                }
            }
            call(WAIT4, usize::MAX, 0, 0, 0);
        }
    }
    exit(0)
}
