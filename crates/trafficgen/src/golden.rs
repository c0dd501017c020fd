//! The golden captures: small files, each with one thing in it that a decoder can get wrong.
//!
//! Each is a line of options for `compose`, so that whoever wonders what is in a file can read it here, and make a
//! larger one of the same kind.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

use crate::compose::{ComposeOptions, Composed, Format, compose_into};

/// One golden capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Golden {
    /// What it is called, after its pathology.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// The options of `compose` that make it, without `--out`.
    pub options: &'static str,
}

const fn golden(name: &'static str, purpose: &'static str, options: &'static str) -> Golden {
    Golden { name, purpose, options }
}

/// All of them.
pub const GOLDENS: &[Golden] = &[
    golden(
        "clean_v3",
        "Version 3, every kind of request, nothing lost",
        "--requests 14 --depth 4 --kinds getpage=4,exists=3,nblocks=3,dbsize=3,slru=1 --seed 25",
    ),
    golden(
        "clean_v2",
        "Version 2, every kind of request, nothing lost",
        "--requests 14 --depth 4 --kinds getpage=4,exists=3,nblocks=3,dbsize=3,slru=1 --seed 25 --protocol 2",
    ),
    golden(
        "clean_v1",
        "Version 1, every kind of request, nothing lost; the second connection is a standby's (latest=0)",
        "--requests 16 --depth 4 --kinds getpage=3,exists=3,nblocks=3,dbsize=3,slru=1 --seed 13 --protocol 1 \
         --connections 2 --replica-every 2",
    ),
    golden(
        "multi_tenant",
        "Three tenants with two timelines each on six connections, all versions",
        "--tenants 3 --timelines 2 --connections 6 --requests 24 --kinds getpage=1,exists=2,nblocks=2 --protocol mixed",
    ),
    golden(
        "standby",
        "A standby asks at concrete LSNs instead of the latest",
        "--requests 5 --kinds getpage=1,nblocks=1 --replica-every 1 --depth 2",
    ),
    golden(
        "zero_pages",
        "All-zero pages (past the end) between others",
        "--requests 4 --kinds getpage=1 --zero-rate 0.5",
    ),
    golden(
        "deep_pipeline_cut",
        "128 requests in flight in flushes of 8, answers in batches of 32, packets cut to 96 bytes",
        "--requests 160 --kinds getpage=1 --depth 128 --mtu 65000 --cut 96",
    ),
    golden(
        "batches_share_ids",
        "Version 3 as pagebench speaks it: all requests of a flush carry one id",
        "--requests 4 --kinds getpage=1 --depth 2 --shared-batch-ids",
    ),
    golden(
        "same_pages_again",
        "A hot set of three pages fetched again and again, unchanged, and packets cut to 256 bytes",
        "--requests 60 --kinds getpage=1 --pages 3 --pattern uniform --depth 2 --mtu 65000 --cut 256",
    ),
    golden(
        "offloaded",
        "Answers merged by offloading into packets that straddle messages, behind a slow reader",
        "--requests 5 --kinds getpage=1 --depth 5 --mtu 65000 --receive-buffer 12000 --stall-after 1 --stall-time 20ms",
    ),
    golden(
        "closed_window",
        "The client does not read for 600 ms: its window closes and is probed",
        "--requests 4 --kinds getpage=1 --depth 4 --receive-buffer 12000 --stall-after 1 --stall-time 600ms",
    ),
    golden(
        "mtu1500_reorder",
        "Packets overtake one another on the wire before the capture",
        "--requests 5 --kinds getpage=1,nblocks=1 --depth 4 --reorder 0.15 --seed 2",
    ),
    golden(
        "lost_on_wire_server_view",
        "Packets lost on the wire and sent again, captured at the page service: its losses are seen twice, the client's once",
        "--requests 6 --kinds getpage=1,nblocks=1 --depth 4 --loss 0.12 --seed 2",
    ),
    golden(
        "lost_on_wire_client_view",
        "The same captured at the compute: the page service's losses leave holes that are filled later",
        "--requests 6 --kinds getpage=1,nblocks=1 --depth 4 --loss 0.12 --seed 2 --view client",
    ),
    golden(
        "capture_drops",
        "The capture misses packets that arrived",
        "--requests 8 --kinds getpage=1,nblocks=1 --depth 4 --drop 0.1 --seed 4",
    ),
    golden(
        "capture_drops_v2",
        "The capture misses packets that arrived; version 2, where only order pairs",
        "--requests 8 --kinds getpage=1,nblocks=1 --depth 4 --drop 0.1 --seed 4 --protocol 2",
    ),
    golden(
        "mirror_duplicates",
        "A mirror port delivers packets twice, identical to the last bit",
        "--requests 3 --kinds getpage=1,nblocks=1 --depth 4 --duplicate 0.5",
    ),
    golden(
        "spurious_retransmission",
        "Segments sent again without need, with a new identification and timestamp",
        "--requests 3 --kinds getpage=1,nblocks=1 --depth 4 --retransmit 0.4",
    ),
    golden(
        "sequence_wrap",
        "Sequence numbers of both directions pass 2^32: the client's in a request, the server's in a page",
        "--requests 4 --kinds getpage=1 --depth 4 --wrap-after 310",
    ),
    golden(
        "port_reuse",
        "A connection is left open and its port used again, twice, with other initial sequence numbers",
        "--requests 9 --kinds getpage=1,exists=2,nblocks=2 --reconnect 2 --end open --end terminate",
    ),
    golden(
        "keepalive",
        "An idle client whose kernel probes every 10 s",
        "--requests 4 --kinds getpage=1,nblocks=1 --depth 2 --idle-after 2 --idle-time 45s --keep-alive 10s",
    ),
    golden(
        "idle_gap",
        "Ten minutes without a packet between two requests",
        "--requests 4 --kinds getpage=1,nblocks=1 --depth 2 --idle-after 2 --idle-time 599s",
    ),
    golden(
        "snaplen_256",
        "Packets cut to 256 bytes: pages are headers only, a flush of 8 loses its end",
        "--requests 40 --kinds getpage=4,nblocks=1,exists=1 --depth 16 --mtu 65000 --cut 256",
    ),
    golden(
        "snaplen_128_v2",
        "Packets cut to 128 bytes, which cuts the timeline out of the command; version 2",
        "--requests 40 --kinds getpage=4,nblocks=1,exists=1 --depth 16 --mtu 65000 --cut 128 --protocol 2",
    ),
    golden("vlan", "One 802.1Q tag", "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --vlan 42"),
    golden(
        "vlan_qinq",
        "An 802.1ad tag around an 802.1Q tag",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --vlan 100 --vlan 42",
    ),
    golden("ipv6", "IPv6", "--requests 4 --kinds getpage=1,nblocks=1 --seed 2 --ipv6"),
    golden("sll", "Linux cooked capture", "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --link sll"),
    golden(
        "sll2",
        "Linux cooked capture, version 2, as -i any writes it",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --link sll2",
    ),
    golden(
        "null_loopback",
        "BSD loopback, IPv6",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --link null --ipv6",
    ),
    golden("raw_ip", "No link layer", "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --link raw"),
    golden(
        "pcap_microseconds",
        "pcap with microseconds",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --format pcap-us",
    ),
    golden(
        "pcap_big_endian",
        "pcap of a big-endian machine",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --format pcap-be",
    ),
    golden(
        "pcapng_mixed",
        "pcapng with three interfaces of different link types",
        "--requests 9 --connections 3 --kinds getpage=1,nblocks=2 --format pcapng --link ethernet --link sll2 --link raw",
    ),
    golden(
        "ssl_refused",
        "SSLRequest answered N, as libpq's default makes it",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --ask-encryption ssl",
    ),
    golden(
        "gss_refused",
        "GSSENCRequest and SSLRequest, both answered N",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --ask-encryption gss",
    ),
    golden(
        "tls",
        "TLS after SSLRequest, TLS without asking, and a plain client refused by a server that requires TLS: nothing to read",
        "--connections 0 --requests 0 --also tls --also direct-tls --also tls-required",
    ),
    golden(
        "password_auth",
        "A (fake) token in a PasswordMessage, which must never be kept",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --auth password",
    ),
    golden(
        "errors_tag103",
        "A third of the requests is answered with an error; all versions",
        "--requests 30 --connections 3 --protocol mixed --kinds getpage=1,exists=1,nblocks=1,dbsize=1 --error-rate 0.33 \
         --depth 4",
    ),
    golden(
        "bare_fin",
        "The client closes without a word",
        "--requests 4 --kinds getpage=1,nblocks=1 --seed 10 --end fin",
    ),
    golden(
        "copyfail_teardown",
        "CopyFail, Sync and FIN while requests are outstanding",
        "--requests 5 --kinds getpage=1 --depth 2 --end copy-fail",
    ),
    golden(
        "copydone_teardown",
        "CopyDone, ErrorResponse, back in query mode, Terminate",
        "--requests 4 --kinds getpage=1,nblocks=1 --seed 10 --end copy-done",
    ),
    golden(
        "server_shutdown",
        "ErrorResponse 57P01 and FIN from the server while requests are outstanding",
        "--requests 4 --kinds getpage=1 --depth 4 --end server-error",
    ),
    golden(
        "rst_outstanding",
        "A bare RST from the client while requests are outstanding",
        "--requests 4 --kinds getpage=1 --depth 4 --end rst",
    ),
    golden(
        "half_close",
        "The client shuts its half; what is outstanding is answered, then ReadyForQuery and FIN",
        "--requests 3 --kinds getpage=1 --depth 3 --end half-close",
    ),
    golden(
        "left_open",
        "The capture ends before the connection does",
        "--requests 4 --kinds getpage=1,nblocks=1 --seed 10 --end open",
    ),
    golden(
        "joined_midstream_v3",
        "The capture begins in the middle of the connections; version 3 names the backend but not the tenant",
        "--requests 16 --connections 2 --kinds getpage=1,nblocks=1 --depth 4 --join-at 0.5",
    ),
    golden(
        "joined_midstream_v2",
        "The same with version 2: only order pairs",
        "--requests 16 --connections 2 --kinds getpage=1,nblocks=1 --depth 4 --join-at 0.5 --protocol 2",
    ),
    golden(
        "joined_midstream_v1",
        "The same with version 1",
        "--requests 16 --connections 2 --kinds getpage=1,nblocks=1 --depth 4 --join-at 0.5 --protocol 1",
    ),
    golden(
        "basebackup_epoch",
        "A base backup, then the compute's pagestream: the start of its cache",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --also basebackup",
    ),
    golden(
        "other_commands",
        "Other commands on the port, SQL that quotes a pagestream command and an unknown tenant among them",
        "--requests 4 --kinds getpage=1,nblocks=2 --also basebackup --also lease --also set --also sql \
         --also unknown-tenant --also cancel",
    ),
    golden(
        "not_postgres",
        "HTTP, gRPC, noise, a lone SSLRequest and an empty connection on the port",
        "--requests 3 --kinds getpage=1,nblocks=2 --also http --also grpc --also noise --also lone-ssl --also empty",
    ),
    golden(
        "requests_only",
        "Only the client's direction is visible",
        "--requests 40 --kinds getpage=2,nblocks=1 --one-side client",
    ),
    golden(
        "answers_only",
        "Only the page service's direction is visible",
        "--requests 6 --kinds getpage=1,nblocks=2 --one-side server --seed 13",
    ),
    golden(
        "fragments",
        "Segments in IPv4 fragments",
        "--requests 4 --kinds getpage=1,nblocks=1 --seed 2 --fragment 0.5",
    ),
    golden(
        "fragments_ipv6",
        "Segments in IPv6 fragments",
        "--requests 4 --kinds getpage=1,nblocks=1 --seed 2 --fragment 0.5 --ipv6",
    ),
    golden(
        "vxlan",
        "A mirror session wrapped in VXLAN",
        "--requests 5 --kinds getpage=1,exists=1,nblocks=2 --seed 13 --vxlan 4242",
    ),
];

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: ComposeOptions,
}

