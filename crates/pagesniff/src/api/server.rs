//! The listener: opened while the program may open everything, served from threads of its own.

use std::fmt::Display;
use std::future::{Ready, ready};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum_server::Handle;
use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use record::TenantShardId;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use super::audit::AuditLog;
use super::authority::Authority;
use super::caller::{Caller, Report};
use super::config::{ApiConfig, AuthenticationConfig};
use super::quota::{Quota, Stream};
use super::reply::Refusal;
use super::routes;
use super::take::blocking;
use crate::daemon::words::{TraceState, Wanted};
use crate::daemon::{Hub, Subscription};

/// Capture has the other processors.
const THREADS: usize = 2;

/// What waits for disks and capturing threads: a few slow downloads beside everything else.
const MOST_WAITING_THREADS: usize = 64;

/// Connections that are served at once; each takes some 100 KiB.
const MOST_CONNECTIONS: usize = 256;

/// A report takes up to 400 MB and a whole processor: one after the other.
const MOST_REPORTS: usize = 1;

/// Those who read live figures, each with its own.
const MOST_LIVE: usize = 8;

/// Who connects and does not say for so long what it wants is let go.
const PATIENCE: Duration = Duration::from_secs(10);

/// At its end the daemon waits so long for answers that are on their way.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What handlers need.
pub(super) struct Api {
    pub(super) hub: Arc<Hub>,
    pub(super) authority: Authority,
    pub(super) quota: Arc<Quota>,
    pub(super) audit: Arc<AuditLog>,
    pub(super) reports: Semaphore,
    pub(super) live: Arc<Semaphore>,
    /// Bytes of a capture that says nothing else.
    pub(super) default_bytes: u64,
}

impl Api {
    /// Whether such reports are for this caller.
    pub(super) fn check(&self, caller: &Caller, report: Report) -> Result<(), Refusal> {
        match caller.reports.contains(&report) {
            true => Ok(()),
            false => Err(Refusal::forbidden("this token is for other reports")),
        }
    }

    /// Whether the daemon's own figures are for this caller.
    pub(super) fn check_admin(&self, caller: &Caller) -> Result<(), Refusal> {
        match caller.is_admin {
            true => Ok(()),
            false => Err(Refusal::forbidden("this takes a token with admin")),
        }
    }

    /// Whether that tenant's things are for this caller, who is not told that they are there.
    pub(super) fn check_tenant(&self, caller: &Caller, text: &str) -> Result<(), Refusal> {
        let wanted: TenantShardId =
            text.parse().map_err(|error| Refusal::bad_request(format!("tenant: {text}: {error}")))?;
        if caller.may_see(wanted.tenant) { Ok(()) } else { Err(Refusal::not_found()) }
    }

    /// Whether that capture runs.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.hub.traces().iter().any(|trace| trace.id == id && trace.state == TraceState::Running)
    }

    /// Records as they come, within the caller's bounds.
    pub(super) async fn subscribe(
        self: &Arc<Self>,
        caller: &Caller,
        wanted: Wanted,
    ) -> Result<(Subscription, Stream), Refusal> {
        wanted.filter().map_err(Refusal::bad_request)?;
        wanted.duration().map_err(Refusal::bad_request)?;
        let stream = self.quota.stream(caller, |id| self.is_running(id))?;
        let api = Arc::clone(self);
        let subscription = blocking(move || api.hub.subscribe(&wanted).map_err(Refusal::too_many)).await?;
        Ok((subscription, stream))
    }
}

/// Lets so many connections in, and closes those beyond: descriptors are needed for traces.
#[derive(Clone)]
struct Places(Handle<SocketAddr>);

impl<I, S> Accept<I, S> for Places {
    type Stream = I;
    type Service = S;
    type Future = Ready<io::Result<(I, S)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        ready(match self.0.connection_count() <= MOST_CONNECTIONS {
            true => Ok((stream, service)),
            false => Err(io::ErrorKind::QuotaExceeded.into()),
        })
    }
}

/// The API while it is served.
#[derive(Debug)]
pub struct Served {
    url: String,
    handle: Handle<SocketAddr>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Served {
    /// How it is reached, with the port that the system has chosen where 0 was asked for.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.graceful_shutdown(Some(LAST_WORDS));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The certificate and its key.
fn tls((certificate, private_key): (&Path, &Path)) -> Result<Arc<ServerConfig>, String> {
    let wrong = |key: &str, path: &Path, error: &dyn Display| format!("api.{key}: {}: {error}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong("certificate", certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(private_key).map_err(|error| wrong("private_key", private_key, &error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| wrong("certificate", certificate, &error))?;
    Ok(Arc::new(config))
}

/// The listener and what it needs, opened and not served yet.
pub struct Listener {
    config: ApiConfig,
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    authority: Authority,
}

impl Listener {
    /// Opens the port, the certificate with its key, the tokens and keys: what may take rights that are given up later.
    ///
    /// # Errors
    ///
    /// One line: the key of the configuration, what is wrong, what to do.
    pub fn open(config: &ApiConfig, authentication: &AuthenticationConfig) -> Result<Self, String> {
        let listener =
            TcpListener::bind(config.listen).map_err(|error| format!("api.listen: {}: {error}", config.listen))?;
        listener.set_nonblocking(true).map_err(|error| format!("api.listen: {error}"))?;
        let tls = config.certificate.as_deref().zip(config.private_key.as_deref()).map(tls).transpose()?;
        let authority = Authority::open(authentication, config.limits.bounds())?;
        Ok(Self { config: config.clone(), listener, tls, authority })
    }

    /// Serves it on threads of its own, until the result is dropped.
    ///
    /// # Errors
    ///
    /// One line: the audit log cannot be written, or the system has no thread to give.
    pub fn serve(self, hub: Arc<Hub>, audit_log: &Path) -> Result<Served, String> {
        let audit = AuditLog::open(audit_log).map_err(|error| format!("{}: {error}", audit_log.display()))?;
        let Self { config, listener, tls, authority } = self;
        let api = Arc::new(Api {
            default_bytes: hub.default_trace_bytes(),
            hub,
            authority,
            quota: Arc::new(Quota::new(config.limits.requests_per_second)),
            audit: Arc::new(audit),
            reports: Semaphore::new(MOST_REPORTS),
            live: Arc::new(Semaphore::new(MOST_LIVE)),
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap_or(config.listen));
        let no_thread = |error: io::Error| format!("cannot start a thread: {error}");
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(MOST_WAITING_THREADS)
            .thread_name("api")
            .enable_io()
            .enable_time()
            .build()
            .map_err(no_thread)?;
        let handle = Handle::new();
        let ending = handle.clone();
        let serve = move || {
            let app = routes::router(api).into_make_service_with_connect_info::<SocketAddr>();
            let server = runtime.block_on(async {
                let places = Places(handle.clone());
                let server = axum_server::from_tcp(listener)?.handle(handle).http1_only();
                let mut server = server.first_request_timeout(PATIENCE);
                server.http_builder().http1().header_read_timeout(PATIENCE);
                match tls {
                    Some(tls) => {
                        let acceptor = RustlsAcceptor::new(RustlsConfig::from_config(tls)).handshake_timeout(PATIENCE);
                        server.acceptor(acceptor.acceptor(places)).serve(app).await
                    }
                    None => server.acceptor(places).serve(app).await,
                }
            });
            runtime.shutdown_timeout(LAST_WORDS);
            server
        };
        let thread = thread::Builder::new().name("api".into()).spawn(serve).map_err(no_thread)?;
        Ok(Served { url, handle: ending, thread: Some(thread) })
    }
}
