//! The file of bearer tokens. It has their hashes, not the tokens.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use record::TenantId;
use serde::Deserialize;

use super::caller::{Bounds, Caller, EVERY_TENANT, Report, Tenants};

/// Thousands of tokens; longer files are none of tokens.
const MOST_FILE_BYTES: u64 = 4 << 20;

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTokens {
    #[serde(default)]
    token: Vec<RawToken>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawToken {
    name: String,
    sha256: String,
    tenants: Vec<String>,
    #[serde(default = "every_report")]
    reports: BTreeSet<Report>,
    #[serde(default)]
    admin: bool,
    expires: Option<String>,
    max_duration_secs: Option<u64>,
    max_bytes: Option<u64>,
    max_running: Option<usize>,
}

fn every_report() -> BTreeSet<Report> {
    Report::ALL.into_iter().collect()
}

type Hash = [u8; SHA256_OUTPUT_LEN];

/// A token's hash and who shows it.
#[derive(Debug)]
struct Token {
    hash: Hash,
    caller: Caller,
    expires: Option<SystemTime>,
}

/// What became of a token that was shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is this one's.
    Caller(Caller),
    /// It was this one's.
    Expired(String),
    /// It is nobody's.
    Nobody,
}

/// The tokens of a file, read again when it changes.
#[derive(Debug)]
pub(super) struct Tokens {
    path: PathBuf,
    bounds: Bounds,
    read_at: Option<Stamp>,
    tokens: Vec<Token>,
}

/// What changes when a file is written or replaced.
type Stamp = (SystemTime, u64);

impl Tokens {
    /// Reads the file. What a token says nothing of is bounded by `bounds`.
    ///
    /// # Errors
    ///
    /// One line: the file, which token, what is wrong.
    pub(super) fn open(path: &Path, bounds: Bounds) -> Result<Self, String> {
        let mut tokens = Self { path: path.to_owned(), bounds, read_at: None, tokens: Vec::new() };
        tokens.refresh()?;
        Ok(tokens)
    }

    /// Reads the file again if it has changed: a token that was taken out of it is worth nothing from then on.
    ///
    /// # Errors
    ///
    /// The file cannot be read or understood; what was known before stays.
    pub(super) fn refresh(&mut self) -> Result<(), String> {
        let at = self.path.display();
        let metadata = fs::metadata(&self.path).map_err(|error| format!("{at}: {error}"))?;
        let stamp = (metadata.modified().map_err(|error| format!("{at}: {error}"))?, metadata.len());
        if self.read_at == Some(stamp) {
            return Ok(());
        }
        if metadata.len() > MOST_FILE_BYTES {
            return Err(format!("{at}: this is no file of tokens: it is longer than {MOST_FILE_BYTES} bytes"));
        }
        let text = fs::read_to_string(&self.path).map_err(|error| format!("{at}: {error}"))?;
        self.tokens = parse(&text, self.bounds).map_err(|error| format!("{at}: {error}"))?;
        self.read_at = Some(stamp);
        Ok(())
    }

    /// Whose token that is at that time.
    pub(super) fn find(&self, token: &str, now: SystemTime) -> Found {
        let shown = digest(&SHA256, token.as_bytes());
        // What can be timed is the hash's beginning, from which no token can be told.
        let Some(found) = self.tokens.iter().find(|token| shown.as_ref() == token.hash) else { return Found::Nobody };
        match found.expires {
            Some(expires) if now >= expires => Found::Expired(found.caller.name.clone()),
            _ => Found::Caller(found.caller.clone()),
        }
    }
}

fn parse(text: &str, bounds: Bounds) -> Result<Vec<Token>, String> {
    let raw: RawTokens = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text.get(..span.start).map_or(0, |before| before.lines().count()));
        // The text around it, which the error would show, may hold a token that was put here by mistake.
        format!("line {}: {}", line.max(1), error.message())
    })?;
    let tokens: Vec<_> = raw.token.into_iter().map(|token| read(token, bounds)).collect::<Result<_, _>>()?;
    let mut hashes = BTreeSet::new();
    match tokens.iter().find(|token| !hashes.insert(token.hash)) {
        Some(twice) => Err(format!("token {}: another one has the same sha256", twice.caller.name)),
        None => Ok(tokens),
    }
}

