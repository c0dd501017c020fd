use super::*;
use crate::pagestream::answer::{Echo, Outcome};

const AT: u64 = 1000;
const NOW: (Option<Timestamp>, Timestamp) = (Some(Timestamp(7)), Timestamp(7));

fn copy_data(body: &[u8]) -> Vec<u8> {
    let mut message = vec![b'd'];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

/// A version 3 GetPage request for this block.
fn request(blkno: u32) -> Vec<u8> {
    let mut body = vec![2];
    body.extend(u64::from(blkno).to_be_bytes());
    body.extend([0xff; 16]);
    body.extend([0; 13]);
    body.extend(blkno.to_be_bytes());
    copy_data(&body)
}

/// A version 3 Nblocks answer.
fn nblocks(reqid: u64) -> Vec<u8> {
    let mut body = vec![101];
    body.extend(reqid.to_be_bytes());
    body.extend([0; 16 + 13 + 4]);
    copy_data(&body)
}

/// A version 2 page answer holding `content` from byte 100 on.
fn page_v2(content: &[u8]) -> Vec<u8> {
    let mut body = vec![102];
    body.extend([7; 8192]);
    body[101..101 + content.len()].copy_from_slice(content);
    copy_data(&body)
}

fn nobody(_: &AnswerHead) -> bool {
    false
}

fn scan(side: Side, version: Option<Protocol>, bytes: &[u8]) -> Option<Found> {
    Scanner::new(side, version, AT, AT).data(bytes, NOW, nobody)
}

#[test]
fn a_request_is_confirmed_by_the_next_header_or_by_the_segments_end() {
    let two = [&b"junk"[..], &request(1), &request(2)].concat();
    let found = scan(Side::Client, None, &two).unwrap();
    assert_eq!((found.version, found.at), (Protocol::V3, AT + 4));
    assert_eq!(scan(Side::Client, None, &request(1)).map(|found| found.at), Some(AT));
    let followed_by_junk = [&request(1)[..], b"junk"].concat();
    assert_eq!(scan(Side::Client, None, &followed_by_junk), None);
}

#[test]
fn a_request_in_pieces_is_found_like_a_whole_one() {
    let bytes = [&b"junk"[..], &request(1), &request(2)].concat();
    for cut in 0..bytes.len() {
        let mut scanner = Scanner::new(Side::Client, Some(Protocol::V3), AT, AT);
        let first = scanner.data(&bytes[..cut], NOW, nobody);
        let found = first.or_else(|| scanner.data(&bytes[cut..], NOW, nobody)).unwrap();
        assert_eq!(found.at, AT + 4, "cut at {cut}");
    }
}

#[test]
fn another_versions_messages_are_none() {
    assert_eq!(scan(Side::Client, Some(Protocol::V2), &[request(1), request(2)].concat()), None);
}

#[test]
fn forged_messages_inside_a_page_are_not_taken() {
    // A customer stored a whole pagestream conversation in a page whose own header was lost.
    let forged = [nblocks(1), nblocks(2), nblocks(3)].concat();
    let mut lost_header = vec![9; 4000];
    lost_header.extend(&forged);
    lost_header.extend([9; 2000]);
    assert_eq!(scan(Side::Server, Some(Protocol::V3), &lost_header), None);
    // Even where they end with the segment.
    assert_eq!(scan(Side::Server, Some(Protocol::V3), &[&[9; 100][..], &forged].concat()), None);
}

#[test]
fn an_answer_that_a_pending_request_expects_is_taken_at_once() {
    let knows_two = |head: &AnswerHead| head.echo.is_some_and(|Echo { reqid, .. }| reqid == 2);
    let bytes = [&[9; 50][..], &nblocks(2)].concat();
    let mut scanner = Scanner::new(Side::Server, Some(Protocol::V3), AT, AT);
    assert_eq!(scanner.data(&bytes, NOW, knows_two).map(|found| found.at), Some(AT + 50));
    let head = AnswerHead { outcome: Outcome::Test, echo: None, body_bytes: 0 };
    assert!(!knows_two(&head));
}

#[test]
fn a_chain_longer_than_a_page_is_taken() {
    let chain = [page_v2(&[]), page_v2(&[])].concat();
    let found = scan(Side::Server, Some(Protocol::V2), &[&[9; 10][..], &chain].concat()).unwrap();
    assert_eq!((found.at, found.one_page), (AT + 10, false));
}

#[test]
fn a_real_answer_behind_a_false_start_is_found_when_that_fails() {
    // A page answer's header in a customer's bytes promises a next header where there is none.
    let mut bytes = vec![9; 10];
    bytes.extend(&page_v2(&[])[..300]);
    let real_at = AT + bytes.len() as u64;
    bytes.extend(page_v2(&[]));
    bytes.extend(page_v2(&[]));
    assert_eq!(scan(Side::Server, Some(Protocol::V2), &bytes).map(|found| found.at), Some(real_at));
}

#[test]
fn a_long_chain_of_small_answers_is_taken() {
    let chain: Vec<u8> = (0..200).flat_map(nblocks).collect();
    let found = scan(Side::Server, Some(Protocol::V3), &[&[9; 10][..], &chain].concat()).unwrap();
    assert_eq!(found.at, AT + 10);
}

#[test]
fn of_two_chains_side_by_side_none_is_taken_until_one_breaks() {
    // Every page holds the beginning of a page answer at the same place.
    let forged = &page_v2(&[])[..6];
    let pages = page_v2(forged).repeat(4);
    let mut scanner = Scanner::new(Side::Server, Some(Protocol::V2), AT, AT);
    assert_eq!(scanner.data(&pages[50..], NOW, nobody), None);
    let honest = scanner.data(&[page_v2(&[]), page_v2(&[])].concat(), NOW, nobody).unwrap();
    assert_eq!((honest.at - AT + 50) % 8198, 0);
}

#[test]
fn a_lost_page_is_recognised_by_its_length_and_a_zero() {
    let page_bytes = 5 + 8193;
    for (filler, expected) in [(0u8, true), (9, false)] {
        let mut scanner = Scanner::new(Side::Server, Some(Protocol::V2), AT, AT);
        scanner.gap(1448, None);
        let rest = vec![filler; page_bytes - 1448];
        assert_eq!(scanner.data(&rest, NOW, nobody), None);
        let found = scanner.data(&[page_v2(&[]), page_v2(&[])].concat(), NOW, nobody).unwrap();
        assert_eq!((found.at, found.one_page), (AT + page_bytes as u64, expected));
    }
}

#[test]
fn a_gap_over_the_expected_header_ends_a_candidate() {
    let mut scanner = Scanner::new(Side::Server, Some(Protocol::V2), AT, AT);
    assert_eq!(scanner.data(&page_v2(&[])[..8000], NOW, nobody), None);
    assert!(scanner.has_candidates());
    scanner.gap(500, None);
    assert!(!scanner.has_candidates());
}

#[test]
fn the_window_is_bounded() {
    let mut scanner = Scanner::new(Side::Server, Some(Protocol::V3), AT, AT);
    // A segment answer of the largest length waits for a header that is far away.
    let mut head = vec![b'd'];
    head.extend((34 + 8192 * 32 + 4u32).to_be_bytes());
    head.push(105);
    head.extend([1; 100]);
    scanner.data(&head, NOW, nobody);
    for _ in 0..200 {
        scanner.data(&[1; 1448], NOW, nobody);
    }
    assert!(scanner.heap_bytes() < 80 * 1024, "{}", scanner.heap_bytes());
}
