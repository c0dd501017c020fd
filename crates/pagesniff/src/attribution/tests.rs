use record::{Lsn, Pairing, Protocol, RelTag, Status, Target, TenantId, TimelineId, Timestamp};

use super::*;

fn owner(n: u8) -> TenantTimeline {
    TenantTimeline { tenant: TenantId([n; 16]), timeline: TimelineId([n; 16]) }
}

fn request(client: &str, time: u64) -> Record {
    Record {
        time: Timestamp(time),
        latency_ns: None,
        transfer_ns: None,
        depth: None,
        owner: None,
        attribution: None,
        target: Target::Nblocks { rel: RelTag { spcnode: 1663, dbnode: 5, relnode: 16384, forknum: 0 } },
        request_lsn: Lsn::MAX,
        not_modified_since: Lsn(1),
        status: Status::Ok,
        page_lsn: None,
        page_zero: None,
        page_hash: None,
        client: client.parse().unwrap(),
        server: "10.9.9.9:6400".parse().unwrap(),
        protocol: Protocol::V2,
        reqid: None,
        backend_pid: None,
        seq: None,
        epoch: None,
        pairing: Pairing::Fifo,
    }
}

fn says(attributor: &mut Attributor, client: &str, (purpose, n): (Purpose, u8)) -> Vec<ConnectionOwner> {
    let (client, server) = (client.parse().unwrap(), "10.9.9.9:6400".parse().unwrap());
    let mut found = Vec::new();
    attributor.identified(&Identified { at: Timestamp(9), client, server, purpose, owner: Some(owner(n)) }, |one| {
        found.push(one)
    });
    found
}

fn with_hints(lines: &[String]) -> Attributor {
    let mut hints = Hints::default();
    lines.iter().for_each(|line| hints.add(line.parse().unwrap()).unwrap());
    Attributor::new(hints, Vec::new())
}

fn hint(client: &str, n: u8) -> String {
    format!("{client}={}/{}", owner(n).tenant, owner(n).timeline)
}

fn asserted(networks: &[&str]) -> Attributor {
    Attributor::new(Hints::default(), networks.iter().map(|network| network.parse().unwrap()).collect())
}

#[test]
fn a_hint_for_a_connection_goes_before_one_for_its_address() {
    let mut attributor =
        with_hints(&[hint("10.0.0.7", 1), hint("10.0.0.7:50", 2), hint("[::1]:50", 3), hint("::2", 4)]);
    for (client, expected) in [
        ("10.0.0.7:40", Some(1)),
        ("10.0.0.7:50", Some(2)),
        ("10.0.0.8:50", None),
        ("[::1]:50", Some(3)),
        ("[::1]:51", None),
        ("[::2]:7", Some(4)),
    ] {
        let expected = expected.map(|n| (owner(n), Attribution::Hint));
        assert_eq!(attributor.owner_of(&request(client, 1)), expected, "{client}");
    }
}

#[test]
fn what_a_record_says_itself_is_never_touched() {
    let mut attributor = with_hints(&[hint("10.0.0.7", 1)]);
    let said = Record { owner: Some(owner(2)), attribution: Some(Attribution::Handshake), ..request("10.0.0.7:40", 1) };
    assert_eq!(attributor.owner_of(&said), None);
}

#[test]
fn a_hint_that_a_connection_contradicts_is_given_up_and_told() {
    let mut attributor = with_hints(&[hint("10.0.0.7", 1)]);
    says(&mut attributor, "10.0.0.7:41", (Purpose::Pagestream, 1));
    assert!(attributor.notes()[0].starts_with("no request needed the hint for 10.0.0.7:"), "{:?}", attributor.notes());
    assert!(attributor.owner_of(&request("10.0.0.7:40", 1)).is_some() && attributor.notes().is_empty());
    says(&mut attributor, "10.0.0.7:42", (Purpose::Basebackup, 2));
    assert_eq!(attributor.owner_of(&request("10.0.0.7:40", 1)), None);
    assert!(attributor.notes()[0].starts_with("the hint for 10.0.0.7 is wrong"), "{:?}", attributor.notes());
}