impl Golden {
    /// The golden capture of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        GOLDENS.iter().find(|golden| golden.name == name)
    }

    /// Its options, for an output file, as `compose` takes them.
    ///
    /// # Errors
    /// Never for the ones in [`GOLDENS`]: a test parses them all.
    pub fn parse(&self, out: PathBuf) -> Result<ComposeOptions> {
        let words = ["compose"].into_iter().chain(self.options.split_whitespace());
        let line = Line::try_parse_from(words.chain(["--out", "-"]))?;
        let mut options = line.options;
        options.output.out = out;
        Ok(options)
    }

    /// Composes it into a writer.
    ///
    /// # Errors
    /// What the writer says.
    pub fn compose_into(&self, out: impl Write) -> Result<Composed> {
        compose_into(out, self.parse(PathBuf::from("-"))?)
    }

    /// Its file's name.
    ///
    /// # Errors
    /// Never for the ones in [`GOLDENS`].
    pub fn file_name(&self) -> Result<String> {
        let extension = match self.parse(PathBuf::from("-"))?.output.format {
            Format::Pcapng => "pcapng",
            Format::Pcap | Format::PcapUs | Format::PcapBe => "pcap",
        };
        Ok(format!("{}.{extension}", self.name))
    }

    /// Its row in the table of `pcaps/README.md`.
    ///
    /// # Errors
    /// Never for the ones in [`GOLDENS`].
    pub fn table_row(&self) -> Result<String> {
        let options: Vec<&str> = self.options.split_whitespace().collect();
        let file = self.file_name()?;
        Ok(format!("| `{file}` | {} | `trafficgen compose {} --out {file}` |", self.purpose, options.join(" ")))
    }
}
