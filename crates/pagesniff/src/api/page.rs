//! The page at `/`: it holds no data, and asks the API for what it shows with the token that its reader types in.
//!
//! ```text
//! index.html → main.js (who it is, the daemon, tenants, connections) → live.js, captures.js → report.js
//!                        tasks.js (again and again, what went wrong) → client.js (requests, streams, downloads)
//! ```
//!
//! The contract: nothing is loaded from elsewhere, what comes from the API is text and never markup, and a token is in no address.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock};

use analysis::render::INLINE_PARTS;
use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::reply::Refusal;
use super::server::Api;
use super::take::Named;

/// The page's frame. It says whether a token is asked for, so that nobody has to be refused to find out.
const FRAME: &str = include_str!("page/index.html");
const ASKS_FOR_TOKEN: &str = "data-token=\"TOKEN\"";

/// The next version's files have the same names.
const NO_CACHE: &str = "no-cache";

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What the frame names, with its media type.
const FILES: [(&str, &str, &str); 8] = [
    ("style.css", STYLE, include_str!("page/style.css")),
    ("main.js", SCRIPT, include_str!("page/main.js")),
    ("client.js", SCRIPT, include_str!("page/client.js")),
    ("tasks.js", SCRIPT, include_str!("page/tasks.js")),
    ("text.js", SCRIPT, include_str!("page/text.js")),
    ("live.js", SCRIPT, include_str!("page/live.js")),
    ("captures.js", SCRIPT, include_str!("page/captures.js")),
    ("report.js", SCRIPT, include_str!("page/report.js")),
];

/// One file, compressed once.
struct Compressed {
    name: &'static str,
    media_type: &'static str,
    plain: &'static str,
    gzip: Bytes,
}

static COMPRESSED: LazyLock<Vec<Compressed>> = LazyLock::new(|| {
    let compressed = |(name, media_type, plain): (&'static str, &'static str, &'static str)| {
        // Writing into memory does not fail; an empty one would be sent as it is.
        let gzip = gzip(plain.as_bytes()).unwrap_or_default();
        Compressed { name, media_type, plain, gzip }
    };
    FILES.map(compressed).into()
});

/// What the page may do. A report is shown by a document that the page makes, which may do no more than the page: so the style
/// and script that stand in every report are named by their hashes.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let [style, script] = INLINE_PARTS.map(|part| STANDARD.encode(digest(&SHA256, part.as_bytes())));
    format!(
        "default-src 'none'; script-src 'self' 'sha256-{script}'; style-src 'self' 'sha256-{style}'; img-src data:; \
         connect-src 'self'; frame-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'"
    )
});

fn gzip(plain: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain)?;
    encoder.finish().map(Bytes::from)
}

/// `GET /`. For everybody, as it holds nothing.
pub(super) async fn frame(State(api): State<Arc<Api>>) -> Response {
    let asks = if api.authority.asks() { "data-token=\"yes\"" } else { "data-token=\"no\"" };
    let text = FRAME.replace(ASKS_FOR_TOKEN, asks);
    let mut response = ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response();
    if let Ok(policy) = HeaderValue::from_str(&POLICY) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let more = [
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, NO_CACHE),
    ];
    for (name, value) in more {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// `GET /page/{file}`
pub(super) async fn file(Named(name): Named, headers: HeaderMap) -> Result<Response, Refusal> {
    let found = COMPRESSED.iter().find(|file| file.name == name).ok_or_else(Refusal::not_found)?;
    let common = [
        (header::CONTENT_TYPE, found.media_type),
        (header::VARY, "accept-encoding"),
        (header::CACHE_CONTROL, NO_CACHE),
    ];
    if !found.gzip.is_empty() && takes_gzip(&headers) {
        return Ok((common, [(header::CONTENT_ENCODING, "gzip")], found.gzip.clone()).into_response());
    }
    Ok((common, found.plain).into_response())
}

/// Browsers name it without a weight; whoever gives it one gets what is not compressed, which is never wrong.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("gzip")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_names_every_file_of_it() {
        let sent: usize = COMPRESSED.iter().map(|file| file.gzip.len()).sum::<usize>() + FRAME.len();
        assert!(sent < 40 << 10, "{sent}");
        assert_eq!(FRAME.matches(ASKS_FOR_TOKEN).count(), 1);
        let texts: Vec<&str> = FILES.iter().map(|(_, _, text)| *text).chain([FRAME]).collect();
        for (name, ..) in FILES {
            assert!(texts.iter().any(|text| text.contains(&format!("/{name}\""))), "{name}");
        }
    }

    /// Markup that is made of what came from the network could be anybody's.
    #[test]
    fn nothing_becomes_markup_and_nothing_comes_from_elsewhere() {
        for (name, _, text) in FILES {
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "import("] {
                assert!(!text.contains(word), "{name}: {word}");
            }
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{name}");
        }
    }

    #[test]
    fn only_who_says_so_gets_it_compressed() {
        let takes = |text: &'static str| {
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        assert!(takes("gzip, deflate, br") && takes("br,GZIP"));
        assert!(!takes("identity") && !takes("gzip;q=0") && !takes_gzip(&HeaderMap::new()));
    }
}
