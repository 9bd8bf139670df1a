//! Programs that try to get out of a sandbox, to stay on after it, or to take the machine with it.
//!
//! Everything here runs as whoever runs the tests; where that is root, once more as an ordinary
//! user (`everything_holds_for_an_ordinary_user_too`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mkb_sandbox::{
    AttemptSandbox, AttemptSpec, Isolation, Limits, Outcome, SharedMemory, Stream, Submission,
    sweep,
};

const AS_USER: &str = "MKB_SANDBOX_TESTS_AS_USER";
const DRIVER: &str = "MKB_SANDBOX_TEST_DRIVER";

const MIB: u64 = 1 << 20;

fn submission(argv: &[&str]) -> Submission {
    let mut s = Submission::new(argv.iter().copied());
    s.stdout = Stream::Tail(1 << 16);
    s.stderr = Stream::Tail(1 << 16);
    s.time = Some(Duration::from_secs(60));
    s
}

/// A submission of a Python program.
fn snake(script: &str) -> Submission {
    let common = ["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from);
    let path = std::env::var("PATH").unwrap_or_default();
    let on_path = path
        .split(':')
        .map(|folder| Path::new(folder).join("python3"));
    let mut all = common.into_iter().chain(on_path);
    let python = all
        .find(|p| p.exists())
        .expect("these tests need a python3");
    let mut s = submission(&[python.to_str().unwrap(), "-uc", script]);
    s.view.show_python(&python).unwrap();
    s
}

/// How `argv` ended in a submission's sandbox, and all that it printed.
fn judged(argv: &[&str]) -> (Outcome, String) {
    ended(submission(argv))
}

fn ended(submission: Submission) -> (Outcome, String) {
    let p = submission.spawn().unwrap();
    let outcome = p.wait();
    let mut text = String::from_utf8_lossy(&p.stdout_tail()).into_owned();
    text.push_str(&String::from_utf8_lossy(&p.stderr_tail()));
    (outcome, text)
}

fn python(script: &str) -> (Outcome, String) {
    ended(snake(script))
}

struct Attempt {
    sandbox: AttemptSandbox,
    // Removed after the sandbox, as fields are dropped in order.
    _folder: tempfile::TempDir,
}

fn attempt(isolation: Isolation, limits: Limits) -> Attempt {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = AttemptSandbox::create(AttemptSpec {
        state: folder.path().join("state"),
        isolation,
        limits,
        tests: vec![("test.sh".into(), b"echo the test script\n".to_vec())],
        docs: vec![("a/b.md".into(), b"the docs".to_vec())],
        read_only: vec![],
        env: vec![],
    })
    .unwrap();
    Attempt {
        sandbox,
        _folder: folder,
    }
}

fn exists(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // What has ended and waits for its parent to notice is gone for our purposes.
    !stat[stat.rfind(')').unwrap()..].starts_with(") Z")
}

/// Numbers of the processes whose command line holds `mark`.
fn marked(mark: &str) -> Vec<i32> {
    let own = std::process::id() as i32;
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|&pid| pid != own && exists(pid))
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(mark)
        })
        .collect()
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if holds() {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}

fn is_root() -> bool {
    // SAFETY: has no precondition.
    unsafe { libc::geteuid() == 0 }
}

// ---- what it can see ----

#[test]
fn the_machines_network_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (outcome, text) = python(&format!(
        "import socket\n\
         for to in (('127.0.0.1', {port}), ('8.8.8.8', 53)):\n\
         \x20   s = socket.socket(); s.settimeout(3)\n\
         \x20   try:\n\
         \x20       s.connect(to); print('REACHED', to)\n\
         \x20   except OSError as e: print('refused', e)\n\
         print(open('/proc/net/dev').read())"
    ));
    assert_eq!(outcome, Outcome::Exited(0), "{text}");
    assert!(!text.contains("REACHED"), "{text}");
    let devices: Vec<_> = text
        .lines()
        .filter_map(|l| l.split_once(": "))
        .map(|d| d.0)
        .collect();
    assert_eq!(devices.len(), 1, "{text}");
    assert_eq!(devices[0].trim(), "lo");
}

