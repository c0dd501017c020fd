//! The section `[upload]` of the daemon's configuration, and the store that it names.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme, RetryConfig};
use serde::Deserialize;
use url::Url;

/// The store's own tries are for a request that was lost on its way; a store that is away is left alone in between.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);

/// The same.
const MOST_RETRIES: usize = 2;

/// Where what the triggers take goes to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadConfig {
    /// The bucket and the beginning of the objects' names: `s3://BUCKET/PREFIX`, `gs://`, `az://`, or `file:///DIRECTORY`.
    pub url: String,
    /// What else the store needs, by the names that `object_store` has for it: `region`, `endpoint`, `allow_http`.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// A TOML file of more of them: keys and passwords, which others may not read.
    pub secrets: Option<PathBuf>,
}

/// The store, and the beginning of the objects' names in it.
pub(super) type Store = (Arc<dyn ObjectStore>, Path);

impl UploadConfig {
    /// Checks what can be checked without the secrets.
    ///
    /// # Errors
    ///
    /// One line: the key, what is wrong with it, what to do.
    pub(in crate::daemon) fn check(&self) -> Result<(), String> {
        self.build(&self.options).map(drop)
    }

    /// The directory, where it is one of this machine.
    pub(in crate::daemon) fn directory(&self) -> Option<PathBuf> {
        Url::parse(&self.url).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok())
    }

    /// Opens the store: with the secrets, and with what the environment has under the names of the vendors.
    ///
    /// # Errors
    ///
    /// One line: the key, what is wrong with it, what to do.
    pub(super) fn open(&self) -> Result<Store, String> {
        let mut options: BTreeMap<String, String> = from_environment();
        options.extend(self.options.clone());
        if let Some(file) = &self.secrets {
            let wrong = |error: &dyn std::fmt::Display| format!("upload.secrets: {}: {error}", file.display());
            let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
            // The parser's own text would show a line of the file.
            let secrets: BTreeMap<String, String> =
                toml::from_str(&text).map_err(|_| wrong(&"lines such as secret_access_key = \"…\" are expected"))?;
            options.extend(secrets);
        }
        self.build(&options)
    }

    fn build(&self, options: &BTreeMap<String, String>) -> Result<Store, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("upload.url: {}: {error}", self.url);
        let url = Url::parse(&self.url).map_err(|error| wrong(&error))?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err("upload.url: keys and passwords go into upload.secrets or the environment".to_owned());
        }
        let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|error| wrong(&error))?;
        let retry = RetryConfig { max_retries: MOST_RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
        let store: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::Local => {
                if let Some(key) = self.options.keys().next() {
                    return Err(unknown(key));
                }
                Arc::new(LocalFileSystem::new().with_automatic_cleanup(false))
            }
            ObjectStoreScheme::AmazonS3 => {
                let builder = AmazonS3Builder::new().with_url(self.url.as_str()).with_retry(retry);
                let builder = self.configured(options, builder, AmazonS3Builder::with_config)?;
                Arc::new(builder.build().map_err(|error| wrong(&error))?)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let builder = GoogleCloudStorageBuilder::new().with_url(self.url.as_str()).with_retry(retry);
                let builder = self.configured(options, builder, GoogleCloudStorageBuilder::with_config)?;
                Arc::new(builder.build().map_err(|error| wrong(&error))?)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let builder = MicrosoftAzureBuilder::new().with_url(self.url.as_str()).with_retry(retry);
                let builder = self.configured(options, builder, MicrosoftAzureBuilder::with_config)?;
                Arc::new(builder.build().map_err(|error| wrong(&error))?)
            }
            _ => return Err(wrong(&"give s3://BUCKET/PREFIX, gs://, az://, or file:///DIRECTORY")),
        };
        Ok((store, path))
    }

    /// With the options that are its own. The environment may hold others, of other programs; the configuration may not.
    fn configured<B, K: FromStr>(
        &self,
        options: &BTreeMap<String, String>,
        builder: B,
        with: impl Fn(B, K, String) -> B,
    ) -> Result<B, String> {
        options.iter().try_fold(builder, |builder, (key, value)| match key.parse::<K>() {
            Ok(key) => Ok(with(builder, key, value.clone())),
            Err(_) if self.options.contains_key(key) => Err(unknown(key)),
            Err(_) => Ok(builder),
        })
    }
}

fn unknown(key: &str) -> String {
    format!("upload.options: {key}: this store has no such option")
}

/// `AWS_ACCESS_KEY_ID` and its like, as options.
fn from_environment() -> BTreeMap<String, String> {
    const VENDORS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
    let of_vendors = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.into_string().ok().filter(|name| VENDORS.iter().any(|vendor| name.starts_with(vendor)))?;
        Some((name.to_ascii_lowercase(), value.into_string().ok()?))
    };
    env::vars_os().filter_map(of_vendors).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<(), String> {
        toml::from_str::<UploadConfig>(text).map_err(|error| error.to_string())?.check()
    }

    #[test]
    fn every_kind_of_store_can_be_named() {
        for (text, directory) in [
            ("url = \"s3://bucket/pagesniff\"\noptions = { region = \"eu-central-1\", allow_http = \"true\" }", None),
            ("url = \"gs://bucket\"", None),
            ("url = \"az://container/a/b\"\noptions = { account_name = \"one\" }", None),
            ("url = \"file:///var/lib/uploads\"", Some(PathBuf::from("/var/lib/uploads"))),
        ] {
            let config: UploadConfig = toml::from_str(text).unwrap();
            config.check().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(config.directory(), directory);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("url = \"bucket\"", "upload.url: bucket: "),
            ("url = \"ftp://host/path\"", "upload.url: ftp://host/path: "),
            ("url = \"s3://key:secret@bucket\"", "upload.url: keys and passwords go into"),
            ("url = \"s3://bucket\"\noptions = { regoin = \"eu\" }", "upload.options: regoin: "),
            ("url = \"file:///d\"\noptions = { region = \"eu\" }", "upload.options: region: "),
        ] {
            let error = checked(text).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("secret@"), "{text}: {error}");
        }
    }
}
