//! Answers that are no success, in Neon's form: `{"msg": "…"}`.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
    header: Option<(HeaderName, &'static str)>,
}

#[derive(Serialize)]
struct Message {
    msg: String,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), header: None }
    }

    /// Nobody knows who that is.
    pub(super) fn unauthorized(message: String) -> Self {
        Self { header: Some((header::WWW_AUTHENTICATE, "Bearer")), ..Self::new(StatusCode::UNAUTHORIZED, message) }
    }

    /// Not for this caller, who may know that it is there.
    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// There is no such thing, or the caller is not to know that there is.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such thing here")
    }

    /// There is something, but it cannot be asked for in this way.
    pub(super) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "another method: /v1/openapi.json says which")
    }

    /// What is asked makes no sense.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// It cannot be done as things stand.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// Later, perhaps.
    pub(super) fn too_many(message: impl Into<String>) -> Self {
        Self { header: Some((header::RETRY_AFTER, "1")), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    /// What was there before has gone.
    pub(super) fn gone(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, message)
    }

    /// The daemon could not.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Message { msg: self.message })).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