fn read(raw: RawToken, bounds: Bounds) -> Result<Token, String> {
    let RawToken { name, reports, admin, .. } = raw;
    let wrong = |what: &str| format!("token {name}: {what}");
    let hash = hash_of(&raw.sha256)
        .ok_or_else(|| wrong("sha256 is 64 hex digits: what `printf %s TOKEN | sha256sum` prints"))?;
    let tenants = match &*raw.tenants {
        [] => return Err(wrong("tenants: name some, or [\"*\"] for all of them")),
        [all] if all == EVERY_TENANT => Tenants::All,
        these => Tenants::These(
            these
                .iter()
                .map(|text| text.parse::<TenantId>().map_err(|error| wrong(&format!("tenants: {text}: {error}"))))
                .collect::<Result<_, _>>()?,
        ),
    };
    if admin && tenants != Tenants::All {
        return Err(wrong("admin sees every tenant: give tenants = [\"*\"]"));
    }
    let expires = raw.expires.map(|text| humantime::parse_rfc3339_weak(&text)).transpose();
    let expires = expires.map_err(|_| wrong("expires is a time in UTC such as 2027-01-31T00:00:00Z"))?;
    let bounds = Bounds {
        duration: raw.max_duration_secs.map_or(bounds.duration, Duration::from_secs),
        bytes: raw.max_bytes.unwrap_or(bounds.bytes),
        running: raw.max_running.unwrap_or(bounds.running),
    };
    Ok(Token { hash, caller: Caller { name, tenants, reports, is_admin: admin, bounds }, expires })
}

fn hash_of(hex: &str) -> Option<Hash> {
    let digits = hex.as_bytes();
    let mut hash = [0; SHA256_OUTPUT_LEN];
    if digits.len() != 2 * SHA256_OUTPUT_LEN {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = digit(*high)?.checked_mul(16)?.checked_add(digit(*low)?)?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { duration: Duration::from_secs(60), bytes: 1 << 20, running: 2 };

    /// `printf %s a-token | sha256sum`
    const HASH: &str = "bc16a4ab6d898ea0d84d9bb04bcd2e53c9b4dc70b7b40d0f7c1e5a4ae2ad0b2b";

    fn hash(token: &str) -> String {
        digest(&SHA256, token.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn tenant(digit: char) -> String {
        digit.to_string().repeat(32)
    }

    #[test]
    fn a_token_is_found_by_its_hash_with_what_it_may() {
        let one = format!(
            "[[token]]\nname = \"perf\"\nsha256 = \"{}\"\ntenants = [\"{}\"]\nreports = [\"page_trace\"]\nmax_running = 1\n",
            hash("a"),
            tenant('a')
        );
        let two = format!(
            "[[token]]\nname = \"old\"\nsha256 = \"{}\"\ntenants = [\"*\"]\nexpires = \"2026-01-01T00:00:00Z\"\n",
            hash("b")
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.toml");
        fs::write(&path, format!("{one}{two}")).unwrap();
        let mut tokens = Tokens::open(&path, BOUNDS).unwrap();
        let now = humantime::parse_rfc3339("2026-12-03T00:00:00Z").unwrap();
        let Found::Caller(perf) = tokens.find("a", now) else { panic!("not found") };
        assert_eq!((perf.name.as_str(), perf.is_admin, perf.bounds.running), ("perf", false, 1));
        assert_eq!(perf.reports, BTreeSet::from([Report::PageTrace]));
        assert!(perf.may_see(tenant('a').parse().unwrap()) && !perf.may_see(tenant('b').parse().unwrap()));
        assert_eq!(tokens.find("b", now), Found::Expired("old".to_owned()));
        assert_eq!(tokens.find("c", now), Found::Nobody);
        // Taken out of the file, it is worth nothing; a file that cannot be understood changes nothing.
        fs::write(&path, two).unwrap();
        tokens.refresh().unwrap();
        assert_eq!(tokens.find("a", now), Found::Nobody);
        fs::write(&path, "[[token]]\nname = 3").unwrap();
        assert!(tokens.refresh().unwrap_err().contains("tokens.toml: line 2: "));
        assert_eq!(tokens.find("b", now), Found::Expired("old".to_owned()));
    }

    #[test]
    fn what_is_wrong_with_a_token_is_said_by_its_name() {
        let refusal = |more: &str| parse(&format!("[[token]]\nname = \"x\"\n{more}"), BOUNDS).unwrap_err();
        let whole = format!("sha256 = \"{HASH}\"\n");
        assert!(refusal("sha256 = \"12\"\ntenants = [\"*\"]").starts_with("token x: sha256 is 64 hex digits"));
        assert!(refusal(&format!("{whole}tenants = []")).starts_with("token x: tenants: name some"));
        assert!(refusal(&format!("{whole}tenants = [\"z\"]")).starts_with("token x: tenants: z: "));
        let one = tenant('a');
        assert!(refusal(&format!("{whole}tenants = [\"{one}\"]\nadmin = true")).contains("admin sees every tenant"));
        assert!(refusal(&format!("{whole}tenants = [\"*\"]\nexpires = \"soon\"")).contains("expires is a time"));
        assert!(refusal(&format!("{whole}tenants = [\"*\"]\nsecret = \"s\"")).contains("unknown field"));
        let twice = format!("{whole}tenants = [\"*\"]\n[[token]]\nname = \"y\"\n{whole}tenants = [\"*\"]\n");
        assert_eq!(refusal(&twice), "token y: another one has the same sha256");
    }
}