#[test]
fn abstract_sockets_and_vsock_do_not_lead_out() {
    let name = format!("mkb-test-{}", std::process::id());
    let address = {
        use std::os::linux::net::SocketAddrExt;
        std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap()
    };
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let (outcome, text) = python(&format!(
        "import socket\n\
         try:\n\
         \x20   s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}'); print('REACHED')\n\
         except OSError as e: print('refused', e)\n\
         for family in (40, socket.AF_NETLINK, socket.AF_PACKET):\n\
         \x20   try: socket.socket(family, socket.SOCK_DGRAM); print('REACHED', family)\n\
         \x20   except OSError as e: print('refused', e)"
    ));
    assert_eq!(outcome, Outcome::Exited(0), "{text}");
    assert!(!text.contains("REACHED"), "{text}");
}

#[test]
fn secrets_homes_and_stores_are_not_there() {
    let store = tempfile::tempdir().unwrap();
    fs::write(store.path().join("record.json"), "{}").unwrap();
    let home = std::env::var("HOME").unwrap_or("/root".to_owned());
    let script = format!(
        "for p in /etc/shadow /etc/hostname {home} /home /root /var /mnt /sys {} /.old \
         /proc/1/mem /proc/1/environ /dev/sda /dev/vda /dev/mem /dev/kvm; do \
         if cat $p >/dev/null 2>&1 || ls $p >/dev/null 2>&1 && test ! -c $p -a ! -f $p; \
         then echo SEEN $p; fi; done; \
         test -e /home -o -e /root -o -e /var -o -e /sys && echo SEEN; exit 0",
        store.path().display()
    );
    let (outcome, text) = judged(&["/bin/sh", "-c", &script]);
    assert_eq!((outcome, text), (Outcome::Exited(0), String::new()));
}

#[test]
fn other_processes_are_not_there() {
    let own = std::process::id();
    let (outcome, text) = judged(&[
        "/bin/sh",
        "-c",
        &format!(
            "ls -d /proc/[0-9]* | wc -l; kill -0 {own} && echo REACHED; \
             test -e /proc/{own}/mem && echo SEEN; kill -9 -1; kill -9 1; echo alive; exit 0"
        ),
    ]);
    // The shell ends itself with `kill -9 -1`, or not, as the kernel spares the caller.
    assert!(
        matches!(outcome, Outcome::Exited(0) | Outcome::Signaled(9)),
        "{outcome:?} {text}"
    );
    assert!(
        !text.contains("REACHED") && !text.contains("SEEN"),
        "{text}"
    );
    let count: u32 = text.lines().next().unwrap().trim().parse().unwrap();
    assert!(count <= 6, "{text}");
}

#[test]
fn the_drivers_memory_and_the_first_process_are_out_of_reach() {
    let (outcome, text) = python(
        "import os\n\
         parent = os.getppid()\n\
         for pid in (1, parent):\n\
         \x20   for name in ('mem', 'maps', 'environ', 'fd', 'root', 'cwd', 'exe'):\n\
         \x20       p = f'/proc/{pid}/{name}'\n\
         \x20       try:\n\
         \x20           if name in ('fd',): os.listdir(p)\n\
         \x20           elif name in ('root', 'cwd', 'exe'): os.readlink(p)\n\
         \x20           else: open(p, 'r+b' if name == 'mem' else 'rb').read(1)\n\
         \x20           print('REACHED', p)\n\
         \x20       except OSError as e: print('refused', p, e)\n\
         print(parent)",
    );
    assert_eq!(outcome, Outcome::Exited(0), "{text}");
    assert!(!text.contains("REACHED"), "{text}");
}

#[test]
fn only_the_descriptors_given_are_open() {
    let (secret, _keep) = rustix::pipe::pipe().unwrap();
    let given = rustix::fs::memfd_create("given", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&given, b"from the driver").unwrap();
    let mut s = submission(&[
        "/bin/sh",
        "-c",
        "ls /proc/self/fd | wc -l; ls -l /proc/$$/fd; \
         cat /proc/self/fd/3",
    ]);
    assert_eq!(s.pass(given), 3);
    let p = s.spawn().unwrap();
    assert_eq!(p.wait(), Outcome::Exited(0));
    let text = String::from_utf8_lossy(&p.stdout_tail()).into_owned();
    assert!(
        text.starts_with("5\n"),
        "stdin, stdout, stderr, ours, and ls's own: {text}"
    );
    assert!(
        text.contains("memfd:given") && text.ends_with("from the driver"),
        "{text}"
    );
    drop(secret);
}

// ---- what it can change ----

