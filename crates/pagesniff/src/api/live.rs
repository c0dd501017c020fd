//! Live figures as server-sent events, one a second.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use analysis::live::{By, Wanted as WantedRows};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http_body::Frame;
use record::Record;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::caller::{Caller, Report, Tenants};
use super::quota::Stream;
use super::reply::Refusal;
use super::server::Api;
use super::take::{Asked, blocking};
use crate::clock::wall_clock;
use crate::daemon::watched::{TICK_NS, Watched};
use crate::daemon::words::Wanted;
use crate::daemon::{Hub, Subscription};

/// How often figures go out.
const TICK: Duration = Duration::from_nanos(TICK_NS);

/// Rows of a view that are sent where nobody says how many: more than a page shows.
const ROWS: usize = 50;

/// Events that wait for a slow reader; later ones are left out, as each says all.
const MOST_EVENTS: usize = 2;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    tenant: Option<String>,
    timeline: Option<String>,
    rel: Option<String>,
    #[serde(default)]
    by: Rows,
    rows: Option<usize>,
}

/// By what requests are put together: a view for each, `rel,client`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Rows(Vec<By>);

impl Default for Rows {
    fn default() -> Self {
        Self(vec![By::Rel])
    }
}

impl TryFrom<String> for Rows {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut all = Vec::new();
        for word in text.split(',') {
            let is_it = |by: &By| by.as_str().replace('-', "_") == word;
            let by = By::ALL
                .into_iter()
                .find(is_it)
                .ok_or("by: give tenant, rel, client or key_range, or several: rel,client")?;
            // What is asked for twice is given once.
            if !all.contains(&by) {
                all.push(by);
            }
        }
        Ok(Self(all))
    }
}

/// `GET /v1/live`
pub(super) async fn live(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Asked(parameters): Asked<Parameters>,
) -> Result<Response, Refusal> {
    api.check(&caller, Report::Live)?;
    let is_for_all = caller.tenants == Tenants::All;
    match &parameters.tenant {
        Some(tenant) => api.check_tenant(&caller, tenant)?,
        None if is_for_all => {}
        None => return Err(Refusal::forbidden("tenant: name yours; everybody's are not for you")),
    }
    let Rows(by) = parameters.by;
    let rows = parameters.rows.unwrap_or(ROWS);
    let wanted = Wanted {
        tenant: parameters.tenant.into_iter().collect(),
        timeline: parameters.timeline.into_iter().collect(),
        rel: parameters.rel.into_iter().collect(),
        ..Wanted::of_tenant(String::new(), caller.bounds.duration)
    };
    let permit = Arc::clone(&api.live).try_acquire_owned();
    let permit = permit.map_err(|_| Refusal::too_many("too many read live figures: wait"))?;
    let (subscription, stream) = api.subscribe(&caller, wanted).await?;
    let (events, body) = channel(MOST_EVENTS);
    let reader = Reader { watched: Watched::new(), by, rows, is_for_all, hub: Arc::clone(&api.hub), events };
    tokio::spawn(reader.run(subscription, (stream, permit)));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(Events(body))).into_response())
}

/// What one reader is given.
struct Reader {
    watched: Watched,
    by: Vec<By>,
    rows: usize,
    /// How many connections there are is not for those who may not know of others.
    is_for_all: bool,
    hub: Arc<Hub>,
    events: Sender<Bytes>,
}

/// What comes next.
enum Next {
    Records(Vec<Record>),
    Tick,
    End,
}

impl Reader {
    /// Until the reader leaves, or its time is over.
    async fn run(mut self, mut subscription: Subscription, _places: (Stream, OwnedSemaphorePermit)) {
        let mut ticks = interval_at(Instant::now() + TICK, TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            match next(&mut subscription, &mut ticks).await {
                Next::Records(records) => self.watched.observe(&records),
                Next::End => return,
                Next::Tick => {
                    if self.events.is_closed() {
                        return;
                    }
                    self.tick(subscription.too_slow()).await;
                }
            }
        }
    }

    async fn tick(&mut self, too_slow: u64) {
        let hub = Arc::clone(&self.hub);
        let is_for_all = self.is_for_all;
        let looked = blocking(move || {
            let open = if is_for_all { hub.open_connections().map_err(Refusal::failed)?.len() as u64 } else { 0 };
            Ok((hub.workers().map_err(Refusal::failed)?, open, wall_clock()))
        });
        let Ok((workers, open, now)) = looked.await else { return };
        self.watched.tick(now, &workers, too_slow);
        let mut snapshot = self.watched.snapshot(WantedRows { by: &self.by, rows: self.rows });
        snapshot.capture.open_connections = open;
        let Ok(Json(text)) = serde_json::to_string(&snapshot).map(Json) else { return };
        let _ = self.events.try_send(format!("data: {text}\n\n").into());
    }
}

async fn next(subscription: &mut Subscription, ticks: &mut Interval) -> Next {
    poll_fn(|cx| {
        // The tick first: a stream without a pause would let it wait for ever.
        if ticks.poll_tick(cx).is_ready() {
            return Poll::Ready(Next::Tick);
        }
        subscription.poll_next(cx).map(|records| records.map_or(Next::End, Next::Records))
    })
    .await
}

/// The events as a body.
struct Events(Receiver<Bytes>);

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
