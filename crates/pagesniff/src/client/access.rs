//! Where a daemon is, and how it is told who asks.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::anyhow;
use clap::Args;

/// A token by this name in the environment is used where no file is named: command lines are seen by everybody on a machine.
const TOKEN_VARIABLE: &str = "PAGESNIFF_TOKEN";

/// How a daemon is told who asks, and known by who asks it.
#[derive(Debug, Clone, Default, Args)]
pub struct RawAccess {
    /// The file with the token [default: the environment's PAGESNIFF_TOKEN, or none]
    #[arg(long, value_name = "FILE", help_heading = "Daemon")]
    pub token_file: Option<PathBuf>,

    /// The file with the certificates (PEM) to trust, instead of those of this machine
    #[arg(long, value_name = "FILE", help_heading = "Daemon")]
    pub ca: Option<PathBuf>,
}

impl RawAccess {
    /// The token, where there is one.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or what is there cannot be sent as a token.
    pub(super) fn token(&self) -> anyhow::Result<Option<String>> {
        let (text, from) = match &self.token_file {
            Some(path) => {
                let text = fs::read_to_string(path);
                (text.map_err(|error| anyhow!("--token-file {}: {error}", path.display()))?, "--token-file")
            }
            None => match env::var(TOKEN_VARIABLE) {
                Ok(text) => (text, TOKEN_VARIABLE),
                Err(env::VarError::NotPresent) => return Ok(None),
                Err(error) => return Err(anyhow!("{TOKEN_VARIABLE}: {error}")),
            },
        };
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(anyhow!("{from}: a token is one word of letters, digits and signs"));
        }
        Ok(Some(token.to_owned()))
    }
}

/// A daemon's address: `https://pageserver-7:9898`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonUrl(String);

impl DaemonUrl {
    /// Whether what is sent to it can be read on the way: it is neither TLS nor this machine.
    pub(super) fn is_open(&self) -> bool {
        let Some(rest) = self.0.strip_prefix("http://") else { return false };
        let host = rest.split('/').next().unwrap_or_default();
        let is_here = |name: &str| host == name || host.strip_prefix(name).is_some_and(|port| port.starts_with(':'));
        !["127.0.0.1", "localhost", "[::1]"].into_iter().any(is_here)
    }
}

impl fmt::Display for DaemonUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DaemonUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let rest =
            rest.ok_or("a daemon is given as https://HOST:PORT or http://HOST:PORT, api.listen of its configuration")?;
        let host = rest.split('/').next().unwrap_or_default();
        if host.contains('@') {
            return Err("no name or token stands in an address: give it by --token-file or PAGESNIFF_TOKEN");
        }
        if host.is_empty() || !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['?', '#']) {
            return Err("a daemon is given as https://HOST:PORT, and nothing behind it but perhaps a path");
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_no_secret() {
        for text in ["http://127.0.0.1:9898", "https://node", "https://[::1]:1/", "http://proxy/node-7/"] {
            assert_eq!(text.parse::<DaemonUrl>().unwrap().to_string(), text.trim_end_matches('/'));
        }
        for text in ["", "node:9898", "ftp://node", "http://", "http:///x", "http://a b", "http://node?x", "http://n#x"]
        {
            assert!(text.parse::<DaemonUrl>().unwrap_err().starts_with("a daemon is given as"), "{text}");
        }
        assert!("https://secret@node".parse::<DaemonUrl>().unwrap_err().contains("--token-file"));
    }

    #[test]
    fn what_can_be_read_on_the_way_is_known() {
        let is_open = |text: &str| text.parse::<DaemonUrl>().unwrap().is_open();
        assert!(is_open("http://node:9898") && is_open("http://localhost.example:1") && is_open("http://127.0.0.10"));
        assert!(!is_open("https://node:9898") && !is_open("http://127.0.0.1:9898") && !is_open("http://localhost"));
        assert!(!is_open("http://[::1]:9898/x"));
    }

    #[test]
    fn a_token_is_one_word() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let access = RawAccess { token_file: Some(path.clone()), ca: None };
        fs::write(&path, "secret\n").unwrap();
        assert_eq!(access.token().unwrap().as_deref(), Some("secret"));
        for text in ["", "two words", "ä"] {
            fs::write(&path, text).unwrap();
            let error = access.token().unwrap_err().to_string();
            assert!(error.contains("one word") && !error.contains("two"), "{error}");
        }
    }
}
