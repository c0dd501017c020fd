//! Opening an interface, and saying why it cannot be opened.

use std::fs;

use decode::LinkType;
use pcap::{Active, Capture, Device, Linktype, Precision, TimestampType};

use super::error::LiveError;
use super::filter;
use super::netns::within;
use super::options::{LiveOptions, StampedBy};
use super::source::RETIRE;

/// An interface that packets can be read from.
pub(super) struct Opened {
    /// Not blocking; its filter is set.
    pub(super) capture: Capture<Active>,
    /// What its packets begin with.
    pub(super) link: LinkType,
}

/// Opens the interface, in its namespace, and sets the filter.
///
/// # Errors
///
/// Whatever keeps packets from being captured.
pub(super) fn open(options: &LiveOptions) -> Result<Opened, LiveError> {
    within(options.netns.as_deref(), || open_here(options))?
}

fn open_here(options: &LiveOptions) -> Result<Opened, LiveError> {
    let mut capture = activate(options).map_err(|error| diagnose(options, &reason(error)))?;
    // `any` offers both versions; this one also says on which interface a packet was seen.
    if capture.list_datalinks().is_ok_and(|links| links.contains(&Linktype::LINUX_SLL2)) {
        let set = capture.set_datalink(Linktype::LINUX_SLL2);
        set.map_err(|error| LiveError::Open { iface: options.iface.clone(), reason: reason(error) })?;
    }
    let number = capture.get_datalink().0;
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let link =
        LinkType::from_number(number).ok_or_else(|| LiveError::LinkType { iface: options.iface.clone(), number })?;
    set_filter(&mut capture, link, options)?;
    Ok(Opened { capture, link })
}

fn activate(options: &LiveOptions) -> Result<Capture<Active>, pcap::Error> {
    let stamped_by = match options.stamped_by {
        StampedBy::Host => TimestampType::Host,
        StampedBy::Adapter => TimestampType::Adapter,
    };
    let retire_ms = i32::try_from(RETIRE.as_millis()).unwrap_or(i32::MAX);
    Capture::from_device(options.iface.as_str())?
        .promisc(false)
        .immediate_mode(false)
        .timeout(retire_ms)
        .snaplen(i32::try_from(options.snaplen_bytes).unwrap_or(i32::MAX))
        .buffer_size(i32::try_from(options.buffer.as_u64()).unwrap_or(i32::MAX))
        .tstamp_type(stamped_by)
        .precision(Precision::Nano)
        .open()?
        .setnonblock()
}

fn set_filter(capture: &mut Capture<Active>, link: LinkType, options: &LiveOptions) -> Result<(), LiveError> {
    let user = options.bpf.as_deref().filter(|expression| !expression.trim().is_empty());
    if let Some(expression) = user
        && let Err(error) = capture.compile(expression, true)
    {
        let sound = filter::sound_beginning(expression, |part| capture.compile(part, true).is_ok());
        let place = if sound.is_empty() { "at its beginning".to_owned() } else { format!("behind '{sound}'") };
        return Err(LiveError::Expression { expression: expression.to_owned(), place, reason: reason(error) });
    }
    let expression = filter::expression(&options.ports, options.tunnels, user, link);
    capture
        .filter(&expression, true)
        .map_err(|error| LiveError::Filter { iface: options.iface.clone(), reason: reason(error) })
}

/// libpcap's own words, in one line.
pub(super) fn reason(error: pcap::Error) -> String {
    let words = match error {
        pcap::Error::PcapError(words) => words,
        other => other.to_string(),
    };
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Why an interface could not be opened. libpcap's code for it does not come through the crate, so it is looked for.
fn diagnose(options: &LiveOptions, reason: &str) -> LiveError {
    let iface = options.iface.clone();
    let devices = Device::list().unwrap_or_default();
    let device = devices.iter().find(|device| device.name == iface);
    let refused = reason.contains("permission") || reason.contains("permitted") || lacks_net_raw();
    if device.is_none() && (refused || reason.contains("No such device")) && !devices.is_empty() {
        let names = devices.iter().map(|device| device.name.as_str()).filter(|name| is_network(name));
        let place = options.netns.as_ref().map_or(String::new(), |netns| format!(" in the namespace {netns}"));
        return LiveError::NoInterface { iface, place, available: names.collect::<Vec<_>>().join(", ") };
    }
    match device {
        _ if refused => LiveError::Permission { iface },
        Some(device) if !device.flags.is_up() => LiveError::Down { iface },
        _ => LiveError::Open { iface, reason: reason.to_owned() },
    }
}

/// libpcap also lists what is no network interface.
fn is_network(name: &str) -> bool {
    !["bluetooth", "nflog", "nfqueue", "dbus-", "usbmon"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether this process is without `CAP_NET_RAW` (capabilities(7); its number is 13).
fn lacks_net_raw() -> bool {
    const CAP_NET_RAW: u32 = 13;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .is_some_and(|capabilities| capabilities & (1 << CAP_NET_RAW) == 0)
}
