//! Neon's own tokens: JWTs signed with EdDSA (`libs/utils/src/auth.rs`, `docs/authentication.md`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use record::TenantId;
use serde::Deserialize;

use super::caller::{Bounds, Caller, Report, Tenants};

/// Keys of a few rotations; a folder with more holds something else.
const MOST_KEYS: usize = 64;

/// A public key in PEM has 113 bytes.
const MOST_KEY_BYTES: u64 = 64 << 10;

/// What a token of Neon's says.
#[derive(Debug, Deserialize)]
struct Claims {
    #[serde(default)]
    tenant_id: Option<String>,
    scope: String,
}

/// The public keys that tokens may be signed for.
pub(super) struct Keys {
    keys: Vec<DecodingKey>,
    validation: Validation,
    bounds: Bounds,
}

impl Keys {
    /// Reads a key, or all keys of a folder, in PEM. They are read once.
    ///
    /// # Errors
    ///
    /// One line: the file and what is wrong with it, or that there is none.
    pub(super) fn open(path: &Path, bounds: Bounds) -> Result<Self, String> {
        let at = path.display();
        let keys = files(path)?.iter().map(|file| key(file)).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(format!("{at}: there is no key in it: put public keys in PEM there"));
        }
        let mut validation = Validation::new(Algorithm::EdDSA);
        // Neon's tokens need no expiry; one that is there counts (`JwtAuth::new`).
        validation.required_spec_claims.clear();
        validation.validate_nbf = true;
        Ok(Self { keys, validation, bounds })
    }

    /// Who shows this token; none where no key has signed it, it has expired, or its scope is not for us.
    pub(super) fn find(&self, token: &str) -> Option<Caller> {
        let claims = |key| decode::<Claims>(token, key, &self.validation).ok();
        let claims = self.keys.iter().find_map(claims)?.claims;
        match (claims.scope.as_str(), claims.tenant_id) {
            ("admin", _) => Some(Caller::admin("jwt admin", self.bounds)),
            ("pageserverapi", _) => Some(self.caller("jwt pageserverapi".to_owned(), Tenants::All)),
            ("tenant", Some(tenant)) => {
                let tenant: TenantId = tenant.parse().ok()?;
                Some(self.caller(format!("jwt tenant {tenant}"), Tenants::These(BTreeSet::from([tenant]))))
            }
            _ => None,
        }
    }

    fn caller(&self, name: String, tenants: Tenants) -> Caller {
        let reports = Report::ALL.into_iter().collect();
        Caller { name, tenants, reports, is_admin: false, bounds: self.bounds }
    }
}

/// The file, or those of a folder; folders in it are passed over.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", path.display());
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.is_file() {
            files.push(file);
        }
        if files.len() > MOST_KEYS {
            return Err(format!("{}: this is no folder of keys: it has more than {MOST_KEYS} files", path.display()));
        }
    }
    Ok(files)
}