#[test]
fn nothing_but_its_own_tmp_can_be_written() {
    let (outcome, text) = judged(&[
        "/bin/sh",
        "-c",
        "for d in / /usr /usr/bin /etc /dev /proc /proc/sys/kernel/core_pattern /usr/lib; do \
         (echo x > $d/mkb-test) 2>/dev/null && echo WROTE $d; done; \
         (echo x > /proc/sys/kernel/core_pattern) 2>/dev/null && echo WROTE; \
         (echo b > /proc/sysrq-trigger) 2>/dev/null && echo WROTE; \
         echo fine > /tmp/x && cat /tmp/x; echo x > /dev/null && exit 0",
    ]);
    assert_eq!((outcome, text), (Outcome::Exited(0), "fine\n".to_owned()));
    assert!(!Path::new("/tmp/x-of-mkb").exists());
}

#[test]
fn mounts_namespaces_and_kernel_doors_are_shut() {
    let (outcome, text) = python(
        "import ctypes, os\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         calls = {'ptrace': (101, 0), 'mount': (165,), 'umount2': (166,), 'unshare': (272, \
         0x10000000), 'setns': (308, 0), 'bpf': (321,), 'userfaultfd': (323,), 'keyctl': (250,), \
         'io_uring_setup': (425,), 'process_vm_readv': (310, 1), 'perf_event_open': (298,), \
         'memfd_create': (319,), 'clone3': (435,), 'open_tree': (428,), 'chroot': (161,), \
         'clone newuser': (56, 0x10000011), 'clone newnet': (56, 0x40000011), 'shmget': (29, 0, \
         4096, 0o1600), 'x32 getpid': (0x40000000 | 39,), 'setuid': (105, 0), \
         'pidfd_getfd': (438,)}\n\
         for name, args in calls.items():\n\
         \x20   r = libc.syscall(*args)\n\
         \x20   if name.startswith('clone ') and r == 0: os._exit(9)\n\
         \x20   print('OPEN' if r >= 0 else ctypes.get_errno(), name)",
    );
    assert_eq!(outcome, Outcome::Exited(0), "{text}");
    assert!(!text.contains("OPEN"), "{text}");
    // EPERM, ENOSYS; EINVAL for a user that a user namespace does not have.
    let refused = |l: &str| l.starts_with("1 ") || l.starts_with("38 ") || l == "22 setuid";
    assert!(text.lines().all(refused), "{text}");
}

#[test]
fn setuid_programs_give_nothing() {
    let (outcome, text) = judged(&[
        "/bin/sh",
        "-c",
        "for p in su sudo mount newuidmap passwd; do p=$(command -v $p) || continue; \
         $p </dev/null >/dev/null 2>&1; done; grep -E 'CapEff|Uid' /proc/self/status; exit 0",
    ]);
    assert_eq!(outcome, Outcome::Exited(0));
    assert!(text.contains("CapEff:\t0000000000000000"), "{text}");
    assert!(!text.contains("Uid:\t0\t"), "{text}");
}

// ---- what it can use up ----

#[test]
fn a_fork_bomb_stays_small_and_ends_with_its_time() {
    let mut s = submission(&[
        "/bin/sh",
        "-c",
        "bomb() { bomb mkb-bomb | bomb & }; bomb; sleep 50",
    ]);
    s.limits.processes = 40;
    s.time = Some(Duration::from_millis(1500));
    let p = s.spawn().unwrap();
    let mut most = 0;
    while p.outcome().is_none() {
        let tasks = fs::read_dir("/proc").unwrap().flatten().filter(|e| {
            fs::read_to_string(e.path().join("status")).is_ok_and(|t| {
                t.lines()
                    .any(|l| l.starts_with("NSpid:") && l.split_whitespace().count() > 2)
                    && t.contains("Name:\tsh\n")
            })
        });
        most = most.max(tasks.count());
        sleep(Duration::from_millis(50));
    }
    assert_eq!(p.wait(), Outcome::TimedOut);
    // Other tests of this file may have shells of their own in sandboxes at the same time.
    assert!(most < 80, "{most}");
    let first = p.id();
    assert!(!exists(first));
}

#[test]
fn one_process_that_takes_too_much_memory_is_refused_it() {
    let mut s = snake("x = bytearray(400 << 20)");
    s.limits.memory_bytes = 200 * MIB;
    let p = s.spawn().unwrap();
    assert_eq!(p.wait(), Outcome::Exited(1));
    assert!(String::from_utf8_lossy(&p.stderr_tail()).contains("MemoryError"));
}

