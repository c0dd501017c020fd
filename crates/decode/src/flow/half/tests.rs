use super::*;
use proptest::prelude::*;

const START: SeqNum = SeqNum(u32::MAX - 40);

fn at(ms: u64) -> Timestamp {
    Timestamp(1_000_000_000 + ms * 1_000_000)
}

/// A direction that collects what it delivers: bytes, and `None` for each byte of a gap.
struct Reader {
    half: HalfStream,
    buffers: Buffers,
    out: Vec<Option<u8>>,
    late: Vec<bool>,
}

impl Reader {
    fn new() -> Self {
        let mut half = HalfStream::new();
        half.begin_at(START);
        Self { half, buffers: Buffers::default(), out: Vec::new(), late: Vec::new() }
    }

    fn segment(&mut self, from: usize, bytes: &[u8], ms: u64) -> Accepted {
        let offset = self.half.offset_of(START.plus(from as u64)).unwrap();
        let span = Span { offset, len: bytes.len() as u64, bytes, at: at(ms), is_timed: true };
        let accepted = self.half.accept(span, &mut self.buffers);
        if let Accepted::InOrder { skip, late } = accepted {
            self.half.advance(span.len - skip);
            self.out.extend(bytes[skip as usize..].iter().map(|&byte| Some(byte)));
            self.late.push(late);
        }
        self.pop(ms, false);
        accepted
    }

    fn acknowledge(&mut self, to: usize, ms: u64) {
        let offset = self.half.offset_of(START.plus(to as u64)).unwrap();
        self.half.acknowledge(offset, at(ms));
    }

    fn pop(&mut self, ms: u64, over: bool) {
        while let Some(ready) = self.half.pop(at(ms), over) {
            match ready {
                Ready::Gap { len } => self.out.extend(std::iter::repeat_n(None, len as usize)),
                Ready::Data(held) => {
                    self.out.extend(held.bytes.iter().map(|&byte| Some(byte)));
                    self.late.push(!held.is_timed);
                    self.buffers.release(held.bytes);
                }
            }
        }
    }

    fn text(&self) -> String {
        self.out.iter().map(|byte| byte.map_or('_', char::from)).collect()
    }
}

#[test]
fn a_late_segment_fills_its_hole_across_the_wrap() {
    let mut reader = Reader::new();
    reader.segment(0, b"abcdefghijklmnopqrstuvwxyzabcdefghijklmnop", 0);
    assert_eq!(reader.segment(44, b"cd", 1), Accepted::Held);
    assert_eq!(reader.segment(42, b"ab", 2), Accepted::InOrder { skip: 0, late: false });
    assert!(reader.text().ends_with("mnopabcd"));
    assert_eq!(reader.buffers.held_bytes, 0);
}

#[test]
fn a_hole_waits_a_grace_after_its_acknowledgement() {
    let mut reader = Reader::new();
    reader.segment(2, b"cd", 0);
    reader.acknowledge(4, 1);
    reader.pop(20, false);
    assert_eq!(reader.text(), "");
    reader.pop(21, false);
    assert_eq!(reader.text(), "__cd");
}

#[test]
fn data_within_the_grace_is_no_gap_but_its_arrival_is_not_known() {
    let mut reader = Reader::new();
    reader.acknowledge(2, 0);
    reader.segment(0, b"ab", 5);
    reader.pop(100, false);
    assert_eq!((reader.text().as_str(), reader.late.as_slice()), ("ab", &[true][..]));
}

#[test]
fn a_hole_that_nobody_acknowledges_waits_for_a_retransmission() {
    let mut reader = Reader::new();
    reader.segment(2, b"cd", 0);
    reader.pop(5000, false);
    assert_eq!(reader.text(), "");
    reader.pop(5001, false);
    assert_eq!(reader.text(), "__cd");
}

#[test]
fn the_end_of_the_connection_settles_everything() {
    let mut reader = Reader::new();
    reader.segment(2, b"cd", 0);
    reader.segment(6, b"gh", 0);
    reader.pop(0, true);
    assert_eq!(reader.text(), "__cd__gh");
}

#[test]
fn the_acknowledgement_of_a_fin_is_no_hole() {
    let mut reader = Reader::new();
    reader.segment(0, b"ab", 0);
    reader.half.finish_at(reader.half.next());
    reader.acknowledge(3, 1);
    assert!(!reader.half.has_hole() && reader.half.is_finished());
}

#[test]
fn the_first_copy_of_a_byte_wins_and_others_are_counted() {
    let mut reader = Reader::new();
    reader.segment(2, b"cd", 0);
    reader.segment(1, b"BXYe", 1);
    assert_eq!(reader.buffers.conflicts, 2);
    reader.segment(0, b"a", 2);
    assert_eq!(reader.text(), "aBcde");
}

