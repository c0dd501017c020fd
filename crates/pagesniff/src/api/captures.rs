//! Captures and snapshots: to begin, look at, download, diagnose and delete them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use record::{TenantId, TenantShardId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::archive::Archive;
use super::caller::{Caller, Report};
use super::reply::Refusal;
use super::server::Api;
use super::take::{Asked, Named, Sent, blocking};
use crate::daemon::words::{TraceState, TraceStatus, Wanted};
use crate::report;

/// What tells a snapshot's name from a capture's.
const SNAPSHOT: &str = "snapshot-";

/// A capture as a caller sees it: where it is on this machine is no business of theirs.
fn seen(status: &TraceStatus) -> Result<Value, Refusal> {
    let mut value = serde_json::to_value(status).map_err(|error| Refusal::failed(error.to_string()))?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("directory");
    }
    Ok(value)
}

/// `GET /v1/captures`
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let traces = api.hub.traces();
    let of_caller = traces.iter().filter(|status| caller.may_see_all(&tenants_of(status)));
    of_caller.map(seen).collect::<Result<_, _>>().map(Json)
}

/// `POST /v1/captures`
pub(super) async fn begin(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Sent(mut wanted): Sent<Wanted>,
) -> Result<Response, Refusal> {
    api.check(&caller, Report::Captures)?;
    check_tenants(&caller, &wanted.tenant)?;
    let (longest, most_bytes) = (caller.bounds.duration, caller.bounds.bytes);
    if Duration::from_millis(wanted.duration_ms) > longest {
        return Err(Refusal::forbidden(format!("duration_ms: at most {} are yours", longest.as_millis())));
    }
    if wanted.max_bytes.is_some_and(|bytes| bytes > most_bytes) {
        return Err(Refusal::forbidden(format!("max_bytes: at most {most_bytes} are yours")));
    }
    wanted.max_bytes = wanted.max_bytes.or(Some(most_bytes.min(api.default_bytes)));
    let status = blocking(move || {
        let is_running = |id: &str| api.is_running(id);
        let begin = || {
            let status = api.hub.begin_trace(&wanted).map_err(Refusal::conflict)?;
            Ok((status.id.clone(), status))
        };
        wanted.filter().map_err(Refusal::bad_request)?;
        wanted.duration().map_err(Refusal::bad_request)?;
        api.quota.capture(&caller, is_running, begin)
    })
    .await?;
    let place = format!("/v1/captures/{}", status.id);
    let place = HeaderValue::from_str(&place).map_err(|error| Refusal::failed(error.to_string()))?;
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(seen(&status)?)).into_response())
}

/// All of what is asked for must be the caller's; that it exists elsewhere is not told.
fn check_tenants(caller: &Caller, tenants: &[String]) -> Result<(), Refusal> {
    let tenants: Vec<TenantId> = tenants
        .iter()
        .map(|text| {
            let wanted = text.parse::<TenantShardId>();
            wanted.map(|wanted| wanted.tenant).map_err(|error| Refusal::bad_request(format!("tenant: {text}: {error}")))
        })
        .collect::<Result<_, _>>()?;
    match caller.may_see_all(&tenants) {
        true => Ok(()),
        false if tenants.is_empty() => Err(Refusal::forbidden("tenant: name yours; everybody's are not for you")),
        false => Err(Refusal::not_found()),
    }
}

fn tenants_of(status: &TraceStatus) -> Vec<TenantId> {
    status.tenants.iter().filter_map(|text| text.parse().ok()).collect()
}

/// A capture of the caller's.
fn capture(api: &Api, caller: &Caller, id: &str) -> Result<TraceStatus, Refusal> {
    let status = api.hub.traces().into_iter().find(|status| status.id == id);
    status.filter(|status| caller.may_see_all(&tenants_of(status))).ok_or_else(Refusal::not_found)
}

/// `GET /v1/captures/{id}`
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
) -> Result<Json<Value>, Refusal> {
    seen(&capture(&api, &caller, &id)?).map(Json)
}

