//! A browser that is told what to do through the W3C WebDriver protocol, by Debian's chromedriver.
//!
//! The protocol is HTTP with JSON bodies on a local port. The few requests of these tests need no client of a crate's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Scrolling is told to the page with the next frame, and takes away what is told under the pointer: a test that did not
/// wait for it would at times find nothing.
const SETTLED: &str = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";

/// One browser, which ends with the test.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// `None`, with the reason printed, where there is no chromedriver; a failure where `PAGESNIFF_REQUIRE_BROWSER=1`.
    pub(crate) fn start() -> Option<Self> {
        let spawned = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut driver = match spawned {
            Ok(driver) => driver,
            Err(error) => {
                let is_required = std::env::var("PAGESNIFF_REQUIRE_BROWSER").as_deref() == Ok("1");
                assert!(!is_required, "chromedriver cannot be started: {error}; install chromium and chromium-driver");
                println!("SKIPPED: chromedriver cannot be started: {error}");
                return None;
            }
        };
        let said = BufReader::new(driver.stdout.take().unwrap());
        let port = said.lines().map_while(Result::ok).find_map(|line| {
            let port = line.split_once("started successfully on port ")?.1;
            port.trim_end_matches('.').parse().ok()
        });
        let profile = TempDir::new().unwrap();
        let mut browser = Self {
            driver,
            port: port.expect("chromedriver names its port"),
            session: String::new(),
            _profile: profile,
        };
        let options = browser.options();
        let started = browser.http("POST", "/session", &json!({ "capabilities": { "alwaysMatch": options } }));
        browser.session = started["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    fn options(&self) -> Value {
        let profile = format!("--user-data-dir={}", self._profile.path().display());
        json!({
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": { "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--window-size=1280,900", profile,
            ] },
        })
    }

    /// Opens a file, and ends when it is loaded.
    pub(crate) fn open(&self, path: &Path) {
        self.open_url(&format!("file://{}", path.display()));
    }

    /// The same with what an address leads to.
    pub(crate) fn open_url(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    /// What a function's body returns in the page.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Moves the pointer to the middle of what a selector finds first, after it has been scrolled to.
    pub(crate) fn hover(&self, selector: &str) {
        let place = self.run(&format!(
            "const found = document.querySelector({selector:?}); found.scrollIntoView({{ block: 'center' }});
             const box = found.getBoundingClientRect();
             {SETTLED}.then(() => [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)]);"
        ));
        let to = |x: &Value, y: &Value| json!({ "type": "pointerMove", "duration": 0, "x": x, "y": y });
        let actions = json!([{ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" },
                               "actions": [to(&json!(1), &json!(1)), to(&place[0], &place[1])] }]);
        self.command("actions", &json!({ "actions": actions }));
    }

    /// Gives what a selector finds first the focus.
    pub(crate) fn focus(&self, selector: &str) {
        self.run(&format!("document.querySelector({selector:?}).focus(); {SETTLED};"));
    }

    /// Presses and releases keys, one after the other.
    pub(crate) fn press(&self, keys: &[char]) {
        let of = |kind: &'static str| move |key: &char| json!({ "type": kind, "value": key });
        let actions: Vec<Value> = keys.iter().flat_map(|key| [of("keyDown")(key), of("keyUp")(key)]).collect();
        self.command("actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
    }

    /// What a function's body returns in the document of the frame that a selector finds first.
    pub(crate) fn run_in_frame(&self, selector: &str, script: &str) -> Value {
        let frame = self.command("element", &json!({ "using": "css selector", "value": selector }));
        self.command("frame", &json!({ "id": frame }));
        let returned = self.run(script);
        self.command("frame", &json!({ "id": null }));
        returned
    }

    /// Presses and releases one key while another is held.
    pub(crate) fn press_with(&self, held: char, key: char) {
        let of = |kind: &str, key: char| json!({ "type": kind, "value": key });
        let keys = [of("keyDown", held), of("keyDown", key), of("keyUp", key), of("keyUp", held)];
        self.command("actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": keys }] }));
    }

    /// Makes the window of the page so large, in its own pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": params });
        self.command("goog/cdp/execute", &command);
    }

    /// The whole page as a picture: a PNG in base64.
    pub(crate) fn picture(&self) -> String {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let command = json!({ "cmd": "Page.captureScreenshot", "params": params });
        self.command("goog/cdp/execute", &command)["data"].as_str().unwrap().to_owned()
    }

    /// Makes the page take the medium or the colours that it is told.
    pub(crate) fn emulate(&self, medium: &str, colours: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": colours }]);
        let params = json!({ "media": medium, "features": features });
        self.command("goog/cdp/execute", &json!({ "cmd": "Emulation.setEmulatedMedia", "params": params }));
    }

    /// What has been written to the console since it was asked last, by the page and of it.
    pub(crate) fn console(&self) -> Vec<String> {
        self.log("browser").iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// What a page has requested since it was asked last, itself among it, whether it came or not.
    pub(crate) fn requests_of(&self, page: &str) -> Vec<String> {
        self.requests_where(|document| document == page)
    }

    /// The same of every document that `is_wanted` by its address.
    pub(crate) fn requests_where(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let messages = self.log("performance").into_iter();
        let messages = messages.map(|entry| serde_json::from_str(entry["message"].as_str().unwrap()).unwrap());
        let sent = messages.filter(|message: &Value| message["message"]["method"] == "Network.requestWillBeSent");
        // The browser's own first page may still be loading, with requests of its own.
        let sent = sent
            .map(|sent| sent["message"]["params"].clone())
            .filter(|sent| sent["documentURL"].as_str().is_some_and(&is_wanted));
        sent.map(|sent| sent["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        self.command("se/log", &json!({ "type": kind })).as_array().unwrap().clone()
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        self.http("POST", &format!("/session/{}/{name}", self.session), body)
    }

    /// One request and the value of its answer.
    fn http(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let (mut answer, mut length) = (BufReader::new(stream), 0);
        let mut line = String::new();
        while answer.read_line(&mut line).unwrap() > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut content = vec![0; length];
        answer.read_exact(&mut content).unwrap();
        let value = serde_json::from_slice::<Value>(&content).unwrap()["value"].take();
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; a driver that is killed before would leave it.
        if !self.session.is_empty() && !std::thread::panicking() {
            self.http("DELETE", &format!("/session/{}", self.session), &json!({}));
        } else if !self.session.is_empty() {
            let request = format!("DELETE /session/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", self.session);
            let stream = TcpStream::connect(("127.0.0.1", self.port));
            let _ = stream.and_then(|mut stream| {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.write_all(request.as_bytes())?;
                stream.read(&mut [0])
            });
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
