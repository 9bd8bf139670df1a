//! Which system calls a sandbox refuses: doors to other processes, to the kernel's less-tried
//! corners, and to namespaces inside the sandbox.

use std::collections::BTreeMap;

use libc::{c_long, sock_filter};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::error::{Error, Result};

/// Calls that fail with EPERM for everybody inside.
const REFUSED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_perf_event_open,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Kernel machinery.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
    // System V shared memory is nobody's once its maker is gone, and no limit counts it.
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
];

/// Calls that fail with ENOSYS, so that libraries take their older way: `clone3` hides its flags
/// behind a pointer, where a filter cannot read; `io_uring` does file work past every filter.
const ABSENT: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// New namespaces, by the flags of `clone`.
const CLONE_NEW: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// What the filters refuse beyond what both sandboxes refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// An agent's shell.
    Attempt,
    /// A judged process: no anonymous files either, which no limit would count.
    Submission,
}

/// The filters, in the order in which they must be installed.
pub(crate) fn filters(strictness: Strictness) -> Result<Vec<BpfProgram>> {
    let mut refused: BTreeMap<c_long, Vec<SeccompRule>> =
        REFUSED.iter().map(|&nr| (nr, vec![])).collect();
    if strictness == Strictness::Submission {
        refused.insert(libc::SYS_memfd_create, vec![]);
        refused.insert(libc::SYS_memfd_secret, vec![]);
    }
    refused.insert(libc::SYS_clone, masked_any(0, CLONE_NEW)?);
    // Only these families: vsock, for one, is not bound to a network namespace.
    let other_family = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6]
        .iter()
        .map(|&f| condition(0, SeccompCmpOp::Ne, f as u64))
        .collect::<Result<Vec<_>>>()?;
    let other_family = vec![SeccompRule::new(other_family).map_err(unsupported)?];
    refused.insert(libc::SYS_socket, other_family);
    // Typing into the driver's terminal.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX]
        .iter()
        .map(|&code| {
            SeccompRule::new(vec![condition(1, SeccompCmpOp::Eq, code)?]).map_err(unsupported)
        })
        .collect::<Result<Vec<_>>>()?;
    refused.insert(libc::SYS_ioctl, typing);

    // Limits and priority of another process: one that has the same user may be meant to go on
    // when the caller has ended.
    let other = |argument| -> Result<Vec<SeccompRule>> {
        let condition = condition(argument, SeccompCmpOp::Ne, 0)?;
        Ok(vec![
            SeccompRule::new(vec![condition]).map_err(unsupported)?,
        ])
    };
    refused.insert(libc::SYS_prlimit64, other(0)?);
    for call in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
        refused.insert(call, other(1)?);
    }
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        refused.insert(call, other(0)?);
    }

    let absent = ABSENT.iter().map(|&nr| (nr, vec![])).collect();
    Ok(vec![
        no_x32(),
        compile(absent, libc::ENOSYS as u32)?,
        compile(refused, libc::EPERM as u32)?,
    ])
}

fn compile(rules: BTreeMap<c_long, Vec<SeccompRule>>, errno: u32) -> Result<BpfProgram> {
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        TargetArch::x86_64,
    );
    filter.and_then(BpfProgram::try_from).map_err(unsupported)
}

fn condition(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value).map_err(unsupported)
}

/// One rule for each bit of `mask`: the argument has that bit.
fn masked_any(argument: u8, mask: u64) -> Result<Vec<SeccompRule>> {
    (0..32)
        .map(|bit| 1u64 << bit)
        .filter(|bit| mask & bit != 0)
        .map(|bit| {
            let set = condition(argument, SeccompCmpOp::MaskedEq(bit), bit)?;
            SeccompRule::new(vec![set]).map_err(unsupported)
        })
        .collect()
}

fn unsupported(error: seccompiler::BackendError) -> Error {
    Error::Unsupported(format!("system call filter: {error}"))
}

/// The x32 numbers name the same calls under the same architecture, past a filter that lists the
/// ordinary ones: all of them are absent.
fn no_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let op = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_BIT),
        op(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        ),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    filter
        .iter()
        .map(|f| seccompiler::sock_filter {
            code: f.code,
            jt: f.jt,
            jf: f.jf,
            k: f.k,
        })
        .collect()
}
