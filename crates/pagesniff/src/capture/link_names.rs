//! Names for the link types that pagesniff does not read, so that a refusal can say what it met.

/// What can be read, for error messages; held to [`decode::LinkType::from_number`] by a test.
pub(super) const SUPPORTED: &str =
    "Ethernet (1), Linux cooked (113, 276), BSD loopback (0, 108), raw IP (12, 14, 101, 228, 229)";

/// The number, with its name where it is one that people meet: `9 (PPP)`. Names by <https://www.tcpdump.org/linktypes.html>.
pub(super) fn describe(number: u32) -> String {
    match name(number) {
        Some(name) => format!("{number} ({name})"),
        None => number.to_string(),
    }
}

fn name(number: u32) -> Option<&'static str> {
    Some(match number {
        3 => "AX25",
        6 => "IEEE802_5, Token Ring",
        7 => "ARCNET_BSD",
        8 => "SLIP",
        9 => "PPP",
        10 => "FDDI",
        50 => "PPP_HDLC",
        51 => "PPP_ETHER",
        100 => "ATM_RFC1483",
        104 => "C_HDLC",
        105 => "IEEE802_11",
        107 => "FRELAY",
        117 => "PFLOG",
        119 => "IEEE802_11_PRISM",
        122 => "IP_OVER_FC",
        127 => "IEEE802_11_RADIOTAP",
        129 => "ARCNET_LINUX",
        138 => "APPLE_IP_OVER_IEEE1394",
        149 => "USER2, often Apple's PKTAP",
        147..=162 => "USER, privately defined",
        187 => "BLUETOOTH_HCI_H4",
        189 => "USB_LINUX",
        192 => "PPI",
        195 => "IEEE802_15_4_WITHFCS",
        201 => "BLUETOOTH_HCI_H4_WITH_PHDR",
        220 => "USB_LINUX_MMAPPED",
        226 => "IPNET",
        227 => "CAN_SOCKETCAN",
        239 => "NFLOG",
        240 => "NETANALYZER",
        242 => "IPOIB",
        249 => "USBPCAP",
        252 => "WIRESHARK_UPPER_PDU",
        253 => "NETLINK",
        258 => "PKTAP",
        283 => "DSA_TAG_BRCM",
        284 => "DSA_TAG_DSA",
        285 => "DSA_TAG_EDSA",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supported_list_is_what_the_decoder_reads() {
        let listed: Vec<u32> =
            SUPPORTED.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect();
        for number in 0..=400 {
            assert_eq!(listed.contains(&number), decode::LinkType::from_number(number).is_some(), "link type {number}");
            assert!(name(number).is_none() || !listed.contains(&number), "{number} is both");
        }
    }

    #[test]
    fn a_number_without_a_name_stands_alone() {
        assert_eq!(describe(9), "9 (PPP)");
        assert_eq!(describe(4_000), "4000");
    }
}