#[test]
fn hints_that_cannot_be_are_refused_with_their_line() {
    for text in ["", "10.0.0.7", "10.0.0.7=abc", "host=a/b", "10.0.0.7:x=a/b"] {
        assert!(text.parse::<Hint>().is_err(), "{text}");
    }
    let error = format!("10.0.0.7=abc/{}", owner(1).timeline).parse::<Hint>().unwrap_err();
    assert!(error.contains("tenant abc: an id has 32 hex digits"), "{error}");
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("hints");
    std::fs::write(&path, format!("# computes\n\n {} \n{}\n", hint("10.0.0.7", 1), hint("10.0.0.7", 2))).unwrap();
    let error = Hints::default().add_file(&path).unwrap_err();
    assert!(error.contains("hints, line 4: 10.0.0.7 has another hint already"), "{error}");
    let endless = Hints::default().add_file(std::path::Path::new("/dev/zero")).unwrap_err();
    assert!(endless.contains("/dev/zero: a hints file has less than 4.0 MiB"), "{endless}");
    std::fs::write(&path, format!("# computes\n\n {} \n", hint("10.0.0.7", 1))).unwrap();
    let mut hints = Hints::default();
    hints.add_file(&path).unwrap();
    assert_eq!(hints.owner_of("10.0.0.7:1".parse().unwrap()), Some(owner(1)));
}

#[test]
fn an_asserted_address_serves_connections_that_were_open_before() {
    let mut attributor = asserted(&["10.0.0.0/24"]);
    for time in [7, 5, 6] {
        assert_eq!(attributor.owner_of(&request("10.0.0.7:40", time)), None);
    }
    let found = says(&mut attributor, "10.0.0.7:41", (Purpose::Pagestream, 1));
    assert!(
        matches!(found[..], [one] if one.client.port() == 40 && one.connected == Timestamp(5) && one.owner == owner(1))
    );
    assert_eq!(attributor.owner_of(&request("10.0.0.7:40", 8)), Some((owner(1), Attribution::Address)));
    assert_eq!(attributor.owner_of(&request("10.0.0.8:40", 8)), None, "another address");
    assert_eq!(says(&mut attributor, "10.0.0.7:42", (Purpose::Pagestream, 1)), []);
}

#[test]
fn an_address_of_two_owners_is_nobodys() {
    for second in [Purpose::Pagestream, Purpose::Basebackup] {
        let mut attributor = asserted(&["10.0.0.0/24"]);
        says(&mut attributor, "10.0.0.7:41", (Purpose::Pagestream, 1));
        says(&mut attributor, "10.0.0.7:42", (second, 2));
        assert_eq!(attributor.owner_of(&request("10.0.0.7:40", 1)), None);
        assert!(attributor.notes()[0].starts_with("10.0.0.7 is not one compute"), "{:?}", attributor.notes());
    }
    let mut attributor = asserted(&["10.0.0.0/24"]);
    attributor.owner_of(&request("10.0.0.7:40", 1));
    says(&mut attributor, "10.0.0.7:41", (Purpose::Basebackup, 1));
    assert_eq!(says(&mut attributor, "10.0.0.7:42", (Purpose::Pagestream, 2)), []);
    assert_eq!(attributor.owner_of(&request("10.0.0.7:40", 1)), None);
}

#[test]
fn a_base_backup_alone_vouches_for_nothing() {
    let mut attributor = asserted(&["10.0.0.0/24"]);
    says(&mut attributor, "10.0.0.7:41", (Purpose::Basebackup, 1));
    assert_eq!(attributor.owner_of(&request("10.0.0.7:40", 1)), None);
}

#[test]
fn loopback_is_never_one_compute_and_other_networks_are_not_asserted() {
    let mut attributor = asserted(&["0.0.0.0/0", "::/0"]);
    for address in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
        says(&mut attributor, &format!("{address}:41"), (Purpose::Pagestream, 1));
        assert_eq!(attributor.owner_of(&request(&format!("{address}:40"), 1)), None, "{address}");
    }
    let mut attributor = asserted(&["10.0.1.0/24"]);
    says(&mut attributor, "10.0.0.7:41", (Purpose::Pagestream, 1));
    assert_eq!(attributor.owner_of(&request("10.0.0.7:40", 1)), None);
}

#[test]
fn invented_addresses_take_a_bounded_place_and_the_rest_stays_unattributed() {
    let mut attributor = asserted(&["10.0.0.0/8"]);
    for n in 0..80_000u32 {
        let client = std::net::Ipv4Addr::from(0x0a00_0000 + n);
        assert_eq!(attributor.owner_of(&request(&format!("{client}:40"), 1)), None);
    }
    says(&mut attributor, "10.0.0.1:41", (Purpose::Pagestream, 1));
    assert!(attributor.owner_of(&request("10.0.0.1:40", 1)).is_some());
    says(&mut attributor, "10.1.50.0:41", (Purpose::Pagestream, 1));
    assert_eq!(attributor.owner_of(&request("10.1.50.0:40", 1)), None);
    assert!(attributor.notes()[0].contains("the first 65536 addresses only"), "{:?}", attributor.notes());
}
