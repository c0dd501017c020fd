//! A daemon, asked over HTTP.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs};

use anyhow::anyhow;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, RequestBuilder};

use super::access::{DaemonUrl, RawAccess};
use crate::terminal::say;

/// Who does not let in for so long does not answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// The first byte of an answer. Reports are made one after the other, each in up to a minute.
const ANSWER_PATIENCE: Duration = Duration::from_secs(300);

/// Between two reads: live figures come once a second, and downloads without a pause.
const READ_PATIENCE: Duration = Duration::from_secs(20);

/// The longest answer that is no download: the pages of the largest reports have some megabytes.
const MOST_ANSWER_BYTES: u64 = 256 << 20;

/// Why an answer did not come.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The daemon has answered, and will not do it.
    Refused {
        /// Its status.
        status: StatusCode,
        /// Its words.
        message: String,
    },
    /// It has not answered, or not to the end. It may, later.
    Lost(String),
    /// It has answered what it should not have, or something here is in the way.
    Broken(String),
}

impl Failed {
    /// Whether another try may have an answer.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Refused { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            Self::Lost(_) => true,
            Self::Broken(_) => false,
        }
    }

    /// Whether the daemon said that.
    pub(super) fn is(&self, wanted: StatusCode) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == wanted)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status, message } if *status == StatusCode::UNAUTHORIZED => {
                write!(f, "the daemon refuses: {message}; --token-file or PAGESNIFF_TOKEN gives it a token")
            }
            Self::Refused { message, .. } => write!(f, "the daemon refuses: {message}"),
            Self::Lost(message) | Self::Broken(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Failed {}

/// A daemon that can be asked.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    agent: Agent,
    url: DaemonUrl,
    /// `Bearer …`; in no message.
    authorization: Option<Arc<str>>,
}

impl Daemon {
    /// Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The token or the certificates cannot be read.
    pub(crate) fn open(url: &DaemonUrl, access: &RawAccess) -> anyhow::Result<Self> {
        let token = access.token()?;
        if token.is_some() && url.is_open() {
            say(format_args!("note: {url}: the token can be read on its way there; https:// hides it"));
        }
        let roots = match &access.ca {
            None => RootCerts::PlatformVerifier,
            Some(path) => {
                let wrong = |error: &dyn fmt::Display| anyhow!("--ca {}: {error}", path.display());
                let text = fs::read(path).map_err(|error| wrong(&error))?;
                let items = parse_pem(&text).collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
                let certificates: Vec<Certificate<'static>> = items.into_iter().filter_map(certificate).collect();
                if certificates.is_empty() {
                    return Err(wrong(&"there is no certificate in it (PEM)"));
                }
                RootCerts::from(certificates)
            }
        };
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // Somewhere else nobody has been asked to send the token to.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_PATIENCE))
            .timeout_recv_response(Some(ANSWER_PATIENCE))
            .timeout_per_read(Some(READ_PATIENCE))
            .user_agent(concat!("pagesniff/", env!("CARGO_PKG_VERSION")))
            .build();
        let authorization = token.map(|token| format!("Bearer {token}").into());
        Ok(Self { agent: config.new_agent(), url: url.clone(), authorization })
    }

    /// Its address.
    pub(crate) fn url(&self) -> &DaemonUrl {
        &self.url
    }

    /// What is at `path`, `/v1/…`, as it comes.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(crate) fn stream(&self, path: &str) -> Result<Response<Body>, Failed> {
        self.answered(self.authorized(self.agent.get(self.address(path))).call())
    }

    /// The same as JSON.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failed> {
        self.understood(&self.text(self.stream(path)?)?)
    }

    /// The same as text.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(super) fn get_text(&self, path: &str) -> Result<String, Failed> {
        self.text(self.stream(path)?)
    }

    /// Sends something, and gives what is answered.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(super) fn post<T: DeserializeOwned>(&self, path: &str, what: &impl Serialize) -> Result<T, Failed> {
        let body = serde_json::to_vec(what).map_err(|error| Failed::Broken(error.to_string()))?;
        let request = self.agent.post(self.address(path)).header("content-type", "application/json");
        let request = self.authorized(request);
        self.understood(&self.text(self.answered(request.send(&body[..]))?)?)
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn authorized<T>(&self, request: RequestBuilder<T>) -> RequestBuilder<T> {
        match &self.authorization {
            Some(authorization) => request.header("authorization", &**authorization),
            None => request,
        }
    }

    fn answered(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, Failed> {
        let answer = answer.map_err(|error| self.failed(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        if status.is_redirection() {
            return Err(Failed::Broken(format!(
                "{}: leads elsewhere ({status}): give the daemon's own address",
                self.url
            )));
        }
        let text = self.text(answer).unwrap_or_default();
        let said = serde_json::from_str::<serde_json::Value>(&text).ok();
        let message = said.as_ref().and_then(|said| said["msg"].as_str());
        let message = message.map_or_else(|| format!("{}: {status}; is this a pagesniff daemon?", self.url), one_line);
        Err(Failed::Refused { status, message })
    }

    fn failed(&self, error: &ureq::Error) -> Failed {
        let url = &self.url;
        let text = one_line(&error.to_string());
        match error {
            ureq::Error::Io(error) if is_about_certificates(error) => {
                Failed::Broken(format!("{url}: {text}; --ca names the certificates to trust"))
            }
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
                Failed::Broken(format!("{url}: {text}; --ca names the certificates to trust"))
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failed::Broken(format!("{url}: {text}")),
            _ => Failed::Lost(format!("{url}: no daemon answers: {text}")),
        }
    }

    fn text(&self, answer: Response<Body>) -> Result<String, Failed> {
        let mut text = String::new();
        let body = answer.into_body().into_reader();
        let read = body.take(MOST_ANSWER_BYTES).read_to_string(&mut text);
        match read {
            Err(error) => Err(Failed::Lost(format!("{}: the answer was cut off: {error}", self.url))),
            Ok(bytes) if bytes as u64 == MOST_ANSWER_BYTES => {
                Err(Failed::Broken(format!("{}: the answer is too long", self.url)))
            }
            Ok(_) => Ok(text),
        }
    }

    fn understood<T: DeserializeOwned>(&self, text: &str) -> Result<T, Failed> {
        let url = &self.url;
        serde_json::from_str(text).map_err(|error| {
            Failed::Broken(format!("{url}: this is no pagesniff daemon, or one of another version: {error}"))
        })
    }
}

fn certificate(item: PemItem<'static>) -> Option<Certificate<'static>> {
    match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    }
}

/// A certificate that is not trusted comes as an error of reading or writing.
fn is_about_certificates(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

/// What comes from elsewhere goes to a terminal: one line of it, and no control characters.
fn one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
