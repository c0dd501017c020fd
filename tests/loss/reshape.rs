//! Packets that carry the same bytes otherwise: split, repeated, in another order.

use decode::{LinkType, Packet};
use record::Timestamp;

use crate::rng::Rng;
use crate::tape::each_segment;

/// A packet with bytes of its own.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) time_ns: u64,
    link: LinkType,
    data: Vec<u8>,
}

/// Where the parts of an Ethernet frame with IPv4 and TCP begin.
struct Layout {
    tcp: usize,
    payload: usize,
}

const ETHERNET_BYTES: usize = 14;
const TCP_FIN_SYN_RST: u8 = 7;

impl Made {
    pub(crate) fn of(packet: &Packet<'_>) -> Self {
        Self { time_ns: packet.time.0, link: packet.link, data: packet.data.to_vec() }
    }

    pub(crate) fn packet(&self) -> Packet<'_> {
        let wire_len = u32::try_from(self.data.len()).unwrap();
        Packet { time: Timestamp(self.time_ns), link: self.link, data: &self.data, wire_len }
    }

    fn layout(&self) -> Layout {
        assert_eq!((self.link, &self.data[12..14]), (LinkType::Ethernet, &[8, 0][..]), "IPv4 on Ethernet only");
        let tcp = ETHERNET_BYTES + usize::from(self.data[ETHERNET_BYTES] & 15) * 4;
        Layout { tcp, payload: tcp + usize::from(self.data[tcp + 12] >> 4) * 4 }
    }

    fn payload_bytes(&self) -> usize {
        self.data.len() - self.layout().payload
    }

    /// The bytes from `from` to `to` of its payload, as a segment of their own.
    fn part(&self, from: usize, to: usize) -> Self {
        let Layout { tcp, payload } = self.layout();
        let mut data = [&self.data[..payload], &self.data[payload + from..payload + to]].concat();
        let total = u16::try_from(data.len() - ETHERNET_BYTES).unwrap();
        data[ETHERNET_BYTES + 2..ETHERNET_BYTES + 4].copy_from_slice(&total.to_be_bytes());
        let seq = u32::from_be_bytes(data[tcp + 4..tcp + 8].try_into().unwrap());
        data[tcp + 4..tcp + 8].copy_from_slice(&seq.wrapping_add(from as u32).to_be_bytes());
        if to < self.payload_bytes() {
            data[tcp + 13] &= !1;
        }
        Self { data, ..*self }
    }

    /// The same segment sent again: another IP identification, and a later timestamp.
    fn again(&self, time_ns: u64) -> Self {
        let Layout { tcp, payload } = self.layout();
        let mut made = Self { time_ns, ..self.clone() };
        made.data[ETHERNET_BYTES + 4] ^= 0x55;
        if payload - tcp >= 32 {
            made.data[payload - 8 + 3] = made.data[payload - 8 + 3].wrapping_add(1);
        }
        made
    }

    fn is_plain_data(&self) -> bool {
        self.payload_bytes() > 0 && self.data[self.layout().tcp + 13] & TCP_FIN_SYN_RST == 0
    }
}

/// Splits segments anywhere.
pub(crate) fn split(packets: &[Packet<'_>], rng: &mut Rng) -> Vec<Made> {
    let mut made = Vec::new();
    for whole in packets.iter().map(Made::of) {
        let bytes = whole.payload_bytes();
        let mut cuts: Vec<usize> = (0..rng.below(4)).map(|_| rng.below(bytes + 1)).collect();
        cuts.extend([0, bytes]);
        cuts.sort_unstable();
        cuts.dedup();
        match bytes {
            0 => made.push(whole),
            _ => made.extend(cuts.windows(2).map(|pair| whole.part(pair[0], pair[1]))),
        }
    }
    made
}

/// Sends some segments, or parts of them, again after up to 40 other packets.
pub(crate) fn retransmit(packets: &[Packet<'_>], rng: &mut Rng) -> Vec<Made> {
    let mut made: Vec<Made> = packets.iter().map(Made::of).collect();
    let last = made.len() - 1;
    for at in (0..made.len()).rev() {
        if !made[at].is_plain_data() || !rng.chance(0.2) {
            continue;
        }
        let behind = (at + 1 + rng.below(40)).min(last);
        let bytes = made[at].payload_bytes();
        let (from, to) = (rng.below(bytes), bytes);
        let copy = made[at].part(from, to).again(made[behind].time_ns);
        made.insert(behind + 1, copy);
    }
    made
}

/// Lets data segments of one direction overtake one another; the stamps stay in order.
pub(crate) fn disorder(packets: &[Packet<'_>], rng: &mut Rng) -> Vec<Made> {
    /// Further apart, an acknowledgement would be believed before its data comes.
    const NEAR_NS: u64 = 5_000_000;
    let mut made: Vec<Made> = packets.iter().map(Made::of).collect();
    let mut flows = vec![None; made.len()];
    each_segment(packets, |at, segment| flows[at] = Some((segment.source, segment.destination)));
    for at in 0..made.len() {
        let end = (at + 12).min(made.len());
        let next = (at + 1..end).find(|&other| flows[other] == flows[at]);
        let Some(next) = next.filter(|&next| made[next].is_plain_data() && made[at].is_plain_data()) else { continue };
        if made[next].time_ns - made[at].time_ns < NEAR_NS && rng.chance(0.15) {
            let (early, late) = (made[at].time_ns, made[next].time_ns);
            made.swap(at, next);
            (made[at].time_ns, made[next].time_ns) = (early, late);
        }
    }
    made
}

/// Delivers packets twice, the second copy up to `behind` packets and `shift_ns` later.
pub(crate) fn double(packets: &[Packet<'_>], behind: usize, shift_ns: u64, rng: &mut Rng) -> Vec<Made> {
    let mut made: Vec<(usize, Made)> = packets.iter().map(Made::of).enumerate().collect();
    let copies: Vec<(usize, Made)> = made
        .iter()
        .map(|(at, packet)| {
            let place = at + rng.below(behind + 1);
            (place, Made { time_ns: packet.time_ns + shift_ns, ..packet.clone() })
        })
        .collect();
    made.extend(copies);
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, packet)| packet).collect()
}
