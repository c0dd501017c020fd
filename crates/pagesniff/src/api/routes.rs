//! Which request goes where, and what is done for all of them: who it is, how fast it asks, and the audit log's line.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, DefaultBodyLimit, MatchedPath, Path, Query, RawPathParams, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, RequestExt, Router};
use record::{TenantShardId, TenantTimeline};

use super::audit::Begun;
use super::caller::{Caller, Report};
use super::page_trace::{PageTrace, Parameters};
use super::reply::Refusal;
use super::server::Api;
use super::take::{Asked, ForTheLog};
use super::{captures, live, page, status};
use crate::daemon::words::Wanted;

/// What there is. `docs/openapi.json` says the same at length.
pub const ROUTES: [(&str, &str); 20] = [
    ("get", "/"),
    ("get", "/page/{file}"),
    ("get", "/healthz"),
    ("get", "/metrics"),
    ("get", "/v1/openapi.json"),
    ("get", "/v1/caller"),
    ("get", "/v1/status"),
    ("get", "/v1/connections"),
    ("get", "/v1/tenants"),
    ("get", "/v1/reports"),
    ("get", PAGE_TRACE),
    ("get", "/v1/captures"),
    ("post", "/v1/captures"),
    ("get", "/v1/captures/{id}"),
    ("delete", "/v1/captures/{id}"),
    ("get", "/v1/captures/{id}/trace"),
    ("get", "/v1/captures/{id}/report"),
    ("get", "/v1/snapshots"),
    ("post", "/v1/snapshots"),
    ("get", "/v1/live"),
];

/// Neon's own route.
const PAGE_TRACE: &str = "/v1/tenant/{tenant_shard_id}/timeline/{timeline_id}/page_trace";

/// For everybody: a probe has no token, and neither has who opens the page that asks for one.
const OPEN_ROUTES: [&str; 3] = ["/healthz", "/", "/page/{file}"];

/// A capture's filters may name a thousand relations.
const MOST_BODY_BYTES: usize = 64 << 10;

/// Of an address that leads nowhere, and of a value, so much is written to the log.
const MOST_LOGGED_BYTES: usize = 128;

/// What comes behind a page trace, for those who ask for trailers (RFC 9110, 6.5).
const TRAILERS: &str = "pagesniff-lost-requests, pagesniff-sampled-out-requests";

/// Parameters whose values the log has. What else stands in an address may be a token that was put there by mistake.
const LOGGED: [&str; 10] =
    ["size_limit_bytes", "time_limit_secs", "format", "cursor", "tenant", "timeline", "rel", "by", "rows", "id"];

/// The API.
pub(super) fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/", get(page::frame))
        .route("/page/{file}", get(page::file))
        .route("/healthz", get(status::healthz))
        .route("/metrics", get(status::metrics))
        .route("/v1/openapi.json", get(openapi))
        .route("/v1/caller", get(status::caller))
        .route("/v1/status", get(status::status))
        .route("/v1/connections", get(status::connections))
        .route("/v1/tenants", get(status::tenants))
        .route("/v1/reports", get(status::reports))
        .route(PAGE_TRACE, get(page_trace))
        .route("/v1/captures", get(captures::list).post(captures::begin))
        .route("/v1/captures/{id}", get(captures::one).delete(captures::delete))
        .route("/v1/captures/{id}/trace", get(captures::trace))
        .route("/v1/captures/{id}/report", get(captures::report))
        .route("/v1/snapshots", get(captures::snapshots).post(captures::snapshot))
        .route("/v1/live", get(live::live))
        .fallback(|| async { Refusal::not_found() })
        .method_not_allowed_fallback(|| async { Refusal::wrong_method() })
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
        .layer(from_fn_with_state(Arc::clone(&api), watch))
        .with_state(api)
}