#[test]
fn processes_that_take_too_much_memory_together_are_ended() {
    let mut s = snake(
        "import os, time\n\
         for i in range(6): os.fork() or (x := b'x' * (80 << 20), time.sleep(30))\n\
         time.sleep(30)",
    );
    s.limits.memory_bytes = 200 * MIB;
    let p = s.spawn().unwrap();
    let outcome = p.wait();
    assert!(
        matches!(outcome, Outcome::OverMemory { used, limit }
        if used > limit && limit == 200 * MIB),
        "{outcome:?}"
    );
    assert!(p.peak_memory() > 200 * MIB);
}

#[test]
fn memory_that_a_fork_shares_counts_once() {
    let mut s = snake(
        "import os, time\n\
         x = b'x' * (100 << 20)\n\
         for i in range(4): os.fork() or (time.sleep(1), os._exit(0))\n\
         time.sleep(1.2)",
    );
    s.limits.memory_bytes = 200 * MIB;
    assert_eq!(s.spawn().unwrap().wait(), Outcome::Exited(0));
}

#[test]
fn anonymous_shared_memory_counts() {
    let mut s = snake(
        "import mmap, time\n\
         m = mmap.mmap(-1, 400 << 20)\n\
         for i in range(0, 400 << 20, 4096): m[i] = 1\n\
         time.sleep(30)",
    );
    s.limits.memory_bytes = 200 * MIB;
    let outcome = s.spawn().unwrap().wait();
    assert!(matches!(outcome, Outcome::OverMemory { .. }), "{outcome:?}");
}

