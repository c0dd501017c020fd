//! The sections `[api]` and `[authentication]` of the daemon's configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use serde::Deserialize;

use super::caller::Bounds;
use crate::daemon::size;

/// The HTTP API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiConfig {
    /// The address and port it is on.
    pub listen: SocketAddr,
    /// The certificate chain in PEM, for TLS.
    pub certificate: Option<PathBuf>,
    /// Its private key in PEM.
    pub private_key: Option<PathBuf>,
    /// Whether others than this machine may be served without TLS or authentication.
    #[serde(default)]
    pub insecure: bool,
    /// What one caller may ask for, where its token says nothing else.
    #[serde(default)]
    pub limits: ApiLimits,
}

/// What one caller may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiLimits {
    /// The longest capture or page trace, in seconds.
    pub duration_secs: u64,
    /// The most bytes of one.
    #[serde(deserialize_with = "size")]
    pub bytes: ByteSize,
    /// How many of one caller may run at once.
    pub running: usize,
    /// Requests of one caller a second.
    pub requests_per_second: u32,
}

impl Default for ApiLimits {
    fn default() -> Self {
        Self { duration_secs: 3_600, bytes: ByteSize::mib(256), running: 4, requests_per_second: 50 }
    }
}

impl ApiLimits {
    pub(super) fn bounds(&self) -> Bounds {
        Bounds { duration: Duration::from_secs(self.duration_secs), bytes: self.bytes.as_u64(), running: self.running }
    }
}

/// Who may use the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthenticationConfig {
    /// The file of bearer tokens.
    pub tokens: Option<PathBuf>,
    /// The public key, or a folder of them, that Neon's JWTs are signed for.
    pub jwt_public_keys: Option<PathBuf>,
}

impl AuthenticationConfig {
    /// Whether somebody is asked who it is.
    pub fn is_on(&self) -> bool {
        self.tokens.is_some() || self.jwt_public_keys.is_some()
    }
}

impl ApiConfig {
    /// Checks what can be checked without opening anything.
    ///
    /// # Errors
    ///
    /// One line: the key, what is wrong with it, what to do.
    pub fn check(&self, authentication: &AuthenticationConfig) -> Result<(), String> {
        if self.certificate.is_some() != self.private_key.is_some() {
            return Err("api.certificate and api.private_key: give both or none".to_owned());
        }
        if self.limits.requests_per_second == 0 || self.limits.duration_secs == 0 {
            return Err("api.limits: give at least 1".to_owned());
        }
        let is_open = self.certificate.is_none() || !authentication.is_on();
        if !self.listen.ip().is_loopback() && is_open && !self.insecure {
            return Err(format!(
                "api.listen: {} can be reached from elsewhere, where passwords and pages' names would be open: give \
                 api.certificate, api.private_key and authentication.tokens or .jwt_public_keys, listen on 127.0.0.1, or \
                 say api.insecure = true",
                self.listen
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(listen: &str, tls: bool, authentication: bool, insecure: bool) -> Result<(), String> {
        let file = |is_given: bool| is_given.then(|| PathBuf::from("/file"));
        let api = ApiConfig {
            listen: listen.parse().unwrap(),
            certificate: file(tls),
            private_key: file(tls),
            insecure,
            limits: ApiLimits::default(),
        };
        api.check(&AuthenticationConfig { tokens: file(authentication), jwt_public_keys: None })
    }

    #[test]
    fn what_others_can_reach_needs_tls_and_authentication_or_the_word() {
        for listen in ["0.0.0.0:9898", "[::]:9898", "10.0.0.1:80"] {
            for (tls, authentication) in [(false, false), (true, false), (false, true)] {
                assert!(checked(listen, tls, authentication, false).unwrap_err().starts_with("api.listen: "));
                checked(listen, tls, authentication, true).unwrap();
            }
            checked(listen, true, true, false).unwrap();
        }
        checked("127.0.0.1:9898", false, false, false).unwrap();
        checked("[::1]:9898", false, false, false).unwrap();
    }
}
