//! What a connection is, and what its messages mean: from the start-up to requests and answers.

use record::{Attribution, Protocol, TenantTimeline, Timestamp};

use crate::epochs::Epochs;
use crate::flow::Side;
use crate::pagestream::answer::{Answer, AnswerHead, Outcome};
use crate::pagestream::emit::{Emitter, Identity};
use crate::pagestream::layout;
use crate::pagestream::page::{PageFacts, PageWatch};
use crate::pagestream::pairing::{AnswersLost, Arrival, Cut, Pairing};
use crate::pagestream::request::ClientMessage;
use crate::pgwire::command::Command;
use crate::pgwire::frame::{Framing, Head};
use crate::pgwire::startup::{Foreign, Opening};
use crate::remembered::Known;
use crate::sink::{Identified, Purpose, Sink};
use crate::stats::Stats;

/// What the handling of a message needs from outside the connection.
pub(crate) struct World<'a> {
    pub(crate) stats: &'a mut Stats,
    pub(crate) epochs: &'a mut Epochs,
    pub(crate) sink: &'a mut dyn Sink,
    /// Packet time.
    pub(crate) now: Timestamp,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The client has not said yet what it wants.
    Startup,
    /// Typed messages, no command under way.
    Query,
    /// A pagestream was asked for and has not been granted yet.
    Asked { version: Protocol, owner: Option<TenantTimeline> },
    /// Requests and answers.
    Pagestream,
    /// The server has ended the pagestream; the client may not know yet.
    Ended,
    /// Another command.
    Command,
    /// Joined in the middle: what it is has to be seen.
    Unidentified,
    /// Nothing can be read any more.
    Encrypted,
    /// No Postgres protocol, or nothing that concerns us.
    Foreign(Foreign),
}

/// What the reader of a message has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Read on.
    On,
    /// This direction's next message is framed so.
    Frame(Framing),
    /// The other direction's next message is framed so.
    FrameOther(Framing),
    /// The framing is wrong.
    Lose,
    /// Nothing more is of interest, in either direction.
    Ignore,
}

/// A connection's protocol state.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) identity: Identity,
    pub(crate) phase: Phase,
    pub(crate) version: Option<Protocol>,
    pub(crate) pairing: Option<Box<Pairing>>,
    /// Whether it was ever a pagestream.
    pub(crate) was_pagestream: bool,
    /// Whether a base backup was ever asked for.
    pub(crate) was_basebackup: bool,
    /// Answers of version 1 or 2 on a connection of which nothing tells what was asked.
    pub(crate) unasked_answers: u64,
    /// The server has ended the pagestream, and requests from before that may still turn up.
    pub(crate) is_ending: bool,
    /// The connection's opening was not seen.
    pub(crate) is_joined: bool,
    /// What an earlier decoder told of it, until it is seen to be a pagestream.
    pub(crate) remembered: Option<Known>,
    /// Before the start-up is done: what its first bytes look like.
    pub(crate) looks_like: Foreign,
    /// Whether any packet of the client was seen.
    pub(crate) is_client_seen: bool,
    /// The server has been seen to grant CopyBoth, by its word or by an answer.
    is_copy_both: bool,
    /// No answer is missing at this moment.
    pub(crate) is_answering_whole: bool,
    /// The client has given a command.
    has_commanded: bool,
    /// What the server said to an earlier command may still turn up behind a hole, and be taken for answers to this one.
    is_grant_doubtful: bool,
    /// The request that is passing by.
    asking: Asking,
    /// The answer that is passing by, and its first byte's arrival.
    answering: Option<(AnswerHead, Option<Timestamp>)>,
    page: PageWatch,
    is_page: bool,
    seq: Option<u64>,
    epoch: Option<Timestamp>,
    epochs_seen: u64,
}

/// The client's message that is passing by.
#[derive(Debug, Clone, Copy)]
enum Asking {
    Nothing,
    Message(ClientMessage),
    /// A request of which bytes are missing.
    Unread,
}

