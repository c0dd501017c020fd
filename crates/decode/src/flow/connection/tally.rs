//! What a connection is counted as once it is over.

use super::Connection;
use crate::pgwire::startup::Foreign;
use crate::session::{Phase, World};
use crate::stats::Stats;

impl Connection {
    /// Counts a connection that is over.
    pub(super) fn count(&self, world: &mut World<'_>) {
        let stats = &mut *world.stats;
        if self.session.was_pagestream && (self.seen.client != self.seen.server) {
            stats.one_way_connections = stats.one_way_connections.saturating_add(1);
        }
        match (self.halves.client.has_delivered(), self.halves.server.has_delivered()) {
            _ if self.seen.client == self.seen.server => {}
            (true, _) => stats.client_only_connections = stats.client_only_connections.saturating_add(1),
            (false, true) => stats.server_only_connections = stats.server_only_connections.saturating_add(1),
            (false, false) => {}
        }
        let counter = match self.session.phase {
            _ if self.session.was_pagestream => return,
            Phase::Encrypted => return,
            Phase::Startup | Phase::Unidentified if !self.session.was_basebackup => {
                self.count_unidentified(stats);
                &mut stats.unidentified_connections
            }
            _ if self.session.was_basebackup => {
                stats.basebackup_connections = stats.basebackup_connections.saturating_add(1);
                &mut stats.other_connections
            }
            Phase::Foreign(Foreign::Http) => {
                stats.http_connections = stats.http_connections.saturating_add(1);
                &mut stats.other_connections
            }
            Phase::Foreign(Foreign::Http2) => {
                self.count_http2(stats);
                &mut stats.other_connections
            }
            _ => &mut stats.other_connections,
        };
        *counter = counter.saturating_add(1);
    }

    fn count_unidentified(&self, stats: &mut Stats) {
        if self.seen.client != self.seen.server {
            stats.one_way_unidentified = stats.one_way_unidentified.saturating_add(1);
        }
        let answers = self.session.unasked_answers;
        if answers > 0 && !self.seen.client {
            stats.unasked_connections = stats.unasked_connections.saturating_add(1);
            stats.unasked_answers = stats.unasked_answers.saturating_add(answers);
            stats.lost_requests = stats.lost_requests.saturating_add(answers);
        }
    }
}
