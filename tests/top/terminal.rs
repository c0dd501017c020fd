//! The view in a real terminal: tmux draws it, and tells what can be read there.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::network::may_capture;
use crate::sniffer::signal;
use crate::traffic::Traffic;

/// A machine that does other things is slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal with a shell's command in it.
struct Terminal {
    dir: TempDir,
}

impl Terminal {
    /// `None` where this machine has no tmux.
    fn start(size: (u16, u16), command: &str) -> Option<Self> {
        let terminal = Self { dir: TempDir::new().unwrap() };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        // It stays after the command's end, for what it leaves to be read.
        let command = format!("{command}; echo \"status $?\"; stty -a; sleep 1000");
        let session = ["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &command];
        match terminal.try_tmux(&session) {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => {
                assert!(std::env::var("PAGESNIFF_REQUIRE_LIVE").as_deref() != Ok("1"), "tmux: {error}");
                eprintln!("SKIPPED, as this machine has no tmux: {error}");
                return None;
            }
        }
        Some(terminal)
    }

    fn try_tmux(&self, arguments: &[&str]) -> std::io::Result<Output> {
        let socket = self.dir.path().join("socket");
        Command::new("tmux").arg("-u").arg("-S").arg(socket).args(arguments).env("LC_ALL", "C.UTF-8").output()
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = self.try_tmux(arguments).unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// What stands on the screen, once that is there.
    fn screen_with(&self, expected: &[&str]) -> String {
        let since = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if expected.iter().all(|expected| screen.contains(expected)) {
                return screen;
            }
            assert!(since.elapsed() < PATIENCE, "{expected:?} not in:\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The process in it whose words begin with these.
    fn process(&self) -> u32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        let children = std::fs::read_to_string(children).unwrap();
        children.split_whitespace().next().expect("it runs").parse().unwrap()
    }

    /// The terminal is as it was before.
    fn assert_given_back(&self, status: u8) {
        let screen = self.screen_with(&[&format!("status {status}"), "icanon"]);
        for mode in ["icanon", "echo", "isig"] {
            assert!(screen.split_whitespace().any(|word| word == mode), "{mode} in:\n{screen}");
        }
        for left in ["requests/s", "q quit"] {
            assert!(!screen.contains(left), "{left} in:\n{screen}");
        }
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.try_tmux(&["kill-server"]);
    }
}

fn top(arguments: &str) -> String {
    format!("{} top {arguments}", env!("CARGO_BIN_EXE_pagesniff"))
}

#[test]
fn it_shows_what_passes_by_and_leaves_the_terminal_as_it_was() {
    if !may_capture() {
        return;
    }
    let traffic = Traffic::listen("127.0.0.1:0");
    let command = top(&format!("--iface lo --port {} --buffer-size 256MiB", traffic.port()));
    let Some(terminal) = Terminal::start((80, 24), &command) else { return };
    terminal.screen_with(&["pagesniff top  lo port", "q quit  h help"]);
    let tenant = traffic.tenant(1);
    let truth = traffic.drive();
    let screen = terminal.screen_with(&[&tenant[..8], "nothing lost", "3 rows"]);
    assert_eq!(truth.counts("tenant").len(), 3);
    assert!(screen.contains("1 tenants") && screen.contains("by req/s"), "{screen}");
    // From here on nothing goes, however long this takes.
    terminal.press(&["p"]);
    terminal.screen_with(&["PAUSED"]);

    terminal.press(&["2"]);
    terminal.screen_with(&["relation  ", "1663/16384/"]);
    terminal.press(&["3"]);
    terminal.screen_with(&["connection  ", "127.0.0.1:", "6 rows"]);
    terminal.press(&["Tab"]);
    terminal.screen_with(&["key range  ", "0-2047"]);
    terminal.press(&["/", "_vm", "Enter"]);
    terminal.screen_with(&["filter: _vm"]);
    terminal.press(&["h"]);
    terminal.screen_with(&["keys and columns"]);
    terminal.press(&["Escape"]);
    terminal.tmux(&["resize-window", "-x", "40", "-y", "16"]);
    let narrow = terminal.screen_with(&["1 tenant  2 rel  3 client  4 keys"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    terminal.press(&["1"]);
    terminal.screen_with(&["redund     p50     p99     max depth failed", "tenant  "]);
    terminal.press(&["q"]);
    terminal.assert_given_back(0);
}

#[test]
fn a_signal_gives_the_terminal_back() {
    if !may_capture() {
        return;
    }
    for name in ["TERM", "INT", "HUP"] {
        let Some(terminal) = Terminal::start((80, 40), &top("--iface lo --port 1")) else { return };
        terminal.screen_with(&["no request was seen in the last seconds"]);
        signal(terminal.process(), name);
        terminal.assert_given_back(0);
    }
}

#[test]
fn control_c_is_a_key_and_control_z_lets_the_shell_go_on() {
    if !may_capture() {
        return;
    }
    // A shell with job control: it goes on when the program stops, and lets that go on after a line.
    let command = format!("set -m; {}; echo stopped; read line; fg", top("--iface lo --port 1"));
    let Some(terminal) = Terminal::start((80, 40), &command) else { return };
    terminal.screen_with(&["no request was seen in the last seconds"]);
    terminal.press(&["C-z"]);
    let screen = terminal.screen_with(&["stopped"]);
    assert!(!screen.contains("q quit"), "{screen}");
    terminal.press(&["Enter"]);
    terminal.screen_with(&["pagesniff top", "q quit"]);
    terminal.press(&["C-c"]);
    terminal.assert_given_back(0);
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    if !may_capture() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let id_file = dir.path().join("id");
    // In a session of its own it gets no signal from the terminal: what is left is that nothing can be read.
    let command = format!("setsid --wait sh -c 'echo $$ >{}; exec {}'", id_file.display(), top("--iface lo --port 1"));
    let Some(terminal) = Terminal::start((80, 24), &command) else { return };
    terminal.screen_with(&["no request was seen in the last seconds"]);
    let id = std::fs::read_to_string(id_file).unwrap();
    let runs = || std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(runs());
    drop(terminal);
    let since = Instant::now();
    while runs() {
        assert!(since.elapsed() < PATIENCE, "it does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_fault_of_the_input_is_told_on_the_terminal_that_was_given_back() {
    let Some(pair) = crate::network::Pair::new() else { return };
    let place = format!("--iface {} --netns {}", crate::network::Pair::IFACE, pair.server.name());
    let Some(terminal) = Terminal::start((110, 40), &top(&place)) else { return };
    terminal.screen_with(&["pagesniff top  wire0"]);
    pair.unplug();
    terminal.screen_with(&["error: ", "the capture broke off"]);
    terminal.assert_given_back(1);
}

#[test]
fn a_capture_file_goes_by_in_its_own_pace_and_stays_at_its_end() {
    let file = format!("{}/../../pcaps/multi_tenant.pcap", env!("CARGO_MANIFEST_DIR"));
    let Some(terminal) = Terminal::start((80, 24), &format!("NO_COLOR=1 {}", top(&format!("--read {file}")))) else {
        return;
    };
    let screen = terminal.screen_with(&["ENDED", "6 rows"]);
    assert!(screen.contains("nothing lost"), "{screen}");
    let styled = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(!styled.contains("\u{1b}[36m") && !styled.contains("\u{1b}[31m"), "colours in spite of NO_COLOR: {styled}");
    terminal.press(&["q"]);
    terminal.assert_given_back(0);
}