impl Session {
    pub(crate) fn new(identity: Identity, is_joined: bool, page_hash: bool) -> Self {
        Self {
            identity,
            phase: if is_joined { Phase::Unidentified } else { Phase::Startup },
            version: None,
            pairing: None,
            was_pagestream: false,
            was_basebackup: false,
            unasked_answers: 0,
            is_ending: false,
            is_joined,
            remembered: None,
            looks_like: Foreign::Unknown,
            is_client_seen: false,
            is_copy_both: false,
            is_answering_whole: true,
            has_commanded: false,
            is_grant_doubtful: false,
            asking: Asking::Nothing,
            answering: None,
            page: PageWatch::new(page_hash),
            is_page: false,
            seq: (!is_joined).then_some(0),
            epoch: None,
            epochs_seen: 0,
        }
    }

    /// The connection was taken for one joined in the middle, but this is its beginning.
    pub(crate) fn start_was_seen(&mut self) {
        (self.is_joined, self.seq, self.remembered) = (false, Some(0), None);
    }

    /// A message begins.
    pub(crate) fn head(&mut self, side: Side, framing: Framing, head: &Head<'_>, world: &mut World<'_>) -> Turn {
        match (framing, side) {
            (Framing::Startup, _) => self.startup(head),
            (Framing::OneByte, _) => self.encryption_answer(head.tag, world),
            (_, Side::Client) => self.client_head(head, world),
            (_, Side::Server) => self.server_head(head, world),
        }
    }

    fn startup(&mut self, head: &Head<'_>) -> Turn {
        match Opening::parse(head.body, head.body_bytes) {
            Opening::EncryptionRequest => Turn::FrameOther(Framing::OneByte),
            Opening::Startup { backend_pid } => {
                self.identity.backend_pid = backend_pid;
                self.phase = Phase::Query;
                Turn::Frame(Framing::Typed)
            }
            Opening::Cancel | Opening::Foreign => self.become_foreign(Foreign::Unknown),
        }
    }

    /// The server's single byte to a request for encryption.
    fn encryption_answer(&mut self, byte: u8, world: &mut World<'_>) -> Turn {
        match byte {
            b'S' | b'G' => self.become_encrypted(world),
            b'N' => Turn::Frame(Framing::Typed),
            _ => Turn::Lose,
        }
    }

    pub(crate) fn become_encrypted(&mut self, world: &mut World<'_>) -> Turn {
        if self.phase != Phase::Encrypted {
            world.stats.encrypted_connections = world.stats.encrypted_connections.saturating_add(1);
        }
        self.phase = Phase::Encrypted;
        Turn::Ignore
    }

    pub(crate) fn become_foreign(&mut self, what: Foreign) -> Turn {
        self.phase = Phase::Foreign(what);
        Turn::Ignore
    }

    fn client_head(&mut self, head: &Head<'_>, world: &mut World<'_>) -> Turn {
        match head.tag {
            b'Q' => self.command(Command::parse_query(head.body, head.body_bytes), head, world),
            b'P' => self.command(Command::parse_statement(head.body), head, world),
            b'd' => return self.request_head(head, world),
            // CopyDone, CopyFail, Terminate, Sync, Flush, Bind, Describe, Execute, Close, FunctionCall, password.
            b'c' | b'f' | b'X' | b'S' | b'H' | b'B' | b'D' | b'E' | b'C' | b'F' | b'p' => {}
            _ => return self.unexpected(world),
        }
        Turn::On
    }

    fn command(&mut self, command: Command, head: &Head<'_>, world: &mut World<'_>) {
        let is_first = !std::mem::replace(&mut self.has_commanded, true) && !self.is_joined;
        if let Phase::Pagestream | Phase::Ended = self.phase {
            self.end_pagestream(world);
            self.finish_ending(world);
        }
        (self.is_copy_both, self.remembered) = (false, None);
        self.is_grant_doubtful = !is_first && !self.is_answering_whole;
        self.phase = match command {
            Command::Pagestream { version, owner } => Phase::Asked { version, owner },
            Command::Basebackup { owner } => {
                let at = head.first_at.unwrap_or(world.now);
                world.epochs.note(self.identity.client.ip(), owner.timeline, at);
                self.announce(Purpose::Basebackup, Some(owner), world);
                self.was_basebackup = true;
                Phase::Command
            }
            Command::Other => Phase::Command,
        };
    }

    fn request_head(&mut self, head: &Head<'_>, world: &mut World<'_>) -> Turn {
        self.grant(world);
        let (Phase::Pagestream | Phase::Ended, Some(version)) = (self.phase, self.version) else { return Turn::On };
        self.asking = match ClientMessage::parse(version, head.body, head.body_bytes) {
            Ok(message) => Asking::Message(message),
            Err(_) if is_cut(head) => Asking::Unread,
            Err(_) => return self.unexpected(world),
        };
        Turn::On
    }