/// Around every request.
async fn watch(
    State(api): State<Arc<Api>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let is_open = route.as_deref().is_some_and(|route| OPEN_ROUTES.contains(&route));
    let what = route.unwrap_or_else(|| beginning(request.uri().path()));
    let mut begun = Begun::new(&api.audit, from, format!("{} {what}", request.method()));
    begun.entry().parameters = parameters(&mut request).await;
    let wanted = ForTheLog::default();
    request.extensions_mut().insert(wanted.clone());
    let response = match is_open {
        true => next.run(request).await,
        false => match admit(&api, &mut request) {
            Ok(name) => {
                begun.entry().who = Some(name);
                next.run(request).await
            }
            Err((name, refusal)) => {
                begun.entry().who = name;
                refusal.into_response()
            }
        },
    };
    begun.entry().wanted = wanted.0.get().cloned();
    let (mut parts, body) = response.into_parts();
    // What a browser makes of an answer is what it is said to be.
    parts.headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Response::from_parts(parts.clone(), begun.answered(parts.status, body))
}

/// Says who it is, for handlers, and counts the request.
fn admit(api: &Api, request: &mut Request) -> Result<String, (Option<String>, Refusal)> {
    let caller = api.authority.caller(request.headers()).map_err(|refusal| (None, refusal))?;
    let name = caller.name.clone();
    api.quota.request(&caller, Instant::now()).map_err(|refusal| (Some(name.clone()), refusal))?;
    request.extensions_mut().insert(caller);
    Ok(name)
}

/// What stands in the address, as far as it is known what it is.
async fn parameters(request: &mut Request) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    if let Ok(path) = request.extract_parts::<RawPathParams>().await {
        parameters.extend(path.iter().map(|(name, value)| (name.to_owned(), beginning(value))));
    }
    if let Ok(Query(query)) = request.extract_parts::<Query<BTreeMap<String, String>>>().await {
        let known = query.into_iter().filter(|(name, _)| LOGGED.contains(&name.as_str()));
        parameters.extend(known.map(|(name, value)| (name, beginning(&value))));
    }
    parameters
}

fn beginning(text: &str) -> String {
    let end = (0..=MOST_LOGGED_BYTES).rev().find(|&end| text.is_char_boundary(end.min(text.len()))).unwrap_or(0);
    text.get(..end.min(text.len())).unwrap_or_default().to_owned()
}

/// `GET /v1/openapi.json`
async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../../../../docs/openapi.json"))
}

/// Neon's page trace, from now on.
async fn page_trace(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path((tenant, timeline)): Path<(String, String)>,
    Asked(parameters): Asked<Parameters>,
) -> Result<Response, Refusal> {
    api.check(&caller, Report::PageTrace)?;
    api.check_tenant(&caller, &tenant)?;
    let Parameters { size_limit_bytes, time_limit_secs, format } = parameters;
    let duration = Duration::from_secs(time_limit_secs);
    if duration > caller.bounds.duration || size_limit_bytes > caller.bounds.bytes {
        let (seconds, bytes) = (caller.bounds.duration.as_secs(), caller.bounds.bytes);
        return Err(Refusal::forbidden(format!(
            "time_limit_secs and size_limit_bytes: at most {seconds} and {bytes} are yours"
        )));
    }
    let owner = owner(&tenant, &timeline)?;
    let wanted = Wanted { timeline: vec![timeline], ..Wanted::of_tenant(tenant, duration) };
    let (subscription, stream) = api.subscribe(&caller, wanted).await?;
    let body = PageTrace::body(subscription, stream, (format, size_limit_bytes), (owner, &api.hub.instance()))?;
    let headers = [(header::CONTENT_TYPE, format.media_type()), (header::TRAILER, TRAILERS)];
    Ok((headers, body).into_response())
}

/// What stands in the address, without the shard's number.
fn owner(tenant: &str, timeline: &str) -> Result<TenantTimeline, Refusal> {
    let wrong = |what: &str, text: &str| Refusal::bad_request(format!("{what}: {text} is none"));
    let shard: TenantShardId = tenant.parse().map_err(|_| wrong("tenant_shard_id", tenant))?;
    let timeline = timeline.parse().map_err(|_| wrong("timeline_id", timeline))?;
    Ok(TenantTimeline { tenant: shard.tenant, timeline })
}
