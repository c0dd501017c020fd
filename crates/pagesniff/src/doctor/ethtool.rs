//! Questions to a network interface that only the `SIOCETHTOOL` call answers (`linux/ethtool.h`).

use std::ffi::c_char;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Any answer that is asked for here is shorter: `ethtool_ts_info`, the longest, has 11 words.
const WORDS: usize = 16;

/// `struct ifreq`: a name, and a union of 24 bytes of which the first are the pointer.
#[repr(C)]
struct InterfaceRequest {
    name: [c_char; 16],
    words: *mut u32,
    rest: [u8; 16],
}

/// What to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// `ETHTOOL_GRINGPARAM`: sizes of the rings.
    Rings = 0x10,
    /// `ETHTOOL_GTSO`: whether sent segments are cut by the adapter.
    Tso = 0x1e,
    /// `ETHTOOL_GGRO`: whether received segments are merged by the kernel.
    Gro = 0x2b,
    /// `ETHTOOL_GET_TS_INFO`: whose clocks can stamp packets.
    Stamps = 0x41,
}

/// The words of the answer, the question itself first.
#[allow(unsafe_code, reason = "the system has no other way to ask")]
pub(super) fn ask(iface: &str, question: Question) -> io::Result<[u32; WORDS]> {
    let mut words = [0; WORDS];
    words[0] = question as u32;
    let mut request = InterfaceRequest { name: [0; 16], words: words.as_mut_ptr(), rest: [0; 16] };
    if iface.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.name.iter_mut().zip(iface.bytes()) {
        *to = from as c_char;
    }
    // Any socket will do; this one is bound to the machine itself and never used.
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    // SAFETY: the request has the layout and size of `struct ifreq`, its name ends with a zero, and the words that it points to
    // live and are ours until the call is over. Each question's answer is shorter than they are.
    let answered = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if answered < 0 { Err(io::Error::last_os_error()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_answers_and_what_is_not_there_does_not() {
        assert_eq!(size_of::<InterfaceRequest>(), size_of::<libc::ifreq>());
        assert!(ask("lo", Question::Gro).is_ok());
        assert!(ask("no-such", Question::Gro).is_err());
        assert!(ask("a-name-that-is-too-long-for-linux", Question::Rings).is_err());
    }
}