    /// A pagestream that was asked for has begun.
    fn grant(&mut self, world: &mut World<'_>) {
        let Phase::Asked { version, owner } = self.phase else { return };
        self.identity.owner = owner;
        self.identity.attribution = owner.map(|_| Attribution::Handshake);
        let pairing = match self.is_grant_doubtful {
            true => Pairing::joined(version),
            false => Pairing::from_start(version, self.seq),
        };
        self.begin_pagestream(version, pairing, world);
    }

    fn begin_pagestream(&mut self, version: Protocol, pairing: Pairing, world: &mut World<'_>) {
        (self.phase, self.is_ending) = (Phase::Pagestream, false);
        self.version = Some(version);
        self.pairing = Some(Box::new(pairing));
        (self.epoch, self.epochs_seen) = (None, 0);
        self.announce(Purpose::Pagestream, self.identity.owner, world);
        if !self.was_pagestream {
            self.was_pagestream = true;
            world.stats.pagestream_connections = world.stats.pagestream_connections.saturating_add(1);
            if self.is_joined {
                world.stats.joined_connections = world.stats.joined_connections.saturating_add(1);
                let told = u64::from(self.identity.owner.is_some());
                world.stats.remembered_connections = world.stats.remembered_connections.saturating_add(told);
            } else if self.identity.owner.is_none() {
                world.stats.unnamed_connections = world.stats.unnamed_connections.saturating_add(1);
            }
        }
    }

    /// Tells what the connection is used for.
    fn announce(&self, purpose: Purpose, owner: Option<TenantTimeline>, world: &mut World<'_>) {
        let (client, server) = (self.identity.client, self.identity.server);
        world.sink.identified(&Identified { at: world.now, client, server, purpose, owner });
    }

    /// Messages of a pagestream were found on a connection that had not been identified.
    pub(crate) fn identify(&mut self, side: Side, version: Protocol, world: &mut World<'_>) {
        match self.phase {
            Phase::Asked { .. } => self.grant(world),
            // Answers of version 1 and 2 look alike: only requests tell them apart.
            _ if side == Side::Server && version != Protocol::V3 => {}
            Phase::Pagestream | Phase::Ended => {}
            _ => {
                self.seq = None;
                let known = self.remembered.take().filter(|known| known.connection.protocol == version);
                let is_followed_late = known.is_some_and(|known| known.was_passed_over());
                let known = known.map(|known| known.connection);
                (self.identity.owner, self.identity.attribution) =
                    known.map_or((None, None), |known| (known.owner, known.attribution));
                self.identity.backend_pid = known.map_or(self.identity.backend_pid, |known| known.backend_pid);
                let pairing = if is_followed_late { Pairing::followed_late(version) } else { Pairing::joined(version) };
                self.begin_pagestream(version, pairing, world);
            }
        }
    }

    fn server_head(&mut self, head: &Head<'_>, world: &mut World<'_>) -> Turn {
        match head.tag {
            b'W' => self.copy_both(world),
            b'd' => return self.answer_head(head, world),
            b'E' => match self.phase {
                Phase::Asked { .. } => self.phase = Phase::Query,
                Phase::Pagestream => self.end_pagestream(world),
                _ => {}
            },
            // Before the grant it is the start-up's: the client's direction may be read ahead of the server's.
            b'Z' if self.phase == Phase::Pagestream && !self.is_copy_both && !self.is_joined => {}
            b'Z' | b'c' if self.phase == Phase::Pagestream => self.end_pagestream(world),
            tag if tag.is_ascii_alphanumeric() && self.phase != Phase::Pagestream => {}
            b'N' | b'S' | b'C' | b'A' | b'R' | b'K' if !self.is_copy_both => {}
            b'N' | b'S' | b'C' | b'A' => {}
            _ => return self.unexpected(world),
        }
        Turn::On
    }

    /// CopyBothResponse: the server grants a pagestream.
    fn copy_both(&mut self, world: &mut World<'_>) {
        self.grant(world);
        if let (Phase::Pagestream | Phase::Ended, true, Some(version)) = (self.phase, self.is_copy_both, self.version) {
            // Another one, whose command was missed.
            self.end_pagestream(world);
            self.finish_ending(world);
            self.seq = None;
            (self.identity.owner, self.identity.attribution) = (None, None);
            self.begin_pagestream(version, Pairing::joined(version), world);
        }
        self.is_copy_both = true;
    }