fn key(file: &Path) -> Result<DecodingKey, String> {
    let at = file.display();
    let length = fs::metadata(file).map_err(|error| format!("{at}: {error}"))?.len();
    if length > MOST_KEY_BYTES {
        return Err(format!("{at}: this is no key: it is longer than {MOST_KEY_BYTES} bytes"));
    }
    let pem = fs::read(file).map_err(|error| format!("{at}: {error}"))?;
    DecodingKey::from_ed_pem(&pem).map_err(|error| {
        format!("{at}: this is no Ed25519 public key in PEM ({error}): `openssl pkey -pubout` writes one")
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    use super::*;

    const BOUNDS: Bounds = Bounds { duration: Duration::from_secs(60), bytes: 1 << 20, running: 2 };

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let four = |three: &[u8]| {
            let number = (0..3).fold(0, |number, at| number << 8 | usize::from(*three.get(at).unwrap_or(&0)));
            let letter =
                |at: usize| if at <= three.len() { char::from(LETTERS[number >> (18 - 6 * at) & 63]) } else { '=' };
            (0..4).map(letter).collect::<String>()
        };
        bytes.chunks(3).map(four).collect()
    }

    fn pem(pair: &Ed25519KeyPair) -> String {
        let public = pair.public_key().as_der().unwrap();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", base64(public.as_ref()))
    }

    fn signed(pair: &Ed25519KeyPair, claims: &Value) -> String {
        let key = EncodingKey::from_ed_der(pair.to_pkcs8().unwrap().as_ref());
        encode(&Header::new(Algorithm::EdDSA), claims, &key).unwrap()
    }

    #[test]
    fn neons_scopes_say_who_it_is_where_a_known_key_has_signed() {
        let [old, new, other] = [(); 3].map(|()| Ed25519KeyPair::generate().unwrap());
        let folder = tempfile::tempdir().unwrap();
        for (name, pair) in [("old.pem", &old), ("new.pem", &new)] {
            fs::write(folder.path().join(name), pem(pair)).unwrap();
        }
        fs::create_dir(folder.path().join("passed-over")).unwrap();
        let keys = Keys::open(folder.path(), BOUNDS).unwrap();
        let (tenant, another) = ("a".repeat(32), "b".repeat(32));
        let of_one = json!({"scope": "tenant", "tenant_id": tenant, "iss": "neon.controlplane", "iat": 1});
        for pair in [&old, &new] {
            let caller = keys.find(&signed(pair, &of_one)).unwrap();
            assert_eq!(caller.name, format!("jwt tenant {tenant}"));
            assert!(!caller.is_admin && caller.may_see(tenant.parse().unwrap()));
            assert!(!caller.may_see(another.parse().unwrap()));
        }
        let caller = |claims: Value| keys.find(&signed(&new, &claims));
        let all = caller(json!({"scope": "pageserverapi"})).unwrap();
        assert!(all.tenants == Tenants::All && !all.is_admin);
        assert!(caller(json!({"scope": "admin"})).unwrap().is_admin);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(caller(json!({"scope": "admin", "exp": now + 600})).is_some());
        for refused in [
            json!({"scope": "admin", "exp": now - 600}),
            json!({"scope": "admin", "nbf": now + 600}),
            json!({"scope": "tenant"}),
            json!({"scope": "tenant", "tenant_id": "x"}),
            json!({"scope": "safekeeperdata"}),
            json!({"tenant_id": tenant}),
            json!({}),
        ] {
            assert!(caller(refused.clone()).is_none(), "{refused}");
        }
        assert!(keys.find(&signed(&other, &of_one)).is_none(), "signed by a key that is not known");
        let whole = signed(&new, &json!({"scope": "pageserverapi"}));
        let [header, _, signature] = whole.split('.').collect::<Vec<_>>()[..] else { panic!("{whole}") };
        let claims = base64(br#"{"scope":"admin"}"#).replace('=', "");
        assert!(keys.find(&format!("{header}.{claims}.{signature}")).is_none(), "changed after it was signed");
        let none = base64(br#"{"alg":"none","typ":"JWT"}"#).replace('=', "");
        assert!(keys.find(&format!("{none}.{claims}.")).is_none(), "not signed");
        // With the public key, which everybody has, as the secret of another algorithm.
        let secret = EncodingKey::from_secret(pem(&new).as_bytes()).unwrap();
        let confused = encode(&Header::new(Algorithm::HS256), &json!({"scope": "admin"}), &secret).unwrap();
        assert!(keys.find(&confused).is_none());
    }

    #[test]
    fn what_is_no_key_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| Keys::open(path, BOUNDS).err().unwrap();
        assert!(refusal(folder.path()).contains("there is no key in it"));
        assert!(refusal(&folder.path().join("none")).contains("No such file"));
        let file = folder.path().join("key.pem");
        fs::write(&file, "no key").unwrap();
        assert!(refusal(&file).contains("key.pem: this is no Ed25519 public key in PEM"));
    }
}
