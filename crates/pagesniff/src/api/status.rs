//! How the daemon is, and who is connected.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use record::TenantId;
use serde_json::{Value, json};

use super::caller::{Caller, EVERY_TENANT, Tenants};
use super::metrics;
use super::reply::Refusal;
use super::server::Api;
use super::take::blocking;
use crate::daemon::words::{ConnectionStatus, Status, TenantStatus};

/// `GET /healthz`: that capturing threads answer. For everybody.
pub(super) async fn healthz(State(api): State<Arc<Api>>) -> Result<&'static str, Refusal> {
    blocking(move || api.hub.workers().map_err(Refusal::failed)).await?;
    Ok("ok\n")
}

/// `GET /metrics`
pub(super) async fn metrics(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Refusal> {
    api.check_admin(&caller)?;
    let text = blocking(move || {
        let (status, tenants) = (api.hub.status(), api.hub.tenants());
        Ok(metrics::text(&status.map_err(Refusal::failed)?, &tenants.map_err(Refusal::failed)?))
    });
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.await?).into_response())
}

/// `GET /v1/caller`: what is for whoever asks, so that nobody has to be refused to find out.
pub(super) async fn caller(Extension(caller): Extension<Caller>) -> Json<Value> {
    let tenants = match &caller.tenants {
        Tenants::All => vec![EVERY_TENANT.to_owned()],
        Tenants::These(these) => these.iter().map(ToString::to_string).collect(),
    };
    Json(json!({
        "name": caller.name,
        "tenants": tenants,
        "reports": caller.reports,
        "is_admin": caller.is_admin,
        "max_duration_secs": caller.bounds.duration.as_secs(),
        "max_bytes": caller.bounds.bytes,
        "max_running": caller.bounds.running,
    }))
}

/// `GET /v1/status`
pub(super) async fn status(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Status>, Refusal> {
    api.check_admin(&caller)?;
    blocking(move || api.hub.status().map_err(Refusal::failed)).await.map(Json)
}

/// `GET /v1/connections`: of the caller's tenants.
pub(super) async fn connections(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<ConnectionStatus>>, Refusal> {
    let mut connections = blocking(move || api.hub.connections().map_err(Refusal::failed)).await?;
    connections.retain(|connection| match &connection.tenant {
        Some(tenant) => is_of(&caller, tenant),
        None => caller.tenants == Tenants::All,
    });
    Ok(Json(connections))
}

/// `GET /v1/tenants`: those of the caller's that are connected, or have had requests.
pub(super) async fn tenants(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<TenantStatus>>, Refusal> {
    let mut tenants = blocking(move || api.hub.tenants().map_err(Refusal::failed)).await?;
    tenants.retain(|tenant| is_of(&caller, &tenant.tenant));
    Ok(Json(tenants))
}

fn is_of(caller: &Caller, tenant: &str) -> bool {
    tenant.parse::<TenantId>().is_ok_and(|tenant| caller.may_see(tenant))
}

/// `GET /v1/reports`: what can be asked for, with how long it takes and how large it is.
pub(super) async fn reports() -> Json<Value> {
    Json(json!([
        {
            "name": "page_trace",
            "method": "GET",
            "path": "/v1/tenant/{tenant_shard_id}/timeline/{timeline_id}/page_trace",
            "what": "every GetPage from now on, as Neon's own page trace (36 bytes each) or as JSON Lines with latencies",
            "typical_seconds": 5,
            "typical_bytes": 1_048_576
        },
        {
            "name": "captures",
            "method": "POST",
            "path": "/v1/captures",
            "what": "every request for some time, as trace files, and the diagnosis of them",
            "typical_seconds": 30,
            "typical_bytes": 10_000_000
        },
        {
            "name": "snapshots",
            "method": "POST",
            "path": "/v1/snapshots",
            "what": "the latest minutes of a tenant out of the flight recorder, as trace files, and the diagnosis of them",
            "typical_seconds": 1,
            "typical_bytes": 10_000_000
        },
        {
            "name": "live",
            "method": "GET",
            "path": "/v1/live",
            "what": "rates, classes and latencies of a tenant once a second, by relation, key range or client",
            "typical_seconds": 60,
            "typical_bytes": 600_000
        }
    ]))
}