    /// The framing of the answers was found again behind `bytes` that could not be read. `one_page`: they are proven to be
    /// one whole page answer. `unsettled`: requests before them may still turn up.
    pub(crate) fn answers_lost(&mut self, bytes: u64, one_page: bool, unsettled: bool, world: &mut World<'_>) {
        /// CopyBothResponse: tag, length, format and a count of no columns.
        const COPY_BOTH_BYTES: u64 = 8;
        let loss = match (std::mem::replace(&mut self.is_copy_both, true), self.is_joined) {
            (true, _) => AnswersLost { bytes, are_whole: true, one_page },
            (false, true) => AnswersLost { bytes, are_whole: false, one_page: false },
            (false, false) => {
                AnswersLost { bytes: bytes.saturating_sub(COPY_BOTH_BYTES), are_whole: false, one_page: false }
            }
        };
        self.with_pairing(world, |pairing, out| pairing.answers_lost(loss, unsettled, out));
    }

    fn answer_head(&mut self, head: &Head<'_>, world: &mut World<'_>) -> Turn {
        self.grant(world);
        self.identify_by_answer(head, world);
        let version = match (self.phase, self.version) {
            (Phase::Pagestream | Phase::Ended, Some(version)) => version,
            _ => {
                self.count_unasked(head);
                return Turn::On;
            }
        };
        self.is_copy_both = true;
        let Ok(answer) = AnswerHead::parse(version, head.body, head.body_bytes) else { return self.unexpected(world) };
        self.answering = Some((answer, head.first_at));
        self.is_page = answer.outcome == Outcome::Ok(record::Kind::GetPage);
        if self.is_page {
            let body_at = head.start.saturating_add(head.header as u64);
            self.page.begin(body_at.saturating_add(layout::page_offset(version).into()));
            self.page.bytes(body_at, head.body);
        }
        Turn::On
    }

    /// Where the client's direction is not visible, a granted CopyBoth with answers of version 3 is a pagestream.
    fn identify_by_answer(&mut self, head: &Head<'_>, world: &mut World<'_>) {
        let is_unknown = self.phase == Phase::Unidentified || self.phase == Phase::Startup && !self.is_client_seen;
        let is_open = self.is_copy_both && is_unknown;
        let is_answer = head.body.first().is_some_and(|&tag| layout::is_answer(Protocol::V3, tag, head.body_bytes));
        if is_open && is_answer {
            self.identify(Side::Server, Protocol::V3, world);
        }
    }

    /// Where the client's direction is not visible, what a granted CopyBoth holds may be answers of version 1 or 2.
    fn count_unasked(&mut self, head: &Head<'_>) {
        let is_open = self.is_copy_both && !self.is_client_seen;
        if is_open && head.body.first().is_some_and(|&tag| layout::is_answer(Protocol::V2, tag, head.body_bytes)) {
            self.unasked_answers = self.unasked_answers.saturating_add(1);
        }
    }

    /// A message that cannot stand here.
    fn unexpected(&mut self, world: &mut World<'_>) -> Turn {
        match self.phase {
            Phase::Pagestream => {
                world.stats.malformed = world.stats.malformed.saturating_add(1);
                Turn::Lose
            }
            Phase::Ended | Phase::Unidentified => Turn::Lose,
            _ => self.become_foreign(Foreign::Unknown),
        }
    }

    /// Bytes of the message that is passing by.
    pub(crate) fn body(&mut self, side: Side, at: u64, bytes: &[u8]) {
        if side == Side::Server && self.is_page {
            self.page.bytes(at, bytes);
        }
    }

    /// The message is over.
    pub(crate) fn end(&mut self, side: Side, passed: Passed, world: &mut World<'_>) {
        match side {
            Side::Client => self.request_end(passed, world),
            Side::Server => self.answer_end(passed, world),
        }
    }

    fn request_end(&mut self, passed: Passed, world: &mut World<'_>) {
        let asking = std::mem::replace(&mut self.asking, Asking::Nothing);
        self.refresh_epoch(world);
        // What was delivered later than it came, behind a hole, met another state of the answers.
        let countable = self.is_answering_whole && passed.deliverable == world.now;
        let arrival = Arrival { at: passed.deliverable, known: passed.is_timed, countable, epoch: self.epoch };
        self.with_pairing(world, |pairing, out| match asking {
            Asking::Nothing => {}
            Asking::Message(message) => pairing.request(message, arrival, out),
            Asking::Unread => pairing.request_unread(passed.is_timed.then_some(passed.deliverable), out),
        });
        if let Some(pairing) = &self.pairing {
            self.seq = pairing.next_seq();
        }
    }

