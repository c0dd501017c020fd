//! Other network namespaces: a pod's, a container's.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::thread;

use super::error::LiveError;

/// Where `ip netns` keeps the namespaces that have a name.
const NAMED: &str = "/run/netns";

/// The file that stands for a namespace: of a process by its id, by a name, or at a path.
fn file_of(netns: &str) -> PathBuf {
    let is_id = !netns.is_empty() && netns.bytes().all(|byte| byte.is_ascii_digit());
    match netns {
        _ if is_id => PathBuf::from(format!("/proc/{netns}/ns/net")),
        path if path.contains('/') => PathBuf::from(path),
        name => PathBuf::from(NAMED).join(name),
    }
}

/// Does something inside of a namespace, or here where none is named.
///
/// The namespace is a thread's, so a thread of its own goes there and ends there; sockets that it made stay in it.
pub(super) fn within<T: Send>(netns: Option<&str>, work: impl FnOnce() -> T + Send) -> Result<T, LiveError> {
    let Some(netns) = netns else { return Ok(work()) };
    let path = file_of(netns);
    let failed = |error| failure(netns, &path, error);
    let file = File::open(&path).map_err(failed)?;
    let worked = thread::scope(|scope| {
        let thread = scope.spawn(move || {
            enter(&file)?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    worked.map_err(failed)
}

#[cfg(target_os = "linux")]
fn enter(file: &File) -> io::Result<()> {
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

#[cfg(not(target_os = "linux"))]
fn enter(_file: &File) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "network namespaces are a thing of Linux"))
}

fn failure(netns: &str, path: &std::path::Path, error: io::Error) -> LiveError {
    let advice = match error.kind() {
        io::ErrorKind::NotFound if path.starts_with("/proc") => "there is no such process",
        io::ErrorKind::NotFound => "there is no such namespace: `ip netns` lists those with names",
        io::ErrorKind::PermissionDenied => {
            "this takes CAP_SYS_ADMIN, and CAP_SYS_PTRACE for another user's process: run it with sudo"
        }
        io::ErrorKind::InvalidInput => "this is no network namespace",
        _ => "the namespace cannot be entered",
    };
    LiveError::Namespace { netns: netns.to_owned(), path: path.display().to_string(), advice, source: error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_a_process_a_name_or_a_path() {
        assert_eq!(file_of("17"), PathBuf::from("/proc/17/ns/net"));
        assert_eq!(file_of("cni-17"), PathBuf::from("/run/netns/cni-17"));
        assert_eq!(file_of("/proc/self/ns/net"), PathBuf::from("/proc/self/ns/net"));
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let error = within(Some("no-such-namespace"), || ()).unwrap_err().to_string();
        assert!(error.contains("--netns no-such-namespace") && error.contains("ip netns"), "{error}");
        let error = within(Some("4294967295"), || ()).unwrap_err().to_string();
        assert!(error.contains("no such process"), "{error}");
    }

    #[test]
    fn without_a_namespace_the_work_is_done_here() {
        let here = thread::current().id();
        assert_eq!(within(None, || thread::current().id()).unwrap(), here);
    }
}
