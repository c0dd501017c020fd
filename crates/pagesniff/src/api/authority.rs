//! Says who a request is from, by the token that it shows.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use axum::http::{HeaderMap, header};

use super::caller::{Bounds, Caller};
use super::config::AuthenticationConfig;
use super::jwt::Keys;
use super::reply::Refusal;
use super::tokens::{Found, Tokens};
use crate::terminal::say;

/// What the audit log calls those who did not have to say who they are.
const ANYONE: &str = "anyone";

/// The longest token that is looked at; Neon's have some 300 letters.
const MOST_TOKEN_BYTES: usize = 4096;

/// Who knows the tokens.
pub(super) struct Authority {
    tokens: Option<Mutex<Watched>>,
    keys: Option<Keys>,
    bounds: Bounds,
}

/// The file of tokens, and what was wrong with it last.
struct Watched {
    tokens: Tokens,
    problem: Option<String>,
}

impl Authority {
    /// Reads tokens and keys.
    ///
    /// # Errors
    ///
    /// One line: the file, what is wrong, what to do.
    pub(super) fn open(config: &AuthenticationConfig, bounds: Bounds) -> Result<Self, String> {
        let tokens = config.tokens.as_deref().map(|path| Tokens::open(path, bounds)).transpose();
        let tokens = tokens.map_err(|error| format!("authentication.tokens: {error}"))?;
        let keys = config.jwt_public_keys.as_deref().map(|path| Keys::open(path, bounds)).transpose();
        let keys = keys.map_err(|error| format!("authentication.jwt_public_keys: {error}"))?;
        let watched = |tokens| Mutex::new(Watched { tokens, problem: None });
        Ok(Self { tokens: tokens.map(watched), keys, bounds })
    }

    /// Whether somebody has to say who it is.
    pub(super) fn asks(&self) -> bool {
        self.tokens.is_some() || self.keys.is_some()
    }

    /// Who sends a request with these headers.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        if !self.asks() {
            return Ok(Caller::admin(ANYONE, self.bounds));
        }
        let token = bearer(headers)?;
        if let Some(tokens) = &self.tokens {
            match found(tokens, token) {
                Found::Caller(caller) => return Ok(caller),
                Found::Expired(name) => return Err(Refusal::unauthorized(format!("the token {name} has expired"))),
                Found::Nobody => {}
            }
        }
        let caller = self.keys.as_ref().and_then(|keys| keys.find(token));
        caller.ok_or_else(|| Refusal::unauthorized("this token is not known here, or has expired".to_owned()))
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let text = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = text.and_then(|text| text.split_once(' '));
    match token {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && token.len() <= MOST_TOKEN_BYTES => {
            Ok(token.trim())
        }
        _ => Err(Refusal::unauthorized("send a token: `Authorization: Bearer TOKEN`".to_owned())),
    }
}

/// Looks at the file first: what was taken out of it is worth nothing. That it cannot be read is said once.
fn found(tokens: &Mutex<Watched>, token: &str) -> Found {
    let mut watched = tokens.lock().unwrap_or_else(PoisonError::into_inner);
    let problem = watched.tokens.refresh().err();
    if let Some(problem) = problem.as_ref().filter(|_| problem != watched.problem) {
        say(format_args!("authentication.tokens: {problem}; what was read before stays in force"));
    }
    watched.problem = problem;
    watched.tokens.find(token, SystemTime::now())
}