/// `DELETE /v1/captures/{id}`
pub(super) async fn delete(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
) -> Result<StatusCode, Refusal> {
    api.check(&caller, Report::Captures)?;
    let status = capture(&api, &caller, &id)?;
    blocking(move || {
        if status.state == TraceState::Running {
            api.hub.end_trace(&id).map_err(Refusal::failed)?;
        }
        api.hub.delete_trace(&id).map_err(Refusal::conflict)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The files of a capture that has ended, or of a snapshot.
fn files(api: &Api, caller: &Caller, id: &str) -> Result<PathBuf, Refusal> {
    let directory = match id.strip_prefix(SNAPSHOT) {
        Some(name) => {
            let kept = api.hub.snapshot_of(name).filter(|kept| caller.may_see_all(&kept.tenants));
            kept.ok_or_else(Refusal::not_found)?.directory
        }
        None => {
            let status = capture(api, caller, id)?;
            if status.state == TraceState::Running {
                return Err(Refusal::conflict(format!(
                    "it still runs: it ends {} ms after {} ns; DELETE ends and deletes it",
                    status.duration_ms, status.started_ns
                )));
            }
            status.directory
        }
    };
    match directory.is_dir() {
        true => Ok(directory),
        false => Err(Refusal::gone("its files had to make room for younger ones")),
    }
}

/// Where a download goes on.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cursor {
    /// The first byte that is wanted.
    cursor: Option<u64>,
}

/// `GET /v1/captures/{id}/trace`: a tar archive, whole or from a byte on.
pub(super) async fn trace(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    Asked(Cursor { cursor }): Asked<Cursor>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let directory = files(&api, &caller, &id)?;
    let name = id.clone();
    let archive = blocking(move || Archive::of(&directory, &name).map_err(|error| Refusal::failed(error.to_string())));
    let archive = archive.await?;
    let (length, range) = (archive.length(), from_byte(&headers));
    let from = cursor.or(range).unwrap_or(0);
    if from > length {
        let whole = [(header::CONTENT_RANGE, format!("bytes */{length}"))];
        return Ok((StatusCode::RANGE_NOT_SATISFIABLE, whole).into_response());
    }
    let mut response = archive.from(from).into_response();
    let set = response.headers_mut();
    let texts = [
        (header::CONTENT_TYPE, "application/x-tar".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{id}.tar\"")),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (header::CONTENT_LENGTH, length.saturating_sub(from).to_string()),
    ];
    for (name, text) in texts {
        set.insert(name, HeaderValue::from_str(&text).map_err(|error| Refusal::failed(error.to_string()))?);
    }
    if range.is_some() && from < length {
        let range = format!("bytes {from}-{}/{length}", length.saturating_sub(1));
        let range = HeaderValue::from_str(&range).map_err(|error| Refusal::failed(error.to_string()))?;
        response.headers_mut().insert(header::CONTENT_RANGE, range);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

/// `Range: bytes=N-` (RFC 9110, 14.2); of other ranges, as that section allows, the whole is given.
fn from_byte(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(header::RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
}

/// In what form a report is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    #[default]
    Html,
    Json,
}

/// The parameters of a report.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportParameters {
    #[serde(default)]
    format: Form,
}

/// `GET /v1/captures/{id}/report`
pub(super) async fn report(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    Asked(ReportParameters { format }): Asked<ReportParameters>,
) -> Result<Response, Refusal> {
    api.check(&caller, Report::Captures)?;
    let directory = files(&api, &caller, &id)?;
    let _place = api.reports.acquire().await.map_err(|error| Refusal::failed(error.to_string()))?;
    let text = blocking(move || diagnosis(&directory, format)).await?;
    let media_type = match format {
        Form::Html => "text/html; charset=utf-8",
        Form::Json => "application/json",
    };
    Ok(([(header::CONTENT_TYPE, media_type)], Body::from(text)).into_response())
}

fn diagnosis(directory: &Path, format: Form) -> Result<String, Refusal> {
    let text = match format {
        Form::Html => report::page_of(directory),
        Form::Json => report::json_of(directory),
    };
    // Its text would name directories of this machine.
    text.map_err(|_| Refusal::conflict("there is nothing to report of: no request came"))
}

/// `GET /v1/snapshots`: those that are there, of the caller's tenants.
pub(super) async fn snapshots(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let kept = blocking(move || Ok(api.hub.snapshots())).await?;
    let of_caller = kept.iter().filter(|kept| caller.may_see_all(&kept.tenants));
    let seen = of_caller.map(|kept| {
        json!({
            "id": format!("{SNAPSHOT}{}", kept.id),
            "tenant": kept.tenants.first().map(ToString::to_string),
            "taken_ns": kept.taken.0,
            "bytes": kept.bytes,
            "trigger": kept.trigger,
        })
    });
    Ok(Json(seen.collect()))
}

/// What a snapshot is wanted of.
#[derive(Debug, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WantedSnapshot {
    tenant: String,
    last_ms: u64,
}

/// `POST /v1/snapshots`
pub(super) async fn snapshot(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Sent(wanted): Sent<WantedSnapshot>,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    api.check(&caller, Report::Snapshots)?;
    check_tenants(&caller, std::slice::from_ref(&wanted.tenant))?;
    let last = Duration::from_millis(wanted.last_ms);
    let tenant = wanted.tenant.clone();
    let taken = blocking(move || api.hub.snapshot(&tenant, last).map_err(Refusal::conflict)).await?;
    let id = format!("{SNAPSHOT}{}", taken.id);
    let seen = json!({"id": id, "tenant": wanted.tenant, "requests": taken.requests, "bytes": taken.bytes});
    Ok((StatusCode::CREATED, Json(seen)))
}