fn arena(bytes: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("arena", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    fd
}

const FILL_ARENA: &str = "import mmap, time\n\
     m = mmap.mmap(3, 1 << 36)\n\
     for i in range(0, 300 << 20, 4096): m[i] = 1\n\
     time.sleep(0.3)\n\
     print('filled')";

#[test]
fn the_drivers_shared_memory_does_not_count() {
    let mut s = snake(FILL_ARENA);
    s.limits.memory_bytes = 200 * MIB;
    let file = arena(1 << 36);
    let ours = rustix::io::dup(&file).unwrap();
    s.shared.push(SharedMemory {
        file: ours,
        max_bytes: 1024 * MIB,
    });
    s.pass(file);
    let p = s.spawn().unwrap();
    assert_eq!(
        p.wait(),
        Outcome::Exited(0),
        "{}",
        String::from_utf8_lossy(&p.stderr_tail())
    );
    assert!(p.peak_memory() < 100 * MIB, "{}", p.peak_memory());
}

#[test]
fn the_drivers_shared_memory_has_a_limit_of_its_own() {
    let mut s = snake(FILL_ARENA);
    let file = arena(1 << 36);
    let ours = rustix::io::dup(&file).unwrap();
    s.shared.push(SharedMemory {
        file: ours,
        max_bytes: 100 * MIB,
    });
    s.pass(file);
    let outcome = s.spawn().unwrap().wait();
    assert!(matches!(outcome, Outcome::OverMemory { limit, .. } if limit == 100 * MIB));
}

#[test]
fn shared_memory_can_be_named_while_the_program_runs() {
    let mut s = snake(FILL_ARENA);
    s.limits.memory_bytes = 200 * MIB;
    let file = arena(1 << 36);
    let ours = rustix::io::dup(&file).unwrap();
    s.pass(file);
    let p = s.spawn().unwrap();
    p.set_shared(vec![SharedMemory {
        file: ours,
        max_bytes: 1024 * MIB,
    }]);
    assert_eq!(p.wait(), Outcome::Exited(0));
}

#[test]
fn a_child_cannot_change_limits_or_priority_of_its_parent() {
    let (outcome, text) = python(
        "import os, resource\n\
         resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n\
         os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1)\n\
         if os.fork(): os.wait(); raise SystemExit\n\
         p = os.getppid()\n\
         for change in (lambda: resource.prlimit(p, resource.RLIMIT_DATA, (1, 1)),\n\
         \x20       lambda: os.setpriority(os.PRIO_PROCESS, p, 19),\n\
         \x20       lambda: os.sched_setaffinity(p, os.sched_getaffinity(0)),\n\
         \x20       lambda: os.sched_setscheduler(p, os.SCHED_IDLE, os.sched_param(0))):\n\
         \x20   try: change(); print('CHANGED')\n\
         \x20   except PermissionError: print('refused')",
    );
    assert_eq!((outcome, text), (Outcome::Exited(0), "refused\n".repeat(4)));
}

#[test]
fn a_full_tmp_is_the_programs_own_problem() {
    let mut s = submission(&[
        "/bin/sh",
        "-c",
        "head -c 30000000 /dev/zero > /tmp/a; echo $?; head -c 90000000 /dev/zero > /dev/shm/a; \
         echo $?",
    ]);
    s.limits.disk_bytes = 10 * MIB;
    let p = s.spawn().unwrap();
    assert_eq!(p.wait(), Outcome::Exited(0));
    assert_eq!(String::from_utf8_lossy(&p.stdout_tail()), "1\n1\n");
}

#[test]
fn an_agent_that_fills_the_disk_is_ended() {
    let limits = Limits {
        disk_bytes: 50 * MIB,
        ..Limits::attempt()
    };
    let a = attempt(Isolation::Namespaces, limits);
    let script = "i=0; while true; do head -c 4000000 /dev/zero > /app/$i; i=$((i+1)); \
                  sleep 0.05; done";
    let done = a
        .sandbox
        .run(
            &["/bin/sh", "-c", script],
            b"",
            Duration::from_secs(50),
            &|| false,
        )
        .unwrap();
    assert!(
        matches!(done.outcome, Outcome::OverDisk { .. }),
        "{:?}",
        done.outcome
    );
}

#[test]
fn processor_time_is_bounded() {
    let mut s = submission(&["/bin/sh", "-c", "while :; do :; done"]);
    s.limits.cpu_time = Some(Duration::from_secs(1));
    let outcome = s.spawn().unwrap().wait();
    assert!(
        matches!(outcome, Outcome::Signaled(libc::SIGXCPU | libc::SIGKILL)),
        "{outcome:?}"
    );
}

#[test]
fn only_the_processors_given_are_used() {
    let mut s = submission(&["/usr/bin/env", "nproc"]);
    s.limits.cpus = 1;
    let p = s.spawn().unwrap();
    assert_eq!(p.wait(), Outcome::Exited(0));
    assert_eq!(p.stdout_tail(), b"1\n");
}

// ---- whom it can outlive ----

#[test]
fn a_time_out_ends_what_has_fled_into_sessions_of_its_own() {
    for isolation in [Isolation::Namespaces, Isolation::None] {
        let mark = format!("7{}.{}", std::process::id(), isolation as u8);
        let mut s = submission(&[
            "/bin/sh",
            "-c",
            &format!(
                "setsid sh -c 'trap \"\" TERM INT HUP; setsid sleep {mark}' & \
                 (setsid nohup sleep {mark} >/dev/null 2>&1 &); sleep {mark}"
            ),
        ]);
        s.isolation = isolation;
        s.time = Some(Duration::from_millis(700));
        let p = s.spawn().unwrap();
        assert!(
            eventually(|| marked(&format!("sleep\0{mark}")).len() >= 3),
            "{isolation:?}"
        );
        assert_eq!(p.wait(), Outcome::TimedOut, "{isolation:?}");
        assert_eq!(marked(&mark), Vec::<i32>::new(), "{isolation:?}");
    }
}

#[test]
fn what_a_program_leaves_in_the_background_ends_with_it() {
    for isolation in [Isolation::Namespaces, Isolation::None] {
        let mark = format!("8{}.{}", std::process::id(), isolation as u8);
        let mut s = submission(&["/bin/sh", "-c", &format!("setsid sleep {mark} & exit 0")]);
        s.isolation = isolation;
        assert_eq!(s.spawn().unwrap().wait(), Outcome::Exited(0));
        assert_eq!(marked(&mark), Vec::<i32>::new(), "{isolation:?}");
    }
}

#[test]
fn a_dropped_handle_ends_the_program() {
    let mark = format!("9{}", std::process::id());
    let p = submission(&["/bin/sleep", &mark]).spawn().unwrap();
    assert_ne!(marked(&mark), Vec::<i32>::new());
    drop(p);
    assert_eq!(marked(&mark), Vec::<i32>::new());
}

#[test]
fn a_frozen_program_stands_still_whole_and_goes_on() {
    let mut s = snake(
        "import os, sys, time, threading\n\
         for i in range(3): os.fork()\n\
         def run():\n\
         \x20   while True: sys.stdout.write('x'); sys.stdout.flush()\n\
         threading.Thread(target=run, daemon=True).start()\n\
         time.sleep(60)",
    );
    s.stdout = Stream::Pipe;
    let mut p = s.spawn().unwrap();
    let mut out = p.stdout.take().unwrap();
    let counted = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = counted.clone();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = std::io::Read::read(&mut out, &mut buffer) {
            counter.fetch_add(n as u64, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let now = || counted.load(std::sync::atomic::Ordering::SeqCst);
    assert!(eventually(|| now() > 1000));
    p.freeze().unwrap();
    sleep(Duration::from_millis(100));
    let still = now();
    sleep(Duration::from_millis(300));
    assert_eq!(now(), still);
    p.thaw().unwrap();
    assert!(eventually(|| now() > still));
    p.freeze().unwrap();
    assert_eq!(p.kill(), Outcome::Killed);
    reader.join().unwrap();
    assert!(p.freeze().is_err());
}

#[test]
fn a_thread_that_waits_for_a_stopped_child_does_not_keep_it_from_freezing() {
    // vfork, then a child that never executes anything.
    let mut s = snake(
        "import ctypes, time, threading\n\
         libc = ctypes.PyDLL(None)\n\
         print('ready')\n\
         pid = libc.syscall(56, 0x4000 | 0x100 | 17, 0)\n\
         if pid == 0: libc.sleep(50)",
    );
    s.stdout = Stream::Pipe;
    let mut p = s.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(p.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    sleep(Duration::from_millis(300));
    p.freeze().unwrap();
    assert_eq!(p.kill(), Outcome::Killed);
}

#[test]
fn nothing_outlives_a_driver_that_is_killed_and_the_next_one_says_so() {
    for isolation in ["namespaces", "none"] {
        let state = tempfile::tempdir().unwrap();
        let mark = format!("6{}.{}", std::process::id(), isolation.len());
        let mut driver = Command::new(std::env::current_exe().unwrap())
            .args(["the_driver_of_the_test_above", "--exact", "--nocapture"])
            .env(
                DRIVER,
                format!("{isolation} {mark} {}", state.path().display()),
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        assert!(lines.any(|l| l.unwrap().ends_with("ready")), "{isolation}");
        let sleeping = format!("sleep\0{mark}");
        assert!(eventually(|| marked(&sleeping).len() == 4), "{isolation}");
        driver.kill().unwrap();
        driver.wait().unwrap();
        assert!(
            eventually(|| marked(&mark).is_empty()),
            "{isolation}: {:?}",
            marked(&mark)
        );

        let left = sweep(state.path()).unwrap();
        assert_eq!(left.len(), 1, "{isolation}");
        assert_eq!(left[0].driver, Some(driver.id() as i32));
        assert!(!left[0].folder.exists());
        assert_eq!(sweep(state.path()).unwrap(), vec![]);
    }
}

/// Not a test of its own: a driver with an attempt and a submission, both of which try to stay.
#[test]
fn the_driver_of_the_test_above() {
    let Ok(given) = std::env::var(DRIVER) else {
        return;
    };
    let mut words = given.split(' ');
    let isolation = match words.next() {
        Some("none") => Isolation::None,
        _ => Isolation::Namespaces,
    };
    let (mark, state) = (words.next().unwrap(), words.next().unwrap());
    let script = format!("trap '' TERM HUP; setsid sleep {mark} & sleep {mark}");
    let sandbox = AttemptSandbox::create(AttemptSpec {
        state: state.into(),
        isolation,
        limits: Limits::attempt(),
        tests: vec![],
        docs: vec![("a/b.md".into(), b"the docs".to_vec())],
        read_only: vec![],
        env: vec![],
    })
    .unwrap();
    let _agent = sandbox
        .exec(&["/bin/sh", "-c", &script], mkb_sandbox::Exec::default())
        .unwrap();
    let mut s = submission(&["/bin/sh", "-c", &script]);
    s.isolation = isolation;
    // Started by a thread that ends: that must not end what it started.
    let _submission = std::thread::spawn(move || s.spawn().unwrap())
        .join()
        .unwrap();
    println!("\nready");
    std::io::stdout().flush().unwrap();
    sleep(Duration::from_secs(60));
}

#[test]
fn a_driver_killed_at_any_instant_leaves_no_process() {
    let mut luck = u64::from(std::process::id());
    for round in 0..12 {
        let mark = format!("5{}.{round}", std::process::id());
        let mut driver = Command::new(std::env::current_exe().unwrap())
            .args(["the_driver_that_starts_and_starts", "--exact", &mark])
            .env(DRIVER, &mark)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        sleep(Duration::from_millis(20 + (luck >> 33) % 200));
        driver.kill().unwrap();
        driver.wait().unwrap();
        // The mark stands in the driver's own command line, and so in that of its unfinished
        // children.
        assert!(
            eventually(|| marked(&mark).is_empty()),
            "{:?}",
            marked(&mark)
        );
    }
}

/// Not a test of its own: a driver that starts one sandbox after another.
#[test]
fn the_driver_that_starts_and_starts() {
    let Ok(mark) = std::env::var(DRIVER) else {
        return;
    };
    let mut kept = Vec::new();
    while kept.len() < 100 {
        let script = format!("setsid sleep {mark} & sleep {mark}");
        let mut s = submission(&["/bin/sh", "-c", &script]);
        s.isolation = if kept.len() % 2 == 0 {
            Isolation::Namespaces
        } else {
            Isolation::None
        };
        kept.push(s.spawn().unwrap());
    }
}

// ---- the attempt's folders ----

#[test]
fn an_agent_reads_tests_writes_app_and_cannot_change_tests() {
    for isolation in [Isolation::Namespaces, Isolation::None] {
        let a = attempt(isolation, Limits::attempt());
        a.sandbox.put("/app/in.txt", b"put").unwrap();
        let [app, tests, docs] = ["/app", "/tests", "/docs"].map(|p| a.sandbox.inside(p));
        let script = format!(
            "sh {tests}/test.sh; cat {docs}/a/b.md in.txt; echo; read line; echo \"$line\"; pwd; \
             echo taken > {app}/out.txt"
        );
        let done = a
            .sandbox
            .run(
                &["/bin/sh", "-c", &script],
                b"typed\n",
                Duration::from_secs(20),
                &|| false,
            )
            .unwrap();
        assert_eq!(done.outcome, Outcome::Exited(0), "{done:?}");
        assert_eq!(
            done.text(),
            format!("the test script\nthe docsput\ntyped\n{app}\n")
        );
        assert_eq!(
            a.sandbox.get("/app/out.txt", 100).unwrap().unwrap(),
            b"taken\n"
        );
        if isolation == Isolation::Namespaces {
            let script = "echo x >> /tests/test.sh; rm -rf /tests/test.sh; mv /tests /app/t; \
                          cat /tests/test.sh";
            let done = a
                .sandbox
                .run(
                    &["/bin/sh", "-c", script],
                    b"",
                    Duration::from_secs(20),
                    &|| false,
                )
                .unwrap();
            assert_eq!(done.text(), "echo the test script\n");
        }
    }
}

#[test]
fn files_in_tmp_last_over_commands_and_processes_do_not() {
    let a = attempt(Isolation::Namespaces, Limits::attempt());
    let run = |script: &str| {
        a.sandbox
            .run(
                &["/bin/sh", "-c", script],
                b"",
                Duration::from_secs(20),
                &|| false,
            )
            .unwrap()
    };
    let first = run("echo kept > /tmp/x; sleep 55 & mkdir -p /app/a/b; echo deep > /app/a/b/c");
    assert_eq!(first.outcome, Outcome::Exited(0));
    let second = run("cat /tmp/x /app/a/b/c; ls -d /proc/[0-9]* | wc -l");
    let text = second.text();
    let count = text.strip_prefix("kept\ndeep\n").expect(&text);
    // The first process, the shell, and the two ends of its pipe as far as they have started.
    assert!(
        (2..=4).contains(&count.trim().parse::<u32>().unwrap()),
        "{text}"
    );
    assert_eq!(a.sandbox.get("/app/a/b/c", 10).unwrap().unwrap(), b"deep\n");
}

#[test]
fn an_agents_links_do_not_lead_the_driver_out() {
    let a = attempt(Isolation::Namespaces, Limits::attempt());
    let script = "ln -s /etc/passwd /app/kernel.py; ln -s / /app/.submissions; mkfifo /app/pipe";
    a.sandbox
        .run(
            &["/bin/sh", "-c", script],
            b"",
            Duration::from_secs(20),
            &|| false,
        )
        .unwrap();
    assert_eq!(a.sandbox.get("/app/kernel.py", 1 << 20).unwrap(), None);
    assert_eq!(a.sandbox.get("/app/pipe", 1 << 20).unwrap(), None);
    assert_eq!(
        a.sandbox
            .get("/app/.submissions/etc/passwd", 1 << 20)
            .unwrap(),
        None
    );
    assert!(
        a.sandbox
            .put("/app/.submissions/tmp/mkb-escaped", b"x")
            .is_err()
    );
    assert!(!Path::new("/tmp/mkb-escaped").exists());
    assert!(a.sandbox.put("/tests/test.sh", b"x").is_err());
    assert!(a.sandbox.put("/app/../../x", b"x").is_err());
}

#[test]
fn what_two_agents_write_stays_apart() {
    let (a, b) = (
        attempt(Isolation::Namespaces, Limits::attempt()),
        attempt(Isolation::Namespaces, Limits::attempt()),
    );
    let run = |x: &Attempt, script: &str| {
        x.sandbox
            .run(
                &["/bin/sh", "-c", script],
                b"",
                Duration::from_secs(20),
                &|| false,
            )
            .unwrap()
            .text()
    };
    run(&a, "echo secret > /app/s; echo secret > /tmp/s");
    assert_eq!(run(&b, "ls -A /app /tmp"), "/app:\n\n/tmp:\n");
}

// ---- errors ----

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = submission(&["/usr/bin/no-such-program"])
        .spawn()
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("/usr/bin/no-such-program") && text.contains("No such file"),
        "{text}"
    );
}

#[test]
fn a_path_that_cannot_be_shown_is_named() {
    for (path, word) in [
        ("/no/such/place", "/no/such/place"),
        ("/", "root"),
        ("/proc", "itself"),
    ] {
        let mut s = submission(&["/bin/true"]);
        s.view.read_only.push(path.into());
        let text = s.spawn().unwrap_err().to_string();
        assert!(text.contains(word), "{path}: {text}");
    }
    let mut s = submission(&["/bin/true"]);
    s.view
        .read_only_at
        .push(("/usr/share".into(), "/usr/share/mkb".into()));
    let text = s.spawn().unwrap_err().to_string();
    assert!(text.contains("/usr/share/mkb"), "{text}");
}

#[test]
fn a_crash_is_told_by_its_signal() {
    for (script, signal) in [
        ("kill -SEGV $$", libc::SIGSEGV),
        ("kill -ABRT $$", libc::SIGABRT),
    ] {
        let (outcome, _) = judged(&["/bin/sh", "-c", script]);
        assert_eq!(outcome, Outcome::Signaled(signal));
        assert!(outcome.to_string().contains(&format!("signal {signal}")));
    }
}

#[test]
fn many_sandboxes_start_at_once() {
    let threads: Vec<_> = (0..8)
        .map(|n| {
            std::thread::spawn(move || {
                for _ in 0..5 {
                    let (outcome, text) = judged(&["/bin/sh", "-c", &format!("echo {n}")]);
                    assert_eq!((outcome, text), (Outcome::Exited(0), format!("{n}\n")));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn a_file_that_only_the_driver_may_read_can_be_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernel.py");
    fs::write(&file, "the kernel").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut s = submission(&[
        "/bin/sh",
        "-c",
        "cat /app/kernel.py; echo x > /app/kernel.py",
    ]);
    s.view.read_only_at.push((file, "/app/kernel.py".into()));
    let p = s.spawn().unwrap();
    assert_eq!(p.wait(), Outcome::Exited(2));
    assert_eq!(p.stdout_tail(), b"the kernel");
}

#[test]
fn files_that_an_ordinary_user_may_not_reach_can_be_shown_by_root() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let shown = folder.path().join("environment");
    fs::create_dir(&shown).unwrap();
    fs::write(shown.join("f"), "seen").unwrap();
    fs::write(folder.path().join("hidden"), "x").unwrap();
    let path = folder.path().display();
    let mut s = submission(&[
        "/bin/sh",
        "-c",
        &format!("cat {path}/environment/f; ls {path}"),
    ]);
    s.view.read_only.push(shown);
    let p = s.spawn().unwrap();
    assert_eq!(p.wait(), Outcome::Exited(0));
    assert_eq!(p.stdout_tail(), b"seenenvironment\n");
}

#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if !is_root() || std::env::var_os(AS_USER).is_some() {
        return;
    }
    const NOBODY: u32 = 65534;
    let folder = tempfile::Builder::new()
        .prefix("mkb-user-")
        .tempdir()
        .unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("tests");
    // Copied by another process: while this one holds the file for writing, a child that another
    // test's thread forks holds it too, and the kernel runs no program that is being written.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&program)
        .status()
        .unwrap();
    assert!(copied.success());
    let done = Command::new(&program)
        .args(["--test-threads=2"])
        .env(AS_USER, "1")
        .env("HOME", "/nonexistent")
        .env_remove("RUST_BACKTRACE")
        .current_dir("/tmp")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(text.contains("test result: ok"), "{text}");
}