    fn answer_end(&mut self, passed: Passed, world: &mut World<'_>) {
        let Some((head, first_at)) = self.answering.take() else { return };
        let page = if self.is_page { self.page.finish() } else { PageFacts::default() };
        self.is_page = false;
        let answer = Answer { head, first_at, last_at: passed.last_at, page };
        let (now, unsettled) = (world.now, passed.unsettled);
        self.with_pairing(world, |pairing, out| pairing.answer(&answer, now, unsettled, out));
    }

    /// The latest base backup of this timeline by this client, looked up again only when one has been seen since.
    fn refresh_epoch(&mut self, world: &World<'_>) {
        if world.epochs.count() != self.epochs_seen {
            self.epochs_seen = world.epochs.count();
            self.epoch =
                self.identity.owner.and_then(|owner| world.epochs.latest(self.identity.client.ip(), owner.timeline));
        }
    }

    /// The pagestream is over, as far as the server is concerned. Requests that it answered may not have been read yet.
    fn end_pagestream(&mut self, world: &mut World<'_>) {
        (self.phase, self.is_ending) = (Phase::Ended, true);
        self.cut_answer(world);
    }

    /// The requests have been read up to the end: what is pending stays unanswered, as do later requests.
    pub(crate) fn finish_ending(&mut self, world: &mut World<'_>) {
        self.is_ending = false;
        self.with_pairing(world, |pairing, out| pairing.end(out));
    }

    /// Gives up what has waited for too long. If an answer has begun by then it is taken as it is: its request has been
    /// answered, however long the rest may take.
    pub(crate) fn expire(&mut self, now: Timestamp, world: &mut World<'_>) {
        if self.pairing.as_ref().is_some_and(|pairing| pairing.is_overdue(now)) {
            self.cut_answer(world);
        }
        self.with_pairing(world, |pairing, out| pairing.expire(now, out));
    }

    /// The stream ends here: an answer that is passing by will not be whole, but it has begun.
    pub(crate) fn cut_answer(&mut self, world: &mut World<'_>) {
        let passed = Passed { last_at: None, is_timed: false, deliverable: world.now, unsettled: false };
        self.answer_end(passed, world);
    }

    /// The connection is over.
    pub(crate) fn close(&mut self, world: &mut World<'_>) {
        self.cut_answer(world);
        self.with_pairing(world, |pairing, out| pairing.end(out));
        self.pairing = None;
        self.answering = None;
    }

    /// The framing of one direction is lost; `cut` where all that is missing so far lay in one packet.
    pub(crate) fn lost(&mut self, side: Side, cut: Option<Cut>, world: &mut World<'_>) {
        match side {
            Side::Client => {
                // Only a pagestream that is granted has more to come from the client.
                self.grant(world);
                (self.asking, self.seq) = (Asking::Nothing, None);
                self.with_pairing(world, |pairing, out| pairing.requests_lost_begin(cut, out));
            }
            Side::Server => {
                (self.answering, self.is_page) = (None, false);
                self.with_pairing(world, |pairing, _| pairing.forget_depths());
            }
        }
    }

    /// Calls `act` with the pairing and where its records go.
    pub(crate) fn with_pairing(&mut self, world: &mut World<'_>, act: impl FnOnce(&mut Pairing, &mut Emitter<'_>)) {
        let Some(pairing) = &mut self.pairing else { return };
        let version = pairing.version();
        act(pairing, &mut Emitter { identity: &self.identity, version, stats: world.stats, sink: world.sink });
    }
}

/// How a message passed by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    pub(crate) last_at: Option<Timestamp>,
    pub(crate) is_timed: bool,
    pub(crate) deliverable: Timestamp,
    /// Requests may still turn up that came before it.
    pub(crate) unsettled: bool,
}

/// Whether a gap cut off part of what is wanted of a message's beginning.
fn is_cut(head: &Head<'_>) -> bool {
    head.body.len() < layout::HEAD_BYTES.min(head.body_bytes as usize)
}
