//! Which system calls can be made (seccomp(2)).
//!
//! A call that is not listed fails with EPERM and does nothing; the process goes on. To be killed would end a capture in
//! the middle of an incident when the C library of some system makes a call that no test has seen, and would gain nothing:
//! a refused call is as harmless.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::{env, io};

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::error::PrivilegeError;

/// `log` in this variable of the environment lets calls through that are not listed, and has the kernel log them
/// (`type=1326` in its log or audit's): to find out what is missing on some system.
const DIAGNOSIS: &str = "PAGESNIFF_SECCOMP";

/// Seen under strace in captures with traces, rotation, progress and findings, and their like of other C libraries.
const MEMORY: &[c_long] =
    &[libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise];

const THREADS: &[c_long] = &[
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_futex,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_membarrier,
    libc::SYS_prctl,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
];

const SIGNALS: &[c_long] = &[
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // abort(), and a second Ctrl-C.
    libc::SYS_tgkill,
    libc::SYS_kill,
];

const CLOCKS: &[c_long] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrusage,
    libc::SYS_times,
];

const FILES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_umask,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_ioctl,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
];

const WAITING: &[c_long] = &[
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
];

/// [`SYS_socket`](libc::SYS_socket) and [`SYS_socketpair`](libc::SYS_socketpair) are not here: see [`FAMILIES`].
const SOCKETS: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    // The C library's, to find a host by its name.
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    // libpcap's counters; the filter.
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

const IDENTITY: &[c_long] = &[
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_prlimit64,
    libc::SYS_getrandom,
];

/// What newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_chmod,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// New sockets can be of these families only: of the link layer, raw ones of other kinds, and the doors into rarely used
/// parts of the kernel stay shut, whatever the capabilities.
const FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// Restricts the thread, and those that it starts. Says where this processor has no support.
pub(super) fn restrict() -> Result<Option<String>, PrivilegeError> {
    let Ok(architecture) = TargetArch::try_from(ARCH) else {
        return Ok(Some(format!("system calls are not confined on {ARCH}")));
    };
    let is_diagnosis = env::var_os(DIAGNOSIS).is_some_and(|value| value == "log");
    let program = program(architecture, is_diagnosis).map_err(PrivilegeError::system("the filter of system calls"))?;
    match apply_filter(&program) {
        Ok(()) if is_diagnosis => {
            Ok(Some(format!("{DIAGNOSIS}=log: system calls are not confined, the kernel logs those not listed")))
        }
        Ok(()) => Ok(None),
        // The kernel was built without it.
        Err(seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error))
            if error.raw_os_error() == Some(libc::EINVAL) =>
        {
            Ok(Some("this kernel has no seccomp filters: system calls are not confined".to_owned()))
        }
        Err(error) => Err(PrivilegeError::System { what: "seccomp", source: io::Error::other(error) }),
    }
}

fn program(architecture: TargetArch, is_diagnosis: bool) -> io::Result<BpfProgram> {
    let listed = [MEMORY, THREADS, SIGNALS, CLOCKS, FILES, WAITING, SOCKETS, IDENTITY, OLDER].concat();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = listed.into_iter().map(|call| (call, Vec::new())).collect();
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        rules.insert(call, FAMILIES.into_iter().map(of_family).collect::<io::Result<_>>()?);
    }
    let eperm = u32::try_from(libc::EPERM).map_err(io::Error::other)?;
    let otherwise = if is_diagnosis { SeccompAction::Log } else { SeccompAction::Errno(eperm) };
    let filter = SeccompFilter::new(rules, otherwise, SeccompAction::Allow, architecture).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

fn of_family(family: i32) -> io::Result<SeccompRule> {
    let family = u64::try_from(family).map_err(io::Error::other)?;
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family);
    SeccompRule::new(vec![condition.map_err(io::Error::other)?]).map_err(io::Error::other)
}
