//! What the systemd unit takes away by itself must leave the daemon the calls by which it gives up the rest.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::process::Command;

use pagesniff::privileges::{Confinement, Files};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

use crate::CHILD;
use crate::harness::Dir;
use crate::network::may_capture;

/// Marks the child that is confined under the unit's filter.
pub(crate) const IS_IN_UNIT: &str = "PAGESNIFF_TEST_IN_UNIT";

/// The calls of the confinement and their like that are in `@privileged`, or are not in `@system-service`, of systemd 252.
const TAKEN_AWAY: [(&str, i64); 13] = [
    ("capset", libc::SYS_capset),
    ("seccomp", libc::SYS_seccomp),
    ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset),
    ("landlock_add_rule", libc::SYS_landlock_add_rule),
    ("landlock_restrict_self", libc::SYS_landlock_restrict_self),
    ("setgroups", libc::SYS_setgroups),
    ("setresuid", libc::SYS_setresuid),
    ("setuid", libc::SYS_setuid),
    ("fchownat", libc::SYS_fchownat),
    ("fchown", libc::SYS_fchown),
    ("chroot", libc::SYS_chroot),
    ("bpf", libc::SYS_bpf),
    ("quotactl", libc::SYS_quotactl),
];

/// What the unit says of system calls: each line adds to the list, or takes from it where it begins with `~`.
fn lines() -> Vec<&'static str> {
    let unit = include_str!("../../deploy/pagesniff.service");
    unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")).collect()
}

pub(crate) fn leaves_the_calls_that_confinement_takes() {
    assert!(may_capture());
    assert_eq!(lines()[..2], ["@system-service", "~@privileged"], "the calls below are those that these two take away");
    let dir = Dir::new();
    fs::create_dir(dir.path("write")).unwrap();
    let child =
        Command::new(std::env::current_exe().unwrap()).env(CHILD, dir.path(".")).env(IS_IN_UNIT, "1").output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

/// Inside of the child.
pub(crate) fn confined(dir: &Path) {
    let given_back: Vec<&str> = lines()[2..].iter().flat_map(|line| line.split_whitespace()).collect();
    let refused = TAKEN_AWAY.iter().filter(|(name, _)| !given_back.contains(name));
    let rules: BTreeMap<_, _> = refused.map(|&(_, call)| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM.try_into().unwrap());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, TargetArch::try_from(ARCH).unwrap()).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
    let files = Files { read: Vec::new(), write: vec![dir.join("write")] };
    let confined = Confinement { files: Some(files), ..Confinement::default() }.apply().unwrap();
    assert_eq!(confined.missing, Vec::<String>::new());
}
