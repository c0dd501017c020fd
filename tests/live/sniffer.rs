//! The program while it captures.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::harness::{Dir, Ended};

/// All traffic of a test, as often as loopback shows it, finds room: nothing is dropped on a machine that does other things.
const BUFFER_SIZE: &str = "256MiB";

/// A process that does not outlive its test.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running capture. What it writes is read all the time.
pub(crate) struct Sniffer {
    child: Guarded,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

impl Sniffer {
    /// Starts it, and waits until it captures.
    pub(crate) fn start(dir: &Dir, arguments: &str) -> Self {
        Self::start_with_buffer(dir, arguments, BUFFER_SIZE)
    }

    /// The same with another size of the kernel's buffer.
    pub(crate) fn start_with_buffer(dir: &Dir, arguments: &str, size: &str) -> Self {
        Self::start_as_typed(dir, &format!("{arguments} --buffer-size {size}"))
    }

    /// The same without an option of ours.
    pub(crate) fn start_as_typed(dir: &Dir, arguments: &str) -> Self {
        Self::captures(dir.piped(arguments))
    }

    /// The same by a command of the caller's.
    #[allow(dead_code, reason = "for other tests than the live ones, which share this")]
    pub(crate) fn start_command(mut command: Command) -> Self {
        Self::captures(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn captures(mut child: Child) -> Self {
        let stderr = read_on(ready(&mut child));
        let stdout = read_on(child.stdout.take().unwrap());
        Self { child: Guarded(child), stdout, stderr }
    }

    /// The same with a standard output that nobody reads.
    pub(crate) fn start_unread(dir: &Dir, arguments: &str) -> Child {
        let mut child = dir.piped(arguments);
        read_on(ready(&mut child));
        child
    }

    /// Runs a command line on a terminal, whose content becomes the standard output.
    pub(crate) fn start_on_terminal(dir: &Dir, command: &str) -> Self {
        let mut child = Command::new("script")
            .current_dir(dir.path("."))
            .args(["--quiet", "--flush", "--return", "--command", command, "/dev/null"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = read_on(child.stderr.take().unwrap());
        let stdout = read_on(child.stdout.take().unwrap());
        // What it says on a terminal comes with control characters; it captures long before this is over.
        thread::sleep(Duration::from_secs(1));
        Self { child: Guarded(child), stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn stop(self, name: &str) -> Ended {
        signal(self.id(), name);
        self.wait()
    }

    pub(crate) fn wait(mut self) -> Ended {
        let status = self.child.0.wait().unwrap().code().expect("it was killed by a signal");
        Ended { status, stdout: self.stdout.join().unwrap(), stderr: self.stderr.join().unwrap() }
    }
}

/// Waits until it captures; fails with its words where it does not.
fn ready(child: &mut Child) -> BufReader<impl Read + Send + 'static> {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("Capturing on "), "{line}");
    stderr
}

fn read_on(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// Sends a signal by its name.
pub(crate) fn signal(id: u32, name: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -s {name} {id}")]).status().unwrap();
    assert!(status.success());
}