#[test]
fn what_lies_outside_any_window_has_no_place() {
    let reader = Reader::new();
    assert_eq!(reader.half.offset_of(START.plus((1 << 30) + 1)), None);
    assert!(reader.half.offset_of(START.plus(1 << 30)).is_some());
    assert_eq!(reader.half.offset_of(START.plus(1 << 31)), None);
}

#[test]
fn too_many_segments_behind_a_hole_settle_it() {
    let mut reader = Reader::new();
    for n in 0..=MAX_HELD_SEGMENTS {
        reader.segment(2 + 2 * n, b"x", 0);
    }
    assert!(reader.out.starts_with(&[None, None, Some(b'x')]));
    assert!(reader.half.held.len() <= MAX_HELD_SEGMENTS);
}

proptest! {
    /// Any split, order, duplication and overlap gives the stream; nothing is left behind.
    #[test]
    fn any_order_of_overlapping_pieces_gives_the_stream(
        len in 1usize..300,
        cuts in proptest::collection::vec((0usize..300, 1usize..60), 0..40),
        order in any::<prop::sample::Index>(),
    ) {
        let stream: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let mut pieces: Vec<(usize, usize)> = (0..len).step_by(7).map(|from| (from, (from + 7).min(len))).collect();
        pieces.extend(cuts.iter().map(|&(from, size)| (from % len, (from % len + size).min(len))));
        let turn = order.index(pieces.len());
        pieces.rotate_left(turn);
        let mut reader = Reader::new();
        for &(from, to) in pieces.iter().rev() {
            reader.segment(from, &stream[from..to], 0);
        }
        let expected: Vec<Option<u8>> = stream.into_iter().map(Some).collect();
        prop_assert_eq!(&reader.out, &expected);
        prop_assert_eq!(reader.buffers.held_bytes, 0);
        prop_assert_eq!(reader.buffers.conflicts, 0);
    }

    /// Whatever is missing comes out as gaps of the right length; what was seen stays in its place.
    #[test]
    fn missing_pieces_are_gaps_of_their_length(seen in proptest::collection::vec(any::<bool>(), 1..60)) {
        let mut reader = Reader::new();
        for (n, _) in seen.iter().enumerate().filter(|(_, seen)| **seen) {
            reader.segment(3 * n, &[n as u8; 3], 0);
        }
        reader.pop(0, true);
        let until = seen.iter().rposition(|&seen| seen).map_or(0, |last| last + 1);
        let expected: Vec<Option<u8>> =
            (0..until).flat_map(|n| [seen[n].then_some(n as u8); 3]).collect();
        prop_assert_eq!(reader.out, expected);
    }
}

#[test]
fn what_waited_for_a_late_byte_has_no_known_time() {
    let held_behind_a_hole = |acknowledged: usize| {
        let mut reader = Reader::new();
        reader.segment(0, b"a", 0);
        reader.segment(2, b"cd", 1);
        reader.acknowledge(acknowledged, 2);
        let offset = reader.half.offset_of(START.plus(1)).unwrap();
        let span = Span { offset, len: 1, bytes: b"b", at: at(3), is_timed: true };
        assert_eq!(
            reader.half.accept(span, &mut reader.buffers),
            Accepted::InOrder { skip: 0, late: acknowledged > 1 }
        );
        reader.half.advance(1);
        match reader.half.pop(at(3), false) {
            Some(Ready::Data(held)) => held.stalled,
            other => panic!("{other:?}"),
        }
    };
    assert!(held_behind_a_hole(4), "it came after its acknowledgement");
    assert!(!held_behind_a_hole(1), "it came before");
}

#[test]
fn what_came_behind_bytes_given_up_for_their_time_waits_until_these_are_acknowledged() {
    let mut reader = Reader::new();
    reader.segment(0, b"a", 0);
    reader.segment(2, b"cd", 1);
    reader.segment(5, b"f", 2);
    match (reader.half.pop(at(5002), false), reader.half.pop(at(5002), false)) {
        (Some(Ready::Gap { len: 1 }), Some(Ready::Data(held))) => assert!(held.stalled),
        other => panic!("{other:?}"),
    }
    reader.segment(4, b"e", 5003);
    assert!(reader.half.may_be_stalled(), "the receiver may still miss a byte");
    reader.acknowledge(1, 5004);
    assert!(reader.half.may_be_stalled());
    reader.acknowledge(6, 5005);
    assert!(!reader.half.may_be_stalled());
}
