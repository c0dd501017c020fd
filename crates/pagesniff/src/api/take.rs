//! What handlers take out of a request, and where they wait.

use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::{Json, RequestPartsExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::reply::Refusal;

/// A body of JSON, which the audit log has, too.
pub(super) struct Sent<T>(pub(super) T);

/// Where a handler leaves what was sent.
#[derive(Debug, Clone, Default)]
pub(super) struct ForTheLog(pub(super) std::sync::Arc<std::sync::OnceLock<serde_json::Value>>);

impl<T: DeserializeOwned + Serialize, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let log = request.extensions().get::<ForTheLog>().cloned().unwrap_or_default();
        let body = Json::<T>::from_request(request, state).await;
        let Json(value) = body.map_err(|rejection: JsonRejection| Refusal::bad_request(rejection.body_text()))?;
        if let Ok(text) = serde_json::to_value(&value) {
            let _ = log.0.set(text);
        }
        Ok(Self(value))
    }
}

/// What stands behind the question mark.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(asked)| Self(asked)).map_err(|rejection| Refusal::bad_request(rejection.body_text()))
    }
}

/// The one name in the address.
pub(super) struct Named(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Path(name) = parts.extract::<Path<String>>().await.map_err(|_| Refusal::not_found())?;
        Ok(Self(name))
    }
}

/// Does what may wait, for the disk or a capturing thread, on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::failed("a fault in pagesniff"))?
}
