//! What is captured: a page service and its computes on real sockets, or a capture sent again.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pcap::{Capture, Device};
use serde_json::Value;
use tempfile::TempDir;
use trafficgen::live::{DriveOptions, ServeOptions, Server, SharedTruth, drive};
use trafficgen::model::{ProtocolMix, Workload};
use trafficgen::truth::{TruthSides, TruthWriter};

use crate::harness::Ended;
use crate::network::Namespace;
use crate::truth::Truth;

/// A page service, and the computes that will drive it: three tenants on six connections in all versions.
pub(crate) struct Traffic {
    server: Server,
    truth: SharedTruth,
    dir: TempDir,
    options: DriveOptions,
}

impl Traffic {
    /// Listens on an address of this namespace.
    pub(crate) fn listen(address: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let truth = Arc::new(Mutex::new(TruthWriter::create(dir.path(), TruthSides::Both).unwrap()));
        let serving = ServeOptions { listen: address.parse().unwrap(), error_rate: 0.02, ..ServeOptions::default() };
        let server = Server::start(&serving, Some(Arc::clone(&truth))).unwrap();
        let kinds = "getpage=20,exists=1,nblocks=1,dbsize=1,slru=1".parse().unwrap();
        let protocol = ProtocolMix::Mixed;
        let workload = Workload {
            tenants: 3,
            connections: 6,
            requests: 6_000,
            protocol,
            kinds,
            zero_rate: 0.02,
            ..Workload::default()
        };
        let options = DriveOptions { workload, ..DriveOptions::at(server.address()) };
        Self { server, truth, dir, options }
    }

    /// The same in another namespace.
    pub(crate) fn listen_in(namespace: &Namespace, address: &str) -> Self {
        namespace.within(|| Self::listen(address))
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.address().port()
    }

    pub(crate) fn tenant(&self, number: u32) -> String {
        self.options.workload.owner_of(number).tenant.to_string()
    }

    /// Makes all requests, and waits until all that belongs to them has crossed the wire.
    pub(crate) fn drive(self) -> Truth {
        drive(&self.options, Some(&self.truth)).unwrap();
        self.finish()
    }

    /// The same from another namespace, where the page service can be reached.
    pub(crate) fn drive_in(self, namespace: &Namespace) -> Truth {
        namespace.within(|| self.drive())
    }

    /// Makes requests at a moderate rate for a second, and does something meanwhile.
    pub(crate) fn drive_while(mut self, meanwhile: impl FnOnce() -> (Ended, u64)) -> (Truth, Ended, u64) {
        self.options.duration = Some(Duration::from_secs(1).into());
        self.options.rate = Some(2_000.0);
        let (ended, at_ns) = thread::scope(|scope| {
            scope.spawn(|| drive(&self.options, Some(&self.truth)).unwrap());
            meanwhile()
        });
        (self.finish(), ended, at_ns)
    }

    fn finish(self) -> Truth {
        self.server.stop();
        drop(self.truth);
        Truth::read(self.dir.path())
    }
}

/// Sends the packets of a capture out of an interface.
pub(crate) fn replay(file: &str, namespace: &Namespace, iface: &str) {
    let mut packets = Capture::from_file(file).unwrap();
    namespace.within(|| {
        let mut wire = Capture::from_device(Device::from(iface)).unwrap().open().unwrap();
        while let Ok(packet) = packets.next_packet() {
            wire.sendpacket(packet.data).unwrap();
        }
    });
}

/// A record without what depends on when it was captured.
pub(crate) fn without_times(line: &str) -> Value {
    let mut record: Value = serde_json::from_str(line).unwrap();
    for field in ["time_ns", "latency_ns", "transfer_ns", "epoch_ns"] {
        record.as_object_mut().unwrap().remove(field).expect(field);
    }
    record
}

/// Unix nanoseconds, as the truth and the capture have them.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}
