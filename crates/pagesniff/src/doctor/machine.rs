//! This machine and this process: may it capture, and with what.

use std::ffi::{CStr, c_char};
use std::fs;

use super::check::Check;

/// Bits of capabilities(7).
const CAP_NET_RAW: u64 = 1 << 13;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// The ring that libpcap captures through (`TPACKET_V3`) came with this version.
const FIRST_KERNEL_WITH_RING: (u32, u32) = (3, 2);

/// What can be said without an interface.
pub(super) fn checks(checks: &mut Vec<Check>) {
    checks.push(privileges(effective_capabilities()));
    checks.push(kernel(&read("/proc/sys/kernel/osrelease")));
    checks.push(Check::ok("libpcap", libpcap_version()));
    if read("/proc/sys/net/core/bpf_jit_enable") == "0" {
        let text = "the kernel interprets filters instead of compiling them".to_owned();
        checks.push(Check::info("bpf_jit", text, "sysctl net.core.bpf_jit_enable=1 makes each packet cheaper"));
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The capabilities that this process has now; `None` where the system does not say.
fn effective_capabilities() -> Option<u64> {
    let status = read("/proc/self/status");
    let digits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(digits.trim(), 16).ok()
}

fn privileges(capabilities: Option<u64>) -> Check {
    match capabilities {
        None => Check::info("privileges", "which capabilities this process has is not visible".to_owned(), ""),
        Some(has) if has & CAP_NET_RAW == 0 => Check::problem(
            "privileges",
            "this process may not capture: it has no CAP_NET_RAW".to_owned(),
            "run it with sudo, or once: sudo setcap cap_net_raw+ep \"$(command -v pagesniff)\"",
        ),
        Some(has) if has & CAP_SYS_ADMIN == 0 => Check::ok(
            "privileges",
            "this process may capture (CAP_NET_RAW), but enter no other network namespace".to_owned(),
        ),
        Some(_) => {
            Check::ok("privileges", "this process may capture (CAP_NET_RAW), and enter network namespaces".to_owned())
        }
    }
}

fn kernel(release: &str) -> Check {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|digits| digits.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= FIRST_KERNEL_WITH_RING => {
            Check::ok("kernel", format!("Linux {release} has the ring that packets are captured through (TPACKET_V3)"))
        }
        (Some(_), Some(_)) => {
            let text = format!("Linux {release} has no TPACKET_V3 ring: each packet is copied and costs a system call");
            Check::warning("kernel", text, "capture on Linux 3.2 or later")
        }
        _ => Check::info("kernel", "the kernel's version is not visible".to_owned(), ""),
    }
}

/// What libpcap says of itself, its name, version and the ring's.
#[allow(unsafe_code, reason = "the pcap crate does not offer it")]
fn libpcap_version() -> String {
    unsafe extern "C" {
        fn pcap_lib_version() -> *const c_char;
    }
    // SAFETY: pcap_lib_version(3pcap) takes nothing, and returns a string that is never freed nor changed.
    let version = unsafe { CStr::from_ptr(pcap_lib_version()) };
    version.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    #[test]
    fn what_a_process_may_do_follows_from_its_capabilities() {
        let level = |capabilities| privileges(capabilities).level;
        assert_eq!(level(Some(CAP_SYS_ADMIN)), Level::Problem);
        assert_eq!((level(Some(CAP_NET_RAW)), level(None)), (Level::Ok, Level::Info));
        assert!(privileges(Some(0)).advice.contains("setcap"));
    }

    #[test]
    fn a_kernel_without_the_ring_is_told() {
        for (release, expected) in
            [("6.18.0-rc1+", Level::Ok), ("3.2.0", Level::Ok), ("2.6.32-754.el6", Level::Warning), ("", Level::Info)]
        {
            assert_eq!(kernel(release).level, expected, "{release}");
        }
    }

    #[test]
    fn libpcap_names_itself() {
        assert!(libpcap_version().starts_with("libpcap version"), "{}", libpcap_version());
    }
}
